"""What cells hold, carried over to other cells and to other queries: exact, or said by name."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import pyarrow as pa
import pytest

import crosswind as cw
from crosswind.spark.cache import JoinCache
from crosswind.spark.change import check_change, gaps_of
from crosswind.spark.definition import Definition
from tests import seeds
from tests.spark.simulation import CALM, Simulation, Trouble, carried_over, make_spec

SCHEMA = pa.schema([("id", pa.int64()), ("x", pa.int64()), ("y", pa.int64()), ("ts", pa.int64())])
SCHEMAS = {"R": SCHEMA, "S": SCHEMA}
LATENESS = 6
SHOWN = "R.id, S.id AS a, R.y, S.y AS b"
AFTER = 6
"""Batches before the change."""
ROUNDS = 9


JOINS = {"inner": "JOIN", "left": "LEFT JOIN", "full": "FULL JOIN", "semi": "LEFT SEMI JOIN", "anti": "LEFT ANTI JOIN"}


def query(on: str, kind: str, windows: tuple[str, str], shown: str = SHOWN, **_: Any) -> str:
    join, shown = JOINS[kind], "R.id" if kind in ("semi", "anti") else shown
    return f"SELECT {shown} FROM R [RANGE {windows[0]}] {join} S [RANGE {windows[1]}] ON {on}"


def streams(rng: random.Random, rounds: int = ROUNDS) -> dict[str, list[pa.Table]]:
    """Return batches that come up to ``LATENESS`` late; some tuples twice, some without a value."""
    number = 0
    batches: dict[str, list[pa.Table]] = {"R": [], "S": []}
    for k in range(rounds):
        for parts in batches.values():
            rows = []
            for _ in range(rng.randint(5, 25)):
                number += 1
                place = 97 * (k % 3 + rng.choice([0, 3, 3, 6]))  # of another range, and of one that others leave
                x = rng.choice([None, *range(place, place + 20)])
                row = {"id": number, "x": x, "y": rng.randint(0, 5), "ts": 4 * k + rng.randint(0, LATENESS) + 50}
                rows += [row] * rng.choice([1, 1, 1, 2])
            parts.append(pa.Table.from_pylist(rows, SCHEMA))
    return batches


def rows_of(simulation: Simulation) -> list[tuple]:
    return sorted((tuple(row.values())[:2] for row in simulation.table().to_pylist()), key=repr)


def feed(simulation: Simulation, batches: dict[str, list[pa.Table]], rounds: range) -> None:
    for number in rounds:
        simulation.batch({name: parts[number] for name, parts in batches.items()})


def expected(before: dict, after: dict, batches: dict[str, list[pa.Table]]) -> list[tuple]:
    """Return pairs of the old query that are complete before the change, and those of the new one that come later.

    A tuple comes out alone if it met none of them, whichever query was asked.
    """
    tuples = {
        name: [(number, row) for number, part in enumerate(parts) for row in part.to_pylist()]
        for name, parts in batches.items()
    }
    found, met = [], {"R": set(), "S": set()}
    for i, (m, r) in enumerate(tuples["R"]):
        for j, (n, s) in enumerate(tuples["S"]):
            asked = before if max(m, n) < AFTER else after
            gap = s["ts"] - r["ts"]
            near = 0 <= gap < int(asked["windows"][0]) if gap >= 0 else -gap < int(asked["windows"][1])
            if near and asked["test"](r, s):
                found.append((r["id"], s["id"]))
                met["R"].add(i)
                met["S"].add(j)
    kind = after["kind"]
    alone = [r["id"] for i, (_, r) in enumerate(tuples["R"]) if i not in met["R"]]
    if kind == "anti":
        return sorted(((number,) for number in alone), key=repr)
    if kind == "semi":
        return sorted(((r["id"],) for i, (_, r) in enumerate(tuples["R"]) if i in met["R"]), key=repr)
    found += [(number, None) for number in alone] if kind in ("left", "full") else []
    lonely = [s["id"] for j, (_, s) in enumerate(tuples["S"]) if j not in met["S"]]
    found += [(None, number) for number in lonely] if kind == "full" else []
    return sorted(found, key=repr)


def near(width: int) -> Any:
    return lambda r, s: None not in (r["x"], s["x"]) and abs(r["x"] - s["x"]) <= width


BAND = {"on": "abs(R.x - S.x) <= 3", "test": near(3), "kind": "inner", "windows": ("12", "9")}
EQUAL = BAND | {"on": "R.x = S.x", "test": near(0)}
ANY = BAND | {
    "on": "R.x + R.y < S.x * S.y",
    "test": lambda r, s: None not in (r["x"], s["x"]) and r["x"] + r["y"] < s["x"] * s["y"],
}
WIDER = BAND | {"on": "abs(R.x - S.x) <= 5", "test": near(5)}
FILTERED = BAND | {
    "on": "abs(R.x - S.x) <= 3 AND R.y > 2",
    "test": lambda r, s: near(3)(r, s) and r["y"] > 2,
}
SMALL = BAND | {"shown": "R.id, S.id AS a"}
SHORTER = BAND | {"windows": ("5", "2")}


def carried(before: dict, after: dict, old: dict, new: dict, seed: str, trouble: Trouble = CALM) -> None:
    """Run a query, change it, let it go on, and compare."""
    rng = seeds.chance("carried", seed)
    batches = streams(rng)
    first = make_spec(query(**before), SCHEMAS, lateness=LATENESS, **old)
    second = make_spec(query(**after), SCHEMAS, lateness=LATENESS, **new)
    check_change(first, second)
    assert not gaps_of(first, second)
    simulation = Simulation(first, rng, trouble)
    feed(simulation, batches, range(AFTER))
    later = carried_over(simulation, second)
    feed(later, batches, range(AFTER, ROUNDS))
    later.close_windows()
    assert sorted(rows_of(simulation) + rows_of(later), key=repr) == expected(before, after, batches)


LAYOUTS = {
    "range 4": {"cells": 4},
    "range 16": {"cells": 16},
    "grid": {"layout": (2, 3)},
    "one": {"layout": (1, 1)},
}


def named(asked: dict) -> str:
    """Return the name of a query, the same in every process."""
    return f"{asked['kind']} {asked['on']} {'-'.join(asked['windows'])}".replace(" ", "_")


@pytest.mark.parametrize("kind", ["inner", "left", "semi", "anti"])
@pytest.mark.parametrize("change", ["range 4>range 16", "range 16>range 4", "grid>range 4", "range 4>grid", "grid>one"])
def test_other_cells_hold_what_the_old_ones_held(change, kind):
    old, new = (LAYOUTS[name] for name in change.split(">"))
    carried(BAND | {"kind": kind}, BAND | {"kind": kind}, old, new, f"{change} {kind}", Trouble())


@pytest.mark.parametrize("kind", ["inner", "full"])
def test_keys_go_to_other_cells(kind):
    carried(EQUAL | {"kind": kind}, EQUAL | {"kind": kind}, {"cells": 5}, {"cells": 2}, kind)
    carried(
        EQUAL | {"kind": kind},
        EQUAL | {"kind": kind},
        {"cells": 2, "hot": (7,)} if kind == "inner" else {},
        {"cells": 3},
        f"hot {kind}",
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (BAND, WIDER),
        (BAND, EQUAL),
        (EQUAL, BAND),
        (BAND, ANY),
        (BAND, FILTERED),
        (BAND, SHORTER),
        (BAND | {"kind": "left"}, SHORTER | {"kind": "left"}),
        (BAND | {"kind": "left"}, FILTERED | {"kind": "left"}),
    ],
    ids=named,
)
def test_another_query_goes_on_where_the_old_one_was(before, after):
    carried(before, after, {"cells": 4}, {"cells": 3}, f"{before['on']} {after['on']}")


def spec_of(asked: dict, **options: Any) -> Any:
    schemas = options.pop("schemas", SCHEMAS)
    return make_spec(options.pop("sql", None) or query(**asked), schemas, lateness=LATENESS, **options)


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (BAND, BAND | {"windows": ("13", "9")}, ["window of 'R' is longer"]),
        (BAND, BAND | {"windows": ("12", "9 INCLUSIVE")}, ["window of 'S' is longer"]),
        (BAND, BAND | {"kind": "left"}, ["which of the waiting tuples of 'R' have matched"]),
        (BAND | {"kind": "left"}, BAND | {"kind": "full"}, ["which of the waiting tuples of 'S' have matched"]),
        (FILTERED, BAND, ["tuples of 'R' were not kept if they did not satisfy R.y > 2"]),
        (FILTERED | {"kind": "left"}, BAND | {"kind": "left"}, []),
        (FILTERED, FILTERED | {"on": "R.y > 2 AND abs(R.x - S.x) <= 9"}, []),
        (BAND, BAND | {"on": "R.id <= S.id"}, ["not kept if they had no value of R.x", "had no value of S.x"]),
        (
            BAND | {"on": "S.x >= R.x AND S.x <= R.y"},
            BAND | {"on": "S.x >= R.x - 9 AND S.x <= R.y"},
            ["tuples of 'R' were not kept if they had bounds between which nothing lies"],
        ),
        (BAND | {"on": "R.x = S.x"}, BAND | {"on": "coalesce(R.x, 0) = S.x"}, ["no value of R.x"]),
        (SMALL, BAND | {"on": "abs(R.x - S.x) <= 3 AND R.y < S.y"}, ["'R': 'y' was not kept", "'S': 'y' was not kept"]),
    ],
    ids=lambda given: named(given) if isinstance(given, dict) else " and ".join(given),
)
def test_what_cannot_be_known_is_named(before, after, words):
    gaps = gaps_of(spec_of(before), spec_of(after))
    assert len(gaps) == len(words), gaps
    for gap, part in zip(gaps, words, strict=True):
        assert part in gap


def test_columns_that_are_added_are_null_in_what_waits():
    """They are known in all that comes later."""
    old, new = "SELECT R.id, S.id AS a", "SELECT R.id, S.id AS a, R.y"
    rest = "FROM R [RANGE 12], S [RANGE 9] WHERE R.x = S.x"
    first, second = (spec_of(BAND, sql=f"{shown} {rest}", cells=3) for shown in (old, new))
    assert [gap for gap in gaps_of(first, second) if "'R': 'y' was not kept" in gap]
    rng = seeds.chance("added")
    batches = streams(rng)
    simulation = Simulation(first, rng, CALM)
    feed(simulation, batches, range(AFTER))
    later = carried_over(simulation, second)
    feed(later, batches, range(AFTER, ROUNDS))
    known = {row["id"]: row["y"] for part in batches["R"][AFTER:] for row in part.to_pylist()}
    shown = later.table().to_pylist()
    assert {row["y"] is None for row in shown} == {True, False}
    assert all(row["y"] == known.get(row["id"]) for row in shown)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"sql": "SELECT R.id FROM S [RANGE 9], R [RANGE 9] WHERE R.x = S.x"}, cw.InputError, "streams .* same order"),
        ({"time": {"R": "id", "S": "ts"}}, cw.InputError, "its time is 'id' in the new join and 'ts'"),
        (
            {"schemas": {"R": SCHEMA.set(1, pa.field("x", pa.int32())), "S": SCHEMA}},
            cw.InputError,
            "column 'x' is int32 in the new join and int64 in the checkpoint",
        ),
        (
            {"sql": "SELECT R.id FROM R [ROWS 9], S [RANGE 9] WHERE R.x = S.x"},
            cw.UnsupportedError,
            "the new query has ROWS windows",
        ),
    ],
)
def test_what_does_not_go_together_is_refused(options, error, words):
    with pytest.raises(error, match=words):
        check_change(spec_of(BAND), spec_of(BAND, **options))


def test_a_definition_makes_the_join_again():
    definition = Definition(
        {"a": query(**BAND), "b": query(**EQUAL)}, SCHEMAS, {"R": "ts", "S": "ts"}, {"R": None, "S": 5}, None, "auto", 4
    )
    again = Definition.from_text(definition.to_text())
    assert again == definition
    assert again.make()[0].identity() == definition.make()[0].identity()
    assert again.make()[0].by_previous
    with pytest.raises(cw.SnapshotError, match="definition of the join in this checkpoint is damaged"):
        Definition.from_text(definition.to_text()[:-9])


def test_the_first_cell_keeps_the_definition_and_writes_it_once():
    spec = dataclasses.replace(spec_of(BAND, layout=(1, 1)), definition="what it is")
    rng = seeds.chance("definition")
    simulation, batches = Simulation(spec, rng, CALM), streams(rng)
    feed(simulation, batches, range(2))
    (state,) = simulation.now.states.values()
    assert state["block definition"] == b"what it is"
    simulation.spec = dataclasses.replace(spec, definition="other")
    simulation._workers = [JoinCache()]
    feed(simulation, batches, range(2, 3))
    (state,) = simulation.now.states.values()
    assert state["block definition"] == b"other"
