"""What tuples of one stream look for in the window of another: their boxes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from crosswind.engine.ingest.intake import Intake, hashed_keys
from crosswind.kernel.generated.emit import Facts
from crosswind.kernel.generated.scan import PairSpec
from crosswind.kernel.generated.thresholds import threshold_kernel
from crosswind.plan.axis import INT64_MAX, INT64_MIN
from crosswind.plan.box import Dimension
from crosswind.plan.compile import Plan
from crosswind.plan.physical import PROBE_GROUP
from crosswind.plan.program import Slot
from crosswind.window.block import Block
from crosswind.window.vector import address, all_valid

__all__ = ["BOX_BLOCK", "CACHED", "Boxes", "Prober", "Scratch", "pair_spec", "time_bounds"]

BOX_BLOCK = 4096
"""Keys of a window that are compared with every probe before moving on: they stay in L1."""

CACHED = 1 << 14
"""Tuples that stay in the processor's caches, so that the order does not matter."""


@dataclass(frozen=True)
class Boxes:
    """What tuples look for in the other window: ``rows`` have a box at all, the others meet nothing.

    ``lows`` and ``highs`` are its ends by dimension, as doubles in the order of the keys;
    ``hashes`` are those of the equality keys. All are indexed by the rows of the block.
    """

    rows: npt.NDArray[np.int64]
    lows: list[npt.NDArray[np.float64]]
    highs: list[npt.NDArray[np.float64]]
    hashes: npt.NDArray[np.int64]


class Scratch:
    """Memory for the boxes of a batch, kept from batch to batch so that addresses stay."""

    def __init__(self, bits: tuple[int, ...], room: int) -> None:
        self.room = room
        self.order = np.empty(room, dtype=np.int64)
        self.low_time, self.high_time, self.hashes = (np.empty(room, dtype=np.int64) for _ in range(3))
        self.lows = [np.empty(room, dtype=f"int{width}") for width in bits]
        self.widths = [np.empty(room, dtype=f"int{width}") for width in bits]
        self.low_values = [np.empty(room) for _ in bits]
        self.high_values = [np.empty(room) for _ in bits]
        dimensions = [
            address(array)
            for d in range(len(bits))
            for array in (self.lows[d], self.widths[d], self.low_values[d], self.high_values[d])
        ]
        times = [address(self.low_time), address(self.high_time)]
        hashes = address(self.hashes)
        self.outs = np.array([address(self.order), *times, hashes, *dimensions], dtype=np.int64)
        self.probe = np.array([*times, 0, 0, hashes, *dimensions], dtype=np.int64)
        self.spans = np.zeros(8, dtype=np.int64)
        self.state = np.zeros(4, dtype=np.int64)
        self.work = np.zeros((PROBE_GROUP, 4), dtype=np.int64)


def pair_spec(plan: Plan, unit: int) -> PairSpec:
    """Return what tuples of ``unit`` check, pair by pair, in the window of the other unit."""
    access, other = plan.accesses[1 - unit], plan.units[1 - unit]
    limits = [plan.axis.age_limit(entry.stream.window) for entry in plan.units]
    return PairSpec(
        access.residual,
        tuple(Slot(e.type, 1 - unit, k) for k, e in enumerate(other.slots[: other.kept])),
        tuple(Slot(e.type, unit, k) for k, e in enumerate(plan.units[unit].slots[: plan.units[unit].kept])),
        len(access.dimensions),
        timed=any(limit is not None for limit in limits),
        counted=any(limit is None for limit in limits),
    )


class Prober:
    """Finds out what tuples of one unit look for in the window of the other.

    Parameters
    ----------
    plan : Plan
        Two units, one query.
    unit : int
        The unit whose tuples probe.
    intake : Intake
        Says where that unit's blocks keep what.
    """

    def __init__(self, plan: Plan, unit: int, intake: Intake) -> None:
        limits = [plan.axis.age_limit(entry.stream.window) for entry in plan.units]
        self._dimensions = plan.accesses[1 - unit].dimensions
        self._leaves, self._leaves_at, self._partners_at = intake.probes(self._dimensions)
        self._bits = tuple(dimension.bits for dimension in self._dimensions)
        self._hashed = [dimension for dimension in self._dimensions if dimension.hashed]
        self._back, self._ahead = limits[1 - unit], limits[unit]
        self._scratch = Scratch(self._bits, 0)
        self._thresholds: dict[bool, Any] = {}

    def boxes(self, block: Block) -> Boxes:
        """Return what the tuples of ``block`` look for, valid until the next call."""
        present = self._find_boxes(block)
        scratch = self._scratch
        return Boxes(scratch.order[:present], scratch.low_values, scratch.high_values, scratch.hashes)

    def _find_boxes(self, block: Block) -> int:
        """Find where the box of each new tuple begins and ends; return how many have one."""
        count = len(block)
        columns = [block.columns[k] for k in self._leaves_at]
        nulls = any(column.valid is not None for column in columns)
        ins: list[int] = []
        for column in columns:
            short = not nulls and column.text is None
            ins += (column.at or address(column.values), 0, 0) if short else column.pointers()
        partners = [self._partner_keys(block, dimension) for dimension in self._hashed]
        for keys, valid in partners:
            ins += [address(keys), address(valid)]
        times = np.ascontiguousarray(block.times)
        if count > self._scratch.room:
            self._scratch = Scratch(self._bits, max(256, 2 * count))
        scratch = self._scratch
        kernel, *room = self._threshold_kernel(nulls)
        scratch.spans[:3] = (address(times), self._back or 0, self._ahead or 0)
        present: int = kernel(np.array(ins, dtype=np.int64), count, scratch.outs, scratch.spans, *room)
        scratch.spans[7] = 1
        return present

    def _partner_keys(self, block: Block, dimension: Dimension) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8]]:
        """Return the hash keys that ``block`` looks for in a hashed dimension, and which are not null."""
        if dimension.partner is None:
            raise LookupError("a hashed dimension has a partner")
        vector = block.columns[self._partners_at[dimension.partner]]
        return hashed_keys(vector), all_valid(len(vector)) if vector.valid is None else vector.valid

    def _threshold_kernel(self, nulls: bool) -> Any:
        if nulls not in self._thresholds:
            kernel = threshold_kernel(self._dimensions, self._leaves, Facts(nulls=nulls, nans=True))
            self._thresholds[nulls] = (kernel.call, kernel.plans, *kernel.room())
        return self._thresholds[nulls]


def time_bounds(
    times: npt.NDArray[np.int64], back: int | None, ahead: int | None
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the times that tuples of ``times`` may meet, within the 64-bit range (None: all)."""
    low = np.full(len(times), INT64_MIN) if back is None else np.maximum(times, INT64_MIN + back) - back
    high = np.full(len(times), INT64_MAX) if ahead is None else np.minimum(times, INT64_MAX - ahead) + ahead
    return low, high
