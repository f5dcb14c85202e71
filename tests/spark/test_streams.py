"""Streaming joins on Spark: exact in every layout, over random batches, counted, restarted, refused."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import crosswind as cw
from tests import seeds, test_semantics
from tests.cases import make_case, make_shape
from tests.conftest import ON_STREAMS, SPARK
from tests.fuzz import SHAPES_PER_SEED, check
from tests.oracle import Join, Output, Role, Window, assert_same, expected_rows
from tests.seeds import SEED
from tests.spark.frames import Feed, join_static, join_streams, run_to_end, static_frame, written

pytestmark = SPARK

SCHEMA = pa.schema([("x", pa.int64()), ("ts", pa.int64())])
CROSS = "SELECT R.x, S.x AS a FROM R [RANGE 10], S [RANGE 10]"
BAND = "SELECT R.x, R.ts AS p, S.x AS a, S.ts AS q FROM R [RANGE 10], S [RANGE 25 INCLUSIVE] WHERE abs(R.x - S.x) <= 3"

SENTENCES: tuple[Callable[..., None], ...] = (
    test_semantics.test_the_end_of_an_inclusive_range_is_inclusive,
    test_semantics.test_now_is_the_same_time_only,
    test_semantics.test_on_equal_time_only_the_window_of_the_first_stream_counts,
    test_semantics.test_rows_counts_by_time_and_then_by_arrival,
    test_semantics.test_kinds_of_windows_can_be_mixed,
    test_semantics.test_a_tuple_of_a_self_join_meets_itself,
    test_semantics.test_dates_are_times,
    test_semantics.test_select_star_names_every_column,
)
OFTEN = {"rows_counts_by_time_and_then_by_arrival", "kinds_of_windows_can_be_mixed", "dates_are_times"}
"""Sentences of every test run; a query costs seconds, so ``make soak`` has the others."""
RANDOM_SHAPES = [pytest.param(number, marks=() if number < 5 else pytest.mark.long) for number in range(20)]
ATTEMPTS = 12


def batch(*tuples: tuple[int, int | None]) -> pa.Table:
    return pa.Table.from_pylist([{"x": x, "ts": ts} for x, ts in tuples], SCHEMA)


def pairs(table: pa.Table) -> list[tuple]:
    return sorted(zip(*(column.to_pylist() for column in table.columns), strict=True))


def random_streams(seed: int, rounds: int, per_round: int) -> dict[str, list[pa.Table]]:
    """Return batches that come up to 6 ticks late."""
    rng = seeds.chance(f"streams {seed}")

    def tuples(k: int) -> Iterator[tuple[int, int]]:
        for _ in range(rng.randint(0, per_round)):
            yield rng.randint(0, 30), rng.randint(max(0, 3 * k - 6), 3 * k)

    return {name: [batch(*tuples(k)) for k in range(rounds)] for name in ("R", "S")}


def expected_band(streams: dict[str, list[pa.Table]]) -> list[tuple]:
    tables = {name: pa.concat_tables(parts) for name, parts in streams.items()}
    outputs = (Output("x", 0, "x"), Output("p", 0, "ts"), Output("a", 1, "x"), Output("q", 1, "ts"))
    roles = (Role("R", "R", Window("range", 10)), Role("S", "S", Window("range", 25, True)))
    return expected_rows(Join(roles, tables, "abs(R.x - S.x) <= 3", outputs))


def named(sentence: Callable[..., None]) -> object:
    name = sentence.__name__.removeprefix("test_")
    return pytest.param(sentence, id=name, marks=() if name in OFTEN else pytest.mark.long)


@pytest.mark.parametrize("sentence", [named(sentence) for sentence in SENTENCES])
def test_semantics_hold_on_streams(sentence):
    sentence(ON_STREAMS)


@pytest.mark.parametrize("number", RANDOM_SHAPES)
def test_random_streams_are_joined_exactly(number):
    """The first case of some that Spark has types and values for."""
    kinds = []
    for attempt in range(ATTEMPTS):
        shape = make_shape(SHAPES_PER_SEED * SEED + number + len(RANDOM_SHAPES) * (attempt // 2))
        kinds.append(check(make_case(shape, attempt), ON_STREAMS).kind)
        if kinds[-1] != "not in Spark":
            break
    assert kinds[-1] in ("same", "overflow", "unknown"), kinds


@pytest.mark.parametrize(
    ("layout", "cells"), [("range", 3), pytest.param((2, 2), None, marks=pytest.mark.long)], ids=str
)
def test_a_query_that_is_restarted_again_and_again_goes_on_exactly(tmp_path, layout, cells):
    streams = random_streams(1, 6, 80)
    done = join_streams(BAND, streams, tmp_path, restarts=2, layout=layout, cells=cells, lateness=6)
    assert_same(expected_band(streams), done.table)
    assert done.total("tuples") == sum(part.num_rows for parts in streams.values() for part in parts)
    assert done.total("late") == 0
    assert done.total("results") == done.table.num_rows
    assert max(entry.state_bytes for entry in done.progress) > 0


def test_streams_and_static_frames_give_the_same_rows(tmp_path):
    streams = random_streams(2, 3, 40)
    whole = {name: pa.concat_tables(parts) for name, parts in streams.items()}
    live = join_streams(BAND, streams, tmp_path, lateness=6)
    assert pairs(live.table) == pairs(join_static(BAND, whole)) == sorted(expected_band(streams))
    assert pairs(join_static(BAND, whole, partitions=None, layout="grid", cells=3)) == pairs(live.table)


@pytest.mark.parametrize(("kind", "words"), [("full", "FULL OUTER"), ("anti", "LEFT ANTI")])
def test_what_did_not_match_comes_out_once_across_a_restart(tmp_path, kind, words):
    streams = random_streams(3, 4, 12)
    sql = f"FROM R [RANGE 10] {words} JOIN S [RANGE 25 INCLUSIVE] ON abs(R.x - S.x) <= 3"
    columns = "R.x, R.ts AS p" + (", S.x AS a, S.ts AS q" if kind == "full" else "")
    roles = (Role("R", "R", Window("range", 10)), Role("S", "S", Window("range", 25, True)))
    outputs = (Output("x", 0, "x"), Output("p", 0, "ts"), Output("a", 1, "x"), Output("q", 1, "ts"))
    tables = {name: pa.concat_tables(parts) for name, parts in streams.items()}
    join = Join(roles, tables, "abs(R.x - S.x) <= 3", outputs[: len(columns.split(","))], kind)
    far = {name: [*parts, batch((-1000, 10_000))] for name, parts in streams.items()}  # closes all windows but its own
    far["S"][-1] = batch((1000, 10_000))
    done = join_streams(f"SELECT {columns} {sql}", far, tmp_path, restarts=1, lateness=6)
    assert_same(expected_rows(join), done.table)


def test_late_tuples_and_missing_times_are_counted_once(tmp_path):
    batches = {
        "R": [batch((1, 100)), batch((2, 99), (3, 100), (4, None))],
        "S": [batch((1, 100)), batch((5, 98), (6, None), (7, None))],
    }
    done = join_streams(CROSS, batches, tmp_path, layout=(2, 2))
    assert pairs(done.table) == [(1, 1), (3, 1)]
    assert (done.total("late"), done.total("rejected"), done.total("tuples")) == (2, 3, 3)
    assert done.total("cache_hits") + done.total("cache_misses") > 0


def test_an_idle_stream_does_not_hold_results_back(tmp_path):
    batches = {"R": [batch((1, 45))], "S": [batch((9, 50)), batch((10, 51)), batch((11, 52))]}
    done = join_streams(CROSS, batches, tmp_path, lateness=1000)
    assert pairs(done.table) == [(1, 9), (1, 10), (1, 11)]
    assert [entry.results for entry in done.progress if entry.tuples] == [1, 1, 1]


def test_what_the_watermark_has_passed_is_released(tmp_path):
    batches = {name: [batch(*((k, k) for k in range(100 * n, 100 * n + 100))) for n in range(4)] for name in ("R", "S")}
    done = join_streams(CROSS, batches, tmp_path, cells=2)
    assert done.table.num_rows == 400 * 19 - 90
    sizes = [entry.state_bytes for entry in done.progress]
    assert 0 < sizes[-1] < 2 * sizes[0], "what is left of four batches is about one"


def test_counters_reach_a_listener(spark, tmp_path):
    heard: list[cw.spark.Progress] = []
    listener = cw.spark.Listener(heard.append)
    spark.streams.addListener(listener)
    try:
        done = join_streams(CROSS, {"R": [batch((1, 1))], "S": [batch((2, 2))]}, tmp_path)
    finally:
        spark.streams.removeListener(listener)
    assert sum(entry.results for entry in done.progress) == 1
    assert sum(entry.results for entry in heard) == 1
    assert all(entry.batch_ms > 0 for entry in heard)
    assert sum(done.progress[1:], done.progress[0]).tuples == 2


@pytest.mark.long
def test_a_tuple_at_the_watermark_is_late_for_sparks_own_join_and_not_here(tmp_path):
    """What docs/spark.md says of the difference: where the watermark stands, and what is late then."""
    from pyspark.sql import functions as sf

    schema = pa.schema([("x", pa.int64()), ("ts", pa.timestamp("us", "UTC"))])
    # After the first micro-batch the watermark is 100 s, and stays there.
    seconds = {"R": [{1: 100}, {2: 100, 3: 99}, {4: 99, 5: 100, 6: 101}], "S": [{1: 100}, {2: 100}, {3: 100}]}
    found = {}
    for engine in ("spark", "crosswind"):
        folder = tmp_path / engine
        feeds = {name: Feed(folder / f"in-{name}", schema) for name in ("R", "S")}
        for name, parts in seconds.items():
            for part in parts:
                feeds[name].add(pa.table({"x": list(part), "ts": [1_000_000 * s for s in part.values()]}, schema))
        if engine == "crosswind":
            sql = "SELECT R.x, S.x AS a FROM R [RANGE 60 SECONDS], S [RANGE 60 SECONDS]"
            done = cw.spark.join(sql, {name: feed.frame() for name, feed in feeds.items()})
        else:
            r, s = (feeds[name].frame().withWatermark("ts", "0 seconds").alias(name) for name in ("R", "S"))
            near = "S.ts BETWEEN R.ts - INTERVAL 60 SECONDS AND R.ts + INTERVAL 60 SECONDS"
            done = r.join(s, sf.expr(f"R.x % 1 = S.x % 1 AND {near}")).selectExpr("R.x", "S.x AS a")
        run_to_end(done, folder)
        found[engine] = pairs(written(folder, done.schema))
    assert found["crosswind"] == [(x, a) for x in (1, 2, 5, 6) for a in (1, 2, 3)]
    assert found["spark"] == [(x, a) for x in (1, 2, 3, 6) for a in (1, 2)]


# ---------------------------------------------------------------------------------- failures


@pytest.fixture
def begun(tmp_path) -> dict[str, Feed]:
    """Streams of which a join has taken one batch."""
    return begin(tmp_path)


def begin(folder: Path) -> dict[str, Feed]:
    """Let a join take one batch of new streams in ``folder``; another one waits."""
    feeds = {name: Feed(folder / f"in-{name}", SCHEMA) for name in ("R", "S")}
    for feed in feeds.values():
        feed.add(batch((1, 1)))
    run_to_end(joined(feeds, layout="grid", cells=2), folder)
    for feed in feeds.values():
        feed.add(batch((2, 2)))
    return feeds


def joined(feeds: dict[str, Feed], sql: str = BAND, **options: object) -> object:
    return cw.spark.join(sql, {name: feed.frame() for name, feed in feeds.items()}, **options)


def test_another_layout_at_a_restart_is_refused(begun, tmp_path):
    for layout in ("range", (2, 1)):
        with pytest.raises(cw.SnapshotError, match=r"(?s)checkpoint belongs to another join.*new checkpointLocation"):
            run_to_end(joined(begun, layout=layout, cells=2), tmp_path)
    run_to_end(joined(begun, layout="grid", cells=2, index="scan", cache_mb=0), tmp_path)
    assert len(written(tmp_path, joined(begun).schema)) == 4


def test_a_restart_with_other_partitions_goes_on_exactly(spark, tmp_path):
    """Spark keeps the partitions of the checkpoint, whatever the session says now; cells keep their keys."""
    streams = random_streams(3, 3, 60)
    feeds = {name: Feed(tmp_path / f"in-{name}", SCHEMA) for name in streams}
    try:
        for number, partitions in enumerate((2, 5, 1)):
            spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
            for name, parts in streams.items():
                feeds[name].add(parts[number])
            done = joined(feeds, layout="range", cells=5, lateness=6)
            run_to_end(done, tmp_path)
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", "2")
    assert_same(expected_band(streams), written(tmp_path, done.schema))


def test_state_under_other_keys_is_refused(tmp_path, monkeypatch):
    """Versions before 0.1.0 took keys by the partitions of the session: 0, 1, 2 and so on, some left out."""
    with monkeypatch.context() as patched:
        patched.setattr(sys.modules["crosswind.spark.join"], "cell_keys", lambda cells: tuple(range(3, 3 + cells)))
        feeds = begin(tmp_path)
    with pytest.raises(cw.SnapshotError, match=r"(?s)first cell.*finds no state.*new checkpointLocation"):
        run_to_end(joined(feeds, layout="grid", cells=2), tmp_path)


def test_a_join_may_get_its_first_tuples_late(tmp_path):
    """Micro-batches in which only another part of the query had something to do are no loss of state."""
    feeds = {name: Feed(tmp_path / f"in-{name}", SCHEMA) for name in ("R", "S", "T")}

    def both() -> object:
        return joined({name: feeds[name] for name in ("R", "S")}, CROSS).union(feeds["T"].frame())

    for number, names in enumerate(("T", "T", "RST", "RST")):
        for name in names:
            feeds[name].add(batch((number, 5 + number)))
        run_to_end(both(), tmp_path)
    rows = [(x, a) for x in (2, 3) for a in (2, 3)] + [(number, 5 + number) for number in range(4)]
    assert pairs(written(tmp_path, both().schema)) == sorted(rows)


def test_a_first_micro_batch_may_bring_nothing_to_join(tmp_path):
    feeds = {name: Feed(tmp_path / f"in-{name}", SCHEMA) for name in ("R", "S")}

    def some() -> object:
        return cw.spark.join(CROSS, {name: feed.frame().where("x > 0") for name, feed in feeds.items()})

    for x in (0, 0, 1, 2):
        for feed in feeds.values():
            feed.add(batch((x, 1)))
        run_to_end(some(), tmp_path)
    assert pairs(written(tmp_path, some().schema)) == [(1, 1), (1, 2), (2, 1), (2, 2)]


def test_an_overflow_in_a_worker_is_the_users_error(tmp_path):
    sql = "SELECT R.x, S.x AS a FROM R [RANGE 5], S [RANGE 5] WHERE (R.x + S.x) * 1 > 0"
    tables = {"R": batch((2**63 - 1, 1)), "S": batch((1, 1))}
    for run in (
        lambda: join_static(sql, tables),
        lambda: join_streams(sql, {name: [table] for name, table in tables.items()}, tmp_path),
    ):
        with pytest.raises(cw.ArithmeticOverflowError) as caught:
            run()
        told = str(caught.value)
        assert "R.x + S.x" in told
        assert "Traceback" not in told
        assert "org.apache" not in told
        assert "SQLSTATE" not in told


def test_a_session_without_rocksdb_is_told_so(spark, tmp_path):
    key = "spark.sql.streaming.stateStore.providerClass"
    rocksdb = spark.conf.get(key)
    feed = Feed(tmp_path / "in", SCHEMA)
    spark.conf.unset(key)
    spark.conf.set(key, "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider")
    try:
        with pytest.raises(cw.InputError, match=r"(?s)RocksDB.*HDFSBackedStateStoreProvider.*settings\(\)"):
            cw.spark.join(CROSS, {"R": feed.frame(), "S": feed.frame()})
    finally:
        spark.conf.set(key, rocksdb)


def test_too_many_partitions_are_warned_of(spark, tmp_path):
    feed = Feed(tmp_path / "in", SCHEMA)
    spark.conf.set("spark.sql.shuffle.partitions", "200")
    try:
        with pytest.warns(cw.CrosswindWarning, match=r"200, but the join has 2 cells"):
            cw.spark.join(CROSS, {"R": feed.frame(), "S": feed.frame()}, cells=2)
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", "2")


def test_streaming_and_static_frames_do_not_mix(tmp_path):
    feed = Feed(tmp_path / "in", SCHEMA)
    with pytest.raises(cw.InputError, match=r"R is streaming, S is static.*readStream"):
        cw.spark.join(CROSS, {"R": feed.frame(), "S": static_frame(batch((1, 1)))})


@pytest.mark.parametrize(
    ("frames", "options", "told"),
    [
        (lambda _: {}, {}, "mapping of stream names"),
        (lambda frame: {"R": frame, "S": 5}, {}, "'S': got int.*not a Spark DataFrame"),
        (lambda frame: {"R": frame, "S": frame}, {"lateness": {"Q": 5}}, "lateness names the stream 'Q'"),
        (lambda frame: {"R": frame, "S": frame}, {"layout": "gird"}, "did you mean 'grid'"),
        (lambda frame: {"R": frame, "S": frame}, {"index": "tree"}, "index"),
        (lambda frame: {"R": frame}, {}, "S"),
    ],
)
def test_wrong_arguments_are_refused(frames, options, told):
    with pytest.raises(cw.CrosswindError, match=f"(?is){told}"):
        cw.spark.join(CROSS, frames(static_frame(batch((1, 1)))), **options)


def test_explain_shows_the_layout():
    frame = static_frame(batch((1, 1)))
    told = cw.spark.explain(BAND, {"R": frame, "S": frame}, cells=4)
    assert "range, 4 cells" in told
    assert "copies of a tuple: R 1, S 1.06" in told


def test_wait_gives_up_after_its_time(spark, tmp_path):
    feeds = {name: Feed(tmp_path / f"in-{name}", SCHEMA) for name in ("R", "S")}
    query = joined(feeds).writeStream.format("noop").option("checkpointLocation", str(tmp_path / "cp")).start()
    try:
        assert cw.spark.wait(query, 0.2) is False
    finally:
        query.stop()
    assert cw.spark.wait(query, 60) is True
