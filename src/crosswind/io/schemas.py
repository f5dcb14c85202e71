"""Arrow types and schemas written as text, for job files, the command line and tests."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from crosswind.errors import InputError, did_you_mean

__all__ = ["schema_from_text", "split_outside_brackets", "type_from_text"]

_PLAIN: dict[str, Callable[[], Any]] = {
    "binary": pa.binary,
    "bool": pa.bool_,
    "boolean": pa.bool_,
    "date": pa.date32,
    "date32": pa.date32,
    "date64": pa.date64,
    "double": pa.float64,
    "float": pa.float32,
    "float16": pa.float16,
    "float32": pa.float32,
    "float64": pa.float64,
    "int8": pa.int8,
    "int16": pa.int16,
    "int32": pa.int32,
    "int64": pa.int64,
    "large_binary": pa.large_binary,
    "large_string": pa.large_string,
    "string": pa.string,
    "uint8": pa.uint8,
    "uint16": pa.uint16,
    "uint32": pa.uint32,
    "uint64": pa.uint64,
}
_TIMESTAMP = re.compile(r"timestamp\[\s*(s|ms|us|ns)\s*(?:,\s*(?:tz=)?([^\]\s]+)\s*)?\]")
_DURATION = re.compile(r"duration\[\s*(s|ms|us|ns)\s*\]")
_DECIMAL = re.compile(r"decimal(?:128)?\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)")
_PARAMETRIC = ("timestamp[ms]", "timestamp[us, UTC]", "duration[ms]", "decimal(10,2)")
_MAX_DECIMAL_DIGITS = 38


def type_from_text(text: str) -> pa.DataType:
    """Return the Arrow type that ``text`` names, such as ``int32`` or ``timestamp[us, UTC]``.

    Raises
    ------
    InputError
        No such type; the message lists the allowed ones.
    """
    name = text.strip()
    if name in _PLAIN:
        return _PLAIN[name]()
    if match := _TIMESTAMP.fullmatch(name):
        return pa.timestamp(match[1], tz=match[2])
    if match := _DURATION.fullmatch(name):
        return pa.duration(match[1])
    if match := _DECIMAL.fullmatch(name):
        precision, scale = int(match[1]), int(match[2] or 0)
        if 1 <= precision <= _MAX_DECIMAL_DIGITS and scale <= precision:
            return pa.decimal128(precision, scale)
    allowed = [*_PLAIN, *_PARAMETRIC]
    raise InputError(f"unknown type '{name}'. Allowed: {', '.join(allowed)}.{did_you_mean(name, allowed)}")


def schema_from_text(text: str) -> pa.Schema:
    """Return the schema that ``text`` spells as ``name:type, name:type, ...``.

    Examples
    --------
    ``schema_from_text("x:int32, price:decimal(10,2), ts:timestamp[ms]")``
    """
    fields = []
    for part in split_outside_brackets(text):
        name, colon, type_text = part.partition(":")
        if not colon or not name.strip():
            raise InputError(
                f"cannot read '{part.strip()}' as a column. Write name:type, separated by commas, "
                "for example x:int32,ts:timestamp[ms]."
            )
        fields.append(pa.field(name.strip(), type_from_text(type_text)))
    names = [field.name for field in fields]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InputError(f"column '{twice[0]}' is given twice in '{text.strip()}'. Give each column once.")
    return pa.schema(fields)


def split_outside_brackets(text: str) -> list[str]:
    """Split ``text`` at the commas that stand in no bracket or parenthesis."""
    parts, depth, start = [], 0, 0
    for position, character in enumerate(text):
        if character in "[(":
            depth += 1
        elif character in "])":
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(text[start:position])
            start = position + 1
    return [*parts, text[start:]]
