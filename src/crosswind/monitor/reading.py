"""What is known of a running join at one moment, and the metrics that are made of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

__all__ = ["METRICS", "Metric", "Reading", "StreamReading", "WorkerReading"]

Sample = tuple[Mapping[str, str], float]
"""Labels and a value."""

_QUANTILES = {"p50": "0.5", "p95": "0.95", "p99": "0.99"}


@dataclass(frozen=True)
class StreamReading:
    """What came of a stream so far: tuples read, and of these late ones, those without a time, those shed."""

    name: str
    tuples: int
    late: int = 0
    rejected: int = 0
    shed: int = 0


@dataclass(frozen=True)
class WorkerReading:
    """A worker of an engine, or a cell on Spark.

    ``busy_s`` is the time it has spent joining so far, ``results`` what it has found; ``tuples`` wait in its
    windows, where that is known.
    """

    name: str
    busy_s: float
    results: int | None = None
    tuples: int | None = None


@dataclass(frozen=True)
class Reading:
    """A join at one moment; counters begin with the job.

    Parameters
    ----------
    seconds : float
        Since the job began.
    streams : tuple of StreamReading
        What came.
    results : int
        What was found.
    windows : mapping of str to int
        Tuples that wait, by window.
    workers : tuple of WorkerReading
        Who works; cells on Spark.
    latency_s : mapping of str to float
        Quantiles (``p50``, ``p95``, ``p99``) of the latest batches.
    batches : int
        Pushes, or micro-batches on Spark, so far.
    state_bytes : int
        What windows take.
    held : int
        Tuples that wait for the watermark before they may join.
    notes : mapping of str to str
        What else to show: the index at work, the phase.
    others : StreamReading, optional
        What is known of all streams together only, under the name ``all``.
    finished : bool
        Nothing more will come.
    """

    seconds: float
    streams: tuple[StreamReading, ...]
    results: int = 0
    windows: Mapping[str, int] = field(default_factory=dict)
    workers: tuple[WorkerReading, ...] = ()
    latency_s: Mapping[str, float] = field(default_factory=dict)
    batches: int = 0
    state_bytes: int = 0
    held: int = 0
    notes: Mapping[str, str] = field(default_factory=dict)
    others: StreamReading | None = None
    finished: bool = False


@dataclass(frozen=True)
class Metric:
    """A metric by the conventions of OpenMetrics: base units, and counters whose samples end in ``_total``.

    Parameters
    ----------
    name : str
        Without ``_total``.
    kind : str
        ``counter``, ``gauge`` or ``summary``.
    unit : str
        ``seconds``, ``bytes`` or nothing; the name ends with it.
    about : str
        What it counts.
    samples : callable
        Takes them from a reading.
    """

    name: str
    kind: Literal["counter", "gauge", "summary"]
    unit: str
    about: str
    samples: Callable[[Reading], Iterable[Sample]]

    @property
    def sample_name(self) -> str:
        """The name under which samples are found."""
        return f"{self.name}_total" if self.kind == "counter" else self.name


def _of_streams(take: Callable[[StreamReading], int]) -> Callable[[Reading], Iterable[Sample]]:
    def samples(reading: Reading) -> Iterable[Sample]:
        told = reading.streams if reading.others is None else (*reading.streams, reading.others)
        return [({"stream": stream.name}, float(take(stream))) for stream in told]

    return samples


def _tuples(reading: Reading) -> Iterable[Sample]:
    return [({"stream": stream.name}, float(stream.tuples)) for stream in reading.streams]


def _of_workers(take: Callable[[WorkerReading], float | None]) -> Callable[[Reading], Iterable[Sample]]:
    def samples(reading: Reading) -> Iterable[Sample]:
        values = [({"worker": worker.name}, take(worker)) for worker in reading.workers]
        return [(labels, float(value)) for labels, value in values if value is not None]

    return samples


def _one(take: Callable[[Reading], float]) -> Callable[[Reading], Iterable[Sample]]:
    return lambda reading: [({}, float(take(reading)))]


def _quantiles(reading: Reading) -> Iterable[Sample]:
    return [({"quantile": q}, reading.latency_s[name]) for name, q in _QUANTILES.items() if name in reading.latency_s]


METRICS = (
    Metric("crosswind_tuples", "counter", "", "Tuples read.", _tuples),
    Metric("crosswind_late_tuples", "counter", "", "Tuples dropped as too late.", _of_streams(lambda s: s.late)),
    Metric("crosswind_rejected_tuples", "counter", "", "Tuples without a time.", _of_streams(lambda s: s.rejected)),
    Metric("crosswind_shed_tuples", "counter", "", "Tuples not admitted under load.", _of_streams(lambda s: s.shed)),
    Metric("crosswind_results", "counter", "", "Results found.", _one(lambda r: r.results)),
    Metric("crosswind_batches", "counter", "", "Pushes; micro-batches on Spark.", _one(lambda r: r.batches)),
    Metric(
        "crosswind_window_tuples",
        "gauge",
        "",
        "Tuples that wait in a window.",
        lambda r: [({"window": name}, float(count)) for name, count in r.windows.items()],
    ),
    Metric("crosswind_held_tuples", "gauge", "", "Tuples that wait for the watermark.", _one(lambda r: r.held)),
    Metric("crosswind_state_bytes", "gauge", "bytes", "Bytes that windows take.", _one(lambda r: r.state_bytes)),
    Metric("crosswind_latency_seconds", "summary", "seconds", "Time that the latest batches took.", _quantiles),
    Metric("crosswind_uptime_seconds", "gauge", "seconds", "Time since the job began.", _one(lambda r: r.seconds)),
    Metric("crosswind_running", "gauge", "", "1 while the job runs.", _one(lambda r: 0 if r.finished else 1)),
    Metric(
        "crosswind_worker_busy_seconds",
        "counter",
        "seconds",
        "Time that a worker, or a cell on Spark, spent joining.",
        _of_workers(lambda w: w.busy_s),
    ),
    Metric("crosswind_worker_results", "counter", "", "Results of a worker.", _of_workers(lambda w: w.results)),
    Metric(
        "crosswind_worker_window_tuples",
        "gauge",
        "",
        "Tuples that wait with a worker, or in a cell on Spark.",
        _of_workers(lambda w: w.tuples),
    ),
)
"""Every metric there is: the endpoint serves these, dashboards may ask for no others."""
