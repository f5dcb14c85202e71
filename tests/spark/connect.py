"""Joins over Spark Connect, in a process of its own: ``python -m tests.spark.connect FOLDER``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import crosswind as cw
from tests.spark.session import options

SQL = "SELECT R.x, S.x AS a FROM R [RANGE 10], S [RANGE 10] WHERE abs(R.x - S.x) <= 1"


IN_TIME = "SELECT R.x, R.ts FROM R [RANGE 5 SECONDS], S [RANGE 5 SECONDS] WHERE abs(R.x - S.x) <= 1"


def joined_in_time(streams: dict[str, DataFrame]) -> DataFrame:
    """Return the same join over timestamps; the time of R carries event time on."""
    frames = {name: frame.select("x", sf.timestamp_seconds("ts").alias("ts")) for name, frame in streams.items()}
    return cw.spark.join(IN_TIME, frames)


def counts_of(joined: DataFrame, spark: SparkSession, folder: Path) -> list[int]:
    """Return how many results there are per ten seconds, as far as Spark's watermark has passed them."""
    counts = joined.groupBy(sf.window("ts", "10 seconds")).count().select("count")
    writer = counts.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint-counts"))
    assert cw.spark.wait(writer.trigger(availableNow=True).start(str(folder / "counts")), 200)
    return sorted(row[0] for row in spark.read.schema(counts.schema).parquet(str(folder / "counts")).collect())


def rescaled(checkpoint: Path) -> list[int]:
    """Return the partitions and cells of one made from ``checkpoint``, and what it holds."""
    before = cw.spark.checkpoint(checkpoint)
    copied = cw.spark.rescale(checkpoint, partitions=3, to=checkpoint.with_name("copied"))
    assert [cell.tuples for cell in copied.joins[0].cells] == [cell.tuples for cell in before.joins[0].cells]
    made = cw.spark.rescale(checkpoint.with_name("copied"), layout=(1, 4), to=checkpoint.with_name("rescaled"))
    return [made.partitions, len(made.joins[0].cells), made.joins[0].tuples]


def main(folder: Path) -> None:
    """Join ``in-R`` and ``in-S``, static and streaming, and print both results and an error."""
    spark = SparkSession.builder.remote("local[2]").config(map=options(folder / "scratch")).getOrCreate()
    assert ".connect." in type(spark).__module__
    schema = "x long, ts long"
    static = {name: spark.read.schema(schema).parquet(str(folder / f"in-{name}")) for name in ("R", "S")}
    done = {"static": sorted(map(list, cw.spark.join(SQL, static, cells=2).collect()))}
    streams = {
        name: spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder / f"in-{name}"))
        for name in ("R", "S")
    }
    joined = cw.spark.join(SQL, streams, layout=(2, 2))
    writer = joined.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.trigger(availableNow=True).start(str(folder / "out"))
    assert cw.spark.wait(query, 200)
    done["streaming"] = sorted(map(list, spark.read.schema(joined.schema).parquet(str(folder / "out")).collect()))
    counted = [cw.spark.progress_of(entry) for entry in query.recentProgress]
    done["results"] = sum(entry.results for entry in counted if entry is not None)
    done["rescaled"] = rescaled(folder / "checkpoint")
    done["counts"] = counts_of(joined_in_time(streams), spark, folder)
    wrong = "SELECT R.x FROM R [RANGE 10], S [RANGE 10] WHERE (R.x + S.x + 9223372036854775800) * 1 > 0"
    try:
        cw.spark.join(wrong, static).collect()
    except Exception as failure:
        done["error"] = type(cw.spark.error_of(failure)).__name__
    print(json.dumps(done), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
