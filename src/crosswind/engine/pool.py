"""The worker pool: who does which part of a search (CellJoin §4.1, §7.1, §7.3; DP-Join §III-C).

Windows belong to the caller. Of a batch each worker follows the whole probe tree, with some of the new tuples and a
part of the first window: later windows are searched whole (CellJoin §7.1). How both are divided is what the engines
differ in:

- *cell* (CellJoin): where the first window is scanned, it is cut into consecutive shares that pointers mark
  (:mod:`crosswind.engine.partition`), and every worker compares all new tuples with its share. Where it is arranged,
  a search costs about the same in a part of it as in all of it, so the new tuples are divided instead.
- *grid* (DP-Join): rows of workers divide the new tuples, columns the first window. That is the slice of the m x n
  layout (of the cube, with three streams) that one batch meets.
- *handshake*, hurried: every tuple passes all workers, each of which has a share of the window.

Shares are not fixed: a worker that is done steals portions that others have not begun. The caller is the first
worker, and what is too little to be worth waking anybody it does alone. Results that are many leave while the search
goes on: workers hand over what they have found, and the caller makes rows of it (CellJoin §4.3).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from queue import Full, Queue

import numpy as np

from crosswind.engine.journey import Findings, Journey, Masks
from crosswind.engine.spans import Turn
from crosswind.engine.strategy import Combinations, Shift
from crosswind.window.block import Block

__all__ = ["ALONE", "LOOKED_AT", "Staff", "WorkerPool"]

ALONE = 12_000_000
"""Comparisons that the caller makes faster than others and it get ready to share them."""

LOOKED_AT = 2_048
"""Comparisons that could be made in the time that a probe needs for an arranged run, or about."""

_PORTIONS = 8
"""Portions of the tuples of a batch that a worker takes, or about."""

_PORTION_MIN = 16

_HANDED_OVER = 4
"""Times that a worker may hand over results before the caller has made rows of them."""

_LOOK_S = 0.1
"""How often a worker that waits for the caller looks whether the call was broken off."""

_WORTH_S = 0.002
"""Seconds of work that are worth sharing, whatever it is that takes so long."""


class WorkerPool:
    """Workers with a journey each.

    Parameters
    ----------
    sides : tuple of int
        How many workers divide the tuples, and how many the first window; (0, n): n that do what suits the batch.
    findings : sequence of sequence of Findings
        By worker, where results are noted.
    adaptive : bool
        Whether the load decides how many workers are active.
    """

    def __init__(
        self, sides: tuple[int, int], findings: Sequence[Sequence[Findings]], *, adaptive: bool = False
    ) -> None:
        self._sides = sides
        self.findings = findings
        self.staff = Staff(len(findings), adaptive)
        self._alone = ALONE
        self._threads: ThreadPoolExecutor | None = None
        self._going: Sequence[Journey] = ()
        self._done: list[tuple[float, int]] = [(0.0, 0)] * len(findings)
        self._found = [0] * len(findings)
        self._handed_over: Queue[Combinations | None] = Queue(_HANDED_OVER * len(findings))
        self.before_task: Callable[[], None] | None = None
        """Called by each worker before it does anything: for tests of scheduling."""

    def share_all(self) -> None:
        """Let workers share whatever comes, however little: what that costs is to be measured."""
        self._alone = 0

    def follow(
        self, journeys: Sequence[Journey], block: Block, masks: Masks, turn: Turn
    ) -> Iterator[Combinations] | None:
        """Let workers follow the tuples of ``block``; yield results that are many. None: one worker should do it."""
        journeys[0].attune(block)
        rows, columns = self._shares(journeys[0], len(block))
        workers = journeys[: rows * columns]
        if len(workers) == 1 and self._alone:
            return None
        return self._follow(workers, rows, columns, block, masks, turn)

    def _follow(
        self, workers: Sequence[Journey], rows: int, columns: int, block: Block, masks: Masks, turn: Turn
    ) -> Iterator[Combinations]:
        for journey in workers[1:]:
            journey.attune(block)
        before = [self._found_by(k) for k in range(len(workers))]
        cursors = np.zeros((columns, len(masks)), dtype=np.int64)
        step = max(_PORTION_MIN, -(-len(block) // (_PORTIONS * rows)))
        shares = workers[0].shares(columns)

        def work(worker: int) -> Iterator[int]:
            if self.before_task is not None:
                self.before_task()
            journey = workers[worker]
            for other in range(columns):  # the own share first, then what others have not begun
                column = (worker + other) % columns
                journey.take_share(shares[column])
                yield from journey.follow_share(block, masks, turn, cursors[column], step)

        def serve(worker: int) -> None:
            try:
                for query in work(worker):
                    self._hand_over(worker, Combinations(query, *self.findings[worker][query].hand_over()))
            finally:
                self._hand_over(worker, None)

        self._handed_over = Queue(self._handed_over.maxsize)
        self._going = workers
        tasks: list[Future[None]] = [self._pool().submit(serve, k) for k in range(1, len(workers))]
        for query in work(0):
            yield Combinations(query, *self.findings[0][query].take())
        for _ in tasks:
            while (found := self._handed_over.get()) is not None:
                yield found
        (whole,) = workers[0].shares(1)
        for journey in workers:
            journey.take_share(whole)
        for task in tasks:
            task.result()
        workers[0].note_pace(sum(journey.busy_s for journey in workers), len(block))
        for k, journey in enumerate(workers):
            journey.settle(block)
            busy, done = self._done[k]
            self._done[k] = (busy + journey.busy_s, done + 1)
            journey.busy_s = 0.0
            self._found[k] += self._found_by(k) - before[k]

    def _found_by(self, worker: int) -> int:
        return sum(findings.total for findings in self.findings[worker])

    def _hand_over(self, worker: int, found: Combinations | None) -> None:
        """Give the caller what a worker has found (None: it has ended); wait while the caller lags behind."""
        while not self._going[worker].cancelled:
            with suppress(Full):
                self._handed_over.put(found, timeout=_LOOK_S)
                return

    def _shares(self, journey: Journey, tuples: int) -> tuple[int, int]:
        """Return into how many the tuples are divided, and the first window; (1, 1): one worker does it all."""
        rows, columns = self._sides
        scanned, arranged = journey.first_windows
        little = tuples * (scanned + LOOKED_AT * arranged) < self._alone
        if little and tuples * journey.pace_s < _WORTH_S:
            return 1, 1
        if rows:
            return rows, columns
        active = self.staff.active
        by_window = scanned > LOOKED_AT * arranged or tuples < _PORTION_MIN * active
        return (1, active) if by_window else (active, 1)

    def _pool(self) -> ThreadPoolExecutor:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(len(self.findings) - 1, "crosswind-worker")
        return self._threads

    def shifts(self) -> tuple[Shift, ...]:
        """Return what each active worker has done."""
        done = zip(self._done, self._found, strict=True)
        return tuple(Shift(busy, tasks, found) for (busy, tasks), found in done)[: self.staff.active]

    @property
    def alive(self) -> int:
        """How many threads there are."""
        return 0 if self._threads is None else len(self._threads._threads)

    def undo(self) -> None:
        """Wait until nobody is at work any more for a call that was broken off."""
        for journey in self._going:
            journey.cancelled = True
        self.end()

    def end(self) -> None:
        """End all workers; harmless if repeated."""
        if self._threads is not None:
            self._threads.shutdown()
            self._threads = None


class Staff:
    """How many workers are active: as many as the load needs (CellJoin §7.3).

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
