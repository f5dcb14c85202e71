"""How busy other programs are while something is timed."""

from __future__ import annotations

import os
import time
from pathlib import Path

__all__ = ["Others"]

_STAT = Path("/proc/stat")
_SHORTEST_S = 0.5
"""Linux counts hundredths of a second: a shorter time tells nothing."""


class Others:
    """Counts, from its making on, the cores that other programs keep busy.

    Linux counts the time of all processors; what is not idle and not ours is others', and so is what a hypervisor has
    taken. Elsewhere nothing is known.
    """

    def __init__(self) -> None:
        self._began, self._busy, self._own = time.monotonic(), _busy_s(), _own_s()

    def cores(self) -> float | None:
        """Return the mean number of cores that others kept busy; None where the system does not tell, or too soon."""
        busy, passed = _busy_s(), time.monotonic() - self._began
        if busy is None or self._busy is None or passed < _SHORTEST_S:
            return None
        return max(0.0, (busy - self._busy) - (_own_s() - self._own)) / passed


def _own_s() -> float:
    return sum(os.times()[:4])


def _busy_s() -> float | None:
    try:
        fields = _STAT.read_text(encoding="ascii").split("\n", 1)[0].split()[1:]
    except OSError:
        return None
    # user nice system idle iowait irq softirq steal; guest time is part of user's.
    ticks = [int(text) for text in fields[:8]]
    return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")
