"""What every engine offers: windows, and a way to join a block of new tuples with them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from crosswind.engine.index import Index
from crosswind.window.block import Block
from crosswind.window.join_window import Resident, Residents

if TYPE_CHECKING:
    from crosswind.engine.probe import Prober

__all__ = ["AtOnce", "Late", "Matches", "Numbers", "PairFaultError", "RowMaker", "Shift", "Strategy"]


@dataclass(frozen=True)
class Numbers:
    """Which sequence numbers of the other window each probe may meet (ROWS windows)."""

    low: npt.NDArray[np.int64]
    high: npt.NDArray[np.int64]


@dataclass(slots=True, eq=False)
class Matches:
    """Pairs found: tuple ``rows[k]`` of resident ``which[k]`` with tuple ``probes[k]`` of the block."""

    residents: Residents
    which: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]
    probes: npt.NDArray[np.int64]
    table: Any = None
    """Their rows, where whoever found them has made them already."""
    at: tuple[int, ...] = ()
    """Where ``which`` and ``rows`` are, if that is known."""

    def __len__(self) -> int:
        return len(self.rows)

    def copy(self) -> Matches:
        """Return these matches, for longer than the memory they were found in lasts."""
        return Matches(self.residents, self.which.copy(), self.rows.copy(), self.probes.copy())


@dataclass(frozen=True, eq=False)
class Late:
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
    """A kernel met an overflow at this pair; the session turns it into the user's error."""

    def __init__(self, window: Resident, row: int, probe: int) -> None:
        super().__init__()
        self.window = window
        self.row = row
        self.probe = probe
        self.terms: tuple[int, ...] = ()


_READ_STILL: list[Any] = []
"""Windows of closed joins with a worker that would not end: they are kept as long as the process runs."""

RowMaker = Callable[[int, Block, Matches], Any]
"""Makes the rows of matches, given the probing unit and its block."""


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
    """What is the same in all strategies that meet tuples at once: nothing comes late, and by default nobody helps."""

    windows: Sequence[Any]

    def make_rows(self, maker: RowMaker) -> None:
        """Let results be made where that can go on beside the search."""

    def prober(self, unit: int) -> Prober | None:  # noqa: ARG002
        """Return what finds the partners of few tuples of ``unit`` without anybody's help: nothing does."""
        return None

    def is_little(self, unit: int, count: int) -> bool:  # noqa: ARG002
        """Whether the partners of ``count`` tuples are best looked for alone."""
        return False

    def insert(self, unit: int, block: Block) -> None:
        """Let new tuples of ``unit`` wait in its window."""
        self.windows[unit].append(block)

    def collect(self) -> Iterable[Late]:
        """Return nothing."""
        return ()

    def drain(self) -> Iterator[Late]:
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
    indexes: list[Index]

    @property
    def windows(self) -> Sequence[Window]:
        """The window of each unit."""

    def probe(self, unit: int, block: Block, numbers: Numbers | None) -> Iterator[Matches]:
        """Find the partners of new tuples of ``unit`` in the window of the other unit."""

    def prober(self, unit: int) -> Prober | None:
        """Return what finds the partners of few tuples of ``unit`` without anybody's help, if that can be done."""

    def is_little(self, unit: int, count: int) -> bool:
        """Whether the partners of ``count`` tuples of ``unit`` are best looked for alone."""

    def make_rows(self, maker: RowMaker) -> None:
        """Let results be made where that can go on beside the search."""

    def insert(self, unit: int, block: Block) -> None:
        """Let new tuples of ``unit`` wait in its window."""

    def collect(self) -> Iterable[Late]:
        """Return what has been found meanwhile for tuples that are not met at once."""

    def drain(self) -> Iterator[Late]:
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
