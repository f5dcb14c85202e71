"""Spark's own way to the papers' join: what users do today, for comparison.

Spark joins two streams only on equality. So both columns are cut into buckets as wide as the
user dares, every tuple of the second stream is copied into all buckets that its bands touch,
and Spark joins on the buckets with the real condition behind it.
"""

from __future__ import annotations

import re
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as sf

__all__ = ["bucket_join", "refusal_of", "start_own"]


_ANSWER_S = 60


def start_own(r: Any, s: Any, band: int, checkpoint: str) -> Any:
    """Start Spark's own join of R(x, y) and S(a, b) by their bands, as they are; see :func:`refusal_of`."""
    near = r.x.between(s.a - band, s.a + band) & r.y.between(s.b - band, s.b + band)
    return r.join(s, near).writeStream.format("noop").option("checkpointLocation", checkpoint).start()


def refusal_of(query: Any) -> str:
    """Return what Spark says to a query it refuses, or an empty text if it runs. It says so when data comes."""
    try:
        query.awaitTermination(_ANSWER_S)
        query.stop()
    except StreamingQueryException as error:
        said = re.search(r"Stream-stream join [^.;\n]*", str(error))
        return said[0].strip() if said else str(error).splitlines()[0]
    return ""


def bucket_join(r: Any, s: Any, *, band: int, bucket: int, window_s: int, lateness: str = "0 seconds") -> Any:
    """Return R(x, y, ts) joined with S(a, b, ts) within ``band`` of each other on both columns.

    Parameters
    ----------
    r, s : DataFrame
        The streams.
    band : int
        How far x and a, y and b may be apart.
    bucket : int
        Width of a bucket.
    window_s : int
        Length of both windows, in seconds.
    lateness : str
        The delay of both watermarks.
    """
    left = r.withWatermark("ts", lateness).select(
        sf.col("ts").alias("r_ts"),
        "x",
        "y",
        sf.floor(sf.col("x") / bucket).alias("bx"),
        sf.floor(sf.col("y") / bucket).alias("by"),
    )
    right = s.withWatermark("ts", lateness).select(
        sf.col("ts").alias("s_ts"),
        "a",
        "b",
        sf.explode(_buckets("a", band, bucket)).alias("bx"),
        sf.col("b").alias("b_again"),
    )
    right = right.select("s_ts", "a", "b", "bx", sf.explode(_buckets("b_again", band, bucket)).alias("by"))
    length = sf.expr(f"INTERVAL {window_s} SECONDS")
    near = (sf.col("s_ts") < sf.col("r_ts") + length) & (sf.col("r_ts") < sf.col("s_ts") + length)
    exact = sf.col("x").between(sf.col("a") - band, sf.col("a") + band)
    exact &= sf.col("y").between(sf.col("b") - band, sf.col("b") + band)
    joined = left.alias("l").join(right.alias("r"), (left.bx == right.bx) & (left.by == right.by) & near & exact)
    return joined.select("x", "y", "a", "b")


def _buckets(column: str, band: int, bucket: int) -> Any:
    low, high = sf.floor((sf.col(column) - band) / bucket), sf.floor((sf.col(column) + band) / bucket)
    return sf.sequence(low, high)
