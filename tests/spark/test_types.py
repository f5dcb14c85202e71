"""Spark's types: payload passes through unchanged, and conditions mean what they mean to Spark itself."""

from __future__ import annotations

import datetime as dt
import json
import math
from collections import Counter
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as sf
from pyspark.sql import types as st

import crosswind as cw
from tests import seeds
from tests.conftest import SPARK
from tests.spark.frames import run_to_end

pytestmark = SPARK

NOON = dt.datetime(2024, 3, 31, 12, 30, 15, 123456)
PAYLOADS = {
    "boolean": "true",
    "tinyint": "-128Y",
    "smallint": "-32768S",
    "int": "2147483647",
    "bigint": "-9223372036854775808L",
    "float": "float('NaN')",
    "double": "double('-Infinity')",
    "decimal(38,18)": "-12345678901234567890.123456789012345678BD",
    "decimal(5,0)": "cast(99999 as decimal(5,0))",
    "string": "'ä\\u0000日本'",
    "binary": "X'00FF80'",
    "date": "date'0001-01-01'",
    "timestamp": "timestamp'2024-03-31 02:30:00.123456 Europe/Rome'",
    "timestamp_ntz": "timestamp_ntz'2024-03-31 02:30:00.123456'",
    "interval day to second": "interval '-5 03:04:05.000007' day to second",
    "void": "null",
    "array<int>": "array(1, null, 3)",
    "array<struct<a:int,b:array<string>>>": "array(named_struct('a', 1, 'b', array('x', null)), null)",
    "map<string,array<decimal(10,2)>>": "map('k', array(1.25BD, null), 'l', null)",
    "struct<i:int,t:timestamp_ntz,n:struct<f:float,d:date>>": (
        "named_struct('i', 1, 't', timestamp_ntz'1582-10-01 00:00:00', 'n', "
        "named_struct('f', float(0.1), 'd', date'2024-02-29'))"
    ),
    "struct<t:timestamp>": "named_struct('t', timestamp'1969-12-31 23:59:59.999999 UTC')",
}
UNWRITABLE = ("void",)
"""Types that Spark cannot write to parquet, so that they do not stream into files."""


def values(frame: DataFrame, *names: str) -> Counter[str]:
    return Counter(repr([row[name] for name in names]) for row in frame.collect())


def payload_frame(spark, kind: str, text: str) -> DataFrame:
    """Return a value, and a null, of type ``kind``."""
    some = spark.range(1).select(sf.expr(f"cast({text} as {kind})").alias("p"), sf.lit(1).cast("long").alias("ts"))
    none = spark.range(1).select(sf.expr(f"cast(null as {kind})").alias("p"), sf.lit(1).cast("long").alias("ts"))
    return some.union(none)


def all_payloads(spark) -> DataFrame:
    """Return one row with a column of every type that can be written, and one with nulls."""
    columns = [(f"c{n}", kind, text) for n, (kind, text) in enumerate(PAYLOADS.items()) if kind not in UNWRITABLE]
    ts = sf.lit(1).cast("long").alias("ts")
    some = [sf.expr(f"cast({text} as {kind})").alias(name) for name, kind, text in columns]
    none = [sf.expr(f"cast(null as {kind})").alias(name) for name, kind, _ in columns]
    return spark.range(1).select(*some, ts).union(spark.range(1).select(*none, ts))


@pytest.fixture
def ones(spark) -> DataFrame:
    return spark.range(1).select(sf.lit(7).cast("long").alias("a"), sf.lit(1).cast("long").alias("ts"))


@pytest.mark.parametrize("kind", PAYLOADS)
def test_payload_passes_through_a_static_join(spark, ones, kind):
    frame = payload_frame(spark, kind, PAYLOADS[kind])
    joined = cw.spark.join("SELECT R.p, S.a FROM R [NOW], S [NOW]", {"R": frame, "S": ones})
    assert joined.schema["p"].dataType == frame.schema["p"].dataType
    assert values(joined, "p") == values(frame, "p")


def streamed(spark, folder: Path, sql: str, frames: dict[str, DataFrame], **options: object) -> DataFrame:
    """Return the join of ``frames`` written to files and read as streams."""
    streams = {}
    for name, frame in frames.items():
        frame.coalesce(1).write.parquet(str(folder / f"in-{name}"))
        streams[name] = spark.readStream.schema(frame.schema).parquet(str(folder / f"in-{name}"))
    joined = cw.spark.join(sql, streams, **options)
    run_to_end(joined, folder)
    return spark.read.schema(joined.schema).parquet(str(folder / "out"))


def test_payload_passes_through_a_streaming_join(spark, ones, tmp_path):
    frame = all_payloads(spark)
    found = streamed(spark, tmp_path, "SELECT R.*, S.a FROM R [NOW], S [NOW]", {"R": frame, "S": ones}, layout=(2, 2))
    names = frame.columns
    assert [field.dataType for field in found.schema][: len(names)] == [field.dataType for field in frame.schema]
    assert values(found, *found.columns[: len(names)]) == values(frame, *names)


def test_variants_pass_through(spark, ones, tmp_path):
    text = json.dumps({"a": [1, 2.5, None], "b": {"c": "ä"}})
    frame = spark.range(1).select(sf.parse_json(sf.lit(text)).alias("v"), sf.lit(1).cast("long").alias("ts"))
    sql = "SELECT R.v, S.a FROM R [NOW], S [NOW]"
    static = cw.spark.join(sql, {"R": frame, "S": ones})
    assert [json.loads(row.v.toJson()) for row in static.collect()] == [json.loads(text)]
    found = streamed(spark, tmp_path, sql, {"R": frame, "S": ones})
    assert [json.loads(row.v.toJson()) for row in found.collect()] == [json.loads(text)]


def test_types_that_cannot_travel_are_refused_by_name(spark, ones):
    frame = payload_frame(spark, "interval year to month", "interval '1-2' year to month")
    with pytest.raises(
        cw.UnsupportedError, match=r"'R': column 'p' of type interval year to month.*cast it to a string"
    ):
        cw.spark.join("SELECT R.p, S.a FROM R [NOW], S [NOW]", {"R": frame, "S": ones})
    unused = cw.spark.join("SELECT R.ts, S.a FROM R [NOW], S [NOW]", {"R": frame, "S": ones})
    assert unused.count() == 2


class Point:
    """A value of a user-defined type."""

    __UDT__: PointType

    def __init__(self, x: float) -> None:
        self.x = x

    def __repr__(self) -> str:
        return f"Point({self.x})"


class PointType(st.UserDefinedType):
    """Points, stored as lists of doubles."""

    @classmethod
    def sqlType(cls) -> st.DataType:  # noqa: N802 - Spark's names
        return st.ArrayType(st.DoubleType(), False)

    @classmethod
    def module(cls) -> str:
        return __name__

    def serialize(self, obj: Point) -> list[float]:
        return [obj.x]

    def deserialize(self, datum: list[float]) -> Point:
        return Point(datum[0])


Point.__UDT__ = PointType()


def test_user_defined_types_pass_through(spark, ones):
    schema = st.StructType([st.StructField("p", PointType()), st.StructField("ts", st.LongType())])
    frame = spark.createDataFrame([Row(p=Point(1.5), ts=1)], schema)
    joined = cw.spark.join("SELECT R.p, S.a FROM R [NOW], S [NOW]", {"R": frame, "S": ones})
    assert values(joined, "p") == values(frame, "p")


# ---------------------------------------------------------------------------------- conditions


def random_frame(spark, seed: int, suffix: str) -> DataFrame:
    """Return rows of every type that conditions take, with nulls, NaN, -0.0, infinities and ties."""
    rng = seeds.chance(f"types {seed} {suffix}")
    small = range(-4, 5)
    makers = {
        ("i", "tinyint"): lambda: rng.choice(small),
        ("l", "bigint"): lambda: rng.choice([*small, 2**53 + 1, 2**62]),
        ("f", "float"): lambda: rng.choice([math.nan, -0.0, 0.0, math.inf, -math.inf, 0.5, 1.0, -2.5]),
        ("d", "double"): lambda: rng.choice([math.nan, -0.0, 0.0, math.inf, -math.inf, 0.5, 1.0, -2.5]),
        ("c", "decimal(9,2)"): lambda: Decimal(rng.choice(small)) / 4,
        ("w", "decimal(30,3)"): lambda: Decimal(rng.choice(small)) / 4 + rng.choice([0, 10**20]),
        ("t", "string"): lambda: rng.choice(["", "a", "ab", "ä", "A", "a "]),
        ("b", "binary"): lambda: rng.choice([b"", b"a", b"\xff", b"a\0"]),
        ("o", "boolean"): lambda: rng.random() < 0.5,
        ("e", "date"): lambda: NOON.date() + dt.timedelta(days=rng.choice(small)),
        ("z", "timestamp"): lambda: NOON.replace(tzinfo=dt.UTC) + dt.timedelta(minutes=rng.choice(small)),
        ("n", "timestamp_ntz"): lambda: NOON + dt.timedelta(minutes=rng.choice(small)),
    }
    rows = [
        [k, *(None if rng.random() < 0.15 else make() for make in makers.values()), rng.randint(0, 3)]
        for k in range(40)
    ]
    names = ", ".join(f"{name}{suffix} {kind}" for name, kind in makers)
    return spark.createDataFrame(rows, f"k{suffix} int, {names}, ts{suffix} long").coalesce(1)


CONDITIONS = (
    "R.i1 = S.i2",
    "R.l1 = S.i2",
    "R.f1 = S.f2",
    "R.f1 = S.d2",
    "R.d1 BETWEEN S.d2 - 1 AND S.d2 + 1",
    "abs(R.d1 - S.i2) <= 1.5",
    "R.i1 < S.d2",
    "R.c1 = S.c2",
    "R.c1 + S.c2 > 0.5",
    "R.c1 < S.d2",
    "R.c1 >= S.i2",
    "R.w1 = S.w2",
    "R.t1 = S.t2",
    "R.t1 < S.t2",
    "R.b1 >= S.b2",
    "R.o1 = S.o2 AND R.i1 > S.i2",
    "R.e1 = S.e2",
    "R.z1 BETWEEN S.z2 - INTERVAL 2 MINUTES AND S.z2",
    "R.n1 > S.n2",
    "R.d1 IS NOT DISTINCT FROM S.f2",
    "NOT (R.i1 <= S.i2) OR R.t1 IN ('a', S.t2)",
    "R.i1 % 3 = S.i2 % 2 AND R.d1 > S.d2",
    "greatest(R.i1, S.i2) = least(R.l1, 3)",
    "CASE WHEN R.o1 THEN R.i1 ELSE S.i2 END > coalesce(S.i2, 0)",
)


@pytest.mark.parametrize("where", CONDITIONS)
def test_conditions_mean_what_they_mean_to_spark(spark, where):
    seed = CONDITIONS.index(where)
    r, s = random_frame(spark, seed, "1"), random_frame(spark, seed, "2")
    sql = f"SELECT R.k1, S.k2 FROM R [RANGE 5], S [RANGE 5] WHERE {where}"
    mine = cw.spark.join(sql, {"R": r, "S": s}, time={"R": "ts1", "S": "ts2"})
    theirs = r.alias("R").crossJoin(s.alias("S")).where(where.replace("IS NOT DISTINCT FROM", "<=>"))
    found = values(mine, "k1", "k2")
    assert found == values(theirs, "k1", "k2")
    assert found, "a check that cannot fail"


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Kolkata"])
def test_other_time_zones_change_nothing(spark, tmp_path, zone):
    schema = "n int, at timestamp, wall timestamp_ntz, ts timestamp"
    base = dt.datetime(2024, 3, 10, 6, 59, tzinfo=dt.UTC)  # clocks change in New York at 7:00 UTC
    rows = [
        (k, base + dt.timedelta(minutes=k), NOON + dt.timedelta(minutes=k), base + dt.timedelta(seconds=k))
        for k in range(5)
    ]
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        frame = spark.createDataFrame(rows, schema)
        sql = """SELECT p.n, p.at, p.wall, p.ts, q.n AS m, p.at + INTERVAL 1 MINUTE AS later
        FROM R [RANGE 10 SECONDS] AS p, R [RANGE 10 SECONDS] AS q WHERE p.at = q.at AND p.wall = q.wall"""
        static = cw.spark.join(sql, {"R": frame})
        live = streamed(spark, tmp_path, sql, {"R": frame})
        expected = values(frame.selectExpr("*", "n AS m", "at + INTERVAL 1 MINUTE AS later"), *static.columns)
        assert values(static, *static.columns) == expected
        assert values(live, *static.columns) == expected
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_large_variable_types_change_nothing(spark, ones):
    key = "spark.sql.execution.arrow.useLargeVarTypes"
    frame = spark.createDataFrame(
        [("ä", b"\xff", ["x", None], 1), (None, None, None, 1)], "t string, b binary, l array<string>, ts long"
    )
    spark.conf.set(key, "true")
    try:
        joined = cw.spark.join(
            "SELECT R.t, R.b, R.l, S.t AS u FROM R [NOW], S [NOW] WHERE R.t = S.t AND R.b = S.b",
            {"R": frame, "S": frame},
        )
        assert values(joined, "t", "b", "l", "u") == values(
            frame.where("ts = 1 AND t = 'ä'").selectExpr("*", "t AS u"), "t", "b", "l", "u"
        )
    finally:
        spark.conf.set(key, "false")


def test_char_and_varchar_are_texts(spark):
    spark.sql("CREATE OR REPLACE TEMP VIEW texts AS SELECT cast('ab' as char(4)) c, cast('ab' as varchar(4)) v, 1L ts")
    frame = spark.table("texts")
    joined = cw.spark.join("SELECT p.c, q.v FROM R [NOW] AS p, R [NOW] AS q WHERE p.v = q.v", {"R": frame})
    assert values(joined, "c", "v") == values(frame, "c", "v")


def test_names_may_be_anything(spark, tmp_path):
    names = ["a.b", "c d", "e`f", 'g"h', "ä", "select"]
    frame = spark.createDataFrame(
        [(*range(len(names)), 1)],
        st.StructType(
            [*(st.StructField(name, st.IntegerType()) for name in names), st.StructField("the time", st.LongType())]
        ),
    )
    sql = """SELECT * FROM R [NOW], S [NOW] WHERE R."a.b" = S."a.b" AND R."c d" < S."e`f" AND R."select" > S."ä" """
    joined = cw.spark.join(sql, {"R": frame, "S": frame}, time="the time")
    assert joined.columns == [f"{side}_{name}" for side in "RS" for name in [*names, "the time"]]
    assert [list(row) for row in joined.collect()] == [[*range(len(names)), 1] * 2]
