"""Results by iterating, by callback, into a sink; as Arrow, pandas and polars."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pyarrow as pa
import pytest

import crosswind as cw

SCHEMA = pa.schema([("ts", pa.int64()), ("x", pa.int32())])
SCHEMAS = {"R": SCHEMA, "S": SCHEMA}
SQL = "SELECT R.x AS r, S.x AS s FROM R [RANGE 5], S [RANGE 5] WHERE R.x = S.x"


def arrivals() -> Iterator[tuple[str, dict[str, list[int]]]]:
    for ts in range(6):
        yield "R", {"ts": [ts], "x": [ts % 3]}
        yield "S", {"ts": [ts], "x": [ts % 2]}


def expected() -> int:
    tables = {name: {"ts": list(range(6)), "x": [ts % n for ts in range(6)]} for name, n in (("R", 3), ("S", 2))}
    return cw.run(SQL, {name: pa.table(data) for name, data in tables.items()}).num_rows


class Shelf:
    """A sink that keeps what it gets."""

    def __init__(self) -> None:
        self.tables: list[pa.Table] = []
        self.closed = False

    def write(self, table: pa.Table) -> None:
        self.tables.append(table)

    def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize("form", ["arrow", "pandas", "polars"])
def test_results_by_iterating(form):
    if form != "arrow":
        pytest.importorskip(form)
    with cw.open(SQL, SCHEMAS) as join:
        found = list(join.results(arrivals(), form))
    assert sum(map(len, found)) == expected()
    assert all(len(part) for part in found)
    assert type(found[0]).__module__.split(".")[0] == {"arrow": "pyarrow"}.get(form, form)


def test_results_by_iterating_asynchronously():
    async def source() -> AsyncIterator[tuple[str, dict[str, list[int]]]]:
        for arrival in arrivals():
            await asyncio.sleep(0)
            yield arrival

    async def collect() -> int:
        with cw.open({"one": SQL, "two": SQL}, SCHEMAS) as join:
            return sum([table.num_rows async for found in join.aresults(source()) for table in found.values()])

    assert asyncio.run(collect()) == 2 * expected()


def test_a_sink_gets_all_and_is_closed():
    shelf = Shelf()
    with cw.open(SQL, SCHEMAS) as join:
        assert join.drain(arrivals(), shelf) == expected()
    assert shelf.closed
    assert sum(table.num_rows for table in shelf.tables) == expected()


def test_a_sink_is_closed_when_something_fails():
    shelf = Shelf()
    with cw.open(SQL, SCHEMAS) as join, pytest.raises(cw.InputError):
        join.drain([("R", {"ts": [1], "x": [1]}), ("Q", {})], shelf)
    assert shelf.closed


def test_callbacks():
    heard = []
    with cw.open({"one": SQL, "two": SQL.replace("=", "<>")}, SCHEMAS) as join:
        stop = join.subscribe(lambda query, table: heard.append((query, table.num_rows)))
        for stream, batch in arrivals():
            join.push(stream, batch)
        rows = sum(count for query, count in heard if query == "one")
        assert rows == expected()
        stop()
        stop()
        heard.clear()
        join.push("R", {"ts": [6], "x": [0]})
        assert not heard


def test_an_unknown_form_is_refused_at_once():
    with cw.open(SQL, SCHEMAS) as join, pytest.raises(cw.InputError, match=r"form='panda' is not known.*pandas"):
        next(join.results(arrivals(), "panda"))
