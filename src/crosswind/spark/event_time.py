"""Event time through a join: the watermark that a frame brings, and the column by which Spark goes on behind the join.

Spark knows event time by a mark on a column, and has one watermark for the whole query. Two rules follow.

A frame that has a watermark keeps it: Spark lets no query define another behind it. Its rows may come from an operator
with state, which gives out what the watermark has passed. So they are judged as Spark's own join judges them: late is
what is not newer than the watermark of the micro-batch before.

The column that carries event time on may be older than the watermark of the join: a tuple that waited in a window of
15 minutes is in a result that comes now. Spark's operators would drop it as late. So Spark's watermark stays behind
that of the join by the length of the window (the *lag*), and the join adds it back for its own decisions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from crosswind.errors import InputError
from crosswind.plan.compile import Plan, PlannedQuery
from crosswind.query.tree import Call, Column, Expr, Literal, Rows

__all__ = ["AUTO", "DELAY", "EventTime", "event_time_of", "marked", "own_delay"]

AUTO = "auto"
DELAY = "spark.watermarkDelayMs"
"""Spark's mark of an event-time column; its value is the delay of the watermark, in milliseconds."""
_CHOOSING = {"greatest": 0, "least": 0, "coalesce": 0, "if": 1}
"""Operations that return one of their arguments, and the first argument that they may return."""


@dataclass(frozen=True)
class EventTime:
    """The column of the result that carries event time; it is at most ``lag`` ticks older than the watermark.

    ``span`` is the lag in words, and ``remedy`` a column that has none, if there is one.
    """

    column: str
    lag: int
    span: str = ""
    remedy: str = ""

    @property
    def text(self) -> str:
        """For explanations."""
        if not self.lag:
            return f"{self.column}, never older than the watermark of the join"
        return f"{self.column}, up to {self.span} older than the watermark of the join; Spark's watermark lags as much"


def own_delay(frame: Any, time: str, stream: str) -> int | None:
    """Return the delay, in milliseconds, of the watermark that ``frame`` brings; None: it has none."""
    marked_as = {field.name: field.metadata[DELAY] for field in frame.schema if DELAY in field.metadata}
    if not marked_as:
        return None
    if time not in marked_as:
        found = ", ".join(f"'{name}'" for name in marked_as)
        raise InputError(
            f"stream '{stream}': its watermark is on {found}, but the join takes its time from '{time}', and a stream "
            f"has but one watermark. Say time={next(iter(marked_as))!r}, or define the watermark on '{time}'; "
            f"behind an aggregation select window_time(window) AS {time}."
        )
    return int(marked_as[time])


def marked(frame: Any, column: str, delay_ms: int) -> Any:
    """Return ``frame`` with ``column`` marked as event time."""
    return frame.withMetadata(column, {DELAY: delay_ms})


def event_time_of(plan: Plan, wanted: str | None, times: Sequence[str], *, fixed: Sequence[str]) -> EventTime | None:
    """Return which column of the result carries event time.

    Parameters
    ----------
    plan : Plan
        The join.
    wanted : str or None
        A column of the result; ``auto``: one is chosen if it can be; None: none.
    times : sequence of str
        The names of the time columns of the streams.
    fixed : sequence of str
        Streams that bring a watermark of their own: it cannot be made to lag.
    """
    if wanted is None:
        return None
    if wanted == AUTO:
        return _chosen(plan, times, fixed)
    entries = [entry for entry in plan.queries if any(out.name == wanted for out in entry.query.outputs)]
    if not entries:
        names = dict.fromkeys(out.name for entry in plan.queries for out in entry.query.outputs)
        raise InputError(f"event_time names the column '{wanted}'; the result has {', '.join(names)}.")
    found = _combined(wanted, entries, plan)
    if isinstance(found, str):
        raise InputError(f"event_time='{wanted}' {found}")
    if found.lag and fixed:
        one = len(fixed) == 1
        remedy = f"Select {found.remedy} AS {wanted}, or give" if found.remedy else "Give"
        raise InputError(
            f"event_time='{wanted}' is up to {found.span} older than the watermark, so Spark would drop rows as late. "
            f"Spark's watermark can be made to lag only where the join defines it, but {_listed(fixed)} a watermark of "
            f"{'its' if one else 'their'} own. {remedy} the {'frame' if one else 'frames'} without withWatermark and "
            f"say lateness=."
        )
    return found


def _chosen(plan: Plan, times: Sequence[str], fixed: Sequence[str]) -> EventTime | None:
    """Return the column that is plainly meant: the only one, or the one with the name of a time column."""
    names = dict.fromkeys(out.name for entry in plan.queries for out in entry.query.outputs)
    found: dict[str, EventTime] = {}
    for name in names:
        entries = [entry for entry in plan.queries if any(out.name == name for out in entry.query.outputs)]
        event_time = _combined(name, entries, plan)
        if isinstance(event_time, EventTime) and not (event_time.lag and fixed):
            found[name] = event_time
    named = [name for name in found if name in times]
    chosen = list(found) if len(found) == 1 else named
    return found[chosen[0]] if len(chosen) == 1 else None


def _combined(name: str, entries: Sequence[PlannedQuery], plan: Plan) -> EventTime | str:
    """Return the event time of the column ``name`` over all queries that have it, or why it cannot carry one."""
    # Results that wait for the watermark come when it has passed them, so they may be as old as the one before.
    waits = any(isinstance(unit.stream.window, Rows) for unit in plan.units)
    lags: list[EventTime] = []
    for entry in entries:
        output = next(out for out in entry.query.outputs if out.name == name)
        if not pa.types.is_timestamp(output.arrow):
            return f"is of type {output.arrow}; event time must be a timestamp."
        roles = _roles(output.expr, entry)
        if not roles:
            return (
                "must be the time column of a stream, or greatest, least, coalesce or CASE of such columns: "
                "Spark must know how far it is behind the watermark."
            )
        inner = entry.query.kind == "inner"
        late = waits or not inner
        if inner and _is_latest(output.expr, entry):
            lags.append(EventTime(name, int(late), "one tick"))
            continue
        remedy = _latest(entry) if inner else ""
        for role in sorted(roles):
            stream = entry.query.streams[role]
            age = plan.axis.age_limit(stream.window)
            if age is None:
                of = f"is the time of '{stream.alias}', whose window counts tuples: it may be of any age."
                return f"{of} Give {remedy}." if remedy else of
            span = f"{stream.window.text.removeprefix('RANGE ')} ({stream.alias})"
            lags.append(EventTime(name, age + int(late), span, "" if waits else remedy))
    return max(lags, key=lambda event_time: event_time.lag)


def _roles(expr: Expr, entry: PlannedQuery) -> frozenset[int] | None:
    """Return the roles whose time ``expr`` may be; None: it may be something else."""
    if isinstance(expr, Column):
        return frozenset([expr.role]) if entry.query.streams[expr.role].time == expr.name else None
    if isinstance(expr, Literal) and expr.value is None:
        return frozenset()
    if not isinstance(expr, Call) or expr.op not in _CHOOSING:
        return None
    parts = [_roles(arg, entry) for arg in expr.args[_CHOOSING[expr.op] :]]
    return None if None in parts else frozenset().union(*(part for part in parts if part is not None))


def _is_latest(expr: Expr, entry: PlannedQuery) -> bool:
    """Whether ``expr`` is the time of the result: the greatest of its members."""
    if not isinstance(expr, Call) or expr.op != "greatest":
        return False
    roles = [arg.role for arg in expr.args if isinstance(arg, Column)]
    return len(roles) == len(expr.args) and set(roles) == set(range(len(entry.query.streams)))


def _latest(entry: PlannedQuery) -> str:
    return f"greatest({', '.join(f'{stream.alias}.{stream.time}' for stream in entry.query.streams)})"


def _listed(streams: Sequence[str]) -> str:
    names = ", ".join(f"'{name}'" for name in streams)
    return f"stream {names} brings" if len(streams) == 1 else f"streams {names} bring"
