"""What kernels compute, beside values worked out by hand: numbers at their ends, NULL, NaN, decimals."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import crosswind as cw

NAN, INF = math.nan, math.inf
LEAST, MOST = -(2**63), 2**63 - 1


def selected(expressions: dict[str, Any], r: dict[str, pa.Array], s: dict[str, pa.Array]) -> dict[str, Any]:
    """Return the value of each expression over one tuple of R and one of S."""
    time = {"ts": pa.array([1], pa.int64())}
    shown = ", ".join(f"{text} AS v{k}" for k, text in enumerate(expressions))
    found = cw.run(f"SELECT {shown} FROM R [NOW], S [NOW]", {"R": pa.table(r | time), "S": pa.table(s | time)})
    (row,) = found.to_pylist()
    return dict(zip(expressions, row.values(), strict=True))


def joined(where: str, r: pa.Array, s: pa.Array) -> list[tuple[int, int]]:
    """Return which (row of R, row of S) join, all at one time, pair by pair and by whatever index there is."""
    tables = {
        name: pa.table({"n": pa.array(range(len(x)), pa.int32()), "x": x, "ts": pa.array([1] * len(x), pa.int64())})
        for name, x in (("R", r), ("S", s))
    }
    sql = f"SELECT R.n AS a, S.n AS b FROM R [NOW], S [NOW] WHERE {where}"
    found = [
        sorted((row["a"], row["b"]) for row in cw.run(sql, tables, index=index).to_pylist())
        for index in ("scan", "auto")
    ]
    assert found[0] == found[1]
    return found[0]


def same(found: dict[str, Any], expected: dict[str, Any]) -> bool:
    return {key: str(value) for key, value in found.items()} == {key: str(value) for key, value in expected.items()}


def test_logic_with_null():
    null, yes, no = "R.u", "R.t", "R.f"
    expected = {
        f"{null} AND {no}": False,
        f"{null} AND {yes}": None,
        f"{null} OR {yes}": True,
        f"{null} OR {no}": None,
        f"NOT {null}": None,
        f"({null} AND {no}) IS NULL": False,
        f"({null} OR {yes}) IS NULL": False,
        f"({null} AND {yes}) IS FALSE": False,
        f"{null} IS FALSE": False,
        f"{null} IS TRUE": False,
        f"{null} IS NOT DISTINCT FROM S.u": True,
        f"{null} IS NOT DISTINCT FROM {yes}": False,
        f"NOT ({null} AND {no})": True,
    }
    r = {"u": pa.array([None], pa.bool_()), "t": pa.array([True]), "f": pa.array([False])}
    assert selected(expected, r, {"u": pa.array([None], pa.bool_())}) == expected


def test_null_in_functions():
    expected = {
        "least(R.n, R.x)": 3,
        "least(R.x, R.n)": 3,
        "greatest(R.n, R.x, 2)": 3,
        "greatest(R.n, S.n)": None,
        "coalesce(R.n, S.n, R.x)": 3,
        "coalesce(R.x, R.n)": 3,
        "if(R.n > 0, 1, 2)": 2,
        "R.x + R.n": None,
        "nullif(R.x, 3)": None,
        "nullif(R.x, 4)": 3,
        "CASE WHEN R.x > 2 THEN 'a' = 'a' WHEN R.x > 1 THEN 'a' = 'b' END": True,
        "CASE R.x WHEN 1 THEN 10 WHEN 3 THEN 30 WHEN 3 THEN 31 END": 30,
    }
    r = {"n": pa.array([None], pa.int64()), "x": pa.array([3], pa.int64())}
    assert selected(expected, r, {"n": pa.array([None], pa.int64())}) == expected


def test_nan_and_infinities():
    expected = {
        "R.nan = S.nan": True,
        "R.nan > R.inf": True,
        "R.inf < R.nan": True,
        "R.nan < R.nan": False,
        "R.nan <= S.nan": True,
        "R.one < R.nan": True,
        "R.nan <> S.nan": False,
        "R.zero = R.minus_zero": True,
        "greatest(R.one, R.nan)": NAN,
        "least(R.nan, R.one)": 1.0,
        "R.one / R.zero": None,
        "R.inf - R.inf": NAN,
        "floor(R.nan)": 0,
        "ceil(R.inf)": MOST,
        "floor(-R.inf)": LEAST,
        "log(2, R.eight)": 3.0,
        "ln(R.minus_zero)": None,
        "R.nan % R.one": NAN,
    }
    values = {"nan": NAN, "inf": INF, "one": 1.0, "zero": 0.0, "minus_zero": -0.0, "eight": 8.0}
    r = {name: pa.array([value]) for name, value in values.items()}
    found = selected(expected, r, {"nan": pa.array([NAN])})
    assert same(found, expected), found


def test_integers_at_their_ends():
    expected = {
        "R.most - 1": MOST - 1,
        "R.least + 1": LEAST + 1,
        "abs(R.least + 1)": MOST,
        "-R.most": LEAST + 1,
        "R.least % -1": 0,
        "R.seven % -3": 1,
        "-R.seven % 3": -1,
        "R.least % 10": -8,
        "R.byte * R.byte": 16384,
        "-R.byte": 128,
        "abs(R.byte)": 128,
        "R.most - R.most": 0,
        "R.seven - S.x": -2,
    }
    r = {
        "most": pa.array([MOST], pa.int64()),
        "least": pa.array([LEAST], pa.int64()),
        "seven": pa.array([7], pa.int32()),
        "byte": pa.array([-128], pa.int8()),
    }
    assert selected(expected, r, {"x": pa.array([9], pa.int64())}) == expected


@pytest.mark.parametrize(
    "expression",
    [
        "abs(R.least)",
        "-R.least",
        "R.least - 1",
        "R.most + 1",
        "R.least - R.most",
        "R.most * -2",
        "R.least * S.x",
        "CAST(R.real AS INT)",
        "CAST(R.real AS TINYINT)",
        "CAST(R.most AS INT)",
        "(R.money + R.money) * 1.00",
        "coalesce(R.money + R.money, R.money) * 9",  # a sum of 18 digits may be greater than its type
        "R.int * 4294967296 - 1",  # only below
        "(abs(R.int) * 2 + 1) * R.int",  # only the least integer times the greatest factor leaves the range
    ],
)
def test_what_leaves_its_type_is_an_error(expression):
    r = {
        "most": pa.array([MOST], pa.int64()),
        "least": pa.array([LEAST], pa.int64()),
        "real": pa.array([2147483648.0]),
        "int": pa.array([-(2**31)], pa.int32()),
        "money": pa.array([Decimal("9999999999999999.99")], pa.decimal128(18, 2)),
    }
    with pytest.raises(cw.ArithmeticOverflowError, match="64-bit"):
        selected({expression: None}, r, {"x": pa.array([2], pa.int64())})


def test_casts_that_just_fit():
    expected = {
        "CAST(R.real AS INT)": 2**31 - 1,
        "CAST(-R.real - 1 AS INT)": -(2**31),
        "CAST(R.d AS INT)": -2,
        "CAST(R.d AS DECIMAL(4, 1))": Decimal("-2.5"),
        "CAST(R.half AS DECIMAL(4, 0))": Decimal(3),
        "CAST(-R.half AS DECIMAL(4, 0))": Decimal(-3),
        "floor(R.d)": Decimal(-3),
        "ceil(R.d)": Decimal(-2),
        "R.d * R.half": Decimal("-6.1250"),
        "R.d - 1": Decimal("-3.45"),
        "-R.d": Decimal("2.45"),
    }
    r = {
        "real": pa.array([2147483647.0]),
        "d": pa.array([Decimal("-2.45")], pa.decimal128(4, 2)),
        "half": pa.array([Decimal("2.50")], pa.decimal128(4, 2)),
    }
    assert selected(expected, r, {"x": pa.array([2], pa.int64())}) == expected


WIDES = [Decimal(2**64), Decimal(2**64 + 1), Decimal(2**64 - 1), Decimal(-1), Decimal(0), Decimal(-(2**64)), None]


@pytest.mark.parametrize("op", ["<", "<=", "=", ">", ">=", "<>"])
def test_wide_decimals_are_compared_in_128_bits(op):
    column = pa.array(WIDES, pa.decimal128(38, 0))
    python = {"=": "==", "<>": "!="}.get(op, op)
    known = [(a, b) for a, x in enumerate(WIDES) for b, y in enumerate(WIDES) if x is not None and y is not None]
    expected = [(a, b) for a, b in known if eval(f"x {python} y", {"x": WIDES[a], "y": WIDES[b]})]
    assert joined(f"R.x {op} S.x", column, column) == expected


TEXTS = ["", "a", "aaaaaaaa", "aaaaaaaab", "aaaaaaaac", "b", None]


@pytest.mark.parametrize("op", ["<", "=", "<>"])
def test_texts_are_compared_to_their_last_byte(op):
    column = pa.array(TEXTS)
    python = {"=": "==", "<>": "!="}.get(op, op)
    known = [(a, b) for a, x in enumerate(TEXTS) for b, y in enumerate(TEXTS) if x is not None and y is not None]
    expected = [(a, b) for a, b in known if eval(f"x {python} y", {"x": TEXTS[a], "y": TEXTS[b]})]
    assert joined(f"R.x {op} S.x", column, column) == expected


def test_a_null_finds_nothing_whatever_lies_under_it():
    """Arrow may keep any value under a null, as here: 7, and the text 'b'."""
    valid = pa.py_buffer(bytes([0b101]))
    numbers = pa.Array.from_buffers(pa.int64(), 3, [valid, *pa.array([1, 7, 3], pa.int64()).buffers()[1:]])
    texts = pa.Array.from_buffers(pa.string(), 3, [valid, *pa.array(["a", "b", "c"]).buffers()[1:]])
    assert joined("R.x = S.x", numbers, pa.array([7, 1], pa.int64())) == [(0, 1)]
    assert joined("S.x = R.x", pa.array([7, 1], pa.int64()), numbers) == [(1, 0)]
    assert joined("R.x = S.x", texts, pa.array(["b", "a", ""])) == [(0, 1)]
    assert joined("S.x = R.x", pa.array(["b", "a", ""]), texts) == [(1, 0)]
    assert joined("R.x < S.x + 1", numbers, pa.array([7], pa.int64())) == [(0, 0), (2, 0)]
    assert joined("R.x + S.x < 100", numbers, pa.array([7, None], pa.int64())) == [(0, 0), (2, 0)]


def test_a_null_finds_nothing_though_another_query_needs_its_tuple():
    valid = pa.py_buffer(bytes([0b10]))
    hidden = pa.Array.from_buffers(pa.int64(), 2, [valid, *pa.array([7, 1], pa.int64()).buffers()[1:]])
    unseen = pa.Array.from_buffers(pa.string(), 2, [valid, *pa.array(["b", "a"]).buffers()[1:]])
    time = pa.array([1, 1], pa.int64())
    tables = {
        "R": pa.table({"x": hidden, "t": unseen, "y": pa.array([5, 6], pa.int64()), "ts": time}),
        "S": pa.table(
            {
                "x": pa.array([7, 1], pa.int64()),
                "t": pa.array(["b", "a"]),
                "y": pa.array([5, 5], pa.int64()),
                "ts": time,
            }
        ),
    }
    for streams in ("R [NOW], S [NOW]", "S [NOW], R [NOW]"):  # the null waits, or looks for what waits
        shown = f"SELECT R.y AS r, S.x AS s FROM {streams} WHERE"
        found = cw.run({name: f"{shown} R.{name} = S.{name}" for name in ("x", "t", "y")}, tables)
        assert found["x"].to_pylist() == [{"r": 6, "s": 1}]
        assert found["t"].to_pylist() == [{"r": 6, "s": 1}]
        assert sorted(found["y"].column("s").to_pylist()) == [1, 7]


def test_a_branch_that_is_not_taken_does_not_overflow():
    tables = {"R": pa.table({"x": pa.array([3, 2**40], pa.int64()), "ts": pa.array([1, 2], pa.int64())})}
    sql = "SELECT CASE WHEN p.x < 100 THEN p.x * p.x * p.x ELSE -1 END AS v FROM R [NOW] p, R [NOW] q"
    assert sorted(cw.run(sql, tables).column("v").to_pylist()) == [-1, 27]


@pytest.mark.parametrize(
    ("condition", "r", "s"),
    [
        ("R.x + S.x + R.x > 5", 2**62, 2**62),
        ("R.x - S.x - R.x > 5", LEAST, 1),
        ("R.x * S.x > 5", 3_037_000_500, 3_037_000_500),
    ],
)
def test_what_wraps_and_then_does_not_match_is_an_error_all_the_same(condition, r, s):
    """Blocks are first asked in vector code whether anything matches: what wrapped does not, and is told."""
    with pytest.raises(cw.ArithmeticOverflowError, match="64-bit"):
        joined(condition, pa.array([r], pa.int64()), pa.array([s], pa.int64()))


def test_a_sum_beyond_64_bits_is_compared_on_either_side():
    r, s = pa.array([5, MOST, LEAST], pa.int64()), pa.array([MOST, 1, LEAST], pa.int64())
    assert joined("R.x < S.x + 9", r, s) == [(0, 0), (0, 1), (1, 0), (2, 0), (2, 1), (2, 2)]
    assert joined("R.x > S.x - 9", r, s) == [(0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (2, 2)]


def test_garbage_under_a_null_does_not_overflow():
    valid = pa.py_buffer(bytes([0b01]))
    column = pa.Array.from_buffers(pa.int64(), 2, [valid, *pa.array([3, 2**62], pa.int64()).buffers()[1:]])
    tables = {"R": pa.table({"x": column, "ts": pa.array([1, 1], pa.int64())})}
    sql = "SELECT p.x * 4 AS v, abs(p.x * 4) AS w FROM R [NOW] p, R [NOW] q WHERE p.x * q.x * 4 > 0 OR p.x IS NULL"
    found = sorted(cw.run(sql, tables).to_pylist(), key=str)
    assert found == [{"v": 12, "w": 12}, {"v": None, "w": None}, {"v": None, "w": None}]


def test_equalities_of_two_columns_are_found_by_hash():
    count = 400
    tables = {
        name: pa.table(
            {
                "x": pa.array([k % 20 for k in range(count)], pa.int64()),
                "y": pa.array([k // 20 for k in range(count)], pa.int32()),
                "n": pa.array(range(count), pa.int32()),
                "ts": pa.array([1] * count, pa.int64()),
            }
        )
        for name in ("R", "S")
    }
    sql = "SELECT R.n AS a, S.n AS b FROM R [NOW], S [NOW] WHERE R.x = S.x AND R.y = S.y"
    with cw.open(sql, {name: table.schema for name, table in tables.items()}, index="hash", basic_window=32) as join:
        found = [join.push(name, tables[name].slice(at, 40)) for at in range(0, count, 40) for name in ("R", "S")]
        assert join.stats.index == {"R": "hash", "S": "hash"}
    rows = pa.concat_tables(found).to_pylist()
    assert sorted(row["a"] for row in rows) == list(range(count))
    assert all(row["a"] == row["b"] for row in rows)


@pytest.mark.parametrize("rows", [1, 40], ids=["few", "many"])
def test_windows_at_the_ends_of_time_do_not_wrap(rows):
    times = [LEAST, LEAST + 20, MOST - 20, MOST]
    table = pa.table({"x": pa.array([7] * 4 * rows, pa.int64()), "ts": pa.array(times * rows, pa.int64())})
    sql = "SELECT R.ts AS r, S.ts AS s FROM R [RANGE 10], S [RANGE 10] WHERE R.x = S.x"
    found = cw.run(sql, {"R": table, "S": table}).to_pylist()
    assert sorted({(row["r"], row["s"]) for row in found}) == [(t, t) for t in times]
    assert len(found) == 4 * rows * rows


def test_zeros_and_nans_are_found_by_hash_in_sealed_windows():
    values = [0.0, -0.0, NAN, 1.0, INF, -INF]
    tables = {
        name: pa.table({"x": pa.array(values * 20), "ts": pa.array([1] * 120, pa.int64())}) for name in ("R", "S")
    }
    sql = "SELECT R.x, S.x AS a FROM R [NOW], S [NOW] WHERE R.x = S.x"
    with cw.open(sql, {name: table.schema for name, table in tables.items()}, index="hash", basic_window=16) as join:
        parts = [join.push(name, tables[name].slice(at, 12)) for at in range(0, 120, 12) for name in ("R", "S")]
    found = pa.concat_tables(parts)
    assert found.num_rows == 40 * 40 + 4 * 20 * 20


# ---------------------------------------------------------------------------------- boxes


def order_of(value: float) -> tuple[bool, float]:
    """Return what Spark orders floats by: NaN is greatest, and equals itself."""
    return (math.isnan(value), 0.0 if math.isnan(value) else value)


def holds(op: str, left: float, right: float) -> bool:
    a, b = order_of(left), order_of(right)
    return {"<": a < b, "<=": a <= b, "=": a == b, ">": a > b, ">=": a >= b}[op]


CONDITIONS = [
    ("-R.x < S.x", lambda r, s: holds("<", -r, s)),
    ("S.x - R.x <= 2", lambda r, s: holds("<=", s - r, 2)),
    ("R.x * -2 < S.x", lambda r, s: holds("<", r * -2, s)),
    ("R.x + S.x > 1", lambda r, s: holds(">", r + s, 1)),
    ("abs(R.x - S.x) <= 2", lambda r, s: holds("<=", abs(r - s), 2)),
    ("abs(R.x + 1) <= S.x", lambda r, s: holds("<=", abs(r + 1), s)),
    ("R.x - S.x = 0", lambda r, s: holds("=", r - s, 0)),
]


FLOATS = [-INF, -3.0, -1.0, -0.0, 0.0, 1.0, 2.5, INF, NAN]
INTEGERS = [-5, -3, -2, -1, 0, 1, 2, 3, 7]
WRITTEN = [(*entry, FLOATS) for entry in CONDITIONS] + [(*entry, INTEGERS) for entry in CONDITIONS[:3]]


@pytest.mark.parametrize(("condition", "naive", "values"), WRITTEN)
def test_a_comparison_holds_whichever_way_it_is_written(condition, naive, values):
    expected = [(a, b) for a, r in enumerate(values) for b, s in enumerate(values) if naive(r, s)]
    column = pa.array(values, pa.float64() if values is FLOATS else pa.int32())
    assert joined(condition, column, column) == expected
