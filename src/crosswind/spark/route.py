"""Routing: which cells a tuple goes to.

The cells of a tuple are a function of its content, never of its place in the input: a
retried task may see another order, and a tuple that changed its cells between attempts
would be a lost or doubled pair.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crosswind.engine.ingest.intake import Intake, plain_keys
from crosswind.engine.probe.boxes import Prober
from crosswind.io.arrow import carried_vector, column_of, leaf_vector, read_columns, ticks_of
from crosswind.kernel.compiled.arrange import hash_keys, hash_texts, hash_wides
from crosswind.plan.compile import Plan
from crosswind.plan.keys import value_of
from crosswind.plan.layout import CellLayout
from crosswind.plan.physical import Storage
from crosswind.query.tree import Rows
from crosswind.window.block import Block
from crosswind.window.vector import Vector, take_rows

__all__ = ["Routed", "Router", "Shipment", "needed_columns", "travelling_columns"]

_Ints = npt.NDArray[np.int64]
_FAR = 4.0e18
"""Beyond every range number, so that differences still fit into 64 bits."""


@dataclass(frozen=True)
class Shipment:
    """Tuples for one cell. ``primary``: counted here; the others are copies of tuples counted elsewhere."""

    cell: int
    primary: bool
    batch: pa.RecordBatch
    time_min: int
    time_max: int


@dataclass(frozen=True)
class Routed:
    """Where the tuples of a batch go; how many go nowhere, since they can join nothing; how many had no time.

    ``time_max`` is the greatest time of all (None: there were none): a tuple that joins nothing
    still moves the clock. ``without_time`` are the tuples that had none (None: not one).
    """

    shipments: list[Shipment]
    passed: int
    rejected: int
    time_max: int | None
    without_time: pa.RecordBatch | None = None


@dataclass(frozen=True)
class _Sought:
    """Rows with the places they touch, in parts in which a row comes once.

    ``wide`` rows touch ranges ``first`` to ``last``, at least one of every cell.
    """

    narrow: list[tuple[_Ints, _Ints]]
    wide: _Ints
    first: _Ints
    last: _Ints


def needed_columns(plan: Plan, unit: int) -> tuple[str, ...]:
    """Return the columns that tuples of ``unit`` bring along, the time first."""
    return tuple(dict.fromkeys([plan.units[unit].stream.time, *Intake(plan, unit).columns]))


def travelling_columns(plan: Plan, unit: int) -> tuple[str, ...]:
    """Return all columns of tuples of ``unit``, those that the join needs first."""
    return tuple(dict.fromkeys([*needed_columns(plan, unit), *plan.units[unit].stream.schema.names]))


class Router:
    """Routes the tuples of one unit.

    Parameters
    ----------
    plan : Plan
        Two units, each with a stream name of its own.
    unit : int
        The unit whose tuples are routed.
    layout : CellLayout
        Which cells there are.
    whole : bool
        Whether tuples travel with all their columns, and not only with those that the join needs.
    """

    def __init__(self, plan: Plan, unit: int, layout: CellLayout, *, whole: bool = False) -> None:
        self._unit, self._layout = unit, layout
        self._stream = plan.units[unit].stream
        self._factor = plan.axis.factors[unit]
        self._intake = Intake(plan, unit)
        self._needed = needed_columns(plan, unit)
        self.columns = travelling_columns(plan, unit) if whole else self._needed
        self.schema = pa.schema([self._stream.schema.field(name) for name in self.columns])
        streams = [stream for entry in plan.queries for stream in entry.query.streams]
        self._counted = any(isinstance(stream.window, Rows) for stream in streams)
        query = plan.queries[0].query
        self._preserved = unit in query.preserved and query.kind != "semi"
        self._access = plan.accesses[layout.owner]
        self._owns = unit == layout.owner or bool(layout.keys)
        self._prober = None
        if not self._owns and layout.kind in ("hash", "range"):
            self._prober = Prober(plan, unit, self._intake)

    def route(self, table: pa.Table) -> Routed:
        """Return the shipments of ``table``."""
        arrays = read_columns(table, self._stream.schema, self.columns, self._stream.alias)
        ticks, missing = ticks_of(arrays[self._stream.time], self._factor, self._stream.alias)
        rejected, without_time = 0, None
        if missing is not None:
            rejected = int(missing.sum())
            without_time = take_rows(self._batch(arrays), np.flatnonzero(missing))
            rows = np.flatnonzero(~missing)
            arrays = {name: take_rows(array, rows) for name, array in arrays.items()}
            ticks = ticks[rows]
        if not len(ticks):
            return Routed([], 0, rejected, None, without_time)
        rows, cells, primary = self._places(arrays, ticks)
        shipments = _ship(self._batch(arrays), ticks, rows, cells, primary)
        return Routed(shipments, len(ticks) - int(primary.sum()), rejected, int(ticks.max()), without_time)

    def _batch(self, arrays: Mapping[str, pa.Array]) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays(list(arrays.values()), schema=self.schema)

    def cells_of(self, table: pa.Table) -> tuple[_Ints, _Ints, npt.NDArray[np.bool_]]:
        """Return rows of ``table``, whose times are known, their cells, and which of these is a row's first."""
        arrays = read_columns(table, self._stream.schema, self.columns, self._stream.alias)
        ticks, _ = ticks_of(arrays[self._stream.time], self._factor, self._stream.alias)
        return self._places(arrays, ticks)

    def _places(self, arrays: Mapping[str, pa.Array], ticks: _Ints) -> tuple[_Ints, _Ints, npt.NDArray[np.bool_]]:
        """Return rows, their cells, and which of these is a row's first; rows that join nothing are missing."""
        layout = self._layout
        every = keep = np.arange(len(ticks))
        if not self._counted:  # a ROWS window counts what is filtered, too
            block = self._intake.prepare(arrays, ticks, True)
            keep = keep if block.keep is None else np.flatnonzero(block.keep)
        if layout.kind == "grid":
            keep = every if self._preserved else keep
            chosen = _grid(keep, self._content(arrays)[keep], 0, layout.sides, self._unit)
        elif layout.keys:
            chosen = self._keyed(keep, arrays)
        elif self._owns:
            chosen = self._owned(keep, block, arrays)
        else:
            chosen = self._sought(keep, block, arrays)
        if self._preserved and layout.kind != "grid":  # what can match nothing comes out, too: in any one cell
            alone = np.setdiff1d(every, np.concatenate([every[:0], *(part[0] for part in chosen)]))
            if len(alone):
                chosen.append((alone, _spread(self._content(arrays)[alone]) % layout.cells))
        rows = np.concatenate([part[0] for part in chosen]) if chosen else np.empty(0, dtype=np.int64)
        cells = np.concatenate([part[1] for part in chosen]) if chosen else np.empty(0, dtype=np.int64)
        primary = np.ones(len(rows), dtype=np.bool_)
        if len(chosen) > 1:
            primary[:] = False
            primary[np.unique(rows, return_index=True)[1]] = True
        return rows, cells, primary

    def _content(self, arrays: Mapping[str, pa.Array]) -> _Ints:
        """Return a hash (not negative) of everything in a tuple that the join needs, save nested values."""
        parts = [_digest(carried_vector(arrays[name])) for name in self._needed]
        return hash_keys([part for part in parts if part is not None])

    # -- hash and range ------------------------------------------------------

    def places(self, table: pa.Table) -> _Ints:
        """Return the hashes or range numbers that tuples of ``table`` touch, one after another."""
        arrays = read_columns(table, self._stream.schema, self.columns, self._stream.alias)
        ticks, _ = ticks_of(arrays[self._stream.time], self._factor, self._stream.alias)
        block = self._intake.prepare(arrays, ticks, True)
        keep = np.arange(len(ticks)) if block.keep is None else np.flatnonzero(block.keep)
        if self._owns:
            return self._owned_places(keep, block)
        sought = self._sought_places(keep, block)
        return np.concatenate([places for _, places in sought.narrow]) if sought.narrow else np.empty(0, np.int64)

    def _keyed(self, keep: _Ints, arrays: Mapping[str, pa.Array]) -> list[tuple[_Ints, _Ints]]:
        """Return the cell of each tuple's key; tuples without one join nothing."""
        expr = self._layout.keys[self._unit]
        vector = leaf_vector(arrays[column_of(expr)], expr)
        rows = keep if vector.valid is None else keep[vector.valid[keep] != 0]
        keys = plain_keys(vector, expr.type)
        return [(rows, _spread(hash_keys([keys])[rows]) % self._layout.cells)]

    def _owned_places(self, keep: _Ints, block: Block) -> _Ints:
        """Return the hash or range number of each owned tuple."""
        layout, dimensions = self._layout, self._access.dimensions
        if layout.kind == "hash":
            equal = [block.columns[d].values for d, entry in enumerate(dimensions) if entry.equality]
            return _spread(hash_keys(equal)[keep])
        keys = block.columns[layout.dimension].values[keep]
        return _range_numbers(value_of(keys, dimensions[layout.dimension].expr.type), layout.width)

    def _sought_places(self, keep: _Ints, block: Block) -> _Sought:
        """Return the hashes or range numbers in which tuples of the other stream find their partners."""
        none = np.empty(0, dtype=np.int64)
        if self._prober is None or not len(keep):
            return _Sought([], none, none, none)
        boxes = self._prober.boxes(block)
        rows = np.intersect1d(boxes.rows, keep, assume_unique=True)
        if self._layout.kind == "hash":
            return _Sought([(rows, _spread(boxes.hashes[rows]))], none, none, none)
        first = _range_numbers(boxes.lows[self._layout.dimension][rows], self._layout.width)
        last = _range_numbers(boxes.highs[self._layout.dimension][rows], self._layout.width)
        count = last - first + 1
        wide = count >= self._layout.cells
        narrow = []
        for k in range(int(count[~wide].max()) if (~wide).any() else 0):
            more = ~wide & (count > k)
            narrow.append((rows[more], first[more] + k))
        return _Sought(narrow, rows[wide], first[wide], last[wide])

    def _owned(self, keep: _Ints, block: Block, arrays: Mapping[str, pa.Array]) -> list[tuple[_Ints, _Ints]]:
        """Return the one cell of each owned tuple (of hot ones: its row of the hot grid)."""
        return self._by_place(keep, self._owned_places(keep, block), arrays)

    def _sought(self, keep: _Ints, block: Block, arrays: Mapping[str, pa.Array]) -> list[tuple[_Ints, _Ints]]:
        """Return the cells in which tuples of the other stream find their partners."""
        sought = self._sought_places(keep, block)
        chosen: list[tuple[_Ints, _Ints]] = []
        wide = sought.wide
        if len(wide):  # every cell has a range of theirs
            chosen += [(wide, np.full(len(wide), cell)) for cell in range(self._layout.cells)]
            for hot in self._layout.hot:
                inside = (sought.first <= hot) & (hot <= sought.last)
                chosen += self._by_place(wide[inside], np.full(int(inside.sum()), hot), arrays)
        for rows, places in sought.narrow:
            chosen += self._by_place(rows, places, arrays)
        return chosen

    def _by_place(self, rows: _Ints, places: _Ints, arrays: Mapping[str, pa.Array]) -> list[tuple[_Ints, _Ints]]:
        """Return the cells of ranges or hashes: dealt out in turn, save hot ones, which have their own."""
        layout = self._layout
        if not layout.hot:
            return [(rows, places % layout.cells)]
        hot = np.array(layout.hot, dtype=np.int64)
        at = np.minimum(np.searchsorted(hot, places), len(hot) - 1)
        is_hot = hot[at] == places
        chosen = [(rows[~is_hot], places[~is_hot] % layout.cells)]
        hashes = self._content(arrays)
        size = math.prod(layout.hot_sides)
        for k in np.unique(at[is_hot]):
            mine = rows[is_hot & (at == k)]
            base = layout.cells + int(k) * size
            chosen += _grid(mine, hashes[mine], base, layout.hot_sides, 0 if self._owns else 1)
        return chosen


def _grid(rows: _Ints, hashes: _Ints, base: int, sides: tuple[int, ...], axis: int) -> list[tuple[_Ints, _Ints]]:
    """Return all cells of a grid that share the coordinate of a tuple on ``axis``."""
    strides = [math.prod(sides[k + 1 :]) for k in range(len(sides))]
    start = base + hashes % sides[axis] * strides[axis]
    others = [
        range(0, side * stride, stride)
        for k, (side, stride) in enumerate(zip(sides, strides, strict=True))
        if k != axis
    ]
    return [(rows, start + sum(offsets)) for offsets in itertools.product(*others)]


def _ship(
    batch: pa.RecordBatch, ticks: _Ints, rows: _Ints, cells: _Ints, primary: npt.NDArray[np.bool_]
) -> list[Shipment]:
    """Return the tuples cell by cell, copies apart."""
    if not len(rows):
        return []
    order = np.argsort(2 * cells + ~primary, kind="stable")
    groups = (2 * cells + ~primary)[order]
    starts = np.flatnonzero(np.diff(groups, prepend=-1))
    stops = [*starts[1:], len(groups)]
    shipments = []
    for start, stop in zip(starts, stops, strict=True):
        mine = rows[order[start:stop]]
        group = int(groups[start])
        whole = len(mine) == batch.num_rows and bool((np.diff(mine) == 1).all())
        part = batch if whole else take_rows(batch, mine)
        times = ticks[mine]
        shipments.append(Shipment(group // 2, group % 2 == 0, part, int(times.min()), int(times.max())))
    return shipments


def _spread(hashes: _Ints) -> _Ints:
    """Return other, not negative hashes of ``hashes``: indexes inside a cell use the bits of the first ones."""
    mixed = (hashes.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(17)
    return mixed.astype(np.int64)


def _range_numbers(values: npt.NDArray[np.float64], width: float) -> _Ints:
    """Return the numbers of the ranges in which ``values`` lie; the order of values is kept."""
    with np.errstate(over="ignore"):
        numbers = np.floor(values / width)
    whole: _Ints = np.clip(np.nan_to_num(numbers, nan=_FAR), -_FAR, _FAR).astype(np.int64)
    return whole


def _digest(vector: Vector) -> _Ints | None:
    """Return 64 bits of each value of a column, nulls alike; None: nested, not looked at."""
    match vector.layout.storage:
        case Storage.OPAQUE:
            return None
        case Storage.TEXT:
            text = np.zeros(1, dtype=np.uint8) if vector.text is None else vector.text
            bits = hash_texts(vector.values, text).astype(np.int64)
        case Storage.WIDE:
            bits = hash_wides(vector.values).astype(np.int64)
        case _:
            bits = vector.values.astype(np.int64)
    return bits if vector.valid is None else np.where(vector.valid != 0, bits, np.int64(-1))
