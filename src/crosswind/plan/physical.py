"""How a value of each type is laid out in memory.

Windows store columns in these layouts and kernels read them through bare pointers,
so both rooms take the layout from here.
"""

from __future__ import annotations

from enum import Enum

import pyarrow as pa

from crosswind.query.types import Kind, SqlType

__all__ = [
    "POINTERS_PER_COLUMN",
    "PROBE_GROUP",
    "RUN_DIMENSION",
    "RUN_HEAD",
    "RUN_MAX",
    "Storage",
    "arrow_storage",
    "arrow_width",
    "machine_dtype",
    "storage_of",
]

POINTERS_PER_COLUMN = 3
"""A column is three addresses: values (or offsets), validity bytes (or 0), text bytes (or 0)."""

RUN_HEAD = 10
"""Numbers that describe a basic window to a kernel, before its dimensions.

length, times, sequence numbers, least and greatest time, arrangement (0: none, 1: grid,
2: hash), directory, cells of the first and second axis, axes (first + 16 * second). Where equals are linked (3): last
tuples, how many of these, tuples before, whether they came in order.
"""

RUN_DIMENSION = 4
"""Numbers a dimension: address of the keys, address (or 0), base and shift of the half keys."""

RUN_MAX = 1 << 21
"""Tuples in the largest run. A probe looks into every run, so there should be few; but to merge one must
not hold up arrivals for long (about 25 ns a tuple)."""

PROBE_GROUP = 32
"""Probes whose cells are found, and asked for, before the first of them is compared."""


class Storage(Enum):
    """The layouts: fixed width, 128-bit pairs, offsets + bytes, or an Arrow array kept as it is."""

    FIXED = "fixed"
    WIDE = "wide"
    TEXT = "text"
    OPAQUE = "opaque"


def storage_of(of: SqlType) -> Storage:
    """Return the layout in which a predicate sees values of type ``of``."""
    if of.is_text:
        return Storage.TEXT
    if of.is_wide:
        return Storage.WIDE
    if of.kind is Kind.OTHER:
        return Storage.OPAQUE
    return Storage.FIXED


def machine_dtype(of: SqlType) -> str:
    """Return the NumPy dtype name of a FIXED value of type ``of``."""
    match of.kind:
        case Kind.BOOL | Kind.NULL:
            return "uint8"
        case Kind.INT:
            return f"int{of.bits}"
        case Kind.FLOAT:
            return f"float{of.bits}"
        case Kind.DATE:
            return "int32"
        case _:
            return "int64"


def arrow_width(arrow: pa.DataType) -> int:
    """Return the bytes of one value of a plain fixed-width Arrow type, 1 for bool, else 0."""
    t = pa.types
    if t.is_boolean(arrow):
        return 1
    plain = (
        t.is_integer(arrow) or t.is_floating(arrow) or t.is_temporal(arrow) or t.is_decimal(arrow)
    ) and not t.is_interval(arrow)
    width: int = arrow.bit_width // 8 if plain else 0
    return width if width in (1, 2, 4, 8, 16) else 0


def arrow_storage(arrow: pa.DataType) -> Storage:
    """Return the layout in which a carried column of type ``arrow`` waits for its results."""
    t = pa.types
    width = arrow_width(arrow)
    if width:
        return Storage.WIDE if width == 16 else Storage.FIXED
    texts = (t.is_string, t.is_binary, t.is_large_string, t.is_large_binary, t.is_string_view, t.is_binary_view)
    if any(test(arrow) for test in texts):
        return Storage.TEXT
    return Storage.OPAQUE
