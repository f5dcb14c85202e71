"""Rows and columns of workers, simulated: DP-Join tuple by tuple, with the costs of this machine.

A tuple of the first stream goes to one row, in turn; each worker there takes its notice, hands it on, and
compares the tuple with the segment of its column (DP-Join, sections III-C and III-D). Workers serve notices in the
order they come, and are busy with a notice for its time. What is not done is to compare: a comparison only takes its
time.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

from crosswind.engine.parallel.pool import ALONE
from crosswind.lab.costs import Costs
from crosswind.plan.grid import Load

__all__ = ["BATCH", "Layout", "SimulatedRun", "called", "layouts_of", "pushed_pairs_per_s", "streamed"]

Layout = tuple[int, int]

BATCH = 1_024
"""Tuples in a push, where throughput is asked for."""

_JUST = 1e-6
"""A tuple that is due at this very moment is due, however the moment was rounded."""


@dataclass(frozen=True)
class SimulatedRun:
    """What a simulation shows.

    Parameters
    ----------
    found_s : float
        Mean time from a tuple's arrival to a match, wherever in the scan that is. A mean over matches, as definition 3
        has it: a tuple that meets a larger window has more of them.
    done_s : float
        Mean time from a tuple's arrival to the end of its last comparison.
    pairs_per_s : float
        Pairs compared.
    """

    found_s: float
    done_s: float
    pairs_per_s: float


def layouts_of(workers: int) -> dict[str, Layout | None]:
    """Return the layouts of DP-Join's figures: linear cuts up one window only, rectangular lies in between."""
    sides = [(m, workers // m) for m in range(1, workers + 1) if workers % m == 0]
    square = next((layout for layout in sides if layout[0] == layout[1]), None)
    between = [layout for layout in sides if 1 < layout[0] < layout[1]]
    return {"square": square, "rectangular": between[-1] if between else None, "linear": (1, workers)}


def streamed(layout: Layout, load: Load, costs: Costs, tuples: int = 1_500) -> SimulatedRun:
    """Play ``tuples`` of each stream, at their rates, to workers that serve both streams at once, as in the paper."""
    m, n = layout
    arrivals = sorted(
        (number / load.rates[unit] + 0.5 * unit / load.rates[unit], unit, number)
        for unit in (0, 1)
        for number in range(max(1, round(tuples * load.rates[unit] / max(load.rates))))
    )
    scan_s = (load.windows[1] / n * costs.pair_ns * 1e-9, load.windows[0] / m * costs.pair_ns * 1e-9)
    hop_s, intake_s = costs.hop_ns * 1e-9, costs.tuple_ns * 1e-9
    free: dict[Layout, float] = {}
    busy: dict[Layout, float] = {}
    events: list[tuple[float, int, int, int, float]] = []
    caller = found = 0.0
    width, caller_busy = (n, m), intake_s * len(arrivals)
    for due, unit, number in arrivals:
        caller = max(caller, due) + intake_s
        heapq.heappush(events, (caller, unit, number, 0, due))
    done: dict[tuple[int, int], float] = {}
    dues = {(unit, number): due for due, unit, number in arrivals}
    while events:
        now, unit, number, at, due = heapq.heappop(events)
        worker = (number % m, at) if unit == 0 else (at, number % n)
        first = at == 0  # its notice is part of what the caller does
        began = max(now, free.get(worker, 0.0)) + (0.0 if first else hop_s)
        free[worker] = began + scan_s[unit]
        busy[worker] = busy.get(worker, 0.0) + scan_s[unit] + (0.0 if first else hop_s)
        found += (began + scan_s[unit] / 2 - due) * load.windows[1 - unit] / width[unit]
        done[unit, number] = max(done.get((unit, number), 0.0), free[worker])
        if at + 1 < width[unit]:
            heapq.heappush(events, (began, unit, number, at + 1, due))
    pairs = sum(load.windows[1 - unit] for unit, _ in dues)
    late = sum(done[key] - due for key, due in dues.items()) / len(dues)
    # In the long run the busiest worker decides, not when the last one is done.
    span = max(max(busy.values()), caller_busy, arrivals[-1][0] * len(dues) / (len(dues) - 1))
    return SimulatedRun(found / pairs, late, pairs / span)


def called(layout: Layout, load: Load, costs: Costs, tuples: int = 1_500) -> SimulatedRun:
    """Play the streams to this engine: whatever is due of a stream is pushed, and a push returns when it is done."""
    m, n = layout
    shifts = (0.0, 0.5)
    counts = [max(1, round(tuples * rate / max(load.rates))) for rate in load.rates]
    taken, now, late, pairs, unit = [0, 0], 0.0, 0.0, 0.0, 0
    while any(taken[u] < counts[u] for u in (0, 1)):
        due = [min(counts[u], int(now * load.rates[u] - shifts[u] + 1 + _JUST)) - taken[u] for u in (0, 1)]
        if max(due) <= 0:
            now = min((taken[u] + shifts[u]) / load.rates[u] for u in (0, 1) if taken[u] < counts[u])
            continue
        unit = unit if due[unit] > 0 else 1 - unit
        batch, window = due[unit], load.windows[1 - unit]
        now += _push_s(batch, window, (m, n) if unit == 0 else (n, m), costs)
        for number in range(taken[unit], taken[unit] + batch):
            late += now - (number + shifts[unit]) / load.rates[unit]
        taken[unit] += batch
        pairs += batch * window
        unit = 1 - unit
    return SimulatedRun(late / sum(counts), late / sum(counts), pairs / now)


def pushed_pairs_per_s(layout: Layout, load: Load, costs: Costs, batch: int = BATCH) -> float:
    """Return the pairs/s of this engine when there is always more to push, streams in turn."""
    m, n = layout
    sides = ((m, n), (n, m))
    taken = sum(_push_s(batch, load.windows[1 - unit], sides[unit], costs) for unit in (0, 1))
    return batch * sum(load.windows) / taken


def _push_s(batch: int, window: float, layout: Layout, costs: Costs) -> float:
    """Return what a push takes: tuples are dealt to ``layout[0]`` lines of ``layout[1]`` workers."""
    lines, width = layout
    own = costs.tuple_ns * batch
    if batch * window < ALONE:
        return (own + costs.call_ns + batch * window * costs.pair_ns) * 1e-9
    scanned = -(-batch // lines) * window / width * costs.pair_ns
    return (own + costs.push_ns + costs.hop_ns * (min(batch, lines) * width - 1) + scanned) * 1e-9
