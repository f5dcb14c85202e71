"""Arrow in and out: anything Arrow-shaped to vectors, vectors to Arrow arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crosswind.errors import ArithmeticOverflowError, InputError, did_you_mean
from crosswind.plan.axis import INT64_MAX, INT64_MIN
from crosswind.plan.physical import Storage, arrow_storage, arrow_width, machine_dtype, storage_of
from crosswind.query.tree import Call, Column, Expr
from crosswind.query.types import Kind, SqlType, sql_type
from crosswind.window.vector import Layout, Vector

__all__ = [
    "as_declared",
    "as_table",
    "carried_vector",
    "fixed_values",
    "leaf_vector",
    "pick",
    "plain_vector",
    "read_columns",
    "ticks_of",
    "to_arrow",
    "validity",
]

_STRING_VIEW, _BINARY_VIEW = pa.string_view().id, pa.binary_view().id
_VIEWS = (_STRING_VIEW, _BINARY_VIEW)
_INT64 = np.dtype(np.int64)
_TICKS = (pa.timestamp("us").id, pa.int64().id)
_SHAPES = "a pyarrow Table or RecordBatch, a pandas or polars DataFrame, or a dict of columns"


def as_table(data: Any, schema: pa.Schema | None, stream: str) -> pa.Table:
    """Return ``data`` as an Arrow table, whatever it came as."""
    table = _read(data, schema, stream)
    views = [k for k, field in enumerate(table.schema) if _without_view(field.type) != field.type]
    for k in views:  # Arrow cannot take rows of view arrays
        table = table.set_column(k, table.schema.names[k], table.column(k).cast(_without_view(table.schema.types[k])))
    return table


def as_declared(table: pa.Table, schema: pa.Schema, stream: str) -> pa.Table:
    """Return ``table`` with the columns and types of ``schema``; what it lacks is null."""
    columns = []
    for field in schema:
        index = table.schema.get_field_index(field.name)
        if index < 0:
            columns.append(pa.nulls(table.num_rows, field.type))
            continue
        column, plain = table.column(index), _without_view(field.type)
        column = column if column.type == plain else _cast(column, plain, field.name, stream)
        columns.append(column if plain == field.type else column.cast(field.type))
    return pa.table(columns, schema=schema)


def read_columns(
    data: Any, schema: pa.Schema, names: Sequence[str], stream: str, places: Sequence[int] | None = None
) -> dict[str, pa.Array]:
    """Return the columns ``names`` of anything Arrow-shaped as arrays of the declared types.

    ``places`` are those of the columns in ``schema``, if known: looking names up takes longer.
    """
    if isinstance(data, pa.Table | pa.RecordBatch) and data.schema.equals(schema):
        arrays = {}
        for name, place in zip(names, places or names, strict=True):
            column = data.column(place)
            if isinstance(column, pa.ChunkedArray):
                if column.num_chunks != 1:
                    break
                column = column.chunk(0)
            if column.type.id in _VIEWS:
                break
            arrays[name] = column
        else:
            return arrays
    return pick(as_table(data, schema, stream), schema, names, stream)


def plain_vector(array: pa.Array, layout: Layout) -> Vector:
    """Return a plain fixed-width array as a vector that knows its address."""
    buffer, count = array.buffers()[1], len(array)
    if buffer is None or not count:
        return Vector(layout, np.zeros(count, dtype=layout.machine), validity(array))
    begin = array.offset * layout.machine.itemsize
    values = np.frombuffer(buffer, layout.machine, count, begin)
    return Vector(layout, values, validity(array), at=buffer.address + begin)


def _without_view(of: pa.DataType) -> pa.DataType:
    """Return the plain type that stands for a view type while tuples wait."""
    if of.id == _STRING_VIEW:
        return pa.large_string()
    return pa.large_binary() if of.id == _BINARY_VIEW else of


def _read(data: Any, schema: pa.Schema | None, stream: str) -> pa.Table:
    try:
        if isinstance(data, pa.Table):
            return data
        if isinstance(data, pa.RecordBatch):
            return pa.Table.from_batches([data])
        if isinstance(data, Mapping):
            return _from_mapping(data, schema)
        is_frame = type(data).__module__.partition(".")[0] == "pandas" and hasattr(data, "columns")
        if is_frame:
            _refuse_repeated(list(data.columns), stream)
        if hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__"):
            return pa.table(data)
        if hasattr(data, "to_arrow"):
            return _read(data.to_arrow(), schema, stream)
        if is_frame:
            return pa.Table.from_pandas(data, preserve_index=False)
    except UnicodeEncodeError as error:
        raise InputError(
            f"stream '{stream}': a text or a name of the batch holds a lone surrogate, {error.object[error.start]!a}: "
            "half of a character, which UTF-8 cannot hold. Replace it, as text.encode('utf-8', 'replace') does."
        ) from None
    except (pa.ArrowException, OverflowError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"stream '{stream}': the batch cannot be read as Arrow data: {error}") from None
    raise InputError(f"stream '{stream}': got {type(data).__name__}, which is not Arrow-shaped; push {_SHAPES}.")


def _refuse_repeated(names: list[Any], stream: str) -> None:
    """Refuse columns of one name, which Arrow makes of no DataFrame."""
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(
            f"stream '{stream}': the batch has {names.count(twice)} columns named {twice!r}; it has "
            f"{', '.join(map(str, names))}. Rename or drop all but one."
        )


def _from_mapping(data: Mapping[str, Any], schema: pa.Schema | None) -> pa.Table:
    """Build a table from a dict of columns, with the declared types where they are known."""
    columns = {}
    for name, values in data.items():
        known = schema is not None and schema.get_field_index(name) >= 0
        plain = not isinstance(values, pa.Array | pa.ChunkedArray)
        if plain and known and schema is not None and not isinstance(values, np.ndarray):
            columns[name] = pa.array(values, type=schema.field(name).type)
        else:
            columns[name] = pa.array(values) if plain else values
    return pa.table(columns)


def pick(table: pa.Table, schema: pa.Schema, names: Sequence[str], stream: str) -> dict[str, pa.Array]:
    """Return the columns ``names`` of ``table`` as single arrays of the declared types."""
    picked: dict[str, pa.Array] = {}
    for name in names:
        index = table.schema.get_field_index(name)
        if index < 0:
            same = table.schema.names.count(name)
            trouble = f"has {same} columns named '{name}'" if same else f"has no column '{name}'"
            raise InputError(
                f"stream '{stream}': the batch {trouble}; it has {', '.join(table.schema.names) or 'no columns'}."
                f"{'' if same else did_you_mean(name, table.schema.names)} The join was opened with the schema "
                f"{_show(schema)}: push batches with these columns."
            )
        picked[name] = _convert(table.column(index), _without_view(schema.field(name).type), name, stream)
    return picked


def _convert(column: pa.ChunkedArray, wanted: pa.DataType, name: str, stream: str) -> pa.Array:
    if column.type != wanted:
        column = _cast(column, wanted, name, stream)
    if column.num_chunks == 1:
        return column.chunk(0)
    whole = column.unify_dictionaries().combine_chunks()
    return pa.concat_arrays(whole.chunks) if isinstance(whole, pa.ChunkedArray) else whole


def _cast(column: pa.ChunkedArray, wanted: pa.DataType, name: str, stream: str) -> pa.ChunkedArray:
    """Convert between types of one family where no value changes; refuse everything else."""
    have, want = sql_type(column.type), sql_type(wanted)
    families = ({Kind.INT, Kind.FLOAT, Kind.DECIMAL}, {Kind.TIMESTAMP, Kind.DATE}, {Kind.STRING, Kind.BINARY})
    alike = have.kind is want.kind or any({have.kind, want.kind} <= family for family in families)
    refusal = (
        f"stream '{stream}': column '{name}' came as {column.type}, but the join was opened with {wanted}; "
        f"convert it before the push, or open the join with the schema of your batches."
    )
    if have.kind is not Kind.NULL and (not alike or (have.kind is Kind.TIMESTAMP and have.zoned != want.zoned)):
        raise InputError(refusal)
    try:
        return column.cast(wanted, safe=True)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InputError(f"{refusal} ({str(error).splitlines()[0]})") from None


def _show(schema: pa.Schema) -> str:
    return "(" + ", ".join(f"{field.name} {field.type}" for field in schema) + ")"


def validity(array: pa.Array) -> npt.NDArray[np.uint8] | None:
    """Return a byte a value that says whether it is there; None: all are."""
    if array.null_count == 0:
        return None
    return np.asarray(array.is_valid()).astype(np.uint8)


def fixed_values(array: pa.Array, dtype: npt.DTypeLike, per_value: int = 1) -> npt.NDArray[Any]:
    """View the value buffer of a fixed-width array."""
    buffer = array.buffers()[1]
    dtype = np.dtype(dtype)
    if buffer is None or len(array) == 0:
        return np.zeros(len(array) * per_value, dtype=dtype)
    width = dtype.itemsize * per_value  # not to_numpy(): that would import pandas
    return np.frombuffer(buffer, dtype=dtype, count=len(array) * per_value, offset=array.offset * width)


def _booleans(array: pa.Array) -> npt.NDArray[np.uint8]:
    return np.asarray(array.fill_null(False)).astype(np.uint8)


def _text(array: pa.Array, layout: Layout) -> Vector:
    """Take offsets and bytes of a string or binary array of any flavour."""
    t = pa.types
    of = array.type
    if t.is_string_view(of) or t.is_string(of):
        array = array.cast(pa.large_string())
    elif not (t.is_large_string(of) or t.is_large_binary(of)):
        array = (
            array.cast(pa.binary()).cast(pa.large_binary())
            if t.is_fixed_size_binary(of)
            else array.cast(pa.large_binary())
        )
    _, offsets, data = array.buffers()
    if offsets is None or len(array) == 0:
        values: npt.NDArray[np.int64] = np.zeros(len(array) + 1, dtype=np.int64)
    else:
        values = np.frombuffer(offsets, dtype=np.int64, count=array.offset + len(array) + 1)[array.offset :]
    text = np.frombuffer(data, dtype=np.uint8) if data is not None and data.size else np.zeros(1, dtype=np.uint8)
    return Vector(layout, values, validity(array), text)


def leaf_vector(array: pa.Array, expr: Expr) -> Vector:
    """Return a column as predicates compute with it.

    ``expr`` is a Column, or a cast of one to or from a decimal of more than 18 digits:
    those conversions are Arrow's, kernels only compare what comes out.
    """
    if pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    of = expr.type
    if isinstance(expr, Call):
        array = _cast_leaf(array, expr)
    layout = Layout(storage_of(of), machine_dtype(of))
    if layout.storage is Storage.TEXT:
        return _text(array, layout)
    if layout.storage is Storage.OPAQUE:
        return Vector(layout, np.empty(0), arrow=array)
    valid = validity(array)
    if of.kind is Kind.NULL:
        return Vector(layout, np.zeros(len(array), dtype=np.uint8), np.zeros(len(array), dtype=np.uint8))
    if of.kind is Kind.BOOL:
        return Vector(layout, _booleans(array), valid)
    if of.kind is Kind.DECIMAL:
        return Vector(layout, *_decimals(array, of, valid))
    return Vector(layout, _numbers(array, of), valid)


def _cast_leaf(array: pa.Array, expr: Call) -> pa.Array:
    target = expr.type
    try:
        if target.kind is Kind.DECIMAL:
            if pa.types.is_integer(array.type):
                array = array.cast(pa.decimal128(20, 0))
            return array.cast(pa.decimal128(target.precision, target.scale))
        return array.cast(pa.float64() if target.bits == 64 else pa.float32())
    except pa.ArrowInvalid as error:
        raise ArithmeticOverflowError(
            f"a value does not fit into {target}: {error}; convert the column to a narrower decimal or to double."
        ) from None


def _decimals(
    array: pa.Array, of: SqlType, valid: npt.NDArray[np.uint8] | None
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8] | None]:
    if not pa.types.is_decimal(array.type):  # uint64
        array = array.cast(pa.decimal128(20, 0))
    elif array.type.bit_width != 128:
        array = array.cast(pa.decimal128(array.type.precision, array.type.scale))
    pairs = fixed_values(array, "int64", 2)
    if of.is_wide:
        return pairs, valid
    return np.ascontiguousarray(pairs[::2]), valid


def _numbers(array: pa.Array, of: SqlType) -> npt.NDArray[Any]:
    """Return integers, floats, times and dates in the dtype that predicates use."""
    if pa.types.is_date64(array.type):
        array = array.cast(pa.date32())
    if pa.types.is_float16(array.type):
        return fixed_values(array, "float16").astype(np.float32)
    if pa.types.is_unsigned_integer(array.type):
        return fixed_values(array, f"uint{array.type.bit_width}").astype(machine_dtype(of))
    return fixed_values(array, machine_dtype(of))


def carried_vector(array: pa.Array) -> Vector:
    """Return a column as it waits in a window to be shown: nothing is interpreted."""
    of = array.type
    storage, width = arrow_storage(of), arrow_width(of)
    if storage is Storage.TEXT:
        return _text(array, Layout(storage))
    if storage is Storage.OPAQUE:
        return Vector(Layout(storage), np.empty(0), arrow=array)
    valid = validity(array)
    if pa.types.is_boolean(of):
        return Vector(Layout(storage, "uint8"), _booleans(array), valid)
    if storage is Storage.WIDE:
        return Vector(Layout(storage), fixed_values(array, "int64", 2), valid)
    return Vector(Layout(storage, f"uint{8 * width}"), fixed_values(array, f"uint{8 * width}"), valid)


def to_arrow(vector: Vector, of: pa.DataType) -> pa.Array:
    """Return ``vector`` (carried, or computed) as an Arrow array of type ``of``."""
    if vector.arrow is not None:
        return vector.arrow
    count = len(vector)
    nulls = None if vector.valid is None else pa.py_buffer(np.packbits(vector.valid, bitorder="little"))
    if pa.types.is_boolean(of):
        bits = pa.py_buffer(np.packbits(vector.values.astype(np.bool_), bitorder="little"))
        return pa.Array.from_buffers(of, count, [nulls, bits])
    if pa.types.is_null(of):
        return pa.nulls(count)
    if vector.layout.storage is Storage.TEXT:
        return _text_to_arrow(vector, of, nulls)
    values = np.ascontiguousarray(vector.values)
    if pa.types.is_decimal(of) and vector.layout.storage is Storage.FIXED and of.bit_width == 128:
        values = np.column_stack([values.astype(np.int64), values.astype(np.int64) >> 63]).reshape(-1)
    return pa.Array.from_buffers(of, count, [nulls, pa.py_buffer(values)])


def _text_to_arrow(vector: Vector, of: pa.DataType, nulls: pa.Buffer | None) -> pa.Array:
    text = np.zeros(0, dtype=np.uint8) if vector.text is None else vector.text
    is_text = pa.types.is_string(of) or pa.types.is_large_string(of)
    large = pa.large_string() if is_text else pa.large_binary()
    buffers = [nulls, pa.py_buffer(np.ascontiguousarray(vector.values)), pa.py_buffer(text)]
    array = pa.Array.from_buffers(large, len(vector), buffers)
    return array if of == large else array.cast(of)


def ticks_of(array: pa.Array, factor: int, stream: str) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_] | None]:
    """Return a time column in ticks of the common axis, and which times are null (None: none)."""
    if factor == 1 and not array.null_count and array.type.id in _TICKS:
        return fixed_values(array, _INT64), None
    if pa.types.is_date64(array.type):
        array = array.cast(pa.date32())
    missing = np.asarray(array.is_null()) if array.null_count else None
    if array.type == pa.uint64():
        array = array.cast(pa.int64())
    dtype = (
        str(np.dtype(array.type.to_pandas_dtype())) if pa.types.is_integer(array.type) else f"int{array.type.bit_width}"
    )
    raw = fixed_values(array, dtype).astype(np.int64, copy=False)
    if factor == 1:
        return raw, missing
    known = raw if missing is None else raw[~missing]
    if len(known) and (int(known.max()) > INT64_MAX // factor or int(known.min()) < -(-INT64_MIN // factor)):
        raise InputError(
            f"stream '{stream}': a time lies too far from 1970 for the unit that the streams share; "
            f"open the join with time columns of one coarser unit."
        )
    return raw * factor, missing


def leaf_columns(exprs: Sequence[Expr]) -> list[Expr]:
    """Return what must be read from Arrow to compute ``exprs``, each leaf once."""
    found: dict[Expr, None] = {}

    def visit(expr: Expr) -> None:
        if is_leaf(expr):
            found[expr] = None
        elif isinstance(expr, Call):
            for arg in expr.args:
                visit(arg)

    for expr in exprs:
        visit(expr)
    return list(found)


def is_leaf(expr: Expr) -> bool:
    """Whether ``expr`` is read from Arrow rather than computed by a kernel."""
    if isinstance(expr, Column):
        return True
    if not (isinstance(expr, Call) and expr.op == "cast" and isinstance(expr.args[0], Column)):
        return False
    return expr.type.is_wide or expr.args[0].type.is_wide


def column_of(leaf: Expr) -> str:
    """Return the name of the column behind a leaf."""
    inner = leaf.args[0] if isinstance(leaf, Call) else leaf
    if not isinstance(inner, Column):
        raise TypeError(f"{leaf} is not read from a column")
    return inner.name


def ticks_of_value(value: Any, field: pa.Field, factor: int, stream: str) -> int:
    """Return a value of the time column ``field``, in whatever form, in ticks."""
    array = None
    try:
        plain = value.as_py() if isinstance(value, pa.Scalar) else value
        plain = plain.item() if isinstance(plain, np.integer) else plain
        if pa.types.is_integer(field.type) and (not isinstance(plain, int) or isinstance(plain, bool)):
            raise pa.ArrowTypeError("an integer is wanted")
        days = isinstance(plain, int) and pa.types.is_date32(field.type)
        array = (pa.array([plain], pa.int32()) if days else pa.array([plain])).cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
        array = None
    if array is None or array.null_count:
        raise InputError(
            f"stream '{stream}': {value!r} is no watermark; give a value of its time column "
            f"'{field.name}' ({field.type})."
        )
    return int(ticks_of(array, factor, stream)[0][0])
