"""From queries to a plan: join units, their programs and the routing table.

Nothing here is special to two streams or to one query: the units are the windows of
all queries together, each query adds its tags, and comparisons that two queries share
are made once (one CMP a distinct atom).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from crosswind.errors import UnsupportedError
from crosswind.plan.access import Access
from crosswind.plan.axis import TimeAxis, axis_of
from crosswind.plan.box import Dimension, box_of
from crosswind.plan.fold import Folder
from crosswind.plan.logic import FALSE, TRUE, And, Atom, Formula, Not, Or, atoms_of, conjuncts, normal_form
from crosswind.plan.probe_steps import plain_order, planned_steps
from crosswind.plan.program import ALWAYS, Instruction, Opcode, Program, Route, SlotTable
from crosswind.plan.split import Split, split
from crosswind.plan.terms import Term, terms_of, units_in
from crosswind.query.refusal import RefusalError
from crosswind.query.room import with_room
from crosswind.query.tree import Call, Column, Expr, Query, Rows, Stream, walk

__all__ = ["Plan", "PlannedQuery", "Unit", "compile_plan", "move_expr"]

_DIMENSIONS_MAX = 15
"""Box columns of a window; what more there is, is checked pair by pair."""

_OPERATIONS_MAX = 2_000
"""Operations in the conditions of all queries, equal ones counted once: to compile more takes many minutes."""


@dataclass(frozen=True)
class Unit:
    """A join unit: one stream in one role, with what its tuples carry.

    ``filter`` must hold for a tuple to take part at all; ``slots`` are computed for
    those that do; ``payload`` columns wait beside them for the results. Of the slots, the first ``kept`` wait in
    the window as well; the others are read only while a tuple is new.
    """

    stream: Stream
    filter: Formula
    slots: tuple[Expr, ...]
    payload: tuple[str, ...]
    kept: int


@dataclass(frozen=True)
class PlannedQuery:
    """A query, its predicate split, and which unit plays each of its roles.

    ``never``: the predicate is TRUE for no combination, whatever comes. ``after`` is what WHERE asks of the
    rows of an outer join (None: nothing). ``settled`` are the parts of the conditions that are constant,
    each with its value.
    """

    name: str
    query: Query
    units: tuple[int, ...]
    split: Split
    never: bool = False
    after: Formula | None = None
    settled: tuple[tuple[Expr, bool | None], ...] = ()


@dataclass(frozen=True)
class Plan:
    """How a set of queries is run: units, one program a unit, one routing table.

    ``accesses``, one per unit, say how a window is searched. ``terms`` are what is looked for. ``is_pair``: it is
    one query over two streams, and the accesses hold all of its condition.
    """

    units: tuple[Unit, ...]
    queries: tuple[PlannedQuery, ...]
    programs: tuple[Program, ...]
    routes: tuple[Route, ...]
    accesses: tuple[Access, ...]
    axis: TimeAxis
    terms: tuple[Term, ...]
    is_pair: bool

    def units_of(self, stream: str) -> tuple[int, ...]:
        """Return the units into which tuples of ``stream`` go."""
        return tuple(i for i, unit in enumerate(self.units) if unit.stream.name == stream)


def compile_plan(queries: Mapping[str, Query], *, many: bool = False) -> Plan:
    """Compile named queries into one plan.

    ``many``: queries may come and go, so nothing relies on what the tuples that wait were filtered by.
    """
    return with_room(lambda: _compile(queries, many))


def _compile(queries: Mapping[str, Query], many: bool) -> Plan:
    streams, placed = _place(queries)
    compiler = _Compiler(len(streams))
    planned: list[PlannedQuery] = []
    wanted: list[list[tuple[Formula, ...]]] = [[] for _ in streams]
    users = [sum(unit in units for units in placed.values()) for unit in range(len(streams))]
    terms: list[Term] = []
    operations: set[Expr] = set()
    for name, query in queries.items():
        entry, formula = _plan_query(name, query, placed[name])
        planned.append(entry)
        operations |= {node for atom in atoms_of(formula) for node in walk(atom.expr) if isinstance(node, Call)}
        units, filters = entry.units, entry.split.filters
        for unit in units:
            wanted[unit].append(tuple(part for part in filters if unit in _settled_at(part, units)))
        shared = tuple(p for p in filters if many or any(users[unit] > 1 for unit in _settled_at(p, units)))
        others = tuple(p for p in conjuncts(formula) if p not in filters)
        conditions = (*others, *shared)
        terms += terms_of(len(planned) - 1, units, conditions)
        for term in terms_of(0, units, conditions, least=3):  # a unit compares what it holds with what comes
            if not entry.never:
                compiler.add(name, units, term.parts)
    _check_size(operations, len(queries))
    payload = _payload(planned, len(streams))
    slots = SlotTable(len(streams))
    is_pair = len(queries) == 1 and len(streams) == 2 and not many
    if is_pair:
        terms = [Term(0, units, conditions)]
        boxes = [box_of(And(conditions), unit) for unit in range(2)]
        accesses = [Access(box.dimensions, slots.rewrite_formula(box.residual)) for box in boxes]
        kept = _kept(terms, accesses, slots)
        for unit, box in enumerate(boxes):
            for dimension in box.dimensions:
                _carry(dimension, unit, slots)
    else:
        accesses = _accesses(terms, len(streams), slots, many)
        kept = [len(slots.slots(unit)) for unit in range(len(streams))]
    units_made = tuple(
        Unit(stream, _any_of(wanted[i]), slots.slots(i), payload[i], kept[i]) for i, stream in enumerate(streams)
    )
    return Plan(
        units_made,
        tuple(planned),
        compiler.programs(),
        tuple(compiler.routes),
        tuple(accesses),
        axis_of(streams),
        tuple(terms),
        is_pair,
    )


def _plan_query(name: str, query: Query, units: tuple[int, ...]) -> tuple[PlannedQuery, Formula]:
    """Return a query with its constants computed and its predicate split, and the whole predicate."""
    folder = Folder()
    try:
        where, after = (None if e is None else folder.fold(e) for e in (query.where, query.after))
    except RefusalError as refusal:
        raise refusal.told(query.sql, query.streams) from None
    formula, rows = _move(normal_form(where), units), _move(normal_form(after), units)
    entry = PlannedQuery(
        name,
        query,
        units,
        split(formula),
        formula == FALSE,
        None if rows == TRUE else rows,
        tuple(folder.settled),
    )
    return entry, formula


def _check_size(operations: set[Expr], queries: int) -> None:
    if len(operations) > _OPERATIONS_MAX:
        raise UnsupportedError(
            f"The conditions of these {queries} queries have more than {_OPERATIONS_MAX:,} different operations, too "
            "many to compile together. Divide the queries among several joins."
        )


def _settled_at(part: Formula, units: tuple[int, ...]) -> tuple[int, ...]:
    """Return the units whose tuples a filter is asked of: its own; of a condition without columns, all of them."""
    return tuple(units_in(part)) or units


def _any_of(wanted: list[tuple[Formula, ...]]) -> Formula:
    """Return the filter of a unit: some query that uses it must want the tuple."""
    if not all(wanted):
        return TRUE
    some = [FALSE if FALSE in filters else And(filters) for filters in wanted]
    some = [filters for filters in some if filters != FALSE]
    return some[0] if len(some) == 1 else Or(tuple(some))


def _accesses(terms: list[Term], units: int, slots: SlotTable, many: bool) -> list[Access]:
    """Collect, for each unit, the dimensions in which some term may search it, and what all of them check."""
    found: list[dict[tuple[Expr, bool], Dimension]] = [{} for _ in range(units)]
    users = [0] * units
    for term in terms:
        for part in term.parts:
            slots.rewrite_formula(part)
        for unit in term.units:
            users[unit] += 1
            for dimension in box_of(And(term.parts), unit).dimensions:
                key = (dimension.expr, dimension.hashed)
                bare = Dimension(dimension.expr, dimension.bits, (), dimension.hashed, dimension.hashed)
                if key not in found[unit] and len(found[unit]) == _DIMENSIONS_MAX:
                    continue
                found[unit].setdefault(key, bare)
                _carry(dimension, unit, slots)
    return [Access(tuple(found[unit].values()), And(()), users[unit] == 1 and not many) for unit in range(units)]


def _kept(terms: list[Term], accesses: list[Access], slots: SlotTable) -> list[int]:
    """Let tuples of two units carry what searches check of those that wait; return how much that is, by unit."""
    units = range(len(accesses))
    steps = [
        planned_steps(tuple(terms), tuple(range(len(terms))), unit, plain_order, tuple(accesses)) for unit in units
    ]
    for step in (step for some in steps for step in some):
        for check in (*step.checks, *step.bare):
            slots.rewrite_formula(check)
    return [len(slots.slots(unit)) for unit in units]


def _carry(dimension: Dimension, unit: int, slots: SlotTable) -> None:
    """Let tuples of other units carry the columns from which their boxes in the window of ``unit`` are computed."""
    for condition in dimension.conditions:
        slots.carry(condition.atom, but=unit)
    if dimension.partner is not None:
        slots.carry(dimension.partner, but=unit)


def _place(queries: Mapping[str, Query]) -> tuple[list[Stream], dict[str, tuple[int, ...]]]:
    """Give each role of each query its unit; the same stream shares one, save in self joins."""
    streams: dict[tuple[str, int], Stream] = {}
    roles: dict[str, list[tuple[str, int]]] = {}
    for name, query in queries.items():
        seen: dict[str, int] = {}
        roles[name] = []
        for stream in query.streams:
            occurrence = seen[stream.name] = seen.get(stream.name, -1) + 1
            streams.setdefault((stream.name, occurrence), stream)
            roles[name].append((stream.name, occurrence))
    order = _from_order(list(streams), list(roles.values()))
    if order is None and any(isinstance(s.window, Rows) for query in queries.values() for s in query.streams):
        raise UnsupportedError(
            "The queries name the same streams in different orders. With ROWS windows the order of FROM decides "
            "between tuples of the same time: name the streams in one order in all of them, or open a join for each."
        )
    index = {key: unit for unit, key in enumerate(order or streams)}
    return [streams[key] for key in index], {name: tuple(index[key] for key in mine) for name, mine in roles.items()}


def _from_order(keys: list[tuple[str, int]], lists: list[list[tuple[str, int]]]) -> list[tuple[str, int]] | None:
    """Return the roles so that each query has them in the order of its FROM (None: that cannot be)."""
    later: dict[tuple[str, int], set[tuple[str, int]]] = {key: set() for key in keys}
    for roles in lists:
        for first, second in pairwise(roles):
            later[second].add(first)
    order: list[tuple[str, int]] = []
    while len(order) < len(keys):
        free = [key for key in keys if key not in order and later[key] <= set(order)]
        if not free:
            return None
        order.append(free[0])
    return order


def move_expr(expr: Expr, units: tuple[int, ...]) -> Expr:
    """Return ``expr`` with the roles of one query replaced by units of the plan."""
    if isinstance(expr, Column):
        return Column(expr.type, units[expr.role], expr.name, start=expr.start, end=expr.end)
    if isinstance(expr, Call):
        args = tuple(move_expr(arg, units) for arg in expr.args)
        return Call(expr.type, expr.op, args, expr.function, start=expr.start, end=expr.end)
    return expr


def _move(formula: Formula, units: tuple[int, ...]) -> Formula:
    if isinstance(formula, Atom):
        return Atom(move_expr(formula.expr, units))
    return type(formula)(tuple(_move(part, units) for part in formula.parts))


def _payload(planned: list[PlannedQuery], units: int) -> list[tuple[str, ...]]:
    """Return the columns of each unit that some result shows or computes with."""
    wanted: list[dict[str, None]] = [{} for _ in range(units)]
    for entry in planned:
        exprs = [output.expr for output in entry.query.outputs]
        for expr in exprs if entry.query.after is None else [*exprs, entry.query.after]:
            for node in walk(expr):
                if isinstance(node, Column):
                    wanted[entry.units[node.role]][node.name] = None
    return [tuple(names) for names in wanted]


class _Compiler:
    """Allocates tags and registers while queries are added one after another."""

    def __init__(self, units: int) -> None:
        self.routes = [Route(unit, (unit,), unit, (), ()) for unit in range(units)]
        self._code: list[list[Instruction]] = [[] for _ in range(units)]
        self._registers: list[dict[Formula, int]] = [{} for _ in range(units)]
        self._tags: dict[tuple[int, int, int], int] = {}

    def programs(self) -> tuple[Program, ...]:
        """Return the program of every unit."""
        return tuple(Program(unit, tuple(code)) for unit, code in enumerate(self._code))

    def add(self, name: str, units: tuple[int, ...], conditions: tuple[Formula, ...]) -> None:
        """Add a query: for each of its streams, a route through the windows of the others."""
        for source in units:
            joined: tuple[int, ...] = (source,)
            tag, left = source, list(conditions)
            for target in _probe_order(source, units, conditions):
                route = self.routes[tag]
                if target not in route.probe:
                    self.routes[tag] = Route(tag, route.members, route.insert, (*route.probe, target), route.queries)
                joined = (*joined, target)
                ready = [part for part in left if units_in(part) <= set(joined)]
                left = [part for part in left if part not in ready]
                last = len(joined) == len(units)
                tag = self._join(target, tag, And(tuple(ready)), joined, (name,) if last else ())

    def _join(self, unit: int, on: int, condition: Formula, members: tuple[int, ...], queries: tuple[str, ...]) -> int:
        """Let ``unit`` join what comes with tag ``on`` under ``condition``; return the new tag."""
        register = self._evaluate(unit, condition)
        known = self._tags.get((unit, on, register))
        if known is not None:  # another query has asked for the same
            route = self.routes[known]
            self.routes[known] = Route(
                known, members, None, route.probe, tuple(dict.fromkeys([*route.queries, *queries]))
            )
            return known
        tag = self._tags[unit, on, register] = len(self.routes)
        self.routes.append(Route(tag, members, None, (), queries))
        self._code[unit].append(Instruction(Opcode.JOIN, tag, (register,), on=on))
        return tag

    def _evaluate(self, unit: int, formula: Formula) -> int:
        """Return the register of ``unit`` that holds ``formula``, adding code if need be."""
        if isinstance(formula, And) and not formula.parts:
            return ALWAYS
        if isinstance(formula, And | Or) and len(formula.parts) == 1:
            return self._evaluate(unit, formula.parts[0])
        known = self._registers[unit]
        if formula not in known:
            if isinstance(formula, Atom):
                step = Instruction(Opcode.CMP, len(known), atom=formula.expr)
            else:
                sources = tuple(self._evaluate(unit, part) for part in formula.parts)
                opcode = {And: Opcode.AND, Or: Opcode.OR, Not: Opcode.NOT}[type(formula)]
                step = Instruction(opcode, len(known), sources)
            known[formula] = step.target
            self._code[unit].append(step)
        return known[formula]


def _probe_order(source: int, units: tuple[int, ...], conditions: tuple[Formula, ...]) -> list[int]:
    """Return the other units, those tied to what is already joined by a condition first."""
    joined, rest, order = {source}, [u for u in units if u != source], []
    while rest:
        tied = [u for u in rest if any(u in units_in(c) and units_in(c) <= joined | {u} for c in conditions)]
        chosen = tied[0] if tied else rest[0]
        order.append(chosen)
        rest.remove(chosen)
        joined.add(chosen)
    return order
