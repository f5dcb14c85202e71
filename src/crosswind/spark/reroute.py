"""What cells hold, moved to the cells of another join: each tuple once, to wherever the other join would send it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crosswind.engine.probe.bounds import Wait, spans_of
from crosswind.errors import SnapshotError
from crosswind.io.arrow import ticks_of
from crosswind.io.blocks import concat_batches, pieces, read_block, write_block
from crosswind.plan.axis import INT64_MIN
from crosswind.plan.compile import Plan
from crosswind.spark.cell import Adopted
from crosswind.spark.partition import cell_keys
from crosswind.spark.route import Router, needed_columns
from crosswind.spark.spec import JoinSpec
from crosswind.spark.state import DEFINITION, BlockEntry, CellState, Manifest
from crosswind.window.vector import take_rows

__all__ = [
    "MANIFEST",
    "MOVED",
    "MOVED_SCHEMA",
    "Reroute",
    "adopted_of",
    "ages_of",
    "missing_columns",
    "preserved_of",
    "watermark_after",
]

MANIFEST = ""
"""The name under which a manifest travels with the blocks of its cell."""
MOVED = "cell int, unit int, block binary, flags binary"
"""Tuples of a unit for a cell; ``flags``, a byte each: whether it has matched. Without a block: there is that cell."""
MOVED_SCHEMA = pa.schema([("cell", pa.int32()), ("unit", pa.int32()), ("block", pa.binary()), ("flags", pa.binary())])

_Flags = npt.NDArray[np.bool_]


def ages_of(plan: Plan) -> tuple[int | None, ...]:
    """Return for each unit how many ticks its tuples wait at most (None: no limit by time)."""
    spans = [spans_of(entry, plan.axis) for entry in plan.queries]
    return tuple(Wait.of(unit, plan, spans).age for unit in range(len(plan.units)))


def preserved_of(plan: Plan) -> tuple[int, ...]:
    """Return the units whose tuples may come out alone, so that it is kept which have matched."""
    return plan.queries[0].query.preserved


class RowStore:
    """The state of a cell, as rows of the state reader."""

    def __init__(self, parts: dict[str, bytes]) -> None:
        self._parts = parts

    def read_manifest(self) -> bytes | None:
        """Return the manifest, or None if there is none."""
        return self._parts.get(MANIFEST)

    def read(self, name: str) -> bytes | None:
        """Return a block, or None if there is none of that name."""
        return self._parts.get(name)

    def has_blocks(self) -> bool:
        """Whether there is any block."""
        return len(self._parts) > (MANIFEST in self._parts) + (DEFINITION in self._parts)

    def write_manifest(self, data: bytes) -> None:
        """Raise: this state is only read."""
        raise NotImplementedError

    def write(self, name: str, data: bytes) -> None:
        """Raise: this state is only read."""
        raise NotImplementedError

    def remove(self, name: str) -> None:
        """Raise: this state is only read."""
        raise NotImplementedError


class Reroute:
    """Takes the state of cells of one join and sends its tuples to those of another (for ``mapInArrow``).

    Rows come in with ``cell``, ``name`` and ``content``, sorted by cell. A tuple that several cells hold is taken from
    the first of them. What a cell's watermark has passed is over there, so it stays behind.

    Parameters
    ----------
    old, new : JoinSpec
        The joins, with the same streams in the same order.
    """

    def __init__(self, old: JoinSpec, new: JoinSpec) -> None:
        self._old, self._new = old, new

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the tuples of all cells, addressed to their new ones."""
        self._keys, self._new_keys = cell_keys(self._old.layout.total), cell_keys(self._new.layout.total)
        self._ages, self._preserved = ages_of(self._old.plan), preserved_of(self._old.plan)
        units = range(len(self._old.units))
        self._from = [Router(self._old.plan, unit, self._old.layout) for unit in units]
        self._to = [Router(self._new.plan, unit, self._new.layout) for unit in units]
        for key, parts in _by_cell(batches):
            yield from self._moved(self._keys.index(key), CellState(RowStore(parts), self._keys.index(key)))

    def _moved(self, cell: int, state: CellState) -> Iterator[pa.RecordBatch]:
        manifest = state.manifest()
        if manifest is None or manifest.identity != self._old.identity():
            raise SnapshotError(f"cell {cell} belongs to another join than the definition in the checkpoint.")
        flags = self._flags(manifest, state)
        for entry in manifest.blocks:
            batch, matched = state.block(entry), flags.get(entry.name)
            rows = self._kept(entry, batch, cell, manifest.watermark, state)
            matched = None if matched is None else matched[rows]
            yield from self._sent(entry.unit, take_rows(batch, rows), matched)

    def _flags(self, manifest: Manifest, state: CellState) -> dict[str, _Flags]:
        """Return which tuples have matched, by block."""
        entries = [entry for entry in manifest.blocks if entry.unit in self._preserved]
        if not entries:
            return {}
        counts = [entry.tuples for entry in entries]
        parts = np.split(state.flags(manifest, sum(counts)), np.cumsum(counts)[:-1])
        return {entry.name: part for entry, part in zip(entries, parts, strict=True)}

    def _kept(
        self, entry: BlockEntry, batch: pa.RecordBatch, cell: int, watermark: int | None, state: CellState
    ) -> npt.NDArray[np.int64]:
        """Return the rows that this cell is the first to hold, and that can still have partners."""
        plan, unit = self._old.plan, entry.unit
        rows, cells, primary = self._from[unit].cells_of(pa.Table.from_batches([batch]))
        here = cells == cell
        if int(here.sum()) != batch.num_rows:
            raise state.damage(f"block '{entry.name}'", "it has tuples of other cells")
        mine = np.sort(rows[here & primary])
        age = self._ages[unit]
        if age is not None and watermark is not None:
            stream = plan.units[unit].stream
            times, _ = ticks_of(batch.column(stream.time), plan.axis.factors[unit], stream.alias)
            mine = mine[times[mine] >= max(INT64_MIN, watermark - age)]
        return mine

    def _sent(self, unit: int, batch: pa.RecordBatch, flags: _Flags | None) -> Iterator[pa.RecordBatch]:
        """Yield rows with the tuples of ``batch``, cell by cell."""
        if not batch.num_rows:
            return
        batch = _fitted(batch, self._to[unit].schema)
        rows, cells, _ = self._to[unit].cells_of(pa.Table.from_batches([batch]))
        for cell in np.unique(cells):
            mine = np.sort(rows[cells == cell])
            part, at = take_rows(batch, mine), 0
            known = np.ones(len(mine), dtype=np.bool_) if flags is None else flags[mine]
            for piece in pieces(part):
                told = known[at : at + piece.num_rows].astype(np.uint8).tobytes()
                at += piece.num_rows
                columns = [[self._new_keys[int(cell)]], [unit], [write_block(piece)], [told]]
                arrays = [pa.array(c, field.type) for c, field in zip(columns, MOVED_SCHEMA, strict=True)]
                yield pa.RecordBatch.from_arrays(arrays, schema=MOVED_SCHEMA)


def adopted_of(parts: Iterable[tuple[int, bytes, bytes]]) -> list[Adopted]:
    """Return what a cell is to begin with: ``parts`` are units, blocks and flags, as :class:`Reroute` gives them."""
    by_unit: dict[int, list[tuple[bytes, bytes]]] = {}
    for unit, block, told in parts:
        by_unit.setdefault(unit, []).append((block, told))
    adopted = []
    for unit, mine in sorted(by_unit.items()):
        flags = np.frombuffer(b"".join(told for _, told in mine), dtype=np.uint8).astype(np.bool_)
        adopted.append(Adopted(unit, concat_batches([read_block(block) for block, _ in mine]), flags))
    return adopted


def watermark_after(old: JoinSpec, manifests: Iterable[Manifest]) -> int | None:
    """Return the watermark, in ticks, with which the cells of the new join begin; None: as if there had been none.

    What has come out is left behind, so a cell may begin without one. Only where late is what is not newer than the
    watermark of the micro-batch before, it has to know that; every cell does.
    """
    known = [manifest.watermark for manifest in manifests]
    return None if None in known or not old.by_previous else min(mark for mark in known if mark is not None)


def missing_columns(old: JoinSpec, new: JoinSpec, unit: int) -> list[str]:
    """Return the columns that the new join needs of tuples that wait, and that they do not have."""
    known = needed_columns(old.plan, unit)
    return [name for name in needed_columns(new.plan, unit) if name not in known]


def _fitted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return ``batch`` with the columns of ``schema``; those that it does not have are NULL."""
    arrays = [
        batch.column(field.name) if field.name in batch.schema.names else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _by_cell(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, dict[str, bytes]]]:
    """Yield the parts of each cell, which come one after the other."""
    key: int | None = None
    parts: dict[str, bytes] = {}
    for batch in batches:
        for row in batch.to_pylist():
            if row["cell"] != key:
                if key is not None:
                    yield key, parts
                key, parts = row["cell"], {}
            parts[row["name"]] = row["content"]
    if key is not None:
        yield key, parts
