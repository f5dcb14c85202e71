"""A window that is arranged in several ways at once.

With many streams or queries a window is searched by different columns: R looks for S.d, T for
S.e. A run can lie in one order only, so the window is kept once for each set of columns that
it is searched by. The copies take and release the same tuples; they differ in which columns are their keys,
and in how their runs are arranged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from crosswind.window.basic import BasicWindow
from crosswind.window.block import Block
from crosswind.window.join_window import Arranger, JoinWindow, Mark, Resident, Residents
from crosswind.window.links import Linking
from crosswind.window.vector import Layout, Vector, address

__all__ = ["Joint", "Replicas"]


ReplicasMark = tuple[list[JoinWindow], list[Mark]]
"""The copies of a window as they were, and how far each was filled."""


class Replicas:
    """Copies of one window; to the outside it is one.

    Parameters
    ----------
    layouts : tuple of Layout
        The columns: keys, slots, payload.
    numbered : bool
        Whether tuples carry sequence numbers.
    uniform : bool
        Whether all basic windows have one size, whatever comes at once.
    """

    def __init__(self, layouts: tuple[Layout, ...], numbered: bool, *, uniform: bool = False) -> None:
        self._layouts = layouts
        self._uniform = uniform
        self._numbered = numbered
        self._copies: list[JoinWindow] = []
        self._writing: _Writing | None = None

    def add(
        self,
        own: tuple[int, ...],
        arranger: Arranger | None,
        capacity: int,
        link: Callable[[int, int, int], None] | None = None,
    ) -> int:
        """Keep a copy that is searched by the keys ``own``, whose equals are linked by ``link``; return its number."""
        linked = None if link is None else Linking(own, link)
        copy = JoinWindow(
            self._layouts, capacity, own, self._numbered, arranger if own else None, self._uniform, linked
        )
        for block in self.blocks():
            copy.append(block)
        self._writing = None
        self._copies = [*self._copies, copy]
        return len(self._copies) - 1

    def __len__(self) -> int:
        return len(self._copies[0]) if self._copies else 0

    def __iter__(self) -> Iterator[Resident]:
        """Iterate over the basic windows of the first copy."""
        return iter(self._copies[0])

    @property
    def nbytes(self) -> int:
        """Bytes held, by all copies."""
        return sum(copy.nbytes for copy in self._copies)

    def append(self, block: Block) -> None:
        """Insert the tuples of ``block``."""
        self._writing = None
        for copy in self._copies:
            copy.append(block)

    def settle(self) -> None:
        """Arrange what has been sealed, and merge runs of about one size."""
        for copy in self._copies:
            copy.settle()

    def arrange(self) -> None:
        """Arrange at once what was left as it came, in every copy."""
        for copy in self._copies:
            copy.arrange()

    def expire(self, oldest_time: int | None, oldest_number: int | None) -> int:
        """Release basic windows that lie wholly before both limits; return how many tuples went."""
        gone = 0
        for copy in self._copies:
            gone = copy.expire(oldest_time, oldest_number)
        return gone

    def clear(self) -> None:
        """Release everything."""
        for copy in self._copies:
            copy.clear()

    def mark(self) -> ReplicasMark:
        """Return the window as it is, for :meth:`cut`."""
        return self._copies, [copy.mark() for copy in self._copies]

    def cut(self, mark: ReplicasMark) -> None:
        """Be again what the window was at ``mark``; harmless if repeated."""
        self._writing = None
        self._copies, places = mark
        for copy, place in zip(self._copies, places, strict=True):
            copy.cut(place)

    def blocks(self) -> list[Block]:
        """Return the tuples, oldest basic window first."""
        return self._copies[0].blocks() if self._copies else []

    def sample(self, column: int, count: int) -> Vector:
        """Return up to ``count`` values of a column that is no key, of tuples of the largest basic window."""
        largest = max(self._copies[0], key=lambda item: item.length)
        rows = np.linspace(0, largest.length - 1, min(count, largest.length)).astype(np.int64)
        return largest.column(column).take(rows)

    def residents(self, copy: int = 0) -> Residents:
        """Return the basic windows of one copy as kernels see them."""
        return self._copies[copy].residents()

    def write(self, block: Block, ends: tuple[int, int], put: Callable[..., None]) -> bool:
        """Write tuples straight into all copies, if they are bare and there is room; False: they have to be appended.

        Their sequence numbers rise; ``ends`` are the least and the greatest time. ``put`` writes them, and
        links them, as :func:`crosswind.kernel.compiled.arrange.put_into_copies` does.
        """
        count = len(block.times)
        if self._writing is None or not self._writing.is_open(count):
            self._writing = _Writing.of(self._copies, count)
        writing = self._writing
        if writing is None or not block.is_bare(self.width):
            return False
        columns, _, times, _ = block.place
        numbers = 0 if block.numbers is None else address(block.numbers)
        jobs = writing.jobs if block.forms is None else writing.jobs_for(block.forms)
        put(jobs, writing.copies, columns, times, numbers, count)
        for copy, _ in writing.places:
            copy.take_in(count, ends)
        return True

    @property
    def width(self) -> int:
        """How many columns there are."""
        return len(self._layouts)


class _Writing:
    """Where tuples can be written in each copy, as :func:`crosswind.kernel.compiled.arrange.put_into_copies` has it."""

    def __init__(self, places: list[tuple[JoinWindow, BasicWindow]]) -> None:
        self.places = places
        jobs: list[tuple[int, int, int]] = []
        copies = []
        for _, basic in places:
            first = len(jobs)
            heads = (-2, -1) if len(basic.numbers) else (-2,)
            targets = basic.targets_of_all
            jobs += [(k, *target) for k, target in zip((*heads, *range(len(targets))), targets, strict=False)]
            copies.append((first, len(jobs), basic.length, 0 if basic.links is None else basic.links.at))
        self.jobs = np.array(jobs, dtype=np.int64)
        self._raw: tuple[tuple[int, ...], np.ndarray[Any, np.dtype[np.int64]]] | None = None
        self.copies = np.array(copies, dtype=np.int64)

    def jobs_for(self, forms: tuple[int, ...]) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Return the jobs for tuples whose columns are still to be given these forms."""
        if self._raw is None or self._raw[0] is not forms:
            jobs = self.jobs.copy()
            of_columns = jobs[:, 0] >= 0
            jobs[of_columns, 2] = np.array(forms, dtype=np.int64)[jobs[of_columns, 0]]
            self._raw = (forms, jobs)
        return self._raw[1]

    @classmethod
    def of(cls, copies: list[JoinWindow], count: int) -> _Writing | None:
        """Return where ``count`` tuples without nulls can be written; None: they have to be appended."""
        places = [(copy, copy.open_for(count)) for copy in copies]
        known = [(copy, basic) for copy, basic in places if basic is not None]
        return cls(known) if len(known) == len(copies) else None

    def is_open(self, count: int) -> bool:
        """Whether ``count`` tuples can be written there still."""
        return all(copy.is_open(basic, count) for copy, basic in self.places)


class Joint:
    """The basic windows of several copies, one after the other: wherever members of results are.

    ``bases`` says where each copy begins.
    """

    def __init__(self, parts: list[Residents]) -> None:
        self.items = [item for part in parts for item in part.items]
        self.bases = [0, *np.cumsum([len(part.items) for part in parts]).tolist()]
        self.runs = np.concatenate([part.runs[:, :3] for part in parts])
        self.addresses = np.concatenate([part.addresses for part in parts], axis=1)
        self.nulls = np.logical_or.reduce([part.nulls for part in parts])
        self._at = address(self.addresses)
        self._times = np.ascontiguousarray(self.runs[:, 1])
        self.times_at = address(self._times)
        self.place = (self._at, 3 * self.addresses.strides[0], self.times_at, address(self.nulls))

    def column_at(self, index: int) -> int:
        """Return where the addresses of the values of a column are."""
        return self._at + 3 * index * self.addresses.strides[0]
