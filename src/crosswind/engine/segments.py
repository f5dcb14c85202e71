"""A window in segments that workers share: dealt out round robin, released lazily (DP-Join §III-C, §III-D2).

Tuples belong to one segment for good. Every worker that reads a segment has a counter of
the horizons it has seen; what lies before a horizon goes when the least of the sharers'
counters has reached it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from crosswind.window.block import Block
from crosswind.window.join_window import JoinWindow, Mark

__all__ = ["Part", "SegmentedWindow"]


class Part(NamedTuple):
    """Tuples ``start`` to ``stop`` of a block, which belong to segment ``segment``."""

    segment: int
    start: int
    stop: int


@dataclass(frozen=True)
class _Horizon:
    """What may go: tuples before a time and a sequence number."""

    time: int | None
    number: int | None


class SegmentedMark(NamedTuple):
    """A window in segments as it was: which segment is next, what may go, and the segments."""

    next: int
    horizon: _Horizon
    segments: list[Mark]


class SegmentedWindow:
    """A window whose tuples wait in several segments.

    Parameters
    ----------
    segments : sequence of JoinWindow
        Where they wait.
    """

    def __init__(self, segments: Sequence[JoinWindow]) -> None:
        self.segments = tuple(segments)
        self._next = 0
        self.generation = 0
        self._horizons = {0: _Horizon(None, None)}

    def __len__(self) -> int:
        return sum(len(segment) for segment in self.segments)

    def blocks(self) -> list[Block]:
        """Return the tuples, segment by segment."""
        return [block for segment in self.segments for block in segment.blocks()]

    def arrange(self) -> None:
        """Arrange at once what was left as it came."""
        for segment in self.segments:
            segment.arrange()

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(segment.nbytes for segment in self.segments)

    def parts(self, size: int) -> list[Part]:
        """Deal ``size`` new tuples out: as many to each segment, what is left over to the next in turn."""
        count = len(self.segments)
        each, left = divmod(size, count)
        parts, start = [], 0
        for turn in range(count):
            stop = start + each + (turn < left)
            if stop > start:
                parts.append(Part((self._next + turn) % count, start, stop))
            start = stop
        return parts

    def append(self, block: Block) -> None:
        """Insert the tuples of ``block``, each into its segment."""
        parts = self.parts(len(block))
        for segment, start, stop in parts:
            self.segments[segment].append(block if stop - start == len(block) else block.slice(start, stop))
        self.dealt(len(block))

    def dealt(self, count: int) -> None:
        """Note that ``count`` tuples have been dealt out as :meth:`parts` says."""
        self._next = (self._next + count) % len(self.segments)

    def expire(self, oldest_time: int | None, oldest_number: int | None) -> int:
        """Note what may go; it goes when all who share a segment have seen that. Returns 0: nothing yet."""
        horizon = _Horizon(oldest_time, oldest_number)
        if horizon != self._horizons[self.generation]:
            self._horizons[self.generation + 1] = horizon
            self.generation += 1
        return 0

    def is_due(self, segment: int) -> bool:
        """Whether a basic window of ``segment`` lies wholly before the latest horizon."""
        first = next(iter(self.segments[segment]), None)
        horizon = self._horizons[self.generation]
        if first is None or (horizon.time is None and horizon.number is None):
            return False
        timely = horizon.time is None or first.time_max < horizon.time
        return timely and (horizon.number is None or first.number_max < horizon.number)

    def release(self, segment: int, seen: int) -> None:
        """Let go of what every sharer of ``segment`` has seen the end of; ``seen`` is the least of their counters."""
        horizon = self._horizons.get(seen)
        if horizon is not None:
            self.segments[segment].expire(horizon.time, horizon.number)

    def settle(self) -> None:
        """Arrange and merge what has been sealed; forget horizons that have passed."""
        for segment in self.segments:
            segment.settle()
        self._horizons = {self.generation: self._horizons[self.generation]}

    def clear(self) -> None:
        """Release everything."""
        for segment in self.segments:
            segment.clear()

    def mark(self) -> SegmentedMark:
        """Return the window as it is, for :meth:`cut`."""
        return SegmentedMark(self._next, self._horizons[self.generation], [s.mark() for s in self.segments])

    def cut(self, mark: SegmentedMark) -> None:
        """Be again what the window was at ``mark``; harmless if repeated.

        Horizons that workers may have seen keep their numbers: the old horizon gets a new one.
        """
        self._next = mark.next
        for segment, place in zip(self.segments, mark.segments, strict=True):
            segment.cut(place)
        self.generation, self._horizons = self.generation + 1, {self.generation + 1: mark.horizon}
