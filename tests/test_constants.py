"""Conditions without columns, and constants inside conditions: on every engine, in every kind of join."""

from __future__ import annotations

import math
import zlib
from fractions import Fraction

import pyarrow as pa
import pytest

import crosswind as cw
from tests.conftest import ON_STREAMS, SPARK, EngineConfig
from tests.oracle import Join, Output, Role, Window, assert_same, expected_rows

TABLES = {
    "R": pa.table({"x": pa.array([1, 2, None, 4], pa.int64()), "ts": pa.array([1, 2, 3, 9], pa.int64())}),
    "S": pa.table({"a": pa.array([1, 3, 3, None], pa.int64()), "ts": pa.array([1, 2, 8, 8], pa.int64())}),
}
SCHEMAS = {name: table.schema for name, table in TABLES.items()}
JOINS = {"inner": "JOIN", "left": "LEFT JOIN", "right": "RIGHT JOIN", "full": "FULL JOIN"}
JOINS |= {"semi": "LEFT SEMI JOIN", "anti": "LEFT ANTI JOIN"}
NEVER = [
    *("1 = 2", "NULL = 2", "'a' = 'b'", "NOT (1 = 1)", "1 IN (2, 3)", "2 IS NULL", "coalesce(NULL, FALSE)"),
    *("1 = 2 AND R.x < S.a", "R.x < S.a AND 1 = 2", "R.x = NULL", "NULL", "1 NOT IN (2, NULL)", "NULL IS NOT NULL"),
    *("1 > 2 OR 'b' < 'a'", "NOT (R.x < S.a OR 1 = 1)", "TRUE AND NULL", "sqrt(16) = 5", "R.x < S.a - NULL"),
    "CASE WHEN 1 = 2 THEN R.x < S.a ELSE FALSE END",
]
ALWAYS = [
    *(
        "1 = 1",
        "2 IS NOT NULL",
        "'a' < 'b'",
        "NOT (1 = 2)",
        "1 IN (2, 1)",
        "coalesce(NULL, TRUE)",
        "R.x < S.a OR 1 = 1",
    ),
    *("1 BETWEEN 0 AND 2", "NULL IS NULL", "7 % 4 = 3", "abs(-2) = 2", "least(3, NULL, 2) = 2", "1 = 2 OR 1.5 > 1"),
]
BOTH = [
    *("1 = 1 AND R.x < S.a", "R.x < S.a OR 1 = 2", "R.x < S.a OR NULL = 2", "NOT (R.x >= S.a OR 1 = 2)"),
    "R.x < S.a + 2 - 2 AND coalesce(NULL, 3) = 3",
]
WINDOW = Window("range", Fraction(6))


def expected(condition: str, kind: str, after: str | None = None) -> list[tuple]:
    """Return the rows of the join on ``condition`` as DuckDB has them."""
    roles = tuple(Role(name, name, WINDOW) for name in TABLES)
    outputs = [Output("x", 0, "x"), Output("a", 1, "a")]
    shown = tuple(outputs[:1] if kind in ("semi", "anti") else outputs)
    return expected_rows(Join(roles, TABLES, f"({condition})", shown, kind, after and f"({after})"))


def query(condition: str, kind: str, after: str | None = None) -> str:
    shown = "R.x" if kind in ("semi", "anti") else "R.x, S.a"
    where = "" if after is None else f" WHERE {after}"
    return f"SELECT {shown} FROM R [RANGE 6] {JOINS[kind]} S [RANGE 6] ON {condition}{where}"


@pytest.mark.parametrize("kind", JOINS)
def test_a_condition_without_columns_decides_as_any_other(engine: EngineConfig, kind: str):
    turn = zlib.crc32(f"{engine.id} {kind}".encode()) % 4
    conditions = [*NEVER, *ALWAYS, *BOTH][turn::4]
    if engine.mode == "spark":  # a job on Spark costs a second
        conditions = conditions[::4]
    for condition in conditions:
        assert_same(expected(condition, kind), engine.rows(query(condition, kind), TABLES), query(condition, kind))


@SPARK
def test_a_condition_without_columns_on_streams():
    some = query("NOT (1 = 1) OR R.x < S.a", "inner")
    assert_same(expected("R.x < S.a", "inner"), ON_STREAMS.rows(some, TABLES), some)
    alone = ON_STREAMS.rows(query("1 = 2", "full"), TABLES).to_pylist()
    # The last tuples wait: nothing says that their windows have closed.
    assert {"x": 1, "a": None} in alone
    assert {"x": None, "a": 1} in alone
    assert all(None in row.values() for row in alone)


@pytest.mark.parametrize("kind", ["left", "full", "semi"])
def test_a_where_without_columns_after_an_outer_join(engine: EngineConfig, kind: str):
    for after in ["1 = 2", "1 = 1", "NULL = 2", "R.x IS NULL OR 'a' = 'b'"]:
        sql = query("R.x < S.a", kind, after)
        assert_same(expected("R.x < S.a", kind, after), engine.rows(sql, TABLES), sql)


@pytest.mark.parametrize("condition", ["1 = 2", "R.x < S.a AND NULL = 2", "R.x = S.a AND 1 = 1"])
@pytest.mark.parametrize("width", [3, 4])
def test_many_streams(engine: EngineConfig, condition: str, width: int):
    tables = {**TABLES, **{name: TABLES["S"].rename_columns(["b", "ts"]) for name in "TU"[: width - 2]}}
    sql = f"SELECT R.x, S.a FROM {', '.join(f'{name} [RANGE 6]' for name in tables)} WHERE {condition}"
    roles = tuple(Role(name, name, WINDOW) for name in tables)
    rows = expected_rows(Join(roles, tables, f"({condition})", (Output("x", 0, "x"), Output("a", 1, "a"))))
    assert_same(rows, engine.rows(sql, tables), sql)


def test_many_queries():
    conditions = {"never": "1 = 2", "always": "1 = 1", "some": "R.x < S.a", "half": "R.x < S.a AND NULL = 'a'"}
    queries = {name: query(condition, "inner") for name, condition in conditions.items()}
    found = cw.run(queries, TABLES)
    for name, condition in conditions.items():
        assert_same(expected(condition, "inner"), found[name], name)


@pytest.mark.parametrize("first", ["1 = 2", "R.x < S.a"])
def test_a_query_that_is_added_and_never_matches(first: str):
    with cw.open({"one": query(first, "inner")}, SCHEMAS) as join:
        join.push("R", TABLES["R"].slice(0, 1))
        join.add("two", query("NOT (1 = 1)", "inner"))
        join.add("three", query("2 = 2", "inner"))
        join.push("R", TABLES["R"].slice(1, 1))
        found = join.push("S", TABLES["S"].slice(1, 1))
    assert found["two"].num_rows == 0
    assert found["three"].to_pylist() == [{"x": 2, "a": 3}]
    assert found["one"].num_rows == (0 if first == "1 = 2" else 2)


def test_nothing_waits_for_a_condition_that_is_never_true():
    with cw.open(query("1 = 2", "inner"), SCHEMAS) as join:
        join.push("R", TABLES["R"])
        assert join.stats.window_tuples == {"R": 0, "S": 0}
        assert join.stats.tuples_in["R"] == 4


def test_a_user_function_of_constants_is_asked():
    @cw.predicate
    def is_even(number):
        return number % 2 == 0

    for condition, count in (("is_even(3)", 0), ("is_even(4)", 10), ("is_even(NULL)", 0)):
        assert cw.run(query(condition, "inner"), TABLES).num_rows == count, condition
        assert cw.run(query(condition, "left"), TABLES).num_rows == (count or 4), condition
        three = f"SELECT R.x FROM R [NOW], S [NOW], R [NOW] AS r2 WHERE {condition}"
        assert cw.run(three, TABLES).num_rows == (2 if count else 0), condition


# ---------------------------------------------------------------------------------- the plan


@pytest.mark.parametrize("condition", NEVER)
def test_explain_says_that_nothing_matches(condition: str):
    plan = cw.explain(query(condition, "inner"), SCHEMAS)
    assert plan.sections["constants"][-1:] == ["the condition is never TRUE: no result"]
    assert "join nothing: the condition is never TRUE" in plan
    assert "warnings" not in plan.sections


def test_explain_says_what_was_computed():
    plan = cw.explain(query("NULL = 'a' OR R.x < S.a + sqrt(16) AND 1 = 1", "full", "2 > 3"), SCHEMAS)
    assert plan.sections["constants"] == [
        *("NULL = 'a' is NULL", "1 = 1 is TRUE", "2 > 3 is FALSE", "WHERE is never TRUE: no result")
    ]
    assert plan.sections["bands"][0].startswith("R.x - S.a < 4")
    left = cw.explain(query("1 = 2", "left"), SCHEMAS).sections["constants"]
    assert left == ["1 = 2 is FALSE", "the condition is never TRUE: no tuple has a partner"]


def test_explain_says_nothing_of_constants_where_there_are_none():
    assert "constants" not in cw.explain(query("R.x < S.a", "inner"), SCHEMAS).sections


@pytest.mark.parametrize(
    ("condition", "same"),
    [
        ("R.x < S.a + sqrt(16)", "R.x < S.a + 4e0"),
        ("R.x = S.a + floor(2.5)", "R.x = S.a + 2"),
        ("abs(R.x - S.a) <= least(3, 2 * 2)", "abs(R.x - S.a) <= 3"),
        ("if(1 = 1, R.x, S.a) = S.a", "R.x = S.a"),
        ("coalesce(NULL, R.x) = S.a", "R.x = S.a"),
        ("R.x BETWEEN S.a - CAST(2.0 AS INT) AND S.a + 1", "R.x BETWEEN S.a - 2 AND S.a + 1"),
    ],
)
def test_constants_inside_conditions_are_computed(condition: str, same: str):
    first, second = (cw.explain(query(text, "inner"), SCHEMAS).sections for text in (condition, same))
    for part in ("filters", "keys", "bands", "residual"):
        assert first[part] == second[part], part


# ---------------------------------------------------------------------------------- values


VALUES = [
    *("7 % 4 = 3", "-7 % 4 = -3", "7 % 0 IS NULL", "1 / 0 IS NULL", "1 / 4 = 0.25", "7.5 % 2 = 1.5", "2 * 3.5 = 7.0"),
    *("sqrt(-1) = sqrt(-1)", "sqrt(-1) > 1e308", "greatest(sqrt(-1), 1e0) = sqrt(-1)", "floor(sqrt(-1)) = 0"),
    *(
        "floor(-2.5) = -3",
        "ceil(-2.5) = -2",
        "floor(1e300) = 9223372036854775807",
        "ceil(2.1e0) = 3",
        "sign(-2.5) = -1",
    ),
    *(
        "CAST(2.5 AS INT) = 2",
        "CAST(-2.5 AS INT) = -2",
        "CAST(-2.9e0 AS BIGINT) = -2",
        "CAST(2.345 AS DECIMAL(5,2)) = 2.35",
    ),
    *("CAST(1 AS DOUBLE) / 3 = 1e0 / 3e0", "CAST(0.1 AS FLOAT) <> 0.1e0", "CAST(0.1 AS FLOAT) = CAST(0.1e0 AS FLOAT)"),
    *("ln(0) IS NULL", "ln(1) = 0", "exp(0) = 1", "exp(1e5) > 1e308", "power(2, 10) = 1024", "power(0, -1) > 1e308"),
    *(
        "hypot(3, 4) = 5",
        "cbrt(27) > 2.99",
        "log(2, 8) > 2.9",
        "log10(1000) > 2.9",
        "abs(-2.5) = 2.5",
        "- (1 + 1) = -2",
    ),
    *(
        "nullif(1, 1) IS NULL",
        "nullif(1, 2) = 1",
        "coalesce(NULL, NULL, 3) = 3",
        "least(2, NULL, 1) = 1",
        "pi() > 3.14",
    ),
    *(
        "greatest(1.5, 2) = 2",
        "if(NULL, 1, 2) = 2",
        "CASE 3 WHEN 3 THEN TRUE END",
        "(NULL OR TRUE) AND NOT (NULL AND FALSE)",
    ),
    *("NULL IS NOT DISTINCT FROM NULL", "1 IS DISTINCT FROM NULL", "(1 = 2) IS FALSE", "(NULL = 1) IS NOT TRUE"),
    *("'é' > 'z'", "'a' < 'aa'", "X'00FF' > X'00'", "TRUE > FALSE", "1 = 1.0", "1 < 1.5", "0.0 = -0.0", "0e0 = -0e0"),
    *("DATE '2026-01-31' + INTERVAL 1 DAY = DATE '2026-02-01'", "TIMESTAMP '2026-01-01 00:00:01' > DATE '2026-01-01'"),
    *("TIMESTAMP '2026-01-02' - TIMESTAMP '2026-01-01' = INTERVAL 1 DAY", "INTERVAL 60 SECONDS = INTERVAL 1 MINUTE"),
    *(
        "CAST(TIMESTAMP '2026-01-01 23:59:59' AS DATE) = DATE '2026-01-01'",
        "12345678901234567890 > 9223372036854775807",
    ),
    *("1.00000000000000000000001 > 1", "CAST(12345678901234567890 AS DOUBLE) = 1.2345678901234567e19"),
]


@pytest.mark.parametrize("value", VALUES)
def test_values_of_constants(value: str):
    assert "join every pair" in cw.explain(query(value, "inner"), SCHEMAS)


REAL = ["sqrt", "exp", "sin", "cos", "tan", "asin", "acos", "atan", "cbrt", "radians", "degrees", "ln", "log10", "log2"]


def spelled(value: float | None) -> str:
    if value is None:
        return "NULL"
    if value != value:
        return "sqrt(-1)"
    return f"{'-' if value < 0 else ''}1e308 * 10" if math.isinf(value) else f"{value:.17e}"


@pytest.mark.parametrize("name", [*REAL, "sign", "power", "atan2", "hypot"])
def test_constants_have_the_values_that_kernels_compute(name: str):
    values = [0.0, 1.0, -1.0, 0.5, -2.25, 27.0, 180.0, 1e5, 3.7e-9]
    pairs = [(v, w) for v in values for w in ([1.0] if name in (*REAL, "sign") else values[:6])]
    call = f"{name}(R.v{'' if name in (*REAL, 'sign') else ', R.w'})"
    r = pa.table({"v": [v for v, _ in pairs], "w": [w for _, w in pairs], "ts": [0] * len(pairs)})
    sql = f"SELECT R.v, R.w, {call} AS y FROM R [NOW], S [NOW]"
    for row in cw.run(sql, {"R": r, "S": TABLES["S"].slice(0, 1).set_column(1, "ts", [[0]])}).to_pylist():
        constant = call.replace("R.v", spelled(row["v"])).replace("R.w", spelled(row["w"]))
        condition = f"{constant} IS NOT DISTINCT FROM {spelled(row['y'])}"
        assert "join every pair" in cw.explain(query(condition, "inner"), SCHEMAS), condition


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        (
            "CAST(3e10 AS INT) = 1",
            "The constant CAST(30000000000 AS INT) has no value: 30000000000 does not fit into int32",
        ),
        ("CAST(300 AS TINYINT) = 1", "The constant CAST(300 AS TINYINT) has no value: 300 does not fit into int8"),
        ("CAST(sqrt(-1) AS INT) = 1", "nan does not fit into int32"),
        ("CAST(123.45 AS DECIMAL(3,1)) = 1", "123.5 does not fit into decimal(3,1)"),
        ("R.x < S.a OR CAST(3e10 AS INT) = R.x", "30000000000 does not fit into int32"),
        ("9223372036854775807 + 1 > R.x", "is 9223372036854775808, which does not fit into 64 bits"),
        ("abs(floor(-1e300)) = R.x", "9223372036854775808 does not fit into int64"),
    ],
)
def test_a_constant_that_has_no_value_is_an_error_of_the_query(condition: str, message: str):
    with pytest.raises(cw.QueryError) as caught:
        cw.explain(query(condition, "inner"), SCHEMAS)
    assert message in caught.value.reason
    assert caught.value.start >= 0


def test_an_error_that_a_condition_keeps_away_is_none():
    condition = "1 = 2 AND CAST(3e10 AS INT) = 1"
    assert cw.run(query(condition, "inner"), TABLES).num_rows == 0
    chosen = "CASE WHEN R.x < 100 THEN R.x = S.a ELSE CAST(3e10 AS INT) = 1 END"
    tables = {"R": TABLES["R"].slice(0, 2), "S": TABLES["S"]}
    assert cw.run(query(chosen, "inner"), tables).to_pylist() == [{"x": 1, "a": 1}]
    assert cw.run(query("if(1 = 1, R.x = S.a, CAST(3e10 AS INT) = 1)", "inner"), TABLES).num_rows == 1
    with pytest.raises(cw.ArithmeticOverflowError):
        cw.run(query(chosen, "inner"), {"R": {"x": [100], "ts": [1]}, "S": {"a": [1], "ts": [1]}})
