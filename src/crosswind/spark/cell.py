"""One cell at work: what came, what waits in the state, what they make together."""

from __future__ import annotations

import time as clock
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crosswind.engine.join import Join
from crosswind.engine.many import ManyJoin
from crosswind.engine.session import open_plan
from crosswind.errors import InputError, SnapshotError
from crosswind.io.arrow import ticks_of
from crosswind.io.blocks import concat_batches, pieces, rows_within
from crosswind.plan.axis import INT64_MAX, INT64_MIN
from crosswind.spark.cache import CachedJoin, JoinCache
from crosswind.spark.dropped import LATE, Dropped
from crosswind.spark.route import needed_columns
from crosswind.spark.spec import JoinSpec, by_query
from crosswind.spark.state import BlockEntry, CellState, Manifest, Store, compaction, no_order
from crosswind.window.vector import take_rows

__all__ = ["Adopted", "Cell", "CellInput", "Found", "Report"]

Found = tuple[str, pa.Table]
"""Results, and the name of their query (with one query: nothing)."""

_PUSH, _PUSH_BYTES = 8192, 64 << 20
"""Tuples that are pushed at a time, and their bytes."""
_LESSON = 256
"""Tuples that are pushed first into refilled windows: they teach the index what is looked for."""


@dataclass(frozen=True)
class CellInput:
    """A block of tuples of ``unit``; ``primary``: they are counted here (copies are not)."""

    unit: int
    primary: bool
    batch: pa.RecordBatch


@dataclass(frozen=True)
class Adopted:
    """Tuples of ``unit`` that waited in a cell of another join; ``matched``: which have found a partner."""

    unit: int
    batch: pa.RecordBatch
    matched: npt.NDArray[np.bool_]


@dataclass
class Report:
    """What a cell did in a micro-batch, and what it holds after it; changes are those since the one before."""

    tuples: int = 0
    late: int = 0
    results: int = 0
    window_tuples: int = 0
    state_bytes: int = 0
    blocks_read: int = 0
    cache_hits: int = 0
    cache_misses: int = 0
    cache_bytes: int = 0
    join_ms: float = 0.0
    state_ms: float = 0.0
    window_change: int = 0
    state_change: int = 0


@dataclass
class _Taken:
    """What is left of the arrivals of a unit when late tuples are gone."""

    batches: list[pa.RecordBatch] = field(default_factory=list)
    times: list[npt.NDArray[np.int64]] = field(default_factory=list)


class Cell:
    """The join of one cell, over a store that holds its state.

    Parameters
    ----------
    spec : JoinSpec
        The join.
    store : Store
        The state of this cell.
    cache : JoinCache
        Joins that this process kept.
    number : int
        Which cell it is, for errors.
    hears_all : bool
        Whether it hears of every micro-batch with tuples of this join. Then it has state as soon as there is a
        watermark, and if it finds none, that was lost.
    """

    def __init__(
        self, spec: JoinSpec, store: Store, cache: JoinCache, number: int = 0, *, hears_all: bool = False
    ) -> None:
        self._spec, self._store, self._cache = spec, store, cache
        self._hears_all, self._is_first = hears_all, number == 0
        self._state = CellState(store, number)
        self._ages: tuple[int | None, ...] = ()
        self.is_idle = False
        """Whether there was nothing to do."""
        self.set_aside = 0
        """Tuples that were left out because arithmetic overflows (see :class:`crosswind.OverflowWarning`)."""
        self.dropped: list[Dropped] = []
        """Tuples that came too late, if the join gives them out."""
        self.timer: int | None = None
        """The watermark, in milliseconds, at which to call again even if nothing comes (None: as asked before)."""

    def process(self, arrivals: Sequence[CellInput], milliseconds: int, report: Report) -> Iterator[Found]:
        """Join ``arrivals`` under the watermark of the join, and bring the state up to date.

        Yields results with the name of their query (with many queries). The state changes only
        when all results have been taken.
        """
        spec = self._spec
        watermark = spec.watermark(milliseconds)
        began = clock.perf_counter()
        manifest = self._manifest(watermark)
        before = (manifest.window_tuples, manifest.nbytes)
        if not arrivals and manifest.watermark == watermark:  # nothing for it, or a timer: it has just been here
            self.is_idle = True
            self._tell(report, manifest, before)
            return
        cached = self._open(manifest, report)
        report.state_ms += _since(began)
        taken = self._judge(arrivals, self._front(manifest, watermark), report)
        began = clock.perf_counter()
        self._ages = cached.join.ages
        known = sum(cached.join.stats.rejected.values())
        for name, table in self._join(cached.join, taken, watermark, teach=report.blocks_read > 0):
            report.results += table.num_rows
            report.join_ms += _since(began)
            yield name, table
            began = clock.perf_counter()
        report.join_ms += _since(began)
        began = clock.perf_counter()
        stats = cached.join.stats
        self.set_aside = sum(stats.rejected.values()) - known
        manifest.window_tuples = sum(stats.window_tuples.values()) + stats.held
        self._write(manifest, cached, taken, milliseconds)
        if self._is_first and report.cache_misses:
            self._state.keep_definition(spec.definition)
        report.state_ms += _since(began)
        cached.nbytes = stats.bytes_held
        self._cache.put(manifest.origin, cached, spec.cache_bytes)
        self._tell(report, manifest, before)

    def adopt(self, adopted: Sequence[Adopted], watermark: int | None, milliseconds: int) -> None:
        """Begin the state with tuples that waited in cells of another join.

        All that ``watermark``, in ticks, brings out has come out (None: nothing has). The cell asks to be called as
        soon as the watermark of the join is later than ``milliseconds``.
        """
        spec, join = self._spec, self._new_join()
        units = len(spec.units)
        origin = uuid.uuid4().hex
        manifest = Manifest(spec.identity(), self._about(), origin, serials=[0] * units, order=no_order(units))
        manifest.next_version(uuid.uuid4().hex[:12])
        manifest.watermark = watermark
        for part in adopted:
            stream = spec.plan.units[part.unit].stream
            times, _ = ticks_of(part.batch.column(stream.time), spec.plan.axis.factors[part.unit], stream.alias)
            self._add(manifest, part.unit, (1, 1), part.batch, times, 0)
            manifest.serials[part.unit] = part.batch.num_rows
        manifest.window_tuples = sum(entry.tuples for entry in manifest.blocks)
        if join.preserved:
            flags = [part.matched for part in adopted if part.unit in join.preserved]
            self._state.replace_flags(manifest, np.concatenate(flags) if flags else np.empty(0, dtype=np.bool_))
        self.timer = manifest.timer = milliseconds + 1
        self._store.write_manifest(manifest.to_bytes())
        if self._is_first:
            self._state.keep_definition(spec.definition)
        join.close()

    def _tell(self, report: Report, manifest: Manifest, before: tuple[int, int]) -> None:
        """Report what the cell holds; ``before`` are the tuples and bytes that it held."""
        report.window_tuples, report.state_bytes = manifest.window_tuples, manifest.nbytes
        report.window_change, report.state_change = manifest.window_tuples - before[0], manifest.nbytes - before[1]
        report.cache_bytes = self._cache.bytes_of(manifest.origin)

    # -- before --------------------------------------------------------------

    def _manifest(self, watermark: int) -> Manifest:
        spec = self._spec
        manifest = self._state.manifest()
        about = self._about()
        if manifest is None and self._hears_all and watermark > INT64_MIN:
            raise SnapshotError(
                "the checkpoint has a watermark, but the first cell of this join finds no state in it. "
                "It was written by another version of Crosswind, or its state is damaged, so the micro-batch was not "
                "taken. Restart with that version, restore the folder of the checkpoint from a copy, or start with a "
                "new checkpointLocation."
            )
        if manifest is None:
            units = len(spec.units)
            return Manifest(spec.identity(), about, uuid.uuid4().hex, serials=[0] * units, order=no_order(units))
        if manifest.identity != spec.identity():
            raise SnapshotError(
                "the checkpoint belongs to another join: its query, its schemas, its layout or its event time differ.\n"
                f"  checkpoint: {manifest.about}\n"
                f"  this join:  {about}\n"
                "Restart with the query, layout=, cells= and event_time= it was made with, make this checkpoint one of "
                "this join with crosswind.spark.rescale, or take a new checkpointLocation."
            )
        return manifest

    def _about(self) -> str:
        spec = self._spec
        return f"{spec.layout.kind} layout, {spec.layout.cells} cells, {spec.clock}; {spec.sql}"

    def _open(self, manifest: Manifest, report: Report) -> CachedJoin:
        """Return a join whose windows hold what the state holds."""
        cached = self._cache.take(manifest.origin)
        known = cached is not None and cached.name in manifest.history
        if cached is not None and known and cached.name == manifest.history[-1]:
            report.cache_hits += 1
            return cached
        missing = self._missing(manifest, cached) if cached is not None and known else None
        if cached is None or missing is None:
            missing = [(entry, 0) for entry in manifest.blocks]
            cached = CachedJoin(self._new_join(), 0, "", 0)
            report.cache_misses += 1
        else:
            report.cache_hits += 1
        for entry, start in missing:
            batch = self._state.block(entry)
            try:
                cached.join.refill(self._spec.units[entry.unit], batch.slice(start), entry.serial + start)
            except InputError as error:
                raise self._state.refused(f"block '{entry.name}'", error) from None
            report.blocks_read += 1
        self._resume(manifest, cached.join)
        self._read_flags(manifest, cached.join)
        if manifest.watermark is not None:  # what comes out now came out before
            cached.join.advance_to(manifest.watermark)
        return cached

    def _resume(self, manifest: Manifest, join: Join | ManyJoin) -> None:
        """Tell the join what numbers its tuples have."""
        if join.is_counted:
            watermark = INT64_MIN if manifest.watermark is None else manifest.watermark
            try:
                join.resume(watermark, manifest.order, manifest.serials)
            except ValueError as error:
                raise self._state.damage("the order of tuples", str(error)) from None
        else:
            for unit in join.preserved:
                join.number_from(unit, manifest.serials[unit])

    def _read_flags(self, manifest: Manifest, join: Join | ManyJoin) -> None:
        """Tell the join which of its tuples have matched."""
        spans = _flagged(manifest, join)
        total = sum(count for _, _, count in spans)
        flags = self._state.flags(manifest, total) if total else np.empty(0, dtype=np.bool_)
        for unit, first, count in spans:
            join.set_matched(unit, first, flags[:count])
            flags = flags[count:]

    @staticmethod
    def _missing(manifest: Manifest, cached: CachedJoin) -> list[tuple[BlockEntry, int]] | None:
        """Return the blocks with tuples that came after the cached version, and where these begin; None: unknown."""
        missing = []
        for entry in manifest.blocks:
            if entry.last > cached.version:
                start = entry.before(cached.version)
                if start is None:
                    return None
                missing.append((entry, start))
        return missing

    def _new_join(self) -> Join | ManyJoin:
        spec = self._spec
        return open_plan(spec.plan, dict.fromkeys(spec.units, INT64_MAX), index=spec.index)

    def _front(self, manifest: Manifest, watermark: int) -> int:
        """Return the least time that is not late.

        What an operator before the join gives out may be older than the watermark, but not than the one before.
        """
        if not self._spec.by_previous:
            return watermark
        return INT64_MIN if manifest.watermark is None else manifest.watermark + 1

    def _judge(self, arrivals: Sequence[CellInput], front: int, report: Report) -> list[_Taken]:
        """Drop and count what is late: Spark's watermark stands where it stood before the micro-batch."""
        taken = [_Taken() for _ in self._spec.plan.units]
        whole = self._spec.late is not None
        for arrival in arrivals:
            stream = self._spec.plan.units[arrival.unit].stream
            factor = self._spec.plan.axis.factors[arrival.unit]
            times, _ = ticks_of(arrival.batch.column(stream.time), factor, stream.alias)
            batch, is_late = arrival.batch, times < front
            if whole and arrival.primary and is_late.any():
                self.dropped.append(Dropped(arrival.unit, LATE, take_rows(batch, np.flatnonzero(is_late))))
            if whole:  # the state has what the join needs
                batch = batch.select(needed_columns(self._spec.plan, arrival.unit))
            if is_late.any():
                rows = np.flatnonzero(~is_late)
                batch, times = take_rows(batch, rows), times[rows]
            if arrival.primary:
                report.tuples += len(times)
                report.late += int(is_late.sum())
            if len(times):
                taken[arrival.unit].batches.append(batch)
                taken[arrival.unit].times.append(times)
        return taken

    # -- joining -------------------------------------------------------------

    def _join(self, join: Join | ManyJoin, taken: list[_Taken], watermark: int, *, teach: bool) -> Iterator[Found]:
        """Push everything in time order, a bounded portion at a time."""
        whole = []
        for unit, part in enumerate(taken):
            if not part.batches:
                continue
            batch, times = concat_batches(part.batches), np.concatenate(part.times)
            if (times[1:] < times[:-1]).any():
                order = np.argsort(times, kind="stable")
                batch, times = take_rows(batch, order), times[order]
            part.batches, part.times = [batch], [times]
            whole.append((self._spec.units[unit], batch, times))
        at = [0] * len(whole)
        most = min([_PUSH, *(rows_within(batch, _PUSH_BYTES) for _, batch, _ in whole)])
        size = min(_LESSON, most) if teach else most
        while any(at[k] < len(times) for k, (_, _, times) in enumerate(whole)):
            ends = [
                times[min(at[k] + size, len(times)) - 1] for k, (_, _, times) in enumerate(whole) if at[k] < len(times)
            ]
            for k, (name, batch, times) in enumerate(whole):
                stop = int(np.searchsorted(times, min(ends), side="right"))
                if stop > at[k]:
                    yield from by_query(join.push(name, batch.slice(at[k], stop - at[k])))
                    at[k] = stop
            if teach:
                join.arrange()
                size, teach = most, False
        if watermark > INT64_MIN:
            yield from by_query(join.advance_to(watermark))

    # -- after ---------------------------------------------------------------

    def _write(self, manifest: Manifest, cached: CachedJoin, taken: list[_Taken], milliseconds: int) -> None:
        name, watermark = uuid.uuid4().hex[:12], self._spec.watermark(milliseconds)
        manifest.next_version(name)
        manifest.watermark = None if watermark == INT64_MIN else watermark
        join = cached.join
        if join.is_counted:
            manifest.order = join.order(manifest.oldest_serials)
            floors = manifest.order.floors
        else:
            ends = [None if age is None else watermark - age for age in self._ages]
            floors = tuple(None if end is None else max(INT64_MIN, end) for end in ends)
        self._write_blocks(manifest, taken, floors, range(len(taken)) if join.is_counted else join.preserved)
        due = None if join.is_counted else self._expiry(manifest)
        if join.preserved:
            flags = [join.matched(unit, first, count) for unit, first, count in _flagged(manifest, join)]
            self._state.replace_flags(manifest, np.concatenate(flags) if flags else np.empty(0, dtype=np.bool_))
        if (join.is_counted or join.preserved) and join.is_waiting:  # the next watermark may bring something out
            due = milliseconds + 1
        if self._spec.by_previous:  # every cell must know the watermark of every micro-batch
            due = milliseconds + 1
        if due is not None and (manifest.timer is None or not milliseconds < manifest.timer <= due):
            self.timer = manifest.timer = due
        self._store.write_manifest(manifest.to_bytes())
        cached.version, cached.name = manifest.version, name

    def _write_blocks(
        self, manifest: Manifest, taken: list[_Taken], floors: Sequence[int | None], numbered: Sequence[int]
    ) -> None:
        """Write what came, remove blocks older than ``floors`` (None: there is no limit), put small ones together.

        Tuples of ``numbered`` units are known by their numbers, so their blocks have no gaps.
        """
        version = manifest.version
        for unit, part in enumerate(taken):
            if part.batches:
                serial = manifest.serials[unit]
                self._add(manifest, unit, (version, version), part.batches[0], part.times[0], serial)
                manifest.serials[unit] = serial + len(part.times[0])
        kept = []
        for entry in manifest.blocks:
            floor = floors[entry.unit]
            if floor is not None and entry.time_max < floor:
                self._store.remove(entry.name)
            else:
                kept.append(entry)
        manifest.blocks = kept
        for unit in range(len(taken)):
            self._compact(manifest, unit, unbroken=unit in numbered)

    def _add(
        self,
        manifest: Manifest,
        unit: int,
        versions: tuple[int, int],
        batch: pa.RecordBatch,
        times: npt.NDArray[np.int64],
        serial: int,
        marks: tuple[tuple[int, int], ...] = (),
    ) -> None:
        first, last = versions
        at = 0
        for part in [batch] if marks else pieces(batch):  # marks count the tuples of one block
            name = f"{unit}-{first}-{last}" + (f"-{at}" if at else "")
            mine = times[at : at + part.num_rows]
            size, checksum = self._state.add_block(name, part)
            entry = BlockEntry(name, unit, first, last, len(mine), size, int(mine.min()), int(mine.max()))
            manifest.blocks.append(replace(entry, marks=marks, checksum=checksum, serial=serial + at))
            at += part.num_rows

    def _compact(self, manifest: Manifest, unit: int, *, unbroken: bool) -> None:
        """Put small blocks together, so that a restart reads few; ``unbroken``: only if none is missing in between."""
        small = compaction(manifest.blocks, unit)
        breaks = [k for k, (a, b) in enumerate(pairwise(small), 1) if a.serial + a.tuples != b.serial]
        small = small[breaks[-1] :] if unbroken and breaks else small
        if len(small) < 2:
            return
        stream = self._spec.plan.units[unit].stream
        batch = concat_batches([self._state.block(entry) for entry in small])
        times, _ = ticks_of(batch.column(stream.time), self._spec.plan.axis.factors[unit], stream.alias)
        for entry in small:
            self._store.remove(entry.name)
        manifest.blocks = [entry for entry in manifest.blocks if entry not in small]
        self._add(
            manifest, unit, (small[0].first, small[-1].last), batch, times, small[0].serial, manifest.marks_of(small)
        )

    def _expiry(self, manifest: Manifest) -> int | None:
        """Return the watermark, in milliseconds, at which the first block is no longer needed."""
        times = []
        for entry in manifest.blocks:
            limit = self._ages[entry.unit]
            if limit is not None:
                times.append(entry.time_max + limit + 1)
        return self._spec.milliseconds(min(times)) if times else None


def _flagged(manifest: Manifest, join: Join | ManyJoin) -> list[tuple[int, int, int]]:
    """Return the tuples of which is kept whether they have matched: unit, number of the first, how many."""
    if join.is_counted:
        both = list(zip(manifest.order.firsts, manifest.order.counts, strict=True))
        return [(unit, both[unit][0], both[unit][1] - both[unit][0]) for unit in join.preserved]
    return [(entry.unit, entry.serial, entry.tuples) for entry in manifest.blocks if entry.unit in join.preserved]


def _since(began: float) -> float:
    return (clock.perf_counter() - began) * 1e3
