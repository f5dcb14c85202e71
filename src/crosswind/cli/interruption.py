"""Ctrl-C as a request and not as an exception: Spark's connection must not break in the middle of a word."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self

__all__ = ["Interruption"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interruption:
    """A context manager in which SIGINT and SIGTERM only take note; a second one is raised as usual."""

    def __init__(self) -> None:
        self._asked = threading.Event()
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for number in _SIGNALS:
            self._before[number] = signal.signal(number, self._take)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @property
    def asked(self) -> bool:
        """Whether someone wants this to end."""
        return self._asked.is_set()

    def wait(self, seconds: float) -> bool:
        """Wait, but no longer than until someone wants this to end; return whether someone does."""
        return self._asked.wait(seconds)

    def _take(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - the signature of handlers
        if self._asked.is_set():
            raise KeyboardInterrupt
        self._asked.set()
