"""What a job file may say: its sections, their keys, the kind of each and what it is for.

There is no other description: files are checked against this one (:meth:`crosswind.io.sections.Section.check`),
and the JSON schema for editors is made of it (:mod:`crosswind.io.jobschema`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["FORMATS", "JOB", "LINE_FORMATS", "SECTIONS", "SINKS", "SOURCES", "SPARK", "SPARK_FORMATS", "Form", "Key"]

Kind = Literal["text", "verbatim", "texts", "integer", "flag", "settings", "types", "expressions", "layout"]

FORMATS = ("parquet", "csv", "jsonl", "arrow")
"""File formats of sources and sinks."""

LINE_FORMATS = ("jsonl", "csv")
"""Formats of rows that come as lines or messages."""

SPARK_FORMATS = ("parquet", "csv", "jsonl")
"""File formats that Spark reads and writes."""


@dataclass(frozen=True)
class Key:
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
class Form:
    """The keys of one section. Of ``either``, exactly one must be there."""

    about: str
    keys: tuple[Key, ...]
    either: tuple[str, ...] = ()
    neither: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the keys."""
        return tuple(key.name for key in self.keys)


SECTIONS = ("job", "streams", "sink", "spark")
"""The sections of a file; all but the last must be there."""

JOB = Form(
    "The query, and how it runs.",
    (
        Key("name", "text", "For reports; the file's name if absent."),
        Key("query", "verbatim", "The SQL text."),
        Key("query_file", "text", "A file that holds the SQL text."),
        Key("engine", "text", "Where it runs: on Spark, or in this process.", ("spark", "local"), "spark"),
        Key("lateness", "text", "By how much tuples may be out of order, such as '5 seconds'.", default="0s"),
        Key("batch_rows", "integer", "In one process: tuples to read at a time, at most.", default=16_384),
    ),
    either=("query", "query_file"),
    neither="give either 'query' (the SQL text) or 'query_file' (a file that holds it), and not both.",
)

_TIME = Key("time", "text", "The time column.", default="ts")
_LINES = Key("format", "text", "How a row is written.", LINE_FORMATS, "jsonl")
_ALL_TYPES = Key(
    "schema",
    "types",
    "The type of every column.",
    required=True,
    missing="'schema' is missing: nothing else tells what a message holds. "
    'Write every column, such as schema = { x = "int32", ts = "timestamp[ms]" }.',
)

SOURCES = {
    "path": Form(
        "A stream that is kept in files.",
        (
            Key("path", "text", "A file, a folder, or a pattern such as 'part-*.parquet'.", required=True),
            Key("format", "text", "How they are written; told by their names if absent.", FORMATS),
            _TIME,
            Key("schema", "types", "Types of columns where those in the files are not the right ones."),
            Key("files_per_batch", "integer", "Spark: files in a micro-batch, at most."),
        ),
    ),
    "kafka": Form(
        "A stream that is a topic of Kafka (needs Spark).",
        (
            Key("kafka", "text", "The servers, such as 'one:9092,two:9092'.", required=True),
            Key("topic", "text", "The topic; each message is a row.", required=True),
            _LINES,
            _TIME,
            _ALL_TYPES,
            Key("starting", "text", "Where to begin without a checkpoint.", ("earliest", "latest"), "earliest"),
            Key("options", "settings", "Further options of Spark's source."),
        ),
    ),
    "socket": Form(
        "A stream of lines from a TCP server (needs Spark; it cannot be read again).",
        (
            Key("socket", "text", "The server, host:port.", required=True),
            _LINES,
            _TIME,
            _ALL_TYPES,
        ),
    ),
    "rate": Form(
        "A stream that Spark makes up (needs Spark).",
        (
            Key("rate", "integer", "Rows a second.", required=True),
            Key("columns", "expressions", "Columns, as Spark SQL over value and timestamp.", required=True),
            _TIME,
        ),
    ),
}
"""By the key that tells them apart."""

SINKS = {
    "path": Form(
        "Results go to a file, on Spark to a folder of files.",
        (
            Key("path", "text", "The file to write.", required=True),
            Key("format", "text", "How it is written; told by its name if absent.", FORMATS),
            Key("console", "flag", "False, if it is there at all."),
        ),
    ),
    "console": Form(
        "Results go to standard output.",
        (
            Key("console", "flag", "True.", required=True),
            Key("format", "text", "How a row is written.", ("csv", "jsonl"), "csv"),
        ),
    ),
    "kafka": Form(
        "Results go to a topic of Kafka, each a message in JSON (needs Spark).",
        (
            Key("kafka", "text", "The servers.", required=True),
            Key("topic", "text", "The topic.", required=True),
            Key("key", "texts", "The column, or columns, that make a message's key."),
            Key("options", "settings", "Further options of Spark's sink."),
        ),
    ),
    "memory": Form(
        "Results are kept in memory, and the first ones shown in the end.",
        (Key("memory", "text", "The name of the table.", required=True),),
    ),
}
"""By the key that tells them apart."""

SPARK = Form(
    "How the job runs on Spark; not looked at in one process.",
    (
        Key("master", "text", "This machine, or the address of a cluster.", default="local[*]"),
        Key("checkpoint", "text", "A folder from which the job goes on; NAME.checkpoint beside NAME.toml if absent."),
        Key("trigger", "text", "Time between micro-batches, such as '5 seconds', or 'available now'."),
        Key(
            "layout", "layout", "How pairs are spread: auto, hash, range, grid, or the sides of a grid.", default="auto"
        ),
        Key("cells", "integer", "How many cells; if absent, 16 by hash or range, else as many as there are cores."),
        Key("jars", "texts", "Jars to add, or patterns of them."),
        Key("conf", "settings", "Further settings of Spark."),
        Key("log", "text", "A file for what Spark has to say."),
    ),
)
