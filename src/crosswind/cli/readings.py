"""Readings of a running join for the monitor: from an engine in this process, or from Spark's reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from crosswind.cli.report import quantile
from crosswind.monitor.reading import Reading, StreamReading, WorkerReading

if TYPE_CHECKING:
    from crosswind.engine.stats import Stats
    from crosswind.spark.progress import CellTotal, Progress

__all__ = ["reading_of_spark", "reading_of_stats", "starting"]

_QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


def starting(streams: Sequence[str], seconds: float = 0.0) -> Reading:
    """Return the reading of a join to which nothing has come yet."""
    return Reading(seconds, tuple(StreamReading(name, 0) for name in streams), notes={"phase": "starting"})


def reading_of_stats(
    stats: Stats, seconds: float, *, finished: bool = False, notes: Mapping[str, str] | None = None
) -> Reading:
    """Return the reading of a join in this process."""
    streams = tuple(
        StreamReading(
            name,
            taken + stats.late.get(name, 0) + stats.rejected.get(name, 0) + stats.shed.get(name, 0),
            stats.late.get(name, 0),
            stats.rejected.get(name, 0),
            stats.shed.get(name, 0),
        )
        for name, taken in stats.tuples_in.items()
    )
    workers = tuple(WorkerReading(str(k), shift.busy_s, shift.matches) for k, shift in enumerate(stats.workers))
    index = ", ".join(f"{alias} {kind}" for alias, kind in stats.index.items())
    return Reading(
        seconds=seconds,
        streams=streams,
        results=stats.results,
        windows=stats.window_tuples,
        workers=workers or (WorkerReading("0", stats.busy_s, stats.results),),
        latency_s={name: stats.latency_ms[name] / 1e3 for name in _QUANTILES if name in stats.latency_ms},
        batches=stats.pushes,
        state_bytes=stats.bytes_held,
        held=stats.held,
        notes={**({"index": index} if index else {}), **(notes or {})},
        finished=finished,
    )


def reading_of_spark(
    tuples: Mapping[str, int],
    total: Progress | None,
    batch_s: Sequence[float],
    cells: Mapping[int, CellTotal],
    seconds: float,
    *,
    finished: bool = False,
    notes: Mapping[str, str] | None = None,
) -> Reading:
    """Return the reading of a join on Spark; late tuples are known for all streams together only."""
    streams = tuple(StreamReading(name, count) for name, count in tuples.items())
    if total is None:
        return Reading(seconds, streams, notes={"phase": "first micro-batch, which compiles"}, finished=finished)
    return Reading(
        seconds=seconds,
        streams=streams,
        others=StreamReading("all", 0, total.late, total.rejected),
        results=total.results,
        windows={"all": total.window_tuples},
        workers=tuple(
            WorkerReading(str(cell), done.busy_s, done.results, done.window_tuples)
            for cell, done in sorted(cells.items())
        ),
        latency_s={name: quantile(batch_s, q) for name, q in _QUANTILES.items()} if batch_s else {},
        batches=total.batch + 1,
        state_bytes=total.state_bytes,
        notes=notes or {},
        finished=finished,
    )
