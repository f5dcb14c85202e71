"""Arrow tables as Spark frames, static and streaming, and joins of them that come back as tables."""

from __future__ import annotations

import os
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import types as st
from pyspark.sql.pandas.types import from_arrow_schema

import crosswind as cw
from tests.oracle import ticks, ticks_per_second
from tests.spark.session import session

WAIT_S = 240
"""No streaming query of the tests takes longer, on a busy machine too."""


class NotInSparkError(Exception):
    """A value or a type that Spark does not have."""


# ---------------------------------------------------------------------------------- types


def spark_table(table: pa.Table) -> pa.Table:
    """Return ``table`` in types that Spark has: wider ones, with the same values."""
    return pa.table({name: _column(table.column(name)) for name in table.column_names})


def spark_schema(schema: pa.Schema) -> st.StructType:
    """Return the Spark schema; times without a zone stay without one."""
    return from_arrow_schema(schema, prefer_timestamp_ntz=True)


def _column(column: pa.ChunkedArray) -> pa.ChunkedArray:
    wanted = _widened(column.type)
    if wanted == column.type:
        return column
    if pa.types.is_string_view(column.type) or pa.types.is_binary_view(column.type):
        return pa.chunked_array([pa.array(column.to_pylist(), wanted)])
    try:
        return column.cast(wanted)
    except pa.ArrowInvalid as error:
        raise NotInSparkError(str(error)) from error


def _widened(kind: pa.DataType) -> pa.DataType:
    t = pa.types
    plain = {
        pa.uint8(): pa.int16(),
        pa.uint16(): pa.int32(),
        pa.uint32(): pa.int64(),
        pa.uint64(): pa.decimal128(20, 0),
        pa.float16(): pa.float32(),
        pa.large_string(): pa.string(),
        pa.string_view(): pa.string(),
        pa.large_binary(): pa.binary(),
        pa.binary_view(): pa.binary(),
        pa.date64(): pa.date32(),
    }
    if kind in plain:
        return plain[kind]
    if t.is_dictionary(kind):
        return _widened(kind.value_type)
    if t.is_timestamp(kind):
        return pa.timestamp("us", None if kind.tz is None else "UTC")
    if t.is_duration(kind):
        return pa.duration("us")
    if t.is_fixed_size_binary(kind):
        return pa.binary()
    if t.is_decimal(kind):
        return pa.decimal128(kind.precision, kind.scale)
    return kind


# ---------------------------------------------------------------------------------- static


def static_frame(table: pa.Table, partitions: int | None = 1) -> DataFrame:
    """Return a complete frame; in one partition rows keep their order, on which ROWS windows with ties depend."""
    frame = session().createDataFrame(table, schema=spark_schema(table.schema))
    return frame if partitions is None else frame.coalesce(partitions)


def join_static(sql: str, tables: Mapping[str, pa.Table], partitions: int | None = 1, **options: Any) -> pa.Table:
    """Return the join of complete frames."""
    frames = {name: static_frame(spark_table(table), partitions) for name, table in tables.items()}
    try:
        return cw.spark.join(sql, frames, **options).toArrow()
    except Exception as failure:
        raise cw.spark.error_of(failure) or failure from None


# ---------------------------------------------------------------------------------- streaming


class Feed:
    """A stream that reads parquet files from a folder, one a micro-batch, in the order they were added."""

    def __init__(self, folder: Path, schema: pa.Schema, sources: int = 1) -> None:
        self.folder, self._schema, self._count = folder, schema, 0
        self._per_trigger = sources
        folder.mkdir(parents=True)

    def add(self, table: pa.Table) -> None:
        """Add a file; Spark takes the oldest first."""
        path = self.folder / f"{self._count:05d}.parquet"
        hidden = path.with_name(f".{path.name}")
        pq.write_table(table, hidden)
        stamp = 1_600_000_000 + 10 * self._count
        os.utime(hidden, (stamp, stamp))
        hidden.rename(path)
        self._count += 1

    def frame(self) -> DataFrame:
        """Return the streaming frame."""
        reader = session().readStream.schema(spark_schema(self._schema))
        return reader.option("maxFilesPerTrigger", self._per_trigger).parquet(str(self.folder))


@dataclass
class Streamed:
    """What a streaming join gave."""

    table: pa.Table
    progress: list[cw.spark.Progress] = field(default_factory=list)

    def total(self, name: str) -> int:
        """Return a counter, added up over the micro-batches."""
        return sum(getattr(entry, name) for entry in self.progress)


def run_to_end(joined: DataFrame, folder: Path, **start: Any) -> list[cw.spark.Progress]:
    """Write ``joined`` as parquet into ``folder`` until there is no more input; raise the user's error."""
    writer = joined.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.trigger(availableNow=True).start(str(folder / "out"), **start)
    try:
        assert cw.spark.wait(query, WAIT_S), f"the query did not end in {WAIT_S} s: {query.status}"
    finally:
        query.stop()
    found = [cw.spark.progress_of(entry) for entry in query.recentProgress]
    return [entry for entry in found if entry is not None]


def written(folder: Path, schema: st.StructType) -> pa.Table:
    """Return what Spark's file sink has committed to ``folder``."""
    return session().read.schema(schema).parquet(str(folder / "out")).toArrow()


def join_streams(
    sql: str,
    batches: Mapping[str, list[pa.Table]],
    folder: Path,
    restarts: int = 0,
    **options: Any,
) -> Streamed:
    """Return the join of streams that bring one batch each a micro-batch.

    Parameters
    ----------
    batches : mapping of str to list of Table
        The batches of each stream.
    restarts : int
        How many times the query is stopped and goes on from its checkpoint.
    """
    feeds = {name: Feed(folder / f"in-{name}", parts[0].schema) for name, parts in batches.items()}
    rounds = max(len(parts) for parts in batches.values())
    stops = {rounds * (k + 1) // (restarts + 1) for k in range(restarts + 1)}
    progress: list[cw.spark.Progress] = []
    joined = None
    for number in range(rounds):
        for name, parts in batches.items():
            if number < len(parts):
                feeds[name].add(parts[number])
        if number + 1 in stops:
            joined = cw.spark.join(sql, {name: feed.frame() for name, feed in feeds.items()}, **options)
            progress += run_to_end(joined, folder)
    assert joined is not None
    return Streamed(written(folder, joined.schema), progress)


def cut(table: pa.Table, rng: random.Random, parts: int) -> list[pa.Table]:
    """Cut ``table`` into ``parts`` batches at random; some are empty."""
    ends = sorted(rng.randint(0, table.num_rows) for _ in range(parts - 1))
    bounds = [0, *ends, table.num_rows]
    return [table.slice(a, b - a) for a, b in pairwise(bounds)]


def milliseconds_of(column: pa.ChunkedArray) -> list[Fraction | None]:
    """Return times as Spark's watermark sees them; integers count as milliseconds."""
    rate = ticks_per_second(column.type)
    scale = Fraction(1) if rate is None else Fraction(1000) / rate
    return [None if t is None else t * scale for t in ticks(column)]


def flush_row(table: pa.Table, time: str, milliseconds: int) -> pa.Table:
    """Return one row like those of ``table``, at the first time not before ``milliseconds``."""
    kind = table.schema.field(time).type
    rate = ticks_per_second(kind)
    count = milliseconds if rate is None else -(-milliseconds * rate // 1000)
    whole = pa.array([int(count)], pa.int64())
    try:
        at = whole.cast(pa.int32()).cast(kind) if pa.types.is_date32(kind) else whole.cast(kind)
    except pa.ArrowInvalid as error:
        raise NotInSparkError(f"no time after the last one: {error}") from error
    return pa.table(
        {name: at if name == time else pa.nulls(1, table.schema.field(name).type) for name in table.column_names},
        schema=table.schema,
    )


def dropped_by_spark(
    batches: Mapping[str, list[pa.Table]],
    times: Mapping[str, str],
    lateness_ms: Mapping[str, int],
    lag_ms: int = 0,
    *,
    by_previous: bool = False,
) -> dict[str, set[int]]:
    """Return by stream the rows that are late, numbered over all batches.

    Spark's watermark of a micro-batch is the least over the streams of (greatest time seen before, in whole
    milliseconds, minus lateness and lag), never goes back, and is nothing until it is positive. That of the join is
    ``lag_ms`` later. ``by_previous``: it is that of the micro-batch before, and late is what is equal, too.
    """
    seen = dict.fromkeys(batches, 0)
    dropped: dict[str, set[int]] = {name: set() for name in batches}
    start = dict.fromkeys(batches, 0)
    watermark = previous = 0
    for number in range(max(len(parts) for parts in batches.values())):
        highs = {}
        for name, parts in batches.items():
            if number >= len(parts):
                continue
            values = milliseconds_of(parts[number].column(times[name]))
            known = [t for t in values if t is not None]
            late_before = watermark + lag_ms
            if by_previous and previous > 0:
                dropped[name] |= {start[name] + i for i, t in enumerate(values) if t is not None and t <= previous}
            elif watermark > 0 and not by_previous:
                dropped[name] |= {start[name] + i for i, t in enumerate(values) if t is not None and t < late_before}
            if known:
                highs[name] = int(max(known) // 1) - lateness_ms[name] - lag_ms
            start[name] += len(values)
        for name, high in highs.items():
            seen[name] = max(seen[name], high)
        previous, watermark = watermark, max(watermark, min(seen.values()))
    return dropped
