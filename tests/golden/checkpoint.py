"""Whole checkpoints of Spark, kept with the files of their sources, and restarted wherever they are unpacked.

Spark notes whole paths (of files that it has read, of schemas of its state); they are kept as ``@FOLDER@``.
"""

from __future__ import annotations

import os
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import crosswind as cw
from tests.golden import QUERIES, SCHEMA, batch, rows_of

CHECKPOINTS = ("inner", "left")
"""The queries of which a checkpoint is kept."""
STARTS = (0, 6, 12)
"""Where batches begin; two of them are in the checkpoint."""
FLUSH = 10_000
_FOLDER = b"@FOLDER@"
_TEXT = ("sources", "_metadata", "offsets", "commits")


def add_file(folder: Path, stream: str, number: int, table: pa.Table) -> None:
    """Add a file to the source of a stream."""
    path = folder / f"in-{stream}" / f"{number:05d}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path)
    os.utime(path, (1_600_000_000 + 10 * number,) * 2)


def flush() -> pa.Table:
    """Return a tuple that matches nothing and closes all windows but its own."""
    nulls = {name: [None] for name in SCHEMA.names}
    return pa.table(nulls | {"ts": [FLUSH]}, SCHEMA)


def run(name: str, folder: Path, spark: Any) -> list[str]:
    """Start the query of a checkpoint, let it end, and return the rows that it gave out."""
    from pyspark.sql.pandas.types import from_arrow_schema

    found: list[str] = []
    frames = {
        stream: spark.readStream.schema(from_arrow_schema(SCHEMA))
        .option("maxFilesPerTrigger", 1)
        .parquet(str(folder / f"in-{stream}"))
        for stream in "RS"
    }
    joined = cw.spark.join(QUERIES[name][0], frames, lateness=1, cells=2, event_time=None)
    writer = joined.writeStream.foreachBatch(lambda part, _: found.extend(rows_of(part.toArrow())))
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
    try:
        cw.spark.wait(query)
    finally:
        query.stop()
    return found


def write_checkpoint(name: str, target: Path, folder: Path, spark: Any) -> None:
    """Run a query over two batches, and keep its checkpoint, its sources and its rows."""
    for number, start in enumerate(STARTS[:-1]):
        for stream in "RS":
            add_file(folder, stream, number, batch(stream, start))
    rows = run(name, folder, spark)
    (folder / "rows.txt").write_text("\n".join(rows), encoding="utf-8")
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as kept:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and not path.name.endswith(".crc"):
                data = path.read_bytes()
                told = data.replace(str(folder).encode(), _FOLDER) if _is_text(path) else data
                kept.writestr(str(path.relative_to(folder)), told)


def unpack(source: Path, folder: Path) -> list[str]:
    """Unpack a checkpoint, as if it had been made in ``folder``; return the rows that its query gave out."""
    shutil.unpack_archive(source, folder, "zip")
    for path in folder.rglob("*"):
        if path.is_file() and _is_text(path):
            path.write_bytes(path.read_bytes().replace(_FOLDER, str(folder).encode()))
    return (folder / "rows.txt").read_text(encoding="utf-8").split("\n")


def _is_text(path: Path) -> bool:
    return any(part in path.parts for part in _TEXT)
