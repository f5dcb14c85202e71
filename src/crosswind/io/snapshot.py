"""Snapshots: the state of a join as bytes, and back.

A snapshot is a JSON description followed by Arrow streams, one a block of waiting
tuples. It does not depend on the engine, the
index, the number of workers or the size of basic windows that wrote it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from crosswind.errors import SnapshotError
from crosswind.io.arrow import carried_vector, to_arrow
from crosswind.plan.physical import Storage
from crosswind.window.block import Block
from crosswind.window.vector import Layout, Vector

__all__ = ["Snapshot", "read_snapshot", "write_snapshot"]

_FORMAT = 1
_ABOUT = ("watermarks", "counts", "tuples_in", "late", "rejected", "results")
_MAGIC = b"crosswind snapshot\n"


@dataclass
class Snapshot:
    """What a join must know to go on: a description, and the blocks of each unit by place.

    ``blocks`` maps a place ("window" or "held") and a unit to blocks, oldest first;
    ``pending`` are results that wait for their turn, by query (None: output is unordered),
    ``owed`` results that the next call hands out.
    """

    about: dict[str, Any]
    blocks: dict[tuple[str, int], list[Block]] = field(default_factory=dict)
    pending: list[bytes] | None = None
    owed: list[pa.Table] = field(default_factory=list)


def write_snapshot(snapshot: Snapshot) -> bytes:
    """Return ``snapshot`` as bytes."""
    sections, payloads = [], []
    for (place, unit), blocks in snapshot.blocks.items():
        for block in blocks:
            body = _encode(block)
            sections.append({"place": place, "unit": unit, "bytes": len(body)})
            payloads.append(body)
    for query, body in enumerate(snapshot.pending or ()):
        sections.append({"place": "pending", "unit": query, "bytes": len(body)})
        payloads.append(body)
    for table in snapshot.owed:
        body = _table_bytes(table)
        sections.append({"place": "owed", "unit": -1, "bytes": len(body)})
        payloads.append(body)
    head = json.dumps({"format": _FORMAT, "about": snapshot.about, "sections": sections}).encode()
    return b"".join([_MAGIC, len(head).to_bytes(8, "little"), head, *payloads])


def read_snapshot(data: bytes, identity: str, sql: str, layouts: list[list[Layout]]) -> Snapshot:
    """Return the snapshot in ``data``, which must belong to the query named by ``identity``.

    ``layouts`` are the columns of each unit's blocks; ``sql`` is shown in errors.
    """
    view = memoryview(data)
    if bytes(view[: len(_MAGIC)]) != _MAGIC:
        raise SnapshotError(
            f"restore got {len(data)} bytes that are not a Crosswind snapshot; pass what join.snapshot() returned."
        )
    at = len(_MAGIC) + 8
    size = int.from_bytes(view[at - 8 : at], "little")
    try:
        head = json.loads(bytes(view[at : at + size]))
    except ValueError:
        raise SnapshotError("the snapshot is cut off or damaged; take a new one with join.snapshot().") from None
    if head["format"] != _FORMAT:
        raise SnapshotError(
            f"the snapshot has format {head['format']}, this version reads format {_FORMAT}; "
            f"restore it with the version that wrote it."
        )
    if head["about"]["query"] != identity:
        raise SnapshotError(
            "the snapshot belongs to another query or to other schemas.\n"
            f"  snapshot:  {' '.join(head['about']['sql'].split())}\n"
            f"  this join: {' '.join(sql.split())}\n"
            "Open the join with the query, schemas and time columns it was taken from."
        )
    at += size
    try:
        return _read_sections(view, at, head, layouts)
    except (KeyError, OSError, pa.ArrowInvalid):
        raise SnapshotError("the snapshot is damaged; take a new one with join.snapshot().") from None


def _read_sections(view: memoryview, at: int, head: dict[str, Any], layouts: list[list[Layout]]) -> Snapshot:
    snapshot = Snapshot(head["about"])
    if not snapshot.about.keys() >= set(_ABOUT):
        raise KeyError("about")
    for section in head["sections"]:
        body = view[at : at + section["bytes"]]
        if len(body) != section["bytes"]:
            raise SnapshotError("the snapshot is cut off; take a new one with join.snapshot().")
        if section["place"] == "pending":
            snapshot.pending = [*(snapshot.pending or []), bytes(body)]
        elif section["place"] == "owed":
            with pa.ipc.open_stream(pa.py_buffer(body)) as reader:
                snapshot.owed.append(reader.read_all())
        else:
            block = _decode(body, layouts[section["unit"]])
            snapshot.blocks.setdefault((section["place"], section["unit"]), []).append(block)
        at += section["bytes"]
    return snapshot


def _arrow_of(vector: Vector) -> pa.DataType:
    match vector.layout.storage:
        case Storage.TEXT:
            return pa.large_binary()
        case Storage.WIDE:
            return pa.decimal128(38, 0)
        case Storage.OPAQUE:
            return vector.arrow.type if vector.arrow is not None else pa.null()
        case _:
            return pa.from_numpy_dtype(np.dtype(vector.layout.dtype))


def _encode(block: Block) -> bytes:
    columns = {"times": pa.array(block.times)}
    if block.numbers is not None:
        columns["numbers"] = pa.array(block.numbers)
    if block.keep is not None:
        columns["keep"] = pa.array(block.keep)
    for k, vector in enumerate(block.columns):
        columns[f"c{k}"] = to_arrow(vector, _arrow_of(vector))
    batch = pa.RecordBatch.from_pydict(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def _table_bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _decode(body: memoryview, layouts: list[Layout]) -> Block:
    with pa.ipc.open_stream(pa.py_buffer(body)) as reader:
        batch = reader.read_next_batch()
    columns = []
    for k, layout in enumerate(layouts[: sum(name.startswith("c") for name in batch.schema.names)]):
        vector = carried_vector(batch.column(f"c{k}"))
        values = vector.values
        if layout.storage is Storage.FIXED:
            values = values.view(layout.dtype)
        columns.append(Vector(layout, values, vector.valid, vector.text, vector.arrow))
    names = batch.schema.names
    numbers = np.asarray(batch.column("numbers")) if "numbers" in names else None
    keep = np.asarray(batch.column("keep")).astype(np.bool_) if "keep" in names else None
    return Block(np.asarray(batch.column("times")), tuple(columns), numbers, keep)
