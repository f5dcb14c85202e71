"""A WHERE clause as AND/OR over atoms, each of which is simply true or not.

NOT is pushed down to the atoms (comparisons turn around). What is left is monotone:
a pair joins iff the formula holds when every atom that is false *or null* counts as
"not true". Three-valued logic is thus settled once, here, and the program needs only
CMP, AND, OR and JOIN, which is all that WJSI (WJSP §3.2) offers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from crosswind.query.tree import COMPARISONS, Call, Expr, Literal
from crosswind.query.types import BOOL

__all__ = ["FALSE", "INVERSE", "TRUE", "And", "Atom", "Formula", "Not", "Or", "atoms_of", "conjuncts", "normal_form"]

INVERSE = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "le": "gt", "gt": "le"}
"""What NOT makes of a comparison. Sound because NaN has a place in the order."""


@dataclass(frozen=True)
class Atom:
    """A boolean expression that counts only where it is TRUE."""

    expr: Expr


@dataclass(frozen=True)
class And:
    """True iff every part is; no parts: true."""

    parts: tuple[Formula, ...]


@dataclass(frozen=True)
class Or:
    """True iff some part is; no parts: false."""

    parts: tuple[Formula, ...]


@dataclass(frozen=True)
class Not:
    """True iff no part is true (false and null are alike here).

    Queries have none left; plans use it to keep alternatives apart.
    """

    parts: tuple[Formula, ...]


Formula = Atom | And | Or | Not

TRUE: Formula = And(())
FALSE: Formula = Or(())


def normal_form(where: Expr | None) -> Formula:
    """Return the formula of a WHERE clause (None: every pair)."""
    return TRUE if where is None else _positive(where)


def _positive(expr: Expr) -> Formula:
    """Return a formula that holds iff ``expr`` is TRUE."""
    if isinstance(expr, Literal):
        return TRUE if expr.value is True else FALSE
    if isinstance(expr, Call):
        match expr.op:
            case "and":
                return _join(And, [_positive(arg) for arg in expr.args])
            case "or":
                return _join(Or, [_positive(arg) for arg in expr.args])
            case "not" | "is_false":
                return _negative(expr.args[0])
            case "is_true":
                return _positive(expr.args[0])
    return Atom(expr)


def _negative(expr: Expr) -> Formula:
    """Return a formula that holds iff ``expr`` is FALSE (not: "is not TRUE")."""
    if isinstance(expr, Literal):
        return TRUE if expr.value is False else FALSE
    if isinstance(expr, Call):
        match expr.op:
            case "and":
                return _join(Or, [_negative(arg) for arg in expr.args])
            case "or":
                return _join(And, [_negative(arg) for arg in expr.args])
            case "not":
                return _positive(expr.args[0])
            case op if op in COMPARISONS:
                return Atom(Call(BOOL, INVERSE[op], expr.args, start=expr.start, end=expr.end))
    return Atom(Call(BOOL, "is_false", (expr,), start=expr.start, end=expr.end))


def _join(kind: type[And] | type[Or], parts: list[Formula]) -> Formula:
    """Flatten nested parts, drop repeated ones, and settle what is constant."""
    flat: dict[Formula, None] = {}
    for part in parts:
        for piece in part.parts if isinstance(part, kind) else (part,):
            flat[piece] = None
    decided = FALSE if kind is And else TRUE
    if decided in flat:
        return decided
    return next(iter(flat)) if len(flat) == 1 else kind(tuple(flat))


def conjuncts(formula: Formula) -> tuple[Formula, ...]:
    """Return the parts that all must hold."""
    return formula.parts if isinstance(formula, And) else (formula,)


def atoms_of(formula: Formula) -> Iterator[Atom]:
    """Yield the atoms of ``formula`` from left to right, repeated ones repeatedly."""
    if isinstance(formula, Atom):
        yield formula
    else:
        for part in formula.parts:
            yield from atoms_of(part)
