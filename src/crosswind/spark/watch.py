"""A running streaming query, watched from the driver: what each micro-batch did, and how it ends."""

from __future__ import annotations

import re
from typing import Any

from pyspark.errors import PySparkException

from crosswind.errors import CrosswindError, SparkError
from crosswind.spark.failure import error_of
from crosswind.spark.progress import Progress, progress_of

__all__ = ["Watch", "failure_of"]

_RAISED = re.compile(r"^(?:[\w.]+\.)?(\w+(?:Error|Exception|Warning)): (.+)$", re.MULTILINE)
_CAUSE = re.compile(r"^Caused by: (?:[\w.$]+: )?(.+)$", re.MULTILINE)
_CAUSES = 2
"""Innermost causes that are shown."""
_REASON_CHARS = 400


class Watch:
    """Reads the progress of ``query`` as it comes, each micro-batch once.

    Parameters
    ----------
    query : StreamingQuery
        What ``writeStream.start()`` returned.
    """

    def __init__(self, query: Any) -> None:
        self.query = query
        self._seen = -1
        self._idle: tuple[int, str] | None = None
        self._before: Progress | None = None

    @property
    def is_active(self) -> bool:
        """Whether the query still runs."""
        return bool(self.query.isActive)

    def news(self) -> list[tuple[Any, Progress | None]]:
        """Return what was reported since the last call: Spark's progress, and the join's counters in it."""
        last = self.query.lastProgress
        if last is None or last.batchId <= self._seen or (last.batchId, last.timestamp) == self._idle:
            return []
        if _ran(last) and last.batchId == self._seen + 1:
            fresh = {last.batchId: last}
        else:
            fresh = {p.batchId: p for p in self.query.recentProgress if p.batchId > self._seen and _ran(p)}
        if not _ran(last):
            self._idle = last.batchId, last.timestamp
        self._seen = max(fresh, default=self._seen)
        return [(progress, self._counters(progress)) for _, progress in sorted(fresh.items())]

    def _counters(self, progress: Any) -> Progress | None:
        """Return the join's counters; what cells hold that had nothing to do is known from before."""
        found = progress_of(progress, self._before)
        self._before = found or self._before
        return found

    def check(self) -> None:
        """Raise what made the query fail, if something did.

        Raises
        ------
        CrosswindError
            The user's own error if a worker met one, else a SparkError with Spark's reason.
        """
        if self.is_active:
            return
        try:
            self.query.awaitTermination(1)  # raises what query.exception() returns, and its causes with it
        except PySparkException as failure:
            raise failure_of(failure) from None

    def stop(self) -> None:
        """Stop the query and wait until it has."""
        self.query.stop()


def _ran(progress: Any) -> bool:
    """Whether a micro-batch was run: Spark reports that there was nothing to do under the number of the next one."""
    return "addBatch" in progress.durationMs


def failure_of(failure: BaseException | str) -> CrosswindError:
    """Return ``failure`` as an error of few words: Crosswind's own if there is one inside, else Spark's reason."""
    own = error_of(failure)
    if own is not None:
        return own
    text = str(failure)
    # The innermost error of a Python worker says more than the frames of the JVM around it.
    raised = _RAISED.findall(text.partition("\n\tat ")[0])
    if "Traceback (most recent call last)" in text and raised:
        return SparkError(f"a worker failed: {': '.join(raised[-1])}")
    causes = [_short(cause) for cause in _CAUSE.findall(text)][-_CAUSES:]
    reason = _short(re.split(r"\n\s*=== |\n\nJVM stacktrace", text, maxsplit=1)[0])
    reason = re.sub(r"^\[STREAM_FAILED\] Query .*? terminated with exception: ", "", reason.strip(), flags=re.DOTALL)
    more = "".join(f"\n  because: {cause}" for cause in dict.fromkeys(causes) if cause not in reason)
    return SparkError(f"Spark says: {reason}{more}")


def _short(text: str) -> str:
    return re.split(r"\s+SQLSTATE", text, maxsplit=1)[0].strip()[:_REASON_CHARS]
