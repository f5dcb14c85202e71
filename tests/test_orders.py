"""Join orders over three and more streams: no cross product while a condition is left, and bad choices are undone."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

import crosswind as cw


def schemas(columns: dict[str, str]) -> dict[str, pa.Schema]:
    return {
        name: pa.schema([("ts", pa.int64()), *((column, pa.int64()) for column in names.split())])
        for name, names in columns.items()
    }


STAR = {"d": "k", "f1": "g c", "f2": "c"}
STAR_SQL = """
SELECT d.k FROM d [RANGE 1000000], f1 [RANGE 1000000], f2 [RANGE 1000000] WHERE d.k = f1.g AND f1.c = f2.c
"""


def test_no_order_takes_a_cross_product_while_a_condition_is_left():
    """The window of d is so small that all of it promises fewer combinations than the matches in f1."""
    rng = np.random.default_rng(3)
    with cw.open(STAR_SQL, schemas(STAR)) as join:
        assert join.stats.routes["f2"] == "f1 > d"
        join.push("d", {"ts": [0, 0], "k": [1, 2]})
        for at in range(33):  # 500,000 tuples, and a look at the windows after 64 calls
            ts = np.full(8192, at)
            join.push("f1", {"ts": ts, "g": rng.integers(0, 2_000, 8192), "c": rng.integers(0, 10_000, 8192)})
            join.push("f2", {"ts": ts, "c": rng.integers(0, 10_000, 8192)})
            assert join.stats.routes["f2"] == "f1 > d"
        assert sum(join.stats.tuples_in.values()) > 500_000
        assert join.stats.results > 0


@pytest.mark.parametrize("width", [5, 8])
def test_orders_of_long_chains_follow_the_conditions(width: int):
    """A chain of equalities: from every stream, each step must go to a neighbour of what is joined."""
    names = "ABCDEFGH"[:width]
    rng = np.random.default_rng(5)
    where = " AND ".join(f"{a}.k = {b}.j" for a, b in pairwise(names))
    sql = f"SELECT A.k FROM {', '.join(f'{name} [RANGE 30]' for name in names)} WHERE {where}"
    with cw.open(sql, schemas(dict.fromkeys(names, "k j"))) as join:
        for at in range(70):
            for place, name in enumerate(names):
                count = 1 + 3 * (place % 3)  # windows of very different size
                values = {column: rng.integers(0, 40, count) for column in "kj"}
                join.push(name, {"ts": np.full(count, at), **values})
        for source, way in join.stats.routes.items():
            joined = {names.index(source)}
            for name in way.split(" > "):
                place = names.index(name)
                assert {place - 1, place + 1} & joined, (source, way)
                joined.add(place)


HOT = {"A": "k j", "B": "k", "C": "j"}
HOT_SQL = "SELECT A.k FROM A [RANGE 100000], B [RANGE 100000], C [RANGE 100000] WHERE A.k = B.k AND A.j = C.j"
WINDOW = 8_192


def hot(rng: np.random.Generator, count: int) -> dict[str, np.ndarray]:
    """Return tuples of A: most match two of B and none of C, one in a hundred none of B and all of C."""
    chosen = rng.random(count) < 0.01
    return {
        "k": np.where(chosen, -1, rng.integers(0, WINDOW // 2, count)),
        "j": np.where(chosen, 0, rng.integers(1, 1 << 40, count)),
    }


def open_hot(join: cw.Join) -> int:
    """Fill the windows, and push quiet tuples of A until C is asked first; return the next time."""
    join.push("B", {"ts": np.zeros(WINDOW, np.int64), "k": np.arange(WINDOW) // 2})
    join.push("C", {"ts": np.zeros(WINDOW, np.int64), "j": np.zeros(WINDOW, np.int64)})
    for at in range(1, 100):
        join.push("A", {"ts": np.full(256, at), "k": np.arange(256), "j": np.arange(1, 257)})
        if join.stats.routes["A"] == "C > B":
            return at + 1
    raise AssertionError("samples promise less work if C is asked first")


def test_an_order_that_proves_bad_is_taken_back():
    """Samples say to ask C first. Then tuples of A come that match all of C: the combinations they make tell."""
    rng = np.random.default_rng(11)
    with cw.open(HOT_SQL, schemas(HOT)) as join:
        assert join.stats.routes["A"] == "B > C"
        first = open_hot(join)
        ways = []
        for at in range(first, first + 150):
            join.push("A", {"ts": np.full(256, at), **hot(rng, 256)})
            ways.append(join.stats.routes["A"])
        assert "B > C" in ways[:2], "much more work is noticed after a push or two"
        assert set(ways[2:]) == {"B > C"}, "and the order is not tried again soon"


def test_an_order_that_proves_good_stays():
    with cw.open(HOT_SQL, schemas(HOT)) as join:
        first = open_hot(join)
        for at in range(first, first + 150):
            join.push("A", {"ts": np.full(256, at), "k": np.arange(256), "j": np.arange(1, 257)})
            assert join.stats.routes["A"] == "C > B"


def test_windows_that_fill_do_not_make_an_order_bad():
    """Ten times as many partners wait after the change as before it: all orders make more combinations."""
    with cw.open(HOT_SQL, schemas(HOT)) as join:
        first = open_hot(join)
        for at in range(first, first + 100):
            join.push("B", {"ts": np.full(WINDOW, at), "k": np.arange(WINDOW) // 2})
            join.push("A", {"ts": np.full(16, at), "k": np.arange(16), "j": np.arange(1, 17)})
            assert join.stats.routes["A"] == "C > B"
