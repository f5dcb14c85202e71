"""What a running join reports: counters of every micro-batch, through Spark's own progress."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as sf
from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

__all__ = ["METRICS", "Listener", "Progress", "counted", "counters", "progress_of"]

METRICS = "crosswind"
"""The name under which counters are found in ``progress.observedMetrics``, with a mark of the join behind it."""


@dataclass(frozen=True)
class Progress:
    """What one micro-batch of a join did; sums over its cells.

    ``tuples`` came in and were not late, ``late`` were, ``rejected`` had no time;
    ``window_tuples`` wait (copies in several cells counted each); ``cache_hits`` are cells
    whose windows the worker still had; ``join_ms`` is the longest time a cell spent joining,
    ``state_ms`` reading and writing its state.
    """

    batch: int
    tuples: int
    late: int
    rejected: int
    results: int
    window_tuples: int
    state_bytes: int
    blocks_read: int
    cache_hits: int
    cache_misses: int
    cache_bytes: int
    join_ms: float
    state_ms: float
    batch_ms: float

    def __add__(self, other: Progress) -> Progress:
        """Add up what came and went; of what is held and of times, the later or longer counts."""
        summed = ("tuples", "late", "rejected", "results", "blocks_read", "cache_hits", "cache_misses", "batch_ms")
        values = {f.name: max(getattr(self, f.name), getattr(other, f.name)) for f in fields(self)}
        values |= {name: getattr(self, name) + getattr(other, name) for name in summed}
        later = other if other.batch >= self.batch else self
        values |= {name: getattr(later, name) for name in ("window_tuples", "state_bytes", "cache_bytes")}
        return Progress(**values)


def counters() -> list[Column]:
    """Return the aggregates that are observed over the rows of the cells."""
    named = [f.name for f in fields(Progress) if f.name not in ("batch", "batch_ms")]
    return [(sf.max(name) if name.endswith("_ms") else sf.sum(name)).alias(name) for name in named]


def counted(frame: Any, name: str) -> Any:
    """Return ``frame``, which reports under ``name`` how many ``tuples`` were read from it in a micro-batch."""
    return frame.observe(name, sf.count(sf.lit(1)).alias("tuples"))


def progress_of(progress: Any) -> Progress | None:
    """Return the counters in a streaming query's progress, or None if it holds no join.

    Parameters
    ----------
    progress : StreamingQueryProgress
        ``query.lastProgress``, an item of ``query.recentProgress``, or ``event.progress``.
    """
    if progress is None:
        return None
    found = [_named(row.asDict()) for name, row in progress.observedMetrics.items() if name.startswith(METRICS)]
    if not found:
        return None
    values: dict[str, Any] = {"batch": progress.batchId, "batch_ms": float(progress.batchDuration)}
    for field in fields(Progress):
        if field.name not in values:
            kind = float if field.name.endswith("_ms") else int
            values[field.name] = kind(sum(row.get(field.name) or 0 for row in found))
    return Progress(**values)


def _named(row: dict[str, Any]) -> dict[str, Any]:
    """Return counters by name; over Spark Connect a row has become its values and their schema."""
    if set(row) != {"values", "schema"}:
        return row
    return {field["name"]: value for field, value in zip(row["schema"]["fields"], row["values"], strict=True)}


class Listener(StreamingQueryListener):
    """Hands the counters of every micro-batch to a function.

    Parameters
    ----------
    receive : callable
        Called with a :class:`Progress`.

    Examples
    --------
    ``spark.streams.addListener(crosswind.spark.Listener(print))``
    """

    def __init__(self, receive: Callable[[Progress], None]) -> None:
        self._receive = receive

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's names
        """Nothing to report yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's names
        """Report a micro-batch."""
        progress = progress_of(event.progress)
        if progress is not None:
            self._receive(progress)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802 - Spark's names
        """Nothing happened."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - Spark's names
        """Nothing more will come."""
