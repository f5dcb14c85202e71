"""The semantic suite on Spark: what ``EngineConfig`` calls in its modes ``spark`` and ``stream``."""

from __future__ import annotations

import math
import random
import re
import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa

from crosswind.spark.dropped import LATE, NO_TIME
from tests.oracle import ticks_per_second
from tests.spark.frames import (
    NotInSparkError,
    cut,
    dropped_by_spark,
    flush_row,
    join_static,
    join_streams,
    milliseconds_of,
    spark_table,
)
from tests.spark.simulation import CALM, Simulation, Trouble, join_simulated, make_spec

WATERMARK_MS_MAX = (2**63 - 1) // 1000


def static_rows(sql: str, tables: Mapping[str, pa.Table], time: Any, **options: Any) -> pa.Table:
    """Return the join of complete frames."""
    return join_static(sql, tables, time=time, **options)


@dataclass(frozen=True)
class Streams:
    """Tables as streams: random batches, the lateness they need, and the rows that must be dropped."""

    batches: dict[str, list[pa.Table]]
    lateness: dict[str, int | str]
    dropped: dict[str, set[int]]
    rejected: int


def as_streams(
    sql: str,
    tables: Mapping[str, pa.Table],
    times: Mapping[str, str],
    lateness: Mapping[str, int],
    rng: random.Random,
    parts: int,
    lag: int = 0,
    *,
    by_previous: bool = False,
) -> Streams:
    """Cut ``tables`` into micro-batches; ``lateness`` is in ticks of their time columns.

    What a ROWS window holds comes out behind the watermark, so at the end a tuple of a later time
    pushes it on.
    """
    kinds = {name: table.schema.field(times[name]).type for name, table in tables.items()}
    if is_outer(sql) and "ROWS" in sql:
        raise NotInSparkError("a ROWS window that nothing more comes into never closes, and a stream has no end")
    extra = 1 if "ROWS" in sql else 0  # so that the tuple that pushes is itself held
    lateness_ms = {name: _milliseconds(lateness[name] + extra, kinds[name]) for name in tables}
    batches = {name: cut(table, rng, parts) for name, table in tables.items()}
    dropped = dropped_by_spark(batches, times, lateness_ms, lag, by_previous=by_previous)
    known = [t for name in tables for t in milliseconds_of(tables[name].column(times[name])) if t is not None]
    if any(abs(t) > WATERMARK_MS_MAX for t in known):
        raise NotInSparkError("a time beyond Spark's watermark, which counts microseconds in 64 bits")
    if extra:
        end = max(0, *(math.floor(t) for t in known)) + 1 if known else 1
        for name, table in tables.items():
            batches[name].append(flush_row(table, times[name], end + lateness_ms[name] + lag))
    spelled = {name: f"{ms} milliseconds" if ticks_per_second(kinds[name]) else ms for name, ms in lateness_ms.items()}
    rejected = sum(table.column(times[name]).null_count for name, table in tables.items())
    return Streams(batches, spelled, dropped, rejected)


def stream_rows(
    sql: str,
    tables: Mapping[str, pa.Table],
    time: Any,
    times: Mapping[str, str],
    lateness: Mapping[str, int],
    rng: random.Random,
    **options: Any,
) -> tuple[pa.Table, dict[str, set[int]]]:
    """Return the join of streams on Spark, and by stream the rows that must be dropped."""
    given, widened = _in_spark(tables, times, lateness)
    parts = rng.randint(1, 4)
    streams = as_streams(sql, given, times, widened, rng, parts)
    restarts = rng.choice([0, 0, 1]) if parts > 1 else 0
    with tempfile.TemporaryDirectory(prefix="crosswind-stream-") as folder:
        done = join_streams(
            sql,
            streams.batches,
            Path(folder),
            restarts,
            time=time,
            lateness=streams.lateness,
            event_time=None,
            **options,
        )
    assert done.total("results") == done.table.num_rows
    assert done.total("rejected") == streams.rejected
    return done.table, streams.dropped


def cell_rows(
    sql: str,
    tables: Mapping[str, pa.Table],
    time: Any,
    times: Mapping[str, str],
    lateness: Mapping[str, int],
    rng: random.Random,
    **options: Any,
) -> tuple[pa.Table, dict[str, set[int]]]:
    """Return the join in the simulation of Spark, and by stream the rows that must be dropped."""
    given, widened = _in_spark(tables, times, lateness)
    lag, by_previous = rng.choice([(0, False), (0, True), (1, False), (700, False)])
    parts = rng.choice([1, 2, 5, 20])
    streams = as_streams(sql, given, times, widened, rng, parts, lag, by_previous=by_previous)
    schemas = {name: table.schema for name, table in given.items()}
    cache_bytes = rng.choice([0, 10_000, 1 << 30])
    clock = {"lateness": streams.lateness, "lag": lag, "by_previous": by_previous}
    late = rng.choice([None, "late"])
    spec = make_spec(sql, schemas, time=time, cache_bytes=cache_bytes, late=late, **clock, **options)
    done = join_simulated(spec, streams.batches, rng, rng.choice([CALM, Trouble()]))
    if is_outer(sql):  # what did not match waits until its window has closed
        done.close_windows()
    table = done.table()
    assert done.total("results") == table.num_rows
    assert done.rejected == streams.rejected
    if late is not None:
        _check_dropped(done, streams, times)
    return table, streams.dropped


def _check_dropped(done: Simulation, streams: Streams, times: Mapping[str, str]) -> None:
    """Compare what was given out as dropped with what must be; a tuple that can join nothing is not looked at."""
    late = 0
    for name, parts in streams.batches.items():
        rows = pa.concat_tables(parts).to_pylist()
        given = Counter(map(repr, done.dropped_rows(name, LATE)))
        late += given.total()
        assert not given - Counter(repr(rows[k]) for k in streams.dropped[name])
        given = Counter(map(repr, done.dropped_rows(name, NO_TIME)))
        assert given == Counter(repr(row) for row in rows if row[times[name]] is None)
    assert late == done.total("late")


def is_outer(sql: str) -> bool:
    """Return whether ``sql`` has an outer, semi or anti join."""
    return re.search(r"\b(LEFT|RIGHT|FULL|SEMI|ANTI)\b", sql) is not None


def _milliseconds(count: int, kind: pa.DataType) -> int:
    rate = ticks_per_second(kind)
    return count if rate is None else math.ceil(Fraction(count) * 1000 / rate)


def _in_spark(
    tables: Mapping[str, pa.Table], times: Mapping[str, str], lateness: Mapping[str, int]
) -> tuple[dict[str, pa.Table], dict[str, int]]:
    """Return tables and lateness in the types, and so the ticks, that Spark has."""
    given = {name: spark_table(table) for name, table in tables.items()}
    rates = {
        name: [ticks_per_second(table.schema.field(times[name]).type) for table in (tables[name], given[name])]
        for name in tables
    }
    return given, {
        name: lateness[name] if before is None else math.ceil(lateness[name] * after / before)
        for name, (before, after) in rates.items()
    }
