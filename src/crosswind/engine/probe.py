"""Probing: the boxes of new tuples, and their candidates in a window."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from crosswind.engine.index import Index
from crosswind.engine.intake import Intake
from crosswind.engine.strategy import Bounds, Fault, Matches
from crosswind.plan.box import Dimension
from crosswind.plan.compile import Plan
from crosswind.plan.keys import value_of
from crosswind.plan.logic import And
from crosswind.plan.program import Slot
from crosswind.window.block import Block
from crosswind.window.join_window import Residents

if TYPE_CHECKING:
    from crosswind.kernel.scan import PairSpec

__all__ = ["Boxes", "Prober", "pair_spec"]

_MATCH_ROOM = 1 << 16
"""Candidates that are found before they are checked and handed on."""

_BLOCK = 4096
"""Keys of a window that are compared with every probe before moving on: they stay in L1."""

_SORT_FROM = 32
"""Probes from which on it pays to go through them in the order of the cells."""


@dataclass(frozen=True)
class Boxes:
    """The boxes of a batch: least keys and widths by dimension, and who has one at all."""

    lows: list[npt.NDArray[Any]]
    widths: list[npt.NDArray[Any]]
    present: npt.NDArray[np.int64]


def pair_spec(plan: Plan, unit: int) -> PairSpec:
    """Return what tuples of ``unit`` check, pair by pair, in the window of the other unit."""
    from crosswind.kernel.scan import PairSpec

    slots = [tuple(Slot(e.type, u, k) for k, e in enumerate(entry.slots)) for u, entry in enumerate(plan.units)]
    limits = [plan.axis.age_limit(entry.stream.window) for entry in plan.units]
    access = plan.accesses[1 - unit]
    return PairSpec(
        access.residual,
        slots[1 - unit],
        slots[unit],
        len(access.dimensions),
        timed=any(limit is not None for limit in limits),
        counted=any(limit is None for limit in limits),
    )


class Prober:
    """Finds the partners of tuples of one unit in the window of the other.

    Parameters
    ----------
    plan : Plan
        Two units, one query.
    unit : int
        The unit whose tuples probe.
    intake : Intake
        Says where that unit's blocks keep what.
    index : Index
        The index of the other unit's window.
    """

    def __init__(self, plan: Plan, unit: int, intake: Intake, index: Index) -> None:
        self._spec = pair_spec(plan, unit)
        self._dimensions = plan.accesses[1 - unit].dimensions
        self._checks = self._spec.condition != And(())
        self._slots = range(intake.keys, intake.keys + intake.slots)
        self._window_slots = slice(self._spec.skip, self._spec.skip + len(self._spec.window))
        self._intake = intake
        self._index = index
        self._bits = tuple(dimension.bits for dimension in self._dimensions)
        self._out = tuple(np.empty(_MATCH_ROOM, dtype=np.int64) for _ in range(3))

    def find(self, block: Block, bounds: Bounds, residents: Residents) -> Iterator[Matches]:
        """Yield the matches of ``block`` in ``residents``, in bounded portions."""
        low, high = int(bounds.low_time.min()), int(bounds.high_time.max())
        near = np.flatnonzero((residents.time_max >= low) & (residents.time_min <= high))
        if self._dimensions:
            boxes = self._boxes(block)
            if len(near) and len(boxes.present):
                chosen = residents if len(near) == len(residents.items) else residents.pick(near)
                yield from self._search(block, bounds, chosen, boxes)
        elif len(near):
            yield from self._scan(block, bounds, residents.pick(near))

    # -- with boxes ----------------------------------------------------------

    def _boxes(self, block: Block) -> Boxes:
        """Find where the box of each new tuple begins and ends."""
        from crosswind.kernel.emit import Facts
        from crosswind.kernel.thresholds import threshold_kernel

        count = len(block)
        lows = [np.empty(count, dtype=f"int{bits}") for bits in self._bits]
        widths = [np.empty(count, dtype=f"int{bits}") for bits in self._bits]
        empty = np.zeros(count, dtype=np.uint8)
        ordered = tuple(dimension for dimension in self._dimensions if not dimension.hashed)
        if ordered:
            columns = [block.columns[k] for k in self._intake.probe_at]
            facts = Facts(nulls=any(column.has_nulls for column in columns), nans=True)
            kernel = threshold_kernel(ordered, self._intake.probe_leaves, facts)
            outs = [empty.ctypes.data]
            for d, dimension in enumerate(self._dimensions):
                if not dimension.hashed:
                    outs += [lows[d].ctypes.data, widths[d].ctypes.data]
            ins = np.array([a for column in columns for a in column.pointers()], dtype=np.int64)
            kernel(ins, count, np.array(outs, dtype=np.int64))
        for d, dimension in enumerate(self._dimensions):
            if dimension.hashed:
                keys, valid = self._intake.partner_keys(block, dimension)
                lows[d][:], widths[d][:] = keys, 0
                if valid is not None:
                    empty |= valid == 0
        present = np.flatnonzero(empty == 0) if empty.any() else np.arange(count, dtype=np.int64)
        return Boxes(lows, widths, present)

    def _values(self, boxes: Boxes) -> tuple[list[npt.NDArray[np.float64]], list[npt.NDArray[np.float64]]]:
        """Return the ends of the boxes as doubles, for looking cells up."""
        lows, highs = [], []
        for dimension, low, width in zip(self._dimensions, boxes.lows, boxes.widths, strict=True):
            of = _key_type(dimension)
            lows.append(value_of(low, of))
            highs.append(value_of(low + width, of))
        return lows, highs

    def _search(self, block: Block, bounds: Bounds, residents: Residents, boxes: Boxes) -> Iterator[Matches]:
        from crosswind.kernel.box import box_kernel

        kinds = residents.kinds
        limits = (bounds.low_time, bounds.high_time, bounds.low_number, bounds.high_number)
        probe = [0 if limit is None else limit.ctypes.data for limit in limits]
        order, hashes = boxes.present, None
        lows: list[npt.NDArray[Any]] = boxes.lows
        highs: list[npt.NDArray[Any]] = boxes.lows
        if "band" in kinds or self._index.needs_boxes:
            lows, highs = self._values(boxes)
            self._index.see([low[order] for low in lows], [high[order] for high in highs])
        if "hash" in kinds:
            hashes = self._index.hashes(boxes.lows)
        probe.append(0 if hashes is None else hashes.ctypes.data)
        for d in range(len(self._dimensions)):
            probe += [a[d].ctypes.data for a in (boxes.lows, boxes.widths, lows, highs)]
        if "band" in kinds and len(order) > _SORT_FROM:
            axis = int(residents.heads[residents.heads[:, 5] == 1, 8][-1]) & 15
            order = order[np.argsort(lows[axis][order])]
        runs = np.hstack([residents.heads, residents.columns[:, : 3 * len(self._bits) : 3]])
        outside = (residents.time_min < bounds.low_time.max()) | (residents.time_max > bounds.high_time.min())
        runs[:, 4] = outside * (1 if self._spec.timed else 0) + (2 if self._spec.counted else 0)
        params, count_items = residents.params, len(residents.items)
        kernel = box_kernel(self._bits, _BLOCK)
        out_w, out_i, out_j = self._out
        probe_table = np.array(probe, dtype=np.int64)
        state = np.array([0, 0, -1, -1], dtype=np.int64)
        while state[0] < count_items:
            count = kernel(runs, params, count_items, probe_table, order, out_w, out_i, out_j, state)
            if count and self._checks:
                count = self._recheck(block, residents, count)
            if count:
                yield Matches(residents, out_w[:count].copy(), out_i[:count].copy(), out_j[:count].copy())

    def _recheck(self, block: Block, residents: Residents, count: int) -> int:
        """Keep the candidates that satisfy the residual."""
        from crosswind.kernel.scan import recheck_kernel

        recheck = recheck_kernel(self._spec, self._facts(block, residents))
        state = np.zeros(6, dtype=np.int64)
        out_w, out_i, out_j = self._out
        kept = recheck(_positions(residents), self._pair_table(block, None), out_w, out_i, out_j, count, state)
        if kept < 0:
            raise Fault(residents.items[state[3]], int(state[4]), int(state[5]))
        return kept

    # -- without boxes -------------------------------------------------------

    def _scan(self, block: Block, bounds: Bounds, residents: Residents) -> Iterator[Matches]:
        from crosswind.kernel.scan import scan_kernel

        scan = scan_kernel(self._spec, self._facts(block, residents))
        lengths = np.ascontiguousarray(residents.heads[:, 0])
        room = max(_MATCH_ROOM, int(lengths.max()))
        if len(self._out[0]) < room:
            self._out = tuple(np.empty(room, dtype=np.int64) for _ in range(3))
        table, probe = _positions(residents), self._pair_table(block, bounds)
        state = np.zeros(6, dtype=np.int64)
        out_w, out_i, out_j = self._out
        count_items = len(residents.items)
        while state[0] < count_items:
            count = scan(table, lengths, count_items, probe, len(block), out_w, out_i, out_j, state)
            if count < 0:
                raise Fault(residents.items[state[3]], int(state[4]), int(state[5]))
            if count:
                yield Matches(residents, out_w[:count].copy(), out_i[:count].copy(), out_j[:count].copy())

    def _facts(self, block: Block, residents: Residents) -> Any:
        from crosswind.kernel.emit import Facts

        theirs = self._window_slots
        own = [block.columns[k] for k in self._slots]
        return Facts(
            nulls=any(column.has_nulls for column in own) or bool(residents.nulls[theirs].any()),
            nans=any(column.has_nans for column in own) or bool(residents.nans[theirs].any()),
        )

    def _pair_table(self, block: Block, bounds: Bounds | None) -> npt.NDArray[np.int64]:
        """Return the addresses of bounds and slots of the probing tuples."""
        limits = (None,) * 4
        if bounds is not None:
            limits = (bounds.low_time, bounds.high_time, bounds.low_number, bounds.high_number)
        probe = [0 if limit is None else limit.ctypes.data for limit in limits]
        for k in self._slots:
            probe.extend(block.columns[k].pointers())
        return np.array(probe, dtype=np.int64)


def _positions(residents: Residents) -> npt.NDArray[np.int64]:
    """Return the window table of pair kernels: times, numbers, columns."""
    return np.hstack([residents.heads[:, 1:3], residents.columns])


def _key_type(dimension: Dimension) -> Any:
    from crosswind.query.types import INT64

    return INT64 if dimension.hashed else dimension.expr.type
