"""A job on Spark from end to end: session, streams, join, sink."""

from __future__ import annotations

import shutil
import tempfile
from collections import deque
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
from pyspark.errors import PySparkException

from crosswind.engine.session import plan_for
from crosswind.errors import JobError, SparkError
from crosswind.io.brokers import check_brokers
from crosswind.io.endpoints import FileSink, KafkaSink, KafkaSource, MemorySink
from crosswind.io.files import schema_of
from crosswind.io.job import Job
from crosswind.spark.join import join
from crosswind.spark.launch import start_session
from crosswind.spark.progress import CellTotal, Progress, add_cells, counted
from crosswind.spark.sinks import check_file_sink, write_to
from crosswind.spark.sources import open_source
from crosswind.spark.watch import Watch, failure_of

__all__ = ["Pipeline"]

_BATCHES_KEPT = 256
_KAFKA_PACKAGE = "org.apache.spark:spark-sql-kafka-0-10_2.13"


class Pipeline:
    """A job that runs on Spark. A context manager: entering starts it, leaving stops it, and Spark with it.

    Parameters
    ----------
    job : Job
        The job.
    take : callable
        Gets the results of each micro-batch where they go to standard output.

    Attributes
    ----------
    tuples : dict of str to int
        Tuples read so far, by stream.
    total : Progress or None
        The counters of all micro-batches so far.
    log : Path
        What Spark itself has to say.
    batch_s : deque of float
        How long the latest micro-batches took.
    cells : dict of int to CellTotal
        What each cell has done so far, as far as it is known.
    """

    def __init__(self, job: Job, take: Callable[[pa.Table], None]) -> None:
        self.job = job
        self.tuples = {source.stream: 0 for source in job.sources}
        self.total: Progress | None = None
        self.last: Progress | None = None
        self.batch_s: deque[float] = deque(maxlen=_BATCHES_KEPT)
        self.cells: dict[int, CellTotal] = {}
        self._take = take
        self._folder = Path(tempfile.mkdtemp(prefix="crosswind-run-"))
        self.log = job.spark.log or self._folder / "spark.log"
        self._spark: Any = None
        self._watch: Watch | None = None

    def __enter__(self) -> Self:
        job = self.job
        checkpoint = job.spark.checkpoint or self._folder / "checkpoint"
        try:
            self._check_query()
            check_brokers(job)
            if isinstance(job.sink, FileSink) and job.sink.path is not None:
                check_file_sink(job.sink.path, checkpoint)
            self._spark = start_session(
                job.name, self.log, master=job.spark.master, cells=job.spark.cells, conf=self._conf()
            )
            self._watch = Watch(self._start(checkpoint))
        except BaseException as error:
            self._close(keep_log=isinstance(error, SparkError))
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close(keep_log=isinstance(error, SparkError))

    def advance(self) -> bool:
        """Take in what happened since the last call; return whether the job still runs.

        Raises
        ------
        CrosswindError
            What made it fail.
        """
        if self._watch is None:
            return False
        active = self._watch.is_active  # before the news, so that none is missed
        for progress, report in self._watch.news():
            for stream in self.tuples:
                row = progress.observedMetrics.get(_metric(stream))
                self.tuples[stream] += row["tuples"] if row is not None else 0
            if report is not None:
                self.last = report
                self.total = report if self.total is None else self.total + report
                self.batch_s.append(report.batch_ms / 1e3)
                add_cells(self.cells, report)
        if not active:
            self._watch.check()
        return active

    def sample(self, rows: int) -> pa.Table | None:
        """Return the first rows in memory, if that is where they go."""
        if self._spark is None or not isinstance(self.job.sink, MemorySink):
            return None
        return self._spark.table(self.job.sink.name).limit(rows).toArrow()

    def _check_query(self) -> None:
        """Find mistakes in the query before Spark is started, where all columns are known."""
        schemas = {source.stream: schema_of(source) for source in self.job.sources}
        if None not in schemas.values():
            plan_for(self.job.query, schemas, time={source.stream: source.time for source in self.job.sources})

    def _conf(self) -> dict[str, str]:
        spark = self.job.spark
        conf = dict(spark.conf)
        if spark.jars:
            conf["spark.jars"] = ",".join(str(jar.resolve()) for jar in spark.jars)
        kafka = isinstance(self.job.sink, KafkaSink) or any(isinstance(s, KafkaSource) for s in self.job.sources)
        if kafka and not spark.jars and "spark.jars.packages" not in conf and "spark.jars" not in conf:
            from pyspark import __version__

            conf["spark.jars.packages"] = f"{_KAFKA_PACKAGE}:{__version__}"
        return conf

    def _start(self, checkpoint: Path) -> Any:
        job = self.job
        frames = {
            source.stream: counted(open_source(self._spark, source), _metric(source.stream)) for source in job.sources
        }
        times = {source.stream: source.time for source in job.sources}
        layout: Any = job.spark.layout
        try:
            joined = join(
                job.query,
                frames,
                time=times,
                lateness=job.lateness,
                event_time=None,
                layout=layout,
                cells=job.spark.cells,
                name=job.name,
            )
            return write_to(joined, job.sink, checkpoint, job.spark.trigger, job.name, self._take)
        except PySparkException as error:
            raise JobError(f"{job.path}: {failure_of(error)}") from error

    def _close(self, *, keep_log: bool) -> None:
        try:
            if self._watch is not None and self._watch.is_active:
                self._watch.stop()
            if self._spark is not None:
                self._spark.stop()
        finally:
            self._spark = self._watch = None
            if not keep_log:
                shutil.rmtree(self._folder, ignore_errors=True)


def _metric(stream: str) -> str:
    return f"read_{stream}"
