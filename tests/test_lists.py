"""Long lists, long chains and deep nesting: looked up, computed, or refused with the limit; never a RecursionError."""

from __future__ import annotations

import sys
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest

import crosswind as cw
from tests.conftest import EngineConfig
from tests.expressions import F64, INT, TEXT, Col, In, Type, lit
from tests.oracle import Join, Output, Role, Window, assert_same, expected_rows

R = pa.table(
    {
        "i": pa.array(range(8), pa.int32()),
        "x": pa.array([0, 3, 39, 40, None, -1, 2**40, 7], pa.int64()),
        "b": pa.array([0, 3, 39, 40, None, -1, 127, 7], pa.int8()),
        "f": pa.array([0.5, -0.0, float("nan"), 3.0, None, 1e300, 39.5, 40.0], pa.float64()),
        "d": pa.array([50, 300, 3950, 4025, -100, 700, 25, 975], pa.int64()).cast(pa.decimal128(21, 0)),
        "s": pa.array(["k0", "k39", "k40", "", None, "k", "k3", "é"], pa.string()),
        "ts": pa.array([1] * 8, pa.int64()),
    }
)
S = pa.table(
    {"j": pa.array([0, 1], pa.int32()), "a": pa.array([1, None], pa.int64()), "ts": pa.array([1, 1], pa.int64())}
)
R = R.set_column(4, "d", pa.array([Decimal(v) / 100 for v in R["d"].to_pylist()], pa.decimal128(6, 2)))
TABLES = {"R": R, "S": S}
SCHEMAS = {name: table.schema for name, table in TABLES.items()}
COLUMNS = {
    "x": (INT, [*range(40), 2**40]),
    "b": (INT, [*range(40), 300]),
    "f": (F64, [k + 0.5 for k in range(40)] + [0.0]),
    "d": (Type("dec", 6, 2), [Decimal(k) + Decimal("0.5") for k in range(40)]),
    "s": (TEXT, [f"k{k}" for k in range(40)] + ["é", ""]),
}


def membership(column: str, negated: bool, null: bool) -> In:
    of, values = COLUMNS[column]
    items = [lit(value) for value in reversed(values)] + [lit(None)] * null
    return In(Col("R", column, of), tuple(items), negated)


def rows(where: str) -> str:
    return f"SELECT R.i, S.j FROM R [RANGE 5], S [RANGE 5] WHERE {where}"


@pytest.mark.parametrize("column", COLUMNS)
def test_lists_are_looked_up(engine: EngineConfig, column: str):
    roles = tuple(Role(name, name, Window("range", Fraction(5))) for name in TABLES)
    outputs = (Output("i", 0, "i"), Output("j", 1, "j"))
    variants = [(False, False), (True, False), (False, True), (True, True)]
    for negated, null in variants[:2] if engine.mode == "spark" else variants:
        condition = membership(column, negated, null)
        expected = expected_rows(Join(roles, TABLES, condition.duck(), outputs))
        assert_same(expected, engine.rows(rows(condition.ours()), TABLES), condition.ours())


def found(where: str) -> list[int]:
    return sorted(set(cw.run(rows(where), TABLES)["i"].to_pylist()))


def test_five_thousand_values():
    numbers = ", ".join(map(str, range(5_000)))
    assert found(f"R.x IN ({numbers})") == [0, 1, 2, 3, 7]
    assert found(f"R.x NOT IN ({numbers})") == [5, 6]
    assert found(f"R.x + S.a IN ({numbers})") == [0, 1, 2, 3, 5, 7]
    texts = ", ".join(f"'k{k}'" for k in range(5_000))
    assert found(f"R.s IN ({texts})") == [0, 1, 2, 6]
    assert found(" OR ".join(f"R.x = {k}" for k in range(5_000))) == [0, 1, 2, 3, 7]


def test_one_type_serves_a_whole_list():
    """As in Spark: with a double in the list, integers are compared as doubles."""
    big = 2**53 + 1
    table = {"R": {"x": [big], "ts": [1]}, "S": {"ts": [1]}}
    sql = "SELECT R.x FROM R [NOW], S [NOW] WHERE R.x IN ({})"
    assert cw.run(sql.format(f"{big - 1}"), table).num_rows == 0
    assert cw.run(sql.format(f"{big - 1}, 1e0"), table).num_rows == 1


def test_a_list_is_shown_in_short():
    plan = cw.explain(rows(f"R.x NOT IN ({', '.join(map(str, range(100)))})"), SCHEMAS)
    (line,) = plan.sections["filters"]
    assert line.startswith("(R.x IN (0, 1, 2,")
    assert "... 100 values" in line


# ---------------------------------------------------------------------------------- limits


NESTED: dict[str, tuple[str, str, str]] = {
    "parentheses": ("(", "R.x = 1", ")"),
    "sums": ("(", "R.x", " + 1)"),
    "NOT": ("NOT ", "R.x = 1", ""),
    "minus": ("- ", "R.x", ""),
    "functions": ("abs(", "R.x", ")"),
    "CASE": ("CASE WHEN R.x = 1 THEN ", "R.x", " END"),
    "casts": ("CAST(", "R.x", " AS BIGINT)"),
    "AND and OR": ("(", "R.x = 1", " OR R.x = 2) AND S.a = 3"),
    "equalities": ("(R.x = 1) = ", "(R.x = 2)", ""),
}


def nested(name: str, levels: int) -> str:
    before, inner, after = NESTED[name]
    text = before * levels + inner + after * levels
    return rows(text if name in ("parentheses", "NOT", "AND and OR", "equalities") else f"{text} = 1")


@pytest.mark.parametrize("levels", [150, 3_000])
@pytest.mark.parametrize("name", NESTED)
def test_deep_nesting_is_refused_with_the_limit(name: str, levels: int):
    with pytest.raises(cw.QueryError, match=r"at most 100 levels"):
        cw.explain(nested(name, levels), SCHEMAS)


@pytest.mark.parametrize("name", NESTED)
def test_nesting_up_to_the_limit_is_read_whatever_the_stack(name: str):
    def deeper(frames: int) -> Any:
        return cw.explain(nested(name, 45), SCHEMAS) if not frames else deeper(frames - 1)

    assert deeper(0)
    assert deeper(sys.getrecursionlimit() - 400)


@pytest.mark.parametrize(
    ("where", "limit"),
    [
        (" AND ".join(f"R.x <> S.a + {k}" for k in range(1_500)), "at most 2,000 operations"),
        ("R.x" + " + 1" * 3_000 + " = S.a", "at most 100 levels"),
        (f"R.x IN ({', '.join(map(str, range(100_001)))})", "at most 100,000 constants"),
    ],
)
def test_what_is_too_large_is_refused_with_the_limit(where: str, limit: str):
    with pytest.raises(cw.QueryError, match=limit) as caught:
        cw.explain(rows(where), SCHEMAS)
    assert "Split it into several queries" in caught.value.reason


def test_a_chain_of_three_hundred_comparisons_runs():
    assert found(" AND ".join(f"R.x <> {k}" for k in range(300))) == [5, 6]


def test_too_many_queries_for_one_join_are_refused_with_the_limit():
    queries = {f"q{k}": rows(f"R.x BETWEEN S.a - {k} AND S.a + {k + 1}") for k in range(600)}
    with pytest.raises(cw.UnsupportedError, match=r"these 600 queries have more than 2,000 different"):
        cw.open(queries, SCHEMAS)
    alike = {f"q{k}": f"SELECT R.i FROM R [RANGE {k + 1}], S [RANGE 5] WHERE R.x = S.a" for k in range(600)}
    cw.open(alike, SCHEMAS).close()
