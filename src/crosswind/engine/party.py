"""Workers that go the ways of new tuples side by side: CellJoin §7.1, DP-Join for more than two streams.

Windows belong to the caller. Of a batch each worker goes the whole way, but either with some of the tuples, or, where
these are few, with a share of the first window on the way: later windows are searched whole (CellJoin §7.1). A *grid*
does both: its rows divide the tuples and its columns the first window, which is the slice of DP-Join's cube that one
batch meets. Which tuples a worker takes is not fixed: who is done takes more.

The caller is the first worker, and what is too little to be worth waking anybody it does alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait

import numpy as np

from crosswind.engine import cell
from crosswind.engine.journey import Findings, Journey, Masks
from crosswind.engine.spans import Turn
from crosswind.engine.strategy import Shift
from crosswind.window.block import Block

__all__ = ["Party"]

_PORTIONS = 8
"""Portions of the tuples of a batch that a worker takes, or about."""

_PORTION_MIN = 16

_WORTH_S = 0.002
"""Seconds of work that are worth sharing, whatever it is that takes so long."""


class Party:
    """Workers with a journey each.

    Parameters
    ----------
    sides : tuple of int
        How many divide the tuples, and how many the first window; (0, n): n that do what suits the batch.
    findings : sequence of sequence of Findings
        By worker, where results are noted.
    """

    def __init__(self, sides: tuple[int, int], findings: Sequence[Sequence[Findings]]) -> None:
        self._sides = sides
        self.findings = findings
        self._alone = cell.ALONE
        self._pool: ThreadPoolExecutor | None = None
        self._going: Sequence[Journey] = ()
        self._done: list[tuple[float, int]] = [(0.0, 0)] * len(findings)
        self._found = [0] * len(findings)

    def follow(self, journeys: Sequence[Journey], block: Block, masks: Masks, turn: Turn) -> bool:
        """Let all go, if there is enough to do; False: there is not, and nothing has been done."""
        journeys[0].attune(block)
        rows, columns = self._shares(journeys[0], len(block))
        if rows * columns == 1:
            return False
        for journey in journeys[1:]:
            journey.attune(block)
        before = [sum(f.count for f in findings) for findings in self.findings]
        cursors = np.zeros((columns, len(masks)), dtype=np.int64)
        step = max(_PORTION_MIN, -(-len(block) // (_PORTIONS * rows)))
        tasks: list[Future[None]] = []
        self._going = journeys
        for k, journey in enumerate(journeys):
            journey.take_share(k % columns, columns)
            if k:
                shared = cursors[k % columns]
                tasks.append(self._threads().submit(journey.follow_share, block, masks, turn, shared, step))
        journeys[0].follow_share(block, masks, turn, cursors[0], step)
        wait(tasks)
        for journey in journeys:
            journey.take_share(0, 1)
        for task in tasks:
            task.result()
        journeys[0].note_pace(sum(journey.busy_s for journey in journeys), len(block))
        for k, journey in enumerate(journeys):
            journey.settle(block)
            busy, done = self._done[k]
            self._done[k] = (busy + journey.busy_s, done + journey.tasks)
            journey.busy_s, journey.tasks = 0.0, 0
            self._found[k] += sum(f.count for f in self.findings[k]) - before[k]
        return True

    def _shares(self, journey: Journey, tuples: int) -> tuple[int, int]:
        """Return into how many the tuples are divided, and the first window; (1, 1): one does it all."""
        rows, columns = self._sides
        scanned, arranged = journey.first_windows
        little = tuples * (scanned + cell.LOOKED_AT * arranged) < self._alone
        if little and tuples * journey.pace_s < _WORTH_S:
            return 1, 1
        if rows:
            return rows, columns
        return (columns, 1) if tuples >= _PORTION_MIN * columns else (1, columns)

    def _threads(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(len(self.findings) - 1, "crosswind-party")
        return self._pool

    def shifts(self) -> tuple[Shift, ...]:
        """Return what each worker has done."""
        return tuple(Shift(busy, done, found) for (busy, done), found in zip(self._done, self._found, strict=True))

    def undo(self) -> None:
        """Wait until nobody is at work any more for a call that was broken off."""
        for journey in self._going:
            journey.cancelled = True
        self.end()

    def end(self) -> None:
        """End all workers; harmless if repeated."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None
