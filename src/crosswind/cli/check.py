"""``crosswind check``: is a job in order? Everything that can be told without running it."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from crosswind.cli.report import figures, say
from crosswind.errors import CrosswindError

if TYPE_CHECKING:
    import pyarrow as pa

    from crosswind.io.endpoints import Sink, Source
    from crosswind.io.job import Job

__all__ = ["check"]


@click.command()
@click.argument("job", metavar="JOB.toml", type=click.Path(path_type=Path))
@click.option("--engine", type=click.Choice(["spark", "local"]), help="Check it for this engine.")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
def check(job: Path, engine: str | None, as_json: bool) -> None:
    """Check the job that JOB.toml describes, without running it.

    Looks at every key, at the files and their columns, at variables of the environment, and plans the query.
    """
    try:
        findings = _findings(job, engine)
    except CrosswindError as error:
        if not as_json:
            raise
        say(json_module.dumps({"job": str(job), "ok": False, "error": str(error)}))
        raise SystemExit(1) from error
    if as_json:
        say(json_module.dumps({"job": str(job), "ok": True, **findings}))
        return
    streams = findings.pop("streams")
    lines = {"runs": findings["engine"]}
    lines |= {f"stream {name}": f"{entry['source']}; {_columns(entry['columns'])}" for name, entry in streams.items()}
    lines["sink"] = findings["sink"]
    lines["query"] = findings["query"]
    lines |= {"warning" if k == 0 else " " * k: text for k, text in enumerate(findings["warnings"])}
    say(f"{job}: in order\n{figures(lines)}")


def _findings(path: Path, engine: str | None) -> dict[str, Any]:
    from crosswind.io.files import schema_of
    from crosswind.io.job import load_job

    job = load_job(path, engine)
    schemas = {source.stream: schema_of(source) for source in job.sources}
    return {
        "name": job.name,
        "engine": "in this process" if job.engine == "local" else f"on Spark ({job.spark.master})",
        "streams": {
            source.stream: {"source": _source(source), "columns": _types(schemas[source.stream])}
            for source in job.sources
        },
        "sink": _sink(job.sink),
        **_planned(job, schemas),
    }


def _planned(job: Job, schemas: dict[str, pa.Schema | None]) -> dict[str, Any]:
    from crosswind.engine.explain import warnings_of
    from crosswind.engine.session import plan_for

    known = {name: schema for name, schema in schemas.items() if schema is not None}
    if len(known) < len(schemas):
        unknown = ", ".join(name for name in schemas if name not in known)
        return {"query": f"checked when it starts: the columns of {unknown} are known to Spark only", "warnings": []}
    plan = plan_for(job.query, known, time={source.stream: source.time for source in job.sources})
    unused = [name for name in known if name not in {unit.stream.name for unit in plan.units}]
    warnings = [f"[streams.{name}] is not used by the query" for name in unused]
    shown = ", ".join(output.name for entry in plan.queries for output in entry.query.outputs)
    return {"query": f"gives {shown}", "warnings": [*warnings, *warnings_of(plan)]}


def _types(schema: pa.Schema | None) -> dict[str, str] | None:
    return None if schema is None else {field.name: str(field.type) for field in schema}


def _columns(types: dict[str, str] | None) -> str:
    return "columns known to Spark" if types is None else ", ".join(f"{name} {kind}" for name, kind in types.items())


def _source(source: Source) -> str:
    from crosswind.io.endpoints import FileSource, KafkaSource, SocketSource

    match source:
        case FileSource(paths=paths, format=form, pattern=pattern):
            return f"{len(paths)} file{'s' * (len(paths) != 1)} ({form}), {pattern}"
        case KafkaSource(servers=servers, topic=topic):
            return f"topic {topic} at {servers}"
        case SocketSource(host=host, port=port):
            return f"socket {host}:{port}"
        case _:
            return f"{source.rate:,} rows/s of Spark's own"


def _sink(sink: Sink) -> str:
    from crosswind.io.endpoints import FileSink, KafkaSink

    match sink:
        case FileSink(path=None, format=form):
            return f"standard output ({form})"
        case FileSink(path=path, format=form):
            return f"{path} ({form})"
        case KafkaSink(servers=servers, topic=topic):
            return f"topic {topic} at {servers}"
        case _:
            return f"memory, table {sink.name}"
