"""Blocks of tuples as bytes: Arrow's stream format, one record batch a block."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

__all__ = ["BLOCK_BYTES", "concat_batches", "pieces", "read_block", "rows_within", "write_block"]

BLOCK_BYTES = 8 << 20
"""Bytes of a block, unless a single tuple has more: what holds blocks must not depend on how wide tuples are."""


def write_block(batch: pa.RecordBatch) -> bytes:
    """Return ``batch`` as bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def read_block(data: bytes) -> pa.RecordBatch:
    """Return the batch in ``data``, which stays alive as long as the batch."""
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        return reader.read_next_batch()


def rows_within(batch: pa.RecordBatch | pa.Table, size: int = BLOCK_BYTES) -> int:
    """Return how many rows like those of ``batch`` have about ``size`` bytes; at least one."""
    return max(1, size * int(batch.num_rows) // max(1, int(batch.nbytes)))


def pieces(batch: pa.RecordBatch) -> list[pa.RecordBatch]:
    """Return ``batch`` in pieces of about :data:`BLOCK_BYTES`, sharing memory; at least one."""
    rows = rows_within(batch)
    return [batch.slice(start, rows) for start in range(0, batch.num_rows, rows)] or [batch]


def concat_batches(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Return all rows of ``batches`` (at least one, of one schema) in one batch."""
    if len(batches) == 1:
        return batches[0]
    table = pa.Table.from_batches(batches).unify_dictionaries().combine_chunks()
    return table.to_batches()[0] if table.num_rows else batches[0]
