"""Rows to blocks and back: what runs before and after the cells, on Arrow batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from crosswind.io.blocks import BLOCK_BYTES, read_block, write_block
from crosswind.spark.route import Routed, Router, needed_columns
from crosswind.spark.spec import JoinSpec, widen

__all__ = ["PACKED", "PACKED_SCHEMA", "Pack", "Unpack"]

_ROWS = 1 << 17
"""Rows that are gathered before they are packed, if they are not too wide; Spark hands them over 10,000 at a time."""

PACKED = "cell int, unit int, is_primary boolean, time timestamp, start long, tuples long, rejected long, block binary"
"""The columns of packed blocks: ``time`` is the greatest in the block (as Spark's watermark wants it), ``start``
the least, in ticks; ``rejected`` counts tuples without a time. A row without a block counts what joins nothing."""

PACKED_SCHEMA = pa.schema(
    [
        ("cell", pa.int32()),
        ("unit", pa.int32()),
        ("is_primary", pa.bool_()),
        ("time", pa.timestamp("us", "UTC")),
        ("start", pa.int64()),
        ("tuples", pa.int64()),
        ("rejected", pa.int64()),
        ("block", pa.binary()),
    ]
)

_routers: dict[tuple[str, int], Router] = {}
"""Routers of this process, by join and unit: micro-batches come often, and a router knows its kernels."""


class Pack:
    """Turns rows of one unit into blocks, each addressed to a cell (for ``mapInArrow``).

    Parameters
    ----------
    spec : JoinSpec
        The join.
    unit : int
        The unit that the rows belong to.
    keys : tuple of int
        The keys under which Spark knows the cells.
    streaming : bool
        Whether blocks tell Spark the time; complete frames have no watermark.
    """

    def __init__(self, spec: JoinSpec, unit: int, keys: tuple[int, ...], streaming: bool = True) -> None:
        self._spec, self._unit, self._keys, self._streaming = spec, unit, keys, streaming

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that rows must have, in this order, under whatever names."""
        return needed_columns(self._spec.plan, self._unit)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield packed blocks."""
        waiting: list[pa.RecordBatch] = []
        rows = size = 0
        for batch in batches:
            waiting.append(batch)
            rows += batch.num_rows
            size += batch.nbytes
            if rows >= _ROWS or size >= BLOCK_BYTES:
                yield self._pack(waiting)
                waiting, rows, size = [], 0, 0
        if rows:
            yield self._pack(waiting)

    def _router(self) -> Router:
        key = (self._spec.identity(), self._unit)
        if key not in _routers:
            _routers[key] = Router(self._spec.plan, self._unit, self._spec.layout)
        return _routers[key]

    def _pack(self, batches: list[pa.RecordBatch]) -> pa.RecordBatch:
        table = pa.Table.from_batches(batches).rename_columns(list(self.columns))
        return self._packed(self._router().route(table))

    def _packed(self, routed: Routed) -> pa.RecordBatch:
        shipments = routed.shipments
        # A stream that plays two roles is packed once for each, and counted for the first.
        counts = self._spec.sources.index(self._spec.sources[self._unit]) == self._unit
        columns: dict[str, list[Any]] = {
            "cell": [self._keys[shipment.cell] for shipment in shipments],
            "unit": [self._unit] * len(shipments),
            "is_primary": [shipment.primary and counts for shipment in shipments],
            "time": [self._spark_time(shipment.time_max) for shipment in shipments],
            "start": [shipment.time_min for shipment in shipments],
            "tuples": [shipment.batch.num_rows for shipment in shipments],
            "rejected": [0] * len(shipments),
            "block": [write_block(shipment.batch) for shipment in shipments],
        }
        passed, rejected = (routed.passed, routed.rejected) if counts else (0, 0)
        for cell in self._told(routed):
            time = self._spark_time(routed.time_max)
            row = (self._keys[cell], self._unit, True, time, None, *((0, 0) if cell else (passed, rejected)), None)
            for column, value in zip(columns.values(), row, strict=True):
                column.append(value)
        arrays = [pa.array(values, field.type) for values, field in zip(columns.values(), PACKED_SCHEMA, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=PACKED_SCHEMA)

    def _told(self, routed: Routed) -> Sequence[int]:
        """Return the cells that hear of these rows though they may get none.

        The first one always does: the clock moves, counts count, and state of another layout is noticed. All do where
        late is what is older than the watermark of the micro-batch before: each must have heard of that one.
        """
        reached = {shipment.cell for shipment in routed.shipments}
        if self._spec.by_previous and self._streaming:
            return [cell for cell in range(len(self._keys)) if cell == 0 or cell not in reached]
        return [0] if routed.passed or routed.rejected or (self._streaming and 0 not in reached) else []

    def _spark_time(self, ticks: int | None) -> int | None:
        if ticks is None or not self._streaming:
            return None
        return self._spec.microseconds(ticks, self._spec.plan.units[self._unit].stream.alias)


class Unpack:
    """Turns result blocks into rows (for ``mapInArrow``).

    Parameters
    ----------
    schema : pyarrow.Schema
        The columns of all queries.
    many : bool
        Whether blocks are of several queries.
    """

    def __init__(self, schema: pa.Schema, many: bool) -> None:
        self._schema, self._many = schema, many

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of all blocks."""
        for batch in batches:
            for query, data in zip(batch.column("query"), batch.column("block"), strict=True):
                if data.is_valid:
                    rows = read_block(data.as_buffer())
                    yield widen(rows, query.as_py(), self._schema) if self._many else rows
