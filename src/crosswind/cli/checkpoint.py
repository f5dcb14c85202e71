"""``crosswind checkpoint``: what a checkpoint on Spark holds, and how it becomes one for another join."""

from __future__ import annotations

import json as json_module
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from crosswind.cli.report import say
from crosswind.errors import CrosswindWarning, InputError

if TYPE_CHECKING:
    from crosswind.spark.checkpoint import Checkpoint

__all__ = ["checkpoint"]

_SESSION = (
    click.option("--master", default="local[*]", show_default=True, help="Where Spark runs."),
    click.option("--conf", multiple=True, metavar="KEY=VALUE", help="A setting of Spark; may be given repeatedly."),
)


def _with_session(command: Any) -> Any:
    for option in reversed(_SESSION):
        command = option(command)
    return command


@click.group()
def checkpoint() -> None:
    """Look into the checkpoints of joins on Spark, and rescale them."""


@checkpoint.command()
@click.argument("path", metavar="CHECKPOINT")
@_with_session
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def show(path: str, master: str, conf: tuple[str, ...], as_json: bool) -> None:
    """Print what CHECKPOINT holds: query, format, watermark, and the tuples and bytes of each cell.

    The query is not started. It may run meanwhile, but a checkpoint that moves on may fail to be read.
    """
    from crosswind.spark.folder import CheckpointFolder

    CheckpointFolder(path).committed()  # before Spark is started
    with _session(master, conf) as spark:
        from crosswind.spark.checkpoint import checkpoint as read

        found = read(path, spark=spark)
    _print(found, as_json=as_json)


@checkpoint.command()
@click.argument("path", metavar="CHECKPOINT")
@click.option("--partitions", type=click.IntRange(1), help="Divide the state into so many partitions.")
@click.option("--cells", type=click.IntRange(1), help="Spread it over so many cells.")
@click.option("--layout", help="Another layout: auto, hash, range, grid, or a grid such as 2x3.")
@click.option("--query", help="Another query over the same streams: SQL text, or @FILE.")
@click.option("--event-time", help="Another column of the result that carries event time; 'none' for no column.")
@click.option("--to", help="Write the new checkpoint to this folder; without it the old one is kept as NAME.before-N.")
@click.option("--operator", type=click.IntRange(0), help="Which join, if there are several; `show` numbers them.")
@click.option("--accept-gaps", is_flag=True, help="Go on though the new query needs what the checkpoint does not know.")
@_with_session
@click.option("--json", "as_json", is_flag=True, help="Print what the new checkpoint holds as JSON.")
def rescale(
    path: str,
    layout: str | None,
    query: str | None,
    event_time: str | None,
    master: str,
    conf: tuple[str, ...],
    as_json: bool,
    **options: Any,
) -> None:
    """Make CHECKPOINT fit for other partitions, for other cells, or for another query.

    Its query must be stopped. Start it again with the same --cells, --layout and --query: it goes on where it was. What
    the new query cannot know of the tuples that wait (a longer window, say) is an error that names it.
    """
    import warnings

    from crosswind.spark.folder import CheckpointFolder

    if all(value is None for value in (layout, query, event_time, options["partitions"], options["cells"])):
        raise click.UsageError("nothing to change; give --partitions, --cells, --layout, --query or --event-time.")
    CheckpointFolder(path).committed()  # before Spark is started
    if event_time is not None:
        options["event_time"] = None if event_time == "none" else event_time
    if layout is not None:
        options["layout"] = _layout(layout)
    if query is not None:
        options["query"] = _text(query)
    with _session(master, conf) as spark, warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        from crosswind.spark.rescale import rescale as change

        found = change(path, spark=spark, **options)
    for warning in heard:
        if issubclass(warning.category, CrosswindWarning):
            say(f"warning: {warning.message}", err=True)
    _print(found, as_json=as_json)


def _text(query: str) -> str:
    if not query.startswith("@"):
        return query
    try:
        return Path(query[1:]).read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"--query {query}: the file cannot be read: {error.strerror}.") from None


def _layout(text: str) -> str | tuple[int, ...]:
    sides = text.split("x")
    return tuple(map(int, sides)) if all(side.isdigit() for side in sides) else text


def _print(found: Checkpoint, *, as_json: bool) -> None:
    say(json_module.dumps(_as_dict(found)) if as_json else str(found))


def _as_dict(found: Checkpoint) -> dict[str, Any]:
    joins = [
        {
            "operator": join.operator,
            "query": join.query,
            "format": join.format,
            "layout": join.layout,
            "tuples": join.tuples,
            "bytes": join.nbytes,
            "cells": [
                {
                    "cell": cell.cell,
                    "partition": cell.partition,
                    "tuples": cell.tuples,
                    "blocks": cell.blocks,
                    "bytes": cell.nbytes,
                    "watermark": cell.watermark,
                }
                for cell in join.cells
            ],
        }
        for join in found.joins
    ]
    return {
        "checkpoint": found.path,
        "batch": found.batch,
        "unfinished": found.unfinished,
        "watermark_ms": found.watermark_ms,
        "partitions": found.partitions,
        "joins": joins,
        "others": {str(number): name for number, name in found.others.items()},
    }


@contextmanager
def _session(master: str, conf: tuple[str, ...]) -> Iterator[Any]:
    """Start Spark quietly; its log is kept only if something fails."""
    from crosswind.spark.launch import BRIEF, start_session

    unclear = [entry for entry in conf if "=" not in entry]
    if unclear:
        raise InputError(f"--conf {unclear[0]} is not KEY=VALUE; for example --conf spark.driver.memory=4g.")
    with tempfile.TemporaryDirectory(prefix="crosswind-checkpoint-", ignore_cleanup_errors=True) as folder:
        wanted = BRIEF | {key: value for key, _, value in (entry.partition("=") for entry in conf)}
        spark = start_session("crosswind checkpoint", Path(folder) / "spark.log", master=master, conf=wanted)
        try:
            yield spark
        finally:
            spark.stop()
