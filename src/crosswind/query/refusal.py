"""Errors of the type rules, before they are told in the words of the query.

The rules in ``coerce``, ``arithmetic`` and ``temporal`` see expressions only. They raise a
:class:`RefusalError` that holds those; the reader, who has the text and the names of the
streams, turns it into a :class:`~crosswind.errors.QueryError` that shows both.
"""

from __future__ import annotations

from collections.abc import Sequence

from crosswind.errors import QueryError, UnsupportedError
from crosswind.query.format import format_expr
from crosswind.query.tree import Expr, Stream

__all__ = ["RefusalError", "span", "unsupported"]


class RefusalError(Exception):
    """A message in which ``{0}``, ``{1}`` ... stand for the expressions at fault."""

    def __init__(self, message: str, *exprs: Expr, kind: type[QueryError] = QueryError) -> None:
        super().__init__(message)
        self.message = message
        self.exprs = exprs
        self.kind = kind

    def told(self, sql: str, streams: Sequence[Stream]) -> QueryError:
        """Return the error as the user sees it."""
        message = self.message
        for number, expr in enumerate(self.exprs):
            message = message.replace(f"{{{number}}}", format_expr(expr, streams))
        start, end = span(*self.exprs)
        return self.kind(message, sql, start, end)


def unsupported(message: str, *exprs: Expr) -> RefusalError:
    """Return a refusal of something well formed that cannot be run."""
    return RefusalError(message, *exprs, kind=UnsupportedError)


def span(*exprs: Expr) -> tuple[int, int]:
    """Return the offsets that cover all of ``exprs``, or (-1, -1)."""
    known = [expr for expr in exprs if expr.start >= 0]
    if not known:
        return -1, -1
    return min(expr.start for expr in known), max(expr.end for expr in known)
