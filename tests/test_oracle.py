"""The oracle itself: hand-computed examples, and a replay in plain Python for windows."""

from __future__ import annotations

import contextlib
import itertools
import math
from decimal import Decimal
from fractions import Fraction

import pyarrow as pa
import pytest

from tests import seeds
from tests.cases import make_case, make_shape
from tests.expressions import F32, F64, INT, TEXT, Arith, Between, Case, Col, Compare, Func, In, Is, Logic, Type, lit
from tests.expressions import interval as span
from tests.oracle import (
    NAN,
    Advance,
    Join,
    OracleOverflowError,
    Output,
    Role,
    Window,
    assert_same,
    difference,
    expected_rows,
    late_rows,
    matches,
    rows_of,
    ticks,
)

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1


def times(*values: int | None, kind: pa.DataType | None = None) -> pa.Table:
    return pa.table({"ts": pa.array(values, pa.int64()).cast(kind or pa.int64())})


def within(length: Fraction | int, inclusive: bool = False) -> Window:
    return Window("range", Fraction(length), inclusive)


def rows(count: int) -> Window:
    return Window("rows", count=count)


def pairs(r: pa.Table, r_window: Window, s: pa.Table, s_window: Window) -> set[tuple[int, ...]]:
    roles = (Role("R", "R", r_window), Role("S", "S", s_window))
    found = matches(Join(roles, {"R": r, "S": s}, None, ()))
    assert len(found) == len(set(found))
    return set(found)


# ---------------------------------------------------------------------------------- windows by hand


def test_range_end_is_exclusive_unless_inclusive():
    r, s = times(0), times(9, 10, 11)
    assert pairs(r, within(10), s, within(1)) == {(0, 0)}
    assert pairs(r, within(10, inclusive=True), s, within(1)) == {(0, 0), (0, 1)}


def test_each_stream_has_its_own_range():
    assert pairs(times(5), within(1), times(0), within(10)) == {(0, 0)}
    assert pairs(times(5), within(10), times(0), within(1)) == set()


def test_on_equal_time_the_window_of_the_first_stream_counts():
    now = Window("now")
    assert pairs(times(5), now, times(5), rows(1)) == {(0, 0)}
    assert pairs(times(4), now, times(5), within(9)) == set()
    # Both R tuples are before S's: ROWS 1 keeps the second alone. S's window never counts.
    assert pairs(times(5, 5), rows(1), times(5), rows(1)) == {(1, 0)}
    # The S tuple comes after both R tuples, so it is in no window when they arrive.
    assert pairs(times(5, 5), rows(2), times(5), within(100)) == {(0, 0), (1, 0)}


def test_rows_counts_in_the_order_not_in_arrival():
    assert pairs(times(3, 1, 2), rows(2), times(4), rows(1)) == {(0, 0), (2, 0)}
    assert pairs(times(1, 1, 1), rows(2), times(4), rows(1)) == {(1, 0), (2, 0)}


def test_units_of_time_are_compared_exactly():
    r = times(1, kind=pa.timestamp("s"))
    s = times(1_999_999_999, 2_500_000_000, 2_500_000_001, kind=pa.timestamp("ns"))
    assert pairs(r, within(Fraction(3, 2)), s, within(1)) == {(0, 0)}
    assert pairs(r, within(Fraction(3, 2), inclusive=True), s, within(1)) == {(0, 0), (0, 1)}
    days = times(0, 1, 2, kind=pa.int32())
    days = pa.table({"ts": days["ts"].cast(pa.date32())})
    assert pairs(days.slice(0, 1), within(86_400 * 3 // 2), days, within(1)) == {(0, 0), (0, 1)}


def test_extreme_times_do_not_wrap():
    far = times(INT64_MIN, INT64_MAX)
    assert pairs(far, within(10), far, within(10)) == {(0, 0), (1, 1)}
    assert pairs(far, within(INT64_MAX), far, within(10)) == {(0, 0), (1, 1)}


def test_self_join_meets_itself():
    table = times(1, 2)
    roles = (Role("R", "a", within(5)), Role("R", "b", within(5)))
    found = matches(Join(roles, {"R": table}, None, ()))
    assert set(found) == {(0, 0), (0, 1), (1, 0), (1, 1)}


def test_null_times_and_dropped_rows_take_no_part():
    roles = (Role("R", "R", within(100)), Role("S", "S", within(100)))
    join = Join(roles, {"R": times(1, None, 3), "S": times(None, 2)}, None, ())
    assert set(matches(join)) == {(0, 1), (2, 1)}
    assert set(matches(join, {"R": {0}})) == {(2, 1)}


# ---------------------------------------------------------------------------------- windows by replay


def replay(join: Join, scale: list[Fraction], dropped: dict[str, set[int]]) -> list[tuple[int, ...]]:
    """Let the tuples arrive one by one in the order and see what is in the windows."""
    events = []
    for position, role in enumerate(join.roles):
        for row, t in enumerate(ticks(join.tables[role.name]["ts"])):
            if t is not None and row not in dropped.get(role.name, ()):
                events.append((t * scale[position], position, row))
    arrived: list[list[tuple[Fraction, int]]] = [[] for _ in join.roles]
    found = []
    for t, position, row in sorted(events):
        waiting = []
        for other, role in enumerate(join.roles):
            window, past = role.window, arrived[other]
            if other == position:
                members = [row]
            elif window.kind == "rows":
                members = [r for _, r in past[-window.count :]]
            elif window.kind == "now":
                members = [r for u, r in past if u == t]
            else:
                members = [r for u, r in past if t - u < window.length or (window.inclusive and t - u == window.length)]
            waiting.append(members)
        found.extend(itertools.product(*waiting))
        arrived[position].append((t, row))
    return found


@pytest.mark.parametrize("seed", range(60))
def test_windows_agree_with_a_replay(seed: int):
    rng = seeds.chance(seed)
    width = rng.choice([2, 2, 3])
    scales = {"s": Fraction(1), "ms": Fraction(1, 1000), "int": Fraction(1)}
    names = rng.choice([["R", "S", "T"], ["R", "R", "S"]])[:width]
    temporal = rng.random() < 0.5
    units = {name: rng.choice(["s", "ms"]) if temporal else "int" for name in names}
    roles, tables = [], {}
    for position, name in enumerate(names):
        half = Fraction(rng.randint(1, 9), 2)
        kinds = [Window("now"), rows(rng.randint(1, 4)), within(rng.randint(1, 6)), within(half, inclusive=True)]
        window = rng.choice(kinds)
        roles.append(Role(name, f"r{position}", window))
        unit = units[name]
        values = [rng.randint(0, 10) * (500 if unit == "ms" else 1) for _ in range(rng.randint(0, 7))]
        values = [None if rng.random() < 0.1 else v for v in values]
        tables[name] = times(*values, kind=pa.timestamp(unit) if temporal else None)
    dropped = {names[0]: {0, 2}} if rng.random() < 0.3 else {}
    join = Join(tuple(roles), tables, None, ())
    expected = replay(join, [scales[units[name]] for name in names], dropped)
    assert sorted(matches(join, dropped)) == sorted(expected), f"seed {seed}: {join}"


# ---------------------------------------------------------------------------------- lateness


def test_lateness_is_judged_as_the_watermark_stood_before_the_batch():
    assert late_rows([[10, 3, 1]], 0) == set()
    assert late_rows([[10], [3, 20, 10]], 0) == {1}
    assert late_rows([[10], [3, 7, 8]], 2) == {1, 2}
    assert late_rows([[None, 10], [], [9, None, 12], [11]], 1) == set()
    assert late_rows([[None], [1]], 0) == set()
    assert late_rows([[1], Advance(5), [4, 5], Advance(2), [4]], 10) == {1, 3}


# ---------------------------------------------------------------------------------- values by hand


def value(expression, **columns: pa.Array):
    """Return the value of an expression over one tuple of R with the given columns."""
    table = pa.table({"ts": [0], **columns})
    roles = (Role("R", "R", within(1)), Role("S", "S", within(1)))
    join = Join(roles, {"R": table, "S": times(0)}, None, (Output("v", duck=expression.duck()),))
    ((found,),) = expected_rows(join)
    return found


def double(x: float | None) -> tuple[Col, dict[str, pa.Array]]:
    return Col("R", "x", F64), {"x": pa.array([x], pa.float64())}


@pytest.mark.parametrize(
    ("name", "x", "expected"),
    [
        ("sqrt", -1.0, NAN),
        ("sqrt", 2.25, 1.5),
        ("ln", 0.0, None),
        ("ln", math.nan, NAN),
        ("floor", math.nan, 0),
        ("floor", 1e300, INT64_MAX),
        ("ceil", -math.inf, INT64_MIN),
        ("floor", -1.5, -2),
        ("ceil", -1.5, -1),
        ("floor", None, None),
        ("asin", 2.0, NAN),
        ("sin", math.inf, NAN),
        ("sign", -2.5, -1.0),
        ("sign", math.nan, NAN),
        ("abs", -2.5, 2.5),
    ],
)
def test_functions_follow_spark(name: str, x: float | None, expected: object):
    column, data = double(x)
    assert value(Func(name, (column,)), **data) == expected


def test_numbers_follow_spark():
    assert value(Arith("%", lit(-7), lit(3))) == -1
    assert value(Arith("/", lit(7), lit(0))) is None
    assert value(Arith("%", lit(7), lit(0))) is None
    assert value(Arith("/", lit(7), lit(2))) == 3.5
    assert value(Arith("+", lit(INT64_MAX), lit(1))) == 2**63
    assert value(Arith("+", lit(1), lit(Decimal("0.25")))) == Decimal("1.25")
    f32 = {"x": pa.array([0.1], pa.float32())}
    narrow = Col("R", "x", F32)
    assert value(Arith("+", narrow, narrow), **f32) == pa.scalar(0.2, pa.float32()).as_py()
    assert value(Compare("=", narrow, lit(Decimal("0.1"))), **f32) is False
    column, nan = double(math.nan)
    assert value(Compare(">", column, lit(1e308)), **nan) is True
    assert value(Compare("=", column, column), **nan) is True
    assert value(Func("greatest", (column, lit(1), lit(None))), **nan) == NAN
    assert value(Func("least", (column, lit(1))), **nan) == 1.0
    assert value(Func("nullif", (lit(1), lit(1)))) is None


def test_logic_has_three_values():
    unknown = Compare("=", lit(None), lit(1))
    assert value(unknown) is None
    assert value(Logic("AND", (unknown, Compare("=", lit(1), lit(2))))) is False
    assert value(Logic("OR", (unknown, Compare("=", lit(1), lit(1))))) is True
    assert value(Logic("NOT", (unknown,))) is None
    assert value(In(lit(3), (lit(1), lit(None)))) is None
    assert value(In(lit(1), (lit(1), lit(None)))) is True
    assert value(In(lit(3), (lit(1), lit(None)), negated=True)) is None
    assert value(Between(lit(3), lit(4), lit(None))) is False
    assert value(Is("NULL", unknown)) is True
    assert value(Is("FALSE", unknown, negated=True)) is True
    assert value(Compare("IS DISTINCT FROM", Col("R", "x", INT), lit(1)), x=pa.array([None], pa.int64())) is True
    assert value(Case(((unknown, lit(1)),), lit(2))) == 2


def test_text_is_ordered_by_bytes_and_times_by_instant():
    text = {"x": pa.array(["a\0b"])}
    assert value(Compare(">", Col("R", "x", TEXT), lit("a")), **text) is True
    assert value(Compare("<", lit("z"), lit("ä"))) is True
    coarse, fine = Type("ts", unit="s"), Type("ts", unit="ns")
    data = {"x": pa.array([5], pa.timestamp("s")), "y": pa.array([4_750_000_000], pa.timestamp("ns"))}
    gap = Arith("-", Col("R", "x", coarse), Col("R", "y", fine))
    assert value(Compare("=", gap, span(250, "MILLISECOND")), **data) is True


# ---------------------------------------------------------------------------------- comparing


def test_rows_are_compared_as_multisets():
    table = pa.table({"x": [1.0, -0.0, math.nan, None], "t": pa.array([1, 2, 3, 4], pa.timestamp("ms"))})
    expected = [(0.0, 2_000_000), (1.0, 1_000_000), (NAN, 3_000_000), (None, 4_000_000)]
    assert_same(expected, table)
    with pytest.raises(AssertionError, match=r"missing: 1 rows\n  1 x \(0\.0, 2000000\)\nextra: 0 rows\nseed 7"):
        assert_same(expected, table.take([0, 2, 3]), "seed 7")
    assert difference(expected, [*rows_of(table), (0.0, 2_000_000)]) is not None
    assert difference([(1, 2.0)], [(1, 2.0 + 1e-13)], approx=[1]) is None
    assert difference([(1, 2.0)], [(1, 2.1)], approx=[1]) is not None
    assert difference([(1, NAN)], [(1, 2.0)], approx=[1]) is not None


# ---------------------------------------------------------------------------------- generator


def test_cases_are_reproducible():
    for seed in range(20):
        one, two = (make_case(make_shape(seed), 3) for _ in range(2))
        assert one.sql == two.sql
        assert rows_of_all(one) == rows_of_all(two)


def rows_of_all(case) -> dict[str, list]:
    return {name: rows_of(table) for name, table in case.tables.items()}


def test_most_cases_have_results():
    found = 0
    for seed in range(100):
        with contextlib.suppress(OracleOverflowError):
            found += bool(expected_rows(make_case(make_shape(seed), 0).join))
    assert found >= 80


def test_three_streams_can_be_generated():
    for seed in range(20):
        expected_rows(make_case(make_shape(seed, width=3), 5).join)
