"""Room to recurse: what is deep for the caller's stack need not be deep for one of its own."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import TypeVar

__all__ = ["with_room"]

_Result = TypeVar("_Result")
_FRAMES = 10_000
"""Frames that are allowed where those of the caller were not enough: a hundred levels take sqlglot 3,000."""
_STACK_BYTES = 64 << 20
_ONE_AT_A_TIME = threading.Lock()
"""The limits that are raised here are those of the whole process."""


def with_room(call: Callable[[], _Result]) -> _Result:
    """Return what ``call`` returns; where the caller's stack is too short for it, from a thread with a longer one.

    Raises
    ------
    RecursionError
        If that is too short as well.
    """
    try:
        return call()
    except RecursionError:
        pass
    results: list[_Result] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(call())
        except BaseException as error:
            errors.append(error)

    with _ONE_AT_A_TIME:
        frames, stack = sys.getrecursionlimit(), threading.stack_size(_STACK_BYTES)
        try:
            sys.setrecursionlimit(max(frames, _FRAMES))
            thread = threading.Thread(target=run, name="crosswind-parse", daemon=True)
            thread.start()
            thread.join()
        finally:
            sys.setrecursionlimit(frames)
            threading.stack_size(stack)
    if errors:
        raise errors[0]
    return results[0]
