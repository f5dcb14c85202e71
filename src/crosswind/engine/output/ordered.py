"""Results in time order, as far as the watermark allows (the papers' punctuations)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crosswind.io.snapshot import RESULT_TIME
from crosswind.window.vector import take_rows

__all__ = ["OrderedOutput"]


class OrderedOutput:
    """Holds results back until no earlier one can come.

    A future result has a new member, and that is not older than its stream's watermark;
    so everything up to the least watermark is settled.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._held: list[tuple[npt.NDArray[np.int64], pa.Table]] = []

    def copy(self) -> OrderedOutput:
        """Return an independent copy; tables are shared."""
        twin = OrderedOutput(self._schema)
        twin._held = list(self._held)
        return twin

    def hold(self, times: npt.NDArray[np.int64], table: pa.Table) -> None:
        """Take results with their times in."""
        self._held.append((times, table))

    def release(self, watermark: int) -> list[pa.Table]:
        """Return, in time order, the results that are settled at ``watermark``."""
        if not self._held:
            return []
        times = np.concatenate([held for held, _ in self._held])
        table = pa.concat_tables([held for _, held in self._held])
        order = np.argsort(times, kind="stable")
        count = int(np.searchsorted(times[order], watermark, side="right"))
        if not count:
            return []
        rest = np.sort(order[count:])
        self._held = [(times[rest], take_rows(table, rest))] if len(rest) else []
        return [take_rows(table, order[:count])]

    def pack(self) -> pa.Table:
        """Return what is held, with its times, for a snapshot."""
        times = np.concatenate([held for held, _ in self._held]) if self._held else np.empty(0, dtype=np.int64)
        tables = [held for _, held in self._held] or [pa.Table.from_batches([], schema=self._schema)]
        return pa.concat_tables(tables).append_column(RESULT_TIME, pa.array(times))

    def unpack(self, table: pa.Table) -> None:
        """Take over what :meth:`pack` returned."""
        if table.num_rows:
            times = np.asarray(table.column(RESULT_TIME).combine_chunks())
            self._held = [(times, table.drop_columns([RESULT_TIME]))]
