"""DP-Join's experiments on real joins, with one and two workers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from crosswind.bench.latency import drive_live
from crosswind.bench.live import DrivenJoin
from crosswind.bench.rate import attempt
from crosswind.engine.join import Join
from crosswind.engine.session import open as open_join
from crosswind.lab.dpjoin.simulate import BATCH
from crosswind.lab.lateness import Late, late_of
from crosswind.lab.loads import Loaded, sustain
from crosswind.plan.grid import Load

__all__ = ["LAYOUTS", "latency_ms", "load_of", "output_per_s", "results_per_s", "sustained"]

LAYOUTS = {1: (1, 1), 2: (1, 2)}
"""What is run for real, by workers."""

_PUSH_MAX = 4_096
_WARM_UP_S = 0.3


def load_of(rates: tuple[float, float], windows_s: tuple[float, float]) -> Load:
    """Return the load of two streams: tuples/s, and tuples in the windows."""
    return Load(rates, (rates[0] * windows_s[0], rates[1] * windows_s[1]))


def output_per_s(rate: int, window_s: int, seconds: float, **options: Any) -> float:
    """Return the results/s of a join that always has more to do, with windows that are full at ``rate``."""
    live = DrivenJoin(Loaded(rate, window_s * 1_000_000), "scan", BATCH, **options)
    stretches = [live.drive(seconds=seconds) for _ in range(3)]
    live.close()
    # Results are few and random; the pairs behind them are not.
    share = sum(s.results for s in stretches) / sum(s.tuples for s in stretches)
    return share * max(s.tuples / s.seconds for s in stretches)


def sustained(window_s: int, start: float, quick: bool, **options: Any) -> float:
    """Return the tuples/s of each stream that a join sustains."""
    return sustain(
        lambda rate: Loaded(rate, window_s * 1_000_000),
        round(start),
        tick=0.5,
        trial_s=1.0 if quick else 4.0,
        trials=1 if quick else 3,
        **options,
    ).rate


def results_per_s(rate: int, window_s: int, trial_s: float) -> float:
    """Return the results/s of event time that a join gives at a rate."""
    return attempt(Loaded(rate, window_s * 1_000_000), "scan", 0.5, trial_s, check=False).results_per_s


def latency_ms(rates: tuple[int, int], windows_s: tuple[int, int], seconds: float, layout: tuple[int, int]) -> Late:
    """Play two streams in real time to a grid with full windows; return the latency of a tuple, milliseconds.

    From the moment a tuple is due to the return of the push that took it, with its results.
    """
    join, batches = _filled(rates, windows_s, seconds + _WARM_UP_S, layout)
    with join:
        by_stream = dict(zip(batches, map(float, rates), strict=True))
        observed = drive_live(join, batches, by_stream, _PUSH_MAX)
    kept = [observed.latency_s[name][round(by_stream[name] * _WARM_UP_S) :] * 1e3 for name in batches]
    stretches = [np.concatenate(parts).tolist() for parts in zip(*(np.array_split(k, 10) for k in kept), strict=True)]
    return late_of(stretches)


def _filled(
    rates: tuple[int, int], windows_s: tuple[int, int], seconds: float, layout: tuple[int, int]
) -> tuple[Join, dict[str, pa.RecordBatch]]:
    """Return a grid whose windows are full, and what comes next of each stream."""
    streams = {name: Loaded(rate, w * 1_000_000) for name, rate, w in zip("RS", rates, windows_s, strict=True)}
    longest = max(windows_s)
    sql = Loaded(rates[0], windows_s[0] * 1_000_000, window_s_us=windows_s[1] * 1_000_000).sql
    schemas = {name: workload.schemas[name] for name, workload in streams.items()}
    join = open_join(sql, schemas, index="scan", engine="grid", layout=layout)
    history = {
        name: workload.table(name, (longest - w) * workload.rate, w * workload.rate)
        for (name, workload), w in zip(streams.items(), windows_s, strict=True)
    }
    join.push("R", history["R"])
    with open_join(sql, schemas, index="scan") as aside:  # so that the history is not joined with itself
        aside.push("S", history["S"])
        join.restore(aside.snapshot())
    coming = {
        name: workload.batch(name, longest * workload.rate, round(workload.rate * seconds))
        for name, workload in streams.items()
    }
    return join, coming
