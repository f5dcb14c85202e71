"""``crosswind.explain``: the plan, the choices, and why."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from crosswind.engine.choice import ENGINES, Choice, choose_engine
from crosswind.engine.probe.boxes import pair_spec
from crosswind.engine.session import INDEXES, choose, plan_for
from crosswind.io.arrow import leaf_columns
from crosswind.kernel.generated.emit import Facts
from crosswind.kernel.generated.scan import scan_kernel, scan_source
from crosswind.kernel.generated.thresholds import threshold_source
from crosswind.kernel.jit import assembly_of
from crosswind.plan.box import box_of
from crosswind.plan.calibration import calibration
from crosswind.plan.cost import Workload, curve_of, predict
from crosswind.plan.explain import describe, is_unselective, pairs_per_second, plan_tree
from crosswind.plan.explanation import Explanation
from crosswind.plan.layout import choose_layout, describe_layout
from crosswind.plan.logic import And
from crosswind.plan.probe_steps import PlannedStep, plain_order, planned_steps
from crosswind.query.format import format_expr
from crosswind.query.tree import roles_of

if TYPE_CHECKING:
    import pyarrow as pa

    from crosswind.plan.compile import Plan

__all__ = ["explain", "warnings_of"]

_RATE = 1000.0
"""Tuples/s a stream for which the cost is stated: the rate of the papers' workload."""


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
    assembly: bool = False,
) -> Explanation:
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
        As for :func:`crosswind.spark.join`, on this machine. With
        ``engine="grid"``, sides are those of the grid in this process too.
    verbose : bool
        Show the generated source of the kernels too.
    assembly : bool
        Show the machine code that they become on this machine, as assembly. They are compiled for it.

    Returns
    -------
    Explanation
        A text; in a notebook, sections to fold.

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
    rates = _rates(plan, rate)
    return Explanation.of(
        [
            ("tree", plan_tree(plan, rates)),
            *describe(plan),
            (
                "engine",
                _engine_lines(choose_engine(plan, engine, index, workers, layout=sides, hurry=hurry, rate=rate)),
            ),
            ("probes", _step_lines(plan)),
            ("index", _index_lines(plan, index)),
            ("windows", [_size_line(plan, index)]),
            ("layout", _layout_lines(plan, layout, cells)),
            ("cost", _cost(plan, index, rates)),
            ("warnings", warnings_of(plan, rates)),
            ("source", _sources(plan).splitlines() if verbose else []),
            ("assembly", _assembly(plan).splitlines() if assembly else []),
        ]
    )


def _layout_lines(plan: Plan, asked: str | tuple[int, ...], cells: int | None) -> list[str]:
    """Say how the pairs are spread over cells on Spark."""
    chosen = choose_layout(plan, asked, cells, cores=os.cpu_count() or 1, plenty=True)
    first, *more = describe_layout(chosen, plan)
    return [f"on Spark: {first}", *more]


_ENGINES = {
    "kang": "one worker scans, inserts, invalidates",
    "cell": "a coordinator owns the windows, workers scan shares of their basic windows",
    "handshake": "two streams walk past each other along a row of workers",
    "grid": "rows of workers share segments of the first window, columns of the second",
    "split": "every tuple goes to all workers, each of which has a part of the windows",
}


def _engine_lines(choice: Choice) -> list[str]:
    """Say which engine runs it, with how many workers, and why."""
    return [f"{choice.engine}: {_ENGINES[choice.engine]}", f"{choice.staff}; {choice.reason}"]


def _step_lines(plan: Plan) -> list[str]:
    """Say, for each stream, which windows its tuples search in turn, by what, and for whom."""
    streams = tuple(unit.stream for unit in plan.units)
    lines: list[str] = []

    def visit(step: PlannedStep, way: str, depth: int) -> None:
        by = ", ".join(format_expr(dimension.expr, streams) for dimension in step.dimensions)
        names = ", ".join(dict.fromkeys(plan.queries[plan.terms[term].query].name for term in step.terms))
        whom = f"; for {names}" if len(plan.queries) > 1 else ""
        way = f"{way} > {streams[step.target].alias}"
        lines.append(f"{'  ' * depth}{way}: searched by {by or 'nothing, every tuple'}{whom}")
        for after in step.onward:
            visit(after, way, depth + 1)

    for source, stream in enumerate(streams):
        for step in _steps(plan, source):
            visit(step, stream.alias, 0)
    if any(len(term.units) > 2 for term in plan.terms):
        lines.append("ways are chosen anew from samples while it runs: join.stats.routes")
    return lines


def _steps(plan: Plan, source: int) -> tuple[PlannedStep, ...]:
    return planned_steps(plan.terms, tuple(range(len(plan.terms))), source, plain_order, plan.accesses)


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


def _rates(plan: Plan, rate: float | Mapping[str, float] | None) -> tuple[float, ...]:
    """Return the tuples/s to expect of each window's stream."""
    if isinstance(rate, Mapping):
        return tuple(float(rate.get(unit.stream.name, _RATE)) for unit in plan.units)
    return (float(rate or _RATE),) * len(plan.units)


def _cost(plan: Plan, index: str, rates: tuple[float, ...]) -> list[str]:
    """Say what the plan will cost at these rates, by the constants of the cost model."""
    pairs = pairs_per_second(plan, rates)
    if pairs is None:
        return ["unknown: the time columns are plain integers, so rates in tuples/s mean nothing here"]
    known = calibration()
    work = predict(plan, index, rates, known.constants)
    source = "measured on this machine" if known.measured else "built in"
    return [
        f"at {_at(rates)} {_quantity(pairs)}pairs/s meet in the windows",
        _core_line(work, source),
        f"{work.waiting:,.0f} tuples wait, {work.waiting_bytes / 1e6:,.3g} MB of columns that are compared",
    ]


def _core_line(work: Workload, source: str) -> str:
    if work.compared_per_s:
        text = f"compared one by one: {_quantity(work.compared_per_s)}pairs/s, which takes about {work.cores:.2g} cores"
    else:
        text = f"searched by index: about {_quantity(work.tuple_ns, 'n')}s a tuple beside its results, "
        text += f"{work.cores:.2g} cores"
    return f"{text} (constants {source})"


def _at(rates: tuple[float, ...]) -> str:
    if len(set(rates)) == 1:
        return f"{rates[0]:,.0f} tuples/s a stream"
    return " and ".join(f"{rate:,.0f}" for rate in rates) + " tuples/s"


def _quantity(value: float, unit: str = "") -> str:
    """Return ``value`` with three digits and the letter of its size; ``n``: it is a number of nanoseconds."""
    sizes: tuple[tuple[float, str], ...] = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
    if unit == "n":
        sizes = ((1e9, ""), (1e6, "m"), (1e3, "u"), (1.0, "n"))
    for size, name in sizes:
        if value >= size:
            return f"{value / size:.3g} {name}"
    return f"{value:.3g} {unit}"


def warnings_of(plan: Plan, rates: tuple[float, ...] | None = None) -> list[str]:
    """Return what its user should know before running a plan."""
    if not is_unselective(plan):
        return []
    rates = rates or _rates(plan, None)
    pairs = pairs_per_second(plan, rates)
    needed = "" if pairs is None else f"; about {_quantity(pairs)}pairs/s needed at {_at(rates)}"
    lines = [f"no equality and no band between the streams: no index can help, every pair is compared{needed}"]
    if pairs is not None:
        cores = predict(plan, "scan", rates, calibration().constants).cores
        if cores > (os.cpu_count() or 1):
            lines.append(
                f"that takes about {cores:,.0f} cores, and this machine has {os.cpu_count()}: shorten the windows, add "
                "a condition that is a band or an equality, or run it on Spark with more cells"
            )
    return lines


def _sources(plan: Plan) -> str:

    parts = []
    if not plan.is_pair:
        return _hop_sources(plan)
    for unit in range(len(plan.units)):
        spec = pair_spec(plan, unit)
        title = f"# tuples of {plan.units[unit].stream.alias} scan the window of {plan.units[1 - unit].stream.alias}"
        parts.append(f"{title} (data without nulls and NaNs)\n{scan_source(spec, Facts(nulls=False, nans=False))}")
    return "\n".join(parts)


def _assembly(plan: Plan) -> str:
    """Return the machine code of the kernels that compare pairs, as assembly."""
    parts = []
    for unit in range(len(plan.units) if plan.is_pair else 0):
        title = f"# tuples of {plan.units[unit].stream.alias} scan the window of {plan.units[1 - unit].stream.alias}"
        kernel = scan_kernel(pair_spec(plan, unit), Facts(nulls=False, nans=False))
        parts.append(f"{title} (data without nulls and NaNs)\n{assembly_of(kernel)}")
    return "\n".join(parts) or "shown for one query over two streams only"


def _hop_sources(plan: Plan) -> str:
    """Return the source of the kernels that make the boxes of each step."""
    parts: dict[str, None] = {}
    waiting = [step for source in range(len(plan.units)) for step in _steps(plan, source)]
    for step in waiting:
        waiting.extend(step.onward)
        if step.dimensions:
            atoms = [condition.atom for dimension in step.dimensions for condition in dimension.conditions]
            leaves = tuple(leaf for leaf in leaf_columns(atoms) if step.target not in roles_of(leaf))
            names = " + ".join(plan.units[unit].stream.alias for unit in step.joined)
            title = f"# {names} in the window of {plan.units[step.target].stream.alias} (data without nulls and NaNs)"
            parts[f"{title}\n{threshold_source(step.dimensions, leaves, Facts(nulls=False, nans=False))}"] = None
    return "\n".join(parts)
