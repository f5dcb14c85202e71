"""The state of cells: manifests, compaction, expiry, caches, and counters that count once."""

from __future__ import annotations

import dataclasses
import json
import random
from types import SimpleNamespace

import pyarrow as pa
import pytest

import crosswind as cw
from crosswind.io.blocks import concat_batches, read_block, write_block
from crosswind.io.checksum import seal, unseal
from crosswind.spark.cache import CachedJoin, JoinCache
from crosswind.spark.cell import Cell, CellInput, Report
from crosswind.spark.pack import Pack
from crosswind.spark.partition import cell_keys
from crosswind.spark.progress import _GAUGES, _OF_CELL, _SUMMED, CellProgress, Progress, progress_of
from crosswind.spark.session import check_operator
from crosswind.spark.state import BlockEntry, Manifest, compaction
from crosswind.window import arrival
from crosswind.window.arrival import Order
from tests import seeds
from tests.oracle import Join, Output, Role, Window, assert_same, expected_rows
from tests.spark.cells import BAND, CROSS, SCHEMAS, batch, feed, pairs
from tests.spark.simulation import CALM, DictStore, Simulation, Trouble, join_simulated, make_spec

# ---------------------------------------------------------------------------------- the manifest


def test_a_manifest_comes_back_as_it_was():
    manifest = Manifest(
        "identity", "about ä", "origin", watermark=-5, timer=7, order=Order((5, 0), (3, 0), (-9, None), ((2,), ()))
    )
    manifest.blocks = [BlockEntry("0-1-2", 0, 1, 2, 10, 100, -(2**63), 2**63 - 1, ((1, 4), (2, 10)), "c0ffee")]
    manifest.next_version("first")
    again = Manifest.from_bytes(manifest.to_bytes())
    assert again == manifest
    assert again.nbytes == 100
    assert Manifest.from_bytes(Manifest("i", "a", "o").to_bytes()).watermark is None


def test_the_history_of_a_manifest_is_bounded():
    manifest = Manifest("identity", "about", "origin")
    for number in range(1000):
        manifest.next_version(f"v{number}")
    assert manifest.version == 1000
    assert manifest.history[-1] == "v999"
    assert len(manifest.history) <= 64
    assert len(manifest.to_bytes()) < 2000


def test_the_state_of_another_version_is_refused():
    data = Manifest("i", "a", "o").to_bytes()
    newer = seal(99, unseal(data, 4))
    older = json.dumps({"format": 1, **unseal(data, 4)}).encode()
    for other, found in ((newer, 99), (older, 1)):
        words = rf"another version of Crosswind, in format {found} \(this one reads format 4\).*new checkpointLocation"
        with pytest.raises(cw.SnapshotError, match=words):
            Manifest.from_bytes(other)


@pytest.mark.parametrize("spread", [False, True], ids=["alike", "mixed"])
@pytest.mark.parametrize("mean", [100, 5_000, 100_000])
def test_compaction_keeps_few_blocks_and_rewrites_little(mean, spread):
    blocks: list[BlockEntry] = []
    rng = seeds.chance(f"{mean}")
    total = 2_000
    sizes = [rng.choice([mean // 50, mean, 4 * mean]) if spread else mean for _ in range(total)]
    rewritten, size = 0, sum(sizes) / total
    for version, length in enumerate(sizes):
        blocks.append(BlockEntry(f"0-{version}-{version}", 0, version, version, 10, length, 0, version))
        small = compaction(blocks, 0)
        if small:
            assert [entry.first for entry in small[1:]] == [entry.last + 1 for entry in small[:-1]]
            blocks = [entry for entry in blocks if entry not in small]
            merged = sum(entry.size for entry in small)
            rewritten += merged
            blocks.append(BlockEntry("m", 0, small[0].first, small[-1].last, 0, merged, 0, 0))
        assert compaction(blocks, 1) == []
    assert sum(entry.size for entry in blocks) == sum(sizes)
    tiny = (1 << 15) * total / 7
    assert rewritten <= 5 * total * size + tiny, "a tuple is rewritten a logarithmic number of times"
    large = total * size / (1 << 20)
    assert len(blocks) <= 40 + large, f"{len(blocks)} blocks for {large:.0f} MB"


def test_blocks_of_bytes_come_back_as_they_were():
    one, two = batch((1, 1), (2, None)).to_batches()[0], batch((3, 3)).to_batches()[0]
    assert read_block(write_block(one)).equals(one)
    assert concat_batches([one, two]).to_pylist() == one.to_pylist() + two.to_pylist()


# ---------------------------------------------------------------------------------- the cache


def test_the_cache_is_bounded_and_drops_the_least_recently_used():
    class Held:
        closed = False

        def close(self) -> None:
            self.closed = True

    joins = [Held() for _ in range(4)]
    cache = JoinCache()
    for number, join in enumerate(joins[:3]):
        cache.put(f"o{number}", CachedJoin(join, 1, "v", 100), 300)
    entry = cache.take("o0")
    assert entry is not None
    cache.put("o0", entry, 300)
    cache.put("o3", CachedJoin(joins[3], 1, "v", 100), 300)
    assert (len(cache), cache.nbytes) == (3, 300)
    assert [join.closed for join in joins] == [False, True, False, False]
    cache.put("o4", CachedJoin(Held(), 1, "v", 1000), 300)
    assert len(cache) == 0, "one that is larger than the limit is not kept either"


def test_a_stale_copy_catches_up_and_a_foreign_one_is_dropped():
    spec, store = make_spec(CROSS, SCHEMAS), DictStore()
    here, there = JoinCache(), JoinCache()
    feed(Cell(spec, store, here), R=batch((1, 1)))
    fork = DictStore(store.content)
    feed(Cell(spec, fork, here), R=batch((66, 1)))  # an attempt here that is never committed
    assert feed(Cell(spec, store, there), R=batch((2, 2)))[1].cache_misses == 1
    found, report = feed(Cell(spec, store, here), S=batch((9, 3)))
    assert found == [(1, 9), (2, 9)], "the windows of the lost attempt are not believed"
    assert report.cache_misses == 1
    found, report = feed(Cell(spec, store, there), S=batch((10, 3)))
    assert found == [(1, 10), (2, 10)]
    assert (report.cache_hits, report.blocks_read) == (1, 1), "only what came in between is read"
    found, report = feed(Cell(spec, store, there), R=batch((3, 3)))
    assert found == [(3, 9), (3, 10)]
    assert (report.cache_hits, report.blocks_read) == (1, 0)


def test_a_stale_copy_catches_up_across_compactions():
    spec, store = make_spec(CROSS, SCHEMAS), DictStore()
    here, there = JoinCache(), JoinCache()
    feed(Cell(spec, store, here), R=batch((1, 1)))
    for k in range(2, 60):
        _, report = feed(Cell(spec, store, here if k % 10 == 0 else there), R=batch((k, k)))
        assert (report.cache_misses == 0) == (k != 2), "blocks that were put together are read from where it is behind"
    merged = [entry for entry in Manifest.from_bytes(store.read_manifest()).blocks if entry.marks]
    assert merged
    assert all(entry.marks[-1] == (entry.last, entry.tuples) for entry in merged)
    for cache in (here, there):
        found, report = feed(Cell(spec, store, cache), S=batch((61, 59)))
        assert report.cache_hits == 1
        assert found == [(k, 61) for k in range(50, 60)]


def test_nothing_is_written_before_all_results_are_taken():
    spec, store = make_spec(CROSS, SCHEMAS), DictStore()
    cache = JoinCache()
    feed(Cell(spec, store, cache), R=batch((1, 1)))
    before = dict(store.content)
    task = Cell(spec, store, cache).process([CellInput(1, True, batch((9, 1)).to_batches()[0])], 0, Report())
    next(task)
    task.close()
    assert store.content == before
    assert len(cache) == 0, "a join that was left half-way is not used again"


def test_lost_state_is_noticed_by_the_cell_that_hears_of_everything():
    spec = make_spec(BAND, SCHEMAS, layout="range", cells=2)
    with pytest.raises(cw.SnapshotError, match="first cell of this join finds no state"):
        feed(Cell(spec, DictStore(), JoinCache(), hears_all=True), 109, R=batch((1, 200)))
    feed(Cell(spec, DictStore(), JoinCache(), 1), 109, R=batch((1, 200)))  # others may hear of something late
    store = DictStore()
    feed(Cell(spec, store, JoinCache(), hears_all=True), R=batch((1, 1)))
    feed(Cell(spec, store, JoinCache(), hears_all=True), 109, R=batch((1, 200)))


def test_state_of_another_join_is_refused():
    store = DictStore()
    feed(Cell(make_spec(BAND, SCHEMAS, layout="range", cells=2), store, JoinCache()), R=batch((1, 1)))
    for other in (
        make_spec(BAND, SCHEMAS, layout="range", cells=3),
        make_spec(BAND, SCHEMAS, layout="grid", cells=2),
        make_spec(CROSS, SCHEMAS, layout="grid", cells=2),
    ):
        with pytest.raises(cw.SnapshotError) as caught:
            feed(Cell(other, store, JoinCache()), R=batch((1, 1)))
        told = str(caught.value)
        assert "checkpoint belongs to another join" in told
        assert "range layout, 2 cells" in told
        assert "new checkpointLocation" in told
    same = make_spec(BAND.replace(" ", "\n  "), SCHEMAS, layout="range", cells=2, index="scan", cache_bytes=5)
    feed(Cell(same, store, JoinCache()), R=batch((1, 1)))


def test_state_of_another_layout_is_refused_whichever_cell_comes_first():
    before = Simulation(make_spec(BAND, SCHEMAS, layout="range", cells=2), seeds.chance(1), CALM)
    before.batch({"R": batch((1, 1)), "S": batch((1, 1))})
    for x in range(0, 2000, 50):
        after = Simulation(make_spec(BAND, SCHEMAS, layout="range", cells=5), seeds.chance(1), CALM)
        after.now = before.now
        with pytest.raises(cw.SnapshotError, match="another join"):
            after.batch({"R": batch((x, 2))})


# ---------------------------------------------------------------------------------- exact, whatever happens


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("cache_bytes", [0, 1 << 30], ids=["no cache", "cache"])
@pytest.mark.parametrize(("layout", "cells"), [("range", 3), ((2, 2), None)], ids=str)
def test_long_runs_with_failures_are_exact(layout, cells, cache_bytes, seed):
    rng = seeds.chance(f"long {layout} {seed}")
    rounds, per_round = 80, 8
    streams = {
        name: [
            batch(
                *((rng.randint(0, 30), rng.randint(max(0, 3 * k - 6), 3 * k)) for _ in range(rng.randint(0, per_round)))
            )
            for k in range(rounds)
        ]
        for name in ("R", "S")
    }
    sql = (
        "SELECT R.x, R.ts AS p, S.x AS a, S.ts AS q FROM R [RANGE 10], S [RANGE 25 INCLUSIVE] WHERE abs(R.x - S.x) <= 3"
    )
    spec = make_spec(sql, SCHEMAS, layout=layout, cells=cells, lateness=6, cache_bytes=cache_bytes)
    done = join_simulated(spec, streams, rng, Trouble())
    tables = {name: pa.concat_tables(parts) for name, parts in streams.items()}
    outputs = [Output("x", 0, "x"), Output("p", 0, "ts"), Output("a", 1, "x"), Output("q", 1, "ts")]
    roles = (Role("R", "R", Window("range", 10)), Role("S", "S", Window("range", 25, True)))
    expected = expected_rows(Join(roles, tables, "abs(R.x - S.x) <= 3", tuple(outputs)))
    assert len(expected) > 500
    assert_same(expected, done.table(), f"seed {seed}")
    assert done.total("tuples") == sum(table.num_rows for table in tables.values())
    assert done.total("late") == 0
    blocks = [len(Manifest.from_bytes(state["manifest"]).blocks) for state in done.now.states.values()]
    assert max(blocks) < 30, "compaction and expiry keep the number of blocks small"


def test_state_is_released_behind_the_watermark_without_new_tuples():
    spec = make_spec(CROSS, SCHEMAS, layout=(2, 2))
    simulation = Simulation(spec, seeds.chance(1), CALM)
    simulation.batch({"R": batch(*((k, k) for k in range(50))), "S": batch(*((k, k) for k in range(50)))})
    simulation.batch({"R": batch((1, 1000)), "S": batch((1, 1000))})
    simulation.settle()
    for state in simulation.now.states.values():
        manifest = Manifest.from_bytes(state["manifest"])
        assert sum(entry.tuples for entry in manifest.blocks) <= 2
        assert {f"block {entry.name}" for entry in manifest.blocks} == set(state) - {"manifest"}


def test_a_block_stays_until_its_last_tuple_can_meet_nothing():
    """R waits 10 ms: a tuple of 100 can be met up to 109, so its block goes, and its timer is due, at 110."""
    spec, store, cache = make_spec(CROSS, SCHEMAS), DictStore(), JoinCache()
    cell = Cell(spec, store, cache)
    feed(cell, R=batch((1, 100)))
    assert cell.timer == 110
    feed(Cell(spec, store, cache), 109, S=batch((7, 500)))
    assert sorted(e.unit for e in Manifest.from_bytes(store.read_manifest()).blocks) == [0, 1]
    found, _ = feed(Cell(spec, store, JoinCache()), 109, S=batch((9, 109)))
    assert found == [(1, 9)], "also for a worker that has to read the state"
    feed(Cell(spec, store, cache), 110, S=batch((8, 501)))
    assert {e.unit for e in Manifest.from_bytes(store.read_manifest()).blocks} == {1}


def test_of_rows_windows_only_tuples_that_still_count_are_kept():
    spec, store, cache = make_spec(CROSS.replace("RANGE 10", "ROWS 300"), SCHEMAS), DictStore(), JoinCache()
    for k in range(60):
        rows = batch(*((n, 10 * k + n // 10) for n in range(100)))
        feed(Cell(spec, store, cache), 10 * k, R=rows, S=rows)
        manifest = Manifest.from_bytes(store.read_manifest())
        assert {f"block {entry.name}" for entry in manifest.blocks} == set(store.content) - {"manifest"}
    kept = sum(entry.tuples for entry in manifest.blocks if entry.unit == 0)
    assert 400 <= kept < 2400, "300 that count, 100 that are held, those in blocks with them"
    assert manifest.order.counts[0] - manifest.order.firsts[0] < 300 + 2 * 256


def test_the_watermark_is_rounded_up_to_whole_ticks():
    """Spark counts in milliseconds: with times in seconds, what is older than 1.5 s is older than 2 s."""
    schema = pa.schema([("x", pa.int64()), ("ts", pa.timestamp("s"))])
    sql = CROSS.replace("RANGE 10", "RANGE 10 SECONDS")
    spec = make_spec(sql, {"R": schema, "S": schema}, lateness="1 second")
    assert [spec.watermark(ms) for ms in (1, 1000, 1001, 1500, 2000)] == [1, 1, 2, 2, 2]
    assert spec.watermark(0) == -(2**63)
    assert (spec.milliseconds(3), spec.delay(0)) == (3000, "1000 milliseconds")


def test_a_stream_that_is_filtered_away_does_not_stop_expiry():
    sql = "SELECT R.x, S.x AS a FROM R [RANGE 10], S [RANGE 10] WHERE S.x > 100"
    simulation = Simulation(make_spec(sql, SCHEMAS, cells=2), seeds.chance(1), CALM)
    for start in range(0, 2000, 100):
        simulation.batch({name: batch(*((k % 50, k) for k in range(start, start + 100))) for name in ("R", "S")})
    simulation.settle()
    held = [Manifest.from_bytes(state["manifest"]) for state in simulation.now.states.values()]
    assert sum(entry.tuples for manifest in held for entry in manifest.blocks) <= 2 * 200


def test_results_of_range_windows_do_not_wait_for_an_idle_stream():
    simulation = Simulation(make_spec(CROSS, SCHEMAS, lateness=1000), seeds.chance(1), CALM)
    simulation.batch({"S": batch((9, 50))})
    simulation.batch({"R": batch((1, 45))})
    assert pairs(simulation.table()) == [(1, 9)]
    for k in range(10):
        simulation.batch({"R": batch((k, 50 + k))})
    assert simulation.table().num_rows == 1 + 10


def test_late_tuples_are_counted_once_however_often_they_are_copied():
    for layout in ((1, 1), (2, 3), (4, 1)):
        simulation = Simulation(make_spec(CROSS, SCHEMAS, layout=layout), seeds.chance(1), Trouble())
        simulation.batch({"R": batch((1, 100)), "S": batch((1, 100))})
        simulation.batch({"R": batch((2, 99), (3, 100), (4, None)), "S": batch((5, 98), (6, None), (7, None))})
        simulation.settle()
        assert (simulation.total("late"), simulation.total("tuples"), simulation.rejected) == (2, 3, 3)
        assert pairs(simulation.table()) == [(1, 1), (3, 1)]


def test_rows_windows_hold_back_until_the_watermark():
    sql = "SELECT R.x, S.x AS a FROM R [ROWS 1], S [ROWS 1]"
    simulation = Simulation(make_spec(sql, SCHEMAS, lateness=5), seeds.chance(2), Trouble())
    simulation.batch({"R": batch((1, 1)), "S": batch((9, 4))})
    simulation.batch({"R": batch((2, 3))})
    assert simulation.table().num_rows == 0
    simulation.batch({"R": batch((3, 20)), "S": batch((10, 20))})
    simulation.settle()
    assert pairs(simulation.table()) == [(2, 9)]
    assert simulation.reports[-1].window_tuples > 0
    assert simulation.total("state_bytes") > 0, "what is held is state, too"


@pytest.mark.filterwarnings("ignore::crosswind.errors.OverflowWarning")
def test_tuples_that_overflow_after_they_were_taken_are_counted():
    sql = "SELECT R.x, S.x AS a FROM R [ROWS 5], S [ROWS 5] WHERE R.x * S.x > 0"
    simulation = Simulation(make_spec(sql, SCHEMAS, lateness=5), seeds.chance(2), CALM)
    simulation.batch({"R": batch((2**62, 1)), "S": batch((4, 2))})
    assert simulation.rejected == 0
    for at in (20, 40):
        simulation.batch({"R": batch((1, at)), "S": batch((1, at))})
    simulation.settle()
    assert simulation.rejected == 1
    assert simulation.table().num_rows > 0


# ---------------------------------------------------------------------------------- counters


def test_progress_adds_up_cells_and_all():
    cells = [tuple(CellProgress(**dict.fromkeys(names(CellProgress), k + n)) for n in range(2)) for k in range(2)]
    first, second = (
        Progress(**dict.fromkeys(names(Progress) - {"cells", "batch", "held"}, 3), batch=k, cells=cells[k])
        for k in range(2)
    )
    for total in (first + second, second + first):
        assert (total.batch, total.tuples, total.window_tuples, total.join_ms, total.batch_ms) == (1, 6, 3, 3, 6)
        assert total.cells == cells[1]


def observed(batch: int, cells: int, **of: tuple[int, int, int]) -> SimpleNamespace:
    """Return a progress as Spark has it; of each cell that reports: tuples, bytes, and how many more tuples."""
    row: dict[str, int | None] = dict.fromkeys(_SUMMED)
    numbers = {int(name[1:]): values for name, values in of.items()}
    if numbers:
        row |= {name: sum(values[k] for values in numbers.values()) for k, name in enumerate(_GAUGES[:2])}
        row["cache_bytes"] = 7
    if cells > 64:
        row |= {"window_change": None, "state_change": None}
        if numbers:
            row |= dict.fromkeys(("window_change", "state_change"), sum(values[2] for values in numbers.values()))
    else:
        for cell in range(cells):
            known = numbers.get(cell)
            named = {"window_tuples": 0, "state_bytes": 1}
            for name in _OF_CELL:
                row[f"{name}_{cell}"] = None if known is None else known[named[name]] if name in named else 0
    return SimpleNamespace(
        batchId=batch, batchDuration=5, observedMetrics={"crosswind_j": SimpleNamespace(asDict=lambda: row)}
    )


@pytest.mark.parametrize("cells", [3, 65])
def test_what_cells_hold_is_kept_in_mind_until_they_say_otherwise(cells):
    held = None
    expected = []
    for number, of in enumerate(
        [{"c0": (5, 50, 5), "c2": (7, 70, 7)}, {}, {"c0": (6, 51, 1)}, {"c1": (2, 2, 2)}, {"c2": (0, 63, -7)}, {}]
    ):
        held = progress_of(observed(number, cells, **of), held)
        assert held is not None
        expected.append((held.window_tuples, held.state_bytes))
    assert expected == [(12, 120), (12, 120), (13, 121), (15, 123), (8, 116), (8, 116)]
    assert progress_of(observed(9, cells)).window_tuples == 0
    assert (held + held).held == held.held


def test_a_cell_to_which_nothing_came_says_what_it_holds():
    spec, store, cache = make_spec(CROSS, SCHEMAS), DictStore(), JoinCache()
    _, first = feed(Cell(spec, store, cache), 5, R=batch((1, 7), (2, 7)))
    assert (first.window_tuples, first.window_change) == (2, 2)
    assert first.state_bytes == first.state_change > 0
    cell = Cell(spec, store, cache)
    _, idle = feed(cell, 5)
    assert cell.is_idle
    assert (idle.window_tuples, idle.state_bytes, idle.cache_bytes) == (2, first.state_bytes, first.cache_bytes)
    assert (idle.window_change, idle.state_change, idle.results) == (0, 0, 0)
    _, last = feed(Cell(spec, store, cache), 500)
    assert (last.window_tuples, last.window_change, last.state_change) == (0, -2, -first.state_bytes)


def names(kind: type) -> set[str]:
    return {field.name for field in dataclasses.fields(kind)}


def test_a_tuple_that_can_match_nothing_comes_out_though_nothing_else_comes_to_its_cell():
    sql = "SELECT R.x, S.x AS a FROM R [RANGE 10] LEFT JOIN S [RANGE 10] ON R.x > 5 AND R.x = S.x"
    simulation = join_simulated(make_spec(sql, SCHEMAS), {"R": [batch((1, 1))]}, seeds.chance(1), CALM)
    simulation.close_windows()
    assert simulation.table().to_pylist() == [{"x": 1, "a": None}]


@pytest.mark.parametrize("kind", ["LEFT", "RIGHT", "FULL", "LEFT SEMI", "LEFT ANTI"])
def test_a_tuple_of_an_outer_join_comes_out_once_however_many_cells_there_are(kind):
    rng = seeds.chance(kind)
    shown = "R.x" if kind in ("LEFT SEMI", "LEFT ANTI") else "R.x, S.x AS a"
    sql = f"SELECT {shown} FROM R [RANGE 10] {kind} JOIN S [RANGE 10] ON abs(R.x - S.x) <= 1"
    streams = {name: [batch(*((rng.randint(0, 40), 5 * k) for _ in range(8))) for k in range(6)] for name in "RS"}
    tables = {name: pa.concat_tables(parts) for name, parts in streams.items()}
    expected = sorted(map(repr, cw.run(sql, tables).to_pylist()))
    for layout in ((2, 2), (4, 1), (1, 4)):
        simulation = join_simulated(make_spec(sql, SCHEMAS, layout=layout), streams, seeds.chance(1), CALM)
        simulation.close_windows()
        assert sorted(map(repr, simulation.table().to_pylist())) == expected, layout


def test_a_client_of_connect_without_operators_with_state_is_refused():
    with pytest.raises(
        cw.UnsupportedError, match=r"over Spark Connect needs PySpark 4.1 or later; this is 4\..*classic"
    ):
        check_operator(object())


# ---------------------------------------------------------------------------------- the clock


def test_the_watermark_of_the_join_is_the_lag_ahead_of_sparks():
    spec = make_spec(CROSS, SCHEMAS, lateness=7, lag=100)
    assert [spec.own_watermark(at) for at in (-1, 0, 1, 5)] == [0, 0, 101, 105]
    assert [spec.spark_timer(at) for at in (3, 100, 105)] == [1, 1, 5]
    assert spec.delay(0) == "107 milliseconds"
    assert [spec.with_lag(ticks).lag for ticks in (0, 20)] == [1, 21]
    assert spec.identity() != make_spec(CROSS, SCHEMAS, lateness=7).identity() == make_spec(CROSS, SCHEMAS).identity()


def test_state_of_another_event_time_is_refused():
    store = DictStore()
    feed(Cell(make_spec(CROSS, SCHEMAS), store, JoinCache()), R=batch((1, 5)))
    for other in ({"lag": 9}, {"by_previous": True}):
        words = (
            r"its layout or its event time differ.\n.*cells, Spark's watermark; .*\n.*\n.*event_time= it was made with"
        )
        with pytest.raises(cw.SnapshotError, match=words):
            feed(Cell(make_spec(CROSS, SCHEMAS, **other), store, JoinCache()), S=batch((1, 6)))


def test_what_an_operator_before_the_join_gives_out_is_judged_by_the_watermark_before():
    spec, store = make_spec(CROSS, SCHEMAS, by_previous=True), DictStore()
    cell = Cell(spec, store, JoinCache())
    feed(cell, 50, R=batch((1, 30), (2, 45)))
    assert cell.timer == 51, "it must hear of the next watermark, whatever comes"
    found, report = feed(cell, 60, S=batch((7, 50), (8, 51), (9, 39)))
    assert (found, report.late, report.tuples) == ([(2, 8)], 2, 1), "52 was not yet passed by 50, and 2 waits until 55"
    found, report = feed(cell, 60, S=batch((7, 60), (8, 61)))
    assert report.late == 1


def test_every_cell_hears_of_a_watermark_that_a_frame_brings():
    for by_previous, cells in ((True, 6), (False, 2)):
        spec = make_spec("SELECT R.x FROM R [RANGE 9], S [RANGE 9] WHERE R.x = S.x", SCHEMAS, cells=6, layout="hash")
        spec = dataclasses.replace(spec, by_previous=by_previous)
        pack = Pack(spec, 0, cell_keys(6))
        (packed,) = pack(batch((1, 5), (1, 6)).select(list(pack.columns)).to_batches())
        told = packed.column("cell").to_pylist()
        assert len(set(told)) == cells
        assert sum(packed.column("tuples").to_pylist()) == 2


# ---------------------------------------------------------------------------------- wide tuples


def test_blocks_are_bounded_in_bytes_whatever_tuples_are_like():
    schema = pa.schema([("x", pa.int64()), ("ts", pa.int64()), ("t", pa.string())])
    sql = "SELECT R.x, S.x AS a, R.t, S.t AS u FROM R [RANGE 10], S [RANGE 10] WHERE R.x = S.x"
    spec = make_spec(sql, {"R": schema, "S": schema}, cells=2, layout="hash")
    texts = ["ä" * 250_000] * 60  # 30 MB
    wide = pa.table({"x": list(range(60)), "ts": [k // 20 for k in range(60)], "t": texts}, schema)
    pack = Pack(spec, 0, cell_keys(2))
    packed = list(pack(wide.select(list(pack.columns)).to_batches(max_chunksize=3)))
    assert len(packed) == 4, "rows are packed when there are enough bytes"
    simulation = Simulation(spec, seeds.chance("wide"), CALM)
    simulation.batch({"R": wide})
    simulation.batch({"S": wide})
    assert simulation.table().num_rows == 60
    states = [data for content in simulation.now.states.values() for data in content.values()]
    for blocks in (simulation.results, states):
        assert len(blocks) >= 8
        assert max(map(len, blocks)) < 10 << 20


# ---------------------------------------------------------------------------------- what is written


def bytes_written(sql: str, cells: int = 4) -> float:
    """Return what a micro-batch writes, of many of one size, while windows of 20 of them are full."""
    simulation = Simulation(make_spec(sql, SCHEMAS, cells=cells), seeds.chance("written"), CALM)
    written = 0
    for k in range(60):
        before = {(cell, name): data for cell, state in simulation.now.states.items() for name, data in state.items()}
        rows = batch(*((n % 97, 10 * k + n // 40) for n in range(400)))
        simulation.batch({"R": rows, "S": rows})
        after = {(cell, name): data for cell, state in simulation.now.states.items() for name, data in state.items()}
        if k >= 40:
            written += sum(len(data) for key, data in after.items() if before.get(key) != data)
    return written / 20


@pytest.mark.parametrize(
    ("on", "kinds"),
    [
        ("R.x = S.x", ["LEFT", "FULL OUTER", "LEFT SEMI", "LEFT ANTI"]),
        ("abs(R.x - S.x) <= 1", ["LEFT", "RIGHT", "LEFT ANTI"]),
        ("R.x * S.x = 12", ["LEFT"]),
    ],
)
def test_an_outer_join_writes_little_more_than_an_inner_one(on, kinds):
    inner = bytes_written(f"SELECT R.x FROM R [RANGE 200], S [RANGE 200] WHERE {on}")
    for kind in kinds:
        outer = bytes_written(f"SELECT R.x FROM R [RANGE 200] {kind} JOIN S [RANGE 200] ON {on}")
        assert outer < 1.5 * inner, (kind, outer, inner)


def test_rows_windows_write_little_more_than_ranges_that_hold_as_much():
    ranges = bytes_written("SELECT R.x FROM R [RANGE 200], S [RANGE 200] WHERE R.x = S.x", 1)
    for kind in ("INNER", "LEFT"):
        rows = bytes_written(f"SELECT R.x FROM R [ROWS 8000] {kind} JOIN S [ROWS 8000] ON R.x = S.x")
        assert rows < 1.5 * ranges, (kind, rows, ranges)


@pytest.mark.parametrize("on", ["R.x = S.x AND R.x > 3", "abs(R.x - S.x) <= 0 AND S.x < 20", "R.x * R.x = S.x * S.x"])
@pytest.mark.parametrize("kind", ["left", "right", "full", "semi", "anti"])
def test_outer_joins_are_rebuilt_from_blocks_and_flags(kind, on):
    rng = seeds.chance(f"outer blocks {kind} {on}")
    words = {"left": "LEFT", "right": "RIGHT", "full": "FULL OUTER", "semi": "LEFT SEMI", "anti": "LEFT ANTI"}[kind]

    def value() -> int | None:
        return None if rng.random() < 0.1 else rng.randint(0, 25)

    rows = {
        name: [
            batch(*((value(), rng.randint(max(0, 3 * k - 6), 3 * k)) for _ in range(rng.randint(0, 9))))
            for k in range(20)
        ]
        for name in ("R", "S")
    }
    outputs = (Output("x", 0, "x"), Output("p", 0, "ts"), Output("a", 1, "x"), Output("q", 1, "ts"))
    outputs = outputs[:2] if kind in ("semi", "anti") else outputs
    shown = ", ".join(f"{'RS'[out.role]}.{out.column} AS {out.name}" for out in outputs)
    sql = f"SELECT {shown} FROM R [RANGE 10] {words} JOIN S [RANGE 20] ON {on}"
    roles = (Role("R", "R", Window("range", 10)), Role("S", "S", Window("range", 20)))
    tables = {name: pa.concat_tables(parts) for name, parts in rows.items()}
    expected = expected_rows(Join(roles, tables, on, outputs, kind))
    for cache_bytes in (0, 4_000, 1 << 30):
        spec = make_spec(sql, SCHEMAS, lateness=6, cells=3, cache_bytes=cache_bytes)
        done = join_simulated(spec, rows, rng, Trouble())
        done.close_windows()
        assert_same(expected, done.table(), f"{kind}, {spec.layout.kind}, a cache of {cache_bytes} bytes")
        assert not any("snapshot" in name for state in done.now.states.values() for name in state)


def random_rows(rng: random.Random, rounds: int) -> dict[str, list[pa.Table]]:
    """Return batches of R and S, some empty, out of order by up to 6, with many equal times and some nulls."""

    def one(k: int) -> tuple[int | None, int]:
        return None if rng.random() < 0.1 else rng.randint(0, 12), rng.randint(max(0, 3 * k - 6), 3 * k)

    return {name: [batch(*(one(k) for _ in range(rng.randint(0, 9)))) for k in range(rounds)] for name in "RS"}


@pytest.mark.parametrize(
    ("kind", "windows"),
    [
        ("inner", (("rows", 7), ("rows", 4))),
        ("inner", (("rows", 20), ("range", 5))),
        ("left", (("range", 10), ("rows", 5))),
        ("right", (("rows", 6), ("range", 8))),
        ("semi", (("range", 10), ("rows", 5))),
        ("anti", (("range", 6), ("rows", 9))),
    ],
)
def test_rows_windows_are_rebuilt_from_blocks_and_numbers(kind, windows, monkeypatch):
    monkeypatch.setattr(arrival, "_STEP", 3)
    rng = seeds.chance(f"rows blocks {kind} {windows}")
    rows, on = random_rows(rng, 40), "abs(R.x - S.x) <= 1 AND R.x > 3 AND S.x < 11"
    words = {"left": "LEFT", "right": "RIGHT", "semi": "LEFT SEMI", "anti": "LEFT ANTI", "inner": "INNER"}[kind]
    outputs = (Output("x", 0, "x"), Output("p", 0, "ts"), Output("a", 1, "x"), Output("q", 1, "ts"))
    outputs = outputs[:2] if kind in ("semi", "anti") else outputs
    shown = ", ".join(f"{'RS'[out.role]}.{out.column} AS {out.name}" for out in outputs)
    first, second = (f"{of.upper()} {size}" for of, size in windows)
    sql = f"SELECT {shown} FROM R [{first}] {words} JOIN S [{second}] ON {on}"
    spans = [Window("rows", count=size) if of == "rows" else Window("range", size) for of, size in windows]
    roles = tuple(Role(name, name, span) for name, span in zip("RS", spans, strict=True))
    tables = {name: pa.concat_tables(parts) for name, parts in rows.items()}
    expected = expected_rows(Join(roles, tables, on, outputs, kind))
    for cache_bytes in (0, 20_000, 1 << 30):
        spec = make_spec(sql, SCHEMAS, lateness=6, cache_bytes=cache_bytes)
        done = join_simulated(spec, rows, rng, Trouble())
        done.close_windows()
        assert_same(expected, done.table(), f"{kind}, a cache of {cache_bytes} bytes")
        (state,) = done.now.states.values()
        manifest = Manifest.from_bytes(state["manifest"])
        assert sum(entry.tuples for entry in manifest.blocks) < sum(table.num_rows for table in tables.values()) / 2


@pytest.mark.filterwarnings("ignore::crosswind.errors.OverflowWarning")
@pytest.mark.parametrize("cache_bytes", [0, 4_000, 1 << 30])
def test_tuples_that_overflow_in_the_order_are_left_out_after_a_restart_too(cache_bytes):
    sql = "SELECT R.x, S.x AS a, R.ts AS p, S.ts AS q FROM R [ROWS 6], S [ROWS 9] WHERE R.x * S.x > 0"
    rng = seeds.chance("overflow in the order")
    streams: dict[str, list[list[tuple[int, int]]]] = {"R": [], "S": []}
    for k in range(25):
        streams["R"].append([(2**62 if rng.random() < 0.15 else 1, 4 * k + rng.randint(0, 3)) for _ in range(4)])
        streams["S"].append([(4, 4 * k + rng.randint(0, 3)) for _ in range(4)])
    good = {name: [batch(*(row for row in part if row[0] < 9)) for part in parts] for name, parts in streams.items()}
    given = {name: [batch(*part) for part in parts] for name, parts in streams.items()}
    expected = cw.run(sql, {name: pa.concat_tables(parts) for name, parts in good.items()})
    spec = make_spec(sql, SCHEMAS, lateness=4, cache_bytes=cache_bytes)
    done = join_simulated(spec, given, rng, Trouble())
    done.close_windows()
    assert pairs(done.table()) == pairs(expected)
    assert done.rejected == sum(row[0] > 9 for part in streams["R"] for row in part)


@pytest.mark.filterwarnings("ignore::crosswind.errors.OverflowWarning")
def test_a_tuple_that_is_left_out_is_known_behind_a_block_that_is_gone(monkeypatch):
    monkeypatch.setattr(arrival, "_STEP", 1)
    sql = "SELECT R.x, S.x AS a FROM R [ROWS 3], S [ROWS 30] WHERE R.x * S.x > 0"
    spec, store, found = make_spec(sql, SCHEMAS), DictStore(), []

    def step(milliseconds: int, *rows: tuple[int, int]) -> None:
        found.extend(feed(Cell(spec, store, JoinCache()), milliseconds, R=batch(*rows))[0])

    step(0, (1, 100))
    step(0, *((2, time) for time in range(10, 15)))
    step(0, *((3, time) for time in range(20, 24)))
    found.extend(feed(Cell(spec, store, JoinCache()), 95, S=batch((4, 96)))[0])
    assert [entry.serial for entry in Manifest.from_bytes(store.read_manifest()).blocks] == [0, 6, 0], "one is gone"
    step(95, (2**62, 97), (5, 98))
    for k in range(8):
        step(99, (6 + k, 100 + k))
    manifest = Manifest.from_bytes(store.read_manifest())
    assert manifest.order.removed == ((10,), ())
    assert len([entry for entry in manifest.blocks if entry.unit == 0]) < 9, "blocks were put together"
    found.extend(feed(Cell(spec, store, JoinCache()), 200)[0])
    assert sorted(x for x, _ in found) == [1, 3, 3, 3, 5, *range(6, 14)]


def test_a_copy_that_lies_behind_catches_up_with_rows_windows():
    spec = make_spec(CROSS.replace("RANGE 10", "ROWS 40"), SCHEMAS)
    store, caches, found = DictStore(), (JoinCache(), JoinCache()), []
    rng = seeds.chance("two workers")
    streams: dict[str, list[pa.Table]] = {"R": [], "S": []}
    for k in range(30):
        rows = {name: batch(*((rng.randint(0, 99), 10 * k + rng.randint(0, 9)) for _ in range(10))) for name in "RS"}
        seen, report = feed(Cell(spec, store, caches[k % 2 if k % 5 else 0]), 10 * k, **rows)
        found += seen
        assert report.cache_misses == (k < 2), "windows are read once, then only what is missing"
        for name, table in rows.items():
            streams[name].append(table)
    found += feed(Cell(spec, store, caches[0]), 10_000)[0]
    tables = {name: pa.concat_tables(parts) for name, parts in streams.items()}
    assert sorted(found) == pairs(cw.run(CROSS.replace("RANGE 10", "ROWS 40"), tables))


def test_blocks_with_one_missing_in_between_are_not_put_together():
    spec = make_spec("SELECT R.x, S.x AS a FROM R [RANGE 20] LEFT JOIN S [RANGE 20] ON R.x = S.x", SCHEMAS)
    store, found = DictStore(), []

    def step(milliseconds: int = 0, **tables: pa.Table) -> None:
        found.extend(feed(Cell(spec, store, JoinCache()), milliseconds, **tables)[0])

    for number, time in enumerate([100, 70, 101, 102, 103, 104, 105]):
        step(R=batch((number, time)))
    step(S=batch((3, 104), (5, 104)))
    step(95, R=batch((7, 108)))
    assert sorted(found) == [(1, None), (3, 3), (5, 5)], "the second block is gone, the first is not"
    for number in (8, 9):
        step(95, R=batch((number, 108)))
    assert sum(name.startswith("block 0-") for name in store.content) < 8, "blocks were put together"
    step(1000)
    assert sorted(found, key=str) == [(k, k if k in (3, 5) else None) for k in range(10)]
