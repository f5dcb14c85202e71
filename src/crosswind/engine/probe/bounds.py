"""Which members may meet: the windows of a query as bounds on times and sequence numbers.

A combination qualifies iff, when its last member arrives, every other one still waits in its
window. Age grows with time, so this is the same as: for any two members i and j, j does not
find i expired. With that, every probe step can bound the members that it adds by those
that are there already, whatever order they came in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from crosswind.plan.axis import INT64_MAX, INT64_MIN, TimeAxis
from crosswind.plan.compile import Plan, PlannedQuery
from crosswind.query.tree import Rows
from crosswind.window.arrival import Release
from crosswind.window.vector import address

__all__ = ["Limits", "ReleaseBounds", "Wait", "WindowBounds", "hull", "reach", "spans_of"]

_COUNT_MAX = INT64_MAX - (1 << 62)
"""Counts up to which sums with sequence numbers stay in range."""


@dataclass(frozen=True)
class WindowBounds:
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
class Wait:
    """How long tuples of a unit wait, for the query that wants them longest, and whom they wait for."""

    age: int | None
    count: int | None
    partners: tuple[int, ...]

    @classmethod
    def of(cls, unit: int, plan: Plan, spans: Sequence[WindowBounds]) -> Wait:
        """Return how long ``unit`` waits for any of the queries."""
        users = [k for k, entry in enumerate(plan.queries) if unit in entry.units]
        ages = [age for k in users if (age := spans[k].age(unit)) is not None]
        counts = [count for k in users if (count := spans[k].count(unit)) is not None]
        partners = {other for k in users for other in plan.queries[k].units} - {unit}
        return cls(max(ages, default=None), max(counts, default=None), tuple(sorted(partners)))


def spans_of(entry: PlannedQuery, axis: TimeAxis, since: int = INT64_MIN) -> WindowBounds:
    """Return the windows of a query."""
    windows = [stream.window for stream in entry.query.streams]
    ages = tuple((unit, axis.age_limit(window)) for unit, window in zip(entry.units, windows, strict=True))
    counts = tuple((u, w.count) for u, w in zip(entry.units, windows, strict=True) if isinstance(w, Rows))
    return WindowBounds(ages, counts, since)


class ReleaseBounds:
    """What is being joined in the order just now (see :data:`crosswind.kernel.records.TURN`).

    ``released`` is None where there is no order: there are no ROWS windows.
    """

    def __init__(self, units: int, released: list[Release | None] | None) -> None:
        self.released = released
        words = [int(released is not None), units]
        places = []
        for release in released or [None] * units:
            words += [-1, 0] if release is None else [release.base, len(release.block)]
            places += [0] * units if release is None else [address(some) for some in release.before]
        self.words = np.array(words + places, dtype=np.int64)
        self.at = address(self.words)


def reach(spans: WindowBounds, target: int, units: tuple[int, ...]) -> npt.NDArray[np.int64]:
    """Return what says, to kernels, which tuples of ``target`` combinations of ``units`` may meet.

    Members that were joined earlier come before everything that is being joined now, so
    only members of the latter can find others expired that the former did not.
    """
    age, count = spans.age(target), spans.count(target)
    words = [len(units), _or_none(age), spans.since, _or_none(count), target, int(bool(spans.counts))]
    for unit in units:
        wait = spans.count(unit)
        words += [_or_none(spans.age(unit)), -1 if wait is None else min(wait, _COUNT_MAX), unit]
    return np.array(words, dtype=np.int64)


def hull(many: Iterable[WindowBounds]) -> WindowBounds:
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
    return WindowBounds(tuple(ages), tuple(counts), min(spans.since for spans in known))


class Limits:
    """Tells whose windows are long enough for combinations of ``units``, where they differ between terms.

    A combination needs a window of some length for each of its members. By unit, a table
    says which terms (bits of a word) have one at least as long; so the number of
    different windows does not matter. ``words`` is what kernels read.
    """

    def __init__(self, classes: dict[WindowBounds, int], units: tuple[int, ...]) -> None:
        ages = [_table(classes, {spans: spans.age(unit) for spans in classes}) for unit in units]
        counts = [_table(classes, {spans: spans.count(unit) for spans in classes}) for unit in units]
        since = _table(classes, {spans: -spans.since for spans in classes})
        self._tables = (ages, counts, since)
        words = [sum(table is not None for table in tables) for tables in (ages, counts)]
        words += [*((0, 0, 0) if since is None else since.words()), *units]
        for tables in (ages, counts):
            for place, table in enumerate(tables):
                words += [] if table is None else [place, *table.words()]
        self.words = np.array(words, dtype=np.int64)


class _Table:
    """Sizes, rising, and for each place among them the bits of the terms whose size is not below."""

    def __init__(self, sizes: list[int], bits: list[int]) -> None:
        self._sizes = np.array(sizes, dtype=np.int64)
        self._bits = np.array([*bits, 0], dtype=np.uint64)

    def words(self) -> tuple[int, int, int]:
        """Return its length, and where sizes and bits are."""
        return len(self._sizes), address(self._sizes), address(self._bits)


def _table(classes: dict[WindowBounds, int], sizes: Mapping[WindowBounds, int | None]) -> _Table | None:
    """Return the table of ``sizes``; None: they do not differ."""
    known = {spans: INT64_MAX if size is None else min(size, INT64_MAX) for spans, size in sizes.items()}
    steps = sorted(set(known.values()))
    if len(set(sizes.values())) < 2:
        return None
    return _Table(steps, [sum(classes[spans] for spans, size in known.items() if size >= step) for step in steps])


def _or_none(size: int | None) -> int:
    """Return a size as kernels see it: -1 is no limit."""
    return -1 if size is None else min(size, INT64_MAX)
