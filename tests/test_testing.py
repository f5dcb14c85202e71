"""crosswind.testing: text tables, the test clock, row comparison."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime

import pyarrow as pa
import pytest

from crosswind.errors import InputError
from crosswind.testing import SystemClock, TestClock, arrivals_from_text, assert_same_rows, stream_from_text


def test_types_are_inferred():
    table = stream_from_text("""
        i  | f    | b     | d          | t                   | z                    | s
        1  | 1.5  | true  | 2024-01-01 | 2024-01-01T00:00:01 | 2024-01-01T00:00:01Z | a
        -2 | 1e3  | false | 2024-01-02 | 00:00:02.5          | 00:00:02Z            | "x y"
    """)
    assert table.schema.types == [
        pa.int64(),
        pa.float64(),
        pa.bool_(),
        pa.date32(),
        pa.timestamp("us"),
        pa.timestamp("us", tz="UTC"),
        pa.string(),
    ]
    assert table.to_pylist()[1] == {
        "i": -2,
        "f": 1000.0,
        "b": False,
        "d": date(2024, 1, 2),
        "t": datetime(1970, 1, 1, 0, 0, 2, 500000),
        "z": datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC),
        "s": "x y",
    }


def test_blanks_separate_cells_where_the_header_has_no_bars():
    table = stream_from_text("""
        x  name      ts
        1  "New Elm" 10
        # a remark
        2  null      11
    """)
    assert table.to_pylist() == [{"x": 1, "name": "New Elm", "ts": 10}, {"x": 2, "name": None, "ts": 11}]


def test_empty_and_null_cells_are_null_and_quotes_keep_text():
    table = stream_from_text("""
        | x    | s      | n |
        |------|--------|---|
        |      | "null" |   |
        | NULL | ""     |   |
        | 3    | "4"    |   |
    """)
    assert table.column("x").to_pylist() == [None, None, 3]
    assert table.column("s").to_pylist() == ["null", "", "4"]
    assert table.column("n").type == pa.null()


def test_numbers_that_are_not_finite():
    values = stream_from_text("f\n nan\n -inf\n 1").column("f").to_pylist()
    assert math.isnan(values[0])
    assert values[1:] == [-math.inf, 1.0]


@pytest.mark.parametrize(
    ("type_text", "cell", "expected"),
    [
        ("int8", "-7", -7),
        ("float32", "0.5", 0.5),
        ("string", "12", "12"),
        ("binary", "ab", b"ab"),
        ("decimal(10,2)", "1.25", "1.25"),
        ("timestamp[ms]", "1500", "1970-01-01 00:00:01.500"),
        ("timestamp[ns]", "00:00:00.000000001", "1970-01-01 00:00:00.000000001"),
        ("timestamp[s, Europe/Berlin]", "3600", "1970-01-01 02:00:00+0100"),
        ("duration[ms]", "20", "20"),
    ],
)
def test_types_can_be_given(type_text, cell, expected):
    column = stream_from_text(f"v\n{cell}", f"v:{type_text}").column("v")
    if isinstance(expected, str):
        column = column.cast(pa.string())
    assert column.to_pylist() == [expected]


def test_a_table_of_no_rows_keeps_its_schema():
    table = stream_from_text("x | ts", "x:int32, ts:timestamp[ms]")
    assert table.num_rows == 0
    assert table.schema == pa.schema([("x", pa.int32()), ("ts", pa.timestamp("ms"))])
    assert arrivals_from_text({"R": "x | ts"}) == []


def test_arrivals_are_merged_in_order():
    arrivals = arrivals_from_text(
        {
            "R": """
                arrival | x | ts
                3       | 9 | 15
                1       | 7 | 10
                1       | 8 | 12
            """,
            "S": """
                arrival | a | ts
                3       | 6 | 15
                2       | 7 | 11
            """,
        },
        {"S": "a:int16"},
    )
    assert [(arrival.at, arrival.stream) for arrival in arrivals] == [(1, "R"), (2, "S"), (3, "R"), (3, "S")]
    assert arrivals[0].batch.to_pylist() == [{"x": 7, "ts": 10}, {"x": 8, "ts": 12}]
    assert arrivals[1].batch.schema.field("a").type == pa.int16()


def test_tuples_without_an_arrival_column_arrive_one_by_one():
    arrivals = arrivals_from_text({"R": "x\n1\n2", "S": "a\n5"})
    assert [(arrival.at, arrival.stream, arrival.batch.num_rows) for arrival in arrivals] == [
        (1, "R", 1),
        (1, "S", 1),
        (2, "R", 1),
    ]


def test_a_stream_with_an_arrival_column_comes_in_that_order_and_without_it():
    assert stream_from_text("arrival x\n2 20\n1 10").to_pylist() == [{"x": 10}, {"x": 20}]


@pytest.mark.parametrize(
    ("text", "schema", "message"),
    [
        ("  \n", None, "needs at least a line that names its columns"),
        ("x | x\n1 | 2", None, r"need different names, got \['x', 'x'\]"),
        ("x | y\n1", None, r"line 2 of a text table has 1 cells, its header 2 \(x, y\)"),
        ("arrival | x\nsoon | 1", None, "takes whole numbers, got 'soon'"),
        ("x\n300", "x:int8", "column 'x' of a text table cannot be read as int8"),
        ("x\n1", "x:int33", "unknown type 'int33'.*Did you mean 'int32'?"),
        ("x\n1", "x", "cannot read 'x' as a column. Write name:type"),
        ("x\n1", "x:int8,x:int8", "column 'x' is given twice"),
    ],
)
def test_a_table_that_cannot_be_read_says_why(text, schema, message):
    with pytest.raises(InputError, match=message):
        stream_from_text(text, schema)


def test_the_clock_moves_only_when_told():
    clock = TestClock(start=5)
    assert clock.now() == 5.0
    clock.advance(1.5)
    clock.sleep(2)
    clock.sleep(-1)
    assert clock.now() == 8.5
    assert clock.sleeps == [2, -1]
    with pytest.raises(InputError, match=r"cannot go back: advance\(\) got -1"):
        clock.advance(-1)


def test_the_system_clock_moves_on():
    clock = SystemClock()
    before = clock.now()
    clock.sleep(0.001)
    clock.sleep(-1)
    assert clock.now() > before


ROWS = [{"x": 1, "y": math.nan}, {"x": None, "y": 0.0}, {"x": 1, "y": math.nan}]


@pytest.mark.parametrize("shape", [pa.Table.from_pylist, list, lambda rows: pa.RecordBatch.from_pylist(rows)])
def test_same_rows_in_any_order_and_shape(shape):
    assert_same_rows(shape(ROWS), pa.Table.from_pylist([ROWS[1], ROWS[0], ROWS[2]]))
    assert_same_rows(shape(ROWS), shape(ROWS), ordered=True)


def test_frames_and_dicts_of_columns_are_compared_too():
    import pandas as pd
    import polars as pl

    columns = {"x": [1, 2], "s": ["a", "b"]}
    assert_same_rows(pd.DataFrame(columns), columns)
    assert_same_rows(pl.DataFrame(columns), pa.table(columns))


def test_the_order_of_columns_the_width_of_numbers_and_the_unit_of_times_do_not_matter():
    got = pa.table({"x": pa.array([1], pa.int8()), "t": pa.array([1_500], pa.timestamp("ms", tz="UTC"))})
    expected = pa.table(
        {"t": pa.array([1_500_000_000], pa.timestamp("ns", tz="Asia/Tokyo")), "x": pa.array([1], pa.int64())}
    )
    assert_same_rows(got, expected)
    with pytest.raises(AssertionError, match=r"t='1970-01-01 00:00:01\.5Z'"):
        assert_same_rows(got, [{"x": 1, "t": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)}])


def test_expected_rows_can_be_drawn():
    got = pa.table({"x": pa.array([1, 2], pa.int16()), "f": pa.array([0.1, None], pa.float32())})
    assert_same_rows(
        got,
        """
        x | f
        2 |
        1 | 0.1
        """,
    )


def test_a_row_too_few_and_one_too_many_are_named():
    with pytest.raises(AssertionError) as caught:
        assert_same_rows([{"x": 1}, {"x": 1}, {"x": 3}], [{"x": 1}, {"x": 2}, {"x": 3}])
    assert str(caught.value) == "rows differ: got 3, expected 3\nmissing (1):\n  x=2\nunexpected (1):\n  x=1"


def test_long_differences_are_cut():
    with pytest.raises(AssertionError, match=r"unexpected \(50\):(.|\n)*and 30 more"):
        assert_same_rows([{"x": i} for i in range(50)], [])


def test_order_counts_when_asked_for():
    rows = [{"x": 1}, {"x": 2}]
    with pytest.raises(AssertionError, match="differ first at position 0:\n  got      x=2\n  expected x=1"):
        assert_same_rows(rows[::-1], rows, ordered=True)
    with pytest.raises(AssertionError, match="the first 1 are the same\nmissing \\(1\\):\n  x=2"):
        assert_same_rows(rows[:1], rows, ordered=True)


def test_other_columns_are_named():
    with pytest.raises(AssertionError, match=r"missing \['price'\], unexpected \['prise'\]. Did you mean 'prise'?"):
        assert_same_rows([{"prise": 1}], [{"price": 1}])


def test_what_is_no_table_is_refused():
    with pytest.raises(InputError, match="cannot compare rows of a int"):
        assert_same_rows(3, [])
