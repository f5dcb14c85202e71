"""Routing: every pair meets in exactly one cell, in every layout, whatever the values."""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from decimal import Decimal

import pyarrow as pa
import pytest

import crosswind as cw
from crosswind.plan.layout import CellLayout, choose_layout, describe_layout
from crosswind.spark.pack import PACKED_SCHEMA, Pack
from crosswind.spark.partition import cell_keys, cell_of, partition_of
from crosswind.spark.route import Router, _range_numbers, _spread
from crosswind.spark.spec import JoinSpec
from tests import seeds
from tests.conftest import SPARK
from tests.spark.simulation import make_spec

SEEDS = range(4)
BAND = "abs(R.x - S.a) <= 2"
KEY = "R.k = S.k"
LAYOUTS = [
    ("auto", None),
    ("hash", 3),
    ("range", 1),
    ("range", 3),
    ("range", 7),
    ("grid", 6),
    ((2, 3), None),
    ((5, 1), None),
]
VALUES = {
    pa.int64(): [-(2**63), 2**63 - 1, 2**53 + 1, *range(-20, 20)],
    pa.int8(): [-128, 127, *range(-20, 20)],
    pa.float64(): [math.nan, math.inf, -math.inf, -0.0, 0.0, 1.7e308, 5e-324, *(k / 4 for k in range(-40, 40))],
    pa.float32(): [math.nan, math.inf, -math.inf, -0.0, 0.0, 3e38, *(k / 4 for k in range(-40, 40))],
    pa.decimal128(9, 2): [Decimal(k) / 4 for k in range(-40, 40)],
}
KEYS = {
    pa.string(): ["", "a", "ab", "ä", "a\0", "日本"],
    pa.int32(): [-(2**31), 2**31 - 1, 0, 1, 2],
    pa.float64(): [math.nan, -0.0, 0.0, 1.5, math.inf],
    pa.decimal128(38, 3): [Decimal(10) ** 20, Decimal("-0.001"), Decimal(0)],
    pa.timestamp("us", "UTC"): [0, 1, 10**15],
    pa.bool_(): [True, False],
}


def tables(rng: random.Random, value: pa.DataType, key: pa.DataType) -> dict[str, pa.Table]:
    made = {}
    for name, column in (("R", "x"), ("S", "a")):
        rows = rng.randint(1, 80)
        made[name] = pa.table(
            {
                column: pa.array([rng.choice([None, *VALUES[value]]) for _ in range(rows)], value),
                "k": pa.array([rng.choice([None, *KEYS[key]]) for _ in range(rows)], key),
                "n": pa.array(range(rows), pa.int32()),
                "ts": pa.array([rng.choice([None, *range(9)]) for _ in range(rows)], pa.int64()),
            }
        )
    return made


def places(spec: JoinSpec, given: dict[str, pa.Table]) -> tuple[dict[int, set[int]], ...]:
    """Return for each unit the cells of its rows (by their number n), after checking the counts."""
    found: list[dict[int, set[int]]] = []
    for unit, source in enumerate(spec.sources):
        routed = Router(spec.plan, unit, spec.layout).route(given[source])
        cells: dict[int, set[int]] = {}
        primary: Counter[int] = Counter()
        for shipment in routed.shipments:
            times = shipment.batch.column("ts").to_pylist()
            assert (shipment.time_min, shipment.time_max) == (min(times), max(times))
            for n in shipment.batch.column("n").to_pylist():
                assert shipment.cell not in cells.setdefault(n, set()), f"row {n} twice in cell {shipment.cell}"
                cells[n].add(shipment.cell)
                primary[n] += shipment.primary
        assert set(primary.values()) <= {1}, "a tuple is counted in exactly one cell"
        assert routed.rejected == given[source].column("ts").null_count
        assert routed.passed + len(cells) == given[source].num_rows - routed.rejected
        assert all(0 <= cell < spec.layout.total for mine in cells.values() for cell in mine)
        found.append(cells)
    return tuple(found)


def hot_places(spec: JoinSpec, given: dict[str, pa.Table], rng: random.Random) -> list[int]:
    """Return places (hashes or ranges) that tuples of the owner really have."""
    if spec.layout.kind == "range":
        return rng.sample(range(-3, 4), 3)
    seen: list[int] = []

    class Spy(Router):
        def _by_place(self, rows, places, arrays):
            seen.extend(places.tolist())
            return super()._by_place(rows, places, arrays)

    Spy(spec.plan, spec.layout.owner, spec.layout).route(given[spec.sources[spec.layout.owner]])
    return rng.sample(sorted(set(seen)), min(2, len(set(seen))))


@pytest.mark.filterwarnings("ignore::crosswind.errors.NullTimeWarning")
@pytest.mark.parametrize("hot", [False, True], ids=["even", "hot"])
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("where", [BAND, KEY, f"{BAND} AND {KEY}", "R.x < S.a", "R.x <> S.a AND R.n > 3"])
def test_every_pair_meets_in_exactly_one_cell(where, layout, hot):
    sql = f"SELECT R.n, S.n AS m FROM R [RANGE 5], S [RANGE 3] WHERE {where}"
    for seed in SEEDS:
        rng = seeds.chance(f"{where} {layout} {seed}")
        given = tables(rng, rng.choice(list(VALUES)), rng.choice(list(KEYS)))
        schemas = {name: table.schema for name, table in given.items()}
        spec = make_spec(sql, schemas, layout=layout[0], cells=layout[1])
        if hot and spec.layout.kind != "grid":
            chosen = hot_places(spec, given, rng)
            spec = make_spec(sql, schemas, layout=layout[0], cells=layout[1], hot=chosen)
        first, second = places(spec, given)
        for n, m in zip(*(column.to_pylist() for column in cw.run(sql, given).columns), strict=True):
            assert len(first[n] & second[m]) == 1, f"seed {seed}: {n} in {first[n]}, {m} in {second[m]}"
        for n, cells in first.items():
            for m, others in second.items():
                assert len(cells & others) <= 1, f"seed {seed}: {n} and {m} meet twice"


@pytest.mark.filterwarnings("ignore::crosswind.errors.NullTimeWarning")
@pytest.mark.parametrize("on", [BAND, f"{KEY} AND R.n > 3 AND S.n > 5"])
@pytest.mark.parametrize("kind", ["LEFT", "RIGHT", "FULL", "LEFT SEMI", "LEFT ANTI"])
def test_a_tuple_that_may_come_out_alone_is_in_one_cell_with_all_its_partners(kind, on):
    for layout, hot in (("auto", 3), False), (("auto", 3), True), (("range", 7), True), (("grid", 6), False):
        rng = seeds.chance(f"alone {kind} {layout} {on}")
        given = tables(rng, rng.choice(list(VALUES)), rng.choice(list(KEYS)))
        schemas = {name: table.schema for name, table in given.items()}
        shown = "R.n" if kind in ("LEFT SEMI", "LEFT ANTI") else "R.n, S.n AS m"
        with_n = "S.n < 1000"  # a column that is needed travels
        sql = f"SELECT {shown} FROM R [RANGE 5] {kind} JOIN S [RANGE 3] ON {on} AND {with_n}"
        spec = make_spec(sql, schemas, layout=layout[0], cells=layout[1])
        if hot and spec.layout.kind != "grid":
            chosen = hot_places(spec, given, rng)
            spec = make_spec(sql, schemas, layout=layout[0], cells=layout[1], hot=chosen)
        cells = places(spec, given)
        for unit, name in enumerate("RS"):
            if kind in ("FULL", {0: "LEFT", 1: "RIGHT"}[unit]) or (kind == "LEFT ANTI" and not unit):
                timed = given[name].num_rows - given[name].column("ts").null_count
                assert len(cells[unit]) == timed, "each has a place"
            if unit in spec.plan.queries[0].query.preserved:
                assert {len(mine) for mine in cells[unit].values()} <= {1}, "and only one"
        pairs = cw.run(f"SELECT R.n, S.n AS m FROM R [RANGE 5], S [RANGE 3] WHERE {on}", given)
        for n, m in zip(*(column.to_pylist() for column in pairs.columns), strict=True):
            assert len(cells[0][n] & cells[1][m]) == 1, f"{layout}: {n} in {cells[0][n]}, {m} in {cells[1][m]}"


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_the_cells_of_a_tuple_do_not_depend_on_its_place(layout):
    rng = seeds.chance(f"order {layout}")
    given = tables(rng, pa.float64(), pa.string())
    spec = make_spec(
        f"SELECT R.n, S.n AS m FROM R [RANGE 5], S [RANGE 3] WHERE {BAND}",
        {name: table.schema for name, table in given.items()},
        layout=layout[0],
        cells=layout[1],
    )
    mixed = {name: table.take(rng.sample(range(table.num_rows), table.num_rows)) for name, table in given.items()}
    assert places(spec, given) == places(spec, mixed)


def pack(table: pa.Table, packer: Pack) -> list[pa.RecordBatch]:
    return list(packer(table.select(list(packer.columns)).to_batches()))


def test_tuples_that_join_nothing_go_nowhere_but_tell_the_time():
    table = pa.table({"x": pa.array([1, 50], pa.int64()), "ts": pa.array([3, 9], pa.int64())})
    sql = "SELECT R.x FROM R [RANGE 5], S [RANGE 5] WHERE R.x < 10 AND R.x = S.x"
    spec = make_spec(sql, {"R": table.schema, "S": table.schema})
    keys = cell_keys(spec.layout.total)
    for rows, sent in ((table, 1), (table.slice(1), 0)):
        (packed,) = pack(rows, Pack(spec, 0, keys))
        assert packed.schema == PACKED_SCHEMA
        sizes = packed.filter(packed.column("block").is_valid()).column("tuples").to_pylist()
        assert (sum(sizes), sum(packed.column("tuples").to_pylist())) == (sent, rows.num_rows)
        assert max(packed.column("time").cast(pa.int64()).to_pylist()) == 9000
        (packed,) = pack(rows, Pack(spec, 0, keys, streaming=False))
        assert set(packed.column("time").to_pylist()) <= {None}


def test_a_block_tells_the_latest_of_its_times_and_a_self_join_counts_once():
    table = pa.table({"x": pa.array([1, 2, 50], pa.int64()), "ts": pa.array([9, 3, 4], pa.int64())})
    sql = "SELECT p.x FROM R [RANGE 5] p, R [RANGE 5] q WHERE p.x < 10 AND q.x < 10"
    spec = make_spec(sql, {"R": table.schema}, cells=1)
    keys = cell_keys(spec.layout.total)
    packed = [pack(table, Pack(spec, unit, keys))[0] for unit in range(2)]
    for batch in packed:
        block = batch.filter(batch.column("block").is_valid())
        assert block.column("time").cast(pa.int64()).to_pylist() == [9000]
        assert block.column("start").to_pylist() == [3]
    primary = [batch.filter(batch.column("is_primary")).column("tuples").to_pylist() for batch in packed]
    assert sum(map(sum, primary)) == 3, "the two tuples that join, and the one that does not"


def test_a_time_beyond_the_watermark_is_refused():
    table = pa.table({"x": pa.array([1], pa.int64()), "ts": pa.array([2**62], pa.int64())})
    spec = make_spec("SELECT R.x FROM R [RANGE 5], S [RANGE 5]", {"R": table.schema, "S": table.schema})
    with pytest.raises(cw.InputError, match=r"too great for Spark's watermark.*milliseconds.*nearer origin"):
        pack(table, Pack(spec, 0, cell_keys(spec.layout.total)))


# ---------------------------------------------------------------------------------- keys


@pytest.mark.parametrize(("cells", "partitions"), [(1, 1), (2, 2), (3, 2), (8, 8), (7, 3), (2, 200), (64, 12)])
def test_cells_are_spread_evenly_over_partitions(cells, partitions):
    keys = cell_keys(cells)
    assert len(set(keys)) == cells
    loads = Counter(partition_of(key, partitions) for key in keys)
    assert max(loads.values()) - min(loads[p] for p in range(partitions)) <= 1
    assert [partition_of(key, partitions) for key in keys] == [cell % partitions for cell in range(cells)]


@SPARK
@pytest.mark.parametrize("partitions", [1, 2, 7, 200])
def test_partitions_are_those_of_spark(spark, partitions):
    from pyspark.sql import functions as sf

    keys = [*range(300), -1, -(2**31), 2**31 - 1]
    frame = spark.createDataFrame(pa.table({"cell": pa.array(keys, pa.int32())}))
    rows = frame.select("cell", sf.pmod(sf.hash("cell"), sf.lit(partitions)).alias("p")).collect()
    assert {row.cell: row.p for row in rows} == {key: partition_of(key, partitions) for key in keys}


@SPARK
def test_spark_puts_cells_where_we_think(spark):
    keys = cell_keys(5)
    frame = spark.createDataFrame(pa.table({"cell": pa.array(keys, pa.int32())})).repartition(3, "cell")
    found = frame.rdd.glom().map(lambda rows: [row.cell for row in rows]).collect()
    assert [sorted(part) for part in found] == [
        sorted(keys[cell] for cell in range(5) if cell % 3 == p) for p in range(3)
    ]


# ---------------------------------------------------------------------------------- the choice


SCHEMAS = {
    "R": pa.schema([("x", pa.int64()), ("k", pa.string()), ("ts", pa.int64())]),
    "S": pa.schema([("a", pa.int64()), ("k", pa.string()), ("ts", pa.int64())]),
}


def chosen(where: str, layout: object = "auto", cells: int | None = None, windows=("RANGE 5", "RANGE 5"), **options):
    sql = f"SELECT R.x FROM R [{windows[0]}], S [{windows[1]}] WHERE {where}"
    plan = make_spec(sql, SCHEMAS).plan
    return plan, choose_layout(plan, layout, cells, cores=4, **options)


@pytest.mark.parametrize(
    ("where", "asked", "kind", "cells"),
    [
        (KEY, "auto", "hash", 4),
        (f"{BAND} AND {KEY}", "auto", "hash", 4),
        (f"{BAND} AND {KEY}", "range", "range", 4),
        (BAND, "auto", "range", 4),
        (BAND, "hash", "grid", 4),
        ("R.x < S.a", "auto", "grid", 4),
        ("R.x < S.a", "range", "range", 4),
        ("R.x * S.a = 12", "range", "grid", 4),
        ("abs(R.ts - S.ts) <= 2", "auto", "grid", 4),
        ("TRUE", "grid", "grid", 4),
        ("TRUE", (2, 3), "grid", 6),
    ],
)
def test_the_layout_follows_the_condition(where, asked, kind, cells):
    _, layout = chosen(where, asked)
    assert (layout.kind, layout.cells) == (kind, cells)


@pytest.mark.parametrize(
    ("where", "asked", "cells", "expected"),
    [
        (KEY, "auto", None, 16),
        (BAND, "auto", None, 16),
        (BAND, "auto", 3, 3),
        ("TRUE", "auto", None, 4),
        (BAND, (2, 3), None, 6),
    ],
)
def test_there_are_plenty_of_cells_where_they_copy_nothing(where, asked, cells, expected):
    assert chosen(where, asked, cells, plenty=True)[1].cells == expected


def test_a_cell_is_known_by_its_key():
    assert [cell_of(key) for key in cell_keys(100)] == list(range(100))


@pytest.mark.parametrize(
    ("where", "kind"),
    [
        ("R.k = S.k AND S.k = T.k", "hash"),
        ("R.k = S.k AND R.k = T.k AND T.x < 3", "hash"),
        ("R.k = S.k + 1 AND S.k = T.k", "grid"),
        ("R.k = S.k AND S.x = T.k", "grid"),
        ("R.k = S.k AND abs(S.k - T.k) <= 0", "grid"),
    ],
)
def test_three_streams_are_hashed_by_keys_that_are_equal_in_all_of_them(where, kind):
    schema = pa.schema([("k", pa.int64()), ("x", pa.int64()), ("ts", pa.int64())])
    sql = f"SELECT R.x FROM R [RANGE 5], S [RANGE 5], T [RANGE 5] WHERE {where}"
    assert make_spec(sql, dict.fromkeys("RST", schema), cells=4).layout.kind == kind


@pytest.mark.parametrize(
    ("kind", "on", "asked", "told"),
    [
        ("LEFT", KEY, "auto", "hash, 4 cells: equal keys"),
        ("FULL", f"{KEY} AND {BAND}", "auto", "hash, 4 cells: equal keys"),
        ("LEFT", BAND, "auto", "range, 4 cells: ranges of R.x,"),
        ("RIGHT", BAND, "auto", "range, 4 cells: ranges of S.a,"),
        ("LEFT SEMI", BAND, "auto", "range, 4 cells: ranges of R.x,"),
        ("RIGHT", "R.x < S.a", "range", "range, 4 cells: asked for; the band on S.a"),
        ("LEFT", BAND, "grid", r"grid, 4 cells \(4 x 1\): tuples of R that match nothing are known in one cell only"),
        ("RIGHT", BAND, (4, 3), r"grid, 3 cells \(1 x 3\): tuples of S"),
        ("FULL", BAND, "auto", r"grid, 1 cell \(1 x 1\): tuples of both .* may be copied .* an equality in ON would"),
        ("FULL", BAND, "range", r"grid, 1 cell \(1 x 1\): tuples of both"),
        ("LEFT ANTI", "R.x < S.a", "auto", r"grid, 4 cells \(4 x 1\): tuples of R"),
    ],
)
def test_the_layout_of_an_outer_join_copies_no_tuple_that_may_come_out_alone(kind, on, asked, told):
    plan = make_spec(f"SELECT R.x FROM R [RANGE 5] {kind} JOIN S [RANGE 5] ON {on}", SCHEMAS).plan
    layout = choose_layout(plan, asked, cores=4)
    assert re.match(told, describe_layout(layout, plan)[0])


def test_rows_windows_stay_together():
    for asked in ("auto", "hash", "range", "grid", (2, 3)):
        assert chosen(KEY, asked, windows=("ROWS 5", "RANGE 5"))[1].total == 1


def test_a_grid_copies_what_is_rare():
    _, layout = chosen("TRUE", rates=(1.0, 100.0))
    assert layout.sides == (1, 4)
    assert [layout.copies(unit) for unit in (0, 1)] == [4.0, 1.0]
    _, layout = chosen("TRUE", rates=(100.0, 1.0))
    assert layout.sides == (4, 1)
    assert chosen("TRUE")[1].sides == (2, 2)


def test_the_replication_factor_is_the_one_that_is_told():
    rng = seeds.chance(3)
    rows = 4000
    given = {
        name: pa.table(
            {
                column: pa.array([rng.randint(-10_000, 10_000) for _ in range(rows)], pa.int64()),
                "n": pa.array(range(rows), pa.int32()),
                "ts": pa.array([1] * rows, pa.int64()),
            }
        )
        for name, column in (("R", "x"), ("S", "a"))
    }
    schemas = {name: table.schema for name, table in given.items()}
    for layout, cells in (("range", 4), ("grid", 4), ((1, 5), None)):
        sql = "SELECT R.n, S.n AS m FROM R [RANGE 5], S [RANGE 5] WHERE abs(R.x - S.a) <= 10"
        spec = make_spec(sql, schemas, layout=layout, cells=cells)
        for unit, cells_of in enumerate(places(spec, given)):
            copies = sum(map(len, cells_of.values())) / rows
            assert copies == pytest.approx(spec.layout.copies(unit), rel=0.03)
        loads = Counter(cell for cells_of in places(spec, given) for mine in cells_of.values() for cell in mine)
        assert max(loads.values()) < 1.25 * min(loads[cell] for cell in range(spec.layout.total))


def test_a_layout_is_described():
    plan, layout = chosen(BAND)
    told = "\n".join(describe_layout(layout.with_hot([3, 5], 4), plan))
    assert "range, 4 cells" in told
    assert "copies of a tuple: R 1, S 1.06" in told
    assert "2 hot ranges with a grid of 2 x 2 cells each" in told
    assert layout.with_hot([3, 5], 4).total == 4 + 2 * 4


@pytest.mark.parametrize(
    ("layout", "cells", "told"),
    [
        ("gird", None, r"'gird' is not known.*auto, hash, range, grid.*'grid'"),
        ((0, 2), None, r"\(0, 2\).*2 whole numbers"),
        ((2, 2, 2), None, "rows, columns"),
        ((2, 3), 5, "6 cells but cells=5"),
        ("auto", 0, "at least 1"),
        ("auto", 1.5, "whole number"),
    ],
)
def test_impossible_layouts_are_refused(layout, cells, told):
    with pytest.raises(cw.InputError, match=f"(?s){told}"):
        chosen(BAND, layout, cells)


def test_the_identity_of_a_layout_is_its_routing():
    one = CellLayout("grid", 4, "a reason", sides=(2, 2))
    assert one.identity() == CellLayout("grid", 4, "another", sides=(2, 2)).identity()
    assert one.identity() != CellLayout("grid", 4, "a reason", sides=(4, 1)).identity()
    assert one.identity() != one.with_hot([1], 4).identity()


def test_range_numbers_keep_the_order_of_values():
    import numpy as np

    values = np.array([-math.inf, -1.7e308, -5.0, -0.0, 0.0, 4.9, 5.0, 1.7e308, math.inf])
    for width in (1e-300, 0.1, 5.0, 1e300):
        numbers = _range_numbers(values, width)
        assert (np.diff(numbers) >= 0).all()
        assert numbers.max() - numbers.min() >= 0, "differences fit into 64 bits"
    assert (_spread(np.array([0, 1, 2**62], dtype=np.int64)) >= 0).all()
