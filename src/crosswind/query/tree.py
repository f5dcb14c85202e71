"""WHAT is asked: an immutable tree of streams, windows, predicate and projection.

Nothing here knows how a join is run. Two queries with the same meaning and spelling
are equal and hash alike, so that plans can share what they have in common.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction

import pyarrow as pa

from crosswind.query.types import SqlType

__all__ = [
    "COMPARISONS",
    "Call",
    "Column",
    "Expr",
    "Literal",
    "Now",
    "Output",
    "Query",
    "Range",
    "Rows",
    "Stream",
    "UserFunction",
    "Window",
    "roles_of",
    "walk",
]

COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")


@dataclass(frozen=True)
class Range:
    """A time window of ``length`` seconds, or of ``length`` units of an integer time column.

    ``seconds`` is True where the text gave a unit of time.
    """

    length: Fraction
    seconds: bool
    inclusive: bool = False
    text: str = field(default="", compare=False)


@dataclass(frozen=True)
class Rows:
    """A count window: the last ``count`` tuples in the order."""

    count: int
    text: str = field(default="", compare=False)


@dataclass(frozen=True)
class Now:
    """Same time only."""

    text: str = field(default="NOW", compare=False)


Window = Range | Rows | Now


@dataclass(frozen=True)
class Stream:
    """One entry of FROM: a stream in a role. A self join has one stream in two roles."""

    name: str
    alias: str
    window: Window
    schema: pa.Schema
    time: str


@dataclass(frozen=True)
class Expr:
    """Base of all expressions. ``start``/``end`` are offsets in the query text, or -1."""

    type: SqlType
    start: int = field(default=-1, compare=False, kw_only=True)
    end: int = field(default=-1, compare=False, kw_only=True)


@dataclass(frozen=True)
class Column(Expr):
    """A column of the stream in role ``role`` (its position in FROM)."""

    role: int
    name: str


@dataclass(frozen=True)
class Literal(Expr):
    """A constant: None, bool, int, float, Decimal, str or bytes.

    Timestamps, dates and intervals are ints in the unit of the type (days for dates).
    """

    value: bool | int | float | Decimal | str | bytes | None


@dataclass(frozen=True)
class UserFunction:
    """A Python function made usable in SQL by ``@crosswind.predicate``."""

    name: str
    source: str
    arity: int
    function: Callable[..., object] = field(compare=False, repr=False)


@dataclass(frozen=True)
class Call(Expr):
    """An operation on fully coerced arguments.

    The type checker has already made the arguments of one type where the operation
    wants that, so whoever evaluates a Call never converts anything. Operations:

    ==================================  =====================================================
    eq ne lt le gt ge                   two arguments of one type -> bool, null if either is
    same                                IS NOT DISTINCT FROM: never null
    in                                  whether the first argument is one of the others: constants
                                        of its type in ascending order, none null; null if it is
    and or not                          three-valued logic
    is_null is_true is_false            never null
    add sub mul neg abs                 on int64, float, double, decimal (scales prepared),
                                        interval and timestamp ticks; checked where integral
                                        date +/- int64 days is a date, interval * int64 an interval
    div                                 double / double, null where the divisor is zero
    mod                                 sign of the dividend, null where the divisor is zero
    sqrt exp ln log10 log2 sin cos tan  double -> double
    asin acos atan cbrt radians degrees
    power atan2 hypot                   double, double -> double
    floor ceil                          double -> int64 (NaN: 0, saturating, as in Spark);
                                        decimal -> decimal of scale 0
    sign                                double -> double
    least greatest coalesce             any number of arguments of one type; nulls are skipped
    if                                  (bool, then, else): ``else`` where not true
    cast                                one argument to ``type``
    user                                ``function`` on its arguments, null if any is null
    ==================================  =====================================================
    """

    op: str
    args: tuple[Expr, ...]
    function: UserFunction | None = None


@dataclass(frozen=True)
class Output:
    """One column of the result. ``field`` carries the Arrow type and the name."""

    name: str
    expr: Expr
    arrow: pa.DataType


@dataclass(frozen=True)
class Query:
    """A window join: streams in FROM order, condition (None: every pair), result columns.

    ``kind`` is ``inner``, or, for two streams, ``left``, ``right``, ``full``, ``semi`` or
    ``anti``. Then ``where`` is the condition of ON, and ``after`` that of WHERE, which
    the rows of the result must satisfy.
    """

    sql: str
    streams: tuple[Stream, ...]
    where: Expr | None
    outputs: tuple[Output, ...]
    kind: str = "inner"
    after: Expr | None = None

    @property
    def preserved(self) -> tuple[int, ...]:
        """The roles for whose tuples it counts whether they match anything at all."""
        return {"left": (0,), "right": (1,), "full": (0, 1), "semi": (0,), "anti": (0,)}.get(self.kind, ())


def walk(expr: Expr) -> Iterator[Expr]:
    """Yield ``expr`` and everything below it, parents first."""
    yield expr
    if isinstance(expr, Call):
        for arg in expr.args:
            yield from walk(arg)


def roles_of(expr: Expr) -> frozenset[int]:
    """Return the roles whose columns ``expr`` uses."""
    return frozenset(node.role for node in walk(expr) if isinstance(node, Column))
