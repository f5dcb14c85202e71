"""Pairs that are kept for a third stream, equals that are linked, rows that are read from messages."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

import crosswind as cw
from crosswind.engine.output.rows import Materialiser
from crosswind.engine.probe import cached_pairs
from crosswind.io.message import Form
from crosswind.kernel.compiled.arrange import hash_keys, link_tuples
from crosswind.kernel.compiled.cached_pairs import item_of, place_in
from crosswind.kernel.compiled.gather import fill_messages
from crosswind.window.basic import BasicWindow
from crosswind.window.block import Block
from crosswind.window.links import Linking
from crosswind.window.vector import Layout, Storage, Vector, address
from tests import seeds
from tests.oracle import Join, Output, Role, Window, assert_same, expected_rows

COLUMNS = {"R": "abc", "S": "de", "T": "fg"}
SCHEMAS = {n: pa.schema([("ts", pa.int64()), *((c, pa.int64()) for c in cs)]) for n, cs in COLUMNS.items()}
CONDITION = "(R.c = S.e OR S.e = T.f) AND R.a = S.d"
ROWS = {"R": 30, "S": 25, "T": 40}
SQL = f"SELECT * FROM {', '.join(f'{n} [ROWS {k}]' for n, k in ROWS.items())} WHERE {CONDITION}"


def make_tables(rng: random.Random, rows: int = 120, high: int = 6) -> dict[str, pa.Table]:
    return {
        name: pa.table(
            {
                "ts": np.array(sorted(rng.randrange(200) for _ in range(rows)), dtype=np.int64),
                **{c: np.array([rng.randrange(high) for _ in range(rows)], dtype=np.int64) for c in columns},
            }
        )
        for name, columns in COLUMNS.items()
    }


def batches(rng: random.Random, tables: dict[str, pa.Table]) -> list[tuple[str, pa.Table]]:
    """Return the tables in small batches, streams in turn as it happens."""
    left = dict.fromkeys(tables, 0)
    made = []
    while left:
        name = rng.choice(list(left))
        size = rng.choice([1, 1, 2, 9])
        made.append((name, tables[name].slice(left[name], size)))
        left[name] += size
        if left[name] >= tables[name].num_rows:
            del left[name]
    return made


def wanted(tables: dict[str, pa.Table]) -> list:
    roles = tuple(Role(name, name, Window("rows", count=ROWS[name])) for name in tables)
    outputs = tuple(Output(f"{n}_{c}", k, c) for k, n in enumerate(tables) for c in tables[n].column_names)
    return expected_rows(Join(roles, tables, CONDITION, outputs))


def reader_of(join: cw.Join) -> cached_pairs.ReadPairs:
    (reader,) = join._strategy._pair_readers
    return reader


@pytest.mark.parametrize("most", [1 << 16, 8], ids=["all are kept", "too many to keep"])
@pytest.mark.parametrize("seed", range(6))
def test_pairs_are_kept_for_a_third_stream(seed: int, most: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cached_pairs, "PAIRS_MOST", most)
    monkeypatch.setattr(cached_pairs, "PAIRS_ROOM", 2)
    rng = seeds.chance(seed)
    tables = make_tables(rng)
    found = []
    with cw.open(SQL, SCHEMAS, lateness=200) as join:
        found += [join.push(name, batch) for name, batch in batches(rng, tables)]
        found.append(join.finish())
    assert_same(wanted(tables), pa.concat_tables(found), f"seed {seed}")


@pytest.mark.parametrize("seed", range(4))
def test_kept_pairs_are_those_that_would_be_found(seed: int):
    rng = seeds.chance(seed)
    tables = make_tables(rng, rows=256)
    found, used = [], 0
    with cw.open(SQL, SCHEMAS, basic_window=64) as join:
        for at in range(256):  # in step, so that tuples are joined as they come
            for name in tables:
                row = tables[name].slice(at, 1).set_column(0, "ts", pa.array([at]))
                found.append(join.push(name, row))
                used += bool(reader_of(join).record["bits"])
            if at == 110:  # what comes back from a snapshot has met before: pairs are not known until it is gone
                state = join.snapshot()
                join.close()
                join = cw.open(SQL, SCHEMAS, basic_window=64, restore=state)
                assert used > 30
                used = 0
        assert used > 0
        found.append(join.finish())
        join.close()
    in_step = {name: table.set_column(0, "ts", pa.array(range(256))) for name, table in tables.items()}
    assert_same(wanted(in_step), pa.concat_tables(found), f"seed {seed}")


def test_pairs_of_what_was_taken_back_are_forgotten():
    other = "SELECT S.d FROM S [ROWS 9], T [ROWS 9] WHERE S.e * T.g > 9"
    with cw.open({"pairs": SQL, "other": other}, SCHEMAS) as join:
        join.push("T", {"ts": [1], "f": [0], "g": [2**62]})
        join.push("S", {"ts": [2], "d": [1], "e": [9]})
        join.push("R", {"ts": [1], "a": [1], "b": [0], "c": [9]})
        join.push("R", {"ts": [9], "a": [0], "b": [0], "c": [0]})
        assert reader_of(join)._pairs.record["count"] == 0
        with pytest.warns(cw.OverflowWarning, match="stream 'S': a tuple at time 2"):  # S has found R by then
            join.push("T", {"ts": [5], "f": [0], "g": [0]})
        assert reader_of(join)._pairs.record["count"] == 0
        assert join.stats.rejected == {"R": 0, "S": 1, "T": 0}


def test_pairs_are_all_known_from_where_they_were_begun():
    pairs = cached_pairs.CachedPairs((0, 2), [4, 99, 7])
    assert pairs.is_whole((5, 8))
    assert not pairs.is_whole((4, 8)), "tuple 4 may have met others before"
    assert not pairs.is_whole((5, 7))


def test_pairs_are_forgotten_when_one_of_their_tuples_is_gone(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cached_pairs, "PAIRS_ROOM", 4)
    pairs = cached_pairs.CachedPairs((0, 1), [-1, -1])
    pairs._matrix[:] = [[1, 2, 3, 4], [0, 1, 1, 2], [5, 4, 5, 6]]
    pairs.record["count"] = 4
    pairs.tidy((1, 5), [9, 9])
    assert pairs._matrix[:, : pairs.record["count"]].tolist() == [[3, 4], [1, 2], [5, 6]]


def test_a_number_is_found_where_it_is_or_not_at_all():
    """Two basic windows; in the second one numbers were left out, and before each are those of tuples that are gone."""
    held = np.array([8, 9, 10, 11, 12, 3, 20, 21, 24, 25], dtype=np.int64)
    starts = np.zeros(2, dtype=np.int64)
    windows = [(10, 3), (20, 4)]
    runs = np.zeros((2, 3), dtype=np.int64)
    for k, (first, count) in enumerate(windows):
        at = address(held) + 8 * held.tolist().index(first)
        runs[k] = count, address(starts), at
    known = {10: (0, 0), 11: (0, 1), 12: (0, 2), 20: (1, 0), 21: (1, 1), 24: (1, 2), 25: (1, 3)}
    for number in range(30):
        w = item_of(address(runs), 24, 2, number)
        place = place_in(address(runs) + 24 * w, number) if w >= 0 else -1
        assert ((w, place) if place >= 0 else None) == known.get(number), number


@pytest.mark.parametrize("seed", range(8))
def test_equals_are_linked_the_last_one_first(seed: int):
    rng = seeds.numbers(seed)
    keys = 1 + seed % 2
    dtypes = ["int32", "int64"][:keys]
    basic = BasicWindow(
        tuple(Layout(Storage.FIXED, dtype) for dtype in dtypes), 64, True, Linking(tuple(range(keys)), link_tuples)
    )
    known: list[np.ndarray] = [np.empty(0, dtype=dtype) for dtype in dtypes]
    number = 0
    while basic.length < 60:
        if basic.length and rng.random() < 0.2:
            cut = int(rng.integers(0, basic.length))
            basic.cut((cut, *basic.mark()[1:]))
            known = [values[:cut] for values in known]
        else:
            size = int(rng.integers(1, 5))
            fresh = [rng.integers(-3, 3, size).astype(dtype) for dtype in dtypes]
            columns = tuple(Vector(Layout(Storage.FIXED, str(f.dtype)), f) for f in fresh)
            numbers = np.arange(number, number + size)
            basic.append(Block(numbers, columns, numbers), 0, size)
            number += size
            known = [np.append(values, some) for values, some in zip(known, fresh, strict=True)]
        assert basic.links is not None
        hashes = hash_keys([values.astype(np.int64) for values in known])
        cells = basic.links.words[1]
        for cell in set((hashes & (cells - 1)).tolist()):
            walked, at = [], int(basic.links._last[cell])
            while at >= 0:
                walked.append(at)
                at = int(basic.links._before[at])
            assert walked == np.flatnonzero((hashes & (cells - 1)) == cell).tolist()[::-1], f"seed {seed}"
        assert basic.links.is_ordered
    basic.append(
        Block(np.array([0]), tuple(Vector(Layout(Storage.FIXED, d), np.zeros(1, d)) for d in dtypes), np.array([0])),
        0,
        1,
    )
    assert not basic.links.is_ordered


TYPES = [
    pa.int8(), pa.uint16(), pa.int32(), pa.uint64(), pa.float32(), pa.float64(), pa.date32(), pa.time64("ns"),
    pa.time32("ms"), pa.time64("us"), pa.timestamp("ns", "Europe/Zurich"), pa.duration("s"),
]  # fmt: skip


@pytest.mark.parametrize("count", [1, 7, 64, 1000])
@pytest.mark.parametrize("columns", [1, 3, len(TYPES)])
def test_rows_are_read_from_messages(count: int, columns: int):
    rng = seeds.numbers(count)
    schema = pa.schema([(f"c{k}", of) for k, of in enumerate(TYPES[:columns])])
    values = [rng.integers(0, 100, count).astype(f"uint{8 * of.byte_width}") for of in schema.types]
    order = rng.permutation(count)
    form = Form(schema, [(0, 0)] * columns)
    memory = form.memory(count)
    sources = [number for some in values for number in (address(some), 0, 0, address(order))]
    job = np.array([0, memory.address, form.at, count, 0, len(sources), *sources], dtype=np.int64)
    fill_messages()(address(job), len(job))
    assert job[0] == 1
    made = form.read(memory)
    made.validate(full=True)
    del memory
    wanted = [
        pa.Array.from_buffers(of, count, [None, pa.py_buffer(some[order])])
        for of, some in zip(schema.types, values, strict=True)
    ]
    assert made.equals(pa.table(wanted, schema=schema))


def test_rows_with_nulls_are_made_another_way():
    schema = pa.schema({"x": pa.int64(), "y": pa.int32(), "ts": pa.int64()})
    sql = "SELECT R.x, R.y, S.y AS z FROM R [RANGE 9], S [RANGE 9], T [RANGE 9] WHERE R.x = S.x AND S.x = T.x"
    with cw.open(sql, dict.fromkeys("RST", schema)) as join:
        assert isinstance(join._materialisers[0], Materialiser)
        assert join._materialisers[0].is_plain
        for name in "RS":
            join.push(name, {"x": [1, 2], "y": [None, 5], "ts": [1, 1]})
        found = join.push("T", {"x": [1, 2], "y": [0, 0], "ts": [1, 1]})
    assert sorted(found.to_pylist(), key=lambda row: row["x"]) == [
        {"x": 1, "y": None, "z": None},
        {"x": 2, "y": 5, "z": 5},
    ]


def test_more_equals_are_found_than_fit_into_a_buffer():
    """A search goes on where it stopped for want of room: no match is lost, none comes twice."""
    count = 3_000
    schema = pa.schema([("k", pa.int64()), ("n", pa.int64()), ("ts", pa.int64())])
    sql = {"q": f"SELECT S.n FROM R [ROWS 9], S [ROWS {count}] WHERE R.k = S.k"}
    with cw.open(sql, {"R": schema, "S": schema}) as join:
        join.push("S", pa.table({"k": [1] * count, "n": range(count), "ts": [1] * count}, schema=schema))
        join.advance("S", 9)
        join.advance("R", 2)  # now they wait in the window
        assert join.stats.window_tuples == {"R": 0, "S": count}
        found = join.push("R", pa.table({"k": [1], "n": [0], "ts": [2]}, schema=schema))["q"]
        assert join.stats.reason["S"].startswith("the window is short")
    assert sorted(found.column("n").to_pylist()) == list(range(count))
