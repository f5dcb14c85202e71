"""Arrow in and out: slices, unsigned numbers, declared types, nulls."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

import crosswind as cw

COLUMNS = {
    "k": pa.array([9, 9, 1, 2, 3, 4], pa.int64()),
    "small": pa.array([-9, -9, -1, None, -3, -4], pa.int16()),
    "text": pa.array(["zz", "zz", "a", "", None, "dd"]),
    "flag": pa.array([True, True, False, None, True, False]),
    "real": pa.array([-9.5, -9.5, 0.5, 1.5, None, 3.5]),
    "wide": pa.array([Decimal(10) ** 25, None, Decimal(-1), Decimal(2), None, Decimal(4)], pa.decimal128(38, 0)),
    "raw": pa.array([b"zz", b"zz", b"\0", b"", None, b"\xff"]),
    "items": pa.array([[9], None, [1], [], None, [4, 4]], pa.list_(pa.int32())),
    "ts": pa.array([99, 99, 1, 2, 3, 4], pa.int64()),
}


def piece(column: pa.Array) -> pa.Array:
    """Return the last four values as a slice that keeps the memory of all."""
    part = column.slice(2)
    assert part.offset == 2
    return part


@pytest.mark.parametrize("key", ["k", "text", "raw", "wide", "real", "small"])
@pytest.mark.parametrize("rows", [1, 4], ids=["one by one", "at once"])
def test_a_batch_may_be_a_slice(key, rows):
    part = pa.table({name: piece(column) for name, column in COLUMNS.items()})
    shown = ", ".join(f"R.{name} AS r_{name}, S.{name} AS s_{name}" for name in COLUMNS)
    sql = f"SELECT {shown} FROM R [RANGE 50], S [RANGE 50] WHERE R.{key} = S.{key}"
    parts = []
    with cw.open(sql, {"R": part.schema, "S": part.schema}, lateness=50) as join:
        for stream in ("R", "S"):
            parts += [join.push(stream, part.slice(at, rows)) for at in range(0, 4, rows)]
    found = sorted(pa.concat_tables(parts).to_pylist(), key=lambda row: row["r_ts"])
    expected = [row for row in part.to_pylist() if row[key] is not None]
    assert [{name: row[f"r_{name}"] for name in COLUMNS} for row in found] == expected
    assert [{name: row[f"s_{name}"] for name in COLUMNS} for row in found] == expected


def test_a_few_plain_tuples_may_be_a_slice():
    schema = pa.schema([("k", pa.int64()), ("x", pa.int32()), ("ts", pa.int64())])
    whole = pa.RecordBatch.from_pydict({"k": range(9), "x": range(10, 19), "ts": range(20, 29)}, schema=schema)
    sql = "SELECT R.x AS r, S.x AS s, S.ts AS t FROM R [RANGE 99], S [RANGE 99] WHERE R.k = S.k"
    with cw.open(sql, {"R": schema, "S": schema}) as join:
        for at in range(9):  # one by one they go the short way, once there is a basic window to go to
            join.push("R", whole.slice(at, 1))
        found = [row for at in range(9) for row in join.push("S", whole.slice(at, 1)).to_pylist()]
    assert found == [{"r": 10 + k, "s": 10 + k, "t": 20 + k} for k in range(9)]


@pytest.mark.parametrize("bits", [8, 16, 32])
def test_unsigned_numbers_are_not_negative(bits):
    most = 2**bits - 1
    of = getattr(pa, f"uint{bits}")()
    r = pa.table({"x": pa.array([most, 1, most // 2 + 1], of), "ts": pa.array([1, 1, 1], pa.int64())})
    s = pa.table({"a": pa.array([most, 1, -1], pa.int64()), "ts": pa.array([1, 1, 1], pa.int64())})
    sql = "SELECT R.x, S.a FROM R [NOW], S [NOW] WHERE {}"
    equal = cw.run(sql.format("R.x = S.a"), {"R": r, "S": s}).to_pylist()
    assert sorted(row["x"] for row in equal) == [1, most]
    larger = cw.run(sql.format("R.x > S.a AND R.x > 100"), {"R": r, "S": s}).to_pylist()
    assert sorted((row["x"], row["a"]) for row in larger) == [
        (most // 2 + 1, -1),
        (most // 2 + 1, 1),
        (most, -1),
        (most, 1),
    ]


def test_computed_decimals_below_zero_come_out():
    r = pa.table({"d": pa.array([Decimal("1.25")], pa.decimal128(9, 2)), "ts": pa.array([1], pa.int64())})
    found = cw.run("SELECT a.d - 3 AS less, -b.d AS turned FROM R [NOW] a, R [NOW] b", {"R": r}).to_pylist()
    assert found == [{"less": Decimal("-1.75"), "turned": Decimal("-1.25")}]


@pytest.mark.parametrize(
    ("declared", "pushed", "told"),
    [
        (pa.int8(), pa.array([300], pa.int64()), "300"),
        (pa.int32(), pa.array([1.5]), "1.5"),
        (pa.timestamp("us", "UTC"), pa.array([1], pa.timestamp("us")), "opened with timestamp"),
        (pa.timestamp("us"), pa.array([1], pa.timestamp("us", "UTC")), "opened with timestamp"),
        (pa.timestamp("s"), pa.array([1500], pa.timestamp("ms")), "opened with timestamp"),
        (pa.string(), pa.array([1], pa.int64()), "opened with string"),
    ],
)
def test_a_value_that_does_not_fit_the_declared_type_is_refused(declared, pushed, told):
    schema = pa.schema([("x", declared), ("ts", pa.int64())])
    with cw.open("SELECT a.x FROM R [NOW] a, R [NOW] b", {"R": schema}) as join:
        with pytest.raises(cw.InputError, match=told):
            join.push("R", pa.table({"x": pushed, "ts": pa.array([1], pa.int64())}))
        assert join.stats.tuples_in == {"R": 0}


def test_a_value_that_fits_is_converted():
    schema = pa.schema([("x", pa.int8()), ("ts", pa.int64())])
    with cw.open("SELECT a.x FROM R [NOW] a, R [NOW] b", {"R": schema}) as join:
        found = join.push("R", pa.table({"x": pa.array([3, None], pa.int64()), "ts": pa.array([1, 2], pa.int16())}))
        assert sorted(found.column("x").to_pylist(), key=str) == [3, None]
        assert found.schema.field("x").type == pa.int8()
