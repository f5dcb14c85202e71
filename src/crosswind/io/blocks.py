"""Blocks of tuples as bytes: Arrow's stream format, one record batch a block."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

__all__ = ["concat_batches", "read_block", "write_block"]


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


def concat_batches(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Return all rows of ``batches`` (at least one, of one schema) in one batch."""
    if len(batches) == 1:
        return batches[0]
    table = pa.Table.from_batches(batches).unify_dictionaries().combine_chunks()
    return table.to_batches()[0] if table.num_rows else batches[0]
