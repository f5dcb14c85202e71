"""Joins of three and more streams: routes, windows searched by several columns, orders."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

import crosswind as cw
from tests import seeds
from tests.conftest import EngineConfig
from tests.oracle import Join, Output, Role, Window, assert_same, expected_rows

COLUMNS = {"R": "ab", "S": "cd", "T": "ef"}


def make_tables(seed: int, rows: int = 60, high: int = 8) -> dict[str, pa.Table]:
    rng = seeds.numbers(seed)
    return {
        name: pa.table({"ts": np.sort(rng.integers(0, 50, rows)), **{c: rng.integers(0, high, rows) for c in columns}})
        for name, columns in COLUMNS.items()
    }


def oracle_rows(windows: dict[str, tuple[str, Window]], tables: dict[str, pa.Table], condition: str) -> list:
    roles = tuple(Role(name, name, window) for name, (_, window) in windows.items())
    outputs = tuple(Output(f"{n}_{c}", k, c) for k, n in enumerate(windows) for c in tables[n].column_names)
    return expected_rows(Join(roles, tables, condition, outputs))


@pytest.mark.parametrize(
    "condition",
    [
        "R.a = S.c AND S.d = T.e",
        "R.a BETWEEN S.c - 1 AND S.c + 1 AND abs(S.d - T.e) <= 1 AND R.b = T.f",
        "R.a = S.c AND (R.b = S.d OR S.d = T.e)",
    ],
)
@pytest.mark.parametrize("kind", ["range", "mixed", "rows"])
def test_three_streams(engine: EngineConfig, condition: str, kind: str):
    windows = {
        "range": {
            "R": ("RANGE 6", Window("range", 6)),
            "S": ("RANGE 9", Window("range", 9)),
            "T": ("NOW", Window("now")),
        },
        "mixed": {
            "R": ("RANGE 6", Window("range", 6)),
            "S": ("ROWS 9", Window("rows", count=9)),
            "T": ("ROWS 4", Window("rows", count=4)),
        },
        "rows": {
            "R": ("ROWS 12", Window("rows", count=12)),
            "S": ("ROWS 9", Window("rows", count=9)),
            "T": ("ROWS 20", Window("rows", count=20)),
        },
    }[kind]
    tables = make_tables(3)
    sql = f"SELECT * FROM {', '.join(f'{n} [{text}]' for n, (text, _) in windows.items())} WHERE {condition}"
    assert_same(oracle_rows(windows, tables, condition), engine.rows(sql, tables), sql)


def test_eight_streams():
    rng = seeds.chance(2)
    names = "ABCDEFGH"
    tables = {
        name: pa.table({"ts": sorted(rng.randrange(12) for _ in range(30)), "k": [rng.randrange(4) for _ in range(30)]})
        for name in names
    }
    where = " AND ".join(f"{a}.k = {b}.k" for a, b in pairwise(names))
    sql = f"SELECT A.k, H.ts FROM {', '.join(f'{name} [RANGE 2]' for name in names)} WHERE {where}"
    found = cw.run(sql, tables)
    # By hand: a tree of two-way joins would need windows on its partial results; count instead.
    rows = {name: list(zip(*table.to_pydict().values(), strict=True)) for name, table in tables.items()}
    partial = [((t,), k) for t, k in rows["A"]]
    for name in names[1:]:
        partial = [
            ((*times, t), k)
            for times, k in partial
            for t, other in rows[name]
            if k == other and max(*times, t) - min(*times, t) < 2
        ]
    assert found.num_rows == len(partial) > 0


def test_probe_orders_follow_the_windows():
    """S matches a third of the tuples, T one in a thousand: R's tuples should come to ask T first."""
    rng = seeds.numbers(1)
    sql = "SELECT R.a FROM R [RANGE 100], S [RANGE 100], T [RANGE 100] WHERE R.a = S.c AND R.b = T.f"
    schema = {n: pa.schema([("ts", pa.int64()), *((c, pa.int64()) for c in cs)]) for n, cs in COLUMNS.items()}
    with cw.open(sql, schema) as join:
        assert join.stats.routes["R"] == "S > T"
        for at in range(0, 900, 10):
            for name, columns in COLUMNS.items():
                values = {c: rng.integers(0, 3 if c in "ac" else 1000, 10) for c in columns}
                join.push(name, {"ts": np.arange(at, at + 10), **values})
        assert join.stats.routes["R"] == "T > S"
        assert join.stats.results > 0
        assert "S" in cw.explain(sql, schema)


def test_a_window_searched_by_two_columns_is_kept_twice():
    schema = {n: pa.schema([("ts", pa.int64()), *((c, pa.int64()) for c in cs)]) for n, cs in COLUMNS.items()}
    sql = "SELECT R.a FROM R [RANGE 100], S [RANGE 100], T [RANGE 100] WHERE R.a = S.c AND S.d = T.e"
    with cw.open(sql, schema) as join:
        for name, columns in COLUMNS.items():
            join.push(name, {"ts": np.arange(50), **{c: np.arange(50) for c in columns}})
        assert join.stats.window_tuples == {"R": 50, "S": 50, "T": 50}
        state = join.snapshot()
    with cw.open(sql, schema, restore=state) as join:
        assert join.stats.window_tuples == {"R": 50, "S": 50, "T": 50}
        assert join.push("R", {"ts": [50], "a": [7], "b": [0]}).num_rows == 1


def test_overflow_is_told_and_nothing_is_taken():
    schema = {n: pa.schema([("ts", pa.int64()), *((c, pa.int64()) for c in cs)]) for n, cs in COLUMNS.items()}
    sql = "SELECT R.a FROM R [NOW], S [NOW], T [NOW] WHERE R.a * S.c = T.e"
    with cw.open(sql, schema) as join:
        join.push("R", {"ts": [1], "a": [2**62], "b": [0]})
        join.push("S", {"ts": [1], "c": [4], "d": [0]})
        with pytest.raises(cw.ArithmeticOverflowError, match=r"R.a \* S.c = T.e left the 64-bit range.*not taken"):
            join.push("T", {"ts": [1], "e": [1], "f": [1]})
        assert join.stats.tuples_in["T"] == 0


def test_a_basic_window_may_match_whole_and_be_longer_than_what_is_handed_on_at_a_time():
    schemas = dict.fromkeys("RST", pa.schema({"x": pa.int64(), "ts": pa.int64()}))
    sql = "SELECT R.x, S.x AS y, T.x AS z FROM R [RANGE 9], S [RANGE 9], T [RANGE 9] WHERE (R.x + S.x * T.x) % 2 = 0"
    many = {"x": list(range(3000)), "ts": [0] * 3000}
    with cw.open(sql, schemas) as join:
        join.push("S", many)
        join.push("T", {"x": [1], "ts": [0]})
        found = join.push("R", {"x": list(range(40)), "ts": [0] * 40})
    assert found.num_rows == 40 * 1500
    assert {(x + y) % 2 for x, y in zip(found["x"].to_pylist(), found["y"].to_pylist(), strict=True)} == {0}
    assert len(set(zip(found["x"].to_pylist(), found["y"].to_pylist(), strict=True))) == found.num_rows


def test_a_window_may_run_empty_while_an_order_is_on_trial():
    rng = np.random.default_rng(1)
    sql = "SELECT R.a FROM R [RANGE 100], S [RANGE 100], T [RANGE 100] WHERE R.a = S.c AND R.b = T.f"
    schema = {n: pa.schema([("ts", pa.int64()), *((c, pa.int64()) for c in cs)]) for n, cs in COLUMNS.items()}
    with cw.open(sql, schema) as join:
        for at in range(0, 900, 10):
            for name, columns in COLUMNS.items():
                values = {c: rng.integers(0, 3 if c in "ac" else 1000, 10) for c in columns}
                join.push(name, {"ts": np.arange(at, at + 10), **values})
            if join.stats.routes["R"] == "T > S":
                break
        assert join.stats.routes["R"] == "T > S"
        for at in (10_000, 20_000, 30_000):
            for name in "TR":
                found = join.push(name, {"ts": [at], **{column: [1] for column in COLUMNS[name]}})
                assert found.num_rows == 0
        assert join.stats.window_tuples["S"] == 0


def test_infinities_among_the_samples_raise_no_warning():
    """Orders are chosen by differences of sampled values; an infinity less another is no number."""
    schema = {n: pa.schema([("ts", pa.int64()), *((c, pa.float64()) for c in cs)]) for n, cs in COLUMNS.items()}
    sql = "SELECT R.a FROM R [RANGE 100], S [RANGE 100], T [RANGE 100] WHERE R.a = S.c AND abs(S.d - T.e) <= 1"
    values = np.resize([np.inf, -np.inf, 1.7e308, -1.7e308, 1.0], 10)
    with cw.open(sql, schema) as join:
        for at in range(0, 900, 10):
            for name, columns in COLUMNS.items():
                join.push(name, {"ts": np.arange(at, at + 10), **dict.fromkeys(columns, values)})
        assert join.stats.results > 0


def test_texts_of_any_length_are_looked_for_on_the_way():
    schema = pa.schema({"s": pa.string(), "ts": pa.int64()})
    sql = "SELECT R.s FROM R [RANGE 9], S [RANGE 9], T [RANGE 9] WHERE R.s = S.s AND S.s = T.s"
    texts = ["", "a", "ä" * 9, "x" * 50_000, "x" * 49_999 + "y"]
    with cw.open(sql, dict.fromkeys("RST", schema)) as join:
        for stream in "RS":
            join.push(stream, {"s": texts, "ts": [1] * len(texts)})
        found = join.push("T", {"s": [*texts, "b"], "ts": [1] * (len(texts) + 1)})
    assert sorted(found["s"].to_pylist()) == sorted(texts)


def test_a_snapshot_of_a_window_that_is_kept_twice_is_restored():
    """S is searched by k, and by x and y: in the copy that a snapshot is made of, the last of its keys comes first."""
    names = ("x", "y", "k")
    schema = pa.schema([*((name, pa.int64()) for name in names), ("note", pa.string()), ("ts", pa.int64())])
    sql = (
        "SELECT R.x AS r, S.x AS x, S.y AS y, S.k AS k, S.note AS note, T.k AS t "
        "FROM R [RANGE 9], S [RANGE 9], T [RANGE 9] WHERE S.x = T.x AND S.y = T.y AND R.k = S.k"
    )
    schemas = dict.fromkeys("RST", schema)

    def one(x: int, y: int, k: int, ts: int) -> pa.Table:
        return pa.table({"x": [x], "y": [y], "k": [k], "note": [f"{x}-{y}-{k}"], "ts": [ts]}, schema=schema)

    with cw.open(sql, schemas) as join:
        for k in range(5):
            join.push("S", one(10 + k, 20 + k, 30 + k, 1))
        state = join.snapshot()
    with cw.open(sql, schemas, restore=state) as join:
        join.push("R", one(1, 1, 33, 2))
        found = join.push("T", one(13, 23, 99, 2)).to_pylist()
    assert found == [{"r": 1, "x": 13, "y": 23, "k": 33, "note": "13-23-33", "t": 99}]
