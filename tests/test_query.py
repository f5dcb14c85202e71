"""From text to tree: names, windows, types, and the wording and place of every error."""

from __future__ import annotations

import math
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from crosswind.errors import QueryError, UnsupportedError
from crosswind.query import format_expr, parse, parse_duration, predicate, registered
from crosswind.query.tree import Call, Column, Literal, Now, Range, Rows, walk
from crosswind.query.types import BOOL, DOUBLE, INT64
from tests.query_trees import (
    DAY,
    FROM,
    INT32,
    OK,
    TOOK,
    TS,
    A,
    B,
    R,
    S,
    X,
    Y,
    call,
    cast,
    error_of,
    int64,
    long,
    marked,
    outputs,
    query,
    shown,
    where,
)

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
        ("RANGE 400 years", "not of constant length"),
        ("RANGE 1e30 s", "too long: at most 292 years"),
        ("RANGE 9223372036854775808", "too long"),
        ("RANGE 1e999999999 s", "Unknown unit of time 'e'"),
        pytest.param("RANGE " + "9" * 5000 + " s", "more than 40 characters", id="many digits"),
        pytest.param("ROWS " + "9" * 5000, "at least 1", id="many rows"),
        ("ROWS 0", "at least 1 and below 2^63, got '0'"),
        ("ROWS -3", "at least 1 and below 2^63, got '-3'"),
        ("ROWS 1.5", "at least 1 and below 2^63, got '1.5'"),
        ("ROWS", "at least 1 and below 2^63, got ''"),
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
    error = error_of(f"SELECT 1 FROM {FROM}", time="tss")
    assert "The stream R has no time column 'tss'. Did you mean 'ts'? It has: ts, x, y" in error.reason
    assert marked(error) == "R"
    with pytest.raises(QueryError, match=r"names the stream 'Rr', which is not known. Did you mean 'R'\? Known: R, S"):
        query(f"SELECT 1 AS one FROM {FROM}", time={"Rr": "ts"})


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
        ("SELECT R.x FROM R [NOW] NATURAL JOIN S [NOW]", UnsupportedError, "NATURAL JOIN is not supported", "S"),
        ("SELECT R.x FROM R [NOW] RIGHT SEMI JOIN S [NOW] ON TRUE", UnsupportedError, "LEFT SEMI JOIN", "S"),
        ("SELECT S.a FROM R [NOW] LEFT ANTI JOIN S [NOW] ON TRUE", QueryError, "gives tuples of R only", "S.a"),
        ("SELECT * FROM R [NOW] SEMI JOIN S [NOW] ON TRUE WHERE S.a = 1", QueryError, "tuples of R only", "S.a = 1"),
        ("SELECT R.x FROM R [NOW] FULL JOIN S [NOW] USING (k)", UnsupportedError, "USING is not supported", "S"),
        ("SELECT R.x FROM R [NOW] LEFT JOIN S [NOW]", QueryError, "LEFT JOIN needs a condition", "S"),
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
    assert str(error).splitlines()[1:] == ["  line 4, column 9:   AND R.q = 2", " " * 28 + "^"]


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
        "- " * 3000 + "R.x = 1",
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
    assert isinstance(options, Call)
    assert options.op == "in"
    assert len(options.args) == 501


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
