"""SEMANTICS.md, sentence by sentence, on every engine.

Most tests share one query shape (the cross join of R(x, ts) and S(a, ts)): what differs is
windows and data, so that few kernels have to be compiled.
"""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal

import pyarrow as pa
import pytest

import crosswind as cw
from tests.conftest import EngineConfig

R_SCHEMA = pa.schema([("x", pa.int64()), ("ts", pa.int64())])
S_SCHEMA = pa.schema([("a", pa.int64()), ("ts", pa.int64())])
SCHEMAS = {"R": R_SCHEMA, "S": S_SCHEMA}
BASIC_WINDOW_MAX = 4096
"""Expired tuples of the oldest basic window may stay; no engine's basic window is larger."""
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1

pytestmark = pytest.mark.filterwarnings("error")


def cross(r_window: str, s_window: str) -> str:
    return f"SELECT R.x, S.a FROM R [{r_window}], S [{s_window}]"


def r(*tuples: tuple[int, int | None]) -> pa.Table:
    return pa.Table.from_pylist([{"x": x, "ts": ts} for x, ts in tuples], R_SCHEMA)


def s(*tuples: tuple[int, int | None]) -> pa.Table:
    return pa.Table.from_pylist([{"a": a, "ts": ts} for a, ts in tuples], S_SCHEMA)


def pairs(table: pa.Table) -> list[tuple]:
    return sorted(zip(*(column.to_pylist() for column in table.columns), strict=True))


def column(engine: EngineConfig, where: str, x: pa.Array, a: pa.Array) -> list[tuple[int, int]]:
    """Return which (row of x, row of a) join under ``where`` over R.x and S.a, all at one time."""
    tables = {
        "R": pa.table({"i": pa.array(range(len(x)), pa.int32()), "x": x, "ts": pa.array([1] * len(x), pa.int64())}),
        "S": pa.table({"j": pa.array(range(len(a)), pa.int32()), "a": a, "ts": pa.array([1] * len(a), pa.int64())}),
    }
    return pairs(engine.rows(f"SELECT R.i, S.j FROM R [RANGE 5], S [RANGE 5] WHERE {where}", tables))


# ---------------------------------------------------------------------------------- windows


def test_the_end_of_a_range_is_exclusive(engine):
    tables = {"R": r((1, 0)), "S": s((8, 9), (9, 10))}
    assert pairs(engine.rows(cross("RANGE 10", "RANGE 1"), tables)) == [(1, 8)]


def test_the_end_of_an_inclusive_range_is_inclusive(engine):
    tables = {"R": r((1, 0)), "S": s((8, 9), (9, 10), (10, 11))}
    assert pairs(engine.rows(cross("RANGE 10 INCLUSIVE", "RANGE 1"), tables)) == [(1, 8), (1, 9)]


def test_each_stream_has_its_own_range(engine):
    tables = {"R": r((1, 0), (2, 20)), "S": s((8, 5), (9, 17))}
    assert pairs(engine.rows(cross("RANGE 6", "RANGE 3"), tables)) == [(1, 8)]
    assert pairs(engine.rows(cross("RANGE 3", "RANGE 6"), tables)) == [(2, 9)]


def test_now_is_the_same_time_only(engine):
    tables = {"R": r((1, 4), (2, 5), (3, 6)), "S": s((9, 5))}
    assert pairs(engine.rows(cross("NOW", "NOW"), tables)) == [(2, 9)]


def test_on_equal_time_only_the_window_of_the_first_stream_counts(engine):
    # S comes after both R tuples of its time: R's ROWS 1 holds the second; S's window never counts.
    tables = {"R": r((1, 5), (2, 5)), "S": s((9, 5))}
    assert pairs(engine.rows(cross("ROWS 1", "RANGE 100"), tables)) == [(2, 9)]
    swapped = "SELECT R.x, S.a FROM S [ROWS 1], R [ROWS 1]"
    assert pairs(engine.rows(swapped, tables)) == [(1, 9), (2, 9)]


def test_rows_holds_the_last_tuples_in_the_order(engine):
    tables = {"R": r((1, 1), (2, 2), (3, 3)), "S": s((8, 2), (9, 4))}
    assert pairs(engine.rows(cross("ROWS 2", "ROWS 1"), tables)) == [(1, 8), (2, 8), (2, 9), (3, 8), (3, 9)]
    assert pairs(engine.rows(cross("ROWS 1", "ROWS 1"), tables)) == [(2, 8), (3, 8), (3, 9)]


def test_rows_counts_by_time_and_then_by_arrival(engine):
    tables = {"R": r((3, 3), (1, 1), (20, 2), (21, 2)), "S": s((9, 4))}
    assert pairs(engine.rows(cross("ROWS 2", "ROWS 1"), tables)) == [(3, 9), (21, 9)]


def test_kinds_of_windows_can_be_mixed(engine):
    tables = {"R": r((1, 0), (2, 10)), "S": s((7, 1), (8, 2), (9, 12))}
    # 9 finds R tuples younger than 5; the R tuple of time 10 finds the last S tuple before it.
    assert pairs(engine.rows(cross("RANGE 5", "ROWS 1"), tables)) == [(1, 7), (1, 8), (2, 8), (2, 9)]


def test_a_tuple_of_a_self_join_meets_itself(engine):
    sql = "SELECT p.x AS px, q.x AS qx FROM R [RANGE 2] AS p, R [RANGE 2] AS q WHERE p.x >= q.x"
    assert pairs(engine.rows(sql, {"R": r((1, 1), (2, 2), (3, 3))})) == [(1, 1), (2, 1), (2, 2), (3, 2), (3, 3)]


def test_the_result_of_range_windows_does_not_depend_on_arrival(engine):
    tuples = [(k, (k * 7) % 23) for k in range(30)]
    others = [(k, (k * 5) % 19) for k in range(30)]
    sql = cross("RANGE 4", "RANGE 7 INCLUSIVE")
    by_time = engine.rows(sql, {"R": r(*sorted(tuples, key=lambda t: t[1])), "S": s(*others)})
    mixed = engine.rows(sql, {"R": r(*tuples), "S": s(*reversed(others))})
    assert pairs(by_time) == pairs(mixed)
    assert by_time.num_rows > 0


def test_extreme_times_do_not_wrap(engine):
    tables = {"R": r((1, INT64_MIN), (2, INT64_MAX)), "S": s((8, INT64_MIN), (9, INT64_MAX))}
    assert pairs(engine.rows(cross("RANGE 10", "RANGE 10"), tables)) == [(1, 8), (2, 9)]
    assert pairs(engine.rows(cross("ROWS 1", "NOW"), tables)) == [(1, 8), (2, 9)]


def test_an_empty_stream_joins_nothing(engine):
    assert engine.rows(cross("RANGE 10", "ROWS 3"), {"R": r((1, 1)), "S": s()}).num_rows == 0


def test_times_of_different_units_are_compared_exactly(engine):
    tables = {
        "R": pa.table({"x": pa.array([1], pa.int64()), "ts": pa.array([1], pa.timestamp("s"))}),
        "S": pa.table(
            {"a": pa.array([7, 8], pa.int64()), "ts": pa.array([2_499_999_999, 2_500_000_000], pa.timestamp("ns"))}
        ),
    }
    assert pairs(engine.rows(cross("RANGE 1500 MILLISECONDS", "NOW"), tables)) == [(1, 7)]
    assert pairs(engine.rows(cross("RANGE 1.5 SECONDS INCLUSIVE", "NOW"), tables)) == [(1, 7), (1, 8)]


def test_dates_are_times(engine):
    days = [dt.date(2024, 2, 28), dt.date(2024, 2, 29), dt.date(2024, 3, 1)]
    tables = {
        "R": pa.table({"x": pa.array([1, 2, 3], pa.int64()), "ts": days}),
        "S": pa.table({"a": pa.array([9], pa.int64()), "ts": days[2:]}),
    }
    assert pairs(engine.rows(cross("RANGE 2 DAYS", "NOW"), tables)) == [(2, 9), (3, 9)]
    assert pairs(engine.rows(cross("RANGE 49 HOURS", "NOW"), tables)) == [(1, 9), (2, 9), (3, 9)]


@pytest.mark.parametrize(
    ("sql", "schemas", "told"),
    [
        (cross("RANGE 0", "RANGE 1"), SCHEMAS, r"\[NOW\]"),
        (cross("RANGE 5 SECONDS", "RANGE 1"), SCHEMAS, "(?i)integer"),
        (cross("ROWS 0", "RANGE 1"), SCHEMAS, "at least 1"),
        ("SELECT R.y, S.a FROM R [NOW], S [NOW]", SCHEMAS, "y"),
        ("SELECT R.x, S.a FROM R [NOW], T [NOW]", SCHEMAS, "T"),
        ("SELECT R.x FROM R [NOW], S [NOW] WHERE R.x = 'a'", SCHEMAS, "R.x"),
    ],
)
def test_wrong_queries_are_refused_with_a_reason(sql, schemas, told):
    with pytest.raises(cw.QueryError, match=told):
        cw.open(sql, schemas)


def test_a_range_without_unit_needs_an_integer_time():
    schema = pa.schema([("x", pa.int64()), ("ts", pa.timestamp("us"))])
    with pytest.raises(cw.QueryError, match=r"(?i)unit"):
        cw.open("SELECT p.x FROM R [RANGE 5] AS p, R [RANGE 5] AS q", {"R": schema})


# ---------------------------------------------------------------------------------- results


def test_select_star_names_every_column(engine):
    table = engine.rows("SELECT * FROM R [NOW], S [NOW]", {"R": r((1, 5)), "S": s((9, 5))})
    assert table.column_names == ["R_x", "R_ts", "S_a", "S_ts"]
    assert table.to_pylist() == [{"R_x": 1, "R_ts": 5, "S_a": 9, "S_ts": 5}]


def test_columns_keep_their_types_and_values(engine):
    if engine.on_spark:
        pytest.skip("Spark has neither uint64 nor nanoseconds; its own types: tests/spark/test_types.py")
    columns = {
        "i8": pa.array([1, None], pa.int8()),
        "u64": pa.array([2**64 - 1, None], pa.uint64()),
        "f32": pa.array([math.inf, None], pa.float32()),
        "flag": pa.array([True, None]),
        "text": pa.array(["ä\0b", None]),
        "big": pa.array([Decimal("12345678901234567890.123"), None], pa.decimal128(38, 3)),
        "at": pa.array([1, None], pa.timestamp("ns", "Europe/Rome")),
        "items": pa.array([[1, None], None], pa.list_(pa.int32())),
        "inner": pa.array([{"u": 1.5}, None], pa.struct([("u", pa.float64())])),
        "ts": pa.array([1, 1], pa.int64()),
    }
    table = pa.table(columns)
    result = engine.rows("SELECT * FROM R [NOW], S [NOW]", {"R": table, "S": s((9, 1))})
    result = result.select(result.column_names[:-2]).rename_columns(table.column_names)
    assert result.schema.types == table.schema.types
    assert sorted(result.to_pylist(), key=lambda row: row["flag"] is None) == table.to_pylist()


def test_every_kind_of_batch_is_taken(live):
    import pandas as pd
    import polars as pl

    shapes = [
        r((1, 1)),
        r((2, 1)).to_batches()[0],
        pd.DataFrame({"x": [3], "ts": [1]}),
        pl.DataFrame({"x": [4], "ts": [1]}),
        {"x": [5], "ts": [1]},
    ]
    with live.open(cross("RANGE 5", "RANGE 5"), SCHEMAS) as join:
        for batch in shapes:
            join.push("R", batch)
        assert pairs(join.push("S", s((9, 1)))) == [(x, 9) for x in (1, 2, 3, 4, 5)]


# ---------------------------------------------------------------------------------- predicates


def test_logic_has_three_values(engine):
    x, a = pa.array([1, None, 3], pa.int64()), pa.array([1, None], pa.int64())
    assert column(engine, "R.x = S.a", x, a) == [(0, 0)]
    assert column(engine, "NOT (R.x = S.a)", x, a) == [(2, 0)]
    assert column(engine, "R.x = S.a OR R.x >= 3", x, a) == [(0, 0), (2, 0), (2, 1)]
    assert column(engine, "(R.x = S.a) IS NULL", x, a) == [(0, 1), (1, 0), (1, 1), (2, 1)]
    assert column(engine, "R.x IS NOT DISTINCT FROM S.a", x, a) == [(0, 0), (1, 1)]
    assert column(engine, "R.x NOT IN (1, S.a)", x, a) == [(2, 0)]
    assert column(engine, "R.x NOT IN (1, NULL)", x, a) == []


def test_nan_equals_itself_and_is_greatest(engine):
    x, a = pa.array([math.nan, 1.0, -0.0, None]), pa.array([math.nan, math.inf, 0.0])
    assert column(engine, "R.x = S.a", x, a) == [(0, 0), (2, 2)]
    assert column(engine, "R.x > S.a", x, a) == [(0, 1), (0, 2), (1, 2)]
    assert column(engine, "R.x BETWEEN S.a - 1 AND S.a + 1", x, a) == [(0, 0), (1, 2), (2, 2)]


def test_nan_that_arises_in_a_computation_is_greatest_too(engine):
    x, a = pa.array([-4.0, 4.0]), pa.array([3.0, -1.0])  # no NaN comes in
    assert column(engine, "sqrt(R.x) > 5", x, a) == [(0, 0), (0, 1)]
    assert column(engine, "sqrt(R.x) > S.a", x, a) == [(0, 0), (0, 1), (1, 1)]
    assert column(engine, "sqrt(R.x + S.a) > 1.5e0", x, a) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert column(engine, "R.x = 4 AND S.a = 3 OR acos(R.x) >= 1e0", x, a) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    huge = pa.array([math.inf])
    assert column(engine, "R.x - S.a > 1e300", huge, huge) == [(0, 0)]


def test_integers_are_compared_exactly(engine):
    x, a = pa.array([2**53 + 1, INT64_MAX], pa.int64()), pa.array([2**53, INT64_MAX], pa.int64())
    assert column(engine, "R.x = S.a", x, a) == [(1, 1)]
    assert column(engine, "R.x > S.a", x, a) == [(0, 0), (1, 0)]


def test_small_integers_do_not_wrap(engine):
    x, a = pa.array([127, -128], pa.int8()), pa.array([127, -128], pa.int8())
    assert column(engine, "abs(R.x - S.a) <= 10", x, a) == [(0, 0), (1, 1)]
    assert column(engine, "R.x + S.a > 250", x, a) == [(0, 0)]


def test_integers_with_floats_are_compared_as_doubles(engine):
    x = pa.array([1, 2**53 + 1], pa.int64())
    assert column(engine, "R.x = S.a", x, pa.array([1.0, 2.0**53])) == [(0, 0), (1, 1)]
    assert column(engine, "R.x = S.a", pa.array([16777217], pa.int32()), pa.array([16777216.0], pa.float32())) == []


def test_division_by_zero_is_null(engine):
    x, a = pa.array([6, 7], pa.int64()), pa.array([0, 2], pa.int64())
    assert column(engine, "R.x / S.a = 3.5e0", x, a) == [(1, 1)]
    assert column(engine, "R.x % S.a IS NULL", x, a) == [(0, 0), (1, 0)]


def test_texts_are_compared_by_bytes(engine):
    x, a = pa.array(["", "a", "a\0", "Z", "é"]), pa.array(["a", "z"])
    assert column(engine, "R.x = S.a", x, a) == [(1, 0)]
    assert column(engine, "R.x > S.a", x, a) == [(2, 0), (4, 0), (4, 1)]


OVERFLOW = "SELECT R.x, S.a FROM R [RANGE 5], S [RANGE 5] WHERE (R.x + S.a) * 1 > 0"


def test_overflow_is_an_error(engine):
    with pytest.raises(cw.ArithmeticOverflowError, match="64"):
        engine.rows(OVERFLOW, {"R": r((INT64_MAX, 1)), "S": s((1, 1))})


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("R.x + S.a > 9223372036854775807", [(INT64_MAX, 7)]),
        ("R.x + S.a <= 9223372036854775807", [(-7, 7), (INT64_MIN, 7)]),
        ("R.x - S.a < -9223372036854775807", [(INT64_MIN, 7)]),
        ("R.x BETWEEN S.a - 10 AND S.a + 10", []),
        ("abs(R.x - S.a) >= 14", [(-7, 7), (INT64_MAX, 7), (INT64_MIN, 7)]),
        ("abs(R.x - S.a) <= 14", [(-7, 7)]),
    ],
)
def test_sums_beyond_64_bits_are_compared_exactly(engine, condition, expected):
    sql = f"SELECT R.x, S.a FROM R [RANGE 5], S [RANGE 5] WHERE {condition}"
    tables = {"R": r((INT64_MAX, 1), (-7, 1), (INT64_MIN, 1)), "S": s((7, 1))}
    try:
        assert pairs(engine.rows(sql, tables)) == sorted(expected)
    except cw.ArithmeticOverflowError:
        assert ">= 14" in condition  # not an interval: computed pair by pair, in checked 64 bits


def test_a_join_is_unchanged_after_an_overflow(live):
    with live.open(OVERFLOW, SCHEMAS, lateness=10) as join:
        join.push("R", r((INT64_MAX - 5, 1), (1, 2)))
        before = join.stats
        with pytest.raises(cw.ArithmeticOverflowError):
            join.push("S", s((3, 2), (6, 2)))
        assert join.stats.tuples_in == before.tuples_in
        assert join.stats.window_tuples == before.window_tuples
        assert join.stats.results == before.results == 0
        assert pairs(join.push("S", s((3, 2), (5, 2)))) == [(1, 3), (1, 5), (INT64_MAX - 5, 3), (INT64_MAX - 5, 5)]


# ---------------------------------------------------------------------------------- time and lateness


def test_tuples_without_time_are_rejected_and_counted(live):
    with live.open(cross("RANGE 5", "RANGE 5"), SCHEMAS) as join:
        with pytest.warns(cw.NullTimeWarning, match="R"):
            join.push("R", r((1, 1), (2, None), (3, None)))
        assert join.stats.rejected == {"R": 2, "S": 0}
        assert pairs(join.push("S", s((9, 1)))) == [(1, 9)]


def test_late_tuples_are_dropped_and_counted(live):
    with live.open(cross("RANGE 50", "RANGE 50"), SCHEMAS, lateness=2) as join:
        join.push("R", r((1, 10)))
        with pytest.warns(cw.LateTupleWarning, match="R"):
            join.push("R", r((2, 7), (3, 8)))
        assert join.stats.late == {"R": 1, "S": 0}
        assert pairs(join.push("S", s((9, 10)))) == [(1, 9), (3, 9)]


def test_lateness_is_judged_as_the_watermark_stood_before_the_batch(live):
    with live.open(cross("RANGE 50", "RANGE 50"), SCHEMAS) as join:
        join.push("R", r((1, 20), (2, 5), (3, 1)))
        join.push("R", r((4, 30), (5, 20), (6, 25)))
        assert join.stats.late == {"R": 0, "S": 0}
        with pytest.warns(cw.LateTupleWarning):
            join.push("R", r((7, 40), (8, 29)))
        assert join.stats.late == {"R": 1, "S": 0}
        assert pairs(join.push("S", s((9, 40)))) == [(x, 9) for x in (1, 2, 3, 4, 5, 6, 7)]


def test_each_stream_has_its_own_watermark(live):
    with live.open(cross("RANGE 5", "RANGE 5"), SCHEMAS) as join:
        join.push("R", r((1, 10), (2, 1000)))
        assert pairs(join.push("S", s((8, 12)))) == [(1, 8)]
        assert join.stats.late == {"R": 0, "S": 0}


def test_state_is_released_when_the_other_stream_has_passed(live):
    with live.open(cross("RANGE 10", "RANGE 10"), SCHEMAS) as join:
        for start in range(0, 20_000, 1000):
            join.push("R", r(*((k, k) for k in range(start, start + 1000))))
        assert join.stats.window_tuples["R"] == 20_000
        held = join.stats.bytes_held
        assert pairs(join.push("S", s((1, 19_995)))) == [(k, 1) for k in range(19_986, 20_000)]
        assert join.stats.window_tuples["R"] <= BASIC_WINDOW_MAX
        assert 0 < join.stats.bytes_held < held


def test_advance_stands_in_for_tuples_of_an_idle_stream(live):
    with live.open(cross("RANGE 10", "RANGE 10"), SCHEMAS) as join:
        join.push("R", r(*((k, k) for k in range(100))))
        join.advance("S", 1000)
        assert join.stats.window_tuples["R"] == 0
        with pytest.warns(cw.LateTupleWarning):
            assert join.push("S", s((1, 99))).num_rows == 0
        assert join.stats.late == {"R": 0, "S": 1}


def test_state_stays_bounded_over_a_long_run(live):
    with live.open(cross("RANGE 10", "ROWS 5"), SCHEMAS) as join:
        for start in range(0, 20_000, 500):
            join.push("R", r(*((t, t) for t in range(start, start + 500))))
            join.push("S", s(*((t, t) for t in range(start, start + 500))))
        assert join.stats.window_tuples["R"] <= BASIC_WINDOW_MAX + 500
        assert join.stats.window_tuples["S"] <= BASIC_WINDOW_MAX + 500


def test_a_range_result_comes_with_the_push_that_completes_it(live):
    with live.open(cross("RANGE 10", "RANGE 10"), SCHEMAS, lateness=100) as join:
        assert join.push("R", r((1, 5))).num_rows == 0
        assert pairs(join.push("S", s((8, 9)))) == [(1, 8)]
        assert pairs(join.push("S", s((9, 1)))) == [(1, 9)]
        assert join.finish().num_rows == 0


def test_rows_results_wait_for_the_watermark_when_input_may_be_late(live):
    with live.open(cross("ROWS 1", "ROWS 1"), SCHEMAS, lateness=5) as join:
        parts = [join.push("R", r((1, 1))), join.push("S", s((9, 4)))]
        parts.append(join.push("R", r((2, 3))))  # comes late, and takes the place of 1 in the window
        parts.append(join.push("R", r((3, 20))))
        parts.append(join.push("S", s((10, 20))))
        parts.append(join.finish())
        # 9 at time 4 finds 2; 3 at time 20 finds 9; 10 at time 20 finds 3.
        assert pairs(pa.concat_tables(parts)) == [(2, 9), (3, 9), (3, 10)]


def test_every_result_comes_exactly_once(live):
    sql = cross("RANGE 3", "ROWS 4")
    tables = {"R": r(*((k, k // 3) for k in range(60))), "S": s(*((k, k // 2) for k in range(40)))}
    at_once = pairs(cw.run(sql, tables, **live.options))
    assert len(at_once) == len(set(at_once))
    with live.open(sql, SCHEMAS) as join:
        parts = []
        for k in range(0, 60, 3):
            parts += [join.push("R", tables["R"].slice(k, 3)), join.push("S", tables["S"].slice(k // 3 * 2, 2))]
        parts.append(join.finish())
        assert pairs(pa.concat_tables(parts)) == at_once
        assert join.stats.results == len(at_once)
        assert join.stats.tuples_in == {"R": 60, "S": 40}


def test_ordered_output_is_in_time_order_and_complete(live):
    sql = "SELECT R.ts AS tr, S.ts AS tq FROM R [RANGE 6], S [RANGE 6]"
    tables = {"R": r(*((k, (k * 7) % 40) for k in range(40))), "S": s(*((k, (k * 11) % 40) for k in range(40)))}
    expected = pairs(cw.run(sql, tables, **live.options))
    with live.open(sql, SCHEMAS, lateness=40, ordered=True) as join:
        parts = []
        for k in range(0, 40, 4):
            parts += [join.push("R", tables["R"].slice(k, 4)), join.push("S", tables["S"].slice(k, 4))]
        parts.append(join.finish())
    result = pa.concat_tables(parts)
    times = [max(row) for row in zip(*(c.to_pylist() for c in result.columns), strict=True)]
    assert times == sorted(times)
    assert pairs(result) == expected


# ---------------------------------------------------------------------------------- the life of a join


def test_a_closed_join_takes_no_more_input(live):
    join = live.open(cross("NOW", "NOW"), SCHEMAS)
    join.finish()
    with pytest.raises(cw.ClosedJoinError):
        join.push("R", r((1, 1)))
    with live.open(cross("NOW", "NOW"), SCHEMAS) as join:
        pass
    with pytest.raises(cw.ClosedJoinError):
        join.advance("R", 5)


@pytest.mark.parametrize(
    "batch",
    [
        pa.table({"x": pa.array(["a"]), "ts": pa.array([1], pa.int64())}),
        pa.table({"x": pa.array([1], pa.int64())}),
        pa.table({"y": pa.array([1], pa.int64()), "ts": pa.array([1], pa.int64())}),
    ],
    ids=["wrong type", "no time", "wrong name"],
)
def test_a_batch_of_another_schema_is_refused(live, batch):
    with live.open(cross("RANGE 5", "RANGE 5"), SCHEMAS) as join:
        with pytest.raises(cw.InputError, match=r"x|ts"):
            join.push("R", batch)
        join.push("R", r((1, 1)))
        assert pairs(join.push("S", s((9, 1)))) == [(1, 9)]


def test_an_unknown_stream_is_refused(live):
    with (
        live.open(cross("RANGE 5", "RANGE 5"), SCHEMAS) as join,
        pytest.raises(cw.InputError, match=r"'?Q'?"),
    ):
        join.push("Q", r((1, 1)))


def test_a_snapshot_goes_on_where_it_was_taken(live):
    sql = cross("RANGE 10", "ROWS 2")
    with live.open(sql, SCHEMAS, lateness=3) as join:
        first = join.push("R", r((1, 10), (2, 12)))
        snapshot = join.snapshot()
        rest = [join.push("S", s((8, 11), (9, 13))), join.finish()]
    with live.open(sql, SCHEMAS, lateness=3, restore=snapshot) as again:
        same = [again.push("S", s((8, 11), (9, 13))), again.finish()]
        assert again.stats.tuples_in == {"R": 2, "S": 2}
    assert first.num_rows == 0
    assert pairs(pa.concat_tables(rest)) == pairs(pa.concat_tables(same)) == [(1, 8), (1, 9), (2, 8), (2, 9)]


def test_a_snapshot_of_another_query_is_refused(live):
    with live.open(cross("RANGE 10", "ROWS 2"), SCHEMAS) as join:
        snapshot = join.snapshot()
    with pytest.raises(cw.SnapshotError):
        live.open(cross("RANGE 10", "ROWS 3"), SCHEMAS, restore=snapshot)


def test_abs_against_nan_holds(engine):
    sql = "SELECT R.x, S.a FROM R [RANGE 5], S [RANGE 5] WHERE abs(R.x) <= S.a"
    tables = {
        "R": pa.table({"x": pa.array([1.0, -5.0, float("nan")]), "ts": pa.array([1, 1, 1])}),
        "S": pa.table({"a": pa.array([float("nan"), 2.0]), "ts": pa.array([1, 1])}),
    }
    found = sorted(str((row["x"], row["a"])) for row in engine.rows(sql, tables).to_pylist())
    assert found == ["(-5.0, nan)", "(1.0, 2.0)", "(1.0, nan)", "(nan, nan)"]


def test_zeros_and_nans_are_found_by_hash(engine):
    sql = "SELECT R.x, S.a FROM R [RANGE 5], S [RANGE 5] WHERE R.x = S.a"
    values = [0.0, -0.0, float("nan"), 1.0, float("inf"), float("-inf")]
    table = pa.table({"x": pa.array(values * 4), "ts": pa.array([1] * 24)})
    other = pa.table({"a": pa.array(values), "ts": pa.array([1] * 6)})
    assert engine.rows(sql, {"R": table, "S": other}).num_rows == 4 * (2 * 2 + 4)
