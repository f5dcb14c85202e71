"""The types a predicate is computed in, and how Arrow types map to them.

The rules are Spark SQL's (ANSI mode), so that a WHERE clause means here what it
means in a Spark batch join. Where 64 bits cannot hold what Spark would compute,
the computation is checked and fails loudly instead of wrapping.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import pyarrow as pa

__all__ = ["UNITS_PER_SECOND", "Kind", "SqlType", "arrow_type", "sql_type"]

UNITS_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
"""Ticks in a second, by Arrow time unit."""


class Kind(Enum):
    """The families of types."""

    BOOL = "boolean"
    INT = "integer"
    FLOAT = "float"
    DECIMAL = "decimal"
    TIMESTAMP = "timestamp"
    DATE = "date"
    DURATION = "interval"
    STRING = "string"
    BINARY = "binary"
    NULL = "null"
    OTHER = "other"


@dataclass(frozen=True)
class SqlType:
    """A type of a column or expression.

    ``bits`` belongs to INT (8, 16, 32, 64) and FLOAT (32, 64); ``precision`` and
    ``scale`` to DECIMAL; ``unit`` to TIMESTAMP and DURATION; ``zoned`` to TIMESTAMP
    (True: an instant, False: a wall clock time); ``label`` describes OTHER types,
    which may be carried along but not computed with.
    """

    kind: Kind
    bits: int = 0
    precision: int = 0
    scale: int = 0
    unit: str = ""
    zoned: bool = False
    label: str = ""

    def __str__(self) -> str:
        match self.kind:
            case Kind.INT:
                return f"int{self.bits}"
            case Kind.FLOAT:
                return "float" if self.bits == 32 else "double"
            case Kind.DECIMAL:
                return f"decimal({self.precision},{self.scale})"
            case Kind.TIMESTAMP:
                return f"timestamp[{self.unit}{', zoned' if self.zoned else ''}]"
            case Kind.DURATION:
                return f"interval[{self.unit}]"
            case Kind.OTHER:
                return self.label
            case _:
                return str(self.kind.value)

    @property
    def is_numeric(self) -> bool:
        """Whether arithmetic is defined: integer, float or decimal."""
        return self.kind in (Kind.INT, Kind.FLOAT, Kind.DECIMAL)

    @property
    def is_wide(self) -> bool:
        """Whether values need 128 bits: decimals of more than 18 digits."""
        return self.kind is Kind.DECIMAL and self.precision > 18

    @property
    def is_text(self) -> bool:
        """Whether values are sequences of bytes: strings and binaries."""
        return self.kind in (Kind.STRING, Kind.BINARY)


BOOL = SqlType(Kind.BOOL)
INT64 = SqlType(Kind.INT, bits=64)
DOUBLE = SqlType(Kind.FLOAT, bits=64)
STRING = SqlType(Kind.STRING)
NULL = SqlType(Kind.NULL)
DATE = SqlType(Kind.DATE)


def sql_type(arrow: pa.DataType) -> SqlType:
    """Return the type in which a column of Arrow type ``arrow`` takes part in predicates.

    Unsigned integers take the next wider signed type (uint64: decimal(20,0), as Spark
    reads it); dictionaries take their value type; nested and unknown types are OTHER.
    """
    t = pa.types
    if t.is_dictionary(arrow):
        return sql_type(arrow.value_type)
    if t.is_boolean(arrow):
        return BOOL
    if t.is_signed_integer(arrow):
        return SqlType(Kind.INT, bits=arrow.bit_width)
    if t.is_unsigned_integer(arrow):
        if arrow.bit_width == 64:
            return SqlType(Kind.DECIMAL, precision=20, scale=0)
        return SqlType(Kind.INT, bits=arrow.bit_width * 2)
    if t.is_floating(arrow):
        return SqlType(Kind.FLOAT, bits=max(32, arrow.bit_width))
    if t.is_decimal(arrow) and arrow.precision <= 38 and arrow.scale >= 0:
        return SqlType(Kind.DECIMAL, precision=arrow.precision, scale=arrow.scale)
    if t.is_timestamp(arrow):
        return SqlType(Kind.TIMESTAMP, unit=arrow.unit, zoned=arrow.tz is not None)
    if t.is_date(arrow):
        return DATE
    if t.is_duration(arrow):
        return SqlType(Kind.DURATION, unit=arrow.unit)
    if t.is_string(arrow) or t.is_large_string(arrow) or t.is_string_view(arrow):
        return STRING
    if t.is_binary(arrow) or t.is_large_binary(arrow) or t.is_binary_view(arrow) or t.is_fixed_size_binary(arrow):
        return SqlType(Kind.BINARY)
    if t.is_null(arrow):
        return NULL
    return SqlType(Kind.OTHER, label=str(arrow))


def arrow_type(of: SqlType) -> pa.DataType:
    """Return the Arrow type of a computed column of type ``of``."""
    match of.kind:
        case Kind.BOOL:
            return pa.bool_()
        case Kind.INT:
            return {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[of.bits]
        case Kind.FLOAT:
            return pa.float32() if of.bits == 32 else pa.float64()
        case Kind.DECIMAL:
            return pa.decimal128(of.precision, of.scale)
        case Kind.TIMESTAMP:
            return pa.timestamp(of.unit, tz="UTC" if of.zoned else None)
        case Kind.DATE:
            return pa.date32()
        case Kind.DURATION:
            return pa.duration(of.unit)
        case Kind.STRING:
            return pa.string()
        case Kind.BINARY:
            return pa.binary()
        case _:
            return pa.null()
