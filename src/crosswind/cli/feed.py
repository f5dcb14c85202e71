"""Streams that come as files: what came in the past at once, and what comes now as it comes."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Self

import pyarrow as pa
import pyarrow.parquet as pq

from crosswind.bench.workload import EPOCH_US, BandWorkload

__all__ = ["BandFeed"]

_STREAMS = ("R", "S")
_HISTORY_FILE_S = 30
"""Event time in a file of the past."""
_LIVE_FILE_S = 0.5
"""The same for a file of the present: how long a tuple waits at most before it is handed over."""
_OLD = 1_000_000
"""Seconds by which files of the past are made older: Spark reads files in the order of their age."""


class BandFeed:
    """Writes R(x, y, ts) and S(a, b, ts) as parquet files, two streams at one rate, in real time.

    A context manager: entering it writes ``history_s`` seconds of the past and starts a thread that
    writes the present, until it is left.

    Parameters
    ----------
    folder : Path
        Each stream has a folder of its own in it.
    workload : BandWorkload
        The tuples; their times are shifted so that the past ends when the feed begins.
    history_s : int
        Seconds of the past.
    """

    def __init__(self, folder: Path, workload: BandWorkload, history_s: int) -> None:
        self._workload, self._history_s = workload, history_s
        self.folders = {stream: folder / stream for stream in _STREAMS}
        self._shift_us = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write_present, name="feed", daemon=True)

    def __enter__(self) -> Self:
        for folder in self.folders.values():
            folder.mkdir(parents=True)
        begin_us = int(time.time() * 1e6)
        self._shift_us = begin_us - self._history_s * 1_000_000 - EPOCH_US
        per_file, past = self._workload.rate * _HISTORY_FILE_S, self._workload.rate * self._history_s
        for number, first in enumerate(range(0, past, per_file)):
            for path in self._write(first, min(per_file, past - first)):
                os.utime(path, (begin_us / 1e6 - _OLD + number,) * 2)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(timeout=10)

    def table(self, stream: str, count: int) -> pa.Table:
        """Return the first ``count`` tuples of ``stream``."""
        return self._tuples(stream, 0, count)

    def _tuples(self, stream: str, first: int, count: int) -> pa.Table:
        table = self._workload.table(stream, first, count)
        times = table.column("ts").cast(pa.int64()).to_numpy() + self._shift_us
        return table.set_column(2, "ts", pa.array(times, pa.timestamp("us", "UTC")))

    def _write_present(self) -> None:
        done = self._workload.rate * self._history_s
        begin = time.time()
        while not self._stop.wait(_LIVE_FILE_S):
            due = int(self._workload.rate * (self._history_s + time.time() - begin))
            if due > done:
                self._write(done, due - done)
                done = due

    def _write(self, first: int, count: int) -> list[Path]:
        written = []
        for stream, folder in self.folders.items():
            path = folder / f"{first:012d}.parquet"
            # Spark looks away from names that begin with a dot; a file must be complete when it is seen.
            hidden = path.with_name(f".{path.name}")
            pq.write_table(self._tuples(stream, first, count), hidden)
            written.append(hidden.rename(path))
        return written
