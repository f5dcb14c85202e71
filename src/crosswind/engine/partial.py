"""Combinations on their way along a route: references to their members, nothing more.

Columns are fetched when a hop or a result needs them (late materialisation).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from crosswind.engine.result import Found, Member, Taken
from crosswind.window.block import Block

__all__ = ["Partial", "first_found", "first_of", "merged"]

_Ints = npt.NDArray[np.int64]


class Partial:
    """Combinations of tuples of some units.

    ``places`` say, by unit, where the members are. ``mask`` has a bit for each term that a
    combination may still be part of (None: there is but one term). Times and sequence
    numbers are fetched when asked for.
    """

    __slots__ = ("_count", "_numbers", "_times", "mask", "places")

    def __init__(self, places: dict[int, Member], mask: npt.NDArray[np.uint64] | None, count: int) -> None:
        self.places = places
        self.mask = mask
        self._count = count
        self._times: dict[int, _Ints] | None = None
        self._numbers: dict[int, _Ints] | None = None

    def __len__(self) -> int:
        return self._count

    @property
    def times(self) -> dict[int, _Ints]:
        """The times of the members, by unit."""
        if self._times is None:
            self._times = {unit: place.times for unit, place in self.places.items()}
        return self._times

    @property
    def numbers(self) -> dict[int, _Ints]:
        """The sequence numbers of the members, by unit (ROWS windows)."""
        if self._numbers is None:
            self._numbers = {unit: place.numbers for unit, place in self.places.items()}
        return self._numbers

    def take(self, at: _Ints) -> Partial:
        """Return the combinations at ``at``."""
        places = {unit: place.take(at) for unit, place in self.places.items()}
        return Partial(places, None if self.mask is None else self.mask[at], len(at))

    def joined(self, at: _Ints, unit: int, place: Found, mask: npt.NDArray[np.uint64] | None) -> Partial:
        """Return the combinations at ``at``, each with a new member of ``unit``."""
        places: dict[int, Member] = {known: old.take(at) for known, old in self.places.items()}
        places[unit] = place
        return Partial(places, mask, len(at))

    def keys(self, unit: int) -> _Ints:
        """Return numbers that tell the members of ``unit`` apart."""
        place = self.places[unit]
        return place.rows if isinstance(place, Taken) else place.which * (1 << 32) + place.rows


def first_of(unit: int, block: Block, mask: npt.NDArray[np.uint64] | None) -> Partial:
    """Return the tuples of ``block`` at the beginning of their routes."""
    return Partial({unit: Taken(block, np.arange(len(block), dtype=np.int64))}, mask, len(block))


def first_found(unit: int, found: Found, mask: npt.NDArray[np.uint64] | None) -> Partial:
    """Return tuples that wait in a window as combinations of one."""
    return Partial({unit: found}, mask, len(found.rows))


def merged(first: Partial, second: Partial, mask: npt.NDArray[np.uint64] | None) -> Partial:
    """Return combinations of as many members as both have, pair by pair."""
    return Partial(first.places | second.places, mask, len(first))
