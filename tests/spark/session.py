"""The one Spark session of the tests."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import crosswind as cw

CORES = 2


def options(folder: Path) -> dict[str, str]:
    """Return the settings of a small, fast session that keeps its files in ``folder``."""
    return {
        # RocksDB with changelog checkpoints: what a streaming join needs; a partition a core.
        **cw.spark.settings(cells=CORES),
        # As the commands set it for local disks.
        **cw.spark.local_checkpoints(),
        # No web server: it costs a second and a port.
        "spark.ui.enabled": "false",
        # Re-planning between stages gains nothing with tables of a hundred rows.
        "spark.sql.adaptive.enabled": "false",
        # Do not look for the name of this machine, and do not listen to the network.
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        # Everything that Spark writes goes away with the session.
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={folder}",
        # Generated code is compiled for every query; for tiny tables interpretation is faster.
        "spark.sql.codegen.wholeStage": "false",
        # A driver beside other people's processes.
        "spark.driver.memory": "2g",
        # No progress bars between the lines of pytest.
        "spark.ui.showConsoleProgress": "false",
        # Checkpoints of tests are thrown away, so they need not be forced to disk one by one.
        "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
        # What the tests compare is UTC; tests/spark/test_types.py has other zones.
        "spark.sql.session.timeZone": "UTC",
    }


@cache
def session() -> SparkSession:
    """Return the session, started when first asked for and stopped when the process ends."""
    folder = Path(tempfile.mkdtemp(prefix="crosswind-spark-"))
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    spark = SparkSession.builder.master(f"local[{CORES}]").config(map=options(folder)).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")

    @atexit.register
    def stop() -> None:  # a process that leaves RocksDB open may hang
        spark.stop()
        shutil.rmtree(folder, ignore_errors=True)

    return spark


def work_in(folder: Path) -> None:
    """Let relative paths begin in ``folder``, as if the session had been started there."""
    spark: Any = session()
    hadoop = spark._jvm.org.apache.hadoop.fs
    hadoop.FileSystem.get(spark._jsc.hadoopConfiguration()).setWorkingDirectory(hadoop.Path(str(folder)))
