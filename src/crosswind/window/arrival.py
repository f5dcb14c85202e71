"""What happens to tuples before they join: watermarks, lateness, and the order.

RANGE windows need no order: whoever comes second meets whoever came first. ROWS
windows do: tuples are held here until no earlier one can come, then released in the
order, numbered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from crosswind.plan.axis import INT64_MAX, INT64_MIN
from crosswind.window.block import Block, concat_blocks

__all__ = ["END", "Order", "Release", "Sorter", "Watermark"]

END = INT64_MAX + 1
"""The watermark of a stream that has ended: beyond every time."""
_STEP = 256
"""Numbers from one mark to the next: so finely is it known which tuples are still needed."""


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


@dataclass(frozen=True)
class Order:
    """Where the order stands, by unit: what is needed, besides the tuples, to number them again.

    ``counts`` tuples were numbered. Those from the number ``firsts`` on may be needed still; none of them is
    older than ``floors`` (None: nothing was numbered yet). ``removed`` are the serial numbers, counted as
    tuples came, of those that were left out.
    """

    counts: tuple[int, ...]
    firsts: tuple[int, ...]
    floors: tuple[int | None, ...]
    removed: tuple[tuple[int, ...], ...]


class Sorter:
    """Holds tuples until they can be put in the order.

    What is held carries serial numbers, counted as tuples came; what is let go, its place in the order.

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
        self.serials = [0] * len(streams)
        self.removed: list[tuple[int, ...]] | None = None
        self._marks: list[tuple[tuple[int, int], ...]] = [()] * len(streams)

    def copy(self) -> Sorter:
        """Return an independent copy; blocks are shared, they never change."""
        twin = Sorter(self.streams)
        twin.held = [list(blocks) for blocks in self.held]
        twin.counts, twin.serials = list(self.counts), list(self.serials)
        twin.removed = None if self.removed is None else list(self.removed)
        twin._marks = list(self._marks)
        return twin

    def hold(self, unit: int, block: Block) -> None:
        """Take tuples of ``unit`` in, in arrival order."""
        if len(block):
            serials = self.serials[unit] + np.arange(len(block), dtype=np.int64)
            self.held[unit].append(replace(block, numbers=serials))
            self.serials[unit] += len(block)

    def waiting(self, unit: int) -> list[Block]:
        """Return what is held of ``unit``, without serial numbers."""
        return [replace(block, numbers=None) for block in self.held[unit]]

    def leave_out(self, removed: Sequence[tuple[int, ...]]) -> None:
        """Drop those of the held tuples that have these serial numbers, by unit, and note whatever is left out."""
        self.removed = list(removed)
        for unit, serials in enumerate(removed):
            if serials:
                blocks = [(b, b.numbers) for b in self.held[unit] if b.numbers is not None]
                left = [b.take(np.flatnonzero(~np.isin(numbers, serials))) for b, numbers in blocks]
                self.held[unit] = [block for block in left if len(block)]

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
                if twin.removed is not None and whole.numbers is not None:
                    twin.removed[role] += (int(whole.numbers[alike[-1 - later]]),)
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
            if block is not None:
                self._mark(unit, block.times)
                self.counts[unit] += len(block)
        return [None if block is None else self._number(unit, block, ready, bases) for unit, block in enumerate(ready)]

    def order(self, oldest: Sequence[int]) -> Order:
        """Return where the order stands; tuples with serial numbers before ``oldest``, by unit, are kept nowhere."""
        if self.removed is not None:
            both = zip(self.removed, oldest, strict=True)
            self.removed = [tuple(serial for serial in serials if serial >= least) for serials, least in both]
        return Order(
            tuple(self.counts),
            tuple(marks[0][0] if marks else count for marks, count in zip(self._marks, self.counts, strict=True)),
            tuple(marks[0][1] if marks else None for marks in self._marks),
            tuple(self.removed or [()] * len(self.counts)),
        )

    def renumber(self, order: Order, watermarks: list[int]) -> list[Block | None]:
        """Let go of tuples that were numbered before, in some other sorter; return those needed, by unit.

        All tuples from ``order.firsts`` on that were not numbered here must be held, and any number of older ones.
        So they are the last ones, and numbered from the end. ValueError: there are too few.
        """
        ready: list[Block | None] = []
        before = list(self.counts)
        for unit, release in enumerate(self.release(watermarks)):
            count = order.counts[unit] - max(order.firsts[unit], before[unit])
            block = None if release is None else release.block
            if count > (0 if block is None else len(block)) or count < 0:
                raise ValueError(f"{0 if block is None else len(block)} tuples are not the {count} that were numbered")
            self.counts[unit] = order.counts[unit] - count
            self._marks[unit] = tuple(mark for mark in self._marks[unit] if mark[0] < before[unit])
            if block is not None:
                numbers = self.counts[unit] + np.arange(count, dtype=np.int64)
                block = replace(block.slice(len(block) - count, len(block)), numbers=numbers)
                self._mark(unit, block.times)
            self.counts[unit] += count
            ready.append(block if count else None)
        return ready

    def forget(self, limits: Sequence[tuple[int | None, int | None]]) -> None:
        """Say which tuples are no longer needed, by unit: those before a time and a number (None: no matter)."""
        for unit, (time, number) in enumerate(limits):
            marks, first = self._marks[unit], 0
            while first + 1 < len(marks) and _is_before(marks[first + 1], time, number):
                first += 1
            self._marks[unit] = marks[first:]

    def _mark(self, unit: int, times: npt.NDArray[np.int64]) -> None:
        """Note the times of some of the tuples that are numbered next."""
        marks, base = self._marks[unit], self.counts[unit]
        start = max(0, marks[-1][0] + _STEP - base) if marks else 0
        self._marks[unit] = (*marks, *((base + row, int(times[row])) for row in range(start, len(times), _STEP)))

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


def _is_before(mark: tuple[int, int], time: int | None, number: int | None) -> bool:
    """Whether a tuple of that number and time, and all before it in the order, are no longer needed."""
    if time is None and number is None:
        return False
    return (number is None or mark[0] <= number) and (time is None or mark[1] < time)
