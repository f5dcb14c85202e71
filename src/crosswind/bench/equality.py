"""``bench equality``: an equality join over many distinct keys."""

from __future__ import annotations

from functools import partial

from crosswind.bench.live import DrivenJoin
from crosswind.bench.record import BenchReport, Goal, Measurement, Tell, interleave, measured_in
from crosswind.bench.workload import KeyWorkload

__all__ = ["measure"]

_GOAL = Goal(1_000_000)
_ASKED = (1_000_000, 10_000)
_WINDOW_S = 10


def measure(*, keys: int, batch: int, window: int, seconds: float, rounds: int, index: str, tell: Tell) -> BenchReport:
    """Drive joins on 64-bit integers and on strings, with full windows.

    Parameters
    ----------
    keys : int
        Distinct keys.
    batch : int
        Tuples in a push.
    window : int
        Tuples in each window.
    seconds : float
        Time spent in each run.
    rounds : int
        Runs of each kind of key, interleaved.
    index : str
        As for ``crosswind.open``.
    tell : callable
        Told what is being done.
    """
    joins: dict[str, DrivenJoin] = {}
    for name, strings in {"int64 keys": False, "string keys": True}.items():
        tell(f"{name}: filling the windows")
        workload = KeyWorkload(max(1, window // _WINDOW_S), _WINDOW_S * 1_000_000, keys=keys, strings=strings)
        joins[name] = DrivenJoin(workload, index, batch)
    results, tuples = dict.fromkeys(joins, 0), dict.fromkeys(joins, 0)

    def run(name: str) -> float:
        stretch = joins[name].drive(seconds=seconds)
        results[name] += stretch.results
        tuples[name] += stretch.tuples
        return stretch.tuples / stretch.seconds

    runs = interleave({name: partial(run, name) for name in joins}, rounds, tell)
    goal = _GOAL if (keys, batch) == _ASKED else None
    measurements: list[Measurement] = []
    for name, live in joins.items():
        note = f"{results[name] / tuples[name]:.3g} results a tuple; index {live.index}"
        measurements.append(measured_in(runs[name], name, "tuples/s", goal, note))
        live.close()
    settings = {"keys": keys, "batch": batch, "window": window, "seconds": seconds, "rounds": rounds, "index": index}
    notes = [f"Both streams together, windows of {window:,} tuples, pushes of {batch:,}; keys uniformly random."]
    return BenchReport("equality", f"equality join, {keys:,} distinct keys", settings, measurements, notes)
