"""The window of a join unit: basic windows, oldest first; sealed ones arranged and merged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from crosswind.window.basic import BasicWindow
from crosswind.window.block import Block
from crosswind.window.run import Run
from crosswind.window.vector import Layout

__all__ = ["HEAD", "Arranger", "JoinWindow", "Mark", "Resident", "Residents"]

Mark = tuple[int, int]
Resident = BasicWindow | Run

_FAN_IN = 4
"""Runs of about one size that are merged into one; searches grow with the logarithm."""

_RUN_MAX = 1 << 19
"""Tuples in the largest run: merging it must not hold up arrivals."""

_SHARE = 8
"""A run is at most this part of the window: what has expired in it waits for the rest."""


class Arranger(Protocol):
    """Puts the tuples of sealed basic windows in the order of an index."""

    def arrange(self, blocks: list[Block]) -> Run | None:
        """Return the run of ``blocks``, or None where scanning is the better choice."""


@dataclass(frozen=True)
class Residents:
    """Basic windows as kernels and gathers see them, a row each.

    ``heads`` are lengths, addresses and arrangements (see :mod:`crosswind.kernel.box`),
    ``params`` the axes of arrangements, ``columns`` three addresses a column. ``nulls``
    and ``nans`` tell, by column, whether one of them may hold such a value.
    """

    items: list[Resident]
    heads: npt.NDArray[np.int64]
    params: npt.NDArray[np.float64]
    columns: npt.NDArray[np.int64]
    time_min: npt.NDArray[np.int64]
    time_max: npt.NDArray[np.int64]
    nulls: npt.NDArray[np.bool_]
    nans: npt.NDArray[np.bool_]
    kinds: frozenset[str]

    def pick(self, rows: npt.NDArray[np.int64]) -> Residents:
        """Return the named ones."""
        return Residents(
            [self.items[k] for k in rows],
            self.heads[rows],
            self.params[rows],
            self.columns[rows],
            self.time_min[rows],
            self.time_max[rows],
            self.nulls,
            self.nans,
            self.kinds,
        )

    def plus(self, item: Resident) -> Residents:
        """Return these and one more."""
        more = residents_of([item], self.columns.shape[1])
        return Residents(
            [*self.items, item],
            np.concatenate([self.heads, more.heads]),
            np.concatenate([self.params, more.params]),
            np.concatenate([self.columns, more.columns]),
            np.append(self.time_min, item.time_min),
            np.append(self.time_max, item.time_max),
            self.nulls | more.nulls,
            self.nans | more.nans,
            self.kinds,
        )


HEAD = 9
"""Numbers that describe a basic window to a kernel.

length, times, sequence numbers, directory, checks (1: times, 2: numbers), arrangement
(0: none, 1: grid, 2: hash), cells of the first and second axis, axes (first + 16 * second).
"""

_KINDS = {"band": 1, "hash": 2}


def residents_of(items: list[Resident], pointers: int) -> Residents:
    """Describe ``items``, which have ``pointers`` addresses of columns each."""
    heads = np.zeros((len(items), HEAD), dtype=np.int64)
    params = np.zeros((len(items), 4))
    columns = np.zeros((len(items), pointers), dtype=np.int64)
    for row, item in enumerate(items):
        heads[row, :3] = (item.length, item.times.ctypes.data, item.numbers.ctypes.data)
        plan = item.arrangement
        if plan is not None:
            heads[row, 3] = plan.directory.ctypes.data
            heads[row, 5:] = (_KINDS[plan.kind], *plan.cells, plan.axes[0] + 16 * plan.axes[1])
            params[row] = (plan.origins[0], plan.scales[0], plan.origins[1], plan.scales[1])
        columns[row] = item.pointers()
    nothing = np.zeros(pointers // 3, dtype=np.bool_)
    return Residents(
        items,
        heads,
        params,
        columns,
        np.array([item.time_min for item in items], dtype=np.int64),
        np.array([item.time_max for item in items], dtype=np.int64),
        np.logical_or.reduce([item.nulls() for item in items]) if items else nothing,
        np.logical_or.reduce([item.nans() for item in items]) if items else nothing,
        frozenset(item.arrangement.kind for item in items if item.arrangement is not None),
    )


class JoinWindow:
    """All tuples of a unit that may still be joined.

    Parameters
    ----------
    layouts : tuple of Layout
        The columns: keys, slots, payload.
    capacity : int
        Tuples in a basic window when it is sealed.
    numbered : bool
        Whether tuples carry sequence numbers.
    arranger : Arranger, optional
        Arranges sealed basic windows; without one they stay as they came.
    """

    def __init__(
        self, layouts: tuple[Layout, ...], capacity: int, numbered: bool, arranger: Arranger | None = None
    ) -> None:
        self.layouts = layouts
        self.capacity = capacity
        self.numbered = numbered
        self.released = 0
        self._arranger = arranger
        self._items: list[Resident] = []
        self._arranged = 0
        self._view: Residents | None = None
        self._closed_view: Residents | None = None

    def __len__(self) -> int:
        return sum(item.length for item in self._items)

    def __iter__(self) -> Iterator[Resident]:
        return iter(self._items)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(item.nbytes for item in self._items)

    def append(self, block: Block) -> None:
        """Insert the tuples of ``block``, filling the open basic window and opening new ones."""
        start = 0
        self._view = None
        if not self._items or self._items[-1].length + len(block) >= self.capacity:
            self._closed_view = None
        while start < len(block):
            last = self._items[-1] if self._items else None
            if not isinstance(last, BasicWindow) or last.sealed:
                last = BasicWindow(self.layouts, self.capacity, self.numbered)
                self._items.append(last)
            stop = min(len(block), start + last.capacity - last.length)
            last.append(block, start, stop)
            start = stop

    def settle(self) -> None:
        """Arrange what has been sealed, and merge runs of about one size."""
        if self._arranger is None:
            return
        while self._arranged < len(self._items) and self._items[self._arranged].sealed:
            run = self._arranger.arrange([self._items[self._arranged].block()])
            self._view = self._closed_view = None
            if run is not None:
                self._items[self._arranged] = run
            self._arranged += 1
            self._merge()

    def _merge(self) -> None:
        limit = min(_RUN_MAX, max(_FAN_IN * self.capacity, len(self) // _SHARE))
        while self._arranger is not None and self._arranged >= _FAN_IN:
            tail = self._items[self._arranged - _FAN_IN : self._arranged]
            total = sum(item.length for item in tail)
            alike = max(item.length for item in tail) < 2 * min(item.length for item in tail)
            if not alike or total > limit:
                return
            merged = self._arranger.arrange([item.block() for item in tail])
            if merged is None:
                return
            self._items[self._arranged - _FAN_IN : self._arranged] = [merged]
            self._arranged -= _FAN_IN - 1

    def expire(self, oldest_time: int | None, oldest_number: int | None) -> int:
        """Release basic windows that lie wholly before both limits; return how many tuples went.

        The last basic window that stays may hold expired tuples; probes check them.
        """
        gone = count = 0
        if oldest_time is None and oldest_number is None:
            return 0
        for item in self._items:
            if oldest_time is not None and item.time_max >= oldest_time:
                break
            if oldest_number is not None and item.number_max >= oldest_number:
                break
            gone += item.length
            count += 1
        if count:
            del self._items[:count]
            self._arranged = max(0, self._arranged - count)
            self._view = self._closed_view = None
        self.released += gone
        return gone

    def clear(self) -> None:
        """Release everything."""
        self._items.clear()
        self._arranged, self._view, self._closed_view = 0, None, None

    def mark(self) -> Mark:
        """Return where the window ends, for :meth:`cut`."""
        return len(self._items), self._items[-1].length if self._items else 0

    def cut(self, mark: Mark) -> None:
        """Forget what was appended since ``mark`` (nothing may have been settled or released)."""
        count, length = mark
        del self._items[count:]
        self._view = self._closed_view = None
        last = self._items[-1] if self._items else None
        if isinstance(last, BasicWindow) and last.length > length:
            last.cut(length)

    def residents(self) -> Residents:
        """Return all basic windows as kernels see them."""
        if self._view is None:
            pointers = 3 * len(self.layouts)
            if self._closed_view is None:
                closed = len(self._items) - (1 if self._items and not self._items[-1].sealed else 0)
                self._closed_view = residents_of(self._items[:closed], pointers)
            rest = self._items[len(self._closed_view.items) :]
            self._view = self._closed_view if not rest else self._closed_view.plus(rest[0])
        return self._view
