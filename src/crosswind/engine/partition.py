"""Who scans which basic windows: CellJoin's partition by shifting pointers (§4.1.2).

Workers get consecutive basic windows, counted from the newest. When one is added or
removed, one worker's share changes by one and the pointers on one side of it shift:
O(N), however many basic windows there are.
"""

from __future__ import annotations

__all__ = ["Partition"]


class Partition:
    """Consecutive shares of ``total`` basic windows for ``workers`` workers.

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
