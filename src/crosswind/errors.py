"""Every error Crosswind raises on purpose.

An error says what was wrong, what it got, what is allowed and what to do next.
Catch :class:`CrosswindError` to catch them all.
"""

from __future__ import annotations

import difflib
import errno
from collections.abc import Iterable

__all__ = [
    "ArithmeticOverflowError",
    "ClosedJoinError",
    "CrosswindError",
    "CrosswindWarning",
    "InputError",
    "JobError",
    "LateTupleWarning",
    "MonitorError",
    "NullTimeWarning",
    "OverloadError",
    "QueryError",
    "SnapshotError",
    "SparkError",
    "UnsupportedError",
    "did_you_mean",
]


class CrosswindError(Exception):
    """Base class of all errors that Crosswind raises on purpose."""


class QueryError(CrosswindError):
    """The query text is wrong: syntax, names, types or windows.

    Parameters
    ----------
    message : str
        What is wrong, what was got, what is allowed.
    sql : str, optional
        The query text; with ``start`` it is shown with a marker under the place.
    start, end : int, optional
        Character offsets of the place in ``sql``.
    """

    def __init__(self, message: str, sql: str | None = None, start: int = -1, end: int = -1) -> None:
        self.reason = message
        self.sql = sql
        self.start = start
        self.end = end
        super().__init__(message if sql is None or start < 0 else message + "\n" + point_at(sql, start, end))


class UnsupportedError(QueryError):
    """The query is well formed, but this expression or feature cannot be run."""


class InputError(CrosswindError):
    """Data handed to Crosswind does not fit what was declared."""


class ArithmeticOverflowError(CrosswindError):
    """An exact integer or decimal computation left the 64-bit range."""


class ClosedJoinError(CrosswindError):
    """The join has been finished or closed and takes no more input."""


class OverloadError(CrosswindError):
    """The join did not keep up with what it was given, within the time allowed."""


class SnapshotError(CrosswindError):
    """A snapshot cannot be restored into this join."""


class WorkerError(CrosswindError):
    """A worker of a parallel engine has died, so the join cannot go on."""


class JobError(CrosswindError):
    """A job file is wrong or cannot be run."""


class SparkError(CrosswindError):
    """Spark could not be started, or refused what it was asked."""


class MonitorError(CrosswindError):
    """The page or the metrics of a job cannot be served."""

    @classmethod
    def of_port(cls, what: str, host: str, port: int, option: str, error: OSError) -> MonitorError:
        """Return the error that says why ``host:port`` cannot be listened on, and what to do."""
        if error.errno == errno.EADDRINUSE:
            reason = f"port {port} is taken"
        elif error.errno in (errno.EACCES, errno.EPERM):
            reason = f"port {port} may not be used: ports below 1024 are for root"
        else:
            reason = f"{host}:{port} cannot be listened on: {error.strerror or error}"
        return cls(f"cannot serve the {what}: {reason}. Name another, or 0 for any that is free: {option} 0.")


class CrosswindWarning(UserWarning):
    """Base class of all warnings that Crosswind gives."""


class LateTupleWarning(CrosswindWarning):
    """Tuples older than their stream's watermark were dropped."""


class NullTimeWarning(CrosswindWarning):
    """Tuples without a time were rejected."""


def point_at(sql: str, start: int, end: int) -> str:
    """Render the line of ``sql`` that holds ``start`` with carets under the place."""
    start = max(0, min(start, len(sql)))
    line_start = sql.rfind("\n", 0, start) + 1
    line_end = sql.find("\n", start)
    line_end = len(sql) if line_end < 0 else line_end
    number = sql.count("\n", 0, start) + 1
    column = start - line_start
    width = max(1, min(end, line_end) - start)
    gutter = f"  line {number}, column {column + 1}: "
    marker = " " * (len(gutter) + column) + "^" * width
    return f"{gutter}{sql[line_start:line_end]}\n{marker}"


def did_you_mean(word: str, choices: Iterable[str]) -> str:
    """Return ``" Did you mean 'x'?"`` for the closest choice, or an empty string."""
    folded = {choice.casefold(): choice for choice in choices}
    close = difflib.get_close_matches(word.casefold(), list(folded), n=1, cutoff=0.6)
    return f" Did you mean '{folded[close[0]]}'?" if close else ""
