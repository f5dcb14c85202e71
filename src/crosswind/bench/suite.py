"""All benchmarks by name, and sizes for a quick look."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from crosswind.bench import (
    calibrate,
    compare,
    equality,
    growth,
    kernel,
    latency,
    memory,
    queries,
    rate,
    replay,
    scale,
    spark,
    spark_latency,
    start,
)
from crosswind.bench.record import BenchReport

__all__ = ["BENCHMARKS", "QUICK"]

BENCHMARKS: Mapping[str, Callable[..., BenchReport]] = {
    "kernel": kernel.measure,
    "rate": rate.measure,
    "replay": replay.measure,
    "latency": latency.measure,
    "compare": compare.measure,
    "equality": equality.measure,
    "growth": growth.measure,
    "memory": memory.measure,
    "queries": queries.measure,
    "start": start.measure,
    "spark": spark.measure,
    "spark-latency": spark_latency.measure,
    "calibrate": calibrate.measure,
    "scale": scale.measure,
}

QUICK: Mapping[str, Mapping[str, Any]] = {
    "kernel": {"window": 200_000, "probes": 64, "rounds": 3},
    "rate": {"windows": (60,), "start": 4_000, "trial": 2.0, "seconds": 10.0},
    "replay": {"windows": (60,), "seconds": 0.5, "rounds": 3},
    "latency": {"rate": 500, "window": 60, "seconds": 3.0},
    "compare": {"window": 200_000, "probes": (100,), "rounds": 3, "windows": (60,), "prefix": 180},
    "equality": {"keys": 20_000, "batch": 1_000, "window": 20_000, "seconds": 0.3, "rounds": 3},
    "growth": {"window": 10, "factors": (1, 4), "seconds": 0.2, "rounds": 3},
    "memory": {"rate": 2_000, "window": 60, "seconds": 2.0},
    "queries": {"window": 200, "batch": 16, "pushes": 4, "rounds": 1},
    "start": {"rounds": 1},
    "spark": {"windows": (5,), "rate": 200, "length": 20, "batch": 10, "own": 10, "theta": 10},
    "spark-latency": {"rate": 200, "window": 5, "seconds": 10.0},
    "calibrate": {"window": 5, "sizes": (256, 1_024), "seconds": 0.05, "rounds": 1, "store": False},
    "scale": {
        "rate": 500,
        "window": 60,
        "seconds": 0.3,
        "rounds": 2,
        "latency_rate": 500,
        "latency_window": 20,
        "latency_seconds": 1.0,
    },
}
"""By benchmark, what differs from its defaults with ``--quick``. Small enough for the slowest index, so
that goals, which are about other sizes, mostly do not apply."""
