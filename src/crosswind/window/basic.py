"""Basic windows: where tuples wait, column by column (CellJoin §3.2, §4.1).

A basic window takes tuples until it is full; then it is sealed and never changes
again. It is the unit of expiry: tuples are released by whole basic windows.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crosswind.plan.keys import PAD
from crosswind.plan.physical import Storage
from crosswind.window.block import Block
from crosswind.window.links import Linking, Links
from crosswind.window.vector import Layout, Vector, address, all_valid

__all__ = ["BasicMark", "BasicWindow"]


BasicMark = tuple[int, int, int, bool]
"""How far an open basic window was filled: tuples, their least and greatest time, whether links are in order.

Marks are made in every call for every window, so they are plain tuples.
"""


class _Buffer:
    """One column of a basic window, with room for its capacity."""

    def __init__(self, layout: Layout, capacity: int) -> None:
        self.layout = layout
        self.watch_nans = layout.storage is Storage.FIXED and layout.dtype.startswith("float")
        self.capacity = capacity
        self.valid: npt.NDArray[np.uint8] | None = None
        self.text: npt.NDArray[np.uint8] | None = None
        self.chunks: list[pa.Array] = []
        self.has_nans = False
        self.changes = 0
        self.values: npt.NDArray[Any]
        match layout.storage:
            case Storage.FIXED:
                self.values = np.empty(capacity + PAD, dtype=layout.dtype)
            case Storage.WIDE:
                self.values = np.empty(2 * capacity, dtype=np.int64)
            case Storage.TEXT:
                self.values = np.zeros(capacity + 1, dtype=np.int64)
                self.text = np.empty(max(64, 4 * capacity), dtype=np.uint8)
            case Storage.OPAQUE:
                self.values = np.empty(0)

    def write(self, vector: Vector, at: int) -> None:
        """Put ``vector`` behind the first ``at`` tuples."""
        count = len(vector)
        if vector.valid is not None and self.valid is None:
            self.changes += 1
            self.valid = np.ones(self.capacity, dtype=np.uint8)
        if self.valid is not None:
            self.valid[at : at + count] = all_valid(count)[:count] if vector.valid is None else vector.valid
        match self.layout.storage:
            case Storage.FIXED:
                self.values[at : at + count] = vector.values
                if self.watch_nans and not self.has_nans and vector.has_nans:
                    self.changes += 1
                    self.has_nans = True
            case Storage.WIDE:
                self.values[2 * at : 2 * (at + count)] = vector.values
            case Storage.TEXT:
                self._write_text(vector, at, count)
            case Storage.OPAQUE:
                self.chunks.append(vector.arrow)

    def _write_text(self, vector: Vector, at: int, count: int) -> None:
        first, last = int(vector.values[0]), int(vector.values[-1])
        start = int(self.values[at])
        end = start + last - first
        if self.text is None or vector.text is None:
            return
        if end > len(self.text):
            grown = np.empty(max(end, 2 * len(self.text)), dtype=np.uint8)
            grown[:start] = self.text[:start]
            self.changes += 1
            self.text = grown
        self.text[start:end] = vector.text[first:last]
        self.values[at + 1 : at + count + 1] = vector.values[1:] - first + start

    def cut(self, length: int) -> None:
        """Forget all but the first ``length`` tuples."""
        left, kept = length, []
        for chunk in self.chunks:
            if left <= 0:
                break
            kept.append(chunk.slice(0, min(left, len(chunk))))
            left -= len(chunk)
        self.chunks = kept

    def seal(self, length: int) -> None:
        """Give back room that was not needed."""
        if self.text is not None:
            self.changes += 1
            self.text = self.text[: max(1, int(self.values[length]))].copy()
        if len(self.chunks) > 1:
            self.chunks = [self.vector(length).arrow]

    def vector(self, length: int) -> Vector:
        """Return the first ``length`` tuples, sharing memory where that is possible."""
        if self.layout.storage is Storage.OPAQUE:
            whole = pa.chunked_array(self.chunks).unify_dictionaries().combine_chunks()
            whole = pa.concat_arrays(whole.chunks) if isinstance(whole, pa.ChunkedArray) else whole
            return Vector(self.layout, self.values, arrow=whole)
        full = Vector(self.layout, self.values, self.valid, self.text)
        return full.slice(0, length)

    def pointers(self) -> tuple[int, int, int]:
        """Return the addresses of values, validity (never 0) and text."""
        valid = all_valid(self.capacity) if self.valid is None else self.valid
        return address(self.values), address(valid), 0 if self.text is None else address(self.text)

    @property
    def nbytes(self) -> int:
        parts = (self.values, self.valid, self.text)
        arrow = sum(int(chunk.nbytes) for chunk in self.chunks)
        return arrow + sum(part.nbytes for part in parts if part is not None)


class BasicWindow:
    """A bounded run of tuples of one join unit.

    Parameters
    ----------
    layouts : tuple of Layout
        The columns: slots, then payload.
    capacity : int
        How many tuples it takes before it is sealed.
    numbered : bool
        Whether tuples carry sequence numbers (ROWS windows need them).
    linked : Linking, optional
        How equals are to be linked, if they are (see :class:`Links`).
    """

    def __init__(
        self, layouts: tuple[Layout, ...], capacity: int, numbered: bool, linked: Linking | None = None
    ) -> None:
        self.capacity = capacity
        self.length = 0
        self.sealed = False
        self.times = np.empty(capacity, dtype=np.int64)
        self.numbers = np.empty(capacity if numbered else 0, dtype=np.int64)
        self.time_min = np.iinfo(np.int64).max
        self.time_max = np.iinfo(np.int64).min
        self._buffers = [_Buffer(layout, capacity) for layout in layouts]
        self.links: Links | None = None
        if linked is not None:
            self.links = Links(capacity, [self._buffers[k].values for k in linked.keys], linked.link)
        self._layout_changes = -1
        self.arrangement = None
        self.description = None
        self.halves: list[tuple[npt.NDArray[np.uint16], int, int]] = []

    def append(self, block: Block, start: int, stop: int) -> None:
        """Put tuples ``start`` to ``stop`` of ``block`` at the end; they must fit.

        Columns of the block beyond those kept here serve only its own probing.
        """
        at, count = self.length, stop - start
        if self.sealed or at + count > self.capacity:
            raise ValueError(f"{count} tuples do not fit into a basic window of {at}/{self.capacity}")
        times = block.times[start:stop]
        self.times[at : at + count] = times
        if len(self.numbers) and block.numbers is not None:
            self.numbers[at : at + count] = block.numbers[start:stop]
        whole = start == 0 and stop == len(block)
        ends = block.ends if whole and block.ends is not None else (int(times.min()), int(times.max()))
        self.time_min = min(self.time_min, ends[0])
        self.time_max = max(self.time_max, ends[1])
        for buffer, column in zip(self._buffers, block.columns, strict=False):
            buffer.write(column if whole else column.slice(start, stop), at)
        self.length += count
        if self.links is not None:
            numbers = self.numbers[max(0, at - 1) : self.length]
            self.links.is_ordered &= bool((numbers[1:] > numbers[:-1]).all())
            self.links.take(at, self.length)
        if self.length == self.capacity:
            self.sealed = True
            for buffer in self._buffers:
                buffer.seal(self.length)

    def has_room(self, count: int) -> bool:
        """Whether ``count`` tuples without nulls can be written where the columns are, and it stays open."""
        return not self.sealed and self.length + count < self.capacity and not self._changes()

    @cached_property
    def targets(self) -> list[int]:
        """Where the times are, and the values of each column."""
        return [address(self.times), *(address(buffer.values) for buffer in self._buffers)]

    @property
    def targets_of_all(self) -> list[tuple[int, int]]:
        """Where times are, sequence numbers if there are some, and columns of fixed width; with bytes of a value."""
        numbers = [address(self.numbers)] if len(self.numbers) else []
        widths = [8, *(8 for _ in numbers), *(buffer.layout.machine.itemsize for buffer in self._buffers)]
        return list(zip([self.targets[0], *numbers, *self.targets[1:]], widths, strict=True))

    def take_in(self, count: int, ends: tuple[int, int]) -> None:
        """Take over ``count`` tuples that were written behind the others, and linked if they have to be.

        ``ends`` are their first and last time.
        """
        self.time_min = min(self.time_min, ends[0])
        self.time_max = max(self.time_max, ends[1])
        self.length += count

    def mark(self) -> BasicMark:
        """Return how far it is filled, for :meth:`cut`."""
        return self.length, self.time_min, self.time_max, self.links is None or self.links.is_ordered

    def cut(self, mark: BasicMark) -> None:
        """Forget what was appended since ``mark``: the way back when an arrival fails."""
        self.length, self.time_min, self.time_max, is_ordered = mark
        self.sealed = False
        for buffer in self._buffers:
            buffer.cut(self.length)
        if self.links is not None:
            self.links.cut(self.length)
            self.links.is_ordered = is_ordered

    def pointers(self) -> list[int]:
        """Return the addresses of the columns: three each."""
        self._layout_changes = self._changes()
        return [address for buffer in self._buffers for address in buffer.pointers()]

    def moved(self) -> bool:
        """Whether addresses (or what is known of nulls and NaNs) changed since they were asked for."""
        return self._layout_changes != self._changes()

    def _changes(self) -> int:
        return sum(buffer.changes for buffer in self._buffers)

    @property
    def number_max(self) -> int:
        """The greatest sequence number here."""
        if self.links is not None and self.links.is_ordered and self.length:
            return int(self.numbers[self.length - 1])
        return int(self.numbers[: self.length].max())

    def column(self, index: int) -> Vector:
        """Return column ``index`` of the tuples that are here."""
        return self._buffers[index].vector(self.length)

    def nulls(self) -> npt.NDArray[np.bool_]:
        """Tell, by column, whether it may hold a null."""
        return np.array([buffer.valid is not None for buffer in self._buffers], dtype=np.bool_)

    def nans(self) -> npt.NDArray[np.bool_]:
        """Tell, by column, whether it may hold a NaN."""
        return np.array([buffer.has_nans for buffer in self._buffers], dtype=np.bool_)

    def block(self) -> Block:
        """Return everything here as a block, sharing memory where that is possible."""
        columns = tuple(buffer.vector(self.length) for buffer in self._buffers)
        return Block(self.times[: self.length], columns, self.numbers[: self.length] if len(self.numbers) else None)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        links = 0 if self.links is None else self.links.nbytes
        return self.times.nbytes + self.numbers.nbytes + sum(buffer.nbytes for buffer in self._buffers) + links
