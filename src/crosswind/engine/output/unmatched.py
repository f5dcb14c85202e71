"""What did not match: tuples of a preserved stream, until their windows have closed for good.

LEFT, RIGHT and FULL OUTER joins and anti joins give out tuples that found no partner. That is
known when no future tuple can meet them any more. Until then they wait here, each with a
serial number that its copy in the window carries too, by which a match is noted.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from crosswind.window.block import Block, concat_blocks

__all__ = ["Unmatched", "UnmatchedMark"]

_Ints = npt.NDArray[np.int64]
_SHELF = 4096
"""Tuples that are kept together, and forgotten together."""

_MATCHED, _GONE = 1, 2


@dataclass(eq=False)
class _Shelf:
    """Some tuples with serial numbers from ``first`` on, and what became of each."""

    first: int
    blocks: list[Block] = field(default_factory=list)
    length: int = 0
    time_min: int = np.iinfo(np.int64).max
    state: npt.NDArray[np.uint8] = field(default_factory=lambda: np.zeros(_SHELF, dtype=np.uint8))

    def append(self, block: Block) -> None:
        if self.length + len(block) > len(self.state):
            grown = np.zeros(max(2 * len(self.state), self.length + len(block)), dtype=np.uint8)
            grown[: self.length] = self.state[: self.length]
            self.state = grown
        self.blocks.append(
            Block(block.times, block.columns, block.numbers, block.keep)
        )  # no tuples read where they lie
        self.length += len(block)
        self.time_min = min(self.time_min, int(block.times.min()))

    def whole(self) -> Block:
        if len(self.blocks) > 1:
            self.blocks = [concat_blocks(self.blocks)]
        return self.blocks[0]

    @property
    def is_over(self) -> bool:
        return bool((self.state[: self.length] & _GONE).all())

    def mark(self) -> _ShelfMark:
        return self.blocks, len(self.blocks), self.length, self.time_min, self.state

    def cut(self, mark: _ShelfMark) -> None:
        self.blocks, count, self.length, self.time_min, self.state = mark
        del self.blocks[count:]
        self.state[self.length :] = 0


_ShelfMark = tuple[list[Block], int, int, int, npt.NDArray[np.uint8]]
_Changes = list[tuple[_Shelf, _Ints, int]]


class UnmatchedMark(NamedTuple):
    """The tuples of a unit as they were when a call began, and the flags that were set since."""

    serial: int
    shelves: list[_Shelf]
    last: _ShelfMark | None
    changes: _Changes


class Unmatched:
    """The tuples of one unit whose windows have not closed.

    Parameters
    ----------
    column : int
        Where tuples carry their serial numbers.
    """

    def __init__(self, column: int) -> None:
        self.column = column
        self.serial = 0
        self._shelves: list[_Shelf] = []
        self._changes: _Changes = []

    def note(self, block: Block) -> Block:
        """Let the tuples of ``block`` wait here; return them with their serial numbers."""
        numbers = self.serial + np.arange(len(block), dtype=np.int64)
        made = block.with_column(self.column, numbers)
        self._keep(made, self.serial)
        self.serial += len(block)
        return made

    def refill(self, block: Block, serial: int) -> Block:
        """Let tuples wait again that had serial numbers from ``serial`` on; return them with these."""
        self.serial = serial
        return self.note(block)

    def matched(self, first: int, count: int) -> npt.NDArray[np.bool_]:
        """Return which of ``count`` tuples, from serial number ``first`` on, have found a partner, or are forgotten."""
        found = np.ones(count, dtype=np.bool_)
        for shelf in self._shelves:
            low, high = max(first, shelf.first), min(first + count, shelf.first + shelf.length)
            if low < high:
                state = shelf.state[low - shelf.first : high - shelf.first]
                found[low - first : high - first] = (state & _MATCHED) != 0
        return found

    def set_matched(self, first: int, flags: npt.NDArray[np.bool_]) -> None:
        """Note which tuples from serial number ``first`` on have found a partner, as :meth:`matched` tells it."""
        for shelf in self._shelves:
            low, high = max(first, shelf.first), min(first + len(flags), shelf.first + shelf.length)
            if low < high:
                rows = np.arange(low - shelf.first, high - shelf.first)[flags[low - first : high - first]]
                self._set(shelf, rows[(shelf.state[rows] & _MATCHED) == 0], _MATCHED)

    def _keep(self, block: Block, first: int) -> None:
        last = self._shelves[-1] if self._shelves else None
        if last is None or last.length >= _SHELF or last.first + last.length != first:
            last = _Shelf(first)
            self._shelves = [*self._shelves, last]
        last.append(block)

    def meet(self, serials: _Ints) -> _Ints:
        """Note that these tuples found a partner; return the places of those that had none before, each once."""
        fresh: list[_Ints] = []
        firsts = np.array([shelf.first for shelf in self._shelves], dtype=np.int64)
        which = np.searchsorted(firsts, serials, side="right") - 1
        for number in np.unique(which):
            shelf = self._shelves[number]
            places = np.flatnonzero(which == number)
            rows, where = np.unique(serials[places] - shelf.first, return_index=True)
            new = (shelf.state[rows] & _MATCHED) == 0
            self._set(shelf, rows[new], _MATCHED)
            fresh.append(places[where[new]])
        return np.sort(np.concatenate(fresh)) if fresh else np.empty(0, dtype=np.int64)

    def _set(self, shelf: _Shelf, rows: _Ints, flag: int) -> None:
        """Set a flag that none of these has."""
        if len(rows):
            self._changes.append((shelf, rows, flag))  # first: what is noted can be taken back, done or not
            shelf.state[rows] |= np.uint8(flag)

    def close(self, oldest_time: int | None, oldest_number: int | None) -> list[Block]:
        """Return the tuples whose windows have closed without a match, and forget them.

        Closed are those before ``oldest_time`` and ``oldest_number`` (None: that does not matter).
        """
        closed = []
        for shelf in self._shelves:
            if oldest_time is not None and shelf.time_min >= oldest_time:
                continue
            block = shelf.whole()
            state = shelf.state[: shelf.length]
            over = (state & _GONE) == 0
            if oldest_time is not None:
                over &= block.times < oldest_time
            if oldest_number is not None and block.numbers is not None:
                over &= block.numbers < oldest_number
            rows = np.flatnonzero(over)
            lonely = rows[(state[rows] & _MATCHED) == 0]
            self._set(shelf, rows, _GONE)
            if len(lonely):
                closed.append(block.take(lonely))
        return closed

    # -- all or nothing ------------------------------------------------------------

    def save(self) -> UnmatchedMark:
        """Begin a call; return what :meth:`undo` needs."""
        self._changes = []
        last = self._shelves[-1].mark() if self._shelves else None
        return UnmatchedMark(self.serial, self._shelves, last, self._changes)

    def undo(self, mark: UnmatchedMark) -> None:
        """Put back what was there when the call began; harmless if repeated."""
        self.serial, self._shelves = mark.serial, mark.shelves
        if mark.last is not None:
            self._shelves[-1].cut(mark.last)
        for shelf, rows, flag in mark.changes:
            shelf.state[rows[rows < len(shelf.state)]] &= np.uint8(255 - flag)
        mark.changes.clear()
        self._changes = mark.changes  # a call that is tried again may be taken back again

    def commit(self) -> None:
        """End a call that went well: forget what is over."""
        over = [shelf for shelf, _, flag in self._changes if flag == _GONE and shelf.is_over]
        if over:
            self._shelves = [shelf for shelf in self._shelves if shelf not in over]

    # -- snapshot and restore --------------------------------------------------------

    def blocks(self) -> list[Block]:
        """Return the tuples that wait; ``keep`` tells which have found no partner yet."""
        made = []
        for shelf in self._shelves:
            state = shelf.state[: shelf.length]
            rows = np.flatnonzero((state & _GONE) == 0)
            if len(rows):
                block = shelf.whole().take(rows)
                made.append(Block(block.times, block.columns, block.numbers, (state[rows] & _MATCHED) == 0))
        return made

    def restore(self, block: Block) -> None:
        """Take back a block of :meth:`blocks`."""
        serials = block.columns[self.column].values
        lonely = np.ones(len(block), dtype=np.bool_) if block.keep is None else block.keep
        # Serial numbers in a shelf have no gaps: what is missing in between is over.
        shelf = _Shelf(int(serials[0]))
        shelf.state = np.full(int(serials[-1] - serials[0]) + 1, _GONE | _MATCHED, dtype=np.uint8)
        rows = serials - serials[0]
        shelf.state[rows] = np.where(lonely, 0, _MATCHED)
        spread = np.zeros(len(shelf.state), dtype=np.int64)
        spread[rows] = np.arange(len(block))
        shelf.append(Block(block.times, block.columns, block.numbers).take(spread))
        place = bisect_right([s.first for s in self._shelves], shelf.first)
        self._shelves = [*self._shelves[:place], shelf, *self._shelves[place:]]

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(block.nbytes for shelf in self._shelves for block in shelf.blocks)

    def __len__(self) -> int:
        return sum(int(((s.state[: s.length] & _GONE) == 0).sum()) for s in self._shelves)
