"""``bench rate``: the greatest rate that one process sustains with full windows."""

from __future__ import annotations

import math
import os
import time
from dataclasses import dataclass, field
from typing import Any

from crosswind.bench.live import DrivenJoin
from crosswind.bench.machine import resident_bytes
from crosswind.bench.record import BenchReport, Goal, Measurement, Tell
from crosswind.bench.workload import BandWorkload

__all__ = ["RateSearch", "Trial", "attempt", "measure"]

_GOAL = Goal(20_000, aim=50_000)
_ASKED_WINDOW_S = 900
_TUPLE_BYTES = 16
_PRECISION = 1.08
"""The search ends when the least rate that failed is not further than this from the greatest that held."""
_STEP_MAX = 8.0
_MEMORY_FACTOR = 6
"""Bytes of memory to reckon with, a byte of live columns: windows, indexes, a snapshot on the way in."""


@dataclass(frozen=True)
class Trial:
    """One rate, tried.

    Parameters
    ----------
    rate : int
        Tuples/s of each stream.
    utilisation : float
        Time spent a second of event time; below 1 the rate can be sustained.
    results_per_s : float
        Results a second of event time.
    bytes_held, bytes_live, bytes_resident : int
        What the join says it holds, the columns of the tuples in the windows, the process.
    exact : bool or None
        Whether a sample of the results was right; None if that was not looked at.
    index : str
        What the join chose.
    """

    rate: int
    utilisation: float
    results_per_s: float
    bytes_held: int
    bytes_live: int
    bytes_resident: int
    exact: bool | None
    index: str


@dataclass
class RateSearch:
    """Which rate to try next.

    Work grows with the rate at least linearly and, as windows and results grow with it, at most
    quadratically, so the square root of the utilisation says how far to go; it is a bisection
    where that would leave the interval.

    Parameters
    ----------
    next : int
        The first rate to try.
    rate_max : int
        What memory allows.
    """

    next: int
    rate_max: int
    held: int = 0
    failed: int | None = None
    tried: list[int] = field(default_factory=list)

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to try."""
        if self.failed is not None and self.failed <= max(1.0, self.held * _PRECISION):
            return True
        return self.next in self.tried

    def note(self, rate: int, utilisation: float) -> None:
        """Take in the outcome of a trial, and decide on the next."""
        self.tried.append(rate)
        if utilisation < 1:
            self.held = max(self.held, rate)
        else:
            self.failed = rate if self.failed is None else min(self.failed, rate)
        step = min(_STEP_MAX, max(1 / _STEP_MAX, 0.98 / math.sqrt(max(utilisation, 1e-9))))
        guess = rate * step
        low, high = self.held * math.sqrt(_PRECISION), math.inf if self.failed is None else self.failed
        if not low < guess < high:
            guess = math.sqrt(max(1, self.held) * high) if high < math.inf else low * _PRECISION
        self.next = min(self.rate_max, _rounded(guess))


def measure(
    *, windows: tuple[int, ...], index: str, start: int, tick: float, trial: float, seconds: float, tell: Tell
) -> BenchReport:
    """Search the greatest rate for each window length.

    Parameters
    ----------
    windows : tuple of int
        Lengths, in seconds.
    index : str
        As for ``crosswind.open``.
    start : int
        The first rate to try, tuples/s of each stream.
    tick : float
        Event time in a batch, in seconds.
    trial : float
        Event time of a trial, in seconds.
    seconds : float
        No new trial is begun after this long.
    tell : callable
        Told what is being done.
    """
    measurements: list[Measurement] = []
    notes = ["A rate holds if, with full windows, a second of event time takes less than a second."]
    for window_s in windows:
        began = time.monotonic()
        search = RateSearch(start, _rate_max(window_s))
        trials: list[Trial] = []
        while not search.is_over and (not trials or time.monotonic() - began < seconds / len(windows)):
            tell(f"{window_s} s windows: {search.next:,} tuples/s a stream")
            trials.append(attempt(BandWorkload(search.next, window_s * 1_000_000), index, tick, trial))
            search.note(trials[-1].rate, trials[-1].utilisation)
            tell(f"{window_s} s windows: {trials[-1].rate:,} tuples/s took {trials[-1].utilisation:.0%}")
        measurements += _entries(window_s, search, trials)
        tried = ", ".join(f"{t.rate:,}: {t.utilisation:.0%}" for t in sorted(trials, key=lambda t: t.rate))
        notes.append(f"{window_s} s windows, utilisation by tuples/s a stream: {tried}.")
        if search.failed is None:
            notes.append(f"{window_s} s windows: no rate failed in the time given, so that more may be possible.")
    settings = {"windows_s": list(windows), "index": index, "start": start, "tick_s": tick, "trial_s": trial}
    title = "greatest sustained tuples/s of each stream"
    return BenchReport("rate", title, settings | {"seconds": seconds}, measurements, notes)


def attempt(
    workload: BandWorkload, index: str, tick: float, trial_s: float, *, check: bool = True, **options: Any
) -> Trial:
    """Fill windows, drive the join for ``trial_s`` of event time in steps of ``tick``, and say how long that took.

    ``options`` are those of ``crosswind.open``: engine, workers and so on.
    """
    live = DrivenJoin(workload, index, max(1, round(workload.rate * tick)), **options)
    pushes = max(1, round(trial_s / tick))
    stretch = live.drive(pushes=pushes, seconds=trial_s * 1.5)
    resident, held = resident_bytes(), live.join.stats.bytes_held
    found = Trial(
        workload.rate,
        stretch.seconds / stretch.event_s,
        stretch.results / stretch.event_s,
        held,
        2 * workload.window_tuples * _TUPLE_BYTES,
        resident,
        live.check() if check else None,
        live.index,
    )
    live.close()
    return found


def _entries(window_s: int, search: RateSearch, trials: list[Trial]) -> list[Measurement]:
    label = f"{window_s} s windows"
    best = max((t for t in trials if t.utilisation < 1), key=lambda t: t.rate, default=None)
    failed = "none" if search.failed is None else f"{search.failed:,}"
    # Without a rate that failed, the greatest that held says only what is possible, not what is not.
    is_settled = search.failed is not None or search.held >= _GOAL.value
    goal = _GOAL if window_s == _ASKED_WINDOW_S and is_settled else None
    if best is None:
        return [Measurement(f"sustained, {label}", 0.0, "tuples/s a stream", goal, note=f"least that failed: {failed}")]
    exact = "checked" if best.exact else "WRONG NUMBER OF RESULTS"
    note = f"utilisation {best.utilisation:.0%}, least that failed: {failed}; index {best.index}; {exact}"
    return [
        Measurement(f"sustained, {label}", best.rate, "tuples/s a stream", goal, note=note),
        Measurement(f"results, {label}", best.results_per_s, "results/s"),
        Measurement(
            f"held, {label}",
            best.bytes_held / 1e6,
            "MB",
            ratio=best.bytes_held / best.bytes_live,
            ratio_to="live columns",
            note=f"process: {best.bytes_resident / 1e6:,.0f} MB",
        ),
    ]


def _rate_max(window_s: int) -> int:
    """Return the rate at which windows would need all of the memory that is free."""
    free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
    return max(1, _rounded(free / (2 * window_s * _TUPLE_BYTES * _MEMORY_FACTOR)))


def _rounded(rate: float) -> int:
    """Return ``rate`` with three digits, so that it can be read."""
    unit: int = 10 ** max(0, math.floor(math.log10(max(rate, 1))) - 2)
    return max(1, round(rate / unit) * unit)
