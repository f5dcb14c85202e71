"""What all live joins have in common: streams in, windows, watermarks, results."""

from __future__ import annotations

import sys
import time as clock
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Generic, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crosswind.engine.choice import Choice
from crosswind.engine.ingest.admission import Admission
from crosswind.engine.ingest.intake import Intake
from crosswind.engine.inorder import InOrder, Results
from crosswind.engine.output.ordered import OrderedOutput
from crosswind.engine.output.outer import Outer
from crosswind.engine.output.outlet import Found
from crosswind.engine.output.rows import Absent, Materialiser, Place, Taken, pair_of, tables
from crosswind.engine.probe.bounds import Wait, spans_of
from crosswind.engine.show import stats_html
from crosswind.engine.snapshots import Snapshots
from crosswind.engine.stats import Latencies, Stats
from crosswind.engine.strategy import Combinations, DeferredMatches, PairFaultError, Strategy, Window
from crosswind.errors import (
    ArithmeticOverflowError,
    ClosedJoinError,
    InputError,
    LateTupleWarning,
    NullTimeWarning,
    did_you_mean,
    warn_caller,
)
from crosswind.io.arrow import as_declared, as_table, pick, read_columns, ticks_of, ticks_of_value
from crosswind.plan.axis import INT64_MAX, INT64_MIN
from crosswind.plan.compile import Plan
from crosswind.window.arrival import END, Release, Sorter, Watermark
from crosswind.window.block import Block
from crosswind.window.vector import take_rows

__all__ = ["LiveJoin"]

_GATHERED = 1 << 15
"""Matches that are met late and kept until rows are made of them, or a few more."""

_FEW = 16
"""Tuples of a push that are live ones, where microseconds count."""


class LiveJoin(Snapshots, InOrder, Generic[Found]):
    """What all live joins have in common: streams, windows, watermarks, counters."""

    def __init__(
        self,
        plan: Plan,
        lateness: Mapping[str, int],
        *,
        index: str,
        ordered: bool,
        keep_late: bool,
        basic_window: int,
        choice: Choice | None = None,
        admission: Admission | None = None,
    ) -> None:
        super().__init__()
        self._options = (index, basic_window)
        self._choice = choice or Choice("kang", 1, False, "one worker")
        self._admission = admission or Admission("block", 1)
        self._counted, self._is_ordered = False, ordered
        self._since: dict[str, int] = {}
        self._adopt(plan)
        streams = self._schemas
        self._sorter = Sorter([unit.stream.name for unit in plan.units])
        self._watermarks = {name: Watermark(lateness[name]) for name in streams}
        outputs = [OrderedOutput(materialiser.schema) for materialiser in self._materialisers]
        self._ordered = outputs if ordered else None
        self._arrived: list[tuple[int, Block]] = []
        self._tuples_in = dict.fromkeys(streams, 0)
        self._late = dict.fromkeys(streams, 0)
        self._rejected = dict.fromkeys(streams, 0)
        self._shed = dict.fromkeys(streams, 0)
        self._keep_late = keep_late
        self._late_tables: dict[str, list[pa.Table]] = {name: [] for name in streams}
        self._warned: set[tuple[str, str]] = set()
        self._results = 0
        self._owed: list[pa.Table] = []
        self._latencies = Latencies()
        self._listeners: list[Callable[[str, pa.Table], None]] = []
        self._closed: str | None = None

    def _adopt(self, plan: Plan) -> None:
        """Make what follows from the plan alone: how tuples are taken in, empty windows, how results are made."""
        self._plan = plan
        self._schemas = {unit.stream.name: unit.stream.schema for unit in plan.units}
        self._times = {unit.stream.name: unit.stream.time for unit in plan.units}
        self._factors = {unit.stream.name: plan.axis.factors[k] for k, unit in enumerate(plan.units)}
        self._intakes = [Intake(plan, unit) for unit in range(len(plan.units))]
        self._units = {name: plan.units_of(name) for name in self._schemas}
        self._names = {
            name: tuple(dict.fromkeys([self._times[name], *(n for u in units for n in self._intakes[u].columns)]))
            for name, units in self._units.items()
        }
        self._places = {
            name: [self._schemas[name].get_field_index(column) for column in names]
            for name, names in self._names.items()
        }
        self._spans = tuple(spans_of(q, plan.axis, self._since.get(q.name, INT64_MIN)) for q in plan.queries)
        self._waits = [Wait.of(unit, plan, self._spans) for unit in range(len(plan.units))]
        self._counted |= any(spans.counts for spans in self._spans)
        index, basic_window = self._options
        self._strategy: Strategy = self._choice.build(
            plan, self._intakes, self._spans, index, basic_window, self._counted
        )
        self._outer = Outer.of(plan, self._intakes)
        self._make_makers()
        # Texts may be moved when tuples are inserted: rows of those are made before that, all others once a call.
        moving = [k for k, made in enumerate(self._materialisers) if not made.is_plain]
        at_once = self._admission.sheds or self._outer is not None
        self._every = range(len(plan.queries))
        self._hasty = self._every if at_once else moving
        self._nothing = [pa.Table.from_batches([], schema=made.schema) for made in self._materialisers]

    def _make_makers(self) -> None:
        """Make what makes rows: nothing of it has to be kept."""
        plan = self._plan
        self._materialisers = [Materialiser(plan, self._intakes, k) for k in range(len(plan.queries))]

    @property
    def _windows(self) -> Sequence[Window]:
        return self._strategy.windows

    # -- the public face -----------------------------------------------------

    @property
    def streams(self) -> tuple[str, ...]:
        """The names of the streams, in FROM order."""
        return tuple(self._schemas)

    def time_column(self, stream: str) -> str:
        """Return the name of the time column of ``stream``."""
        return self._times[stream]

    def tick_factor(self, stream: str) -> int:
        """Return the ticks of the common time axis in one unit of the time column of ``stream``."""
        return self._factors[stream]

    def _push(self, stream: str, batch: Any) -> Found:
        """Take tuples of ``stream``; return the results they complete, by query."""
        began = clock.perf_counter()
        self._check_usable(stream)
        arrays = read_columns(batch, self._schemas[stream], self._names[stream], stream, self._places[stream])
        ticks, missing = ticks_of(arrays[self._times[stream]], self._factors[stream], stream)
        return self._call(self._push_columns, stream, batch, arrays, ticks, missing, began)

    def _push_columns(
        self,
        stream: str,
        batch: Any,
        arrays: dict[str, pa.Array],
        ticks: npt.NDArray[np.int64],
        missing: npt.NDArray[np.bool_] | None,
        began: float,
    ) -> Found:
        late = None
        least, greatest = _ends_of(ticks)
        if missing is not None or (len(ticks) and least < self._watermarks[stream].value):
            late = self._watermarks[stream].is_late(ticks)
            late = late if missing is None else late & ~missing
            rows = np.flatnonzero(~late if missing is None else ~(late | missing))
            arrays = {name: take_rows(array, rows) for name, array in arrays.items()}
            ticks = ticks[rows]
            least, greatest = _ends_of(ticks)
        units = self._units[stream]
        portions = self._portions(units, arrays, ticks, (least, greatest))
        results = self._take(stream, units, portions, greatest if len(ticks) else None)
        admitted = self._admission.close() if self._admission.sheds else len(ticks)
        self._tuples_in = _more(self._tuples_in, stream, admitted)
        if self._admission.sheds:
            self._shed = _more(self._shed, stream, len(ticks) - admitted)
        if late is not None:
            self._note_dropped(stream, batch, late, missing)
        return self._hand_out(results, began)

    def _advance_to(self, ticks: int) -> Found:
        """Move all watermarks to ``ticks`` of the common time axis; return the results this completes, by query."""
        self._check_open()
        return self._call(self._move, dict.fromkeys(self._watermarks, ticks), clock.perf_counter())

    def _advance(self, stream: str, watermark: Any) -> Found:
        """Move the watermark of ``stream``; return the results this completes, by query."""
        began = clock.perf_counter()
        self._check_usable(stream)
        return self._call(self._move, {stream: self._to_ticks(stream, watermark)}, began)

    @property
    def is_counted(self) -> bool:
        """Whether tuples are held and numbered in the order: there are ROWS windows."""
        return self._counted

    @property
    def is_waiting(self) -> bool:
        """Whether any tuple is held: for partners, for the order, or only because it will match nothing."""
        alone = self._outer is not None and len(self._outer) > 0
        return alone or len(self._sorter) > 0 or any(len(window) for window in self._windows)

    @property
    def ages(self) -> tuple[int | None, ...]:
        """For each unit, how many ticks its tuples wait at most (None: no limit by time)."""
        return tuple(wait.age for wait in self._waits)

    def arrange(self) -> None:
        """Arrange windows that were refilled before anything had been looked for in them.

        Live joins do this bit by bit. Who pushes much at once should push a little first, so
        that it is known what to arrange for.
        """
        self._call(self._arrange)

    def _arrange(self) -> None:
        for window in self._strategy.windows:
            window.arrange()

    def _finish(self) -> Found:
        """End all streams; return the last results, by query."""
        began = clock.perf_counter()
        self._check_open()
        return self._call(self._end, began)

    def _end(self, began: float) -> Found:
        results = self._moved(dict.fromkeys(self._watermarks, END)) + self._met_late(self._strategy.drain())
        self._closed = "finished"
        self._strategy.end()
        return self._hand_out(results, began)

    def record_batch(self, stream: str, batch: Any) -> pa.RecordBatch:
        """Return anything Arrow-shaped as :meth:`push` would take it; what it would refuse is refused here."""
        self._check_stream(stream)
        schema = self._schemas[stream]
        if isinstance(batch, pa.RecordBatch) and batch.schema.equals(schema):
            return batch
        table = as_table(batch, schema, stream)
        names = [name for name in schema.names if name in table.schema.names or name in self._names[stream]]
        columns = pick(table, schema, names, stream)
        return pa.RecordBatch.from_arrays(list(columns.values()), names=names)

    def check_watermark(self, stream: str, watermark: Any) -> None:
        """Raise InputError unless :meth:`advance` would take ``watermark``."""
        self._check_stream(stream)
        self._to_ticks(stream, watermark)

    def close(self) -> None:
        """Release everything; results that were not asked for are gone. Harmless if repeated."""
        if self._caller:
            self._refuse_in_call(sys._getframe())
        if self._closed is None:
            self._closed = "closed"
        self._strategy.close()

    def late(self, stream: str) -> pa.Table:
        """Return and forget the tuples of ``stream`` that came too late, in the types the join was opened with.

        The join must have been opened with ``keep_late=True``.
        """
        self._check_stream(stream)
        if not self._keep_late:
            raise InputError(
                "late tuples were only counted (join.stats.late); open the join with keep_late=True to get them."
            )
        return self._call(self._take_late, stream)

    def _take_late(self, stream: str) -> pa.Table:
        tables = self._late_tables[stream]
        self._late_tables = {**self._late_tables, stream: []}
        return pa.concat_tables(tables) if tables else pa.Table.from_batches([], schema=self._schemas[stream])

    def __enter__(self) -> Self:
        """Return the join itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the join."""
        self.close()

    def __repr__(self) -> str:
        """Say which streams are joined and how much waits."""
        units = ", ".join(
            f"{unit.stream.alias}: {len(window)} tuples"
            for unit, window in zip(self._plan.units, self._windows, strict=True)
        )
        return f"<crosswind.{type(self).__name__} {units}; {self._results} results; {self._closed or 'open'}>"

    def _repr_html_(self) -> str:
        return stats_html(repr(self), self.stats)

    @property
    def stats(self) -> Stats:
        """Counters and sizes as they are now."""
        self._mend()
        windows = self._windows
        marks = {name: mark.value for name, mark in self._watermarks.items()}
        return Stats(
            tuples_in=dict(self._tuples_in),
            late=dict(self._late),
            rejected=dict(self._rejected),
            results=self._results,
            held=len(self._sorter),
            window_tuples={u.stream.alias: len(w) for u, w in zip(self._plan.units, windows, strict=True)},
            watermarks={name: None if value == INT64_MIN else value for name, value in marks.items()},
            bytes_held=sum(window.nbytes for window in windows)
            + self._sorter.nbytes
            + (0 if self._outer is None else self._outer.nbytes),
            pushes=self._latencies.count,
            latency_ms=self._latencies.quantiles_ms(),
            engine=self._strategy.name,
            index={u.stream.alias: i.chosen for u, i in zip(self._plan.units, self._strategy.indexes, strict=True)},
            reason={u.stream.alias: i.reason for u, i in zip(self._plan.units, self._strategy.indexes, strict=True)},
            shed=dict(self._shed),
            workers=self._strategy.shifts(),
            routes=self._strategy.ways(),
            busy_s=self._latencies.total_s,
        )

    # -- taking tuples in ----------------------------------------------------

    def _check_stream(self, stream: str) -> None:
        if not isinstance(stream, str) or stream not in self._schemas:
            known = ", ".join(self._schemas)
            raise InputError(
                f"no stream '{stream}' in this join; its streams are {known}.{did_you_mean(str(stream), self._schemas)}"
            )

    def _check_open(self) -> None:
        if self._caller:
            self._end_last_call(sys._getframe())
        if self._closed is not None:
            raise ClosedJoinError(
                f"the join is {self._closed} and takes nothing more; open a new one with crosswind.open()."
            )
        self._strategy.check()

    def _check_usable(self, stream: str) -> None:
        self._check_open()
        self._check_stream(stream)

    def _to_ticks(self, stream: str, watermark: Any) -> int:
        field = self._schemas[stream].field(self._times[stream])
        return ticks_of_value(watermark, field, self._factors[stream], stream)

    def _note_dropped(
        self, stream: str, batch: Any, late: npt.NDArray[np.bool_], missing: npt.NDArray[np.bool_] | None
    ) -> None:
        """Count late tuples and tuples without a time; tell the user once a stream."""
        if late.any():
            count = int(late.sum())
            self._late = _more(self._late, stream, count)
            if self._keep_late:
                schema = self._schemas[stream]
                table = as_declared(take_rows(as_table(batch, schema, stream), np.flatnonzero(late)), schema, stream)
                self._late_tables = {**self._late_tables, stream: [*self._late_tables[stream], table]}
            self._warn(
                LateTupleWarning,
                stream,
                f"stream '{stream}': {count} tuples of a batch were older than the watermark and did not join. "
                f"Raise lateness= if the stream is out of order, or open the join with keep_late=True to get them from "
                f"join.late('{stream}').",
            )
        if missing is not None:
            count = int(missing.sum())
            self._rejected = _more(self._rejected, stream, count)
            self._warn(
                NullTimeWarning,
                stream,
                f"stream '{stream}': {count} tuples of a batch have no time ({self._times[stream]} is null) and were "
                f"rejected; they are counted in join.stats.rejected. Fill the time in before the push.",
            )

    def _warn(self, category: type[Warning], stream: str, message: str) -> None:
        if (category.__name__, stream) not in self._warned:
            self._warned.add((category.__name__, stream))
            warn_caller(message, category)

    def _portions(
        self,
        units: tuple[int, ...],
        arrays: Mapping[str, pa.Array],
        ticks: npt.NDArray[np.int64],
        ends: tuple[int, int],
    ) -> Iterable[list[Block]]:
        """Return what is admitted of a push, a block for each of its units: all at once, or shedding, portions."""
        whole = self._counted or self._outer is not None
        if self._admission.sheds:
            return self._shedding(units, arrays, ticks, whole)
        at_once = not self._counted
        return ([self._intakes[unit].prepare(arrays, ticks, whole, ends, at_once=at_once) for unit in units],)

    def _shedding(
        self, units: tuple[int, ...], arrays: Mapping[str, pa.Array], ticks: npt.NDArray[np.int64], whole: bool
    ) -> Iterator[list[Block]]:
        waiting = sum(len(window) for window in self._strategy.windows)
        for rows in self._admission.portions(len(ticks), waiting):
            some = {name: take_rows(array, rows) for name, array in arrays.items()}
            yield [self._intakes[unit].prepare(some, ticks[rows], whole) for unit in units]

    def _take(
        self, stream: str, units: tuple[int, ...], portions: Iterable[list[Block]], greatest: int | None
    ) -> Results:
        """Join the portions of one push."""
        results: Results = []
        for blocks in portions:
            for unit, block in zip(units, blocks, strict=True):
                if self._counted:
                    self._sorter.hold(unit, block)
                    self._arrived = [*self._arrived, (unit, block)]
                else:
                    results += self._join(unit, block, None)
        if greatest is not None:
            self._watermarks[stream].see(greatest)
        return results + self._settle()

    def _move(self, watermarks: Mapping[str, int], began: float) -> Found:
        """Advance watermarks and return what that completes, by query."""
        return self._hand_out(self._moved(watermarks), began)

    def _moved(self, watermarks: Mapping[str, int]) -> Results:
        for stream, to in watermarks.items():
            self._watermarks[stream].advance(to)
        return self._settle()

    # -- all or nothing --------------------------------------------------------

    def _save(self) -> _Saved:
        attributes = vars(self).copy()
        outer = None if self._outer is None else self._outer.save()
        marks = [mark.value for mark in self._watermarks.values()]
        saved = attributes, self._strategy.save(), outer, marks, self._latencies.count
        if self._counted or self._ordered is not None:
            self._work_on_copies()
        return saved

    def _work_on_copies(self) -> None:
        """Leave what was there as it was, where that is changed in place."""
        self._arrived = []
        if self._counted:
            self._sorter = self._sorter.copy()
        if self._ordered is not None:
            self._ordered = [held.copy() for held in self._ordered]

    def _undo(self, saved: _Saved) -> None:
        """Put back what was there before the call."""
        attributes, strategy, outer, watermarks, calls = saved
        vars(self).update(attributes)
        self._strategy.undo(strategy)
        if self._outer is not None and outer is not None:
            self._outer.undo(outer)
        for mark, value in zip(self._watermarks.values(), watermarks, strict=True):
            mark.value = value
        self._latencies.cut(calls)
        self._make_makers()

    def _return(self) -> None:
        """Take back what the call has joined, but not what it has brought."""
        kept = self._arrived, [mark.value for mark in self._watermarks.values()]
        self._undo(self._saved)
        self._work_on_copies()
        self._arrived = kept[0]
        for mark, value in zip(self._watermarks.values(), kept[1], strict=True):
            mark.value = value

    # -- joining -------------------------------------------------------------

    def _settle(self) -> Results:
        """Join what the watermarks now allow, then release what they no longer need."""
        marks = [self._watermarks[unit.stream.name].value for unit in self._plan.units]
        results: Results = []
        if self._counted:
            results = self._join_in_order(marks)
        else:
            results = self._completed()
        limits = self._limits(marks)
        if self._outer is not None:
            results += self._close(self._outer, marks, limits)
        for window, limit in zip(self._strategy.windows, limits, strict=True):
            window.expire(*limit)
        if self._counted:
            self._sorter.forget(limits)
        late = self._strategy.collect()
        if late:
            results += self._met_late(late)
        self._strategy.settle()
        return results

    def _join_all(self, released: list[Release | None]) -> Results:
        """Join tuples that are next in the order, and make rows of what they complete."""
        results: Results = []
        for unit, release in enumerate(released):
            if release is not None:
                results += self._join(unit, release.block, released)
        return results + self._completed()

    def _completed(self) -> Results:
        """Make rows of what was found, and has waited for that."""
        every = [(found.query, found.parts, found.count) for found in self._strategy.complete(self._every)]
        return self._rows_of_all(every) if every else []

    def _close(self, outer: Outer, marks: list[int], limits: list[_Limit]) -> Results:
        """Give out tuples whose windows have closed for good without a match."""
        results: Results = []
        for unit, blocks in outer.close(marks, limits):
            for block in blocks:
                for table, times in self._rows_alone(unit, block):
                    if self._ordered is None:
                        results.append((0, table))
                    else:  # its time is when its window closed
                        age = self._waits[unit].age
                        late = min(INT64_MAX, min(marks)) if age is None else age + 1
                        closed = (
                            np.full(len(times), late) if age is None else np.minimum(times, INT64_MAX - late) + late
                        )
                        self._ordered[0].hold(closed, table)
        outer.commit()
        return results

    def _rows_alone(self, unit: int, block: Block) -> Iterator[tuple[pa.Table, npt.NDArray[np.int64]]]:
        """Yield the rows of tuples without a partner, with their times; tuples that overflow are set aside."""
        rows = np.arange(len(block), dtype=np.int64)
        places: dict[int, Place] = {unit: Taken(block, rows), 1 - unit: Absent(len(block))}
        try:
            parts, count = self._materialisers[0].sift([places], len(block))
            if not parts:  # a WHERE that is never true
                return
            alone = parts[0][unit]
            yield self._materialisers[0].table(parts, count), alone.times if isinstance(alone, Taken) else rows
        except ArithmeticOverflowError as error:
            if len(block) == 1:
                self._set_aside(unit, block.times.tolist(), error)
                return
            half = len(block) // 2
            for part in (block.slice(0, half), block.slice(half, len(block))):
                yield from self._rows_alone(unit, part)

    def _limits(self, marks: list[int]) -> list[_Limit]:
        """Return the time and the sequence number before which tuples of each unit meet nothing more."""
        limits: list[_Limit] = []
        for unit, wait in enumerate(self._waits):
            horizon = min(marks) if self._counted else min([marks[other] for other in wait.partners])
            oldest = None if wait.age is None else max(INT64_MIN, horizon - wait.age)
            limits.append((oldest, None if wait.count is None else self._sorter.counts[unit] - wait.count))
        return limits

    def _join(self, unit: int, block: Block, released: list[Release | None] | None = None) -> Results:
        """Scan, then insert (expiry, the third step, follows when the call is settled)."""
        results: Results = []
        if self._outer is not None and len(block):
            block = self._outer.note(unit, block)
        if block.keep is not None:
            block = block.take(np.flatnonzero(block.keep))
        if not len(block):
            return results
        try:
            for found in self._strategy.combine(unit, block, released):
                results += self._folded(found)
            for found in self._strategy.complete(self._hasty) if self._hasty else ():
                results += self._folded(found)
        except PairFaultError as fault:
            raise self._overflow(unit, block, fault) from None
        self._strategy.insert(unit, block)
        late = self._strategy.collect()
        return results + self._met_late(late) if late else results

    def _rows(self, query: int, parts: Sequence[Mapping[int, Place]], count: int) -> Results:
        """Make rows of results, and hold them back where there is an order."""
        parts, count = self._materialisers[query].sift(parts, count)
        table = self._materialisers[query].table(parts, count)
        self._admission.note(table.num_rows)
        if self._ordered is None:
            return [(query, table)]
        # the time of a result is that of its last member
        times = [np.maximum.reduce([p.times for p in places.values() if not isinstance(p, Absent)]) for places in parts]
        self._ordered[query].hold(np.concatenate(times), table)
        return []

    def _rows_of_all(self, found: list[tuple[int, Sequence[Mapping[int, Place]], int]]) -> Results:
        """Make rows of the results of several queries, at one go if there is no order."""
        if self._ordered is not None or self._admission.sheds:
            return [made for query, parts, count in found for made in self._rows(query, parts, count)]
        made = tables([(self._materialisers[query], parts, count) for query, parts, count in found])
        return [(query, table) for (query, _, _), table in zip(found, made, strict=True)]

    def _met_late(self, found: Iterable[DeferredMatches]) -> Results:
        """Make rows of what was found for tuples that are not met at once."""
        results: Results = []
        parts: list[Mapping[int, Place]] = []
        count = 0
        for late in found:  # often many, and small: rows of several are made at one go
            if len(late.matches) >= _GATHERED // 2:
                pair = pair_of(late.unit, late.block, late.matches)
                results.append((0, self._materialisers[0].table([pair], len(late.matches))))
                continue
            parts.append(pair_of(late.unit, late.block, late.matches.copy()))
            count += len(late.matches)
            if count >= _GATHERED:
                results.append((0, self._materialisers[0].table(parts, count)))
                parts, count = [], 0
        if count:
            results.append((0, self._materialisers[0].table(parts, count)))
        self._admission.note(sum(table.num_rows for _, table in results))
        return results

    def _folded(self, found: Combinations) -> Results:
        """Make rows of what was found; of an outer join, of what it gives out for that."""
        if self._outer is None:
            return self._rows(found.query, found.parts, found.count)
        given = (out for part in found.parts for out in self._outer.meet(part))
        return [row for out in given for row in self._rows(out.query, out.parts, out.count)]

    def _hand_out(self, results: Results, began: float) -> Found:
        """Return the results of each query in one table, as users get them; tell those who have subscribed."""
        found: dict[int, list[pa.Table]] = {0: list(self._owed)} if self._owed else {}
        self._owed = []
        for query, table in results:
            found.setdefault(query, []).append(table)
        if self._ordered is not None:
            front = min(INT64_MAX, *(mark.value for mark in self._watermarks.values()))
            found = {query: held.release(front) for query, held in enumerate(self._ordered)}
        tables = list(self._nothing)
        for query, parts in found.items():
            if parts:
                tables[query] = parts[0] if len(parts) == 1 else pa.concat_tables(parts)
                self._results += tables[query].num_rows
        for callback in tuple(self._listeners):
            for entry, table in zip(self._plan.queries, tables, strict=True):
                if table.num_rows:
                    callback(entry.name, table)
        named = self._named(tables)
        self._latencies.add(clock.perf_counter() - began)
        return named

    @abstractmethod
    def _named(self, tables: list[pa.Table]) -> Found:
        """Return the results of each query as users get them."""


_Limit = tuple[int | None, int | None]
"""A time and a sequence number (None: no limit)."""

_Saved = tuple[dict[str, Any], Any, Any, list[int], int]
"""What a call may change: attributes that are replaced, and marks of what is changed in place: of the strategy, of
outer joins, of the watermarks, and how many calls there were."""


def _more(counts: dict[str, int], stream: str, count: int) -> dict[str, int]:
    """Return ``counts`` with ``count`` more for ``stream``."""
    return {**counts, stream: counts[stream] + count}


def _ends_of(ticks: npt.NDArray[np.int64]) -> tuple[int, int]:
    """Return the least and the greatest (0, 0 if there are none); NumPy takes longer for a few."""
    if len(ticks) > _FEW:
        return int(ticks.min()), int(ticks.max())
    some = ticks.tolist() or [0]
    return min(some), max(some)
