"""The way in: ``run`` for finite tables, ``open`` for live streams."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Any, overload

import numpy as np
import pyarrow as pa

from crosswind.engine.choice import ENGINES, Choice, choose_engine
from crosswind.engine.ingest.admission import Admission
from crosswind.engine.join import Join
from crosswind.engine.live import LiveJoin
from crosswind.engine.many import ManyJoin, Replan
from crosswind.errors import CrosswindError, InputError, UnsupportedError, did_you_mean
from crosswind.io.arrow import as_table, ticks_of
from crosswind.plan.axis import axis_of
from crosswind.plan.calibration import calibration
from crosswind.plan.compile import Plan, compile_plan
from crosswind.plan.cost import curve_of
from crosswind.query import parse, parse_duration
from crosswind.query.tree import Query
from crosswind.window.vector import take_rows

__all__ = ["ENGINES", "INDEXES", "choose", "lateness_of", "open", "open_plan", "parse_queries", "plan_for", "run"]

INDEXES = ("auto", "scan", "band", "hash")
_CHUNK = 8192
"""Tuples of a stream that ``run`` replays at a time."""


@overload
def run(
    query: str,
    tables: Mapping[str, Any],
    *,
    time: str | Mapping[str, str] = ...,
    engine: str = ...,
    index: str = ...,
    workers: int | str | None = ...,
) -> pa.Table: ...
@overload
def run(
    query: Mapping[str, str],
    tables: Mapping[str, Any],
    *,
    time: str | Mapping[str, str] = ...,
    engine: str = ...,
    index: str = ...,
    workers: int | str | None = ...,
) -> dict[str, pa.Table]: ...
def run(
    query: str | Mapping[str, str],
    tables: Mapping[str, Any],
    *,
    time: str | Mapping[str, str] = "ts",
    engine: str = "auto",
    index: str = "auto",
    workers: int | str | None = None,
) -> pa.Table | dict[str, pa.Table]:
    """Join finite tables, replayed in time order.

    Parameters
    ----------
    query : str or mapping of str to str
        The SQL text; a mapping of names to texts gives a mapping of names to results.
    tables : mapping of str to Arrow-shaped
        The content of each stream.
    time : str or mapping of str to str
        The time column, for all streams or by stream.
    engine, index, workers
        Which strategy runs it; every choice gives the same rows.

    Returns
    -------
    pyarrow.Table
        The columns of SELECT, in no particular order of rows.

    Examples
    --------
    >>> import crosswind as cw, pyarrow as pa
    >>> r = pa.table({"ts": [1, 5, 9], "x": [10, 20, 30]})
    >>> s = pa.table({"ts": [2, 6], "a": [11, 29]})
    >>> cw.run("SELECT R.x, S.a FROM R [RANGE 5], S [RANGE 5] WHERE abs(R.x - S.a) <= 1", {"R": r, "S": s}).to_pylist()
    [{'x': 10, 'a': 11}, {'x': 30, 'a': 29}]
    """
    if not isinstance(tables, Mapping):
        raise InputError(f"tables must be a mapping of stream names to tables, got {type(tables).__name__}.")
    whole = {name: as_table(data, None, name) for name, data in tables.items()}
    schemas = {name: table.schema for name, table in whole.items()}
    if isinstance(query, str):
        with open(query, schemas, time=time, engine=engine, index=index, workers=workers) as join:
            parts = [join.push(stream, chunk) for stream, chunk in _replay(join, whole)]
            return pa.concat_tables([*parts, join.finish()])
    with open(query, schemas, time=time, engine=engine, index=index, workers=workers) as joins:
        found = [joins.push(stream, chunk) for stream, chunk in _replay(joins, whole)]
        found.append(joins.finish())
    return {name: pa.concat_tables([tables[name] for tables in found]) for name in query}


@overload
def open(
    query: str,
    schemas: Mapping[str, pa.Schema],
    *,
    time: str | Mapping[str, str] = ...,
    lateness: Any = ...,
    engine: str = ...,
    index: str = ...,
    workers: int | str | None = ...,
    layout: tuple[int, int] | None = ...,
    hurry: bool = ...,
    rate: float | Mapping[str, float] | None = ...,
    admission: str = ...,
    output_rows: int = ...,
    ordered: bool = ...,
    keep_late: bool = ...,
    basic_window: int | None = ...,
    restore: bytes | None = ...,
) -> Join: ...
@overload
def open(
    query: Mapping[str, str],
    schemas: Mapping[str, pa.Schema],
    *,
    time: str | Mapping[str, str] = ...,
    lateness: Any = ...,
    engine: str = ...,
    index: str = ...,
    workers: int | str | None = ...,
    layout: tuple[int, int] | None = ...,
    hurry: bool = ...,
    rate: float | Mapping[str, float] | None = ...,
    admission: str = ...,
    output_rows: int = ...,
    ordered: bool = ...,
    keep_late: bool = ...,
    basic_window: int | None = ...,
    restore: bytes | None = ...,
) -> ManyJoin: ...
def open(
    query: str | Mapping[str, str],
    schemas: Mapping[str, pa.Schema],
    *,
    time: str | Mapping[str, str] = "ts",
    lateness: Any = "0s",
    engine: str = "auto",
    index: str = "auto",
    workers: int | str | None = None,
    layout: tuple[int, int] | None = None,
    hurry: bool = False,
    rate: float | Mapping[str, float] | None = None,
    admission: str = "block",
    output_rows: int = 4_000_000,
    ordered: bool = False,
    keep_late: bool = False,
    basic_window: int | None = None,
    restore: bytes | None = None,
) -> Join | ManyJoin:
    """Open a live join in this process.

    Parameters
    ----------
    query : str or mapping of str to str
        The SQL text; a mapping of names to texts lets many queries share one join.
    schemas : mapping of str to pyarrow.Schema
        What the batches of each stream look like.
    time : str or mapping of str to str
        The time column, for all streams or by stream.
    lateness : str, timedelta, int or mapping of stream to one of these
        How much older than the newest tuple of its stream a tuple may be: ``"10 seconds"``;
        an integer where the time columns are integers.
    engine, index, workers
        Which strategy runs it; every choice gives the same rows.
    layout : tuple of int, optional
        Rows and columns of workers for ``engine="grid"``; chosen from the windows if left out.
    hurry : bool
        Results are wanted soon: ``engine="auto"`` minds it, and with ``engine="handshake"`` tuples run ahead so that
        results come at once, not when they pass each other.
    rate : float or mapping of str to float, optional
        Tuples/s to expect of each stream, if that is known: ``engine="auto"`` and the layout of a grid mind it.
    admission : str
        What happens when results are more than can be held: ``"block"`` lets ``push`` take as long as it takes;
        ``"shed"`` drops input tuples at random once a call has about ``output_rows`` results, and counts every one in
        ``stats.shed``. No result of what was admitted is ever lost.
    output_rows : int
        Results of one call beyond which ``admission="shed"`` drops input.
    ordered : bool
        Give results in time order, held back until the watermark has passed them.
    keep_late : bool
        KeepPairs tuples that came too late for :meth:`Join.late`, instead of only counting them.
    basic_window : int, optional
        Tuples in a basic window; chosen from a cost model if left out (``crosswind.explain`` shows it).
    restore : bytes, optional
        What :meth:`Join.snapshot` of a join with the same query returned.

    Returns
    -------
    Join or ManyJoin
        Call ``push``, ``advance`` and ``finish`` on it. With many queries these return
        results by the name of the query.

    Examples
    --------
    >>> import crosswind as cw, pyarrow as pa
    >>> r = pa.schema({"ts": pa.int64(), "x": pa.int32()})
    >>> s = pa.schema({"ts": pa.int64(), "a": pa.int32()})
    >>> with cw.open("SELECT x, a FROM R [RANGE 5], S [RANGE 5] WHERE x < a", {"R": r, "S": s}) as join:
    ...     _ = join.push("R", {"ts": [1], "x": [10]})
    ...     join.push("S", {"ts": [2], "a": [11]}).to_pylist()
    [{'x': 10, 'a': 11}]
    """
    plan = plan_for(query, schemas, time=time)
    if basic_window is not None and (type(basic_window) is not int or basic_window < 1):
        raise InputError(f"basic_window={basic_window!r} is not possible; give a whole number of tuples, at least 1.")
    choose("engine", engine, ENGINES)
    choose("index", index, INDEXES)
    admitting = Admission(admission, output_rows)
    settings: dict[str, Any] = {
        "index": index,
        "ordered": ordered,
        "keep_late": keep_late,
        "basic_window": basic_window,
        "choice": choose_engine(
            plan,
            engine,
            index,
            workers,
            layout=layout,
            hurry=hurry,
            ordered=ordered,
            sheds=admitting.sheds,
            rate=rate,
        ),
        "admission": admitting,
    }

    def replan(queries: dict[str, str]) -> Replan:
        changed = plan_for(queries, schemas, time=time)
        return changed, lateness_of(changed, lateness, schemas)

    replanned = None if isinstance(query, str) else replan
    join = open_plan(plan, lateness_of(plan, lateness, schemas), replanned, **settings)
    if restore is not None:
        try:
            join.restore(restore)
        except BaseException:
            join.close()
            raise
    return join


def open_plan(
    plan: Plan,
    lateness: Mapping[str, int],
    replan: Callable[[dict[str, str]], Replan] | None = None,
    *,
    index: str = "auto",
    ordered: bool = False,
    keep_late: bool = False,
    basic_window: int | None = None,
    choice: Choice | None = None,
    admission: Admission | None = None,
) -> Join | ManyJoin:
    """Open a join of a plan that is known to be runnable.

    ``lateness`` is in ticks, by stream; ``replan`` compiles the plan anew when queries come and
    go. Without it, and with one query, results come as tables and not by query.
    """
    settings: dict[str, Any] = {
        "index": index,
        "ordered": ordered,
        "keep_late": keep_late,
        "basic_window": basic_window or curve_of(plan, index, calibration().constants).size,
        "choice": choice,
        "admission": admission,
    }
    if replan is None and len(plan.queries) == 1:
        return Join(plan, lateness, **settings)
    return ManyJoin(plan, lateness, replan or _fixed, **settings)


def _fixed(queries: dict[str, str]) -> Replan:
    raise UnsupportedError(f"the queries of this join are fixed; open a new one with {', '.join(queries)}.")


def plan_for(
    query: str | Mapping[str, str], schemas: Mapping[str, pa.Schema], *, time: str | Mapping[str, str] = "ts"
) -> Plan:
    """Parse and compile ``query``, and refuse what this engine cannot run."""
    return compile_plan(parse_queries(query, schemas, time=time), many=not isinstance(query, str))


def parse_queries(
    query: str | Mapping[str, str], schemas: Mapping[str, pa.Schema], *, time: str | Mapping[str, str] = "ts"
) -> dict[str, Query]:
    """Parse ``query``, by name, and refuse what cannot be run."""
    if not isinstance(query, str | Mapping):
        raise InputError(f"query must be SQL text, or a mapping of names to texts, got {type(query).__name__}.")
    if not isinstance(time, str | Mapping):
        raise InputError(
            f"time must be the name of a column, or a mapping of streams to names, got {type(time).__name__}."
        )
    for pair in time.items() if not isinstance(time, str) else ():
        if not all(isinstance(name, str) for name in pair):
            raise InputError(f"time maps names of streams to names of columns, got {pair[0]!r}: {pair[1]!r}.")
    texts = {"query": query} if isinstance(query, str) else dict(query)
    if not isinstance(schemas, Mapping):
        raise InputError(f"schemas must be a mapping of stream names to pyarrow schemas, got {type(schemas).__name__}.")
    for name, schema in schemas.items():
        if not isinstance(name, str):
            raise InputError(f"schemas maps names of streams to pyarrow schemas, got the name {name!r}.")
        if not isinstance(schema, pa.Schema):
            raise InputError(f"the schema of stream '{name}' must be a pyarrow.Schema, got {type(schema).__name__}.")
    if not texts:
        raise InputError("the mapping of queries is empty; give at least one name and its SQL text.")
    for name in texts:
        if not isinstance(name, str) or not name:
            raise InputError(f"the name of a query must be text, got {name!r}.")
    queries = {name: parse(text, schemas, time) for name, text in texts.items()}
    kinds = {axis_of(entry.streams).ticks_per_second is None for entry in queries.values()}
    if len(kinds) > 1:
        raise UnsupportedError(
            "some queries have integer time columns, others timestamps: they have no time in common. "
            "Open one join for each kind."
        )
    outer = [name for name, entry in queries.items() if entry.kind != "inner"]
    if outer and not isinstance(query, str):
        raise UnsupportedError(
            f"the query '{outer[0]}' is a {queries[outer[0]].kind.upper()} JOIN, and such a query does not share a "
            f"join with others; open a join of its own for it."
        )
    return queries


def choose(what: str, got: Any, allowed: tuple[str, ...]) -> None:
    """Raise InputError unless ``got`` is one of ``allowed``."""
    if got not in allowed:
        raise InputError(
            f"{what}={got!r} is not known; allowed: {', '.join(allowed)}.{did_you_mean(str(got), allowed)}"
        )


def lateness_of(plan: Plan, lateness: Any, schemas: Mapping[str, pa.Schema]) -> dict[str, int]:
    """Return the allowed lateness of each stream in ticks of the common axis."""
    streams = list(dict.fromkeys(unit.stream.name for unit in plan.units))
    if not isinstance(lateness, Mapping):
        lateness = dict.fromkeys(streams, lateness)
    unknown = [name for name in lateness if name not in streams and name not in schemas]
    if unknown:
        raise InputError(
            f"lateness names the stream '{unknown[0]}', the query has {', '.join(streams)}."
            f"{did_you_mean(unknown[0], streams)}"
        )
    return {name: _span(plan, lateness.get(name, 0)) for name in streams}


def _span(plan: Plan, given: Any) -> int:
    is_seconds = not isinstance(given, int) or isinstance(given, bool)
    try:
        if isinstance(given, datetime.timedelta):
            length = Fraction(given / datetime.timedelta(microseconds=1)) / 1_000_000
        elif isinstance(given, str):
            text = given.strip()
            is_seconds = not text.lstrip("+-").isdigit()
            length = parse_duration(text) if is_seconds else Fraction(int(text))
        elif isinstance(given, int) and not isinstance(given, bool):
            length = Fraction(given)
        else:
            raise InputError(f"got {given!r}")
    except CrosswindError as error:
        raise InputError(
            f"lateness {given!r} is not understood ({error}); give a text like '10 seconds', a timedelta, "
            f"or an integer where the time columns are integers."
        ) from None
    if length < 0:
        raise InputError(f"lateness {given!r} is negative; the least is 0.")
    return plan.axis.ticks(length, is_seconds=is_seconds)


def _replay(join: LiveJoin[Any], tables: Mapping[str, pa.Table]) -> Iterator[tuple[str, pa.Table]]:
    """Yield chunks of the tables in time order, so that nothing is late and windows stay small."""
    sorted_tables: dict[str, tuple[pa.Table, np.ndarray[Any, Any]]] = {}
    for stream in join.streams:
        table, time = tables[stream], join.time_column(stream)
        column = table.column(time)
        column = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
        ticks, missing = ticks_of(column, join.tick_factor(stream), stream)
        if missing is not None:
            ticks = np.where(missing, np.iinfo(np.int64).min, ticks)  # first: rejected whatever the watermark
        if len(ticks) and np.any(ticks[1:] < ticks[:-1]):
            order = np.argsort(ticks, kind="stable")
            table, ticks = take_rows(table, order), ticks[order]
        sorted_tables[stream] = (table, ticks)
    at = dict.fromkeys(sorted_tables, 0)
    while any(at[stream] < len(ticks) for stream, (_, ticks) in sorted_tables.items()):
        cut = min(
            int(ticks[min(at[stream] + _CHUNK, len(ticks)) - 1])
            for stream, (_, ticks) in sorted_tables.items()
            if at[stream] < len(ticks)
        )
        for stream, (table, ticks) in sorted_tables.items():
            stop = int(np.searchsorted(ticks, cut, side="right"))
            if stop > at[stream]:
                yield stream, table.slice(at[stream], stop - at[stream])
                at[stream] = stop
