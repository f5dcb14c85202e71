"""What an experiment leaves behind."""

from __future__ import annotations

from crosswind.lab.figure import Figure, Series
from crosswind.lab.verdict import AGREES, NOT_COMPARABLE, compare


def test_a_figure_holds_series_of_points_and_checks():
    line = Series("published", (1.0, 2.0), (3.0, 4.0), "published", "Table 1")
    figure = Figure("fpga", "figure-13", "t", "c", "x", "y", (line,), (compare("so", 1.0, low=0.0),), "d")
    assert figure.series[0].y == (3.0, 4.0)
    assert figure.notes == ()
    assert figure.verdict == AGREES
    assert figure.command == "crosswind lab run fpga figure-13"
    assert Figure("fpga", "figure-13", "t", "c", "x", "y", (), (), "d").verdict == NOT_COMPARABLE
