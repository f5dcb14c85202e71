"""Handshake Join's figures 15 and 16."""

from __future__ import annotations

from functools import lru_cache

from crosswind.lab.costs import Costs, measure_costs
from crosswind.lab.figure import Figure, Series
from crosswind.lab.handshake import published
from crosswind.lab.loads import BANDS, PLAIN, Loaded, sustain
from crosswind.lab.papers import Experiment
from crosswind.lab.row import row_rate

__all__ = ["EXPERIMENTS", "figures"]

_WORKERS = (1, 2)
"""What this lab runs for real."""
_BEYOND = (4, 8, 20, 32, 44)
"""The paper's cores."""
_TICK_S = 1.0
_WINDOWS_S = {"15-minute windows": 900, "10-minute windows": 600}
_QUICK_S = 900
"""The window that is also run for real in the quick run."""
_CONDITIONS = {"vectors": BANDS, "plain code": PLAIN}


def _command(name: str) -> str:
    return f"crosswind lab run handshake {name}"


@lru_cache(maxsize=16)
def _measured(window_s: int, condition: str, workers: int, quick: bool) -> float:
    """Return the rate that the real engine sustains."""
    start = round(row_rate(workers, window_s, measure_costs("handshake", condition), _TICK_S))
    found = sustain(
        lambda rate: Loaded(rate, window_s * 1_000_000, condition=condition),
        start,
        tick=_TICK_S,
        trial_s=2.0 if quick else 5.0,
        trials=1 if quick else 3,
        engine="handshake",
        workers=workers,
    )
    return found.rate


def _series(label: str, window_s: int, condition: str, quick: bool) -> tuple[Series, Series, str]:
    """Return what was measured, what is simulated, and by how much they differ where both are there."""
    simulated = _simulated(label, window_s, measure_costs("handshake", condition))
    measured = [_measured(window_s, condition, workers, quick) for workers in _WORKERS]
    errors = [guess / real - 1 for guess, real in zip(simulated.y, measured, strict=False)]
    said = ", ".join(f"{error:+.0%} at {workers}" for error, workers in zip(errors, _WORKERS, strict=True))
    return (
        Series(label, tuple(map(float, _WORKERS)), tuple(measured), "measured"),
        simulated,
        f"{label}: simulated against real, {said} workers",
    )


def _simulated(label: str, window_s: int, costs: Costs) -> Series:
    workers = (*_WORKERS, *_BEYOND)
    rates = tuple(row_rate(count, window_s, costs, _TICK_S) for count in workers)
    return Series(label, tuple(map(float, workers)), rates, "simulated")


def _cost_note(costs: Costs) -> str:
    return (
        f"Costs measured here: {costs.pair_ns * 1e3:.0f} ps a pair, {costs.tuple_ns:,.0f} ns a tuple for the caller, "
        f"{costs.push_ns / 1e3:,.0f} us a push, {costs.hop_ns / 1e3:,.1f} us a worker more that messages go through."
    )


def _growth(series: Series, low: float, high: float) -> float:
    """Return by how much the rate grows between two numbers of cores, relative to the square root of their ratio."""
    values = dict(zip(series.x, series.y, strict=True))
    return float(values[high] / values[low] / (high / low) ** 0.5)


def figure_15(quick: bool) -> Figure:
    """Show what vector instructions bring."""
    series: list[Series] = [
        Series(
            "vectors",
            tuple(map(float, published.SUSTAINED_15_MIN)),
            tuple(published.SUSTAINED_15_MIN.values()),
            "published",
        )
    ]
    notes, found = [], {}
    for label, condition in _CONDITIONS.items():
        measured, simulated, note = _series(label, 900, condition, quick)
        found[label] = measured
        series += [measured, simulated]
        notes += [note, _cost_note(measure_costs("handshake", condition))]
    gains = [(a / b) ** 2 for a, b in zip(found["vectors"].y, found["plain code"].y, strict=True)]
    rates = [a / b for a, b in zip(found["vectors"].y, found["plain code"].y, strict=True)]
    return Figure(
        "handshake",
        "figure-15",
        "What vector instructions bring, 15-minute windows",
        "The vectorised join sustains more than double the load of the plain code.",
        "cores in the row",
        "sustained tuples/s of each stream",
        tuple(series),
        f"Vectors sustain {rates[0]:.1f} times the rate with 1 worker and {rates[1]:.1f} times with 2, which is "
        f"{gains[0]:.0f} and {gains[1]:.0f} times the comparisons (published: more than "
        f"{published.VECTOR_GAIN:g} times the load).",
        "The gain is larger: vectors have 8 lanes of 32 bits here, half keys of 16 bits let 16 be compared at once, "
        "and 4 lanes were published. The published points are those of figure 16, since figure 15 gives no numbers.",
        _command("figure-15"),
        log_x=True,
        log_y=True,
        notes=tuple(notes),
        holds=min(gains) > published.VECTOR_GAIN,
    )


def figure_16(quick: bool) -> Figure:
    """Show the sustained rate by cores and windows."""
    theirs = Series(
        "15-minute windows",
        tuple(map(float, published.SUSTAINED_15_MIN)),
        tuple(published.SUSTAINED_15_MIN.values()),
        "published",
    )
    series, notes, simulated = [theirs], [], {}
    costs = measure_costs("handshake", BANDS)
    for label, window_s in _WINDOWS_S.items():
        if quick and window_s != _QUICK_S:  # to fill a row takes its time
            simulated[label] = _simulated(label, window_s, costs)
            series.append(simulated[label])
            notes.append(f"{label}: run for real in the full run only")
            continue
        measured, simulated[label], note = _series(label, window_s, BANDS, quick)
        series += [measured, simulated[label]]
        notes.append(note)
    streamed = Series(
        "15-minute windows, nobody waits for quiet",
        tuple(map(float, (*_WORKERS, *_BEYOND))),
        tuple(row_rate(workers, 900, costs, None) for workers in (*_WORKERS, *_BEYOND)),
        "simulated",
    )
    ours = simulated["15-minute windows"]
    shorter = simulated["10-minute windows"].y[2] / ours.y[2]
    return Figure(
        "handshake",
        "figure-16",
        "The sustained rate by cores and window length",
        "Throughput grows with the cores as the square root says it can, from 4 to 44 of them; shorter windows sustain "
        "more.",
        "cores in the row",
        "sustained tuples/s of each stream",
        (*series, streamed),
        f"From 4 to 44 cores the published rate grows by {_growth(theirs, 4, 44):.2f} of the square root of the cores, "
        f"a row that streams without end by {_growth(streamed, 4, 44):.2f} in the simulation. With 10-minute windows "
        f"it sustains {shorter:.2f} times the rate of 15-minute ones (the square root of 1.5 is 1.22).",
        f"At 4 cores the simulation sustains {ours.y[2] / theirs.y[0]:.1f} times the published rate: cores and vectors "
        f"are those of today. The engine here returns from every push when the row is quiet, and is called once a "
        f"second: so it grows by {_growth(ours, 4, 44):.2f} only, since a row that falls quiet fills and empties each "
        f"time. The simulation knows no shared memory bus; the paper's machine had eight memories.",
        _command("figure-16"),
        log_x=True,
        log_y=True,
        notes=(*notes, _cost_note(costs)),
    )


EXPERIMENTS: dict[str, Experiment] = {"figure-15": figure_15, "figure-16": figure_16}
"""By figure."""


def figures(quick: bool) -> list[Figure]:
    """Run all experiments."""
    return [make(quick) for make in EXPERIMENTS.values()]
