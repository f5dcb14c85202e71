"""Which micro-batch a task belongs to, as Spark tells its workers."""

from __future__ import annotations

from pyspark import TaskContext

__all__ = ["is_first_batch"]

_BATCH = "streaming.sql.batchId"


def is_first_batch() -> bool:
    """Whether this task belongs to the first micro-batch of a checkpoint: only then may its join be without state."""
    context = TaskContext.get()
    number = None if context is None else context.getLocalProperty(_BATCH)
    return number == "0"
