"""What time it is, as something that can be handed in.

Whatever paces itself takes a :class:`Clock`, so that a test can hand it
:class:`crosswind.testing.TestClock` and need not wait.
"""

from __future__ import annotations

import time
from typing import Protocol

__all__ = ["Clock", "SystemClock"]


class Clock(Protocol):
    """A clock that can be read and waited on. Seconds, from an arbitrary zero; never goes back.

    Examples
    --------
    >>> from crosswind.testing import Clock, SystemClock
    >>> clock: Clock = SystemClock()
    >>> before = clock.now()
    >>> clock.sleep(0.001)
    >>> clock.now() > before
    True
    """

    def now(self) -> float:
        """Return the seconds passed since the clock's zero."""
        ...

    def sleep(self, seconds: float) -> None:
        """Return after ``seconds`` have passed on this clock, at once if not positive."""
        ...


class SystemClock:
    """The real time of this machine.

    Examples
    --------
    >>> from crosswind.testing import SystemClock
    >>> SystemClock().now() >= 0
    True
    """

    def now(self) -> float:
        """Return the seconds passed since the clock's zero."""
        return time.perf_counter()

    def sleep(self, seconds: float) -> None:
        """Wait for ``seconds``, not at all if not positive."""
        if seconds > 0:
            time.sleep(seconds)
