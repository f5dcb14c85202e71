"""A pipeline in a process of its own, to be killed.

``python -m tests.spark.driver FOLDER MASTER NAME PARTITIONS TRIGGER [KEY=VALUE ...]`` reads the files in
``FOLDER/in-R`` and so on, one of each per micro-batch, writes results to ``FOLDER/out``, goes on from
``FOLDER/checkpoint``, and ends when all files are joined. With the trigger ``live`` it does so in a query
that never ends by itself, and ends with one that does.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

import crosswind as cw
from tests.spark.pipelines import PIPELINES, SCHEMA, STREAMS
from tests.spark.session import options

CELLS = 2
"""Of a join, whatever the cores of this start: state belongs to cells."""


def main(folder: Path, master: str, name: str, partitions: str, trigger: str, *more: str) -> None:
    """Run until there is no more input."""
    scratch = Path(tempfile.mkdtemp(prefix="crosswind-driver-"))
    settings = options(scratch) | {"spark.sql.shuffle.partitions": partitions, "spark.default.parallelism": str(CELLS)}
    settings |= dict(setting.split("=", 1) for setting in more)
    settings |= {f"spark.executorEnv.{key}": os.environ[key] for key in ("PYTHONPATH", "CROSSWIND_CACHE_DIR")}
    spark = SparkSession.builder.master(master).config(map=settings).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    schema = ", ".join(
        f"{column} {kind}" for column, kind in zip(SCHEMA.names, ("long", "int", "timestamp"), strict=True)
    )
    frames = {
        stream: spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder / f"in-{stream}"))
        for stream in STREAMS
    }
    live = PIPELINES[name].live(frames)
    writer = live.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    if trigger == "live":
        live_query = writer.trigger(processingTime="100 milliseconds").start(str(folder / "out"))
        live_query.processAllAvailable()
        live_query.stop()
    cw.spark.wait(writer.trigger(availableNow=True).start(str(folder / "out")))
    spark.stop()
    shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
