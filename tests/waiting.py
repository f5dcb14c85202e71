"""Waiting for something to happen, however slow or busy the machine is."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE_S = 120.0
"""Longer than anything takes, on a slow machine that others use too; a test that goes well never waits that long."""


def wait_until(happened: Callable[[], object], what: str, seconds: float = PATIENCE_S, every: float = 0.05) -> None:
    """Wait until ``happened()`` is true; fail with ``what`` if it takes too long."""
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, f"{what}: not within {seconds} s"
        time.sleep(every)
