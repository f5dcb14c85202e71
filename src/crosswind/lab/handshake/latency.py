"""How late results of a row come, beside its low-latency variant, CellJoin, DP-Join and SplitJoin.

The paper says nothing about latency; DP-Join's authors measured it, and the low-latency handshake join of Roy, Teubner
and Gemulla (2014) answers that: tuples do not wait to be pushed on, but run through the row at once. Here that is
``hurry=True``. SplitJoin (Najafi, Sadoghi and Jacobsen, 2016) stores tuples in turn and sends each to all
workers, so that nothing is forwarded: ``engine="split"``; for more workers than run here it is worked out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from crosswind.lab.costs import Costs, measure_costs
from crosswind.lab.figure import Figure, Series
from crosswind.lab.lateness import answer_s, row_lateness
from crosswind.lab.loads import BANDS
from crosswind.lab.setting import Setting
from crosswind.lab.verdict import compare

__all__ = ["Lateness", "figure_latency", "measure_lateness", "split_s"]

_WORKERS = (1, 2)
_ENGINES: dict[str, dict[str, Any]] = {
    "low-latency handshake (hurry=True)": {"engine": "handshake", "hurry": True},
    "cell": {"engine": "cell"},
    "grid": {"engine": "grid"},
    "SplitJoin": {"engine": "split"},
}


@dataclass(frozen=True)
class Lateness:
    """Mean seconds from the later tuple of a pair to the result, by strategy and workers."""

    window_s: int
    rate: int
    row: dict[int, float]
    answers: dict[str, dict[int, float]]
    split: dict[int, float]


def split_s(workers: int, window: float, costs: Costs) -> float:
    """Return the mean latency of SplitJoin: a push, a tree to all workers, and the part of the window that each has.

    Examples
    --------
    >>> round(split_s(4, 1e6, Costs(1.0, 0.0, 0.0, 1e3, 0.0)) * 1e6)
    127
    """
    hops = math.ceil(math.log2(workers)) if workers > 1 else 0
    return (costs.call_ns + costs.hop_ns * hops + window / workers * costs.pair_ns / 2) * 1e-9


def measure_lateness(setting: Setting) -> Lateness:
    """Drive each strategy with full windows."""
    window_s, rate = setting.window or (20 if setting.quick else 60), setting.rate or (500 if setting.quick else 1_000)
    workers = setting.workers or _WORKERS
    seconds = 0.5 if setting.quick else 5.0
    costs = measure_costs("grid", BANDS)
    return Lateness(
        window_s,
        rate,
        {count: row_lateness(count, window_s, rate, setting.seed).mean * window_s for count in workers},
        {
            name: {
                count: answer_s(window_s, rate, seconds, setting.seed, workers=count, **options) for count in workers
            }
            for name, options in _ENGINES.items()
        },
        {count: split_s(count, float(window_s * rate), costs) for count in (*workers, 4, 8, 16)},
    )


def figure_latency(found: Lateness) -> Figure:
    """Draw how late results come, by strategy."""
    series = [Series("handshake", tuple(map(float, found.row)), tuple(found.row.values()), "measured")]
    series += [
        Series(name, tuple(map(float, points)), tuple(points.values()), "measured")
        for name, points in found.answers.items()
    ]
    series.append(Series("SplitJoin", tuple(map(float, found.split)), tuple(found.split.values()), "computed"))
    most = max(found.row)
    hurried = found.answers["low-latency handshake (hurry=True)"]
    return Figure(
        "handshake",
        "latency",
        "How late results come, by strategy",
        "In a row tuples meet when they are pushed past each other, a good part of a window later; the low-latency "
        "variant, CellJoin, DP-Join and SplitJoin compare a tuple with all of the other window at once.",
        "workers",
        "mean time from the later tuple of a pair to the result, s",
        tuple(series),
        (
            compare(
                f"handshake with {most} workers: mean lateness, in windows; T / 4 (1 - 1 / N) is our estimate",
                found.row[most] / found.window_s,
                low=(1 - 1 / most) / 4 - 0.05,
                high=(1 - 1 / most) / 4 + 0.05,
                spread=0.02,
            ),
            compare(
                f"low-latency handshake with {most} workers: as late as the row, of which",
                hurried[most] / found.row[most] if found.row[most] > 0 else None,
                high=0.2,
                published="substantially less",
                place="Roy, Teubner and Gemulla 2014, abstract",
                timed=True,
                missing="one worker has no row",
            ),
        ),
        f"Not a figure of the paper. {found.rate} tuples/s and windows of {found.window_s} s. The row's lateness goes "
        "by the clock of the streams; the others' is real time until push returns.",
        log_y=True,
    )
