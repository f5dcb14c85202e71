"""WHERE TUPLES WAIT: basic windows, runs, expiry, memory, watermarks and the order."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pyarrow as pa
import pytest

import crosswind as cw
from crosswind.io.arrow import carried_vector, to_arrow
from crosswind.plan.axis import INT64_MAX, INT64_MIN
from crosswind.window.arrival import END, Sorter, Watermark
from crosswind.window.basic import BasicWindow
from crosswind.window.block import Block, concat_blocks
from crosswind.window.join_window import JoinWindow
from crosswind.window.run import Arrangement, Run
from crosswind.window.vector import Layout, Vector
from tests import seeds

CAPACITY = 8
SCHEMAS = {
    "R": pa.schema([("x", pa.int32()), ("ts", pa.int64())]),
    "S": pa.schema([("a", pa.int32()), ("ts", pa.int64())]),
}
NEAR = "SELECT R.x, S.a FROM R [{}], S [{}] WHERE R.x BETWEEN S.a - 1 AND S.a + 1"


def columns_of(start: int, count: int) -> dict[str, pa.Array]:
    """Return columns of every layout, in which a tuple's values tell its number."""
    at = range(start, start + count)
    return {
        "key": pa.array([k % 7 for k in at], pa.int32()),
        "number": pa.array(list(at), pa.int64()),
        "maybe": pa.array([None if k % 3 == 0 else k for k in at], pa.int16()),
        "real": pa.array([k / 2 for k in at], pa.float64()),
        "text": pa.array([None if k % 5 == 0 else "ä" * (k % 4) + str(k) for k in at], pa.string()),
        "wide": pa.array([k * 10**20 for k in at], pa.decimal128(38, 0)),
        "items": pa.array([[k, None] if k % 2 else None for k in at], pa.list_(pa.int32())),
        "inner": pa.array([{"u": k, "v": str(k)} for k in at], pa.struct([("u", pa.int32()), ("v", pa.string())])),
        "word": pa.array([f"w{k % 3}" for k in at]).dictionary_encode(),
    }


TYPES = {name: array.type for name, array in columns_of(0, 1).items()}


def as_columns(arrays: dict[str, pa.Array]) -> tuple[Vector, ...]:
    key = Vector(Layout(carried_vector(arrays["key"]).layout.storage, "int32"), np.asarray(arrays["key"]))
    return (key, *(carried_vector(array) for name, array in arrays.items() if name != "key"))


def block_of(start: int, count: int, numbered: bool = False, times: list[int] | None = None) -> Block:
    at = np.arange(start, start + count, dtype=np.int64) if times is None else np.array(times, dtype=np.int64)
    numbers = np.arange(start, start + count, dtype=np.int64) if numbered else None
    return Block(at, as_columns(columns_of(start, count)), numbers)


LAYOUTS = tuple(column.layout for column in block_of(0, 1).columns)


def rows_of(item: BasicWindow | Run) -> list[dict]:
    block = item.block()
    arrays = [to_arrow(column, of) for column, of in zip(block.columns, TYPES.values(), strict=True)]
    return pa.table(arrays, names=list(TYPES)).to_pylist()


def naive_rows(start: int, count: int) -> list[dict]:
    return pa.table(list(columns_of(start, count).values()), names=list(TYPES)).to_pylist()


def by_number(rows: list[dict]) -> list[dict]:
    return sorted(rows, key=lambda row: row["number"])


class ByKey:
    """Arranges tuples by the first column, one cell a value (0 to 6)."""

    def arrange(self, blocks: list[Block]) -> Run:
        block = concat_blocks(blocks)
        keys = block.columns[0].values
        places = np.argsort(keys, kind="stable").astype(np.int64)
        directory = np.searchsorted(keys[places], np.arange(8)).astype(np.int32)
        return Run(block, (0,), Arrangement("band", (7, 1), directory, (0, 0), (0.0, 0.0), (1.0, 0.0)), places)

    arranges = True

    def is_stale(self, run: Run) -> bool:
        return run.arrangement is None


def window(arranger: ByKey | None = None, numbered: bool = False, capacity: int = CAPACITY) -> JoinWindow:
    return JoinWindow(LAYOUTS, capacity, (0,), numbered, arranger)


def feed(made: JoinWindow, start: int, count: int, numbered: bool = False) -> None:
    """Append tuples in small batches: a batch larger than a basic window would make one of its own size."""
    for at in range(start, start + count, 5):
        made.append(block_of(at, min(5, start + count - at), numbered))


# ---------------------------------------------------------------------------------- basic windows


def test_a_full_basic_window_is_sealed_and_never_changes():
    made = window()
    made.append(block_of(0, 5))
    assert [item.sealed for item in made] == [False]
    made.append(block_of(5, 6))
    first, second = made
    assert (first.sealed, first.length, second.sealed, second.length) == (True, CAPACITY, False, 3)
    before, addresses = rows_of(first), first.pointers()
    made.append(block_of(11, 20))
    assert rows_of(first) == before == naive_rows(0, CAPACITY)
    assert first.pointers() == addresses
    assert not first.moved()
    with pytest.raises(ValueError, match="do not fit"):
        first.append(block_of(0, 1), 0, 1)


@pytest.mark.parametrize("seed", range(3))
def test_columns_of_every_layout_come_back_as_they_went_in(seed):
    rng = seeds.chance(seed)
    made, at = window(), 0
    while at < 60:
        count = rng.randint(0, CAPACITY)
        made.append(block_of(at, count))
        at += count
    rows = [row for item in made for row in rows_of(item)]
    assert rows == naive_rows(0, at)
    assert len(made) == at
    assert all(item.length == CAPACITY for item in list(made)[:-1])


def test_texts_grow_as_far_as_they_must():
    made = BasicWindow((carried_vector(pa.array([""])).layout,), 4, False)
    texts = ["x" * size for size in (0, 1000, 3, 70_000)]
    for k, text in enumerate(texts):
        made.append(Block(np.array([k]), (carried_vector(pa.array([text])),)), 0, 1)
        assert to_arrow(made.column(0), pa.string()).to_pylist() == texts[: k + 1]
    assert made.sealed
    assert made.nbytes < 72_000, "room that was not needed is given back"


def test_what_is_known_of_nulls_and_nans_follows_the_data():
    layouts = (Layout(LAYOUTS[1].storage, "float64"),)
    made = BasicWindow(layouts, 8, False)
    for values, nulls, nans in [([1.0], False, False), ([2.0, np.nan], False, True), ([None], True, True)]:
        array = pa.array(values, pa.float64(), from_pandas=False)
        valid = None if array.null_count == 0 else np.asarray(array.is_valid()).astype(np.uint8)
        vector = Vector(layouts[0], np.asarray(array.fill_null(0.0)), valid)
        made.pointers()
        made.append(Block(np.zeros(len(values), dtype=np.int64), (vector,)), 0, len(values))
        assert (made.nulls().tolist(), made.nans().tolist()) == ([nulls], [nans])
        assert made.moved() == (nulls or nans)


def test_a_large_batch_comes_back_as_it_went_in():
    made = window()
    made.append(block_of(0, 3))
    made.append(block_of(3, 10 * CAPACITY))
    assert [row for item in made for row in rows_of(item)] == naive_rows(0, 3 + 10 * CAPACITY)


def test_slices_are_put_together_as_they_are():
    """The texts of a slice begin in the middle of those of its block."""
    parts = [block_of(0, 7).slice(3, 6), block_of(7, 4).slice(1, 4), block_of(20, 2)]
    whole = concat_blocks(parts)
    columns = [to_arrow(column, of) for column, of in zip(whole.columns, TYPES.values(), strict=True)]
    expected = naive_rows(3, 3) + naive_rows(8, 3) + naive_rows(20, 2)
    assert pa.table(columns, names=list(TYPES)).to_pylist() == expected
    assert whole.times.tolist() == [row["number"] for row in expected]


def test_cut_takes_back_what_was_appended():
    made = window()
    made.append(block_of(0, 5))
    mark, before = made.mark(), [rows_of(item) for item in made]
    made.append(block_of(5, 20))
    made.cut(mark)
    assert [rows_of(item) for item in made] == before
    assert (len(made), made.mark()) == (5, mark)
    (only,) = made
    assert (only.sealed, only.time_min, only.time_max) == (False, 0, 4)
    made.append(block_of(5, 4))
    assert [row for item in made for row in rows_of(item)] == naive_rows(0, 9)


def test_cut_of_a_window_that_was_empty():
    made = window()
    mark = made.mark()
    made.append(block_of(0, 20))
    made.cut(mark)
    assert (len(made), list(made)) == (0, [])


# ---------------------------------------------------------------------------------- expiry


def test_basic_windows_expire_as_a_whole():
    made = window()
    feed(made, 0, 20)
    assert made.expire(None, None) == 0
    assert made.expire(CAPACITY - 1, None) == 0, "its last tuple still waits"
    assert made.expire(CAPACITY, None) == CAPACITY
    assert made.expire(CAPACITY + 3, None) == 0
    assert (len(made), made.released) == (12, CAPACITY)
    assert made.expire(10_000, None) == 12
    assert (len(made), made.released) == (0, 20)


def test_a_late_comer_keeps_its_basic_window():
    made = window()
    made.append(block_of(0, 8, times=[0, 1, 2, 50, 4, 5, 6, 7]))
    assert made.expire(50, None) == 0
    assert made.expire(51, None) == 8


def test_both_limits_must_have_passed():
    made = window(numbered=True)
    feed(made, 0, 16, numbered=True)
    assert made.expire(8, 7) == 0
    assert made.expire(7, 8) == 0
    assert made.expire(8, 8) == 8
    assert made.expire(None, 16) == 8


@pytest.mark.parametrize("arranger", [None, ByKey()], ids=["as they came", "arranged"])
def test_released_basic_windows_are_freed(arranger):
    made = window(arranger)
    feed(made, 0, 40)
    made.settle()
    made.residents()
    waiting = [(weakref.ref(item.times), item.time_max) for item in made]
    full = made.nbytes
    released = made.expire(20, None)
    gc.collect()
    assert released > 0
    for times, newest in waiting:
        assert (times() is None) == (newest < 20)
    assert made.nbytes < full
    made.clear()
    gc.collect()
    assert all(times() is None for times, _ in waiting)


def test_a_join_frees_what_it_releases():
    with cw.open(NEAR.format("RANGE 10", "RANGE 10"), SCHEMAS, basic_window=64) as join:
        for start in range(0, 6400, 50):
            times = np.arange(start, start + 50)
            join.push("R", {"x": times.astype(np.int32), "ts": times})
        full = join.stats.bytes_held
        waiting = [weakref.ref(item.times) for item in join._strategy.windows[0]]
        join.advance("S", 6395)
        gc.collect()
        assert join.stats.window_tuples["R"] <= 4 * 64
        assert sum(ref() is not None for ref in waiting) <= 2
        assert join.stats.bytes_held < full / 10


# ---------------------------------------------------------------------------------- runs


def test_arranged_runs_hold_the_same_tuples():
    made = window(ByKey())
    for start in range(0, 80, 10):
        made.append(block_of(start, 10))
        made.settle()
        assert by_number([row for item in made for row in rows_of(item)]) == naive_rows(0, start + 10)


def test_runs_are_merged_so_that_few_are_searched():
    made = window(ByKey())
    feed(made, 0, 64 * CAPACITY)
    made.settle()
    items = list(made)
    assert len(items) < 32
    assert max(item.length for item in items) >= 2 * CAPACITY
    assert sum(item.length for item in items) == 64 * CAPACITY
    for item in items:
        keys = [row["key"] for row in rows_of(item)]
        assert keys == sorted(keys), "a merged run lies in the order of its cells"
        directory = item.arrangement.directory
        assert [keys.count(c) for c in range(7)] == np.diff(directory).tolist()


def test_merging_keeps_times_and_numbers_with_their_tuples():
    made = window(ByKey(), numbered=True)
    feed(made, 100, 32 * CAPACITY, numbered=True)
    made.settle()
    for item in made:
        numbers = [row["number"] for row in rows_of(item)]
        assert item.times.tolist() == item.numbers.tolist() == numbers
        assert (item.time_min, item.time_max, item.number_max) == (min(numbers), max(numbers), max(numbers))


def test_no_run_outgrows_its_share_of_the_window():
    made = window(ByKey(), capacity=16)
    for start in range(0, 200 * 16, 16):
        made.append(block_of(start, 16))
        made.settle()
        made.expire(start - 50 * 16, None)
        longest = max(item.length for item in made)
        assert longest <= max(2 * 16, len(made) // 2)
        assert len(made) <= 50 * 16 + 16 + longest


def test_expiry_of_runs_goes_on_after_merging():
    made = window(ByKey())
    feed(made, 0, 16 * CAPACITY)
    made.settle()
    assert made.expire(10**6, None) == 16 * CAPACITY
    feed(made, 500, 3 * CAPACITY)
    made.settle()
    assert by_number([row for item in made for row in rows_of(item)]) == naive_rows(500, 3 * CAPACITY)


def test_residents_follow_the_open_basic_window():
    made = window()
    made.append(block_of(0, 3))
    view = made.residents()
    made.append(block_of(3, 2))
    assert made.residents() is view
    assert view.runs[0, [0, 3, 4]].tolist() == [5, 0, 4]
    made.append(block_of(5, 10))
    assert made.residents() is not view
    assert made.residents().runs[:, 0].tolist() == [8, 7]


# ---------------------------------------------------------------------------------- memory over a long run


@pytest.mark.parametrize("index", ["scan", "band"])
@pytest.mark.parametrize(("r_window", "waiting"), [("RANGE 400", 400), ("ROWS 300", 300)])
def test_memory_stays_bounded(index, r_window, waiting):
    basic, batch, rng = 32, 50, seeds.numbers(1)
    most = most_bytes = 0
    with cw.open(NEAR.format(r_window, "RANGE 100"), SCHEMAS, basic_window=basic, index=index) as join:
        for start in range(0, 12_000, batch):
            times = np.arange(start, start + batch)
            join.push("R", {"x": rng.integers(0, 100, batch).astype(np.int32), "ts": times})
            join.push("S", {"a": rng.integers(0, 100, batch).astype(np.int32), "ts": times})
            stats = join.stats
            most, most_bytes = max(most, stats.window_tuples["R"]), max(most_bytes, stats.bytes_held)
            assert stats.held <= 2 * batch
        slack = 2 * basic + batch + waiting // 2
        assert most <= waiting + slack, "windows and the slack of the oldest run, no more"
        assert join.stats.window_tuples["S"] <= 100 + 2 * basic + batch + 50
        assert most_bytes < 100 * (waiting + 100 + 2 * slack)


# ---------------------------------------------------------------------------------- watermarks and the order


def test_a_watermark_follows_the_greatest_time_less_the_lateness():
    mark = Watermark(5)
    assert mark.value == INT64_MIN
    mark.see(100)
    assert mark.value == 95
    mark.see(98)
    assert mark.value == 95, "it never goes back"
    mark.advance(90)
    assert mark.value == 95
    mark.advance(97)
    assert mark.value == 97
    assert mark.is_late(np.array([96, 97, 98])).tolist() == [True, False, False]
    mark.advance(END)
    assert mark.is_late(np.array([INT64_MAX])).tolist() == [True]


def test_a_watermark_does_not_wrap():
    mark = Watermark(10)
    mark.see(INT64_MIN + 3)
    assert mark.value == INT64_MIN


def held(times: list[int], first: int) -> Block:
    """Return a block of which column 0 tells the arrival of each tuple."""
    names = np.arange(first, first + len(times), dtype=np.int64)
    return Block(np.array(times, dtype=np.int64), (Vector(Layout(LAYOUTS[1].storage), names),))


def test_tuples_are_released_in_the_order():
    sorter = Sorter("RS")
    sorter.hold(0, held([5, 3, 5], 0))
    sorter.hold(1, held([5, 4], 10))
    first, second = sorter.release([5, 5])
    # A future tuple of time 5 of unit 0 would precede the held one of unit 1: that one must wait.
    assert (first.block.times.tolist(), first.block.columns[0].values.tolist()) == ([3, 5, 5], [1, 0, 2])
    assert (second.block.times.tolist(), second.block.columns[0].values.tolist()) == ([4], [11])
    assert [b.tolist() for b in first.before] == [[0, 1, 2], [0, 1, 1]]
    assert [b.tolist() for b in second.before] == [[1], [0]]
    assert (len(sorter), sorter.counts) == (1, [3, 1])
    nothing, rest = sorter.release([6, 6])
    assert nothing is None
    assert (rest.base, rest.block.columns[0].values.tolist()) == (1, [10])
    assert [b.tolist() for b in rest.before] == [[3], [1]]
    assert sorter.nbytes == 0


@pytest.mark.parametrize("seed", range(20))
def test_releases_are_the_total_order(seed):
    rng = seeds.chance(seed)
    sorter, marks = Sorter("RS"), [INT64_MIN, INT64_MIN]
    arrived: list[tuple[int, int, int]] = []  # time, unit, arrival
    released: list[tuple[int, int, int]] = []
    position: dict[tuple[int, int], tuple[int, int]] = {}
    for step in range(30):
        unit = rng.randrange(2)
        least = max(marks[unit], step // 2)
        times = [rng.randint(least, least + 5) for _ in range(rng.randint(0, 4))]
        sorter.hold(unit, held(times, len(arrived)))
        arrived += [(t, unit, len(arrived) + k) for k, t in enumerate(times)]
        marks[unit] = max(marks[unit], least + rng.randint(0, 3))
        if step == 29:
            marks = [END, END]
        fresh = []
        for of, release in enumerate(sorter.release(list(marks))):
            if release is None:
                continue
            for k, name in enumerate(release.block.columns[0].values.tolist()):
                fresh.append((int(release.block.times[k]), of, name))
                position[of, name] = (int(release.before[0][k]), int(release.before[1][k]))
            assert release.block.numbers.tolist() == release.before[of].tolist()
        released += sorted(fresh)
    assert released == sorted(arrived), f"seed {seed}"
    for at, (_, unit, name) in enumerate(released):
        before = tuple(sum(of == k for _, of, _ in released[:at]) for k in range(2))
        assert position[unit, name] == before, f"seed {seed}"


def test_a_copy_of_the_sorter_is_independent():
    sorter = Sorter("RS")
    sorter.hold(0, held([1, 2], 0))
    twin = sorter.copy()
    sorter.release([END, END])
    assert (len(sorter), len(twin), twin.counts) == (0, 2, [0, 0])


def test_filtered_tuples_count_until_the_order_is_known():
    keep = np.array([True, False, True])
    block = Block(np.array([3, 1, 2]), (), None, keep)
    joined = concat_blocks([block, Block(np.array([9]), ())])
    assert joined.keep.tolist() == [True, False, True, True]
    assert joined.take(np.array([1, 2])).keep.tolist() == [False, True]


def test_history_from_before_the_first_probe_is_arranged_later():
    rows = 20_000
    schema = {
        "R": pa.schema([("x", pa.int32()), ("ts", pa.int64())]),
        "S": pa.schema([("a", pa.int32()), ("ts", pa.int64())]),
    }
    values = np.arange(rows, dtype=np.int32)
    with cw.open("SELECT x, a FROM R [RANGE 9], S [RANGE 9] WHERE abs(R.x - S.a) <= 1", schema) as join:
        join.push("R", {"x": values, "ts": np.ones(rows, dtype=np.int64)})
        found = 0
        for at in range(0, rows, 1_000):
            found += join.push("S", {"a": values[at : at + 1_000], "ts": np.ones(1_000, dtype=np.int64)}).num_rows
            join.push("R", {"x": np.full(2_100, -9, dtype=np.int32), "ts": np.ones(2_100, dtype=np.int64)})
        assert found == 3 * rows - 2
        assert join.stats.index["R"] == "band"
        assert all(item.arrangement is not None for item in join._strategy.windows[0] if item.sealed)
