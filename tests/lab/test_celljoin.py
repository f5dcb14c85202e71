"""CellJoin's experiments at tiny sizes: what they compute, not how fast this machine is."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

import crosswind as cw
from crosswind.lab.celljoin import batching, counters, loop_figures, loops, overload, runs
from crosswind.lab.celljoin.model import SIZES_BYTES, TransferModel
from crosswind.lab.costs import Costs
from crosswind.lab.loads import Loaded, sustain
from crosswind.lab.setting import Setting
from crosswind.lab.verdict import AGREES, NOT_COMPARABLE
from crosswind.plan.cost import Constants, Curve
from tests.lab.numbers import LOOPS


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
    found = loops.measure_loops(Setting(quick=True))
    assert found is not None
    assert set(found.block_ns) == {"scalar", "vectorised", "unrolled"}
    assert all(np.all(np.array(taken) > 0) for taken in (*found.block_ns.values(), found.fetch_ns))
    plain, ratios = loop_figures.figure_7(found), loop_figures.figure_7_ratios(found)
    assert {series.source for series in ratios.series} == {"measured", "published"}
    assert plain.series[0].y[0] == pytest.approx(found.block_ns["scalar"][0] / loops.WINDOW_BYTES[0])


def test_without_a_compiler_or_counters_the_figures_say_so():
    for draw in (loop_figures.figure_7, loop_figures.figure_7_ratios, loop_figures.figure_8):
        figure = draw(None)
        assert figure.verdict == NOT_COMPARABLE
        assert all("no C++ compiler" in check.why for check in figure.checks)
    blind = dataclasses.replace(LOOPS, cpi={})
    assert all("counters cannot be read" in check.why for check in loop_figures.figure_8(blind).checks)
    assert loop_figures.figure_8(LOOPS).verdict == AGREES


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


def test_times_are_taken_by_batch_and_by_size_on_the_cell_engine(monkeypatch):
    engines = set()

    def ns(live, batch, *_):
        engines.add(live.join.stats.engine)
        return 1e3 * batch * live.workload.window_tuples

    monkeypatch.setattr(runs, "ns_a_tuple", ns)
    monkeypatch.setattr(runs, "BATCHES", (1, 4))
    monkeypatch.setattr(runs, "SIZES", (256, 512))
    monkeypatch.setattr(runs, "_curve", lambda *_: Curve(1.0, 0.0, 1.0))
    setting = Setting(quick=True, rate=200, window=1)
    assert runs.measure_batches(setting).times_us == {1: (200.0, 800.0)}
    assert runs.measure_sizes(setting).times_us == {1: (128 * 200.0,) * 2}
    assert engines == {"cell"}


def test_the_models_best_size_grows_with_the_square_root_of_the_rate(monkeypatch):
    monkeypatch.setattr(runs, "_constants", lambda _: Constants(seal_ns=1.0))
    monkeypatch.setattr(runs, "loops_of", lambda _: LOOPS)
    best = runs.best_sizes(Setting(quick=True))
    for found in (*best.ours.values(), *best.equation_4.values()):
        assert found[-1] / found[0] == pytest.approx(10.0, rel=0.01)


def test_equations_3_and_4_are_the_papers():
    """Equation 4 is where the derivative of equation 3 is zero; the sizes that are tried surround it."""
    model = TransferModel(issue_ns=100.0, fetch_ns=0.05, begin_ns=20.0, match_ns=0.5)
    block = model.unit_block * model.attribute_bytes
    for rate, window_s in ((500.0, 900.0), (50.0, 60.0), (5_000.0, 300.0)):
        best = model.optimum_bytes(rate, window_s) / block
        assert best == pytest.approx((120 / 0.05 * rate * window_s / (16 * 8)) ** 0.5)
        least = model.window_ns(best, rate, window_s)
        assert all(model.window_ns(best * off, rate, window_s) > least for off in (0.7, 0.95, 1.05, 1.5))
        tried = {size: model.window_ns(size / block, rate, window_s) for size in range(128, 16_385, 32)}
        assert model.best_bytes(rate, window_s) in SIZES_BYTES
        near = min(SIZES_BYTES, key=lambda size: tried[size])
        assert model.best_bytes(rate, window_s) == near
    assert SIZES_BYTES[0] == 128
    assert SIZES_BYTES[-1] == 16_384


def test_cycles_are_counted_or_nothing_is():
    found = counters.cycles_per_instruction(lambda: sum(range(1_000)))
    assert found is None or 0.05 < found < 50


# -- batches that follow the rate, workers that follow the load -----------------------------------------

COSTS = Costs(pair_ns=0.1, tuple_ns=1_000.0, push_ns=1e5, hop_ns=0.0, call_ns=0.0)


def test_a_lone_tuple_waits_for_nobody_but_its_block():
    """100 tuples/s of each stream, a push of 100 us: one by one nothing waits, a block of four waits for three more."""
    push_s = (1e5 + 1_000 + 1e3 * 0.1) * 1e-9
    assert batching.play_backlog(100.0, 64, 1, COSTS, 1e3, 40) == pytest.approx(push_s, rel=0.01)
    waiting = (3 + 2 + 1 + 0) / 4 / 100
    taken = (1e5 + 4 * (1_000 + 1e3 * 0.1)) * 1e-9
    assert batching.play_backlog(100.0, 64, 4, COSTS, 1e3, 40) == pytest.approx(waiting + taken, rel=0.01)


def test_larger_batches_sustain_what_single_blocks_do_not():
    """A push of four takes 104.4 us; 50,000 tuples/s of each stream are 8.7 times what that allows."""
    single, many = (batching.play_backlog(50_000.0, limit, 4, COSTS, 1e3, 2_000) for limit in (4, 256))
    assert single > 5 * many


def test_workers_follow_the_load():
    found = batching.play_staff(((0.5, 2.0), (3.5, 6.0), (0.2, 6.0)), most=4)
    assert found.active[0] == 1
    assert max(found.active) == 4
    assert found.active[-1] == 1
    assert all(abs(b - a) <= 1 for a, b in itertools.pairwise(found.active))
