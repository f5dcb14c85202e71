"""A job on Spark, watched from the command line."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from crosswind.cli.interruption import Interruption
from crosswind.cli.readings import reading_of_spark
from crosswind.cli.report import figures, held_on_spark, milliseconds, per_second, say, show_rows

if TYPE_CHECKING:
    from crosswind.cli.watching import Observer
    from crosswind.io.job import Job
    from crosswind.monitor.reading import Reading
    from crosswind.spark.pipeline import Pipeline

__all__ = ["SparkRun"]

_POLL_S = 0.2
_SAMPLE_ROWS = 20


class SparkRun:
    """One run of a job on Spark.

    Parameters
    ----------
    job : Job
        The job.
    observer : Observer
        Shows how far it is.
    """

    def __init__(self, job: Job, observer: Observer) -> None:
        self._job, self._observer = job, observer
        self._finished = False
        self._seconds = 0.0
        self._pipeline: Pipeline | None = None
        self._rows: list[str] = []

    def run(self) -> KeyboardInterrupt | None:
        """Run the job until it ends or someone wants it to; return what to raise if it was the latter."""
        from crosswind.errors import SparkError
        from crosswind.io.endpoints import FileSink
        from crosswind.io.files import ResultWriter
        from crosswind.spark.pipeline import Pipeline

        sink = self._job.sink
        to_stdout = isinstance(sink, FileSink) and sink.path is None
        with ResultWriter(sink if isinstance(sink, FileSink) else FileSink(None, "csv")) as writer:
            pipeline = self._pipeline = Pipeline(self._job, writer.write)
            try:
                with self._observer, pipeline, Interruption() as interruption:
                    self._watch(pipeline, interruption)
                    sample = pipeline.sample(_SAMPLE_ROWS)
                    self._rows = [] if sample is None else show_rows(sample)
                    stopped = interruption.error
            except SparkError as error:
                raise SparkError(f"{error}\nWhat Spark said is in {pipeline.log}.") from error
            if to_stdout:
                writer.commit()
        return stopped

    def _watch(self, pipeline: Pipeline, interruption: Interruption) -> None:
        begun = time.monotonic()
        while pipeline.advance():
            self._seconds = time.monotonic() - begun
            if self._observer.is_due():
                self._observer.take(self._reading(pipeline))
            if interruption.wait(_POLL_S):
                return
        self._seconds = time.monotonic() - begun
        self._finished = True
        self._observer.take(self._reading(pipeline))

    def _reading(self, pipeline: Pipeline) -> Reading:
        total, batch_s, cells = pipeline.total, pipeline.batch_s, pipeline.cells
        return reading_of_spark(pipeline.tuples, total, batch_s, cells, self._seconds, finished=self._finished)

    def _lines(self) -> dict[str, str]:
        pipeline = self._pipeline
        if pipeline is None:
            return {}
        total, last = pipeline.total, pipeline.last
        read = sum(pipeline.tuples.values())
        lines = {
            "tuples read": ", ".join(f"{name} {count:,}" for name, count in pipeline.tuples.items()),
            "results": f"{total.results if total else 0:,}",
            "time": f"{self._seconds:.1f} s, {per_second(read, self._seconds)}",
        }
        if total is None or last is None:
            return lines
        lines["held in windows"] = held_on_spark(last.window_tuples, last.state_bytes)
        lines["micro-batches"] = f"{last.batch + 1:,}, the last in {milliseconds(last.batch_ms / 1e3)}"
        if total.late:
            lines["late"] = f"{total.late:,}, dropped: older than the watermark. Allow more [job] lateness."
        if total.rejected:
            lines["no time"] = f"{total.rejected:,}, rejected: their time is null, or the message could not be read."
        return lines

    def report(self) -> str:
        """Return the report for people."""
        from crosswind.io.endpoints import FileSink, KafkaSink, MemorySink

        job = self._job
        lines = self._lines()
        match job.sink:
            case FileSink(path=path) if path is not None:
                lines["written to"] = f"{path}/"
            case KafkaSink(servers=servers, topic=topic):
                lines["written to"] = f"topic {topic} at {servers}"
            case MemorySink(name=name):
                lines["kept in"] = f"table {name}"
        if job.spark.checkpoint is not None:
            lines["checkpoint"] = f"{job.spark.checkpoint}; run the job again to go on from there"
        head = f"{job.name}: done" if self._finished else f"{job.name}: stopped"
        rows = "".join(f"  {row}\n" for row in self._rows)
        return f"{rows}{head}\n{figures(lines)}"

    def as_dict(self) -> dict[str, Any]:
        """Return the report for programs."""
        from crosswind.io.endpoints import FileSink

        pipeline, sink = self._pipeline, self._job.sink
        total = pipeline.total if pipeline else None
        last = pipeline.last if pipeline else None
        return {
            "job": self._job.name,
            "engine": "spark",
            "finished": self._finished,
            "tuples_read": pipeline.tuples if pipeline else {},
            "late": total.late if total else 0,
            "rejected": total.rejected if total else 0,
            "results": total.results if total else 0,
            "micro_batches": last.batch + 1 if last else 0,
            "window_tuples": last.window_tuples if last else 0,
            "state_bytes": last.state_bytes if last else 0,
            "seconds": self._seconds,
            "sink": str(sink.path) if isinstance(sink, FileSink) else None,
        }

    def print(self, *, as_json: bool, err: bool) -> None:
        """Print the report."""
        import json

        say(json.dumps(self.as_dict()) if as_json else self.report(), err=err)
