"""Hot keys and ranges, found in a sample of the data."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from crosswind.plan.compile import Plan
from crosswind.plan.layout import CellLayout
from crosswind.spark.route import Router

__all__ = ["SAMPLE_ROWS", "with_hot_places"]

SAMPLE_ROWS = 20_000
"""Rows of a sample that are looked at."""
_HOT_MAX = 16


def with_hot_places(plan: Plan, layout: CellLayout, samples: Mapping[int, pa.Table], cores: int) -> CellLayout:
    """Return ``layout`` with a grid of cells for every key or range that would fill half a cell alone.

    Parameters
    ----------
    plan : Plan
        Two units.
    layout : CellLayout
        By hash or range; others spread tuples evenly anyway.
    samples : mapping of int to Table
        Some tuples of a unit.
    cores : int
        How many workers share a hot key.
    """
    if layout.kind == "grid" or layout.cells < 2:
        return layout
    hot: dict[int, float] = {}
    for unit, sample in samples.items():
        places, counts = np.unique(Router(plan, unit, layout).places(sample), return_counts=True)
        shares = counts / max(1, int(counts.sum()))
        for place, share in zip(places.tolist(), shares.tolist(), strict=True):
            if share >= 1 / (2 * layout.cells):
                hot[place] = max(share, hot.get(place, 0.0))
    hottest = sorted(hot, key=lambda place: -hot[place])[:_HOT_MAX]
    return layout.with_hot(hottest, cores, plan.queries[0].query.preserved) if hottest else layout
