"""Job files: a query, where its streams are read and where its results go, in TOML.

::

    [job]
    query = '''
        SELECT t.symbol, t.price, q.bid
        FROM trades [RANGE 2 SECONDS] AS t, quotes [RANGE 2 SECONDS] AS q
        WHERE t.symbol = q.symbol AND t.price < q.bid
    '''

    [streams.trades]
    path = "trades/*.parquet"

    [streams.quotes]
    path = "quotes.csv"
    schema = { bid = "decimal(10,2)" }

    [sink]
    path = "below_bid.parquet"

Paths are relative to the job file. Everything is checked before anything is run; a mistake is
reported with the file, the section and the key.
"""

from __future__ import annotations

import glob
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from crosswind.errors import InputError, JobError, did_you_mean
from crosswind.io.schemas import type_from_text

__all__ = ["ENGINES", "FORMATS", "FileSink", "FileSource", "Job", "load_job", "source_of_file"]

ENGINES = ("local",)
"""Where a job can run: ``local`` is this process."""

FORMATS = ("parquet", "csv", "jsonl", "arrow")
"""File formats of sources and sinks."""

_CONSOLE_FORMATS = ("csv", "jsonl")
_FORMAT_OF_SUFFIX = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".json": "jsonl",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}
_COMPRESSION_SUFFIXES = (".gz", ".bz2", ".zst")
_BATCH_ROWS = 16_384


@dataclass(frozen=True)
class FileSource:
    """The files of one stream. ``types`` overrides the types found in them, by column."""

    stream: str
    paths: tuple[Path, ...]
    format: str
    time: str
    types: Mapping[str, pa.DataType]


@dataclass(frozen=True)
class FileSink:
    """Where results go: the file ``path``, or standard output where it is None."""

    path: Path | None
    format: str


@dataclass(frozen=True)
class Job:
    """A job file that has been checked."""

    path: Path
    name: str
    query: str
    engine: str
    lateness: str
    batch_rows: int
    sources: tuple[FileSource, ...]
    sink: FileSink


def load_job(path: Path) -> Job:
    """Read and check the job file at ``path``.

    Raises
    ------
    JobError
        The file, the section and the key that are wrong, what was got and what is allowed.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise JobError(f"{path}: cannot read the job file: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise JobError(f"{path}: the job file is not UTF-8 text: {error}.") from error
    except tomllib.TOMLDecodeError as error:
        raise JobError(f"{path}: the job file is not TOML: {error}.") from error
    root = _Section(path, "", document)
    root.allow_only(("job", "streams", "sink"))
    job = root.section("job")
    job.allow_only(("name", "query", "query_file", "engine", "lateness", "batch_rows"))
    streams = root.section("streams")
    if not streams.values:
        raise streams.error("no stream is given. Add a section such as [streams.R] with its path.")
    batch_rows = job.integer("batch_rows", _BATCH_ROWS)
    if batch_rows < 1:
        raise job.error(f"batch_rows must be at least 1, got {batch_rows}.")
    return Job(
        path=path,
        name=job.text("name", path.stem),
        query=_query(job),
        engine=job.choice("engine", ENGINES, "local"),
        lateness=job.text("lateness", "0s"),
        batch_rows=batch_rows,
        sources=tuple(_source(name, streams.section(name)) for name in streams.values),
        sink=_sink(root.section("sink")),
    )


class _Section:
    """One table of the document, which knows its name for the sake of messages."""

    def __init__(self, path: Path, name: str, values: Mapping[str, Any]) -> None:
        self.path = path
        self.name = name
        self.values = values

    def error(self, message: str) -> JobError:
        return JobError(f"{self.path}: {f'[{self.name}]: ' if self.name else ''}{message}")

    def allow_only(self, keys: Iterable[str]) -> None:
        allowed = tuple(keys)
        for key in self.values:
            if key not in allowed:
                kind = "key" if self.name else "section"
                hint = did_you_mean(key, allowed)
                raise self.error(f"unknown {kind} '{key}'. Allowed: {', '.join(allowed)}.{hint}")

    def section(self, name: str) -> _Section:
        full = f"{self.name}.{name}" if self.name else name
        values = self.values.get(name)
        if values is None:
            raise self.error(f"the section [{full}] is missing.")
        if not isinstance(values, dict):
            raise self.error(f"'{name}' must be a section, [{full}], got {_found(values)}.")
        return _Section(self.path, full, values)

    def text(self, key: str, default: str | None = None) -> str:
        value = self.values.get(key, default)
        if value is None:
            raise self.error(f"the key '{key}' is missing.")
        if not isinstance(value, str) or not value.strip():
            raise self.error(f"'{key}' must be a text that is not empty, got {_found(value)}.")
        return value

    def integer(self, key: str, default: int) -> int:
        value = self.values.get(key, default)
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.error(f"'{key}' must be a whole number, got {_found(value)}.")
        return value

    def flag(self, key: str) -> bool:
        value = self.values.get(key, False)
        if not isinstance(value, bool):
            raise self.error(f"'{key}' must be true or false, got {_found(value)}.")
        return value

    def choice(self, key: str, allowed: tuple[str, ...], default: str | None = None) -> str:
        value = self.text(key, default)
        if value not in allowed:
            raise self.error(f"'{key}' is '{value}'. Allowed: {', '.join(allowed)}.{did_you_mean(value, allowed)}")
        return value


def _found(value: object) -> str:
    kinds = {bool: "true/false", int: "number", float: "number", str: "text", list: "array", dict: "table"}
    return f"the {kinds.get(type(value), type(value).__name__)} {value!r}"


def _query(job: _Section) -> str:
    if ("query" in job.values) == ("query_file" in job.values):
        raise job.error("give either 'query' (the SQL text) or 'query_file' (a file that holds it), and not both.")
    if "query" in job.values:
        return job.text("query")
    path = job.path.parent / job.text("query_file")
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise job.error(f"cannot read 'query_file' {path}: {getattr(error, 'strerror', None) or error}.") from error


def _source(stream: str, section: _Section) -> FileSource:
    section.allow_only(("path", "format", "time", "schema"))
    pattern = section.text("path")
    # Not Path.glob, which refuses absolute patterns.
    found = sorted(glob.glob(str(section.path.parent / pattern), recursive=True))  # noqa: PTH207
    paths = tuple(Path(name) for name in found if Path(name).is_file())
    if not paths:
        raise section.error(f"'path' is '{pattern}', but no file matches {section.path.parent / pattern}.")
    return FileSource(
        stream=stream,
        paths=paths,
        format=_format(section, paths[0], FORMATS),
        time=section.text("time", "ts"),
        types=_types(section),
    )


def _types(section: _Section) -> dict[str, pa.DataType]:
    if "schema" not in section.values:
        return {}
    schema = section.section("schema")
    types = {}
    for column in schema.values:
        try:
            types[column] = type_from_text(schema.text(column))
        except InputError as error:
            raise schema.error(f"column '{column}': {error}") from error
    return types


def _sink(section: _Section) -> FileSink:
    section.allow_only(("path", "format", "console"))
    console = section.flag("console")
    if console == ("path" in section.values):
        raise section.error("give either 'path' (a file to write) or 'console = true' (standard output), and not both.")
    if console:
        return FileSink(None, section.choice("format", _CONSOLE_FORMATS, "csv"))
    path = section.path.parent / section.text("path")
    if path.is_dir() or not path.parent.is_dir():
        wrong = "is a folder" if path.is_dir() else f"lies in {path.parent}, which does not exist"
        raise section.error(f"'path' is '{section.values['path']}', which {wrong}. Give the name of a file to write.")
    return FileSink(path, _format(section, path, FORMATS))


def _format(section: _Section, path: Path, allowed: tuple[str, ...]) -> str:
    """Return the format that is given, or else the one that the file's name tells."""
    if "format" in section.values:
        return section.choice("format", allowed)
    found = _format_of_name(path)
    if found is None:
        raise section.error(
            f"the name of {path.name} does not tell its format. Add 'format', one of: {', '.join(allowed)}."
        )
    return found


def _format_of_name(path: Path) -> str | None:
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() not in _COMPRESSION_SUFFIXES]
    return _FORMAT_OF_SUFFIX.get(suffixes[-1]) if suffixes else None


def source_of_file(stream: str, path: Path, time: str) -> FileSource:
    """Return the source that is one file, read as its name tells.

    Raises
    ------
    JobError
        There is no such file, or its name does not tell its format.
    """
    if not path.is_file():
        raise JobError(f"stream {stream}: there is no file {path}.")
    found = _format_of_name(path)
    if found is None:
        raise JobError(
            f"stream {stream}: the name of {path} does not tell its format. "
            f"It must end in one of: {', '.join(_FORMAT_OF_SUFFIX)}."
        )
    return FileSource(stream, (path,), found, time, {})
