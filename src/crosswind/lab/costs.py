"""What the parts of a parallel join cost on this machine: the constants of the lab's simulations.

Each is measured by itself on the real engine, at sizes where nothing else counts, and never at the sizes that a
simulation is then validated against.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from crosswind.bench.live import DrivenJoin
from crosswind.engine.probe.engine import ProbeEngine
from crosswind.lab.loads import PLAIN, Loaded, ns_a_tuple

__all__ = ["Costs", "measure_costs", "scan_costs"]

_RATE = 1_000
_SMALL, _LARGE = 20_000, 160_000
"""Tuples in the windows whose difference says what a pair costs."""
_FEW, _MANY = 64, 1_024
"""Tuples in the pushes whose difference says what a tuple costs, and what is left, what a push costs."""
_IDLE = 8_192
"""Tuples in the windows of joins in which workers have almost nothing to do but to be told."""


@dataclass(frozen=True)
class Costs:
    """Nanoseconds.

    Parameters
    ----------
    pair_ns : float
        A worker, to compare one pair.
    tuple_ns : float
        The caller, for each tuple: intake, insert, expiry, results.
    push_ns : float
        The caller and one worker, for a call of ``push``: to tell it, and to hear that it is done.
    hop_ns : float
        For each worker more that a message goes through.
    call_ns : float
        The caller alone, for a call of ``push`` that is too small to be shared out.
    """

    pair_ns: float
    tuple_ns: float
    push_ns: float
    hop_ns: float
    call_ns: float


@lru_cache(maxsize=4)
def scan_costs(condition: str) -> tuple[float, float]:
    """Return what a pair and a tuple cost one worker that scans: the slope between two windows, and what is left."""
    batch = 256
    sizes = (_SMALL, _LARGE) if condition != PLAIN else (_SMALL // 4, _LARGE // 4)
    taken = [_taken(size, batch, condition, engine="kang") for size in sizes]
    pair = (taken[1] - taken[0]) / (sizes[1] - sizes[0])
    return pair, max(0.0, taken[0] - pair * sizes[0])


@lru_cache(maxsize=8)
def measure_costs(engine: str, condition: str) -> Costs:
    """Return the costs of an engine of workers, ``cell``, ``grid`` or ``handshake``, under a condition."""
    pair, _ = scan_costs(condition)
    few, many = (_taken(_IDLE, batch, condition, **_crew(engine, 1)) - pair * _IDLE for batch in (_FEW, _MANY))
    tuple_ns = max(0.0, (many * _MANY - few * _FEW) / (_MANY - _FEW))
    push_ns = max(0.0, (few - tuple_ns) * _FEW)
    two = _taken(_IDLE, _FEW, condition, **_crew(engine, 2)) - pair * _IDLE / 2
    alone = _taken(_IDLE, 1, condition, engine="kang") - pair * _IDLE
    return Costs(pair, tuple_ns, push_ns, max(0.0, (two - few) * _FEW), max(0.0, alone - tuple_ns))


def _crew(engine: str, workers: int) -> dict[str, Any]:
    return {"engine": engine, "workers": workers}


def _taken(window: int, batch: int, condition: str, **options: Any) -> float:
    """Return the nanoseconds a tuple takes in windows of ``window`` tuples."""
    workload = Loaded(_RATE, window * 1_000_000 // _RATE, condition=condition)
    live = DrivenJoin(workload, "scan", batch, **options)
    strategy = live.join._strategy
    if isinstance(strategy, ProbeEngine) and strategy.pool is not None:
        strategy.pool.share_all()
    try:
        return ns_a_tuple(live, batch, seconds=0.04, rounds=7)
    finally:
        live.close()
