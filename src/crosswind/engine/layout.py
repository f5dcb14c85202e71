"""Rows and columns of a grid, from rates and windows (DP-Join §IV-C, equations 5 to 7)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from crosswind.errors import InputError
from crosswind.plan.compile import Plan
from crosswind.query.tree import Rows

__all__ = ["Load", "check_layout", "choose_layout", "expected_load", "mean_pairs"]

_RATE = 1000.0
"""Tuples/s that a stream is taken to have where nothing is known: the papers'."""


@dataclass(frozen=True)
class Load:
    """Tuples/s of the two streams, and tuples in their windows."""

    rates: tuple[float, float]
    windows: tuple[float, float]


def expected_load(plan: Plan, rate: Any) -> Load:
    """Return the load at ``rate`` tuples/s, one for both streams or by stream (None: some rate, the same for both)."""
    rates = [_rate_of(unit.stream.name, rate) for unit in plan.units]
    sizes = []
    for unit, arriving in zip(plan.units, rates, strict=True):
        limit = plan.axis.age_limit(unit.stream.window)
        if isinstance(unit.stream.window, Rows):
            sizes.append(float(unit.stream.window.count))
        else:
            ticks = plan.axis.ticks_per_second
            sizes.append(arriving * float(limit or 1) / float(ticks) if ticks else float(limit or 1))
    return Load((rates[0], rates[1]), (max(1.0, sizes[0]), max(1.0, sizes[1])))


def _rate_of(stream: str, rate: Any) -> float:
    given = rate.get(stream) if isinstance(rate, Mapping) else rate
    if given is None:
        return _RATE
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 < given < float("inf"):
        raise InputError(
            f"rate={rate!r} is not possible; give tuples/s as a positive number, or a mapping of streams to numbers."
        )
    return float(given)


def mean_pairs(layout: tuple[int, int], load: Load) -> float:
    """Return the pairs that are compared, on average, before a match is found (equations 5 and 6).

    Times the time of a comparison that is the mean latency. A tuple of the first stream
    goes to a row of n workers, each with an n-th of the second window.
    """
    m, n = layout
    share = load.rates[0] / sum(load.rates)
    return share * load.windows[1] / (2 * n) + (1 - share) * load.windows[0] / (2 * m)


def choose_layout(workers: int, load: Load) -> tuple[int, int]:
    """Return the m x n = ``workers`` with the least mean latency; of equals that which cuts up the larger window."""
    layouts = [(m, workers // m) for m in range(1, workers + 1) if workers % m == 0]
    larger = 1 if load.windows[1] >= load.windows[0] else 0
    return min(layouts, key=lambda layout: (mean_pairs(layout, load), -layout[larger]))


def check_layout(layout: Any, workers: Any, most: int) -> tuple[int, int]:
    """Return ``layout`` if it is one that fits ``workers`` (None or "auto": any)."""
    good = (
        isinstance(layout, tuple | list)
        and len(layout) == 2
        and all(type(side) is int and side >= 1 for side in layout)
        and layout[0] * layout[1] <= most
    )
    if not good:
        raise InputError(
            f"layout={layout!r} is not possible; give (rows, columns) of workers, such as (2, 2), at most {most}."
        )
    m, n = layout
    if workers not in (None, "auto", m * n):
        raise InputError(
            f"layout={m} x {n} has {m * n} workers, workers={workers!r} was asked for; leave one of the two out."
        )
    return m, n
