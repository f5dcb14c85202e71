"""The functions of SQL: their names, how many arguments they take, and how they are typed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from crosswind.errors import QueryError, UnsupportedError, did_you_mean
from crosswind.query.arithmetic import absolute, arithmetic
from crosswind.query.coerce import call, cast, compare, to_double, too_wide, unify
from crosswind.query.refusal import RefusalError, unsupported
from crosswind.query.tree import Call, Expr, Literal, UserFunction
from crosswind.query.types import BOOL, DOUBLE, INT64, NULL, Kind, SqlType
from crosswind.query.userfunctions import registered

__all__ = ["BUILTINS", "apply", "choose", "truth"]

_MANY = 1_000_000


@dataclass(frozen=True)
class _Function:
    """How a function is built and how many arguments it takes."""

    build: Callable[[Sequence[Expr]], Expr]
    least: int
    most: int


def number(expr: Expr, name: str) -> Expr:
    """Return ``expr`` if it is a number or NULL, else refuse it as an argument of ``name``."""
    if not expr.type.is_numeric and expr.type.kind is not Kind.NULL:
        raise RefusalError(f"{name} takes numbers, but {{0}} is {expr.type}.", expr)
    return expr


def truth(expr: Expr, where: str) -> Expr:
    """Return ``expr`` as a condition; ``where`` says what asks for one."""
    if expr.type.kind is Kind.NULL:
        return cast(expr, BOOL)
    if expr.type != BOOL:
        hint = " Compare it with something, for example {0} <> 0." if expr.type.is_numeric else ""
        raise RefusalError(f"{where} needs a condition that is true or false, but {{0}} is {expr.type}.{hint}", expr)
    return expr


def choose(condition: Expr, then: Expr, other: Expr) -> Expr:
    """Build ``if(condition, then, other)`` with both results of one type."""
    yes, no = unify((then, other), "choose between")
    return call("if", yes.type, truth(condition, "A choice"), yes, no)


def _in_double(op: str) -> Callable[[Sequence[Expr]], Expr]:
    def build(args: Sequence[Expr]) -> Expr:
        return call(op, DOUBLE, *(to_double(number(arg, op)) for arg in args))

    return build


def _round_to_whole(op: str) -> Callable[[Sequence[Expr]], Expr]:
    def build(args: Sequence[Expr]) -> Expr:
        (arg,) = args
        kind = number(arg, op).type.kind
        if kind is Kind.DECIMAL:
            if arg.type.is_wide:
                raise too_wide(arg)
            digits = min(18, arg.type.precision - arg.type.scale + 1)
            return call(op, SqlType(Kind.DECIMAL, precision=digits, scale=0), arg)
        if kind is Kind.FLOAT:
            return call(op, INT64, to_double(arg))
        return cast(arg, INT64)

    return build


def _of_one_type(op: str) -> Callable[[Sequence[Expr]], Expr]:
    def build(args: Sequence[Expr]) -> Expr:
        same = unify(args, f"take {op} of")
        return call(op, same[0].type, *same) if len(same) > 1 else same[0]

    return build


def _log(args: Sequence[Expr]) -> Expr:
    """Build Spark's ``log``: natural with one argument, else to the base given first."""
    if len(args) == 1:
        return _in_double("ln")(args)
    base, value = (call("ln", DOUBLE, to_double(number(arg, "log"))) for arg in args)
    return call("div", DOUBLE, value, base)


def _null_if(args: Sequence[Expr]) -> Expr:
    value, other = args
    return choose(compare("eq", value, other), Literal(NULL, None), value)


_DOUBLE_TO_DOUBLE = (
    *("sqrt", "exp", "ln", "log10", "log2", "cbrt", "sign"),
    *("sin", "cos", "tan", "asin", "acos", "atan", "radians", "degrees"),
)
BUILTINS: dict[str, _Function] = {
    **{
        name: _Function(_in_double(op), 1, 1)
        for name, op in [*((op, op) for op in _DOUBLE_TO_DOUBLE), ("signum", "sign")]
    },
    **{
        name: _Function(_in_double(op), 2, 2)
        for name, op in (("power", "power"), ("pow", "power"), ("atan2", "atan2"), ("hypot", "hypot"))
    },
    "floor": _Function(_round_to_whole("floor"), 1, 1),
    "ceil": _Function(_round_to_whole("ceil"), 1, 1),
    "ceiling": _Function(_round_to_whole("ceil"), 1, 1),
    "abs": _Function(lambda args: absolute(args[0]), 1, 1),
    "mod": _Function(lambda args: arithmetic("mod", args[0], args[1]), 2, 2),
    "log": _Function(_log, 1, 2),
    "pi": _Function(lambda _: Literal(DOUBLE, math.pi), 0, 0),
    "least": _Function(_of_one_type("least"), 2, _MANY),
    "greatest": _Function(_of_one_type("greatest"), 2, _MANY),
    "coalesce": _Function(_of_one_type("coalesce"), 1, _MANY),
    "ifnull": _Function(_of_one_type("coalesce"), 2, 2),
    "nvl": _Function(_of_one_type("coalesce"), 2, 2),
    "nullif": _Function(_null_if, 2, 2),
    "if": _Function(lambda args: choose(*args), 3, 3),
}


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_AGGREGATES = _words(
    "count sum avg mean min max stddev stddev_pop stddev_samp variance var_pop var_samp collect_list collect_set "
    "first last any_value every some bool_and bool_or array_agg string_agg group_concat listagg median mode "
    "percentile approx_count_distinct corr covar_pop covar_samp max_by min_by count_if"
)
_RANKS = _words("row_number rank dense_rank percent_rank ntile lag lead cume_dist first_value last_value")
_TEXT = _words(
    "concat concat_ws substring substr upper lower ucase lcase trim ltrim rtrim length char_length replace regexp "
    "regexp_like regexp_replace regexp_extract rlike left right instr locate position split startswith endswith "
    "contains lpad rpad reverse translate format_string initcap md5 sha sha1 sha2 hash xxhash64 levenshtein "
    "soundex get_json_object from_json to_json json_extract to_char"
)
_TIME = _words(
    "year month day hour minute second quarter week dayofweek dayofyear extract date_part date_trunc trunc "
    "date_add date_sub datediff date_diff timestampdiff timestampadd to_date to_timestamp unix_timestamp now "
    "current_timestamp current_date from_unixtime add_months months_between last_day"
)


def apply(name: str, args: Sequence[Expr], sql: str, start: int, end: int) -> Expr:
    """Build the call of the function ``name``; ``start`` and ``end`` are the place of the call in ``sql``."""
    key = name.lower()
    user = registered().get(key)
    if user is not None:
        return _user_call(user, args, sql, start, end)
    function = BUILTINS.get(key)
    if function is None:
        raise _unknown(name, sql, start, start + len(name))
    if not function.least <= len(args) <= function.most:
        raise QueryError(f"{name} takes {_count(function)}, got {len(args)}.", sql, start, end)
    return function.build(args)


def _count(function: _Function) -> str:
    if function.most == _MANY:
        return f"at least {function.least} argument{'s' if function.least != 1 else ''}"
    if function.least != function.most:
        return f"{function.least} or {function.most} arguments"
    return "no arguments" if not function.least else f"{function.least} argument{'s' if function.least > 1 else ''}"


def _unknown(name: str, sql: str, start: int, end: int) -> QueryError:
    key = name.lower()
    if key in _AGGREGATES:
        message = f"The aggregate function {name} is not supported in a window join. Aggregate the result afterwards."
    elif key in _RANKS:
        message = f"The window function {name} is not supported in a window join. Apply it to the result afterwards."
    elif key in _TEXT:
        message = (
            f"The string function {name} is not supported. Strings can be compared with = <> < <= > >= and IN; "
            "compute other things into a column of their own before the join."
        )
    elif key in _TIME:
        message = (
            f"The time function {name} is not supported. Timestamps can be compared and subtracted, and moved by "
            "INTERVAL, for example R.ts - S.ts < INTERVAL 10 SECONDS."
        )
    else:
        names = sorted([*BUILTINS, *(user.name for user in registered().values())])
        return QueryError(
            f"Unknown function '{name}'.{did_you_mean(name, names)} Known: {', '.join(names)}. "
            "Your own Python functions become known with @crosswind.predicate.",
            sql,
            start,
            end,
        )
    return UnsupportedError(message, sql, start, end)


def _user_call(user: UserFunction, args: Sequence[Expr], sql: str, start: int, end: int) -> Expr:
    if len(args) != user.arity:
        plural = "" if user.arity == 1 else "s"
        raise QueryError(f"{user.name} takes {user.arity} argument{plural}, got {len(args)}.", sql, start, end)
    return Call(BOOL, "user", tuple(_user_argument(user, arg) for arg in args), user, start=start, end=end)


def _user_argument(user: UserFunction, arg: Expr) -> Expr:
    """Convert an argument to what a Python function sees: int64, double, bool or ticks."""
    match arg.type.kind:
        case Kind.INT:
            return cast(arg, INT64)
        case Kind.FLOAT | Kind.NULL:
            return to_double(arg)
        case Kind.BOOL | Kind.TIMESTAMP | Kind.DATE | Kind.DURATION:
            return arg
        case Kind.DECIMAL if isinstance(arg, Literal):
            return to_double(arg)
        case Kind.DECIMAL:
            raise unsupported(
                f"{user.name} cannot take {{0}}, which is {arg.type}. Use CAST({{0}} AS DOUBLE) or a scaled integer.",
                arg,
            )
    raise unsupported(
        f"{user.name} cannot take {{0}}, which is {arg.type}. "
        "Allowed: integers, floats, booleans, and timestamps, dates and intervals as their ticks.",
        arg,
    )
