"""Watching a query: every micro-batch is reported once, whatever Spark reports in between."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.conftest import SPARK
from tests.spark.command import wait_until

pytest.importorskip("pyspark")
pytestmark = [SPARK, pytest.mark.timeout(300)]


def test_a_batch_is_not_missed_for_a_report_that_there_was_nothing_to_do(spark, tmp_path):
    """Spark reports triggers that found nothing, too, under the number of the micro-batch that will come."""
    from crosswind.spark.watch import Watch

    folder = tmp_path / "in"
    folder.mkdir()
    frame = spark.readStream.schema("x long").parquet(str(folder))
    writer = frame.writeStream.foreachBatch(lambda batch, _: batch.collect())
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    watch, seen = Watch(query), []
    try:
        wait_until(lambda: query.lastProgress is not None, 60, "a report that there was nothing to do")
        assert (query.lastProgress.batchId, query.lastProgress.numInputRows) == (0, 0)
        assert watch.news() == []
        for number in range(3):
            hidden = folder / f".{number}"
            pq.write_table(pa.table({"x": list(range(10 + number))}), hidden)
            hidden.rename(folder / f"{number}.parquet")
            wait_until(lambda n=number: seen.extend(watch.news()) or len(seen) > n, 60, f"micro-batch {number}")
        query.processAllAvailable()
        seen += watch.news()
    finally:
        watch.stop()
    assert [(progress.batchId, progress.numInputRows) for progress, _ in seen] == [(0, 10), (1, 11), (2, 12)]
