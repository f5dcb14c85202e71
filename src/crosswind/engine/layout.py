"""Rows and columns of a grid: the load that a plan means, and layouts that are asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crosswind.errors import InputError
from crosswind.plan.compile import Plan
from crosswind.plan.grid import Load
from crosswind.query.tree import Rows

__all__ = ["check_layout", "expected_load"]

_RATE = 1000.0
"""Tuples/s that a stream is taken to have where nothing is known: the papers'."""


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
