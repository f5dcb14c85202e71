"""Streams, and constructors of expression trees, that the tests of ``query`` share."""

from __future__ import annotations

import pyarrow as pa
import pytest

from crosswind.errors import QueryError
from crosswind.query import format_expr, parse
from crosswind.query.tree import Call, Column, Expr, Literal, Output, Query
from crosswind.query.types import BOOL, DATE, DOUBLE, INT64, STRING, Kind, SqlType

R = pa.schema(
    {
        "ts": pa.timestamp("us"),
        "x": pa.int32(),
        "y": pa.float32(),
        "z": pa.float64(),
        "i8": pa.int8(),
        "i16": pa.int16(),
        "i64": pa.int64(),
        "u64": pa.uint64(),
        "s": pa.string(),
        "raw": pa.binary(),
        "ok": pa.bool_(),
        "d": pa.decimal128(10, 2),
        "wide": pa.decimal128(30, 2),
        "day": pa.date32(),
        "at": pa.timestamp("ms", tz="UTC"),
        "took": pa.duration("ms"),
        "tags": pa.list_(pa.string()),
        "nothing": pa.null(),
        "Mixed Case": pa.int32(),
    }
)
S = pa.schema(
    {
        "ts": pa.timestamp("ms"),
        "a": pa.int32(),
        "b": pa.float32(),
        "x": pa.int64(),
        "s": pa.large_string(),
        "d": pa.decimal128(12, 4),
        "sum38": pa.decimal128(38, 20),
        "day": pa.date64(),
        "at": pa.timestamp("ns", tz="Europe/Berlin"),
        "kind": pa.dictionary(pa.int32(), pa.string()),
    }
)
SCHEMAS = {"R": R, "S": S}
FROM = "R [RANGE 15 MINUTES], S [RANGE 15 MINUTES]"

INT8, INT16, INT32 = (SqlType(Kind.INT, bits=bits) for bits in (8, 16, 32))
FLOAT = SqlType(Kind.FLOAT, bits=32)


def decimal(precision: int, scale: int) -> SqlType:
    return SqlType(Kind.DECIMAL, precision=precision, scale=scale)


def timestamp(unit: str, zoned: bool = False) -> SqlType:
    return SqlType(Kind.TIMESTAMP, unit=unit, zoned=zoned)


def interval(unit: str) -> SqlType:
    return SqlType(Kind.DURATION, unit=unit)


X, Y, Z = Column(INT32, 0, "x"), Column(FLOAT, 0, "y"), Column(DOUBLE, 0, "z")
I8, I64, D = Column(INT8, 0, "i8"), Column(INT64, 0, "i64"), Column(decimal(10, 2), 0, "d")
OK, TEXT, DAY = Column(BOOL, 0, "ok"), Column(STRING, 0, "s"), Column(DATE, 0, "day")
TS, SEEN, TOOK = Column(timestamp("us"), 0, "ts"), Column(timestamp("ms"), 1, "ts"), Column(interval("ms"), 0, "took")
A, B, SD = Column(INT32, 1, "a"), Column(FLOAT, 1, "b"), Column(decimal(12, 4), 1, "d")
WIDE = Column(decimal(30, 2), 0, "wide")


def cast(expr: Expr, to: SqlType) -> Call:
    return Call(to, "cast", (expr,))


def call(op: str, *args: Expr, of: SqlType = BOOL) -> Call:
    return Call(of, op, args)


def int64(value: int) -> Literal:
    return Literal(INT64, value)


def long(expr: Expr) -> Call:
    return cast(expr, INT64)


def query(sql: str, **options: object) -> Query:
    return parse(sql, SCHEMAS, **options)  # type: ignore[arg-type]


def where(condition: str, source: str = FROM) -> Expr:
    found = query(f"SELECT 1 AS one FROM {source} WHERE {condition}").where
    assert found is not None
    return found


def outputs(columns: str, source: str = FROM) -> tuple[Output, ...]:
    return query(f"SELECT {columns} FROM {source}").outputs


def value(expression: str) -> Expr:
    return outputs(f"{expression} AS v")[0].expr


def shown(condition: str, source: str = FROM) -> str:
    found = query(f"SELECT 1 AS one FROM {source} WHERE {condition}")
    assert found.where is not None
    return format_expr(found.where, found.streams)


def error_of(sql: str, **options: object) -> QueryError:
    with pytest.raises(QueryError) as caught:
        query(sql, **options)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    assert "\x1b" not in str(caught.value)
    return caught.value


def marked(error: QueryError) -> str:
    """Return the text the error points at."""
    return error.sql[error.start : error.end] if error.sql is not None and error.start >= 0 else ""
