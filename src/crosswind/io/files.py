"""Streams read from files in bounded batches, and results written to one file that appears when complete."""

from __future__ import annotations

import base64
import json
import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from decimal import Decimal
from types import TracebackType
from typing import IO, Any, NamedTuple, Protocol, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet

from crosswind.errors import JobError, did_you_mean
from crosswind.io.draft import Draft
from crosswind.io.endpoints import FileSink, FileSource, RateSource, Source

__all__ = ["FileStream", "MemoryWriter", "ResultWriter", "StreamBatch", "merged_by_time", "schema_of"]

_CSV = pa.dataset.CsvFileFormat(
    # Only an empty cell is a null: "NULL" may be a name, nan is a number, and "" in quotes an empty text.
    convert_options=pa.csv.ConvertOptions(null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False)
)
_DATASET_FORMAT = {"parquet": "parquet", "csv": _CSV, "jsonl": "json", "arrow": "ipc"}
_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_NANOSECONDS_PER_DAY = 86_400 * 10**9


class StreamBatch(NamedTuple):
    """The next tuples to replay, and the stream they belong to."""

    stream: str
    batch: pa.RecordBatch


class FileStream:
    """A finite stream kept in files, which are read one after the other, in the order of their names.

    Parameters
    ----------
    source : FileSource
        Which files, and how to read them.

    Attributes
    ----------
    schema : pyarrow.Schema
        The columns of the stream. Where the source overrides types, with those.

    Raises
    ------
    JobError
        The files cannot be read, or have not the columns they should.
    """

    def __init__(self, source: FileSource) -> None:
        self.source = source
        paths = [str(path) for path in source.paths]
        try:
            found = pa.dataset.dataset(paths, format=_DATASET_FORMAT[source.format])
            self.schema = self._overridden(found.schema)
            self._dataset = pa.dataset.dataset(paths, format=_DATASET_FORMAT[source.format], schema=self.schema)
        except (pa.ArrowException, OSError) as error:
            raise self._unreadable(error) from error
        if source.time not in self.schema.names:
            raise JobError(
                f"stream {source.stream}: its time column '{source.time}' is not in {source.paths[0]}. "
                f"Columns there: {', '.join(self.schema.names)}.{did_you_mean(source.time, self.schema.names)} "
                f"Set 'time' in [streams.{source.stream}]."
            )

    def batches(self, rows_max: int) -> Iterator[pa.RecordBatch]:
        """Read the stream in order, at most ``rows_max`` tuples at a time, and little ahead."""
        try:
            batches = self._dataset.to_batches(batch_size=rows_max, batch_readahead=1, fragment_readahead=1)
            for batch in batches:
                if batch.num_rows:
                    yield batch
        except (pa.ArrowException, OSError) as error:
            raise self._unreadable(error) from error

    def _overridden(self, found: pa.Schema) -> pa.Schema:
        for column, arrow in self.source.types.items():
            if column not in found.names:
                raise JobError(
                    f"stream {self.source.stream}: [streams.{self.source.stream}.schema] names the column '{column}', "
                    f"which is not in {self.source.paths[0]}. "
                    f"Columns there: {', '.join(found.names)}.{did_you_mean(column, found.names)}"
                )
            found = found.set(found.get_field_index(column), pa.field(column, arrow))
        return found

    def _unreadable(self, error: Exception) -> JobError:
        files = self.source.paths[0] if len(self.source.paths) == 1 else f"{len(self.source.paths)} files"
        return JobError(f"stream {self.source.stream}: cannot read {files} as {self.source.format}: {error}")


def schema_of(source: Source) -> pa.Schema | None:
    """Return the columns of a stream as far as they can be told without Spark; None: they cannot."""
    if isinstance(source, RateSource):
        return None
    if isinstance(source, FileSource) and source.paths:
        return FileStream(source).schema
    schema = pa.schema(list(source.types.items()))
    return schema if source.time in schema.names else None  # the time may be a column of Kafka's own


def merged_by_time(streams: Sequence[FileStream], rows_max: int) -> Iterator[StreamBatch]:
    """Replay streams side by side: always the batch next whose earliest tuple is the earliest of all.

    No stream runs ahead of another by more than a batch, so that windows stay as small as they
    are meant to be. Which batches meet in which order does not change the result.
    """
    iterators = {stream.source.stream: stream.batches(rows_max) for stream in streams}
    times = {stream.source.stream: stream.source.time for stream in streams}
    heads: dict[str, tuple[float | int, pa.RecordBatch]] = {}
    waiting = list(iterators)
    while True:
        for name in waiting:
            batch = next(iterators[name], None)
            if batch is not None:
                heads[name] = (_earliest(batch.column(times[name])), batch)
        if not heads:
            return
        first = min(heads, key=lambda name: heads[name][0])
        yield StreamBatch(first, heads.pop(first)[1])
        waiting = [first]


def _earliest(times: pa.Array) -> float | int:
    """Return the least of ``times`` on a scale that all units share; minus infinity if all are null."""
    least = pc.min(times)
    if not least.is_valid:
        return -math.inf
    if pa.types.is_timestamp(times.type):
        return int(least.value) * _NANOSECONDS[times.type.unit]
    if pa.types.is_date(times.type):
        return int(least.cast(pa.date32()).value) * _NANOSECONDS_PER_DAY
    if pa.types.is_integer(times.type):
        return int(least.as_py())
    # The join will refuse this column with a message of its own.
    return -math.inf


class _RowWriter(Protocol):
    """What Arrow's writers have in common."""

    def write_table(self, table: pa.Table) -> None: ...

    def close(self) -> None: ...


class ResultWriter:
    """Writes results as they come, to a file that takes the sink's name when all is done.

    A context manager: leaving it after :meth:`commit` keeps the file, leaving it otherwise removes
    what was written and leaves an older file of that name as it was.

    Parameters
    ----------
    sink : FileSink
        Where to, in which format. Standard output has no second name: rows appear there at once.
    """

    def __init__(self, sink: FileSink) -> None:
        self.sink = sink
        self.rows = 0
        self._writer: _RowWriter | None = None
        self._draft: Draft | None = None
        self._committed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._writer is not None and not self._committed:
            # What it says now is of no interest: its file goes away.
            with suppress(pa.ArrowException, OSError, ValueError):
                self._writer.close()
        if self._draft is not None and not self._committed:
            with suppress(OSError):
                self._draft.discard()

    def write(self, results: pa.Table) -> None:
        """Append ``results``. The first call decides the columns, even with no rows."""
        try:
            if self._writer is None:
                self._writer = self._open(results.schema)
            if results.num_rows:
                self._writer.write_table(results)
        except BrokenPipeError:
            raise
        except (pa.ArrowException, OSError) as error:
            raise self._unwritable(error) from error
        self.rows += results.num_rows

    def commit(self) -> None:
        """Finish the file and give it its name. Without this nothing is kept."""
        try:
            if self._writer is not None:
                self._writer.close()
            if self._draft is not None:
                self._draft.keep()
            self._committed = True
        except BrokenPipeError:
            raise
        except (pa.ArrowException, OSError) as error:
            raise self._unwritable(error) from error

    def _open(self, schema: pa.Schema) -> _RowWriter:
        handle: IO[bytes]
        if self.sink.path is None:
            handle = sys.stdout.buffer
        else:
            self._draft = Draft(self.sink.path)
            handle = self._draft.file
        match self.sink.format:
            case "parquet":
                return pa.parquet.ParquetWriter(handle, schema)  # type: ignore[no-any-return]
            case "csv":
                return pa.csv.CSVWriter(handle, schema)  # type: ignore[no-any-return]
            case "arrow":
                return pa.ipc.new_file(handle, schema)  # type: ignore[no-any-return]
            case _:
                return _JsonLinesWriter(handle)

    def _unwritable(self, error: Exception) -> JobError:
        where = self.sink.path or "standard output"
        return JobError(f"[sink]: cannot write {where} as {self.sink.format}: {error}")


class MemoryWriter:
    """Keeps results; otherwise as :class:`ResultWriter`."""

    def __init__(self) -> None:
        self.rows = 0
        self._tables: list[pa.Table] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def write(self, results: pa.Table) -> None:
        """Keep ``results``."""
        self._tables.append(results)
        self.rows += results.num_rows

    def commit(self) -> None:
        """Nothing is left to do."""

    def table(self, rows: int) -> pa.Table:
        """Return the first ``rows`` results."""
        return pa.concat_tables(self._tables).slice(0, rows) if self._tables else pa.table({})


class _JsonLinesWriter:
    """One JSON object a row, as Spark writes them: NaN and infinities as text, binaries in base64."""

    def __init__(self, handle: IO[bytes]) -> None:
        self._handle = handle

    def write_table(self, table: pa.Table) -> None:
        for position, field in enumerate(table.schema):
            if pa.types.is_temporal(field.type):
                # As text by Arrow: Python has no nanoseconds.
                table = table.set_column(position, field.name, table.column(position).cast(pa.string()))
        for row in table.to_pylist():
            self._handle.write(json.dumps(_json_ready(row), allow_nan=False).encode() + b"\n")

    def close(self) -> None:
        self._handle.flush()


def _json_ready(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {key: _json_ready(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_json_ready(item) for item in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Decimal) or not isinstance(value, str | int | float | bool | None):
        return str(value)
    return value
