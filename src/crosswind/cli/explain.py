"""``crosswind explain``: the plan of a query, without running it."""

from __future__ import annotations

import json as json_module
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from crosswind.cli.report import say
from crosswind.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["explain"]


class _Subject(NamedTuple):
    """What is to be explained."""

    query: str
    schemas: dict[str, pa.Schema]
    time: dict[str, str]


@click.command()
@click.argument("query")
@click.option("--stream", "streams", multiple=True, metavar="NAME=PATH", help="Take a stream's columns from a file.")
@click.option(
    "--schema",
    "schemas",
    multiple=True,
    metavar="NAME=COL:TYPE,...",
    help="Give a stream's columns, for example R=x:int32,ts:timestamp[ms].",
)
@click.option("--time", default="ts", show_default=True, help="The time column of every stream.")
@click.option(
    "--engine",
    default="auto",
    show_default=True,
    help="Plan for this engine: auto, kang, cell, handshake, grid or split.",
)
@click.option("--workers", type=click.IntRange(1), help="Plan for so many workers; all cores if left out.")
@click.option("--rate", type=float, help="Tuples/s to expect of each stream.")
@click.option("--hurry", is_flag=True, help="Results are wanted soon.")
@click.option("--index", default="auto", show_default=True, help="Plan with this index.")
@click.option("--layout", default="auto", show_default=True, help="On Spark: hash, range, grid, or a grid such as 2x3.")
@click.option("--cells", type=click.IntRange(1), help="On Spark: how many cells.")
@click.option(
    "--source", "--verbose", "-v", "verbose", is_flag=True, help="Also show the code that it is compiled from."
)
@click.option("--assembly", is_flag=True, help="Also show the machine code that becomes of it here.")
@click.option("--json", "as_json", is_flag=True, help="Print the sections as JSON.")
def explain(
    query: str,
    streams: tuple[str, ...],
    schemas: tuple[str, ...],
    time: str,
    layout: str,
    as_json: bool,
    **options: Any,
) -> None:
    """Show how QUERY would be run.

    QUERY is SQL text, a file that holds it, a job file (.toml), or - for standard input. The streams
    of SQL need their columns: give each by --stream or by --schema.
    """
    import crosswind as cw

    subject = _subject(query, streams, schemas, time)
    plan = cw.explain(
        subject.query,
        subject.schemas,
        time=subject.time,
        layout=_layout(layout),
        **options,
    )
    say(json_module.dumps({"query": subject.query, "plan": plan.sections}) if as_json else plan.rstrip())


def _layout(text: str) -> str | tuple[int, ...]:
    """Return ``2x3`` as the sides of a grid, and names as they are."""
    sides = text.lower().split("x")
    return tuple(int(side) for side in sides) if all(side.isdecimal() for side in sides) else text


def _subject(query: str, streams: tuple[str, ...], schemas: tuple[str, ...], time: str) -> _Subject:
    from crosswind.io.schemas import schema_from_text

    if query.endswith(".toml"):
        if streams or schemas:
            raise click.UsageError("a job file names its own streams: --stream and --schema go with SQL only.")
        return _subject_of_job(Path(query))
    found = {name: schema_from_text(text) for name, text in _pairs("--schema", schemas)}
    for name, path in _pairs("--stream", streams):
        if name in found:
            raise click.UsageError(f"stream '{name}' is given twice. Give each once, by --stream or by --schema.")
        found[name] = _schema_of_file(name, path, time)
    return _Subject(_sql(query), found, dict.fromkeys(found, time))


def _subject_of_job(path: Path) -> _Subject:
    from crosswind.io.files import schema_of
    from crosswind.io.job import load_job

    job = load_job(path)
    schemas = {}
    for source in job.sources:
        schema = schema_of(source)
        if schema is None:
            raise InputError(
                f"the columns of stream '{source.stream}' are known to Spark only. Explain the query by itself, "
                f"with --schema {source.stream}=..."
            )
        schemas[source.stream] = schema
    return _Subject(job.query, schemas, {source.stream: source.time for source in job.sources})


def _schema_of_file(stream: str, path: str, time: str) -> pa.Schema:
    from crosswind.io.endpoints import source_of_file
    from crosswind.io.files import FileStream

    return FileStream(source_of_file(stream, Path(path), time)).schema


def _sql(query: str) -> str:
    if query == "-":
        return sys.stdin.read()
    # SQL has blanks in it; a word without any can only be meant as the name of a file.
    if len(query.split()) > 1 and not Path(query).is_file():
        return query
    try:
        return Path(query).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"cannot read the query from '{query}': {getattr(error, 'strerror', None) or error}. "
            "Give SQL text, a file that holds it, a job file (.toml), or - for standard input."
        ) from error


def _pairs(option: str, values: tuple[str, ...]) -> list[tuple[str, str]]:
    pairs = []
    for value in values:
        name, equals, rest = value.partition("=")
        if not (name and equals and rest):
            example = "R=trades.parquet" if option == "--stream" else "R=x:int32,ts:timestamp[ms]"
            raise click.UsageError(f"{option} takes NAME=..., for example {option} {example}; got '{value}'.")
        pairs.append((name, rest))
    return pairs
