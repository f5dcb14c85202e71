"""Typed SQL expressions that render twice: in our SQL and in DuckDB's.

``ours()`` is what a user writes for Crosswind (Spark SQL's meaning). ``duck()`` is text
that gives the same value in DuckDB over the tables the oracle prepares, with the
differences between the two dialects spelled out:

=========  =====================================================================
integers   HUGEINT, so nothing wraps
floats     FLOAT and DOUBLE
decimals   DECIMAL(p, s)
text       BLOB: bytewise order
temporal   HUGEINT nanoseconds: timestamps, dates (midnight) and intervals
=========  =====================================================================

Imports nothing of the package.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

NS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1, "day": 86_400 * 1_000_000_000}
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")
TRANSCENDENTAL = (
    *("exp", "ln", "log10", "log2", "sin", "cos", "tan", "asin", "acos"),
    *("atan", "cbrt", "radians", "degrees", "power", "atan2", "hypot"),
)


@dataclass(frozen=True)
class Type:
    """``kind`` is one of int f32 f64 dec bool text bin ts date dur null.

    ``unit`` and ``zoned`` belong to ts, ``precision`` and ``scale`` to dec.
    """

    kind: str
    precision: int = 0
    scale: int = 0
    unit: str = ""
    zoned: bool = False


INT, F32, F64, BOOL, TEXT, BIN, DATE, DUR, NULL = (
    Type(kind) for kind in ("int", "f32", "f64", "bool", "text", "bin", "date", "dur", "null")
)
DUCK_TYPE = {"int": "HUGEINT", "f32": "FLOAT", "f64": "DOUBLE", "bool": "BOOLEAN", "text": "BLOB", "bin": "BLOB"}
DUCK_TYPE |= {"ts": "HUGEINT", "date": "HUGEINT", "dur": "HUGEINT"}


def common(types: Sequence[Type]) -> Type:
    """Return the type in which values of ``types`` are compared (Spark SQL, ANSI)."""
    known = [t for t in types if t.kind != "null"]
    kinds = {t.kind for t in known}
    if not known:
        return NULL
    if len(kinds) == 1 and kinds != {"dec"}:
        return known[0]
    if kinds <= {"int", "dec"}:
        decimals = [t if t.kind == "dec" else Type("dec", 20, 0) for t in known]
        scale = max(t.scale for t in decimals)
        return Type("dec", min(38, max(t.precision - t.scale for t in decimals) + scale), scale)
    if kinds <= {"int", "dec", "f32", "f64"}:
        return F64
    if kinds <= {"ts", "date"}:
        return next(t for t in known if t.kind == "ts")
    raise TypeError(f"no common type: {kinds}")


def convert(duck: str, have: Type, want: Type) -> str:
    """Return DuckDB text that converts ``duck`` of type ``have`` as Spark's implicit cast does."""
    if want.kind == "null":
        return duck
    if have.kind == "null":
        return f"CAST(NULL AS {duck_type(want)})"
    if have.kind == want.kind and (want.kind != "dec" or have == want):
        return duck
    if want.kind == "f64" and have.kind == "int":
        return f"CAST(TRY_CAST({duck} AS BIGINT) AS DOUBLE)"
    if want.kind == "f64" and have.kind == "dec":
        return f"CAST(CAST({duck} AS VARCHAR) AS DOUBLE)"  # by way of text: correctly rounded
    if {have.kind, want.kind} == {"ts", "date"}:
        return duck
    return f"CAST({duck} AS {duck_type(want)})"


def duck_type(of: Type) -> str:
    """Return the DuckDB type that holds values of type ``of``."""
    return f"DECIMAL({of.precision},{of.scale})" if of.kind == "dec" else DUCK_TYPE[of.kind]


class Expr:
    """Base: a type, children, two renderings."""

    type: Type
    args: tuple[Expr, ...] = ()

    def ours(self) -> str:
        """Return the text of the expression in our SQL."""
        raise NotImplementedError

    def duck(self) -> str:
        """Return the text of the expression for DuckDB."""
        raise NotImplementedError

    def duck_as(self, want: Type) -> str:
        """Return the text for DuckDB, converted to ``want``."""
        return convert(self.duck(), self.type, want)

    def checked(self) -> bool:
        """Whether evaluating it on extreme values may overflow 64 bits (a legal error)."""
        return any(arg.checked() for arg in self.args)

    def approx(self) -> bool:
        """Whether another libm may give a slightly different value."""
        return any(arg.approx() for arg in self.args)

    def bare(self) -> str:
        """Return our text without the outermost parentheses."""
        text = self.ours()
        return text[1:-1] if isinstance(self, Arith) else text


@dataclass(frozen=True)
class Col(Expr):
    """A column of a role."""

    alias: str
    name: str
    type: Type

    def ours(self) -> str:
        return f"{self.alias}.{self.name}"

    def duck(self) -> str:
        text = f'"{self.alias}"."{self.name}"'
        if self.type.kind == "int":
            return f"CAST({text} AS HUGEINT)"
        if self.type.kind in ("ts", "date"):
            return f"(CAST({text} AS HUGEINT) * {NS[self.type.unit]})"
        return text


@dataclass(frozen=True)
class Lit(Expr):
    """A constant. ``text`` is its spelling in our SQL, ``value`` what it means (ns for times)."""

    value: Any
    type: Type
    text: str

    def ours(self) -> str:
        return self.text

    def duck(self) -> str:
        if self.value is None:
            return "NULL"
        if self.type.kind in ("text", "bin"):
            raw = self.value.encode() if isinstance(self.value, str) else self.value
            return "CAST('" + "".join(f"\\x{byte:02X}" for byte in raw) + "' AS BLOB)"
        return f"CAST('{self.value}' AS {duck_type(self.type)})"


def lit(value: Any) -> Lit:
    """Return a literal: int, float (as ``1.5e0``), Decimal (``1.5``), bool, str, bytes or None."""
    if value is None:
        return Lit(None, NULL, "NULL")
    if isinstance(value, bool):
        return Lit(value, BOOL, str(value).upper())
    if isinstance(value, int) or (isinstance(value, Decimal) and value == int(value)):
        return Lit(int(value), INT, str(int(value)))
    if isinstance(value, float):
        text = repr(value)
        return Lit(value, F64, text if "e" in text else f"{text}e0")
    if isinstance(value, Decimal):
        exponent = -int(value.as_tuple().exponent)
        return Lit(value, Type("dec", max(len(value.as_tuple().digits), exponent), exponent), str(value))
    if isinstance(value, str):
        return Lit(value, TEXT, "'" + value.replace("'", "''") + "'")
    return Lit(value, BIN, f"X'{value.hex()}'")


def interval(count: int, unit: str) -> Lit:
    """Return ``INTERVAL 'count' unit``."""
    ns = {"MILLISECOND": NS["ms"], "SECOND": NS["s"], "MINUTE": 60 * NS["s"], "HOUR": 3600 * NS["s"], "DAY": NS["day"]}
    return Lit(count * ns[unit], DUR, f"INTERVAL '{count}' {unit}")


@dataclass(frozen=True)
class Arith(Expr):
    """``+ - * / %`` on numbers; ``+ -`` on timestamps and intervals."""

    op: str
    left: Expr
    right: Expr

    @property
    def args(self) -> tuple[Expr, ...]:  # type: ignore[override]
        return (self.left, self.right)

    @property
    def type(self) -> Type:  # type: ignore[override]
        a, b = self.left.type, self.right.type
        if a.kind in ("ts", "date") or b.kind == "ts":
            return DUR if a.kind == b.kind else (a if a.kind == "ts" else b)
        if self.op == "/":
            return F64
        both = common((a, b))
        if both.kind != "dec":
            return both
        a, b = (t if t.kind == "dec" else Type("dec", 20, 0) for t in (a, b))
        if self.op == "*":
            return Type("dec", min(38, a.precision + b.precision + 1), a.scale + b.scale)
        return Type("dec", min(38, both.precision + 1), both.scale)

    def ours(self) -> str:
        return f"({self.left.ours()} {self.op} {self.right.ours()})"

    def duck(self) -> str:
        both = self.type
        if both.kind == "dec":
            a, b = (arg.duck_as(arg.type if arg.type.kind == "dec" else Type("dec", 20, 0)) for arg in self.args)
            return f"CAST(({a} {self.op} {b}) AS {duck_type(both)})"
        if both.kind in ("ts", "dur"):
            return f"({self.left.duck()} {self.op} {self.right.duck()})"
        a, b = self.left.duck_as(both), self.right.duck_as(both)
        if self.op in "/%":
            return f"(CASE WHEN {b} = 0 THEN NULL ELSE {a} {self.op} {b} END)"
        return f"({a} {self.op} {b})"

    def checked(self) -> bool:
        return self.type.kind in ("int", "dec", "ts", "dur") or super().checked()


@dataclass(frozen=True)
class Func(Expr):
    """A function call. See :data:`_DUCK_FUNCTIONS` for the DuckDB side."""

    name: str
    args: tuple[Expr, ...]

    @property
    def type(self) -> Type:  # type: ignore[override]
        first = self.args[0].type
        if self.name in ("abs", "-"):
            return first
        if self.name in ("least", "greatest", "coalesce"):
            return common([arg.type for arg in self.args])
        if self.name == "nullif":
            return first
        if self.name in ("floor", "ceil"):
            return INT if first.kind != "dec" else Type("dec", first.precision, 0)
        return F64

    def ours(self) -> str:
        if self.name == "-":
            return f"(- {self.args[0].ours()})"
        return f"{self.name}({', '.join(arg.bare() for arg in self.args)})"

    def duck(self) -> str:
        kind = self.type
        if self.name in ("least", "greatest", "coalesce"):
            return f"{self.name}({', '.join(arg.duck_as(kind) for arg in self.args)})"
        if self.name == "nullif":
            first, other = self.args
            return f"(CASE WHEN {Compare('=', first, other).duck()} THEN NULL ELSE {first.duck()} END)"
        if self.name in ("abs", "-"):
            return f"{self.name}({self.args[0].duck()})"
        if self.name in ("floor", "ceil") and self.args[0].type.kind in ("int", "dec"):
            inner = self.args[0].duck()
            return inner if kind.kind == "int" else f"CAST({self.name}({inner}) AS {duck_type(kind)})"
        values = [arg.duck_as(F64) for arg in self.args]
        return _DUCK_FUNCTIONS.get(self.name, f"{self.name}({', '.join(values)})").format(*values)

    def checked(self) -> bool:
        return (self.name in ("abs", "-") and self.type.kind in ("int", "dec", "dur")) or super().checked()

    def approx(self) -> bool:
        return self.name in TRANSCENDENTAL or super().approx()


_NAN = "CAST('nan' AS DOUBLE)"
_SATURATE = (
    "(CASE WHEN isnan({{0}}) THEN CAST(0 AS HUGEINT) WHEN {{0}} >= 9223372036854775808.0::DOUBLE"
    " THEN CAST('9223372036854775807' AS HUGEINT) WHEN {{0}} <= (-9223372036854775808.0)::DOUBLE"
    " THEN CAST('-9223372036854775808' AS HUGEINT) WHEN {{0}} IS NULL THEN NULL"
    " ELSE CAST(CAST({}({{0}}) AS BIGINT) AS HUGEINT) END)"
)
_POSITIVE = "(CASE WHEN {{0}} <= 0 THEN NULL ELSE {}({{0}}) END)"
_FINITE = "(CASE WHEN isinf({{0}}) THEN " + _NAN + " ELSE {}({{0}}) END)"
_UNIT = "(CASE WHEN isnan({{0}}) OR abs({{0}}) > 1 THEN " + _NAN + " ELSE {}({{0}}) END)"
_DUCK_FUNCTIONS = {
    "sqrt": "(CASE WHEN {0} < 0 THEN " + _NAN + " ELSE sqrt({0}) END)",
    "floor": _SATURATE.format("floor"),
    "ceil": _SATURATE.format("ceil"),
    "ln": _POSITIVE.format("ln"),
    "log10": _POSITIVE.format("log10"),
    "log2": _POSITIVE.format("log2"),
    "sin": _FINITE.format("sin"),
    "cos": _FINITE.format("cos"),
    "tan": _FINITE.format("tan"),
    "asin": _UNIT.format("asin"),
    "acos": _UNIT.format("acos"),
    "hypot": "(CASE WHEN {0} IS NULL OR {1} IS NULL THEN NULL WHEN isinf({0}) OR isinf({1})"
    " THEN CAST('inf' AS DOUBLE) ELSE sqrt({0} * {0} + {1} * {1}) END)",
    "sign": "(CASE WHEN {0} IS NULL OR isnan({0}) THEN {0} WHEN {0} > 0 THEN 1::DOUBLE"
    " WHEN {0} < 0 THEN (-1)::DOUBLE ELSE 0::DOUBLE END)",
}


@dataclass(frozen=True)
class Cast(Expr):
    """``CAST(arg AS DOUBLE | BIGINT)`` where the value always fits."""

    arg: Expr
    type: Type

    @property
    def args(self) -> tuple[Expr, ...]:  # type: ignore[override]
        return (self.arg,)

    def ours(self) -> str:
        return f"CAST({self.arg.bare()} AS {'DOUBLE' if self.type.kind == 'f64' else 'BIGINT'})"

    def duck(self) -> str:
        return self.arg.duck_as(self.type)


@dataclass(frozen=True)
class Case(Expr):
    """``CASE WHEN c THEN a [WHEN ...] ELSE b END`` of any type; ``otherwise`` None: no ELSE."""

    whens: tuple[tuple[Expr, Expr], ...]
    otherwise: Expr | None

    @property
    def args(self) -> tuple[Expr, ...]:  # type: ignore[override]
        parts = [part for when in self.whens for part in when]
        return tuple(parts) if self.otherwise is None else (*parts, self.otherwise)

    @property
    def type(self) -> Type:  # type: ignore[override]
        results = [result for _, result in self.whens]
        return common([e.type for e in results] + ([self.otherwise.type] if self.otherwise else []))

    def ours(self) -> str:
        whens = " ".join(f"WHEN {c.ours()} THEN {r.bare()}" for c, r in self.whens)
        return f"CASE {whens}{f' ELSE {self.otherwise.bare()}' if self.otherwise else ''} END"

    def duck(self) -> str:
        kind = self.type
        whens = " ".join(f"WHEN {c.duck()} THEN {r.duck_as(kind)}" for c, r in self.whens)
        return f"(CASE {whens} ELSE {self.otherwise.duck_as(kind) if self.otherwise else 'NULL'} END)"


class Condition(Expr):
    """A boolean expression."""

    type = BOOL


@dataclass(frozen=True)
class Compare(Condition):
    """``= <> < <= > >=``, ``IS DISTINCT FROM`` and ``IS NOT DISTINCT FROM``."""

    op: str
    left: Expr
    right: Expr

    @property
    def args(self) -> tuple[Expr, ...]:  # type: ignore[override]
        return (self.left, self.right)

    def ours(self) -> str:
        return f"{self.left.bare()} {self.op} {self.right.bare()}"

    def duck(self) -> str:
        both = common((self.left.type, self.right.type))
        return f"({self.left.duck_as(both)} {self.op} {self.right.duck_as(both)})"

    def checked(self) -> bool:
        a, b = self.left.type, self.right.type
        mixed = a != b and (common((a, b)).kind in ("dec", "ts"))
        return mixed or super().checked()


@dataclass(frozen=True)
class Between(Condition):
    """``x [NOT] BETWEEN low AND high``."""

    value: Expr
    low: Expr
    high: Expr
    negated: bool = False

    @property
    def args(self) -> tuple[Expr, ...]:  # type: ignore[override]
        return (self.value, self.low, self.high)

    def ours(self) -> str:
        word = "NOT BETWEEN" if self.negated else "BETWEEN"
        return f"{self.value.bare()} {word} {self.low.bare()} AND {self.high.bare()}"

    def duck(self) -> str:
        pair = f"({Compare('>=', self.value, self.low).duck()} AND {Compare('<=', self.value, self.high).duck()})"
        return f"(NOT {pair})" if self.negated else pair

    def checked(self) -> bool:
        return Compare("<", self.value, self.low).checked() or Compare("<", self.value, self.high).checked()


@dataclass(frozen=True)
class In(Condition):
    """``x [NOT] IN (...)``."""

    value: Expr
    items: tuple[Expr, ...]
    negated: bool = False

    @property
    def args(self) -> tuple[Expr, ...]:  # type: ignore[override]
        return (self.value, *self.items)

    def ours(self) -> str:
        word = "NOT IN" if self.negated else "IN"
        return f"{self.value.bare()} {word} ({', '.join(item.bare() for item in self.items)})"

    def duck(self) -> str:
        kind = common([arg.type for arg in self.args])
        value = self.value.duck_as(kind)
        either = " OR ".join(f"({value} = {item.duck_as(kind)})" for item in self.items)
        return f"(NOT ({either}))" if self.negated else f"({either})"


@dataclass(frozen=True)
class Logic(Condition):
    """``AND``, ``OR`` over any number of conditions, ``NOT`` over one."""

    op: str
    args: tuple[Expr, ...]

    def ours(self) -> str:
        if self.op == "NOT":
            return f"NOT ({self.args[0].ours()})"
        return f" {self.op} ".join(
            f"({arg.ours()})" if isinstance(arg, Logic | Case) or arg.type != BOOL else arg.ours() for arg in self.args
        )

    def duck(self) -> str:
        if self.op == "NOT":
            return f"(NOT {self.args[0].duck()})"
        return "(" + f" {self.op} ".join(arg.duck() for arg in self.args) + ")"


@dataclass(frozen=True)
class Is(Condition):
    """``x IS [NOT] NULL | TRUE | FALSE``: never null itself."""

    word: str
    arg: Expr
    negated: bool = False

    @property
    def args(self) -> tuple[Expr, ...]:  # type: ignore[override]
        return (self.arg,)

    def ours(self) -> str:
        inner = self.arg.ours()
        inner = inner if isinstance(self.arg, Col) else f"({inner})"
        return f"{inner} IS {'NOT ' if self.negated else ''}{self.word}"

    def duck(self) -> str:
        inner = self.arg.duck()
        if self.word == "NULL":
            text = f"({inner} IS NULL)"
        else:
            text = f"coalesce({inner if self.word == 'TRUE' else f'NOT {inner}'}, FALSE)"
        return f"(NOT {text})" if self.negated else text
