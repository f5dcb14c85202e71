"""The capacity calculator: cores, memory, layout and latency for a rate, a window and a predicate.

The parts of the cost of a tuple come from the cost model (:mod:`crosswind.plan.cost`) and its calibrated constants.
What the model leaves out, because it does not depend on basic windows, is measured in a moment on random tuples of
the same schema: intake, results, a push, and how many pairs match.
"""

from __future__ import annotations

import dataclasses
import math
import time
from dataclasses import dataclass

from crosswind.bench.live import DrivenJoin
from crosswind.engine.join import Join
from crosswind.engine.session import open as open_join
from crosswind.engine.session import plan_for
from crosswind.lab.streams import Uniform
from crosswind.plan.calibration import calibration
from crosswind.plan.compile import Plan
from crosswind.plan.cost import curve_of
from crosswind.plan.grid import Load, choose_sides, mean_pairs
from crosswind.plan.layout import choose_layout as choose_cells
from crosswind.plan.layout import describe_layout
from crosswind.plan.physical import RUN_MAX

__all__ = ["Checked", "Sample", "Size", "check_size", "cost_ns", "size_of", "take_sample"]

_BUSY_MAX = 0.7
"""Share of its time that a worker may be busy: bursts and the machine's other work need the rest."""
_EFFICIENCY = 0.85
"""What a worker more is worth: ``bench scale`` asks 1.7 times of two."""
_SAMPLE = 8_192
_BATCH = 1_024
_SMALL, _LARGE = 1_024, 8_192
"""Tuples in the windows whose difference says what a pair costs."""
_SHARED_CELLS = 16
"""Tuples that are compared for each that is in the box, about: those beside it in its cells."""


@dataclass(frozen=True)
class Sample:
    """What a short run shows of a predicate.

    Parameters
    ----------
    match : float
        Share of all pairs that match.
    tuple_ns : float
        A tuple, without the search: intake, insert, expiry.
    result_ns : float
        A result.
    push_ns : float
        A call of ``push``, whatever it brings.
    tuple_bytes : float
        Memory of a tuple that waits.
    pair_ns : float
        To compare a pair: its keys, or where nothing can be looked up the whole condition.
    """

    match: float
    tuple_ns: float
    result_ns: float
    push_ns: float
    tuple_bytes: float
    pair_ns: float


@dataclass(frozen=True)
class Size:
    """What a load needs.

    Parameters
    ----------
    engine, index : str
        What would run it.
    cores : int
        Workers, each at most 70 % busy.
    utilisation : float
        Share of one core that the load takes.
    memory_mb : float
        Of both windows.
    layout : tuple of int
        Rows and columns, where the windows are cut up in one process.
    spark : str
        The layout on Spark.
    latency_ms : float
        Mean, from a tuple's arrival to its results.
    results_per_s : float
        Results.
    parts_ns : dict of str to float
        What a tuple costs, by part.
    """

    engine: str
    index: str
    cores: int
    utilisation: float
    memory_mb: float
    layout: tuple[int, int]
    spark: str
    latency_ms: float
    results_per_s: float
    parts_ns: dict[str, float]


@dataclass(frozen=True)
class Checked:
    """A short run at a rate that fits: what the model says a tuple costs, and what it does cost, nanoseconds."""

    rate: int
    predicted_ns: float
    measured_ns: float


def take_sample(workload: Uniform, match: float | None = None) -> Sample:
    """Join a few random tuples of the workload's streams; see :class:`Sample`."""
    plan = plan_for(workload.sql, workload.schemas)
    known = calibration().constants
    key_bytes = _key_bytes(plan)
    small, tuple_bytes = _steady_ns(workload, _SMALL)
    calls, _ = _steady_ns(workload, _SMALL, batch=1)
    push_ns = max(0.0, calls - small)
    if all(key_bytes):
        pair_ns = max(key_bytes) * known.compare_ns
    else:
        large, tuple_bytes = _steady_ns(workload, _LARGE)
        pair_ns = max(1e-3, (large - small) / (_LARGE - _SMALL))
    tuple_ns = max(0.0, small - push_ns / _BATCH - pair_ns * _SMALL)
    share = _match(workload) if match is None else match
    return Sample(share, tuple_ns, _result_ns(workload), push_ns, tuple_bytes, pair_ns)


def _key_bytes(plan: Plan) -> list[float]:
    return [sum(dimension.bits for dimension in access.dimensions) / 8 for access in plan.accesses]


def _steady_ns(workload: Uniform, window: int, batch: int = _BATCH) -> tuple[float, float]:
    """Return the least time of a tuple with ``window`` tuples waiting on both sides, and the bytes of one."""
    some = dataclasses.replace(workload, rate=window, window_us=1_000_000)
    with open_join(some.sql, some.schemas) as join:
        driver = _Driver(join, some)
        driver.go(_BATCH, 2 + 2 * window // _BATCH)
        taken = driver.go(batch, 12)
        held = join.stats.bytes_held / max(1, sum(join.stats.window_tuples.values()))
    return min(taken) / batch * 1e9, held


def _match(workload: Uniform) -> float:
    """Return the share of pairs that match, among random tuples."""
    some = dataclasses.replace(workload, rate=_SAMPLE, window_us=2_000_000)
    with open_join(some.sql, some.schemas) as join:
        rows = sum(join.push(name, some.batch(name, 0, _SAMPLE)).num_rows for name in some.schemas)
    return float(rows) / _SAMPLE**2


def _result_ns(workload: Uniform) -> float:
    """Return what a result takes: tuples of one stream meet a window of the other in which all match."""
    left, right = workload.schemas
    every = f"{right}.ts >= {left}.ts"
    some = dataclasses.replace(workload, rate=_SMALL, window_us=3_000_000, predicate=every)
    best = math.inf
    with open_join(some.sql, some.schemas, index="scan") as join:
        join.push(left, some.batch(left, 0, _SMALL))
        for turn in range(4):
            batch = some.batch(right, _SMALL + 64 * turn, 64)
            began = time.thread_time()
            found = join.push(right, batch).num_rows
            best = min(best, (time.thread_time() - began) / max(1, found))
    return best * 1e9


class _Driver:
    """Pushes the streams of a workload in turn, and takes the processor's time: what cores are counted in."""

    def __init__(self, join: Join, workload: Uniform, first: int = 0) -> None:
        self._join, self._workload, self._next = join, workload, first

    def go(self, batch: int, turns: int, seconds: float = math.inf) -> list[float]:
        """Push ``turns`` batches of each stream, or until ``seconds`` were spent; return what each took."""
        taken: list[float] = []
        for _ in range(turns):
            for name in self._workload.schemas:
                some = self._workload.batch(name, self._next, batch)
                began = time.process_time()
                self._join.push(name, some)
                taken.append(time.process_time() - began)
            self._next += batch
            if sum(taken) > seconds:
                break
        return taken


def cost_ns(plan: Plan, window: float, sample: Sample) -> dict[str, float]:
    """Return what a tuple costs by part, with ``window`` tuples of the other stream waiting."""
    known = calibration().constants
    parts = {"intake and expiry": sample.tuple_ns, "results": window * sample.match * sample.result_ns}
    key_bytes = _key_bytes(plan)
    if all(key_bytes):
        curve = curve_of(plan, "auto", known)
        parts["arranging, and the open basic window"] = curve.cost_ns(curve.size) / 2
        parts["looking into runs"] = known.run_ns * max(0.0, window / RUN_MAX - 1)
        # What shares a cell with a match is compared, too.
        parts["candidates"] = _SHARED_CELLS * window * sample.match * sample.pair_ns
    else:
        parts["every pair"] = window * sample.pair_ns
    return parts


def size_of(workload: Uniform, sample: Sample) -> Size:
    """Return what the load of ``workload`` needs."""
    plan = plan_for(workload.sql, workload.schemas)
    window = float(workload.window_tuples)
    parts = cost_ns(plan, window, sample)
    taken_s = sum(parts.values()) * 1e-9
    utilisation = 2 * workload.rate * taken_s
    cores = 1
    if utilisation > _BUSY_MAX:
        cores = 1 + math.ceil((utilisation / _BUSY_MAX - 1) / _EFFICIENCY)
    indexed = "every pair" not in parts
    load = Load((float(workload.rate),) * 2, (window, window))
    sides = (1, 1) if indexed else choose_sides(cores, load)
    each = utilisation / (1 + (cores - 1) * _EFFICIENCY)
    # Whatever comes while a push runs is the next one: so a push takes push / (1 - busy), and a tuple waits half
    # of one and then its own.
    push_s = sample.push_ns * 1e-9 / max(0.05, 1 - each)
    scan_s = 0.0 if indexed else mean_pairs(sides, load) * sample.pair_ns * 1e-9
    lines = describe_layout(choose_cells(plan, "auto", cores, cores=cores), plan)
    return Size(
        "kang" if cores == 1 else "cell" if indexed else "grid",
        "band or hash" if indexed else "none: every pair is compared",
        cores,
        utilisation,
        2 * window * sample.tuple_bytes / 1e6,
        sides,
        lines[0],
        (1.5 * push_s + scan_s) * 1e3,
        2 * workload.rate * window * sample.match,
        parts,
    )


def check_size(workload: Uniform, sample: Sample, seconds: float, tuples_max: int = 600_000) -> list[Checked]:
    """Run the join at lower rates with full windows, and compare what a tuple costs with what the model says."""
    plan = plan_for(workload.sql, workload.schemas)
    greatest = min(float(workload.rate), tuples_max / (workload.window_us / 1e6))
    if "every pair" in cost_ns(plan, 1.0, sample):
        # Pairs are many: as many tuples as can be driven through in the time that is given.
        greatest = min(greatest, seconds / (_BATCH * 4 * sample.pair_ns * 1e-9) / (workload.window_us / 1e6))
    found = []
    for share in (0.1, 0.3, 1.0):
        some = dataclasses.replace(workload, rate=max(1, round(greatest * share)))
        live = DrivenJoin(some, "auto", _BATCH)
        driver = _Driver(live.join, some, live.next)
        driver.go(_BATCH, 4)
        taken = driver.go(_BATCH, 10_000, seconds)
        live.close()
        predicted = sum(cost_ns(plan, float(some.window_tuples), sample).values()) + sample.push_ns / _BATCH
        found.append(Checked(some.rate, predicted, sum(taken) / len(taken) / _BATCH * 1e9))
    return found
