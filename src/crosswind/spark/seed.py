"""State written by a query of its own: one micro-batch that joins nothing and leaves cells behind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pandas as pd
from pyspark.sql import functions as sf
from pyspark.sql.streaming.stateful_processor import TimerValues

from crosswind.spark.cache import JoinCache
from crosswind.spark.cell import Cell
from crosswind.spark.failure import wait
from crosswind.spark.operator import OUTPUT, CellProcessor
from crosswind.spark.reroute import MANIFEST, adopted_of
from crosswind.spark.session import settings
from crosswind.spark.spec import JoinSpec

__all__ = ["COPIED", "AdoptProcessor", "CopyProcessor", "write_state"]

COPIED = "cell int, name string, content binary, timer long"
"""Parts of the state of a cell as they are, and its timers."""

_PARTITIONS = "spark.sql.shuffle.partitions"
_CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"


class AdoptProcessor(CellProcessor):
    """Lets cells begin with tuples that waited in cells of another join.

    Parameters
    ----------
    spec : JoinSpec
        The join.
    keys : tuple of int
        The keys of its cells.
    watermark : int or None
        The watermark, in ticks, with which they begin.
    milliseconds : int
        The watermark of the join in the last micro-batch: what is later may bring something out.
    """

    def __init__(self, spec: JoinSpec, keys: tuple[int, ...], watermark: int | None, milliseconds: int) -> None:
        super().__init__(spec, keys)
        self._watermark, self._milliseconds = watermark, milliseconds

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: TimerValues) -> Iterator[pd.DataFrame]:  # noqa: N802, N803, ARG002 - Spark's names
        """Write the state of one cell."""
        parts = [
            (int(unit), bytes(block), bytes(flags))
            for frame in rows
            for unit, block, flags in zip(frame["unit"], frame["block"], frame["flags"], strict=True)
            if block is not None
        ]
        cell = Cell(self._spec, self._store, JoinCache(), self._keys.index(int(key[0])))
        cell.adopt(adopted_of(parts), self._watermark, self._milliseconds)
        if cell.timer is not None:
            self._handle.registerTimer(self._spec.spark_timer(cell.timer))
        yield from ()

    def handleExpiredTimer(self, key: Any, timerValues: TimerValues, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803, ARG002 - Spark's names
        """Do nothing: there is no watermark, so no timer expires."""
        yield from ()


class CopyProcessor(AdoptProcessor):
    """Lets cells begin with the state that they had, in whatever partition."""

    def __init__(self) -> None:
        pass

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: TimerValues) -> Iterator[pd.DataFrame]:  # noqa: N802, N803, ARG002 - Spark's names
        """Write the state of one cell as it was."""
        for frame in rows:
            for name, content, timer in zip(frame["name"], frame["content"], frame["timer"], strict=True):
                if name is None:
                    self._handle.registerTimer(int(timer))
                elif name == MANIFEST:
                    self._store.write_manifest(bytes(content))
                else:
                    self._store.write(name, bytes(content))
        yield from ()


def write_state(
    spark: Any, rows: Any, processor: CellProcessor, scratch: str, partitions: int, conf: Mapping[str, str]
) -> str:
    """Write what ``processor`` makes of ``rows`` as version 1 of the state of a checkpoint; return where it is.

    Parameters
    ----------
    rows : DataFrame
        What cells are to hold; its column ``cell`` has their keys.
    scratch : str
        The URI of a folder for what is needed on the way.
    partitions : int
        Into how many partitions the state is divided.
    conf : mapping of str to str
        Spark's settings under which state is written; those of the checkpoint that it is for.
    """
    bounds = {key: value for key, value in settings().items() if ".arrow." in key}
    wanted = {**conf, **bounds, _PARTITIONS: str(partitions), _CHANGELOG: "false"}
    with _settings(spark, wanted):
        rows.write.parquet(f"{scratch}/rows")
        stream = spark.readStream.schema(rows.schema).parquet(f"{scratch}/rows")
        timed = stream.withColumn("time", sf.timestamp_seconds(sf.lit(0))).withWatermark("time", "0 seconds")
        grouped = timed.drop("time").groupBy("cell")
        made = grouped.transformWithStateInPandas(processor, OUTPUT, "append", "EventTime")
        writer = made.writeStream.format("noop").option("checkpointLocation", f"{scratch}/seed")
        query = writer.trigger(availableNow=True).start()
        try:
            wait(query)
        finally:
            query.stop()
    return f"{scratch}/seed/state/0"


@contextmanager
def _settings(spark: Any, wanted: Mapping[str, str]) -> Iterator[None]:
    """Make settings of the session for a while."""
    before = {key: spark.conf.get(key, None) for key in wanted}
    try:
        for key, value in wanted.items():
            spark.conf.set(key, value)
        yield
    finally:
        for key, known in before.items():
            if known is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, known)
