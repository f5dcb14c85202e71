"""``crosswind run``: a job file, from its sources to its sink."""

from __future__ import annotations

import json as json_module
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from crosswind.cli.report import figures, per_second, say, show_rows
from crosswind.cli.room import spark_room
from crosswind.cli.watching import Observer, Watching, watched
from crosswind.errors import CrosswindWarning

if TYPE_CHECKING:
    from crosswind.engine.join import Join
    from crosswind.io.files import FileStream, MemoryWriter, ResultWriter
    from crosswind.io.job import Job

__all__ = ["run"]

_SAMPLE_ROWS = 20
"""Rows of a sink in memory that are shown in the end."""


@dataclass
class _Progress:
    """How far a job has come."""

    tuples: dict[str, int]
    late: dict[str, int] = field(default_factory=dict)
    rejected: dict[str, int] = field(default_factory=dict)
    results: int = 0
    seconds: float = 0.0
    finished: bool = False


@click.command()
@click.argument("job", metavar="JOB.toml", type=click.Path(path_type=Path))
@click.option("--engine", type=click.Choice(["spark", "local"]), help="Where to run it, if not where the job says.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@watched
def run(job: Path, engine: str | None, as_json: bool, watching: Watching) -> None:
    """Run the job that JOB.toml describes.

    On Spark, or in this process if the job says engine = "local". Streams are read, joined, and the
    results written as they are found. A job over files ends when they are read; others run until
    Ctrl-C, and go on from their checkpoint when they are run again.

    --ui shows it live in a browser on this machine, --metrics-port to Prometheus.
    """
    from crosswind.io.endpoints import FileSink
    from crosswind.io.job import load_job

    loaded = load_job(job, engine)
    console = isinstance(loaded.sink, FileSink) and loaded.sink.path is None
    if console and as_json:
        raise click.UsageError("--json and a console sink both want standard output. Give [sink] a path.")
    if loaded.engine == "local":
        _run_here(loaded, _observer(loaded, watching, "kang", quiet=as_json), as_json=as_json, err=console)
        return
    with spark_room():
        from crosswind.cli.run_spark import SparkRun

        started = SparkRun(loaded, _observer(loaded, watching, "spark", quiet=as_json))
        if not as_json and watching.log == "text":
            say(f"{loaded.name}: starting Spark ({loaded.spark.master}) ...", err=True)
        stopped = started.run()
        started.print(as_json=as_json, err=console)
    if stopped is not None:
        raise stopped


def _run_here(job: Job, observer: Observer, *, as_json: bool, err: bool) -> None:
    from crosswind.io.endpoints import FileSink
    from crosswind.io.files import FileStream, MemoryWriter, ResultWriter

    streams = [FileStream(source) for source in job.file_sources]
    progress = _Progress(tuples={source.stream: 0 for source in job.sources})
    writer = ResultWriter(job.sink) if isinstance(job.sink, FileSink) else MemoryWriter()
    interruption = None
    try:
        with observer:
            _run(job, streams, writer, progress, observer)
    except KeyboardInterrupt as signal:
        interruption = signal
    if isinstance(writer, MemoryWriter) and not as_json:
        for row in show_rows(writer.table(_SAMPLE_ROWS)):
            click.echo(f"  {row}")
    say(json_module.dumps(_as_json(job, progress)) if as_json else _report(job, progress), err=err)
    if interruption is not None:
        raise interruption


def _observer(job: Job, watching: Watching, engine: str, *, quiet: bool) -> Observer:
    from crosswind.cli.readings import starting
    from crosswind.monitor.recorder import Recorder

    recorder = Recorder(job.name, engine, "cell" if engine == "spark" else "worker")
    recorder.take(starting([source.stream for source in job.sources]))
    # On standard error, so that results on standard output stay clean.
    return Observer(watching, recorder, f"{job.name}; Ctrl-C stops", quiet=quiet, err=True)


def _run(
    job: Job, streams: list[FileStream], results: ResultWriter | MemoryWriter, progress: _Progress, observer: Observer
) -> None:
    import crosswind as cw
    from crosswind.cli.readings import reading_of_stats
    from crosswind.io.files import merged_by_time

    schemas = {stream.source.stream: stream.schema for stream in streams}
    times = {stream.source.stream: stream.source.time for stream in streams}
    begun = time.perf_counter()
    with (
        warnings.catch_warnings(),
        results as writer,
        cw.open(job.query, schemas, time=times, lateness=job.lateness) as join,
    ):
        # Late tuples and those without a time are in the report.
        warnings.simplefilter("ignore", CrosswindWarning)
        try:
            for stream, batch in merged_by_time(streams, job.batch_rows):
                writer.write(join.push(stream, batch))
                progress.tuples[stream] += batch.num_rows
                if observer.is_due():
                    observer.take(reading_of_stats(join.stats, time.perf_counter() - begun))
            writer.write(join.finish())
            writer.commit()
            progress.finished = True
        finally:
            _update(progress, join, writer, begun)
            observer.take(reading_of_stats(join.stats, progress.seconds, finished=progress.finished))


def _update(progress: _Progress, join: Join, writer: ResultWriter | MemoryWriter, begun: float) -> None:
    stats = join.stats
    progress.late = dict(stats.late)
    progress.rejected = dict(stats.rejected)
    progress.results = writer.rows
    progress.seconds = time.perf_counter() - begun


def _lines(progress: _Progress) -> dict[str, str]:
    total = sum(progress.tuples.values())
    lines = {
        "tuples read": ", ".join(f"{name} {count:,}" for name, count in progress.tuples.items()),
        "results": f"{progress.results:,}",
        "time": f"{progress.seconds:.1f} s, {per_second(total, progress.seconds)}",
    }
    for name, count in progress.late.items():
        if count:
            lines[f"late in {name}"] = f"{count:,}, dropped: older than the watermark. Allow more [job] lateness."
    for name, count in progress.rejected.items():
        if count:
            lines[f"no time in {name}"] = f"{count:,}, rejected: their time is null."
    return lines


def _report(job: Job, progress: _Progress) -> str:
    from crosswind.io.endpoints import FileSink

    head = f"{job.name}: done" if progress.finished else f"{job.name}: stopped early"
    lines = _lines(progress)
    if isinstance(job.sink, FileSink) and job.sink.path is not None:
        lines["written to"] = str(job.sink.path) if progress.finished else "nothing: the job did not end"
    return f"{head}\n{figures(lines)}"


def _as_json(job: Job, progress: _Progress) -> dict[str, Any]:
    from crosswind.io.endpoints import FileSink

    return {
        "job": job.name,
        "engine": "local",
        "finished": progress.finished,
        "tuples_read": progress.tuples,
        "late": progress.late,
        "rejected": progress.rejected,
        "results": progress.results,
        "seconds": progress.seconds,
        "sink": str(job.sink.path) if progress.finished and isinstance(job.sink, FileSink) else None,
    }
