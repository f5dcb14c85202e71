"""Comparisons that differ in constants only, and the weakest of them.

Many queries often ask the same with other numbers: ``R.x >= S.a - 10`` and ``R.x >= S.a - 20``.
One search for the weaker finds the candidates of both. That is safe where the comparison
goes one way with the constant, as it does in sums: rounding keeps that order.
"""

from __future__ import annotations

from dataclasses import dataclass

from crosswind.plan.bounds import machine_literal
from crosswind.query.tree import Call, Expr, Literal
from crosswind.query.types import Kind

__all__ = ["Blank", "fill", "skeleton", "weaker"]

_NUMBERS = (Kind.INT, Kind.FLOAT, Kind.DECIMAL, Kind.DURATION, Kind.TIMESTAMP, Kind.DATE)


@dataclass(frozen=True)
class Blank(Expr):
    """Stands for constant number ``index`` of a skeleton."""

    index: int


def skeleton(atom: Expr, sums: bool) -> tuple[Expr, tuple[Literal, ...]]:
    """Return ``atom`` with its numbers blanked, and the numbers.

    ``sums``: only those in which the comparison goes one way.
    """
    found: list[Literal] = []

    def visit(expr: Expr) -> Expr:
        if isinstance(expr, Literal) and _is_number(expr):
            found.append(expr)
            return Blank(expr.type, len(found) - 1)
        if not isinstance(expr, Call) or (sums and expr.op not in ("add", "sub", "neg", "cast")):
            return expr
        if not sums and expr.op in ("user", "in"):
            return expr
        return Call(expr.type, expr.op, tuple(visit(arg) for arg in expr.args), expr.function)

    if not isinstance(atom, Call):
        return atom, ()
    if not sums:
        return visit(atom), tuple(found)
    return Call(atom.type, atom.op, tuple(visit(arg) for arg in atom.args)), tuple(found)


def fill(pattern: Expr, numbers: tuple[Literal, ...]) -> Expr:
    """Return a skeleton with its numbers put back."""
    if isinstance(pattern, Blank):
        return numbers[pattern.index]
    if isinstance(pattern, Call):
        return Call(pattern.type, pattern.op, tuple(fill(arg, numbers) for arg in pattern.args), pattern.function)
    return pattern


def weaker(pattern: Expr, first: tuple[Literal, ...], second: tuple[Literal, ...]) -> tuple[Literal, ...]:
    """Return numbers with which the comparison holds wherever it does with ``first`` or with ``second``."""
    if not isinstance(pattern, Call):
        return first
    rising: dict[int, bool] = {}
    left, right = pattern.args
    down = pattern.op in ("lt", "le")  # holds more often as the right side grows
    _signs(left, not down, rising)
    _signs(right, down, rising)
    chosen = []
    for k, pair in enumerate(zip(first, second, strict=True)):
        pick = max if rising[k] else min
        chosen.append(pick(pair, key=_size))
    return tuple(chosen)


def _signs(expr: Expr, grows: bool, rising: dict[int, bool]) -> None:
    """Note for each blank whether the comparison holds more often as its number grows."""
    if isinstance(expr, Blank):
        rising[expr.index] = grows
    elif isinstance(expr, Call):
        for place, arg in enumerate(expr.args):
            turned = expr.op == "neg" or (expr.op == "sub" and place == 1)
            _signs(arg, grows != turned, rising)


def _size(literal: Literal) -> int | float:
    number = machine_literal(literal)
    return 0 if number is None else number


def _is_number(literal: Literal) -> bool:
    number = machine_literal(literal)
    return literal.type.kind in _NUMBERS and not literal.type.is_wide and number is not None and number == number
