"""CellJoin: the coordinator owns the windows, workers scan parts of them (CellJoin §3.1, §4, §5, §7.3).

New tuples go to every worker, and the basic windows of the other stream are dealt out
in consecutive shares that pointers mark (:mod:`crosswind.engine.partition`). Matches
``<basic window, i, j>`` come back through two buffers a worker, so that the coordinator
makes rows of one while the worker fills the other.

Where we deviate: the paper's basic windows are all scanned, so to share them out is to
share the work. Runs that are arranged in cells are few and large, and a probe looks at a
few tuples of each: there the *probes* are shared out. Who is done with its share goes on
with what others have not begun, so that nobody waits for a core that is slower, or busy
with other things. The coordinator is the first of the workers. And what is too little
work to be worth waking anybody it does alone.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from crosswind.engine.inquiry import Inquiry, Phase, inquirers_of
from crosswind.engine.intake import Intake
from crosswind.engine.kang import Kang
from crosswind.engine.partition import Partition
from crosswind.engine.probe import Prober
from crosswind.engine.strategy import AtOnce, Matches, Numbers, RowMaker, Shift
from crosswind.engine.team import Team
from crosswind.engine.workers import Crew
from crosswind.plan.compile import Plan
from crosswind.window.block import Block
from crosswind.window.join_window import Residents
from crosswind.window.vector import address

__all__ = ["ALONE", "LOOKED_AT", "PORTIONS", "ROOM", "Cell", "Staff"]

ALONE = 12_000_000
"""Comparisons that the coordinator makes faster than others and it get ready to share them."""

LOOKED_AT = 2_048
"""Comparisons that could be made in the time that a probe needs for an arranged run, or about."""

PORTIONS = 8
"""A worker's share of the probes of arranged runs is cut into as many portions, so that others can take some."""

ROOM = 1 << 15
"""Matches in a buffer."""


class Cell(AtOnce):
    """Windows of the coordinator, scanned by workers.

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
    workers : int
        How many there are, or with ``adaptive`` at most.
    adaptive : bool
        Begin with one and let the load decide.
    """

    name = "cell"

    def __init__(
        self,
        plan: Plan,
        intakes: list[Intake],
        index: str,
        basic_window: int,
        numbered: bool,
        workers: int,
        adaptive: bool = False,
    ) -> None:
        scanned = index == "scan" or not all(access.dimensions for access in plan.accesses)
        self._own = Kang(plan, intakes, index, basic_window, numbered, uniform=scanned)
        self.windows, self.indexes = self._own.windows, self._own.indexes
        lanes = [[(worker, 0)] for worker in range(workers)]
        self._team = Team(lambda: Crew(self.name, workers, max(ROOM, basic_window), lanes))
        self._alone, self._scanned = ALONE, scanned
        self._staff = Staff(workers, adaptive)
        self._plan, self._intakes = plan, intakes
        self._derive()

    def _derive(self) -> None:
        """Make what is only derived from plan and windows."""
        self._inquirers = inquirers_of(self._plan, self._intakes, self.indexes)
        self._partitions = [Partition(self._staff.active) for _ in range(2)]

    def probe(self, unit: int, block: Block, numbers: Numbers | None) -> Iterator[Matches]:
        """Find the partners of new tuples of ``unit`` in the window of the other unit."""
        self._team.crew.check()
        residents = self.windows[1 - unit].residents()
        if not len(block) or not residents.items:
            return
        loose = np.flatnonzero(residents.runs[:, 5] == 0)
        work = len(block) * (int(residents.runs[loose, 0].sum()) + LOOKED_AT * (len(residents.items) - len(loose)))
        if work < self._alone:
            yield from self._own.probe(unit, block, numbers)
            return
        inquiry = self._inquirers[unit].ask(block, numbers, [residents])
        if inquiry is None:
            return
        tasks = self._deal(1 - unit, inquiry, residents, loose)
        lanes = [(worker, 1) for worker, task in enumerate(tasks) if task]
        self._team.crew.start(self._staff.active)
        yield from self._team.answer(unit, inquiry, tasks, lanes, [residents] * len(tasks))

    def prober(self, unit: int) -> Prober:
        """Return what the coordinator finds the partners of tuples of ``unit`` with."""
        return self._own.prober(unit)

    def is_little(self, unit: int, count: int) -> bool:
        """Whether so few tuples of ``unit`` are looked for that nobody is woken for them, at the first glance."""
        self._team.crew.check()
        return count * (len(self.windows[1 - unit]) if self._scanned else LOOKED_AT) < self._alone

    def _deal(self, unit: int, inquiry: Inquiry, residents: Residents, loose: npt.NDArray[np.int64]) -> list[int]:
        """Return a task for each active worker: its share of what is scanned, then others', and of probes elsewhere."""
        active = self._staff.active
        if len(self._partitions[unit].counts) != active:
            self._partitions[unit] = Partition(active)
        partition = self._partitions[unit]
        partition.resize(len(loose))
        arranged = _stretches(np.flatnonzero(residents.runs[:, 5] != 0))
        size = inquiry.size
        everyone = inquiry.probes(0, size, residents) if len(loose) else (0, 0)
        shares: list[list[Phase]] = []
        for worker in range(active):
            first, end = partition.share(worker)
            shares.append(_phases(inquiry, _stretches(loose[first:end]), everyone))
        searched = inquiry.portions(0, size, residents, PORTIONS * active) if arranged else []
        for k, portion in enumerate(searched):
            shares[k * active // len(searched)] += _phases(inquiry, arranged, portion)
        tasks = []
        for worker in range(active):
            phases = [phase for turn in range(active) for phase in shares[(worker + turn) % active]]
            tasks.append(address(inquiry.task(residents, phases)) if phases else 0)
        return tasks

    def share_all(self) -> None:
        """Let workers share whatever comes, however little: what that costs is to be measured."""
        self._alone = 0

    def make_rows(self, maker: RowMaker) -> None:
        """Let threads make rows beside the workers."""
        self._team.maker = maker

    def settle(self) -> None:
        """Arrange and merge what has been sealed."""
        self._own.settle()
        self._staff.review()

    def shifts(self) -> tuple[Shift, ...]:
        """Return what each worker has done so far."""
        return self._team.shifts()[: self._staff.active]

    def save(self) -> Any:
        """Note that a call has begun."""
        self._staff.entered()
        return self._own.save()

    def undo(self, saved: Any) -> None:
        """Be again what this was at :meth:`save`; workers that are still at it are replaced."""
        self._team.undo()
        self._own.undo(saved)
        self._derive()

    def check(self) -> None:
        """Raise WorkerError if the join cannot go on."""
        self._team.crew.check()

    @property
    def alive(self) -> int:
        """How many threads are running."""
        return self._team.crew.alive

    def end(self) -> None:
        """End the workers."""
        self._team.close()


class Staff:
    """How many workers are at work: as many as the load needs (CellJoin §7.3).

    The share of time that is spent in calls says how near the join is to its limit. Above
    :data:`BUSY` it gets a worker more; if it would stay below :data:`IDLE` with one less,
    one is released, and sleeps. It is looked at every :data:`REVIEW_S`, not at every call.
    """

    BUSY, IDLE, REVIEW_S = 0.75, 0.5, 0.25

    def __init__(self, most: int, adaptive: bool) -> None:
        self._most, self._adaptive = most, adaptive
        self.active = 1 if adaptive else most
        self._began = self._entered = time.perf_counter()
        self._spent = 0.0

    def entered(self) -> None:
        """Note that a call has begun."""
        self._entered = time.perf_counter()

    def review(self, now: float | None = None) -> None:
        """Note that a call is about to end, and adapt if it is time to."""
        now = time.perf_counter() if now is None else now
        self._spent += now - self._entered
        self._entered = now
        passed = now - self._began
        if not self._adaptive or passed < self.REVIEW_S:
            return
        load = self._spent / passed
        if load > self.BUSY and self.active < self._most:
            self.active += 1
        elif self.active > 1 and load * self.active / (self.active - 1) < self.IDLE:
            self.active -= 1
        self._began, self._spent = now, 0.0


def _phases(inquiry: Inquiry, stretches: list[tuple[int, int]], probes: tuple[int, int]) -> list[Phase]:
    """Return phases that look for ``probes`` in stretches of basic windows, each to be shared by all who have it."""
    return [(a, b, *probes, at) for (a, b), at in zip(stretches, inquiry.cursors(stretches), strict=True)]


def _stretches(numbers: npt.NDArray[np.int64]) -> list[tuple[int, int]]:
    """Return the stretches of consecutive numbers: first, and one past the last."""
    if not len(numbers):
        return []
    breaks = np.flatnonzero(np.diff(numbers) != 1) + 1
    return [(int(part[0]), int(part[-1]) + 1) for part in np.split(numbers, breaks)]
