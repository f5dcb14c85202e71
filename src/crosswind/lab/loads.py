"""Loads for joins: the papers' streams under another condition, and the rate that a join sustains."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from crosswind.bench.kernel import crosswind_bench_near
from crosswind.bench.live import DrivenJoin
from crosswind.bench.rate import Trial, attempt
from crosswind.bench.workload import BAND, VALUE_MAX, BandWorkload
from crosswind.query import predicate

__all__ = ["BANDS", "HIT_RATE", "PLAIN", "VECTORS", "Loaded", "Sustained", "ns_a_tuple", "sustain"]

HIT_RATE = (2 * BAND + 1) / VALUE_MAX * (2 * BAND) / VALUE_MAX
"""About how many of all pairs match (the papers: 1 in 250,000)."""

PLAIN = "crosswind_bench_near(R.x, S.a, R.y, S.b)"
"""The two bands as a Python function (:mod:`crosswind.bench.kernel`), compared one by one, without vectors."""

BANDS = f"R.x BETWEEN S.a - {BAND} AND S.a + {BAND} AND R.y BETWEEN S.b - {BAND} AND S.b + {BAND}"
"""The papers' condition."""

VECTORS = f"({BANDS}) OR R.x = S.a - 100000"
"""The two bands with an alternative that never holds and leaves no box: pair by pair, in vectors that LLVM makes."""


@dataclass(frozen=True)
class Loaded(BandWorkload):
    """The papers' streams, with a condition and columns of one's own.

    Parameters
    ----------
    rate, window_us, seed, band_y
        As for :class:`~crosswind.bench.workload.BandWorkload`.
    condition : str
        What is asked of a pair, instead of the two bands; it must hold for the same pairs.
    shown : str
        What is selected.
    window_s_us : int
        Length of the window of S, if it is another.
    """

    condition: str = BANDS
    shown: str = "R.x, R.y, S.a, S.b"
    window_s_us: int = 0

    @property
    def sql(self) -> str:
        """The query."""
        if self.condition == PLAIN:
            predicate(crosswind_bench_near)
        other = f"[RANGE {self.window_s_us or self.window_us} MICROSECONDS]"
        return f"SELECT {self.shown}\nFROM R {self.window}, S {other}\nWHERE {self.condition}"


@dataclass(frozen=True)
class Sustained:
    """The rate that a join sustains, and the trial next to it."""

    rate: float
    trial: Trial

    @property
    def results_per_s(self) -> float:
        """Results a second at that rate: they go with its square, as the windows do."""
        return self.trial.results_per_s * (self.rate / self.trial.rate) ** 2


def sustain(
    make: Callable[[int], BandWorkload], start: int, *, tick: float, trial_s: float, trials: int = 3, **options: Any
) -> Sustained:
    """Find the tuples/s of each stream at which a second of event time takes a second, with full windows.

    Work goes with the square of the rate where windows are scanned, so the square root of the utilisation says where
    to try next, and from the last trial, which is near, where the rate lies.
    """
    rate, found = start, None
    for _ in range(trials):
        found = attempt(make(rate), "scan", tick, trial_s, check=False, **options)
        rate = max(1, round(rate / math.sqrt(found.utilisation)))
        if abs(found.utilisation - 1) < 0.1:
            break
    assert found is not None
    return Sustained(found.rate / math.sqrt(found.utilisation), found)


def ns_a_tuple(live: DrivenJoin, batch: int, seconds: float, rounds: int) -> float:
    """Return the nanoseconds that a tuple takes in pushes of ``batch``: the least of some rounds.

    The least, since what else runs on the machine only ever adds; and where the caller does all the work, the
    processor's time, to which it does not add at all.
    """
    live.batch_tuples = batch
    live.drive(pushes=1)
    stretches = [live.drive(seconds=seconds) for _ in range(rounds)]
    alone = live.join.stats.engine == "kang"
    return min((stretch.cpu_s if alone else stretch.seconds) / stretch.tuples for stretch in stretches) * 1e9
