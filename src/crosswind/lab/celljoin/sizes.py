"""CellJoin's figures 9, 12 and 13: sizes of basic windows and of batches."""

from __future__ import annotations

import math
from itertools import pairwise

from crosswind.lab.celljoin import published
from crosswind.lab.celljoin.runs import BATCHES, RATES, TUPLE_BYTES, Batches, Best, Sizes
from crosswind.lab.figure import Figure, Series, windows_of
from crosswind.lab.verdict import compare
from crosswind.plan.cost import SIZES

__all__ = ["figure_9", "figure_12", "figure_13"]

_NO_COMPILER = "there is no C++ compiler here, so the constants of the equations could not be measured"
_BATCH_BYTES = tuple(float(batch * TUPLE_BYTES) for batch in BATCHES)
_SIZE_BYTES = tuple(float(size * TUPLE_BYTES) for size in SIZES)
_FADED = 0.9
"""Doubling a batch brings an insignificant gain if a tuple still takes this share of its time."""


def figure_9(found: Best) -> Figure:
    """Draw the best basic window by rate and window length, by our model and by the paper's equations."""
    places = tuple(map(float, RATES))
    series = [Series(f"{windows_of(w)}, our model", places, best, "computed") for w, best in found.ours.items()]
    series += [Series(f"{windows_of(w)}, equation 3", places, best, "computed") for w, best in found.equation_3.items()]
    root = (RATES[-1] / RATES[0]) ** 0.5
    longest, shortest = max(found.ours), min(found.ours)
    ours = found.ours[longest][-1] / found.ours[longest][0]
    theirs = found.equation_4[longest][-1] / found.equation_4[longest][0] if found.equation_4 else None
    loads = [size for best in found.equation_3.values() for size in best]
    below = sum(size < published.LARGEST_BYTES.value for size in loads) / len(loads) if loads else None
    return Figure(
        "celljoin",
        "figure-9",
        "The best basic window by rate and window length",
        "High rates and long windows want larger basic windows, by the square root of both (equation 4); for many "
        "loads the best one is well below what can be chosen at most.",
        "tuples/s of each stream",
        "best basic window, bytes of join attributes",
        tuple(series),
        (
            compare(
                f"equation 4: growth for {RATES[-1] // RATES[0]} times the rate is the square root of it",
                theirs,
                low=root * 0.99,
                high=root * 1.01,
                published=f"{root:.3g} times",
                place="section 6, equation 4",
                unit=" times",
                missing=_NO_COMPILER,
            ),
            compare(
                f"our model: growth for {RATES[-1] // RATES[0]} times the rate, about the square root of it",
                ours,
                low=root * 0.6,
                high=root * 1.4,
                published=f"{root:.3g} times",
                place="section 6, equation 4",
                unit=" times",
                timed=True,
            ),
            compare(
                "our model: longer windows want larger basic windows",
                found.ours[longest][-1] / found.ours[shortest][-1],
                low=1.0,
                published="larger",
                place="section 8.1.3, Figure 9",
                unit=" times",
                timed=True,
            ),
            compare(
                "equation 3: share of the loads whose best basic window is smaller than the largest that can be chosen",
                below,
                low=0.2,
                high=0.99,
                published="a wide spectrum of rates and windows, not all",
                place="section 8.1.3, Figure 9",
                timed=True,
                missing=_NO_COMPILER,
            ),
        ),
        "Two models, named apart. Equations 3 and 4 are the paper's, with constants of the loops of figure 7 on this "
        "machine. Ours is what the engine chooses by: opening and visiting a basic window on the one hand, on the "
        "other tuples that have expired and are still compared; there is no transfer to wait for. The engine chooses "
        f"among powers of two up to {max(SIZES) * TUPLE_BYTES // 1024} KB; the Cell stopped at 16 KB.",
        log_x=True,
        log_y=True,
        notes=("Our model: src/crosswind/plan/cost.py; the paper's: src/crosswind/lab/celljoin/model.py.",),
    )


def _enough(times: tuple[float, ...]) -> float:
    """Return the bytes of a batch from which on doubling it brings an insignificant gain."""
    steps = [k for k in range(len(times) - 1) if times[k + 1] < _FADED * times[k]]
    return _BATCH_BYTES[steps[-1] + 1 if steps else 0]


def figure_12(found: Batches) -> Figure:
    """Draw the time of a tuple by the size of batches."""
    series = [Series(windows_of(w), _BATCH_BYTES, times, "measured") for w, times in found.times_us.items()]
    enough = {w: _enough(times) for w, times in found.times_us.items()}
    gain = min(times[0] / times[-1] for times in found.times_us.values())
    steps = {w: [a / b for a, b in pairwise(times)] for w, times in found.times_us.items()}
    fading = min(some[0] / some[-1] for some in steps.values())
    claim = published.BATCH_BYTES_ENOUGH
    return Figure(
        "celljoin",
        "figure-12",
        f"Time per tuple by the size of a batch, {found.workers} workers of the cell engine",
        "Larger batches cost less per tuple, with less and less to gain: beyond 128 bytes hardly anything, whatever "
        "the window.",
        "batch, bytes of join attributes",
        "us per tuple",
        tuple(series),
        (
            compare(
                "a tuple takes less time in larger batches: the smallest batch to the largest",
                gain,
                low=1.0,
                published="less",
                place=claim.place,
                unit=" times",
                timed=True,
            ),
            compare(
                "gains fade: the first doubling of a batch to the last",
                fading,
                low=1.0,
                published="faded",
                place=claim.place,
                unit=" times",
                timed=True,
            ),
            *(
                compare(
                    f"{windows_of(w)}: batch beyond which doubling it gains less than a tenth",
                    size,
                    low=claim.value / 2,
                    high=claim.value * 2,
                    published=claim,
                    unit=" bytes",
                    timed=True,
                )
                for w, size in enough.items()
            ),
        ),
        f"{found.rate} tuples/s of each stream. A push from Python costs tens of microseconds whatever "
        "it brings, where the Cell's coordinator sent four mailbox messages: the shorter the window, the further out "
        "lies the batch from which on that is nothing.",
        log_x=True,
        log_y=True,
    )


def _centre(times: tuple[float, ...]) -> float:
    """Return the middle of the sizes that are within 5 % of the best: around the best the line is flat."""
    good = [math.log(size) for size, time in zip(_SIZE_BYTES, times, strict=True) if time <= 1.05 * min(times)]
    return math.exp(sum(good) / len(good))


def figure_13(found: Sizes) -> Figure:
    """Draw the time of a tuple by the size of basic windows, with the model's choice."""
    series, choice, worst, best = [], [], [], []
    for w, times in found.times_us.items():
        at = SIZES.index(found.chosen[w])
        series.append(Series(windows_of(w), _SIZE_BYTES, times, "measured"))
        series.append(Series(f"{windows_of(w)}: chosen by our model", (_SIZE_BYTES[at],), (times[at],), "computed"))
        choice.append(times[at] / min(times))
        worst.append(max(times) / min(times))
        best.append(_centre(times))
    limit = published.BEST_SIZE_GAIN
    return Figure(
        "celljoin",
        "figure-13",
        "Time per tuple by the size of basic windows",
        "Short windows want small basic windows, long ones large ones; the wrong size costs up to 10 %.",
        "basic window, bytes of join attributes",
        "us per tuple",
        tuple(series),
        (
            compare(
                "longer windows want larger basic windows: the best size for the longest window to that for the "
                "shortest",
                best[-1] / best[0] if len(best) > 1 else None,
                low=1.0,
                published="larger",
                place=limit.place,
                unit=" times",
                spread=0.25,
                timed=True,
                missing="only one window was asked for",
            ),
            compare(
                "the worst size costs, in times of the best",
                max(worst),
                high=limit.value * 1.1,
                published=limit,
                unit=" times",
                timed=True,
            ),
            compare("the size that our model chooses costs, in times of the best", max(choice), high=1.3, timed=True),
        ),
        f"Sizes reach from {SIZES[0] * TUPLE_BYTES // 1024} KB, where turning to the next basic window costs as much "
        f"as comparing it, to {max(SIZES) * TUPLE_BYTES // 1024} KB, more than the Cell could transfer.",
        log_x=True,
        log_y=True,
        notes=(f"{found.rate} tuples/s per stream; one worker of the cell engine, batches of 128.",),
    )
