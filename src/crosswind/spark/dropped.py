"""Tuples that are not joined, as rows of the output: late ones, and those without a time.

Spark writes one output per query, and a second frame over the same streams would read them twice. So what was dropped
comes with the results, in a column of its own that is null in every result: a struct of the stream's name, the reason
and, under the name of each stream, the tuple as it came.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import types as st

from crosswind.errors import InputError
from crosswind.io.blocks import pieces, write_block
from crosswind.spark.spec import JoinSpec, result_schema

__all__ = ["LATE", "NO_TIME", "Dropped", "check_late", "late_rows", "late_type", "output_schema", "with_late"]

LATE, NO_TIME = "late", "no time"
"""Why a tuple was dropped."""
_STREAM, _REASON = "stream", "reason"


@dataclass(frozen=True)
class Dropped:
    """Tuples of ``unit`` that are not joined, with all their columns, and why."""

    unit: int
    reason: str
    batch: pa.RecordBatch

    def blocks(self) -> Iterator[bytes]:
        """Yield the tuples as blocks of a good size."""
        for part in pieces(self.batch):
            yield write_block(part)


def check_late(name: str, sources: Sequence[str], columns: Sequence[str]) -> None:
    """Refuse a column ``name`` for what was dropped that would hide another one.

    Parameters
    ----------
    name : str
        The column.
    sources : sequence of str
        The streams: each is a field of it.
    columns : sequence of str
        The columns of the results.
    """
    if not isinstance(name, str) or not name:
        raise InputError(f"late names the column for tuples that are dropped, got {name!r}; say late='late'.")
    taken = [column for column in columns if column.lower() == name.lower()]
    if taken:
        raise InputError(
            f"late='{name}' names a column for tuples that are dropped, but the result has a column '{taken[0]}'. "
            f"Say another name, or give that column an alias."
        )
    for source in sources:
        if source.lower() in (_STREAM, _REASON):
            raise InputError(
                f"late='{name}': the column has the fields '{_STREAM}' and '{_REASON}', and one for each stream, so no "
                f"stream can be called '{source}'. Give the frame another name."
            )


def late_type(frames: Mapping[str, Any]) -> st.StructType:
    """Return the Spark type of the column: the tuples keep their very types."""
    plain = [st.StructField(name, st.StringType()) for name in (_STREAM, _REASON)]
    tuples = [st.StructField(name, st.StructType(frame.schema.fields)) for name, frame in frames.items()]
    return st.StructType(plain + tuples)


def output_schema(spec: JoinSpec) -> pa.Schema:
    """Return the Arrow schema of the output: of all results, and last the column for what was dropped, if any."""
    schema = result_schema(spec.plan, many=spec.many)
    if spec.late is None:
        return schema
    tuples = {source: unit.stream.schema for source, unit in zip(spec.sources, spec.plan.units, strict=True)}
    parts = [pa.field(part, pa.string()) for part in (_STREAM, _REASON)]
    parts += [pa.field(source, pa.struct(list(fields))) for source, fields in tuples.items()]
    return schema.append(pa.field(spec.late, pa.struct(parts)))


def with_late(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return results with the last column of ``schema``, in which nothing is."""
    columns = [*batch.columns, pa.nulls(batch.num_rows, schema[-1].type)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def late_rows(batch: pa.RecordBatch, source: str, reason: str, schema: pa.Schema) -> pa.RecordBatch:
    """Return tuples of ``source`` as rows in which only the last column of ``schema`` is filled."""
    count, field = batch.num_rows, schema[-1]
    parts = []
    for part in field.type:
        if part.name in (_STREAM, _REASON):
            parts.append(pa.repeat(source if part.name == _STREAM else reason, count))
        elif part.name == source:
            names = [inner.name for inner in part.type]
            parts.append(pa.StructArray.from_arrays([batch.column(name) for name in names], fields=list(part.type)))
        else:
            parts.append(pa.nulls(count, part.type))
    filled = pa.StructArray.from_arrays(parts, fields=list(field.type))
    columns = [pa.nulls(count, other.type) for other in schema][:-1]
    return pa.RecordBatch.from_arrays([*columns, filled], schema=schema)
