"""CellJoin's figures 9, 12 and 13: sizes of basic windows and of batches."""

from __future__ import annotations

from crosswind.engine.session import plan_for
from crosswind.lab.celljoin import published
from crosswind.lab.celljoin.runs import RATE, WINDOWS_S, batch_times, constants, size_times
from crosswind.lab.figure import Figure, Series
from crosswind.lab.loads import Loaded
from crosswind.plan.cost import SIZES, Curve, curve_of

__all__ = ["figure_9", "figure_12", "figure_13"]

_TUPLE_BYTES = 8
_RATES = (50, 100, 250, 500, 1_000, 2_500, 5_000)
_BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
_MODEL_RATE = 1_000
"""The rate for which the cost model reckons windows in tuples."""


def _minutes(seconds: int) -> str:
    return f"{seconds // 60}-minute windows"


def _curve(rate: int, window_s: int, quick: bool) -> Curve:
    """Return the model's curve for a scan at ``rate``: that of a window which holds as many tuples at its own rate."""
    workload = Loaded(_MODEL_RATE, round(window_s * 1_000_000 * rate / _MODEL_RATE))
    return curve_of(plan_for(workload.sql, workload.schemas), "scan", constants(quick))


def figure_9(quick: bool) -> Figure:
    """Show the best basic window by rate and window length, by the model."""
    series = []
    for window_s in WINDOWS_S:
        best = tuple(_curve(rate, window_s, quick).optimum * _TUPLE_BYTES for rate in _RATES)
        series.append(Series(_minutes(window_s), tuple(map(float, _RATES)), best, "simulated"))
    longest = series[-1].y
    growth = longest[-1] / longest[0]
    limit = max(SIZES) * _TUPLE_BYTES
    return Figure(
        "celljoin",
        "figure-9",
        "The best basic window by rate and window length (model)",
        "High rates and long windows want larger basic windows, by the square root of both (equation 4); for many "
        "loads the best one is well below what can be chosen at most.",
        "tuples/s of each stream",
        "best basic window, bytes of join attributes",
        tuple(series),
        f"It grows with rate and window: {growth:.1f} times for {_RATES[-1] / _RATES[0]:.0f} times the rate with "
        f"{_minutes(WINDOWS_S[-1])} (the square root is {(_RATES[-1] / _RATES[0]) ** 0.5:.1f}).",
        "Constants are those of this machine, measured step by step as by crosswind bench calibrate: opening and "
        "visiting a basic window on the one hand, on the other tuples that have expired and are still compared. There "
        f"is no DMA to wait for. The engine chooses among powers of two up to {limit // 1024} KB; the Cell stopped "
        "at 16 KB.",
        "crosswind lab run celljoin figure-9",
        log_x=True,
        log_y=True,
        notes=("Equation 4 in our terms: src/crosswind/plan/cost.py. Figure 13 checks it against runs.",),
    )


def figure_12(quick: bool) -> Figure:
    """Show the time of a tuple by the size of batches."""
    places = tuple(float(batch * _TUPLE_BYTES) for batch in _BATCHES)
    taken = {window_s: batch_times(window_s, _BATCHES, quick) for window_s in WINDOWS_S}
    series = [Series(_minutes(window_s), places, times, "measured") for window_s, times in taken.items()]
    enough = []
    for times in taken.values():
        # From where on doubling the batch brings less than a tenth.
        steps = [k for k in range(len(times) - 1) if times[k + 1] < 0.9 * times[k]]
        enough.append(places[steps[-1] + 1 if steps else 0])
    said = ", ".join(f"{size:,.0f} bytes ({_minutes(w)})" for size, w in zip(enough, taken, strict=True))
    gain = [times[0] / times[-1] for times in taken.values()]
    return Figure(
        "celljoin",
        "figure-12",
        "Time a tuple by the size of a batch",
        "Larger batches cost less a tuple, with less and less to gain: beyond 128 bytes hardly anything, whatever the "
        "window.",
        "batch, bytes of join attributes",
        "us a tuple",
        tuple(series),
        f"A tuple costs less in larger batches, {gain[0]:.0f} times less with the shortest window, and gains fade.",
        f"They fade later: below a tenth for each doubling from {said}. A push from Python costs tens of microseconds "
        f"whatever it brings, where the Cell's coordinator sent four mailbox messages: so the knee, at "
        f"{published.BATCH_BYTES_ENOUGH:g} bytes there, is further out the shorter the window is.",
        "crosswind lab run celljoin figure-12",
        log_x=True,
        log_y=True,
    )


def figure_13(quick: bool) -> Figure:
    """Show the time of a tuple by the size of basic windows, with the model's optimum."""
    places = tuple(float(size * _TUPLE_BYTES) for size in SIZES)
    series, said, worst, choice = [], [], [], []
    for window_s in WINDOWS_S:
        times = size_times(window_s, SIZES, quick)
        series.append(Series(_minutes(window_s), places, times, "measured"))
        curve = _curve(RATE, window_s, quick)
        at = SIZES.index(curve.size)
        series.append(Series(f"{_minutes(window_s)}: chosen by the model", (places[at],), (times[at],), "simulated"))
        best = min(range(len(times)), key=lambda k: times[k])
        said.append(f"{_minutes(window_s)}: best {SIZES[best]:,} tuples, chosen {curve.size:,}")
        worst.append(max(times) / min(times))
        choice.append(times[at] / times[best])
    return Figure(
        "celljoin",
        "figure-13",
        "Time a tuple by the size of basic windows",
        "Short windows want small basic windows, long ones large ones; the wrong size costs up to 10 %.",
        "basic window, bytes of join attributes",
        "us a tuple",
        tuple(series),
        f"The size that equation 3 chooses here costs at most {max(choice):.2f} times the best. {'; '.join(said)}.",
        f"The worst of these sizes costs {max(worst):.1f} times the best (published: up to "
        f"{published.BEST_SIZE_GAIN:g}), since sizes reach down to {SIZES[0] * _TUPLE_BYTES // 1024} KB, where turning "
        "to the next basic window costs as much as comparing it.",
        "crosswind lab run celljoin figure-13",
        log_x=True,
        log_y=True,
        notes=(f"{RATE} tuples/s a stream as in the paper; one worker of the cell engine, batches of 128.",),
    )
