"""Rows to blocks and back: what runs before and after the cells, on Arrow batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from crosswind.io.arrow import ticks_of
from crosswind.io.blocks import BLOCK_BYTES, read_block, write_block
from crosswind.spark.dropped import late_rows, output_schema, with_late
from crosswind.spark.route import Routed, Router, needed_columns, travelling_columns
from crosswind.spark.spec import JoinSpec, widen

__all__ = ["PACKED", "PACKED_SCHEMA", "Heartbeat", "Pack", "Unpack"]

_ROWS = 1 << 17
"""Rows that are gathered before they are packed, if they are not too wide; Spark hands them over 10,000 at a time."""

PACKED = "cell int, unit int, is_primary boolean, time timestamp, start long, tuples long, rejected long, block binary"
"""The columns of packed blocks: ``time`` is the greatest in the block (as Spark's watermark wants it), ``start``
the least, in ticks; ``rejected`` counts tuples without a time. A row without a block counts what joins nothing; one
with a block and ``rejected`` has the tuples that it counts."""

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

_routers: dict[tuple[str, int, bool], Router] = {}
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
        self.__name__ = f"{spec.title}: pack {spec.sources[unit]}"  # in the Spark UI and explain

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that rows must have, in this order, under whatever names."""
        columns = needed_columns if self._spec.late is None else travelling_columns
        return columns(self._spec.plan, self._unit)

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
        whole = self._spec.late is not None
        key = (self._spec.identity(), self._unit, whole)
        if key not in _routers:
            _routers[key] = Router(self._spec.plan, self._unit, self._spec.layout, whole=whole)
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
        time = self._spark_time(routed.time_max)
        rows: list[tuple[Any, ...]] = []
        if self._spec.late is not None and rejected and routed.without_time is not None:
            block = write_block(routed.without_time)
            rows.append((self._keys[0], self._unit, True, time, None, 0, rejected, block))
            rejected = 0
        for cell in self._told(routed):
            counted = (0, 0) if cell else (passed, rejected)
            rows.append((self._keys[cell], self._unit, True, time, None, *counted, None))
        for row in rows:
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


class Heartbeat(Pack):
    """Turns times of one unit into a row that tells the newest (for ``mapInArrow``): the clock moves, nothing comes."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The time column alone."""
        return (self._spec.plan.units[self._unit].stream.time,)

    def _pack(self, batches: list[pa.RecordBatch]) -> pa.RecordBatch:
        stream, factor = self._spec.plan.units[self._unit].stream, self._spec.plan.axis.factors[self._unit]
        parts = [ticks_of(batch.column(0), factor, stream.alias) for batch in batches]
        known = [ticks if missing is None else ticks[~missing] for ticks, missing in parts]
        newest = max((int(ticks.max()) for ticks in known if len(ticks)), default=None)
        return self._packed(Routed([], 0, 0, newest))


class Unpack:
    """Turns result blocks into rows (for ``mapInArrow``).

    Parameters
    ----------
    spec : JoinSpec
        The join.
    """

    def __init__(self, spec: JoinSpec) -> None:
        self._sources, self._many, self._late = spec.sources, spec.many, spec.late is not None
        self._schema = output_schema(spec)
        self.__name__ = f"{spec.title}: unpack"

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of all blocks."""
        for batch in batches:
            parts = [batch.column(name) for name in ("query", "block", "unit", "dropped")]
            for query, data, unit, dropped in zip(*parts, strict=True):
                if not data.is_valid:
                    continue
                rows = read_block(data.as_buffer())
                if dropped.is_valid:
                    yield self.dropped(rows, unit.as_py(), dropped.as_py())
                else:
                    yield self.results(rows, query.as_py())

    def results(self, rows: pa.RecordBatch, query: str) -> pa.RecordBatch:
        """Return results of ``query`` with all columns of the output."""
        if self._many:
            return widen(rows, query, self._schema)
        return with_late(rows, self._schema) if self._late else rows

    def dropped(self, rows: pa.RecordBatch, unit: int, reason: str) -> pa.RecordBatch:
        """Return tuples that were dropped with all columns of the output."""
        return late_rows(rows, self._sources[unit], reason, self._schema)
