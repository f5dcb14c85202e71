"""What a policy says: into how many parts the new tuples of a batch are divided, and the window that they search."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

__all__ = ["FirstWindow", "Policy"]


@dataclass(frozen=True)
class FirstWindow:
    """The window that new tuples search first."""

    scanned: int
    """Tuples in it that are compared one by one."""

    runs: int
    """Runs of arranged tuples, each of which is searched in about the time of a few comparisons."""


class Policy(ABC):
    """Who does which part of a search.

    Parameters
    ----------
    workers : int
        How many there are.
    """

    def __init__(self, workers: int) -> None:
        self.workers = workers

    @property
    def active(self) -> int:
        """How many workers have something to do."""
        return self.workers

    @abstractmethod
    def divide(self, unit: int, tuples: int, window: FirstWindow) -> tuple[int, int]:
        """Return into how many parts ``tuples`` new tuples of ``unit`` are divided, and the window they search."""

    def call_begins(self) -> None:  # noqa: B027
        """Note that a call of the join begins."""

    def call_ends(self) -> None:  # noqa: B027
        """Note that a call of the join is about to end."""
