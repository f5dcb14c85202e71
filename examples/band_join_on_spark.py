"""The papers' band join on Spark, from files that keep coming to files; and the same in one process.

Two streams of random tuples; which of them lie within 10 of each other in both columns, within a
minute? There is no equality, so Spark alone refuses the join. Run it with
``python examples/band_join_on_spark.py``; it needs Java 17 and ``pip install 'crosswind[spark]'``.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import crosswind as cw

NEAR = """
    SELECT R.x, R.y, S.a, S.b
    FROM R [RANGE 1 MINUTE], S [RANGE 1 MINUTE]
    WHERE R.x BETWEEN S.a - 10 AND S.a + 10 AND R.y BETWEEN S.b - 10 AND S.b + 10
"""
BEGIN_US = 1_735_689_600_000_000
MINUTES = 4
PER_MINUTE = 6_000


def minute(chance: np.random.Generator, names: tuple[str, str], number: int) -> pa.Table:
    """Return the tuples of one minute."""
    times = BEGIN_US + number * 60_000_000 + np.sort(chance.integers(0, 60_000_000, PER_MINUTE))
    return pa.table(
        {
            names[0]: pa.array(chance.integers(1, 10_001, PER_MINUTE), pa.int32()),
            names[1]: pa.array(chance.uniform(1, 10_000, PER_MINUTE), pa.float32()),
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
        }
    )


def write_streams(folder: Path) -> dict[str, pa.Table]:
    """Write a file a minute for each stream, and return all of them."""
    chance = np.random.default_rng(1)
    tables = {}
    for stream, names in {"R": ("x", "y"), "S": ("a", "b")}.items():
        (folder / stream).mkdir()
        parts = [minute(chance, names, number) for number in range(MINUTES)]
        for number, part in enumerate(parts):
            pq.write_table(part, folder / stream / f"minute-{number}.parquet")
        tables[stream] = pa.concat_tables(parts)
    return tables


def main() -> None:
    """Join the files on Spark, a minute in a micro-batch, and compare with one process."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tables = write_streams(folder)
        spark = SparkSession.builder.master("local[2]").config(map=cw.spark.settings(cells=2)).getOrCreate()
        frames = {
            stream: spark.readStream.schema(f"{number} int, {real} float, ts timestamp")
            .option("maxFilesPerTrigger", 1)
            .parquet(str(folder / stream))
            for stream, (number, real) in {"R": ("x", "y"), "S": ("a", "b")}.items()
        }
        print(cw.spark.explain(NEAR, frames, cells=2).partition("layout")[2].strip())
        near = cw.spark.join(NEAR, frames, cells=2)
        writer = near.writeStream.option("checkpointLocation", str(folder / "checkpoint"))
        query = writer.trigger(availableNow=True).start(str(folder / "near"), format="parquet")
        cw.spark.wait(query, timeout=300)
        for progress in map(cw.spark.progress_of, query.recentProgress):
            if progress is not None and progress.tuples:
                print(f"micro-batch {progress.batch}: {progress.tuples} tuples, {progress.results} pairs")
        found = spark.read.parquet(str(folder / "near")).toArrow()
        spark.stop()
    here = cw.run(NEAR, tables)
    same = sorted(map(str, found.to_pylist())) == sorted(map(str, here.to_pylist()))
    print(f"{found.num_rows} pairs, as in one process: {same}")


if __name__ == "__main__":
    main()
