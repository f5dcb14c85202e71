"""A block: tuples of one join unit on their way into its window."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from crosswind.plan.physical import Storage
from crosswind.window.vector import Vector, address, concat_vectors

__all__ = ["Arrivals", "Block", "concat_blocks"]


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
    addresses: list[int] | None = None
    """Where the values of each column are, if they are read where they lie (None: as vectors)."""
    forms: tuple[int, ...] | None = None
    """What has to be made of the values of each column when they are written (None: they are copied)."""
    _place: tuple[npt.NDArray[Any], npt.NDArray[Any], tuple[int, int, int, int]] | None = None

    def is_bare(self, width: int) -> bool:
        """Whether the first ``width`` columns have only values: no nulls and no NaNs, all of fixed width."""
        for column in self.columns[:width]:
            if column.valid is not None or column.layout.storage is not Storage.FIXED or column.has_nans:
                return False
        return True

    @property
    def times_at(self) -> int:
        """Where the times are."""
        return address(self.times)

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

    def with_column(self, place: int, values: npt.NDArray[np.int64]) -> Block:
        """Return these tuples with other numbers in the column at ``place``."""
        columns = list(self.columns)
        columns[place] = Vector(columns[place].layout, values)
        return Block(self.times, tuple(columns), self.numbers, self.keep, self.ends)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.times.nbytes + sum(column.nbytes for column in self.columns)


class Arrivals(Block):
    """A few new tuples without nulls, all of fixed width, read where they lie in the batch that brought them.

    Nothing is copied, and vectors are made only if somebody asks for columns.

    Parameters
    ----------
    times : array of int64
        Their times.
    addresses : list of int
        Where the values of each column are.
    forms : tuple of int
        What is made of them when they are written, as :func:`crosswind.kernel.compiled.arrange.put_into_copies` has it.
    ends : tuple of int
        The least and the greatest time.
    has_nans : bool
        Whether a value that conditions read is no number.
    make : callable
        Makes the columns.
    memory : object
        What has to live as long as addresses are used.
    """

    __slots__ = ("_has_nans", "_made", "_make", "_memory", "_read", "_times_at")

    def __init__(
        self,
        times: npt.NDArray[np.int64],
        addresses: list[int],
        forms: tuple[int, ...],
        ends: tuple[int, int] | None,
        has_nans: bool,
        make: Callable[[], Block],
        memory: Any = None,
    ) -> None:
        self.times, self.numbers, self.keep, self.ends, self._place = times, None, None, ends, None
        self.addresses, self.forms, self._times_at = addresses, forms, address(times)
        self._read = addresses, forms
        self._has_nans, self._make, self._memory = has_nans, make, memory
        self._made: tuple[Vector, ...] | None = None

    @property
    def columns(self) -> tuple[Vector, ...]:  # type: ignore[override]
        """The columns as vectors."""
        if self._made is None:
            self._made = self._make().columns
        return self._made

    def with_column(self, place: int, values: npt.NDArray[np.int64]) -> Arrivals:
        """Return these tuples with other numbers in the column at ``place``."""
        addresses, forms = self._read
        addresses = [*addresses[:place], address(values), *addresses[place + 1 :]]
        make = self._make
        return Arrivals(
            self.times,
            addresses,
            forms,
            self.ends,
            self._has_nans,
            lambda: make().with_column(place, values),
            (values, self._memory),
        )

    @property
    def times_at(self) -> int:
        """Where the times are."""
        return self._times_at

    def is_bare(self, width: int) -> bool:  # noqa: ARG002
        """Whether there are only values: no NaN that conditions read."""
        return not self._has_nans

    @property
    def place(self) -> tuple[int, int, int, int]:
        """Where columns are, as :attr:`Block.place` has it."""
        if self._place is None:
            table = np.array(self.addresses, dtype=np.int64)
            nulls, nulls_at = _no_nulls(len(table))
            self._place = (table, nulls, (address(table), 8, self._times_at, nulls_at))
        return self._place[2]


@cache
def _no_nulls(columns: int) -> tuple[npt.NDArray[np.uint8], int]:
    none = np.zeros(columns, dtype=np.uint8)
    return none, address(none)


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
