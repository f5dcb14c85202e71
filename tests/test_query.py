"""From text to tree: names, windows, types, and the wording and place of every error."""

from __future__ import annotations

import math
import subprocess
import sys
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crosswind.errors import QueryError, UnsupportedError
from crosswind.query import format_expr, parse, parse_duration, predicate, registered
from crosswind.query.tree import Call, Column, Expr, Literal, Now, Output, Query, Range, Rows, walk
from crosswind.query.types import BOOL, DATE, DOUBLE, INT64, NULL, STRING, Kind, SqlType

R = pa.schema(
    {
        "ts": pa.timestamp("us"),
        "x": pa.int32(),
        "y": pa.float32(),
        "z": pa.float64(),
        "i8": pa.int8(),
        "i16": pa.int16(),
        "i64": pa.int64(),
        "u64": pa.uint64(),
        "s": pa.string(),
        "raw": pa.binary(),
        "ok": pa.bool_(),
        "d": pa.decimal128(10, 2),
        "wide": pa.decimal128(30, 2),
        "day": pa.date32(),
        "at": pa.timestamp("ms", tz="UTC"),
        "took": pa.duration("ms"),
        "tags": pa.list_(pa.string()),
        "nothing": pa.null(),
        "Mixed Case": pa.int32(),
    }
)
S = pa.schema(
    {
        "ts": pa.timestamp("ms"),
        "a": pa.int32(),
        "b": pa.float32(),
        "x": pa.int64(),
        "s": pa.large_string(),
        "d": pa.decimal128(12, 4),
        "sum38": pa.decimal128(38, 20),
        "day": pa.date64(),
        "at": pa.timestamp("ns", tz="Europe/Berlin"),
        "kind": pa.dictionary(pa.int32(), pa.string()),
    }
)
SCHEMAS = {"R": R, "S": S}
FROM = "R [RANGE 15 MINUTES], S [RANGE 15 MINUTES]"

INT8, INT16, INT32 = (SqlType(Kind.INT, bits=bits) for bits in (8, 16, 32))
FLOAT = SqlType(Kind.FLOAT, bits=32)


def decimal(precision: int, scale: int) -> SqlType:
    return SqlType(Kind.DECIMAL, precision=precision, scale=scale)


def timestamp(unit: str, zoned: bool = False) -> SqlType:
    return SqlType(Kind.TIMESTAMP, unit=unit, zoned=zoned)


def interval(unit: str) -> SqlType:
    return SqlType(Kind.DURATION, unit=unit)


X, Y, Z = Column(INT32, 0, "x"), Column(FLOAT, 0, "y"), Column(DOUBLE, 0, "z")
I8, I64, D = Column(INT8, 0, "i8"), Column(INT64, 0, "i64"), Column(decimal(10, 2), 0, "d")
OK, TEXT, DAY = Column(BOOL, 0, "ok"), Column(STRING, 0, "s"), Column(DATE, 0, "day")
TS, SEEN, TOOK = Column(timestamp("us"), 0, "ts"), Column(timestamp("ms"), 1, "ts"), Column(interval("ms"), 0, "took")
A, B, SD = Column(INT32, 1, "a"), Column(FLOAT, 1, "b"), Column(decimal(12, 4), 1, "d")
WIDE = Column(decimal(30, 2), 0, "wide")


def cast(expr: Expr, to: SqlType) -> Call:
    return Call(to, "cast", (expr,))


def call(op: str, *args: Expr, of: SqlType = BOOL) -> Call:
    return Call(of, op, args)


def int64(value: int) -> Literal:
    return Literal(INT64, value)


def long(expr: Expr) -> Call:
    return cast(expr, INT64)


def query(sql: str, **options: object) -> Query:
    return parse(sql, SCHEMAS, **options)  # type: ignore[arg-type]


def where(condition: str, source: str = FROM) -> Expr:
    found = query(f"SELECT 1 AS one FROM {source} WHERE {condition}").where
    assert found is not None
    return found


def outputs(columns: str, source: str = FROM) -> tuple[Output, ...]:
    return query(f"SELECT {columns} FROM {source}").outputs


def value(expression: str) -> Expr:
    return outputs(f"{expression} AS v")[0].expr


def shown(condition: str, source: str = FROM) -> str:
    found = query(f"SELECT 1 AS one FROM {source} WHERE {condition}")
    assert found.where is not None
    return format_expr(found.where, found.streams)


def error_of(sql: str, **options: object) -> QueryError:
    with pytest.raises(QueryError) as caught:
        query(sql, **options)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    assert "\x1b" not in str(caught.value)
    return caught.value


def marked(error: QueryError) -> str:
    """Return the text the error points at."""
    assert error.sql is not None
    return error.sql[error.start : error.end] if error.start >= 0 else ""


# ---------------------------------------------------------------- windows


@pytest.mark.parametrize(
    ("clause", "window"),
    [
        ("RANGE 15 MINUTES", Range(Fraction(900), True)),
        ("range 15 minute", Range(Fraction(900), True)),
        ("RANGE 1.5 HOURS", Range(Fraction(5400), True)),
        ("RANGE 1 HOUR 30 MINUTES", Range(Fraction(5400), True)),
        ("RANGE 1h30m", Range(Fraction(5400), True)),
        ("RANGE INTERVAL '15' MINUTE", Range(Fraction(900), True)),
        ("RANGE INTERVAL '1 hour 30 minutes'", Range(Fraction(5400), True)),
        ("RANGE 10 s INCLUSIVE", Range(Fraction(10), True, True)),
        (" Range\n 10\tsec inclusive ", Range(Fraction(10), True, True)),
        ("RANGE 7 nanoseconds", Range(Fraction(7, 10**9), True)),
        ("RANGE 7 us", Range(Fraction(7, 10**6), True)),
        ("RANGE 7 millis", Range(Fraction(7, 1000), True)),
        ("RANGE 2 hr", Range(Fraction(7200), True)),
        ("RANGE 2 d", Range(Fraction(172800), True)),
        ("RANGE 2 WEEKS", Range(Fraction(1209600), True)),
        ("RANGE .5 s", Range(Fraction(1, 2), True)),
        ("ROWS 500", Rows(500)),
        ("rows 1", Rows(1)),
        ("NOW", Now()),
        ("now", Now()),
    ],
)
def test_window(clause: str, window: object) -> None:
    assert query(f"SELECT 1 AS one FROM R [{clause}], S [NOW]").streams[0].window == window


def test_window_without_unit_counts_in_the_integer_time() -> None:
    schemas = dict.fromkeys("RS", pa.schema({"ts": pa.int64()}))
    streams = parse("SELECT 1 AS one FROM R [RANGE 500], S [RANGE 7 INCLUSIVE]", schemas).streams
    assert [stream.window for stream in streams] == [Range(Fraction(500), False), Range(Fraction(7), False, True)]


@pytest.mark.parametrize("item", ["R [ROWS 2] AS a", "R AS a [ROWS 2]", "R a [ROWS 2]", "R [ROWS 2] a", "R[ROWS 2]a"])
@pytest.mark.parametrize("order", ["{}, S [NOW]", "S [NOW] JOIN {} ON a.x = S.a"])
def test_window_stands_after_name_or_alias(item: str, order: str) -> None:
    streams = {s.alias: s for s in query(f"SELECT a.x FROM {order.format(item)}").streams}
    assert (streams["a"].name, streams["a"].window, streams["S"].window) == ("R", Rows(2), Now())


@pytest.mark.parametrize(
    ("clause", "words"),
    [
        ("RANGE 0", "[NOW]"),
        ("RANGE 0 SECONDS", "[NOW]"),
        ("RANGE -5 SECONDS", "negative"),
        ("RANGE 3 MONTHS", "not of constant length"),
        ("RANGE 1 year", "not of constant length"),
        ("RANGE 5 secnds", "Did you mean 'seconds'?"),
        ("RANGE 5 parsecs", "Unknown unit of time 'parsecs'"),
        ("RANGE UNBOUNDED", "UNBOUNDED window would keep every tuple"),
        ("RANGE UNBOUNDED PRECEDING", "UNBOUNDED"),
        ("RANGE", "A length of time is missing"),
        ("RANGE SECONDS", "Expected a number, got 'SECONDS'"),
        ("RANGE 5 SECONDS 7", "Expected a unit of time after 7, got nothing"),
        ("RANGE 5, 7", "Expected a unit of time after 5, got ,"),
        ("RANGE 1.5", "whole steps"),
        ("ROWS 0", "at least 1, got '0'"),
        ("ROWS -3", "at least 1, got '-3'"),
        ("ROWS 1.5", "at least 1, got '1.5'"),
        ("ROWS", "at least 1, got ''"),
        ("ROWS UNBOUNDED", "UNBOUNDED"),
        ("ROWS 99999999999999999999", "at least 1"),
        ("RANG 5 s", "Did you mean 'RANGE'?"),
        ("NOW 5", "is not a window"),
        ("", "'[]' is not a window"),
    ],
)
def test_wrong_window(clause: str, words: str) -> None:
    error = error_of(f"SELECT 1 AS one FROM R [{clause}], S [NOW]")
    assert words in error.reason
    assert "Allowed: [RANGE <length> <unit>]" in error.reason
    assert "for example FROM R [RANGE 15 MINUTES]" in error.reason
    assert marked(error) == f"[{clause}]"


@pytest.mark.parametrize(
    ("source", "words", "place"),
    [
        ("R, S [NOW]", "The stream R has no window", "R"),
        ("R [NOW], S AS b", "The stream S has no window", "S"),
        ("R [NOW] [NOW], S [NOW]", "two windows", "[NOW]"),
        ("R [NOW] a [ROWS 2], S [NOW]", "two windows", "[ROWS 2]"),
        ("[NOW] R, S [NOW]", "come after the name of a stream in FROM", "[NOW]"),
        ("R [NOW, S [NOW]", "window clause is never closed", "["),
        ("R NOW], S [NOW]", "closes nothing", "]"),
        ("R [NOW], S [NOW] WHERE R.tags[0] = 'a'", "Arrays are not supported", "[0]"),
        ("R [RANGE 500], S [NOW]", "Add a unit, for example [RANGE 500 SECONDS]", "R"),
    ],
)
def test_window_in_the_wrong_place(source: str, words: str, place: str) -> None:
    error = error_of(f"SELECT 1 AS one FROM {source}")
    assert words in error.reason
    assert marked(error) == place


def test_unit_over_an_integer_time() -> None:
    schemas = dict.fromkeys("RS", pa.schema({"ts": pa.int64()}))
    with pytest.raises(QueryError, match=r"R.ts \(int64\) is an integer. .* for example \[RANGE 900\]"):
        parse("SELECT 1 AS one FROM R [RANGE 5 SECONDS], S [NOW]", schemas)


def test_brackets_in_strings_names_and_comments_are_no_windows() -> None:
    sql = """SELECT 1 AS one /* [ */ FROM R [NOW], -- [ROWS
    S /* why */ [ROWS 2] WHERE R.s = '[ROWS 5]' AND R.s <> 'it''s [' """
    assert [stream.window for stream in query(sql).streams] == [Now(), Rows(2)]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("10 seconds", 10),
        ("0s", 0),
        ("0", 0),
        ("15 min", 900),
        ("1.5h", 5400),
        ("200ms", Fraction(1, 5)),
        ("1 day 2 hours", 93600),
        (" 3 WEEKS ", 1814400),
    ],
)
def test_duration(text: str, seconds: int | Fraction) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "A length of time is missing"),
        ("10", "has no unit"),
        ("-1s", "negative"),
        ("1 fortnight", "Unknown unit of time 'fortnight'"),
        ("2 months", "not of constant length"),
        ("soon", "Expected a number, got 'soon'"),
        (10, "must be text, got 10 of type int"),
    ],
)
def test_wrong_duration(text: str, words: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse_duration(text)
    assert words in str(caught.value)
    assert '"10 seconds"' in str(caught.value)


# ---------------------------------------------------------------- FROM and names


def test_the_papers_query() -> None:
    sql = """
    SELECT R.x, R.y, S.a, S.b
    FROM R [RANGE 15 MINUTES], S [RANGE 15 MINUTES]
    WHERE R.x BETWEEN S.a - 10 AND S.a + 10 AND R.y BETWEEN S.b - 10 AND S.b + 10
    """
    found = query(sql)
    y, b = cast(Y, DOUBLE), cast(B, DOUBLE)
    ten = Literal(DOUBLE, 10.0)
    assert found.where == call(
        "and",
        call(
            "and",
            call("ge", long(X), call("sub", long(A), int64(10), of=INT64)),
            call("le", long(X), call("add", long(A), int64(10), of=INT64)),
        ),
        call(
            "and",
            call("ge", y, call("sub", b, ten, of=DOUBLE)),
            call("le", y, call("add", b, ten, of=DOUBLE)),
        ),
    )
    assert [(o.name, o.expr, o.arrow) for o in found.outputs] == [
        ("x", X, pa.int32()),
        ("y", Y, pa.float32()),
        ("a", A, pa.int32()),
        ("b", B, pa.float32()),
    ]
    assert found.sql == sql
    assert [(s.name, s.alias, s.time, s.schema) for s in found.streams] == [("R", "R", "ts", R), ("S", "S", "ts", S)]
    assert hash(found.where) == hash(query(sql.replace("  ", " ")).where)


def test_every_expression_has_its_place() -> None:
    sql = f"SELECT R.x FROM {FROM} WHERE abs(R.x - `S`.a) < 10 AND NOT (R.s = 'a') AND CAST(x AS DOUBLE) = 1e3"
    sql = sql.replace("CAST(x", "CAST(i8")
    found = query(sql)
    assert found.where is not None
    places = [sql[e.start : e.end] for e in walk(found.where) if not (isinstance(e, Call) and e.op in ("cast", "and"))]
    assert places == [
        "abs(R.x - `S`.a) < 10",
        "abs(R.x - `S`.a)",
        "R.x - `S`.a",
        "R.x",
        "`S`.a",
        "10",
        "NOT (R.s = 'a')",
        "(R.s = 'a')",
        "R.s",
        "'a'",
        "CAST(i8 AS DOUBLE) = 1e3",
        "i8",
        "1e3",
    ]


@pytest.mark.parametrize(
    "source",
    [
        "R [NOW] JOIN S [NOW] ON R.x = S.a WHERE R.ok",
        "R [NOW] INNER JOIN S [NOW] ON R.x = S.a AND R.ok",
        "R [NOW] CROSS JOIN S [NOW] WHERE R.x = S.a AND R.ok",
        "R [NOW], S [NOW] WHERE (R.x = S.a) AND (R.ok)",
        "r [NOW], s [NOW] WHERE R.X = s.A AND OK",
        '"R" [NOW], `S` [NOW] WHERE "R"."x" = `S`.`a` AND "ok"',
    ],
)
def test_ways_to_write_a_join(source: str) -> None:
    assert query(f"SELECT 1 AS one FROM {source}").where == call("and", call("eq", X, A), OK)


def test_using() -> None:
    found = query("SELECT x FROM R [NOW] JOIN S [NOW] USING (x) WHERE x > 1")
    other = Column(INT64, 1, "x")
    assert found.where == call("and", call("eq", long(X), other), call("gt", X, Literal(INT32, 1)))
    assert found.outputs[0].expr == X


def test_many_streams() -> None:
    found = query("SELECT a.x FROM R [NOW] a, S [ROWS 2] AS b JOIN R AS c [RANGE 1 s] ON a.x = c.x")
    assert [(s.name, s.alias, s.window) for s in found.streams] == [
        ("R", "a", Now()),
        ("S", "b", Rows(2)),
        ("R", "c", Range(Fraction(1), True)),
    ]
    assert found.where == call("eq", X, Column(INT32, 2, "x"))


def test_no_condition() -> None:
    assert query(f"SELECT R.x FROM {FROM}").where is None


def test_quoted_names_may_hold_anything() -> None:
    schemas = {"my stream": pa.schema({"ts": pa.int64(), 'odd "name"': pa.int32()}), "S": pa.schema({"ts": pa.int32()})}
    found = parse('SELECT "odd ""name""" FROM "my stream" [NOW], S [NOW] WHERE `odd "name"` = 1', schemas)
    assert found.outputs[0].name == 'odd "name"'
    assert found.where is not None
    assert format_expr(found.where, found.streams) == '"my stream"."odd ""name""" = 1'


def test_names_match_exactly_before_they_match_without_case() -> None:
    schema = pa.schema({"ts": pa.int64(), "v": pa.int32(), "V": pa.int64()})
    schemas = {"R": schema, "S": pa.schema({"ts": pa.int64(), "w": pa.int8()})}
    found = parse("SELECT R.V, v, S.W FROM R [NOW], S [NOW]", schemas)
    assert [output.arrow for output in found.outputs] == [pa.int64(), pa.int32(), pa.int8()]
    schemas["R"] = pa.schema({"ts": pa.int64(), "Vv": pa.int32(), "VV": pa.int64()})
    with pytest.raises(QueryError, match="'vv' is ambiguous in R: it could be Vv, VV"):
        parse("SELECT R.vv FROM R [NOW], S [NOW]", schemas)


@pytest.mark.parametrize(
    ("sql", "words", "place"),
    [
        ("SELECT 1 AS o FROM Q [NOW], R [NOW]", "Unknown stream 'Q'. Known: R, S.", "Q"),
        ("SELECT R.q FROM R [NOW], S [NOW]", "Unknown column 'q' of R. It has: ts, x, y", "q"),
        ("SELECT R.i46 FROM R [NOW], S [NOW]", "Did you mean 'i64'?", "i46"),
        ("SELECT wide_ FROM R [NOW], S [NOW]", "Unknown column 'wide_'. Did you mean 'wide'? R has ts", "wide_"),
        ("SELECT T.x FROM R [NOW], S [NOW]", "Unknown stream 'T'. In FROM: R, S.", "T"),
        ("SELECT R.x FROM R [NOW] AS a, S [NOW]", "The stream R is called a in this query", "R"),
        ("SELECT x FROM R [NOW], S [NOW]", "'x' is ambiguous. Write one of: R.x, S.x.", "x"),
        ("SELECT 1 AS o FROM R [NOW], R [ROWS 2]", "'R' stands twice in FROM. Give each its own name", "R"),
        ("SELECT 1 AS o FROM R a [NOW], S a [NOW]", "'a' stands twice in FROM", "a"),
        ("SELECT R.x FROM R [NOW]", "A join needs at least two streams, got only R", "R"),
        ("SELECT 1", "FROM is missing", ""),
        ("SELECT R.x.y FROM R [NOW], S [NOW]", "Nested fields are not supported", "R.x.y"),
        ("SELECT 1 AS o FROM db.R [NOW], S [NOW]", "A stream has a single name", "db.R"),
    ],
)
def test_wrong_name(sql: str, words: str, place: str) -> None:
    error = error_of(sql)
    assert words in error.reason
    assert marked(error) == place


# ---------------------------------------------------------------- time columns


def test_time_column_by_stream() -> None:
    schemas = {"R": pa.schema({"t": pa.date32()}), "S": pa.schema({"ts": pa.timestamp("s")})}
    found = parse("SELECT R.t FROM R [RANGE 1 DAY] AS a, S [NOW]".replace("R.t", "a.t"), schemas, time={"R": "t"})
    assert [stream.time for stream in found.streams] == ["t", "ts"]
    found = parse("SELECT a.t FROM R [RANGE 1 DAY] AS a, S [NOW]", schemas, time={"a": "T"})
    assert found.streams[0].time == "t"


@pytest.mark.parametrize(
    ("left", "right", "words"),
    [
        (pa.string(), pa.int64(), "R.ts is of type string. Allowed: timestamp of any unit, date, or an integer"),
        (pa.float64(), pa.float64(), "is of type double. Allowed"),
        (pa.uint64(), pa.int64(), "is of type uint64. Allowed"),
        (pa.int64(), pa.timestamp("s"), "cannot be compared: R.ts (int64) is an integer"),
        (
            pa.timestamp("s"),
            pa.timestamp("s", tz="UTC"),
            "is a wall clock time, S.ts (timestamp[s, tz=UTC]) is an inst",
        ),
        (pa.date32(), pa.timestamp("s", tz="UTC"), "cannot be compared"),
    ],
)
def test_wrong_time_type(left: pa.DataType, right: pa.DataType, words: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse("SELECT 1 AS one FROM R [NOW], S [NOW]", {"R": pa.schema({"ts": left}), "S": pa.schema({"ts": right})})
    assert words in caught.value.reason


def test_missing_time_column() -> None:
    assert (
        "has no time column 'tz'. Did you mean 'ts'? It has: ts" in error_of(f"SELECT 1 FROM {FROM}", time="tz").reason
    )
    error = error_of(f"SELECT 1 FROM {FROM}", time={"Rr": "ts"})
    assert "time= names the stream 'Rr', which is not known. Did you mean 'R'? Known: R, S." in error.reason


# ---------------------------------------------------------------- SELECT


def test_star_names_every_column_by_stream() -> None:
    assert [o.name for o in outputs("*")] == [f"R_{c}" for c in R.names] + [f"S_{c}" for c in S.names]
    assert [o.arrow for o in outputs("*")] == [*R.types, *S.types]
    assert [o.name for o in outputs("R.x, b.*", "R [NOW], S [NOW] b")] == ["x"] + [f"b_{c}" for c in S.names]


@pytest.mark.parametrize(
    ("columns", "names"),
    [
        ("R.x, S.x", ["R_x", "S_x"]),
        ("R.x, S.a", ["x", "a"]),
        ("R.X, i64", ["x", "i64"]),
        ("R.x, S.a AS x", ["R_x", "x"]),
        ("R.x AS p, S.x q", ["p", "q"]),
        ("R.x +  S.a, abs( R.x )", ["R.x + S.a", "abs( R.x )"]),
        ("(R.x + 1) * 2, R.s IS NULL, -R.x", ["(R.x + 1) * 2", "R.s IS NULL", "-R.x"]),
        ('R.x AS "two words"', ["two words"]),
    ],
)
def test_names_of_columns(columns: str, names: list[str]) -> None:
    assert [output.name for output in outputs(columns)] == names


@pytest.mark.parametrize("columns", ["R.x, R.x", "R.x AS a, S.x AS a", "R.x + 1, R.x + 1", "*, R.x AS R_x"])
def test_clash_of_names(columns: str) -> None:
    error = error_of(f"SELECT {columns} FROM {FROM}")
    assert "Two columns of the result are called" in error.reason
    assert "with AS" in error.reason


@pytest.mark.parametrize(
    ("expression", "arrow"),
    [
        ("R.x + 1", pa.int64()),
        ("R.y * R.y", pa.float32()),
        ("R.y * 2", pa.float64()),
        ("1", pa.int32()),
        ("3000000000", pa.int64()),
        ("10.50", pa.decimal128(4, 2)),
        ("1e3", pa.float64()),
        ("'a'", pa.string()),
        ("X'0aFf'", pa.binary()),
        ("NULL", pa.null()),
        ("R.x > 1", pa.bool_()),
        ("R.d * S.d", pa.decimal128(18, 6)),
        ("R.ts - S.ts", pa.duration("us")),
        ("R.at + INTERVAL 1 SECOND", pa.timestamp("ms", tz="UTC")),
        ("R.day + INTERVAL 1 DAY", pa.date32()),
        ("R.tags", pa.list_(pa.string())),
        ("S.kind", pa.dictionary(pa.int32(), pa.string())),
        ("S.at", pa.timestamp("ns", tz="Europe/Berlin")),
    ],
)
def test_arrow_type_of_output(expression: str, arrow: pa.DataType) -> None:
    assert outputs(f"{expression} AS v")[0].arrow == arrow


# ---------------------------------------------------------------- typing and coercion


@pytest.mark.parametrize(
    ("condition", "tree"),
    [
        # integers: the wider of two; constants take what the column has
        ("R.x = S.a", call("eq", X, A)),
        ("R.i8 < R.x", call("lt", cast(I8, INT32), X)),
        ("R.x > 10", call("gt", X, Literal(INT32, 10))),
        ("R.i8 > 10", call("gt", I8, Literal(INT8, 10))),
        ("R.i8 > 200", call("gt", cast(I8, INT16), Literal(INT16, 200))),
        ("R.x > 3000000000", call("gt", long(X), int64(3_000_000_000))),
        ("R.x = -5", call("eq", X, Literal(INT32, -5))),
        ("R.i64 = -9223372036854775808", call("eq", I64, int64(-(2**63)))),
        # an integer against a decimal constant stays an integer
        ("R.x < 10.5", call("le", X, Literal(INT32, 10))),
        ("R.x <= 10.5", call("le", X, Literal(INT32, 10))),
        ("R.x > -10.5", call("ge", X, Literal(INT32, -10))),
        ("10.5 > R.x", call("le", X, Literal(INT32, 10))),
        ("R.x = 10.0", call("eq", X, Literal(INT32, 10))),
        ("R.x = 10.5", call("ne", X, X)),
        ("R.x <> 10.5", call("eq", X, X)),
        ("R.x <=> 10.5", Literal(BOOL, False)),
        ("R.i64 < 9223372036854775808", call("eq", I64, I64)),
        ("R.i64 > 9223372036854775808", call("ne", I64, I64)),
        ("R.i64 > -9223372036854775809", call("eq", I64, I64)),
        # floats
        ("R.y < S.b", call("lt", Y, B)),
        ("R.y < R.z", call("lt", cast(Y, DOUBLE), Z)),
        ("R.y < R.x", call("lt", cast(Y, DOUBLE), cast(X, DOUBLE))),
        ("R.z < 10", call("lt", Z, Literal(DOUBLE, 10.0))),
        ("R.z < 10.5", call("lt", Z, Literal(DOUBLE, 10.5))),
        ("R.y < 10.5", call("lt", cast(Y, DOUBLE), Literal(DOUBLE, 10.5))),
        ("R.d < R.z", call("lt", cast(D, DOUBLE), Z)),
        # decimals
        ("R.d = S.d", call("eq", cast(D, decimal(12, 4)), SD)),
        ("R.d > 10", call("gt", D, Literal(decimal(10, 2), Decimal(10)))),
        ("R.d > 0.125", call("gt", cast(D, decimal(11, 3)), Literal(decimal(11, 3), Decimal("0.125")))),
        ("R.d = R.x", call("eq", cast(D, decimal(12, 2)), cast(X, decimal(12, 2)))),
        ("R.d = R.i64", call("eq", cast(D, decimal(22, 2)), cast(I64, decimal(22, 2)))),
        ("R.wide = R.d", call("eq", WIDE, cast(D, decimal(30, 2)))),
        ("R.wide = 1", call("eq", WIDE, Literal(decimal(30, 2), Decimal(1)))),
        ("R.u64 = 1", call("eq", Column(decimal(20, 0), 0, "u64"), Literal(decimal(20, 0), Decimal(1)))),
        # text, truth, nothing
        ("R.s <= S.s", call("le", TEXT, Column(STRING, 1, "s"))),
        ("S.kind = 'it''s'", call("eq", Column(STRING, 1, "kind"), Literal(STRING, "it's"))),
        (
            "R.raw = X'00FF'",
            call("eq", Column(SqlType(Kind.BINARY), 0, "raw"), Literal(SqlType(Kind.BINARY), b"\0\xff")),
        ),
        ("R.ok = TRUE", call("eq", OK, Literal(BOOL, True))),
        ("R.ok", OK),
        ("R.x = NULL", call("eq", X, Literal(INT32, None))),
        ("R.x = R.nothing", call("eq", X, Literal(INT32, None))),
        ("NULL = NULL", Literal(BOOL, None)),
        ("NULL <=> NULL", Literal(BOOL, True)),
        ("NULL", Literal(BOOL, None)),
    ],
)
def test_comparison(condition: str, tree: Expr) -> None:
    assert where(condition) == tree


@pytest.mark.parametrize(
    ("expression", "tree"),
    [
        ("R.x + S.a", call("add", long(X), long(A), of=INT64)),
        ("R.i8 * R.i8", call("mul", long(I8), long(I8), of=INT64)),
        ("-R.x", call("neg", long(X), of=INT64)),
        ("abs(R.i64)", call("abs", I64, of=INT64)),
        ("+R.x", X),
        ("R.x % 3", call("mod", long(X), int64(3), of=INT64)),
        ("mod(R.z, 3)", call("mod", Z, Literal(DOUBLE, 3.0), of=DOUBLE)),
        ("R.x / 2", call("div", cast(X, DOUBLE), Literal(DOUBLE, 2.0), of=DOUBLE)),
        ("R.y / R.y", call("div", cast(Y, DOUBLE), cast(Y, DOUBLE), of=DOUBLE)),
        ("R.z / 10.5", call("div", Z, Literal(DOUBLE, 10.5), of=DOUBLE)),
        ("R.y - S.b", call("sub", Y, B, of=FLOAT)),
        ("R.y - 1", call("sub", cast(Y, DOUBLE), Literal(DOUBLE, 1.0), of=DOUBLE)),
        ("R.x + NULL", call("add", long(X), Literal(INT64, None), of=INT64)),
        # decimals: Spark's types, clamped to 18 digits
        ("R.d + S.d", call("add", cast(D, decimal(12, 4)), SD, of=decimal(13, 4))),
        ("R.d - 1", call("sub", D, Literal(decimal(3, 2), Decimal(1)), of=decimal(11, 2))),
        ("R.d * S.d", call("mul", D, SD, of=decimal(18, 6))),
        ("R.d * 2", call("mul", D, Literal(decimal(1, 0), Decimal(2)), of=decimal(12, 2))),
        ("R.d + R.x", call("add", D, cast(X, decimal(12, 2)), of=decimal(13, 2))),
        (
            "R.i64 + 0.5",
            call("add", cast(I64, decimal(18, 1)), Literal(decimal(2, 1), Decimal("0.5")), of=decimal(18, 1)),
        ),
        ("R.d % 7", call("mod", D, Literal(decimal(3, 2), Decimal(7)), of=decimal(3, 2))),
        ("-R.d", call("neg", D, of=decimal(10, 2))),
        ("R.d * R.z", call("mul", cast(D, DOUBLE), Z, of=DOUBLE)),
        # constants are computed at once
        ("1 + 2 * 3", int64(7)),
        ("- - 1", Literal(INT32, 1)),
        ("-2147483648", Literal(INT32, -(2**31))),
        ("0.1 + 0.2", Literal(decimal(1, 1), Decimal("0.3"))),
        ("1.5 * 1.5", Literal(decimal(3, 2), Decimal("2.25"))),
        ("1 / 4", Literal(DOUBLE, 0.25)),
        ("1e3 * 2", Literal(DOUBLE, 2000.0)),
        ("18446744073709551616", Literal(decimal(20, 0), Decimal(2**64))),
        # functions
        ("sqrt(R.x)", call("sqrt", cast(X, DOUBLE), of=DOUBLE)),
        ("floor(R.z)", call("floor", Z, of=INT64)),
        ("ceiling(R.y)", call("ceil", cast(Y, DOUBLE), of=INT64)),
        ("FLOOR(R.x)", long(X)),
        ("ceil(R.d)", call("ceil", D, of=decimal(9, 0))),
        ("pow(R.x, 2)", call("power", cast(X, DOUBLE), Literal(DOUBLE, 2.0), of=DOUBLE)),
        ("log(R.z)", call("ln", Z, of=DOUBLE)),
        (
            "log(2, R.z)",
            call("div", call("ln", Z, of=DOUBLE), call("ln", Literal(DOUBLE, 2.0), of=DOUBLE), of=DOUBLE),
        ),
        ("pi()", Literal(DOUBLE, math.pi)),
        ("signum(R.d)", call("sign", cast(D, DOUBLE), of=DOUBLE)),
        ("least(R.x, 3, R.i8)", call("least", X, Literal(INT32, 3), cast(I8, INT32), of=INT32)),
        ("greatest(R.z, R.x)", call("greatest", Z, cast(X, DOUBLE), of=DOUBLE)),
        ("coalesce(R.x, NULL, 0)", call("coalesce", X, Literal(INT32, None), Literal(INT32, 0), of=INT32)),
        (
            "nvl(R.x, 0.5)",
            call("coalesce", cast(X, decimal(11, 1)), Literal(decimal(11, 1), Decimal("0.5")), of=decimal(11, 1)),
        ),
        ("if(R.ok, R.x, NULL)", call("if", OK, X, Literal(INT32, None), of=INT32)),
        ("nullif(R.x, 0)", call("if", call("eq", X, Literal(INT32, 0)), Literal(INT32, None), X, of=INT32)),
        ("CASE WHEN R.ok THEN 1 END", call("if", OK, Literal(INT32, 1), Literal(INT32, None), of=INT32)),
        (
            "CASE R.x WHEN 1 THEN R.z WHEN 2 THEN 5 ELSE 0 END",
            call(
                "if",
                call("eq", X, Literal(INT32, 1)),
                Z,
                cast(
                    call("if", call("eq", X, Literal(INT32, 2)), Literal(INT32, 5), Literal(INT32, 0), of=INT32), DOUBLE
                ),
                of=DOUBLE,
            ),
        ),
        # casts
        ("CAST(R.x AS DOUBLE)", cast(X, DOUBLE)),
        ("R.z::int", cast(Z, INT32)),
        ("CAST(R.x AS DECIMAL(12, 1))", cast(X, decimal(12, 1))),
        ("CAST(R.x AS NUMERIC)", cast(X, decimal(10, 0))),
        ("CAST(R.wide AS DECIMAL(18,2))", cast(WIDE, decimal(18, 2))),
        ("CAST(2.5 AS REAL)", Literal(FLOAT, 2.5)),
        ("CAST(2.5 AS INT)", cast(Literal(decimal(2, 1), Decimal("2.5")), INT32)),
        ("CAST(R.day AS TIMESTAMP)", cast(DAY, timestamp("us"))),
        ("CAST(R.ts AS DATE)", cast(TS, DATE)),
        ("CAST(S.ts AS TIMESTAMP)", SEEN),
        ("CAST('2026-01-02' AS DATE)", Literal(DATE, 20455)),
        ("CAST(NULL AS BIGINT)", Literal(INT64, None)),
    ],
)
def test_computation(expression: str, tree: Expr) -> None:
    found = value(expression)
    assert found == tree
    assert found.type == tree.type


MILLENNIUM = 946_684_800


@pytest.mark.parametrize(
    ("expression", "tree"),
    [
        ("R.ts = S.ts", call("eq", TS, cast(SEEN, timestamp("us")))),
        ("R.ts > R.day", call("gt", TS, cast(DAY, timestamp("us")))),
        ("R.day = S.day", call("eq", DAY, Column(DATE, 1, "day"))),
        ("R.ts > TIMESTAMP '2000-01-01 00:00:00'", call("gt", TS, Literal(timestamp("us"), MILLENNIUM * 10**6))),
        ("S.ts > '2000-01-01'", call("gt", SEEN, Literal(timestamp("ms"), MILLENNIUM * 10**3))),
        (
            "S.ts > '2000-01-01T00:00:00.000001'",
            call("gt", cast(SEEN, timestamp("us")), Literal(timestamp("us"), MILLENNIUM * 10**6 + 1)),
        ),
        (
            "R.at > '2000-01-01 01:00:00+01:00'",
            call("gt", Column(timestamp("ms", True), 0, "at"), Literal(timestamp("ms", True), MILLENNIUM * 10**3)),
        ),
        ("R.day >= DATE '1969-12-31'", call("ge", DAY, Literal(DATE, -1))),
        ("R.day IN ('1970-01-02')", call("eq", DAY, Literal(DATE, 1))),
        ("R.ts - S.ts", call("sub", TS, cast(SEEN, timestamp("us")), of=interval("us"))),
        (
            "R.day - S.day",
            call("sub", cast(DAY, timestamp("s")), cast(Column(DATE, 1, "day"), timestamp("s")), of=interval("s")),
        ),
        ("S.ts + INTERVAL '5' SECONDS", call("add", SEEN, Literal(interval("ms"), 5000), of=timestamp("ms"))),
        ("INTERVAL 5 SECONDS + S.ts", call("add", SEEN, Literal(interval("ms"), 5000), of=timestamp("ms"))),
        (
            "S.ts - INTERVAL 1 MICROSECOND",
            call("sub", cast(SEEN, timestamp("us")), Literal(interval("us"), 1), of=timestamp("us")),
        ),
        ("INTERVAL '1 hour 30 minutes'", Literal(interval("s"), 5400)),
        ("INTERVAL 1 HOUR 30 MINUTES", Literal(interval("s"), 5400)),
        ("INTERVAL '-2' DAYS", Literal(interval("s"), -172800)),
        ("INTERVAL - 2 DAYS", Literal(interval("s"), -172800)),
        ("-INTERVAL 1 SECOND * 3", Literal(interval("s"), -3)),
        ("INTERVAL 1 SECOND + INTERVAL 1 ms", Literal(interval("ms"), 1001)),
        ("TIMESTAMP '1970-01-01 00:00:01' + INTERVAL 1 ms", Literal(timestamp("ms"), 1001)),
        ("DATE '1970-01-02' - INTERVAL 1 DAY", Literal(DATE, 0)),
        ("R.day + INTERVAL 2 DAYS", call("add", DAY, int64(2), of=DATE)),
        (
            "R.day - INTERVAL 1 HOUR",
            call("sub", cast(DAY, timestamp("s")), Literal(interval("s"), 3600), of=timestamp("s")),
        ),
        ("R.took * R.x", call("mul", TOOK, long(X), of=interval("ms"))),
        ("2 * R.took", call("mul", TOOK, int64(2), of=interval("ms"))),
        ("abs(R.took)", call("abs", TOOK, of=interval("ms"))),
        ("R.took < INTERVAL 1 MINUTE", call("lt", TOOK, Literal(interval("ms"), 60000))),
    ],
)
def test_time(expression: str, tree: Expr) -> None:
    found = value(expression)
    assert found == tree
    assert found.type == tree.type


ONE = Literal(INT32, 1)
TWO = Literal(INT32, 2)


@pytest.mark.parametrize(
    ("condition", "tree"),
    [
        ("R.x BETWEEN 1 AND 2", call("and", call("ge", X, ONE), call("le", X, TWO))),
        ("R.x NOT BETWEEN 1 AND 2", call("not", call("and", call("ge", X, ONE), call("le", X, TWO)))),
        ("R.x IN (1, 2)", call("or", call("eq", X, ONE), call("eq", X, TWO))),
        ("R.x NOT IN (1, 2)", call("not", call("or", call("eq", X, ONE), call("eq", X, TWO)))),
        ("R.s IS NULL", call("is_null", TEXT)),
        ("R.x IS NOT NULL", call("not", call("is_null", X))),
        ("R.ok IS TRUE", call("is_true", OK)),
        ("R.ok IS NOT FALSE", call("not", call("is_false", OK))),
        ("(R.x = 1) IS UNKNOWN", call("is_null", call("eq", X, ONE))),
        ("R.x IS NOT DISTINCT FROM 1", call("same", X, ONE)),
        ("R.x IS DISTINCT FROM 1", call("not", call("same", X, ONE))),
        ("R.x <=> 1", call("same", X, ONE)),
        ("R.x != 1", call("ne", X, ONE)),
        ("R.x == 1", call("eq", X, ONE)),
        ("NOT R.ok OR R.x >= 1", call("or", call("not", OK), call("ge", X, ONE))),
        ("R.ok AND R.ok AND R.ok", call("and", call("and", OK, OK), OK)),
    ],
)
def test_logic(condition: str, tree: Expr) -> None:
    assert where(condition) == tree


def test_escapes_are_sparks() -> None:
    assert value(r"'a''b\'c\n\t\\\u0041\101\d\%'") == Literal(STRING, "a'b'c\n\t\\AAd\\%")


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("condition", "kind", "words", "place"),
    [
        ("R.x", QueryError, "WHERE needs a condition that is true or false, but R.x is int32", "R.x"),
        ("R.x AND R.ok", QueryError, "AND needs a condition that is true or false, but R.x is int32", "R.x"),
        ("NOT R.s", QueryError, "NOT needs a condition", "R.s"),
        ("R.s > 1", QueryError, "Cannot compare R.s, which is string, and 1, which is int32", "R.s > 1"),
        ("R.x = '1'", QueryError, "Write the number without quotes", "R.x = '1'"),
        ("R.ok = 1", QueryError, "CASE WHEN ... THEN 1 ELSE 0 END", "R.ok = 1"),
        ("R.ts > 5", QueryError, "Compare with TIMESTAMP", "R.ts > 5"),
        ("R.took > 5", QueryError, "INTERVAL 10 SECONDS", "R.took > 5"),
        ("R.s = R.raw", QueryError, "string, and R.raw, which is binary", "R.s = R.raw"),
        ("R.at > R.ts", QueryError, "an instant (timestamp[ms, zoned]), and R.ts, a wall clock", "R.at > R.ts"),
        ("R.at > R.day", QueryError, "depends on a time zone", "R.at > R.day"),
        ("R.at > '2026-01-01'", QueryError, "has no offset, but an instant is needed", "'2026-01-01'"),
        ("R.at > TIMESTAMP '2026-01-01 00:00:00'", QueryError, "Give the constant an offset", None),
        ("R.ts > '2026-01-01 00:00:00Z'", QueryError, "Leave the offset out", "'2026-01-01 00:00:00Z'"),
        ("R.ts > 'yesterday'", QueryError, "'yesterday' is not a timestamp", "'yesterday'"),
        ("R.ts > '2026-02-30'", QueryError, "day is out of range for month", "'2026-02-30'"),
        ("R.day = '2026-01'", QueryError, "'2026-01' is not a date", "'2026-01'"),
        ("S.at < TIMESTAMP '9999-01-01 00:00:00Z'", QueryError, "does not fit into timestamp[ns, zoned]", None),
        ("R.tags = 'a'", UnsupportedError, "list<item: string>, which can be selected but not computed", "R.tags"),
        ("R.tags IS NULL", UnsupportedError, "can be selected but not computed", "R.tags"),
        ("R.wide + 1 > 2", UnsupportedError, "CAST(R.wide AS DECIMAL(18,2)) or CAST(R.wide AS DOUBLE)", "R.wide"),
        ("abs(R.wide) > 2", UnsupportedError, "decimals of more than 18 digits", "R.wide"),
        ("floor(R.wide) > 2", UnsupportedError, "decimals of more than 18 digits", "R.wide"),
        ("least(R.wide, 1) > 2", UnsupportedError, "decimals of more than 18 digits", "R.wide"),
        ("R.u64 + 1 > 2", UnsupportedError, "R.u64 is decimal(20,0)", "R.u64"),
        ("R.wide = R.d + 1", UnsupportedError, "R.d + 1 would have to be computed as", "R.d + 1"),
        ("R.wide = S.sum38", UnsupportedError, "it would need 48 digits, and 38 is the most", "R.wide = S.sum38"),
        ("R.d * S.d * S.d * R.d > 1", UnsupportedError, "needs decimal(47,12)", None),
        ("R.d / 2 > 1", UnsupportedError, "CAST(R.d AS DOUBLE) / 2", "R.d / 2"),
        ("R.x / 2.5 > 1", UnsupportedError, "CAST(R.x AS DOUBLE) / 2.5", "R.x / 2.5"),
        ("R.s + 1 > 1", UnsupportedError, "Cannot apply + to R.s, which is string", "R.s"),
        ("R.ok * 2 > 1", QueryError, "Cannot apply * to R.ok, which is boolean", "R.ok"),
        ("-R.ts > R.ts", QueryError, "Cannot apply - to R.ts", "R.ts"),
        ("R.ts + 5 > S.ts", QueryError, "INTERVAL 10 SECONDS or INTERVAL 1 DAY", "R.ts + 5"),
        ("R.day + 5 > S.day", QueryError, "INTERVAL 1 DAY", "R.day + 5"),
        ("R.ts + S.ts > R.ts", QueryError, "Allowed: timestamp - timestamp", "R.ts + S.ts"),
        ("R.ts - '2026-01-01' > R.took", QueryError, "Write the constant as TIMESTAMP", None),
        ("R.took / 2 > R.took", QueryError, "interval * integer", "R.took / 2"),
        ("R.ts - INTERVAL 2 MONTHS > S.ts", QueryError, "not of constant length", "INTERVAL 2 MONTHS"),
        ("R.took > INTERVAL 2", QueryError, "has no unit, for example INTERVAL 2 SECONDS", "INTERVAL 2"),
        ("R.took > INTERVAL 'abc'", QueryError, "Expected a number, got 'abc'", "INTERVAL 'abc'"),
        ("R.took > INTERVAL 2 fortnights", QueryError, "Unknown unit of time 'fortnights'", "INTERVAL 2 fortnights"),
        ("R.x = 9223372036854775807 + 1", QueryError, "does not fit into 64 bits", "9223372036854775807 + 1"),
        ("R.x = 5L", QueryError, "a number takes no suffix; use CAST(5 AS BIGINT)", "L"),
        ("sqr(R.x) > 1", QueryError, "Unknown function 'sqr'. Did you mean 'sqrt'? Known: abs", "sqr"),
        ("power(R.x) > 1", QueryError, "power takes 2 arguments, got 1", "power(R.x)"),
        ("least(R.x) > 1", QueryError, "least takes at least 2 arguments, got 1", "least(R.x)"),
        ("log(1, 2, 3) > 1", QueryError, "log takes 1 or 2 arguments, got 3", "log(1, 2, 3)"),
        ("pi(1) > 1", QueryError, "pi takes no arguments, got 1", "pi(1)"),
        ("sqrt(R.s) > 1", QueryError, "sqrt takes numbers, but R.s is string", "R.s"),
        ("coalesce(R.s, 'a') = 'b'", UnsupportedError, "Cannot take coalesce of strings", "R.s"),
        ("CASE WHEN R.ok THEN 'a' ELSE R.s END = 'b'", UnsupportedError, "choose between strings", "'a'"),
        ("if(R.x, 1, 2) = 1", QueryError, "IF needs a condition", "R.x"),
        ("sum(R.x) > 1", UnsupportedError, "aggregate function sum is not supported", "sum"),
        ("count(*) > 1", UnsupportedError, "Aggregate the result afterwards", "count"),
        ("COUNT(DISTINCT R.x) > 1", UnsupportedError, "Aggregate the result afterwards", "COUNT"),
        ("rank() > 1", UnsupportedError, "Apply it to the result afterwards", "rank"),
        ("rank() OVER (ORDER BY R.x) > 1", UnsupportedError, "Window functions (OVER)", "rank() OVER (ORDER BY R.x)"),
        ("upper(R.s) = 'A'", UnsupportedError, "string function upper is not supported. Strings can be", "upper"),
        ("R.s LIKE 'a%'", UnsupportedError, "LIKE is not supported. Strings can be compared", "R.s LIKE 'a%'"),
        ("R.s NOT LIKE 'a%'", UnsupportedError, "LIKE is not supported", None),
        ("R.s RLIKE 'a'", UnsupportedError, "RLIKE is not supported", "R.s RLIKE 'a'"),
        ("R.s || 'a' = 'ba'", UnsupportedError, "|| is not supported", "R.s || 'a'"),
        ("year(R.ts) = 2026", UnsupportedError, "time function year is not supported", "year"),
        ("EXTRACT(YEAR FROM R.ts) = 1", UnsupportedError, "EXTRACT is not supported", "EXTRACT(YEAR FROM R.ts)"),
        ("current_timestamp > R.ts", UnsupportedError, "current_timestamp is not supported", "current_timestamp"),
        ("R.x & 1 = 1", UnsupportedError, "Bit operations are not supported", "R.x & 1"),
        ("R.x DIV 2 = 1", UnsupportedError, "DIV is not supported. Use floor(a / b)", "R.x DIV 2"),
        ("(R.x, 1) = (1, 2)", UnsupportedError, "Tuples are not supported", "(R.x, 1)"),
        ("R.x IN (SELECT 1)", UnsupportedError, "Subqueries are not supported", "R.x IN (SELECT 1)"),
        ("R.x = (SELECT 1)", UnsupportedError, "Subqueries are not supported", "(SELECT 1)"),
        ("EXISTS (SELECT 1)", UnsupportedError, "EXISTS is not supported", "EXISTS (SELECT 1)"),
        ("R.x = ?", UnsupportedError, "Parameters are not supported", "?"),
        ("R.x = :a", UnsupportedError, "Parameters are not supported", ":a"),
        ("TRY_CAST(R.x AS INT) = 1", UnsupportedError, "TRY_CAST is not supported", "TRY_CAST(R.x AS INT)"),
        ("CAST(R.x AS STRING) = 'a'", UnsupportedError, "Allowed: TINYINT, SMALLINT, INT", "CAST(R.x AS STRING)"),
        ("CAST(R.x AS dubble) = 1", UnsupportedError, "Did you mean 'DOUBLE'?", "CAST(R.x AS dubble)"),
        ("CAST(R.s AS INT) = 1", QueryError, "Cannot cast R.s from string to INT", "R.s"),
        ("CAST(R.ok AS INT) = 1", QueryError, "Casts go between numbers", "R.ok"),
        ("CAST(R.at AS DATE) = R.day", QueryError, "without a zone", "R.at"),
        ("CAST(R.x AS DECIMAL(40, 2)) = 1", QueryError, "needs 1 <= p <= 38", None),
    ],
)
def test_refused_condition(condition: str, kind: type[QueryError], words: str, place: str | None) -> None:
    error = error_of(f"SELECT 1 AS one FROM {FROM} WHERE {condition}")
    assert words in error.reason
    assert type(error) is kind
    if place is not None:
        assert marked(error) == place
    assert "^" in str(error)


@pytest.mark.parametrize(
    ("sql", "kind", "words", "place"),
    [
        ("", QueryError, "The query is empty", ""),
        (" -- nothing\n ; ", QueryError, "The query is empty", ""),
        (f"SELECT R.x FROM {FROM}; SELECT 2", QueryError, "Expected one SELECT, got 2 statements", ";"),
        ("DELETE FROM R", QueryError, "Expected a SELECT", "DELETE"),
        (f"SELECT FROM {FROM}", QueryError, "SELECT needs at least one column", "SELECT"),
        (f"SELECT R.x FROM {FROM} WHERE", QueryError, "Syntax error near 'WHERE': an operand is missing", "WHERE"),
        (f"SELECT R.x FROM {FROM} WHERE R.x = \n 5 5", QueryError, "Syntax error near '5'", "5"),
        (f"SELECT R.x FROM {FROM} WHERE (R.x = 1", QueryError, "expected )", "1"),
        ("SELECT 'abc FROM R", QueryError, "This string literal is never closed", "'"),
        ('SELECT "abc FROM R', QueryError, "This quoted name is never closed", '"'),
        ("SELECT /* abc FROM R", QueryError, "This comment is never closed", "/*"),
        (f"SELECT R.x FROM {FROM} GROUP BY R.x", UnsupportedError, "Aggregate the result afterwards", "GROUP BY"),
        (f"SELECT 1 a FROM {FROM} GROUP  BY 1 HAVING TRUE", UnsupportedError, "GROUP BY is not", "GROUP  BY"),
        (f"SELECT R.x FROM {FROM} ORDER BY R.x", UnsupportedError, "ordered=True", "ORDER BY"),
        (f"SELECT R.x FROM {FROM} LIMIT 5", UnsupportedError, "LIMIT is not supported", "LIMIT"),
        (f"SELECT DISTINCT R.x FROM {FROM}", UnsupportedError, "Remove duplicates", "DISTINCT"),
        (f"WITH q AS (SELECT 1) SELECT R.x FROM {FROM}", UnsupportedError, "WITH is not supported", "WITH"),
        (f"SELECT R.x FROM {FROM} UNION SELECT 1", UnsupportedError, "UNION is not supported", "UNION"),
        ("SELECT R.x FROM (SELECT 1) [NOW], S [NOW]", UnsupportedError, "FROM takes names of streams", None),
        ("SELECT R.x FROM R [NOW] LEFT JOIN S [NOW] ON TRUE", UnsupportedError, "LEFT JOIN is not supported", "S"),
        ("SELECT R.x FROM R [NOW] RIGHT JOIN S [NOW] ON TRUE", UnsupportedError, "INNER JOIN, CROSS JOIN", "S"),
        ("SELECT R.x FROM R [NOW] FULL OUTER JOIN S [NOW] ON TRUE", UnsupportedError, "FULL OUTER JOIN", "S"),
        ("SELECT R.x FROM R [NOW] SEMI JOIN S [NOW] ON TRUE", UnsupportedError, "SEMI JOIN", "S"),
        ("SELECT R.x FROM R [NOW] LEFT ANTI JOIN S [NOW] ON TRUE", UnsupportedError, "LEFT ANTI JOIN", "S"),
        ("SELECT R.x FROM R [NOW] NATURAL JOIN S [NOW]", UnsupportedError, "NATURAL JOIN", "S"),
        (f"SELECT * EXCEPT (ts) FROM {FROM}", UnsupportedError, "List the columns", None),
        (f"SELECT if(R.ok, R.tags, NULL) a FROM {FROM}", UnsupportedError, "not computed with", "R.tags"),
        ("SELECT R.x FROM R [NOW] JOIN S [NOW] ON R.x", QueryError, "ON needs a condition", "R.x"),
        ("SELECT R.x FROM R [NOW] JOIN S [NOW] USING (a)", QueryError, "Unknown column 'a'", "a"),
    ],
)
def test_refused_query(sql: str, kind: type[QueryError], words: str, place: str | None) -> None:
    error = error_of(sql)
    assert words in error.reason
    assert type(error) is kind
    if place is not None:
        assert marked(error) == place


def test_error_shows_the_line() -> None:
    error = error_of(f"SELECT R.x\nFROM {FROM}\nWHERE R.x = 1\n  AND R.q = 2")
    assert str(error).splitlines()[1:] == ["  line 4, column 9:   AND R.q = 2", " " * 29 + "^"]


def test_wrong_arguments() -> None:
    assert "A query must be text, got int" in error_of(7).reason  # type: ignore[arg-type]
    with pytest.raises(QueryError, match=r"schema of R must be a pyarrow.Schema, got dict"):
        parse(f"SELECT 1 AS one FROM {FROM}", {"R": {}, "S": {}})  # type: ignore[dict-item]


@pytest.mark.parametrize(
    "condition",
    [
        "(" * 3000 + "R.ok" + ")" * 3000,
        "NOT " * 3000 + "R.ok",
        " + ".join(["R.x"] * 3000) + " > 1",
        "-" * 0 + "- " * 3000 + "R.x = 1",
        "abs(" * 300 + "R.x" + ")" * 300 + " = 1",
        "nullif(" * 15 + "R.x" + ", 1)" * 15 + " = 1",
    ],
)
def test_deep_nesting_is_refused(condition: str) -> None:
    assert "too deeply nested" in error_of(f"SELECT 1 AS one FROM {FROM} WHERE {condition}").reason


def test_long_lists_are_not_deep() -> None:
    chain = where(" AND ".join(f"R.x <> {number}" for number in range(500)))
    options = where(f"R.x IN ({', '.join(map(str, range(500)))})")
    assert sum(isinstance(expr, Call) and expr.op == "ne" for expr in walk(chain)) == 500
    assert sum(isinstance(expr, Call) and expr.op == "eq" for expr in walk(options)) == 500


# ---------------------------------------------------------------- back to text


@pytest.mark.parametrize(
    "condition",
    [
        "R.x BETWEEN S.a - 10 AND S.a + 10 AND R.y BETWEEN S.b - 10 AND S.b + 10",
        "R.x - (S.a - 1) > 2 OR R.ok AND NOT R.x = 1",
        "(R.ok OR R.x = 1) AND R.z * (R.x + 1) / 2 < 0.5",
        "R.x IS NOT NULL AND R.ok IS NOT TRUE AND R.x IS DISTINCT FROM S.a",
        "CAST(R.x AS DOUBLE) = CAST(R.d AS DECIMAL(18,4))",
        "R.s = 'it''s' AND R.raw <> X'00FF'",
        "R.ts - S.ts < INTERVAL 90 MINUTES",
        "R.ts > TIMESTAMP '2026-01-01 00:00:00.5' AND R.at < TIMESTAMP '2026-01-01 00:00:00Z'",
        "R.day = DATE '2026-01-31' AND R.took > INTERVAL 5 MILLISECONDS",
        "hypot(R.x - S.a, R.y - S.b) < 10 AND -R.x < abs(S.a)",
        "if(R.ok, R.x, 2.5) >= 1 AND coalesce(R.x, 0) = NULL",
        "R.d * 2 > 1.25 AND R.z > 1e+30",
        '"my role"."Mixed Case" = 1',
    ],
)
def test_format_gives_the_text_back(condition: str) -> None:
    source = 'R [NOW] AS "my role", S [NOW]' if "my role" in condition else FROM
    assert shown(condition, source) == condition
    assert where(shown(condition, source), source) == where(condition, source)


NUMBERS = st.sampled_from(["R.x", "R.y", "R.z", "R.i8", "R.i64", "R.d", "S.a", "S.b", "S.d", "1", "2.5", "1e3", "-7"])
TERMS = st.recursive(
    NUMBERS,
    lambda inner: st.one_of(
        st.builds("({} {} {})".format, inner, st.sampled_from("+-*%"), inner),
        st.builds("{}({})".format, st.sampled_from(["abs", "sqrt", "floor", "-"]), inner),
        st.builds("greatest({}, {})".format, inner, inner),
    ),
    max_leaves=6,
)


@given(TERMS, st.sampled_from(["=", "<", "<=>", "BETWEEN 1 AND"]), TERMS)
def test_any_arithmetic_parses_or_is_refused(left: str, op: str, right: str) -> None:
    condition = f"{left} {op} {right}"
    try:
        tree = where(condition)
    except QueryError:
        return
    for expr in walk(tree):
        if isinstance(expr, Call) and expr.op in ("eq", "lt", "ge", "le", "same", "greatest"):
            assert len({arg.type for arg in expr.args}) == 1
        if isinstance(expr, Call) and expr.op in ("add", "sub", "mod"):
            assert len({(arg.type.kind, arg.type.bits, arg.type.scale) for arg in expr.args}) == 1
        assert expr.type.kind is not NULL.kind


# ---------------------------------------------------------------- @predicate

OUTSIDE = 10.0


@predicate
def near(x: float, y: float, a: float, b: float) -> bool:
    """Whether two points lie within ten of each other."""
    return math.hypot(x - a, y - b) < 10.0 and not np.isnan(x)


def test_predicate_is_called_by_name() -> None:
    found = where("NEAR(R.x, R.y, 1, 10.5) AND R.ok")
    function = registered()["near"]
    arguments = (long(X), cast(Y, DOUBLE), int64(1), Literal(DOUBLE, 10.5))
    assert found == call("and", Call(BOOL, "user", arguments, function), OK)
    assert function.function is near
    assert function.arity == 4
    assert near(0.0, 0.0, 3.0, 4.0)
    assert shown("near(R.x, R.y, S.a, S.b)") == "near(R.x, R.y, S.a, S.b)"


def test_predicate_source_is_a_clean_def() -> None:
    source = registered()["near"].source
    assert source.startswith("def near(x, y, a, b):\n")
    assert "@" not in source
    namespace = {"math": math, "np": np}
    exec(source, namespace)
    assert namespace["near"](0.0, 0.0, 30.0, 40.0) is False  # type: ignore[operator]


@pytest.mark.parametrize(
    ("condition", "words", "place"),
    [
        ("near(R.x)", "near takes 4 arguments, got 1", "near(R.x)"),
        ("near(R.x, R.y, R.s, 1)", "near cannot take R.s, which is string. Allowed: integers", "R.s"),
        ("near(R.x, R.y, R.d, 1)", "near cannot take R.d, which is decimal(10,2). Use CAST(R.d AS DOUBLE)", "R.d"),
        ("neer(R.x, R.y, R.z, 1)", "Unknown function 'neer'. Did you mean 'near'?", "neer"),
    ],
)
def test_predicate_called_wrongly(condition: str, words: str, place: str) -> None:
    error = error_of(f"SELECT 1 AS one FROM {FROM} WHERE {condition}")
    assert words in error.reason
    assert marked(error) == place


def test_predicate_takes_times_as_ticks() -> None:
    found = where("near(R.ts, R.day, R.took, R.ok)")
    assert isinstance(found, Call)
    assert found.args == (TS, DAY, TOOK, OK)


def outside(x):
    return x < OUTSIDE


def recursive(x):
    return recursive(x - 1)


def starred(*x):
    return x


def defaulted(x, y=1):
    return x < y


def nullary():
    return True


def lazy(x):
    yield x


def sqrt(x):
    return x > 0


def closing():
    limit = 3

    def closure(x):
        return x < limit

    return closure


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda x: x > 0, "cannot take a lambda"),
        (outside, "outside uses OUTSIDE from outside itself"),
        (recursive, "recursive uses recursive from outside itself"),
        (closing(), "closure uses limit from outside itself"),
        (starred, r"takes '\*x'"),
        (defaulted, "has a default for 'y'"),
        (nullary, "takes no arguments"),
        (lazy, "is a generator or coroutine"),
        (sqrt, "has the name of an SQL function"),
        (len, "takes a plain Python function, got <built-in function len>"),
        (5, "takes a plain Python function, got 5"),
    ],
)
def test_predicate_that_cannot_stand_alone(function: object, words: str) -> None:
    before = dict(registered())
    with pytest.raises(QueryError, match=words):
        predicate(function)  # type: ignore[type-var]
    assert registered() == before


def test_predicate_without_source() -> None:
    namespace: dict[str, object] = {}
    exec("def typed_in(x):\n    return x > 0\n", namespace)
    with pytest.raises(QueryError, match="source of the predicate typed_in cannot be found"):
        predicate(namespace["typed_in"])  # type: ignore[type-var]


def test_sqlglot_is_loaded_only_to_parse() -> None:
    code = "import sys, crosswind.query; sys.exit('sqlglot' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
