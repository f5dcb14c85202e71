"""A full window to probe: the scan through ``push``, and the same window for the hand-written loop."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crosswind.bench.workload import EPOCH_US, BandWorkload
from crosswind.engine.session import open as open_join
from crosswind.errors import CrosswindError

__all__ = ["Probing", "columns"]

_RATE = 1_000


class Probing:
    """A join in which S has a full window, and tuples of R come.

    All of R's tuples come at one moment, the last at which every tuple of S still waits. So a push
    of R meets exactly the window, as the hand-written loop does, and neither window moves.

    Parameters
    ----------
    window : int
        Tuples in the window of S.
    index : str
        As for ``crosswind.open``.
    condition : str
        What is asked of a pair, if not the two bands.
    basic_window : int, optional
        As for ``crosswind.open``.
    """

    def __init__(self, window: int, index: str, condition: str = "", basic_window: int | None = None) -> None:
        self._workload = workload = BandWorkload(_RATE, window * 1_000_000 // _RATE)
        self._next = 0
        self.window = workload.table("S", 0, window)
        self._moment = EPOCH_US + workload.window_us - 1
        head, where, bands = workload.sql.partition("WHERE")
        sql = head + where + (f" {condition}" if condition else bands)
        self.join = open_join(sql, workload.schemas, index=index, basic_window=basic_window)
        self.join.push("S", self.window)

    def probes(self, count: int) -> pa.RecordBatch:
        """Return new tuples of R."""
        batch = self._workload.batch("R", self._next, count)
        self._next += count
        times = pa.array(np.full(count, self._moment), pa.timestamp("us"))
        return pa.RecordBatch.from_arrays([batch.column(0), batch.column(1), times], names=batch.schema.names)

    def push(self, probes: pa.RecordBatch) -> tuple[int, float]:
        """Return the number of results of ``probes``, and the seconds it took to get them."""
        began = time.perf_counter()
        found = self.join.push("R", probes)
        return found.num_rows, time.perf_counter() - began

    @staticmethod
    def compare_counts(found: int, expected: int, by: str = "the C++ loop") -> None:
        """Raise CrosswindError unless a push found what the hand-written loop, or another way, found."""
        if found != expected:
            raise CrosswindError(f"the join gave {found:,} results where {by} found {expected:,}. This is a bug.")


def columns(tuples: Any) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]:
    """Return the two columns of the band join, contiguous, without the time."""
    integer, real = (np.ascontiguousarray(tuples.column(k).to_numpy()) for k in (0, 1))
    return integer, real
