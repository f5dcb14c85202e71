"""What a job file may say: its sections, their keys, the kind of each and what it is for.

There is no other description: files are checked against this one (:meth:`crosswind.io.sections.Section.check`),
and the JSON schema for editors is made of it (:mod:`crosswind.io.jobschema`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = [
    "FORMATS",
    "JOB",
    "LINE_FORMATS",
    "SECTIONS",
    "SINKS",
    "SOURCES",
    "SPARK",
    "SPARK_FORMATS",
    "JobForm",
    "JobKey",
]

Kind = Literal["text", "verbatim", "texts", "integer", "flag", "settings", "types", "expressions", "layout"]

FORMATS = ("parquet", "csv", "jsonl", "arrow")
"""File formats of sources and sinks."""

LINE_FORMATS = ("jsonl", "csv")
"""Formats of rows that come as lines or messages."""

SPARK_FORMATS = ("parquet", "csv", "jsonl")
"""File formats that Spark reads and writes."""


@dataclass(frozen=True)
class JobKey:
    """One key of a section.

    Parameters
    ----------
    name : str
        The key.
    kind : str
        What its value is: a text (``verbatim``: in which nothing is filled in), a list of texts, a whole
        number, true or false, a table of settings, of column types or of expressions, or a layout.
    about : str
        What it is for, in a line.
    allowed : tuple of str
        The texts that are allowed; all, if empty.
    default : str, int or None
        What holds where it is absent.
    required : bool
        Whether it must be there.
    missing : str
        What to say where it is not, instead of the usual.
    """

    name: str
    kind: Kind
    about: str
    allowed: tuple[str, ...] = ()
    default: str | int | None = None
    required: bool = False
    missing: str = ""


@dataclass(frozen=True)
class JobForm:
    """The keys of one section. Of ``either``, exactly one must be there."""

    about: str
    keys: tuple[JobKey, ...]
    either: tuple[str, ...] = ()
    neither: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the keys."""
        return tuple(key.name for key in self.keys)


SECTIONS = ("job", "streams", "sink", "spark")
"""The sections of a file; all but the last must be there."""

JOB = JobForm(
    "The query, and how it runs.",
    (
        JobKey("name", "text", "For reports; the file's name if absent."),
        JobKey("query", "verbatim", "The SQL text."),
        JobKey("query_file", "text", "A file that holds the SQL text."),
        JobKey("engine", "text", "Where it runs: on Spark, or in this process.", ("spark", "local"), "spark"),
        JobKey("lateness", "text", "By how much tuples may be out of order, such as '5 seconds'.", default="0s"),
        JobKey("batch_rows", "integer", "In one process: tuples to read at a time, at most.", default=16_384),
    ),
    either=("query", "query_file"),
    neither="give either 'query' (the SQL text) or 'query_file' (a file that holds it), and not both.",
)

_TIME = JobKey("time", "text", "The time column.", default="ts")
_LINES = JobKey("format", "text", "How a row is written.", LINE_FORMATS, "jsonl")
_ALL_TYPES = JobKey(
    "schema",
    "types",
    "The type of every column.",
    required=True,
    missing="'schema' is missing: nothing else tells what a message holds. "
    'Write every column, such as schema = { x = "int32", ts = "timestamp[ms]" }.',
)

SOURCES = {
    "path": JobForm(
        "A stream that is kept in files.",
        (
            JobKey("path", "text", "A file, a folder, or a pattern such as 'part-*.parquet'.", required=True),
            JobKey("format", "text", "How they are written; told by their names if absent.", FORMATS),
            _TIME,
            JobKey("schema", "types", "Types of columns where those in the files are not the right ones."),
            JobKey("files_per_batch", "integer", "Spark: files in a micro-batch, at most."),
        ),
    ),
    "kafka": JobForm(
        "A stream that is a topic of Kafka (needs Spark).",
        (
            JobKey("kafka", "text", "The servers, such as 'one:9092,two:9092'.", required=True),
            JobKey("topic", "text", "The topic; each message is a row.", required=True),
            _LINES,
            _TIME,
            _ALL_TYPES,
            JobKey("starting", "text", "Where to begin without a checkpoint.", ("earliest", "latest"), "earliest"),
            JobKey("options", "settings", "Further options of Spark's source."),
        ),
    ),
    "socket": JobForm(
        "A stream of lines from a TCP server (needs Spark; it cannot be read again).",
        (
            JobKey("socket", "text", "The server, host:port.", required=True),
            _LINES,
            _TIME,
            _ALL_TYPES,
        ),
    ),
    "rate": JobForm(
        "A stream that Spark makes up (needs Spark).",
        (
            JobKey("rate", "integer", "Rows a second.", required=True),
            JobKey("columns", "expressions", "Columns, as Spark SQL over value and timestamp.", required=True),
            _TIME,
        ),
    ),
}
"""By the key that tells them apart."""

SINKS = {
    "path": JobForm(
        "Results go to a file, on Spark to a folder of files.",
        (
            JobKey("path", "text", "The file to write.", required=True),
            JobKey("format", "text", "How it is written; told by its name if absent.", FORMATS),
            JobKey("console", "flag", "False, if it is there at all."),
        ),
    ),
    "console": JobForm(
        "Results go to standard output.",
        (
            JobKey("console", "flag", "True.", required=True),
            JobKey("format", "text", "How a row is written.", ("csv", "jsonl"), "csv"),
        ),
    ),
    "kafka": JobForm(
        "Results go to a topic of Kafka, each a message in JSON (needs Spark).",
        (
            JobKey("kafka", "text", "The servers.", required=True),
            JobKey("topic", "text", "The topic.", required=True),
            JobKey("key", "texts", "The column, or columns, that make a message's key."),
            JobKey("options", "settings", "Further options of Spark's sink."),
        ),
    ),
    "memory": JobForm(
        "Results are kept in memory, and the first ones shown in the end.",
        (JobKey("memory", "text", "The name of the table.", required=True),),
    ),
}
"""By the key that tells them apart."""

SPARK = JobForm(
    "How the job runs on Spark; not looked at in one process.",
    (
        JobKey("master", "text", "This machine, or the address of a cluster.", default="local[*]"),
        JobKey(
            "checkpoint", "text", "A folder from which the job goes on; NAME.checkpoint beside NAME.toml if absent."
        ),
        JobKey("trigger", "text", "Time between micro-batches, such as '5 seconds', or 'available now'."),
        JobKey(
            "layout", "layout", "How pairs are spread: auto, hash, range, grid, or the sides of a grid.", default="auto"
        ),
        JobKey("cells", "integer", "How many cells; if absent, 16 by hash or range, else as many as there are cores."),
        JobKey("jars", "texts", "Jars to add, or patterns of them."),
        JobKey("conf", "settings", "Further settings of Spark."),
        JobKey("log", "text", "A file for what Spark has to say."),
    ),
)
