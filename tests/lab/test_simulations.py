"""The lab's simulations against what can be worked out by hand, and against the models they stand beside."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from crosswind.bench.scale import model_row_latency_s
from crosswind.engine.parallel.handshake.engine import chunk_tuples
from crosswind.lab.costs import Costs
from crosswind.lab.dpjoin.simulate import BATCH, called, layouts_of, pushed_pairs_per_s, streamed
from crosswind.lab.row import SimulatedRow, push_ns, row_rate
from crosswind.plan.grid import Load, mean_pairs

SILENT = Costs(pair_ns=1.0, tuple_ns=0.0, push_ns=0.0, hop_ns=0.0, call_ns=0.0)
"""Comparisons cost a nanosecond, and nothing else costs anything."""


# -- a row of workers -----------------------------------------------------------------------------


def test_one_worker_takes_the_time_of_its_comparisons():
    window, batch = 64_000, 512
    assert push_ns(1, window, batch, SILENT) == pytest.approx(window * batch, rel=0.02)


def test_every_worker_of_a_row_does_its_share():
    workers, window = 5, 64_000.0
    row = SimulatedRow(workers, window, 64, SILENT)
    for _ in range(60):
        for stream in (0, 1):
            row.feed(stream, 1, row.now)
            row.run()
            row.expire(stream, 1)
    share = 2 * 60 * 64 * window / workers * 1e-9
    assert row.busy() == pytest.approx([share] * workers, rel=0.05)


def test_a_row_that_never_waits_scales_with_its_workers():
    one = row_rate(1, 900, SILENT, None)
    assert one == pytest.approx((1e9 / 1800) ** 0.5, rel=0.02)
    for workers in (2, 8, 32):
        assert row_rate(workers, 900, SILENT, None) == pytest.approx(one * workers**0.5, rel=0.03)


def test_a_row_that_falls_quiet_after_every_push_fills_and_empties():
    """With C chunks and N workers a push takes C + N - 1 turns, not C."""
    workers, window, batch = 4, 4_096_000, 1_024
    chunks = batch // chunk_tuples(batch, workers)
    busy = window * batch / workers
    taken = push_ns(workers, window, batch, SILENT)
    assert taken == pytest.approx(busy * (chunks + workers - 1) / chunks, rel=0.03)


def test_messages_make_a_row_slower():
    slow = dataclasses.replace(SILENT, hop_ns=1e6)
    assert push_ns(4, 64_000, 1_024, slow) > push_ns(4, 64_000, 1_024, SILENT) + 3e6
    assert row_rate(4, 60, slow, 1.0) < row_rate(4, 60, SILENT, 1.0)


def test_messages_take_a_row_that_never_waits_its_time():
    """A worker handles each chunk and each acknowledgment, and cannot compare meanwhile."""
    dear = dataclasses.replace(SILENT, hop_ns=2e7)
    assert row_rate(8, 60, dear, None) < 0.8 * row_rate(8, 60, SILENT, None)


def test_chunks_are_those_of_the_engine(monkeypatch):
    asked = []
    monkeypatch.setattr("crosswind.lab.row.chunk_tuples", lambda *given: asked.append(given) or 64)
    push_ns(2, 64_000, 512, SILENT)
    row_rate(2, 61.5, SILENT, None)
    assert asked[0] == (512, 2)
    assert len(asked) > 1


def test_the_caller_is_the_limit_where_comparisons_are_few():
    busy = dataclasses.replace(SILENT, tuple_ns=1e6)
    assert row_rate(64, 1, busy, None) == pytest.approx(500, rel=0.05)


@pytest.mark.parametrize("workers", [1, 2, 4, 16])
def test_results_of_a_row_are_as_late_as_estimated(workers):
    """Tuples that walk: a pair meets when one enters the segment of the other."""
    times = np.linspace(0, 1, 4_001)
    at = np.minimum(np.floor(workers * times), workers - 1)
    late = []
    for ahead in np.linspace(0.0005, 0.9995, 400):
        behind = np.floor(workers * np.maximum(times - ahead, 0))
        met = (times >= ahead) & (at + behind >= workers - 1)
        late.append(times[met][0] - ahead if met.any() else 1 - ahead)
    assert np.mean(late) == pytest.approx(model_row_latency_s(1.0, workers), abs=0.004)


# -- rows and columns -----------------------------------------------------------------------------

CALM = Load((100.0, 100.0), (10_000.0, 10_000.0))


@pytest.mark.parametrize("layout", [(1, 1), (2, 2), (1, 4), (4, 1), (2, 3)])
def test_a_grid_that_is_not_busy_has_the_latency_of_the_equations(layout):
    found = streamed(layout, CALM, SILENT, 200)
    assert found.found_s == pytest.approx(mean_pairs(layout, CALM) * 1e-9, rel=0.01)
    assert found.done_s == pytest.approx(2 * found.found_s, rel=0.01)


def test_a_grid_gives_what_the_streams_have_or_what_it_can():
    needed = 2 * 100.0 * 10_000.0
    assert streamed((1, 1), CALM, SILENT, 400).pairs_per_s == pytest.approx(needed, rel=0.02)
    slow = dataclasses.replace(SILENT, pair_ns=4_000.0)
    for layout in ((1, 1), (1, 2), (2, 2)):
        workers = layout[0] * layout[1]
        able = workers / slow.pair_ns * 1e9
        assert streamed(layout, CALM, slow, 400).pairs_per_s == pytest.approx(min(needed, able), rel=0.03)


def test_hops_delay_long_lines_most():
    far = dataclasses.replace(SILENT, hop_ns=1e6)
    assert streamed((1, 16), CALM, far, 100).done_s > streamed((4, 4), CALM, far, 100).done_s + 4e-3


def test_layouts_cut_up_the_larger_window_more():
    uneven = Load((1_000.0, 3_000.0), (300_000.0, 900_000.0))
    fast = dataclasses.replace(SILENT, pair_ns=0.01)
    assert streamed((3, 5), uneven, fast, 300).found_s < streamed((4, 4), uneven, fast, 300).found_s


def test_pushes_take_whatever_is_due():
    """A push that takes longer than the tuples' distance leaves more for the next; none is lost, none waits forever."""
    costs = dataclasses.replace(SILENT, call_ns=25e6, push_ns=25e6)
    found = called((1, 1), CALM, costs, 300)
    assert 25e-3 < found.done_s < 80e-3
    assert found.pairs_per_s == pytest.approx(2 * 100 * 10_000, rel=0.1)


def test_pushes_of_the_engine_cost_their_messages():
    load = Load((1e4, 1e4), (1e6, 1e6))
    assert pushed_pairs_per_s((1, 1), load, SILENT) == pytest.approx(1e9)
    assert pushed_pairs_per_s((1, 8), load, SILENT) == pytest.approx(8e9)
    # A push to a row of 1 x 8 tells seven more, and one to its columns as many.
    told = dataclasses.replace(SILENT, push_ns=5e6, hop_ns=1e6)
    taken = 2 * BATCH * 1e6 / pushed_pairs_per_s((1, 8), load, told)
    assert taken == pytest.approx(2 * (BATCH * 1e6 / 8 * 1e-9 + 5e-3 + 7e-3))


def test_layouts_are_named():
    assert layouts_of(16) == {"square": (4, 4), "rectangular": (2, 8), "linear": (1, 16)}
    assert layouts_of(12) == {"square": None, "rectangular": (3, 4), "linear": (1, 12)}
    assert layouts_of(7) == {"square": None, "rectangular": None, "linear": (1, 7)}
