"""A streaming join in a process of its own, made to be killed: ``python -m tests.spark.driver FOLDER MASTER``.

It reads the files in ``FOLDER/in-R`` and ``FOLDER/in-S``, one of each a micro-batch, writes results to
``FOLDER/out``, goes on from ``FOLDER/checkpoint``, and ends when all files are joined.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

import crosswind as cw
from tests.spark.session import options

SQL = """
SELECT R.n AS n, S.n AS m FROM R [RANGE 20 SECONDS], S [RANGE 10 SECONDS]
WHERE R.x BETWEEN S.x - 2 AND S.x + 2
"""
SCHEMA = "n long, x double, ts timestamp"
LATENESS = "5 seconds"
CELLS = 3


def main(folder: Path, master: str) -> None:
    """Join until there is no more input."""
    scratch = Path(tempfile.mkdtemp(prefix="crosswind-driver-"))
    workers = {f"spark.executorEnv.{name}": os.environ[name] for name in ("PYTHONPATH", "CROSSWIND_CACHE_DIR")}
    spark = SparkSession.builder.master(master).config(map={**options(scratch), **workers}).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    frames = {
        name: spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder / f"in-{name}"))
        for name in ("R", "S")
    }
    joined = cw.spark.join(SQL, frames, lateness=LATENESS, layout="range", cells=CELLS)
    writer = joined.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    cw.spark.wait(writer.trigger(availableNow=True).start(str(folder / "out")))
    spark.stop()
    shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
