"""The window of a join unit: a list of basic windows, oldest first."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from crosswind.window.basic import BasicWindow
from crosswind.window.block import Block
from crosswind.window.vector import Layout

__all__ = ["JoinWindow", "Mark"]

Mark = tuple[int, int, int]


class JoinWindow:
    """All tuples of a unit that may still be joined.

    Parameters
    ----------
    layouts : tuple of Layout
        The columns: slots, then payload.
    capacity : int
        Tuples in a basic window.
    numbered : bool
        Whether tuples carry sequence numbers.
    """

    def __init__(self, layouts: tuple[Layout, ...], capacity: int, numbered: bool) -> None:
        self.layouts = layouts
        self.numbered = numbered
        self.capacity = capacity
        self.released = 0
        self._windows: deque[BasicWindow] = deque()

    def __len__(self) -> int:
        return sum(window.length for window in self._windows)

    def __iter__(self) -> Iterator[BasicWindow]:
        return iter(self._windows)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(window.nbytes for window in self._windows)

    def append(self, block: Block) -> None:
        """Insert the tuples of ``block``, filling the open basic window and opening new ones."""
        start = 0
        while start < len(block):
            if not self._windows or self._windows[-1].sealed:
                self._windows.append(BasicWindow(self.layouts, self.capacity, self.numbered))
            window = self._windows[-1]
            stop = min(len(block), start + window.capacity - window.length)
            window.append(block, start, stop)
            start = stop

    def expire(self, oldest_time: int | None, oldest_number: int | None) -> int:
        """Release basic windows that lie wholly before both limits; return how many tuples went.

        The last basic window that stays may hold expired tuples; probes check them.
        """
        gone = 0
        while self._windows:
            window = self._windows[0]
            if oldest_time is not None and window.time_max >= oldest_time:
                break
            if oldest_number is not None and int(window.numbers[window.length - 1]) >= oldest_number:
                break
            if oldest_time is None and oldest_number is None:
                break
            gone += window.length
            self._windows.popleft()
        self.released += gone
        return gone

    def clear(self) -> None:
        """Release everything."""
        self._windows.clear()

    def mark(self) -> Mark:
        """Return where the window ends, for :meth:`cut`."""
        return self.released, len(self._windows), self._windows[-1].length if self._windows else 0

    def cut(self, mark: Mark) -> None:
        """Forget what was appended since ``mark`` (nothing may have been released meanwhile)."""
        _, count, length = mark
        while len(self._windows) > count:
            self._windows.pop()
        if self._windows and self._windows[-1].length > length:
            self._windows[-1].cut(length)

    def reach(self, low: int, high: int) -> list[BasicWindow]:
        """Return the basic windows that hold some time between ``low`` and ``high``."""
        return [w for w in self._windows if w.time_max >= low and w.time_min <= high]

    @staticmethod
    def table(windows: list[BasicWindow]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return addresses (a row a basic window) and lengths, for a kernel."""
        rows = np.array([window.row() for window in windows], dtype=np.int64)
        return rows, np.array([window.length for window in windows], dtype=np.int64)
