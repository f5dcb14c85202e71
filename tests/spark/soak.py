"""A long run over a live rate source: memory and the checkpoint folder must stay flat, and the output exact.

``python -m tests.spark.soak --seconds 1800`` (``make soak``). Two rate sources are joined by a band under
RANGE windows; every tuple is a function of its number, so the whole result can be computed again at the end.
With ``--kill-every`` a Python worker is killed now and then. Exit code 1 if memory or the folder grows, or a row is
wrong.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import crosswind as cw
from tests.conftest import KERNEL_CACHE, ROOT, use_kernel_cache
from tests.spark.killing import DAEMON, command, descendants, kill, parent, resident_mb
from tests.spark.session import options

MODULUS, BAND = 100_003, 15
FACTORS = {"R": 7_919, "S": 104_729}
SQL = f"""
SELECT R.value AS r, S.value AS s, R.timestamp AS tr, S.timestamp AS tq
FROM R [RANGE 10 SECONDS], S [RANGE 10 SECONDS] WHERE abs(R.x - S.x) <= {BAND}
"""
WARM_UP = 0.4
"""The share of the run in which caches fill and the JVM takes what it wants."""
GROWTH_MAX = 0.10
"""How much memory may grow over the rest of the run."""
PEAK_GROWTH_MAX = 0.25
"""How much the peak of the checkpoint folder may grow from one third of the run to the next. Spark cleans up once a
minute, so the folder swells and shrinks, with the number of micro-batches in between."""


@dataclass(frozen=True)
class Sample:
    """A moment of the run: what the JVM and its workers hold, and the checkpoint folder."""

    seconds: float
    memory_mb: float
    checkpoint_mb: float
    files: int


def source(spark: SparkSession, name: str, rate: int) -> DataFrame:
    """Return ``rate`` tuples a second, of which number v has x = (v * factor) mod modulus."""
    frame = spark.readStream.format("rate").option("rowsPerSecond", rate).option("numPartitions", 1).load()
    return frame.withColumn("x", (sf.col("value") * FACTORS[name]) % MODULUS)


def workers(pids: Sequence[int]) -> list[int]:
    """Return the Python workers among ``pids``; their parent, the daemon, is not one."""
    found = [pid for pid in pids if DAEMON in command(pid)]
    return [pid for pid in found if parent(pid) in found]


def folder_size(folder: Path) -> tuple[int, int]:
    """Return the bytes and the number of the files in ``folder``; some may go while they are counted."""
    sizes = []
    for path in folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            if path.is_file():
                sizes.append(path.stat().st_size)
    return sum(sizes), len(sizes)


def watch(query: Any, checkpoint: Path, seconds: float, kill_every: float | None, rng: random.Random) -> list[Sample]:
    """Let the query run; return what was sampled."""
    began = time.monotonic()
    samples: list[Sample] = []
    shown, killed, kills = began, began, 0
    while (now := time.monotonic()) - began < seconds:
        if not query.isActive:
            cw.spark.wait(query)
            raise RuntimeError("the query has ended by itself")
        tree = descendants(os.getpid())
        size, files = folder_size(checkpoint)
        samples.append(Sample(now - began, resident_mb(tree), size / 1e6, files))
        if kill_every is not None and now - killed > kill_every and workers(tree):
            killed, kills = now, kills + kill(rng.choice(workers(tree)))
        if now - shown > 30:
            shown, last = now, cw.spark.progress_of(query.lastProgress)
            told = "" if last is None else f"batch {last.batch}, {last.batch_ms:.0f} ms, {last.window_tuples} waiting"
            kept = f"checkpoint {size / 1e6:.1f} MB in {files} files"
            print(f"{now - began:6.0f} s  {samples[-1].memory_mb:6.0f} MB  {kept}  {kills} kills  {told}", flush=True)
        time.sleep(1)
    return samples


def growth(samples: Sequence[Sample]) -> tuple[float, float, float]:
    """Return the mean of memory after the warm-up in MB, its slope in MB/min, and its relative growth."""
    seconds, used = (np.array([getattr(s, name) for s in samples]) for name in ("seconds", "memory_mb"))
    late = seconds > WARM_UP * seconds[-1]
    slope, _ = np.polyfit(seconds[late], used[late], 1)
    grown = slope * (seconds[late][-1] - seconds[late][0])
    return float(used[late].mean()), float(slope * 60), float(grown / used[late].mean())


def peaks(samples: Sequence[Sample], name: str) -> tuple[float, float]:
    """Return the greatest value in the second and in the last third of the run."""
    third = samples[-1].seconds / 3
    before = [getattr(s, name) for s in samples if third < s.seconds <= 2 * third]
    return max(before), max(getattr(s, name) for s in samples if s.seconds > 2 * third)


def check_output(folder: Path, rate: int) -> tuple[int, int]:
    """Compare what was written with all that must be out; return the rows and how many of them are wrong.

    Tuple v of a rate source has the time start + v / rate, so one result tells the start. Near the end of the
    run a pair may not be out yet: what counts is what is older than the last result by some seconds.
    """
    db = duckdb.connect()
    committed = folder / "read"
    db.execute(f"CREATE VIEW found AS SELECT r, s, epoch_us(tr) AS tr, epoch_us(tq) AS tq FROM '{committed}/*.parquet'")
    step = 1_000_000 // rate
    starts = db.execute(
        f"SELECT min(tr - r * {step}), max(tr - r * {step}), min(tq - s * {step}), max(tq - s * {step}) FROM found"
    )
    r_low, r_high, s_low, s_high = starts.fetchone()
    assert (r_low, s_low) == (r_high, s_high), "times are not a function of numbers"
    end = db.execute("SELECT least(max(tr), max(tq)) - 15000000 FROM found").fetchone()[0]
    for name, start in (("R", r_low), ("S", s_low)):
        count = max(0, (end - start) // step)
        db.execute(
            f"CREATE TABLE {name} AS SELECT v, {start} + v * {step} AS t, (v * {FACTORS[name]}) % {MODULUS} AS x, "
            f"((v * {FACTORS[name]}) % {MODULUS}) // {BAND} AS b FROM range({count}) numbers(v)"
        )
    db.execute(
        f"""CREATE TABLE wanted AS SELECT R.v AS r, S.v AS s
        FROM (SELECT *, unnest([b - 1, b, b + 1]) AS c FROM R) AS R JOIN S ON R.c = S.b
        WHERE abs(R.x - S.x) <= {BAND} AND abs(R.t - S.t) < 10000000"""
    )
    db.execute(f"CREATE TABLE given AS SELECT r, s FROM found WHERE tr < {end} AND tq < {end}")
    rows = db.execute("SELECT count(*) FROM wanted").fetchone()[0]
    wrong = db.execute(
        """SELECT (SELECT count(*) FROM (SELECT * FROM wanted EXCEPT ALL SELECT * FROM given))
        + (SELECT count(*) FROM (SELECT * FROM given EXCEPT ALL SELECT * FROM wanted))"""
    ).fetchone()[0]
    return rows, wrong


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, watch, compare."""
    parser = argparse.ArgumentParser(prog="python -m tests.spark.soak", description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=1800)
    parser.add_argument("--rate", type=int, default=1000, help="tuples/s of each stream; divides 1000")
    parser.add_argument("--kill-every", type=float, help="seconds after which a Python worker is killed")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args(arguments)
    use_kernel_cache(ROOT / ".pytest_cache" / "d" / KERNEL_CACHE)
    folder = Path(tempfile.mkdtemp(prefix="crosswind-soak-"))
    spark = SparkSession.builder.master("local[2,8]").config(map=options(folder / "scratch")).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    joined = cw.spark.join(SQL, {name: source(spark, name, asked.rate) for name in ("R", "S")}, time="timestamp")
    writer = joined.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.start(str(folder / "out"))
    try:
        samples = watch(query, folder / "checkpoint", asked.seconds, asked.kill_every, random.Random(asked.seed))
        query.stop()
        spark.read.schema(joined.schema).parquet(str(folder / "out")).coalesce(1).write.parquet(str(folder / "read"))
    finally:
        query.stop()
        spark.stop()
    rows, wrong = check_output(folder, asked.rate)
    shutil.rmtree(folder, ignore_errors=True)
    mean, slope, grown = growth(samples)
    print(f"memory: {mean:.0f} MB, {slope:+.1f} MB/min after the warm-up ({grown:+.1%}; at most {GROWTH_MAX:.0%})")
    bad = wrong > 0 or rows == 0 or grown > GROWTH_MAX
    for name in ("checkpoint_mb", "files"):
        before, after = peaks(samples, name)
        print(f"{name}: at most {before:.1f} in the second third of the run, {after:.1f} in the last")
        bad |= after > (1 + PEAK_GROWTH_MAX) * before
    print(f"output: {rows} rows, {wrong} lost or doubled")
    return int(bad)


if __name__ == "__main__":
    sys.exit(main())
