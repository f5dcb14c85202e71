"""A run: a sealed basic window (or several, merged), ready to be searched.

CellJoin §7.2 keeps a list of basic windows in each hash bucket; here a sealed basic
window is itself put in the order of its cells, with a directory of where each begins.
It never changes, so it can be shared, cached and searched without locks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from crosswind.plan.keys import PAD, halve
from crosswind.plan.physical import Storage
from crosswind.window.block import Block
from crosswind.window.vector import Vector

__all__ = ["Arrangement", "Run"]


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
    keys : int
        How many of the first columns are keys.
    arrangement : Arrangement, optional
        Where cells begin; without one the tuples stay as they came.
    places : array of int64, optional
        The tuples of ``block`` in the order of their cells.
    """

    sealed = True

    def __init__(
        self,
        block: Block,
        keys: int,
        arrangement: Arrangement | None = None,
        places: npt.NDArray[np.int64] | None = None,
    ) -> None:
        self.length = len(block)
        self.arrangement = arrangement
        if places is None:
            places = np.arange(len(block), dtype=np.int64)
        self.times = block.times[places]
        self.numbers = np.empty(0, dtype=np.int64) if block.numbers is None else block.numbers[places]
        self.time_min, self.time_max = int(block.times.min()), int(block.times.max())
        self.number_max = 0 if block.numbers is None else int(block.numbers.max())
        self._columns = [
            _padded(column, places) if k < keys else column.take(places) for k, column in enumerate(block.columns)
        ]
        self.halves = [halve(column.values, self.length) for column in self._columns[:keys]]
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
        column = self._columns[index]
        return column.slice(0, self.length) if column.layout.storage is Storage.FIXED else column

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


def _padded(column: Vector, places: npt.NDArray[np.int64]) -> Vector:
    """Return the keys at ``places``, with room to read beyond the last."""
    values = np.empty(len(places) + PAD, dtype=column.values.dtype)
    np.take(column.values, places, out=values[: len(places)], mode="clip")
    return Vector(column.layout, values, column.valid)
