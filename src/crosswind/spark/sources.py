"""The streams of a job as streaming DataFrames: files, Kafka, sockets, Spark's rate source."""

from __future__ import annotations

import glob
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from crosswind.errors import JobError, UnsupportedError
from crosswind.io.endpoints import FileSource, KafkaSource, RateSource, SocketSource, Source
from crosswind.io.files import FileStream
from crosswind.spark.schema import spark_type
from crosswind.spark.watch import failure_of

__all__ = ["open_source"]

_FORMAT = {"parquet": "parquet", "csv": "csv", "jsonl": "json"}
_CORRUPT = "_corrupt"
_KAFKA_COLUMNS = ("key", "topic", "partition", "offset", "timestamp")
_CSV = {"header": "true", "enforceSchema": "false", "mode": "FAILFAST"}
"""Columns go by the names in the header; what does not fit the schema is an error and not a null."""


def open_source(spark: Any, source: Source) -> Any:
    """Return the streaming DataFrame of ``source``.

    Raises
    ------
    JobError
        What Spark says to it, or what it lacks.
    """
    try:
        match source:
            case FileSource():
                frame = _files(spark, source)
            case KafkaSource():
                frame = _kafka(spark, source)
            case SocketSource():
                reader = spark.readStream.format("socket").option("host", source.host).option("port", source.port)
                frame = _parsed(reader.load(), source, ())
            case RateSource():
                frame = _rate(spark, source)
    except (PySparkException, UnsupportedError) as error:
        raise JobError(f"stream {source.stream}: {failure_of(error)}") from error
    if source.time not in frame.columns:
        raise JobError(
            f"stream {source.stream}: its time column '{source.time}' is not there. Columns: "
            f"{', '.join(frame.columns)}. Set 'time' in [streams.{source.stream}]."
        )
    return frame


def _files(spark: Any, source: FileSource) -> Any:
    form = _FORMAT[source.format]
    options = {"csv": _CSV, "json": {"mode": "FAILFAST"}}.get(form, {})
    reader = spark.readStream.format(form).options(**options)
    if source.files_per_batch is not None:
        reader = reader.option("maxFilesPerTrigger", source.files_per_batch)
    if form != "parquet" or not source.paths:
        # As in one process: the same columns and types, whoever reads the file.
        types = FileStream(source).schema if source.paths else pa.schema(list(source.types.items()))
        return reader.schema(_struct(types)).load(_as_pattern(source.pattern))
    found = spark.read.parquet(source.pattern).schema
    frame = reader.schema(found).load(_as_pattern(source.pattern))
    for column, of in source.types.items():
        if column not in found.names:
            raise JobError(
                f"stream {source.stream}: [streams.{source.stream}.schema] names the column '{column}', "
                f"which is not in {source.pattern}. Columns there: {', '.join(found.names)}."
            )
        frame = frame.withColumn(column, sf.col(f"`{column}`").cast(_type(of)))
    return frame


def _as_pattern(path: str) -> str:
    """Return ``path`` as a pattern: Spark streams from folders and patterns, but not from a file."""
    return path if glob.has_magic(path) else f"{path[:-1]}[{path[-1]}]"


def _kafka(spark: Any, source: KafkaSource) -> Any:
    reader = spark.readStream.format("kafka").options(**source.options)
    reader = reader.option("kafka.bootstrap.servers", source.servers).option("subscribe", source.topic)
    return _parsed(reader.option("startingOffsets", source.starting).load(), source, _KAFKA_COLUMNS)


def _parsed(frame: Any, source: KafkaSource | SocketSource, beside: tuple[str, ...]) -> Any:
    """Return the rows in messages, and columns beside them under names with a ``_``.

    A message that cannot be read has no time, so the join rejects and counts it.
    """
    schema = _struct(pa.schema(list(source.types.items()))).add(_CORRUPT, st.StringType())
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    text = sf.col("value").cast("string")
    if source.format == "csv":
        # from_csv takes its schema as text only.
        row = sf.from_csv(text, ", ".join(f"`{f.name}` {f.dataType.simpleString()}" for f in schema), options)
    else:
        row = sf.from_json(text, schema, options)
    columns = [sf.col(f"_row.`{name}`") for name in source.types if name != source.time]
    if source.time in source.types:
        good = sf.col(f"_row.{_CORRUPT}").isNull()
        columns.append(sf.when(good, sf.col(f"_row.`{source.time}`")).alias(source.time))
    columns += [sf.col(name).alias(f"_{name}") for name in beside]
    return frame.withColumn("_row", row).select(*columns)


def _rate(spark: Any, source: RateSource) -> Any:
    rows = spark.readStream.format("rate").option("rowsPerSecond", source.rate).load()
    columns = dict(source.columns)
    columns.setdefault(source.time, "timestamp")
    return rows.select(*[sf.expr(text).alias(name) for name, text in columns.items()])


def _struct(schema: pa.Schema) -> st.StructType:
    return st.StructType([st.StructField(field.name, _type(field.type)) for field in schema])


def _type(of: pa.DataType) -> st.DataType:
    """Return the Spark type of a column that is read."""
    if pa.types.is_list(of):
        return st.ArrayType(_type(of.value_type))
    if pa.types.is_struct(of):
        return _struct(pa.schema(list(of)))
    if pa.types.is_unsigned_integer(of):
        raise UnsupportedError(f"Spark has no type {of}; give the column a signed type under 'schema', such as int64.")
    if pa.types.is_null(of):  # a column without a value in the files that there are
        return st.StringType()
    return _PLAIN.get(str(of)) or spark_type(of)


_PLAIN: Mapping[str, st.DataType] = {
    "large_string": st.StringType(),
    "large_binary": st.BinaryType(),
    "date64[ms]": st.DateType(),
}
