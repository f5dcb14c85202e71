"""How late results come: by the clock of the streams, and in real time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from crosswind.bench.latency import drive_live
from crosswind.bench.live import DrivenJoin
from crosswind.lab.loads import BANDS, Loaded

__all__ = ["Late", "answer_s", "late_of", "row_lateness"]

_PUSH_MAX = 4_096
_WARM_UP_S = 0.3
_STRETCHES = 10


@dataclass(frozen=True)
class Late:
    """How late results come: the mean, and the standard deviation of the means of ten stretches of the run."""

    mean: float
    deviation: float


def late_of(stretches: Sequence[Sequence[float]]) -> Late:
    """Return mean and deviation of latencies that came in stretches; stretches without a result are left out."""
    means = [float(np.mean(some)) for some in stretches if len(some)]
    every = [value for some in stretches for value in some]
    return Late(float(np.mean(every)) if every else 0.0, float(np.std(means)) if means else 0.0)


def row_lateness(workers: int, window_s: int, rate: int, seed: int = 1) -> Late:
    """Return how late results of a row of workers come, in windows, by the clock of the streams.

    The row is driven on for a window; a result is as late as the stream has come beyond the later of its tuples.
    """
    workload = Loaded(rate, window_s * 1_000_000, seed=seed, condition=BANDS, shown="R.ts AS rt, S.ts AS st")
    batch = max(1, rate // 10)
    live = DrivenJoin(workload, "scan", batch, engine="handshake", workers=workers)
    pushes = window_s * rate // batch
    stretches: list[list[float]] = [[] for _ in range(_STRETCHES)]
    for number in range(pushes):
        pushed = {name: workload.batch(name, live.next, batch) for name in ("R", "S")}
        live.next += batch
        for name, some in pushed.items():
            found = live.join.push(name, some)
            now = some.column("ts").cast(pa.int64()).to_numpy()[-1]
            later = np.maximum(*(found.column(c).cast(pa.int64()).to_numpy() for c in ("rt", "st")))
            stretches[number * _STRETCHES // pushes] += ((now - later) / workload.window_us).tolist()
    live.close()
    return late_of(stretches)


def answer_s(window_s: int, rate: int, seconds: float, seed: int, **options: Any) -> float:
    """Play both streams in real time to a join with full windows; return the mean time until a tuple is answered.

    From the moment a tuple is due to the return of the push that took it, with its results.
    """
    workload = Loaded(rate, window_s * 1_000_000, seed=seed)
    live = DrivenJoin(workload, "scan", max(1, rate // 10), **options)
    first = round(rate * _WARM_UP_S)
    batches = {name: workload.batch(name, live.next, round(rate * (seconds + _WARM_UP_S))) for name in ("R", "S")}
    observed = drive_live(live.join, batches, rate, _PUSH_MAX)
    live.close()
    return float(np.concatenate([values[first:] for values in observed.latency_s.values()]).mean())
