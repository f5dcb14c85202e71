"""A join as a stage of a pipeline: what comes before it, what goes on behind it, and the same by Spark's batch SQL."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

import crosswind as cw
from tests.spark.frames import Feed, run_to_end, static_frame, written
from tests.spark.session import session

STREAMS = ("R", "S", "T")
SCHEMA = pa.schema([("id", pa.int64()), ("x", pa.int32()), ("ts", pa.timestamp("us", "UTC"))])
START = dt.datetime(2025, 1, 1, tzinfo=dt.UTC)
ROUNDS, PER_ROUND, LATE_S = 3, 80, 8
LATENESS = f"{LATE_S} seconds"
END = START + dt.timedelta(days=1)
"""The last tuple of each stream: it matches nothing, and lets the watermark pass everything else."""
NEAR = "abs(R.x - S.x) <= 1"
MEET = """(S.ts >= R.ts AND S.ts < R.ts + INTERVAL 20 SECONDS) OR (S.ts < R.ts AND R.ts < S.ts + INTERVAL 10 SECONDS)"""
WINDOWS = ("R [RANGE 20 SECONDS]", "S [RANGE 10 SECONDS]")

Frames = dict[str, DataFrame]


def random_batches(rng: random.Random, rounds: int = ROUNDS) -> dict[str, list[pa.Table]]:
    """Return batches of three streams; a tuple comes up to ``LATE_S`` after newer ones, once or twice."""
    return {stream: _batches(stream, rng, rounds) for stream in STREAMS}


def _batches(stream: str, rng: random.Random, rounds: int) -> list[pa.Table]:
    batches, number = [], 0
    for k in range(rounds):
        rows = []
        for _ in range(rng.randint(PER_ROUND // 2, PER_ROUND)):
            number += 1
            at = START + dt.timedelta(seconds=10 * (k + 1), microseconds=-rng.randint(0, 1_000_000 * LATE_S))
            rows += [{"id": number, "x": rng.randint(0, 40), "ts": at}] * rng.choice([1, 1, 1, 2])
        batches.append(pa.Table.from_pylist(rows, SCHEMA))
    far = {"R": -1_000, "S": 1_000, "T": 3_000}[stream]
    return [*batches, pa.Table.from_pylist([{"id": 0, "x": far, "ts": END}], SCHEMA)]


@dataclass(frozen=True)
class Pipeline:
    """``live`` over streaming frames must give the rows of ``batch`` over static ones."""

    live: Callable[[Frames], DataFrame]
    batch: Callable[[Frames], DataFrame]


def joined(frames: Frames, columns: str, kind: str = ",", **options: Any) -> DataFrame:
    """Return the join of R and S."""
    options = {"lateness": LATENESS, **options}
    left, right = WINDOWS
    condition = "WHERE" if kind == "," else "ON"
    return cw.spark.join(
        f"SELECT {columns} FROM {left} {kind} {right} {condition} {NEAR}",
        {name: frames[name] for name in ("R", "S")},
        **options,
    )


def by_spark(frames: Frames, columns: str, kind: str = "INNER JOIN") -> DataFrame:
    """Return the same, by Spark's batch SQL."""
    for name, frame in frames.items():
        frame.createOrReplaceTempView(name)
    return session().sql(f"SELECT {columns} FROM R {kind} S ON {NEAR} AND ({MEET})")


def watermarked(frames: Frames) -> Frames:
    return {name: frame.withWatermark("ts", LATENESS) for name, frame in frames.items()}


def counts(frame: DataFrame) -> DataFrame:
    """Return tuples per ten seconds of ``ts``."""
    windows = frame.groupBy(sf.window("ts", "10 seconds")).agg(sf.count("*").alias("n"), sf.sum("id").alias("ids"))
    return windows.select(sf.col("window.start").alias("start"), "n", "ids")


def sums(frame: DataFrame) -> DataFrame:
    """Return as a stream again: per second and value, how many tuples."""
    grouped = frame.groupBy(sf.window("ts", "1 second"), "x").agg(sf.count("*").alias("id"))
    return grouped.select("id", "x", sf.window_time("window").alias("ts"))


def first(frame: DataFrame, live: bool) -> DataFrame:
    """Return one row for each pair of tuples."""
    return frame.dropDuplicatesWithinWatermark(["id", "a"]) if live else frame.dropDuplicates(["id", "a"])


PAIR = "R.id, S.id AS a, R.ts AS p, S.ts AS q"
MEMBER = "R.id, S.id AS a, R.ts"
RESULT = "R.id, S.id AS a, greatest(R.ts, S.ts) AS ts"
SECOND = "SELECT P.id, P.a, T.id AS b FROM P [RANGE 15 SECONDS], T [RANGE 15 SECONDS] WHERE abs(P.x - T.x) <= 1"


def twice_joined(frames: Frames) -> DataFrame:
    pairs = joined(frames, "R.id, R.x, S.id AS a, greatest(R.ts, S.ts) AS ts")
    return cw.spark.join(SECOND, {"P": pairs, "T": frames["T"]}, lateness={"T": LATENESS})


def twice_by_spark(frames: Frames) -> DataFrame:
    by_spark(frames, "R.id, R.x, S.id AS a, greatest(R.ts, S.ts) AS ts").createOrReplaceTempView("P")
    near = "abs(P.x - T.x) <= 1 AND T.ts < P.ts + INTERVAL 15 SECONDS AND P.ts < T.ts + INTERVAL 15 SECONDS"
    return session().sql(f"SELECT P.id, P.a, T.id AS b FROM P JOIN T ON {near}")


EITHER = "coalesce(R.id, S.id) AS id, coalesce(R.ts, S.ts) AS ts"
MANY = {
    "near": f"SELECT {MEMBER} FROM {', '.join(WINDOWS)} WHERE {NEAR}",
    "same": f"SELECT {RESULT} FROM R [RANGE 5 SECONDS], S [RANGE 40 SECONDS] WHERE R.x = S.x",
}
COUNTED = f"SELECT {RESULT} FROM R [ROWS 30], S [RANGE 10 SECONDS] WHERE {NEAR}"


def two(frames: Frames) -> Frames:
    return {name: frames[name] for name in ("R", "S")}


def region(frames: Frames, rest: int) -> Frames:
    """Return the half of the tuples whose value leaves that rest."""
    return {name: frame.where(f"pmod(x, 2) = {rest} OR abs(x) >= 1000") for name, frame in frames.items()}


def sessions(frame: DataFrame) -> DataFrame:
    """Return how many rows of a partner come without a pause of 3 seconds."""
    grouped = frame.groupBy(sf.session_window("ts", "3 seconds"), "a").agg(sf.count("*").alias("n"))
    return grouped.select("a", sf.col("session_window.start").alias("start"), "n")


def with_t(frames: Frames, *, live: bool) -> DataFrame:
    """Return P with the tuples of T of the same number and about the same time, by Spark's own join."""
    p, t = frames["P"].alias("P"), frames["T"].alias("T")
    t = t.withWatermark("ts", LATENESS) if live else t
    near = "P.id = T.id AND T.ts >= P.ts - INTERVAL 30 SECONDS AND T.ts <= P.ts + INTERVAL 30 SECONDS"
    return p.join(t, sf.expr(near)).select(sf.col("P.id"), "a", sf.col("T.x").alias("b"))


def near_t(frames: Frames) -> DataFrame:
    """Return tuples of R that have one of T of the same number and about the same time, by Spark's own join."""
    r, t = frames["R"].alias("R0"), frames["T"].alias("T0")
    near = "R0.id = T0.id AND T0.ts >= R0.ts - INTERVAL 20 SECONDS AND T0.ts <= R0.ts + INTERVAL 20 SECONDS"
    return r.join(t, sf.expr(near)).select(sf.col("R0.id"), sf.col("R0.x"), sf.col("R0.ts"))


def twice(frames: Frames, *, live: bool) -> DataFrame:
    """Return two joins, one behind the other, as tuples of R."""
    sql = "SELECT R.id, R.x, greatest(R.ts, T.ts) AS ts FROM R [RANGE 5 SECONDS], T [RANGE 5 SECONDS] WHERE R.x = T.x"
    if live:
        once = cw.spark.join(sql, {"R": frames["R"], "T": frames["T"]}, lateness=LATENESS)
        return cw.spark.join(sql, {"R": once, "T": frames["T"]}, lateness={"T": LATENESS})
    for _ in range(2):
        frames = {**frames, "R": _equal_to_t(frames)}
    return frames["R"]


def _equal_to_t(frames: Frames) -> DataFrame:
    for name in ("R", "T"):
        frames[name].createOrReplaceTempView(f"{name}0")
    near = "R0.x = T0.x AND T0.ts < R0.ts + INTERVAL 5 SECONDS AND R0.ts < T0.ts + INTERVAL 5 SECONDS"
    return session().sql(f"SELECT R0.id, R0.x, greatest(R0.ts, T0.ts) AS ts FROM R0 JOIN T0 ON {near}")


PIPELINES = {
    "plain": Pipeline(lambda f: joined(f, PAIR), lambda f: by_spark(f, PAIR)),
    "aggregate after": Pipeline(lambda f: counts(joined(f, MEMBER)), lambda f: counts(by_spark(f, MEMBER))),
    "watermarked in": Pipeline(
        lambda f: counts(joined(watermarked(f), RESULT, lateness=None)), lambda f: counts(by_spark(f, RESULT))
    ),
    "aggregate before": Pipeline(
        lambda f: joined({**f, "R": sums(watermarked(f)["R"])}, PAIR, lateness={"S": LATENESS}),
        lambda f: by_spark({**f, "R": sums(f["R"])}, PAIR),
    ),
    "join after join": Pipeline(twice_joined, twice_by_spark),
    "dedup after": Pipeline(
        lambda f: first(joined(f, MEMBER), live=True).select("id", "a"),
        lambda f: first(by_spark(f, MEMBER), live=False).select("id", "a"),
    ),
    "left after": Pipeline(
        lambda f: counts(joined(f, MEMBER, "LEFT JOIN")), lambda f: counts(by_spark(f, MEMBER, "LEFT JOIN"))
    ),
    "full after": Pipeline(
        lambda f: counts(joined(f, EITHER, "FULL OUTER JOIN")), lambda f: counts(by_spark(f, EITHER, "FULL JOIN"))
    ),
    "sessions after": Pipeline(lambda f: sessions(joined(f, MEMBER)), lambda f: sessions(by_spark(f, MEMBER))),
    "spark's join after": Pipeline(
        lambda f: with_t({**f, "P": joined(f, RESULT)}, live=True),
        lambda f: with_t({**f, "P": by_spark(f, RESULT)}, live=False),
    ),
    "spark's join before": Pipeline(
        lambda f: joined({**f, "R": near_t(watermarked(f))}, PAIR, lateness={"S": LATENESS}),
        lambda f: by_spark({**f, "R": near_t(f)}, PAIR),
    ),
    "three joins": Pipeline(
        lambda f: counts(joined({**f, "R": twice(f, live=True)}, RESULT, lateness={"S": LATENESS})),
        lambda f: counts(by_spark({**f, "R": twice(f, live=False)}, RESULT)),
    ),
    "two regions": Pipeline(
        lambda f: joined(region(f, 0), MEMBER).unionByName(joined(region(f, 1), MEMBER)).select("id", "a"),
        lambda f: by_spark(region(f, 0), MEMBER).unionByName(by_spark(region(f, 1), MEMBER)).select("id", "a"),
    ),
    "many queries": Pipeline(
        lambda f: counts(cw.spark.join(MANY, two(f), lateness=LATENESS)),
        lambda f: counts(cw.spark.join(MANY, two(f))),
    ),
    "late aside": Pipeline(
        lambda f: counts(joined(f, MEMBER, "LEFT JOIN", late="late").where("late IS NULL").drop("late")),
        lambda f: counts(by_spark(f, MEMBER, "LEFT JOIN")),
    ),
    "rows": Pipeline(
        lambda f: counts(cw.spark.join(COUNTED, two(f), lateness=LATENESS)),
        lambda f: counts(cw.spark.join(COUNTED, two(f))),
    ),
}
"""By name. Count windows and many queries are no batch SQL: there the batch is a static join, behind it Spark."""


def rows(frame: pa.Table) -> list[tuple]:
    return sorted((tuple(row.values()) for row in frame.to_pylist()), key=repr)


def run(pipeline: Pipeline, batches: Mapping[str, list[pa.Table]], folder: Path, restarts: int = 0) -> pa.Table:
    """Return what the pipeline gives out, micro-batch by micro-batch, restarted on the way."""
    feeds = {name: Feed(folder / f"in-{name}", SCHEMA) for name in batches}
    rounds = max(len(parts) for parts in batches.values())
    stops = {rounds * (k + 1) // (restarts + 1) for k in range(restarts + 1)}
    for number in range(rounds):
        for name, parts in batches.items():
            feeds[name].add(parts[number])
        if number + 1 in stops:
            live = pipeline.live({name: feed.frame() for name, feed in feeds.items()})
            run_to_end(live, folder)
    return written(folder, live.schema)


def expected(pipeline: Pipeline, batches: Mapping[str, list[pa.Table]]) -> pa.Table:
    """Return what it gives over all tuples but the last of each stream."""
    tables = {name: pa.concat_tables(parts[:-1]) for name, parts in batches.items()}
    return pipeline.batch({name: static_frame(table) for name, table in tables.items()}).toArrow()
