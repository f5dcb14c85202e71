"""Expressions written back as SQL, for ``explain`` and for error messages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta

from crosswind.query.tree import Call, Column, Expr, Literal, Stream
from crosswind.query.types import UNITS_PER_SECOND, Kind, SqlType

__all__ = ["format_expr", "is_implicit_cast", "quote_name", "type_name"]

_INFIX = {
    "or": ("OR", 1),
    "and": ("AND", 2),
    "eq": ("=", 4),
    "ne": ("<>", 4),
    "lt": ("<", 4),
    "le": ("<=", 4),
    "gt": (">", 4),
    "ge": (">=", 4),
    "same": ("IS NOT DISTINCT FROM", 4),
    "add": ("+", 5),
    "sub": ("-", 5),
    "mul": ("*", 6),
    "div": ("/", 6),
    "mod": ("%", 6),
}
_SUFFIX = {"is_null": "NULL", "is_true": "TRUE", "is_false": "FALSE"}
_NOT, _TEST, _ATOM = 3, 4, 9
_ESCAPES = str.maketrans({"\\": "\\\\", "'": "''", "\n": "\\n", "\r": "\\r", "\t": "\\t"})
_LISTED = 16
"""Values of a list that are shown."""
_WORD = re.compile(r"[^\W\d]\w*")


def format_expr(expr: Expr, streams: Sequence[Stream]) -> str:
    """Render ``expr`` as SQL over the aliases of ``streams``; implicit casts are left out."""
    return _render(expr, streams)[0]


def quote_name(name: str) -> str:
    """Return ``name`` as it must be written in SQL."""
    return name if _WORD.fullmatch(name) else '"' + name.replace('"', '""') + '"'


def is_implicit_cast(expr: Expr) -> bool:
    """Whether ``expr`` is a cast that the type rules put in, not the user.

    Those sit at exactly the place of what they convert. Without places, a cast counts as
    implicit; every tree made by ``parse`` has places.
    """
    return isinstance(expr, Call) and expr.op == "cast" and expr.start == expr.args[0].start


def type_name(of: SqlType) -> str:
    """Return the SQL name of a type, as CAST takes it."""
    match of.kind:
        case Kind.INT:
            return {8: "TINYINT", 16: "SMALLINT", 32: "INT", 64: "BIGINT"}[of.bits]
        case Kind.TIMESTAMP:
            return "TIMESTAMP"
        case _:
            return str(of).upper()


def _render(expr: Expr, streams: Sequence[Stream]) -> tuple[str, int]:
    """Return the text and how tightly it binds."""
    match expr:
        case Column(role=role, name=name):
            return f"{quote_name(streams[role].alias)}.{quote_name(name)}", _ATOM
        case Literal():
            return _literal(expr), _ATOM
        case Call():
            return _call(expr, streams)
    raise TypeError(f"not an expression: {expr!r}")


def _call(call: Call, streams: Sequence[Stream]) -> tuple[str, int]:
    args = call.args
    if call.op == "cast":
        if is_implicit_cast(call):
            return _render(args[0], streams)
        return f"CAST({format_expr(args[0], streams)} AS {type_name(call.type)})", _ATOM
    if call.op == "and" and (between := _between(call, streams)):
        return between, _TEST
    if call.op in _INFIX:
        word, level = _INFIX[call.op]
        first = level + 1 if level == _TEST else level
        rest = level if call.op in ("and", "or") else level + 1
        parts = [_within(args[0], first, streams)] + [_within(arg, rest, streams) for arg in args[1:]]
        return f" {word} ".join(parts), level
    if call.op in _SUFFIX:
        return f"{_within(args[0], _TEST + 1, streams)} IS {_SUFFIX[call.op]}", _TEST
    if call.op == "in":
        return f"{_within(args[0], _TEST + 1, streams)} IN ({_listed(args[1:], streams)})", _TEST
    if call.op == "not":
        return _negated(args[0], streams)
    if call.op == "neg":
        return f"-{_within(args[0], _ATOM, streams)}", _ATOM - 1
    name = call.function.name if call.function else call.op
    return f"{name}({', '.join(format_expr(arg, streams) for arg in args)})", _ATOM


def _within(expr: Expr, level: int, streams: Sequence[Stream]) -> str:
    text, binds = _render(expr, streams)
    return text if binds >= level else f"({text})"


def _listed(values: Sequence[Expr], streams: Sequence[Stream]) -> str:
    """Render a list of values, a long one in short."""
    shown = ", ".join(format_expr(value, streams) for value in values[:_LISTED])
    return shown if len(values) <= _LISTED else f"{shown}, ... {len(values):,} values"


def _between(call: Call, streams: Sequence[Stream]) -> str:
    """Render ``x >= a AND x <= b`` as BETWEEN, or return an empty string."""
    match call.args:
        case (Call(op="ge", args=(value, low)), Call(op="le", args=(same, high))) if value == same:
            shown = [_within(part, _TEST + 1, streams) for part in (value, low, high)]
            return f"{shown[0]} BETWEEN {shown[1]} AND {shown[2]}"
    return ""


def _negated(expr: Expr, streams: Sequence[Stream]) -> tuple[str, int]:
    match expr:
        case Call(op="same", args=(left, right)):
            return f"{_within(left, 5, streams)} IS DISTINCT FROM {_within(right, 5, streams)}", _TEST
        case Call(op="in", args=(value, *values)):
            return f"{_within(value, 5, streams)} NOT IN ({_listed(values, streams)})", _TEST
        case Call(op=op, args=(value,)) if op in _SUFFIX:
            return f"{_within(value, 5, streams)} IS NOT {_SUFFIX[op]}", _TEST
    return f"NOT {_within(expr, _TEST, streams)}", _NOT


def _literal(literal: Literal) -> str:
    value, of = literal.value, literal.type
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case str():
            return "'" + value.translate(_ESCAPES) + "'"
        case bytes():
            return f"X'{value.hex().upper()}'"
        case float():
            return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
        case int() if of.kind is Kind.DATE:
            return f"DATE '{_timestamp(value * 86400, SqlType(Kind.TIMESTAMP, unit='s')).removesuffix(' 00:00:00')}'"
        case int() if of.kind is Kind.TIMESTAMP:
            return f"TIMESTAMP '{_timestamp(value, of)}'"
        case int() if of.kind is Kind.DURATION:
            return _interval(value, of.unit)
    text = f"{value:f}" if of.kind is Kind.DECIMAL else str(value)
    return text.rstrip("0").rstrip(".") if "." in text else text


def _timestamp(ticks: int, of: SqlType) -> str:
    seconds, fraction = divmod(ticks, UNITS_PER_SECOND[of.unit])
    digits = {"s": 0, "ms": 3, "us": 6, "ns": 9}[of.unit]
    tail = f".{fraction:0{digits}}".rstrip("0") if fraction else ""
    try:
        moment = str(datetime(1970, 1, 1) + timedelta(seconds=seconds))
    except OverflowError:  # reached by adding an interval to a constant
        moment = f"1970-01-01 {seconds:+} seconds"
    return f"{moment}{tail}{'Z' if of.zoned else ''}"


def _interval(ticks: int, unit: str) -> str:
    """Render an interval in the greatest unit that holds it in whole numbers."""
    per_second = UNITS_PER_SECOND[unit]
    for seconds, name in ((86400, "DAYS"), (3600, "HOURS"), (60, "MINUTES"), (1, "SECONDS")):
        if ticks % (seconds * per_second) == 0 and ticks:
            return f"INTERVAL {ticks // (seconds * per_second)} {name}"
    name = {"s": "SECONDS", "ms": "MILLISECONDS", "us": "MICROSECONDS", "ns": "NANOSECONDS"}[unit]
    return f"INTERVAL {ticks} {name}"
