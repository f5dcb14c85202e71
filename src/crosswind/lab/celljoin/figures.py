"""CellJoin's figures 7 to 13, its data rate, batching and adaptation."""

from __future__ import annotations

from typing import Any

from crosswind.lab.celljoin.batching import (
    figure_adaptation,
    figure_batching,
    measure_adaptation,
    measure_batching,
)
from crosswind.lab.celljoin.loop_figures import figure_7, figure_7_ratios, figure_8
from crosswind.lab.celljoin.runs import (
    best_sizes,
    loops_of,
    measure_batches,
    measure_offered,
    measure_sizes,
    measure_workers,
)
from crosswind.lab.celljoin.scaling import data_rate, figure_10, figure_10_drops, figure_11
from crosswind.lab.celljoin.sizes import figure_9, figure_12, figure_13
from crosswind.lab.setting import Experiment

__all__ = ["EXPERIMENTS"]

EXPERIMENTS: dict[str, Experiment[Any]] = {
    "figure-7": Experiment(loops_of, figure_7, ("seed",)),
    "figure-7-ratios": Experiment(loops_of, figure_7_ratios, ("seed",)),
    "figure-8": Experiment(loops_of, figure_8, ("seed",)),
    "figure-9": Experiment(best_sizes, figure_9, ("seed",)),
    "figure-10": Experiment(measure_offered, figure_10, ("window", "workers", "seed")),
    "figure-10-drops": Experiment(measure_offered, figure_10_drops, ("window", "workers", "seed")),
    "data-rate": Experiment(measure_offered, data_rate, ("window", "workers", "seed")),
    "figure-11": Experiment(measure_workers, figure_11, ("window", "workers", "seed")),
    "figure-12": Experiment(measure_batches, figure_12, ("rate", "window", "workers", "seed")),
    "batching": Experiment(measure_batching, figure_batching),
    "adaptation": Experiment(measure_adaptation, figure_adaptation),
    "figure-13": Experiment(measure_sizes, figure_13, ("rate", "window", "seed")),
}
"""By figure."""
