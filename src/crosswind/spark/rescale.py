"""``crosswind.spark.rescale``: a checkpoint for more partitions, for other cells, or for another query."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from functools import reduce
from typing import Any

from pyspark.sql import functions as sf

from crosswind.engine.session import parse_queries
from crosswind.errors import CrosswindWarning, InputError, SnapshotError, UnsupportedError
from crosswind.plan.layout import choose_layout
from crosswind.spark.change import check_change, gaps_of
from crosswind.spark.checkpoint import Checkpoint, JoinContent, checkpoint, reading, session_of, state_frame, unreadable
from crosswind.spark.definition import Definition
from crosswind.spark.failure import error_of
from crosswind.spark.folder import CheckpointFolder, FolderDraft
from crosswind.spark.partition import cell_keys
from crosswind.spark.reroute import MANIFEST, MOVED, Reroute, watermark_after
from crosswind.spark.schema import arrow_schema
from crosswind.spark.seed import AdoptProcessor, CopyProcessor, write_state
from crosswind.spark.session import check_stateful
from crosswind.spark.spec import JoinSpec, unit_plan

__all__ = ["rescale"]

KEEP = "as it was"
"""Stands for the event time that the join had."""


def rescale(
    path: Any,
    *,
    partitions: int | None = None,
    cells: int | None = None,
    layout: str | tuple[int, ...] | None = None,
    query: str | Mapping[str, str] | None = None,
    frames: Mapping[str, Any] | None = None,
    event_time: str | None = KEEP,
    to: Any = None,
    operator: int | None = None,
    accept_gaps: bool = False,
    spark: Any = None,
) -> Checkpoint:
    """Make a checkpoint fit for more or fewer partitions, for other cells, or for another query.

    The streaming query must be stopped. Start it again with what you gave here (``cells=``, the query, ...), and with
    ``to``, if you gave it, as its ``checkpointLocation``. It goes on with the next micro-batch, from the same offsets.

    Parameters
    ----------
    path : str or Path
        The ``checkpointLocation`` of a streaming query.
    partitions : int, optional
        Into how many partitions the state is divided: as many tasks work at once.
    cells, layout
        As for :func:`crosswind.spark.join`.
    query : str or mapping of str to str, optional
        Another query over the same streams. Results whose last tuple comes from now on are those of this query.
    frames : mapping of str to DataFrame or pyarrow.Schema, optional
        The frames of the streams, if their schemas have changed.
    event_time : str, optional
        As for :func:`crosswind.spark.join`, if it is to change.
    to : str or Path, optional
        A folder that does not exist yet: the new checkpoint. The old one stays as it is, and is the way back. If left
        out, the new one takes the place of the old one, which is kept beside it as ``path.before-N``, N being its last
        micro-batch.
    operator : int, optional
        Which join, where the query has several (``crosswind checkpoint show`` numbers them).
    accept_gaps : bool
        Go on, with a warning, though the new query needs what is not known of the tuples that wait: a longer window, a
        column that was not kept, whether a tuple has matched. Without it that is an error which says what is missing.
    spark : SparkSession, optional
        The active one if left out.

    Returns
    -------
    Checkpoint
        What the new checkpoint holds.

    Examples
    --------
    >>> import crosswind as cw
    >>> cw.spark.rescale("no/such/folder", partitions=8)
    Traceback (most recent call last):
    crosswind.errors.InputError: there is no checkpoint at no/such/folder: ...
    """
    folder, session = CheckpointFolder(path), session_of(spark)
    changes = {"cells": cells, "layout": layout, "query": query, "frames": frames}
    is_other = any(value is not None for value in changes.values()) or event_time != KEEP
    if partitions is None and not is_other:
        raise InputError("nothing to change; give partitions=, cells=, layout=, query=, frames= or event_time=.")
    _check_partitions(partitions)
    before = checkpoint(path, spark=session)
    _check_stopped(session, folder)
    check_stateful(session, partitions or before.partitions)
    draft = FolderDraft(folder, to)
    count = before.partitions if partitions is None else partitions
    if is_other:
        join = _chosen(before, operator)
        old, new = _specs(join, changes, event_time)
        _check_change(before, old, new, is_other_query=query is not None or frames is not None, accept_gaps=accept_gaps)
        with draft:
            _reroute(session, folder, before, join, old, new, draft, count)
            draft.lag(before.batch, old.lag - new.lag)
    elif count != before.partitions:
        with draft:
            _repartition(session, folder, before, count, draft)
    return checkpoint(draft.path, spark=session)


# -- what is asked for -----------------------------------------------------------


def _check_partitions(partitions: Any) -> None:
    if partitions is not None and (type(partitions) is not int or partitions < 1):
        raise InputError(f"partitions={partitions!r} is not possible; give a whole number, at least 1.")


def _check_stopped(spark: Any, folder: CheckpointFolder) -> None:
    mine = folder.query_id()
    if any(str(query.id) == mine for query in spark.streams.active):
        raise InputError(f"the query of the checkpoint {folder.path} is running; stop it first.")


def _chosen(before: Checkpoint, operator: int | None) -> JoinContent:
    """Return the join that is to change."""
    numbers = [join.operator for join in before.joins]
    named = "; ".join(f"{join.operator}: {join.query}" for join in before.joins)
    if operator is None and len(numbers) > 1:
        raise InputError(f"the checkpoint has several joins; say which with operator=. It has {named}.")
    if operator is not None and operator not in numbers:
        raise InputError(f"operator={operator!r} is no join of this checkpoint; it has {named}.")
    return before.joins[0 if operator is None else numbers.index(operator)]


def _specs(join: JoinContent, changes: Mapping[str, Any], event_time: str | None) -> tuple[JoinSpec, JoinSpec]:
    """Return the join of the checkpoint, and the one that it is to become."""
    known = join.definition
    if not join.cells:
        raise SnapshotError(f"the state in this checkpoint has format {join.format}, which this version does not read.")
    if known is None:
        raise SnapshotError(
            "the checkpoint does not say what its join is made of: it was written by an older version of Crosswind. "
            "Start its query once more as it is, with this version, stop it, and try again."
        )
    old = known.make()[0]
    if any(manifest.identity != old.identity() for manifest in join.manifests.values()):
        raise SnapshotError(
            "the cells of this checkpoint do not belong to the join that it describes: it was written by another "
            "version of Crosswind, or is damaged."
        )
    return old, _changed(known, changes, event_time).make()[0]


def _changed(known: Definition, changes: Mapping[str, Any], event_time: str | None) -> Definition:
    query, frames = changes["query"], changes["frames"]
    layout, cells = changes["layout"], changes["cells"]
    schemas = {name: _schema(frame) for name, frame in (frames or {}).items()}
    unknown = [name for name in schemas if name not in known.schemas]
    if unknown:
        raise InputError(f"frames names the stream '{unknown[0]}', the checkpoint has {', '.join(known.schemas)}.")
    made = replace(known, schemas={**known.schemas, **schemas})
    if query is not None:
        made = replace(made, query=query if isinstance(query, str) else dict(query))
    if event_time != KEEP:
        made = replace(made, event_time=event_time)
    if layout is None and cells is not None and not isinstance(known.layout, str):
        layout = "grid"
    if layout is not None:
        made = replace(made, layout=layout if isinstance(layout, str) else tuple(layout))
    if cells is not None:
        made = replace(made, cells=cells)
    if query is not None or layout is not None:  # what was hot is so for one query and kind of layout
        made = replace(made, hot=(), hot_sides=(1, 1))
    return _settled(made, cells)


def _settled(made: Definition, cells: int | None) -> Definition:
    """Return ``made`` with the number of cells that its layout comes to."""
    plan, _ = unit_plan(parse_queries(made.query, dict(made.schemas), time=made.times))
    asked = cells if isinstance(made.layout, tuple) else made.cells
    return replace(made, cells=choose_layout(plan, made.layout, asked).cells)


def _schema(frame: Any) -> Any:
    return arrow_schema(frame.schema) if hasattr(frame, "mapInArrow") else frame


def _check_change(before: Checkpoint, old: JoinSpec, new: JoinSpec, *, is_other_query: bool, accept_gaps: bool) -> None:
    check_change(old, new)
    if before.unfinished and is_other_query:
        raise InputError(
            f"micro-batch {before.batch + 1} was begun and not finished: some of its results may be out already. Start "
            f"the query once more as it is, with trigger(availableNow=True), and let it end."
        )
    if old.lag != new.lag and (before.others or len(before.joins) > 1):
        raise UnsupportedError(
            "the new query needs another lag of Spark's watermark, and other operators of this query depend on it. "
            "Give an event_time= with the lag that it had, or start with a new checkpointLocation."
        )
    gaps = gaps_of(old, new)
    told = "\n".join(f"  - {gap}" for gap in gaps)
    if gaps and not accept_gaps:
        raise InputError(
            f"the new query needs what the checkpoint does not know:\n{told}\nSay accept_gaps=True to go on all the "
            f"same."
        )
    if gaps:
        warnings.warn(f"of what the checkpoint does not know:\n{told}", CrosswindWarning, stacklevel=4)


# -- doing it --------------------------------------------------------------------


def _reroute(
    spark: Any,
    folder: CheckpointFolder,
    before: Checkpoint,
    join: JoinContent,
    old: JoinSpec,
    new: JoinSpec,
    draft: FolderDraft,
    partitions: int,
) -> None:
    """Write a checkpoint in which the tuples of ``join`` wait in the cells of ``new``."""
    others = [entry for entry in before.joins if entry.operator != join.operator]
    if partitions != before.partitions and (others or before.others):
        raise InputError("change the partitions of a query with several stateful operators in a step of its own.")
    keys = cell_keys(new.layout.total)
    rows = _stored(spark, folder, join.operator, before.batch)
    ordered = rows.repartition(before.partitions, "cell").sortWithinPartitions("cell")
    moved = ordered.mapInArrow(Reroute(old, new), MOVED)
    every = spark.createDataFrame([(key, None, None, None) for key in keys], MOVED)
    passed = watermark_after(old, join.manifests.values())
    batch_ms = old.own_watermark(int(folder.offsets(before.batch)[0].get("batchWatermarkMs", 0)))
    processor = AdoptProcessor(new, keys, passed, batch_ms)
    made = _write_state(spark, folder, moved.unionByName(every), processor, draft, partitions)
    draft.copy(without=[join.operator])
    draft.take_state(made, join.operator, before.batch + 1)
    draft.set_partitions(before.batch, partitions)


def _repartition(spark: Any, folder: CheckpointFolder, before: Checkpoint, partitions: int, draft: FolderDraft) -> None:
    """Divide the state into ``partitions``, by Spark's own tool where there is one and all is committed."""
    tool = getattr(spark, "_streamingCheckpointManager", None)
    if tool is None or before.unfinished:
        _copy_cells(spark, folder, before, partitions, draft)
        return
    draft.copy()
    with reading(folder):
        tool.repartition(draft.uri, partitions)
    draft.fold(before.batch, partitions)


def _copy_cells(spark: Any, folder: CheckpointFolder, before: Checkpoint, partitions: int, draft: FolderDraft) -> None:
    """Write a checkpoint in which all cells have the state that they had, in other partitions."""
    if before.others:
        raise UnsupportedError(
            f"the query has other stateful operators ({', '.join(before.others.values())}). Only Spark itself can "
            f"change their partitions: from PySpark 4.2 on, without Connect, and if its last micro-batch is finished."
        )
    draft.copy(without=[join.operator for join in before.joins])
    for join in before.joins:
        rows = _stored(spark, folder, join.operator, before.batch).withColumn("timer", sf.lit(None).cast("long"))
        nothing = sf.lit(None).cast("string").alias("name"), sf.lit(None).cast("binary").alias("content")
        timed = _timers(spark, folder, join.operator, before.batch).select("cell", *nothing, "timer")
        made = _write_state(spark, folder, rows.unionByName(timed), CopyProcessor(), draft, partitions)
        draft.take_state(made, join.operator, before.batch + 1)
    draft.set_partitions(before.batch, partitions)


def _write_state(
    spark: Any, folder: CheckpointFolder, rows: Any, processor: AdoptProcessor, draft: FolderDraft, partitions: int
) -> str:
    conf = folder.offsets(folder.committed())[0].get("conf", {})
    try:
        return write_state(spark, rows, processor, draft.scratch(), partitions, conf)
    except Exception as failure:  # without Connect it may be one of Py4J's
        raise error_of(failure) or unreadable(folder, failure) from None


def _stored(spark: Any, folder: CheckpointFolder, operator: int, batch: int) -> Any:
    """Return the state of all cells of a join: ``cell``, ``name`` and ``content``, manifests among them."""
    manifests = state_frame(spark, folder, operator, batch, "manifest").select(
        sf.col("key.cell").alias("cell"), sf.lit(MANIFEST).alias("name"), sf.col("value.content").alias("content")
    )
    blocks = state_frame(spark, folder, operator, batch, "blocks").select(
        sf.col("key.cell").alias("cell"),
        sf.col("user_map_key.name").alias("name"),
        sf.col("user_map_value.content").alias("content"),
    )
    return reduce(lambda a, b: a.unionByName(b), [manifests, blocks])


def _timers(spark: Any, folder: CheckpointFolder, operator: int, batch: int) -> Any:
    reader = spark.read.format("statestore").option("operatorId", operator).option("batchId", batch)
    timers = reader.option("readRegisteredTimers", "true").load(folder.uri)
    return timers.select(sf.col("key.cell").alias("cell"), sf.col("expiration_timestamp_ms").alias("timer"))
