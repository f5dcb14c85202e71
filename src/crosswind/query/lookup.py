"""Lists of constants: ``x IN (1, 2, ...)``, or as many equalities joined by OR, become one lookup."""

from __future__ import annotations

from collections.abc import Sequence

from crosswind.query.coerce import call
from crosswind.query.tree import Call, Expr, Literal
from crosswind.query.types import BOOL, Kind

__all__ = ["LOOKED_UP_FROM", "either"]

LOOKED_UP_FROM = 9
"""Constants from which on one lookup is better than a comparison with each."""


def either(parts: Sequence[Expr]) -> list[Expr]:
    """Return conditions of which one must hold iff one of ``parts`` must.

    Equalities of one expression with many constants are put together: ``in`` of the expression and of the
    constants, none of them null, each once and in order.
    """
    lists: dict[Expr, list[Literal]] = {}
    for part in parts:
        compared = _compared(part)
        if compared is not None:
            lists.setdefault(compared[0], []).append(compared[1])
    long = {value for value, constants in lists.items() if len(constants) >= LOOKED_UP_FROM}
    if not long:
        return list(parts)
    kept = [part for part in parts if (found := _compared(part)) is None or found[0] not in long]
    return [*kept, *(call("in", BOOL, value, *_in_order(lists[value])) for value in lists if value in long)]


def _compared(part: Expr) -> tuple[Expr, Literal] | None:
    """Return the two sides of an equality with a constant that can be looked up."""
    if not (isinstance(part, Call) and part.op == "eq"):
        return None
    value, constant = part.args
    if isinstance(value, Literal) or not isinstance(constant, Literal) or constant.value is None:
        return None
    if constant.type.kind is Kind.BOOL or constant.type.is_wide or constant.value != constant.value:
        return None
    return value, constant


def _in_order(constants: list[Literal]) -> list[Literal]:
    return sorted({_sortable(constant): constant for constant in constants}.values(), key=_sortable)


def _sortable(constant: Literal) -> bytes | float:
    value = constant.value
    if isinstance(value, str):
        return value.encode()
    return value  # type: ignore[return-value]
