"""The parallel engines: who does what, that nothing is lost whatever the scheduling, and that nothing hangs."""

from __future__ import annotations

import gc
import os
import random
import re
import subprocess
import sys
import threading
import time
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest

import crosswind as cw
from crosswind.engine.parallel import placement
from crosswind.engine.parallel.cell import Partition, Staff
from crosswind.engine.parallel.handshake.engine import Handshake
from crosswind.engine.parallel.placement import cores_in_order
from tests import seeds
from tests.conftest import EngineConfig
from tests.waiting import wait_until

SQL = "SELECT R.x, S.a FROM R [RANGE 40], S [RANGE 60] WHERE abs(R.x - S.a) <= 3"
PAIRWISE = "SELECT R.x, S.a FROM R [RANGE 40], S [RANGE 60] WHERE (R.x * S.a) % 7 = 3"
SCHEMAS = {
    "R": pa.schema([("x", pa.int32()), ("ts", pa.int64())]),
    "S": pa.schema([("a", pa.int32()), ("ts", pa.int64())]),
}
STARTS = int(os.environ.get("CROSSWIND_STARTS", "40"))
"""Starts, stops and kills in a row."""


def streams(count=600, seed=5):
    rng = seeds.numbers(seed)
    times = {name: np.sort(rng.integers(0, count // 2, count)) for name in "RS"}
    values = {name: rng.integers(0, 50, count).astype(np.int32) for name in "RS"}
    return {
        "R": pa.table({"x": values["R"], "ts": times["R"]}, schema=SCHEMAS["R"]),
        "S": pa.table({"a": values["S"], "ts": times["S"]}, schema=SCHEMAS["S"]),
    }


def rows(table):
    return sorted(tuple(row.values()) for row in table.to_pylist())


def drive(join, tables, seed=1, finish=True):
    """Push the tables in turns of random size; return all results."""
    rng = seeds.chance(seed)
    at, parts = dict.fromkeys(tables, 0), []
    while any(at[name] < table.num_rows for name, table in tables.items()):
        for name, table in tables.items():
            size = rng.choice([1, 2, 17, 60])
            if at[name] < table.num_rows:
                parts.append(join.push(name, table.slice(at[name], size)))
                at[name] += size
    if finish:
        parts.append(join.finish())
    return pa.concat_tables(parts)


def delay(join, microseconds):
    """Let every worker sleep at random, up to that long, before it does anything."""
    if isinstance(join._strategy, Handshake):
        for seat in join._strategy._crew.seats:
            seat["delay"] = microseconds
    elif join._strategy.pool is not None:
        chance = random.Random(microseconds)
        join._strategy.pool.before_task = lambda: time.sleep(chance.random() * microseconds / 1e6)


def kill(join):
    """Let a worker fail at whatever it gets next."""
    if isinstance(join._strategy, Handshake):
        join._strategy._crew.send(0, 9, 0)
    elif join._strategy.pool is not None:
        join._strategy.pool.before_task = _fail


def _fail():
    raise MemoryError("no room for a worker")


def own_threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("crosswind-")]


@pytest.fixture(autouse=True)
def _no_thread_survives():
    yield
    gc.collect()
    wait_until(lambda: not own_threads(), "the end of all threads", every=0.01)


# -- who does what ---------------------------------------------------------------


def test_the_partition_of_figure_5():
    """CellJoin, figure 5: six basic windows and four workers; one comes, then the oldest goes."""
    partition = Partition(4)
    partition.resize(6)
    assert (partition.counts, partition.starts) == ([2, 2, 1, 1], [0, 2, 4, 5])
    assert partition.add() == 2  # the third worker gets it
    assert (partition.counts, partition.starts) == ([2, 2, 2, 1], [0, 2, 4, 6])
    assert partition.remove() == 2  # and loses it again
    assert (partition.counts, partition.starts) == ([2, 2, 1, 1], [0, 2, 4, 5])


@pytest.mark.parametrize("workers", [1, 2, 3, 8])
def test_shares_are_those_of_equation_2(workers):
    rng = seeds.chance(workers)
    partition = Partition(workers)
    for _ in range(300):
        if partition.total and rng.random() < 0.45:
            partition.remove()
        else:
            partition.add()
        least, more = divmod(partition.total, workers)
        assert partition.counts == [least + (j < more) for j in range(workers)]
        shares = [partition.share(j) for j in reversed(range(workers))]
        assert [a for a, _ in shares] == [0, *(b for _, b in shares[:-1])]  # consecutive, from the oldest on
        assert shares[-1][1] == partition.total


def test_workers_come_and_go_with_the_load():
    staff = Staff(3, adaptive=True)
    staff._began = staff._entered = 0.0
    seen = []
    for load in [0.9, 0.9, 0.9, 0.5, 0.2, 0.2]:
        began = staff._began
        staff._entered = began + 0.3 * (1 - load)
        staff.review(began + 0.3)
        seen.append(staff.active)
    assert seen == [2, 3, 3, 3, 2, 1]
    steady = Staff(3, adaptive=False)
    steady._entered = steady._began = 0.0
    steady.review(10.0)
    assert steady.active == 3


def test_workers_are_placed_along_the_memory(tmp_path):
    """Two nodes of two cores with two threads each: neighbours in the row share a node, second threads come last."""
    for core in range(8):
        topology = tmp_path / f"cpu/cpu{core}/topology"
        topology.mkdir(parents=True)
        (topology / "physical_package_id").write_text(f"{core % 2}\n")
        (topology / "core_id").write_text(f"{core % 4 // 2}\n")
    for node, listed in enumerate(("0,2,4,6", "1,3,5,7")):
        (tmp_path / f"node/node{node}").mkdir(parents=True)
        (tmp_path / f"node/node{node}/cpulist").write_text(f"{listed}\n")
    assert cores_in_order(frozenset(range(8)), tmp_path) == [0, 2, 1, 3, 4, 6, 5, 7]
    assert cores_in_order(frozenset({7, 6, 1}), tmp_path) == [6, 1, 7]
    (tmp_path / "node/node0/cpulist").write_text("0-6\n")
    assert cores_in_order(frozenset(range(4)), tmp_path / "nothing") == [0, 1, 2, 3]


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system pins no threads")
@pytest.mark.parametrize("engine", ["cell", "handshake"])
def test_workers_are_pinned_if_that_is_asked_for(engine, monkeypatch):
    pinned = []
    monkeypatch.setenv("CROSSWIND_PIN_WORKERS", "1")
    placement._chosen.cache_clear()
    monkeypatch.setattr(os, "sched_setaffinity", lambda who, cores: pinned.append((who, cores)))
    tables = streams(300)
    with EngineConfig(engine, "scan", 2, "push", 4).open(PAIRWISE, SCHEMAS) as join:
        found = rows(drive(join, tables))
    placement._chosen.cache_clear()
    assert pinned
    assert {who for who, _ in pinned} == {0}, "each worker pins itself"
    assert found == rows(cw.run(PAIRWISE, tables, engine="kang"))


# -- the same rows, whatever the scheduling ---------------------------------------


@pytest.mark.parametrize("workers", [1, 2, 3, 7, 64])
@pytest.mark.parametrize("engine", ["cell", "grid", "handshake", "hurried", "split"])
def test_many_workers_and_delays_change_nothing(engine, workers):
    tables = streams(600 if workers < 64 else 150)
    expected = rows(cw.run(SQL, tables, engine="kang"))
    name, hurry = ("handshake", True) if engine == "hurried" else (engine, False)
    config = EngineConfig(name, "auto", workers, "push", 16, hurry=hurry)
    with config.open(SQL, SCHEMAS) as join:
        delay(join, 300 if workers < 64 else 50)
        assert rows(drive(join, tables)) == expected


@pytest.mark.parametrize("engine", ["cell", "grid"])
def test_portions_of_a_share_do_not_overlap(engine, monkeypatch):
    """A share of many portions: who is done takes the next one, and no basic window is looked through twice."""
    monkeypatch.setattr("crosswind.engine.parallel.pool.PORTION_MIN", 2)
    tables = streams(600)
    expected = rows(cw.run(PAIRWISE, tables, engine="kang"))
    with EngineConfig(engine, "scan", 2, "push", 4).open(PAIRWISE, SCHEMAS) as join:
        delay(join, 100)
        assert rows(drive(join, tables)) == expected


@pytest.mark.parametrize("seed", range(6))
def test_a_handshake_meets_everybody_once(seed):
    """Pair by pair, with delays and other batches each time; a doubled row would show in the sorted lists."""
    tables = streams(400, seed)
    expected = rows(cw.run(PAIRWISE, tables, engine="kang"))
    config = EngineConfig("handshake", "scan", 2 + seed, "push", 8)
    with config.open(PAIRWISE, SCHEMAS) as join:
        delay(join, 100 * seed)
        assert rows(drive(join, tables, seed)) == expected


def test_results_that_outnumber_the_input_a_thousandfold_all_come():
    sql = "SELECT R.x, S.a FROM R [RANGE 100000], S [RANGE 100000] WHERE R.x >= S.a - 1000"
    tables = streams(2000)
    for engine in ("cell", "grid", "handshake"):
        with cw.open(sql, SCHEMAS, engine=engine, workers=2) as join:
            assert drive(join, tables).num_rows == 2000 * 2000


@pytest.mark.parametrize("caller_s", [0, 0.005], ids=["prompt", "slow"])
@pytest.mark.parametrize("engine", ["cell", "grid"])
def test_results_leave_while_workers_are_still_searching(engine, caller_s, monkeypatch):
    """Workers hand over results that are many; a caller that lags behind makes them wait, not lose any."""
    monkeypatch.setattr("crosswind.engine.probe.tree._RESULTS", 4_000)
    monkeypatch.setattr("crosswind.engine.parallel.pool._HANDED_OVER", 1)
    tables = streams(600)
    expected = rows(cw.run(ALL, tables, engine="kang"))
    with EngineConfig(engine, "scan", 2, "push", 4).open(ALL, SCHEMAS) as join:
        join.push("R", tables["R"])
        strategy = join._strategy
        strategy.pool.share_all()
        real, yielded = strategy.combine, []

        def combine(*of):
            for found in real(*of):
                yielded.append(found.count)
                time.sleep(caller_s)
                yield found

        with patch.object(strategy, "combine", combine):
            parts = [join.push("S", tables["S"]), join.finish()]
        assert len(yielded) > 10
        assert rows(pa.concat_tables(parts)) == expected


@pytest.mark.parametrize("then", ["kang", "cell", "grid", "handshake"])
def test_a_handshake_owes_nothing_after_a_snapshot(then):
    tables = streams()
    expected = rows(cw.run(SQL, tables, engine="kang"))
    half = {name: table.slice(0, 300) for name, table in tables.items()}
    rest = {name: table.slice(300) for name, table in tables.items()}
    with EngineConfig("handshake", "auto", 4, "push", 16).open(SQL, SCHEMAS, lateness=400) as join:
        first = drive(join, half, finish=False)
        snapshot = join.snapshot()
        # It goes on, too: whoever has met before does not meet again.
        assert rows(pa.concat_tables([first, drive(join, rest)])) == expected
    with EngineConfig(then, "auto", None if then == "kang" else 3, "push", 16).open(
        SQL, SCHEMAS, lateness=400, restore=snapshot
    ) as join:
        assert rows(pa.concat_tables([first, drive(join, rest)])) == expected


@pytest.mark.parametrize("workers", [2, 5, 8])
def test_snapshots_on_the_way_double_nothing(workers):
    tables = streams()
    expected = rows(cw.run(SQL, tables, engine="kang"))
    parts = []
    with EngineConfig("handshake", "scan", workers, "push", 16).open(SQL, SCHEMAS) as join:
        delay(join, 50)
        for start in range(0, 600, 50):
            some = {name: table.slice(start, 50) for name, table in tables.items()}
            parts.append(drive(join, some, start, finish=False))
            join.snapshot()
        parts.append(join.finish())
    assert rows(pa.concat_tables(parts)) == expected


# -- admission -------------------------------------------------------------------

ALL = "SELECT R.x, S.a FROM R [RANGE 1000000], S [RANGE 1000000] WHERE R.x >= S.a - 1000"


@pytest.mark.parametrize("engine", ["kang", "cell", "grid", "handshake", "hurried"])
def test_shedding_drops_input_and_never_results(engine):
    """Everything matches, so every tuple of S that was admitted has all of R in its results."""
    tables = streams(3000)
    name, hurry = ("handshake", True) if engine == "hurried" else (engine, False)
    workers = None if name == "kang" else 2
    with cw.open(
        ALL, SCHEMAS, engine=name, workers=workers, hurry=hurry, admission="shed", output_rows=100_000
    ) as join:
        assert join.push("R", tables["R"].slice(0, 1000)).num_rows == 0
        for start in (0, 1000, 2000):
            before = join.stats
            found = join.push("S", tables["S"].slice(start, 1000)).num_rows
            taken = join.stats.tuples_in["S"] - before.tuples_in["S"]
            shed = join.stats.shed["S"] - before.shed["S"]
            assert taken + shed == 1000
            assert found == 1000 * taken
            assert 80_000 <= found <= 110_000
        assert join.stats.shed["R"] == 0
        assert join.stats.results == 1000 * join.stats.tuples_in["S"]


def test_a_sample_is_shed_not_the_end_of_the_batch():
    with cw.open(ALL, SCHEMAS, admission="shed", output_rows=10_000) as join:
        join.push("R", {"x": np.zeros(100, np.int32), "ts": np.zeros(100, np.int64)})
        numbers = np.arange(1000)
        found = join.push("S", {"a": numbers.astype(np.int32) - 1000, "ts": np.zeros(1000, np.int64)})
        admitted = set(found["a"].to_pylist())
        assert 80 <= len(admitted) == join.stats.tuples_in["S"] <= 110
        assert min(admitted) < -900 < -100 < max(admitted)


def test_shedding_is_taken_back_with_a_call_that_fails_and_survives_a_snapshot():
    tables = streams(2000)
    with cw.open(ALL, SCHEMAS, admission="shed", output_rows=50_000) as join:
        join.push("R", tables["R"].slice(0, 500))
        with (
            patch.object(type(join._materialisers[0]), "table", side_effect=MemoryError("no room for rows")),
            pytest.raises(MemoryError),
        ):
            join.push("S", tables["S"])
        assert join.stats.tuples_in["S"] == join.stats.shed["S"] == join.stats.window_tuples["S"] == 0
        join.push("S", tables["S"])
        shed = join.stats.shed
        assert shed["S"] > 1000
        snapshot = join.snapshot()
    with cw.open(ALL, SCHEMAS, restore=snapshot) as join:
        assert join.stats.shed == shed


def test_rows_windows_cannot_be_shed():
    """They are joined when watermarks have passed, too late to drop what has too many results."""
    sql = "SELECT R.x FROM R [ROWS 5], S [RANGE 5] WHERE R.x = S.a"
    with pytest.raises(cw.UnsupportedError, match=r"admission='shed' needs windows of time.*admission='block'"):
        cw.open(sql, SCHEMAS, admission="shed")


def test_blocking_takes_everything():
    tables = streams(2000)
    with cw.open(ALL, SCHEMAS, output_rows=10) as join:
        join.push("R", tables["R"].slice(0, 500))
        assert join.push("S", tables["S"]).num_rows == 500 * 2000
        assert join.stats.shed == {"R": 0, "S": 0}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"admission": "shedd"}, "admission='shedd' is not known; allowed: block, shed. Did you mean 'shed'"),
        ({"output_rows": 0}, "output_rows=0 is not possible.*at least 1"),
        ({"workers": 0}, "workers=0 is not possible; give a number from 1 to 256, or 'auto'"),
        ({"engine": "kang", "workers": 2}, "'kang' has one worker.*engine='cell'"),
        ({"engine": "cell", "layout": (2, 2)}, r"layout=\(2, 2\) is for engine='grid'"),
        ({"engine": "grid", "layout": (2, 0)}, "layout=.2, 0. is not possible; give .rows, columns."),
        ({"engine": "grid", "layout": (2, 2), "workers": 3}, "layout=2 x 2 has 4 workers, workers=3 was asked for"),
        ({"rate": -1}, "rate=-1 is not possible; give tuples/s as a positive number"),
    ],
)
def test_what_cannot_be_is_refused(options, message):
    with pytest.raises(cw.InputError, match=message):
        cw.open(SQL, SCHEMAS, **options)


MANY = "SELECT R.x, S.a, q.x AS y FROM R [RANGE 50], S [RANGE 50], R [RANGE 50] AS q WHERE R.x = S.a AND S.a < q.x"


@pytest.mark.parametrize("engine", ["cell", "grid", "handshake"])
def test_more_than_two_streams_are_shared_out(engine: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("crosswind.engine.parallel.pool.ALONE", 0)
    rng = seeds.chance(7)
    tables = {name: numbers(rng, name, 300) for name in ("R", "S")}
    expected = cw.run(MANY, tables, engine="kang")
    with cw.open(MANY, SCHEMAS, engine=engine, workers=4, basic_window=16) as join:
        parts = []
        for at in range(0, 300, 25):
            parts += [join.push(name, table.slice(at, 25)) for name, table in tables.items()]
        assert join.stats.engine == ("cell" if engine == "handshake" else engine)  # a handshake is between two
        shifts = join.stats.workers
    assert len(shifts) == 4
    assert all(shift.tasks for shift in shifts)
    assert sum(shift.matches for shift in shifts) == sum(part.num_rows for part in parts) > 0
    assert sorted(map(str, pa.concat_tables(parts).to_pylist())) == sorted(map(str, expected.to_pylist()))


def numbers(rng: random.Random, name: str, count: int) -> pa.Table:
    column = SCHEMAS[name].names[0]
    values = [rng.randrange(20) for _ in range(count)]
    return pa.table({column: values, "ts": range(count)}).cast(SCHEMAS[name])


def test_an_overflow_in_one_share_refuses_the_batch(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("crosswind.engine.parallel.pool.ALONE", 0)
    schemas = dict.fromkeys("RST", pa.schema({"x": pa.int64(), "ts": pa.int64()}))
    sql = "SELECT R.x FROM R [RANGE 50], S [RANGE 50], T [RANGE 50] WHERE R.x * S.x * T.x = 8"
    with cw.open(sql, schemas, engine="cell", workers=3, basic_window=2) as join:
        join.push("R", {"x": list(range(20)), "ts": range(20)})
        join.push("S", {"x": [2**40] * 2 + [1] * 18, "ts": range(20)})
        with pytest.raises(cw.ArithmeticOverflowError, match="The batch was not taken"):
            join.push("T", {"x": [2**40] * 8, "ts": range(8)})
        assert join.push("T", {"x": [1], "ts": [1]}).num_rows == 18


# -- the choice --------------------------------------------------------------------

TIMED = {
    "R": pa.schema([("x", pa.int32()), ("ts", pa.timestamp("ms"))]),
    "S": pa.schema([("a", pa.int32()), ("ts", pa.timestamp("ms"))]),
}
PAIRWISE_TIMED = "SELECT R.x FROM R [RANGE 5 MINUTES], S [RANGE 5 MINUTES] WHERE (R.x * S.a) % 7 = 3"
BAND_TIMED = "SELECT R.x FROM R [RANGE 5 MINUTES], S [RANGE 5 MINUTES] WHERE abs(R.x - S.a) <= 3"


@pytest.mark.parametrize(
    ("sql", "cores", "options", "expected"),
    [
        (BAND_TIMED, 8, {}, r"kang: .*\n +1 worker; an index leaves little to share out"),
        (BAND_TIMED, 8, {"workers": 4}, r"cell: .*\n +4 workers; workers were asked for"),
        (BAND_TIMED, 8, {"index": "scan"}, r"cell: .*\n +up to 8 workers; every key is compared"),
        (PAIRWISE_TIMED, 1, {}, r"kang: .*\n +1 worker; one core"),
        (PAIRWISE_TIMED, 2, {}, r"cell: .*\n +up to 2 workers; every pair is compared: as many"),
        (
            PAIRWISE_TIMED,
            8,
            {"rate": 10},
            r"kang: .*\n +1 worker; every pair is compared, 6e\+04 pairs/s.*one is enough",
        ),
        (PAIRWISE_TIMED, 8, {"rate": 5000}, r"cell: .*\n +up to 8 workers; every pair is compared, 1.5e\+10 pairs/s"),
        (PAIRWISE_TIMED, 8, {"rate": 5000, "hurry": True}, r"grid: .*\n +2 x 4 workers; .*results are wanted soon"),
        (BAND_TIMED, 8, {"engine": "grid"}, r"grid: .*\n +2 x 4 workers; asked for; layout: least mean latency"),
        (BAND_TIMED, 8, {"engine": "handshake"}, r"handshake: .*\n +8 workers; asked for; tuples meet when they pass"),
        (PAIRWISE_TIMED, 8, {"engine": "handshake"}, r"handshake: .*\n +8 workers; .*meet when they pass"),
        (
            BAND_TIMED,
            8,
            {"engine": "handshake", "hurry": True},
            r"handshake: .*\n +8 workers; .*hurried ahead: asked for",
        ),
        (
            BAND_TIMED.replace("S [RANGE 5 MINUTES]", "S [ROWS 9]"),
            8,
            {"engine": "handshake"},
            r"handshake: .*\n +8 workers; .*hurried ahead: ROWS windows",
        ),
    ],
)
def test_explain_says_which_engine_and_why(sql, cores, options, expected):
    with patch("crosswind.engine.choice.cores", return_value=cores):
        assert re.search(r"engine +" + expected, cw.explain(sql, TIMED, **options)), cw.explain(sql, TIMED, **options)


def test_auto_runs_what_explain_says():
    with patch("crosswind.engine.choice.cores", return_value=2), cw.open(PAIRWISE, SCHEMAS) as join:
        assert join.stats.engine == "cell"
        assert rows(drive(join, streams(300))) == rows(cw.run(PAIRWISE, streams(300), engine="kang"))


# -- nothing hangs -----------------------------------------------------------------


def test_a_worker_that_dies_stops_the_join_with_its_message():
    tables = streams()
    with EngineConfig("handshake", "scan", 2, "push", 16).open(SQL, SCHEMAS) as join:
        drive(join, {name: table.slice(0, 100) for name, table in tables.items()}, finish=False)
        kill(join)
        with pytest.raises(cw.WorkerError, match=r"worker 0 of engine 'handshake' stopped: .*unknown kind.*snapshot"):
            drive(join, {name: table.slice(100) for name, table in tables.items()})
        with pytest.raises(cw.WorkerError, match="cannot go on"):
            drive(join, {name: table.slice(599) for name, table in tables.items()})


@pytest.mark.parametrize("engine", ["cell", "grid"])
def test_a_worker_that_fails_takes_the_batch_back_and_the_join_goes_on(engine):
    tables = streams()
    expected = rows(cw.run(SQL, tables, engine="kang"))
    with EngineConfig(engine, "scan", 3, "push", 16).open(SQL, SCHEMAS) as join:
        found = [join.push("R", tables["R"].slice(0, 300)), join.push("S", tables["S"].slice(0, 300))]
        kill(join)
        with pytest.raises(MemoryError, match="no room for a worker"):
            join.push("S", tables["S"].slice(300))
        join._strategy.pool.before_task = None
        found += [join.push("R", tables["R"].slice(300)), join.push("S", tables["S"].slice(300)), join.finish()]
    assert rows(pa.concat_tables(found)) == expected


def test_a_worker_that_comes_late_finds_its_share_taken():
    """The caller steals all of it meanwhile."""
    tables = streams()
    expected = rows(cw.run(SQL, tables, engine="kang"))
    with EngineConfig("grid", "scan", 2, "push", 16).open(SQL, SCHEMAS, layout=(1, 2)) as join:
        late = threading.Event()
        caller = threading.get_ident()

        def wait_for_the_caller():
            if threading.get_ident() != caller:
                late.wait(0.05)

        join._strategy.pool.before_task = wait_for_the_caller
        assert rows(drive(join, tables)) == expected
        first, second = join.stats.workers
        assert first.matches > 20 * second.matches


def test_starts_stops_and_kills_leave_nothing():
    tables = {name: table.slice(0, 60) for name, table in streams().items()}
    rng = seeds.chance(7)
    for turn in range(STARTS):
        engine = rng.choice(["cell", "grid", "handshake"])
        join = EngineConfig(engine, "scan", rng.randint(1, 6), "push", 8).open(SQL, SCHEMAS)
        fate = rng.choice(["finish", "close", "kill", "forget"])
        try:
            drive(join, tables, turn, finish=fate == "finish")
            if fate == "kill":
                kill(join)
                drive(join, {name: table.slice(59) for name, table in tables.items()}, turn)
        except (cw.WorkerError, MemoryError):
            assert fate == "kill"
        if fate != "forget":
            join.close()
        del join
    gc.collect()  # then no thread is left, and nothing has waited for ever


def test_a_call_that_fails_halfway_can_be_repeated(live):
    tables = streams()
    expected = rows(cw.run(SQL, tables, engine="kang"))
    with live.open(SQL, SCHEMAS) as join:
        parts = [drive(join, {name: table.slice(0, 300) for name, table in tables.items()}, finish=False)]
        batch = tables["S"].slice(300, 200)
        with (
            patch.object(type(join._materialisers[0]), "put_job", side_effect=MemoryError("no room for rows")),
            pytest.raises(MemoryError, match="no room"),
        ):
            join.push("S", batch)
        parts += [join.push("S", batch), join.push("R", tables["R"].slice(300)), join.push("S", tables["S"].slice(500))]
        parts.append(join.finish())
        assert rows(pa.concat_tables(parts)) == expected


INTERRUPTED = """
import os, signal, threading, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # shells let what runs in the background ignore it
import numpy as np, pyarrow as pa, crosswind as cw
schemas = {s: pa.schema([("x", pa.int32()), ("ts", pa.int64())]) for s in "RS"}
batch = {"x": np.arange(2_000_000, dtype=np.int32) * 7 % 9973, "ts": np.zeros(2_000_000, dtype=np.int64)}
few = {"x": batch["x"][:100], "ts": batch["ts"][:100]}
sql = "SELECT R.x FROM R [RANGE 9], S [RANGE 9] WHERE (R.x * S.x) % 65521 = -1"
def interrupt(begun):
    while time.process_time() - begun < 0.5:  # until workers are at it
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGINT)

with cw.open(sql, schemas, engine="ENGINE", workers=2) as join:
    join.push("R", few), join.push("S", few), join.push("R", batch)
    try:  # that many pairs take minutes
        many = {name: np.resize(column, 100_000) for name, column in batch.items()}
        threading.Thread(target=interrupt, args=(time.process_time(),), daemon=True).start()
        join.push("S", many)
        print("not interrupted")
    except KeyboardInterrupt:
        print("interrupted", join.stats.tuples_in["S"])
    join.push("S", few)
print("left", [t.name for t in threading.enumerate()])
print("as before", signal.getsignal(signal.SIGINT) is signal.default_int_handler)
"""


@pytest.mark.parametrize("engine", ["cell", "grid"])
@pytest.mark.parametrize("more", [False, True], ids=["two streams", "three"])
def test_ctrl_c_is_heard(engine, more):
    code = INTERRUPTED.replace("ENGINE", engine)
    if more:  # the third is the first again: a product of both windows is searched pair by pair
        code = code.replace("S [RANGE 9] WHERE (R.x * S.x)", "S [RANGE 9], R [RANGE 9] AS q WHERE (R.x * S.x + q.x)")
        code = code.replace("2_000_000", "2_000")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines() == ["interrupted 100", "left ['MainThread']", "as before True"]


def test_a_program_may_end_with_joins_open():
    code = INTERRUPTED.split("with cw.open")[0] + (
        "join = cw.open(sql, schemas, engine='cell', workers=2)\n"
        "join.push('R', batch), join.push('S', {k: v[:200] for k, v in batch.items()})\n"
        "assert len(threading.enumerate()) == 2\nprint('end')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=280, check=False)
    assert (done.returncode, done.stdout) == (0, "end\n"), done.stderr[-2000:]


def at_rest(seconds: float) -> bool:
    """Whether this process does next to nothing for some time."""
    spent = time.process_time()
    time.sleep(seconds)
    return time.process_time() - spent < seconds / 5


def test_idle_workers_sleep():
    with EngineConfig("cell", "scan", 8, "push", 16).open(SQL, SCHEMAS) as join:
        drive(join, {name: table.slice(0, 50) for name, table in streams().items()}, finish=False)
        wait_until(lambda: at_rest(0.5), "workers that rest")
