"""A join that gets more than it can take, in real time: what a small buffer cannot hold is dropped."""

from __future__ import annotations

import time

from crosswind.bench.live import DrivenJoin
from crosswind.lab.loads import Loaded

__all__ = ["play_overload"]

_TURNS = 4
"""Windows that pass before and while it is counted: the first ones hold what came before the overload."""
_BUFFER_S = 0.02
"""Event time that the buffer before the join holds, of each stream."""


def play_overload(rate: int, window_s: float) -> float:
    """Return the share of tuples that a join takes of streams of ``rate``, once its windows have turned over."""
    workload = Loaded(rate, round(window_s * 1e6))
    buffer = max(1, round(rate * _BUFFER_S))
    live = DrivenJoin(workload, "scan", buffer, engine="kang")
    first, taken, due = live.next, 0, 0
    began = time.perf_counter()
    now = counted_from = 0.0
    while now < _TURNS * window_s:
        now = time.perf_counter() - began
        reached = int(now * rate)
        if now < (_TURNS - 1) * window_s:
            counted_from, taken = now, 0
        # The newest are kept: whatever lies further back than the buffer reaches has been dropped.
        due = max(due, reached - buffer)
        if reached <= due:
            continue
        for name in ("R", "S"):
            live.join.push(name, workload.batch(name, first + due, reached - due))
        taken += reached - due
        due = reached
    live.close()
    return taken / max(1.0, (time.perf_counter() - began - counted_from) * rate)
