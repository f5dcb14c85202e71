"""Exact window joins over live streams, for any predicate.

``run`` joins tables that are complete, ``open`` streams that are live, ``explain`` says how, and
``predicate`` makes a Python function usable in SQL.

Importing the package is cheap: Arrow, the SQL parser and the compiler are loaded
when something that needs them is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from crosswind.errors import (
    ArithmeticOverflowError,
    ClosedJoinError,
    CrosswindError,
    CrosswindWarning,
    InputError,
    JobError,
    LateTupleWarning,
    NullTimeWarning,
    QueryError,
    SnapshotError,
    UnsupportedError,
)
from crosswind.loading import heavy_loading

if TYPE_CHECKING:
    from crosswind import testing as testing
    from crosswind.engine.explain import explain
    from crosswind.engine.join import Join
    from crosswind.engine.many import ManyJoin
    from crosswind.engine.session import open, run  # noqa: A004 - `cw.open` is the public name
    from crosswind.engine.stats import Stats
    from crosswind.query import predicate

__version__ = "0.1.0"

__all__ = [
    "ArithmeticOverflowError",
    "ClosedJoinError",
    "CrosswindError",
    "CrosswindWarning",
    "InputError",
    "JobError",
    "Join",
    "LateTupleWarning",
    "ManyJoin",
    "NullTimeWarning",
    "QueryError",
    "SnapshotError",
    "Stats",
    "UnsupportedError",
    "__version__",
    "explain",
    "open",
    "predicate",
    "run",
    "testing",
]

_LAZY = {
    "Join": "crosswind.engine.join",
    "ManyJoin": "crosswind.engine.many",
    "Stats": "crosswind.engine.stats",
    "explain": "crosswind.engine.explain",
    "open": "crosswind.engine.session",
    "predicate": "crosswind.query",
    "run": "crosswind.engine.session",
}
"""Public names that are loaded on first use, and the module each comes from."""


def __getattr__(name: str) -> Any:
    if name == "testing":
        return importlib.import_module("crosswind.testing")
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with heavy_loading():
        value = getattr(importlib.import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
