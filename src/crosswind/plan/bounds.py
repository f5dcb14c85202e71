"""The least and greatest machine integer that an expression can be.

Machine integers are what kernels compute with: scaled decimals, ticks, days. Bounds
decide where an overflow check is needed, and which comparisons may be turned around.
"""

from __future__ import annotations

from decimal import Decimal

from crosswind.plan.axis import INT64_MAX, INT64_MIN
from crosswind.query.tree import Call, Expr, Literal
from crosswind.query.types import UNITS_PER_SECOND, Kind, SqlType

__all__ = ["INTEGRAL", "bounds", "cast_factor", "machine_literal", "may_overflow", "type_bounds"]

INTEGRAL = (Kind.INT, Kind.DECIMAL, Kind.TIMESTAMP, Kind.DATE, Kind.DURATION)
"""Kinds whose values are machine integers."""


def bounds(expr: Expr) -> tuple[int, int]:
    """Return the least and greatest machine integer that ``expr`` can be (before any check)."""
    if isinstance(expr, Literal):
        value = machine_literal(expr)
        return (value, value) if isinstance(value, int) else (0, 0)
    if isinstance(expr, Call):
        args = [bounds(arg) for arg in expr.args]
        match expr.op:
            case "add":
                return args[0][0] + args[1][0], args[0][1] + args[1][1]
            case "sub":
                return args[0][0] - args[1][1], args[0][1] - args[1][0]
            case "mul":
                corners = [a * b for a in args[0] for b in args[1]]
                return min(corners), max(corners)
            case "neg":
                return -args[0][1], -args[0][0]
            case "abs":
                return 0, max(abs(args[0][0]), abs(args[0][1]))
            case "cast" if expr.args[0].type.kind in INTEGRAL and not expr.args[0].type.is_wide:
                low, high = args[0][0] * cast_factor(expr), args[0][1] * cast_factor(expr)
                return (low, high) if expr.type.kind in INTEGRAL else type_bounds(expr.type)
    return type_bounds(expr.type)


def type_bounds(of: SqlType) -> tuple[int, int]:
    """Return the bounds of a type. Decimals of 18 digits may be clamped results: any int64."""
    match of.kind:
        case Kind.INT:
            return -(2 ** (of.bits - 1)), 2 ** (of.bits - 1) - 1
        case Kind.DATE:
            return -(2**31), 2**31 - 1
        case Kind.DECIMAL if of.precision < 18:
            return -(10**of.precision) + 1, 10**of.precision - 1
        case _:
            return INT64_MIN, INT64_MAX


def cast_factor(expr: Call) -> int:
    """Return what a widening cast multiplies machine integers with (1: nothing)."""
    source, target = expr.args[0].type, expr.type
    if target.kind is Kind.DECIMAL and source.kind in (Kind.INT, Kind.DECIMAL):
        return int(10 ** max(0, target.scale - (source.scale if source.kind is Kind.DECIMAL else 0)))
    if target.kind in (Kind.TIMESTAMP, Kind.DURATION):
        if source.kind is Kind.DATE:
            return 86_400 * UNITS_PER_SECOND[target.unit]
        if source.kind is target.kind:
            return max(1, UNITS_PER_SECOND[target.unit] // UNITS_PER_SECOND[source.unit])
    return 1


def machine_literal(literal: Literal) -> int | float | None:
    """Return the number by which the machine represents a literal; None where it is null."""
    value = literal.value
    if isinstance(value, Decimal):
        return int(value.scaleb(literal.type.scale))
    if isinstance(value, bool):
        return int(value)
    if literal.type.kind is Kind.DECIMAL and isinstance(value, int):
        return int(value * 10**literal.type.scale)
    return value if isinstance(value, int | float) else None


def may_overflow(expr: Expr) -> bool:
    """Whether some integer computation in ``expr`` could leave the 64-bit range."""
    if not isinstance(expr, Call):
        return False
    if any(may_overflow(arg) for arg in expr.args):
        return True
    if expr.op == "cast":
        source, target = expr.args[0].type, expr.type
        if target.kind not in INTEGRAL or target.is_wide:
            return False
        if source.kind not in INTEGRAL:
            return True
        room = type_bounds(target) if target.kind in (Kind.INT, Kind.DECIMAL) else (INT64_MIN, INT64_MAX)
    elif expr.op in ("add", "sub", "mul", "neg", "abs") and expr.type.kind in INTEGRAL:
        room = (INT64_MIN, INT64_MAX)
    else:
        return False
    low, high = bounds(expr)
    return low < room[0] or high > room[1]
