"""Handshake Join with the tuples hurried ahead, so that results come at once.

Every tuple has a home, round robin, where it waits; but as soon as it enters it is handed
on from neighbour to neighbour to the other end, and each compares it with what waits
there. It is the low-latency handshake join (Roy, Teubner and Gemulla, *Low-Latency Handshake
Join*, PVLDB 7(9), 2014). There two tuples that are both on their way must not meet twice;
here a call returns when its tuples have arrived, so only one stream is under way at a time,
and no pair can be missed or doubled.
"""

from __future__ import annotations

from crosswind.engine.grid import Deal, Grid

__all__ = ["Hurried"]


class Hurried(Grid):
    """A row of workers that tuples of either stream run through; ``layout`` is (workers, workers)."""

    name = "handshake"

    @property
    def _workers(self) -> int:
        return self.layout[0]

    def _lanes(self) -> list[list[tuple[int, int]]]:
        row = range(self._workers)
        return [[(worker, 0) for worker in row], [(worker, 1) for worker in reversed(row)]]

    def _deal(self, unit: int, size: int) -> list[Deal]:
        homes = range(len(self.windows[1 - unit].segments))
        return [Deal(home, home, 0, size) for home in homes]

    def _ways(self, unit: int, size: int) -> list[tuple[int, int]]:
        return [(unit, self._workers)] if size else []

    def _sharers(self, unit: int, segment: int) -> list[int]:  # noqa: ARG002 - homes are the same for both streams
        return [segment]

    def _way_to(self, unit: int, segment: int) -> tuple[int, int]:  # noqa: ARG002 - every notice passes everybody
        return unit, self._workers
