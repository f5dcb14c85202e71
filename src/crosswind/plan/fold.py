"""Constants are computed when a query is planned: what is left depends on columns.

``WHERE 1 = 2`` has no column that a kernel could look at, so it must be settled here, and
``R.x < sqrt(16)`` is a band only if the constant is known. Values are those that Spark SQL
gives: three-valued logic, NaN equal to itself and greater than every number, decimals
rounded half up, NULL where a divisor is zero.

A constant that cannot be computed (an overflow, a cast that does not fit) is an error of
the query, as in Spark. It is none where a condition decides whether it is needed at all:
in a branch of CASE or IF, or behind another argument of coalesce. There it stays as it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal

import numpy as np

from crosswind.plan.axis import INT64_MAX, INT64_MIN
from crosswind.plan.bounds import INTEGRAL, machine_literal, type_bounds
from crosswind.query.coerce import EXACT
from crosswind.query.refusal import RefusalError
from crosswind.query.tree import COMPARISONS, Call, Expr, Literal, roles_of
from crosswind.query.types import BOOL, UNITS_PER_SECOND, Kind, SqlType

__all__ = ["Folder"]

Value = bool | int | float | bytes
"""A value that is not null: numbers of the machine (scaled decimals, ticks, days), texts as bytes."""

_REAL = (
    "sqrt",
    "exp",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "cbrt",
    "radians",
    "degrees",
    "power",
    "atan2",
    "hypot",
)
_STRICT: tuple[str, ...] = (
    *COMPARISONS,
    *_REAL,
    "ln",
    "log10",
    "log2",
    "sign",
    "floor",
    "ceil",
    "cast",
    "not",
    "user",
    "in",
)
_STRICT += ("add", "sub", "mul", "neg", "abs", "div", "mod")
"""Operations that are null if an argument is."""

_ORDER: dict[str, Callable[[int], bool]] = {
    "eq": lambda order: order == 0,
    "ne": lambda order: order != 0,
    "lt": lambda order: order < 0,
    "le": lambda order: order <= 0,
    "gt": lambda order: order > 0,
    "ge": lambda order: order >= 0,
}


class _OutOfRangeError(Exception):
    """A constant has no value of its type."""


class Folder:
    """Computes the constants of the conditions of one query.

    ``settled`` lists the conditions, or parts of them, that turned out to be constant, each with its value.
    """

    def __init__(self) -> None:
        self.settled: list[tuple[Expr, bool | None]] = []

    def fold(self, condition: Expr) -> Expr:
        """Return ``condition`` with all its constants computed.

        Raises
        ------
        RefusalError
            Where a constant that is needed cannot be computed.
        """
        return self._fold(condition, needed=True)

    def _fold(self, expr: Expr, needed: bool) -> Expr:
        if not isinstance(expr, Call):
            return expr
        before = len(self.settled)
        made = _BRANCHES[expr.op](self, expr, needed) if expr.op in _BRANCHES else self._plain(expr, needed)
        if isinstance(made, Literal) and expr.type == BOOL and (len(self.settled) == before or not roles_of(expr)):
            del self.settled[before:]  # what it consists of is not worth a line of its own
            self.settled.append((expr, None if made.value is None else bool(made.value)))
        return made

    def _plain(self, expr: Call, needed: bool) -> Expr:
        """Fold an operation all of whose arguments are needed."""
        args = tuple(self._fold(arg, needed) for arg in expr.args)
        if expr.op in _STRICT and any(_is_null(arg) for arg in args):
            return _null(expr)
        known = [arg for arg in args if isinstance(arg, Literal)]
        if len(known) < len(args) or expr.op == "user":
            return _with(expr, args)
        try:
            return _literal(expr, _COMPUTE[expr.op](expr, known))
        except _OutOfRangeError as error:
            if not needed:
                return _with(expr, args)
            message = f"The constant {{0}} has no value: {error}. Write one that fits, or compute in a wider type."
            raise RefusalError(message, _with(expr, args)) from None

    def _logic(self, expr: Call, needed: bool) -> Expr:
        """Fold AND or OR: one part may decide; parts that cannot are left out."""
        decides = expr.op == "or"
        args = []
        for arg in expr.args:
            made = self._fold(arg, needed)
            if isinstance(made, Literal) and made.value is decides:
                return made
            if not (isinstance(made, Literal) and made.value is (not decides)):
                args.append(made)
        if all(map(_is_null, args)):
            return _null(expr) if args else Literal(BOOL, not decides, start=expr.start, end=expr.end)
        return args[0] if len(args) == 1 else _with(expr, tuple(args))

    def _if(self, expr: Call, needed: bool) -> Expr:
        condition = self._fold(expr.args[0], needed)
        if isinstance(condition, Literal):
            return self._fold(expr.args[1 if condition.value is True else 2], needed)
        return _with(expr, (condition, *(self._fold(arg, needed=False) for arg in expr.args[1:])))

    def _coalesce(self, expr: Call, needed: bool) -> Expr:
        args: list[Expr] = []
        for arg in expr.args:
            made = self._fold(arg, needed and not args)
            if _is_null(made):
                continue
            args.append(made)
            if isinstance(made, Literal):
                break
        if not args:
            return _null(expr)
        return args[0] if len(args) == 1 else _with(expr, tuple(args))

    def _extreme(self, expr: Call, needed: bool) -> Expr:
        args = [arg for arg in (self._fold(arg, needed) for arg in expr.args) if not _is_null(arg)]
        if not args:
            return _null(expr)
        if not all(isinstance(arg, Literal) for arg in args):
            return args[0] if len(args) == 1 else _with(expr, tuple(args))
        best = args[0]
        for arg in args[1:]:
            order = _compare(_value(arg), _value(best))
            if (order < 0) if expr.op == "least" else (order > 0):
                best = arg
        return best


_BRANCHES: dict[str, Callable[[Folder, Call, bool], Expr]] = {
    "and": Folder._logic,
    "or": Folder._logic,
    "if": Folder._if,
    "coalesce": Folder._coalesce,
    "least": Folder._extreme,
    "greatest": Folder._extreme,
}


def _is_null(expr: Expr) -> bool:
    return isinstance(expr, Literal) and expr.value is None


def _null(expr: Call) -> Literal:
    return Literal(expr.type, None, start=expr.start, end=expr.end)


def _with(expr: Call, args: tuple[Expr, ...]) -> Call:
    """Return ``expr`` over other arguments (itself where they are the same: it may be shared)."""
    if all(new is old for new, old in zip(args, expr.args, strict=False)) and len(args) == len(expr.args):
        return expr
    return Call(expr.type, expr.op, args, expr.function, start=expr.start, end=expr.end)


def _value(literal: Expr) -> Value:
    """Return what a constant that is not null is in the machine."""
    value = literal.value if isinstance(literal, Literal) else None
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bool | bytes | float) or value is None:
        return value if value is not None else False
    number = machine_literal(literal) if isinstance(literal, Literal) else None
    return number if number is not None else 0


def _literal(expr: Call, value: Value | None) -> Literal:
    """Return the constant that ``value``, as the machine has it, is in the type of ``expr``."""
    of = expr.type
    if value is None:
        return _null(expr)
    if of.kind is Kind.FLOAT:
        with np.errstate(all="ignore"):
            rounded = float(value) if of.bits == 64 else float(np.float32(value))
        return Literal(of, rounded, start=expr.start, end=expr.end)
    if of.kind is Kind.DECIMAL:
        return Literal(of, Decimal(int(value)).scaleb(-of.scale, EXACT), start=expr.start, end=expr.end)
    return Literal(of, value, start=expr.start, end=expr.end)


def _compare(left: Value, right: Value) -> int:
    """Return the order of two values of one type: below, at or above zero; NaN is equal to itself, and greatest."""
    if isinstance(left, float) and isinstance(right, float) and (left != left or right != right):
        return int(left != left) - int(right != right)
    return int(left > right) - int(left < right)  # type: ignore[operator]


def _comparison(expr: Call, args: list[Literal]) -> bool:
    return _ORDER[expr.op](_compare(_value(args[0]), _value(args[1])))


def _same(_: Call, args: list[Literal]) -> bool:
    if _is_null(args[0]) or _is_null(args[1]):
        return _is_null(args[0]) and _is_null(args[1])
    return _compare(_value(args[0]), _value(args[1])) == 0


def _among(_: Call, args: list[Literal]) -> bool:
    return any(_compare(_value(args[0]), _value(item)) == 0 for item in args[1:])


def _number(literal: Expr) -> int | float:
    value = _value(literal)
    return value if isinstance(value, int | float) else 0


def _arithmetic(expr: Call, args: list[Literal]) -> Value:
    first, *others = (_number(arg) for arg in args)
    second = others[0] if others else 0
    if expr.op in ("neg", "abs"):
        made = -first if expr.op == "neg" else abs(first)
    else:
        made = {"add": first + second, "sub": first - second, "mul": first * second}[expr.op]
    return _fitting(made, expr.type) if expr.type.kind in INTEGRAL else made


def _fitting(value: int | float, of: SqlType) -> int:
    """Return a machine integer of type ``of``."""
    low, high = (-(10**of.precision) + 1, 10**of.precision - 1) if of.is_wide else type_bounds(of)
    if not low <= value <= high:
        shown = str(Decimal(int(value)).scaleb(-of.scale, EXACT)) if of.kind is Kind.DECIMAL else str(int(value))
        raise _OutOfRangeError(f"{shown} does not fit into {of}")
    return int(value)


def _div(_: Call, args: list[Literal]) -> float | None:
    first, second = (float(_number(arg)) for arg in args)
    if second == 0:
        return None
    with np.errstate(all="ignore"):
        return float(np.float64(first) / np.float64(second))


def _mod(_: Call, args: list[Literal]) -> Value | None:
    first, second = (_number(arg) for arg in args)
    if second == 0:
        return None
    if isinstance(first, int) and isinstance(second, int):
        rest = abs(first) % abs(second)
        return rest if first >= 0 else -rest
    with np.errstate(all="ignore"):
        return float(np.fmod(first, second))


def _real(function: Callable[..., float]) -> Callable[[Call, list[Literal]], float]:
    """Return a rule that computes in doubles; where a function is not defined it gives NaN, as in C."""

    def compute(_: Call, args: list[Literal]) -> float:
        values = [float(_number(arg)) for arg in args]
        try:
            return function(*values)
        except OverflowError:
            return math.inf
        except ValueError:
            return math.nan

    return compute


def _log(function: Callable[[float], float]) -> Callable[[Call, list[Literal]], float | None]:
    def compute(_: Call, args: list[Literal]) -> float | None:
        value = float(_number(args[0]))
        return None if value <= 0 else function(value)

    return compute


def _power(base: float, exponent: float) -> float:
    try:
        return math.pow(base, exponent)
    except (ValueError, OverflowError):  # 0 to a negative number, a root of one, too much: C has values for these
        with np.errstate(all="ignore"):
            return float(np.power(np.float64(base), np.float64(exponent)))


def _sign(value: float) -> float:
    return value if value != value else float((value > 0) - (value < 0))


def _whole(expr: Call, args: list[Literal]) -> int:
    """Compute floor and ceil: to a long, saturating and 0 for NaN as in Spark, or to a decimal of scale 0."""
    value, of = _number(args[0]), args[0].type
    if isinstance(value, float):
        if value != value:
            return 0
        if math.isinf(value):
            return INT64_MAX if value > 0 else INT64_MIN
        rounded = math.floor(value) if expr.op == "floor" else math.ceil(value)
        return max(INT64_MIN, min(INT64_MAX, rounded))
    unit = 10**of.scale if of.kind is Kind.DECIMAL else 1
    return value // unit if expr.op == "floor" else -(-value // unit)


def _cast(expr: Call, args: list[Literal]) -> Value:
    (literal,), to = args, expr.type
    value, of = _value(literal), literal.type
    if not isinstance(value, int | float):
        raise _OutOfRangeError(f"{of} cannot be converted to {to}")
    if to.kind is Kind.FLOAT:
        return float(Decimal(value).scaleb(-of.scale, EXACT)) if of.kind is Kind.DECIMAL else float(value)
    if of.kind is Kind.FLOAT:
        if value != value or math.isinf(value):
            raise _OutOfRangeError(f"{value} does not fit into {to}")
        if to.kind is not Kind.DECIMAL:
            return _fitting(math.trunc(value), to)
        return _fitting(_rounded(Decimal(repr(value)).scaleb(to.scale, EXACT)), to)
    if to.kind is Kind.DECIMAL or of.kind is Kind.DECIMAL:
        exact = Decimal(value).scaleb((to.scale if to.kind is Kind.DECIMAL else 0) - of.scale, EXACT)
        return _fitting(_rounded(exact) if to.kind is Kind.DECIMAL else int(exact), to)
    return _fitting(int(value) * _ticks(to) // _ticks(of), to)


def _rounded(number: Decimal) -> int:
    return int(number.quantize(Decimal(1), rounding=ROUND_HALF_UP, context=EXACT))


def _ticks(of: SqlType) -> int:
    """Return the ticks of a type in a day; integers count as they are."""
    return 86_400 * UNITS_PER_SECOND[of.unit] if of.unit else 1


_COMPUTE: dict[str, Callable[[Call, list[Literal]], Value | None]] = {
    **dict.fromkeys(COMPARISONS, _comparison),
    **dict.fromkeys(("add", "sub", "mul", "neg", "abs"), _arithmetic),
    "same": _same,
    "in": _among,
    "not": lambda _, args: not _value(args[0]),
    "is_null": lambda _, args: _is_null(args[0]),
    "is_true": lambda _, args: args[0].value is True,
    "is_false": lambda _, args: args[0].value is False,
    "div": _div,
    "mod": _mod,
    "sqrt": _real(math.sqrt),
    "exp": _real(math.exp),
    "sin": _real(math.sin),
    "cos": _real(math.cos),
    "tan": _real(math.tan),
    "asin": _real(math.asin),
    "acos": _real(math.acos),
    "atan": _real(math.atan),
    "cbrt": _real(math.cbrt),
    "radians": _real(lambda x: x * (math.pi / 180.0)),
    "degrees": _real(lambda x: x * (180.0 / math.pi)),
    "power": _real(_power),
    "atan2": _real(math.atan2),
    "hypot": _real(lambda x, y: float(np.hypot(x, y))),
    "ln": _log(math.log),
    "log10": _log(math.log10),
    "log2": _log(math.log2),
    "sign": _real(_sign),
    "floor": _whole,
    "ceil": _whole,
    "cast": _cast,
}
