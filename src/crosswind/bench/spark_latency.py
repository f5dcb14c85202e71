"""``bench spark-latency``: from a tuple's due time to its results, through micro-batches in real time."""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from crosswind.bench.record import BenchReport, Goal, Measurement, Tell
from crosswind.bench.workload import BandWorkload

__all__ = ["measure"]

_ASKED = (5_000, 60)
_GOAL = Goal(1.5, at_least=False)


def measure(*, rate: int, window: int, seconds: float, chunk: float, cores: int, tell: Tell) -> BenchReport:
    """Write files as tuples fall due, join them with the default trigger, and look at the clock.

    Parameters
    ----------
    rate : int
        Tuples/s of each stream.
    window : int
        Length of both windows, in seconds; the streams begin with full windows.
    seconds : float
        How long the streams are played.
    chunk : float
        Seconds of tuples in a file.
    cores : int
        Cores, and cells.
    tell : callable
        Told what is being done.
    """
    from crosswind.spark.launch import BRIEF, start_session

    folder = Path(tempfile.mkdtemp(prefix="crosswind-bench-"))
    spark = start_session(
        "crosswind bench spark-latency",
        folder / "spark.log",
        master=f"local[{cores}]",
        cells=cores,
        conf={"spark.driver.memory": "1536m", **BRIEF},
    )
    try:
        player = _Player(folder, BandWorkload(rate, window * 1_000_000), chunk)
        latencies, batches = _play(spark, folder, player, seconds, cores, tell)
    finally:
        spark.stop()
        shutil.rmtree(folder, ignore_errors=True)
    goal = _GOAL if (rate, window) == _ASKED else None
    note = f"{len(latencies):,} results in {batches} micro-batches"
    made = [Measurement("median", _quantile(latencies, 0.5), "s", goal, note=note)]
    made += [Measurement(name, _quantile(latencies, q), "s") for name, q in (("90 %", 0.9), ("99 %", 0.99))]
    notes = [
        f"From the due time of a result's last tuple to the result in the caller's hands (foreachBatch). Tuples reach "
        f"Spark in files of {chunk:g} s. The first third of the time is not counted. The JVM is that of the demo, set "
        f"for a session of minutes: it compiles at once rather than well."
    ]
    settings = {"rate": rate, "window_s": window, "seconds": seconds, "chunk_s": chunk, "cores": cores}
    return BenchReport("spark-latency", "latency through Spark's micro-batches", settings, made, notes)


class _Player:
    """Writes the tuples of both streams when they fall due."""

    def __init__(self, folder: Path, workload: BandWorkload, chunk: float) -> None:
        self._folder, self.workload = folder, workload
        self._per_file = max(1, int(workload.rate * chunk))
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._files = 0
        self.began = 0.0
        for stream in ("R", "S"):
            (folder / stream).mkdir()
        self._write(0, workload.window_tuples, time.time() - workload.window_us / 1e6)

    def start(self) -> None:
        """Begin to play."""
        self.began = time.time()
        self._thread.start()

    def stop(self) -> None:
        """End the play."""
        self._stop.set()
        self._thread.join(10)

    def _run(self) -> None:
        sent = 0
        rate = self.workload.rate
        while not self._stop.is_set():
            wait = self.began + (sent + self._per_file) / rate - time.time()
            if wait > 0:
                self._stop.wait(wait)
            self._write(self.workload.window_tuples + sent, self._per_file, self.began + sent / rate)
            sent += self._per_file

    def _write(self, first: int, count: int, start: float) -> None:
        """Write tuples that fall due from ``start`` (seconds since 1970) on; files appear whole."""
        due = (start * 1e6 + np.arange(count) * 1e6 / self.workload.rate).astype(np.int64)
        for stream in ("R", "S"):
            table = self.workload.table(stream, first, count).set_column(
                2, "ts", pa.array(due, pa.timestamp("us", "UTC"))
            )
            aside = self._folder / f"{stream}.tmp"
            pq.write_table(table, aside)
            aside.replace(self._folder / stream / f"{self._files:06d}.parquet")
        self._files += 1


def _play(
    spark: Any, folder: Path, player: _Player, seconds: float, cores: int, tell: Tell
) -> tuple[np.ndarray[Any, Any], int]:
    from crosswind.spark import join, wait

    schemas = {name: spark.read.parquet(str(folder / name)).schema for name in ("R", "S")}
    frames = {name: spark.readStream.schema(schemas[name]).parquet(str(folder / name)) for name in ("R", "S")}
    sql = player.workload.sql.replace("SELECT R.x", "SELECT R.ts AS r_ts, S.ts AS s_ts, R.x")
    found: list[np.ndarray[Any, Any]] = []
    count_from = float("inf")

    def receive(frame: Any, number: int) -> None:  # noqa: ARG001 - Spark's signature
        table = frame.select("r_ts", "s_ts").toArrow()
        now = time.time()
        if now >= count_from and table.num_rows:
            times = [np.asarray(table[name].combine_chunks().cast(pa.int64())) for name in ("r_ts", "s_ts")]
            found.append(now - np.maximum(*times) / 1e6)

    writer = join(sql, frames, cells=cores).writeStream.foreachBatch(receive)
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).start()
    try:
        tell("filling the windows, compiling")
        while not wait(query, 0.2) and not (query.lastProgress and query.lastProgress.batchId >= 0):
            pass
        player.start()
        count_from = player.began + seconds / 3
        while not wait(query, 0.5) and time.time() < player.began + seconds:
            tell(f"second {time.time() - player.began:.0f} of {seconds:g}")
    finally:
        player.stop()
        query.stop()
    return (np.concatenate(found) if found else np.empty(0)), len(found)


def _quantile(values: np.ndarray[Any, Any], q: float) -> float | None:
    return float(np.quantile(values, q)) if len(values) else None
