"""``@crosswind.predicate``: Python functions for what SQL cannot say.

A function is shipped to the compiler as source, perhaps in another process, so it must
stand alone: its arguments, builtins, ``math`` and ``np`` are all it may use.
"""

from __future__ import annotations

import ast
import builtins
import dis
import inspect
import math
import sys
import textwrap
from collections.abc import Callable, Mapping
from types import CodeType, FunctionType, MappingProxyType
from typing import Any, TypeVar

from crosswind.errors import QueryError
from crosswind.query.tree import UserFunction

__all__ = ["predicate", "registered"]

_F = TypeVar("_F", bound=Callable[..., Any])
_REGISTERED: dict[str, UserFunction] = {}
_STEP = "Write it as def name(...): ... with @crosswind.predicate above it."


def registered() -> Mapping[str, UserFunction]:
    """Return the registered functions by their name in lower case."""
    return MappingProxyType(_REGISTERED)


def predicate(function: _F) -> _F:
    """Make a Python function usable in SQL under its own name, for conditions that SQL cannot say.

    The function is compiled with Numba. It may use its arguments, builtins, ``math`` and
    ``numpy as np``, and nothing else. Integers arrive as int64, floats as double,
    timestamps, dates and intervals as their ticks; a NULL argument gives NULL without a
    call. A later function of the same name replaces the earlier one.

    Returns
    -------
    function
        The function itself, so Python can still call it.

    Raises
    ------
    QueryError
        If it cannot stand alone; the message names what it depends on.

    Examples
    --------
    >>> @predicate
    ... def near(x, y, a, b):
    ...     return math.hypot(x - a, y - b) < 10.0
    """
    described = _describe(function)
    _REGISTERED[described.name.lower()] = described
    return function


def _describe(function: Callable[..., Any]) -> UserFunction:
    if not isinstance(function, FunctionType):
        raise QueryError(f"@crosswind.predicate takes a plain Python function, got {function!r}. {_STEP}")
    name = function.__name__
    if name == "<lambda>":
        raise QueryError(f"@crosswind.predicate cannot take a lambda: it has no name to call it by in SQL. {_STEP}")
    kinds = function.__code__.co_flags
    if kinds & (inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
        raise QueryError(f"The predicate {name} is a generator or coroutine. It must return True or False.")
    if name.lower() in _reserved():
        raise QueryError(f"The predicate {name} has the name of an SQL function. Give it another name.")
    arity = _arity(function)
    _check_names(function)
    return UserFunction(name, _source(function), arity, function)


def _reserved() -> frozenset[str]:
    from crosswind.query.functions import BUILTINS  # here: functions looks registered predicates up

    return frozenset(BUILTINS) | {"cast", "case", "try_cast"}


def _arity(function: FunctionType) -> int:
    parameters = inspect.signature(function).parameters.values()
    for parameter in parameters:
        if parameter.kind not in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            raise QueryError(
                f"The predicate {function.__name__} takes '{parameter}'. Only a fixed number of positional "
                "arguments can be given in SQL."
            )
        if parameter.default is not parameter.empty:
            raise QueryError(
                f"The predicate {function.__name__} has a default for '{parameter.name}'. "
                "Defaults are not supported: give every argument in SQL."
            )
    if not parameters:
        raise QueryError(f"The predicate {function.__name__} takes no arguments. Give it the columns to compare.")
    return len(parameters)


def _check_names(function: FunctionType) -> None:
    """Refuse closures and globals: the compiled function sees neither."""
    foreign = sorted({*function.__code__.co_freevars, *_foreign_globals(function)})
    if foreign:
        raise QueryError(
            f"The predicate {function.__name__} uses {', '.join(foreign)} from outside itself. It may use its "
            "arguments, builtins, `math` and `np` (import numpy as np). Pass the values as arguments, or write "
            "them into the function."
        )


def _foreign_globals(function: FunctionType) -> set[str]:
    used, codes = set(), [function.__code__]
    while codes:
        code = codes.pop()
        used |= {step.argval for step in dis.get_instructions(code) if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
        codes += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    allowed = {"math": math, "np": sys.modules.get("numpy")}
    scope = function.__globals__
    return {
        name
        for name in used
        if not (name in scope and name in allowed and scope[name] is allowed[name])
        and not (name not in scope and hasattr(builtins, name))
    }


def _source(function: FunctionType) -> str:
    """Return a clean ``def``: no decorators, no annotations, no indentation."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        raise QueryError(
            f"The source of the predicate {function.__name__} cannot be found, so it cannot be compiled. "
            "Define it in a file or a notebook cell, not in an interactive prompt or with exec."
        ) from None
    definition = tree.body[0]
    if not isinstance(definition, ast.FunctionDef):
        raise QueryError(f"The predicate {function.__name__} is not a plain function. {_STEP}")
    definition.decorator_list = []
    definition.returns = None
    for argument in (*definition.args.posonlyargs, *definition.args.args):
        argument.annotation = None
    return ast.unparse(definition) + "\n"
