"""Rate-aware batching: what waits is taken at once, producers are held up, errors arrive, threads end."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager

import pyarrow as pa
import pytest

import crosswind as cw
from crosswind.engine.ingest.batching import Backlog
from crosswind.testing import assert_same_rows
from tests.waiting import PATIENCE_S, wait_until

SCHEMAS = {
    "R": pa.schema({"ts": pa.int64(), "x": pa.int32(), "tag": pa.dictionary(pa.int32(), pa.string())}),
    "S": pa.schema({"ts": pa.int64(), "a": pa.int32()}),
}
SQL = "SELECT R.x, R.tag, S.a, R.ts AS r, S.ts AS s FROM R [RANGE 50], S [RANGE 50] WHERE abs(R.x - S.a) <= 1"


def r_batch(ts: int, x: int) -> dict:
    return {"ts": [ts], "x": [x], "tag": pa.array([f"tag{x % 3}"]).dictionary_encode()}


def s_batch(ts: int, a: int) -> dict:
    return {"ts": [ts], "a": [a]}


def numbers(portion) -> list[int]:
    return portion.batch.column("x").to_pylist()


def one(x: int) -> pa.RecordBatch:
    return pa.record_batch({"x": [x]})


@pytest.fixture(autouse=True)
def no_thread_survives():
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) <= before


class Gate:
    """A delivery that holds the feeder up until it is opened."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.entered = threading.Event()
        self.tables: list[pa.Table] = []

    def __call__(self, table: pa.Table) -> None:
        self.entered.set()
        assert self.open.wait(PATIENCE_S)
        self.tables.append(table)


@contextmanager
def held_up(join: cw.Join, gate: Gate, **options):
    """Yield a feeder whose thread is inside a delivery."""
    with join.feeder(gate, **options) as feeder:
        feeder.put("R", r_batch(1, 5))
        feeder.put("S", s_batch(1, 5))
        assert gate.entered.wait(PATIENCE_S)
        try:
            yield feeder
        finally:
            gate.open.set()


# -- the backlog --------------------------------------------------------------------------------


def test_whatever_waits_is_taken_up_to_the_limit():
    backlog = Backlog(limit=3)
    assert backlog.take() is None
    for x in range(7):
        backlog.put("R", one(x))
    assert len(backlog) == 7
    assert [numbers(backlog.take()) for _ in range(3)] == [[0, 1, 2], [3, 4, 5], [6]]
    assert backlog.take() is None
    assert len(backlog) == 0, "producers would be held up"
    assert not backlog


def test_a_batch_larger_than_the_limit_is_cut():
    backlog = Backlog(limit=4)
    backlog.put("R", one(0))
    backlog.put("R", pa.record_batch({"x": list(range(1, 10))}))
    assert [numbers(backlog.take()) for _ in range(3)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_streams_take_turns():
    backlog = Backlog(limit=2)
    for x in range(4):
        backlog.put("R", one(x))
    backlog.put("S", one(10))
    assert [backlog.take().stream for _ in range(3)] == ["R", "S", "R"]


def test_a_watermark_waits_behind_the_tuples_before_it():
    backlog = Backlog(limit=10)
    backlog.put("R", one(0))
    backlog.advance("R", 5)
    backlog.put("R", one(1))
    first, mark, second = (backlog.take() for _ in range(3))
    assert (numbers(first), mark.batch, mark.watermark, numbers(second)) == ([0], None, 5, [1])


def test_batches_of_other_schemas_are_not_mixed():
    backlog = Backlog(limit=10)
    backlog.put("R", one(0))
    backlog.put("R", pa.record_batch({"x": [1], "more": ["y"]}))
    assert [numbers(backlog.take()) for _ in range(2)] == [[0], [1]]


def test_empty_batches_do_not_wait():
    backlog = Backlog(limit=10)
    backlog.put("R", one(0).slice(1))
    assert not backlog


# -- the feeder ---------------------------------------------------------------------------------


def test_producers_of_two_streams_get_all_results():
    """Whatever the threads do, the rows are those of one push after another."""
    count = 300
    batches = {"R": [r_batch(t, t % 7) for t in range(count)], "S": [s_batch(t, (3 * t) % 7) for t in range(count)]}
    with cw.open(SQL, SCHEMAS) as join:
        parts = [join.push(name, batches[name][t]) for t in range(count) for name in ("R", "S")]
    expected = pa.concat_tables([*parts])
    found: list[pa.Table] = []

    def produce(name: str, feeder: cw.Feeder) -> None:
        for batch in batches[name]:
            feeder.put(name, batch)

    with cw.open(SQL, SCHEMAS) as join:
        with join.feeder(found.append, limit=16, capacity=40) as feeder:
            threads = [threading.Thread(target=produce, args=(name, feeder)) for name in batches]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(PATIENCE_S)
            feeder.flush()
            assert feeder.stats["waiting"] == 0
            assert feeder.stats["tuples"] == 2 * count
        assert join.stats.tuples_in == {"R": count, "S": count}
        found.append(join.finish())
    assert_same_rows(pa.concat_tables(found), expected)


def test_what_gathers_is_pushed_at_once():
    gate = Gate()
    with cw.open(SQL, SCHEMAS) as join:
        with held_up(join, gate, limit=1000) as feeder:
            before = join.stats.pushes
            for t in range(100):
                feeder.put("R", r_batch(2 + t, 900))
            gate.open.set()
            feeder.flush()
            assert join.stats.pushes == before + 1
        assert join.stats.tuples_in["R"] == 101


def test_a_single_tuple_does_not_wait_for_more():
    found: list[pa.Table] = []
    with cw.open(SQL, SCHEMAS) as join, join.feeder(found.append, limit=1000) as feeder:
        feeder.put("R", r_batch(1, 5))
        feeder.put("S", s_batch(1, 5))
        feeder.flush()
        assert sum(table.num_rows for table in found) == 1


def test_producers_are_held_up_and_nothing_is_lost():
    gate = Gate()
    with cw.open(SQL, SCHEMAS) as join:
        with held_up(join, gate, capacity=3) as feeder:
            for t in range(3):
                feeder.put("R", r_batch(2 + t, 900))
            message = r"did not keep up: after 0.05 s 3 tuples still wait \(capacity=3\)"
            with pytest.raises(cw.OverloadError, match=message):
                feeder.put("R", r_batch(9, 900), timeout=0.05)
            later = threading.Timer(0.05, gate.open.set)
            later.start()
            feeder.put("R", r_batch(9, 900))
            later.join(PATIENCE_S)
        assert join.stats.tuples_in["R"] == 5


def test_a_batch_larger_than_the_capacity_waits_until_it_is_alone():
    with cw.open(SQL, SCHEMAS) as join:
        with join.feeder(print, capacity=2, limit=2) as feeder:
            feeder.put("S", {"ts": list(range(9)), "a": [1] * 9})
        assert join.stats.tuples_in["S"] == 9


def test_watermarks_go_through():
    rows = "SELECT R.x FROM R [ROWS 5], S [ROWS 5] WHERE R.x = S.a"
    found: list[pa.Table] = []
    with cw.open(rows, SCHEMAS) as join, join.feeder(found.append) as feeder:
        feeder.put("R", r_batch(1, 5))
        feeder.put("S", s_batch(2, 5))
        feeder.flush()
        assert not found, "held until the order is known"
        feeder.advance("R", 10)
        feeder.advance("S", 10)
        feeder.flush()
        assert len(found) == 1


def test_what_push_would_refuse_is_refused_by_put():
    with cw.open(SQL, SCHEMAS) as join, join.feeder(print) as feeder:
        with pytest.raises(cw.InputError, match="no stream 'T'"):
            feeder.put("T", r_batch(1, 1))
        with pytest.raises(cw.InputError, match="has no column 'a'"):
            feeder.put("S", {"ts": [1]})
        with pytest.raises(cw.InputError, match="came as string"):
            feeder.put("S", pa.table({"ts": [1], "a": ["x"]}))
        with pytest.raises(cw.InputError, match="is no watermark"):
            feeder.advance("S", "soon")
        feeder.put("S", s_batch(1, 1))


def test_an_error_of_the_join_reaches_whoever_comes_next():
    overflow = "SELECT R.x FROM R [RANGE 5], S [RANGE 5] WHERE R.x * 2 > S.x"
    schema = pa.schema({"ts": pa.int64(), "x": pa.int64()})
    with cw.open(overflow, {"R": schema, "S": schema}) as join:
        feeder = join.feeder(print)
        feeder.put("R", {"ts": [1], "x": [2**62]})
        for call in (feeder.flush, feeder.close, lambda: feeder.put("S", {"ts": [1], "x": [1]})):
            with pytest.raises(cw.ArithmeticOverflowError, match="left the 64-bit range"):
                call()
        assert join.stats.tuples_in["R"] == 0
        assert join.push("S", {"ts": [1], "x": [1]}).num_rows == 0, "the join goes on"


def test_an_error_of_the_delivery_reaches_the_producer():
    def deliver(table: pa.Table) -> None:
        raise ZeroDivisionError("in deliver")

    def produce() -> None:
        with join.feeder(deliver) as feeder:
            feeder.put("R", r_batch(1, 5))
            feeder.put("S", s_batch(1, 5))
            until = time.monotonic() + PATIENCE_S
            while time.monotonic() < until:
                feeder.put("R", r_batch(2, 5))

    with cw.open(SQL, SCHEMAS) as join, pytest.raises(ZeroDivisionError):
        produce()


def test_an_error_of_the_producer_goes_on_and_what_waits_is_forgotten():
    gate = Gate()

    def open_when_closing(feeder: cw.Feeder) -> None:
        wait_until(lambda: feeder._closing, "close()")
        gate.open.set()

    def produce() -> None:
        with join.feeder(gate) as feeder:
            feeder.put("R", r_batch(1, 5))
            feeder.put("S", s_batch(1, 5))
            assert gate.entered.wait(PATIENCE_S)
            feeder.put("R", r_batch(2, 900))
            threading.Thread(target=open_when_closing, args=(feeder,)).start()
            raise KeyError("mine")

    with cw.open(SQL, SCHEMAS) as join:
        with pytest.raises(KeyError, match="mine"):
            produce()
        assert join.stats.tuples_in["R"] == 1


def test_close_returns_even_if_the_delivery_does_not():
    gate = Gate()
    with cw.open(SQL, SCHEMAS) as join, held_up(join, gate) as feeder:
        feeder.put("R", r_batch(2, 900))
        with pytest.raises(cw.OverloadError, match=r"still at work after 0.05 s: 1 tuples wait.*close\(discard=True\)"):
            feeder.close(timeout=0.05)
        with pytest.raises(cw.ClosedJoinError, match="the feeder is closed"):
            feeder.put("R", r_batch(3, 900))
        gate.open.set()
        feeder.close()
        feeder.close()
        assert join.stats.tuples_in["R"] == 2, "what waited was pushed"


def test_a_delivery_may_put_and_close():
    again: list[int] = []

    def deliver(table: pa.Table) -> None:
        if not again:
            again.append(1)
            feeder.put("R", r_batch(2, 900))
            feeder.close()

    with cw.open(SQL, SCHEMAS) as join:
        with join.feeder(deliver) as feeder:
            feeder.put("R", r_batch(1, 5))
            feeder.put("S", s_batch(1, 5))
            feeder.flush()
        assert join.stats.tuples_in["R"] == 2


def test_a_delivery_cannot_wait_for_itself():
    def deliver(table: pa.Table) -> None:
        for _ in range(3):
            feeder.put("R", r_batch(2, 900))

    with cw.open(SQL, SCHEMAS) as join:
        feeder = join.feeder(deliver, capacity=1)
        feeder.put("R", r_batch(1, 5))
        feeder.put("S", s_batch(1, 5))
        for call in (feeder.flush, feeder.close):
            with pytest.raises(cw.OverloadError, match="did not keep up"):
                call()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"limit": 0}, "limit=0 is not possible"),
        ({"capacity": 1.5}, "capacity=1.5 is not possible"),
        ({"timeout": -1}, "timeout=-1 is not possible"),
        ({"timeout": "soon"}, "timeout='soon' is not possible"),
    ],
)
def test_options_are_checked(options, message):
    with cw.open(SQL, SCHEMAS) as join, pytest.raises(cw.InputError, match=message):
        join.feeder(print, **options)


def test_deliver_must_be_callable():
    with cw.open(SQL, SCHEMAS) as join, pytest.raises(cw.InputError, match="deliver got int"):
        join.feeder(7)


def test_a_closed_join_has_no_feeder():
    join = cw.open(SQL, SCHEMAS)
    join.close()
    with pytest.raises(cw.ClosedJoinError):
        join.feeder(print)


# -- unit blocks (CellJoin, section 4.2.2) ------------------------------------------------------------


def test_whole_unit_blocks_are_taken_and_streams_with_less_are_skipped():
    backlog = Backlog(limit=8, unit_block=4)
    for x in range(3):
        backlog.put("R", one(x))
    assert backlog.take() is None
    assert len(backlog) == 3
    for x in range(6):
        backlog.put("S", one(x))
    taken = backlog.take()
    assert (taken.stream, taken.batch.column("x").to_pylist()) == ("S", [0, 1, 2, 3])
    assert backlog.take() is None  # three of R, two of S
    for x in range(3, 14):
        backlog.put("R", one(x))
    assert [len(backlog.take()) for _ in range(1)] == [8]  # l = 2 blocks
    assert backlog.take().batch.column("x").to_pylist() == [8, 9, 10, 11]
    assert backlog.take() is None
    assert [len(backlog.take(rest=True)) for _ in range(2)] == [2, 2]
    assert not backlog
    assert backlog.take(rest=True) is None


def test_a_watermark_does_not_wait_for_a_unit_block():
    backlog = Backlog(limit=8, unit_block=4)
    backlog.put("R", one(1))
    backlog.advance("R", 7)
    backlog.put("R", one(2))
    assert len(backlog.take()) == 1
    assert backlog.take().watermark == 7
    assert backlog.take() is None
    assert len(backlog) == 1


@pytest.mark.parametrize("block", [0, -1, 9])
def test_a_unit_block_that_cannot_be_is_refused(block):
    with pytest.raises(cw.InputError, match="a number of tuples from 1 to the limit"):
        Backlog(limit=8, unit_block=block)
