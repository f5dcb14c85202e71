"""SplitJoin (Najafi, Sadoghi and Jacobsen, 2016): every tuple goes to all workers, and is stored by one of them.

Nothing is forwarded from worker to worker. The paper stores tuple by tuple, in turn; here a worker's part of the window
is a span of consecutive basic windows, as large as the others' but for one.

A handshake that must answer at once comes to the same: in the low-latency handshake join (Roy, Teubner and Gemulla,
2014) a tuple runs past all workers before it finds its place in the row.
"""

from __future__ import annotations

from crosswind.engine.parallel.policy import FirstWindow, Policy

__all__ = ["SplitPolicy"]


class SplitPolicy(Policy):
    """All workers see all new tuples, and each has a part of the window."""

    def divide(self, unit: int, tuples: int, window: FirstWindow) -> tuple[int, int]:  # noqa: ARG002
        """Divide the window alone."""
        return 1, self.workers
