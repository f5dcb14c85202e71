"""Rows of plain columns as Arrow messages.

Putting a record batch together array by array takes pyarrow microseconds a column, which is what a
push that completes a few rows mostly waits for. A message of Arrow's own format is read at once, however many
columns it has, and shares the memory it is read from. Its head is the same for all batches of a schema but for
the numbers of rows and bytes, so it is made once, and kernels fill those in (:mod:`crosswind.kernel.compiled.gather`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["Form"]

_HEADER, _BODY_LENGTH = 2, 3
"""Fields of a message."""
_LENGTH, _NODES, _BUFFERS = 0, 1, 2
"""Fields of the header of a record batch."""

_ALIGNED = 64
"""Bytes, of which the head and every column take a multiple."""


class Form:
    """The form of messages with rows of ``schema``, all of whose columns have values of some bytes each.

    Parameters
    ----------
    schema : pyarrow.Schema
        The columns.
    sources : sequence of (int, int)
        Whose each column is, and which of its columns; for kernels.
    """

    def __init__(self, schema: pa.Schema, sources: Sequence[tuple[int, int]]) -> None:
        self._schema = schema
        widths = [of.byte_width for of in schema.types]
        self._widths = [(width, widths.count(width)) for width in dict.fromkeys(widths)]
        columns = [pa.Array.from_buffers(of, 1, [None, pa.py_buffer(bytes(of.byte_width))]) for of in schema.types]
        message = pa.RecordBatch.from_arrays(columns, schema=schema).serialize().to_pybytes()
        size = 8 + int.from_bytes(message[4:8], "little")
        length = -(-size // _ALIGNED) * _ALIGNED
        head = message[:4] + (length - 8).to_bytes(4, "little") + message[8:size] + bytes(length - size)
        self._head = len(head)
        root = 8 + _number(head, 8, 4)
        batch = _follow(head, _field(head, root, _HEADER))
        places = [
            _field(head, root, _BODY_LENGTH),
            _field(head, batch, _LENGTH),
            _follow(head, _field(head, batch, _NODES)) + 4,  # behind the length of the list
            _follow(head, _field(head, batch, _BUFFERS)) + 4,
        ]
        words = [len(head) // 8, len(widths), *(place // 8 for place in places)]
        for width, source in zip(widths, sources, strict=True):
            words += (width, *source)
        self.record: npt.NDArray[np.int64] = np.array([*words, *np.frombuffer(head, dtype=np.int64)], dtype=np.int64)
        """The form, for kernels: words of the head, columns; where in the head the bytes of all columns are noted, the
        rows, the rows of the first column, and where that is (the others follow); for each column bytes of a value and
        source; the head.
        """
        self.at = self.record.__array_interface__["data"][0]

    def memory(self, count: int) -> pa.Buffer:
        """Return memory for a message of ``count`` rows."""
        size = self._head
        for width, columns in self._widths:
            size += columns * ((width * count + 63) & -64)
        return pa.allocate_buffer(size)

    def read(self, memory: pa.Buffer) -> pa.Table:
        """Return the rows of a message that has been filled in; they share its memory."""
        return pa.Table.from_batches([pa.ipc.read_record_batch(memory, self._schema)])


def _number(head: bytes, at: int, size: int, *, signed: bool = False) -> int:
    return int.from_bytes(head[at : at + size], "little", signed=signed)


def _follow(head: bytes, at: int) -> int:
    """Return where what is written elsewhere begins: how far that is, is noted at ``at``."""
    return at + _number(head, at, 4)


def _field(head: bytes, table: int, field: int) -> int:
    """Return where a field of the FlatBuffers table at ``table`` is."""
    places = table - _number(head, table, 4, signed=True)
    return table + _number(head, places + 4 + 2 * field, 2)
