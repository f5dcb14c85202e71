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

    [spark]
    trigger = "5 seconds"

Paths are relative to the job file. Everything is checked before anything is run; a mistake is
reported with the file, the section and the key.
"""

from __future__ import annotations

import glob
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from crosswind.errors import JobError, QueryError
from crosswind.io.endpoints import FileSink, FileSource, MemorySink, Sink, Source, read_sink, read_source
from crosswind.io.environment import Discreet, redact
from crosswind.io.jobform import JOB, SECTIONS, SPARK, SPARK_FORMATS
from crosswind.io.overlap import file_overlap, folder_overlap
from crosswind.io.sections import Section
from crosswind.query.windows import parse_duration

__all__ = ["AVAILABLE_NOW", "Job", "SparkOptions", "load_job"]

AVAILABLE_NOW = "available now"
"""The trigger that reads what there is, and ends."""

_ELSEWHERE = "give another name, or a folder that is not read."
_DEFAULTS = {key.name: key.default for key in (*JOB.keys, *SPARK.keys)}


@dataclass(frozen=True, repr=False)
class SparkOptions(Discreet):
    """How a job runs on Spark.

    ``trigger`` is a time between micro-batches, ``available now``, or None: as soon as the
    last one is done. ``checkpoint`` is None for sinks that nothing goes on from.
    """

    master: str = "local[*]"
    checkpoint: Path | None = None
    trigger: str | None = None
    layout: str | tuple[int, ...] = "auto"
    cells: int | None = None
    jars: tuple[Path, ...] = ()
    log: Path | None = None
    conf: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, repr=False)
class Job(Discreet):
    """A job file that has been checked."""

    path: Path
    name: str
    query: str
    engine: str
    lateness: str
    batch_rows: int
    sources: tuple[Source, ...]
    sink: Sink
    spark: SparkOptions = field(default_factory=SparkOptions)

    @property
    def file_sources(self) -> tuple[FileSource, ...]:
        """The sources that are files: all of them, in a job for one process."""
        return tuple(source for source in self.sources if isinstance(source, FileSource))


def load_job(path: Path, engine: str | None = None) -> Job:
    """Read and check the job file at ``path``.

    Parameters
    ----------
    path : Path
        The file.
    engine : str, optional
        Where to run it, if not where the file says.

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
    root = Section(path, "", document)
    root.allow_only(SECTIONS)
    job = root.section("job")
    job.check(JOB)
    streams = root.section("streams")
    if not streams.values:
        raise streams.error("no stream is given. Add a section such as [streams.R] with its path.")
    chosen = engine or job.text("engine", str(_DEFAULTS["engine"]))
    sources = tuple(read_source(name, streams.section(name)) for name in streams.values)
    sink_section = root.section("sink")
    sink = read_sink(sink_section)
    spark = _spark(root.section("spark") if "spark" in document else Section(path, "spark", {}), sources, sink)
    for source in sources:
        _check_source(streams.section(source.stream), source, chosen)
    _check_sink(sink_section, sink, chosen)
    loaded = Job(
        path=path,
        name=redact(job.text("name", path.stem)),
        query=_query(job),
        engine=chosen,
        lateness=job.text("lateness", str(_DEFAULTS["lateness"])),
        batch_rows=job.integer("batch_rows", int(_DEFAULTS["batch_rows"] or 0)),
        sources=sources,
        sink=sink,
        spark=spark,
    )
    _check_overlap(sink_section, loaded, _query_file(job))
    return loaded


def _query_file(job: Section) -> Path | None:
    return None if "query" in job.values else job.path.parent / job.text("query_file")


def _query(job: Section) -> str:
    path = _query_file(job)
    if path is None:
        return job.text("query", verbatim=True)
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise job.error(f"cannot read 'query_file' {path}: {getattr(error, 'strerror', None) or error}.") from error


# -- on Spark ------------------------------------------------------------------------------------


def _spark(section: Section, sources: tuple[Source, ...], sink: Sink) -> SparkOptions:
    section.check(SPARK)
    folder = section.path.parent
    finite = all(isinstance(source, FileSource) for source in sources)
    lasting = not isinstance(sink, MemorySink) and not (isinstance(sink, FileSink) and sink.path is None)
    default = f"{section.path.stem}.checkpoint" if lasting else None
    checkpoint = section.text("checkpoint") if "checkpoint" in section.values else default
    return SparkOptions(
        master=section.text("master", str(_DEFAULTS["master"])),
        checkpoint=None if checkpoint is None else folder / checkpoint,
        trigger=_trigger(section, AVAILABLE_NOW if finite else None),
        layout=section.layout("layout"),
        cells=section.integer("cells") if "cells" in section.values else None,
        jars=_jars(section),
        log=folder / section.text("log") if "log" in section.values else None,
        conf=section.settings("conf"),
    )


def _trigger(section: Section, default: str | None) -> str | None:
    if "trigger" not in section.values:
        return default
    text = section.text("trigger").strip()
    if text.lower() == AVAILABLE_NOW:
        return AVAILABLE_NOW
    try:
        milliseconds = int(parse_duration(text) * 1_000)
    except QueryError as error:
        raise section.error(
            f"'trigger' is '{text}'. Allowed: a time between micro-batches, such as '5 seconds' or '500 ms', "
            f"'0 seconds' for one after the other, or '{AVAILABLE_NOW}' to read what there is and end."
        ) from error
    return f"{milliseconds} milliseconds" if milliseconds else None


def _jars(section: Section) -> tuple[Path, ...]:
    jars: list[Path] = []
    for pattern in section.texts("jars"):
        found = glob.glob(str(section.path.parent / pattern))  # noqa: PTH207 - patterns may be absolute
        if not found:
            raise section.error(f"'jars' names '{pattern}', but no file matches {section.path.parent / pattern}.")
        jars += sorted(Path(name) for name in found)
    return tuple(jars)


def _check_source(section: Section, source: Source, engine: str) -> None:
    """Refuse what the engine cannot read."""
    if isinstance(source, FileSource):
        if engine == "local" and not source.paths:
            raise section.error(f"no file matches {source.pattern}, and in one process there is no waiting for one.")
        if engine == "spark" and source.format not in SPARK_FORMATS:
            raise section.error(
                f"Spark does not read '{source.format}' files. Allowed: {', '.join(SPARK_FORMATS)}; "
                f'or run the job in one process: engine = "local" in [job].'
            )
    elif engine == "local":
        kind = type(source).__name__.removesuffix("Source").lower()
        raise section.error(
            f"a '{kind}' source needs Spark; one process reads files only. "
            "Set engine = \"spark\" in [job], or give the stream a 'path'."
        )


def _check_sink(section: Section, sink: Sink, engine: str) -> None:
    """Refuse what the engine cannot write."""
    if isinstance(sink, FileSink) and sink.path is not None:
        if engine == "spark" and sink.format not in SPARK_FORMATS:
            raise section.error(f"Spark does not write '{sink.format}' files. Allowed: {', '.join(SPARK_FORMATS)}.")
        if engine == "spark" and sink.path.is_file():
            raise section.error(
                f"'path' is '{section.values['path']}', which is a file. On Spark results are a folder of files; "
                "move it away or give another name."
            )
        if engine == "local" and sink.path.exists() and not sink.path.is_file():
            found = "a folder" if sink.path.is_dir() else "no file but a device or a pipe"
            raise section.error(
                f"'path' is '{section.values['path']}', which is {found}. Give the name of a file to write, "
                "or console = true for standard output."
            )
    elif engine == "local" and not isinstance(sink, FileSink | MemorySink):
        raise section.error("a 'kafka' sink needs Spark. Set engine = \"spark\" in [job], or give 'path'.")


def _check_overlap(section: Section, job: Job, query_file: Path | None) -> None:
    """Refuse a job that would write what it reads."""
    files: dict[str, Path | None] = {}
    folders: dict[str, Path | None] = {}
    sink = job.sink.path if isinstance(job.sink, FileSink) else None
    if job.engine == "local":
        files["path"] = sink
    else:
        folders["path"], folders["[spark] checkpoint"], files["[spark] log"] = sink, job.spark.checkpoint, job.spark.log
    named = [(key, path, file_overlap(path, job.file_sources)) for key, path in files.items() if path is not None]
    for key, path, overlap in named:
        for own in (job.path, query_file):
            if own is not None and path.exists() and own.exists() and path.samefile(own):
                raise section.error(f"'{key}' is {path}, which is a file of the job itself. Give another name.")
        if overlap is not None:
            raise section.error(f"'{key}' is {path}, which {overlap}. A job cannot write what it reads: {_ELSEWHERE}")
    for key, folder in folders.items():
        overlap = None if folder is None else folder_overlap(folder, job.file_sources)
        if overlap is not None:
            raise section.error(
                f"'{key}' is the folder {folder}, which {overlap}. A job cannot write what it reads: {_ELSEWHERE}"
            )
