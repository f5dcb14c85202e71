"""Failures in a worker, brought back as the error that the user would have had in one process."""

from __future__ import annotations

import re
from typing import Any

import crosswind.errors as errors
from crosswind.errors import CrosswindError, SparkError

__all__ = ["error_of", "wait"]

_RAISED = re.compile(
    r"^crosswind\.errors\.(\w+): (.*?)(?=\n\s*\n|\n\tat |\s+SQLSTATE: |\n===|\Z)", re.MULTILINE | re.DOTALL
)

_CONTEXT = re.compile(r"\n=== Streaming Query ===|\n\nLogical Plan:|\n== SQL")
"""Where Spark's message ends and the query itself begins."""
_KEPT = "The micro-batch was not taken; a query that is started again with its checkpoint goes on from there."
_CAUSES = (
    (
        re.compile(r"No space left on device|Disk quota exceeded", re.IGNORECASE),
        "a disk is full ({0}). Make room where the checkpoint, the output and spark.local.dir are. " + _KEPT,
    ),
    (
        re.compile(
            r"\[(CANNOT_LOAD_STATE_STORE[.\w]*)\] (?:An error occurred during loading state\. )?"
            r"(?:Error reading streaming state file of )?(.*?)\.?(?: If the stream job|\s+SQLSTATE|\n|$)"
        ),
        "Spark cannot load the state of this checkpoint: {2} ({1}). Restore the folder of the checkpoint from a copy, "
        "or start with a new checkpointLocation.",
    ),
    (
        re.compile(r"Python worker (?:failed to connect back|did not connect back in time)"),
        "a Python worker did not start in time ({0}). The machine is overloaded, or the Python of the workers lacks a "
        "package: see the log, and PYSPARK_PYTHON. " + _KEPT,
    ),
    (
        re.compile(r"Python worker exited unexpectedly(?: \(crashed\))?|Failed to read from Python worker"),
        "a Python worker died ({0}): it was killed, most often because memory ran out, or it crashed. Give executors "
        "more memory beside the JVM (spark.executor.memoryOverhead), or the join a smaller cache_mb=. " + _KEPT,
    ),
    (
        re.compile(r"ExecutorLostFailure \(executor \S+ exited [^)]*\)(?: Reason: [^\n]*)?"),
        "an executor was lost again and again ({0}). " + _KEPT,
    ),
)
"""What Spark says when something outside the join went wrong, and the same in one sentence with what to do."""


def error_of(failure: BaseException | str | None) -> CrosswindError | None:
    r"""Return Crosswind's own error inside a Spark exception, or a short one for a cause that is known, or None.

    Causes that are known: a full disk, state that cannot be loaded, a Python worker that died or did not start, an
    executor that was lost.

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
        return _known_cause(str(failure))
    kind = getattr(errors, found[1], CrosswindError)
    if not (isinstance(kind, type) and issubclass(kind, CrosswindError)):
        kind = CrosswindError
    return kind(found[2].strip())


def _known_cause(text: str) -> SparkError | None:
    text = _CONTEXT.split(text, maxsplit=1)[0]
    for pattern, sentence in _CAUSES:
        if (found := pattern.search(text)) is not None:
            return SparkError(sentence.format(found[0], *found.groups()))
    return None


def wait(query: Any, timeout: float | None = None) -> bool:
    """Wait for a streaming query to end; if it fails, raise the user's own error or a known cause in one sentence.

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
