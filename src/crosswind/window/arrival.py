"""What happens to tuples before they join: watermarks, lateness, and the order.

RANGE windows need no order: whoever comes second meets whoever came first. ROWS
windows do: tuples are held here until no earlier one can come, then released in the
order, numbered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from crosswind.plan.axis import INT64_MAX, INT64_MIN
from crosswind.window.block import Block, concat_blocks

__all__ = ["END", "Release", "Sorter", "Watermark"]

END = INT64_MAX + 1
"""The watermark of a stream that has ended: beyond every time."""


@dataclass
class Watermark:
    """How far a stream has come: its greatest time seen minus its allowed lateness."""

    lateness: int
    value: int = INT64_MIN

    def is_late(self, times: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Mark the tuples that are older than the watermark as it stands."""
        return times < self.value

    def see(self, greatest: int) -> None:
        """Note that a tuple of time ``greatest`` has come."""
        self.value = max(self.value, max(INT64_MIN, greatest - self.lateness))

    def advance(self, to: int) -> None:
        """Move to ``to``; a watermark never goes back."""
        self.value = max(self.value, to)


@dataclass(frozen=True)
class Release:
    """Tuples of one unit that are next in the order, numbered, filtered ones still among them.

    ``before[k][i]`` is how many tuples of unit k come before tuple i in the order;
    ``base`` is the number of the first tuple.
    """

    block: Block
    before: tuple[npt.NDArray[np.int64], ...]
    base: int


class Sorter:
    """Holds tuples until they can be put in the order.

    Parameters
    ----------
    streams : sequence of str
        The stream of each join unit, in FROM order (ties between units go by this order). Units of one stream let go
        of a tuple together, so that it can be left out of all of them as long as it is held.
    """

    def __init__(self, streams: Sequence[str]) -> None:
        self.streams = streams
        self.held: list[list[Block]] = [[] for _ in streams]
        self.counts = [0] * len(streams)

    def copy(self) -> Sorter:
        """Return an independent copy; blocks are shared, they never change."""
        twin = Sorter(self.streams)
        twin.held = [list(blocks) for blocks in self.held]
        twin.counts = list(self.counts)
        return twin

    def hold(self, unit: int, block: Block) -> None:
        """Take tuples of ``unit`` in, in arrival order."""
        if len(block):
            self.held[unit].append(block)

    def without(self, unit: int, rank: int) -> tuple[Sorter, int]:
        """Return a copy without the tuple that is at ``rank`` of those of ``unit``, in the order; and its time.

        It goes from all units of its stream. These hold the same tuples, but for those that came before a unit did.
        """
        twin = self.copy()
        times = concat_blocks(self.held[unit]).times
        place = int(np.argsort(times, kind="stable")[rank])
        later = int(np.count_nonzero(times[place + 1 :] == times[place]))
        for role, stream in enumerate(self.streams):
            if stream != self.streams[unit] or not self.held[role]:
                continue
            whole = concat_blocks(self.held[role])
            alike = np.flatnonzero(whole.times == times[place])
            if len(alike) > later:
                rest = np.delete(np.arange(len(whole), dtype=np.int64), alike[-1 - later])
                twin.held[role] = [whole.take(rest)] if len(rest) else []
        return twin, int(times[place])

    def release(self, watermarks: list[int], most: int | None = None) -> list[Release | None]:
        """Let go of every tuple that no future tuple can precede (None: nothing of that unit).

        A future tuple of unit k is not older than ``watermarks[k]``; at that very time it
        comes after a held tuple of unit i iff i does not come after k in FROM. Units of one stream wait for each
        other. With ``most``, only so many of
        them go, the first ones in the order.
        """
        units = range(len(self.held))
        ready: list[Block | None] = []
        limits = [min(w if unit <= k else w - 1 for k, w in enumerate(watermarks)) for unit in units]
        for unit in units:
            limit = min(limits[k] for k in units if self.streams[k] == self.streams[unit])
            ready.append(self._cut(unit, limit))
        bases = list(self.counts)
        if most is not None:
            ready = self._first(ready, bases, most)
        for unit, block in enumerate(ready):
            self.counts[unit] += 0 if block is None else len(block)
        return [None if block is None else self._number(unit, block, ready, bases) for unit, block in enumerate(ready)]

    def _cut(self, unit: int, limit: int) -> Block | None:
        if not any(int(block.times.min()) <= limit for block in self.held[unit]):
            return None
        whole = concat_blocks(self.held[unit])
        times = whole.times
        if (times[1:] >= times[:-1]).all():  # as they mostly come: only what stays is copied, lest it hold the rest
            count = int(np.searchsorted(times, min(limit, INT64_MAX), side="right"))
            self.held[unit] = [whole.take(np.arange(count, len(whole)))] if count < len(whole) else []
            ready = whole.slice(0, count) if count < len(whole) else whole
            ready.ends = (int(times[0]), int(times[count - 1]))
            return ready
        order = np.argsort(times, kind="stable")
        count = int(np.searchsorted(times[order], min(limit, INT64_MAX), side="right"))
        self.held[unit] = []
        if count < len(whole):
            self.held[unit].append(whole.take(np.sort(order[count:])))
        return whole.take(order[:count])

    def _first(self, ready: list[Block | None], bases: list[int], most: int) -> list[Block | None]:
        """Return the first ``most`` tuples of ``ready`` in the order; the others are held on."""
        kept: list[Block | None] = []
        for unit, block in enumerate(ready):
            if block is None:
                kept.append(None)
                continue
            before = self._number(unit, block, ready, bases).before
            count = int(np.searchsorted(np.sum(before, axis=0) - sum(bases), most, side="left"))
            if count < len(block):
                self.held[unit] = [block.slice(count, len(block)), *self.held[unit]]
            kept.append(block.slice(0, count) if count else None)
        return kept

    @staticmethod
    def _number(unit: int, block: Block, ready: list[Block | None], bases: list[int]) -> Release:
        numbers = bases[unit] + np.arange(len(block), dtype=np.int64)
        before = []
        for k, other in enumerate(ready):
            if k == unit:
                before.append(numbers)
            elif other is None:
                before.append(np.full(len(block), bases[k], dtype=np.int64))
            else:
                side: Literal["left", "right"] = "right" if k < unit else "left"
                before.append(bases[k] + np.searchsorted(other.times, block.times, side=side).astype(np.int64))
        return Release(Block(block.times, block.columns, numbers, block.keep, block.ends), tuple(before), bases[unit])

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(block.nbytes for blocks in self.held for block in blocks)

    def __len__(self) -> int:
        return sum(len(block) for blocks in self.held for block in blocks)
