"""Type coercion: what two operands have in common, and how a comparison gets there.

The rules are Spark SQL 4's with ANSI mode on, with two restrictions: strings are never
cast to numbers silently, and decimals of more than 18 digits are only compared.

Decimals of up to 18 digits are computed as scaled, overflow-checked 64-bit integers.
Where Spark's type of a *result* has more than 18 digits, it is clamped to 18 here: the
value is the same or the computation fails loudly.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Context, Decimal
from math import ceil, floor
from struct import pack, unpack

from crosswind.query.refusal import RefusalError, span, unsupported
from crosswind.query.temporal import read_temporal
from crosswind.query.tree import Call, Column, Expr, Literal
from crosswind.query.types import BOOL, DATE, DOUBLE, NULL, UNITS_PER_SECOND, Kind, SqlType

__all__ = [
    "EXACT",
    "call",
    "cannot_compute",
    "cast",
    "common_type",
    "compare",
    "decimal_digits",
    "to_double",
    "too_wide",
    "unify",
]

EXACT = Context(prec=120)
"""Room for every product of two decimals of 38 digits."""

_INT_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}
_FLIPPED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
_TEMPORAL = (Kind.TIMESTAMP, Kind.DATE)


def call(op: str, of: SqlType, *args: Expr) -> Call:
    """Build a call that stands where its arguments stand."""
    start, end = span(*args)
    return Call(of, op, args, start=start, end=end)


def is_bare(expr: Expr) -> bool:
    """Whether ``expr`` is a column or a constant: only those can be widened to 128 bits."""
    return isinstance(expr, Column | Literal)


def cast(expr: Expr, to: SqlType) -> Expr:
    """Convert ``expr`` to type ``to``; constants are converted here and now where that is exact."""
    if expr.type == to:
        return expr
    if expr.type.kind is Kind.NULL or (isinstance(expr, Literal) and expr.value is None):
        return Literal(to, None, start=expr.start, end=expr.end)
    if isinstance(expr, Literal):
        value = _converted(expr, to)
        if value is not None:
            return Literal(to, value, start=expr.start, end=expr.end)
    if to.is_wide and not is_bare(expr) and not expr.type.is_wide:
        raise unsupported(
            f"{{0}} would have to be computed as {to}, which needs 128 bits; those can only be compared, not "
            "computed. Use CAST(... AS DOUBLE) or CAST(... AS DECIMAL(18, s)) on the wide operand.",
            expr,
        )
    return call("cast", to, expr)


def _converted(literal: Literal, to: SqlType) -> int | float | Decimal | None:
    """Return the value of a constant in another type, or None if only run time can tell."""
    value, of = literal.value, literal.type
    if isinstance(value, bool | str | bytes | float) or value is None:
        return None
    if of.kind in (Kind.TIMESTAMP, Kind.DATE, Kind.DURATION):
        return _converted_ticks(literal, value, to)
    if to.kind is Kind.FLOAT:
        number = float(value)
        return number if to.bits == 64 or unpack("f", pack("f", number))[0] == value else None
    if to.kind is Kind.INT and value == int(value) and -(2 ** (to.bits - 1)) <= value < 2 ** (to.bits - 1):
        return int(value)
    if to.kind is Kind.DECIMAL:
        scaled = Decimal(value).scaleb(to.scale, EXACT)
        if scaled == scaled.to_integral_value(context=EXACT) and abs(scaled) < 10**to.precision:
            return Decimal(value).quantize(Decimal(1).scaleb(-to.scale), context=EXACT)
    return None


def _converted_ticks(literal: Literal, value: int | Decimal, to: SqlType) -> int | None:
    of = literal.type
    if to.kind not in (Kind.TIMESTAMP, Kind.DURATION) or to.zoned != of.zoned:
        return None
    per_second = UNITS_PER_SECOND[to.unit]
    if of.kind is Kind.DATE:
        ticks, rest = int(value) * 86400 * per_second, 0
    else:
        ticks, rest = divmod(int(value) * per_second, UNITS_PER_SECOND[of.unit])
    if rest:
        return None
    if not -(2**63) <= ticks < 2**63:
        raise RefusalError(f"{{0}} does not fit into {to}: 64 bits in that unit do not reach so far.", literal)
    return ticks


def decimal_digits(expr: Expr) -> tuple[int, int]:
    """Return precision and scale of an integer or decimal operand, as Spark counts them."""
    of = expr.type
    if of.kind is Kind.DECIMAL:
        return of.precision, of.scale
    if isinstance(expr, Literal) and isinstance(expr.value, int):
        return len(str(abs(expr.value))), 0
    return _INT_DIGITS[of.bits], 0


def common_type(exprs: Sequence[Expr], what: str) -> SqlType:
    """Return the type in which all of ``exprs`` can be compared; ``what`` says what for.

    NULLs take the type of the others; integer constants the fewest bits that hold them.
    """
    typed = [expr for expr in exprs if expr.type.kind is not Kind.NULL]
    if not typed:
        return NULL
    kinds = {expr.type.kind for expr in typed}
    if kinds <= {Kind.INT, Kind.FLOAT, Kind.DECIMAL}:
        return _common_number(typed, kinds)
    first, *others = typed
    if kinds == {Kind.DURATION}:
        return SqlType(Kind.DURATION, unit=_finest(typed))
    if len(kinds) == 1 and Kind.OTHER not in kinds and kinds != {Kind.TIMESTAMP}:
        return first.type
    if kinds <= {Kind.TIMESTAMP, Kind.DATE}:
        return _common_moment(typed)
    other = next((expr for expr in others if expr.type.kind is not first.type.kind), first)
    if Kind.OTHER in kinds:
        odd = next(expr for expr in typed if expr.type.kind is Kind.OTHER)
        raise cannot_compute(odd)
    raise RefusalError(
        f"Cannot {what} {{0}}, which is {first.type}, and {{1}}, which is {other.type}: Crosswind does not guess "
        f"conversions. {_advice(first, other)}",
        first,
        other,
    )


def cannot_compute(expr: Expr) -> RefusalError:
    """Return the refusal to compute with a nested or unknown type."""
    return unsupported(
        f"{{0}} is of type {expr.type}, which can be selected but not computed with. "
        "Bring the parts you need into columns of their own.",
        expr,
    )


def _advice(first: Expr, other: Expr) -> str:
    """Return the nearest thing that works for two operands that do not go together."""
    kinds = {first.type.kind, other.type.kind}
    text = next((expr for expr in (first, other) if expr.type.kind is Kind.STRING), None)
    numeric = first.type.is_numeric or other.type.is_numeric
    if text is not None and numeric:
        if isinstance(text, Literal):
            return "Write the number without quotes."
        return "Turn the string column into a number before it enters the stream."
    if Kind.BOOL in kinds and numeric:
        return "Use the condition itself, or CASE WHEN ... THEN 1 ELSE 0 END."
    if numeric and kinds & set(_TEMPORAL):
        return "Compare with TIMESTAMP '2026-01-31 12:00:00' or DATE '2026-01-31'."
    if numeric and Kind.DURATION in kinds:
        return "Compare with an interval, for example INTERVAL 10 SECONDS."
    if kinds == {Kind.STRING, Kind.BINARY}:
        return "Write a binary constant as X'0AFF'."
    return "Make both of one type."


def _common_number(exprs: Sequence[Expr], kinds: set[Kind]) -> SqlType:
    if Kind.FLOAT in kinds:
        bits = max(expr.type.bits for expr in exprs) if kinds == {Kind.FLOAT} else 64
        return SqlType(Kind.FLOAT, bits=bits)
    if Kind.DECIMAL in kinds:
        digits = [decimal_digits(expr) for expr in exprs]
        scale = max(s for _, s in digits)
        precision = max(p - s for p, s in digits) + scale
        if precision > 38:
            shown = " and ".join(f"{{{number}}}" for number in range(len(exprs)))
            raise unsupported(
                f"{shown} have no common decimal type: it would need {precision} digits, and 38 is the most. "
                "Use CAST(... AS DOUBLE) on one of them.",
                *exprs,
            )
        return SqlType(Kind.DECIMAL, precision=precision, scale=scale)
    if all(isinstance(expr, Literal) for expr in exprs):
        return SqlType(Kind.INT, bits=max(expr.type.bits for expr in exprs))
    return SqlType(Kind.INT, bits=max(_int_bits(expr) for expr in exprs))


def _int_bits(expr: Expr) -> int:
    """Return the width of an integer; a constant takes the least that holds it."""
    if isinstance(expr, Literal) and isinstance(expr.value, int):
        return next(bits for bits in (8, 16, 32, 64) if -(2 ** (bits - 1)) <= expr.value < 2 ** (bits - 1))
    return expr.type.bits


def _finest(exprs: Sequence[Expr]) -> str:
    units = [expr.type.unit for expr in exprs if expr.type.unit]
    return max(units, key=UNITS_PER_SECOND.__getitem__)


def _common_moment(exprs: Sequence[Expr]) -> SqlType:
    """Return the common type of dates and timestamps."""
    zoned = [expr for expr in exprs if expr.type.zoned]
    plain = [expr for expr in exprs if not expr.type.zoned]
    if not zoned:
        if all(expr.type.kind is Kind.DATE for expr in exprs):
            return DATE
        return SqlType(Kind.TIMESTAMP, unit=_finest(exprs))
    if plain:
        if isinstance(plain[0], Literal):
            hint = "Give the constant an offset, for example TIMESTAMP '2026-01-31 12:00:00Z'."
        else:
            hint = "Give both streams timestamps with a zone, or both without."
        raise RefusalError(
            f"Cannot relate {{0}}, an instant ({zoned[0].type}), and {{1}}, a wall clock time ({plain[0].type}): "
            f"that depends on a time zone that the query does not name. {hint}",
            zoned[0],
            plain[0],
        )
    return SqlType(Kind.TIMESTAMP, unit=_finest(exprs), zoned=True)


def unify(exprs: Sequence[Expr], what: str) -> list[Expr]:
    """Convert all of ``exprs`` to their common type, for ``least``, ``coalesce``, ``if`` and the like.

    Strings and decimals of more than 18 digits are refused: they can only be compared.
    """
    ready = read_strings(exprs)
    of = common_type(ready, what)
    if of.is_text:
        raise unsupported(
            f"Cannot {what} strings and binaries such as {{0}}: they can be compared and selected only. "
            "Compare each one, for example R.a = S.b OR R.a = 'x'.",
            ready[0],
        )
    if any(expr.type.is_wide for expr in ready):
        raise too_wide(next(expr for expr in ready if expr.type.is_wide))
    if of.is_wide:
        of = SqlType(Kind.DECIMAL, precision=18, scale=of.scale)
    return [cast(expr, of) for expr in ready]


def too_wide(expr: Expr) -> RefusalError:
    """Return the refusal to compute with a decimal of more than 18 digits."""
    scale = min(expr.type.scale, 18)
    return unsupported(
        f"{{0}} is {expr.type}; decimals of more than 18 digits can be compared and selected, but not computed "
        f"with. Use CAST({{0}} AS DECIMAL(18,{scale})) or CAST({{0}} AS DOUBLE).",
        expr,
    )


def read_strings(exprs: Sequence[Expr]) -> list[Expr]:
    """Read string constants next to timestamps or dates as such, as Spark does."""
    moment = next((expr.type for expr in exprs if expr.type.kind in _TEMPORAL), None)
    if moment is None:
        return list(exprs)
    return [
        read_temporal(expr, moment) if isinstance(expr, Literal) and isinstance(expr.value, str) else expr
        for expr in exprs
    ]


def compare(op: str, left: Expr, right: Expr) -> Expr:
    """Build a comparison (or ``same``) of two expressions in their common type."""
    left, right = read_strings((left, right))
    if left.type.kind is Kind.NULL and right.type.kind is Kind.NULL:
        start, end = span(left, right)
        return Literal(BOOL, True if op == "same" else None, start=start, end=end)
    if left.type.kind is Kind.INT and isinstance(right, Literal) and isinstance(right.value, Decimal):
        return _compare_int(op, left, right, right.value)
    if right.type.kind is Kind.INT and isinstance(left, Literal) and isinstance(left.value, Decimal):
        return _compare_int(_FLIPPED.get(op, op), right, left, left.value)
    of = common_type((left, right), "compare")
    if of.is_wide and not (left.type.is_wide or right.type.is_wide) and not (is_bare(left) and is_bare(right)):
        of = SqlType(Kind.DECIMAL, precision=18, scale=of.scale)
    return call(op, BOOL, cast(left, of), cast(right, of))


def _compare_int(op: str, number: Expr, literal: Literal, value: Decimal) -> Expr:
    """Compare an integer with a decimal constant in integers: ``x < 10.5`` is ``x <= 10``.

    Exactly what a comparison of decimals gives, but it cannot overflow and stays an
    integer band that plans can use.
    """
    start, end = span(number, literal)
    if value == int(value) and -(2**63) <= value < 2**63:
        whole = Literal(SqlType(Kind.INT, bits=64), int(value), start=literal.start, end=literal.end)
        return compare(op, number, whole)
    if abs(value) < 2**63 and op in _FLIPPED:
        rounded, bound = ("le", floor(value)) if op in ("lt", "le") else ("ge", ceil(value))
        if -(2**63) <= bound < 2**63:
            whole = Literal(SqlType(Kind.INT, bits=64), bound, start=literal.start, end=literal.end)
            return compare(rounded, number, whole)
    if op == "same":
        return Literal(BOOL, False, start=start, end=end)
    holds = op == "ne" or ((value > 0) == (op in ("lt", "le")) and op != "eq")
    return call("eq" if holds else "ne", BOOL, number, number)


def to_double(expr: Expr) -> Expr:
    """Convert a number to double, for functions that are computed so."""
    return cast(expr, DOUBLE)
