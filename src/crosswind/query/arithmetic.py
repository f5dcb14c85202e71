"""The types of ``+ - * / %``, negation and absolute value.

Integers are computed in 64 bits and checked; decimals as described in ``coerce``.
Operations on constants are carried out here, exactly.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from crosswind.query.coerce import EXACT, call, cast, common_type, decimal_digits, too_wide
from crosswind.query.format import is_implicit_cast
from crosswind.query.refusal import RefusalError, span, unsupported
from crosswind.query.tree import Call, Expr, Literal
from crosswind.query.types import DATE, DOUBLE, INT64, UNITS_PER_SECOND, Kind, SqlType

__all__ = ["SYMBOLS", "absolute", "arithmetic", "decimal_literal", "negate"]

SYMBOLS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "mod": "%"}
_TEMPORAL = (Kind.TIMESTAMP, Kind.DATE, Kind.DURATION)


def arithmetic(op: str, left: Expr, right: Expr) -> Expr:
    """Build ``left op right`` with both sides converted to what Spark computes it in."""
    kinds = {left.type.kind, right.type.kind}
    if kinds & set(_TEMPORAL):
        return _temporal(op, left, right)
    for expr in (left, right):
        if not expr.type.is_numeric and expr.type.kind is not Kind.NULL:
            raise _not_a_number(expr, SYMBOLS[op])
    if kinds == {Kind.NULL}:
        left = right = Literal(INT64, None, start=left.start, end=right.end)
    left, right = _typed_null(left, right), _typed_null(right, left)
    kinds = {left.type.kind, right.type.kind}
    if Kind.DECIMAL in kinds and Kind.FLOAT not in kinds:
        return _decimal(op, left, right)
    of = common_type((left, right), "compute")
    if op == "div":
        of = DOUBLE
    elif of.kind is Kind.INT:
        of = INT64
    return _folded(op, of, cast(left, of), cast(right, of))


def negate(expr: Expr) -> Expr:
    """Build ``-expr``."""
    return _unary("neg", expr, "-")


def absolute(expr: Expr) -> Expr:
    """Build ``abs(expr)``."""
    return _unary("abs", expr, "abs")


def _unary(op: str, expr: Expr, shown: str) -> Expr:
    kind = expr.type.kind
    if not expr.type.is_numeric and kind not in (Kind.DURATION, Kind.NULL):
        raise _not_a_number(expr, shown)
    if expr.type.is_wide and not isinstance(expr, Literal):
        raise too_wide(expr)
    if kind is Kind.NULL:
        return cast(expr, INT64)
    if isinstance(expr, Literal):
        match expr.value:
            case int() as ticks:
                return _int_literal(abs(ticks) if op == "abs" else -ticks, expr.type, expr)
            case float() as value:
                return replace(expr, value=abs(value) if op == "abs" else -value)
            case Decimal() as number:
                return replace(expr, value=abs(number) if op == "abs" else -number)
    return call(op, INT64 if kind is Kind.INT else expr.type, cast(expr, INT64) if kind is Kind.INT else expr)


def _int_literal(value: int, of: SqlType, *places: Expr) -> Literal:
    """Return an integer constant, in 64 bits if it no longer fits its type."""
    start, end = span(*places)
    if not -(2**63) <= value < 2**63:
        shown = " and ".join(f"{{{number}}}" for number in range(len(places)))
        raise RefusalError(f"The constant computed from {shown} is {value}, which does not fit into 64 bits.", *places)
    if of.kind is Kind.INT and not -(2 ** (of.bits - 1)) <= value < 2 ** (of.bits - 1):
        of = INT64
    return Literal(of, value, start=start, end=end)


def _typed_null(expr: Expr, other: Expr) -> Expr:
    return cast(expr, other.type) if expr.type.kind is Kind.NULL else expr


def _not_a_number(expr: Expr, shown: str) -> RefusalError:
    of = expr.type
    if of.kind is Kind.OTHER or of.is_text:
        return unsupported(
            f"Cannot apply {shown} to {{0}}, which is {of}. Arithmetic takes numbers, timestamps, dates and intervals; "
            "bring the number into a column of its own.",
            expr,
        )
    hint = " Use CASE WHEN ... THEN 1 ELSE 0 END." if of.kind is Kind.BOOL else ""
    return RefusalError(
        f"Cannot apply {shown} to {{0}}, which is {of}. Allowed: integers, floats, decimals.{hint}", expr
    )


def _folded(op: str, of: SqlType, left: Expr, right: Expr) -> Expr:
    """Build the call, or its value if both sides are constants."""
    if not (isinstance(left, Literal) and isinstance(right, Literal)):
        return call(op, of, left, right)
    a, b = left.value, right.value
    if isinstance(a, bool | str | bytes) or isinstance(b, bool | str | bytes) or a is None or b is None:
        return call(op, of, left, right)
    start, end = span(left, right)
    if isinstance(a, int) and isinstance(b, int) and op in ("add", "sub", "mul"):
        return _int_literal({"add": a + b, "sub": a - b, "mul": a * b}[op], of, left, right)
    if of == DOUBLE and isinstance(a, float) and isinstance(b, float) and op != "mod" and (op != "div" or b):
        value = a / b if op == "div" else {"add": a + b, "sub": a - b, "mul": a * b}[op]
        return Literal(of, value, start=start, end=end)
    return call(op, of, left, right)


def _decimal(op: str, left: Expr, right: Expr) -> Expr:
    """Build decimal arithmetic in 64 bits; see ``coerce`` for what is clamped."""
    if op == "div":
        raise unsupported(
            "{0} / {1} is a division of decimals, which Spark rounds to a scale of its own. "
            "Divide in double instead: CAST({0} AS DOUBLE) / {1}.",
            left,
            right,
        )
    if isinstance(left, Literal) and isinstance(right, Literal) and op != "mod":
        return _decimal_constant(op, left, right)
    for expr in (left, right):
        if expr.type.is_wide:
            raise too_wide(expr)
    (p1, s1), (p2, s2) = _true_digits(left), _true_digits(right)
    precision, scale = {
        "add": (max(p1 - s1, p2 - s2) + max(s1, s2) + 1, max(s1, s2)),
        "mul": (p1 + p2 + 1, s1 + s2),
        "mod": (min(p1 - s1, p2 - s2) + max(s1, s2), max(s1, s2)),
    }["add" if op == "sub" else op]
    if precision > 38 or scale > 18:
        raise unsupported(
            f"{{0}} {SYMBOLS[op]} {{1}} needs decimal({precision},{scale}), more than can be computed exactly. "
            "Use CAST(... AS DOUBLE) on one of them, or decimals with fewer digits.",
            left,
            right,
        )
    of = SqlType(Kind.DECIMAL, precision=min(precision, 18), scale=scale)
    if op == "mul":
        return call(op, of, _as_decimal(left, s1), _as_decimal(right, s2))
    return call(op, of, _as_decimal(left, scale), _as_decimal(right, scale))


def _as_decimal(expr: Expr, scale: int) -> Expr:
    """Convert to a 64-bit decimal of the given scale."""
    precision, own_scale = decimal_digits(expr)
    digits = min(18, precision - own_scale + scale)
    return cast(expr, SqlType(Kind.DECIMAL, precision=max(digits, scale, 1), scale=scale))


def _true_digits(expr: Expr) -> tuple[int, int]:
    """Return precision and scale as Spark has them, before clamping to 18 digits."""
    while is_implicit_cast(expr) and isinstance(expr, Call):
        expr = expr.args[0]
    if isinstance(expr, Call) and expr.type.kind is Kind.DECIMAL and expr.op in ("add", "sub", "mul"):
        (p1, s1), (p2, s2) = _true_digits(expr.args[0]), _true_digits(expr.args[1])
        if expr.op == "mul":
            return p1 + p2 + 1, s1 + s2
        return max(p1 - s1, p2 - s2) + max(s1, s2) + 1, max(s1, s2)
    if isinstance(expr, Call) and expr.type.kind is Kind.DECIMAL and expr.op in ("neg", "abs"):
        return _true_digits(expr.args[0])
    return decimal_digits(expr)


def _decimal_constant(op: str, left: Literal, right: Literal) -> Expr:
    start, end = span(left, right)
    if left.value is None or right.value is None:
        return Literal(SqlType(Kind.DECIMAL, precision=18, scale=0), None, start=start, end=end)
    a, b = Decimal(str(left.value)), Decimal(str(right.value))
    value = {"add": EXACT.add, "sub": EXACT.subtract, "mul": EXACT.multiply}[op](a, b)
    return decimal_literal(value, start, end)


def decimal_literal(value: Decimal, start: int, end: int) -> Literal:
    """Return a decimal constant with the digits it is written with."""
    _, digits, exponent = value.as_tuple()
    scale = max(0, -int(exponent))
    precision = max(len(digits) + max(0, int(exponent)), scale)
    of = SqlType(Kind.DECIMAL, precision=precision, scale=scale)
    if precision > 38:
        literal = Literal(of, value, start=start, end=end)
        raise RefusalError("The constant {0} has more than 38 digits. Write it as a double, for example 1e40.", literal)
    return Literal(of, value.quantize(Decimal(1).scaleb(-scale), context=EXACT), start=start, end=end)


def _temporal(op: str, left: Expr, right: Expr) -> Expr:
    """Build arithmetic in which a timestamp, date or interval takes part."""
    a, b = left.type.kind, right.type.kind
    if Kind.NULL in (a, b):
        raise RefusalError(f"{{0}} {SYMBOLS[op]} {{1}}: use a typed value in place of NULL.", left, right)
    moments = (Kind.TIMESTAMP, Kind.DATE)
    if op == "sub" and a in moments and b in moments:
        return _difference(left, right)
    if op in ("add", "sub") and a in moments and b is Kind.DURATION:
        return _shifted(op, left, right)
    if op == "add" and a is Kind.DURATION and b in moments:
        return _shifted(op, right, left)
    if op in ("add", "sub") and a is Kind.DURATION and b is Kind.DURATION:
        of = common_type((left, right), "compute")
        return _folded(op, of, cast(left, of), cast(right, of))
    if op == "mul" and {a, b} == {Kind.DURATION, Kind.INT}:
        span_, count = (left, right) if a is Kind.DURATION else (right, left)
        return _folded(op, span_.type, span_, cast(count, INT64))
    raise RefusalError(
        f"Cannot compute {{0}} {SYMBOLS[op]} {{1}} ({left.type} {SYMBOLS[op]} {right.type}). {_advice(a, b)}",
        left,
        right,
    )


def _advice(a: Kind, b: Kind) -> str:
    if {a, b} & {Kind.TIMESTAMP, Kind.DATE} and {a, b} & {Kind.INT, Kind.FLOAT, Kind.DECIMAL}:
        return "Add or subtract an interval, for example INTERVAL 10 SECONDS or INTERVAL 1 DAY."
    if Kind.STRING in (a, b):
        return "Write the constant as TIMESTAMP '...', DATE '...' or INTERVAL '...'."
    return (
        "Allowed: timestamp - timestamp, timestamp + interval, timestamp - interval, "
        "interval + interval, interval - interval, interval * integer."
    )


def _difference(left: Expr, right: Expr) -> Expr:
    of = common_type((left, right), "subtract")
    if of == DATE:
        of = SqlType(Kind.TIMESTAMP, unit="s")
    return _folded("sub", SqlType(Kind.DURATION, unit=of.unit), cast(left, of), cast(right, of))


def _shifted(op: str, moment: Expr, by: Expr) -> Expr:
    """Build timestamp plus or minus interval in the finer unit; a date moved by whole days stays a date.

    Dates are counted in days, so such a move adds an int64 number of days.
    """
    if moment.type.kind is Kind.DATE and isinstance(by, Literal) and isinstance(by.value, int):
        days, rest = divmod(by.value, 86400 * UNITS_PER_SECOND[by.type.unit])
        if not rest:
            return _folded(op, DATE, moment, Literal(INT64, days, start=by.start, end=by.end))
    units = [unit for unit in (moment.type.unit, by.type.unit) if unit]
    unit = max(units, key=UNITS_PER_SECOND.__getitem__)
    of = SqlType(Kind.TIMESTAMP, unit=unit, zoned=moment.type.zoned)
    return _folded(op, of, cast(moment, of), cast(by, SqlType(Kind.DURATION, unit=unit)))
