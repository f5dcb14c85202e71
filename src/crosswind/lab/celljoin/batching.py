"""CellJoin's batches that follow the rate (section 4.2), and workers that follow the load (section 7.3), simulated.

Both play the engine's own rules, :class:`crosswind.engine.ingest.batching.Backlog` and
:class:`crosswind.engine.parallel.cell.Staff`, by a clock of their own, with costs that are measured here.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from crosswind.engine.ingest.batching import Backlog
from crosswind.engine.parallel.cell import Staff
from crosswind.lab.costs import Costs, measure_costs
from crosswind.lab.figure import Figure, Series
from crosswind.lab.loads import BANDS
from crosswind.lab.setting import Setting
from crosswind.lab.verdict import compare

__all__ = [
    "Adapted",
    "BatchDelays",
    "figure_adaptation",
    "figure_batching",
    "measure_adaptation",
    "measure_batching",
    "play_backlog",
    "play_staff",
]

_WINDOW = 500.0 * 900
"""Tuples in a window: the paper's default rate and window (section 8.2)."""
UNIT_BLOCK = 4
"""Tuples in a unit block of the paper's join attributes (equation 1)."""
_POLICIES = {
    "whatever waits": (1 << 12, 1),
    "unit blocks, l = 1": (UNIT_BLOCK, UNIT_BLOCK),
    "unit blocks, l = 16": (16 * UNIT_BLOCK, UNIT_BLOCK),
}
"""By name: the limit of a portion, and the tuples of a unit block."""
_LOADS = (0.02, 0.1, 0.3, 0.6, 0.9)
"""Rates that are played, in the rate at which comparing alone would keep the join busy."""


@dataclass(frozen=True)
class BatchDelays:
    """Mean milliseconds from a tuple's arrival to the end of its push, by policy and by load."""

    delays_ms: dict[str, dict[float, float]]


def play_backlog(rate: float, limit: int, block: int, costs: Costs, window: float, tuples: int) -> float:
    """Play ``tuples`` of each stream to a join behind a backlog; return the mean delay, seconds."""
    backlog = Backlog(limit, block)
    arrivals = sorted(
        (number / rate + 0.5 * unit / rate, name, number) for unit, name in enumerate("RS") for number in range(tuples)
    )
    due = {(name, number): at for at, name, number in arrivals}
    now, next_one, total = 0.0, 0, 0.0
    while next_one < len(arrivals) or backlog:
        while next_one < len(arrivals) and arrivals[next_one][0] <= now:
            _, name, number = arrivals[next_one]
            backlog.put(name, pa.record_batch({"number": [number]}))
            next_one += 1
        portion = backlog.take(rest=next_one == len(arrivals))
        if portion is None:
            now = max(now, arrivals[next_one][0])
            continue
        assert portion.batch is not None
        now += (costs.push_ns + len(portion) * (costs.tuple_ns + window * costs.pair_ns)) * 1e-9
        total += sum(now - due[portion.stream, number] for number in portion.batch.column("number").to_pylist())
    return total / len(arrivals)


def measure_batching(setting: Setting) -> BatchDelays:
    """Play streams of several rates to each policy."""
    costs, tuples = measure_costs("cell", BANDS), 200 if setting.quick else 1_500
    full = 1e9 / (2 * (costs.tuple_ns + _WINDOW * costs.pair_ns))
    return BatchDelays(
        {
            name: {load: 1e3 * play_backlog(load * full, limit, block, costs, _WINDOW, tuples) for load in _LOADS}
            for name, (limit, block) in _POLICIES.items()
        }
    )


def figure_batching(found: BatchDelays) -> Figure:
    """Draw the delay by load and policy."""
    whatever, single, many = (found.delays_ms[name] for name in _POLICIES)
    low, high = min(whatever), max(whatever)
    place = "section 4.2"
    return Figure(
        "celljoin",
        "batching",
        "Delay by load and by how a batch is taken",
        "Whole unit blocks are taken, at most l of them, and a stream that has less than one is skipped. While tuples "
        "come slowly, a larger l costs nothing, as no more is taken than is there; when they come fast, it lowers the "
        "delay.",
        "load, as a share of what comparing alone allows",
        "mean delay of a tuple, ms",
        tuple(
            Series(name, tuple(points), tuple(points.values()), "simulated") for name, points in found.delays_ms.items()
        ),
        (
            compare(
                "low load: the delay with l = 16, to that with l = 1",
                many[low] / single[low],
                low=0.8,
                high=1.25,
                published="the same",
                place=place,
                unit=" times",
                timed=True,
            ),
            compare(
                "high load: the delay with l = 16, to that with l = 1",
                many[high] / single[high],
                high=0.8,
                published="less",
                place=place,
                unit=" times",
                timed=True,
            ),
            compare(
                "low load: the delay with unit blocks, to that of whatever waits",
                single[low] / whatever[low],
                low=1.0,
                unit=" times",
                timed=True,
            ),
        ),
        "The engine takes whatever waits, since its vectors need no unit block; unit_block of a Backlog is the paper's "
        "way. Waiting for a block is what the paper's way costs at low rates.",
        log_x=True,
        log_y=True,
    )


@dataclass(frozen=True)
class Adapted:
    """Workers by time: those that the load needs, and those that are at work."""

    seconds: tuple[float, ...]
    needed: tuple[float, ...]
    active: tuple[int, ...]


_STEPS = ((0.5, 6.0), (2.6, 8.0), (5.5, 8.0), (1.2, 8.0), (0.3, 6.0))
"""Workers' worth of load, and for how many seconds."""


def play_staff(steps: tuple[tuple[float, float], ...], most: int = 8, call_s: float = 0.01) -> Adapted:
    """Play a load that changes to the engine's rule, by a clock of its own."""
    staff = Staff(most, adaptive=True)
    now, seconds, needed, active = 0.0, [], [], []
    staff._began = 0.0
    for load, length in steps:
        end = now + length
        while now < end:
            staff._entered = now
            staff.review(now + min(call_s, call_s * load / staff.active))
            now += call_s
            seconds.append(now)
            needed.append(load)
            active.append(staff.active)
    return Adapted(tuple(seconds), tuple(needed), tuple(active))


def measure_adaptation(_: Setting) -> Adapted:
    """Play a load that rises and falls."""
    return play_staff(_STEPS)


def figure_adaptation(found: Adapted) -> Figure:
    """Draw the workers at work beside those that are needed."""
    pairs = list(zip(found.needed, found.active, strict=True))
    short = sum(active < needed for needed, active in pairs) / len(pairs)
    spare = sum(found.active) / sum(max(1.0, needed) for needed in found.needed)
    return Figure(
        "celljoin",
        "adaptation",
        "Workers that follow the load",
        "A join begins with one co-processor, takes more when tuples come faster than it processes them, and frees one "
        "when it is fast enough; not too often, since that costs something.",
        "seconds",
        "workers",
        (
            Series("load, in workers", found.seconds, found.needed, "computed"),
            Series("at work", found.seconds, tuple(map(float, found.active)), "simulated"),
        ),
        (
            compare(
                "workers at the beginning",
                float(found.active[0]),
                low=1.0,
                high=1.0,
                published="1",
                place="section 7.3",
            ),
            compare(
                "share of the time in which too few are at work",
                short,
                high=0.25,
                published="more are brought in",
                place="section 7.3",
            ),
            compare(
                "workers at the end, when a third of one would do",
                float(found.active[-1]),
                high=1.0,
                published="freed",
                place="section 7.3",
            ),
            compare("workers at work on average, to those that the load needs", spare, high=2.5, unit=" times"),
        ),
        "The rule is the engine's: it looks at the share of time that is spent in calls every quarter of a second, "
        "where the paper compares the rates of input and processing. A worker that is freed sleeps, so taking it back "
        "costs little.",
    )
