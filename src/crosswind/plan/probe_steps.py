"""Probe steps: the searches that new tuples make, window by window.

A tuple that arrives goes through the windows of the others one by one (MJoin; WJSP §3.1,
CellJoin §7.1). What it has joined so far looks for partners in the next window: a *probe step*.
Terms with the same join order whose boxes are alike share the step: it searches for the
weakest of their boxes, and what each of them asks beyond that is checked afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from crosswind.plan.access import Access
from crosswind.plan.alike import fill, skeleton, weaker
from crosswind.plan.box import Condition, Dimension, box_of
from crosswind.plan.logic import And, Atom, Formula, conjuncts
from crosswind.plan.terms import Term, units_in
from crosswind.query.tree import Call, Expr

__all__ = ["Order", "PlannedStep", "plain_order", "planned_steps", "tied_units"]

Order = Callable[[Term, int], tuple[int, ...]]
"""The join order of a term from a source: the other units, in turn."""


@dataclass(frozen=True)
class PlannedStep:
    """One search: what is joined so far looks for partners in the window of ``target``.

    ``checks`` has, for each of ``terms`` (numbers of the plan's terms), what is left to be
    checked for a candidate, ``bare`` what is if the window holds no nulls; ``parts`` what the
    step decides in all. Terms in ``done`` are complete after it, the others have their next steps in ``onward``.
    """

    joined: tuple[int, ...]
    target: int
    terms: tuple[int, ...]
    dimensions: tuple[Dimension, ...]
    checks: tuple[Formula, ...]
    bare: tuple[Formula, ...]
    parts: tuple[tuple[Formula, ...], ...]
    done: tuple[int, ...]
    onward: tuple[PlannedStep, ...]


@dataclass(frozen=True)
class _OpenTerm:
    """A term that is not complete: the windows before it, and what is not decided yet."""

    number: int
    order: tuple[int, ...]
    left: tuple[Formula, ...]
    ready: tuple[Formula, ...] = ()
    dimensions: tuple[Dimension, ...] = ()


def planned_steps(
    terms: tuple[Term, ...], numbers: tuple[int, ...], source: int, order: Order, accesses: tuple[Access, ...]
) -> tuple[PlannedStep, ...]:
    """Return the steps of tuples of ``source`` for the terms with the given ``numbers``.

    ``order`` gives the join order of a term from a source; ``accesses`` what windows can be searched by.
    """
    open_terms = [_OpenTerm(k, order(terms[k], source), terms[k].parts) for k in numbers if source in terms[k].units]
    return _onward((source,), open_terms, accesses)


def plain_order(term: Term, source: int) -> tuple[int, ...]:
    """Return the join order by what is known before any tuple: ties by equality first, then other ties."""
    joined, rest = {source}, [unit for unit in term.units if unit != source]
    order = []
    while rest:
        chosen = max(rest, key=lambda unit: (_tie(term, joined, unit), -rest.index(unit)))
        order.append(chosen)
        rest.remove(chosen)
        joined.add(chosen)
    return tuple(order)


def tied_units(term: Term, joined: set[int], rest: Sequence[int]) -> list[int]:
    """Return the units of ``rest`` that a condition ties to what is joined; all of them where none is tied.

    Whoever chooses an order chooses the next unit among these: a step without a condition is a cross product.
    """
    return [unit for unit in rest if _tie(term, joined, unit)] or list(rest)


def _tie(term: Term, joined: set[int], unit: int) -> int:
    """Say how a unit is tied to what is joined: 2 by an equality, 1 by something else, 0 not at all."""
    ready = [part for part in term.parts if unit in units_in(part) and units_in(part) <= joined | {unit}]
    ready = [part for part in ready if units_in(part) != {unit}]
    keys = [part for part in ready if isinstance(part, Atom) and isinstance(part.expr, Call) and part.expr.op == "eq"]
    return 2 if keys else 1 if ready else 0


def _onward(
    joined: tuple[int, ...], open_terms: list[_OpenTerm], accesses: tuple[Access, ...]
) -> tuple[PlannedStep, ...]:
    by_target: dict[int, list[_OpenTerm]] = {}
    for open_term in open_terms:
        by_target.setdefault(open_term.order[0], []).append(_arrive(joined, open_term, accesses))
    return tuple(
        _hop(joined, target, group, accesses) for target, arrived in by_target.items() for group in _groups(arrived)
    )


def _arrive(joined: tuple[int, ...], open_term: _OpenTerm, accesses: tuple[Access, ...]) -> _OpenTerm:
    """Find out what can be decided at the next window, and the box it makes there."""
    target = open_term.order[0]
    reach = {*joined, target}
    ready = tuple(part for part in open_term.left if units_in(part) <= reach)
    left = tuple(part for part in open_term.left if part not in ready)
    known = {(dimension.expr, dimension.hashed) for dimension in accesses[target].dimensions}
    dimensions = tuple(d for d in box_of(And(ready), target).dimensions if (d.expr, d.hashed) in known)
    return replace(open_term, left=left, ready=ready, dimensions=dimensions)


def _groups(arrived: list[_OpenTerm]) -> list[list[_OpenTerm]]:
    """Put together the terms that one search serves: their boxes hold the conditions of the first one's."""
    groups: list[list[_OpenTerm]] = []
    for open_term in sorted(arrived, key=lambda t: (len(t.dimensions), t.number)):
        for group in groups:
            first = group[0]
            if bool(first.dimensions) == bool(open_term.dimensions) and _covers(first, open_term):
                group.append(open_term)
                break
        else:
            groups.append([open_term])
    return groups


def _conditions(open_term: _OpenTerm) -> dict[tuple[Expr, object], tuple[Dimension, Condition | None]]:
    """Return what the box asks, by dimension and skeleton of the comparison."""
    asked: dict[tuple[Expr, object], tuple[Dimension, Condition | None]] = {}
    for dimension in open_term.dimensions:
        if dimension.hashed:
            asked[dimension.expr, dimension.partner] = (dimension, None)
        for condition in dimension.conditions:
            pattern = skeleton(condition.atom, sums=True)[0]
            asked.setdefault((dimension.expr, (pattern, condition.upper)), (dimension, condition))
    return asked


def _covers(first: _OpenTerm, other: _OpenTerm) -> bool:
    return _conditions(first).keys() <= _conditions(other).keys()


def _hop(joined: tuple[int, ...], target: int, group: list[_OpenTerm], accesses: tuple[Access, ...]) -> PlannedStep:
    dimensions = group[0].dimensions
    for other in group[1:]:
        dimensions = _weakest(dimensions, other)
    checks, bare = (
        tuple(_check(open_term, dimensions, target, required) for open_term in group)
        for required in (accesses[target].required, True)
    )
    done = tuple(t.number for t in group if len(t.order) == 1)
    going = [replace(t, order=t.order[1:]) for t in group if len(t.order) > 1]
    onward = _onward((*joined, target), going, accesses)
    numbers = tuple(t.number for t in group)
    return PlannedStep(joined, target, numbers, dimensions, checks, bare, tuple(t.ready for t in group), done, onward)


def _weakest(dimensions: tuple[Dimension, ...], other: _OpenTerm) -> tuple[Dimension, ...]:
    """Widen the box so that it holds that of ``other`` too."""
    asked = _conditions(other)
    made = []
    for dimension in dimensions:
        conditions, widened = [], False
        for condition in dimension.conditions:
            pattern, numbers = skeleton(condition.atom, sums=True)
            theirs = asked[dimension.expr, (pattern, condition.upper)][1]
            if theirs is None:
                continue
            atom = fill(pattern, weaker(pattern, numbers, skeleton(theirs.atom, sums=True)[1]))
            widened |= atom != condition.atom
            conditions.append(replace(condition, atom=atom, loose=condition.loose or theirs.loose))
        equality = dimension.equality and not widened
        made.append(replace(dimension, conditions=tuple(conditions), equality=equality))
    return tuple(made)


def _check(open_term: _OpenTerm, dimensions: tuple[Dimension, ...], target: int, required: bool) -> Formula:
    """Return what a candidate must still satisfy to be one of the term: all that the box does not settle."""
    settled = set()
    if required:
        settled = {c.atom for d in dimensions for c in d.conditions if not any(x.loose for x in d.conditions)}
    rest = [part for part in open_term.ready if not _is_settled(part, target, settled)]
    return rest[0] if len(rest) == 1 else And(tuple(rest))


def _is_settled(part: Formula, target: int, settled: set[Expr]) -> bool:
    """Whether the comparisons that make ``part`` a box are among those that the search has made."""
    if not isinstance(part, Atom):
        return False
    own = box_of(part, target)
    atoms = [condition.atom for dimension in own.dimensions for condition in dimension.conditions]
    return bool(atoms) and not list(_left(own.residual)) and all(atom in settled for atom in atoms)


def _left(residual: Formula) -> tuple[Formula, ...]:
    """Return what a box leaves to be checked."""
    return tuple(part for part in conjuncts(residual) if part != And(()))
