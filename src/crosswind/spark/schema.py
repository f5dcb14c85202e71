"""Spark types to Arrow and back."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import types as st

from crosswind.errors import UnsupportedError

__all__ = ["arrow_schema", "check_carried", "spark_type"]

_PLAIN: dict[type[st.DataType], pa.DataType] = {
    st.BooleanType: pa.bool_(),
    st.ByteType: pa.int8(),
    st.ShortType: pa.int16(),
    st.IntegerType: pa.int32(),
    st.LongType: pa.int64(),
    st.FloatType: pa.float32(),
    st.DoubleType: pa.float64(),
    st.StringType: pa.string(),
    st.CharType: pa.string(),
    st.VarcharType: pa.string(),
    st.BinaryType: pa.binary(),
    st.DateType: pa.date32(),
    st.TimestampType: pa.timestamp("us", "UTC"),
    st.TimestampNTZType: pa.timestamp("us"),
    st.DayTimeIntervalType: pa.duration("us"),
    st.NullType: pa.null(),
}

_UNKNOWN = "no Arrow type"
_TAGGED = {
    # As Spark hands them over: structs, one of whose fields says what it really is.
    "variant": pa.struct(
        [
            pa.field("value", pa.binary(), nullable=False),
            pa.field("metadata", pa.binary(), nullable=False, metadata={"variant": "true"}),
        ]
    ),
    "time": pa.time64("ns"),
}


def arrow_schema(schema: st.StructType) -> pa.Schema:
    """Return the Arrow schema of a DataFrame. Types that predicates cannot use only need to be told apart."""
    return pa.schema([pa.field(field.name, _arrow_type(field.dataType)) for field in schema.fields])


def _arrow_type(of: st.DataType) -> pa.DataType:
    plain = _PLAIN.get(type(of))
    if plain is not None:
        return plain
    match of:
        case st.DecimalType():
            return pa.decimal128(of.precision, of.scale)
        case st.ArrayType():
            return pa.list_(_arrow_type(of.elementType))
        case st.MapType():
            return pa.map_(_arrow_type(of.keyType), _arrow_type(of.valueType))
        case st.StructType():
            return pa.struct([pa.field(field.name, _arrow_type(field.dataType)) for field in of.fields])
        case st.UserDefinedType():
            return _arrow_type(of.sqlType())
        case _:
            return _TAGGED.get(of.typeName()) or pa.struct([pa.field(_UNKNOWN, pa.null())])


def check_carried(schema: st.StructType, names: Sequence[str], stream: str) -> None:
    """Refuse columns ``names`` of types that cannot travel to Python and back."""
    for name in names:
        of = schema[name].dataType
        if _UNKNOWN in str(_arrow_type(of)):
            raise UnsupportedError(
                f"stream '{stream}': column '{name}' of type {of.simpleString()} cannot be carried through a join, "
                f"since Arrow in Python has no such type. Leave it out of the query, or cast it to a string before "
                f"the join and back after it."
            )


def spark_type(of: pa.DataType) -> st.DataType:
    """Return the Spark type of a computed result column."""
    for spark, arrow in _PLAIN.items():
        if arrow == of:
            return spark()
    if pa.types.is_decimal(of):
        return st.DecimalType(of.precision, of.scale)
    if pa.types.is_timestamp(of):
        return st.TimestampNTZType() if of.tz is None else st.TimestampType()
    raise UnsupportedError(f"a result column of Arrow type {of} has no Spark type; cast it in the SELECT list.")
