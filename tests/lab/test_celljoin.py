"""CellJoin's experiments at tiny sizes: what they compute, not how fast this machine is."""

from __future__ import annotations

import numpy as np
import pytest

import crosswind as cw
from crosswind.lab.celljoin import figures, loops, overload, runs, sizes
from crosswind.lab.loads import Loaded, sustain
from crosswind.plan.cost import Constants


def test_a_line_is_fitted_to_costs():
    sizes = (100, 200, 400)
    alpha, beta = loops.fit(sizes, tuple(7.0 + 0.5 * size for size in sizes))
    assert alpha == pytest.approx(7.0)
    assert beta == pytest.approx(0.5)
    assert loops.fit(sizes, (10.0, 30.0, 70.0))[0] == 0.0


@pytest.mark.usefixtures("cpp_loop")
def test_loops_are_measured_by_size(monkeypatch):
    monkeypatch.setattr(loops, "_PAIRS_A_CALL", {True: 20_000, False: 20_000})
    monkeypatch.setattr(loops, "_MEMORY", 1 << 20)
    found = loops.measure_loops(True)
    assert found is not None
    assert set(found.block_ns) == {"scalar", "vectorised", "unrolled"}
    assert all(np.all(np.array(taken) > 0) for taken in (*found.block_ns.values(), found.fetch_ns))
    monkeypatch.setattr(figures, "_loops", lambda _: found)
    plain, ratios = figures.figure_7(True), figures.figure_7_ratios(True)
    assert {series.source for series in ratios.series} == {"measured", "published"}
    assert plain.series[0].y[0] == pytest.approx(found.block_ns["scalar"][0] / loops.WINDOW_BYTES[0])


def test_without_a_compiler_the_figure_says_so(monkeypatch):
    monkeypatch.setattr(figures, "_loops", lambda _: None)
    assert "no C++ compiler" in figures.figure_7(True).agrees
    assert all(series.source == "published" for series in figures.figure_7_ratios(True).series)


def test_a_sustained_rate_is_found_from_a_trial_beside_it():
    found = sustain(lambda rate: Loaded(rate, 1_000_000), 400, tick=0.2, trial_s=0.4, trials=1, engine="kang")
    assert found.trial.rate == 400
    assert found.rate == pytest.approx(400 / found.trial.utilisation**0.5)
    assert found.results_per_s == pytest.approx(found.trial.results_per_s / found.trial.utilisation)


def test_all_variants_find_the_same_pairs():
    rows = set()
    for condition in runs.VARIANTS.values():
        workload = Loaded(2_000, 500_000, condition=condition, band_y=10)
        tables = {name: workload.table(name, 0, 4_000) for name in ("R", "S")}
        found = cw.run(workload.sql, tables, index="scan")
        rows.add(tuple(sorted(zip(*(column.to_pylist() for column in found.columns), strict=True))))
    assert len(rows) == 1
    assert rows != {()}


def test_an_overload_is_played_in_real_time():
    assert 0 < overload.play_overload(500, 0.2) <= 1.05


def test_times_are_taken_by_batch_and_by_size(monkeypatch):
    monkeypatch.setattr(runs, "RATE", 200)
    monkeypatch.setattr(runs, "ns_a_tuple", lambda live, batch, *_: 1e3 * batch * live.workload.window_tuples)
    assert runs.batch_times(1, (1, 4), True) == (200.0, 800.0)
    assert runs.size_times(1, (256, 512), True) == (128 * 200.0,) * 2


def test_the_models_best_size_grows_with_the_square_root_of_the_rate(monkeypatch):
    monkeypatch.setattr(sizes, "constants", lambda _: Constants(seal_ns=1.0))
    figure = sizes.figure_9(True)
    for series in figure.series:
        assert series.y[-1] / series.y[0] == pytest.approx(10.0, rel=0.01)
