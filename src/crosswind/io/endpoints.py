"""Where the streams of a job come from and where its results go: what a job file may say of them."""

from __future__ import annotations

import glob
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from crosswind.errors import JobError
from crosswind.io.environment import Discreet
from crosswind.io.jobform import FORMATS, SINKS, SOURCES
from crosswind.io.sections import Section

__all__ = [
    "FileSink",
    "FileSource",
    "KafkaSink",
    "KafkaSource",
    "MemorySink",
    "RateSource",
    "Sink",
    "SocketSource",
    "Source",
    "read_sink",
    "read_source",
    "source_of_file",
]

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


@dataclass(frozen=True, repr=False)
class FileSource(Discreet):
    """The files of one stream. ``types`` overrides the types found in them, by column.

    ``pattern`` names them, and on Spark those that will come; ``paths`` are those that there
    are; ``files_per_batch`` bounds what Spark takes at a time.
    """

    stream: str
    paths: tuple[Path, ...]
    format: str
    time: str
    types: Mapping[str, pa.DataType]
    pattern: str = ""
    files_per_batch: int | None = None


@dataclass(frozen=True, repr=False)
class KafkaSource(Discreet):
    """A topic whose messages are rows in ``format``."""

    stream: str
    servers: str
    topic: str
    format: str
    time: str
    types: Mapping[str, pa.DataType]
    starting: str
    options: Mapping[str, str]


@dataclass(frozen=True, repr=False)
class SocketSource(Discreet):
    """A TCP server that sends rows as lines in ``format``. It cannot be read again, so it is for trying things out."""

    stream: str
    host: str
    port: int
    format: str
    time: str
    types: Mapping[str, pa.DataType]


@dataclass(frozen=True, repr=False)
class RateSource(Discreet):
    """``rate`` rows a second; ``columns`` are SQL expressions over ``value`` (0, 1, 2, ...) and ``timestamp``."""

    stream: str
    rate: int
    time: str
    columns: Mapping[str, str]


@dataclass(frozen=True, repr=False)
class FileSink(Discreet):
    """Where results go: the file ``path``, or standard output where it is None. On Spark a folder of files."""

    path: Path | None
    format: str


@dataclass(frozen=True, repr=False)
class KafkaSink(Discreet):
    """A topic for results: each a message in JSON, under a key made of the columns ``key``."""

    servers: str
    topic: str
    key: tuple[str, ...]
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, repr=False)
class MemorySink(Discreet):
    """Results are kept in memory, in a table ``name`` on Spark, and the first ones shown in the end."""

    name: str


Source = FileSource | KafkaSource | SocketSource | RateSource
Sink = FileSink | KafkaSink | MemorySink


def read_source(stream: str, section: Section) -> Source:
    """Return the source that a section [streams.NAME] describes."""
    kinds: dict[str, Callable[[str, Section], Source]]
    kinds = {"path": _files, "kafka": _kafka, "socket": _socket, "rate": _rate}
    found = [kind for kind in kinds if kind in section.values]
    if not found:
        section.allow_only(dict.fromkeys(name for form in SOURCES.values() for name in form.names))
        raise section.error(
            "the key 'path' is missing. Give one of: path (files), kafka (servers), socket (host:port), rate (rows/s)."
        )
    if len(found) > 1:
        raise section.error(f"'{found[0]}' and '{found[1]}' are both given. A stream has one source.")
    section.check(SOURCES[found[0]])
    return kinds[found[0]](stream, section)


def _files(stream: str, section: Section) -> FileSource:
    pattern = section.path.parent / section.text("path")
    if pattern.is_dir():
        pattern = pattern / "*"
    # Not Path.glob, which refuses absolute patterns.
    found = sorted(Path(name) for name in glob.glob(str(pattern), recursive=True))  # noqa: PTH207
    paths = tuple(path for path in found if path.is_file() and not path.name.startswith(("_", ".")))
    types = section.types()
    if not paths and section.text("time", "ts") not in types:
        raise section.error(
            f"'path' is '{section.values['path']}', but no file matches {pattern}. If files come later, give their "
            "'format' and all columns under 'schema'."
        )
    bounded = section.integer("files_per_batch") if "files_per_batch" in section.values else None
    name = paths[0] if paths else pattern
    time = section.text("time", "ts")
    return FileSource(stream, paths, _format(section, name), time, types, str(pattern), bounded)


def _kafka(stream: str, section: Section) -> KafkaSource:
    return KafkaSource(
        stream=stream,
        servers=section.text("kafka"),
        topic=section.text("topic"),
        format=section.text("format", "jsonl"),
        time=section.text("time", "ts"),
        types=section.types(),
        starting=section.text("starting", "earliest"),
        options=section.settings("options"),
    )


def _socket(stream: str, section: Section) -> SocketSource:
    host, colon, port = section.text("socket").rpartition(":")
    if not (host and colon and port.isdecimal()):
        raise section.error(f"'socket' is '{section.values['socket']}'. Write host:port, such as localhost:9999.")
    form = section.text("format", "jsonl")
    return SocketSource(stream, host, int(port), form, section.text("time", "ts"), section.types())


def _rate(stream: str, section: Section) -> RateSource:
    expressions = section.expressions("columns")
    return RateSource(stream, section.integer("rate"), section.text("time", "ts"), expressions)


def read_sink(section: Section) -> Sink:
    """Return the sink that the section [sink] describes."""
    found = [kind for kind in SINKS if section.values.get(kind, False) is not False]
    if len(found) != 1:
        section.allow_only(dict.fromkeys(name for form in SINKS.values() for name in form.names))
        raise section.error(
            "give either 'path' (a file to write), 'console = true' (standard output), 'kafka' (servers) or "
            "'memory' (the name of a table), and not both."
        )
    section.check(SINKS[found[0]])
    match found[0]:
        case "kafka":
            topic, options = section.text("topic"), section.settings("options")
            return KafkaSink(section.text("kafka"), topic, section.texts("key"), options)
        case "memory":
            name = section.text("memory")
            if not name.isidentifier():
                raise section.error(f"'memory' is '{name}', which is no name for a table. Use letters, digits and _.")
            return MemorySink(name)
    if section.flag("console"):
        return FileSink(None, section.text("format", "csv"))
    path = section.path.parent / section.text("path")
    if not path.parent.is_dir():
        wrong = f"lies in {path.parent}, which does not exist"
        raise section.error(f"'path' is '{section.values['path']}', which {wrong}. Make that folder first.")
    return FileSink(path, _format(section, path))


def _format(section: Section, path: Path) -> str:
    """Return the format that is given, or else the one that the file's name tells."""
    if "format" in section.values:
        return section.text("format")
    found = _format_of_name(path)
    if found is None:
        raise section.error(
            f"the name of {path.name} does not tell its format. Add 'format', one of: {', '.join(FORMATS)}."
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
