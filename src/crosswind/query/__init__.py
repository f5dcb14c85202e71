"""WHAT is asked: SQL text to an immutable tree of streams, windows, predicate and projection.

This is the only room that imports sqlglot, and only when a query is parsed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from crosswind.loading import heavy_loading
from crosswind.query.format import format_expr
from crosswind.query.tree import Query
from crosswind.query.userfunctions import predicate, registered
from crosswind.query.windows import parse_duration

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Query", "format_expr", "parse", "parse_duration", "predicate", "registered"]


def parse(sql: str, schemas: Mapping[str, pa.Schema], time: str | Mapping[str, str] = "ts") -> Query:
    """Parse, bind and type-check a window join.

    Parameters
    ----------
    sql : str
        ``SELECT ... FROM R [RANGE 15 MINUTES], S [ROWS 500] AS b WHERE ...``. Strings in
        single quotes; names in double quotes or backticks where they need quoting.
    schemas : mapping of str to pyarrow.Schema
        The streams that may be named in FROM.
    time : str or mapping of str to str
        The time column: one name for all streams, or one by stream (``ts`` where absent).

    Returns
    -------
    Query
        With every name bound and every operand converted to the type it is computed in.

    Raises
    ------
    QueryError
        If the text, a name, a type or a window is wrong.
    UnsupportedError
        If the query is well formed but cannot be run as a window join.
    """
    with heavy_loading():  # here: `import crosswind` must not pay for sqlglot
        from crosswind.query.read import read

    return read(sql, schemas, time)
