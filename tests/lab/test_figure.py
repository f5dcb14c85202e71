"""What an experiment leaves behind."""

from __future__ import annotations

from crosswind.lab.figure import Figure, Series


def test_a_figure_holds_series_of_points():
    line = Series("published", (1.0, 2.0), (3.0, 4.0), "published")
    figure = Figure("fpga", "figure-13", "t", "c", "x", "y", (line,), "a", "d", "crosswind lab")
    assert figure.series[0].y == (3.0, 4.0)
    assert figure.notes == ()
