"""Odd queries, schemas, batches and options in Python: each gets a message that names the cause and the next step.

``tests/test_wrong_inputs.py`` is the same for the command line.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import crosswind as cw
from tests.conftest import EngineConfig

INT = pa.int64()
R = pa.schema([("x", INT), ("s", pa.string()), ("f", pa.float64()), ("ts", INT)])
S = pa.schema([("a", INT), ("t", pa.string()), ("ts", INT)])
SCHEMAS = {"R": R, "S": S}
FROM = "FROM R [RANGE 5], S [RANGE 5]"
QUERY = f"SELECT R.x, S.a {FROM} WHERE R.x = S.a"
BATCH: dict[str, Any] = {"x": [1], "s": ["a"], "f": [1.0], "ts": [1]}
HALF = "\ud800"


def explained(sql: str, schemas: Any = SCHEMAS, **options: Any) -> Callable[[], Any]:
    return lambda: cw.explain(sql, schemas, **options)


def where(condition: str) -> Callable[[], Any]:
    return explained(f"SELECT R.x {FROM} WHERE {condition}")


def select(output: str) -> Callable[[], Any]:
    return explained(f"SELECT {output} {FROM}")


def joined(join: str, on: str = "ON R.x = S.a") -> Callable[[], Any]:
    return explained(f"SELECT R.x FROM R [RANGE 5] {join} S [RANGE 5] {on}")


def timed(of: pa.DataType) -> Callable[[], Any]:
    return explained(QUERY, {"R": pa.schema([("x", INT), ("ts", of)]), "S": S})


def opened(query: Any = QUERY, schemas: Any = SCHEMAS, **options: Any) -> Callable[[], Any]:
    return lambda: cw.open(query, schemas, **options)


def pushed(batch: Any, stream: Any = "R") -> Callable[[], Any]:
    def push() -> Any:
        with cw.open(QUERY, SCHEMAS) as join:
            return join.push(stream, batch)

    return push


def ran(r: Any) -> Callable[[], Any]:
    return lambda: cw.run(QUERY, {"R": r, "S": {"a": [1], "t": ["a"], "ts": [1]}})


TWICE = pd.DataFrame([[1, 2, 3]], columns=["x", "x", "ts"])
ODD: dict[str, tuple[Callable[[], Any], str]] = {
    # schemas
    "two time columns": (
        opened(f"SELECT R.x, S.a {FROM}", {"R": pa.schema([("ts", INT), ("ts", INT), ("x", INT)]), "S": S}),
        "The stream R has 2 columns called 'ts', its time column. Rename all but one.",
    ),
    "two columns": (
        explained(QUERY, {"R": pa.schema([("ts", INT), ("x", INT), ("x", INT)]), "S": S}),
        "The stream R has more than one column called 'x'. Rename them.",
    ),
    "no columns": (explained(QUERY, {"R": pa.schema([]), "S": S}), "The stream R has no time column 'ts'"),
    "uint64 time": (
        timed(pa.uint64()),
        "Cast it before the join: table['ts'].cast(pa.int64()), on Spark CAST(ts AS BIGINT)",
    ),
    "decimal time": (timed(pa.decimal128(9, 0)), "Cast it before the join: table['ts'].cast(pa.int64())"),
    "text time": (timed(pa.string()), "Cast it before the join: table['ts'].cast(pa.timestamp('us'))"),
    "dictionary time": (
        timed(pa.dictionary(pa.int8(), INT)),
        "Decode it before the join: table['ts'].cast(pa.int64())",
    ),
    "float time": (timed(pa.float64()), "is of type double. Allowed: timestamp of any unit"),
    "list time": (timed(pa.list_(INT)), "is of type list<item: int64>. Allowed"),
    "null time": (timed(pa.null()), "is of type null. Allowed"),
    "number as stream": (
        opened(QUERY, {5: R, "S": S}),
        "schemas maps names of streams to pyarrow schemas, got the name 5",
    ),
    "schemas None": (opened(QUERY, None), "schemas must be a mapping of stream names to pyarrow schemas"),
    "schema None": (
        opened(QUERY, {"R": None, "S": S}),
        "the schema of stream 'R' must be a pyarrow.Schema, got NoneType",
    ),
    "time to None": (opened(time={"R": None}), "time maps names of streams to names of columns, got 'R': None"),
    "time of 5": (opened(time={5: "ts"}), "time maps names of streams to names of columns, got 5: 'ts'"),
    "time list": (opened(time=["ts"]), "time must be the name of a column, or a mapping of streams to names, got list"),
    # halves of characters
    "half in a constant": (
        where(f"R.s = '{HALF}'"),
        r"The query holds a lone surrogate, '\ud800': half of a character",
    ),
    "half in a name": (select(f'R.x AS "{HALF}"'), r"The query holds a lone surrogate, '\ud800'"),
    "half in a comment": (where(f"R.x = 1 -- {HALF}"), r"The query holds a lone surrogate, '\ud800'"),
    "half escaped": (where(r"R.s = '\ud800'"), r"The constant holds a lone surrogate, '\ud800'"),
    "half in data": (pushed({**BATCH, "s": [HALF]}), r"a text or a name of the batch holds a lone surrogate, '\ud800'"),
    "half in a frame": (pushed(pd.DataFrame({**BATCH, "s": [HALF]})), "holds a lone surrogate"),
    "half in a table": (
        ran({**BATCH, "s": [HALF]}),
        "stream 'R': a text or a name of the batch holds a lone surrogate",
    ),
    "half in a column's name": (
        pushed({f"x{HALF}": [1], "ts": [1]}),
        "a text or a name of the batch holds a lone surrogate",
    ),
    # windows
    "no length": (explained("SELECT R.x FROM R [RANGE 0], S [NOW]"), "write [NOW] or [RANGE 0 INCLUSIVE]"),
    "no rows": (
        explained("SELECT R.x FROM R [ROWS 0], S [NOW]"),
        "a whole number of at least 1 and below 2^63, got '0'",
    ),
    "too many rows": (explained(f"SELECT R.x FROM R [ROWS {2**63}], S [NOW]"), "below 2^63"),
    # joins
    "positional": (joined("POSITIONAL JOIN", ""), "POSITIONAL JOIN is not supported. Allowed: INNER JOIN"),
    "array join": (joined("ARRAY JOIN", ""), "To call the stream before it ARRAY, write AS ARRAY"),
    "hash join": (joined("hash JOIN"), "HASH JOIN is not supported"),
    "straight join": (joined("STRAIGHT_JOIN", ""), "STRAIGHT_JOIN is not supported. Allowed"),
    "right semi": (joined("RIGHT SEMI JOIN"), "RIGHT SEMI JOIN is not supported. Swap the streams: S LEFT SEMI JOIN R"),
    "right anti": (joined("RIGHT ANTI JOIN"), "RIGHT ANTI JOIN is not supported. Swap the streams: S LEFT ANTI JOIN R"),
    "natural": (
        joined("NATURAL JOIN", ""),
        "NATURAL JOIN is not supported. Write which columns must be equal: JOIN ... USING",
    ),
    "natural left": (joined("NATURAL LEFT JOIN", ""), "NATURAL LEFT JOIN is not supported. Write which columns"),
    "using nothing": (joined("JOIN", "USING ()"), "USING needs at least one column: USING (column, ...)."),
    "joined in parentheses": (
        explained("SELECT R.x FROM (R [RANGE 5] JOIN S [RANGE 5])"),
        "Parentheses around streams or joins in FROM are not supported",
    ),
    "two in parentheses": (
        explained("SELECT R.x FROM (R [RANGE 5], S [RANGE 5])"),
        "Leave them out: FROM R [window] JOIN",
    ),
    "one in parentheses": (explained("SELECT R.x FROM (R [RANGE 5]), S [NOW]"), "Parentheses around streams or joins"),
    "subquery": (explained("SELECT * FROM (SELECT 1) q, S [NOW]"), "subqueries and table functions are not supported"),
    # expressions
    "cast to STRING": (select("CAST(R.x AS STRING) AS q"), "Cannot cast to STRING. Allowed: TINYINT"),
    "cast to VARCHAR": (select("CAST(R.x AS VARCHAR(5)) AS q"), "Cannot cast to VARCHAR(5). Allowed"),
    "no binary": (where("X'zz' = X'00'"), "X'zz' is not a binary constant: only 0-9 and A-F are allowed"),
    "open string": (where(r"R.s = 'a\'"), "This string literal is never closed"),
    "empty list": (where("R.x IN ()"), "IN takes a list of values here"),
    "any": (where("R.x = ANY (1, 2)"), "ANY (1, 2) is not supported in an expression"),
    "parameter": (where("R.x = ?"), "Parameters are not supported. Write the value into the query"),
    "suffix": (where("R.x = 1L"), "a number takes no suffix; use CAST(1 AS BIGINT)"),
    "element": (select("R.x[0] AS q"), "Brackets are for windows"),
    "lambda": (where("exists(R.x, y -> y > 1)"), "is not supported in an expression"),
    "two queries": (explained(f"{QUERY}; {QUERY}"), "Expected one SELECT, got 2 statements"),
    "insert": (explained("INSERT INTO R VALUES (1)"), "Expected a SELECT"),
    # batches
    "frame with two x": (
        pushed(TWICE),
        "the batch has 2 columns named 'x'; it has x, x, ts. Rename or drop all but one",
    ),
    "frame with two x, run": (ran(TWICE), "stream 'R': the batch has 2 columns named 'x'"),
    "table with two x": (
        pushed(pa.table([[1], [2], [3]], names=["x", "x", "ts"])),
        "the batch has 2 columns named 'x'",
    ),
    "series": (pushed(pd.Series([1])), "got Series, which is not Arrow-shaped; push a pyarrow Table"),
    "index of tuples": (
        pushed(pd.DataFrame([[1, 2]], columns=pd.MultiIndex.from_tuples([("x", "a"), ("ts", "b")]))),
        "the batch has no column",
    ),
    "number as column": (pushed({5: [1], "ts": [1]}), "the batch cannot be read as Arrow data"),
    "nothing": (pushed(None), "got NoneType, which is not Arrow-shaped"),
    "a list": (pushed([BATCH]), "got list, which is not Arrow-shaped"),
    "ragged": (pushed({**BATCH, "x": [1, 2]}), "the batch cannot be read as Arrow data"),
    "an object": (pushed({**BATCH, "x": [object()]}), "the batch cannot be read as Arrow data"),
    "two dimensions": (pushed({**BATCH, "x": np.zeros((1, 1))}), "the batch cannot be read as Arrow data"),
    "complex": (pushed({**BATCH, "x": np.array([1j])}), "the batch cannot be read as Arrow data"),
    "too large": (pushed({**BATCH, "x": [2**70]}), "the batch cannot be read as Arrow data"),
    "polars objects": (
        pushed(pl.DataFrame({**BATCH, "x": pl.Series([object()], dtype=pl.Object)})),
        "stream 'R'",
    ),
    "a date for a number": (pushed({**BATCH, "ts": [dt.datetime(2020, 1, 1)]}), "stream 'R'"),
    "stream None": (pushed(BATCH, None), "no stream"),
    # options
    "query bytes": (opened(b"SELECT"), "query must be SQL text, or a mapping of names to texts, got bytes"),
    "no queries": (opened({}), "the mapping of queries is empty"),
    "query number": (opened({"a": 5}), "A query must be text, got int"),
    "name number": (opened({5: QUERY}), "the name of a query must be text, got 5"),
    "lateness": (opened(lateness=float("nan")), "lateness nan is not understood"),
    "workers": (opened(workers=1.5), "workers"),
    "basic window": (opened(basic_window=0), "basic_window"),
    "restore": (opened(restore=b"abc"), "snapshot"),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_inputs_get_a_message(name: str):
    attempt, message = ODD[name]
    with pytest.raises(cw.CrosswindError) as caught:
        attempt()
    text = str(caught.value)
    assert message in text
    text.encode()  # it can be printed
    assert caught.value.__cause__ is None


def test_there_are_at_least_sixty():
    assert len(ODD) >= 60


def test_words_of_other_joins_can_be_names():
    plan = cw.explain("SELECT hash.x FROM R [RANGE 5] AS hash JOIN S [RANGE 5] ON hash.x = S.a", SCHEMAS)
    assert "hash.x = S.a" in plan.sections["keys"]


def test_a_range_of_zero_that_is_inclusive_is_now(engine: EngineConfig):
    tables = {
        "R": pa.table({"x": pa.array([1, 2, 3], INT), "ts": pa.array([1, 2, 2], INT)}),
        "S": pa.table({"a": pa.array([7, 8], INT), "ts": pa.array([2, 3], INT)}),
    }
    now, zero = (
        engine.rows(f"SELECT R.x, S.a FROM R [{window}], S [{window}]", tables).sort_by("x").to_pylist()
        for window in ("NOW", "RANGE 0 INCLUSIVE")
    )
    assert now == zero == [{"x": 2, "a": 7}, {"x": 3, "a": 7}]
    units = pa.table({"ts": pa.array([1, 2], pa.timestamp("s"))})
    if not engine.on_spark:
        sql = "SELECT R.ts AS a, S.ts AS b FROM R [RANGE 0 SECONDS INCLUSIVE], S [NOW]"
        assert engine.rows(sql, {"R": units, "S": units}).num_rows == 2
