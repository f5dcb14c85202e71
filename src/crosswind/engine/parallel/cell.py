"""CellJoin: shares of the window that pointers mark (§4.1.2), and as many workers as the load needs (§7.3).

Where a window is scanned, workers get consecutive basic windows of it, counted from the newest, and compare all new
tuples with them. Where it is arranged, a search costs about the same in a part of it as in all of it, so the new
tuples are divided instead.
"""

from __future__ import annotations

import time

from crosswind.engine.parallel.policy import FirstWindow, Policy

__all__ = ["LOOKED_AT", "PORTION_MIN", "CellPolicy", "Partition", "Staff"]

LOOKED_AT = 2_048
"""Comparisons that could be made in the time that a probe needs for an arranged run, or about."""

PORTION_MIN = 16
"""Tuples that are worth taking at a time."""


class CellPolicy(Policy):
    """Shares of the window, or of the new tuples, whichever is worth more.

    Parameters
    ----------
    workers : int
        How many there are at most.
    adaptive : bool
        Whether the load decides how many of them are active.
    """

    def __init__(self, workers: int, *, adaptive: bool) -> None:
        super().__init__(workers)
        self._staff = Staff(workers, adaptive)

    @property
    def active(self) -> int:
        """How many workers have something to do."""
        return self._staff.active

    def divide(self, unit: int, tuples: int, window: FirstWindow) -> tuple[int, int]:  # noqa: ARG002
        """Divide the window where it is scanned, or tuples are few, and the tuples where it is arranged."""
        by_window = window.scanned > LOOKED_AT * window.runs or tuples < PORTION_MIN * self.active
        return (1, self.active) if by_window else (self.active, 1)

    def call_begins(self) -> None:
        """Note that a call of the join begins."""
        self._staff.entered()

    def call_ends(self) -> None:
        """Let the load decide who is active."""
        self._staff.review()


class Partition:
    """Consecutive shares of ``total`` basic windows for ``workers`` workers.

    When a basic window is added or removed, one worker's share changes by one and the pointers on one side of it
    shift: O(N), however many basic windows there are.

    ``starts[j]`` is the first basic window of worker j, counted from the newest (0), and
    ``counts[j]`` how many it has: equation 2, so shares differ by at most one.
    """

    def __init__(self, workers: int) -> None:
        self.starts = [0] * workers
        self.counts = [0] * workers
        self.total = 0

    def add(self) -> int:
        """Take in a new basic window, before all others; return the worker that gets one more."""
        counts = self.counts
        marked = max(j for j in range(len(counts)) if j == 0 or counts[j - 1] > counts[j])
        counts[marked] += 1
        self.total += 1
        for j in range(marked + 1, len(counts)):  # what was there is one further from the newest now
            self.starts[j] += 1
        return marked

    def remove(self) -> int:
        """Let the oldest basic window go; return the worker that has one less."""
        counts = self.counts
        last = len(counts) - 1
        marked = min(j for j in range(len(counts)) if j == last or counts[j + 1] < counts[j])
        counts[marked] -= 1
        self.total -= 1
        for j in range(marked + 1, len(counts)):
            self.starts[j] -= 1
        return marked

    def resize(self, total: int) -> None:
        """Add or remove basic windows until there are ``total``."""
        while self.total < total:
            self.add()
        while self.total > total:
            self.remove()

    def share(self, worker: int) -> tuple[int, int]:
        """Return the share of a worker, counted from the oldest: first, and one past the last."""
        newest = self.total - self.starts[worker]
        return newest - self.counts[worker], newest


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
