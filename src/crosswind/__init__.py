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
    ConcurrentCallError,
    CrosswindError,
    CrosswindWarning,
    InputError,
    JobError,
    LateTupleWarning,
    MonitorError,
    NullTimeWarning,
    OverflowWarning,
    OverloadError,
    QueryError,
    SnapshotError,
    SparkError,
    UnsupportedError,
    WorkerError,
)
from crosswind.loading import heavy_loading

if TYPE_CHECKING:
    from crosswind import spark as spark
    from crosswind import testing as testing
    from crosswind.engine.explain import explain
    from crosswind.engine.ingest.batching import Feeder
    from crosswind.engine.join import Join
    from crosswind.engine.many import ManyJoin
    from crosswind.engine.session import open, run  # noqa: A004 - `cw.open` is the public name
    from crosswind.engine.stats import Stats
    from crosswind.query import predicate

__version__ = "0.1.0"

__all__ = [
    "ArithmeticOverflowError",
    "ClosedJoinError",
    "ConcurrentCallError",
    "CrosswindError",
    "CrosswindWarning",
    "Feeder",
    "InputError",
    "JobError",
    "Join",
    "LateTupleWarning",
    "ManyJoin",
    "MonitorError",
    "NullTimeWarning",
    "OverflowWarning",
    "OverloadError",
    "QueryError",
    "SnapshotError",
    "SparkError",
    "Stats",
    "UnsupportedError",
    "WorkerError",
    "__version__",
    "explain",
    "open",
    "predicate",
    "run",
    "spark",
    "testing",
]

_LAZY = {
    "Feeder": "crosswind.engine.ingest.batching",
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
    if name in ("spark", "testing"):
        return importlib.import_module(f"crosswind.{name}")
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with heavy_loading():
        value = getattr(importlib.import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
