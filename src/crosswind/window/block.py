"""A block: tuples of one join unit on their way into its window."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from crosswind.plan.physical import Storage
from crosswind.window.vector import Vector, address, concat_vectors

__all__ = ["Block", "concat_blocks"]


@dataclass(slots=True, eq=False)
class Block:
    """Tuples of one unit, never changed once made: times, sequence numbers (None until the order is known), columns.

    The columns are the unit's slots followed by its payload. ``keep`` marks the tuples
    that passed the unit's filter; the others only count (for ROWS windows). ``ends`` are
    the least and the greatest time, if that is known.
    """

    times: npt.NDArray[np.int64]
    columns: tuple[Vector, ...]
    numbers: npt.NDArray[np.int64] | None = None
    keep: npt.NDArray[np.bool_] | None = None
    ends: tuple[int, int] | None = None
    _place: tuple[npt.NDArray[Any], npt.NDArray[Any], tuple[int, int, int, int]] | None = None

    def is_bare(self, width: int) -> bool:
        """Whether the first ``width`` columns have only values: no nulls and no NaNs, all of fixed width."""
        for column in self.columns[:width]:
            if column.valid is not None or column.layout.storage is not Storage.FIXED or column.has_nans:
                return False
        return True

    @property
    def place(self) -> tuple[int, int, int, int]:
        """Where columns are.

        Address of a table of theirs, bytes in it from one to the next, address of the times, and of what says by
        column whether it may hold a null.
        """
        if self._place is None:
            columns = self.columns
            nulls = np.array([column.valid is not None for column in columns], dtype=np.uint8)
            table = np.array([column.at or address(column.values) for column in columns], dtype=np.int64)
            self._place = (table, nulls, (address(table), 8, address(self.times), address(nulls)))
        return self._place[2]

    def __len__(self) -> int:
        return len(self.times)

    def take(self, rows: npt.NDArray[np.int64]) -> Block:
        """Return the tuples at ``rows``."""
        return Block(
            self.times[rows],
            tuple(column.take(rows) for column in self.columns),
            None if self.numbers is None else self.numbers[rows],
            None if self.keep is None else self.keep[rows],
        )

    def slice(self, start: int, stop: int) -> Block:
        """Return tuples ``start`` to ``stop``, sharing memory."""
        return Block(
            self.times[start:stop],
            tuple(column.slice(start, stop) for column in self.columns),
            None if self.numbers is None else self.numbers[start:stop],
            None if self.keep is None else self.keep[start:stop],
        )

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.times.nbytes + sum(column.nbytes for column in self.columns)


def concat_blocks(blocks: list[Block]) -> Block:
    """Return the tuples of ``blocks`` (at least one, all numbered or none) in one block."""
    if len(blocks) == 1:
        return blocks[0]
    columns = tuple(concat_vectors([b.columns[k] for b in blocks]) for k in range(len(blocks[0].columns)))
    keep = None
    if any(block.keep is not None for block in blocks):
        keep = np.concatenate([np.ones(len(b), dtype=np.bool_) if b.keep is None else b.keep for b in blocks])
    numbers = [block.numbers for block in blocks if block.numbers is not None]
    times = np.concatenate([block.times for block in blocks])
    return Block(times, columns, np.concatenate(numbers) if numbers else None, keep)
