"""Nothing here was published with the papers."""

from __future__ import annotations

__all__ = ["NOT_SHOWN"]

NOT_SHOWN = (
    (
        "other-streaming-engines",
        "Flink, RisingWave, ksqlDB and others refuse this predicate or run it on one core, and are not part of this "
        "installation; Spark's own join, with the bands turned into buckets by hand, is in the full run",
    ),
)
