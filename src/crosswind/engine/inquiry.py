"""An inquiry: the boxes of a block, found once, and tasks for workers that look for them.

What :class:`crosswind.engine.probe.Prober` does in one call is cut up here: any worker can
be given any probes of the block and any basic windows of any window, as words that the
compiled loop of :mod:`crosswind.kernel.crew` understands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from crosswind.engine.index import Index
from crosswind.engine.intake import Intake
from crosswind.engine.probe import Bounds, Prober, Scratch
from crosswind.engine.strategy import Numbers
from crosswind.plan.compile import Plan
from crosswind.window.block import Block
from crosswind.window.join_window import Residents
from crosswind.window.vector import address

__all__ = ["Inquirer", "Inquiry", "Phase", "inquirers_of"]

_SORT_FROM = 32
"""Probes from which on it pays to go through them in the order of the cells."""

_PORTION = 64
"""Probes that are worth a portion of their own."""

_SLICE_PAIRS = 1 << 24
"""Pairs that are compared at a stretch, or about: a millisecond."""

_SLICE_MAX = 32

_BOX_NEED = 64
"""Room in a buffer that the box kernel needs to get anywhere."""

Phase = tuple[int, int, int, int, int]
"""Basic windows from and to, which probes (their address and count, or pair by pair from and to), and a cursor.

A cursor (0: none) is shared by all who are given the same phase: each looks through what nobody has taken yet.
"""


class Inquirer(Prober):
    """Prepares inquiries of one unit's blocks in the other's window."""

    def count_always(self) -> None:
        """Let sequence numbers bound what is met, whatever the windows are."""
        self._spec = replace(self._spec, counted=True)

    def ask_to_keep(self, block: Block) -> Inquiry:
        """Return an inquiry of ``block`` that holds as long as it is kept, whatever will be in the window."""
        from crosswind.kernel.crew import Task, address_of
        from crosswind.kernel.emit import Facts

        anything = Facts(nulls=True, nans=True)
        if not self._dimensions:
            from crosswind.kernel.scan import scan_kernel

            inquiry = Inquiry(block)
            bounds = Bounds.of(block, None, self._back, self._ahead)
            inquiry.kind, inquiry.kernel = Task.PAIRS, address_of(scan_kernel(self._spec, anything))
            inquiry.pair = _wide(self._pair_table(block, bounds))
            inquiry.kept.append(bounds)
            return inquiry
        self._scratch = Scratch(self._bits, len(block))
        present = self._boxes(block, None)
        scratch, self._scratch = self._scratch, Scratch(self._bits, 0)
        scratch.spans[7] = 3
        inquiry = self._of_boxes(block, scratch, present)
        inquiry.probe = _wide(scratch.probe)
        if self._checks:
            inquiry.recheck = address_of(self._recheck_kernel(anything))
            inquiry.pair = _wide(self._pair_table(block))
        return inquiry

    def _of_boxes(self, block: Block, scratch: Scratch, present: int) -> Inquiry:
        from crosswind.kernel.crew import Task, address_of

        inquiry = Inquiry(block)
        inquiry.kind, inquiry.kernel = Task.BOX, address_of(self._box_kernel())
        inquiry.present = scratch.order[:present]
        if present:
            self._index.see(scratch.low_values, scratch.high_values, inquiry.present)
        inquiry.probe, inquiry.spans, inquiry.low_values = scratch.probe, scratch.spans, scratch.low_values
        inquiry.kept.append(scratch)
        return inquiry

    def ask(self, block: Block, numbers: Numbers | None, residents: Sequence[Residents]) -> Inquiry | None:
        """Return the inquiry of ``block``, None if no tuple has a box. It holds until the next one."""
        from crosswind.kernel.crew import Task, address_of

        if not self._dimensions:
            from crosswind.kernel.scan import scan_kernel

            inquiry = Inquiry(block)
            bounds = Bounds.of(block, numbers, self._back, self._ahead)
            inquiry.kind = Task.PAIRS
            inquiry.kernel = address_of(scan_kernel(self._spec, self._common_facts(block, residents)))
            inquiry.pair = self._pair_table(block, bounds)
            inquiry.kept += [bounds, inquiry.pair]
            return inquiry
        bounded = None if numbers is None else Bounds.of(block, numbers, self._back, self._ahead)
        present = self._boxes(block, bounded)
        if not present:
            return None
        inquiry = self._of_boxes(block, self._scratch, present)
        inquiry.kept.append(bounded)
        if self._checks:
            inquiry.recheck = address_of(self._recheck_kernel(self._common_facts(block, residents)))
            inquiry.pair = self._pair_table(block)
        return inquiry

    def _common_facts(self, block: Block, residents: Sequence[Residents]) -> Any:
        """Return what holds of the data in all of ``residents``."""
        from crosswind.kernel.emit import Facts

        facts = [self._facts(block, some) for some in residents]
        return Facts(nulls=any(f.nulls for f in facts), nans=any(f.nans for f in facts))


class Inquiry:
    """The probes of one block, ready for any worker.

    ``present`` are the probes that have a box (pair by pair all are looked for).
    """

    def __init__(self, block: Block | None) -> None:
        self.block = block
        self.size = 0 if block is None else len(block)
        self.kind = self.kernel = self.recheck = 0
        self.present: npt.NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self.low_values: list[npt.NDArray[np.float64]] = []
        self.probe = self.spans = self.pair = np.zeros(8, dtype=np.int64)
        self.kept: list[Any] = []
        self._tables: dict[int, tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]] = {}

    def probes(self, first: int, end: int, residents: Residents) -> tuple[int, int]:
        """Return how phases name tuples ``first`` to ``end`` of the block."""
        from crosswind.kernel.crew import Task

        if self.kind == Task.PAIRS:
            return first, end
        cut = np.searchsorted(self.present, [first, end])
        return self.ordered(self.present[cut[0] : cut[1]], residents)

    def portions(self, first: int, end: int, residents: Residents, count: int) -> list[tuple[int, int]]:
        """Return how phases name tuples ``first`` to ``end`` of the block in about ``count`` portions.

        Each is of neighbouring cells, so that what one looks at stays in the cache. Few tuples are one portion.
        """
        from crosswind.kernel.crew import Task

        begin, size = self.probes(first, end, residents)
        if self.kind == Task.PAIRS or size < _PORTION * count:
            return [(begin, size)] if size else []
        cuts = [size * k // count for k in range(count + 1)]
        return [(begin + 8 * a, b - a) for a, b in pairwise(cuts)]

    def ordered(self, order: npt.NDArray[np.int64], residents: Residents) -> tuple[int, int]:
        """Return the address and number of probes, put in the order of the cells where there are some."""
        if len(order) > _SORT_FROM and "band" in residents.kinds:
            axis = int(residents.runs[residents.runs[:, 5] == 1, 9][-1]) & 15
            order = order[np.argsort(self.low_values[axis][order])]
        self.kept.append(order)
        return address(order), len(order)

    def cursors(self, stretches: Sequence[tuple[int, int]]) -> list[int]:
        """Return the address of a cursor at the beginning of each stretch of basic windows."""
        words = np.array([first for first, _ in stretches], dtype=np.int64)
        self.kept.append(words)
        return [address(words) + 8 * k for k in range(len(words))]

    def template(self) -> npt.NDArray[np.int64]:
        """Return a task in which only the window is missing."""
        from crosswind.kernel.crew import Task

        words = np.zeros(64, dtype=np.int64)
        words[Task.KIND], words[Task.KERNEL], words[Task.RECHECK] = self.kind, self.kernel, self.recheck
        words[Task.PROBE], words[Task.SPANS] = address(self.probe), address(self.spans)
        words[Task.PAIR] = address(self.pair)
        words[Task.NEED] = _BOX_NEED
        words[Task.SLICE] = 1
        return words

    def ring(self, tasks: Sequence[npt.NDArray[np.int64]]) -> None:
        """Let whoever is done with one of ``tasks`` go on with the next, and so on to the one it began with."""
        from crosswind.kernel.crew import Task

        for words, following in zip(tasks, [*tasks[1:], *tasks[:1]], strict=True):
            words[Task.NEXT] = address(following)

    def task(self, residents: Residents, phases: Sequence[Phase], about: int = 0) -> npt.NDArray[np.int64]:
        """Return a task: to look for probes in basic windows of ``residents``; ``about`` comes with what is found."""
        from crosswind.kernel.crew import Task

        words = np.concatenate([self.template(), np.zeros(Task.PHASE_WORDS * len(phases), dtype=np.int64)])
        words[Task.RUNS], words[Task.RUN_COLUMNS] = address(residents.runs), residents.runs.shape[1]
        words[Task.ITEMS], words[Task.PARAMS] = len(residents.items), address(residents.params)
        if self.kind == Task.PAIRS or self.recheck:
            if id(residents) not in self._tables:
                self._tables[id(residents)] = residents.positions, np.ascontiguousarray(residents.runs[:, 0])
            table, lengths = self._tables[id(residents)]
            words[Task.TABLE], words[Task.TABLE_COLUMNS] = address(table), table.shape[1]
            words[Task.LENGTHS] = address(lengths)
            if self.kind == Task.PAIRS:
                words[Task.NEED] = int(lengths.max())
        longest = int(residents.runs[:, 0].max())
        words[Task.SLICE] = max(1, min(_SLICE_MAX, _SLICE_PAIRS // (longest * self.size)))
        words[Task.PHASES], words[Task.ABOUT] = len(phases), about
        flat = np.array(phases, dtype=np.int64).reshape(-1)
        words[Task.WORDS : Task.WORDS + len(flat)] = flat
        self.kept += [words, residents]
        return words


def _wide(table: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return a table of addresses with room behind it: whoever copies one copies 64 words."""
    wide = np.zeros(max(64, len(table)), dtype=np.int64)
    wide[: len(table)] = table
    return wide


def inquirers_of(plan: Plan, intakes: Sequence[Intake], indexes: Sequence[Index]) -> list[Inquirer]:
    """Return what prepares the inquiries of each of two units."""
    return [Inquirer(plan, unit, intakes[unit], indexes[1 - unit]) for unit in range(2)]
