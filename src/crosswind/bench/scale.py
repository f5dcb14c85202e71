"""``bench scale``: throughput and latency by engine and workers, beside what the papers' models predict."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from crosswind.bench.latency import drive_live
from crosswind.bench.live import DrivenJoin
from crosswind.bench.record import BenchReport, Goal, Measurement, Tell, interleave, measured_in, median
from crosswind.bench.workload import BAND, VALUE_MAX, BandWorkload
from crosswind.plan.grid import Load, choose_sides, mean_pairs

__all__ = ["measure", "model_results", "model_row_latency_s"]

_SPEEDUP = {"scan": Goal(1.7), "index": Goal(1.5)}
_PARITY = Goal(0.85)
_LATENCY = Goal(2.0, at_least=False)
_LATENCY_ASKED = (2_500, 300)
_SUSTAINED = Goal(30_000, aim=50_000)
_SUSTAINED_ASKED = (30_000, 900_000_000)
_ASKED_TUPLES = 300_000
"""Tuples in a window from which on sharing out its scan can pay."""
_WARM_UP_S = 0.5


def measure(
    *,
    engines: tuple[str, ...],
    workers: tuple[int, ...],
    rate: int,
    window: int,
    batch: int,
    seconds: float,
    rounds: int,
    latency_rate: int,
    latency_window: int,
    latency_seconds: float,
    index: str,
    tell: Tell,
) -> BenchReport:
    """Drive full windows with every engine and number of workers, in turns; then play streams in real time.

    Parameters
    ----------
    engines : tuple of str
        Which; ``kang`` is always there to compare with.
    workers : tuple of int
        How many.
    rate, window : int
        Tuples/s of each stream, and length of both windows in seconds: together the size of the windows.
    batch : int
        Tuples in a push.
    seconds : float
        Time spent in each run.
    rounds : int
        Runs of each.
    latency_rate, latency_window, latency_seconds
        The streams that are played in real time, and for how long (0: not at all).
    index : str
        As for ``crosswind.open``.
    tell : callable
        Told what is being done.
    """
    workload = BandWorkload(rate, window * 1_000_000)
    cases: dict[str, dict[str, Any]] = {"kang": {"engine": "kang"}}
    for engine in engines:
        cases |= {f"{engine}, {count}": {"engine": engine, "workers": count} for count in workers}
    joins: dict[str, DrivenJoin] = {}
    for name, options in cases.items():
        tell(f"filling the windows of {name}")
        joins[name] = DrivenJoin(workload, index, batch, **options)
    runs = interleave({name: _drive(join, seconds) for name, join in joins.items()}, rounds, tell)
    measurements = _throughputs(runs, engines, workers, index, workload)
    notes = [_busy_note(joins), _bandwidth_note(workload)]
    for join in joins.values():
        join.close()
    if latency_seconds > 0:
        found, note = _latencies(
            engines, max(workers), (latency_rate, latency_window, latency_seconds), index, runs["kang"], workload, tell
        )
        measurements += found
        notes.append(note)
    settings = {"rate": rate, "window_s": window, "batch": batch, "workers": list(workers), "rounds": rounds}
    settings |= {"latency_rate": latency_rate, "latency_window_s": latency_window, "index": index}
    return BenchReport("scale", "throughput and latency by engine and workers", settings, measurements, notes)


def _drive(live: DrivenJoin, seconds: float) -> Callable[[], float]:
    def run() -> float:
        stretch = live.drive(seconds=seconds)
        return stretch.tuples / stretch.seconds

    return run


def _throughputs(
    runs: dict[str, list[float]], engines: tuple[str, ...], workers: tuple[int, ...], index: str, workload: BandWorkload
) -> list[Measurement]:
    """Return throughputs; ratios are medians of the ratios within a round, which share the machine's moments."""
    kang = measured_in(runs["kang"], "kang", "tuples/s")
    found = [kang]
    one, most = min(workers), max(workers)
    large = workload.window_tuples >= _ASKED_TUPLES
    for engine in engines:
        for count in workers:
            name = f"{engine}, {count}"
            found.append(measured_in(runs[name], name, "tuples/s").against(kang))
        if one == 1:
            ratios = [a / b for a, b in zip(runs[f"{engine}, 1"], runs["kang"], strict=True)]
            goal = _PARITY if index == "scan" and large else None
            found.append(measured_in(ratios, f"{engine}: 1 worker to kang", "x", goal))
        if one == 1 and most > 1:
            ratios = [a / b for a, b in zip(runs[f"{engine}, {most}"], runs[f"{engine}, 1"], strict=True)]
            asked = _SPEEDUP["scan" if index == "scan" else "index"] if most == 2 and large else None
            found.append(measured_in(ratios, f"{engine}: {most} workers to 1", "x", asked))
        best = median(runs[f"{engine}, {most}"])
        if index != "scan" and best is not None:
            goal = _SUSTAINED if (workload.rate, workload.window_us) >= _SUSTAINED_ASKED else None
            note = "half of the throughput at windows of this size"
            found.append(Measurement(f"{engine}, {most}: sustained", best / 2, "tuples/s a stream", goal, note=note))
    return found


def _busy_note(joins: dict[str, DrivenJoin]) -> str:
    lines = ["Time in tasks and matches, by worker:"]
    for name, live in joins.items():
        shifts = live.join.stats.workers
        if shifts:
            lines.append(f"  {name}: " + "; ".join(f"{s.busy_s:.2f} s, {s.matches:,}" for s in shifts))
    return "\n".join(lines)


def model_results(workload: BandWorkload) -> float:
    """Return the results/s that the streams have: DP-Join, equation 3, with the hit rate of the bands."""
    hits = _hit_share((2 * BAND + 1) / 2, VALUE_MAX) * _hit_share(workload.band_y, VALUE_MAX)
    return 2.0 * workload.rate * workload.rate * workload.window_us / 1e6 * hits


def _hit_share(reach: float, span: float) -> float:
    """Return how often two uniform values of ``span`` are at most ``reach`` apart."""
    return 2 * reach / span - (reach / span) ** 2


def _bandwidth_note(workload: BandWorkload) -> str:
    return (
        f"Model: {model_results(workload):,.0f} results/s at {workload.rate:,} tuples/s a stream "
        "(DP-Join, equation 3); more workers than that takes bring nothing more."
    )


def model_row_latency_s(window_s: float, workers: int) -> float:
    """Return the mean latency of a row of workers: our own estimate, of the time from the later tuple to the result.

    DP-Join (section IV-C) says how long a tuple stays with each worker, T / N, and that latency goes with the
    window; it gives no formula. Tuples walk towards each other: when the later one enters, the part T - d of the row
    lies between the two, d being how long the earlier one has walked, and both walk, so they meet after half of that.
    For d anywhere in the window that is T / 4 on average. Workers compare all they hold, so that what lies
    within one worker need not be walked: at N = 1 nothing is late, and 1 - 1 / N of it is left.
    """
    return window_s / 4 * (1 - 1 / workers)


def _latencies(
    engines: tuple[str, ...],
    workers: int,
    played: tuple[int, int, float],
    index: str,
    speeds: list[float],
    driven: BandWorkload,
    tell: Tell,
) -> tuple[list[Measurement], str]:
    """Play streams in real time with each engine; return latencies beside the models' predictions."""
    rate, window, seconds = played
    workload = BandWorkload(rate, window * 1_000_000)
    pair_s = 1 / (max(speeds) * driven.window_tuples)
    found = []
    asked = _LATENCY if played[:2] == _LATENCY_ASKED and index == "scan" else None
    for engine in engines:
        tell(f"playing {rate:,} tuples/s a stream for {seconds:g} s to {engine}, {workers} workers")
        live = DrivenJoin(workload, index, max(1, rate // 10), engine=engine, workers=workers)
        first = round(rate * _WARM_UP_S)
        batches = {name: workload.batch(name, live.next, round(rate * (seconds + _WARM_UP_S))) for name in ("R", "S")}
        observed = drive_live(live.join, batches, rate, 4_096)
        live.close()
        latency_ms = np.concatenate([values[first:] for values in observed.latency_s.values()]) * 1e3
        load = Load((rate, rate), (workload.window_tuples, workload.window_tuples))
        layout = choose_sides(workers, load) if engine == "grid" else (workers, workers)
        predicted = mean_pairs(layout, load) * pair_s * 1e3
        if engine == "handshake":
            late_ms = model_row_latency_s(window, workers) * 1e3
            note = "until push returns; results come later, when tuples pass each other"
            found.append(
                Measurement("handshake: results, predicted", late_ms, "ms", note="our estimate: T / 4 (1 - 1 / N)")
            )
        else:
            note = f"predicted {predicted:.2g} ms (equations 5 to 7), to half of the comparisons"
        mean, p99 = float(latency_ms.mean()), float(np.quantile(latency_ms, 0.99))
        goal = asked if engine != "handshake" else None
        found.append(Measurement(f"{engine}, {workers}: mean latency", mean, "ms", goal, note=note))
        found.append(Measurement(f"{engine}, {workers}: p99", p99, "ms"))
        expected = model_results(workload) * (seconds + _WARM_UP_S)
        share = observed.results / expected if math.isfinite(expected) and expected else math.nan
        found.append(
            Measurement(
                f"{engine}, {workers}: results",
                observed.results / (seconds + _WARM_UP_S),
                "/s",
                note=f"{share:.2f} of the model's {model_results(workload):,.0f}/s",
            )
        )
    note = (
        f"Latency goes from a tuple's due time to the return of the push that took it. A comparison is taken to last "
        f"{pair_s * 1e12:.3g} ps, as measured with kang."
    )
    return found, note
