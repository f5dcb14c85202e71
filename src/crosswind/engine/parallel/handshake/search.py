"""An inquiry: what the tuples of a block look for, found once and kept as long as they are on their way.

Workers of a handshake are given it as words that the loop of :mod:`crosswind.kernel.compiled.crew` understands.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from crosswind.engine.ingest.intake import Intake
from crosswind.engine.probe.boxes import BOX_BLOCK, Prober, Scratch, pair_spec, time_bounds
from crosswind.engine.probe.index import Index
from crosswind.kernel.generated.box import box_kernel
from crosswind.kernel.generated.emit import Facts
from crosswind.kernel.generated.scan import recheck_kernel, scan_kernel
from crosswind.kernel.jit import address_of
from crosswind.kernel.records import TASK, TASK_BOX, TASK_PAIRS, TASK_WORDS
from crosswind.plan.compile import Plan
from crosswind.plan.logic import And
from crosswind.window.block import Block
from crosswind.window.join_window import Residents
from crosswind.window.vector import address

__all__ = ["ChunkProber", "ChunkSearch"]

_SORT_FROM = 32
"""Probes from which on it pays to go through them in the order of the cells."""

_BOX_NEED = 64
"""Room in a buffer that the box kernel needs to get anywhere."""


class ChunkProber(Prober):
    """Prepares inquiries of one unit's blocks in the other's window.

    Parameters
    ----------
    plan, unit, intake
        As for :class:`Prober`.
    index : Index
        The index of the other unit's window.
    """

    def __init__(self, plan: Plan, unit: int, intake: Intake, index: Index) -> None:
        super().__init__(plan, unit, intake)
        self._spec = replace(pair_spec(plan, unit), counted=True)  # numbers bound what a worker meets
        self._slots = range(intake.keys, intake.keys + plan.units[unit].kept)
        self._index = index

    def ask(self, block: Block) -> ChunkSearch:
        """Return an inquiry of ``block`` that holds as long as it is kept, whatever will be in the window."""
        anything = Facts(nulls=True, nans=True)
        inquiry = ChunkSearch(block)
        if not self._dimensions:
            bounds = np.array(time_bounds(block.times, self._back, self._ahead))
            inquiry.kind, inquiry.kernel = TASK_PAIRS, address_of(scan_kernel(self._spec, anything))
            inquiry.pair = self._pair_table(block, (address(bounds), address(bounds) + bounds.strides[0]))
            inquiry.kept.append(bounds)
            return inquiry
        self._scratch = Scratch(self._bits, len(block))
        present = self._find_boxes(block)
        scratch, self._scratch = self._scratch, Scratch(self._bits, 0)
        scratch.spans[7] = 3
        inquiry.kind, inquiry.kernel = TASK_BOX, address_of(box_kernel(self._bits, BOX_BLOCK))
        inquiry.present = scratch.order[:present]
        if present:
            self._index.see(scratch.low_values, scratch.high_values, inquiry.present)
        inquiry.probe, inquiry.spans, inquiry.low_values = _wide(scratch.probe), scratch.spans, scratch.low_values
        inquiry.kept.append(scratch)
        if self._spec.condition != And(()):
            inquiry.recheck = address_of(recheck_kernel(self._spec, anything))
            inquiry.pair = self._pair_table(block, (0, 0))
        return inquiry

    def _pair_table(self, block: Block, bounds: tuple[int, int]) -> npt.NDArray[np.int64]:
        """Return the addresses of bounds (0: they are not to be checked) and slots of the probing tuples."""
        probe = [*bounds, 0, 0]
        for k in self._slots:
            probe.extend(block.columns[k].pointers())
        return _wide(np.array(probe, dtype=np.int64))


class ChunkSearch:
    """The probes of one block, ready for any worker.

    ``present`` are the probes that have a box (pair by pair all are looked for).
    """

    def __init__(self, block: Block) -> None:
        self.block = block
        self.kind = self.kernel = self.recheck = 0
        self.present: npt.NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self.low_values: list[npt.NDArray[np.float64]] = []
        self.probe = self.spans = self.pair = np.zeros(8, dtype=np.int64)
        self.kept: list[Any] = []

    def probes(self, first: int, end: int, residents: Residents) -> tuple[int, int]:
        """Return how tasks name tuples ``first`` to ``end`` of the block: address and number, in the order of cells."""
        if self.kind == TASK_PAIRS:
            return first, end
        cut = np.searchsorted(self.present, [first, end])
        order = self.present[cut[0] : cut[1]]
        if len(order) > _SORT_FROM and "band" in residents.kinds:
            axis = int(residents.runs[residents.runs[:, 5] == 1, 9][-1]) & 15
            order = order[np.argsort(self.low_values[axis][order])]
        self.kept.append(order)
        return address(order), len(order)

    def template(self) -> npt.NDArray[np.void]:
        """Return a task in which only the window is missing."""
        task = np.zeros((), dtype=TASK)
        task["kind"], task["kernel"], task["recheck"] = self.kind, self.kernel, self.recheck
        task["probe"], task["spans"] = address(self.probe), address(self.spans)
        task["pair"] = address(self.pair)
        task["need"] = _BOX_NEED
        task["slice"] = 1
        return task


def _wide(table: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return a table of addresses with room behind it: whoever copies one copies 64 words."""
    wide = np.zeros(max(TASK_WORDS, len(table)), dtype=np.int64)
    wide[: len(table)] = table
    return wide
