"""The worker pool: each worker follows the whole probe tree, with some of the tuples and a part of the first window.

Windows belong to the caller; later windows are searched whole (CellJoin §7.1). How both are divided is what engines
differ in, and a :class:`~crosswind.engine.parallel.policy.Policy` says it: *cell* is
:mod:`crosswind.engine.parallel.cell`, *grid* :mod:`crosswind.engine.parallel.grid`, *split*, and a *handshake* with
results at once, :mod:`crosswind.engine.parallel.split`.

Parts are not fixed: a worker that is done steals portions that others have not begun. The caller is the first worker,
and what is too little to be worth waking anybody it does alone. Results that are many leave while the search goes on:
workers hand over what they have found, and the caller makes rows of it (CellJoin §4.3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from queue import Full, Queue

import numpy as np

from crosswind.engine.parallel.cell import LOOKED_AT, PORTION_MIN
from crosswind.engine.parallel.placement import pin
from crosswind.engine.parallel.policy import Policy
from crosswind.engine.probe.bounds import ReleaseBounds
from crosswind.engine.probe.tree import Findings, Masks, ProbeTree
from crosswind.engine.strategy import Combinations, Shift
from crosswind.window.block import Block

__all__ = ["ALONE", "WorkerPool"]

ALONE = 12_000_000
"""Comparisons that the caller makes faster than others and it get ready to share them."""

_PORTIONS = 8
"""Portions of the tuples of a batch that a worker takes, or about."""

_HANDED_OVER = 4
"""Times that a worker may hand over results before the caller has made rows of them."""

_LOOK_S = 0.1
"""How often a worker that waits for the caller looks whether the call was broken off."""

_WORTH_S = 0.002
"""Seconds of work that are worth sharing, whatever it is that takes so long."""


class WorkerPool:
    """Workers with a probe_tree each.

    Parameters
    ----------
    policy : Policy
        Says who does which part.
    findings : sequence of sequence of Findings
        By worker, where results are noted.
    """

    def __init__(self, policy: Policy, findings: Sequence[Sequence[Findings]]) -> None:
        self.policy = policy
        self.findings = findings
        self._alone = ALONE
        self._threads: ThreadPoolExecutor | None = None
        self._going: Sequence[ProbeTree] = ()
        self._done: list[tuple[float, int]] = [(0.0, 0)] * len(findings)
        self._found = [0] * len(findings)
        self._handed_over: Queue[Combinations | None] = Queue(_HANDED_OVER * len(findings))
        self.before_task: Callable[[], None] | None = None
        """Called by each worker before it does anything: for tests of scheduling."""

    def share_all(self) -> None:
        """Let workers share whatever comes, however little: what that costs is to be measured."""
        self._alone = 0

    def follow(
        self, probe_trees: Sequence[ProbeTree], block: Block, masks: Masks, release: ReleaseBounds
    ) -> Iterator[Combinations] | None:
        """Let workers follow the tuples of ``block``; yield results that are many. None: one worker should do it."""
        probe_trees[0].attune(block)
        rows, columns = self._shares(probe_trees[0], len(block))
        workers = probe_trees[: rows * columns]
        if len(workers) == 1 and self._alone:
            return None
        return self._follow(workers, rows, columns, block, masks, release)

    def _follow(
        self, workers: Sequence[ProbeTree], rows: int, columns: int, block: Block, masks: Masks, release: ReleaseBounds
    ) -> Iterator[Combinations]:
        for probe_tree in workers[1:]:
            probe_tree.attune(block)
        before = [self._found_by(k) for k in range(len(workers))]
        cursors = np.zeros((columns, len(masks)), dtype=np.int64)
        step = max(PORTION_MIN, -(-len(block) // (_PORTIONS * rows)))
        shares = workers[0].shares(columns)

        def work(worker: int) -> Iterator[int]:
            if self.before_task is not None:
                self.before_task()
            probe_tree = workers[worker]
            for other in range(columns):  # the own share first, then what others have not begun
                column = (worker + other) % columns
                probe_tree.take_share(shares[column])
                yield from probe_tree.follow_share(block, masks, release, cursors[column], step)

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
        for probe_tree in workers:
            probe_tree.take_share(whole)
        for task in tasks:
            task.result()
        workers[0].note_pace(sum(probe_tree.busy_s for probe_tree in workers), len(block))
        for k, probe_tree in enumerate(workers):
            probe_tree.settle(block)
            busy, done = self._done[k]
            self._done[k] = (busy + probe_tree.busy_s, done + 1)
            probe_tree.busy_s = 0.0
            self._found[k] += self._found_by(k) - before[k]

    def _found_by(self, worker: int) -> int:
        return sum(findings.total for findings in self.findings[worker])

    def _hand_over(self, worker: int, found: Combinations | None) -> None:
        """Give the caller what a worker has found (None: it has ended); wait while the caller lags behind."""
        while not self._going[worker].cancelled:
            with suppress(Full):
                self._handed_over.put(found, timeout=_LOOK_S)
                return

    def _shares(self, probe_tree: ProbeTree, tuples: int) -> tuple[int, int]:
        """Return into how many the tuples are divided, and the first window; (1, 1): one worker does it all."""
        window = probe_tree.first_window
        little = tuples * (window.scanned + LOOKED_AT * window.runs) < self._alone
        if little and tuples * probe_tree.pace_s < _WORTH_S:
            return 1, 1
        return self.policy.divide(probe_tree.unit, tuples, window)

    def _pool(self) -> ThreadPoolExecutor:
        if self._threads is None:
            numbers = count(1)
            self._threads = ThreadPoolExecutor(
                len(self.findings) - 1, "crosswind-worker", initializer=lambda: pin(next(numbers))
            )
        return self._threads

    def shifts(self) -> tuple[Shift, ...]:
        """Return what each active worker has done."""
        done = zip(self._done, self._found, strict=True)
        return tuple(Shift(busy, tasks, found) for (busy, tasks), found in done)[: self.policy.active]

    @property
    def alive(self) -> int:
        """How many threads there are."""
        return 0 if self._threads is None else len(self._threads._threads)

    def undo(self) -> None:
        """Wait until nobody is at work any more for a call that was broken off."""
        for probe_tree in self._going:
            probe_tree.cancelled = True
        self.end()

    def end(self) -> None:
        """End all workers; harmless if repeated."""
        if self._threads is not None:
            self._threads.shutdown()
            self._threads = None
