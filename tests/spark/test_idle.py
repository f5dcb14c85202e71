"""A stream that is silent: what it holds, and the ways in which it need not."""

from __future__ import annotations

import datetime as dt
import re

import pyarrow as pa
import pytest

import crosswind as cw
from tests import seeds
from tests.conftest import SPARK
from tests.oracle import Join, Output, Role, Window, assert_same, expected_rows
from tests.spark.frames import Feed, dropped_by_spark, run_to_end, static_frame, written
from tests.spark.simulation import Simulation, Trouble, make_spec
from tests.waiting import wait_until

SCHEMA = pa.schema([("x", pa.int64()), ("ts", pa.int64())])
BEAT = pa.schema([("ts", pa.int64())])
SCHEMAS = {"R": SCHEMA, "S": SCHEMA}
INNER = "SELECT R.x, R.ts AS p, S.x AS a, S.ts AS q FROM R [RANGE 10], S [RANGE 10] WHERE abs(R.x - S.x) <= 3"
LEFT = "SELECT R.x, R.ts AS p, S.x AS a, S.ts AS q FROM R [RANGE 10] LEFT JOIN S [RANGE 10] ON abs(R.x - S.x) <= 3"
ROUNDS = 8


def batch(*tuples: tuple[int, int]) -> pa.Table:
    return pa.Table.from_pylist([{"x": x, "ts": ts} for x, ts in tuples], SCHEMA)


def beat(*times: int | None) -> pa.Table:
    return pa.table({"ts": list(times)}, BEAT)


def random_rounds(seed: str) -> tuple[dict[str, list[pa.Table]], list[pa.Table]]:
    """Return batches of R and of S, which is silent most of the time, and the heartbeats of S."""
    rng = seeds.chance(seed)

    def tuples(k: int, count: int) -> pa.Table:
        return batch(*((rng.randint(0, 20), rng.randint(max(1, 20 * k - 90), 20 * k)) for _ in range(count)))

    batches = {"R": [], "S": []}
    beats = []
    for k in range(1, ROUNDS + 1):
        batches["R"].append(tuples(k, 30))
        batches["S"].append(tuples(k, 30 if k in (1, 5) else 0))
        beats.append(beat(*([] if k == 2 else [20 * k - 25, 20 * k - 15, None])))
    return batches, beats


def as_tuples(batches: dict[str, list[pa.Table]], beats: list[pa.Table]) -> dict[str, list[pa.Table]]:
    """Return batches with heartbeats as tuples that join nothing: that is what they mean."""
    nothing = [batch(*((10_000, t) for t in part.column("ts").to_pylist() if t is not None)) for part in beats]
    return {**batches, "S": [pa.concat_tables(pair) for pair in zip(batches["S"], nothing, strict=True)]}


def expected(
    batches: dict[str, list[pa.Table]], beats: list[pa.Table], kind: str, *, by_previous: bool = False
) -> list[tuple]:
    times, lateness = {"R": "ts", "S": "ts"}, {"R": 4, "S": 4}
    late = dropped_by_spark(as_tuples(batches, beats), times, lateness, by_previous=by_previous)
    tables = {}
    for name, parts in as_tuples(batches, beats).items():
        rows = pa.concat_tables(parts).to_pylist()
        kept = [row for k, row in enumerate(rows) if k not in late[name] and row["x"] < 10_000]
        tables[name] = pa.Table.from_pylist(kept, SCHEMA)
    outputs = (Output("x", 0, "x"), Output("p", 0, "ts"), Output("a", 1, "x"), Output("q", 1, "ts"))
    roles = (Role("R", "R", Window("range", 10)), Role("S", "S", Window("range", 10)))
    return expected_rows(Join(roles, tables, "abs(R.x - S.x) <= 3", outputs, kind))


@pytest.mark.parametrize("by_previous", [False, True])
@pytest.mark.parametrize(("sql", "kind"), [(INNER, "inner"), (LEFT, "left")], ids=["inner", "left"])
def test_heartbeats_are_tuples_that_join_nothing(sql, kind, by_previous):
    """Windows close and late tuples are late as if such tuples had come; nothing is counted and nothing comes out."""
    batches, beats = random_rounds(f"heartbeats {kind}")
    rng = seeds.chance(f"heartbeats run {kind}")
    spec = make_spec(sql, SCHEMAS, layout=(2, 2) if kind == "inner" else "auto", lateness=4, by_previous=by_previous)
    done, twin = Simulation(spec, rng, Trouble()), Simulation(spec, rng, Trouble())
    for number in range(ROUNDS):
        now = {name: parts[number] for name, parts in batches.items()}
        done.batch(now, {"S": beats[number]})
        twin.batch({name: parts[number] for name, parts in as_tuples(batches, beats).items()})
        assert done.watermark == twin.watermark
    done.settle()
    twin.settle()
    done.close_windows()
    assert_same(expected(batches, beats, kind, by_previous=by_previous), done.table())
    given = sum(part.num_rows for parts in batches.values() for part in parts)
    assert done.total("tuples") + done.total("late") == given
    assert 0 < done.total("late") <= twin.total("late")


def test_a_silent_stream_holds_windows_only_without_heartbeats():
    held = {}
    for name, beats in (("silent", {}), ("beating", {"S": [beat(100 * k) for k in range(1, 9)]})):
        done = Simulation(make_spec(LEFT, SCHEMAS, cells=1), seeds.chance("silent"), Trouble(0, 0, 0, 0))
        for k in range(1, 9):
            done.batch({"R": batch(*[(k, 100 * k)] * 100)}, {key: parts[k - 1] for key, parts in beats.items()})
        done.settle()
        held[name] = done.table().num_rows, done.total("state_change")
    assert (held["silent"][0], held["beating"][0]) == (0, 700), "rows without a partner, once their windows have closed"
    assert held["beating"][1] < held["silent"][1] / 2


# ---------------------------------------------------------------------------------- on Spark


@SPARK
def test_heartbeats_move_the_clock_of_a_silent_stream_across_restarts(tmp_path):
    batches, beats = random_rounds("heartbeats on Spark")
    feeds = {name: Feed(tmp_path / f"in-{name}", SCHEMA) for name in ("R", "S")}
    clock = Feed(tmp_path / "beats", BEAT)
    progress = []
    for number in range(ROUNDS):
        for name, feed in feeds.items():
            feed.add(batches[name][number])
        clock.add(beats[number])
        if number in (3, ROUNDS - 1):
            frames = {name: feed.frame() for name, feed in feeds.items()}
            joined = cw.spark.join(INNER, frames, lateness=4, cells=2, heartbeats={"S": clock.frame()})
            progress += run_to_end(joined, tmp_path)
    assert_same(expected(batches, beats, "inner"), written(tmp_path, joined.schema))
    late = dropped_by_spark(as_tuples(batches, beats), {"R": "ts", "S": "ts"}, {"R": 4, "S": 4})
    nothing = as_tuples(batches, beats)["S"]
    real = [row["x"] < 10_000 for row in pa.concat_tables(nothing).to_pylist()]
    assert sum(p.late for p in progress) == len(late["R"]) + sum(real[k] for k in late["S"])
    assert sum(p.tuples + p.late for p in progress) == sum(len(part) for parts in batches.values() for part in parts)


@SPARK
def test_a_clock_lets_a_stream_be_silent(spark, tmp_path):
    """Processing time as heartbeats: a stream is taken to be at most two seconds behind the clock."""
    schema = pa.schema([("x", pa.int64()), ("ts", pa.timestamp("us", "UTC"))])
    feeds = {name: Feed(tmp_path / f"in-{name}", schema) for name in ("R", "S")}
    feeds["R"].add(pa.table({"x": [7], "ts": [dt.datetime.now(dt.UTC)]}, schema))
    clock = spark.readStream.format("rate").option("rowsPerSecond", 1).load()
    beats = clock.selectExpr("timestamp - INTERVAL 2 SECONDS AS ts")
    joined = cw.spark.join(
        "SELECT R.x, S.x AS a FROM R [RANGE 1 SECOND] LEFT JOIN S [RANGE 1 SECOND] ON R.x = S.x",
        {name: feed.frame() for name, feed in feeds.items()},
        heartbeats={"R": beats, "S": beats},
        event_time=None,
    )
    writer = joined.writeStream.format("memory").queryName("silent")
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        wait_until(lambda: spark.table("silent").count() == 1, "the order without a driver", 120)
    finally:
        query.stop()
    assert [tuple(row) for row in spark.table("silent").collect()] == [(7, None)]


@SPARK
def test_the_fastest_stream_may_decide(spark, tmp_path):
    """Spark's policy ``max``: what docs/spark.md says of it. Late is what is older than the fastest stream allows."""
    policy = "spark.sql.streaming.multipleWatermarkPolicy"
    feeds = {name: Feed(tmp_path / f"in-{name}", SCHEMA) for name in ("R", "S")}
    feeds["R"].add(batch((1, 100)))
    feeds["R"].add(batch((2, 200)))
    feeds["R"].add(batch((3, 201)))
    for part in ([], [], [(9, 149), (9, 150), (3, 201)]):
        feeds["S"].add(batch(*part))
    spark.conf.set(policy, "max")
    try:
        joined = cw.spark.join(LEFT, {name: feed.frame() for name, feed in feeds.items()}, lateness=50, cells=1)
        progress = run_to_end(joined, tmp_path)
    finally:
        spark.conf.set(policy, "min")
    assert sum(p.late for p in progress) == 1, "the watermark is 150: the greatest time of all, less the lateness"
    rows = [tuple(row.values()) for row in written(tmp_path, joined.schema).to_pylist()]
    assert sorted(rows, key=repr) == [(1, 100, None, None), (2, 200, 3, 201), (3, 201, 3, 201)]


@SPARK
def test_heartbeats_that_could_not_beat_are_refused(spark, tmp_path):
    feed, clock = Feed(tmp_path / "in", SCHEMA), Feed(tmp_path / "beats", BEAT)
    frames = {"R": feed.frame(), "S": feed.frame()}
    times = feed.frame().selectExpr("x", "timestamp_millis(ts) AS ts")
    marked = {"R": times, "S": times.withWatermark("ts", "1 second")}
    seconds = "SELECT R.x FROM R [RANGE 1 SECOND], S [RANGE 1 SECOND]"
    for sql, given, beats, told in [
        (INNER, frames, {"Q": clock.frame()}, "heartbeats names the stream 'Q', the query has R, S"),
        (
            INNER,
            frames,
            {"S": static_frame(beat(1))},
            "must be a streaming DataFrame with its time column.*a static one",
        ),
        (INNER, frames, {"S": 5}, "must be a streaming DataFrame.*got int"),
        (
            INNER,
            frames,
            {"S": clock.frame().selectExpr("ts AS t")},
            "time column, 'ts' of type bigint, but have t bigint",
        ),
        (INNER, frames, {"S": times}, "'ts' of type bigint, but have x bigint, ts timestamp"),
        (seconds, marked, {"S": times.select("ts")}, "for its frame brings a watermark.*say lateness="),
        (seconds, marked, {"R": times.withWatermark("ts", "1 second")}, "have a watermark of their own"),
    ]:
        with pytest.raises(cw.InputError) as caught:
            cw.spark.join(sql, given, heartbeats=beats)
        assert re.search(told, str(caught.value)), str(caught.value)
    one = {name: static_frame(batch((1, 1))) for name in ("R", "S")}
    with pytest.raises(cw.InputError, match="these frames are static"):
        cw.spark.join(INNER, one, heartbeats={"S": clock.frame()})
