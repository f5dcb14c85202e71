"""The same join, distributed: streaming DataFrames in, a streaming DataFrame out.

``join`` is the way in. Rows are packed into columnar blocks and routed to cells (``pack``,
``route``); each cell is one key of a stateful operator whose state is a manifest and
immutable blocks (``cell``, ``state``), from which it joins with the engines of the other
rooms; result blocks are unpacked to rows. Counters travel with the result blocks
(``progress``). The only room that imports pyspark.
"""

from __future__ import annotations

from crosswind.spark.checkpoint import Checkpoint, checkpoint
from crosswind.spark.failure import error_of, wait
from crosswind.spark.join import explain, join
from crosswind.spark.progress import Listener, Progress, progress_of
from crosswind.spark.rescale import rescale
from crosswind.spark.session import local_checkpoints, settings

__all__ = [
    "Checkpoint",
    "Listener",
    "Progress",
    "checkpoint",
    "error_of",
    "explain",
    "join",
    "local_checkpoints",
    "progress_of",
    "rescale",
    "settings",
    "wait",
]
