"""Cached pairs: what is the same for every tuple of a third stream is found once, and kept.

A new tuple of T that goes with any pair of R and S that belong together would have all of R look for S again, which
MJoin does: it keeps no partial results. But those pairs have been found before, when the later of the two came. So
they are noted then, by their sequence numbers, as long as they are not many, and taken from there.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from crosswind.engine.probe.operators import MemberSource, Op
from crosswind.kernel.records import KEEP, OP, PAIRS, STAND, new_record, word_of
from crosswind.window.vector import address

__all__ = ["PAIRS_MOST", "PAIRS_ROOM", "CachedPairs", "KeepPairs", "ReadPairs"]

PAIRS_ROOM = 256
"""Pairs that there is room for in the beginning."""

PAIRS_MOST = 1 << 16
"""Pairs that are kept at most; where there are more, it is no loss to look for them again."""

_BITS = word_of(OP, "bits")


class CachedPairs:
    """Pairs of tuples of two units: the terms they belong to, and their sequence numbers."""

    def __init__(self, units: tuple[int, int], newest: Sequence[int]) -> None:
        self.units = units
        self.words, self.record = new_record(PAIRS)
        self.at = address(self.words)
        self._make_room(PAIRS_ROOM)
        self._tidy_from = PAIRS_ROOM
        self.start(newest)

    def start(self, newest: Sequence[int]) -> None:
        """Begin anew: with pairs of tuples that come after the ``newest`` of each unit."""
        self.record["count"] = 0
        self._since = tuple(newest[unit] + 1 for unit in self.units)
        self._is_whole = True

    def is_whole(self, oldest: tuple[int, int]) -> bool:
        """Whether all pairs are here, of tuples from the ``oldest`` of each unit on."""
        return self._is_whole and oldest[0] >= self._since[0] and oldest[1] >= self._since[1]

    def grow(self) -> None:
        """Make more room; where there are too many, forget them all."""
        matrix, count = self._matrix, int(self.record["count"])
        if self._matrix.shape[1] >= PAIRS_MOST:
            self._is_whole = False
            self.record["count"] = 0
            return
        self._make_room(4 * matrix.shape[1])
        self._matrix[:, :count] = matrix[:, :count]
        self.record["count"] = count

    def tidy(self, oldest: tuple[int, int], newest: Sequence[int]) -> None:
        """Forget pairs of tuples that are gone."""
        count = int(self.record["count"])
        if not self._is_whole:
            self.start(newest)
        elif count >= self._tidy_from:
            known = self._matrix[:, :count]
            left = known[:, (known[1] >= oldest[0]) & (known[2] >= oldest[1])]
            self._matrix[:, : left.shape[1]] = left
            self.record["count"] = left.shape[1]
            self._tidy_from = 2 * left.shape[1] + PAIRS_ROOM

    def _make_room(self, room: int) -> None:
        self._matrix = np.zeros((3, room), dtype=np.int64)
        self.record["at"], self.record["room"] = address(self._matrix), room


class KeepPairs(Op):
    """Notes pairs among the combinations of ``entry``."""

    def __init__(self, entry: Op, bits: int, pairs: CachedPairs) -> None:
        super().__init__(KEEP, entry.units, entry.sources, 0)
        record = self.record
        record["input"], record["bits"], record["pairs"] = entry.at, bits, pairs.at
        record["first"], record["last"] = (entry.units.index(unit) for unit in pairs.units)
        self.pairs = pairs


class ReadPairs(Op):
    """Pairs that have been noted, in the place of ``instead``: all that waits in a window, looking for partners."""

    def __init__(self, instead: Op, sources: tuple[MemberSource, MemberSource], bits: int) -> None:
        super().__init__(STAND, (sources[0].unit, sources[1].unit), sources, instead.room)
        self.bits, self._instead, self._instead_bits = bits, instead, int(instead.record["bits"])
        self._pairs: CachedPairs | None = None

    def take(self, pairs: CachedPairs) -> None:
        """Use ``pairs`` from now on."""
        self._pairs = pairs
        self.record["pairs"] = pairs.at

    def attune(self, changed: set[MemberSource]) -> None:
        """Write down what has changed about the windows."""
        if self.sources[0] in changed:
            self._take_window(self.sources[0])
        residents, record = self.sources[1].residents, self.record
        if self.sources[1] in changed and residents is not None:
            record["items_2"] = len(residents.items)
            record["runs_2"], record["run_columns_2"] = address(residents.runs), residents.runs.shape[1]

    def choose(self) -> None:
        """Take pairs from here if they are all known, else let them be looked for."""
        ready = self._pairs is not None and self._pairs.is_whole(
            (oldest_in(self.sources[0]), oldest_in(self.sources[1]))
        )
        self.words[_BITS] = self.bits if ready else 0
        self._instead.words[_BITS] = 0 if ready else self._instead_bits

    def tidy(self, newest: Sequence[int]) -> None:
        """Forget what is gone."""
        if self._pairs is not None:
            self._pairs.tidy((oldest_in(self.sources[0]), oldest_in(self.sources[1])), newest)


def oldest_in(source: MemberSource) -> int:
    """Return the sequence number of the first tuple that waits, in a window that is in the order of these."""
    residents = source.residents
    if residents is None or not residents.items:
        return np.iinfo(np.int64).max
    return int(residents.items[0].numbers[0])
