"""Joins of complete DataFrames: the blocks of a cell, oldest first, through one join."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from crosswind.engine.join import Join
from crosswind.engine.many import ManyJoin
from crosswind.engine.session import open_plan
from crosswind.io.blocks import read_block
from crosswind.plan.axis import INT64_MAX
from crosswind.spark.dropped import NO_TIME
from crosswind.spark.pack import Unpack
from crosswind.spark.spec import JoinSpec, by_query

__all__ = ["StaticCells"]


class StaticCells:
    """Joins packed blocks that come sorted by cell and by least time (for ``mapInArrow``).

    When a block comes that starts at some time, no older tuple can follow: windows are
    released as in a live join, and memory is bounded by windows, not by the frames.
    """

    def __init__(self, spec: JoinSpec) -> None:
        self._spec = spec
        self._output = Unpack(spec)
        self.__name__ = f"{spec.title}: join"

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the results of all cells of a partition."""
        join: Join | ManyJoin | None = None
        current = None
        for batch in batches:
            cells, units = batch.column("cell").to_pylist(), batch.column("unit").to_pylist()
            starts, blocks = batch.column("start").to_pylist(), batch.column("block")
            rejected = batch.column("rejected").to_pylist()
            for cell, unit, start, block, dropped in zip(cells, units, starts, blocks, rejected, strict=True):
                if not block.is_valid:
                    continue
                if dropped:
                    yield self._output.dropped(read_block(block.as_buffer()), unit, NO_TIME)
                    continue
                if join is None or cell != current:
                    if join is not None:
                        yield from self._rows(join.finish())
                    join, current = self._open(), cell
                yield from self._rows(join.advance_to(start))
                yield from self._rows(join.push(self._spec.units[unit], read_block(block.as_buffer())))
        if join is not None:
            yield from self._rows(join.finish())

    def _rows(self, found: pa.Table | dict[str, pa.Table]) -> Iterator[pa.RecordBatch]:
        for name, table in by_query(found):
            for batch in table.to_batches():
                yield self._output.results(batch, name)

    def _open(self) -> Join | ManyJoin:
        spec = self._spec
        return open_plan(spec.plan, dict.fromkeys(spec.units, INT64_MAX), index=spec.index)
