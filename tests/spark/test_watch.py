"""Watching a query: every micro-batch is reported once, whatever Spark reports in between."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.conftest import SPARK
from tests.waiting import wait_until

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
        wait_until(lambda: query.lastProgress is not None, "a report that there was nothing to do")
        assert (query.lastProgress.batchId, query.lastProgress.numInputRows) == (0, 0)
        assert watch.news() == []
        for number in range(3):
            hidden = folder / f".{number}"
            pq.write_table(pa.table({"x": list(range(10 + number))}), hidden)
            hidden.rename(folder / f"{number}.parquet")
            wait_until(lambda n=number: seen.extend(watch.news()) or len(seen) > n, f"micro-batch {number}")
        query.processAllAvailable()
        seen += watch.news()
    finally:
        watch.stop()
    assert [(progress.batchId, progress.numInputRows) for progress, _ in seen] == [(0, 10), (1, 11), (2, 12)]


def test_what_is_held_stays_known_while_nothing_comes(spark, tmp_path):
    """A micro-batch without tuples, or with tuples for one cell only, says nothing of what other cells hold."""
    import crosswind as cw
    from crosswind.spark.watch import Watch
    from tests.spark.frames import Feed

    schema = pa.schema([("x", pa.int64()), ("ts", pa.int64())])
    feeds = {name: Feed(tmp_path / f"in-{name}", schema) for name in ("R", "S")}
    sql = "SELECT R.x FROM R [RANGE 100000], S [RANGE 100000] WHERE R.x = S.x"
    frames = {name: feed.frame() for name, feed in feeds.items()}
    joined = cw.spark.join(sql, frames, layout="hash", cells=2)
    heard: list[cw.spark.Progress] = []
    listener = cw.spark.Listener(heard.append)
    spark.streams.addListener(listener)
    writer = joined.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.start()
    watch, seen = Watch(query), []

    def done(tuples: int) -> bool:
        seen.extend(report for _, report in watch.news() if report is not None)
        return sum(report.tuples for report in seen) == tuples and seen[-1].tuples == 0

    given = 0
    try:
        for number, values in enumerate([range(40), [3] * 5, [7]]):
            for feed in feeds.values():  # Spark may find the file of one before that of the other: two micro-batches
                feed.add(pa.table({"x": list(values), "ts": [1000 + number] * len(values)}, schema))
                given += len(values)
            wait_until(lambda n=given: done(n), f"{given} tuples, and a micro-batch without tuples after them")
        wait_until(lambda: len(heard) >= len(seen), "the listener to hear of all")
    finally:
        watch.stop()
        spark.streams.removeListener(listener)
    held = 0
    for report in seen:
        held += report.tuples  # nothing expires, and with this layout nothing is copied
        assert report.window_tuples == held, seen
        assert report.state_bytes > 0
    assert held == given == 92
    assert sum(not report.cells for report in seen) >= 3, "there were micro-batches in which no cell had anything to do"
    assert {report.batch: report.window_tuples for report in heard} == {r.batch: r.window_tuples for r in seen}
    latest = cw.spark.progress_of(query)
    assert latest is not None
    assert latest.window_tuples == held, "the query knows what all cells hold"
    lone = [cw.spark.progress_of(entry) for entry in query.recentProgress]
    assert any(entry is not None and entry.window_tuples == 0 for entry in lone), "one report alone cannot know"
