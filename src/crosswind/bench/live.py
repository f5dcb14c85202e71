"""Joins with full windows, ready to be measured."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from crosswind.bench.workload import BAND, BandWorkload, KeyWorkload
from crosswind.engine.join import Join
from crosswind.engine.parallel.handshake.engine import Handshake
from crosswind.engine.session import open as open_join
from crosswind.errors import CrosswindError

__all__ = ["DrivenJoin", "Stretch", "expected_rows", "filled_to", "open_full"]

_WARM_UP_PUSHES = 2
_OVERTURE = 16_384
"""Tuples of each stream that are joined before the windows are filled up."""
_OVERTURE_BATCH = 1_024
_WALK_BATCH = 4_096
"""Tuples that are let into the row of a handshake at a time: few enough to spread evenly."""
_CHECKED_PAIRS = 200_000_000
_PROBES_MIN, _PROBES_MAX = 16, 1_000
"""How much of the results is checked: what takes NumPy about a second."""


@dataclass(frozen=True)
class Stretch:
    """What happened while a live join was driven on for a while.

    Parameters
    ----------
    tuples, results : int
        Taken in (both streams), given out.
    seconds : float
        Time spent in ``push``.
    event_s : float
        Event time that went by.
    cpu_s : float
        Processor time spent in ``push``, of all threads: with one worker, what it would take alone on the machine.
    """

    tuples: int
    results: int
    seconds: float
    event_s: float
    cpu_s: float


def open_full(workload: BandWorkload | KeyWorkload, index: str, **options: Any) -> Join:
    """Open a join whose windows are full: they hold the window before tuple number :func:`filled_to`.

    The history is not joined with itself. That would take as long as the rates that ``rate`` looks for allow: minutes
    for windows of minutes. Each stream is pushed while the other's window is empty: S into another join, whose state
    goes into the first by snapshot and restore. Before that a few tuples of both are joined, and let expire: from them
    the planner learns which index to build.
    """
    count, end = workload.window_tuples, filled_to(workload)
    join = open_join(workload.sql, workload.schemas, index=index, **options)
    overture = min(_OVERTURE, count)
    for start in range(0, overture, _OVERTURE_BATCH):
        for name in ("R", "S"):
            join.push(name, workload.batch(name, start, min(_OVERTURE_BATCH, overture - start)))
    begin = workload.batch("R", end - count, 1).column("ts")[0]
    for name in ("R", "S"):
        join.advance(name, begin)
    strategy = join._strategy
    if isinstance(strategy, Handshake):  # what is restored would stand at one end of the row
        strategy.fill(True)
        for start in range(end - count, end, _WALK_BATCH):
            for name in ("R", "S"):
                join.push(name, workload.batch(name, start, min(_WALK_BATCH, end - start)))
        strategy.fill(False)
    else:
        for batch in workload.batches("R", end - count, count):
            join.push("R", batch)
        aside = open_join(workload.sql, workload.schemas, index=index, basic_window=options.get("basic_window"))
        with aside:
            for batch in workload.batches("S", end - count, count):
                aside.push("S", batch)
            join.restore(aside.snapshot())
    held = join.stats.window_tuples
    if held != {"R": count, "S": count}:
        raise CrosswindError(
            f"the benchmark could not fill the windows: they hold {held}, not {count} tuples each. "
            "Join.restore() must add to what a join holds."
        )
    return join


def filled_to(workload: BandWorkload | KeyWorkload) -> int:
    """Return the number of the first tuple of a stream that :func:`open_full` has not pushed."""
    return 3 * workload.window_tuples


class DrivenJoin:
    """A join with full windows, driven on in steps of event time.

    Parameters
    ----------
    workload : BandWorkload or KeyWorkload
        What is joined.
    index : str
        As for ``crosswind.open``.
    batch_tuples : int
        Tuples of a stream in one push.
    options : Any
        As for ``crosswind.open``: engine, workers, basic_window.
    """

    def __init__(
        self,
        workload: BandWorkload | KeyWorkload,
        index: str,
        batch_tuples: int,
        **options: Any,
    ) -> None:
        self.workload = workload
        self.next = filled_to(workload)
        self.join = open_full(workload, index, **options)
        # What is done once, such as building an index over what was restored, a single probe sets off as well.
        self.batch_tuples = 1
        self.drive(pushes=1)
        self.batch_tuples = batch_tuples
        self.drive(pushes=_WARM_UP_PUSHES)

    def drive(self, *, pushes: int | None = None, seconds: float | None = None) -> Stretch:
        """Push batches of both streams in turn: ``pushes`` times, or until ``seconds`` were spent in ``push``.

        Generating the tuples is not part of the time.
        """
        tuples, results, spent, busy, count = 0, 0, 0.0, 0.0, 0
        while (pushes is None or count < pushes) and (seconds is None or spent < seconds):
            batches = [(name, self.workload.batch(name, self.next, self.batch_tuples)) for name in ("R", "S")]
            self.next += self.batch_tuples
            for name, batch in batches:
                began, ran = time.perf_counter(), time.process_time()
                found = self.join.push(name, batch)
                spent += time.perf_counter() - began
                busy += time.process_time() - ran
                tuples += batch.num_rows
                results += found.num_rows
            count += 1
        return Stretch(tuples, results, spent, count * self.batch_tuples / self.workload.rate, busy)

    @property
    def index(self) -> str:
        """What the join chose; by stream if that differs."""
        chosen = self.join.stats.index
        return "/".join(dict.fromkeys(chosen.values()))

    def close(self) -> None:
        """Release the windows."""
        self.join.close()

    def check(self) -> bool:
        """Push a few tuples of R more, and compare the number of results with what NumPy finds.

        The tuples of S that are waiting are generated anew, so that nothing is taken on trust. The join cannot be
        driven on afterwards.
        """
        if not isinstance(self.workload, BandWorkload):
            raise TypeError("only band joins can be checked")
        probes = min(_PROBES_MAX, max(_PROBES_MIN, _CHECKED_PAIRS // self.workload.window_tuples))
        batch = self.workload.batch("R", self.next, probes)
        found = int(self.join.push("R", batch).num_rows)
        return found == expected_rows(self.workload, batch, self.next)


def expected_rows(workload: BandWorkload, probes: pa.RecordBatch, end: int) -> int:
    """Return how many results ``probes`` of R have with the tuples of S before number ``end``."""
    x, y = (probes.column(name).to_numpy() for name in ("x", "y"))
    times = probes.column("ts").cast(pa.int64()).to_numpy()
    count = 0
    first = max(0, end - workload.window_tuples - 1)
    for batch in workload.batches("S", first, end - first):
        a, b = batch.column("a").to_numpy(), batch.column("b").to_numpy()
        waiting = batch.column("ts").cast(pa.int64()).to_numpy()
        for k in range(len(x)):
            near = np.flatnonzero((a >= x[k] - BAND) & (a <= x[k] + BAND))
            far = np.abs(b[near].astype(np.float64) - np.float64(y[k]))
            count += int(((far <= workload.band_y) & (np.abs(waiting[near] - times[k]) < workload.window_us)).sum())
    return count
