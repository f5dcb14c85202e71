"""DP-Join's figures 4 to 7 and Table I."""

from __future__ import annotations

from crosswind.lab.dpjoin.delay import figure_6_handshake, figure_6a, figure_6b, figure_7a, figure_7b
from crosswind.lab.dpjoin.throughput import figure_4, figure_5a, figure_5b, table_1
from crosswind.lab.figure import Figure
from crosswind.lab.papers import Experiment

__all__ = ["EXPERIMENTS", "figures"]

EXPERIMENTS: dict[str, Experiment] = {
    "figure-4": figure_4,
    "figure-5a": figure_5a,
    "table-1": table_1,
    "figure-5b": figure_5b,
    "figure-6a": figure_6a,
    "figure-6b": figure_6b,
    "figure-6-handshake": figure_6_handshake,
    "figure-7a": figure_7a,
    "figure-7b": figure_7b,
}
"""By figure."""


def figures(quick: bool) -> list[Figure]:
    """Run all experiments."""
    return [make(quick) for make in EXPERIMENTS.values()]
