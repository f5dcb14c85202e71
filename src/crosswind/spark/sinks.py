"""The results of a job on their way out: files, Kafka, standard output, memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import functions as sf

from crosswind.errors import JobError, did_you_mean
from crosswind.io.endpoints import FileSink, KafkaSink, Sink
from crosswind.io.job import AVAILABLE_NOW

__all__ = ["check_file_sink", "write_to"]

_FORMAT = {"parquet": "parquet", "csv": "csv", "jsonl": "json"}
_FILES_LOG = "_spark_metadata"


def write_to(
    frame: Any, sink: Sink, checkpoint: Path, trigger: str | None, name: str, take: Callable[[pa.Table], None]
) -> Any:
    """Start the streaming query that writes ``frame`` to ``sink``, and return it.

    Parameters
    ----------
    frame : DataFrame
        The results.
    sink : Sink
        Where they go.
    checkpoint : Path
        The folder from which the query goes on when it is started again.
    trigger : str or None
        As in :class:`crosswind.io.job.SparkOptions`.
    name : str
        The name of the query.
    take : callable
        Gets the results of each micro-batch where they go to standard output.
    """
    match sink:
        case FileSink(path=None):
            writer = frame.writeStream.foreachBatch(lambda batch, _: take(batch.toArrow()))
        case FileSink(path=path, format=form):
            writer = frame.writeStream.format(_FORMAT[form]).option("path", str(path)).option("header", "true")
        case KafkaSink():
            writer = _messages(frame, sink).writeStream.format("kafka").options(**sink.options)
            writer = writer.option("kafka.bootstrap.servers", sink.servers).option("topic", sink.topic)
        case _:
            writer, name = frame.writeStream.format("memory"), sink.name
    if trigger == AVAILABLE_NOW:
        writer = writer.trigger(availableNow=True)
    elif trigger is not None:
        writer = writer.trigger(processingTime=trigger)
    return writer.queryName(name).outputMode("append").option("checkpointLocation", str(checkpoint)).start()


def check_file_sink(path: Path, checkpoint: Path) -> None:
    """Refuse a folder that another query has written to: Spark would skip, silently, what it thinks is there."""
    if (path / _FILES_LOG).is_dir() and not (checkpoint / "offsets").is_dir():
        raise JobError(
            f"[sink]: {path} holds the results of a job whose checkpoint is not at {checkpoint}. Spark would leave "
            "out micro-batches that it finds there. Give [spark] the checkpoint it was written with, "
            "or remove the folder, or give another 'path'."
        )


def _messages(frame: Any, sink: KafkaSink) -> Any:
    """Return results as Kafka messages: JSON, under a key of the chosen columns."""
    for column in sink.key:
        if column not in frame.columns:
            raise JobError(
                f"[sink]: 'key' names the column '{column}', which the query does not select. "
                f"Columns: {', '.join(frame.columns)}.{did_you_mean(column, frame.columns)}"
            )
    value = sf.to_json(sf.struct(*[sf.col(f"`{name}`") for name in frame.columns]), {"ignoreNullFields": "false"})
    if not sink.key:
        return frame.select(value.alias("value"))
    parts = [sf.col(f"`{name}`") for name in sink.key]
    key = parts[0].cast("string") if len(parts) == 1 else sf.to_json(sf.struct(*parts))
    return frame.select(key.alias("key"), value.alias("value"))
