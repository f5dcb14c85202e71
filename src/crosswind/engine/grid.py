"""DP-Join: m x n workers, both windows in segments, rows and columns share them (DP-Join §III-C, §III-D).

The window of the first stream is partitioned among the rows, that of the second among
the columns. A new tuple of the first stream belongs to one row, round robin; its notice
is sent to the first worker of that row, which hands it on to its neighbour before it
compares the tuple with the segment of its own column. So every pair meets in the one
worker where its row and its column cross. Segments are shared, not copied, by all of a
row or column, and released lazily (:mod:`crosswind.engine.segments`).

Where we deviate: the caller, who has the tuples as Arrow columns, appends them to the
segment, not the row's first worker; and a call returns when its tuples have met
everybody, so that it can be taken back if one of the pairs fails.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from crosswind.engine.cell import ALONE, LOOKED_AT, PORTIONS, ROOM
from crosswind.engine.index import Index
from crosswind.engine.inquiry import Inquiry, inquirers_of
from crosswind.engine.intake import Intake
from crosswind.engine.probe import Prober
from crosswind.engine.segments import SegmentedWindow
from crosswind.engine.strategy import AtOnce, Matches, Numbers, RowMaker, Shift
from crosswind.engine.team import Team
from crosswind.engine.workers import Crew
from crosswind.plan.compile import Plan
from crosswind.window.block import Block
from crosswind.window.join_window import JoinWindow, Residents
from crosswind.window.vector import address

__all__ = ["Deal", "Grid"]


class Deal(NamedTuple):
    """Who looks where for tuples ``start`` to ``stop``: a worker, in a segment of the other window."""

    worker: int
    segment: int
    start: int
    stop: int


class Grid(AtOnce):
    """Rows and columns of workers.

    Parameters
    ----------
    plan : Plan
        Two units, one query.
    intakes : list of Intake
        One a unit.
    index : str
        ``auto``, ``scan``, ``band`` or ``hash``.
    basic_window : int
        Tuples in a basic window when it is sealed.
    numbered : bool
        Whether tuples carry sequence numbers.
    layout : tuple of int
        Rows and columns.
    """

    name = "grid"

    def __init__(
        self,
        plan: Plan,
        intakes: list[Intake],
        index: str,
        basic_window: int,
        numbered: bool,
        layout: tuple[int, int],
    ) -> None:
        self.layout = layout
        self.indexes = [Index(access.dimensions, index) for access in plan.accesses]
        scanned = index == "scan" or not all(access.dimensions for access in plan.accesses)
        self.windows = tuple(
            SegmentedWindow(
                [
                    JoinWindow(
                        tuple(intake.layouts[: intake.stored]),
                        basic_window,
                        tuple(range(intake.keys)),
                        numbered,
                        own if access.dimensions else None,
                        scanned,
                    )
                    for _ in range(segments)
                ]
            )
            for intake, own, access, segments in zip(intakes, self.indexes, plan.accesses, layout, strict=True)
        )
        self._plan, self._intakes = plan, intakes
        self._inquirers = inquirers_of(plan, intakes, self.indexes)
        self._team = Team(lambda: Crew(self.name, self._workers, max(ROOM, basic_window), self._lanes()))
        self._alone, self._scanned = ALONE, scanned

    # -- who stands where ------------------------------------------------------

    @property
    def _workers(self) -> int:
        return self.layout[0] * self.layout[1]

    def _worker(self, row: int, column: int) -> int:
        return row * self.layout[1] + column

    def _lanes(self) -> list[list[tuple[int, int]]]:
        """Return the ways of notices: along the rows, then along the columns."""
        m, n = self.layout
        rows = [[(self._worker(row, column), 0) for column in range(n)] for row in range(m)]
        return rows + [[(self._worker(row, column), 1) for row in range(m)] for column in range(n)]

    def _deal(self, unit: int, size: int) -> list[Deal]:
        """Return who looks for which of ``size`` new tuples: those who share the segment they will wait in."""
        return [
            Deal(worker, segment, part.start, part.stop)
            for part in self.windows[unit].parts(size)
            for segment, worker in enumerate(self._sharers(unit, part.segment))
        ]

    def _ways(self, unit: int, size: int) -> list[tuple[int, int]]:
        """Return the lanes of new tuples, and how many workers are in each."""
        return [self._way_to(unit, part.segment) for part in self.windows[unit].parts(size)]

    def _way_to(self, unit: int, segment: int) -> tuple[int, int]:
        """Return the lane of those who share a segment, and how many they are."""
        return (segment, self.layout[1]) if unit == 0 else (self.layout[0] + segment, self.layout[0])

    def _sharers(self, unit: int, segment: int) -> list[int]:
        """Return the workers that share a segment."""
        if unit == 0:
            return [self._worker(segment, column) for column in range(self.layout[1])]
        return [self._worker(row, segment) for row in range(self.layout[0])]

    def probe(self, unit: int, block: Block, numbers: Numbers | None) -> Iterator[Matches]:
        """Find the partners of new tuples of ``unit`` in the segments of the other unit."""
        self._team.crew.check()
        other = self.windows[1 - unit]
        residents = [segment.residents() for segment in other.segments]
        filled = [some for some in residents if some.items]
        if not len(block) or not filled:
            return
        if len(block) * sum(_work(some) for some in filled) < self._alone:
            for some in filled:
                yield from self._inquirers[unit].find(block, numbers, some)
            return
        inquiry = self._inquirers[unit].ask(block, numbers, filled)
        if inquiry is None:
            return
        tasks = [0] * self._workers
        looked_in = [residents[0]] * self._workers
        dealt = []
        for deal in self._deal(unit, len(block)):
            looked_in[deal.worker] = residents[deal.segment]
            task = _task(inquiry, deal, residents[deal.segment])
            if task is not None:
                tasks[deal.worker] = address(task)
                dealt.append(task)
        inquiry.ring(dealt)
        self._team.crew.start(self._workers)
        seen = (1 - unit, other.generation)
        yield from self._team.answer(unit, inquiry, tasks, self._ways(unit, len(block)), looked_in, seen)

    def prober(self, unit: int) -> Prober:
        """Return what the caller finds the partners of tuples of ``unit`` with, segment by segment."""
        return self._inquirers[unit]

    def is_little(self, unit: int, count: int) -> bool:
        """Whether so few tuples of ``unit`` are looked for that nobody is woken for them, at the first glance."""
        self._team.crew.check()
        return count * (len(self.windows[1 - unit]) if self._scanned else LOOKED_AT) < self._alone

    def share_all(self) -> None:
        """Let workers share whatever comes, however little: what that costs is to be measured."""
        self._alone = 0

    def make_rows(self, maker: RowMaker) -> None:
        """Let threads make rows beside the workers."""
        self._team.maker = maker

    def settle(self) -> None:
        """Release what all sharers have seen the end of, then arrange and merge what has been sealed."""
        crew = self._team.crew
        for unit, window in enumerate(self.windows):
            due = [segment for segment in range(len(window.segments)) if window.is_due(segment)]
            for segment in due:
                sharers = self._sharers(unit, segment)
                least = min(crew.seen(worker, unit) for worker in sharers) if crew.alive else window.generation
                if least < window.generation:
                    self._team.tell([self._way_to(unit, segment)], (unit, window.generation))
                    least = min(crew.seen(worker, unit) for worker in sharers)
                window.release(segment, least)
            window.settle()

    def undo(self, saved: Any) -> None:
        """Be again what this was at :meth:`save`; workers that are still at it are replaced."""
        self._team.undo()
        super().undo(saved)
        self._inquirers = inquirers_of(self._plan, self._intakes, self.indexes)

    def check(self) -> None:
        """Raise WorkerError if the join cannot go on."""
        self._team.crew.check()

    @property
    def alive(self) -> int:
        """How many threads are running."""
        return self._team.crew.alive

    def shifts(self) -> tuple[Shift, ...]:
        """Return what each worker has done so far."""
        return self._team.shifts()

    def end(self) -> None:
        """End the workers."""
        self._team.close()


def _work(residents: Residents) -> int:
    """Return about how many comparisons a probe makes there."""
    loose = residents.runs[:, 5] == 0
    return int(residents.runs[loose, 0].sum()) + LOOKED_AT * int((~loose).sum())


def _task(inquiry: Inquiry, deal: Deal, residents: Residents) -> npt.NDArray[np.int64] | None:
    """Return the task of a worker, of which others may take a part; None: there is nothing to do."""
    if not residents.items:
        return None
    everything = (0, len(residents.items))
    portions = inquiry.portions(deal.start, deal.stop, residents, PORTIONS if residents.runs[:, 5].any() else 1)
    cursors = inquiry.cursors([everything] * len(portions))
    phases = [(*everything, *probes, cursor) for probes, cursor in zip(portions, cursors, strict=True)]
    return inquiry.task(residents, phases, deal.worker) if phases else None
