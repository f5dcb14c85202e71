"""``bench replay``: streams of the papers' rate, replayed as fast as possible."""

from __future__ import annotations

from functools import partial

from crosswind.bench.live import DrivenJoin, Stretch
from crosswind.bench.others import race
from crosswind.bench.record import BenchReport, Goal, Measurement, Tell, interleave, measured_in
from crosswind.bench.workload import BandWorkload

__all__ = ["measure"]

_ASKED_RATE = 1_000
_GOALS = {60: Goal(450_000, aim=1_450_000), 900: Goal(300_000, aim=696_000)}
"""By window in seconds. The aims are what batch Polars did on the machine that the goals were set on."""


def measure(
    *,
    windows: tuple[int, ...],
    rate: int,
    seconds: float,
    rounds: int,
    index: str,
    compare: bool,
    prefix: int,
    tell: Tell,
) -> BenchReport:
    """Drive joins with full windows in batches of a second of event time.

    Parameters
    ----------
    windows : tuple of int
        Lengths, in seconds.
    rate : int
        Tuples/s of event time, of each stream.
    seconds : float
        Time spent in each run.
    rounds : int
        Runs of each window, interleaved.
    index : str
        As for ``crosswind.open``.
    compare : bool
        Whether to race DuckDB and Polars over finite streams, too.
    prefix : int
        Length of those streams, in seconds; at least two windows.
    tell : callable
        Told what is being done.
    """
    joins: dict[int, DrivenJoin] = {}
    for window_s in windows:
        tell(f"{window_s} s windows: filling them")
        joins[window_s] = DrivenJoin(BandWorkload(rate, window_s * 1_000_000), index, rate)
    stretches: dict[int, list[Stretch]] = {window_s: [] for window_s in windows}

    def run(window_s: int) -> float:
        stretch = joins[window_s].drive(seconds=seconds)
        stretches[window_s].append(stretch)
        return stretch.tuples / stretch.seconds

    runs = interleave({f"{window_s} s windows": partial(run, window_s) for window_s in windows}, rounds, tell)
    measurements: list[Measurement] = []
    for (name, values), (window_s, join) in zip(runs.items(), joins.items(), strict=True):
        goal = _GOALS.get(window_s) if rate == _ASKED_RATE else None
        results = sum(stretch.results for stretch in stretches[window_s])
        tuples = sum(stretch.tuples for stretch in stretches[window_s])
        tell(f"{name}: checking")
        exact = "checked" if join.check() else "WRONG NUMBER OF RESULTS"
        note = f"{results:,} results, {results / tuples:.3g} a tuple; index {join.index}; {exact}"
        measurements.append(measured_in(values, name, "tuples/s", goal, note))
        join.close()
    notes = ["Full windows, batches of a second, both streams together. A sample of the results is checked with NumPy."]
    if compare:
        for window_s in windows:
            more, code = race(window_s, rate, prefix, rounds, tell)
            measurements += more
            notes += code
    settings = {"windows_s": list(windows), "rate": rate, "seconds": seconds, "rounds": rounds}
    settings |= {"index": index, "compare": compare, "prefix_s": prefix}
    return BenchReport("replay", "tuples/s, replayed as fast as possible", settings, measurements, notes)
