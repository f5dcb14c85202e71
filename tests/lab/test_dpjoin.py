"""DP-Join's and Handshake Join's experiments at tiny sizes: what they compute, not how fast this machine is."""

from __future__ import annotations

import pytest

from crosswind.bench.scale import model_row_latency_s
from crosswind.lab.costs import Costs
from crosswind.lab.dpjoin import delay, runs, throughput
from crosswind.lab.dpjoin import figures as dpjoin
from crosswind.lab.handshake import figures as handshake

COSTS = Costs(pair_ns=0.1, tuple_ns=500.0, push_ns=5e4, hop_ns=2e3, call_ns=3e4)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_real_row_is_as_late_as_estimated(workers):
    """By the clock of the streams, so that the speed of this machine does not matter."""
    late = runs.row_lateness(workers, window_s=3, rate=1_000)
    assert late == pytest.approx(model_row_latency_s(1.0, workers), abs=0.05)


def test_a_grid_with_streams_that_differ_is_played_in_real_time():
    found = runs.latency_ms((200, 600), (2, 1), 0.2, (1, 2))
    assert 0 < found < 1_000


def test_windows_that_differ_are_full():
    join, coming = runs._filled((100, 300), (4, 2), 1.0, (1, 1))
    with join:
        assert join.stats.window_tuples == {"R": 400, "S": 600}
        assert {name: batch.num_rows for name, batch in coming.items()} == {"R": 100, "S": 300}
        for name, batch in coming.items():
            join.push(name, batch)


def test_latency_figures_say_what_was_found(monkeypatch):
    monkeypatch.setattr(delay, "measure_costs", lambda *_: COSTS)
    monkeypatch.setattr(delay, "latency_ms", lambda *_: 0.2)
    sixteen = delay.figure_6a(True)
    model, silent = (
        dict(zip(series.x, series.y, strict=True))
        for series in sixteen.series
        if series.label.endswith(("5 to 7", "nothing"))
    )
    assert model == pytest.approx(silent, rel=0.1)
    assert "square" in sixteen.agrees.split("has ")[1][:12]
    uneven = delay.figure_7a(True)
    values = {series.label: series.y for series in uneven.series if series.source == "simulated"}
    assert values["3 x 5"][0] < dict(zip((4, 9, 16), values["square"], strict=True))[16]
    assert "simulated against real" in uneven.notes[0]


def test_output_figures_say_what_was_found(monkeypatch):
    monkeypatch.setattr(throughput, "measure_costs", lambda *_: COSTS)
    monkeypatch.setattr(throughput, "_outputs", lambda _: (2_000, 60, {1: 80.0, 2: 150.0}, 600.0))
    monkeypatch.setattr(throughput, "results_per_s", lambda *_: 11_000.0)
    monkeypatch.setattr(throughput, "output_per_s", lambda *_, **__: 70.0)
    figure = throughput.figure_4(True)
    assert {series.source for series in figure.series} == {"measured", "simulated", "published"}
    assert all(0 <= share <= 1 for series in figure.series if series.source == "simulated" for share in series.y)
    assert "Simulated against real output" in figure.notes[0]
    assert len(throughput.table_1(True).series) == 6
    assert throughput.figure_5a(True).series[0].y == (1.0, 150 / 80)


def test_row_figures_say_what_was_found(monkeypatch):
    monkeypatch.setattr(handshake, "measure_costs", lambda *_: COSTS)
    monkeypatch.setattr(handshake, "row_rate", lambda workers, *_: 2_100.0 * workers**0.5)
    monkeypatch.setattr(handshake, "_measured", lambda _w, _c, workers, _q: 2_000.0 * workers**0.5)
    figure = handshake.figure_16(True)
    published = next(series for series in figure.series if series.source == "published")
    assert dict(zip(published.x, published.y, strict=True)) == {4: 995, 8: 1405, 20: 2216, 32: 2807, 44: 3290}
    assert "simulated against real, +5% at 1, +5% at 2" in figure.notes[0]
    assert any(series.label.startswith("10-minute") for series in figure.series)
    assert "1.0 times" in handshake.figure_15(True).agrees


@pytest.mark.parametrize("paper", [dpjoin, handshake])
def test_experiments_are_named_as_their_figures(paper):
    assert all(callable(make) for make in paper.EXPERIMENTS.values())
