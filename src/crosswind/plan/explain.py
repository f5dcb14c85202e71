"""A plan as text that people can read: what was understood, and what will be done."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from crosswind.errors import UnsupportedError
from crosswind.plan.access import Access
from crosswind.plan.axis import TimeAxis
from crosswind.plan.compile import Plan, PlannedQuery, Unit
from crosswind.plan.cost import waiting_tuples
from crosswind.plan.logic import FALSE, And, Atom, Formula, Not
from crosswind.plan.program import ALWAYS, Opcode, Program, Route
from crosswind.plan.split import Band, Key, Side
from crosswind.plan.wjsi import assemble, listing
from crosswind.query.format import format_expr
from crosswind.query.tree import Call, Expr, Stream, roles_of
from crosswind.query.types import Kind

__all__ = ["Section", "describe", "is_unselective", "pairs_per_second", "plan_tree"]

Section = tuple[str, list[str]]
"""A heading and its lines."""


def describe(plan: Plan) -> list[Section]:
    """Return the plan as sections: streams, predicate, program, routes."""
    streams = tuple(unit.stream for unit in plan.units)
    accesses = plan.accesses or (Access((), And(())),) * len(streams)
    sections: list[Section] = [
        ("streams", [_unit_line(u, a, plan.axis) for u, a in zip(plan.units, accesses, strict=True)])
    ]
    for entry in plan.queries:
        sections += _predicate(entry, streams, plan)
    for program in plan.programs:
        title = "program" if program.unit == 0 else ""
        sections.append((title, _program_lines(program, streams)))
    sections.append(("routes", [_route_line(route, streams) for route in plan.routes]))
    sections.append(("wjsi", _machine_lines(plan)))
    return sections


def _machine_lines(plan: Plan) -> list[str]:
    """Return the programs as words of the paper's processor, where they fit it."""
    lines = []
    for unit, entry in enumerate(plan.units):
        try:
            lines += [f"join unit {unit}, window of {entry.stream.alias}:", *listing(assemble(plan, unit))]
        except UnsupportedError:
            return []
    return lines


def pairs_per_second(plan: Plan, rates: Sequence[float]) -> float | None:
    """Return the pairs that meet in the windows in a second at ``rates`` tuples/s, one a window.

    None where the time columns are integers of unknown unit.
    """
    if plan.axis.ticks_per_second is None:
        return None
    total = sum(rates)
    waiting = (waiting_tuples(plan, unit, rate) or 0.0 for unit, rate in enumerate(rates))
    return sum((total - rate) * count for rate, count in zip(rates, waiting, strict=True))


def plan_tree(plan: Plan, rates: Sequence[float]) -> list[str]:
    """Return the plan as a tree: the results of each query, what joins them, and the windows below."""
    streams = tuple(unit.stream for unit in plan.units)
    lines = []
    for entry in plan.queries:
        name = f"{entry.name}: " if len(plan.queries) > 1 else ""
        lines.append(f"{name}result: {', '.join(output.name for output in entry.query.outputs)}")
        lines.append(f"└─ {_join_words(entry)}")
        for k, unit in enumerate(entry.units):
            last = k == len(entry.units) - 1
            stream = streams[unit]
            waiting = waiting_tuples(plan, unit, rates[unit])
            count = "" if waiting is None else f", about {waiting:,.0f} tuples wait"
            lines.append(f"   {'└─' if last else '├─'} {stream.alias} [{stream.window.text or stream.window}]{count}")
    return lines


def _join_words(entry: PlannedQuery) -> str:
    if entry.never:
        return "join nothing: the condition is never TRUE"
    parts = entry.split
    counted = [(len(parts.keys), "equality", "equalities"), (len(parts.bands), "band", "bands")]
    counted += [(len(parts.residual), "further condition", "further conditions")]
    named = [f"{count} {one if count == 1 else many}" for count, one, many in counted if count]
    return f"join by {', '.join(named)}" if named else "join every pair"


def _unit_line(unit: Unit, access: Access, axis: TimeAxis) -> str:
    stream = unit.stream
    name = stream.name if stream.name == stream.alias else f"{stream.name} AS {stream.alias}"
    looked_at = [*(dimension.expr for dimension in access.dimensions), *unit.slots[: unit.kept]]
    slots = ", ".join(dict.fromkeys(format_expr(e, _named(stream, e)) for e in looked_at)) or "nothing"
    shown = ", ".join(unit.payload) or "nothing"
    limit = axis.age_limit(stream.window)
    waits = "" if limit is None else f" (waits up to {limit:,} ticks)"
    return f"{name} [{stream.window.text or stream.window}] by {stream.time}{waits}; scanned: {slots}; shown: {shown}"


def _named(stream: Stream, expr: Expr) -> tuple[Stream, ...]:
    """Return a tuple of streams in which the role of ``expr`` is ``stream``."""
    return (stream,) * (max(roles_of(expr), default=0) + 1)


def _predicate(entry: PlannedQuery, streams: tuple[Stream, ...], plan: Plan) -> list[Section]:
    parts = entry.split
    prefix = f"{entry.name}: " if len(plan.queries) > 1 else ""
    sections: list[Section] = [
        (f"{prefix}filters", [_formula(part, streams) for part in parts.filters]),
        (f"{prefix}keys", [_key(key, streams) for key in parts.keys]),
        (f"{prefix}bands", [_band(band, streams) for band in parts.bands]),
        (f"{prefix}residual", [_formula(part, streams) for part in parts.residual]),
    ]
    sections = [(title, lines or ["none"]) for title, lines in sections]
    return [(f"{prefix}constants", _constants(entry)), *sections]


def _constants(entry: PlannedQuery) -> list[str]:
    """Return what was computed before any tuple came: conditions without columns, and what they decide."""
    words = {True: "TRUE", False: "FALSE", None: "NULL"}
    lines = [f"{format_expr(expr, entry.query.streams)} is {words[value]}" for expr, value in entry.settled]
    if entry.never:
        alone = {"inner": "no result", "semi": "no result", "anti": "every tuple of the left stream is a result"}
        lines.append(f"the condition is never TRUE: {alone.get(entry.query.kind, 'no tuple has a partner')}")
    if entry.after == FALSE:
        lines.append("WHERE is never TRUE: no result")
    return lines


def _formula(formula: Formula, streams: tuple[Stream, ...], inner: bool = False) -> str:
    if isinstance(formula, Atom):
        return format_expr(formula.expr, streams)
    joint = " AND " if isinstance(formula, And) else " OR "
    text = joint.join(_formula(part, streams, inner=True) for part in formula.parts)
    if isinstance(formula, Not):
        return f"NOT ({text})"
    if not text:
        return "TRUE" if isinstance(formula, And) else "FALSE"
    return f"({text})" if inner else text


def _side(side: Side, streams: tuple[Stream, ...]) -> str:
    pieces = []
    for expr, coefficient in side.terms:
        text = format_expr(expr, streams)
        text = f"({text})" if isinstance(expr, Call) and " " in text else text
        sign = "-" if coefficient < 0 else "+"
        size = "" if abs(coefficient) == 1 else f"{_number(abs(coefficient))} * "
        pieces.append(f"{sign} {size}{text}")
    return " ".join(pieces).removeprefix("+ ").replace("- ", "-", 1) if pieces else "0"


def _number(value: Fraction, side: Side | None = None) -> str:
    text = str(value.numerator) if value.denominator == 1 else f"{float(value):g}"
    timed = side is not None and side.terms[0][0].type.kind in (Kind.TIMESTAMP, Kind.DURATION, Kind.DATE)
    return f"{text} s" if timed else text


def _key(key: Key, streams: tuple[Stream, ...]) -> str:
    offset = f" {'+' if key.offset > 0 else '-'} {_number(abs(key.offset), key.left)}" if key.offset else ""
    return f"{_side(key.left, streams)} = {_side(key.right, streams)}{offset}"


def _band(band: Band, streams: tuple[Stream, ...]) -> str:
    right = _side(band.right, streams)
    right = f"({right})" if " " in right else right
    text = f"{_side(band.left, streams)} - {right}"
    if band.low is not None:
        text = f"{_number(band.low, band.left)} {'<' if band.low_strict else '<='} {text}"
    if band.high is not None:
        text += f" {'<' if band.high_strict else '<='} {_number(band.high, band.left)}"
    return text + ("" if band.exact else "   (floats: candidates are checked as written)")


def _program_lines(program: Program, streams: tuple[Stream, ...]) -> list[str]:
    lines = [f"join unit {program.unit}, window of {streams[program.unit].alias}:"]
    for step in program.instructions:
        match step.opcode:
            case Opcode.CMP if step.atom is not None:
                text = f"CMP   r{step.target} <- {format_expr(step.atom, streams)}"
            case Opcode.JOIN:
                condition = "always" if step.sources[0] == ALWAYS else f"r{step.sources[0]}"
                text = f"JOIN  {condition} on tag {step.on} -> tag {step.target}"
            case _:
                text = f"{step.opcode.value:<4}  r{step.target} <- {', '.join(f'r{k}' for k in step.sources)}"
        lines.append(f"  {text}")
    return lines


def _route_line(route: Route, streams: Sequence[Stream]) -> str:
    names = " + ".join(streams[unit].alias for unit in route.members)
    does = []
    if route.insert is not None:
        does.append(f"insert into {streams[route.insert].alias}")
    if route.probe:
        does.append("probe " + ", ".join(streams[unit].alias for unit in route.probe))
    if route.queries:
        does.append("result of " + ", ".join(route.queries))
    return f"tag {route.tag} ({names}): {'; '.join(does)}"


def is_unselective(plan: Plan) -> bool:
    """Whether no key and no band narrows the search, so that every pair must be compared."""
    return any(not (entry.split.keys or entry.split.bands or entry.never) for entry in plan.queries)
