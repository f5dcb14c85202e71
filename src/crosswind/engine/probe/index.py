"""The index of a window: how sealed basic windows are arranged, chosen from what is seen.

Three choices: *scan* leaves basic windows as they came; *band* puts them in cells of a
grid over the most selective dimension and, as far as that pays, the next;
*hash* puts them in cells by the hash of the equality dimensions. The choice is made anew
for every run from samples of the latest boxes and of the run's own tuples, so it follows
drifting data.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from crosswind.kernel.compiled.arrange import grid_cells, group, hash_cells, hash_keys
from crosswind.plan.box import Dimension
from crosswind.plan.keys import value_of
from crosswind.query.types import INT64, SqlType
from crosswind.window.block import Block, concat_blocks
from crosswind.window.run import Arrangement, Run

__all__ = ["SAMPLE", "SEE_EVERY", "Index", "Sight"]

SAMPLE = 256
_CANDIDATES = 16.0
"""Tuples that a probe should find in a cell range: fewer cost no less, they are compared at once."""

_SCAN_SHARE = 0.5
"""Where a probe meets more than this share of the tuples, looking cells up is no gain."""

_LOOK_EVERY = 8
"""Runs that are arranged by one look at the samples (a much larger one gets its own)."""

SEE_EVERY = 16
"""Of small batches, one in so many is sampled."""

_Doubles = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Sight:
    """What the samples say of one dimension: selectivity, typical width, span of the values."""

    selectivity: float
    width: float
    low: float
    high: float


class Index:
    """Arranges the sealed basic windows of one window.

    Parameters
    ----------
    dimensions : tuple of Dimension
        The box columns.
    choice : str
        ``auto``, ``scan``, ``band`` or ``hash``.
    keys : tuple of int, optional
        The columns of the window that hold the keys of the dimensions; the first ones if left out.
    """

    def __init__(self, dimensions: tuple[Dimension, ...], choice: str, keys: tuple[int, ...] | None = None) -> None:
        self._dimensions = dimensions
        self._keys = tuple(range(len(dimensions))) if keys is None else keys
        self._choice = choice
        self._equal = [d for d, dimension in enumerate(dimensions) if dimension.equality]
        self._ordered = [d for d, dimension in enumerate(dimensions) if not dimension.hashed]
        self._boxes: list[tuple[_Doubles, _Doubles]] = []
        self._seen = 0
        self._sights: list[Sight] = []
        self._looked_at = self._since = 0
        self.is_linked = False
        """Whether nothing has to be arranged, so that nobody needs to know what is looked for."""
        self.chosen = "scan"
        self.reason = "no basic window is full yet"

    def see(self, lows: list[_Doubles], highs: list[_Doubles], present: npt.NDArray[np.int64]) -> None:
        """Remember some boxes of the latest probes, by dimension; ``present`` have one. Of small batches, some are."""
        self._seen += 1
        if len(present) >= SAMPLE or self._seen >= SEE_EVERY or not self._boxes:
            self._seen = 0
            self.remember(lows, highs, present)

    def remember(self, lows: list[_Doubles], highs: list[_Doubles], present: npt.NDArray[np.int64]) -> None:
        """Remember some of these boxes."""
        if self._choice == "scan":
            return
        rows = present[:: max(1, len(present) // SAMPLE)][:SAMPLE]
        fresh = [(low[rows], high[rows]) for low, high in zip(lows, highs, strict=True)]
        if self._boxes and len(rows) < SAMPLE:  # small batches: the latest of many
            fresh = [
                (np.append(low, old[0])[:SAMPLE], np.append(high, old[1])[:SAMPLE])
                for (low, high), old in zip(fresh, self._boxes, strict=True)
            ]
        self._boxes = fresh

    def link(self) -> None:
        """Note that nothing will have to be arranged."""
        self.is_linked = True
        self.chosen, self.reason = "hash", "the window is short: equals are linked as they come"

    def arrange(self, blocks: list[Block]) -> Run:
        """Return the run of ``blocks``, arranged if that is better than scanning it."""
        block = concat_blocks(blocks)
        if self._choice == "scan":
            self.reason = "asked for"
            return Run(block, self._keys)
        if not self._boxes and not (self._choice == "hash" and self._equal):
            self.reason = "nothing has been looked for yet"
            return Run(block, self._keys)
        if not self._sights or len(block) >= 2 * self._looked_at or self._since >= _LOOK_EVERY:
            self._sights, self._looked_at, self._since = self._look(block), len(block), 0
        self._since += 1
        sights = self._sights
        kind, axes = self._decide(sights)
        self.chosen = kind
        if kind == "hash":
            return self._by_hash(block)
        return self._by_grid(block, axes, sights) if kind == "band" else Run(block, self._keys)

    @property
    def arranges(self) -> bool:
        """Whether an arrangement, not the scan, is the latest choice."""
        return self.chosen != "scan"

    def is_stale(self, run: Run) -> bool:
        """Whether ``run`` was left as it came though an arrangement is now the choice."""
        return run.arrangement is None and self.arranges

    # -- choosing ------------------------------------------------------------

    def _look(self, block: Block) -> list[Sight]:
        """Measure every dimension on samples of boxes and of the block's tuples."""
        rows = np.linspace(0, len(block) - 1, min(SAMPLE, len(block))).astype(np.int64)
        sights = []
        for d, dimension in enumerate(self._dimensions):
            values = np.sort(value_of(block.columns[self._keys[d]].values[rows], _key_type(dimension)))
            finite = values[np.isfinite(values)]
            low, high = (float(finite[0]), float(finite[-1])) if len(finite) else (0.0, 0.0)
            if not self._boxes:
                sights.append(Sight(0.0, 0.0, low, high))
                continue
            lows, highs = self._boxes[d]
            inside = np.searchsorted(values, highs, "right") - np.searchsorted(values, lows, "left")
            share = float(inside.mean()) / len(values)
            with np.errstate(over="ignore", invalid="ignore"):
                wide = np.minimum(highs, high) - np.maximum(lows, low)
            wide = wide[(wide >= 0) & (wide < np.inf)]
            width = float(np.sort(wide)[len(wide) // 2]) if len(wide) else 0.0
            sights.append(Sight(share, width, low, high))
        return sights

    def _decide(self, sights: list[Sight]) -> tuple[str, list[int]]:
        """Return the kind of arrangement and, for a band, its axes."""
        best = sorted(self._ordered, key=lambda d: sights[d].selectivity)
        equal = min((sights[d].selectivity for d in self._equal), default=1.0)
        band = sights[best[0]].selectivity if best else 1.0
        if self._equal and (self._choice == "hash" or (self._choice == "auto" and equal <= band)):
            self.reason = f"equality: a probe meets about {equal:.2%} of the tuples (sampled)"
            return "hash", []
        if not best or (self._choice == "auto" and band > _SCAN_SHARE):
            self.reason = f"the best band lets {band:.0%} of the tuples through (sampled)"
            return "scan", []
        self.reason = f"the best band lets {band:.2%} of the tuples through (sampled)"
        if len(best) > 1:
            self.reason += f", the next {sights[best[1]].selectivity:.2%}"
        return "band", best[:2]

    # -- building ------------------------------------------------------------

    def _by_hash(self, block: Block) -> Run:
        cells = 1 << max(4, (len(block) // 2).bit_length())
        hashes = hash_keys([block.columns[self._keys[d]].values for d in self._equal])
        directory, places = group(hash_cells(hashes, cells), cells)
        return Run(block, self._keys, Arrangement("hash", (cells, 1), directory), places)

    def _by_grid(self, block: Block, axes: list[int], sights: list[Sight]) -> Run:
        """Arrange in slabs by the second band, and within them finely by the best one.

        There are as many slabs as leave a probe about one vector of candidates in each: so
        it mostly looks into one slab, and its cost goes with the results.
        """
        inner, outer = axes[0], axes[-1]
        slabs = 1
        if len(axes) > 1:
            wanted = len(block) * sights[inner].selectivity / _CANDIDATES
            slabs = int(max(1.0, min(wanted, 2 * _widths(sights[outer]))))
        cells = int(min(8 * _widths(sights[inner]), max(1, len(block) // 2) / slabs)) + 1
        plans = [
            (axis, sights[axis].low, count / _span(sights[axis]) if count > 1 else 0.0, count)
            for axis, count in ((outer, slabs), (inner, cells))
        ]
        measured = [
            (value_of(block.columns[self._keys[axis]].values, _key_type(self._dimensions[axis])), origin, scale, count)
            for axis, origin, scale, count in plans
        ]
        directory, places = group(grid_cells(measured, len(block)), slabs * cells)
        (axis_1, origin_1, scale_1, _), (axis_2, origin_2, scale_2, _) = plans
        arrangement = Arrangement(
            "band", (slabs, cells), directory, (axis_1, axis_2), (origin_1, origin_2), (scale_1, scale_2)
        )
        return Run(block, self._keys, arrangement, places)


def _span(sight: Sight) -> float:
    """Return how far the values reach (never 0)."""
    span = sight.high - sight.low
    return span if 0 < span < float("inf") else 1.0


def _widths(sight: Sight) -> float:
    """Return how many typical boxes would lie side by side over the values."""
    return min(_span(sight) / sight.width, 1e6) if sight.width > 0 else 1e6


def _key_type(dimension: Dimension) -> SqlType:
    """Return the type by which keys of ``dimension`` are read as values."""
    return INT64 if dimension.hashed else dimension.expr.type
