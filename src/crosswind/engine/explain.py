"""``crosswind.explain``: the plan, the choices, and why."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from crosswind.engine.choice import ENGINES, Choice, choose_engine
from crosswind.engine.probe import pair_spec
from crosswind.engine.session import INDEXES, choose, plan_for
from crosswind.io.arrow import leaf_columns
from crosswind.plan.box import box_of
from crosswind.plan.calibration import calibration
from crosswind.plan.cost import curve_of
from crosswind.plan.explain import Section, describe, is_unselective, pairs_per_second
from crosswind.plan.hops import Hop, hops_of, plain_order
from crosswind.plan.layout import choose_layout, describe_layout
from crosswind.plan.logic import And
from crosswind.query.format import format_expr
from crosswind.query.tree import roles_of

if TYPE_CHECKING:
    import pyarrow as pa

    from crosswind.plan.compile import Plan

__all__ = ["explain", "lay_out"]

_RATE = 1000.0
"""Tuples/s a stream for which the cost is stated: the rate of the papers' workload."""

_TITLE = 9
"""Characters of a title that has its first line beside it."""


def explain(
    query: str | Mapping[str, str],
    schemas: Mapping[str, pa.Schema],
    *,
    time: str | Mapping[str, str] = "ts",
    engine: str = "auto",
    index: str = "auto",
    workers: int | str | None = None,
    layout: str | tuple[int, ...] = "auto",
    cells: int | None = None,
    hurry: bool = False,
    rate: float | Mapping[str, float] | None = None,
    verbose: bool = False,
) -> str:
    """Return, as text, how a query will be run and why.

    Parameters
    ----------
    query : str or mapping of str to str
        The SQL text.
    schemas : mapping of str to pyarrow.Schema
        What the batches of each stream look like.
    time : str or mapping of str to str
        The time column, for all streams or by stream.
    engine, index, workers, hurry, rate
        As for :func:`crosswind.open`.
    layout, cells
        As for :func:`crosswind.spark.join`; as many cells as this machine has cores, if left out. With
        ``engine="grid"``, sides are those of the grid in this process too.
    verbose : bool
        Show the generated source of the kernels too.

    Examples
    --------
    >>> import crosswind as cw, pyarrow as pa
    >>> r = pa.schema({"ts": pa.int64(), "x": pa.int32()})
    >>> text = cw.explain("SELECT a.x FROM R [RANGE 5] a, R [RANGE 5] b WHERE abs(a.x - b.x) < 3", {"R": r})
    >>> "-3 < a.x - b.x < 3" in text
    True
    """
    choose("engine", engine, ENGINES)
    choose("index", index, INDEXES)
    plan = plan_for(query, schemas, time=time)
    sides = layout if engine == "grid" and isinstance(layout, tuple) else None
    sections = [
        *describe(plan),
        ("engine", _engine_lines(choose_engine(plan, engine, index, workers, layout=sides, hurry=hurry, rate=rate))),
        ("hops", _hop_lines(plan)),
        ("index", _index_lines(plan, index)),
        ("windows", [_size_line(plan, index)]),
        ("layout", _layout_lines(plan, layout, cells)),
        ("cost", [_cost(plan)]),
        ("warnings", _warnings(plan)),
    ]
    text = "\n".join(lay_out(section) for section in sections if section[1])
    return f"{text}\n\n{_sources(plan)}" if verbose else text


def _layout_lines(plan: Plan, asked: str | tuple[int, ...], cells: int | None) -> list[str]:
    """Say how the pairs are spread over cells on Spark."""
    chosen = choose_layout(plan, asked, cells, cores=os.cpu_count() or 1)
    first, *more = describe_layout(chosen, plan)
    return [f"on Spark: {first}", *more]


_ENGINES = {
    "kang": "one worker scans, inserts, invalidates",
    "cell": "a coordinator owns the windows, workers scan shares of their basic windows",
    "handshake": "two streams walk past each other along a row of workers",
    "grid": "rows of workers share segments of the first window, columns of the second",
}


def _engine_lines(choice: Choice) -> list[str]:
    """Say which engine runs it, with how many workers, and why."""
    return [f"{choice.engine}: {_ENGINES[choice.engine]}", f"{choice.staff}; {choice.reason}"]


def _hop_lines(plan: Plan) -> list[str]:
    """Say, for each stream, which windows its tuples search in turn, by what, and for whom."""
    streams = tuple(unit.stream for unit in plan.units)
    lines: list[str] = []

    def visit(hop: Hop, way: str, depth: int) -> None:
        by = ", ".join(format_expr(dimension.expr, streams) for dimension in hop.dimensions)
        names = ", ".join(dict.fromkeys(plan.queries[plan.terms[term].query].name for term in hop.terms))
        whom = f"; for {names}" if len(plan.queries) > 1 else ""
        way = f"{way} > {streams[hop.target].alias}"
        lines.append(f"{'  ' * depth}{way}: searched by {by or 'nothing, every tuple'}{whom}")
        for after in hop.onward:
            visit(after, way, depth + 1)

    for source, stream in enumerate(streams):
        for hop in _hops(plan, source):
            visit(hop, stream.alias, 0)
    if any(len(term.units) > 2 for term in plan.terms):
        lines.append("ways are chosen anew from samples while it runs: join.stats.routes")
    return lines


def _hops(plan: Plan, source: int) -> tuple[Hop, ...]:
    return hops_of(plan.terms, tuple(range(len(plan.terms))), source, plain_order, plan.accesses)


def _index_lines(plan: Plan, index: str) -> list[str]:
    """Say, for each window, what can be looked up in it, and how the choice is made."""
    streams = tuple(unit.stream for unit in plan.units)
    lines = []
    for unit, access in enumerate(plan.accesses):
        searched = [box_of(And(term.parts), unit).dimensions for term in plan.terms if unit in term.units]
        keys = {d.expr for dimensions in [access.dimensions, *searched] for d in dimensions if d.equality}
        equal = [format_expr(d.expr, streams) for d in access.dimensions if d.expr in keys]
        other = [format_expr(d.expr, streams) for d in access.dimensions if d.expr not in keys]
        name = streams[unit].alias
        if not access.dimensions:
            lines.append(f"{name}: scan, pair by pair (no comparison is an interval of a column)")
        elif index == "scan":
            lines.append(f"{name}: scan of {', '.join(equal + other)} (asked for)")
        else:
            able = [f"hash on {', '.join(equal)}"] if equal and index != "band" else []
            able += [f"band on {', '.join(other or equal)}"] if (other or equal) and index != "hash" else []
            lines.append(f"{name}: {' or '.join(able) or 'scan'}")
    if index == "auto" and any(access.dimensions for access in plan.accesses):
        lines.append("chosen from sampled selectivity while it runs: join.stats.index and .reason")
    return lines


def _size_line(plan: Plan, index: str) -> str:
    """Say how many tuples a basic window takes, and what speaks against fewer and more."""
    known = calibration()
    curve = curve_of(plan, index, known.constants)
    size = curve.size
    source = "measured on this machine" if known.measured else "built in, crosswind bench calibrate measures them"
    shares = f"{curve.fixed / size:,.0f} ns a tuple for their number, {curve.slope * size / 2:,.0f} ns for their size"
    return f"basic windows of {size:,} tuples: {shares}; least at {curve.optimum:,.0f} (constants {source})"


def lay_out(section: Section) -> str:
    """Return a section as lines, its title before the first."""
    title, lines = section
    head = [title] if len(title) > _TITLE else []
    shown = "" if head else title
    return "\n".join([*head, *(f"{shown if k == 0 else '':<{_TITLE + 1}}{line}" for k, line in enumerate(lines))])


def _cost(plan: Plan) -> str:
    pairs = pairs_per_second(plan, _RATE)
    if pairs is None:
        return "unknown: the time columns are plain integers, so rates in tuples/s mean nothing here"
    return f"at {_RATE:,.0f} tuples/s a stream {_quantity(pairs)} pairs/s meet in the windows"


def _quantity(value: float) -> str:
    for size, name in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g} {name}"
    return f"{value:.3g}"


def _warnings(plan: Plan) -> list[str]:
    if is_unselective(plan):
        return ["no equality and no band between the streams: no index can help, every pair is compared"]
    return []


def _sources(plan: Plan) -> str:
    from crosswind.kernel.emit import Facts
    from crosswind.kernel.scan import scan_source

    parts = []
    if plan.terms:
        return _hop_sources(plan)
    for unit in range(len(plan.units)):
        spec = pair_spec(plan, unit)
        title = f"# tuples of {plan.units[unit].stream.alias} scan the window of {plan.units[1 - unit].stream.alias}"
        parts.append(f"{title} (data without nulls and NaNs)\n{scan_source(spec, Facts(nulls=False, nans=False))}")
    return "\n".join(parts)


def _hop_sources(plan: Plan) -> str:
    """Return the source of the kernels that make the boxes of each hop."""
    from crosswind.kernel.emit import Facts
    from crosswind.kernel.thresholds import threshold_source

    parts: dict[str, None] = {}
    waiting = [hop for source in range(len(plan.units)) for hop in _hops(plan, source)]
    for hop in waiting:
        waiting.extend(hop.onward)
        if hop.dimensions:
            atoms = [condition.atom for dimension in hop.dimensions for condition in dimension.conditions]
            leaves = tuple(leaf for leaf in leaf_columns(atoms) if hop.target not in roles_of(leaf))
            names = " + ".join(plan.units[unit].stream.alias for unit in hop.joined)
            title = f"# {names} in the window of {plan.units[hop.target].stream.alias} (data without nulls and NaNs)"
            parts[f"{title}\n{threshold_source(hop.dimensions, leaves, Facts(nulls=False, nans=False))}"] = None
    return "\n".join(parts)
