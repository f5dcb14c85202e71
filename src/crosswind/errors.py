"""Every error Crosswind raises on purpose.

An error says what was wrong, what it got, what is allowed and what to do next.
Catch :class:`CrosswindError` to catch them all.
"""

from __future__ import annotations

import difflib
import errno
import sys
import warnings
from collections.abc import Iterable

__all__ = [
    "ArithmeticOverflowError",
    "ClosedJoinError",
    "ConcurrentCallError",
    "CrosswindError",
    "CrosswindWarning",
    "InputError",
    "JobError",
    "LateTupleWarning",
    "MonitorError",
    "NullTimeWarning",
    "OverflowWarning",
    "OverloadError",
    "QueryError",
    "SnapshotError",
    "SparkError",
    "UnsupportedError",
    "did_you_mean",
    "warn_caller",
]


class CrosswindError(Exception):
    """Base class of all errors that Crosswind raises on purpose.

    Examples
    --------
    >>> import crosswind as cw
    >>> try:
    ...     cw.run("SELECT x FROM R [NOW]", {"R": {"x": [1], "ts": [1]}})
    ... except cw.CrosswindError as error:
    ...     print(type(error).__name__)
    QueryError
    """


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

    Examples
    --------
    >>> import crosswind as cw
    >>> try:
    ...     cw.run("SELECT a.y FROM R [NOW] a, R [NOW] b", {"R": {"x": [1], "ts": [1]}})
    ... except cw.QueryError as error:
    ...     print(error.reason)
    Unknown column 'y' of a. ...
    """

    def __init__(self, message: str, sql: str | None = None, start: int = -1, end: int = -1) -> None:
        self.reason = message
        self.sql = sql
        self.start = start
        self.end = end
        super().__init__(message if sql is None or start < 0 else message + "\n" + point_at(sql, start, end))


class UnsupportedError(QueryError):
    """The query is well formed, but this expression or feature cannot be run.

    Examples
    --------
    >>> import crosswind as cw
    >>> try:
    ...     cw.run("SELECT a.x FROM R [NOW] a, R [NOW] b ORDER BY a.x", {"R": {"x": [1], "ts": [1]}})
    ... except cw.UnsupportedError as error:
    ...     print(error.reason)
    ORDER BY ...
    """


class InputError(CrosswindError):
    """Data handed to Crosswind does not fit what was declared.

    Examples
    --------
    >>> import crosswind as cw
    >>> try:
    ...     cw.run("SELECT a.x FROM R [NOW] a, R [NOW] b", {"R": 5})
    ... except cw.InputError as error:
    ...     print(error)
    stream 'R': got int...
    """


class ArithmeticOverflowError(CrosswindError):
    """An exact integer or decimal computation left the 64-bit range.

    Examples
    --------
    >>> import crosswind as cw
    >>> try:
    ...     cw.run("SELECT a.x FROM R [NOW] a, R [NOW] b WHERE a.x * b.x > 0", {"R": {"x": [2**62], "ts": [1]}})
    ... except cw.ArithmeticOverflowError as error:
    ...     print("64-bit" in str(error))
    True
    """


class ClosedJoinError(CrosswindError):
    """The join has been finished or closed and takes no more input.

    Examples
    --------
    >>> import crosswind as cw, pyarrow as pa
    >>> r = pa.schema({"x": pa.int64(), "ts": pa.int64()})
    >>> sql = "SELECT a.x, b.x AS y FROM R [RANGE 5] a, R [RANGE 5] b WHERE a.x = b.x + 1"
    >>> join = cw.open(sql, {"R": r})
    >>> join.close()
    >>> try:
    ...     join.push("R", {"x": [1], "ts": [1]})
    ... except cw.ClosedJoinError as error:
    ...     print(error)
    the join ...
    """


class ConcurrentCallError(CrosswindError):
    """The join was called while it was in the middle of another call.

    A join is for one thread at a time, one call after the other.

    Examples
    --------
    >>> import crosswind as cw, pyarrow as pa
    >>> r = pa.schema({"x": pa.int64(), "ts": pa.int64()})
    >>> sql = "SELECT a.x, b.x AS y FROM R [RANGE 5] a, R [RANGE 5] b WHERE a.x = b.x + 1"
    >>> with cw.open(sql, {"R": r}) as join:
    ...     stop = join.subscribe(lambda query, table: join.advance("R", 9))
    ...     try:
    ...         join.push("R", {"x": [1, 2], "ts": [1, 2]})
    ...     except cw.ConcurrentCallError as error:
    ...         print(error)
    the join ...
    """


class OverloadError(CrosswindError):
    """The join did not keep up with what it was given, within the time allowed.

    Examples
    --------
    >>> import crosswind as cw, pyarrow as pa
    >>> r = pa.schema({"x": pa.int64(), "ts": pa.int64()})
    >>> sql = "SELECT a.x, b.x AS y FROM R [RANGE 5] a, R [RANGE 5] b WHERE a.x = b.x + 1"
    >>> import time
    >>> with cw.open(sql, {"R": r}) as join:
    ...     try:
    ...         with join.feeder(lambda found: time.sleep(0.2), capacity=1, timeout=0.01) as feeder:
    ...             for x in range(50):
    ...                 feeder.put("R", {"x": [x], "ts": [x]})
    ...     except cw.OverloadError as error:
    ...         print(error)
    the join did not keep up: ...
    """


class SnapshotError(CrosswindError):
    """A snapshot cannot be restored into this join.

    Examples
    --------
    >>> import crosswind as cw, pyarrow as pa
    >>> r = pa.schema({"x": pa.int64(), "ts": pa.int64()})
    >>> sql = "SELECT a.x, b.x AS y FROM R [RANGE 5] a, R [RANGE 5] b WHERE a.x = b.x + 1"
    >>> with cw.open(sql, {"R": r}) as join:
    ...     try:
    ...         join.restore(b"something else")
    ...     except cw.SnapshotError as error:
    ...         print("snapshot" in str(error))
    True
    """


class WorkerError(CrosswindError):
    """A worker of a parallel engine has died, so the join cannot go on.

    Examples
    --------
    >>> import crosswind as cw
    >>> issubclass(cw.WorkerError, cw.CrosswindError)  # the join is lost; restore its last snapshot into a new one
    True
    """


class JobError(CrosswindError):
    """A job file is wrong or cannot be run.

    Examples
    --------
    >>> from pathlib import Path
    >>> import crosswind as cw
    >>> from crosswind.io.job import load_job
    >>> try:
    ...     load_job(Path("nowhere.toml"))
    ... except cw.JobError as error:
    ...     print(error)
    nowhere.toml: cannot read the job file: No such file or directory.
    """


class SparkError(CrosswindError):
    """Spark could not be started, or refused what it was asked.

    Examples
    --------
    >>> import crosswind as cw
    >>> error = cw.SparkError("Java was not found. Install a Java of 17 or later.")
    >>> isinstance(error, cw.CrosswindError)
    True
    """


class MonitorError(CrosswindError):
    """The page or the metrics of a job cannot be served.

    Examples
    --------
    >>> import socket
    >>> import crosswind as cw
    >>> from crosswind.monitor.page import LivePage
    >>> from crosswind.monitor.recorder import Recorder
    >>> with socket.create_server(("127.0.0.1", 0)) as other:
    ...     try:
    ...         LivePage(Recorder("near", "kang"), other.getsockname()[1])
    ...     except cw.MonitorError as error:
    ...         print(error)
    cannot serve the page: port ... is taken. Name another, or 0 for any that is free: --ui-port 0.
    """

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
    """Base class of all warnings that Crosswind gives.

    Examples
    --------
    >>> import crosswind as cw
    >>> import warnings
    >>> warnings.simplefilter("error", cw.CrosswindWarning)  # let nothing be dropped silently
    >>> warnings.simplefilter("default", cw.CrosswindWarning)
    """


class LateTupleWarning(CrosswindWarning):
    """Tuples older than their stream's watermark were dropped.

    Examples
    --------
    >>> import crosswind as cw, pyarrow as pa
    >>> r = pa.schema({"x": pa.int64(), "ts": pa.int64()})
    >>> sql = "SELECT a.x, b.x AS y FROM R [RANGE 5] a, R [RANGE 5] b WHERE a.x = b.x + 1"
    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as seen, cw.open(sql, {"R": r}) as join:
    ...     warnings.simplefilter("always")
    ...     for ts in (10, 3):
    ...         found = join.push("R", {"x": [1], "ts": [ts]})
    >>> [entry.category.__name__ for entry in seen]
    ['LateTupleWarning']
    """


class NullTimeWarning(CrosswindWarning):
    """Tuples without a time were rejected.

    Examples
    --------
    >>> import crosswind as cw, pyarrow as pa
    >>> r = pa.schema({"x": pa.int64(), "ts": pa.int64()})
    >>> sql = "SELECT a.x, b.x AS y FROM R [RANGE 5] a, R [RANGE 5] b WHERE a.x = b.x + 1"
    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as seen, cw.open(sql, {"R": r}) as join:
    ...     warnings.simplefilter("always")
    ...     found = join.push("R", {"x": [1], "ts": pa.array([None], pa.int64())})
    >>> [entry.category.__name__ for entry in seen]
    ['NullTimeWarning']
    """


class OverflowWarning(CrosswindWarning):
    """Tuples were set aside: with a partner, or alone, they make arithmetic of the query leave the 64-bit range.

    A batch whose tuples do that when it comes is refused with :class:`ArithmeticOverflowError`. Where it turns out
    only later (ROWS windows are joined when the watermarks have passed, tuples without a partner come out when their
    windows close), the join goes on without these tuples, and counts them in ``stats.rejected``.

    Examples
    --------
    >>> import crosswind as cw, pyarrow as pa
    >>> r = pa.schema({"x": pa.int64(), "ts": pa.int64()})
    >>> sql = "SELECT R.x FROM R [ROWS 5], S [ROWS 5] WHERE R.x * S.x > 0"
    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as seen, cw.open(sql, {"R": r, "S": r}) as join:
    ...     warnings.simplefilter("always")
    ...     found = [join.push(name, {"x": [x], "ts": [5]}) for name, x in (("R", 2**62), ("S", 4))]
    ...     found = join.finish()
    >>> [entry.category.__name__ for entry in seen]
    ['OverflowWarning']
    """


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


def warn_caller(message: str, category: type[Warning]) -> None:
    """Warn at the line outside of this package that led here."""
    frame, depth = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("crosswind."):
        frame, depth = frame.f_back, depth + 1
    warnings.warn(message, category, stacklevel=depth - 1)
