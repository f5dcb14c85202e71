"""DuckDB and Polars on the finite prefix of the streams.

Neither has window joins. They get the whole streams as tables, hold no state, and need not answer before the end.
Both bands are turned by hand into an equi-join on buckets, R in one bucket a band, S in each bucket that its band
reaches; the exact conditions follow. Long streams are put into buckets by time as well. Which widths are best
differs by engine and window: each is tried once, and the fastest is raced.
"""

from __future__ import annotations

import importlib.util
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from crosswind.bench.record import Measurement, Tell, interleave, measured_in
from crosswind.bench.workload import BAND, BandWorkload
from crosswind.engine.session import open as open_join
from crosswind.errors import CrosswindError

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Buckets", "duckdb_join", "duckdb_sql", "polars_join", "race", "replay_once"]


@dataclass(frozen=True)
class Buckets:
    """How wide the buckets are, and whether there are buckets of time, too."""

    width: int
    timed: bool

    def __str__(self) -> str:
        return f"buckets of {self.width}{' and of two windows of time' if self.timed else ''}"


_CHOICES = (Buckets(21, False), Buckets(40, True))
Tables = dict[str, pa.Table]


def duckdb_sql(buckets: Buckets, window_us: int) -> str:
    """Return the query for DuckDB over tables r and s."""
    width, span = buckets.width, 2 * window_us
    time_r = f", epoch_us(ts) // {span} AS bt" if buckets.timed else ""
    time_s = f"unnest(range((epoch_us(ts) - {window_us}) // {span}, (epoch_us(ts) + {window_us}) // {span} + 1))"
    timed = f", sc AS (SELECT *, {time_s} AS bt FROM sb)" if buckets.timed else ""
    # `//` cuts towards zero: a bucket's width is added and taken off to keep the dividend positive.
    return (
        f"WITH rb AS (SELECT *, x // {width} AS bx, CAST(floor(y / {width}) AS BIGINT) AS by{time_r} FROM r),\n"
        f"sa AS (SELECT *, unnest(range((a - {BAND} + {width}) // {width} - 1, "
        f"(a + {BAND}) // {width} + 1)) AS bx FROM s),\n"
        f"sb AS (SELECT *, unnest(range(CAST(floor((b - {BAND}) / {width}) AS BIGINT), "
        f"CAST(floor((b + {BAND}) / {width}) AS BIGINT) + 1)) AS by FROM sa){timed}\n"
        f"SELECT x, y, a, b FROM rb JOIN {'sc' if buckets.timed else 'sb'} AS q "
        f"ON rb.bx = q.bx AND rb.by = q.by{' AND rb.bt = q.bt' if buckets.timed else ''}\n"
        f"WHERE x BETWEEN a - {BAND} AND a + {BAND}\n"
        f"  AND y::DOUBLE BETWEEN b::DOUBLE - {BAND} AND b::DOUBLE + {BAND}\n"
        f"  AND epoch_us(rb.ts) - epoch_us(q.ts) < {window_us} AND epoch_us(q.ts) - epoch_us(rb.ts) < {window_us}"
    )


def duckdb_join(tables: Tables, buckets: Buckets, window_us: int) -> pa.Table:
    """Return the result, computed by DuckDB."""
    import duckdb

    with duckdb.connect() as connection:
        connection.register("r", tables["R"])
        connection.register("s", tables["S"])
        return connection.sql(duckdb_sql(buckets, window_us)).to_arrow_table()


def polars_join(tables: Tables, buckets: Buckets, window_us: int) -> pl.DataFrame:
    """Return the result, computed by Polars as an equi-join on buckets, like the query for DuckDB."""
    import polars as pl

    width, span = buckets.width, 2 * window_us

    def in_both(frame: pl.LazyFrame, name: str, low: pl.Expr, high: pl.Expr) -> pl.LazyFrame:
        again = frame.filter(low != high).with_columns(high.alias(name))
        return pl.concat([frame.with_columns(low.alias(name)), again])

    def bucket(real: pl.Expr) -> pl.Expr:
        return (real / width).floor().cast(pl.Int32)

    x, y, a, b = (pl.col(name) for name in "xyab")
    t, u = pl.col("t"), pl.col("u")
    r = pl.DataFrame(tables["R"]).lazy().with_columns(bx=x // width, by=bucket(y), t=pl.col("ts").cast(pl.Int64))
    s = pl.DataFrame(tables["S"]).lazy().with_columns(u=pl.col("ts").cast(pl.Int64))
    s = in_both(s, "bx", (a - BAND) // width, (a + BAND) // width)
    s = in_both(s, "by", bucket(b - BAND), bucket(b + BAND))
    keys = ["bx", "by"]
    if buckets.timed:
        r = r.with_columns(bt=t // span)
        s = in_both(s, "bt", (u - window_us) // span, (u + window_us) // span)
        keys.append("bt")
    wide_y, wide_b = y.cast(pl.Float64), b.cast(pl.Float64)
    joined = r.join(s, on=keys).filter(
        x.is_between(a - BAND, a + BAND), wide_y.is_between(wide_b - BAND, wide_b + BAND), (t - u).abs() < window_us
    )
    return joined.select("x", "y", "a", "b").collect()


def replay_once(tables: Tables, workload: BandWorkload, index: str = "auto") -> int:
    """Join the tables with Crosswind, from empty windows, in batches of a second; return the number of results."""
    rows: int = 0
    with open_join(workload.sql, workload.schemas, index=index) as join:
        for start in range(0, tables["R"].num_rows, workload.rate):
            for name in ("R", "S"):
                rows += join.push(name, tables[name].slice(start, workload.rate)).num_rows
        rows += join.finish().num_rows
    return rows


def race(window_s: int, rate: int, prefix_s: int, rounds: int, tell: Tell) -> tuple[list[Measurement], list[str]]:
    """Join finite streams with Crosswind, DuckDB and Polars; return tuples/s of both streams together, and notes.

    The streams are ``prefix_s`` seconds long, but at least two windows.

    Raises
    ------
    CrosswindError
        If not all find the same number of results.
    """
    workload = BandWorkload(rate, window_s * 1_000_000)
    length_s = max(prefix_s, 2 * window_s)
    count = rate * length_s
    tables = {name: workload.table(name, 0, count) for name in workload.schemas}
    runners: dict[str, Callable[[], int]] = {"crosswind": lambda: replay_once(tables, workload)}
    notes = [
        f"Finite streams of {length_s:,} s at {rate:,} tuples/s, {window_s} s windows; Crosswind as a stream, from "
        f"empty windows, in batches of a second, one worker; the others as a batch, on {os.cpu_count()} cores."
    ]
    for name, run in {"DuckDB": _duckdb_rows, "Polars": _polars_rows}.items():
        if importlib.util.find_spec(name.lower()) is None:
            notes.append(f"{name} is not installed, and left out.")
            continue
        tell(f"{window_s} s windows: choosing buckets for {name}")
        best = min(_CHOICES, key=lambda buckets: _timed(partial(run, tables, buckets, workload.window_us))[1])
        notes.append(f"{name}, {window_s} s windows: {best}.")
        if name == "DuckDB":
            notes.append(duckdb_sql(best, workload.window_us))
        else:
            notes.append("Polars: see polars_join in src/crosswind/bench/others.py.")
        runners[name] = partial(run, tables, best, workload.window_us)
    found: dict[str, int] = {}

    def run_once(name: str) -> float:
        found[name], seconds = _timed(runners[name])
        return 2 * count / seconds

    run_once("crosswind")
    label = f"{window_s} s windows"
    runs = interleave(
        {name: partial(run_once, name) for name in runners}, rounds, lambda line: tell(f"{label}, {line}")
    )
    if len(set(found.values())) != 1:
        raise CrosswindError(f"{label}: not all found the same number of results: {found}. This is a bug.")
    note = f"{found['crosswind']:,} results"
    entries = {name: measured_in(values, f"{name}, {label}", "tuples/s", note=note) for name, values in runs.items()}
    ours = entries.pop("crosswind")
    fastest = max(entries.values(), key=lambda entry: entry.value or 0.0, default=ours)
    return [*entries.values(), ours if fastest is ours else ours.against(fastest)], notes


def _duckdb_rows(tables: Tables, buckets: Buckets, window_us: int) -> int:
    return int(duckdb_join(tables, buckets, window_us).num_rows)


def _polars_rows(tables: Tables, buckets: Buckets, window_us: int) -> int:
    return polars_join(tables, buckets, window_us).height


def _timed(run: Callable[[], int]) -> tuple[int, float]:
    began = time.perf_counter()
    rows = run()
    return rows, time.perf_counter() - began
