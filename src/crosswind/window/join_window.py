"""The window of a join unit: basic windows, oldest first; sealed ones arranged and merged."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np
import numpy.typing as npt

from crosswind.plan.physical import RUN_DIMENSION, RUN_HEAD, RUN_MAX
from crosswind.window.basic import BasicMark, BasicWindow
from crosswind.window.block import Block
from crosswind.window.links import Linking
from crosswind.window.run import Description, Run
from crosswind.window.vector import Layout, address

__all__ = ["Arranger", "JoinWindow", "Mark", "Resident", "Residents"]

Resident = BasicWindow | Run

Mark = tuple[list[Resident], int, int, int, BasicMark | None]
"""A window as it was: its basic windows, how many are arranged and renewed, how many tuples were released, and how far
the open basic window was filled, if there was one."""

_FAN_IN = 2
"""Runs of about one size that are merged into one; searches grow with the logarithm."""

_SHARE = 3
"""A run is at most this part of the window: what has expired in it waits for the rest."""


class Arranger(Protocol):
    """Puts the tuples of sealed basic windows in the order of an index."""

    def arrange(self, blocks: list[Block]) -> Run:
        """Return the run of ``blocks``, arranged if that is better than scanning it."""

    @property
    def arranges(self) -> bool:
        """Whether it is known by now how to arrange."""

    def is_stale(self, run: Run) -> bool:
        """Whether ``run`` should be arranged anew: what is known by now says otherwise."""


_KINDS = {"band": 1, "hash": 2, "links": 3}


class Residents:
    """Basic windows as kernels and gathers see them.

    ``runs`` has a row each (see :data:`crosswind.plan.physical.RUN_HEAD`), ``params`` the axes of arrangements;
    ``addresses`` has a row for each address of a column (three a column). ``nulls`` and
    ``nans`` tell, by column, whether one of them may hold such a value.
    """

    def __init__(self, items: list[Resident], keys: tuple[int, ...], columns: int) -> None:
        self.items = items
        self._keys = keys
        described = [_described(item, keys) for item in items]
        width = RUN_HEAD + RUN_DIMENSION * len(keys)
        self.runs = np.array([run for run, _, _ in described], dtype=np.int64).reshape(len(items), width)
        self.params = np.array([axes for _, axes, _ in described], dtype=np.float64).reshape(len(items), 4)
        pointers = np.array([some for _, _, some in described], dtype=np.int64).reshape(len(items), 3 * columns)
        self.addresses = np.ascontiguousarray(pointers.T)
        self.nulls = np.zeros(columns, dtype=np.bool_)
        self.nans = np.zeros(columns, dtype=np.bool_)
        for item in items:
            self.nulls |= item.nulls()
            self.nans |= item.nans()
        self.kinds = frozenset(item.arrangement.kind for item in items if item.arrangement is not None)
        self._addresses_at = address(self.addresses)
        self._facts: dict[tuple[int, int], tuple[bool, bool]] = {}
        self.moves = 0
        """How often what is said of the last of them, beyond its length, has changed."""
        self._positions: npt.NDArray[np.int64] | None = None
        self._times: npt.NDArray[np.int64] | None = None
        self._place: tuple[int, int, int, int] | None = None

    @property
    def positions(self) -> npt.NDArray[np.int64]:
        """The table that pair kernels read: a row each of the addresses of times, numbers, columns."""
        if self._positions is None:
            self._positions = np.ascontiguousarray(np.hstack([self.runs[:, 1:3], self.addresses.T]))
        return self._positions

    @property
    def size(self) -> int:
        """How many tuples there are."""
        return int(self.runs[:, 0].sum())

    def facts(self, first: int, end: int) -> tuple[bool, bool]:
        """Return whether columns ``first`` up to ``end`` may hold a null, and whether a NaN."""
        if (first, end) not in self._facts:
            self._facts[first, end] = bool(self.nulls[first:end].any()), bool(self.nans[first:end].any())
        return self._facts[first, end]

    @property
    def times_at(self) -> int:
        """Where the addresses of their times are."""
        if self._times is None:
            self._times = np.ascontiguousarray(self.runs[:, 1])
        return address(self._times)

    def column_at(self, index: int) -> int:
        """Return where the addresses of the values of a column are."""
        return self._addresses_at + 3 * index * self.addresses.strides[0]

    @property
    def place(self) -> tuple[int, int, int, int]:
        """Where columns are, as :attr:`crosswind.window.block.Block.place` has it; a column has many addresses."""
        if self._place is None:
            self._place = (self._addresses_at, 3 * self.addresses.strides[0], self.times_at, address(self.nulls))
        return self._place

    def refresh(self) -> None:
        """Take over what has been appended to the last of them."""
        item = self.items[-1]
        if item.moved():
            self.runs[-1], self.params[-1], self.addresses[:, -1] = _described(item, self._keys)
            self.nulls |= item.nulls()
            self.nans |= item.nans()
            self._positions = self._times = self._place = None
            self._facts.clear()
            self.moves += 1
        if item.links is not None:
            self.runs[-1, RUN_HEAD - 1] = item.links.is_ordered
        self.lengthen()

    def lengthen(self) -> None:
        """Take over what was written into the last of them without moving anything."""
        item, head = self.items[-1], self.runs[-1]
        head[0], head[3], head[4] = item.length, item.time_min, item.time_max


def _described(item: Resident, keys: tuple[int, ...]) -> Description:
    """Return an item as kernels see it. Runs never change and remember it: windows have hundreds of them."""
    if item.description is not None:
        return item.description
    head = np.zeros(RUN_HEAD + RUN_DIMENSION * len(keys), dtype=np.int64)
    head[:5] = (item.length, address(item.times), address(item.numbers), item.time_min, item.time_max)
    axes = np.zeros(4)
    plan = item.arrangement
    if item.links is not None:
        head[5:RUN_HEAD] = (_KINDS["links"], *item.links.words)
    if plan is not None:
        both = plan.axes[0] + 16 * plan.axes[1]
        head[5:RUN_HEAD] = (_KINDS[plan.kind], address(plan.directory), *plan.cells, both)
        axes[:] = (plan.origins[0], plan.scales[0], plan.origins[1], plan.scales[1])
    pointers = np.array(item.pointers(), dtype=np.int64)
    head[RUN_HEAD::RUN_DIMENSION] = [pointers[3 * key] for key in keys]
    for d, (half, base, shift) in enumerate(item.halves):
        at = RUN_HEAD + RUN_DIMENSION * d
        head[at + 1 : at + RUN_DIMENSION] = (address(half), base, shift)
    described = (head, axes, pointers)
    if isinstance(item, Run):
        item.description = described
    return described


class JoinWindow:
    """All tuples of a unit that may still be joined.

    The list of basic windows is never changed, only replaced, and a sealed basic window never changes. So
    :meth:`mark` costs nothing, and :meth:`cut` takes back whatever has happened since: insertion, sealing, arranging,
    merging and expiry.

    Parameters
    ----------
    layouts : tuple of Layout
        The columns: keys, slots, payload.
    capacity : int
        Tuples in a basic window when it is sealed.
    keys : tuple of int
        Which columns are the keys that it is searched by.
    numbered : bool
        Whether tuples carry sequence numbers.
    arranger : Arranger, optional
        Arranges sealed basic windows; without one they stay as they came.
    uniform : bool
        Whether all basic windows have one size, whatever comes at once.
    linked : Linking, optional
        How equals are linked, if they are: basic windows stay as they came.
    """

    def __init__(
        self,
        layouts: tuple[Layout, ...],
        capacity: int,
        keys: tuple[int, ...],
        numbered: bool,
        arranger: Arranger | None = None,
        uniform: bool = False,
        linked: Linking | None = None,
    ) -> None:
        self.layouts = layouts
        self._uniform = uniform
        self.capacity = capacity
        self.numbered = numbered
        self._keys = keys
        self.released = 0
        self._arranger = None if linked is not None else arranger
        self._linked = linked
        self._items: list[Resident] = []
        self._arranged = 0
        self._renewed = 0
        self._view: Residents | None = None

    def __len__(self) -> int:
        return sum(item.length for item in self._items)

    def __iter__(self) -> Iterator[Resident]:
        return iter(self._items)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(item.nbytes for item in self._items)

    def blocks(self) -> list[Block]:
        """Return the tuples, oldest basic window first."""
        return [item.block() for item in self._items]

    def append(self, block: Block) -> None:
        """Insert the tuples of ``block``, filling the open basic window and opening new ones."""
        start, count = 0, len(self._items)
        while start < len(block):
            last = self._items[-1] if self._items else None
            if not isinstance(last, BasicWindow) or last.sealed:
                # a large batch makes one basic window, if that is a small part of the whole
                large = (
                    0
                    if self._uniform or self._linked is not None
                    else min(len(block) - start, len(self) // _SHARE, RUN_MAX)
                )
                room = max(self.capacity, large)
                last = BasicWindow(self.layouts, room, self.numbered, self._linked)
                self._items = [*self._items, last]
            stop = min(len(block), start + last.capacity - last.length)
            last.append(block, start, stop)
            start = stop
        if len(self._items) != count:
            self._view = None
        elif self._view is not None and len(block):
            self._view.refresh()

    def open_for(self, count: int) -> BasicWindow | None:
        """Return the basic window into which ``count`` tuples without nulls can be written, if there is one."""
        last = self._items[-1] if self._items else None
        return last if isinstance(last, BasicWindow) and last.has_room(count) else None

    def is_open(self, basic: BasicWindow, count: int) -> bool:
        """Whether ``basic`` is the open basic window still, and stays so if ``count`` tuples come."""
        return bool(self._items) and self._items[-1] is basic and basic.length + count < basic.capacity

    def take_in(self, count: int, ends: tuple[int, int]) -> None:
        """Take over what was written into the open basic window, as :meth:`BasicWindow.take_in` has it."""
        last = self._items[-1]
        if isinstance(last, BasicWindow):
            last.take_in(count, ends)
        if self._view is not None:
            self._view.lengthen()

    def settle(self) -> None:
        """Arrange what has been sealed, and merge runs of about one size."""
        if self._arranger is None:
            return
        while self._arranged < len(self._items) and self._items[self._arranged].sealed:
            self._replace(self._arranged, self._arranged + 1, self._arranger)
            self._arranged += 1
            self._merge(self._arranged)
        self._renew(self._arranger)

    def arrange(self) -> None:
        """Arrange at once what was left as it came, if that is better by now, however long it takes."""
        for at in range(self._arranged):
            item = self._items[at]
            if self._arranger is None or item.arrangement is not None:
                continue
            self._replace(at, at + 1, self._arranger)
            if self._items[at].arrangement is None:
                return

    def _replace(self, start: int, end: int, arranger: Arranger) -> None:
        """Put one run in the place of the basic windows from ``start`` to ``end``."""
        items = self._items
        run = arranger.arrange([item.block() for item in items[start:end]])
        self._view = None
        self._items = [*items[:start], run, *items[end:]]

    def _renew(self, arranger: Arranger) -> None:
        """Arrange again a few runs that were made before anything was known, oldest first."""
        while self._renewed < self._arranged and arranger.arranges:
            at = self._renewed
            self._renewed += 1
            item = self._items[at]
            if isinstance(item, Run) and arranger.is_stale(item):
                self._replace(at, at + 1, arranger)
                before = self._arranged
                self._merge(at + 1)
                self._renewed -= before - self._arranged
                return

    def _merge(self, end: int) -> None:
        """Merge the runs before ``end`` while they are of about one size."""
        limit = min(RUN_MAX, max(_FAN_IN * self.capacity, len(self) // _SHARE))
        while self._arranger is not None and end >= _FAN_IN:
            tail = self._items[end - _FAN_IN : end]
            total = sum(item.length for item in tail)
            alike = max(item.length for item in tail) < 2 * min(item.length for item in tail)
            arranged = all(item.arrangement is not None for item in tail)
            if not alike or total > limit or not arranged:
                return
            self._replace(end - _FAN_IN, end, self._arranger)
            self._arranged -= _FAN_IN - 1
            end -= _FAN_IN - 1

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
            self._view = None
            self._items = self._items[count:]
            self._arranged = max(0, self._arranged - count)
            self._renewed = max(0, self._renewed - count)
        self.released += gone
        return gone

    def clear(self) -> None:
        """Release everything."""
        self._items, self._arranged, self._renewed, self._view = [], 0, 0, None

    def mark(self) -> Mark:
        """Return the window as it is, for :meth:`cut`."""
        items = self._items
        last = items[-1] if items else None
        basic = last.mark() if isinstance(last, BasicWindow) and not last.sealed else None
        return items, self._arranged, self._renewed, self.released, basic

    def cut(self, mark: Mark) -> None:
        """Be again what the window was at ``mark``; harmless if repeated, or broken off and repeated."""
        self._view = None
        self._items, self._arranged, self._renewed, self.released, basic = mark
        last = self._items[-1] if self._items else None
        if isinstance(last, BasicWindow) and basic is not None:
            last.cut(basic)

    def residents(self) -> Residents:
        """Return all basic windows as kernels see them, until the window next changes."""
        if self._view is None:
            self._view = Residents(list(self._items), self._keys, len(self.layouts))
        return self._view
