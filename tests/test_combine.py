"""The kernels between two searches of a route, each beside a naive twin in plain Python."""

from __future__ import annotations

import random

import numpy as np
import pytest

from crosswind.engine.partial import Partial, first_of
from crosswind.engine.spans import Limits, Reach, Spans
from crosswind.kernel.combine import combine_kernels
from crosswind.plan.axis import INT64_MAX, INT64_MIN
from crosswind.window.block import Block

TIMES = [INT64_MIN, INT64_MIN + 3, -5, 0, 1, 2, 7, 40, INT64_MAX - 2, INT64_MAX]


def combinations(rng: random.Random, members: int, count: int) -> Partial:
    """Return combinations whose members are numbers of tuples, at random times."""
    cells = np.zeros((4 * members + 1, count + 3), dtype=np.int64)
    cells[0] = [rng.randrange(8) for _ in range(count + 3)]
    for member in range(members):
        at = 4 * member
        cells[at + 1] = [rng.randrange(2) for _ in range(count + 3)]
        cells[at + 2] = [rng.randrange(3) for _ in range(count + 3)]
        cells[at + 3] = [rng.choice(TIMES) for _ in range(count + 3)]
    block = Block(np.zeros(3, dtype=np.int64), ())
    return Partial(tuple(range(members)), (block,) * members, cells, count)


def ages(rng: random.Random, units: int) -> Spans:
    some = tuple((unit, rng.choice([None, 0, 5, 40])) for unit in range(units))
    return Spans(some, (), rng.choice([INT64_MIN, -1, 6]))


@pytest.mark.parametrize("seed", range(20))
def test_bounds_are_those_of_any_two_members(seed: int):
    rng = random.Random(seed)
    partial, spans = combinations(rng, rng.randint(1, 3), 9), ages(rng, 4)
    bounds = Reach(spans, 3, partial.units).of(partial, None)
    for k in range(len(partial)):
        known = [int(partial.cells[4 * m + 3, k]) for m in range(len(partial.units))]
        target = spans.age(3)
        low = INT64_MIN if target is None else max(INT64_MIN, max(known) - target)
        if spans.since != INT64_MIN:
            low = max(low, spans.since + 1)
        waits = [
            t + age for t, age in zip(known, (spans.age(m) for m in partial.units), strict=True) if age is not None
        ]
        high = min([INT64_MAX, *waits])
        assert (bounds.ends[0, k], bounds.ends[1, k]) == (low, high), f"seed {seed}, combination {k}"
    lows, highs = bounds.ends[0], bounds.ends[1]
    assert list(bounds.extent) == [lows.min(), lows.max(), highs.min(), highs.max()]


@pytest.mark.parametrize("seed", range(20))
def test_terms_whose_windows_are_too_short_lose_their_bit(seed: int):
    rng = random.Random(seed)
    members = rng.randint(2, 3)
    partial = combinations(rng, members, 12)
    partial.cells[0] = 7
    classes = {}
    for bit in (1, 2, 4):
        spans = ages(rng, members)
        classes[spans] = classes.get(spans, 0) | bit
    limits = Limits(classes, partial.units)  # its words point into it
    words = limits.words(None)
    # what does not differ between terms, the search has seen to
    differing = [m for m in range(members) if len({spans.age(m) for spans in classes}) > 1]
    late = len({spans.since for spans in classes}) > 1
    # limits are looked at where combinations come together: here the first member and the others
    out = np.empty((4 * members + 1, 12), dtype=np.int64)
    kernels = combine_kernels()
    kept = 0
    for k in range(12):
        known = [int(partial.cells[4 * m + 3, k]) for m in range(members)]
        wanted = 0
        for spans, bits in classes.items():
            fits = all(spans.age(m) is None or max(known) - known[m] <= spans.age(m) for m in differing)
            begun = not late or spans.since == INT64_MIN or min(known) > spans.since
            wanted |= bits if fits and begun else 0
        single = np.ascontiguousarray(partial.cells[:, k : k + 1])
        first, rest = np.ascontiguousarray(single[:5]), np.ascontiguousarray(np.vstack([single[:1], single[5:]]))
        ends = np.empty((members - 1, 4, 1), dtype=np.int64)
        ends[:, 0::2], ends[:, 1::2] = INT64_MIN, INT64_MAX
        state = np.zeros(2, dtype=np.int64)
        count = kernels.product(first, 1, rest, 1, ends, 0, 7, words, state, out)
        assert count == (wanted != 0)
        assert not count or out[0, 0] == wanted, f"seed {seed}, combination {k}: {known}"
        kept += count
    assert kept or seed


@pytest.mark.parametrize("seed", range(10))
def test_groups_have_the_same_members(seed: int):
    rng = random.Random(seed)
    partial = combinations(rng, 3, rng.choice([5, 64, 300]))
    count, chosen = len(partial), np.array(sorted(rng.sample(range(3), rng.randint(1, 2))), dtype=np.int64)
    table = np.empty(1 << count.bit_length(), dtype=np.int64)
    group_of, order, starts = (np.empty(count + 1, dtype=np.int64) for _ in range(3))
    naive: dict[tuple[int, ...], list[int]] = {}
    for k in range(count):
        key = tuple(int(partial.cells[4 * m + row, k]) for m in chosen for row in (1, 2))
        naive.setdefault(key, []).append(k)
    most = rng.choice([count, len(naive), len(naive) - 1])
    groups = combine_kernels().group(partial.cells, count, chosen, most, table, group_of, order, starts)
    if most < len(naive):
        assert groups == 0
        return
    assert groups == len(naive)
    found = [sorted(order[starts[g] : starts[g + 1]].tolist()) for g in range(groups)]
    assert sorted(found) == sorted(naive.values())


def test_what_no_term_wants_is_left_out():
    block = Block(np.array([5, 6, 7]), ())
    partial = first_of(0, block, np.array([1, 2, 3]))
    assert partial.wanted(3) is partial
    assert partial.wanted(2).cells.tolist() == [[2, 3], [0, 0], [1, 2], [6, 7], [1, 2]]
    assert len(partial.wanted(4)) == 0
