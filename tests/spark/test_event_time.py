"""Which column of a result carries event time on, how far Spark's watermark lags for it, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import crosswind as cw
from crosswind.engine.session import parse_queries
from crosswind.spark.event_time import AUTO, event_time_of
from crosswind.spark.spec import unit_plan
from tests.conftest import SPARK
from tests.spark.frames import Feed

TIME = pa.timestamp("us", "UTC")
SCHEMA = pa.schema([("id", pa.int64()), ("x", pa.int32()), ("ts", TIME), ("seen", TIME)])
SCHEMAS = {"R": SCHEMA, "S": SCHEMA}
SECOND = 1_000_000
INNER = "FROM R [RANGE 20 SECONDS], S [RANGE 10 SECONDS] WHERE R.x = S.x"
LEFT = "FROM R [RANGE 20 SECONDS] LEFT JOIN S [RANGE 10 SECONDS] ON R.x = S.x"
ROWS = "FROM R [ROWS 5], S [RANGE 10 SECONDS] WHERE R.x = S.x"


def choose(sql: str | dict[str, str], wanted: str | None = AUTO, fixed: tuple[str, ...] = ()) -> Any:
    plan, _ = unit_plan(parse_queries(sql, SCHEMAS, time="ts"))
    return event_time_of(plan, wanted, ["ts"], fixed=fixed)


@pytest.mark.parametrize(
    ("sql", "column", "lag"),
    [
        (f"SELECT R.ts {INNER}", "ts", 20 * SECOND - 1),
        (f"SELECT S.ts AS at {INNER}", "at", 10 * SECOND - 1),
        (f"SELECT R.ts AS p, S.ts {INNER}", "ts", 10 * SECOND - 1),
        (f"SELECT greatest(R.ts, S.ts) AS ts {INNER}", "ts", 0),
        (f"SELECT greatest(R.ts, R.ts) AS ts {INNER}", "ts", 20 * SECOND - 1),
        (f"SELECT least(R.ts, S.ts) AS ts {INNER}", "ts", 20 * SECOND - 1),
        (f"SELECT CASE WHEN R.x > 3 THEN S.ts END AS ts {INNER}", "ts", 10 * SECOND - 1),
        (f"SELECT R.ts {LEFT}", "ts", 20 * SECOND),
        (f"SELECT coalesce(S.ts, R.ts) AS ts {LEFT}", "ts", 20 * SECOND),
        (f"SELECT greatest(R.ts, S.ts) AS ts {LEFT}", "ts", 20 * SECOND),
        (f"SELECT greatest(R.ts, S.ts) AS ts {ROWS}", "ts", 1),
        (f"SELECT S.ts {ROWS}", "ts", 10 * SECOND),
        ({"a": f"SELECT S.ts {INNER}", "b": f"SELECT R.ts {INNER}"}, "ts", 20 * SECOND - 1),
        ("SELECT R.ts FROM R [NOW], S [NOW] WHERE R.x = S.x", "ts", 0),
        ("SELECT R.ts FROM R [NOW] LEFT JOIN S [NOW] ON R.x = S.x", "ts", 1),
    ],
)
def test_the_lag_is_the_window_of_the_stream_whose_time_goes_on(sql, column, lag):
    """One tick more where rows come out when the watermark has passed them, and so may be as old as the one before."""
    found = choose(sql)
    assert (found.column, found.lag) == (column, lag)
    assert choose(sql, column) == found


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT R.x {INNER}",
        f"SELECT R.ts AS p, S.ts AS q {INNER}",
        f"SELECT R.seen AS ts {INNER}",
        f"SELECT R.ts + INTERVAL 1 SECOND AS ts {INNER}",
        f"SELECT R.ts {ROWS}",
        f"SELECT CASE WHEN R.x > 3 THEN CAST(NULL AS TIMESTAMP) END AS ts {INNER}",
        f"SELECT CAST(NULL AS TIMESTAMP) AS ts {INNER}",
    ],
)
def test_without_a_column_that_is_plainly_meant_none_carries_event_time(sql):
    assert choose(sql) is None


@pytest.mark.parametrize(
    ("sql", "wanted", "message"),
    [
        (f"SELECT R.ts {INNER}", "time", "names the column 'time'; the result has ts"),
        (f"SELECT R.x, R.ts {INNER}", "x", "is of type int32; event time must be a timestamp"),
        (f"SELECT R.seen {INNER}", "seen", "must be the time column of a stream, or greatest"),
        (f"SELECT R.ts {ROWS}", "ts", r"window counts tuples: it may be of any age. Give greatest\(R.ts, S.ts\)"),
    ],
)
def test_a_column_that_cannot_carry_event_time_is_refused(sql, wanted, message):
    with pytest.raises(cw.InputError, match=message):
        choose(sql, wanted)


def test_a_watermark_that_a_frame_brings_cannot_lag():
    sql = f"SELECT R.ts, greatest(R.ts, S.ts) AS at {INNER}"
    with pytest.raises(
        cw.InputError, match=r"up to 20 SECONDS \(R\) older.* 'S' brings .*greatest\(R.ts, S.ts\) AS ts"
    ):
        choose(sql, "ts", fixed=("S",))
    assert choose(sql, fixed=("S",)).column == "at"
    assert choose(sql).column == "ts"
    assert choose(sql, None) is None
    waits = f"SELECT greatest(R.ts, S.ts) AS ts {ROWS}"
    assert choose(waits, fixed=("S",)) is None
    with pytest.raises(cw.InputError, match=r"up to one tick older.* own. Give the frame without withWatermark"):
        choose(waits, "ts", fixed=("S",))


@pytest.fixture
def frames(tmp_path: Path) -> dict[str, Any]:
    """Return two streams that nothing comes from."""
    return {name: Feed(tmp_path / name, SCHEMA).frame() for name in SCHEMAS}


@SPARK
def test_the_watermark_of_a_frame_is_its_lateness(frames):
    sql, marked = f"SELECT R.x {INNER}", frames["R"].withWatermark("ts", "7 seconds")
    cw.spark.join(sql, {**frames, "R": marked})
    cw.spark.join(sql, {**frames, "R": marked}, lateness={"S": "9 seconds"})
    cw.spark.join(sql, {**frames, "R": marked}, lateness="7 seconds")
    with pytest.raises(cw.InputError, match=r"'R': lateness is '9 seconds'.*delay of 7000 ms.*lateness={'S': '9 sec"):
        cw.spark.join(sql, {**frames, "R": marked}, lateness="9 seconds")
    elsewhere = frames["R"].withWatermark("seen", "7 seconds")
    with pytest.raises(cw.InputError, match="its watermark is on 'seen', but the join takes its time from 'ts'"):
        cw.spark.join(sql, {**frames, "R": elsewhere})


@SPARK
def test_explain_names_the_column_and_its_lag(frames):
    plan = cw.spark.explain(f"SELECT R.ts {INNER}", frames)
    assert plan.sections["event time"] == [
        "ts, up to 20 SECONDS (R) older than the watermark of the join; Spark's watermark lags as much"
    ]
    latest = cw.spark.explain(f"SELECT greatest(R.ts, S.ts) AS ts {INNER}", frames)
    assert latest.sections["event time"] == ["ts, never older than the watermark of the join"]
    assert "event time" not in cw.spark.explain(f"SELECT R.ts {INNER}", frames, event_time=None).sections
