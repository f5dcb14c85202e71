"""Windows rebuilt from what was pushed before: they must join as if nothing had happened."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import crosswind as cw
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


def test_a_join_that_counts_tuples_is_not_refilled():
    data = {"R": stream(1, "x", "i"), "S": stream(2, "a", "j")}
    query = QUERY.replace("RANGE 300", "ROWS 10")
    join = cw.open(query, {name: table.schema for name, table in data.items()})
    with pytest.raises(cw.UnsupportedError, match=r"restore=snapshot"):
        join.refill("R", data["R"])
