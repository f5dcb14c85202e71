"""Links: tuples with equal keys, one after the other, in a basic window that stays as it came.

A run has to be arranged when its basic window is full, and what is not full yet is scanned. Where a window is short,
both happen all the time. Links cost a few instructions when a tuple comes, and are there at once: a table of
hashes says which tuple came last, and each tuple which one of its hash came before it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from crosswind.window.vector import address

__all__ = ["Linking", "Links"]


@dataclass(frozen=True)
class Linking:
    """Which keys are compared for equality, all of them, and who links tuples.

    The latter is given where the record of links is, and which tuples have come: the first, and the one after the last.
    """

    keys: tuple[int, ...]
    link: Callable[[int, int, int], None]


class Links:
    """The links of a basic window with room for ``capacity`` tuples.

    Parameters
    ----------
    capacity : int
        How many tuples there can be.
    keys : sequence of array
        The keys that are compared for equality, all of them, where the basic window keeps them.
    link : callable
        Links tuples, as :class:`Linking` has it.
    """

    def __init__(
        self,
        capacity: int,
        keys: Sequence[npt.NDArray[np.signedinteger]],
        link: Callable[[int, int, int], None],
    ) -> None:
        self._keys, self._link = keys, link
        cells = 1 << max(4, capacity.bit_length())
        self._last = np.full(cells, -1, dtype=np.int32)
        self._before = np.empty(capacity, dtype=np.int32)
        self.is_ordered = True
        """Whether tuples came by rising sequence numbers, so that older ones need not be looked at."""
        words = [address(self._last), cells, address(self._before), len(keys)]
        for key in keys:
            words += (address(key), key.dtype.itemsize)
        self._record = np.array(words, dtype=np.int64)
        self.at = address(self._record)
        """Where what kernels need is: address of the last tuples, how many of these there are, of the tuples before,
        how many keys, and for each where it is and its bytes.
        """

    def take(self, start: int, stop: int) -> None:
        """Link the tuples from ``start`` to ``stop``, which have come."""
        self._link(self.at, start, stop)

    def cut(self, length: int) -> None:
        """Forget all but the first ``length`` tuples."""
        self._last[:] = -1
        self.take(0, length)

    @property
    def words(self) -> tuple[int, int, int, int]:
        """What a kernel reads of it to look for a tuple."""
        last, cells, before = self._record[:3].tolist()
        return last, cells, before, int(self.is_ordered)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self._last.nbytes + self._before.nbytes
