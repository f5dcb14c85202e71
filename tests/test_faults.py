"""Interrupts and a lack of memory at any line of a call. ``python -m tests.faults`` tries many more."""

from __future__ import annotations

import gc
import threading

import pyarrow as pa
import pytest

import crosswind as cw
from tests.failed_pushes import raise_at_line
from tests.faults import R, Scenario, check, scenarios

SCENARIOS = list(scenarios())
SCHEMAS = {"R": R, "S": R}
WORKERS_END_S = 20
BAND = "SELECT R.x AS a, S.x AS b FROM R [RANGE 9], S [RANGE 9] WHERE R.x BETWEEN S.x - 2 AND S.x + 2"


def batch(times: list[int], values: list[int]) -> pa.Table:
    return pa.table({"ts": times, "x": values, "f": [0.0] * len(times), "s": ["a"] * len(times)}, schema=R)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_a_call_that_is_interrupted_leaves_no_trace(scenario: Scenario):
    refusing = scenario.name.startswith("handshake")
    tally = check(scenario, pushes=14, seed=0, most=20 if refusing else 50)
    assert tally.faults >= (10 if refusing else 25)
    assert refusing or not tally.refusals, "only tuples that walk along a row cannot be called back"


@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt])
def test_arranging_that_fails_is_taken_back(error, monkeypatch):
    from crosswind.engine.probe.index import Index

    arrange, calls = Index.arrange, []

    def failing(self, blocks):
        calls.append(len(blocks))
        if len(calls) == 2:
            raise error
        return arrange(self, blocks)

    with cw.open(BAND, SCHEMAS, basic_window=8) as join:
        for number in range(3):
            join.push("R", batch([number] * 4, [1, 2, 3, 4]))
        monkeypatch.setattr(Index, "arrange", failing)
        before, tries = join.stats, 0
        while len(calls) < 2:
            before = join.stats
            tries += 1
            try:
                join.push("R", batch([4] * 4, [1, 2, 3, 4]))
            except error:
                break
        assert join.stats.window_tuples == before.window_tuples
        assert join.stats.tuples_in == before.tuples_in
        join.push("R", batch([4] * 4, [1, 2, 3, 4]))
        found = join.push("S", batch([5], [2]))
        assert found.num_rows == 4 * (3 + tries)


def test_a_subscriber_that_raises_refuses_the_batch():
    with cw.open(BAND, SCHEMAS) as join:
        join.push("R", batch([1], [5]))
        seen = []

        def callback(query: str, table: pa.Table) -> None:
            seen.append(table.num_rows)
            if len(seen) == 1:
                raise RuntimeError("not now")

        join.subscribe(callback)
        with pytest.raises(RuntimeError, match="not now"):
            join.push("S", batch([2], [5]))
        assert join.stats.tuples_in == {"R": 1, "S": 0}
        assert join.push("S", batch([2], [5])).num_rows == 1
        assert (seen, join.stats.results) == ([1, 1], 1)


def test_a_join_is_for_one_thread_at_a_time():
    with cw.open(BAND, SCHEMAS) as join:
        inside, go_on = threading.Event(), threading.Event()

        def wait(_query: str, _table: pa.Table) -> None:
            inside.set()
            assert go_on.wait(60)

        join.subscribe(wait)
        join.push("R", batch([1], [5]))
        found: list[int] = []
        thread = threading.Thread(target=lambda: found.append(join.push("S", batch([2], [5])).num_rows))
        thread.start()
        try:
            assert inside.wait(60)
            for call in (
                lambda: join.push("R", batch([3], [5])),
                lambda: join.advance("R", 3),
                join.snapshot,
                join.finish,
                join.close,
            ):
                with pytest.raises(cw.ConcurrentCallError, match="another thread"):
                    call()
        finally:
            go_on.set()
            thread.join()
        assert found == [1]
        assert join.push("R", batch([3], [5])).num_rows == 1


def test_a_callback_cannot_call_its_join():
    with cw.open(BAND, SCHEMAS) as join:
        stop = join.subscribe(lambda _query, _table: join.push("R", batch([3], [5])))
        join.push("R", batch([1], [5]))
        with pytest.raises(cw.ConcurrentCallError, match="a callback or a signal handler"):
            join.push("S", batch([2], [5]))
        stop()
        assert join.push("S", batch([2], [5])).num_rows == 1


def test_results_in_time_order_of_every_type_of_text():
    types = [pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.binary_view()]
    types += [pa.dictionary(pa.int8(), pa.string())]
    for of in types:
        schema = pa.schema([("ts", pa.int64()), ("x", pa.int64()), ("t", of)])
        sql = "SELECT R.t AS t, S.x AS x FROM R [RANGE 9], S [RANGE 9] WHERE R.x = S.x"
        values = [b"b", b"a"] if pa.types.is_binary(of) or "binary" in str(of) else ["b", "a"]
        data = {
            "ts": [2, 1],
            "x": [1, 1],
            "t": pa.array(values).cast(of) if "dict" in str(of) else pa.array(values, of),
        }
        with cw.open(sql, {"R": schema, "S": schema}, ordered=True) as join:
            join.push("R", data)
            join.push("S", {**data, "ts": [3, 3]})
            found = join.finish()
        assert found.schema.field("t").type == of
        assert sorted(found["t"].to_pylist()) == sorted(2 * values)


ROWS = "SELECT R.x AS x, S.x AS a FROM R [ROWS 5], S [ROWS 5] WHERE R.x * S.x > 0"


@pytest.mark.parametrize("engine", ["kang", "cell", "grid", "handshake"])
def test_an_overflow_among_tuples_that_were_taken_does_not_stop_the_join(engine: str):
    with cw.open(ROWS, SCHEMAS, engine=engine, workers=None if engine == "kang" else 2) as join:
        join.push("R", batch([5, 5], [2**62, 3]))
        join.push("S", batch([5], [4]))
        with pytest.warns(cw.OverflowWarning, match=r"stream 'S': a tuple at time 5 .* set aside"):
            found = join.push("R", batch([6], [7]))
        found = [found, join.push("S", batch([6], [0])), join.push("R", batch([7], [1])), join.finish()]
        assert pa.concat_tables(found).num_rows == 0
        assert join.stats.rejected == {"R": 0, "S": 1}


def test_the_join_goes_on_without_what_was_set_aside():
    with cw.open(ROWS, SCHEMAS) as join:
        parts = [join.push("R", batch([1, 2], [1, 2])), join.push("S", batch([1, 2, 2, 3], [5, 2**62, 2**62 + 1, 6]))]
        assert join.stats.held > 0
        with pytest.warns(cw.OverflowWarning, match="stream 'S': a tuple at time 2"):
            parts.append(join.advance("R", 3))
        parts += [join.push("R", batch([5], [9])), join.push("S", batch([6], [7])), join.finish()]
        rows = [(row["x"], row["a"]) for row in pa.concat_tables(parts).to_pylist()]
        assert sorted(rows) == sorted([(x, a) for x in (1, 2, 9) for a in (5, 6, 7)])
        assert join.stats.rejected == {"R": 0, "S": 2}


def test_what_is_set_aside_is_so_in_both_roles():
    """A tuple of a self join that no role has joined yet is left out as if it had not come."""
    sql = "SELECT a.x AS x, b.x AS y FROM R AS a [ROWS 5], R AS b [ROWS 5] WHERE a.x * b.x > 0"
    with cw.open(sql, {"R": SCHEMAS["R"]}, lateness=3) as join:
        parts = [join.push("R", batch([5], [3])), join.push("R", batch([6], [2**62])), join.push("R", batch([8], [1]))]
        with pytest.warns(cw.OverflowWarning, match="stream 'R': a tuple at time 6"):
            parts += [join.push("R", batch([20], [7])), join.finish()]
        assert join.stats.rejected == {"R": 1}
    rows = sorted((row["x"], row["y"]) for row in pa.concat_tables(parts).to_pylist())
    assert rows == sorted((x, y) for x in (1, 3, 7) for y in (1, 3, 7))


def test_a_batch_that_overflows_with_what_waits_is_refused():
    with cw.open(ROWS, SCHEMAS) as join:
        join.push("R", batch([5], [2**62]))
        join.push("S", batch([1], [0]))
        join.push("R", batch([9], [1]))
        before = join.stats
        with pytest.raises(cw.ArithmeticOverflowError, match="not taken"):
            join.push("S", batch([6, 9], [4, 4]))
        assert join.stats.tuples_in == before.tuples_in
        assert join.stats.watermarks == before.watermarks, "or the next tuple would be late"
        assert join.push("S", batch([6], [0])).num_rows == 0
        assert (join.stats.late, join.stats.rejected) == ({"R": 0, "S": 0}, {"R": 0, "S": 0})


@pytest.mark.parametrize("kind", ["LEFT SEMI", "LEFT ANTI", "LEFT", "FULL"])
def test_matches_that_a_refused_batch_has_let_come_are_found_again(kind: str):
    """The call is tried more than once to find who is to blame, and every try is taken back."""
    sql = f"SELECT R.x AS x FROM R [ROWS 5] {kind} JOIN S [ROWS 5] ON R.x * S.x > 0"
    with cw.open(sql, SCHEMAS) as join, cw.open(sql, SCHEMAS) as other:
        for each in (join, other):
            each.push("R", batch([5], [1]))
            each.push("S", batch([5, 9], [4, -4]))
        with pytest.raises(cw.ArithmeticOverflowError, match="not taken"):
            join.push("R", batch([9, 10], [2**62, 1]))
        found, expected = (
            pa.concat_tables([each.push("R", batch([10], [1])), each.push("S", batch([11], [0])), each.finish()])
            for each in (join, other)
        )
    assert sorted(found["x"].to_pylist(), key=str) == sorted(expected["x"].to_pylist(), key=str)


def test_a_tuple_without_a_partner_that_overflows_is_set_aside():
    sql = "SELECT R.x * 4 AS y, S.x AS a FROM R [RANGE 5] LEFT JOIN S [RANGE 5] ON R.x = S.x"
    with cw.open(sql, SCHEMAS) as join:
        join.push("R", batch([5, 5, 6], [2**62, 3, 4]))
        with pytest.warns(cw.OverflowWarning, match="stream 'R': a tuple at time 5"):
            found = join.push("S", batch([50], [4]))
        assert sorted(found["y"].to_pylist()) == [12, 16]
        assert join.stats.rejected == {"R": 1, "S": 0}
        assert join.finish().num_rows == 0


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("count", range(8))
def test_workers_of_a_join_that_is_gone_end_though_it_is_interrupted(count, monkeypatch):
    monkeypatch.setattr("crosswind.engine.parallel.handshake.engine.BATCH", 1)  # workers get the smallest probe
    before = set(threading.enumerate())
    join = cw.open(BAND, SCHEMAS, engine="handshake", workers=2)
    join.push("R", batch([1], [1]))
    join.push("S", batch([1], [1]))
    workers = set(threading.enumerate()) - before
    assert workers
    with raise_at_line(count, KeyboardInterrupt) as where:
        del join
        gc.collect()
    assert where, "nothing was interrupted"
    for worker in workers:
        worker.join(WORKERS_END_S)
    assert not any(worker.is_alive() for worker in workers), where
