"""``CAST(x AS type)`` as the user writes it."""

from __future__ import annotations

import re

from crosswind.errors import QueryError, UnsupportedError, did_you_mean
from crosswind.query.coerce import call, cast
from crosswind.query.refusal import RefusalError
from crosswind.query.temporal import read_date, read_temporal, read_timestamp
from crosswind.query.tree import Expr, Literal
from crosswind.query.types import DATE, Kind, SqlType

__all__ = ["explicit_cast"]

_TYPES = {
    "TINYINT": SqlType(Kind.INT, bits=8),
    "SMALLINT": SqlType(Kind.INT, bits=16),
    "INT": SqlType(Kind.INT, bits=32),
    "BIGINT": SqlType(Kind.INT, bits=64),
    "FLOAT": SqlType(Kind.FLOAT, bits=32),
    "DOUBLE": SqlType(Kind.FLOAT, bits=64),
    "DATE": DATE,
    "TIMESTAMP": SqlType(Kind.TIMESTAMP, unit="us"),
    "TIMESTAMP_LTZ": SqlType(Kind.TIMESTAMP, unit="us", zoned=True),
}
_SYNONYMS = {
    "BYTE": "TINYINT",
    "SHORT": "SMALLINT",
    "INTEGER": "INT",
    "LONG": "BIGINT",
    "REAL": "FLOAT",
    "DOUBLE PRECISION": "DOUBLE",
    "NUMERIC": "DECIMAL",
    "DEC": "DECIMAL",
    "DATETIME": "TIMESTAMP",
    "TIMESTAMP_NTZ": "TIMESTAMP",
    "TIMESTAMPNTZ": "TIMESTAMP",
    "TIMESTAMPLTZ": "TIMESTAMP_LTZ",
    "TIMESTAMPTZ": "TIMESTAMP_LTZ",
}
_ALLOWED = "TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, DECIMAL(p,s), DATE, TIMESTAMP"
_DECIMAL = re.compile(r"DECIMAL(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?")


def explicit_cast(expr: Expr, name: str, sql: str, start: int, end: int) -> Expr:
    """Convert ``expr`` to the type called ``name``, if there is such a conversion."""
    to = _named(name, sql, start, end)
    if isinstance(expr, Literal) and isinstance(expr.value, str):
        if to.kind is Kind.DATE:
            return read_date(expr)
        if to.kind is Kind.TIMESTAMP:
            return read_temporal(expr, to) if to.zoned else read_timestamp(expr)
    of = expr.type
    if of.kind is Kind.NULL or of == to:
        return cast(expr, to)
    if of.is_numeric and to.is_numeric:
        return cast(expr, to)
    if of.kind is Kind.TIMESTAMP and to.kind is Kind.TIMESTAMP and of.zoned == to.zoned:
        return expr
    if of.kind is Kind.DATE and to.kind is Kind.TIMESTAMP and not to.zoned:
        return cast(expr, to)
    if of.kind is Kind.TIMESTAMP and to.kind is Kind.DATE and not of.zoned:
        return call("cast", to, expr)
    raise RefusalError(
        f"Cannot cast {{0}} from {of} to {name}. Casts go between numbers, between a date and a timestamp without "
        "a zone, and from a string constant to a date or timestamp.",
        expr,
    )


def _named(name: str, sql: str, start: int, end: int) -> SqlType:
    word = name.upper()
    base = word.partition("(")[0].strip()
    word = word.replace(base, _SYNONYMS.get(base, base), 1)
    if word in _TYPES:
        return _TYPES[word]
    if match := _DECIMAL.fullmatch(word):
        precision, scale = int(match[1] or 10), int(match[2] or 0)
        if 1 <= precision <= 38 and scale <= precision:
            return SqlType(Kind.DECIMAL, precision=precision, scale=scale)
        raise QueryError(f"{name} is not a type: DECIMAL(p,s) needs 1 <= p <= 38 and 0 <= s <= p.", sql, start, end)
    hint = did_you_mean(base, [*_TYPES, "DECIMAL"])
    shown = "STRING" if base == "TEXT" else name  # sqlglot's name for it
    raise UnsupportedError(f"Cannot cast to {shown}.{hint} Allowed: {_ALLOWED}.", sql, start, end)
