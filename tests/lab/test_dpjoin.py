"""DP-Join's and Handshake Join's experiments at tiny sizes: what they compute, not how fast this machine is."""

from __future__ import annotations

import pytest

from crosswind.bench.scale import model_row_latency_s
from crosswind.lab.costs import Costs
from crosswind.lab.dpjoin import delay, runs, throughput
from crosswind.lab.handshake import figures as handshake
from crosswind.lab.handshake import latency, published
from crosswind.lab.lateness import Late, late_of, row_lateness
from crosswind.lab.setting import Setting
from crosswind.lab.verdict import AGREES, DIFFERS

COSTS = Costs(pair_ns=0.1, tuple_ns=500.0, push_ns=5e4, hop_ns=2e3, call_ns=3e4)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_real_row_is_as_late_as_estimated(workers):
    """By the clock of the streams, so that the speed of this machine does not matter."""
    late = row_lateness(workers, window_s=3, rate=1_000)
    assert late.mean == pytest.approx(model_row_latency_s(1.0, workers), abs=0.05)


def test_a_grid_with_streams_that_differ_is_played_in_real_time():
    found = runs.latency_ms((200, 600), (2, 1), 0.2, (1, 2))
    assert 0 < found.mean < 1_000


def test_windows_that_differ_are_full():
    join, coming = runs._filled((100, 300), (4, 2), 1.0, (1, 1))
    with join:
        assert join.stats.window_tuples == {"R": 400, "S": 600}
        assert {name: batch.num_rows for name, batch in coming.items()} == {"R": 100, "S": 300}
        for name, batch in coming.items():
            join.push(name, batch)


def test_latencies_are_worked_out_simulated_and_run(monkeypatch):
    monkeypatch.setattr(delay, "measure_costs", lambda *_: COSTS)
    monkeypatch.setattr(delay, "latency_ms", lambda *_: Late(0.2, 0.01))
    found = delay.measure_7a(Setting(quick=True))
    assert found.load.windows == (300_000, 900_000)
    assert found.computed[3, 5] < found.computed[4, 4]
    silent = {layout: value for layout, value in found.computed.items() if layout in ((1, 1), (4, 4), (3, 5))}
    for layout, value in silent.items():
        assert found.simulated[layout] >= value * 0.99
    assert set(found.real) == set(found.guessed) == {1, 2}
    assert "real and simulated: 0.2 ms at 1 workers" in found.notes[0]


def test_outputs_are_run_and_simulated(monkeypatch):
    monkeypatch.setattr(throughput, "measure_costs", lambda *_: COSTS)
    monkeypatch.setattr(throughput, "scan_costs", lambda *_: (0.1, 0.0))
    monkeypatch.setattr(throughput, "results_per_s", lambda *_: 11_000.0)
    monkeypatch.setattr(throughput, "output_per_s", lambda *_, **__: 70.0)
    found = throughput.measure_outputs(Setting(quick=True))
    assert found.grid == found.row == {1: 70.0, 2: 70.0}
    assert set(found.simulated["square"]) == {1, 4, 9, 16}
    assert set(found.simulated["linear"]) == set(range(1, 17))
    assert found.simulated["linear"][2] < 2 * found.simulated["linear"][1]  # messages cost
    figure = throughput.figure_4(found)
    assert {series.source for series in figure.series} == {"measured", "simulated", "published"}
    assert all(0 <= share <= 1 for series in figure.series if series.source == "simulated" for share in series.y)
    assert "Simulated against real output" in figure.notes[0]


def test_rows_are_run_and_simulated(monkeypatch):
    monkeypatch.setattr(handshake, "measure_costs", lambda *_: COSTS)
    monkeypatch.setattr(handshake, "row_rate", lambda workers, *_: 2_100.0 * workers**0.5)
    monkeypatch.setattr(handshake, "_measured", lambda _w, _c, workers, _s: 2_000.0 * workers**0.5)
    found = handshake.measure_scaling(Setting(quick=True))
    assert found.errors("15-minute windows") == pytest.approx([0.05, 0.05])
    figure = handshake.figure_16(found)
    published = [series for series in figure.series if series.source == "published"]
    assert [(series.x, series.y) for series in published] == [((8.0,), (1_400.0,))]
    assert "simulated against real, +5% at 1, +5% at 2" in figure.notes[0]
    assert any(series.label.startswith("10-minute") for series in figure.series)
    vectors = handshake.measure_vectors(Setting(quick=True, workers=(1,)))
    assert set(vectors.measured["vectors"]) == {1}


def test_table_2_of_the_handshake_paper_follows_from_its_table_1():
    figure = handshake.table_2((published.POWER, published.WEIGHTED))
    static, least, sums = figure.checks
    assert (static.verdict, least.verdict) == (AGREES, AGREES)
    assert sums.verdict == DIFFERS  # two rows of Table 1 do not add up


def test_a_deviation_is_that_of_the_means_of_stretches():
    late = late_of([[1.0, 3.0], [], [4.0, 4.0]])
    assert late == Late(3.0, 1.0)
    assert late_of([[]]) == Late(0.0, 0.0)


def test_strategies_are_played_for_their_lateness(monkeypatch):
    monkeypatch.setattr(latency, "measure_costs", lambda *_: COSTS)
    found = latency.measure_lateness(Setting(quick=True, rate=200, window=1, workers=(1, 2)))
    assert found.row[1] == pytest.approx(0.0, abs=0.3)
    assert set(found.answers) == {"low-latency handshake (hurry=True)", "cell", "grid", "SplitJoin"}
    assert all(0 < value < 1 for points in found.answers.values() for value in points.values())
    assert found.split[2] == pytest.approx((3e4 + 2e3 + 200 / 2 * 0.1 / 2) * 1e-9)
