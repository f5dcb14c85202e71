"""Which members may meet: the windows of a query as bounds on times and sequence numbers.

A combination qualifies iff, when its last member arrives, every other one still waits in its
window. Age grows with time, so this is the same as: for any two members i and j, j does not
find i expired. With that, every hop of a route can bound the members that it adds by those
that are there already, whatever order they came in.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from crosswind.engine.strategy import Numbers
from crosswind.plan.axis import INT64_MAX, INT64_MIN, TimeAxis
from crosswind.plan.compile import PlannedQuery
from crosswind.query.tree import Rows
from crosswind.window.arrival import Release

__all__ = ["Bounds", "Spans", "bounds_of", "hull", "spans_of"]

_Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Spans:
    """The windows of a query, by unit: greatest age in ticks (None: no limit), number of tuples.

    Tuples up to time ``since`` do not take part (the query was added later).
    """

    ages: tuple[tuple[int, int | None], ...]
    counts: tuple[tuple[int, int], ...]
    since: int = INT64_MIN

    def age(self, unit: int) -> int | None:
        """Return the age up to which tuples of ``unit`` wait."""
        return dict(self.ages)[unit]

    def count(self, unit: int) -> int | None:
        """Return how many of its last tuples wait in the window of ``unit`` (None: it is no ROWS window)."""
        return dict(self.counts).get(unit)


@dataclass(frozen=True)
class Bounds:
    """What each of some combinations may meet in one window, ends included."""

    low: _Ints
    high: _Ints
    numbers: Numbers | None

    def widest(self) -> Bounds:
        """Return bounds, of one combination, that allow all that some combination may meet."""
        numbers = self.numbers
        if numbers is not None:
            numbers = Numbers(numbers.low.min(keepdims=True), numbers.high.max(keepdims=True))
        return Bounds(self.low.min(keepdims=True), self.high.max(keepdims=True), numbers)

    def narrow(self, other: Bounds) -> Bounds:
        """Return ``other``, cut to what some combination of these may meet."""
        mine, numbers = self.widest(), other.numbers
        if numbers is not None and mine.numbers is not None:
            numbers = Numbers(np.maximum(numbers.low, mine.numbers.low), np.minimum(numbers.high, mine.numbers.high))
        return Bounds(np.maximum(other.low, mine.low), np.minimum(other.high, mine.high), numbers)

    def allow(self, at: _Ints, times: _Ints, numbers: _Ints | None) -> npt.NDArray[np.bool_]:
        """Tell which tuples may be met by the combinations ``at``."""
        allowed: npt.NDArray[np.bool_] = (times >= self.low[at]) & (times <= self.high[at])
        if self.numbers is not None and numbers is not None:
            allowed &= (numbers >= self.numbers.low[at]) & (numbers <= self.numbers.high[at])
        return allowed


def spans_of(entry: PlannedQuery, axis: TimeAxis, since: int = INT64_MIN) -> Spans:
    """Return the windows of a query."""
    windows = [stream.window for stream in entry.query.streams]
    ages = tuple((unit, axis.age_limit(window)) for unit, window in zip(entry.units, windows, strict=True))
    counts = tuple((u, w.count) for u, w in zip(entry.units, windows, strict=True) if isinstance(w, Rows))
    return Spans(ages, counts, since)


def bounds_of(
    spans: Spans,
    target: int,
    times: dict[int, _Ints],
    numbers: dict[int, _Ints],
    released: list[Release | None] | None,
) -> Bounds:
    """Return what combinations of members at ``times`` (by unit) may meet in the window of ``target``.

    ``numbers`` are the sequence numbers of the members, ``released`` what is being joined
    with them (only if there are ROWS windows).
    """
    members = [t for unit, t in times.items()]
    latest = members[0] if len(members) == 1 else np.maximum.reduce(members)
    age = spans.age(target)
    low = np.full(len(latest), INT64_MIN) if age is None else np.maximum(latest, INT64_MIN + age) - age
    if spans.since != INT64_MIN:
        low = np.maximum(low, spans.since + 1)
    high = np.full(len(latest), INT64_MAX)
    for unit, t in times.items():
        wait = spans.age(unit)
        if wait is not None:
            high = np.minimum(high, np.minimum(t, INT64_MAX - wait) + wait)
    return Bounds(low, high, None if released is None else _numbers(spans, target, numbers, released))


def _numbers(spans: Spans, target: int, numbers: dict[int, _Ints], released: list[Release | None]) -> Numbers:
    """Return the sequence numbers that may be met: what counts is the order, not the arrival.

    Members that were joined earlier come before everything that is being joined now, so
    only members of the latter can find others expired that the former did not.
    """
    size = len(next(iter(numbers.values())))
    low, high = np.full(size, INT64_MIN), np.full(size, INT64_MAX)
    waiting = spans.count(target)
    partner = released[target]
    for unit, own in numbers.items():
        release = released[unit]
        if waiting is not None and release is not None:
            place = own - release.base
            before = release.before[target][np.maximum(place, 0)]
            low = np.where(place >= 0, np.maximum(low, before - waiting), low)
        count = spans.count(unit)
        if count is not None and partner is not None:
            last = np.searchsorted(partner.before[unit], own + min(count, INT64_MAX - (1 << 62)), side="right")
            high = np.minimum(high, partner.base + last.astype(np.int64) - 1)
    return Numbers(low, high)


def hull(many: list[Bounds]) -> Bounds:
    """Return bounds that allow all that one of ``many`` allows."""
    if len(many) == 1:
        return many[0]
    low = np.minimum.reduce([bounds.low for bounds in many])
    high = np.maximum.reduce([bounds.high for bounds in many])
    known = [bounds.numbers for bounds in many if bounds.numbers is not None]
    if not known:
        return Bounds(low, high, None)
    numbers = Numbers(
        np.minimum.reduce([entry.low for entry in known]), np.maximum.reduce([entry.high for entry in known])
    )
    return Bounds(low, high, numbers)
