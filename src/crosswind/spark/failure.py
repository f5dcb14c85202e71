"""Failures in a worker, brought back as the error that the user would have had in one process."""

from __future__ import annotations

import re
from typing import Any

import crosswind.errors as errors
from crosswind.errors import CrosswindError

__all__ = ["error_of", "wait"]

_RAISED = re.compile(
    r"^crosswind\.errors\.(\w+): (.*?)(?=\n\s*\n|\n\tat |\s+SQLSTATE: |\n===|\Z)", re.MULTILINE | re.DOTALL
)


def error_of(failure: BaseException | str | None) -> CrosswindError | None:
    r"""Return Crosswind's own error inside a Spark exception, or None if there is none.

    Parameters
    ----------
    failure : exception or str
        What ``query.exception()`` returned, or what a Spark action raised.

    Examples
    --------
    >>> from crosswind.spark import error_of
    >>> print(error_of("Traceback ...\ncrosswind.errors.InputError: no stream 'Q'\n\tat org.apache..."))
    no stream 'Q'
    """
    if isinstance(failure, CrosswindError) or failure is None:
        return failure
    found = _RAISED.search(str(failure))
    if found is None:
        return None
    kind = getattr(errors, found[1], CrosswindError)
    if not (isinstance(kind, type) and issubclass(kind, CrosswindError)):
        kind = CrosswindError
    return kind(found[2].strip())


def wait(query: Any, timeout: float | None = None) -> bool:
    """Wait for a streaming query to end, and raise the user's own error if a worker met one.

    Parameters
    ----------
    query : StreamingQuery
        What ``writeStream.start()`` returned.
    timeout : float, optional
        Seconds to wait at most.

    Returns
    -------
    bool
        Whether the query has ended.

    Examples
    --------
    >>> import crosswind as cw
    >>> query = spark.readStream.format("rate").load().writeStream.format("noop").start()
    >>> cw.spark.wait(query, timeout=0.1)  # it still runs
    False
    >>> query.stop()
    >>> cw.spark.wait(query)
    True
    """
    try:
        ended = query.awaitTermination(timeout) if timeout is not None else query.awaitTermination()
    except Exception as failure:
        error = error_of(failure)
        if error is None:
            raise
        raise error from None
    return True if timeout is None else bool(ended)
