"""CellJoin's experiments at tiny sizes: what they compute, not how fast this machine is."""

from __future__ import annotations

import numpy as np
import pytest

from crosswind.lab.celljoin import figures, loops


def test_a_line_is_fitted_to_costs():
    sizes = (100, 200, 400)
    alpha, beta = loops.fit(sizes, tuple(7.0 + 0.5 * size for size in sizes))
    assert alpha == pytest.approx(7.0)
    assert beta == pytest.approx(0.5)
    assert loops.fit(sizes, (10.0, 30.0, 70.0))[0] == 0.0


def test_loops_are_measured_by_size(monkeypatch):
    monkeypatch.setattr(loops, "_PAIRS_A_CALL", {True: 20_000, False: 20_000})
    monkeypatch.setattr(loops, "_MEMORY", 1 << 20)
    found = loops.measure_loops(True)
    if found is None:
        pytest.skip("no C++ compiler")
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
