"""The part of a predicate that is a box: an interval in each of some window columns.

Fix the probing tuple, and a comparison like ``R.y >= S.b - 10`` holds for all R.y from
some threshold on. Whatever the types, the arithmetic and its rounding: if the compared
expression is monotone in one window column, the tuples for which it is TRUE are an
interval of that column, and its ends can be found exactly, by bisection over the column's
values with the comparison itself as the test. Conjuncts that are of this kind make a
*box* per probe. Boxes are what the SIMD loops compare and what the indexes look up
(CellJoin §5.2 and §7.2, for any monotone predicate); what is left is the *residual*,
which is checked on the few tuples inside the box.

Every box column is kept as an order-preserving integer *key* of 32 or 64 bits: floats in
Spark's order, NaN greatest and -0.0 equal to 0.0. Equalities of texts and of decimals of
more than 18 digits have a hash for a key; they stay in the residual as well.
"""

from __future__ import annotations

from dataclasses import dataclass

from crosswind.plan.bounds import may_overflow
from crosswind.plan.logic import And, Atom, Formula, conjuncts
from crosswind.query.tree import Call, Column, Expr, Literal, roles_of, walk
from crosswind.query.types import BOOL, Kind, SqlType

__all__ = ["Box", "Condition", "Dimension", "box_of", "key_bits"]

_CONDITIONS_MAX = 16
"""Comparisons that bound a dimension; each takes a search of its own, so what more there is, is checked afterwards."""

_TURNED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq"}


@dataclass(frozen=True)
class Condition:
    """A comparison that holds for an interval of a dimension.

    ``upper``: it holds up to some key (else: from some key on). ``loose``: that is so
    for finite values, but infinities and NaN may fall out of line (inf - inf is NaN, and
    NaN stays greatest when it is negated); the interval is then only a hull.
    """

    atom: Expr
    upper: bool
    loose: bool = False


@dataclass(frozen=True)
class Dimension:
    """A box column: an expression of the window's stream, its key width, its conditions.

    ``equality`` says that the interval is a single key, so that it can be hashed.
    ``hashed`` dimensions have no conditions: the probe's key is the hash of ``partner``.
    """

    expr: Expr
    bits: int
    conditions: tuple[Condition, ...]
    equality: bool
    hashed: bool = False
    partner: Expr | None = None


@dataclass(frozen=True)
class Box:
    """What a probe looks for in the window of unit ``unit``: a box, and a residual."""

    unit: int
    dimensions: tuple[Dimension, ...]
    residual: Formula


def key_bits(of: SqlType) -> int:
    """Return the width of the key of a value of type ``of``; 0: it has no key."""
    match of.kind:
        case Kind.BOOL | Kind.DATE:
            return 32
        case Kind.INT:
            return max(32, of.bits)
        case Kind.FLOAT:
            return of.bits
        case Kind.TIMESTAMP | Kind.DURATION:
            return 64
        case Kind.DECIMAL if not of.is_wide:
            return 64
        case _:
            return 0


def box_of(condition: Formula, unit: int) -> Box:
    """Split ``condition`` into the box that a probe makes in the window of ``unit``, and the rest."""
    found: dict[Expr, list[Condition]] = {}
    equal: set[Expr] = set()
    hashes: dict[Expr, Dimension] = {}
    rest: list[Formula] = []
    for part in conjuncts(condition):
        if not isinstance(part, Atom):
            rest.append(part)
            continue
        hashed = _hashed(part.expr, unit)
        if hashed is not None:
            hashes.setdefault(hashed.expr, hashed)
            rest.append(part)
            continue
        recognised = _recognise(part.expr, unit)
        if recognised is None:
            rest.append(part)
            continue
        expr, conditions, is_equality = recognised
        if len(found.get(expr, ())) >= _CONDITIONS_MAX and not is_equality:
            rest.append(part)
            continue
        found.setdefault(expr, []).extend(conditions)
        loose = any(condition.loose for condition in conditions)
        if loose:
            rest.append(part)
        if is_equality and not loose:
            equal.add(expr)
    dimensions = [
        Dimension(expr, key_bits(expr.type), tuple(conditions), expr in equal) for expr, conditions in found.items()
    ]
    return Box(unit, (*dimensions, *hashes.values()), rest[0] if len(rest) == 1 else And(tuple(rest)))


def _hashed(expr: Expr, unit: int) -> Dimension | None:
    """Return the dimension of an equality of texts or wide decimals between the two sides."""
    if not (isinstance(expr, Call) and expr.op == "eq"):
        return None
    left, right = expr.args
    if not (left.type.is_text or left.type.is_wide):
        return None
    own, other = (left, right) if roles_of(left) == {unit} else (right, left)
    if roles_of(own) != {unit} or unit in roles_of(other) or not roles_of(other):
        return None
    return Dimension(own, 32, (), True, hashed=True, partner=other)


def _recognise(expr: Expr, unit: int) -> tuple[Expr, list[Condition], bool] | None:
    """Return the window expression of which ``expr`` is an interval, and its conditions."""
    if not (isinstance(expr, Call) and expr.op in _TURNED) or not all(map(_exact_at_the_end, expr.args)):
        return None
    left, right = expr.args
    op = expr.op
    if unit not in roles_of(left):
        left, right, op = right, left, _TURNED[op]
    if unit in roles_of(right) or unit not in roles_of(left):
        return None
    inner = _inside_abs(left)
    if inner is not None and op in ("lt", "le"):
        place = _monotone(inner, unit)
        if place is None or right.type.kind is Kind.DECIMAL:
            return None
        loose = not _orderly(inner, place[0])
        low = _lower_half(inner, right, op, place[1], loose)
        if low is None:
            return None
        high = _condition(Call(BOOL, op, (inner, right)), op, place[1], loose)
        return place[0], [low, high], False
    place = _monotone(left, unit)
    if place is None:
        return None
    target, rising = place
    loose = not _orderly(left, target)
    if op == "eq":
        parts = [(Call(BOOL, "ge", (left, right)), "ge"), (Call(BOOL, "le", (left, right)), "le")]
        exact = left == target or (isinstance(left, Call) and left.type.kind is not Kind.FLOAT)
        return target, [_condition(atom, kind, rising, loose) for atom, kind in parts], exact
    return target, [_condition(Call(BOOL, op, (left, right)), op, rising, loose)], False


def _lower_half(inner: Expr, right: Expr, op: str, rising: bool, loose: bool) -> Condition | None:
    """Return the half of ``|inner| <= right`` that bounds ``inner`` from below.

    For floats it is ``-inner <= right``, which holds for a NaN on the right, as it must;
    for integers ``inner >= -right``, where only the right side could leave the range.
    """
    if inner.type.kind is Kind.FLOAT:
        return _condition(Call(BOOL, op, (Call(inner.type, "neg", (inner,)), right)), op, not rising, loose)
    minus = Call(right.type, "neg", (right,))
    if may_overflow(minus) or not _exact_at_the_end(inner):
        return None
    turned = {"lt": "gt", "le": "ge"}[op]
    return _condition(Call(BOOL, turned, (inner, minus)), turned, rising, loose)


def _condition(atom: Expr, op: str, rising: bool, loose: bool) -> Condition:
    return Condition(atom, (op in ("lt", "le")) == rising, loose)


def _exact_at_the_end(side: Expr) -> bool:
    """Whether a compared side overflows at most in its last operation.

    There the exact result is still known to be beyond every 64-bit integer, which is all
    that a comparison needs.
    """
    side = side.args[0] if isinstance(side, Call) and side.op == "abs" else side
    if not may_overflow(side):
        return True
    last = isinstance(side, Call) and (side.op in ("add", "sub") or (side.op == "cast" and not side.type.is_wide))
    return last and isinstance(side, Call) and not any(map(may_overflow, side.args))


def _orderly(side: Expr, target: Expr) -> bool:
    """Whether ``side`` follows ``target`` in order even at infinities and NaN.

    So it is for integers, and for floats that are converted, or moved by constants.
    """
    if side == target or target.type.kind is not Kind.FLOAT:
        return True
    if not isinstance(side, Call) or side.op not in ("cast", "add", "sub", "mul"):
        return False
    first, *others = side.args if target in walk(side.args[0]) else reversed(side.args)
    if any(not isinstance(other, Literal) for other in others) or (side.op == "sub" and first is not side.args[0]):
        return False
    if side.op == "mul" and not all(isinstance(o, Literal) and float(o.value or 0) > 0 for o in others):
        return False
    return _orderly(first, target)


def _inside_abs(expr: Expr) -> Expr | None:
    return expr.args[0] if isinstance(expr, Call) and expr.op == "abs" else None


def _monotone(expr: Expr, unit: int) -> tuple[Expr, bool] | None:
    """Return the window expression in which ``expr`` is monotone, and whether it rises with it.

    Looks through conversions, sums with what does not depend on the window, and products
    with constants, down to a column; an expression of the window alone that goes no
    further is taken as it is.
    """
    inside = _descend(expr, unit)
    if inside is not None:
        return inside
    return (expr, True) if roles_of(expr) == {unit} and key_bits(expr.type) else None


def _descend(expr: Expr, unit: int) -> tuple[Expr, bool] | None:
    if isinstance(expr, Column):
        return (expr, True) if expr.role == unit and key_bits(expr.type) else None
    if not isinstance(expr, Call):
        return None
    if expr.op == "cast":
        known = key_bits(expr.args[0].type) and key_bits(expr.type)
        return _monotone(expr.args[0], unit) if known else None
    if expr.op == "neg":
        return _turned(_monotone(expr.args[0], unit))
    if expr.op not in ("add", "sub", "mul"):
        return None
    first, second = expr.args
    sides = [unit in roles_of(first), unit in roles_of(second)]
    if all(sides) or not any(sides):
        return None
    inside = _monotone(first if sides[0] else second, unit)
    if expr.op == "mul":
        factor = second if sides[0] else first
        if not (isinstance(factor, Literal) and isinstance(factor.value, int | float) and factor.value != 0):
            return None
        return inside if factor.value > 0 else _turned(inside)
    return _turned(inside) if expr.op == "sub" and sides[1] else inside


def _turned(place: tuple[Expr, bool] | None) -> tuple[Expr, bool] | None:
    return None if place is None else (place[0], not place[1])
