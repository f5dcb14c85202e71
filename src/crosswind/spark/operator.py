"""The stateful operator: every cell is a key, its state a manifest and a map of blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle, TimerValues

from crosswind.errors import SnapshotError, SparkError
from crosswind.io.blocks import BLOCK_BYTES, concat_batches, read_block, rows_within, write_block
from crosswind.spark.cache import CACHE
from crosswind.spark.cell import Cell, CellInput, Found, Report
from crosswind.spark.dropped import NO_TIME, Dropped
from crosswind.spark.spec import JoinSpec

__all__ = ["OUTPUT", "CellProcessor", "SparkStore", "result_blocks"]

_RESULT_ROWS = 1 << 16
"""Rows of a result block, if they are not too wide."""

_COUNTERS = ", ".join(f"{f.name} {'double' if f.name.endswith('_ms') else 'long'}" for f in fields(Report))
OUTPUT = f"cell int, query string, block binary, unit int, dropped string, rejected long, {_COUNTERS}"
"""The columns of what cells give out: result blocks, blocks of tuples that were dropped (of which unit, and why), and
one row of counters per cell and micro-batch."""


class SparkStore:
    """The state of the current key, in Spark's state store."""

    def __init__(self, manifest: Any, blocks: Any) -> None:
        self._manifest, self._blocks = manifest, blocks

    def read_manifest(self) -> bytes | None:
        """Return the manifest, or None if there is no state yet."""
        row = _asked(self._manifest.get)
        return None if row is None else bytes(row[0])

    def write_manifest(self, data: bytes) -> None:
        """Replace the manifest."""
        _asked(self._manifest.update, (data,))

    def read(self, name: str) -> bytes | None:
        """Return a block, or None if there is none of that name."""
        row = _asked(self._blocks.getValue, (name,))
        return None if row is None else bytes(row[0])

    def write(self, name: str, data: bytes) -> None:
        """Add a block."""
        _asked(self._blocks.updateValue, (name,), (data,))

    def remove(self, name: str) -> None:
        """Remove a block."""
        _asked(self._blocks.removeKey, (name,))

    def has_blocks(self) -> bool:
        """Whether there is any block."""
        return bool(_asked(self._blocks.exists))


def _asked(call: Callable[..., Any], *arguments: Any) -> Any:
    """Return what Spark's state store answers. If it fails it hangs up, and what it met is in Spark's log alone."""
    try:
        return call(*arguments)
    except (EOFError, ConnectionError):
        raise SparkError(
            "Spark's state store hung up in the middle of a micro-batch, most often because a disk is full: make room "
            "where the checkpoint and spark.local.dir are. The log of the executor says what it met. The micro-batch "
            "was not taken; a query that is started again with its checkpoint goes on from there."
        ) from None


class CellProcessor(StatefulProcessor):
    """Joins the blocks of each cell with what waits in its state.

    Parameters
    ----------
    spec : JoinSpec
        The join.
    keys : tuple of int
        The keys under which Spark knows the cells.
    """

    def __init__(self, spec: JoinSpec, keys: tuple[int, ...]) -> None:
        self._spec, self._keys = spec, keys

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state."""
        self._handle = handle
        manifest = handle.getValueState("manifest", "content binary")
        self._store = SparkStore(manifest, handle.getMapState("blocks", "name string", "content binary"))

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: TimerValues) -> Iterator[pd.DataFrame]:  # noqa: N802, N803 - Spark's names
        """Join what came for one cell."""
        arrivals, report, rejected = [], Report(), 0
        for frame in rows:
            rejected += int(frame["rejected"].sum())
            report.tuples += int(frame["tuples"][frame["block"].isna()].sum())
            parts = [frame[name] for name in ("unit", "is_primary", "rejected", "block")]
            for unit, primary, without_time, block in zip(*parts, strict=True):
                if block is not None and without_time:
                    yield from _dropped_rows(int(key[0]), Dropped(int(unit), NO_TIME, read_block(block)))
                elif block is not None:
                    arrivals.append(CellInput(int(unit), bool(primary), read_block(block)))
        yield from self._process(int(key[0]), arrivals, rejected, report, timerValues)

    def handleExpiredTimer(self, key: Any, timerValues: TimerValues, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803, ARG002 - Spark's names
        """Give out what the watermark alone completes, and release what it has passed."""
        yield from self._process(int(key[0]), [], 0, None, timerValues)

    def close(self) -> None:
        """Nothing to release: joins stay in the cache of the process."""

    def _process(
        self, key: int, arrivals: list[CellInput], rejected: int, counted: Report | None, timer_values: TimerValues
    ) -> Iterator[pd.DataFrame]:
        """Run one cell; ``counted`` is what came for it (None: a timer, and the cell may have reported already)."""
        report = counted or Report()
        if key not in self._keys:
            raise SnapshotError(
                f"the checkpoint holds state under the key {key}, which none of the {len(self._keys)} cells of this "
                f"join has: it was written by another version of Crosswind, or with another layout. Restart with that "
                f"one, or with a new checkpointLocation."
            )
        number = self._keys.index(key)
        # A watermark that a frame brings may be there before the first tuple of this join.
        cell = Cell(self._spec, self._store, CACHE, number, hears_all=number == 0 and not self._spec.by_previous)
        now = self._spec.own_watermark(timer_values.getCurrentWatermarkInMs())
        for query, block in result_blocks(cell.process(arrivals, now, report)):
            yield _row(key, query=query, block=block)
        for dropped in cell.dropped:
            yield from _dropped_rows(key, dropped)
        if cell.timer is not None:
            self._handle.registerTimer(self._spec.spark_timer(cell.timer))
        if counted is not None or not cell.is_idle:  # one report: what it holds is added up over the cells
            yield _row(key, report, rejected + cell.set_aside)


def result_blocks(found: Iterable[Found]) -> Iterator[tuple[str, bytes]]:
    """Yield results as blocks of a good size, each with the name of its query."""
    waiting: dict[str, list[pa.RecordBatch]] = {}
    for query, table in found:
        for batch in table.to_batches(max_chunksize=min(_RESULT_ROWS, rows_within(table))):
            mine = [*waiting.get(query, []), batch]
            rows, size = sum(part.num_rows for part in mine), sum(part.nbytes for part in mine)
            if len(mine) > 1 and (rows > _RESULT_ROWS or size > BLOCK_BYTES):
                yield query, write_block(concat_batches(waiting.pop(query)))
                mine = [batch]
            waiting[query] = mine
    for query, batches in waiting.items():
        yield query, write_block(concat_batches(batches))


def _dropped_rows(key: int, dropped: Dropped) -> Iterator[pd.DataFrame]:
    for block in dropped.blocks():
        yield _row(key, block=block, unit=dropped.unit, dropped=dropped.reason)


def _row(
    key: int,
    report: Report | None = None,
    rejected: int = 0,
    *,
    query: str | None = None,
    block: bytes | None = None,
    unit: int = -1,
    dropped: str | None = None,
) -> pd.DataFrame:
    counted = {name: [value] for name, value in vars(report or Report()).items()}
    content = {"cell": key, "query": query, "block": block, "unit": unit, "dropped": dropped, "rejected": rejected}
    return pd.DataFrame({name: [value] for name, value in content.items()} | counted)
