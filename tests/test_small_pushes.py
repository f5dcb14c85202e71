"""A few live tuples per push, in columns of many types: all partners are met, whoever looks for them."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import crosswind as cw
from tests import seeds
from tests.oracle import Join, Output, Role, Window, assert_same, expected_rows

TYPES = {
    "x": (pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.int16()),
    "y": (pa.float32(), pa.float64(), pa.int32()),
    "p": (pa.int8(), pa.uint16(), pa.int64(), pa.float64(), pa.date32(), pa.bool_()),
}
CONDITIONS = {
    "two bands": "R.x BETWEEN S.x - 3 AND S.x + 3 AND R.y BETWEEN S.y - 5 AND S.y + 5",
    "one": "abs(R.x - S.x) <= 2",
    "open": "R.x < S.x - 15 AND R.y > S.y + 10",
    "equal": "R.x = S.x",
    "computed": "abs(2 * R.x - S.x) <= 3 AND R.y + R.x < S.y * 2",
    "filtered": "R.x = S.x AND R.y > -40 AND S.y + S.x < 60",
    "residual": "R.x = S.x AND (R.y < S.y OR R.y > S.y + 20)",
}
KINDS = {"inner": ", S [{}] WHERE", "left": " LEFT JOIN S [{}] ON", "full": " FULL JOIN S [{}] ON"}


def tuples(rng: np.random.Generator, types: dict[str, pa.DataType], count: int, nulls: float) -> pa.Table:
    columns = {"ts": pa.array(np.sort(rng.integers(0, 400, count)))}
    for name, of in types.items():
        values = rng.integers(0, 20, count) if pa.types.is_integer(of) else rng.normal(0, 30, count).round() / 2
        some = values.tolist()
        if pa.types.is_floating(of):
            some = [rng.choice([np.nan, -0.0, 0.0, np.inf]) if rng.random() < 0.05 else value for value in some]
        elif pa.types.is_date(of) or pa.types.is_boolean(of):
            some = [int(abs(value)) for value in some] if pa.types.is_date(of) else [value > 0 for value in some]
        missing = rng.random(count) < nulls
        columns[name] = pa.array([None if gone else value for value, gone in zip(some, missing, strict=True)], of)
    return pa.table(columns)


def live(join: cw.Join, tables: dict[str, pa.Table], rng: np.random.Generator) -> list[pa.Table]:
    """Push in time order, a few at a time; return the results."""
    at, found = dict.fromkeys(tables, 0), []
    while any(at[name] < len(table) for name, table in tables.items()):
        waiting = [name for name, table in tables.items() if at[name] < len(table)]
        name = min(waiting, key=lambda name: tables[name]["ts"][at[name]].as_py())
        count = int(rng.integers(1, 4 if rng.random() < 0.9 else 32))
        part = tables[name].slice(at[name], count).combine_chunks()
        at[name] += count
        found.append(join.push(name, part.to_batches()[0] if rng.random() < 0.7 else part))
    found.append(join.finish())
    return found


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("nulls", [0.0, 0.03], ids=["no nulls", "nulls"])
@pytest.mark.parametrize("index", ["auto", "scan"])
@pytest.mark.parametrize("engine", ["kang", "cell", "grid"])
def test_few_tuples_meet_the_same_partners(condition, nulls, index, engine, monkeypatch):
    rng = seeds.numbers("few", condition, nulls, index, engine)
    if engine != "kang":  # how much is little, so that workers are woken for some pushes and not for others
        monkeypatch.setattr("crosswind.engine.parallel.pool.ALONE", 250 if index == "scan" else 5_000)
    layout = [(1, 2), (2, 1), (2, 2)][rng.integers(3)]
    options = {"kang": {}, "cell": {"workers": 3}, "grid": {"layout": layout}}[engine]
    draw = seeds.numbers("few types", condition)  # the same for all engines: to compile takes longest
    types = {name: kinds[draw.integers(len(kinds))] for name, kinds in TYPES.items()}
    tables = {name: tuples(rng, types, 500, nulls) for name in "RS"}
    kind = list(KINDS)[rng.integers(len(KINDS))]
    sql = (
        "SELECT S.p, R.ts AS t, R.x, R.y, S.ts AS u, R.p AS q, S.y AS z FROM R [RANGE 90]"
        f"{KINDS[kind].format('RANGE 60 INCLUSIVE')} {CONDITIONS[condition]}"
    )
    schemas = {name: table.schema for name, table in tables.items()}
    with cw.open(sql, schemas, lateness=500, engine=engine, index=index, basic_window=64, **options) as join:
        found = live(join, tables, rng)
    roles = (
        Role("R", "R", Window("range", Fraction(90))),
        Role("S", "S", Window("range", Fraction(60), inclusive=True)),
    )
    shown = (("p", 1), ("ts", 0), ("x", 0), ("y", 0), ("ts", 1), ("p", 0), ("y", 1))
    outputs = tuple(
        Output(name, role, column)
        for name, (column, role) in zip(["p", "t", "x", "y", "u", "q", "z"], shown, strict=True)
    )
    expected = expected_rows(Join(roles, tables, CONDITIONS[condition], outputs, kind))
    assert expected, "a check that cannot fail"
    assert_same(expected, pa.concat_tables(found), f"{kind} {types}")
