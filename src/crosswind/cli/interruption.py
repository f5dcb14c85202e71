"""What ends a command early: Ctrl-C, SIGTERM and SIGHUP.

They are raised alike, so that a command clears up; on Spark they are a request first, as its connection must not break
in the middle of a word.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self

__all__ = ["Interruption", "Terminated", "heed_termination"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Terminated(KeyboardInterrupt):
    """SIGTERM or SIGHUP: whoever handles Ctrl-C handles them, too."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


def heed_termination() -> None:
    """Let SIGTERM and SIGHUP be raised in the main thread, as Ctrl-C is, unless they are ignored (``nohup``)."""
    for number in _SIGNALS[1:]:
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, _raise)


def _raise(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the signature of handlers
    raise _error(number)


def _error(number: int) -> KeyboardInterrupt:
    return KeyboardInterrupt() if number == signal.SIGINT else Terminated(number)


class Interruption:
    """A context manager in which signals to end are only taken note of; a second one is raised."""

    def __init__(self) -> None:
        self._asked = threading.Event()
        self._number = 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for number in _SIGNALS:
            if signal.getsignal(number) == signal.SIG_IGN:
                continue
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

    @property
    def error(self) -> KeyboardInterrupt | None:
        """What to raise in the end, if someone wanted this to end."""
        return _error(self._number) if self.asked else None

    def wait(self, seconds: float) -> bool:
        """Wait, but no longer than until someone wants this to end; return whether someone does."""
        return self._asked.wait(seconds)

    def _take(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - the signature of handlers
        if self._asked.is_set():
            raise _error(number)
        self._number = number
        self._asked.set()
