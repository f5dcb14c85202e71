"""Tuples wait exactly as long as their windows say: not a tick less, and no tick more."""

from __future__ import annotations

import pyarrow as pa
import pytest

import crosswind as cw

SCHEMA = pa.schema([("x", pa.int64()), ("ts", pa.int64())])


def tuples(*pairs: tuple[int, int]) -> pa.Table:
    return pa.table({"x": [x for x, _ in pairs], "ts": [ts for _, ts in pairs]}, schema=SCHEMA)


def opened(sql: str, streams: str = "RS", **options) -> cw.Join:
    return cw.open(sql, dict.fromkeys(streams, SCHEMA), basic_window=1, **options)


ENGINES = [{"engine": "kang"}, {"engine": "cell", "workers": 2}, {"engine": "grid", "workers": 2}]


@pytest.mark.parametrize("options", ENGINES, ids=lambda options: options["engine"])
@pytest.mark.parametrize(("window", "last"), [("RANGE 10", 9), ("RANGE 10 INCLUSIVE", 10), ("NOW", 0)])
def test_a_tuple_is_released_when_nothing_can_meet_it_any_more(window, last, options):
    with opened(f"SELECT R.x, S.x AS a FROM R [{window}], S [NOW] WHERE R.x < S.x", **options) as join:
        join.push("R", tuples((1, 100)))
        join.advance("R", 1000)
        join.advance("S", 100 + last)
        assert join.stats.window_tuples["R"] == 1, "a tuple of that time may still come"
        assert join.push("S", tuples((9, 100 + last))).num_rows == 1
        join.advance("S", 100 + last + 1)
        assert join.stats.window_tuples["R"] == 0


@pytest.mark.parametrize("options", ENGINES, ids=lambda options: options["engine"])
def test_a_count_window_holds_so_many_tuples_and_no_more(options):
    with opened("SELECT R.x, S.x AS a FROM R [ROWS 3], S [ROWS 1] WHERE R.x < S.x", **options) as join:
        for k in range(8):
            join.push("R", tuples((k, k)))
        join.advance("R", 8)
        join.advance("S", 8)
        assert join.stats.window_tuples["R"] == 3
        found = [join.push("S", tuples((9, 8))), join.finish()]
        assert sorted(pa.concat_tables(found).column("x").to_pylist()) == [5, 6, 7]


@pytest.mark.parametrize("index", ["scan", "band"])
def test_each_stream_has_its_own_window_in_a_box(index):
    sql = "SELECT R.x, S.x AS a FROM R [RANGE 6], S [RANGE 3] WHERE R.x < S.x"
    with opened(sql, lateness=99, index=index) as join:
        join.push("R", tuples((1, 100)))
        assert join.push("S", tuples((5, 105), (6, 106))).column("a").to_pylist() == [5]
        join.push("S", tuples((9, 200)))
        assert join.push("R", tuples((2, 202), (3, 203))).column("x").to_pylist() == [2]


@pytest.mark.parametrize("many", [False, True], ids=["one query", "many"])
@pytest.mark.parametrize("where", ["", "WHERE R.x < S.x", "WHERE R.x * 1 < S.x"])
def test_a_count_window_is_that_of_the_moment_at_which_the_other_tuple_came(where, many):
    """All are joined in one call: the first tuple of S has been pushed out when the one of R comes."""
    sql = f"SELECT R.x, S.x AS a FROM R [ROWS 9], S [ROWS 1] {where}"
    tables = {"R": tuples((1, 5), (2, 9)), "S": tuples((7, 1), (8, 2), (9, 7))}
    found = (cw.run({"q": sql}, tables)["q"] if many else cw.run(sql, tables)).to_pylist()
    assert sorted((row["x"], row["a"]) for row in found) == [(1, 8), (1, 9), (2, 9)]


def test_of_many_streams_the_slowest_is_waited_for():
    sql = "SELECT R.x FROM R [RANGE 10], S [RANGE 10], T [RANGE 10] WHERE R.x = S.x AND S.x = T.x"
    with opened(sql, "RST") as join:
        join.push("R", tuples((1, 100)))
        join.push("S", tuples((1, 105), (2, 500)))
        assert join.stats.window_tuples["R"] == 1
        assert join.push("T", tuples((1, 109))).num_rows == 1
        join.advance("T", 110)
        assert join.stats.window_tuples["R"] == 0


def test_the_faster_stream_keeps_what_the_slower_one_may_meet():
    with opened("SELECT R.x FROM R [RANGE 10], S [RANGE 10] WHERE R.x = S.x") as join:
        join.push("R", tuples((1, 100), (2, 10_000)))
        assert join.stats.window_tuples["R"] == 2
        assert join.push("S", tuples((1, 109))).num_rows == 1


def alone(sql: str, last: int, **options) -> None:
    with opened(sql, **options) as join:
        join.push("R", tuples((3, 99), (1, 100), (2, 100)))
        join.push("S", tuples((2, 100)))
        join.advance("R", 1000)
        assert join.advance("S", 99 + last).num_rows == 0, "a partner of that time may still come"
        assert join.advance("S", 100 + last).column("x").to_pylist() == [3], "but not for an older one"
        assert join.advance("S", 100 + last + 1).column("x").to_pylist() == [1]
        assert join.finish().num_rows == 0


@pytest.mark.parametrize(("window", "last"), [("RANGE 10", 9), ("RANGE 10 INCLUSIVE", 10)])
def test_what_is_alone_comes_out_when_its_window_has_closed(window, last):
    alone(f"SELECT R.x FROM R [{window}] LEFT ANTI JOIN S [RANGE 1] ON R.x = S.x", last)


def test_of_a_count_window_what_is_alone_comes_out_when_others_have_taken_its_place():
    sql = "SELECT R.x FROM R [ROWS 2] LEFT ANTI JOIN S [NOW] ON R.x = S.x"
    with opened(sql) as join:
        parts = []
        for k in range(5):
            parts.append(join.push("R", tuples((k, k))))
            parts.append(join.push("S", tuples((99, k))))
        parts += [join.advance("R", 5), join.advance("S", 5)]
        assert pa.concat_tables(parts).column("x").to_pylist() == [0, 1, 2]
        assert join.finish().column("x").to_pylist() == [3, 4]


def test_a_semi_join_gives_each_tuple_once_however_many_match():
    with opened("SELECT R.x FROM R [RANGE 10] LEFT SEMI JOIN S [RANGE 10] ON R.x < S.x", lateness=9) as join:
        parts = [join.push("R", tuples((1, 1), (2, 1))), join.push("S", tuples((5, 1), (6, 1), (2, 1)))]
        parts += [join.push("S", tuples((7, 2))), join.push("R", tuples((3, 2))), join.finish()]
    assert sorted(pa.concat_tables(parts).column("x").to_pylist()) == [1, 2, 3]


def test_a_time_that_is_missing_is_not_late():
    with opened("SELECT R.x FROM R [RANGE 10], S [RANGE 10]", keep_late=True) as join:
        join.push("R", tuples((1, 100)))
        with pytest.warns(cw.CrosswindWarning):
            join.push("R", tuples((2, 50), (3, None), (4, 100)))
        assert (join.stats.late["R"], join.stats.rejected["R"], join.stats.tuples_in["R"]) == (1, 1, 2)
        assert join.late("R").column("x").to_pylist() == [2]


def test_late_tuples_come_in_the_declared_types():
    """Batches may lack columns that no query reads, bring others, and come in types that fit."""
    schemas = {
        "R": pa.schema([("ts", pa.int64()), ("x", pa.int64()), ("note", pa.string_view())]),
        "S": pa.schema([("ts", pa.int64()), ("x", pa.int64())]),
    }
    with cw.open("SELECT R.x FROM R [RANGE 5], S [RANGE 5] WHERE R.x = S.x", schemas, keep_late=True) as join:
        assert join.late("R").schema == schemas["R"]
        join.push("R", {"ts": [10], "x": [0], "note": ["in time"]})
        with pytest.warns(cw.LateTupleWarning):
            join.push("R", {"ts": [1], "x": [1], "note": ["a"]})
        join.push("R", pa.table({"ts": pa.array([2], pa.int32()), "x": pa.array([2], pa.int8()), "note": ["b"]}))
        join.push("R", pa.table({"ts": [3], "x": [3]}))
        join.push("R", pa.table({"more": [9], "note": ["d"], "x": [4], "ts": [4]}))
        late = join.late("R")
        assert late.schema == schemas["R"]
        assert late.to_pydict() == {"ts": [1, 2, 3, 4], "x": [1, 2, 3, 4], "note": ["a", "b", None, "d"]}
