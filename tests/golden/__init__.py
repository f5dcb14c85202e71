"""What joins wrote that were written by other versions: ``format-N`` holds what was written in format N.

These are snapshots, the state of cells on Spark, and whole checkpoints. ``python -m tests.golden snapshots N``, or
``states N checkpoints N``, writes them, once, with the version whose format is N; they are never written again. What is
restored from them must give what a join gives that was never interrupted, or be refused by name.
"""

from __future__ import annotations

import decimal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

import crosswind as cw

FOLDER = Path(__file__).parent
SCHEMA = pa.schema(
    [
        ("ts", pa.int64()),
        ("x", pa.int32()),
        ("f", pa.float64()),
        ("word", pa.string()),
        ("price", pa.decimal128(30, 2)),
        ("flag", pa.bool_()),
        ("tags", pa.list_(pa.int16())),
    ]
)
PAIR = "FROM R [RANGE 9], S [RANGE 7]"
SHOWN = "R.ts, R.x, R.f, R.word, R.price, R.flag, R.tags, S.x AS a, S.word AS w"
QUERIES: dict[str, tuple[str | Mapping[str, str], dict[str, Any]]] = {
    "inner": (f"SELECT {SHOWN} {PAIR} WHERE abs(R.x - S.x) <= 1", {}),
    "strings": (f"SELECT {SHOWN} {PAIR} WHERE R.word = S.word AND R.price < S.price", {}),
    "rows": ("SELECT R.x, S.x AS a FROM R [ROWS 3], S [ROWS 4] WHERE R.x <= S.x", {}),
    "left": (f"SELECT {SHOWN} FROM R [RANGE 9] LEFT JOIN S [RANGE 7] ON R.x = S.x AND R.flag", {}),
    "full": ("SELECT R.x, S.x AS a FROM R [ROWS 3] FULL JOIN S [ROWS 3] ON R.x = S.x", {}),
    "ordered": (f"SELECT R.ts, S.ts AS t, R.tags {PAIR} WHERE R.x = S.x", {"ordered": True}),
    "three": ("SELECT R.x, T.word FROM R [RANGE 5], S [RANGE 5], T [RANGE 5] WHERE R.x = S.x AND S.x = T.x", {}),
    "many": (
        {
            "near": f"SELECT R.x, S.word {PAIR} WHERE abs(R.x - S.x) <= 1",
            "last": "SELECT R.x, S.price FROM R [ROWS 2], S [ROWS 2] WHERE R.x < S.x",
        },
        {},
    ),
}
ON_SPARK = ("inner", "rows", "left")
"""Those of which the state of a cell is kept, too."""


def batch(name: str, start: int) -> pa.Table:
    """Return eight tuples of a stream; the same in every version of everything."""
    step = {"R": 3, "S": 5, "T": 7}[name]
    return pa.Table.from_pylist(
        [
            {
                "ts": start + k,
                "x": None if k == 5 else k * step % 6,
                "f": [0.5, float("nan"), None, -0.0][k % 4],
                "word": ["a", "", None, "ä" * 3][(k + step) % 4],
                "price": decimal.Decimal(f"{10**20 + k * step}.25"),
                "flag": k % 3 > 0,
                "tags": [k, start] if k % 2 else None,
            }
            for k in range(8)
        ],
        SCHEMA,
    )


def streams(name: str) -> list[str]:
    """Return the streams of a query."""
    return ["R", "S", "T"] if name == "three" else ["R", "S"]


def open_golden(name: str, **options: Any) -> Any:
    """Open the join of a query."""
    sql, own = QUERIES[name]
    return cw.open(sql, dict.fromkeys(streams(name), SCHEMA), lateness=1, **own, **options)


def feed(name: str, join: Any, start: int) -> list[str]:
    """Push eight tuples of each stream; return the rows."""
    found = [row for stream in streams(name) for row in rows_of(join.push(stream, batch(stream, start)))]
    return found if name == "ordered" else sorted(found)


def rows_of(found: Any) -> list[str]:
    """Return results as text, a row each."""
    named = found if isinstance(found, dict) else {"": found}
    return [f"{query} {row}" for query, table in named.items() for row in table.to_pylist()]


def make_simulation(name: str) -> Any:
    """Return a simulated join on Spark, with one cell."""
    import random

    from tests.spark.simulation import CALM, Simulation, make_spec

    spec = make_spec(QUERIES[name][0], dict.fromkeys(streams(name), SCHEMA), lateness=1, layout=(1, 1))
    return Simulation(spec, random.Random(1), CALM)
