"""A run: a sealed basic window (or several, merged), ready to be searched.

CellJoin §7.2 keeps a list of basic windows in each hash bucket; here a sealed basic
window is itself put in the order of its cells, with a directory of where each begins.
It never changes, so it can be shared, cached and searched without locks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from crosswind.plan.keys import PAD, halve
from crosswind.plan.physical import Storage
from crosswind.window.block import Block
from crosswind.window.vector import Vector

__all__ = ["Arrangement", "Description", "Run"]


Description = tuple[npt.NDArray[np.int64], npt.NDArray[np.float64], npt.NDArray[np.int64]]
"""A run as kernels see it: its row of the table of runs, its axes, the addresses of its columns."""


@dataclass(frozen=True)
class Arrangement:
    """How the tuples of a run lie: in a grid over one or two axes, or by hash.

    ``axes`` are dimension numbers, ``origins`` and ``scales`` map their values to cells.
    """

    kind: str
    cells: tuple[int, int]
    directory: npt.NDArray[np.int32]
    axes: tuple[int, int] = (0, 0)
    origins: tuple[float, float] = (0.0, 0.0)
    scales: tuple[float, float] = (0.0, 0.0)


class Run:
    """An immutable basic window in the order of its cells.

    Parameters
    ----------
    block : Block
        The tuples, as they came.
    keys : tuple of int
        Which columns are the keys that it is searched by.
    arrangement : Arrangement, optional
        Where cells begin; without one the tuples stay as they came.
    places : array of int64, optional
        The tuples of ``block`` in the order of their cells.
    """

    sealed = True
    links = None
    description: Description | None = None
    """How kernels see it, once somebody has asked."""

    def __init__(
        self,
        block: Block,
        keys: tuple[int, ...],
        arrangement: Arrangement | None = None,
        places: npt.NDArray[np.int64] | None = None,
    ) -> None:
        self.length = len(block)
        self.arrangement = arrangement
        if places is None:
            places = np.arange(len(block), dtype=np.int64)
        memory = _RunMemory(_bytes_of(block) + (0 if arrangement is None else arrangement.directory.nbytes))
        if arrangement is not None:
            directory = memory.take(arrangement.directory, np.arange(len(arrangement.directory)))
            self.arrangement = replace(arrangement, directory=directory)
        self.times = memory.take(block.times, places)
        self.numbers = np.empty(0, dtype=np.int64) if block.numbers is None else memory.take(block.numbers, places)
        self.time_min, self.time_max = int(block.times.min()), int(block.times.max())
        self.number_max = 0 if block.numbers is None else int(block.numbers.max())
        self._columns = [
            Vector(column.layout, memory.take(column.values, places), _taken(column.valid, places))
            if column.layout.storage is Storage.FIXED
            else column.take(places)
            for column in block.columns
        ]
        self.halves = []
        if arrangement is None:  # arranged runs are searched in ranges too short to gain by a filter
            self.halves = [halve(column.values, self.length) for column in (self._columns[key] for key in keys)]
        self._nulls = np.array([column.has_nulls for column in self._columns], dtype=np.bool_)
        self._nans = np.array([column.has_nans for column in self._columns], dtype=np.bool_)
        self._pointers = [address for column in self._columns for address in column.pointers()]

    def pointers(self) -> list[int]:
        """Return the addresses of the columns: three each."""
        return self._pointers

    def moved(self) -> bool:
        """Whether addresses changed: never."""
        return False

    def column(self, index: int) -> Vector:
        """Return column ``index``."""
        return self._columns[index]

    def nulls(self) -> npt.NDArray[np.bool_]:
        """Tell, by column, whether it may hold a null."""
        return self._nulls

    def nans(self) -> npt.NDArray[np.bool_]:
        """Tell, by column, whether it may hold a NaN."""
        return self._nans

    def block(self) -> Block:
        """Return the tuples, in the order of the cells."""
        columns = tuple(self.column(k) for k in range(len(self._columns)))
        return Block(self.times, columns, self.numbers if len(self.numbers) else None)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        columns = sum(column.nbytes for column in self._columns) + sum(half.nbytes for half, _, _ in self.halves)
        directory = 0 if self.arrangement is None else self.arrangement.directory.nbytes
        return self.times.nbytes + self.numbers.nbytes + columns + directory


class _RunMemory:
    """One piece of memory for all fixed columns of a run.

    A large piece gets large pages from the system, which probes that jump about in it
    feel; and every column may be read a little beyond its end.
    """

    def __init__(self, size: int) -> None:
        self._bytes = np.empty(size, dtype=np.uint8)
        self._used = 0

    def take(self, values: npt.NDArray[Any], places: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """Return ``values`` at ``places``, kept here."""
        room = _aligned(len(places), values.dtype.itemsize)
        part = self._bytes[self._used : self._used + len(places) * values.dtype.itemsize].view(values.dtype)
        self._used += room
        return np.take(values, places, out=part, mode="clip")


def _aligned(count: int, width: int) -> int:
    """Return the bytes of a column with room to read beyond its end, a multiple of 64."""
    return ((count + PAD) * width + 127) // 64 * 64


def _bytes_of(block: Block) -> int:
    """Return the bytes that the fixed columns of ``block`` need in a run."""
    widths = [8, 0 if block.numbers is None else 8]
    widths += [c.values.dtype.itemsize for c in block.columns if c.layout.storage is Storage.FIXED]
    return sum(_aligned(len(block), width) for width in widths) + 4 * PAD + 256


def _taken(valid: npt.NDArray[np.uint8] | None, places: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8] | None:
    return None if valid is None else valid[places]
