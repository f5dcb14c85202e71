"""``bench calibrate``: the constants of the cost model, and whether its choice of basic windows is right."""

from __future__ import annotations

import dataclasses
from functools import partial

from crosswind.bench.live import DrivenJoin
from crosswind.bench.record import BenchReport, Goal, Measurement, Tell, interleave, median
from crosswind.bench.steps import measure_constants
from crosswind.bench.workload import BandWorkload
from crosswind.engine.session import plan_for
from crosswind.plan.calibration import store_calibration
from crosswind.plan.cost import Curve, curve_of

__all__ = ["measure"]

_GOAL = Goal(1.1, at_least=False)
"""CellJoin (section 8, figure 13) sees up to 10 % between sizes of basic windows."""
_RATE = 1_000
_ASKED = (60, 100)

_MEANINGS = {
    "seal_ns": "the life of a basic window, without what goes by its tuples",
    "arrange_ns": "to arrange a tuple",
    "run_ns": "to look a probe up in one arranged run more",
    "visit_ns": "to turn to one more that is not arranged",
    "compare_ns": "to compare a byte of keys, many at a time",
    "pair_ns": "to evaluate a condition without a box for a pair",
}


def measure(
    *, window: int, batch: int, sizes: tuple[int, ...], seconds: float, rounds: int, store: bool, tell: Tell
) -> BenchReport:
    """Measure the constants, keep them, and compare the size that they predict with real runs.

    Parameters
    ----------
    window : int
        Length of the windows of those runs, in seconds.
    batch : int
        Tuples in a push.
    sizes : tuple of int
        Tuples in a basic window to try; the chosen one is tried anyway.
    seconds : float
        Time spent in each run.
    rounds : int
        Runs of each size, and measurements of each constant; interleaved.
    store : bool
        Whether to keep the constants for all joins to come.
    tell : callable
        Told what is being done.
    """
    constants = measure_constants(rounds, tell)
    measurements = [Measurement(_MEANINGS[name], value, "ns") for name, value in dataclasses.asdict(constants).items()]
    workload = BandWorkload(_RATE, window * 1_000_000)
    curve = curve_of(plan_for(workload.sql, workload.schemas), "auto", constants)
    cost_us = _sweep(workload, sorted({*sizes, curve.size}), batch, seconds, rounds, tell)
    best = min(cost_us, key=lambda size: cost_us[size])
    measurements += [_entry(size, cost, curve, best) for size, cost in cost_us.items()]
    goal = _GOAL if (window, batch) == _ASKED and len(cost_us) > 1 else None
    measurements.append(
        Measurement(
            "the predicted size against the best",
            cost_us[curve.size] / cost_us[best],
            "x its cost",
            goal,
            note=f"predicted {curve.size:,} (least at {curve.optimum:,.0f}), measured best {best:,}",
        )
    )
    notes = [
        "Constants are measured step by step; the sweep over sizes only checks what the model makes of them. "
        "Beyond: what the model says a tuple costs more than at the predicted size."
    ]
    notes.append(f"Kept in {store_calibration(constants)}." if store else "Not kept: --no-store.")
    settings = {"window_s": window, "batch": batch, "sizes": list(cost_us), "seconds": seconds, "rounds": rounds}
    return BenchReport("calibrate", "the cost model and its choice of basic windows", settings, measurements, notes)


def _sweep(
    workload: BandWorkload, sizes: list[int], batch: int, seconds: float, rounds: int, tell: Tell
) -> dict[int, float]:
    """Return the microseconds a tuple by the size of basic windows."""
    joins: dict[int, DrivenJoin] = {}
    for size in sizes:
        tell(f"basic windows of {size:,}: filling the windows")
        joins[size] = DrivenJoin(workload, "auto", batch, basic_window=size)
        # all of the window is to be made of basic windows that came one by one
        joins[size].drive(pushes=workload.window_tuples // batch + 1)

    def run(size: int) -> float:
        stretch = joins[size].drive(seconds=seconds)
        return stretch.seconds / stretch.tuples * 1e6

    runs = interleave({f"basic windows of {size:,}": partial(run, size) for size in sizes}, rounds, tell)
    for join in joins.values():
        join.close()
    return {size: median(values) or 0.0 for size, values in zip(sizes, runs.values(), strict=True)}


def _entry(size: int, cost_us: float, curve: Curve, best: int) -> Measurement:
    beyond = (curve.cost_ns(size) - curve.cost_ns(curve.size)) / 2e3  # the curve is over a tuple of each stream
    marks = [name for name, at in (("predicted", curve.size), ("measured best", best)) if at == size]
    note = ", ".join([f"model: {beyond:+.2f} us beyond", *marks])
    return Measurement(f"basic windows of {size:,}", cost_us, "us/tuple", note=note)
