"""Cut a failing case down: fewer rows, a shorter query."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.cases import Case, Shape, TestCase, assemble, columns_of, only_roles
from tests.expressions import BOOL, Expr, Is, Logic
from tests.oracle import without

Fails = Callable[[TestCase], bool]
TRIES_MAX = 400
"""Runs of a case at most: a slow one should not hold up the rest."""


def shrink(case: TestCase, fails: Fails) -> TestCase:
    """Return a smaller case that still fails in the same way."""
    left = TRIES_MAX

    def still(smaller: TestCase) -> bool:
        nonlocal left
        left -= 1
        return left > 0 and fails(smaller)

    case = shrink_rows(case, still)
    case = _shrink_query(case, still)
    return shrink_rows(case, still)


def shrink_rows(case: TestCase, fails: Fails) -> TestCase:
    """Leave out rows as long as the case still fails."""
    for name in case.tables:
        size = max(1, case.tables[name].num_rows // 2)
        while size:
            at = 0
            while at < case.tables[name].num_rows:
                table = without(case.tables[name], at, at + size)
                smaller = replace(case, join=replace(case.join, tables={**case.tables, name: table}))
                if fails(smaller):
                    case = smaller
                else:
                    at += size
            size //= 2
    return case


def _shrink_query(case: TestCase, fails: Fails) -> TestCase:
    """Take the first shorter query that still fails, until there is none."""
    found = True
    while found:
        found = False
        for smaller in _shorter(case):
            if fails(smaller):
                case, found = smaller, True
                break
    return case


def _shorter(case: TestCase) -> Iterator[TestCase]:
    shape = case.shape
    if len(shape.roles) > 2 and shape.kind == "inner":
        for gone in range(len(shape.roles)):
            kept = [role for role in range(len(shape.roles)) if role != gone]
            windows = tuple(case.windows[role] for role in kept)
            yield assemble(only_roles(shape, kept), windows, case.tables, case.data_seed, case.extreme)
    for shorter in _shorter_shapes(shape):
        yield assemble(shorter, case.windows, case.tables, case.data_seed, case.extreme)


def _shorter_shapes(shape: Shape) -> Iterator[Shape]:
    if shape.after:
        yield replace(shape, after=())
    if shape.select is not None:
        yield replace(shape, select=None)
        for at in range(len(shape.select) if len(shape.select) > 1 else 0):
            yield replace(shape, select=shape.select[:at] + shape.select[at + 1 :])
    least = 1 if shape.join_on or shape.kind != "inner" else 0
    for at, term in enumerate(shape.where):
        if len(shape.where) > least:
            yield replace(shape, where=shape.where[:at] + shape.where[at + 1 :])
        for simpler in _simpler(term):
            yield replace(shape, where=(*shape.where[:at], simpler, *shape.where[at + 1 :]))
    used = {(c.alias, c.name) for e in _expressions(shape) for c in columns_of(e)}
    for name, columns in shape.columns.items():
        aliases = [alias for other, alias in shape.roles if other == name]
        for column in columns:
            needed = column.name == shape.times[name] or any((alias, column.name) in used for alias in aliases)
            if not needed:
                rest = [other for other in columns if other is not column]
                yield replace(shape, columns={**shape.columns, name: rest})


def _expressions(shape: Shape) -> list[Expr]:
    return [*shape.where, *shape.after, *(choice.expr for choice in shape.select or ())]


def _simpler(term: Expr) -> Iterator[Expr]:
    """Yield conditions that are part of ``term``."""
    if isinstance(term, Logic | Case | Is):
        yield from (arg for arg in term.args if arg.type == BOOL)
    if isinstance(term, Logic) and len(term.args) > 2:
        for at in range(len(term.args)):
            yield replace(term, args=term.args[:at] + term.args[at + 1 :])
