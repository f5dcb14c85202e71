"""What every engine offers: windows, and a way to join a block of new tuples with them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from crosswind.engine.probe.index import Index
from crosswind.window.arrival import Release
from crosswind.window.block import Block
from crosswind.window.join_window import Resident, Residents

if TYPE_CHECKING:
    from crosswind.engine.output.rows import Place

__all__ = ["AtOnce", "Combinations", "DeferredMatches", "Matches", "PairFaultError", "Shift", "Strategy", "Window"]


@dataclass(slots=True)
class Combinations:
    """Complete results of query number ``query``: where their members are, and how many they are."""

    query: int
    parts: Sequence[Mapping[int, Place]]
    count: int


@dataclass(slots=True, eq=False)
class Matches:
    """Pairs found: tuple ``rows[k]`` of resident ``which[k]`` with tuple ``probes[k]`` of the block."""

    residents: Residents
    which: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]
    probes: npt.NDArray[np.int64]
    at: tuple[int, ...] = ()
    """Where ``which`` and ``rows`` are, if that is known."""

    def __len__(self) -> int:
        return len(self.rows)

    def copy(self) -> Matches:
        """Return these matches, for longer than the memory they were found in lasts."""
        return Matches(self.residents, self.which.copy(), self.rows.copy(), self.probes.copy())


@dataclass(frozen=True, eq=False)
class DeferredMatches:
    """Matches of a block that was taken earlier, or is only now let meet its partners."""

    unit: int
    block: Block
    matches: Matches


@dataclass(frozen=True)
class Shift:
    """What a worker has done: seconds in tasks, tasks, and matches found."""

    busy_s: float
    tasks: int
    matches: int


class PairFaultError(Exception):
    """A kernel met an overflow; the join turns it into the user's error.

    Parameters
    ----------
    window : Resident
        The basic window that was looked at.
    row : int
        The tuple in it.
    unit : int
        Whose window that is.
    probe : int
        The new tuple that led there (-1: it cannot be told).
    others : int
        How many tuples it had met before.
    terms : tuple of int
        Whose condition it was.
    """

    def __init__(
        self, window: Resident, row: int, unit: int, probe: int = -1, others: int = 0, terms: tuple[int, ...] = ()
    ) -> None:
        super().__init__()
        self.window, self.row, self.unit = window, row, unit
        self.probe, self.others, self.terms = probe, others, terms


_READ_STILL: list[Any] = []
"""Windows of closed joins with a worker that would not end: they are kept as long as the process runs."""


class Window(Protocol):
    """Where the tuples of a unit wait, in one piece or in several."""

    @property
    def nbytes(self) -> int:
        """Bytes held."""

    def __len__(self) -> int: ...

    def expire(self, oldest_time: int | None, oldest_number: int | None) -> int:
        """Let go of what lies wholly before both limits."""

    def mark(self) -> Any:
        """Return the window as it is, for :meth:`cut`."""

    def cut(self, mark: Any) -> None:
        """Be again what the window was at ``mark``; harmless if repeated."""

    def blocks(self) -> list[Block]:
        """Return the tuples."""

    def arrange(self) -> None:
        """Arrange at once what was left as it came."""


class AtOnce:
    """What is the same in all strategies: by default nothing comes late, and nobody helps."""

    windows: Sequence[Any]

    def insert(self, unit: int, block: Block) -> None:
        """Let new tuples of ``unit`` wait in its window."""
        self.windows[unit].append(block)

    def collect(self) -> Iterable[DeferredMatches]:
        """Return nothing."""
        return ()

    def drain(self) -> Iterator[DeferredMatches]:
        """Yield nothing."""
        yield from ()

    def restore(self, unit: int, block: Block) -> None:
        """Let tuples of ``unit`` wait that have met all others that do."""
        self.insert(unit, block)

    def settle(self) -> None:
        """Arrange and merge what has been sealed."""
        for window in self.windows:
            window.settle()

    def save(self) -> Any:
        """Note that a call has begun; return what :meth:`undo` needs."""
        return [window.mark() for window in self.windows]

    def undo(self, saved: Any) -> None:
        """Be again what this was at :meth:`save`; harmless if repeated, or broken off and repeated.

        Whatever is only derived from the windows is made anew: nobody knows in which state it was left.
        """
        for window, mark in zip(self.windows, saved, strict=True):
            window.cut(mark)

    def check(self) -> None:
        """Raise WorkerError if the join cannot go on."""

    @property
    def alive(self) -> int:
        """How many threads of its own are running."""
        return 0

    def shifts(self) -> tuple[Shift, ...]:
        """Return what workers have done: there are none but the caller."""
        return ()

    def end(self) -> None:
        """End all workers."""

    def close(self) -> None:
        """End all workers and release the windows."""
        self.end()
        if self.alive:
            _READ_STILL.append(self.windows)
            return
        for window in self.windows:
            window.clear()


class Strategy(Protocol):
    """One way to spread the work of a join over workers."""

    name: str

    @property
    def indexes(self) -> list[Index]:
        """The index of the window of each unit."""

    @property
    def windows(self) -> Sequence[Window]:
        """The window of each unit."""

    def combine(self, unit: int, block: Block, released: list[Release | None] | None) -> Iterable[Combinations]:
        """Find the combinations that new tuples of ``unit`` complete; those that are many are yielded at once.

        ``released`` is what is being joined in the order (only if there are ROWS windows).
        """

    def complete(self, queries: Iterable[int]) -> Iterator[Combinations]:
        """Yield the combinations of ``queries`` that were found and have not been yielded."""

    def ways(self) -> dict[str, str]:
        """Return, by alias, the join orders of its tuples, where there is a choice."""

    def insert(self, unit: int, block: Block) -> None:
        """Let new tuples of ``unit`` wait in its window."""

    def collect(self) -> Iterable[DeferredMatches]:
        """Return what has been found meanwhile for tuples that are not met at once."""

    def drain(self) -> Iterator[DeferredMatches]:
        """Let all tuples that wait meet now, and yield what is found: nothing is owed afterwards."""

    def restore(self, unit: int, block: Block) -> None:
        """Let tuples of ``unit`` wait that have met all others that do."""

    def settle(self) -> None:
        """Arrange and merge what has been sealed."""

    def save(self) -> Any:
        """Note that a call of the join has begun; return what :meth:`undo` needs."""

    def undo(self, saved: Any) -> None:
        """Be again what this was at :meth:`save`; harmless if repeated."""

    def check(self) -> None:
        """Raise WorkerError if the join cannot go on."""

    def shifts(self) -> tuple[Shift, ...]:
        """Return what each worker has done so far."""

    def end(self) -> None:
        """End all workers; windows stay."""

    def close(self) -> None:
        """End all workers and release the windows; harmless if repeated."""
