"""Combinations on their way along a route: references to their members, nothing more.

Columns are fetched when a hop or a result needs them (late materialisation).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from crosswind.engine.result import Found, Place, Taken
from crosswind.window.block import Block

__all__ = ["Partial", "first_found", "first_of", "merged"]

_Ints = npt.NDArray[np.int64]


@dataclass(slots=True, eq=False)
class Partial:
    """Combinations of tuples of some units.

    ``places`` say, by unit, where the members are; ``times`` and ``numbers`` (if there
    are ROWS windows) are theirs. ``mask`` has a bit for each term that a combination may
    still be part of (None: there is but one term).
    """

    places: dict[int, Place]
    times: dict[int, _Ints]
    numbers: dict[int, _Ints]
    mask: npt.NDArray[np.uint64] | None

    def __len__(self) -> int:
        return len(next(iter(self.times.values())))

    def take(self, at: _Ints) -> Partial:
        """Return the combinations at ``at``."""
        return Partial(
            {unit: place.take(at) for unit, place in self.places.items()},
            {unit: times[at] for unit, times in self.times.items()},
            {unit: numbers[at] for unit, numbers in self.numbers.items()},
            None if self.mask is None else self.mask[at],
        )

    def joined(self, at: _Ints, unit: int, place: Found, mask: npt.NDArray[np.uint64] | None) -> Partial:
        """Return the combinations at ``at``, each with a new member of ``unit``."""
        grown = self.take(at)
        grown.places[unit] = place
        grown.times[unit] = place.times
        if self.numbers:
            grown.numbers[unit] = place.numbers
        grown.mask = mask
        return grown

    def keys(self, unit: int) -> _Ints:
        """Return numbers that tell the members of ``unit`` apart."""
        place = self.places[unit]
        return place.rows if isinstance(place, Taken) else place.which * (1 << 32) + place.rows


def first_of(unit: int, block: Block, mask: npt.NDArray[np.uint64] | None) -> Partial:
    """Return the tuples of ``block`` at the beginning of their routes."""
    numbers = {} if block.numbers is None else {unit: block.numbers}
    return Partial({unit: Taken(block, np.arange(len(block), dtype=np.int64))}, {unit: block.times}, numbers, mask)


def first_found(unit: int, found: Found, mask: npt.NDArray[np.uint64] | None, *, numbered: bool) -> Partial:
    """Return tuples that wait in a window as combinations of one."""
    return Partial({unit: found}, {unit: found.times}, {unit: found.numbers} if numbered else {}, mask)


def merged(first: Partial, second: Partial, mask: npt.NDArray[np.uint64] | None) -> Partial:
    """Return combinations of as many members as both have, pair by pair."""
    return Partial(
        first.places | second.places, first.times | second.times, first.numbers | second.numbers, mask
    )
