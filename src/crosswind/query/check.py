"""From sqlglot's tree to ours: every name bound, every operand typed and converted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from math import isfinite

from sqlglot import exp

from crosswind.errors import QueryError, UnsupportedError
from crosswind.query.arithmetic import arithmetic, decimal_literal, negate
from crosswind.query.casts import explicit_cast
from crosswind.query.coerce import call, cannot_compute, cast, common_type, compare
from crosswind.query.functions import apply, choose, truth
from crosswind.query.lookup import either
from crosswind.query.scope import Name, Scope
from crosswind.query.strings import unescape
from crosswind.query.temporal import interval_literal
from crosswind.query.tree import Expr, Literal
from crosswind.query.types import BOOL, DOUBLE, INT64, NULL, STRING, Kind, SqlType
from crosswind.query.windows import DurationError, parse_parts

__all__ = ["Checker", "all_of", "name_of"]

_INT32 = SqlType(Kind.INT, bits=32)
_DIGITS = 38
"""More digits than any integer here has; Python refuses to read very long ones."""
_COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "eq",
    exp.NEQ: "ne",
    exp.LT: "lt",
    exp.LTE: "le",
    exp.GT: "gt",
    exp.GTE: "ge",
    exp.NullSafeEQ: "same",
}
_ARITHMETIC: dict[type[exp.Expr], str] = {
    exp.Add: "add",
    exp.Sub: "sub",
    exp.Mul: "mul",
    exp.Div: "div",
    exp.Mod: "mod",
}
_STRINGS = "Strings can be compared with = <> < <= > >= and IN; compute other things into a column before the join."
_ALLOWED = "columns, constants, + - * / %, comparisons, BETWEEN, IN, IS NULL, AND, OR, NOT, CASE, CAST and functions"
_WHOLE = "Use floor, %, * and /."
_REFUSED: dict[type[exp.Expr], str] = {
    exp.Like: f"LIKE is not supported. {_STRINGS}",
    exp.ILike: f"ILIKE is not supported. {_STRINGS}",
    exp.RegexpLike: f"RLIKE is not supported. {_STRINGS}",
    exp.SimilarTo: f"SIMILAR TO is not supported. {_STRINGS}",
    exp.DPipe: f"|| is not supported. {_STRINGS}",
    exp.Substring: f"SUBSTRING is not supported. {_STRINGS}",
    exp.Trim: f"TRIM is not supported. {_STRINGS}",
    exp.Concat: f"Strings side by side are not supported. {_STRINGS}",
    exp.Extract: "EXTRACT is not supported. Timestamps can be compared, subtracted, and moved by INTERVAL.",
    exp.Window: "Window functions (OVER) are not supported in a window join. Apply them to the result afterwards.",
    exp.Subquery: "Subqueries are not supported. Name the stream in FROM and put the condition into WHERE.",
    exp.Select: "Subqueries are not supported. Name the stream in FROM and put the condition into WHERE.",
    exp.Exists: "EXISTS is not supported. Name the stream in FROM and put the condition into WHERE.",
    exp.IntDiv: "DIV is not supported. Use floor(a / b).",
    exp.BitwiseAnd: f"Bit operations are not supported. {_WHOLE}",
    exp.BitwiseOr: f"Bit operations are not supported. {_WHOLE}",
    exp.BitwiseXor: f"Bit operations are not supported. {_WHOLE} For a power write power(a, b).",
    exp.BitwiseNot: f"Bit operations are not supported. {_WHOLE}",
    exp.BitwiseLeftShift: f"Bit operations are not supported. {_WHOLE}",
    exp.BitwiseRightShift: f"Bit operations are not supported. {_WHOLE}",
    exp.Placeholder: "Parameters are not supported. Write the value into the query.",
    exp.Parameter: "Parameters are not supported. Write the value into the query.",
    exp.Star: "'*' stands for columns only in SELECT * or SELECT R.*.",
    exp.Tuple: "Tuples are not supported. Compare their parts one by one, joined by AND.",
    exp.TryCast: "TRY_CAST is not supported. Use CAST, which fails where the value does not fit.",
    exp.Dot: "Nested fields are not supported. Bring the field into a column of its own before the join.",
    exp.JSONExtract: "JSON is not supported. Bring the field into a column of its own before the join.",
    exp.JSONExtractScalar: "JSON is not supported. Bring the field into a column of its own before the join.",
}


def _is_short_integer(text: str) -> bool:
    return text.isdigit() and len(text) <= _DIGITS


def place_of(node: exp.Expr) -> tuple[int, int]:
    """Return the offsets of a sqlglot node, from its own notes or from those of what it holds."""
    if "span" in node.meta:
        start, end = node.meta["span"]
        return int(start), int(end)
    if isinstance(node.meta.get("start"), int) and isinstance(node, exp.Identifier | exp.Star):
        return node.meta["start"], node.meta["end"] + 1
    known = [place for child in node.iter_expressions() if (place := place_of(child))[0] >= 0]
    if not known:
        return -1, -1
    return min(start for start, _ in known), max(end for _, end in known)


def name_of(identifier: exp.Expr) -> Name:
    """Return an identifier with its place."""
    return Name(identifier.name, *place_of(identifier))


def all_of(parts: Sequence[Expr], op: str = "and") -> Expr:
    """Join conditions by AND or OR.

    As a balanced tree: a list of a thousand values is ten levels deep, not a thousand.
    """
    if len(parts) == 1:
        return parts[0]
    middle = (len(parts) + 1) // 2
    return call(op, BOOL, all_of(parts[:middle], op), all_of(parts[middle:], op))


def _in_one_type(exprs: list[Expr]) -> list[Expr]:
    """Convert what IN compares to double, if there is a float among it: as in Spark, one type serves the whole list."""
    kinds = {expr.type.kind for expr in exprs}
    if Kind.FLOAT not in kinds or not kinds <= {Kind.INT, Kind.FLOAT, Kind.DECIMAL, Kind.NULL} or len(kinds) == 1:
        return exprs
    of = common_type(exprs, "compare")
    return [cast(expr, of) for expr in exprs]


class Checker:
    """Turns expressions of one query into typed ones."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self._rules: dict[type[exp.Expr], Callable[..., Expr]] = {
            exp.Column: self._column,
            exp.Literal: self._literal,
            exp.Boolean: lambda node: Literal(BOOL, bool(node.this)),
            exp.Null: lambda _: Literal(NULL, None),
            exp.HexString: self._hex,
            exp.Interval: self._interval,
            exp.Paren: lambda node: self.expr(node.this),
            exp.Neg: self._neg,
            exp.Not: lambda node: call("not", BOOL, truth(self.expr(node.this), "NOT")),
            exp.And: lambda node: self._chain(node, exp.And, "and"),
            exp.Or: lambda node: self._chain(node, exp.Or, "or"),
            exp.NullSafeNEQ: lambda node: call("not", BOOL, compare("same", *self._sides(node))),
            exp.Between: self._between,
            exp.In: self._in,
            exp.Is: self._is,
            exp.Case: self._case,
            exp.If: self._if,
            exp.Anonymous: self._function,
            exp.Cast: self._cast,
            **dict.fromkeys(_COMPARISONS, self._comparison),
            **dict.fromkeys(_ARITHMETIC, self._arithmetic),
        }

    def expr(self, node: exp.Expr) -> Expr:
        """Return the typed form of a sqlglot expression."""
        rule = self._rules.get(type(node))
        start, end = place_of(node)
        if rule is None:
            shown = " ".join(self.scope.sql[start:end].split()) if start >= 0 else type(node).__name__
            message = _REFUSED.get(type(node), f"{shown} is not supported in an expression. Allowed: {_ALLOWED}.")
            raise UnsupportedError(message, self.scope.sql, start, end)
        typed = rule(node)
        return replace(typed, start=start, end=end) if start >= 0 else typed

    def condition(self, node: exp.Expr, where: str) -> Expr:
        """Return the typed form of a condition; ``where`` names the clause."""
        return truth(self.expr(node), where)

    def _sides(self, node: exp.Expr) -> tuple[Expr, Expr]:
        return self.expr(node.this), self.expr(node.args["expression"])

    def _column(self, node: exp.Column) -> Expr:
        if node.args.get("db") is not None:
            raise UnsupportedError(_REFUSED[exp.Dot], self.scope.sql, *place_of(node))
        if isinstance(node.this, exp.Star):
            raise UnsupportedError(_REFUSED[exp.Star], self.scope.sql, *place_of(node))
        table = node.args.get("table")
        return self.scope.column(name_of(node.this), None if table is None else name_of(table))

    def _literal(self, node: exp.Literal) -> Expr:
        start, end = place_of(node)
        if node.is_string:
            return Literal(STRING, self._text(node, start, end))
        text = str(node.this)
        if "e" in text.lower():
            if not isfinite(float(text)):
                raise QueryError(f"{text} is too large for a double: 1.8e308 is the most.", self.scope.sql, start, end)
            return Literal(DOUBLE, float(text))
        if "." in text or len(text) > _DIGITS:
            return decimal_literal(Decimal(text), start, end)
        value = int(text)
        if value < 2**63:
            return Literal(_INT32 if value < 2**31 else INT64, value)
        return decimal_literal(Decimal(value), start, end)

    def _text(self, node: exp.Literal, start: int, end: int) -> str:
        text = unescape(self.scope.sql[start + 1 : end - 1]) if start >= 0 else str(node.this)
        try:
            text.encode()
        except UnicodeEncodeError as error:
            message = (
                f"The constant holds a lone surrogate, {text[error.start]!a}: half of a character, which is no text."
            )
            raise QueryError(
                f"{message} Write both halves, or \\U and eight digits.", self.scope.sql, start, end
            ) from None
        return text

    def _hex(self, node: exp.HexString) -> Expr:
        digits = str(node.this)
        try:
            return Literal(SqlType(Kind.BINARY), bytes.fromhex("0" * (len(digits) % 2) + digits))
        except ValueError:
            message = f"X'{digits}' is not a binary constant: only 0-9 and A-F are allowed."
            raise QueryError(message, self.scope.sql, *place_of(node)) from None

    def _interval(self, node: exp.Interval) -> Expr:
        start, end = place_of(node)
        text = node.this.name
        try:
            seconds, has_unit = parse_parts(text.replace("- ", "-"))
            literal = interval_literal(seconds, start, end) if has_unit else None
            if not has_unit:
                raise DurationError(f"The interval '{text}' has no unit, for example INTERVAL {text} SECONDS.")
            if literal is None:
                raise DurationError(f"The interval '{text}' is not a whole number of nanoseconds, or too long.")
        except DurationError as error:
            raise QueryError(f"Cannot read this interval. {error}", self.scope.sql, start, end) from None
        return literal

    def _neg(self, node: exp.Neg) -> Expr:
        inner = node.this
        if isinstance(inner, exp.Literal) and not inner.is_string and _is_short_integer(str(inner.this)):
            number = -int(inner.this)  # the least integer of a type has no positive counterpart
            if number >= -(2**63):
                return Literal(_INT32 if number >= -(2**31) else INT64, number)
        return negate(self.expr(inner))

    def _chain(self, node: exp.Expr, kind: type[exp.Expr], op: str) -> Expr:
        """Type a chain of ANDs or ORs without recursion along it, however long it is."""
        parts: list[exp.Expr] = []
        rest = node
        while isinstance(rest, kind):
            parts.append(rest.args["expression"])
            rest = rest.this
        typed = [truth(self.expr(part), op.upper()) for part in [rest, *reversed(parts)]]
        return all_of(either(typed) if op == "or" else typed, op)

    def _comparison(self, node: exp.Expr) -> Expr:
        return compare(_COMPARISONS[type(node)], *self._sides(node))

    def _arithmetic(self, node: exp.Expr) -> Expr:
        """Type a chain such as ``a + b + c`` from the left, without recursion along it."""
        chain: list[exp.Expr] = []
        rest = node
        while type(rest) in _ARITHMETIC and (rest is node or "span" not in rest.meta):
            chain.append(rest)
            rest = rest.this
        total = self.expr(rest)
        for step in reversed(chain):
            total = arithmetic(_ARITHMETIC[type(step)], total, self.expr(step.args["expression"]))
        return total

    def _between(self, node: exp.Between) -> Expr:
        value, low, high = (self.expr(node.args[part]) for part in ("this", "low", "high"))
        bounds = [compare("ge", value, low), compare("le", value, high)]
        if node.args.get("symmetric"):
            flipped = [compare("ge", value, high), compare("le", value, low)]
            return all_of([all_of(bounds), all_of(flipped)], "or")
        return all_of(bounds)

    def _in(self, node: exp.In) -> Expr:
        if node.args.get("query") is not None or node.args.get("unnest") is not None or not node.expressions:
            raise UnsupportedError(
                "IN takes a list of values here, for example R.k IN (1, 2, 3). Subqueries are not supported: "
                "name the stream in FROM and compare in WHERE.",
                self.scope.sql,
                *place_of(node),
            )
        value, *items = _in_one_type([self.expr(item) for item in (node.this, *node.expressions)])
        return all_of(either([compare("eq", value, item) for item in items]), "or")

    def _is(self, node: exp.Is) -> Expr:
        value, test = self.expr(node.this), node.args["expression"]
        if isinstance(test, exp.Null):
            if value.type.kind is Kind.OTHER:
                raise cannot_compute(value)
            return call("is_null", BOOL, value)
        if isinstance(test, exp.Boolean):
            return call("is_true" if test.this else "is_false", BOOL, truth(value, "IS TRUE"))
        raise UnsupportedError(
            "After IS only NULL, TRUE, FALSE and DISTINCT FROM are supported, each perhaps with NOT.",
            self.scope.sql,
            *place_of(node),
        )

    def _case(self, node: exp.Case) -> Expr:
        subject = self.expr(node.this) if node.this is not None else None
        default = node.args.get("default")
        result: Expr = Literal(NULL, None) if default is None else self.expr(default)
        for branch in reversed(node.args["ifs"]):
            test, then = self.expr(branch.this), self.expr(branch.args["true"])
            condition = truth(test, "CASE WHEN") if subject is None else compare("eq", subject, test)
            result = choose(condition, then, result)
        return result

    def _if(self, node: exp.If) -> Expr:
        otherwise = node.args.get("false")
        return choose(
            truth(self.expr(node.this), "IF"),
            self.expr(node.args["true"]),
            Literal(NULL, None) if otherwise is None else self.expr(otherwise),
        )

    def _function(self, node: exp.Anonymous) -> Expr:
        start, end = place_of(node)
        own = node.meta.get("start")
        start = own if isinstance(own, int) else start
        name = node.name
        if any(isinstance(arg, exp.Star | exp.Distinct | exp.Select | exp.Subquery) for arg in node.expressions):
            return apply(name, (), self.scope.sql, start, end)
        return apply(name, [self.expr(arg) for arg in node.expressions], self.scope.sql, start, end)

    def _cast(self, node: exp.Cast) -> Expr:
        start, end = place_of(node)
        inner = self.expr(node.this)
        if inner.start < 0:
            inner = replace(inner, start=start, end=end)
        return explicit_cast(inner, node.args["to"].sql(), self.scope.sql, start, end)
