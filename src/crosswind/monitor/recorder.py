"""Takes readings of a running join, derives rates, and hands out what viewers show."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from typing import Any, Literal

from crosswind.clock import Clock, SystemClock
from crosswind.monitor.reading import Reading

__all__ = ["Recorder"]

_RATE_S = {"worker": 3.0, "cell": 15.0}
"""Rates are those of the last few seconds: of several micro-batches, where there are cells."""
_READINGS_MAX = 256


class Recorder:
    """The latest readings of one job. Any thread may take one in, any may look.

    Parameters
    ----------
    job : str
        The job's name.
    engine : str
        Who runs it: ``spark``, or the engine in this process.
    workers : str
        What those that share the work are called: ``worker`` or ``cell``.
    clock : Clock, optional
        Tells how far readings are apart.

    Examples
    --------
    >>> from crosswind.monitor.reading import Reading, StreamReading
    >>> from crosswind.monitor.recorder import Recorder
    >>> recorder = Recorder("near", "kang")
    >>> recorder.take(Reading(1.0, (StreamReading("R", 500),), results=3))
    >>> recorder.state()["streams"][0]["tuples"]
    500
    """

    def __init__(
        self, job: str, engine: str, workers: Literal["worker", "cell"] = "worker", clock: Clock | None = None
    ) -> None:
        self.job, self.engine, self.workers = job, engine, workers
        self._clock = clock or SystemClock()
        self._begun = self._clock.now()
        self._span_s = _RATE_S[workers]
        self._readings: deque[tuple[float, Reading]] = deque(maxlen=_READINGS_MAX)
        self._changed = threading.Condition()
        self._taken = 0

    @property
    def latest(self) -> Reading:
        """The last reading; one of nothing before the first."""
        with self._changed:
            if self._readings:
                return self._readings[-1][1]
        return Reading(self._clock.now() - self._begun, ())

    def take(self, reading: Reading) -> None:
        """Take a reading in."""
        with self._changed:
            now = self._clock.now()
            self._readings.append((now, reading))
            # One older than the span stays, so that there is something to compare with.
            while len(self._readings) > 2 and self._readings[1][0] < now - self._span_s:
                self._readings.popleft()
            self._taken += 1
            self._changed.notify_all()

    def wait(self, seen: int, seconds: float) -> int:
        """Wait until there are more than ``seen`` readings, but not longer than ``seconds``; return their number."""
        with self._changed:
            self._changed.wait_for(lambda: self._taken > seen, timeout=seconds)
            return self._taken

    def state(self) -> dict[str, Any]:
        """Return everything that is shown, rates included, as JSON can hold it."""
        with self._changed:
            readings = list(self._readings)
            taken, now = self._taken, self._clock.now()
        if not readings:
            readings = [(now, Reading(now - self._begun, ()))]
        (began, first), (ended, last) = readings[0], readings[-1]
        # While nothing is reported rates go down: time passes, if only here.
        span = (ended if last.finished else max(ended, now)) - began
        before = {stream.name: stream.tuples for stream in first.streams}
        busy = {worker.name: worker.busy_s for worker in first.workers}
        return {
            "job": self.job,
            "engine": self.engine,
            "readings": taken,
            "seconds": last.seconds if last.finished else last.seconds + (now - ended),
            "finished": last.finished,
            "streams": [
                {**vars(stream), "per_second": _per(stream.tuples - before.get(stream.name, 0), span)}
                for stream in last.streams
            ],
            "others": None if last.others is None else vars(last.others),
            "windows": [{"name": name, "tuples": count} for name, count in last.windows.items()],
            "worker_kind": self.workers,
            "workers": [
                {**vars(worker), "load": min(1.0, _per(worker.busy_s - busy.get(worker.name, 0.0), span))}
                for worker in last.workers
            ],
            "results": last.results,
            "results_per_second": _per(last.results - first.results, span),
            "latency_s": dict(last.latency_s),
            "batches": last.batches,
            "state_bytes": last.state_bytes,
            "held": last.held,
            "notes": dict(last.notes),
        }

    def lines(self) -> dict[str, str]:
        """Return the same for a terminal: a few lines by name."""
        state = self.state()
        streams = state["streams"]
        lines = {
            "tuples read": _listed(streams, lambda s: f"{s['tuples']:,}"),
            "rate in": _listed(streams, lambda s: f"{s['per_second']:,.0f}/s"),
            "results": f"{state['results']:,}; {state['results_per_second']:,.0f}/s",
        }
        if state["latency_s"]:
            shown = ", ".join(f"{name} {_milliseconds(value)}" for name, value in state["latency_s"].items())
            lines["latency"] = f"{shown}, a batch"
        if state["windows"]:
            held = _listed(state["windows"], lambda w: f"{w['tuples']:,}")
            lines["held in windows"] = f"{held}; {state['state_bytes'] / 1e6:,.1f} MB"
        if state["workers"]:
            lines[f"{self.workers}s"] = ", ".join(f"{w['name']} {_worker(w)}" for w in state["workers"])
        advice = {
            "late": "dropped: older than the watermark. Allow more lateness.",
            "rejected": "rejected: their time is null, or they could not be read.",
            "shed": "not admitted: more came than the join could take.",
        }
        for kind, text in advice.items():
            told = [*streams, state["others"]] if state["others"] else streams
            counts = [stream for stream in told if stream[kind]]
            if counts:
                lines[kind] = f"{_listed(counts, lambda s, k=kind: f'{s[k]:,}')}, {text}"
        lines |= state["notes"]
        lines["time"] = f"{state['seconds']:.1f} s"
        return lines


def _milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:,.0f} ms" if seconds >= 0.1 else f"{1e3 * seconds:.3g} ms"


def _worker(worker: Mapping[str, Any]) -> str:
    waiting = "" if worker["tuples"] is None else f", {worker['tuples']:,} tuples"
    return f"{100 * worker['load']:.0f}% busy{waiting}"


def _listed(entries: list[dict[str, Any]], show: Any) -> str:
    return ", ".join(f"{entry['name']} {show(entry)}" for entry in entries)


def _per(count: float, seconds: float) -> float:
    return max(0.0, count / seconds) if seconds > 0 else 0.0
