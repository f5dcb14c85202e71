"""CellJoin's experiments on whole joins: rates that are sustained, batches, sizes of basic windows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from crosswind.bench.live import DrivenJoin
from crosswind.bench.rate import attempt
from crosswind.bench.steps import measure_constants
from crosswind.engine.probe.engine import ProbeEngine
from crosswind.engine.session import plan_for
from crosswind.lab.celljoin.loops import Loops, measure_loops
from crosswind.lab.celljoin.overload import play_overload
from crosswind.lab.costs import measure_costs, scan_costs
from crosswind.lab.loads import BANDS, PLAIN, VECTORS, Loaded, Sustained, ns_a_tuple, sustain
from crosswind.lab.setting import Setting
from crosswind.plan.cost import SIZES, Constants, Curve, curve_of

__all__ = [
    "BATCHES",
    "RATE",
    "RATES",
    "TUPLE_BYTES",
    "VARIANTS",
    "WINDOWS_S",
    "Batches",
    "Best",
    "Offered",
    "Scaled",
    "Sizes",
    "best_sizes",
    "measure_batches",
    "measure_offered",
    "measure_sizes",
    "measure_workers",
]

RATE = 500
"""Tuples/s of figures 12 and 13 (section 8.2)."""

WINDOWS_S = (60, 300, 900)
"""Window lengths of figures 12 and 13, seconds."""

VARIANTS = {"plain loop": PLAIN, "vectors, pair by pair": VECTORS, "vectors over boxes": BANDS}
"""Our counterparts of No-SIMD, SIMD-Noopt and SIMD: the condition that is compiled to each."""

TUPLE_BYTES = 8
"""Bytes of join attributes of a tuple: an int and a float (section 8.2)."""

BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
RATES = (50, 100, 250, 500, 1_000, 2_500, 5_000)

_WINDOW_S = 900
_TICK_S = 0.5
_OVERLOAD = 2.0
"""Times the sustained rate."""
_STEPS = (0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.25, 1.5)
"""Rates that are offered, in those that the fastest variant sustains."""
_WORKERS = (1, 2)
_CORES = (1, 2, 4, 8)
_MODEL_RATE = 1_000
"""The rate for which the cost model reckons windows in tuples."""


# -- figures 10 and 11 ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Offered:
    """Figure 10: by variant, the knee, and for each rate offered results/s and dropped tuples/s; and the check of it.

    Parameters
    ----------
    window_s, workers : int
        What was run.
    knees : dict of str to (float, float)
        By variant, the rate that is sustained and its results/s.
    points : dict of str to tuple of (float, float, float)
        By variant, (rate offered, results/s, dropped/s).
    taken, reckoned : float
        Share of the tuples that is taken at twice the sustained rate: in real time, and as reckoned.
    """

    window_s: int
    workers: int
    knees: dict[str, tuple[float, float]]
    points: dict[str, tuple[tuple[float, float, float], ...]]
    taken: float
    reckoned: float


@lru_cache(maxsize=8)
def _sustained(condition: str, setting: Setting, workers: int) -> Sustained:
    """Return what the cell engine sustains."""
    window_s, pair_ns = setting.window or _WINDOW_S, scan_costs(condition)[0]
    start = round((1e9 * workers / (2 * window_s * pair_ns)) ** 0.5)
    return sustain(
        lambda rate: Loaded(rate, window_s * 1_000_000, seed=setting.seed, condition=condition),
        start,
        tick=_TICK_S,
        trial_s=1.0 if setting.quick else 4.0,
        trials=1 if setting.quick else 3,
        engine="cell",
        workers=workers,
    )


def measure_offered(setting: Setting) -> Offered:
    """Offer streams of several rates to the cell engine, by variant of its loop."""
    workers, window_s = max(setting.workers or _WORKERS), setting.window or _WINDOW_S
    found = {variant: _sustained(condition, setting, workers) for variant, condition in VARIANTS.items()}
    best = max(knee.rate for knee in found.values())
    steps = _STEPS[1::2] if setting.quick else _STEPS
    rates = [max(10, round(best * step, -1)) for step in steps]
    points = {
        variant: tuple(
            (float(rate), *_offer(condition, round(rate), found[variant], workers, setting)) for rate in rates
        )
        for variant, condition in VARIANTS.items()
    }
    knees = {variant: (knee.rate, knee.results_per_s) for variant, knee in found.items()}
    reckoned, taken = _overload_share(setting.quick)
    return Offered(window_s, workers, knees, points, taken, reckoned)


def _offer(condition: str, rate: int, knee: Sustained, workers: int, setting: Setting) -> tuple[float, float]:
    """Return results/s and dropped tuples/s of each stream when ``rate`` is offered.

    What cannot be taken is dropped at random before it enters a window (section 8.2.1). What is left is a stream of
    the rate that is sustained, with windows of that rate: so beyond it, output stays what it is there.
    """
    if rate >= knee.rate:
        return knee.results_per_s, rate - knee.rate
    workload = Loaded(rate, (setting.window or _WINDOW_S) * 1_000_000, seed=setting.seed, condition=condition)
    length = _TICK_S if setting.quick else 2.0
    trial = attempt(workload, "scan", _TICK_S, length, check=False, engine="cell", workers=workers)
    return trial.results_per_s, 0.0


def _overload_share(quick: bool) -> tuple[float, float]:
    """Return the share of tuples that is taken under overload: as reckoned, and as it turns out in real time.

    A short window, so that it has turned over: streams of twice the sustained rate are played in real time to a join
    behind a small buffer, and what the buffer cannot hold is dropped.
    """
    window_s = 1.0 if quick else 3.0
    pair_ns, _ = scan_costs(BANDS)
    rate = (1e9 / (2 * window_s * pair_ns)) ** 0.5
    workload = Loaded(round(rate), round(window_s * 1e6))
    live = DrivenJoin(workload, "scan", workload.rate // 50, engine="kang")
    stretch = live.drive(seconds=0.5)
    live.close()
    utilisation = 2 * rate * stretch.seconds / stretch.tuples
    sustained = rate / utilisation**0.5
    return 1 / _OVERLOAD, play_overload(round(_OVERLOAD * sustained), window_s)


@dataclass(frozen=True)
class Scaled:
    """Figure 11: sustained rates and output by workers, measured and simulated."""

    window_s: int
    rates: dict[int, float]
    outputs: dict[int, float]
    simulated: dict[int, float]


def measure_workers(setting: Setting) -> Scaled:
    """Find the rate that each number of workers sustains, and simulate more of them."""
    window_s, workers = setting.window or _WINDOW_S, setting.workers or _WORKERS
    found = {count: _sustained(BANDS, setting, count) for count in workers}
    return Scaled(
        window_s,
        {count: sustained.rate for count, sustained in found.items()},
        {count: sustained.results_per_s for count, sustained in found.items()},
        {count: _simulated_rate(count, window_s) for count in sorted({*workers, *_CORES})},
    )


def _simulated_rate(workers: int, window_s: int) -> float:
    """Return the rate that ``workers`` would sustain: a share of the scan, messages, the coordinator's own work."""
    costs = measure_costs("cell", BANDS)
    rate = (1e9 * workers / (2 * window_s * costs.pair_ns)) ** 0.5
    for _ in range(20):
        batch = max(1.0, rate * _TICK_S)
        scanned = rate * window_s * costs.pair_ns / workers
        told = (costs.push_ns + costs.hop_ns * (workers - 1)) / batch
        rate /= (2 * rate * (scanned + told + costs.tuple_ns) * 1e-9) ** 0.5
    return float(rate)


# -- figures 9, 12 and 13 -------------------------------------------------------------------------


@dataclass(frozen=True)
class Batches:
    """Figure 12: microseconds per tuple by the tuples in a push, by window."""

    rate: int
    workers: int
    times_us: dict[int, tuple[float, ...]]


def measure_batches(setting: Setting) -> Batches:
    """Push batches of several sizes to the cell engine with full windows; every push is shared out."""
    rate, workers = setting.rate or RATE, max(setting.workers or _WORKERS)
    windows = (setting.window,) if setting.window else WINDOWS_S
    rounds, seconds = (3, 0.05) if setting.quick else (5, 0.3)
    times = {}
    for window_s in windows:
        live = _cell(Loaded(rate, window_s * 1_000_000, seed=setting.seed), BATCHES[0], workers=workers)
        times[window_s] = tuple(ns_a_tuple(live, batch, seconds, rounds) / 1e3 for batch in BATCHES)
        live.close()
    return Batches(rate, workers, times)


def _cell(workload: Loaded, batch: int, **options: Any) -> DrivenJoin:
    live = DrivenJoin(workload, "scan", batch, engine="cell", **options)
    strategy = live.join._strategy
    if isinstance(strategy, ProbeEngine) and strategy.pool is not None:
        strategy.pool.share_all()
    return live


@dataclass(frozen=True)
class Sizes:
    """Figure 13: microseconds per tuple by the tuples in a basic window, and the size that our model chooses."""

    rate: int
    times_us: dict[int, tuple[float, ...]]
    chosen: dict[int, int]


def measure_sizes(setting: Setting) -> Sizes:
    """Drive one worker of the cell engine with basic windows of all sizes."""
    rate = setting.rate or RATE
    windows = (setting.window,) if setting.window else WINDOWS_S
    rounds, seconds = (5, 0.05) if setting.quick else (9, 0.3)
    times, chosen = {}, {}
    for window_s in windows:
        workload = Loaded(rate, window_s * 1_000_000, seed=setting.seed)
        found = []
        for size in SIZES:
            live = DrivenJoin(workload, "scan", 128, engine="cell", workers=1, basic_window=size)
            found.append(ns_a_tuple(live, 128, seconds, rounds) / 1e3)
            live.close()
        times[window_s] = tuple(found)
        chosen[window_s] = _curve(rate, window_s, setting.quick).size
    return Sizes(rate, times, chosen)


@dataclass(frozen=True)
class Best:
    """Figure 9: the best basic window by rate, by window, in bytes of join attributes.

    Parameters
    ----------
    ours : dict of int to tuple of float
        By the model of :mod:`crosswind.plan.cost`.
    equation_3, equation_4 : dict of int to tuple of float
        By the paper's equations, with the constants of the loops here; empty without a C++ compiler.
    """

    ours: dict[int, tuple[float, ...]]
    equation_3: dict[int, tuple[float, ...]]
    equation_4: dict[int, tuple[float, ...]]


def best_sizes(setting: Setting) -> Best:
    """Work out the best basic window, by our model and by the paper's."""
    ours = {w: tuple(_curve(rate, w, setting.quick).optimum * TUPLE_BYTES for rate in RATES) for w in WINDOWS_S}
    loops: Loops | None = loops_of(setting)
    if loops is None:
        return Best(ours, {}, {})
    model = loops.transfer_model()
    return Best(
        ours,
        {w: tuple(float(model.best_bytes(rate, w)) for rate in RATES) for w in WINDOWS_S},
        {w: tuple(model.optimum_bytes(rate, w) for rate in RATES) for w in WINDOWS_S},
    )


loops_of = lru_cache(maxsize=4)(measure_loops)
"""The loops of figure 7, measured once."""


def _curve(rate: int, window_s: int, quick: bool) -> Curve:
    """Return the model's curve for a scan at ``rate``: that of a window which holds as many tuples at its own rate."""
    workload = Loaded(_MODEL_RATE, round(window_s * 1_000_000 * rate / _MODEL_RATE))
    return curve_of(plan_for(workload.sql, workload.schemas), "scan", _constants(quick))


@lru_cache(maxsize=2)
def _constants(quick: bool) -> Constants:
    """Return the constants of the cost model, measured on this machine; they are not kept."""
    return measure_constants(2 if quick else 5, lambda _: None)
