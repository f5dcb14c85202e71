"""What a running join reports: counters of every micro-batch, through Spark's own progress."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as sf
from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

__all__ = [
    "METRICS",
    "CellProgress",
    "CellTotal",
    "Listener",
    "Progress",
    "add_cells",
    "counted",
    "counters",
    "progress_of",
]

METRICS = "crosswind"
"""The name under which counters are found in ``progress.observedMetrics``, with a mark of the join behind it."""

_CELLS_MAX = 64
"""Cells that are reported one by one: each adds columns to what Spark observes."""
_GAUGES = ("window_tuples", "state_bytes", "cache_bytes")
"""What is there now, not what came: a cell that has nothing to do in a micro-batch still holds it."""
_OF_CELL = ("window_tuples", "results", "join_ms", "state_bytes", "cache_bytes")
_CHANGES = ("window_change", "state_change")
"""How the first gauges changed; needed where there are too many cells to report one by one."""
_TOGETHER = -1
"""Stands for all cells together."""


@dataclass(frozen=True)
class CellProgress:
    """What one cell did in a micro-batch; ``window_tuples`` wait in it, ``state_bytes`` are its state."""

    cell: int
    window_tuples: int
    results: int
    join_ms: float
    state_bytes: int = 0
    cache_bytes: int = 0


@dataclass(frozen=True)
class Progress:
    """What one micro-batch of a join did; sums over its cells.

    ``tuples`` came in and were not late, ``late`` were, ``rejected`` had no time;
    ``window_tuples`` wait (copies in several cells counted each); ``cache_hits`` are cells
    whose windows the worker still had; ``join_ms`` is the longest time a cell spent joining,
    ``state_ms`` reading and writing its state. ``cells`` has those cells that had something to do, one by one,
    in joins of up to 64 cells. ``held`` has what each cell last said of itself, so ``window_tuples``, ``state_bytes``
    and ``cache_bytes`` are those of all cells that have reported so far (see :func:`progress_of`).

    Examples
    --------
    >>> from crosswind.spark import Progress
    >>> first = Progress(0, 10, 1, 0, 3, 9, 500, 0, 0, 2, 0, 4.0, 1.0, 800.0)
    >>> second = Progress(1, 10, 0, 0, 2, 15, 700, 0, 2, 0, 0, 3.0, 2.0, 700.0)
    >>> total = first + second
    >>> total.tuples, total.results, total.window_tuples, total.batch_ms
    (20, 5, 15, 1500.0)
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
    cells: tuple[CellProgress, ...] = ()
    held: Mapping[tuple[str, int], CellProgress] = field(default_factory=dict, repr=False, compare=False)

    def __add__(self, other: Progress) -> Progress:
        """Add up what came and went; of what is held and of times, the later or longer counts."""
        summed = ("tuples", "late", "rejected", "results", "blocks_read", "cache_hits", "cache_misses", "batch_ms")
        values: dict[str, Any] = {name: getattr(self, name) + getattr(other, name) for name in summed}
        values |= {name: max(getattr(self, name), getattr(other, name)) for name in ("batch", "join_ms", "state_ms")}
        later = other if other.batch >= self.batch else self
        values |= {name: getattr(later, name) for name in (*_GAUGES, "cells", "held")}
        return Progress(**values)


_SUMMED = tuple(f.name for f in fields(Progress) if f.name not in ("batch", "batch_ms", "cells", "held"))


def counters(keys: Sequence[int]) -> list[Column]:
    """Return the aggregates that are observed over the rows of the cells, whose grouping keys are ``keys``."""
    columns = [(sf.max(name) if name.endswith("_ms") else sf.sum(name)).alias(name) for name in _SUMMED]
    for cell, key in enumerate(keys if len(keys) <= _CELLS_MAX else ()):
        mine = sf.col("cell") == key
        columns += [sf.sum(sf.when(mine, sf.col(name))).alias(f"{name}_{cell}") for name in _OF_CELL]
    if len(keys) > _CELLS_MAX:
        columns += [sf.sum(name).alias(name) for name in _CHANGES]
    return columns


def counted(frame: Any, name: str) -> Any:
    """Return ``frame``, which reports under ``name`` how many ``tuples`` were read from it in a micro-batch."""
    return frame.observe(name, sf.count(sf.lit(1)).alias("tuples"))


def progress_of(progress: Any, before: Progress | None = None) -> Progress | None:
    """Return the counters in a streaming query's progress, or None if it holds no join.

    Parameters
    ----------
    progress : StreamingQuery or StreamingQueryProgress
        The query: the counters of its last micro-batch, with what all cells hold that have reported in those that Spark
        remembers. Or one report: ``query.lastProgress``, an item of ``query.recentProgress``, or ``event.progress``.
    before : Progress, optional
        The counters of the micro-batch before. In a micro-batch only those cells report to which something came, or
        whose windows closed; what the others hold is taken from there. Without it, a report leaves it out.

    Examples
    --------
    >>> import crosswind as cw
    >>> cw.spark.progress_of(None) is None  # before the first micro-batch
    True
    """
    if progress is None:
        return None
    if hasattr(progress, "recentProgress"):
        for report in progress.recentProgress:
            before = progress_of(report, before) or before
        return before
    found = {name: _named(row.asDict()) for name, row in progress.observedMetrics.items() if name.startswith(METRICS)}
    if not found:
        return None
    values: dict[str, Any] = {"batch": progress.batchId, "batch_ms": float(progress.batchDuration)}
    for name in _SUMMED:
        kind = float if name.endswith("_ms") else int
        values[name] = kind(sum(row.get(name) or 0 for row in found.values()))
    held = dict(before.held) if before is not None else {}
    for name, row in found.items():
        _hold(held, name, row)
    values |= {name: sum(getattr(cell, name) for cell in held.values()) for name in _GAUGES}
    # Cells of two joins in one query would be mixed up.
    return Progress(**values, cells=_cells(next(iter(found.values()))) if len(found) == 1 else (), held=held)


def _hold(held: dict[tuple[str, int], CellProgress], name: str, row: dict[str, Any]) -> None:
    """Take over what the cells of the join ``name`` said they hold."""
    if _CHANGES[0] not in row:
        held.update({(name, cell.cell): cell for cell in _cells(row)})
    elif row[_CHANGES[0]] is not None:
        known = held.get((name, _TOGETHER))
        waiting, state = (
            int(row[gauge]) if known is None else getattr(known, gauge) + int(row[change])
            for gauge, change in zip(_GAUGES, _CHANGES, strict=False)
        )
        held[name, _TOGETHER] = CellProgress(_TOGETHER, waiting, 0, 0.0, state, int(row["cache_bytes"]))


def _cells(row: dict[str, Any]) -> tuple[CellProgress, ...]:
    """Return what each cell reported; those of two joins in one query would be mixed up."""
    cells = []
    for cell in range(_CELLS_MAX):
        if row.get(f"window_tuples_{cell}") is not None:
            waiting, results, join_ms, state, cache = (row[f"{name}_{cell}"] for name in _OF_CELL)
            cells.append(CellProgress(cell, int(waiting), int(results), float(join_ms), int(state), int(cache)))
    return tuple(cells)


def _named(row: dict[str, Any]) -> dict[str, Any]:
    """Return counters by name; over Spark Connect a row has become its values and their schema."""
    if set(row) != {"values", "schema"}:
        return row
    return {field["name"]: value for field, value in zip(row["schema"]["fields"], row["values"], strict=True)}


@dataclass
class CellTotal:
    """What a cell has done so far, and what waits in it."""

    busy_s: float = 0.0
    results: int = 0
    window_tuples: int = 0


def add_cells(totals: dict[int, CellTotal], progress: Progress) -> None:
    """Add what the cells did in a micro-batch to what they had done before."""
    for cell in progress.cells:
        total = totals.setdefault(cell.cell, CellTotal())
        total.busy_s += cell.join_ms / 1e3
        total.results += cell.results
        total.window_tuples = cell.window_tuples


class Listener(StreamingQueryListener):
    """Hands the counters of every micro-batch to a function.

    Parameters
    ----------
    receive : callable
        Called with a :class:`Progress`.

    Examples
    --------
    >>> import crosswind as cw
    >>> listener = cw.spark.Listener(print)
    >>> spark.streams.addListener(listener)
    >>> spark.streams.removeListener(listener)
    """

    def __init__(self, receive: Callable[[Progress], None]) -> None:
        self._receive = receive
        self._before: dict[str, Progress] = {}

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's names
        """Nothing to report yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's names
        """Report a micro-batch."""
        run = str(event.progress.runId)
        progress = progress_of(event.progress, self._before.get(run))
        if progress is not None:
            self._before[run] = progress
            self._receive(progress)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802 - Spark's names
        """Nothing happened."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - Spark's names
        """Forget the query: nothing more will come."""
        self._before.pop(str(event.runId), None)
