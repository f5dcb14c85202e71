"""Joins with full windows, ready to be measured."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from crosswind.bench.workload import BAND, BandWorkload, KeyWorkload
from crosswind.engine.join import Join
from crosswind.engine.session import open as open_join
from crosswind.errors import CrosswindError

__all__ = ["LiveJoin", "Stretch", "expected_rows", "open_full"]

_WARM_UP_PUSHES = 2


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
    """

    tuples: int
    results: int
    seconds: float
    event_s: float


def open_full(
    sql: str,
    schemas: Mapping[str, pa.Schema],
    history: Mapping[str, Callable[[], Iterable[pa.RecordBatch]]],
    index: str,
) -> Join:
    """Open a join whose windows hold ``history``, without joining the history with itself.

    Joining it would take as long as the rates that ``rate`` looks for allow: minutes for windows of
    minutes. So each stream is pushed while the other window is empty, the second one into a join of its
    own, whose state then goes into the first by snapshot and restore.

    Parameters
    ----------
    sql, schemas, index
        As for ``crosswind.open``.
    history : mapping of str to callable
        By stream, in FROM order: a function that gives its batches.
    """
    first, second = history
    with open_join(sql, schemas, index=index) as aside:
        for batch in history[second]():
            aside.push(second, batch)
        held = aside.stats.window_tuples
        state = aside.snapshot()
    join = open_join(sql, schemas, index=index)
    for batch in history[first]():
        join.push(first, batch)
    held = {first: join.stats.window_tuples[first], second: held[second]}
    join.restore(state)
    if join.stats.window_tuples != held:
        raise CrosswindError(
            f"the benchmark could not fill the windows: they hold {join.stats.window_tuples}, not {held}. "
            "Join.restore() must add to what a join holds."
        )
    return join


class LiveJoin:
    """A join with full windows, driven on in steps of event time.

    Parameters
    ----------
    workload : BandWorkload or KeyWorkload
        What is joined.
    index : str
        As for ``crosswind.open``.
    batch_tuples : int
        Tuples of a stream in one push.
    """

    def __init__(self, workload: BandWorkload | KeyWorkload, index: str, batch_tuples: int) -> None:
        self.workload = workload
        self.batch_tuples = batch_tuples
        self.next = workload.window_tuples
        self.join = open_full(
            workload.sql,
            workload.schemas,
            {name: lambda name=name: workload.batches(name, 0, self.next) for name in workload.schemas},  # type: ignore[misc]
            index,
        )
        self.drive(pushes=_WARM_UP_PUSHES)

    def drive(self, *, pushes: int | None = None, seconds: float | None = None) -> Stretch:
        """Push batches of both streams in turn: ``pushes`` times, or until ``seconds`` were spent in ``push``.

        Generating the tuples is not part of the time.
        """
        tuples, results, spent, count = 0, 0, 0.0, 0
        while (pushes is None or count < pushes) and (seconds is None or spent < seconds):
            batches = [(name, self.workload.batch(name, self.next, self.batch_tuples)) for name in ("R", "S")]
            self.next += self.batch_tuples
            for name, batch in batches:
                began = time.perf_counter()
                found = self.join.push(name, batch)
                spent += time.perf_counter() - began
                tuples += batch.num_rows
                results += found.num_rows
            count += 1
        return Stretch(tuples, results, spent, count * self.batch_tuples / self.workload.rate)

    @property
    def index(self) -> str:
        """What the join chose; by stream if that differs."""
        chosen = self.join.stats.index
        return "/".join(dict.fromkeys(chosen.values()))

    def close(self) -> None:
        """Release the windows."""
        self.join.close()

    def check(self, probes: int = 16) -> bool:
        """Push a few tuples of R more, and compare the number of results with what NumPy finds.

        The tuples of S that are waiting are generated anew, so that nothing is taken on trust. The join cannot be
        driven on afterwards.
        """
        if not isinstance(self.workload, BandWorkload):
            raise TypeError("only band joins can be checked")
        batch = self.workload.batch("R", self.next, probes)
        found = int(self.join.push("R", batch).num_rows)
        return found == expected_rows(self.workload, batch, self.batch_tuples, self.next)


def expected_rows(workload: BandWorkload, probes: pa.RecordBatch, step: int, end: int) -> int:
    """Return how many results ``probes`` of R have with the tuples of S before number ``end``.

    Parameters
    ----------
    step : int
        Tuples a push, after the history.
    """
    x, y = (probes.column(name).to_numpy() for name in ("x", "y"))
    times = probes.column("ts").cast(pa.int64()).to_numpy()
    history = workload.batches("S", 0, workload.window_tuples)
    later = (workload.batch("S", first, step) for first in range(workload.window_tuples, end, step))
    count = 0
    for batches in (history, later):
        for batch in batches:
            a, b = batch.column("a").to_numpy(), batch.column("b").to_numpy()
            waiting = batch.column("ts").cast(pa.int64()).to_numpy()
            for k in range(len(x)):
                near = np.flatnonzero((a >= x[k] - BAND) & (a <= x[k] + BAND))
                far = np.abs(b[near].astype(np.float64) - np.float64(y[k]))
                count += int(((far <= workload.band_y) & (np.abs(waiting[near] - times[k]) < workload.window_us)).sum())
    return count
