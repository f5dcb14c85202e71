"""Pairs that stand: what is the same for every tuple of a third stream is found once, and kept.

A new tuple of T that goes with any pair of R and S that belong together would have all of R look for S again, which
MJoin does: it keeps no partial results. But those pairs have been found before, when the later of the two came. So
they are noted then, by their sequence numbers, as long as they are not many, and taken from there.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from crosswind.engine.ops import Home, Op
from crosswind.kernel.compiled.follow import Op as Words
from crosswind.window.vector import address

__all__ = ["PAIRS_MOST", "PAIRS_ROOM", "Keep", "Pairs", "Stand"]

PAIRS_ROOM = 256
"""Pairs that there is room for in the beginning."""

PAIRS_MOST = 1 << 16
"""Pairs that are kept at most; where there are more, it is no loss to look for them again."""


class Pairs:
    """Pairs of tuples of two units: the terms they belong to, and their sequence numbers."""

    def __init__(self, units: tuple[int, int], newest: Sequence[int]) -> None:
        self.units = units
        self.words = np.zeros(4, dtype=np.int64)
        self.at = address(self.words)
        self._make_room(PAIRS_ROOM)
        self._tidy_from = PAIRS_ROOM
        self.start(newest)

    def start(self, newest: Sequence[int]) -> None:
        """Begin anew: with pairs of tuples that come after the ``newest`` of each unit."""
        self.words[2] = 0
        self._since = tuple(newest[unit] + 1 for unit in self.units)
        self._is_whole = True

    def is_whole(self, oldest: tuple[int, int]) -> bool:
        """Whether all pairs are here, of tuples from the ``oldest`` of each unit on."""
        return self._is_whole and oldest[0] >= self._since[0] and oldest[1] >= self._since[1]

    def grow(self) -> None:
        """Make more room; where there are too many, forget them all."""
        matrix, count = self._matrix, int(self.words[2])
        if self._matrix.shape[1] >= PAIRS_MOST:
            self._is_whole = False
            self.words[2] = 0
            return
        self._make_room(4 * matrix.shape[1])
        self._matrix[:, :count] = matrix[:, :count]
        self.words[2] = count

    def tidy(self, oldest: tuple[int, int], newest: Sequence[int]) -> None:
        """Forget pairs of tuples that are gone."""
        count = int(self.words[2])
        if not self._is_whole:
            self.start(newest)
        elif count >= self._tidy_from:
            known = self._matrix[:, :count]
            left = known[:, (known[1] >= oldest[0]) & (known[2] >= oldest[1])]
            self._matrix[:, : left.shape[1]] = left
            self.words[2] = left.shape[1]
            self._tidy_from = 2 * left.shape[1] + PAIRS_ROOM

    def _make_room(self, room: int) -> None:
        self._matrix = np.zeros((3, room), dtype=np.int64)
        self.words[:2] = (address(self._matrix), room)


class Keep(Op):
    """Notes pairs among the combinations of ``entry``."""

    def __init__(self, entry: Op, bits: int, pairs: Pairs) -> None:
        super().__init__(Words.KEEP, entry.units, entry.homes, 0)
        words = self.words
        words[Words.INPUT], words[Words.BITS], words[Words.QUERY] = entry.at, bits, pairs.at
        words[Words.FIRST], words[Words.LAST] = (entry.units.index(unit) for unit in pairs.units)
        self.pairs = pairs


class Stand(Op):
    """Pairs that have been noted, in the place of ``instead``: all that waits in a window, looking for partners."""

    def __init__(self, instead: Op, homes: tuple[Home, Home], bits: int) -> None:
        super().__init__(Words.STAND, (homes[0].unit, homes[1].unit), homes, instead.room)
        self.bits, self._instead, self._instead_bits = bits, instead, int(instead.words[Words.BITS])
        self._pairs: Pairs | None = None

    def take(self, pairs: Pairs) -> None:
        """Use ``pairs`` from now on."""
        self._pairs = pairs
        self.words[Words.QUERY] = pairs.at

    def attune(self, changed: set[Home]) -> None:
        """Write down what has changed about the windows."""
        if self.homes[0] in changed:
            self._take_window(self.homes[0])
        residents, words = self.homes[1].residents, self.words
        if self.homes[1] in changed and residents is not None:
            words[Words.ITEMS_2] = len(residents.items)
            words[Words.RUNS_2], words[Words.RUN_COLUMNS_2] = address(residents.runs), residents.runs.shape[1]

    def choose(self) -> None:
        """Take pairs from here if they are all known, else let them be looked for."""
        ready = self._pairs is not None and self._pairs.is_whole((oldest_in(self.homes[0]), oldest_in(self.homes[1])))
        self.words[Words.BITS] = self.bits if ready else 0
        self._instead.words[Words.BITS] = 0 if ready else self._instead_bits

    def tidy(self, newest: Sequence[int]) -> None:
        """Forget what is gone."""
        if self._pairs is not None:
            self._pairs.tidy((oldest_in(self.homes[0]), oldest_in(self.homes[1])), newest)


def oldest_in(home: Home) -> int:
    """Return the sequence number of the first tuple that waits, in a window that is in the order of these."""
    residents = home.residents
    if residents is None or not residents.items:
        return np.iinfo(np.int64).max
    return int(residents.items[0].numbers[0])
