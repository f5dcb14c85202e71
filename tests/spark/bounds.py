"""Loads that are too much for a small session: it must get slower, and never die.

``python -m tests.spark.bounds`` runs each load in a driver of its own with a JVM of 1 GB and tells how long it took and
what the JVM and its Python workers held at most; ``python -m tests.spark.bounds downtime --rows 5000000`` runs one.
Every tuple of R has one partner in S, so the result is known. Exit code 1 if a load died or a row is missing.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

import crosswind as cw
from tests.conftest import KERNEL_CACHE, ROOT, use_kernel_cache
from tests.spark.killing import DAEMON, command, descendants, resident_mb
from tests.spark.session import options

JVM_MEMORY = "1g"
SECONDS_MAX = 1800
FILE_ROWS = 500_000
SCHEMA = "x long, ts timestamp"
SECOND = 1_000_000


@dataclass(frozen=True)
class Load:
    """Micro-batches of so many ``rows``, one after the other, each row made wider by ``columns``."""

    rows: tuple[int, ...]
    columns: tuple[str, ...] = ()
    cells: int = 2
    partitions: int = 2
    cache_mb: int = 1024
    restarts: bool = False
    kind: str = "INNER"


LOADS = {
    "wide": Load((200, 200), ("repeat(cast(x % 10 AS string), 1000000) AS t",)),
    "wide left": Load((200, 200), ("repeat(cast(x % 10 AS string), 1000000) AS t",), kind="LEFT"),
    "columns": Load((50_000, 50_000), tuple(f"x * {k} + 0.5 AS c{k}" for k in range(200))),
    "downtime": Load((1_000, 1_000_000, 1_000), restarts=True),
    "partitions": Load((20_000, 20_000, 20_000), cells=64, partitions=64),
    "cache": Load((200_000, 1_000, 1_000, 1_000), cache_mb=0),
    "cache rows": Load((200_000, 1_000, 1_000, 1_000), cache_mb=0, kind="ROWS"),
}


def write_inputs(folder: Path, batch: int, start: int, rows: int) -> None:
    """Write the tuples of a micro-batch: numbers from ``start`` on, S a second after R."""
    for stream, later in (("R", 0), ("S", SECOND)):
        into = folder / f"in-{stream}"
        into.mkdir(parents=True, exist_ok=True)
        for part, first in enumerate(range(start, start + rows, FILE_ROWS)):
            x = np.arange(first, min(first + FILE_ROWS, start + rows))
            ts = pa.array(1_700_000_000 * SECOND + x * 60 + later, pa.timestamp("us", "UTC"))
            pq.write_table(pa.table({"x": pa.array(x), "ts": ts}), folder / "unfinished")
            (folder / "unfinished").rename(into / f"{batch}-{part}.parquet")


def query_of(load: Load) -> str:
    """Return the join; each column of R is used, so that it travels."""
    names = [column.rpartition(" AS ")[2] for column in load.columns]
    shown = ", ".join(["R.x", *(f"R.{name}" for name in names), "S.ts AS at"])
    window = f"ROWS {sum(load.rows)}" if load.kind == "ROWS" else "RANGE 10 MINUTES"
    word = "LEFT JOIN" if load.kind == "LEFT" else "JOIN"
    return f"SELECT {shown} FROM R [{window}] {word} S [{window}] ON R.x = S.x"


def frames(spark: SparkSession, load: Load, folder: Path) -> dict[str, DataFrame]:
    """Return the streams; what makes rows wide is computed by Spark, as it hands them over."""
    made = {}
    for stream in "RS":
        frame = spark.readStream.schema(SCHEMA).parquet(str(folder / f"in-{stream}"))
        made[stream] = frame.selectExpr("x", "ts", *(load.columns if stream == "R" else ()))
    return made


def run(name: str, load: Load, folder: Path) -> None:
    """Run a load in this process, and write how often each result came to ``folder/told.json``."""
    settings = options(folder) | cw.spark.settings(cells=load.partitions) | {"spark.driver.memory": JVM_MEMORY}
    settings["spark.sql.shuffle.partitions"] = str(load.partitions)
    spark = SparkSession.builder.master("local[2]").config(map=settings).appName(name).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    start, seconds = 0, []
    query = None
    end = 86_400_000_000  # numbers of a far future: they let the watermark pass everything
    for batch, rows in enumerate([*load.rows, 1]):
        write_inputs(folder, batch, start if batch < len(load.rows) else end, rows)
        start += rows
        began = time.monotonic()
        if query is None:
            live = cw.spark.join(
                query_of(load), frames(spark, load, folder), cells=load.cells, cache_mb=load.cache_mb, lateness="0 s"
            )
            writer = live.selectExpr("x", "at", "1 AS n").writeStream.format("parquet")
            checkpoint = str(folder / "checkpoint")
            query = writer.option("checkpointLocation", checkpoint).start(str(folder / "out"))
        query.processAllAvailable()
        seconds.append(round(time.monotonic() - began, 1))
        if load.restarts:
            query.stop()
            query = None
    if query is not None:
        query.stop()
    found = spark.read.parquet(str(folder / "out")).where(f"x < {end}")
    counts = found.selectExpr("count(*)", "count(DISTINCT x)", "count(at)").first()
    (folder / "told.json").write_text(json.dumps({"counts": list(counts or ()), "seconds": seconds}))
    spark.stop()


@dataclass(frozen=True)
class Outcome:
    """What became of a load: how long its micro-batches took, what was held at most, what is wrong."""

    seconds: list[float]
    jvm_mb: float
    workers_mb: float
    wrong: str


def measure(name: str, load: Load, folder: Path) -> Outcome:
    """Run a load in a driver of its own, watched."""
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    arguments = [sys.executable, "-m", "tests.spark.bounds", name, "--rows", str(max(load.rows)), "--folder", folder]
    jvm = workers = 0.0
    with (folder / "driver.log").open("wb") as log:
        env = {**os.environ, "PYTHONPATH": path}
        process = subprocess.Popen(arguments, cwd=ROOT, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.monotonic() + SECONDS_MAX
        while process.poll() is None and time.monotonic() < deadline:
            tree = descendants(process.pid)
            java = [pid for pid in tree if "org.apache.spark" in command(pid)]
            jvm = max(jvm, resident_mb(java))
            workers = max(workers, resident_mb([pid for pid in tree if DAEMON in command(pid)]))
            time.sleep(0.5)
    if process.poll() is None:
        process.kill()
    wanted = sum(load.rows)
    if not (folder / "told.json").exists():
        return Outcome([], jvm, workers, (folder / "driver.log").read_text(errors="replace")[-2000:] or "it hangs")
    told = json.loads((folder / "told.json").read_text())
    wrong = (
        "" if told["counts"] == [wanted] * 3 else f"{told['counts']} rows, numbers and partners, not {wanted} of each"
    )
    return Outcome(told["seconds"], jvm, workers, wrong)


def chosen(names: Sequence[str], rows: int | None) -> Iterator[tuple[str, Load]]:
    """Yield loads by name, with another size of their greatest micro-batch."""
    for name in names:
        load = LOADS[name]
        most = max(load.rows) if rows is None else rows
        yield name, Load(**{**vars(load), "rows": tuple(most if n == max(load.rows) else n for n in load.rows)})


def main(arguments: Sequence[str] | None = None) -> int:
    """Run loads and tell what became of them."""
    parser = argparse.ArgumentParser(prog="python -m tests.spark.bounds", description=__doc__.split("\n")[0])
    parser.add_argument("load", nargs="*", help=f"of {', '.join(LOADS)}; all, if left out")
    parser.add_argument("--rows", type=int, help="of the greatest micro-batch")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    use_kernel_cache(ROOT / ".pytest_cache" / "d" / KERNEL_CACHE)
    failed = 0
    for name, load in chosen(given.load or list(LOADS), given.rows):
        if given.folder is not None:  # the driver of one load
            run(name, load, given.folder)
            continue
        with tempfile.TemporaryDirectory(prefix="crosswind-bounds-") as folder:
            outcome = measure(name, load, Path(folder))
        failed += bool(outcome.wrong)
        took = " + ".join(map(str, outcome.seconds))
        held = f"JVM {outcome.jvm_mb:.0f} MB, Python workers {outcome.workers_mb:.0f} MB"
        print(f"{name}: {took} s; {held}; {outcome.wrong or 'exact'}", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
