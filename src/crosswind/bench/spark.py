"""``bench spark``: the papers' streams, replayed from files through Spark; ours and Spark's own join."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from crosswind.bench.machine import tree_bytes
from crosswind.bench.record import BenchReport, Goal, Measurement, Tell
from crosswind.bench.workload import BAND, BandWorkload

__all__ = ["measure"]

_ASKED_RATE = 1_000
_GOALS = {60: Goal(150_000, aim=300_000), 900: Goal(100_000, aim=300_000)}
"""By window in seconds."""
_MEMORY_GOAL = Goal(6.0, at_least=False)
_PARALLEL_GOAL = Goal(1.6)
_THETA = "SELECT R.x, S.a FROM R {window}, S {window} WHERE (R.x * 7 + S.a * 13) % 100003 = 0"
"""No column can be looked up: every pair is compared."""
_TIMEOUT_S = 1800.0


@dataclass(frozen=True)
class Replayed:
    """One replay: the tuples of both streams, seconds in micro-batches after the first, results."""

    tuples: int
    seconds: float
    results: int
    memory_gb: float

    @property
    def rate(self) -> float:
        """Tuples/s."""
        return self.tuples / self.seconds if self.seconds else 0.0


def measure(
    *,
    windows: tuple[int, ...],
    rate: int,
    length: int,
    batch: int,
    own: int,
    bucket: int,
    cores: int,
    theta: int,
    tell: Tell,
) -> BenchReport:
    """Replay files through micro-batches as fast as possible.

    Parameters
    ----------
    windows : tuple of int
        Lengths, in seconds.
    rate : int
        Tuples/s of event time, of each stream.
    length : int
        Event time of a replay after the windows are full, in seconds.
    batch : int
        Event time in a micro-batch, in seconds.
    own : int
        The same length for Spark's own join; 0 leaves it out.
    bucket : int
        Width of the buckets of Spark's own join.
    cores : int
        Cores, and cells.
    theta : int
        Event time in seconds of the join without a key, on one core and on all; 0 leaves it out.
    tell : callable
        Told what is being done.
    """
    from crosswind.spark.launch import start_session

    measurements: list[Measurement] = []
    folder = Path(tempfile.mkdtemp(prefix="crosswind-bench-"))
    spark = start_session(
        "crosswind bench spark",
        folder / "spark.log",
        master=f"local[{cores}]",
        cells=cores,
        conf={"spark.driver.memory": "1536m"},
    )
    try:
        bench = _Bench(spark, folder, rate, batch, cores, tell)
        for window_s in windows:
            measurements += bench.band(window_s, length, own, bucket)
        if theta:
            measurements += bench.theta(theta)
    finally:
        spark.stop()
        shutil.rmtree(folder, ignore_errors=True)
    notes = [
        "From parquet files to a sink that counts and drops. Rates are over micro-batches with full windows. "
        "Memory is that of all processes: driver, JVM, Python workers.",
        f"Spark's own join: x and y cut into buckets of {bucket}, S copied into every bucket it touches.",
    ]
    settings = {"windows_s": list(windows), "rate": rate, "length_s": length, "batch_s": batch, "own_s": own}
    settings |= {"bucket": bucket, "cores": cores, "theta_s": theta}
    return BenchReport("spark", "tuples/s through Spark, both streams together", settings, measurements, notes)


class _Bench:
    def __init__(self, spark: Any, folder: Path, rate: int, batch: int, cores: int, tell: Tell) -> None:
        self._spark, self._folder = spark, folder
        self._rate, self._batch, self._cores, self._tell = rate, batch, cores, tell
        self._runs = 0

    def band(self, window_s: int, length: int, own: int, bucket: int) -> list[Measurement]:
        """Measure the papers' join, and Spark's own way to it."""
        from crosswind.spark import join
        from crosswind.spark.baseline import bucket_join

        workload = BandWorkload(self._rate, window_s * 1_000_000)
        goal = _GOALS.get(window_s) if self._rate == _ASKED_RATE else None
        name = f"{window_s} s windows"
        self._tell(f"{name}: writing files")
        frames = self._frames(workload, window_s + length)
        ours = self._replay(name, lambda: join(workload.sql, frames(), cells=self._cores), window_s)
        memory = _MEMORY_GOAL if goal else None
        note = f"{ours.results:,} results, {ours.results / max(1, ours.tuples):.3g} a tuple"
        made = [
            Measurement(f"{name}, Crosswind", ours.rate, "tuples/s", goal, note=note),
            Measurement(f"{name}, memory of all processes", ours.memory_gb, "GB", memory),
        ]
        if own:
            frames = self._frames(workload, window_s + own)

            def theirs() -> Any:
                found = frames()
                return bucket_join(found["R"], found["S"], band=BAND, bucket=bucket, window_s=window_s)

            run = self._replay(f"{name}, Spark's own join", theirs, window_s)
            made[0] = made[0].against(Measurement(f"{name}, Spark's own join", run.rate, "tuples/s"))
            made.append(Measurement(f"{name}, Spark's own join", run.rate, "tuples/s", note="RocksDB state"))
        return made

    def theta(self, length: int) -> list[Measurement]:
        """Measure a join without a key: on one cell, and on as many as there are cores."""
        from crosswind.spark import join

        window_s = 60
        workload = BandWorkload(self._rate, window_s * 1_000_000)
        frames = self._frames(workload, window_s + length)
        sql = _THETA.format(window=workload.window)
        rates = {}
        for cells in (1, self._cores):
            name = f"no key, {cells} cell{'s' * (cells > 1)}"
            rates[cells] = self._replay(name, partial(_joined, join, sql, frames, cells), window_s).rate
        one = Measurement("no key, 1 cell", rates[1], "tuples/s")
        ratio = rates[self._cores] / rates[1] if rates[1] else None
        many = Measurement(f"no key, {self._cores} cells", rates[self._cores], "tuples/s").against(one)
        goal = _PARALLEL_GOAL if self._rate == _ASKED_RATE else None
        return [one, many, Measurement("no key, gain of all cores", ratio, "x", goal)]

    def _frames(self, workload: BandWorkload, seconds: int) -> Callable[[], dict[str, Any]]:
        """Write the streams, a file a micro-batch and core, and return how to read them."""
        folder = self._folder / f"{seconds}"
        per_file = max(1, self._rate * self._batch // self._cores)
        for stream in ("R", "S"):
            where = folder / stream
            where.mkdir(parents=True, exist_ok=True)
            for number, first in enumerate(range(0, self._rate * seconds, per_file)):
                path = where / f"{number:06d}.parquet"
                if not path.exists():
                    table = workload.table(stream, first, min(per_file, self._rate * seconds - first))
                    pq.write_table(table.set_column(2, "ts", table["ts"].cast(pa.timestamp("us", "UTC"))), path)
                    os.utime(path, (1_700_000_000 + number,) * 2)  # files are read in the order of their age

        def read() -> dict[str, Any]:
            reader = self._spark.readStream.option("maxFilesPerTrigger", self._cores)
            schema = {name: self._spark.read.parquet(str(folder / name)).schema for name in ("R", "S")}
            return {name: reader.schema(schema[name]).parquet(str(folder / name)) for name in ("R", "S")}

        return read

    def _replay(self, name: str, make: Callable[[], Any], window_s: int) -> Replayed:
        from crosswind.spark import progress_of, wait

        self._runs += 1
        checkpoint = self._folder / f"checkpoint-{self._runs}"
        writer = make().writeStream.format("noop").option("checkpointLocation", str(checkpoint))
        self._tell(f"{name}: replaying")
        with _peak_memory() as peak:
            query = writer.trigger(availableNow=True).start()
            began = time.monotonic()
            while not wait(query, 1.0):
                last = query.lastProgress
                self._tell(f"{name}: micro-batch {last.batchId if last else 0}")
                if time.monotonic() - began > _TIMEOUT_S:
                    query.stop()
                    raise TimeoutError(f"{name}: the replay has not ended after {_TIMEOUT_S:.0f} s")
        counted = [p for p in query.recentProgress if p.numInputRows and p.batchId * self._batch >= window_s]
        tuples = sum(p.numInputRows for p in counted)
        seconds = sum(p.batchDuration for p in counted) / 1e3
        reports = [progress_of(p) for p in counted]
        return Replayed(tuples, seconds, sum(r.results for r in reports if r is not None), peak[0] / 1e9)


def _joined(join: Callable[..., Any], sql: str, frames: Callable[[], dict[str, Any]], cells: int) -> Any:
    return join(sql, frames(), cells=cells)


@contextmanager
def _peak_memory() -> Iterator[list[int]]:
    """Note the greatest resident memory of this process and all below it."""
    peak, done = [0], threading.Event()

    def watch() -> None:
        while not done.wait(0.5):
            peak[0] = max(peak[0], tree_bytes())

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        done.set()
        thread.join(5)
