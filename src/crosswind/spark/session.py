"""What the join needs of a Spark session, told before it fails and not after."""

from __future__ import annotations

import os
import sys
import warnings
import zipfile
from pathlib import Path
from typing import Any

from crosswind.errors import CrosswindWarning, InputError, UnsupportedError
from crosswind.io.blocks import BLOCK_BYTES
from crosswind.spark import daemon

__all__ = ["check_operator", "check_stateful", "cores_of", "local_checkpoints", "settings"]

_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
_PARTITIONS = "spark.sql.shuffle.partitions"
_DAEMON = "spark.python.daemon.module"
_CHECKPOINTS = "spark.sql.streaming.checkpointFileManagerClass"
_RETAIN = "spark.sql.streaming.minBatchesToRetain"
_RETAINED = 20
"""Micro-batches that a checkpoint can go back to. A restart needs the last; Spark's own 100 multiply what short
micro-batches write."""
_ARROW_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
_ARROW_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"


def settings(cells: int | None = None, *, preload: bool = True) -> dict[str, str]:
    """Return the settings with which the join runs well, for ``SparkSession.builder.config(map=...)``.

    Parameters
    ----------
    cells : int, optional
        How many cells the join will have: as many partitions are made. The number of
        cores of this machine, if left out.
    preload : bool
        Whether Python workers are forked with Crosswind and what it needs already loaded
        (:mod:`crosswind.spark.daemon`), which saves each of them seconds. Say ``False``
        where a platform has a daemon of its own.

    Examples
    --------
    >>> from crosswind.spark import settings
    >>> settings(cells=4)["spark.sql.shuffle.partitions"]
    '4'
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers need the packages of this interpreter
    wanted = {
        _PROVIDER: _ROCKSDB,
        _CHANGELOG: "true",
        _PARTITIONS: str(cells or os.cpu_count() or 1),
        _RETAIN: str(_RETAINED),
        _ARROW_ROWS: "65536",
        _ARROW_BYTES: str(BLOCK_BYTES),
    }
    return wanted | ({_DAEMON: daemon.__name__} if preload else {})


def local_checkpoints() -> dict[str, str]:
    """Return a setting that makes checkpoints on a local disk fast, to be added to :func:`settings`.

    Spark writes checkpoints through Hadoop's FileContext, which starts a process, ``chmod``, for every
    file where Hadoop's native library is missing; with PySpark alone it is. That costs a micro-batch about
    half a second. With this setting files are written and renamed without it. For checkpoints in HDFS
    or an object store leave it out.

    Examples
    --------
    >>> from crosswind.spark import local_checkpoints
    >>> [value.rpartition(".")[2] for value in local_checkpoints().values()]
    ['FileSystemBasedCheckpointFileManager']
    """
    import pyspark

    ending = "/FileSystemBasedCheckpointFileManager.class"
    for jar in Path(pyspark.__file__).parent.glob("jars/spark-sql_*.jar"):
        with zipfile.ZipFile(jar) as content:
            found = [name for name in content.namelist() if name.endswith(ending)]
        if found:  # its package differs between versions of Spark
            return {_CHECKPOINTS: found[0].removesuffix(".class").replace("/", ".")}
    return {}


def check_stateful(spark: Any, cells: int) -> None:
    """Refuse a session in which a streaming join cannot run, and warn of one in which it would crawl."""
    if spark.conf.get(_PROVIDER) != _ROCKSDB:
        raise InputError(
            "a streaming join keeps its windows in Spark's RocksDB state store, and this session uses "
            f"{spark.conf.get(_PROVIDER).rpartition('.')[2]}. Before the join, type:\n"
            f'  spark.conf.set("{_PROVIDER}",\n'
            f'                 "{_ROCKSDB}")\n'
            "or build the session with SparkSession.builder.config(map=crosswind.spark.settings())."
        )
    partitions = int(spark.conf.get(_PARTITIONS))
    if partitions > max(16, 4 * cells):
        few = min(cells, cores_of(spark))
        warnings.warn(
            f"{_PARTITIONS} is {partitions}, but the join has {cells} cells: every micro-batch runs {partitions} "
            f'tasks, most of them empty. Before the query starts, type spark.conf.set("{_PARTITIONS}", {few}).',
            CrosswindWarning,
            stacklevel=3,
        )


def check_operator(grouped: Any) -> None:
    """Refuse a client of Spark Connect that is too old for operators with state."""
    if not hasattr(grouped, "transformWithStateInPandas"):
        import pyspark

        raise UnsupportedError(
            f"a streaming join over Spark Connect needs PySpark 4.1 or later; this is {pyspark.__version__}, a client "
            "that knows no operators with state. Use a classic session (builder.master) or a later PySpark."
        )


def cores_of(spark: Any) -> int:
    """Return how many tasks run at once, as far as the session can tell."""
    context = getattr(spark, "sparkContext", None) if not _is_connect(spark) else None
    if context is not None:
        return int(context.defaultParallelism)
    return max(1, min(int(spark.conf.get(_PARTITIONS)), os.cpu_count() or 1))


def _is_connect(spark: Any) -> bool:
    return ".connect." in type(spark).__module__
