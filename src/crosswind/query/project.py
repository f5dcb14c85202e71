"""The SELECT list: what the result's columns are called and hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp

from crosswind.errors import QueryError, UnsupportedError
from crosswind.query.check import Checker, name_of, place_of
from crosswind.query.scope import Name, Scope
from crosswind.query.tree import Column, Expr, Literal, Output
from crosswind.query.types import Kind, arrow_type

__all__ = ["project"]


@dataclass(frozen=True)
class _ShownItem:
    """A column of the result before clashes of names are settled.

    ``fallback`` is the qualified name it takes if ``name`` is not unique.
    """

    name: str
    fallback: str
    expr: Expr


def project(nodes: Sequence[exp.Expr], checker: Checker) -> tuple[Output, ...]:
    """Return the result's columns.

    ``SELECT R.x, S.x`` gives ``R_x`` and ``S_x``: columns without AS that would clash take
    the qualified name. Any other clash is an error.
    """
    scope = checker.scope
    items = [item for node in nodes for item in _items(node, checker)]
    counts = Counter(item.name for item in items)
    names = [item.fallback if counts[item.name] > 1 else item.name for item in items]
    for name, count in Counter(names).items():
        if count > 1:
            again = [item for item, used in zip(items, names, strict=True) if used == name][-1]
            raise QueryError(
                f"Two columns of the result are called '{name}'. Name one of them with AS.",
                scope.sql,
                again.expr.start,
                again.expr.end,
            )
    return tuple(_output(name, item.expr, scope) for name, item in zip(names, items, strict=True))


def _items(node: exp.Expr, checker: Checker) -> Iterator[_ShownItem]:
    scope = checker.scope
    if isinstance(node, exp.Star):
        yield from _star(node, range(scope.shown), scope)
        return
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
        yield from _star(node.this, [scope.role(name_of(node.args["table"]))], scope)
        return
    if isinstance(node, exp.Alias):
        name = str(node.args["alias"].name)
        yield _ShownItem(name, name, checker.expr(node.this))
        return
    expr = checker.expr(node)
    if isinstance(expr, Column) and isinstance(node, exp.Column):
        yield _ShownItem(expr.name, f"{scope.streams[expr.role].alias}_{expr.name}", expr)
        return
    start, end = place_of(node)
    text = " ".join(scope.sql[start:end].split()) if start >= 0 else "value"
    yield _ShownItem(text, text, expr)


def _star(node: exp.Star, roles: Sequence[int], scope: Scope) -> Iterator[_ShownItem]:
    if any(node.args.values()):
        raise UnsupportedError(
            "'*' with EXCEPT, REPLACE or RENAME is not supported. List the columns.", scope.sql, *place_of(node)
        )
    start, end = place_of(node)
    for role in roles:
        stream = scope.streams[role]
        for column in stream.schema.names:
            name = f"{stream.alias}_{column}"
            yield _ShownItem(name, name, scope.column_of(role, Name(column, start, end)))


def _output(name: str, expr: Expr, scope: Scope) -> Output:
    if isinstance(expr, Column):
        return Output(name, expr, scope.streams[expr.role].schema.field(expr.name).type)
    if (expr.type.is_text or expr.type.kind is Kind.OTHER) and not isinstance(expr, Literal):
        raise UnsupportedError(
            f"A computed column of type {expr.type} cannot be selected yet. Select the columns it is made of, and "
            "compute it from the result.",
            scope.sql,
            expr.start,
            expr.end,
        )
    return Output(name, expr, arrow_type(expr.type))
