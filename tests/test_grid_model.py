"""The model of rows and columns (DP-Join, equations 5 to 7), against the definitions that it follows from."""

from __future__ import annotations

import random

import pytest

import crosswind as cw
from crosswind.engine.session import plan_for
from crosswind.plan.grid import Load, best_sides, choose_sides, delay_pairs, mean_pairs, weights_of
from crosswind.plan.layout import choose_layout
from tests import seeds

SYMMETRIC = Load((2500.0, 2500.0), (750_000.0, 750_000.0))
FASTER = Load((1000.0, 3000.0), (300_000.0, 900_000.0))
LONGER = Load((1000.0, 1000.0), (150_000.0, 300_000.0))


def mean_over_results(layout, rates, windows, chance: random.Random, results: int = 40_000) -> float:
    """Definition 3, by trial: draw results, and count the pairs that the worker compares up to each."""
    m, n = layout
    # A result is a pair; which of the two came later follows from how often either stream meets the other's window.
    met = (rates[0] * windows[1], rates[1] * windows[0])
    total = 0.0
    for _ in range(results):
        first = chance.random() * sum(met) < met[0]
        segment = windows[1] / n if first else windows[0] / m
        total += chance.random() * segment
    return total / results


@pytest.mark.parametrize("load", [SYMMETRIC, FASTER, LONGER, Load((500.0, 2000.0), (90_000.0, 10_000.0))])
@pytest.mark.parametrize("layout", [(1, 1), (4, 4), (3, 5), (2, 8), (16, 1)])
def test_latency_is_a_mean_over_results(load, layout):
    found = mean_over_results(layout, load.rates, load.windows, seeds.chance(1))
    assert mean_pairs(layout, load) == pytest.approx(found, rel=0.03)


def test_streams_alike_have_the_latency_of_equation_7():
    for m, n in ((1, 16), (2, 8), (4, 4)):
        assert mean_pairs((m, n), SYMMETRIC) == pytest.approx(750_000 * (m + n) / (4 * m * n))


def test_the_layouts_of_the_dp_join_paper():
    assert choose_sides(16, SYMMETRIC) == (4, 4)
    assert choose_sides(9, SYMMETRIC) == (3, 3)
    assert choose_sides(16, FASTER) == choose_sides(15, FASTER) == (3, 5)  # section IV-C2
    assert choose_sides(16, Load(FASTER.rates[::-1], FASTER.windows[::-1])) == (5, 3)
    assert choose_sides(7, SYMMETRIC) in ((1, 7), (7, 1))
    rows, columns = choose_sides(16, LONGER)
    assert rows < columns


def test_at_most_a_tenth_of_the_workers_stays_without_work():
    for workers in range(1, 65):
        rows, columns = choose_sides(workers, FASTER)
        assert 0.9 * workers <= rows * columns <= workers


def test_the_way_along_a_row_counts_in_the_choice():
    assert mean_pairs((2, 8), FASTER) < mean_pairs((3, 5), FASTER)
    assert delay_pairs((3, 5), FASTER) < delay_pairs((2, 8), FASTER)


def test_cells_on_spark_have_the_same_model():
    sql = "SELECT a.v AS v, b.v AS w FROM a [RANGE 1000], b [RANGE 3000] WHERE a.v % 7 = b.v % 5 + 1 OR a.v > b.v"
    schema = cw.testing.stream_from_text("ts | v\n0 | 1").schema
    plan = plan_for(sql, {"a": schema, "b": schema})
    assert choose_layout(plan, "grid", 12, cores=12).sides == best_sides(12, weights_of((1, 1), (1, 3))) == (1, 12)
    assert choose_layout(plan, "grid", 12, cores=12, rates=(9, 1)).sides == best_sides(12, weights_of((9, 1), (9, 3)))


def test_windows_count_by_the_results_that_search_them():
    assert weights_of((1000, 3000), (300_000, 900_000)) == pytest.approx((150_000, 450_000))
    # Twice the rate over the same window: its tuples complete more results, so the other window counts more.
    first, second = weights_of((2000, 1000), (100, 100))
    assert second == pytest.approx(2 * first)
