"""``bench growth``: what a tuple costs as the windows grow, at a fixed rate."""

from __future__ import annotations

from functools import partial

from crosswind.bench.live import DrivenJoin, Stretch
from crosswind.bench.record import BenchReport, Goal, Measurement, Tell, interleave, measured_in, median
from crosswind.bench.workload import BAND, BandWorkload

__all__ = ["measure"]

_GOAL = Goal(2.0, at_least=False)
_ASKED = ("auto", 16)
_WIDER = (2, 8)
"""How many times as wide a band on the float is in the two joins that tell what a result costs. Not once: with two
bands alike the planner may take either, with these it takes the other."""


def measure(
    *, rate: int, window: int, factors: tuple[int, ...], seconds: float, rounds: int, index: str, tell: Tell
) -> BenchReport:
    """Drive a join for each window length, in batches of a second.

    Results cost as well, and grow with the window whatever the index. What one costs is estimated from
    two joins more, which have the largest window and wider bands on the float: the time that the wider takes
    more, by the results that it has more.

    Parameters
    ----------
    rate : int
        Tuples/s of event time, of each stream.
    window : int
        The least length, in seconds.
    factors : tuple of int
        How many times as long the others are, ascending from 1.
    seconds : float
        Time spent in each run.
    rounds : int
        Runs of each length, interleaved.
    index : str
        As for ``crosswind.open``.
    tell : callable
        Told what is being done.
    """
    workloads = {f"{window * k} s": BandWorkload(rate, window * k * 1_000_000) for k in factors}
    *_, last = workloads
    wide, wider = (f"{last}, {k} times the band" for k in _WIDER)
    for name, k in zip((wide, wider), _WIDER, strict=True):
        workloads[name] = BandWorkload(rate, window * factors[-1] * 1_000_000, band_y=k * BAND)
    joins: dict[str, DrivenJoin] = {}
    for name, workload in workloads.items():
        tell(f"{name}: filling the windows")
        joins[name] = DrivenJoin(workload, index, rate)
    stretches: dict[str, list[Stretch]] = {name: [] for name in joins}

    def run(name: str) -> float:
        stretch = joins[name].drive(seconds=seconds)
        stretches[name].append(stretch)
        return stretch.seconds / stretch.tuples * 1e6

    runs = interleave({name: partial(run, name) for name in joins}, rounds, tell)
    cost_us = {name: median(values) or 0.0 for name, values in runs.items()}
    share = {name: sum(s.results for s in some) / sum(s.tuples for s in some) for name, some in stretches.items()}
    more = share[wider] - share[wide]
    result_us = max(0.0, (cost_us[wider] - cost_us[wide]) / more) if more > 0 else 0.0
    first, *_ = workloads
    measurements = [
        measured_in(values, f"{name} windows", "us/tuple", note=f"{share[name]:.3g} results a tuple")
        for name, values in runs.items()
        if name not in (wide, wider)
    ]
    measurements = [entry if k == 0 else entry.against(measurements[0]) for k, entry in enumerate(measurements)]
    net = [cost_us[name] - result_us * share[name] for name in (first, last)]
    goal = _GOAL if (index, factors[-1]) == _ASKED else None
    measurements += [
        Measurement("growth, all in", cost_us[last] / cost_us[first], f"x for {factors[-1]}x the window"),
        Measurement("a result", result_us * 1e3, "ns", note="estimated, see the notes"),
        Measurement(
            "growth, without the results",
            net[1] / net[0] if net[0] > 0 else None,
            f"x for {factors[-1]}x the window",
            goal,
        ),
    ]
    chosen = joins[last].index
    for live in joins.values():
        live.close()
    settings = {"rate": rate, "window_s": window, "factors": list(factors), "seconds": seconds, "rounds": rounds}
    notes = [
        f"Full windows, batches of a second, index {chosen}. What a result costs is estimated over the largest window: "
        + ", ".join(f"{cost_us[name]:.3g} us/tuple with {share[name]:.3g} results" for name in (wide, wider))
        + f" a tuple, with {_WIDER[0]} and {_WIDER[1]} times the band on the float."
    ]
    title = "cost of a tuple as windows grow"
    return BenchReport("growth", title, settings | {"index": index}, measurements, notes)
