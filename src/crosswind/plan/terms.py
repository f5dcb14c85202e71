"""Terms: what a join of many streams or queries looks for, one conjunction each.

A query is mostly one term. Where its condition has an OR whose branches all hold an
equality between streams, each branch becomes a term of its own, so that each can be looked
up; a later one excludes what an earlier one finds, and no combination comes twice.
"""

from __future__ import annotations

from dataclasses import dataclass

from crosswind.plan.logic import Atom, Formula, Not, Or, atoms_of, conjuncts
from crosswind.query.tree import Call, roles_of

__all__ = ["Term", "terms_of", "units_in"]

_BRANCHES = 4
"""An OR of more branches stays whole: each is a search of its own."""


@dataclass(frozen=True)
class Term:
    """Combinations of ``units`` that satisfy all of ``parts`` are results of query number ``query``."""

    query: int
    units: tuple[int, ...]
    parts: tuple[Formula, ...]


def units_in(formula: Formula) -> frozenset[int]:
    """Return the units whose columns ``formula`` uses."""
    return frozenset().union(*(roles_of(atom.expr) for atom in atoms_of(formula)))


def terms_of(query: int, units: tuple[int, ...], parts: tuple[Formula, ...], least: int = 2) -> list[Term]:
    """Return the terms of a query whose condition is all of ``parts``; an OR is split from ``least`` units on."""
    for at, part in enumerate(parts):
        if not isinstance(part, Or) or len(units_in(part)) < least:
            continue
        if 2 <= len(part.parts) <= _BRANCHES and all(map(_has_key, part.parts)):
            rest = parts[:at] + parts[at + 1 :]
            return [
                Term(query, units, (*rest, *conjuncts(branch), *((Not(part.parts[:k]),) if k else ())))
                for k, branch in enumerate(part.parts)
            ]
    return [Term(query, units, parts)]


def _has_key(branch: Formula) -> bool:
    """Whether some equality between two streams must hold."""
    for part in conjuncts(branch):
        if isinstance(part, Atom) and isinstance(part.expr, Call) and part.expr.op == "eq":
            left, right = map(roles_of, part.expr.args)
            if left and right and not left & right:
                return True
    return False
