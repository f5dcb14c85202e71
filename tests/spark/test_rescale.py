"""Checkpoints that grow: other partitions, other cells, another query, and a source that runs on meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame

import crosswind as cw
from tests import seeds
from tests.conftest import SPARK
from tests.spark.frames import WAIT_S, Feed, static_frame
from tests.spark.pipelines import (
    LATENESS,
    MEMBER,
    NEAR,
    PAIR,
    SCHEMA,
    STREAMS,
    Frames,
    by_spark,
    counts,
    joined,
    random_batches,
    rows,
    twice_by_spark,
    twice_joined,
    two,
)
from tests.spark.session import session

pytestmark = [SPARK, pytest.mark.timeout(900)]
LONG = pytest.mark.long


class Stage:
    """A query that is stopped and started, with a checkpoint that changes in between."""

    def __init__(self, folder: Path, seed: str, rounds: int) -> None:
        self.folder, self.checkpoint = folder, folder / "checkpoint"
        self.batches = random_batches(seeds.chance(seed), rounds)
        self.feeds = {name: Feed(folder / f"in-{name}", SCHEMA) for name in STREAMS}
        self._given = 0
        self.schema: Any = None

    def frames(self) -> Frames:
        return {name: feed.frame() for name, feed in self.feeds.items()}

    def feed(self, rounds: int) -> None:
        """Let the source go on by some batches."""
        for _ in range(rounds):
            for name, parts in self.batches.items():
                self.feeds[name].add(parts[self._given])
            self._given += 1

    def run(self, live: Callable[[Frames], DataFrame], rounds: int) -> None:
        """Let the source go on, and the query until there is no more input."""
        self.feed(rounds)
        frame = live(self.frames())
        self.schema = frame.schema
        writer = frame.writeStream.format("parquet").option("checkpointLocation", str(self.checkpoint))
        query = writer.trigger(availableNow=True).start(str(self.folder / "out"))
        try:
            assert cw.spark.wait(query, WAIT_S)
        finally:
            query.stop()

    def rescale(self, **changes: Any) -> cw.spark.Checkpoint:
        """Change the checkpoint, into a new folder."""
        before = cw.spark.checkpoint(self.checkpoint)
        new = self.checkpoint.with_name(f"{self.checkpoint.name}+")
        after = cw.spark.rescale(self.checkpoint, to=new, **changes)
        assert cw.spark.checkpoint(self.checkpoint) == before, "the old checkpoint stays as it is"
        self.checkpoint = new
        return after

    def found(self) -> list[tuple]:
        return rows(session().read.schema(self.schema).parquet(str(self.folder / "out")).toArrow())

    def expected(self, kind: str) -> list[tuple]:
        """Return the rows of the join of all tuples but the last ones, which close the windows of the others."""
        self.batches = {name: parts[:-1] for name, parts in self.batches.items()}
        return rows(by_spark(self.static(), PAIR, kind.replace(",", "INNER JOIN")).toArrow())

    def static(self) -> Frames:
        """Return all tuples so far, as complete frames."""
        tables = {name: pa.concat_tables(parts[: self._given]) for name, parts in self.batches.items()}
        return {name: static_frame(table) for name, table in tables.items()}


@pytest.fixture
def without_tool(monkeypatch) -> None:
    """Be a session that cannot repartition by itself, as before PySpark 4.2 and over Spark Connect."""
    monkeypatch.setattr(type(session()), "_streamingCheckpointManager", None, raising=False)


def with_cells(cells: int, kind: str = ",", columns: str = PAIR) -> Callable[[Frames], DataFrame]:
    return lambda frames: joined(frames, columns, kind, cells=cells)


@pytest.mark.parametrize("kind", [",", pytest.param("LEFT JOIN", marks=LONG)])
def test_two_eight_two_partitions_with_a_running_source(tmp_path, kind):
    stage = Stage(tmp_path, f"partitions {kind}", 4)
    live = with_cells(8, kind)
    stage.run(live, 1)
    stage.feed(1)
    assert cw.spark.rescale(stage.checkpoint, partitions=8).partitions == 8
    stage.run(live, 1)
    assert cw.spark.rescale(stage.checkpoint, partitions=2).partitions == 2
    stage.run(live, 2)
    held = cw.spark.checkpoint(stage.checkpoint)
    assert held.partitions == 2
    assert {cell.partition for cell in held.joins[0].cells} == {0, 1}
    assert stage.found() == stage.expected(kind)


@pytest.mark.usefixtures("without_tool")
@LONG
@pytest.mark.parametrize("kind", ["LEFT JOIN", ","])
def test_partitions_change_without_sparks_own_tool(tmp_path, kind):
    stage = Stage(tmp_path, f"copied {kind}", 4)
    live = with_cells(8, kind)
    stage.run(live, 2)
    before = cw.spark.checkpoint(stage.checkpoint)
    stage.feed(1)
    after = stage.rescale(partitions=8)
    assert (after.partitions, after.joins[0].tuples) == (8, before.joins[0].tuples)
    stage.run(live, 0)
    assert stage.rescale(partitions=2).partitions == 2
    stage.run(live, 2)
    assert stage.found() == stage.expected(kind)


@pytest.mark.parametrize("kind", ["LEFT JOIN", pytest.param(",", marks=LONG)])
def test_four_cells_become_sixteen_with_a_running_source(tmp_path, kind):
    stage = Stage(tmp_path, f"cells {kind}", 4)
    stage.run(with_cells(4, kind), 2)
    stage.feed(1)
    after = stage.rescale(cells=16, partitions=4)
    assert (len(after.joins[0].cells), after.partitions) == (16, 4)
    stage.run(with_cells(16, kind), 0)
    stage.rescale(cells=3)
    stage.run(with_cells(3, kind), 2)
    assert stage.found() == stage.expected(kind)


@LONG
def test_all_operators_of_a_pipeline_are_repartitioned(tmp_path):
    """An aggregation behind the join keeps its state, too; the file sink misses no micro-batch."""
    stage = Stage(tmp_path, "aggregated", 4)
    live = lambda frames: counts(joined(frames, MEMBER, cells=4))  # noqa: E731 - as pipelines have it
    stage.run(live, 2)
    assert stage.rescale(partitions=5).others
    stage.run(live, 1)
    with pytest.raises(cw.UnsupportedError, match="another lag of Spark's watermark, and other operators"):
        stage.rescale(event_time=None)
    stage.rescale(cells=7)
    stage.run(lambda frames: counts(joined(frames, MEMBER, cells=7)), 2)
    stage.batches = {name: parts[:-1] for name, parts in stage.batches.items()}
    assert stage.found() == rows(counts(by_spark(stage.static(), MEMBER)).toArrow())


@LONG
def test_joins_one_after_the_other_change_one_by_one(tmp_path):
    stage = Stage(tmp_path, "twice", 4)
    stage.run(twice_joined, 2)
    assert len(cw.spark.checkpoint(stage.checkpoint).joins) == 2
    with pytest.raises(cw.InputError, match=r"several joins; say which with operator=. It has 0: SELECT .*1: SELECT"):
        stage.rescale(cells=3)
    stage.rescale(partitions=3)
    stage.run(twice_joined, 3)
    stage.batches = {name: parts[:-1] for name, parts in stage.batches.items()}
    assert stage.found() == rows(twice_by_spark(stage.static()).toArrow())


@LONG
def test_a_query_with_shorter_windows_goes_on_and_one_with_longer_windows_is_refused(tmp_path):
    """Event time lags by the window of R, so Spark's watermark moves with it."""
    stage = Stage(tmp_path, "windows", 4)
    sql = "SELECT R.id, S.id AS a, R.ts, S.ts AS q FROM R [RANGE {0} SECONDS], S [RANGE 10 SECONDS] WHERE " + NEAR
    live = {
        span: (lambda frames, s=span: cw.spark.join(sql.format(s), two(frames), lateness=LATENESS, cells=4))
        for span in (20, 5)
    }
    stage.run(live[20], 2)
    before = cw.spark.checkpoint(stage.checkpoint).watermark_ms
    with pytest.raises(cw.InputError, match=r"(?s)does not know:.*the window of 'R' is longer .*Say accept_gaps=True"):
        cw.spark.rescale(stage.checkpoint, query=sql.format(21), to=tmp_path / "no")
    with pytest.raises(cw.InputError, match="nothing to change"):
        cw.spark.rescale(stage.checkpoint)
    with pytest.raises(cw.InputError, match="partitions=0 is not possible"):
        cw.spark.rescale(stage.checkpoint, partitions=0)
    assert not list(tmp_path.glob("no*"))
    after = stage.rescale(query=sql.format(5))
    assert after.watermark_ms == before + 15_000
    stage.run(live[5], 2)
    with pytest.warns(cw.CrosswindWarning, match="the window of 'R' is longer"):
        stage.rescale(query=sql.format(20), accept_gaps=True)
    assert stage.found() == expected_of(stage, {0: 20, 1: 20, 2: 5, 3: 5})


def expected_of(stage: Stage, windows: dict[int, int]) -> list[tuple]:
    """Return the pairs by the window of R that was asked for when the later of the two came."""
    tuples = {
        name: [(k, row) for k, part in enumerate(stage.batches[name][:4]) for row in part.to_pylist()] for name in "RS"
    }
    found = []
    for m, r in tuples["R"]:
        for n, s in tuples["S"]:
            gap = (s["ts"] - r["ts"]).total_seconds()
            near = gap < windows[max(m, n)] if gap >= 0 else -gap < 10
            if near and abs(r["x"] - s["x"]) <= 1:
                found.append((r["id"], s["id"], r["ts"], s["ts"]))
    return sorted(found, key=repr)
