"""Outer, semi and anti joins: what did not match comes out once, when its window has closed."""

from __future__ import annotations

import pyarrow as pa
import pytest

import crosswind as cw
from tests.cases import OUTER_KINDS, make_case, make_outer_shape
from tests.conftest import EngineConfig
from tests.fuzz import SHAPES_PER_SEED, check
from tests.seeds import SEED

SCHEMAS = {
    "orders": pa.schema([("ts", pa.timestamp("s")), ("id", pa.int64())]),
    "payments": pa.schema([("ts", pa.timestamp("s")), ("order_id", pa.int64())]),
}
UNPAID = """
SELECT orders.id
FROM orders [RANGE 15 MINUTES] LEFT ANTI JOIN payments [NOW] ON payments.order_id = orders.id
"""
DATA_SETS = 4


@pytest.mark.parametrize("number", range(len(OUTER_KINDS)), ids=OUTER_KINDS)
def test_random_outer_joins_are_exact(engine: EngineConfig, number: int):
    shape = make_outer_shape(SHAPES_PER_SEED * SEED + number)
    verdicts = []
    for data_seed in range(DATA_SETS):
        verdicts.append(check(make_case(shape, data_seed), engine).kind)
        if engine.mode == "spark" and "same" in verdicts:
            break  # a job on Spark costs a second
    assert verdicts.count("same") > 0, verdicts
    assert set(verdicts) <= {"same", *({"not in Spark"} if engine.on_spark else {"overflow"})}


def minutes(count: int) -> int:
    return 60 * count


def test_an_unpaid_order_comes_out_when_its_window_has_closed():
    with cw.open(UNPAID, SCHEMAS) as join:
        assert join.push("orders", {"ts": [minutes(0), minutes(1)], "id": [1, 2]}).num_rows == 0
        assert join.push("payments", {"ts": [minutes(5)], "order_id": [2]}).num_rows == 0
        assert join.advance("payments", minutes_as_time(14, 59)).num_rows == 0
        late = join.advance("payments", minutes_as_time(15))
        assert late.to_pydict() == {"id": [1]}
        assert join.finish().num_rows == 0


def minutes_as_time(count: int, seconds: int = 0) -> pa.Scalar:
    return pa.scalar(minutes(count) + seconds, pa.int64()).cast(pa.timestamp("s"))


@pytest.mark.parametrize("moment", range(4))
def test_exactly_once_across_a_restart(moment: int):
    steps = [
        lambda join: join.push("orders", {"ts": [minutes(0), minutes(1), minutes(2)], "id": [1, 2, 3]}),
        lambda join: join.push("payments", {"ts": [minutes(5)], "order_id": [2]}),
        lambda join: join.advance("payments", minutes_as_time(16)),
        lambda join: join.push("payments", {"ts": [minutes(17)], "order_id": [3]}),
    ]
    join = cw.open(UNPAID, SCHEMAS)
    found = []
    for number, step in enumerate(steps):
        if number == moment:
            state = join.snapshot()
            join.close()
            join = cw.open(UNPAID, SCHEMAS, restore=state)
        found += step(join)["id"].to_pylist()
    found += join.finish()["id"].to_pylist()
    assert sorted(found) == [1, 3]


def test_a_failed_push_leaves_no_trace():
    schemas = {
        "R": pa.schema([("ts", pa.int64()), ("x", pa.int64())]),
        "S": pa.schema([("ts", pa.int64()), ("a", pa.int64())]),
    }
    sql = "SELECT R.x, S.a FROM R [RANGE 9] LEFT JOIN S [RANGE 9] ON R.x * S.a = 12"
    with cw.open(sql, schemas) as join:
        join.push("R", {"ts": [1, 2], "x": [3, 2**62]})
        with pytest.raises(cw.ArithmeticOverflowError):
            join.push("S", {"ts": [3, 3], "a": [4, 4]})
        good = join.push("S", {"ts": [3], "a": [0]})
        assert good.num_rows == 0
        assert sorted(join.finish().to_pylist(), key=str) == [{"x": 3, "a": None}, {"x": 2**62, "a": None}]


def test_time_order_with_what_did_not_match():
    schemas = {"R": pa.schema([("ts", pa.int64())]), "S": pa.schema([("ts", pa.int64())])}
    sql = "SELECT R.ts AS r, S.ts AS s FROM R [RANGE 3] FULL JOIN S [RANGE 3] ON R.ts % 3 = S.ts % 5"
    parts = []
    with cw.open(sql, schemas, ordered=True) as join:
        for at in range(0, 40, 4):
            parts.append(join.push("R", {"ts": list(range(at, at + 4))}))
            parts.append(join.push("S", {"ts": list(range(at, at + 4))}))
        parts.append(join.finish())
    rows = pa.concat_tables(parts).to_pylist()
    # A result has the time of its last member; one alone that of the moment its window closed.
    times = [
        max(r["r"], r["s"]) if None not in r.values() else max(v for v in r.values() if v is not None) + 3 for r in rows
    ]
    assert times == sorted(times)
    assert any(row["r"] is None for row in rows)
    assert any(row["s"] is None for row in rows)


def test_tuples_of_both_streams_of_a_full_join_come_out():
    sql = (
        "SELECT orders.id, payments.order_id FROM orders [RANGE 15 MINUTES] "
        "FULL JOIN payments [RANGE 15 MINUTES] ON payments.order_id = orders.id"
    )
    with cw.open(sql, SCHEMAS) as join:
        join.push("orders", {"ts": [minutes(0), minutes(1)], "id": [1, 2]})
        met = join.push("payments", {"ts": [minutes(0), minutes(1)], "order_id": [2, 3]})
        alone = join.finish()
    assert met.to_pylist() == [{"id": 2, "order_id": 2}]
    rows = sorted(alone.to_pylist(), key=str)
    assert rows == [{"id": 1, "order_id": None}, {"id": None, "order_id": 3}]


def test_state_is_let_go():
    with cw.open(UNPAID, SCHEMAS, basic_window=64) as join:
        held = []
        for minute in range(0, 4000, 4):
            join.push("orders", {"ts": [minutes(minute)], "id": [minute]})
            join.push("payments", {"ts": [minutes(minute)], "order_id": [minute]})
            held.append(join.stats.bytes_held)
        assert max(held[500:]) <= 2 * max(held[:500])


def test_in_time_order_only_what_where_lets_through():
    schema = pa.schema([("ts", pa.int64()), ("x", pa.int64())])
    sql = "SELECT R.x AS a, S.x AS b FROM R [RANGE 5] LEFT JOIN S [RANGE 5] ON R.x <= S.x WHERE R.x <> 2 AND R.x <> 7"
    with cw.open(sql, {"R": schema, "S": schema}, ordered=True) as join:
        parts = [
            join.push("R", {"ts": [1, 2, 3], "x": [1, 2, 3]}),
            join.push("S", {"ts": [1, 2, 3], "x": [1, 2, 3]}),
            join.push("R", {"ts": [9, 10, 11], "x": [7, 8, 9]}),
            join.push("S", {"ts": [19], "x": [9]}),
            join.finish(),
        ]
    found = pa.concat_tables(parts).to_pylist()
    assert [(row["a"], row["b"]) for row in found] == [(1, 1), (1, 2), (1, 3), (3, 3), (8, None), (9, None)]


def test_matched_tuples_of_one_push_do_not_come_out_alone():
    schema = pa.schema([("ts", pa.int64()), ("x", pa.int64())])
    sql = "SELECT R.x FROM R [RANGE 9] LEFT ANTI JOIN S [RANGE 9] ON R.x = S.x"
    with cw.open(sql, {"R": schema, "S": schema}, lateness=9) as join:
        join.push("R", {"ts": [1, 1, 1, 2], "x": [1, 2, 3, 4]})
        join.push("S", {"ts": [2, 2, 2], "x": [3, 1, 4]})
        assert join.finish().to_pydict() == {"x": [2]}
