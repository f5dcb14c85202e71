"""Snapshots: the state of a join as bytes, and back.

A snapshot is a sealed description followed by Arrow streams, one a block of waiting
tuples. It does not depend on the engine, the
index, the number of workers or the size of basic windows that wrote it.

Whoever reads one gets all of it or an error: checksums, lengths, types and counts are
looked at before anything is handed on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crosswind.errors import SnapshotError
from crosswind.io.arrow import carried_vector, to_arrow
from crosswind.io.checksum import DamageError, OtherFormatError, digest_of, seal, unseal
from crosswind.plan.axis import INT64_MAX, INT64_MIN
from crosswind.plan.physical import Storage
from crosswind.window.block import Block
from crosswind.window.vector import Layout, Vector

__all__ = ["RESULT_TIME", "Columns", "Snapshot", "SnapshotSchema", "read_snapshot", "write_snapshot"]

RESULT_TIME = "__result_time"
"""The column with the times of results that wait for their turn."""

_FORMAT = 2
"""1 had no checksums."""
_MAGIC = b"crosswind snapshot\n"
_HEAD_AT = len(_MAGIC) + 8
_REFUSED = (
    DamageError,
    pa.ArrowException,
    ArithmeticError,
    AttributeError,
    LookupError,
    OSError,
    RecursionError,
    TypeError,
    ValueError,
)
"""What reading something that is not a snapshot may raise."""


@dataclass
class Snapshot:
    """What a join must know to go on: a description, and the blocks of each unit by place.

    ``blocks`` maps a place ("window", "held" or "unmatched") and a unit to blocks, oldest first;
    ``pending`` are results that wait for their turn, by query, with their times in the column
    :data:`RESULT_TIME` (None: output is unordered), ``owed`` results that the next call hands out.
    """

    about: dict[str, Any]
    blocks: dict[tuple[str, int], list[Block]] = field(default_factory=dict)
    pending: list[pa.Table] | None = None
    owed: list[pa.Table] = field(default_factory=list)


@dataclass(frozen=True)
class Columns:
    """The columns of a unit's blocks: ``layouts``, of which windows keep the first ``stored``.

    ``opaque`` are the Arrow types of those that are kept as Arrow arrays, by place; ``serial_at`` is
    where the serial number is (None: tuples have none).
    """

    layouts: Sequence[Layout]
    stored: int
    opaque: dict[int, pa.DataType]
    serial_at: int | None


@dataclass(frozen=True)
class SnapshotSchema:
    """What a snapshot must be like to fit a join.

    ``identity`` tells the query, ``sql`` is shown in errors; ``streams`` are their names, ``units`` the columns
    of each unit, ``results`` the schemas of the queries' results. ``counted``: tuples have sequence numbers;
    ``may_count``: they may have, though none of the queries needs them any more. Tuples of the units
    ``preserved`` come out alone if they match nothing.
    """

    identity: str
    sql: str
    streams: Sequence[str]
    units: Sequence[Columns]
    results: Sequence[pa.Schema]
    ordered: bool
    counted: bool
    preserved: Sequence[int]
    may_count: bool = False
    many: bool = False


# -- writing ------------------------------------------------------------------


def write_snapshot(snapshot: Snapshot) -> bytes:
    """Return ``snapshot`` as bytes."""
    sections: list[dict[str, Any]] = []
    payloads: list[pa.Buffer] = []

    def add(place: str, unit: int, rows: int, body: pa.Buffer) -> None:
        about = {"place": place, "unit": unit, "rows": rows, "bytes": body.size}
        sections.append({**about, "checksum": digest_of(memoryview(body))})
        payloads.append(body)

    for (place, unit), blocks in snapshot.blocks.items():
        for block in blocks:
            if len(block):
                add(place, unit, len(block), _block_bytes(block))
    for query, table in enumerate(snapshot.pending or ()):
        add("pending", query, table.num_rows, _table_bytes(table))
    for table in snapshot.owed:
        add("owed", 0, table.num_rows, _table_bytes(table))
    content = {"about": snapshot.about, "ordered": snapshot.pending is not None, "sections": sections}
    head = seal(_FORMAT, content)
    return b"".join([_MAGIC, len(head).to_bytes(8, "little"), head, *payloads])


def _arrow_of(layout: Layout, opaque: pa.DataType | None) -> pa.DataType:
    match layout.storage:
        case Storage.TEXT:
            return pa.large_binary()
        case Storage.WIDE:
            return pa.decimal128(38, 0)
        case Storage.OPAQUE:
            return opaque
        case _:
            return pa.from_numpy_dtype(np.dtype(layout.dtype))


def _block_bytes(block: Block) -> pa.Buffer:
    columns = {"times": pa.array(block.times)}
    if block.numbers is not None:
        columns["numbers"] = pa.array(block.numbers)
    if block.keep is not None:
        columns["keep"] = pa.array(block.keep)
    for k, vector in enumerate(block.columns):
        columns[f"c{k}"] = to_arrow(vector, _arrow_of(vector.layout, None))
    return _table_bytes(pa.RecordBatch.from_pydict(columns))


def _table_bytes(table: pa.Table | pa.RecordBatch) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write(table)
    return sink.getvalue()


# -- reading ------------------------------------------------------------------


def read_snapshot(data: Any, schema: SnapshotSchema) -> Snapshot:
    """Return the snapshot in ``data``, which must fit ``schema``.

    Raises
    ------
    SnapshotError
        It is damaged, or of something else.
    """
    if not isinstance(data, bytes | bytearray | memoryview):
        raise SnapshotError(f"restore got {type(data).__name__}; pass what join.snapshot() returned: bytes.")
    data = bytes(data)
    if not data.startswith(_MAGIC):
        raise SnapshotError(
            f"restore got {len(data)} bytes that are not a Crosswind snapshot; pass what join.snapshot() returned."
        )
    end = _HEAD_AT + int.from_bytes(data[len(_MAGIC) : _HEAD_AT], "little")
    try:
        head = unseal(data[_HEAD_AT:end], _FORMAT)
    except OtherFormatError as error:
        raise SnapshotError(
            f"the snapshot has format {error.found}, this version reads format {_FORMAT}; "
            f"restore it with the version that wrote it, or begin without it."
        ) from None
    except DamageError:
        raise _damaged("its head is cut off, or its checksum does not match") from None
    try:
        _check_query(head, schema)
        snapshot = _read_sections(memoryview(data)[end:], head, schema)
        _check_about(snapshot, schema)
    except _REFUSED as error:
        raise _damaged(str(error).splitlines()[0] if isinstance(error, DamageError) else repr(error)) from None
    return snapshot


def _damaged(what: str) -> SnapshotError:
    return SnapshotError(
        f"the snapshot is cut off or damaged: {what}. Nothing was restored; restore another copy or an older "
        f"snapshot, or take a new one with join.snapshot()."
    )


def _check_query(head: dict[str, Any], schema: SnapshotSchema) -> None:
    if head["about"]["query"] != schema.identity:
        raise SnapshotError(
            "the snapshot belongs to another query or to other schemas.\n"
            f"  snapshot:  {' '.join(head['about']['sql'].split())}\n"
            f"  this join: {' '.join(schema.sql.split())}\n"
            "Open the join with the query, schemas and time columns it was taken from."
        )
    if head["ordered"] != schema.ordered:
        raise SnapshotError("the snapshot was taken with another value of ordered=; open the join with the same.")


def _read_sections(view: memoryview, head: dict[str, Any], schema: SnapshotSchema) -> Snapshot:
    sections = head["sections"]
    missing = sum(section["bytes"] for section in sections) - len(view)
    if missing:
        raise DamageError(f"{abs(missing)} bytes {'are missing at' if missing > 0 else 'follow'} its end")
    snapshot = Snapshot(head["about"], pending=[] if schema.ordered else None)
    counted = snapshot.about["counted"]
    at = 0
    for number, section in enumerate(sections):
        body = view[at : at + section["bytes"]]
        at += section["bytes"]
        place, unit, name = section["place"], section["unit"], f"section {number + 1} of {len(sections)}"
        if digest_of(body) != section["checksum"]:
            raise DamageError(f"the checksum of {name} does not match")
        try:
            table = _read_table(body, section["rows"])
            if place == "owed":
                snapshot.owed.append(_checked(table, schema.results[0]))
            elif place == "pending" and snapshot.pending is not None and unit == len(snapshot.pending):
                timed = schema.results[unit].append(pa.field(RESULT_TIME, pa.int64()))
                snapshot.pending.append(_checked(table, timed))
            elif type(unit) is not int or not 0 <= unit < len(schema.units):
                raise DamageError(f"there is no unit {unit}")
            else:
                block = _read_block(table, place, schema.units[unit], counted)
                snapshot.blocks.setdefault((place, unit), []).append(block)
        except _REFUSED as error:
            raise DamageError(f"{name} cannot be read ({' '.join(str(error).split())})") from None
    if snapshot.pending is not None and len(snapshot.pending) != len(schema.results):
        raise DamageError("results that wait for their turn are missing")
    return snapshot


def _read_table(body: memoryview, rows: int) -> pa.Table:
    with pa.ipc.open_stream(pa.py_buffer(body)) as reader:
        table = reader.read_all()
    table.validate(full=True)
    if table.num_rows != rows:
        raise DamageError(f"it has {table.num_rows} rows, not {rows}")
    return table


def _checked(table: pa.Table, schema: pa.Schema) -> pa.Table:
    if not table.schema.equals(schema):
        raise DamageError(f"it has columns {table.schema.names} of other types, or others, than {schema.names}")
    if RESULT_TIME in schema.names and table.column(RESULT_TIME).null_count:
        raise DamageError("a result has no time")
    return table


def _read_block(table: pa.Table, place: str, columns: Columns, counted: bool) -> Block:
    if place not in ("window", "held", "unmatched"):
        raise DamageError(f"there is no place '{place}'")
    layouts = columns.layouts[: columns.stored] if place == "window" else columns.layouts
    wanted = {"times": pa.int64(), "numbers": pa.int64(), "keep": pa.bool_()}
    needed = {"times": True, "numbers": counted and place != "held", "keep": place == "unmatched"}
    wanted |= {f"c{k}": _arrow_of(layout, columns.opaque.get(k)) for k, layout in enumerate(layouts)}
    names = [name for name in wanted if needed.get(name, name not in needed) or name in table.schema.names]
    if table.schema.names != names or table.schema.types != [wanted[name] for name in names]:
        raise DamageError("its columns are not those of the query")
    if not table.num_rows or any(table.column(name).null_count for name in needed if name in names):
        raise DamageError("it is empty, or has nulls where there can be none")
    found = {name: _whole(table.column(name)) for name in names}
    return Block(
        _integers(found["times"]),
        tuple(_vector(found[f"c{k}"], layout) for k, layout in enumerate(layouts)),
        _integers(found["numbers"]) if "numbers" in found else None,
        np.asarray(found["keep"]).astype(np.bool_) if "keep" in found else None,
    )


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


def _integers(array: pa.Array) -> npt.NDArray[np.int64]:
    return np.asarray(array)


def _vector(array: pa.Array, layout: Layout) -> Vector:
    vector = carried_vector(array)
    values = vector.values.view(layout.dtype) if layout.storage is Storage.FIXED else vector.values
    return Vector(layout, values, vector.valid, vector.text, vector.arrow)


# -- what the description says ------------------------------------------------


def _check_about(snapshot: Snapshot, schema: SnapshotSchema) -> None:
    """Refuse a description that does not go with the join, or with the tuples."""
    about = snapshot.about
    _check_numbers("watermarks", about["watermarks"], schema.streams, INT64_MIN, INT64_MAX + 1, exact=True)
    for name in ("tuples_in", "late", "rejected", "shed"):
        _check_numbers(name, about[name], schema.streams, 0)
    _check_numbers("results", {"results": about["results"]}, ["results"], 0)
    counts = dict(enumerate(about["counts"]))
    _check_numbers("counts", counts, range(len(schema.units)), 0, exact=True)
    _check_numbers("serials", about["serials"], [str(unit) for unit in schema.preserved], 0, exact=True)
    if about["counted"] is not schema.counted and not (schema.may_count and about["counted"] is True):
        raise DamageError("it does not say rightly whether tuples are numbered")
    if schema.many:
        _check_numbers("since", about["since"], [], INT64_MIN, INT64_MAX)
        _check_numbers("newest", {"newest": about["newest"]}, ["newest"], INT64_MIN, INT64_MAX)
    for (place, unit), blocks in snapshot.blocks.items():
        if place == "unmatched" and unit not in schema.preserved:
            raise DamageError("tuples wait for a partner that need none")
        if about["counted"]:
            _check_range(f"numbers of {place} tuples", [b.numbers for b in blocks], counts[unit])
        serial_at = schema.units[unit].serial_at
        if serial_at is not None and unit in schema.preserved and place != "held":
            serials = [block.columns[serial_at].values for block in blocks]
            _check_range(f"serial numbers of {place} tuples", serials, about["serials"][str(unit)])
            if place == "unmatched":
                _check_rising(serials)


def _check_numbers(
    what: str, found: Any, names: Sequence[Any], least: int, greatest: int | None = None, *, exact: bool = False
) -> None:
    """Refuse anything but whole numbers between two bounds, one for each of ``names`` and (unless exact) others."""
    if not isinstance(found, dict) or not found.keys() >= set(names) or (exact and len(found) != len(names)):
        raise DamageError(f"its {what} are not those of this join")
    for value in found.values():
        if type(value) is not int or value < least or (greatest is not None and value > greatest):
            raise DamageError(f"its {what} are out of range")


def _check_range(what: str, parts: Sequence[npt.NDArray[np.int64] | None], end: int) -> None:
    for part in parts:
        if part is not None and (int(part.min()) < 0 or int(part.max()) >= end):
            raise DamageError(f"{what} are out of range")


def _check_rising(parts: Sequence[npt.NDArray[np.int64]]) -> None:
    """Refuse serial numbers that do not rise in each block, or blocks that overlap."""
    ends = sorted((int(part[0]), int(part[-1])) for part in parts)
    overlap = any(last >= first for (_, last), (first, _) in pairwise(ends))
    if overlap or any((part[1:] <= part[:-1]).any() for part in parts):
        raise DamageError("serial numbers are out of order")
