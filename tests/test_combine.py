"""The kernels between two searches of a route, each beside a naive twin in plain Python."""

from __future__ import annotations

import random

import numpy as np
import pytest

from crosswind.engine.probe.bounds import Limits, ReleaseBounds, WindowBounds, reach
from crosswind.kernel.compiled.combine import bound, group, in_limits
from crosswind.plan.axis import INT64_MAX, INT64_MIN
from crosswind.window.vector import address
from tests import seeds

TIMES = [INT64_MIN, INT64_MIN + 3, -5, 0, 1, 2, 7, 40, INT64_MAX - 2, INT64_MAX]
UNORDERED = ReleaseBounds(4, None)


def combinations(rng: random.Random, members: int, count: int) -> np.ndarray:
    """Return combinations whose members are numbers of tuples, at random times."""
    cells = np.zeros((4 * members + 1, count), dtype=np.int64)
    cells[0] = [rng.randrange(8) for _ in range(count)]
    for member in range(members):
        at = 4 * member
        cells[at + 1] = [rng.randrange(2) for _ in range(count)]
        cells[at + 2] = [rng.randrange(3) for _ in range(count)]
        cells[at + 3] = [rng.choice(TIMES) for _ in range(count)]
    return cells


def ages(rng: random.Random, units: int) -> WindowBounds:
    some = tuple((unit, rng.choice([None, 0, 5, 40])) for unit in range(units))
    return WindowBounds(some, (), rng.choice([INT64_MIN, -1, 6]))


@pytest.mark.parametrize("seed", range(20))
def test_bounds_are_those_of_any_two_members(seed: int):
    rng = seeds.chance(seed)
    members = rng.randint(1, 3)
    cells, spans = combinations(rng, members, 9), ages(rng, 4)
    spec, ends = reach(spans, 3, tuple(range(members))), np.zeros((4, 9), dtype=np.int64)
    for k in range(9):
        turn = address(UNORDERED.words)
        bound(address(cells), 9, k, address(spec), turn, address(ends), 9, k)
        known = [int(cells[4 * m + 3, k]) for m in range(members)]
        target = spans.age(3)
        low = INT64_MIN if target is None else max(INT64_MIN, max(known) - target)
        if spans.since != INT64_MIN:
            low = max(low, spans.since + 1)
        waits = [t + age for t, age in zip(known, map(spans.age, range(members)), strict=True) if age is not None]
        high = min([INT64_MAX, *waits])
        assert (ends[0, k], ends[1, k]) == (low, high), f"seed {seed}, combination {k}"


@pytest.mark.parametrize("seed", range(20))
def test_terms_whose_windows_are_too_short_lose_their_bit(seed: int):
    rng = seeds.chance(seed)
    members = rng.randint(2, 3)
    cells = combinations(rng, members, 12)
    cells[0] = 7
    classes: dict[WindowBounds, int] = {}
    for bit in (1, 2, 4):
        spans = ages(rng, members)
        classes[spans] = classes.get(spans, 0) | bit
    limits = Limits(classes, tuple(range(members)))
    # what does not differ between terms, the search has seen to
    differing = [m for m in range(members) if len({spans.age(m) for spans in classes}) > 1]
    late = len({spans.since for spans in classes}) > 1
    for k in range(12):
        known = [int(cells[4 * m + 3, k]) for m in range(members)]
        wanted = 0
        for spans, bits in classes.items():
            fits = all(spans.age(m) is None or max(known) - known[m] <= spans.age(m) for m in differing)
            begun = not late or spans.since == INT64_MIN or min(known) > spans.since
            wanted |= bits if fits and begun else 0
        turn = address(UNORDERED.words)
        split = rng.randint(1, members - 1)  # of two combinations, put together
        rest = np.ascontiguousarray(cells[[0, *range(1 + 4 * split, 1 + 4 * members)]])
        both = (address(cells), 12, k, split, address(rest), 12, k)
        left = in_limits(7, *both, members, address(limits.words), turn)
        assert left == wanted, f"seed {seed}, combination {k}: {known}"


@pytest.mark.parametrize("row", [1, 2], ids=["basic window", "place in it"])
def test_groups_differ_by_one_number(row: int):
    """So many that some meet in the table, by which they are looked for, all different in one number only."""
    count = 500
    cells = np.zeros((5, count), dtype=np.int64)
    cells[row] = range(count)
    table = np.empty(512, dtype=np.int64)
    want, group_of, order, starts = (np.arange(count + 1, dtype=np.int64) for _ in range(4))
    groups = group(cells, want, count, np.array([0]), count, table, group_of, order, starts)
    assert groups == count


@pytest.mark.parametrize("seed", range(10))
def test_groups_have_the_same_members(seed: int):
    rng = seeds.chance(seed)
    cells = combinations(rng, 3, rng.choice([5, 64, 300]))
    want = np.array(sorted(rng.sample(range(cells.shape[1]), cells.shape[1] - 2)), dtype=np.int64)
    count, chosen = len(want), np.array(sorted(rng.sample(range(3), rng.randint(1, 2))), dtype=np.int64)
    table = np.empty(1 << count.bit_length(), dtype=np.int64)
    group_of, order, starts = (np.empty(count + 1, dtype=np.int64) for _ in range(3))
    naive: dict[tuple[int, ...], list[int]] = {}
    for k, c in enumerate(want):
        key = tuple(int(cells[4 * m + row, c]) for m in chosen for row in (1, 2))
        naive.setdefault(key, []).append(k)
    most = rng.choice([count, len(naive), len(naive) - 1])
    groups = group(cells, want, count, chosen, most, table, group_of, order, starts)
    if most < len(naive):
        assert groups == 0
        return
    assert groups == len(naive)
    found = [sorted(order[starts[g] : starts[g + 1]].tolist()) for g in range(groups)]
    assert sorted(found) == sorted(naive.values())
