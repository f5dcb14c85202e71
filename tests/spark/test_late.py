"""Tuples that are not joined, as rows of the output: which, once each, with all their columns, and what is refused."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

import crosswind as cw
from crosswind.spark.dropped import LATE, NO_TIME, check_late
from tests import seeds
from tests.conftest import SPARK
from tests.spark.frames import dropped_by_spark, join_static, join_streams
from tests.spark.simulation import Simulation, Trouble, join_simulated, make_spec

SCHEMA = pa.schema([("x", pa.int64()), ("word", pa.string()), ("ts", pa.int64())])
SCHEMAS = {"R": SCHEMA, "S": SCHEMA}
WINDOWS = "R [RANGE 10], S [RANGE 10]"
TIMES = {"R": "ts", "S": "ts"}
KINDS = {
    "inner": f"SELECT R.x, S.x AS a FROM {WINDOWS} WHERE abs(R.x - S.x) <= 3",
    "left": "SELECT R.x, S.x AS a FROM R [RANGE 10] LEFT JOIN S [RANGE 10] ON abs(R.x - S.x) <= 3",
    "anti": "SELECT R.x FROM R [RANGE 10] LEFT ANTI JOIN S [RANGE 10] ON R.x = S.x",
    "rows": "SELECT R.x, S.x AS a FROM R [ROWS 5], S [RANGE 10] WHERE R.x = S.x",
    "many": {
        "near": f"SELECT R.x, S.x AS a FROM {WINDOWS} WHERE abs(R.x - S.x) <= 3",
        "words": f"SELECT R.x, S.word FROM {WINDOWS} WHERE R.word = S.word",
    },
}
Batches = dict[str, list[pa.Table]]
Rows = dict[tuple[str, str], Counter[tuple]]


def batch(*tuples: tuple[Any, ...]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in tuples], SCHEMA)


def random_batches(rng: random.Random, rounds: int, per_round: int) -> Batches:
    """Return batches in which some tuples are older than the watermark, and some have no time."""

    def tuples(k: int) -> list[tuple]:
        times = [None if rng.random() < 0.1 else rng.randint(max(1, 30 * k - 120), 30 * k) for _ in range(per_round)]
        return [(rng.randint(0, 20), rng.choice("abc"), t) for t in times]

    return {name: [batch(*tuples(k)) for k in range(1, rounds + 1)] for name in ("R", "S")}


def expected(batches: Batches, *, by_previous: bool = False) -> Rows:
    """Return what must be dropped: by stream and reason."""
    late = dropped_by_spark(batches, TIMES, {"R": 5, "S": 5}, by_previous=by_previous)
    found = {}
    for name, parts in batches.items():
        rows = [tuple(row.values()) for row in pa.concat_tables(parts).to_pylist()]
        found[name, LATE] = Counter(rows[k] for k in late[name])
        found[name, NO_TIME] = Counter(row for row in rows if row[2] is None)
    return found


def given(table: pa.Table) -> Rows:
    """Return the tuples in the column ``late`` of ``table``, in whose rows nothing else may be."""
    found: Rows = {(name, reason): Counter() for name in ("R", "S") for reason in (LATE, NO_TIME)}
    for row in table.to_pylist():
        late = row.pop("late")
        if late is None:
            continue
        stream, reason = late.pop("stream"), late.pop("reason")
        assert not any(value is not None for value in row.values()), row
        assert [name for name, value in late.items() if value is not None] == [stream]
        found[stream, reason][tuple(late[stream].values())] += 1
    return found


def joined(table: pa.Table) -> list[tuple]:
    rows = [row for row in table.to_pylist() if row.pop("late", None) is None]
    return sorted((tuple(row.values()) for row in rows), key=repr)


# ---------------------------------------------------------------------------------- in the simulation


@pytest.mark.parametrize("by_previous", [False, True])
@pytest.mark.parametrize("layout", [(2, 3), (1, 1)], ids=str)
@pytest.mark.parametrize("kind", ["inner", "left", "anti", "rows"])
def test_what_is_dropped_comes_out_once_however_often_it_is_copied_and_tried(kind, layout, by_previous):
    rng = seeds.chance(f"late {kind} {layout} {by_previous}")
    batches = random_batches(rng, 6, 40)
    where = {"layout": (1, 1) if kind == "rows" else layout, "lateness": 5, "by_previous": by_previous}
    plain = join_simulated(make_spec(KINDS[kind], SCHEMAS, **where), batches, rng, Trouble())
    done = join_simulated(make_spec(KINDS[kind], SCHEMAS, late="late", **where), batches, rng, Trouble())
    wanted = expected(batches, by_previous=by_previous)
    for name, reason in wanted:
        found = Counter(tuple(row.values()) for row in done.dropped_rows(name, reason))
        assert found == wanted[name, reason]
    assert sum(wanted[name, LATE].total() for name in ("R", "S")) == done.total("late") == plain.total("late") > 20
    assert sum(wanted[name, NO_TIME].total() for name in ("R", "S")) == done.rejected == plain.rejected > 10
    assert sorted(done.table().to_pylist(), key=repr) == sorted(plain.table().to_pylist(), key=repr)


def test_late_may_be_asked_for_and_left_out_at_any_restart():
    """Tuples go to the same cells, and the state is the same, though they travel with more columns."""
    rng = seeds.chance("late on and off")
    batches = random_batches(rng, 6, 40)
    specs = [make_spec(KINDS["inner"], SCHEMAS, layout=(2, 2), lateness=5, late=late) for late in (None, "late")]
    whole = join_simulated(specs[0], batches, rng, Trouble())
    changed = Simulation(specs[0], rng, Trouble())
    for number in range(6):
        changed.spec = specs[number % 2]
        changed.batch({name: parts[number] for name, parts in batches.items()})
    changed.settle()
    assert specs[0].identity() == specs[1].identity()
    assert sorted(changed.table().to_pylist(), key=repr) == sorted(whole.table().to_pylist(), key=repr)
    assert changed.total("state_change") == whole.total("state_change")


@pytest.mark.parametrize(
    ("name", "sources", "columns", "told"),
    [
        ("x", ["R"], ["X", "a"], r"late='x'.*the result has a column 'X'.*alias"),
        ("late", ["R", "Stream"], [], r"'stream' and 'reason'.*no stream can be called 'Stream'"),
        ("", ["R"], [], r"late names the column.*got ''; say late='late'"),
        (True, ["R"], [], r"got True"),
    ],
)
def test_a_column_that_cannot_be_is_refused(name, sources, columns, told):
    with pytest.raises(cw.InputError, match=told):
        check_late(name, sources, columns)


# ---------------------------------------------------------------------------------- on Spark


@SPARK
@pytest.mark.parametrize(
    "kind", ["left", *(pytest.param(k, marks=pytest.mark.long) for k in ("inner", "rows", "many"))]
)
def test_late_tuples_are_rows_of_the_output(kind, tmp_path):
    batches = random_batches(seeds.chance(f"late on Spark {kind}"), 4, 60)
    options = {} if kind in ("rows", "many") else {"layout": (2, 2)}
    done = join_streams(KINDS[kind], batches, tmp_path, 1, lateness=5, late="late", **options)
    wanted = expected(batches)
    assert given(done.table) == wanted
    assert sum(wanted[name, LATE].total() for name in ("R", "S")) == done.total("late") > 20
    assert sum(wanted[name, NO_TIME].total() for name in ("R", "S")) == done.total("rejected") > 10
    assert len(joined(done.table)) == done.total("results") > 0


@SPARK
def test_static_frames_give_out_what_has_no_time():
    tables = {"R": batch((1, "a", 5), (2, "b", None)), "S": batch((3, "c", 6), (4, "d", None), (4, "d", None))}
    for kind in ("left", "many"):
        table = join_static(KINDS[kind], tables, late="late")
        rows = {("R", NO_TIME): {(2, "b", None): 1}, ("S", NO_TIME): {(4, "d", None): 2}}
        assert {key: found for key, found in given(table).items() if found} == rows
        assert joined(table) == [(1, 3)] if kind == "left" else [("near", 1, 3, None)]


@SPARK
def test_a_column_that_cannot_travel_is_named(spark):
    frame = spark.sql("SELECT 1L AS x, 'a' AS word, 5L AS ts, INTERVAL '3' YEAR AS age")
    frames = {"R": frame, "S": frame}
    assert cw.spark.join(KINDS["inner"], frames).count() == 1, "the join does not need it"
    with pytest.raises(cw.UnsupportedError, match=r"column 'age'.*interval year"):
        cw.spark.join(KINDS["inner"], frames, late="late")
