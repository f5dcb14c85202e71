"""A join on Spark that grows: stopped, spread over more cells and partitions, and started again where it was.

Two streams of random tuples, a minute in a micro-batch. After two minutes the query is stopped, and
``crosswind.spark.rescale`` makes a checkpoint for 16 cells in 4 partitions from that for 4 cells in 2. After one more
minute it becomes another query, with shorter windows. Run it with ``python examples/growing_on_spark.py``; it needs
Java 17 and ``pip install 'crosswind[spark]'``.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import crosswind as cw

NEAR = "SELECT R.x, S.x AS a, R.ts, S.ts AS t FROM R [RANGE {0}], S [RANGE {0}] WHERE abs(R.x - S.x) <= 2"
LONG, SHORT = NEAR.format("1 MINUTE"), NEAR.format("20 SECONDS")
BEGIN_US = 1_735_689_600_000_000
PER_MINUTE = 1_000


def add_minute(folder: Path, number: int) -> dict[str, pa.Table]:
    """Write the tuples of one minute of each stream, and return them."""
    chance = np.random.default_rng(number)
    tables = {}
    for stream in ("R", "S"):
        times = BEGIN_US + number * 60_000_000 + np.sort(chance.integers(0, 60_000_000, PER_MINUTE))
        xs = pa.array(chance.integers(0, 5_000, PER_MINUTE), pa.int32())
        tables[stream] = pa.table({"x": xs, "ts": pa.array(times, pa.timestamp("us", "UTC"))})
        (folder / stream).mkdir(exist_ok=True)
        pq.write_table(tables[stream], folder / stream / f"minute-{number}.parquet")
    return tables


def run(spark: Any, folder: Path, sql: str, checkpoint: str, cells: int) -> int:
    """Join what has come since the checkpoint, and return how many pairs there are by now."""
    frames = {
        stream: spark.readStream.schema("x int, ts timestamp")
        .option("maxFilesPerTrigger", 1)
        .parquet(str(folder / stream))
        for stream in ("R", "S")
    }
    pairs = cw.spark.join(sql, frames, cells=cells)
    writer = pairs.writeStream.option("checkpointLocation", str(folder / checkpoint)).trigger(availableNow=True)
    cw.spark.wait(writer.start(str(folder / "pairs"), format="parquet"), timeout=300)
    return spark.read.parquet(str(folder / "pairs")).count()


def main() -> None:
    """Let it grow, let it change, and compare with one process."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        spark = SparkSession.builder.master("local[2]").config(map=cw.spark.settings(cells=2)).getOrCreate()
        minutes = [add_minute(folder, number) for number in range(2)]
        run(spark, folder, LONG, "checkpoint", cells=4)

        grown = cw.spark.rescale(folder / "checkpoint", cells=16, partitions=4, to=folder / "checkpoint-16")
        print(f"{len(grown.joins[0].cells)} cells in {grown.partitions} partitions")
        minutes.append(add_minute(folder, 2))
        found = run(spark, folder, LONG, "checkpoint-16", cells=16)
        whole = {stream: pa.concat_tables([minute[stream] for minute in minutes]) for stream in ("R", "S")}
        print(f"{found} pairs, as many as in one process: {found == cw.run(LONG, whole).num_rows}")

        cw.spark.rescale(folder / "checkpoint-16", query=SHORT, to=folder / "checkpoint-short")
        add_minute(folder, 3)
        more = run(spark, folder, SHORT, "checkpoint-short", cells=16)
        print(f"{more - found} more pairs in the next minute, with windows of 20 seconds")
        try:
            cw.spark.rescale(folder / "checkpoint-short", query=LONG, to=folder / "checkpoint-long")
        except cw.InputError as error:
            print(str(error).splitlines()[1].strip())
        spark.stop()


if __name__ == "__main__":
    main()
