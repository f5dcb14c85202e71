"""Many queries in one join: exact, shared, coming and going."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest

import crosswind as cw
from tests import seeds
from tests.conftest import ENGINES, EngineConfig, plan_steps
from tests.oracle import Join, Output, Role, Window, assert_same, expected_rows

COLUMNS = {"R": "abc", "S": "de", "T": "fg"}
SCHEMAS = {
    name: pa.schema([("ts", pa.int64()), *((column, pa.int32()) for column in columns)])
    for name, columns in COLUMNS.items()
}
CONDITIONS = {
    "RS": [
        "R.a = S.d",
        "R.b = S.e",
        "R.a = S.d OR R.c = S.e",
        "R.a = S.d AND R.c = S.e",
        "R.a BETWEEN S.d - {n} AND S.d + {n}",
        "abs(R.a - S.d) <= {n} AND R.b <> S.e",
        "R.a > {n} AND R.b = S.e",
        "S.d IS NULL OR R.b < S.e - {n}",
        "R.a < {n}",
    ],
    "ST": ["S.e = T.f", "S.e = T.g", "S.d = T.f", "T.f BETWEEN S.e - {n} AND S.e + {n} AND T.g > {n}", "S.e < T.g"],
    "RST": [
        "R.a = S.d AND S.e = T.f",
        "(R.c = S.e OR S.e = T.f) AND R.a = S.d",
        "R.a + S.d = T.f",
        "R.a = S.d AND abs(T.f - R.b) <= {n}",
        "T.g = {n}",
    ],
}


def make_tables(rng: random.Random, rows: int = 40) -> dict[str, pa.Table]:
    high = rng.choice([3, 6, 12])
    nulls = rng.choice([0.0, 0.2])
    tables = {}
    for name, columns in COLUMNS.items():
        times = sorted(rng.randrange(60) for _ in range(rows))
        if rng.random() < 0.4:
            times = [t for _, t in sorted((t + rng.randrange(8), t) for t in times)]
        arrays: dict[str, Any] = {"ts": pa.array(times, pa.int64())}
        for column in columns:
            values = [None if rng.random() < nulls else rng.randrange(high) for _ in times]
            arrays[column] = pa.array(values, pa.int32())
        tables[name] = pa.table(arrays)
    return tables


def make_query(rng: random.Random, kinds: str = "rows range now") -> tuple[str, Join]:
    """Return a query and what the oracle needs of it, but for the tables."""
    streams = rng.choice(list(CONDITIONS))
    condition = rng.choice(CONDITIONS[streams]).format(n=rng.randrange(4))
    roles, entries = [], []
    for stream in streams:
        kind = rng.choice(kinds.split())
        size = rng.randint(1, 15)
        window = {
            "rows": Window("rows", count=size),
            "range": Window("range", Fraction(size)),
            "now": Window("now"),
        }[kind]
        entries.append(f"{stream} [{'NOW' if kind == 'now' else f'{kind.upper()} {size}'}]")
        roles.append(Role(stream, stream, window))
    outputs = tuple(
        Output(f"{stream}_{column}", at, column)
        for at, stream in enumerate(streams)
        for column in ("ts", *COLUMNS[stream])
    )
    sql = f"SELECT * FROM {', '.join(entries)} WHERE {condition}"
    return sql, Join(tuple(roles), {}, condition, outputs)


def rows_of_join(join: Join, tables: dict[str, pa.Table]) -> list[tuple[Any, ...]]:
    return expected_rows(Join(join.roles, tables, join.predicate, join.outputs))


def gather(parts: list[dict[str, pa.Table]]) -> dict[str, pa.Table]:
    names = dict.fromkeys(name for part in parts for name in part)
    return {name: pa.concat_tables([part[name] for part in parts if name in part]) for name in names}


@pytest.mark.parametrize("seed", range(9))
def test_queries_that_share_a_join_are_exact(seed: int):
    rng = seeds.chance(f"many {seed}")
    engine: EngineConfig = ENGINES[seed % len(ENGINES)]
    kinds = rng.choice(["range now", "rows range now", "rows"])
    made = {f"q{k}": make_query(rng, kinds) for k in range(rng.randint(1, 5))}
    tables = make_tables(rng)
    texts = {name: sql for name, (sql, _) in made.items()}
    if engine.mode == "run":
        with engine.small_windows():
            found = cw.run(texts, tables, **engine.options)
    else:
        found = live(engine, texts, tables, rng)
    for name, (sql, join) in made.items():
        assert_same(rows_of_join(join, tables), found[name], f"seed {seed}, {engine.id}: {sql}")


def live(engine: EngineConfig, texts: dict[str, str], tables: dict[str, pa.Table], rng: random.Random) -> Any:
    streams = {name for name in tables if any(f"{name} [" in text for text in texts.values())}
    tables = {name: table for name, table in tables.items() if name in streams}
    steps = plan_steps(tables, rng)
    stop = rng.randrange(len(steps) + 1) if engine.mode == "restore" else -1
    join = engine.open(texts, SCHEMAS, lateness=60)
    parts = []
    for number, step in enumerate(steps):
        if number == stop:
            state = join.snapshot()
            join.close()
            join = engine.open(texts, SCHEMAS, lateness=60, restore=state)
        parts.append(join.push(step.stream, tables[step.stream].slice(step.start, step.stop - step.start)))
    parts.append(join.finish())
    assert join.stats.results == sum(table.num_rows for part in parts for table in part.values())
    return gather(parts)


@pytest.mark.parametrize("seed", range(6))
def test_queries_come_and_go_without_disturbing_the_others(seed: int):
    """Each sees just the tuples later than all that were there when it was added."""
    rng = seeds.chance(f"coming {seed}")
    kinds = ["range now", "rows range"][seed % 2]
    made = {f"q{k}": make_query(rng, kinds) for k in range(6)}
    tables = make_tables(rng)
    steps = plan_steps(tables, rng)
    join = cw.open({"q0": made["q0"][0], "q1": made["q1"][0]}, SCHEMAS, lateness=60, basic_window=4)
    since = {"q0": -1, "q1": -1}
    dropped: str | None = None
    known = {"q0", "q1"}
    newest = -1
    parts = []
    events = sorted(rng.sample(range(len(steps)), min(4, len(steps))))
    for number, step in enumerate(steps):
        if number in events:
            name = f"q{2 + events.index(number)}"
            join.add(name, made[name][0])
            since[name] = newest
            known.add(name)
            if name == "q4":
                dropped = "q1"
                join.drop("q1")
                known.discard("q1")
            if name == "q5":
                state = join.snapshot()
                queries = join.queries
                join.close()
                join = cw.open(queries, SCHEMAS, lateness=60, restore=state)
        batch = tables[step.stream].slice(step.start, step.stop - step.start)
        if step.stream not in join.streams:
            nobody = pa.table({c: pa.nulls(batch.num_rows, batch[c].type) for c in batch.column_names})
            before, after = tables[step.stream].slice(0, step.start), tables[step.stream].slice(step.stop)
            tables[step.stream] = pa.concat_tables([before, nobody, after])
            continue
        parts.append(join.push(step.stream, batch))
        if batch.num_rows:
            newest = max(newest, max(batch["ts"].to_pylist()))
    parts.append(join.finish())
    found = gather(parts)
    assert set(join.queries) == known
    for name in since:
        if name == dropped:
            continue
        sql, oracle = made[name]
        seen = {n: t.filter(pa.compute.greater(t["ts"], since[name])) for n, t in tables.items()}
        assert_same(rows_of_join(oracle, seen), found[name], f"seed {seed}, {name} since {since[name]}: {sql}")


def test_similar_queries_share_one_search():
    texts = {
        f"q{w}": f"SELECT R.a, S.d FROM R [RANGE {w + 1}], S [RANGE 9] WHERE abs(R.a - S.d) <= {w % 9}"
        for w in range(70)
    }
    rng = seeds.chance(5)
    tables = {name: table for name, table in make_tables(rng).items() if name != "T"}
    found = cw.run(texts, tables)
    for name in ("q0", "q7", "q64", "q69"):
        alone = cw.run(texts[name], tables)
        assert sorted(map(repr, found[name].to_pylist())) == sorted(map(repr, alone.to_pylist()))


@pytest.mark.parametrize("basic_window", [1, 64])
def test_the_longest_window_and_the_most_rows_are_waited_for(basic_window: int):
    """What the query with the shorter window is done with still waits for the other one, and only for it."""
    schema = pa.schema([("ts", pa.int64()), ("x", pa.int64())])
    shown = "SELECT R.ts AS r FROM R [{}], S [{}] WHERE R.x = S.x"
    for short, long, last in (("RANGE 3", "RANGE 6", 2), ("ROWS 1", "ROWS 3", 0)):
        queries = {"short": shown.format(short, "ROWS 1"), "long": shown.format(long, "ROWS 1")}
        with cw.open(queries, {"R": schema, "S": schema}, basic_window=basic_window) as join:
            for ts in range(6):
                join.push("R", {"ts": [ts], "x": [7]})
            join.advance("R", 9)
            join.advance("S", 5)
            found = [join.push("S", {"ts": [5], "x": [7]}), join.finish()]
        rows = gather(found)
        kept = {name: sorted(table.column("r").to_pylist()) for name, table in rows.items()}
        assert kept == ({"short": [3, 4, 5], "long": [0, 1, 2, 3, 4, 5]} if last else {"short": [5], "long": [3, 4, 5]})


def test_an_added_query_sees_only_what_is_later_than_all_that_was_there():
    schema = pa.schema([("ts", pa.int64()), ("x", pa.int64())])
    shown = "SELECT R.x AS r, S.x AS s FROM R [RANGE 9], S [RANGE 9] WHERE"
    with cw.open({"equal": f"{shown} R.x = S.x"}, {"R": schema, "S": schema}) as join:
        join.push("R", {"ts": [10], "x": [1]})
        join.add("less", f"{shown} R.x < S.x")
        assert join.push("S", {"ts": [11], "x": [5]})["less"].num_rows == 0, "it waits since before"
        found = join.push("R", {"ts": [10, 10, 11], "x": [2, 5, 3]})
    assert found["equal"].to_pylist() == [{"r": 5, "s": 5}]
    assert found["less"].to_pylist() == [{"r": 3, "s": 5}], "not one of the very time at which it was added"


SHARED = {
    "equalities": ["R.a = S.d + 1", "R.a = S.d + 2", "R.a = S.d + 4"],
    "subtracted": ["R.a > S.d - 1 AND R.a < S.e", "R.a > S.d - 4 AND R.a < S.e"],
    "filters": ["R.a < 4 AND R.a = S.d", "R.a > 8 AND R.a = S.d"],
    "columns": ["R.a = S.d", "R.b = S.e", "R.a <= S.d AND R.b = S.e"],
}


@pytest.mark.parametrize("index", ["scan", "hash"])
@pytest.mark.parametrize("conditions", SHARED.values(), ids=list(SHARED))
def test_queries_that_share_a_search_find_what_each_finds_alone(conditions, index):
    rng = seeds.chance(3)
    tables = {
        name: pa.table(
            {
                "ts": pa.array(range(120), pa.int64()),
                **{c: [None if rng.random() < 0.1 else rng.randrange(12) for _ in range(120)] for c in COLUMNS[name]},
            },
            schema=SCHEMAS[name],
        )
        for name in "RS"
    }
    texts = {
        f"q{k}": f"SELECT R.ts AS r, S.ts AS s FROM R [RANGE 40], S [RANGE {30 + k}] WHERE {condition}"
        for k, condition in enumerate(conditions)
    }
    with cw.open(texts, {name: SCHEMAS[name] for name in "RS"}, index=index, basic_window=8, lateness=9) as join:
        parts = [join.push(name, tables[name].slice(at, 6)) for at in range(0, 120, 6) for name in "RS"]
        found = gather([*parts, join.finish()])
    for name, text in texts.items():
        alone = cw.run(text, tables, index="scan")
        assert alone.num_rows > 20
        assert sorted(map(repr, found[name].to_pylist())) == sorted(map(repr, alone.to_pylist())), text


def test_results_in_time_order():
    rng = seeds.chance(9)
    tables = make_tables(rng)
    texts = {
        "one": "SELECT R.ts AS r, S.ts AS s FROM R [RANGE 9], S [RANGE 9] WHERE R.a = S.d",
        "two": "SELECT S.ts AS r, T.ts AS s FROM S [RANGE 4], T [RANGE 4] WHERE S.e = T.f",
    }
    with cw.open(texts, SCHEMAS, ordered=True, lateness=60) as join:
        parts = [join.push(name, tables[name].slice(at, 7)) for at in range(0, 40, 7) for name in "RST"]
        found = gather([*parts, join.finish()])
    for name, table in found.items():
        times = [max(row["r"], row["s"]) for row in table.to_pylist()]
        assert times == sorted(times), name
        assert times


def test_names_and_schemas():
    with cw.open({"x": "SELECT R.a FROM R [NOW], S [NOW] WHERE R.a = S.d"}, SCHEMAS) as join:
        assert join.schema == {"x": pa.schema([("a", pa.int32())])}
        assert join.streams == ("R", "S")
        assert list(join.push("R", {"ts": [1], "a": [1], "b": [1], "c": [1]})) == ["x"]
        join.add("y", "SELECT T.f FROM S [ROWS 3], T [NOW] WHERE T.f = S.d")
        assert join.streams == ("R", "S", "T")
        assert list(join.queries) == ["x", "y"]
        join.drop("x")
        assert join.streams == ("S", "T")
        assert list(join.finish()) == ["y"]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda j: j.add("x", "SELECT R.a FROM R [NOW], S [NOW]"), cw.InputError, "has a query 'x' already"),
        (lambda j: j.drop("z"), cw.InputError, "no query 'z'; it has x"),
        (lambda j: j.drop("x"), cw.InputError, "only query of the join; close the join"),
        (lambda j: j.add("y", "SELECT R.a FROM R [NOW], S [NOW] WHERE R.q = 1"), cw.QueryError, "Unknown column 'q'"),
        (
            lambda j: j.add("y", "SELECT * FROM R [NOW] LEFT JOIN S [NOW] ON R.a = S.d"),
            cw.UnsupportedError,
            "'y' is a LEFT JOIN, and such a query does not share",
        ),
        (
            lambda j: j.add("y", "SELECT R.a FROM S [ROWS 2], R [ROWS 2] WHERE R.a = S.d"),
            cw.UnsupportedError,
            "same streams in different orders",
        ),
    ],
)
def test_what_cannot_be_added_or_dropped(call, error, message):
    with cw.open({"x": "SELECT R.a FROM R [NOW], S [NOW] WHERE R.a = S.d"}, SCHEMAS) as join:
        with pytest.raises(error, match=message):
            call(join)
        join.push("R", {"ts": [1], "a": [1], "b": [1], "c": [1]})
        assert join.push("S", {"ts": [1], "d": [1], "e": [1]})["x"].num_rows == 1


WIDE = {
    name: pa.schema([("ts", pa.int64()), *((column, pa.int64()) for column in columns)])
    for name, columns in COLUMNS.items()
}
CALM = "SELECT R.a FROM R [RANGE 9], S [RANGE 9] WHERE R.a = S.d"
FAULTY = {
    "in a pair": "SELECT R.a FROM R [RANGE 9], S [RANGE 9] WHERE R.a = S.d AND R.b * S.e > 7",
    "without a key": "SELECT R.a FROM R [RANGE 9], S [RANGE 9] WHERE R.b * S.e > 7",
    "in a tuple": "SELECT R.a FROM R [RANGE 9], S [RANGE 9] WHERE R.a = S.d AND S.e * S.e > R.b",
    "in SELECT": "SELECT R.b * S.e AS x FROM R [RANGE 9], S [RANGE 9] WHERE R.a = S.d",
    "in the third": "SELECT R.a FROM R [RANGE 9], S [RANGE 9], T [RANGE 9] WHERE R.a = S.d AND T.f * S.e = R.b",
}


@pytest.mark.parametrize("where", FAULTY)
def test_an_overflow_names_its_query_and_nothing_is_half_applied(where: str):
    large = 1 << 40
    with cw.open({"calm": CALM, "faulty": FAULTY[where]}, WIDE) as join:
        join.push("R", {"ts": [1], "a": [1], "b": [large], "c": [1]})
        if "T" in join.streams:
            join.push("T", {"ts": [1], "f": [large], "g": [1]})
        before = join.stats
        with pytest.raises(cw.ArithmeticOverflowError, match=r"quer.*'faulty'.*The batch was not taken") as caught:
            join.push("S", {"ts": [2, 3], "d": [1, 1], "e": [1, large]})
        assert "calm" not in str(caught.value)
        after = join.stats
        assert (after.window_tuples, after.results, after.watermarks) == (
            before.window_tuples,
            before.results,
            before.watermarks,
        )
        assert join.push("S", {"ts": [2], "d": [1], "e": [1]})["calm"].num_rows == 1
        join.drop("faulty")
        assert join.push("S", {"ts": [3], "d": [1], "e": [large]})["calm"].num_rows == 1
