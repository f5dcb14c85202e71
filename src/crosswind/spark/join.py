"""``crosswind.spark.join``: DataFrames in, a DataFrame out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import reduce
from itertools import count
from typing import Any

import pyarrow as pa
from pyspark.sql import types as st

from crosswind.engine.session import INDEXES, choose, lateness_of, parse_queries
from crosswind.errors import InputError
from crosswind.io.arrow import as_table
from crosswind.plan.explain import describe
from crosswind.plan.explanation import Explanation
from crosswind.plan.layout import choose_layout, describe_layout
from crosswind.query.tree import Column
from crosswind.spark.definition import Definition, spec_of
from crosswind.spark.dropped import check_late, late_type
from crosswind.spark.event_time import AUTO, DELAY, EventTime, marked, own_delay
from crosswind.spark.operator import OUTPUT, CellProcessor
from crosswind.spark.pack import PACKED, Heartbeat, Pack, Unpack
from crosswind.spark.partition import cell_keys
from crosswind.spark.progress import METRICS, counters
from crosswind.spark.schema import arrow_schema, check_carried, spark_type
from crosswind.spark.session import check_operator, check_stateful, cores_of
from crosswind.spark.skew import SAMPLE_ROWS, with_hot_places
from crosswind.spark.spec import QUERY, JoinSpec, unit_plan
from crosswind.spark.static import StaticCells

__all__ = ["explain", "join"]

_CACHE_MB = 1024

_joins = count(1)
"""Numbers the joins of this process: one query may have the same join twice, and counters need names of their own."""


def join(
    query: str | Mapping[str, str],
    frames: Mapping[str, Any],
    *,
    time: str | Mapping[str, str] = "ts",
    lateness: Any = None,
    event_time: str | None = AUTO,
    layout: str | tuple[int, ...] = "auto",
    cells: int | None = None,
    index: str = "auto",
    cache_mb: int = _CACHE_MB,
    sample: Mapping[str, Any] | None = None,
    late: str | None = None,
    heartbeats: Mapping[str, Any] | None = None,
    name: str | None = None,
) -> Any:
    """Join streaming DataFrames into a streaming DataFrame, or static ones into a static one.

    Parameters
    ----------
    query : str or mapping of str to str
        The SQL text; a mapping of names to texts runs many queries in one operator.
    frames : mapping of str to DataFrame
        The DataFrame of each stream; all streaming, or all static.
    time : str or mapping of str to str
        The time column, for all streams or by stream: a timestamp, a date or an integer
        (then Spark's watermark counts its units as milliseconds).
    lateness : str, timedelta, int or mapping of stream to one of these
        How much older than the newest tuple of its stream a tuple may be; nothing, if left out. A frame
        that has a watermark already keeps it: its delay is the lateness.
    event_time : str, optional
        The column of the result that carries event time, so that Spark's own operators (aggregations, deduplication,
        joins) and further joins go on from there: the time of a stream, or ``greatest``, ``least`` or ``coalesce``
        of several. ``auto``: the only such column, or the one with the name of a time column. None: no column.
    layout : str or tuple of int
        How pairs are spread over cells: ``auto``, ``hash``, ``range``, ``grid``, or the sides of
        a grid, one a stream. Every layout gives the same rows.
    cells : int, optional
        How many cells. If left out: by hash or range 16, or as many as there are cores if these are more; in a grid,
        and with static frames, as many as there are cores.
    index : str
        As for :func:`crosswind.open`.
    cache_mb : int
        How much of its windows a worker process keeps decoded between micro-batches.
    sample : mapping of str to DataFrame or Arrow-shaped, optional
        Some tuples of a stream (static). Keys or ranges that are very frequent in it are spread
        over several cells, so that one hot key does not keep one core busy while others wait.
    late : str, optional
        A further column of the result, of this name, for tuples that are not joined: late ones, and those without
        a time. In results it is null; such a tuple is a row of its own in which nothing else is filled. It is a struct:
        ``stream``, ``reason`` (``late`` or ``no time``), and under the name of each stream the tuple with all its
        columns. If left out, such tuples are only counted.
    heartbeats : mapping of str to DataFrame, optional
        For a stream that may be silent, a streaming DataFrame with its time column: each time says that the stream has
        come so far. It moves the watermark as a tuple of that time would, and is nothing else. Otherwise a silent
        stream holds the watermark, and all windows grow until it speaks.
    name : str, optional
        What the Spark UI, ``explain`` and ``observedMetrics`` call the join; its streams, if left out. The name of the
        streaming query is Spark's (``writeStream.queryName``).

    Returns
    -------
    DataFrame
        The columns of SELECT; with many queries a column ``query`` and the union of their
        columns. Nothing runs before you write or collect it.

    Examples
    --------
    >>> import crosswind as cw
    >>> r = spark.sql("SELECT 1 AS x, TIMESTAMP '2025-01-01 00:00:00' AS ts")
    >>> s = spark.sql("SELECT 2 AS a, TIMESTAMP '2025-01-01 00:00:03' AS ts")
    >>> joined = cw.spark.join(
    ...     "SELECT R.x, S.a FROM R [RANGE 5 SECONDS], S [RANGE 5 SECONDS] WHERE abs(R.x - S.a) <= 1",
    ...     {"R": r, "S": s},
    ...     lateness="10 seconds",
    ... )
    >>> joined.collect()
    [Row(x=1, a=2)]
    """
    spec, carried, streaming, spark = _spec(
        query, frames, time, lateness, event_time, layout, cells, index, cache_mb, sample
    )
    schema = _result_type(spec, frames)
    spec = replace(spec, name=name or "")
    if late is not None:
        check_late(late, spec.sources, schema.names)
        spec = replace(spec, late=late)
        schema = schema.add(late, late_type({source: frames[source] for source in spec.sources}))
    if not streaming:
        if heartbeats:
            raise InputError(
                "heartbeats are for streams that may be silent, and these frames are static. Leave them out."
            )
        return _static(spec, frames, schema)
    check_stateful(spark, spec.layout.total)
    beats = _checked_heartbeats(spec, frames, heartbeats or {})
    keys = cell_keys(spec.layout.total)
    packed = [_clocked(spec, frames, unit, keys, beats) for unit in range(len(spec.units))]
    blocks = reduce(lambda left, right: left.unionByName(right), packed).drop("time", "start")
    grouped = blocks.groupBy("cell")
    check_operator(grouped)
    joined = grouped.transformWithStateInPandas(CellProcessor(spec, keys), OUTPUT, "append", "EventTime")
    observed = joined.observe(f"{METRICS}: {spec.title} ({spec.identity()}_{next(_joins)})", *counters(keys))
    rows = observed.mapInArrow(Unpack(spec), schema)
    if carried is None:
        return rows
    return marked(rows, carried.column, max(spec.delay_ms(unit) for unit in range(len(spec.units))))


def explain(
    query: str | Mapping[str, str],
    frames: Mapping[str, Any],
    *,
    time: str | Mapping[str, str] = "ts",
    event_time: str | None = AUTO,
    layout: str | tuple[int, ...] = "auto",
    cells: int | None = None,
    sample: Mapping[str, Any] | None = None,
) -> Explanation:
    """Return, as text, how :func:`join` would run ``query`` over ``frames``, and why.

    Parameters are those of :func:`join`; nothing is run.

    Examples
    --------
    >>> import crosswind as cw
    >>> r = spark.sql("SELECT 1 AS x, TIMESTAMP '2025-01-01 00:00:00' AS ts")
    >>> plan = cw.spark.explain("SELECT a.x FROM R [NOW] a, R [NOW] b WHERE a.x = b.x", {"R": r}, cells=4)
    >>> plan.sections["layout"][0]
    'hash, 4 cells: ...'
    """
    spec, carried, streaming, _ = _spec(query, frames, time, None, event_time, layout, cells, "auto", _CACHE_MB, sample)
    sections = [*describe(spec.plan), ("layout", describe_layout(spec.layout, spec.plan))]
    return Explanation.of([*sections, ("event time", [carried.text] if carried and streaming else [])])


def _spec(
    query: str | Mapping[str, str],
    frames: Mapping[str, Any],
    time: str | Mapping[str, str],
    lateness: Any,
    event_time: str | None,
    layout: Any,
    cells: int | None,
    index: str,
    cache_mb: int,
    sample: Mapping[str, Any] | None,
) -> tuple[JoinSpec, EventTime | None, bool, Any]:
    choose("index", index, INDEXES)
    streaming = _check_frames(frames)
    spark = next(iter(frames.values())).sparkSession
    schemas = {name: arrow_schema(frame.schema) for name, frame in frames.items()}
    queries = parse_queries(query, schemas, time=time)
    plan, sources = unit_plan(queries)
    own = {
        source: own_delay(frames[source], unit.stream.time, source) if streaming else None
        for unit, source in zip(plan.units, sources, strict=True)
    }
    cores = cores_of(spark)
    chosen = choose_layout(plan, layout, cells, cores=cores, plenty=streaming)
    if sample is not None:
        tables = _samples(sample, schemas)
        by_unit = {unit: tables[source] for unit, source in enumerate(sources) if source in tables}
        chosen = with_hot_places(plan, chosen, by_unit, cores)
    definition = Definition(
        query if isinstance(query, str) else dict(query),
        schemas,
        {source: unit.stream.time for unit, source in zip(plan.units, sources, strict=True)},
        own,
        event_time,
        layout if isinstance(layout, str) else tuple(layout),
        chosen.cells,
        chosen.hot,
        chosen.hot_sides,
        index,
        cache_mb << 20,
    )
    spec, carried = spec_of(definition, plan, sources, chosen)
    if not streaming:
        spec = replace(spec, lag=0)
    spec = replace(spec, lateness=_lateness(spec, lateness, own, schemas))
    return spec, carried, streaming, spark


def _lateness(
    spec: JoinSpec, lateness: Any, own: Mapping[str, int | None], schemas: Mapping[str, pa.Schema]
) -> tuple[int, ...]:
    """Return the lateness of each unit in ticks; a watermark that a frame brings decides for it."""
    by_source = lateness if isinstance(lateness, Mapping) else dict.fromkeys(own, lateness)
    unknown = [name for name in by_source if name not in own]
    if unknown:
        raise InputError(f"lateness names the stream '{unknown[0]}', the query has {', '.join(own)}.")
    given = {source: by_source.get(source) for source in spec.sources}
    spans = {
        unit: "0s" if given[source] is None else given[source]
        for unit, source in zip(spec.units, spec.sources, strict=True)
    }
    ticks = lateness_of(spec.plan, spans, schemas)
    for unit, source in zip(spec.units, spec.sources, strict=True):
        delay = own[source]
        if delay is None:
            continue
        if given[source] is not None and spec.milliseconds(ticks[unit]) != delay:
            others = [name for name in own if own[name] is None]
            raise InputError(
                f"stream '{source}': lateness is {given[source]!r}, but its frame has a watermark already, with a "
                f"delay of {delay} ms. Leave lateness out for it"
                + (f": lateness={{{others[0]!r}: {given[source]!r}}}." if others else ".")
            )
        ticks[unit] = spec.ticks(delay)
    return tuple(ticks[unit] for unit in spec.units)


def _samples(sample: Mapping[str, Any], schemas: Mapping[str, pa.Schema]) -> dict[str, pa.Table]:
    """Return the samples as Arrow tables."""
    tables = {}
    for name, data in sample.items():
        if name not in schemas:
            raise InputError(f"sample names the stream '{name}', the frames are {', '.join(schemas)}.")
        if getattr(data, "isStreaming", False):
            raise InputError(f"the sample of stream '{name}' is a streaming DataFrame; give a static one.")
        small = data.limit(SAMPLE_ROWS).toArrow() if hasattr(data, "mapInArrow") else data
        tables[name] = as_table(small, schemas[name], name).slice(0, SAMPLE_ROWS)
    return tables


def _check_frames(frames: Mapping[str, Any]) -> bool:
    """Return whether the frames are streaming."""
    if not isinstance(frames, Mapping) or not frames:
        raise InputError(
            f"frames must be a mapping of stream names to DataFrames, got {type(frames).__name__}; "
            f'for example {{"R": r, "S": s}}.'
        )
    for name, frame in frames.items():
        if not hasattr(frame, "mapInArrow"):
            raise InputError(
                f"stream '{name}': got {type(frame).__name__}, which is not a Spark DataFrame; "
                f"for data in this process use crosswind.run() or crosswind.open()."
            )
    kinds = {name: bool(frame.isStreaming) for name, frame in frames.items()}
    if len(set(kinds.values())) > 1:
        shown = ", ".join(f"{name} is {'streaming' if kind else 'static'}" for name, kind in kinds.items())
        raise InputError(
            f"frames must be all streaming or all static, but {shown}. Read the static one with spark.readStream, "
            f"or, if it never changes, join it with Spark's own join."
        )
    return next(iter(kinds.values()))


def _packed(spec: JoinSpec, frames: Mapping[str, Any], unit: int, keys: tuple[int, ...], streaming: bool) -> Any:
    """Return the blocks of one unit; only the columns that the join needs travel.

    They travel under numbers: ``mapInArrow`` looks its columns up by name, and fails on a backtick or a point.
    """
    pack = Pack(spec, unit, keys, streaming)
    frame = frames[spec.sources[unit]]
    check_carried(frame.schema, pack.columns, spec.sources[unit])
    numbered = [f"{_quoted(name)} AS c{k}" for k, name in enumerate(pack.columns)]
    return frame.selectExpr(*numbered).mapInArrow(pack, PACKED)


def _clocked(
    spec: JoinSpec, frames: Mapping[str, Any], unit: int, keys: tuple[int, ...], heartbeats: Mapping[str, Any]
) -> Any:
    """Return the blocks of one unit with a watermark, unless the frame brought one: there may be no second."""
    blocks = _packed(spec, frames, unit, keys, True)
    stream, source = spec.plan.units[unit].stream, spec.sources[unit]
    if own_delay(frames[source], stream.time, stream.name) is not None:
        return blocks
    if source in heartbeats:
        times = heartbeats[source].selectExpr(f"{_quoted(stream.time)} AS c0")
        blocks = blocks.unionByName(times.mapInArrow(Heartbeat(spec, unit, keys), PACKED))
    return blocks.withWatermark("time", spec.delay(unit))


def _checked_heartbeats(spec: JoinSpec, frames: Mapping[str, Any], heartbeats: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return ``heartbeats``; refuse those that could not move the clock of their stream."""
    for name, beats in heartbeats.items():
        if name not in spec.sources:
            raise InputError(f"heartbeats names the stream '{name}', the query has {', '.join(spec.sources)}.")
        about = f"the heartbeats of stream '{name}'"
        if not getattr(beats, "isStreaming", False):
            raise InputError(
                f"{about} must be a streaming DataFrame with its time column, got {type(beats).__name__}"
                + (", a static one." if hasattr(beats, "isStreaming") else ".")
            )
        time = spec.plan.units[spec.sources.index(name)].stream.time
        wanted, found = frames[name].schema[time].dataType, {field.name: field.dataType for field in beats.schema}
        if found.get(time) != wanted:
            shown = ", ".join(f"{column} {kind.simpleString()}" for column, kind in found.items())
            raise InputError(
                f"{about} must have its time column, '{time}' of type {wanted.simpleString()}, but have {shown}."
            )
        if own_delay(frames[name], time, name) is not None:
            raise InputError(
                f"{about} cannot move its clock, for its frame brings a watermark. Put them into the frame before "
                f"withWatermark, as tuples that join nothing, or leave withWatermark out and say lateness=."
            )
        if any(field.metadata.get(DELAY) is not None for field in beats.schema):
            raise InputError(f"{about} have a watermark of their own; leave withWatermark out, the join defines it.")
    return heartbeats


def _static(spec: JoinSpec, frames: Mapping[str, Any], schema: st.StructType) -> Any:
    """Return the join of frames that are complete: every cell is gone through in time order."""
    total = spec.layout.total
    keys = cell_keys(total)
    packed = [_packed(spec, frames, unit, keys, False) for unit in range(len(spec.units))]
    blocks = reduce(lambda left, right: left.unionByName(right), packed)
    ordered = blocks.repartition(total, "cell").sortWithinPartitions("cell", "start", "unit")
    return ordered.mapInArrow(StaticCells(spec), schema)


def _result_type(spec: JoinSpec, frames: Mapping[str, Any]) -> st.StructType:
    """Return the Spark schema of the results: columns that pass through keep their very type."""
    fields: dict[str, st.StructField] = {}
    if spec.many:
        fields[QUERY] = st.StructField(QUERY, st.StringType())
    for entry in spec.plan.queries:
        for output in entry.query.outputs:
            expr = output.expr
            if isinstance(expr, Column):
                field = frames[spec.sources[entry.units[expr.role]]].schema[expr.name]
                made = st.StructField(output.name, field.dataType)
            else:
                made = st.StructField(output.name, spark_type(output.arrow))
            fields.setdefault(output.name, made)
    return st.StructType(list(fields.values()))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
