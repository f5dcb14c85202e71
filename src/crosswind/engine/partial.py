"""Combinations on their way along a route: references to their members, nothing more.

Columns are fetched when a hop or a result needs them (late materialisation).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from crosswind.engine.result import Found, Member, Taken, gather
from crosswind.window.block import Block
from crosswind.window.join_window import Residents
from crosswind.window.vector import Layout, Vector, address

__all__ = ["Partial", "first_found", "first_of"]

_Ints = npt.NDArray[np.int64]
_Cells = npt.NDArray[np.int64]

TIME, NUMBER = 3, 4
"""Rows of the first member's time and sequence number in the cells; each member has four."""


@dataclass(slots=True, eq=False)
class Partial:
    """Combinations of tuples of some units.

    ``homes`` are the blocks and windows that members lie in, by place in ``units``. ``cells`` has a
    column a combination (see :mod:`crosswind.kernel.combine`): first a bit for each term that it may
    still be part of; then for each member its basic window, place, time and sequence number. The
    first ``count`` columns count. ``whole`` says that they are all tuples of one block.
    """

    units: tuple[int, ...]
    homes: tuple[Block | Residents, ...]
    cells: _Cells
    count: int
    whole: bool = False

    def __len__(self) -> int:
        return self.count

    def wanted(self, bits: int) -> Partial:
        """Return the combinations that may be part of one of the terms ``bits``."""
        from crosswind.kernel.combine import combine_kernels

        kernels = combine_kernels()
        alive = kernels.alive(self.cells, self.count, bits)
        if alive == self.count:
            return self
        kept = np.empty((len(self.cells), alive), dtype=np.int64)
        kernels.pick(self.cells, self.count, bits, kept)
        return Partial(self.units, self.homes, kept, alive)

    def members(self, units: tuple[int, ...]) -> _Ints:
        """Return the places of ``units`` among the members."""
        return np.array([self.units.index(unit) for unit in units], dtype=np.int64)

    def column(self, unit: int, index: int, layout: Layout, rows: _Ints | None = None) -> Vector:
        """Return a column of the members of ``unit``, of all combinations or those at ``rows``."""
        place = self.units.index(unit)
        home = self.homes[place]
        if isinstance(home, Block):
            column = home.columns[index]
            if self.whole:
                return column if rows is None else column.take(rows)
            return column.take(self._row(4 * place + 2, rows))
        return gather(home, layout, index, self._row(4 * place + 1, rows), self._row(4 * place + 2, rows))

    def _row(self, row: int, rows: _Ints | None) -> _Ints:
        values = self.cells[row, : self.count]
        return values if rows is None else values[rows]

    def places(self) -> dict[int, Member]:
        """Return where the members are, by unit."""
        made: dict[int, Member] = {}
        base, step = address(self.cells), self.cells.strides[0]
        for place, (unit, home) in enumerate(zip(self.units, self.homes, strict=True)):
            at = 4 * place
            rows = self.cells[at + 2, : self.count]
            if isinstance(home, Block):
                made[unit] = Taken(home, rows, base + (at + 2) * step)
            else:
                found = tuple(base + (at + row) * step for row in (1, 2, TIME))
                made[unit] = Found(home, self.cells[at + 1, : self.count], rows, found)
        return made


def first_of(unit: int, block: Block, mask: _Ints | np.int64) -> Partial:
    """Return the tuples of ``block`` at the beginning of their routes."""
    rows = np.arange(len(block), dtype=np.int64)
    cells = np.empty((5, len(block)), dtype=np.int64)
    cells[0], cells[1], cells[2], cells[TIME] = mask, 0, rows, block.times
    cells[NUMBER] = rows if block.numbers is None else block.numbers
    return Partial((unit,), (block,), cells, len(block), whole=True)


def first_found(unit: int, residents: Residents, which: _Ints, rows: _Ints, mask: int, numbered: bool) -> Partial:
    """Return tuples that wait in a window as combinations of one."""
    found = Found(residents, which, rows)
    cells = np.empty((5, len(rows)), dtype=np.int64)
    cells[0], cells[1], cells[2], cells[TIME] = mask, which, rows, found.times
    cells[NUMBER] = found.numbers if numbered else rows
    return Partial((unit,), (residents,), cells, len(rows))
