"""A push that is refused leaves no trace: whatever comes later is as if it had never been."""

from __future__ import annotations

import random
import warnings

import pyarrow as pa
import pytest

import crosswind as cw
from crosswind.engine.live import LiveJoin
from crosswind.plan.axis import INT64_MIN
from tests.conftest import EngineConfig
from tests.seeds import chance

HUGE = 2**40
"""Twice as a factor of a product, it leaves 64 bits."""
R = pa.schema([("x", pa.int64()), ("ts", pa.int64())])
S = pa.schema([("a", pa.int64()), ("ts", pa.int64())])
T = pa.schema([("c", pa.int64()), ("ts", pa.int64())])


def rows(*tables: pa.Table) -> list[tuple]:
    return sorted(zip(*(column.to_pylist() for column in pa.concat_tables(tables).columns), strict=True), key=str)


def r(*tuples: tuple[int, int]) -> pa.Table:
    return pa.table({"x": [x for x, _ in tuples], "ts": [ts for _, ts in tuples]}, schema=R)


def s(*tuples: tuple[int, int]) -> pa.Table:
    return pa.table({"a": [a for a, _ in tuples], "ts": [ts for _, ts in tuples]}, schema=S)


# ---------------------------------------------------------------------------------- part by part


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("LEFT", [(3, 4), (5, None)]),
        ("RIGHT", [(3, 4)]),
        ("FULL", [(3, 4), (5, None)]),
        ("LEFT SEMI", [(3,)]),
        ("LEFT ANTI", [(5,)]),
    ],
)
def test_a_refused_tuple_of_an_outer_join_does_not_come_out_alone(live: EngineConfig, kind: str, expected: list):
    shown = "R.x" if kind in ("LEFT SEMI", "LEFT ANTI") else "R.x, S.a"
    sql = f"SELECT {shown} FROM R [RANGE 9] {kind} JOIN S [RANGE 9] ON R.x * S.a = 12"
    with live.open(sql, {"R": R, "S": S}, lateness=9) as join:
        parts = [join.push("S", s((4, 1)))]
        with pytest.raises(cw.ArithmeticOverflowError):
            join.push("R", r((3, 1), (2**62, 1)))
        parts += [join.push("R", r((3, 2), (5, 2))), join.finish()]
        assert join.stats.tuples_in == {"R": 2, "S": 1}
    assert rows(*parts) == sorted(expected, key=str)


def test_a_refused_match_is_forgotten(live: EngineConfig):
    """The tuple that waits has met a partner of the refused batch: it is unmatched again."""
    sql = "SELECT R.x, S.a FROM R [RANGE 9] LEFT JOIN S [RANGE 9] ON R.x * S.a > 0"
    with live.open(sql, {"R": R, "S": S}, lateness=9) as join:
        join.push("R", r((3, 1), (HUGE, 1)))
        with pytest.raises(cw.ArithmeticOverflowError):
            join.push("S", s((1, 2), (HUGE, 2)))
        assert rows(join.finish()) == [(HUGE, None), (3, None)]


def test_a_match_whose_row_overflows_is_forgotten(live: EngineConfig):
    """The match has been noted when its row is made, which fails."""
    sql = "SELECT R.x, R.x * S.a AS product FROM R [RANGE 9] LEFT JOIN S [RANGE 9] ON R.x = S.a"
    with live.open(sql, {"R": R, "S": S}, lateness=9) as join:
        join.push("R", r((HUGE, 1), (3, 1)))
        with pytest.raises(cw.ArithmeticOverflowError):
            join.push("S", s((HUGE, 2)))
        parts = [join.push("S", s((3, 2))), join.finish()]
    assert rows(*parts) == [(HUGE, None), (3, 9)]


def test_a_refused_self_join_leaves_no_ghosts(live: EngineConfig):
    """One role has taken the tuples when the other one fails."""
    sql = "SELECT p.x AS p, q.x AS q FROM R [RANGE 9] AS p, R [RANGE 9] AS q WHERE p.x * q.x > 0"
    with live.open(sql, {"R": R}, lateness=9) as join:
        assert rows(join.push("R", r((3, 1)))) == [(3, 3)]
        with pytest.raises(cw.ArithmeticOverflowError):
            join.push("R", r((HUGE, 2)))
        assert join.stats.window_tuples == {"p": 1, "q": 1}
        assert rows(join.push("R", r((5, 2)))) == [(3, 5), (5, 3), (5, 5)]
        assert rows(join.push("R", r((7, 2)))) == [(3, 7), (5, 7), (7, 3), (7, 5), (7, 7)]


def test_a_refused_self_join_leaves_no_ghosts_where_nothing_is_inserted_next(live: EngineConfig):
    """The next tuple is filtered out of the role that had taken the refused one, and meets what waits there."""
    sql = "SELECT p.x AS p, q.x AS q FROM R [RANGE 9] AS p, R [RANGE 9] AS q WHERE p.x <> 7 AND p.x * q.x > 0"
    with live.open(sql, {"R": R}, lateness=9) as join:
        assert rows(join.push("R", r((3, 1)))) == [(3, 3)]
        with pytest.raises(cw.ArithmeticOverflowError):
            join.push("R", r((HUGE, 2)))
        assert rows(join.push("R", r((7, 2)))) == [(3, 7)]
        assert rows(join.push("R", r((5, 2)))) == [(3, 5), (5, 3), (5, 5), (5, 7)]


def test_results_of_a_refused_push_are_not_released_later(live: EngineConfig):
    sql = "SELECT p.x AS p, q.x AS q FROM R [RANGE 9] AS p, R [RANGE 9] AS q WHERE p.x * q.x > 0"
    with live.open(sql, {"R": R}, lateness=9, ordered=True) as join:
        parts = [join.push("R", r((3, 1)))]
        with pytest.raises(cw.ArithmeticOverflowError):
            join.push("R", r((HUGE, 2)))
        assert rows(*parts, join.finish()) == [(3, 3)]


THREE = "SELECT R.x * S.a AS product, T.c FROM R [RANGE 9], S [RANGE 9], T [RANGE 9] WHERE R.x > S.a AND T.c > 0"


def test_a_refused_push_does_not_move_the_watermark(live: EngineConfig):
    """Rows of many streams are made last, when the watermark has been moved: a product of SELECT leaves 64 bits."""
    with live.open(THREE, {"R": R, "S": S, "T": T}) as join:
        join.push("S", s((HUGE, 1)))
        join.push("T", pa.table({"c": [1], "ts": [1]}, schema=T))
        marks = join.stats.watermarks
        with pytest.raises(cw.ArithmeticOverflowError):
            join.push("R", r((HUGE + 1, 8)))
        assert join.stats.watermarks == marks
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # it is not late
            found = join.push("R", r((HUGE - 1, 2), (3, 2)))
        assert join.stats.late == {"R": 0, "S": 0, "T": 0}
        assert found.num_rows == 0
        join.push("S", s((2, 2)))
        assert rows(join.push("T", pa.table({"c": [2], "ts": [2]}, schema=T))) == [((HUGE - 1) * 2, 2), (6, 2)]


PAIR = pa.schema([("k", pa.int64()), ("x", pa.int64()), ("ts", pa.int64())])


def pair(*tuples: tuple[int, int, int]) -> pa.Table:
    return pa.table([list(column) for column in zip(*tuples, strict=True)], schema=PAIR)


def test_a_refused_push_leaves_every_copy_of_a_window():
    """The first role of R is searched by k and by y, so it is kept twice; the second role fails after it."""
    sql = (
        "SELECT p.x AS p, q.x AS q, p.x * q.x AS product, T.ts AS t FROM R [RANGE 99] AS p, R [RANGE 99] AS q, "
        "T [RANGE 99] WHERE p.k = q.k AND p.y = T.y"
    )
    schema = pa.schema([("k", pa.int64()), ("y", pa.int64()), ("x", pa.int64()), ("ts", pa.int64())])

    def one(k: int, y: int, x: int, ts: int) -> pa.Table:
        return pa.table({"k": [k], "y": [y], "x": [x], "ts": [ts]}, schema=schema)

    with cw.open(sql, {"R": schema, "T": schema}, lateness=9, index="hash") as join:
        join.push("T", one(0, 2, 0, 1))
        for k in (7, 8):  # single tuples are written straight into all copies once they are open
            join.push("R", one(k, 9, 1, 1))
        assert rows(join.push("R", one(1, 2, 3, 2))) == [(3, 3, 9, 1)]
        with pytest.raises(cw.ArithmeticOverflowError):
            join.push("R", one(1, 2, HUGE, 3))
        assert rows(join.push("T", one(0, 2, 0, 3))) == [(3, 3, 9, 3)]
        both = [(3, 5, 15, 1), (3, 5, 15, 3), (5, 3, 15, 1), (5, 3, 15, 3), (5, 5, 25, 1), (5, 5, 25, 3)]
        assert rows(join.push("R", one(1, 2, 5, 4))) == both
        assert rows(join.push("T", one(0, 2, 0, 5))) == [(3, 3, 9, 5), (3, 5, 15, 5), (5, 3, 15, 5), (5, 5, 25, 5)]


def test_a_refused_push_of_linked_equals_is_not_found():
    """Short ROWS windows link equals: R has been linked when S, which the same call lets go on, overflows."""
    queries = {
        "equal": "SELECT R.k, S.ts AS s FROM R [ROWS 9], S [ROWS 9] WHERE R.k = S.k",
        "product": "SELECT R.x FROM R [ROWS 9], S [ROWS 9] WHERE R.x * S.x < 0",
    }
    with cw.open(queries, dict.fromkeys("RS", PAIR)) as join:
        join.push("R", pair((1, HUGE, 1), (5, 1, 5)))
        join.advance("R", 9)
        join.push("S", pair((5, 1, 2)))
        with pytest.raises(cw.ArithmeticOverflowError):
            join.push("S", pair((5, HUGE, 6)))
        assert rows(join.push("S", pair((5, 1, 6)))["equal"]) == [(5, 2), (5, 6)]
        assert rows(join.push("S", pair((5, 1, 7)))["equal"]) == [(5, 7)]


@pytest.mark.parametrize("windows", [("RANGE 9", "RANGE 9"), ("ROWS 9", "RANGE 9")], ids=str)
@pytest.mark.parametrize("join_kind", [",", "LEFT JOIN"])
def test_what_is_filtered_is_not_computed(windows: tuple[str, str], join_kind: str):
    """A product that leaves 64 bits is no error where a filter has taken its tuple out."""
    where = "WHERE" if join_kind == "," else "ON"
    condition = f"{where} R.x < 100 AND R.x * R.x * R.x = S.a"
    sql = f"SELECT R.x, S.a FROM R [{windows[0]}] {join_kind} S [{windows[1]}] {condition}"
    found = cw.run(sql, {"R": r((HUGE, 1), (3, 1), (HUGE, 2), (4, 2)), "S": s((27, 3), (64, 3))})
    alone = [] if join_kind == "," else [(HUGE, None), (HUGE, None)]
    assert rows(found) == sorted([(3, 27), (4, 64), *alone], key=str)
    found = cw.run(sql, {"R": r((HUGE, 1)), "S": s((27, 3))})
    assert rows(found) == alone[:1]


def test_what_is_filtered_is_not_computed_on_the_way_to_a_cell():
    from crosswind.spark.route import Router
    from tests.spark.simulation import make_spec

    sql = "SELECT R.x, S.a FROM R [RANGE 9], S [RANGE 9] WHERE R.x < 100 AND R.x * R.x * R.x = S.a"
    spec = make_spec(sql, {"R": R, "S": S}, cells=2)
    for unit in range(2):
        routed = Router(spec.plan, unit, spec.layout).route((r if unit == 0 else s)((HUGE, 1), (3, 2)))
        assert routed.passed + sum(sent.batch.num_rows for sent in routed.shipments if sent.primary) == 2


# ---------------------------------------------------------------------------------- at random


CASES = {
    "inner": "SELECT R.x, S.a FROM R [RANGE 6], S [RANGE 9] WHERE R.x * S.a > 6",
    "box": "SELECT R.x, S.a, R.x * S.a AS p FROM R [RANGE 6], S [RANGE 9] WHERE R.x BETWEEN S.a - 3 AND S.a + 3",
    "left": "SELECT R.x, S.a FROM R [RANGE 6] LEFT JOIN S [RANGE 9] ON R.x * S.a > 40",
    "anti": "SELECT R.x FROM R [RANGE 6] LEFT ANTI JOIN S [RANGE 9] ON R.x * S.a > 40",
    "self": "SELECT p.x, q.x AS a FROM R [RANGE 6] AS p, R [RANGE 9] AS q WHERE p.x * q.x > 40",
    "three": "SELECT R.x, S.a, T.c FROM R [RANGE 6], S [RANGE 9], T [RANGE 4] WHERE R.x * S.a > 40 AND S.a = T.c",
}


def pushes(rng: random.Random, streams: list[str]) -> list[tuple[str, pa.Table]]:
    """Return pushes of a few tuples; about one in four holds a tuple with which nearly every pair overflows."""
    made = []
    for step in range(40):
        name = rng.choice(streams)
        schema = {"R": R, "S": S, "T": T}[name]
        values = [rng.randint(1, 12) for _ in range(rng.randint(1, 6))]
        if rng.random() < 0.25:
            values[rng.randrange(len(values))] = 2**62
        times = [step // 2 + rng.randint(0, 3) for _ in values]
        made.append((name, pa.table({schema.names[0]: values, "ts": times}, schema=schema)))
    return made


def waiting(join) -> list[list[int]]:
    """Return, by unit, the times of the tuples that can still be met.

    Others may wait as well: a run is released as a whole, and how runs are arranged and merged depends on what has been
    looked for, refused pushes included.
    """
    marks = {name: INT64_MIN if mark is None else mark for name, mark in join.stats.watermarks.items()}
    streams = [unit.stream.name for unit in join._plan.units]
    met = []
    for unit, (age, window) in enumerate(zip(join.ages, join._strategy.windows, strict=True)):
        front = min(marks[name] for other, name in enumerate(streams) if other != unit)
        times = [time for block in window.blocks() for time in block.times.tolist()]
        met.append(sorted(time for time in times if age is None or time >= front - age))
    return met


@pytest.mark.parametrize("ordered", [False, True], ids=["as found", "in time order"])
@pytest.mark.parametrize("case", CASES)
def test_refused_pushes_change_nothing_that_comes_after(live: EngineConfig, case: str, ordered: bool):
    """A join that refuses some pushes gives, push by push, what one gives that never saw them."""
    seed = f"{case} {live.id} {ordered}"
    rng = chance("refused", seed)
    sql = CASES[case]
    streams = [name for name in ("R", "S", "T") if f"{name} [" in sql]
    schemas = {name: {"R": R, "S": S, "T": T}[name] for name in streams}
    refused = 0
    with (
        live.open(sql, schemas, lateness=5, ordered=ordered) as join,
        live.open(sql, schemas, lateness=5, ordered=ordered) as spared,
    ):
        for number, (name, batch) in enumerate(pushes(rng, streams)):
            try:
                found = join.push(name, batch)
            except cw.ArithmeticOverflowError:
                refused += 1
                continue
            assert rows(found) == rows(spared.push(name, batch)), f"seed {seed!r}, push {number}"
            stats, other = join.stats, spared.stats
            assert stats.watermarks == other.watermarks, f"seed {seed!r}, push {number}"
            assert (stats.tuples_in, stats.late, stats.held) == (other.tuples_in, other.late, other.held)
            assert waiting(join) == waiting(spared), f"seed {seed!r}, push {number}"
        assert rows(join.finish()) == rows(spared.finish()), f"seed {seed!r}, finish"
    assert refused >= 2, f"seed {seed!r}: only {refused} pushes were refused"


def test_counters_are_those_before_a_call_whose_undo_was_interrupted(monkeypatch):
    """Who catches Ctrl-C looks at the counters to see whether the batch was taken."""
    schema = pa.schema([("ts", pa.int64()), ("x", pa.int64())])
    sql = "SELECT R.x FROM R [RANGE 9], S [RANGE 9] WHERE R.x * S.x > 0"
    undo, interrupts = LiveJoin._undo, [KeyboardInterrupt]

    def undo_interrupted(join, saved):
        if interrupts:
            raise interrupts.pop()
        undo(join, saved)

    def refuse(*_):
        raise ValueError("no room for results")

    with cw.open(sql, {"R": schema, "S": schema}) as join:
        join.push("R", {"ts": [1], "x": [3]})
        before = join.stats
        unsubscribe = join.subscribe(refuse)
        monkeypatch.setattr(LiveJoin, "_undo", undo_interrupted)
        with pytest.raises(KeyboardInterrupt):
            join.push("S", {"ts": [2, 3], "x": [1, 4]})
        after = join.stats
        assert (after.tuples_in, after.results, after.window_tuples, after.watermarks) == (
            before.tuples_in,
            before.results,
            before.window_tuples,
            before.watermarks,
        )
        unsubscribe()
        assert join.push("S", {"ts": [2], "x": [1]}).num_rows == 1
