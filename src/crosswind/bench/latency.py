"""``bench latency``: from the moment a tuple is due to its results in the caller's hands, in real time."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crosswind.bench.live import DrivenJoin
from crosswind.bench.record import BenchReport, Goal, Measurement, Tell
from crosswind.bench.workload import BandWorkload
from crosswind.engine.ingest.batching import Backlog
from crosswind.engine.join import Join

__all__ = ["Observed", "drive_live", "measure"]

_GOALS = {"mean": Goal(0.3, at_least=False), "p99": Goal(2.0, at_least=False)}
_ASKED = (2_500, 300)
_QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p99.9": 0.999}
_WARM_UP_S = 0.5
_SPIN_S = 2e-4
"""Closer than this to the next tuple, waiting goes by looking at the clock: a sleep may end later."""


@dataclass
class Observed:
    """What was seen: the latency of each tuple (not yet come: NaN), and the sizes of the batches."""

    latency_s: dict[str, npt.NDArray[np.float64]]
    batches: list[int] = field(default_factory=list)
    results: int = 0
    busy_s: float = 0.0


def measure(*, rate: int, window: int, seconds: float, limit: int, index: str, tell: Tell) -> BenchReport:
    """Let tuples come at fixed intervals, and take whatever is due.

    Parameters
    ----------
    rate : int
        Tuples/s of each stream.
    window : int
        Length of both windows, in seconds.
    seconds : float
        How long the streams are played, in real time.
    limit : int
        Greatest number of tuples in a push.
    index : str
        As for ``crosswind.open``.
    tell : callable
        Told what is being done.
    """
    tell("filling the windows")
    workload = BandWorkload(rate, window * 1_000_000)
    live = DrivenJoin(workload, index, max(1, rate // 10))
    count = round(rate * (seconds + _WARM_UP_S))
    batches = {name: workload.batch(name, live.next, count) for name in ("R", "S")}
    tell(f"playing {rate:,} tuples/s a stream for {seconds:g} s")
    observed = drive_live(live.join, batches, rate, limit)
    live.close()
    first = round(rate * _WARM_UP_S)
    latency_ms = np.concatenate([values[first:] for values in observed.latency_s.values()]) * 1e3
    goals = _GOALS if (rate, window) == _ASKED else {}
    figures = {"mean": float(latency_ms.mean())}
    figures |= {name: float(np.quantile(latency_ms, q)) for name, q in _QUANTILES.items()}
    figures["max"] = float(latency_ms.max())
    sizes = np.array(observed.batches)
    measurements = [Measurement(name, value, "ms", goals.get(name)) for name, value in figures.items()]
    measurements += [
        Measurement(
            "batch, mean", float(sizes.mean()), "tuples", note=f"greatest: {sizes.max()}; pushes: {len(sizes):,}"
        ),
        Measurement("busy", observed.busy_s / (seconds + _WARM_UP_S) * 100, "% of the time, in push"),
    ]
    notes = [
        "The latency of a tuple goes from its due time to the return of the push that took it, with its results. "
        "Whatever is due is taken at once; nothing waits for more.",
        f"{observed.results:,} results; index {live.index}; the first {_WARM_UP_S:g} s are not counted.",
    ]
    settings = {"rate": rate, "window_s": window, "seconds": seconds, "limit": limit, "index": index}
    return BenchReport("latency", "latency in real time", settings, measurements, notes)


def drive_live(
    join: Join, batches: dict[str, pa.RecordBatch], rate: float | Mapping[str, float], limit: int
) -> Observed:
    """Push the rows of ``batches`` as they become due: ``rate`` a second, one for all or by stream, in turn.

    Rate-aware batching as :class:`crosswind.engine.ingest.batching.Backlog` does it: whatever is due is taken, up to
    ``limit`` tuples.
    """
    shifts = {name: k / len(batches) for k, name in enumerate(batches)}
    rates = rate if isinstance(rate, Mapping) else dict.fromkeys(batches, rate)
    due = {name: (np.arange(b.num_rows) + shifts[name]) / rates[name] for name, b in batches.items()}
    observed = Observed({name: np.full(b.num_rows, np.nan) for name, b in batches.items()})
    come, taken = dict.fromkeys(batches, 0), dict.fromkeys(batches, 0)
    backlog = Backlog(limit)
    began = time.perf_counter()
    while any(taken[name] < batch.num_rows for name, batch in batches.items()):
        now = time.perf_counter() - began
        for name, batch in batches.items():
            ready = min(batch.num_rows, int(now * rates[name] - shifts[name] + 1))
            if ready > come[name]:
                backlog.put(name, batch.slice(come[name], ready - come[name]))
                come[name] = ready
        portion = backlog.take()
        if portion is None:
            coming = [name for name in batches if come[name] < len(due[name])]
            _wait(began + min((come[name] + shifts[name]) / rates[name] for name in coming))
            continue
        found = portion.give_to(join)
        done = time.perf_counter() - began
        first = taken[portion.stream]
        observed.latency_s[portion.stream][first : first + len(portion)] = done
        observed.batches.append(len(portion))
        observed.results += found.num_rows
        observed.busy_s += done - now
        taken[portion.stream] += len(portion)
    for name, moments in observed.latency_s.items():
        moments -= due[name]
    return observed


def _wait(until: float) -> None:
    while (left := until - time.perf_counter()) > 0:
        if left > _SPIN_S:
            time.sleep(left - _SPIN_S)
