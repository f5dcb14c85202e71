"""A pipeline in a process of its own, to be killed: ``python -m tests.spark.driver FOLDER MASTER NAME PARTITIONS``.

It reads the files in ``FOLDER/in-R`` and so on, one of each a micro-batch, writes results to ``FOLDER/out``, goes on
from ``FOLDER/checkpoint``, and ends when all files are joined.
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


def main(folder: Path, master: str, name: str, partitions: str) -> None:
    """Run until there is no more input."""
    scratch = Path(tempfile.mkdtemp(prefix="crosswind-driver-"))
    settings = options(scratch) | {"spark.sql.shuffle.partitions": partitions}
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
    cw.spark.wait(writer.trigger(availableNow=True).start(str(folder / "out")))
    spark.stop()
    shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
