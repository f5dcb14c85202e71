"""``crosswind init``: a starter job, commented, with data of its own, that runs as it is."""

from __future__ import annotations

import json as json_module
import random
from datetime import datetime, timedelta
from pathlib import Path

import click

from crosswind.errors import InputError

__all__ = ["init"]

_JOB = '''#:schema ./crosswind.schema.json
# A Crosswind job: which readings lie close to an alarm, in value and in time?
#   crosswind check job.toml           is everything in order?
#   crosswind run job.toml             run it
#   crosswind run job.toml --ui        run it, and watch it in a browser
#   crosswind explain job.toml         how it is run, and why

[job]
name = "near-alarms"
# "local": in this process. "spark" (or no such line): on Spark Structured Streaming.
engine = "local"
# Any condition over both streams; a tuple waits in its window for partners that come later.
query = """
    SELECT r.sensor, r.value, a.level, r.ts AS read, a.ts AS raised
    FROM readings [RANGE 30 SECONDS] AS r, alarms [RANGE 30 SECONDS] AS a
    WHERE r.value BETWEEN a.level - 2.5 AND a.level + 2.5
"""
# How far tuples may be out of order before they count as late.
lateness = "5 seconds"

[streams.readings]
path = "readings.csv"
# The time column is "ts" unless you say so:    time = "measured_at"
# Types that CSV does not tell:
schema = { value = "float32" }

[streams.alarms]
path = "alarms.csv"
# Files may also be parquet, jsonl or arrow. On Spark a stream may be a topic of Kafka:
#   kafka = "localhost:9092"
#   topic = "alarms"
#   schema = { level = "int32", ts = "timestamp[ms]" }
#   options = { "kafka.sasl.jaas.config" = "${KAFKA_JAAS}" }   # secrets come from the environment only

[sink]
path = "near_alarms.csv"
# or:   console = true            standard output
#       memory = "found"          kept, and the first rows shown

# Looked at on Spark only; everything here has a default.
# [spark]
# master = "local[2]"
# trigger = "5 seconds"
'''
_FILES = ("job.toml", "readings.csv", "alarms.csv", "crosswind.schema.json")
_SECONDS = 600


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), default=".")
@click.option("--force", is_flag=True, help="Write over files that are there.")
@click.option("--json", "as_json", is_flag=True, help="Print what was written as JSON.")
def init(folder: Path, force: bool, as_json: bool) -> None:
    """Write a starter job into FOLDER, here if it is left out.

    job.toml is commented and runs as it is, over two small streams that are written beside it. The
    JSON schema of job files comes with it, for your editor.
    """
    there = [name for name in _FILES if (folder / name).exists()]
    if there and not force:
        raise InputError(
            f"{folder / there[0]} is there already. Name another folder, crosswind init my-join, or write over it "
            "with --force."
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in _contents().items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"cannot write {error.filename or folder}: {error.strerror}. Name a folder in which you may write."
        ) from error
    if as_json:
        click.echo(json_module.dumps({"folder": str(folder), "written": list(_FILES)}))
        return
    click.echo(f"wrote {', '.join(str(folder / name) for name in _FILES)}\n")
    click.echo(f"Next\n  crosswind run {folder / 'job.toml'}\n  crosswind explain {folder / 'job.toml'}")


def _contents() -> dict[str, str]:
    from crosswind.io.jobschema import job_schema

    chance = random.Random(3)
    begin = datetime(2025, 1, 2, 9, 0)
    readings, alarms = ["sensor,value,ts"], ["level,ts"]
    for second in range(_SECONDS):
        at = begin + timedelta(seconds=second, milliseconds=chance.randrange(1_000))
        readings.append(
            f"s{chance.randrange(8)},{chance.gauss(50, 15):.2f},{at.isoformat(sep=' ', timespec='milliseconds')}"
        )
        if second % 20 == 0:
            alarms.append(f"{chance.randrange(60, 100)},{at.isoformat(sep=' ', timespec='milliseconds')}")
    texts = (
        _JOB,
        "\n".join(readings) + "\n",
        "\n".join(alarms) + "\n",
        json_module.dumps(job_schema(), indent=2) + "\n",
    )
    return dict(zip(_FILES, texts, strict=True))
