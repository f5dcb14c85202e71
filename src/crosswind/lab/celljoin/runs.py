"""CellJoin's experiments on whole joins: rates that are sustained, batches, sizes of basic windows."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from crosswind.bench.live import LiveJoin
from crosswind.bench.rate import attempt
from crosswind.bench.steps import measure_constants
from crosswind.lab.celljoin.overload import play_overload
from crosswind.lab.costs import measure_costs, scan_costs
from crosswind.lab.loads import BANDS, PLAIN, VECTORS, Loaded, Sustained, ns_a_tuple, sustain
from crosswind.plan.cost import Constants

__all__ = [
    "RATE",
    "VARIANTS",
    "WINDOWS_S",
    "batch_times",
    "constants",
    "offered",
    "overload_share",
    "simulated_cell_rate",
    "size_times",
    "sustained_by",
    "sustained_on",
]

RATE = 500
"""Tuples/s of figures 12 and 13 (section 8.2)."""

WINDOWS_S = (60, 300, 900)
"""Window lengths of figures 12 and 13, seconds."""

VARIANTS = {"plain loop": PLAIN, "vectors, pair by pair": VECTORS, "vectors over boxes": BANDS}
"""Our counterparts of No-SIMD, SIMD-Noopt and SIMD: the condition that is compiled to each."""

_WINDOW_S = 900
_TICK_S = 0.5
_OVERLOAD = 2.0
"""Times the sustained rate."""


@lru_cache(maxsize=8)
def sustained_by(variant: str, quick: bool) -> Sustained:
    """Return what one worker sustains with 15-minute windows."""
    condition = VARIANTS[variant]
    return _sustain(condition, quick, scan_costs(condition)[0], 1, engine="kang")


@lru_cache(maxsize=8)
def sustained_on(workers: int, quick: bool) -> Sustained:
    """Return what the cell engine sustains with 15-minute windows."""
    return _sustain(BANDS, quick, scan_costs(BANDS)[0], workers, engine="cell", workers=workers)


def _sustain(condition: str, quick: bool, pair_ns: float, share: int, **options: Any) -> Sustained:
    start = round((1e9 * share / (2 * _WINDOW_S * pair_ns)) ** 0.5)
    return sustain(
        lambda rate: Loaded(rate, _WINDOW_S * 1_000_000, condition=condition),
        start,
        tick=_TICK_S,
        trial_s=1.0 if quick else 4.0,
        trials=1 if quick else 3,
        **options,
    )


def offered(variant: str, rate: int, quick: bool) -> tuple[float, float]:
    """Return results/s and dropped tuples/s of each stream when ``rate`` is offered.

    What cannot be taken is dropped at random before it enters a window (section 8.2.1). What is left is a stream of
    the rate that is sustained, with windows of that rate: so beyond it, output stays what it is there.
    """
    knee = sustained_by(variant, quick)
    if rate >= knee.rate:
        return knee.results_per_s, rate - knee.rate
    workload = Loaded(rate, _WINDOW_S * 1_000_000, condition=VARIANTS[variant])
    trial = attempt(workload, "scan", _TICK_S, _TICK_S if quick else 2.0, check=False, engine="kang")
    return trial.results_per_s, 0.0


def overload_share(quick: bool) -> tuple[float, float]:
    """Return the share of tuples that is taken under overload: as reckoned, and as it turns out in real time.

    A short window, so that it has turned over: streams of twice the sustained rate are played in real time to a join
    behind a small buffer, and what the buffer cannot hold is dropped.
    """
    window_s = 1.0 if quick else 3.0
    pair_ns, _ = scan_costs(BANDS)
    rate = (1e9 / (2 * window_s * pair_ns)) ** 0.5
    workload = Loaded(round(rate), round(window_s * 1e6))
    live = LiveJoin(workload, "scan", workload.rate // 50, engine="kang")
    stretch = live.drive(seconds=0.5)
    live.close()
    utilisation = 2 * rate * stretch.seconds / stretch.tuples
    sustained = rate / utilisation**0.5
    offered_rate = round(_OVERLOAD * sustained)
    return 1 / _OVERLOAD, play_overload(offered_rate, window_s)


def simulated_cell_rate(workers: int) -> float:
    """Return the rate that ``workers`` would sustain: shares of a scan, and what the coordinator does alone."""
    costs = measure_costs("cell", BANDS)
    rate = (1e9 * workers / (2 * _WINDOW_S * costs.pair_ns)) ** 0.5
    for _ in range(20):
        batch = max(1.0, rate * _TICK_S)
        scanned = rate * _WINDOW_S * costs.pair_ns / workers
        told = (costs.push_ns + costs.hop_ns * (workers - 1)) / batch
        rate /= (2 * rate * (scanned + told + costs.tuple_ns) * 1e-9) ** 0.5
    return float(rate)


def batch_times(window_s: int, batches: tuple[int, ...], quick: bool) -> tuple[float, ...]:
    """Return microseconds a tuple by the tuples in a push."""
    live = LiveJoin(Loaded(RATE, window_s * 1_000_000), "scan", batches[0], engine="kang")
    rounds, seconds = (3, 0.05) if quick else (5, 0.3)
    found = tuple(ns_a_tuple(live, batch, seconds, rounds) / 1e3 for batch in batches)
    live.close()
    return found


def size_times(window_s: int, sizes: tuple[int, ...], quick: bool) -> tuple[float, ...]:
    """Return microseconds a tuple by the tuples in a basic window, with one worker of the cell engine."""
    workload = Loaded(RATE, window_s * 1_000_000)
    found = []
    for size in sizes:
        live = LiveJoin(workload, "scan", 128, engine="cell", workers=1, basic_window=size)
        rounds, seconds = (5, 0.05) if quick else (9, 0.3)
        found.append(ns_a_tuple(live, 128, seconds, rounds) / 1e3)
        live.close()
    return tuple(found)


@lru_cache(maxsize=2)
def constants(quick: bool) -> Constants:
    """Return the constants of the cost model, measured on this machine; they are not kept."""
    return measure_constants(2 if quick else 5, lambda _: None)
