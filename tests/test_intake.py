"""Taking tuples in and showing them: filters, nulls, times of different units, nested values."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest

import crosswind as cw


@pytest.mark.parametrize("window", ["ROWS 9", "RANGE 9"])
def test_a_filtered_tuple_stays_out_though_others_of_its_batch_have_nulls(window):
    schema = pa.schema([("x", pa.int64()), ("k", pa.int64()), ("ts", pa.int64())])
    r = pa.table({"x": [1, 3, 4, 5], "k": [7, None, 7, 8], "ts": [1, 2, 3, 4]}, schema=schema)
    s = pa.table({"x": [0, 0, 0], "k": [7, None, 8], "ts": [5, 5, 5]}, schema=schema)
    sql = f"SELECT R.x FROM R [{window}], S [{window}] WHERE R.x > 2 AND R.k = S.k"
    assert sorted(cw.run(sql, {"R": r, "S": s}).column("x").to_pylist()) == [4, 5]


def test_times_are_shown_in_their_own_unit():
    r = pa.table({"ts": pa.array([1, 2], pa.timestamp("s")), "x": pa.array([1, 2], pa.int64())})
    s = pa.table({"ts": pa.array([1_500], pa.timestamp("ms")), "x": pa.array([1], pa.int64())})
    sql = "SELECT R.ts AS r, S.ts AS s FROM R [RANGE 5 SECONDS], S [RANGE 5 SECONDS] WHERE R.x = S.x"
    found = cw.run(sql, {"R": r, "S": s})
    assert found.schema.types == [pa.timestamp("s"), pa.timestamp("ms")]
    assert [column.cast(pa.int64()).to_pylist() for column in found.columns] == [[1], [1_500]]


def test_nested_values_come_from_the_basic_window_of_their_tuple():
    schema = pa.schema([("k", pa.int64()), ("items", pa.list_(pa.int64())), ("ts", pa.int64())])
    sql = "SELECT R.k, R.items AS r, S.items AS s FROM R [RANGE 99], S [RANGE 99] WHERE R.k = S.k"
    with cw.open(sql, {"R": schema, "S": schema}, basic_window=4, index="scan") as join:
        for at in range(0, 20, 2):
            some = range(at, at + 2)
            join.push("R", pa.table({"k": some, "items": [[k, k] for k in some], "ts": some}, schema=schema))
        keys = [17, 2, 9, 5, 19]
        found = join.push("S", pa.table({"k": keys, "items": [[-k] for k in keys], "ts": [20] * 5}, schema=schema))
    expected = [{"k": k, "r": [k, k], "s": [-k]} for k in sorted(keys)]
    assert sorted(found.to_pylist(), key=lambda row: row["k"]) == expected


@pytest.mark.parametrize("rows", [1, 20], ids=["few", "many"])
@pytest.mark.parametrize("condition", ["R.k = S.k", "R.y IS NOT DISTINCT FROM S.y", "R.z = S.z OR R.k > 99"])
def test_the_first_null_of_a_column_may_come_late(condition, rows):
    """Windows are searched before there is any null or NaN in them, and know of the first one when it comes."""
    schema = pa.schema([("k", pa.int64()), ("y", pa.int64()), ("z", pa.float64()), ("ts", pa.int64())])
    sql = f"SELECT R.k, R.y, R.z FROM R [RANGE 99], S [RANGE 99] WHERE {condition}"

    def batch(k: int, y: int | None, z: float, ts: int) -> pa.Table:
        return pa.table({"k": [k] * rows, "y": [y] * rows, "z": [z] * rows, "ts": [ts] * rows}, schema=schema)

    with cw.open(sql, {"R": schema, "S": schema}, index="scan") as join:
        join.push("R", batch(1, 10, 0.5, 1))
        assert join.push("S", batch(1, 10, 0.5, 1)).num_rows == rows * rows
        join.push("R", batch(2, None, math.nan, 2))
        found = join.push("S", batch(2, None, math.nan, 2)).to_pylist()
    assert len(found) == rows * rows
    assert {str(row) for row in found} == {"{'k': 2, 'y': None, 'z': nan}"}
