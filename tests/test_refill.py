"""Windows rebuilt from what was pushed before: they must join as if nothing had happened."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import crosswind as cw
from crosswind.window.arrival import Order
from tests import seeds

QUERY = "SELECT R.x, R.i, S.a, S.j FROM R [RANGE 300], S [RANGE 200] WHERE R.x BETWEEN S.a - 3 AND S.a + 3"
ROWS = 6000


def stream(seed: object, value: str, number: str) -> pa.Table:
    rng = seeds.numbers(seed)
    times = np.sort(rng.integers(0, 2000, ROWS))
    return pa.table({value: rng.integers(0, 400, ROWS), number: np.arange(ROWS), "ts": times})


def rows(tables: list[pa.Table]) -> list[tuple]:
    whole = pa.concat_tables(tables)
    return sorted(zip(*(column.to_pylist() for column in whole.columns), strict=True))


@pytest.mark.parametrize("index", ["auto", "scan", "band"])
@pytest.mark.parametrize("arranged", [False, True])
def test_a_refilled_join_goes_on(index, arranged):
    data = {"R": stream(f"{index} {arranged} R", "x", "i"), "S": stream(f"{index} {arranged} S", "a", "j")}
    schemas = {name: table.schema for name, table in data.items()}
    expected = rows([cw.run(QUERY, data)])
    stop = 4000
    cut = {name: int(np.searchsorted(table["ts"].to_numpy(), 1200)) for name, table in data.items()}
    first = cw.open(QUERY, schemas, lateness=stop, index=index, basic_window=256)
    found = [first.push(name, table.slice(0, cut[name])) for name, table in data.items()]
    first.close()
    second = cw.open(QUERY, schemas, lateness=stop, index=index, basic_window=256)
    for name, table in data.items():
        second.refill(name, table.slice(0, cut[name]))
    assert second.advance_to(1200).num_rows == 0
    for at in (0, 100):
        for name, table in data.items():
            rest = table.slice(cut[name])
            found.append(second.push(name, rest.slice(0, 100) if at == 0 else rest.slice(100)))
        if arranged:
            second.arrange()
    found.append(second.finish())
    assert rows(found) == expected
    assert second.stats.tuples_in == {name: ROWS - cut[name] for name in data}


def test_refilled_windows_are_arranged_when_something_was_looked_for():
    data = {"R": stream(1, "x", "i"), "S": stream(2, "a", "j")}
    join = cw.open(QUERY, {name: table.schema for name, table in data.items()}, lateness=4000, basic_window=256)
    for name, table in data.items():
        join.refill(name, table)
    assert set(join.stats.index.values()) == {"scan"}
    for name, table in data.items():
        join.push(name, table.slice(0, 100))
    join.arrange()
    assert set(join.stats.index.values()) == {"band"}


def test_a_join_that_counts_tuples_goes_on_from_tuples_and_numbers():
    data = {"R": stream("counted R", "x", "i"), "S": stream("counted S", "a", "j")}
    schemas = {name: table.schema for name, table in data.items()}
    query = QUERY.replace("RANGE 300", "ROWS 500")
    expected = rows([cw.run(query, data)])
    first = cw.open(query, schemas, lateness=4000)
    found = [first.push(name, table.slice(0, 4000)) for name, table in data.items()]
    found.append(first.advance_to(900))
    order = first.order([0, 0])
    first.close()
    second = cw.open(query, schemas, lateness=4000)
    for name, table in data.items():
        start = int(np.searchsorted(table["ts"].to_numpy(), order.floors["RS".index(name)]))
        assert 0 < start < 4000, "what is older is not needed"
        second.refill(name, table.slice(start, 4000 - start), start)
    second.resume(900, order, [4000, 4000])
    found += [second.push(name, table.slice(4000)) for name, table in data.items()]
    found.append(second.finish())
    assert rows(found) == expected


def test_a_join_that_counts_tuples_says_if_some_are_missing():
    data = {"R": stream(1, "x", "i"), "S": stream(2, "a", "j")}
    with cw.open(QUERY.replace("RANGE 300", "ROWS 10"), {name: table.schema for name, table in data.items()}) as join:
        join.refill("R", data["R"].slice(0, 5))
        nothing = Order((0, 0), (0, 0), (None, None), ((), ()))
        with pytest.raises(ValueError, match="5 tuples are not the 6 that were numbered"):
            join.resume(1000, replace(nothing, counts=(6, 0)), [6, 0])
        join.resume(1000, replace(nothing, counts=(6, 0), firsts=(2, 0)), [6, 0])
        assert join.order([0, 0]).counts == (6, 0)
