"""Which members may meet: the windows of a query as bounds on times and sequence numbers.

A combination qualifies iff, when its last member arrives, every other one still waits in its
window. Age grows with time, so this is the same as: for any two members i and j, j does not
find i expired. With that, every hop of a route can bound the members that it adds by those
that are there already, whatever order they came in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from crosswind.engine.partial import Partial
from crosswind.engine.strategy import Numbers
from crosswind.plan.axis import INT64_MAX, INT64_MIN, TimeAxis
from crosswind.plan.compile import PlannedQuery
from crosswind.query.tree import Rows
from crosswind.window.arrival import Release

__all__ = ["Bounds", "Limits", "Spans", "bounds_of", "hull", "spans_of"]

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
    partial: Partial,
    released: list[Release | None] | None,
) -> Bounds:
    """Return what combinations may meet in the window of ``target``.

    ``released`` is what is being joined with them (only if there are ROWS windows).
    """
    times = partial.times
    members = list(times.values())
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
    return Bounds(
        low, high, _numbers(spans, target, partial.numbers, released) if released is not None and spans.counts else None
    )


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


def hull(many: Iterable[Spans]) -> Spans:
    """Return windows that hold the tuples of all of ``many`` (of the same units)."""
    known = list(many)
    units = dict.fromkeys(unit for spans in known for unit, _ in spans.ages)
    ages, counts = [], []
    for unit in units:
        users = [spans for spans in known if unit in dict(spans.ages)]
        mine = [spans.age(unit) for spans in users]
        ages.append((unit, None if None in mine else max(age for age in mine if age is not None)))
        theirs = [spans.count(unit) for spans in users]
        if None not in theirs:
            counts.append((unit, max(count for count in theirs if count is not None)))
    return Spans(tuple(ages), tuple(counts), min(spans.since for spans in known))


class Limits:
    """Tells whose windows are long enough for a combination, where they differ between terms.

    A combination needs a window of some length for each of its members. By unit, a table
    says which terms (bits of a word) have one at least as long; so the number of
    different windows does not matter.
    """

    def __init__(self, classes: dict[Spans, np.uint64], units: Iterable[int]) -> None:
        self._ages: dict[int, _Table] = {}
        self._counts: dict[int, _Table] = {}
        for unit in units:
            ages = {spans: spans.age(unit) for spans in classes}
            counts = {spans: spans.count(unit) for spans in classes}
            if len(set(ages.values())) > 1:
                self._ages[unit] = _table(classes, ages)
            if len(set(counts.values())) > 1:
                self._counts[unit] = _table(classes, counts)
        since = {spans: -spans.since for spans in classes}
        self._since = _table(classes, since) if len(set(since.values())) > 1 else None

    def __bool__(self) -> bool:
        return bool(self._ages or self._counts or self._since is not None)

    def cut(
        self,
        mask: npt.NDArray[np.uint64],
        partial: Partial,
        released: list[Release | None] | None,
    ) -> None:
        """Take from ``mask`` the bits of terms whose windows are too short for a combination."""
        times = partial.times if self._ages or self._since is not None else {}
        if self._ages:
            latest = np.maximum.reduce(list(times.values()))
            for unit, (sizes, bits) in self._ages.items():
                if unit not in times:  # waits beside, to be looked at when they meet
                    continue
                with np.errstate(over="ignore"):
                    need = latest - times[unit]
                need = np.where(need < 0, INT64_MAX, need)  # more than 64 bits apart
                mask &= bits[np.searchsorted(sizes, need)]
        for unit, (sizes, bits) in self._counts.items():
            if released is not None and unit in partial.places:
                mask &= bits[np.searchsorted(sizes, _depth(unit, partial.numbers, released))]
        if self._since is not None:
            sizes, bits = self._since
            earliest = np.minimum.reduce(list(times.values()))
            mask &= bits[np.searchsorted(sizes, 1 - np.maximum(earliest, INT64_MIN + 2))]


_Table = tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64]]
"""Sizes, rising, and for each place among them the bits of the terms whose size is not below."""


def _table(classes: dict[Spans, np.uint64], sizes: Mapping[Spans, int | None]) -> _Table:
    known = {spans: INT64_MAX if size is None else min(size, INT64_MAX) for spans, size in sizes.items()}
    steps = sorted(set(known.values()))
    bits = [sum(int(classes[spans]) for spans, size in known.items() if size >= step) for step in steps]
    return np.array(steps, dtype=np.int64), np.array([*bits, 0], dtype=np.uint64)


def _depth(unit: int, numbers: dict[int, _Ints], released: list[Release | None]) -> _Ints:
    """Return how many tuples of ``unit`` its window must hold for the member to be there when the last one comes."""
    own = numbers[unit]
    depth = np.zeros(len(own), dtype=np.int64)
    for other, theirs in numbers.items():
        release = released[other]
        if other != unit and release is not None:
            place = theirs - release.base
            before = release.before[unit][np.maximum(place, 0)]
            depth = np.where(place >= 0, np.maximum(depth, before - own), depth)
    return depth
