"""``bench memory``: what a join holds, against the bytes of the tuples in its windows."""

from __future__ import annotations

import time

from crosswind.bench.live import DrivenJoin
from crosswind.bench.machine import resident_bytes
from crosswind.bench.record import BenchReport, Goal, Measurement, Tell
from crosswind.bench.workload import BandWorkload

__all__ = ["measure"]

_TUPLE_BYTES = 16
"""int32, float32 and a time of 64 bits."""
_FACTOR = 2
_ALLOWANCE_MB = 64
_WARM_RATE = 100


def measure(*, rate: int, window: int, seconds: float, index: str, tell: Tell) -> BenchReport:
    """Fill windows, drive them on, and note the most that is held.

    Parameters
    ----------
    rate : int
        Tuples/s of event time, of each stream.
    window : int
        Length of both windows, in seconds.
    seconds : float
        How long to drive the join on.
    index : str
        As for ``crosswind.open``.
    tell : callable
        Told what is being done.
    """
    tell("loading and compiling")
    # Compilers and libraries are loaded by a small join first: they are not what windows cost.
    DrivenJoin(BandWorkload(_WARM_RATE, 10_000_000), index, _WARM_RATE).close()
    before = resident_bytes()
    tell("filling the windows")
    workload = BandWorkload(rate, window * 1_000_000)
    live = DrivenJoin(workload, index, rate)
    live_bytes = 2 * workload.window_tuples * _TUPLE_BYTES
    held, resident, ticks = 0, 0, 0
    began = time.monotonic()
    while ticks == 0 or time.monotonic() - began < seconds:
        tell(f"driving the join, second {ticks + 1} of event time")
        live.drive(pushes=1)
        held = max(held, live.join.stats.bytes_held)
        resident = max(resident, resident_bytes() - before)
        ticks += 1
    chosen = live.index
    live.close()
    allowed = _FACTOR * live_bytes / 1e6 + _ALLOWANCE_MB
    goal = Goal(allowed, at_least=False)
    measurements = [
        Measurement(
            "live columns",
            live_bytes / 1e6,
            "MB",
            note=f"{2 * workload.window_tuples:,} tuples of {_TUPLE_BYTES} bytes",
        ),
        Measurement("bytes_held, greatest", held / 1e6, "MB", goal, ratio=held / live_bytes, ratio_to="live columns"),
        Measurement(
            "growth of the process, greatest",
            resident / 1e6,
            "MB",
            goal,
            ratio=resident / live_bytes,
            ratio_to="live columns",
        ),
    ]
    notes = [
        f"Allowed: {_FACTOR} times the live columns and {_ALLOWANCE_MB} MB. The process is measured between pushes, "
        f"over {ticks} s of event time with full windows; index {chosen}."
    ]
    settings = {"rate": rate, "window_s": window, "seconds": seconds, "index": index}
    return BenchReport("memory", "memory against the live columns", settings, measurements, notes)
