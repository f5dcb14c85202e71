"""DP-Join's figures 4 to 7 and Table I."""

from __future__ import annotations

from typing import Any

from crosswind.lab.dpjoin import delay, throughput
from crosswind.lab.setting import Experiment

__all__ = ["EXPERIMENTS"]

EXPERIMENTS: dict[str, Experiment[Any]] = {
    "figure-4": Experiment(throughput.measure_outputs, throughput.figure_4, ("rate", "window")),
    "figure-5a": Experiment(throughput.measure_outputs, throughput.figure_5a, ("rate", "window")),
    "table-1": Experiment(throughput.measure_outputs, throughput.table_1, ("rate", "window")),
    "figure-5b": Experiment(throughput.measure_sustained, throughput.figure_5b, ("window",)),
    "figure-6a": Experiment(delay.measure_6a, delay.figure_6a, ("rate", "window")),
    "figure-6b": Experiment(delay.measure_6b, delay.figure_6b, ("rate", "window")),
    "figure-6-handshake": Experiment(
        delay.measure_rows, delay.figure_6_handshake, ("rate", "window", "workers", "seed")
    ),
    "figure-7a": Experiment(delay.measure_7a, delay.figure_7a, ("rate", "window")),
    "figure-7b": Experiment(delay.measure_7b, delay.figure_7b, ("rate", "window")),
}
"""By figure."""
