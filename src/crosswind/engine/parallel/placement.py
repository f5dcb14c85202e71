"""Where workers run: pinned to cores along the memory topology, if asked for (Handshake Join §5.1).

In a row each worker talks to its neighbours, so neighbours should share memory: cores of one NUMA node come one after
the other, then those of the next. Second threads of a core come last. It is off unless the environment says
``CROSSWIND_PIN_WORKERS=1``: on a machine that others use as well, the scheduler knows better.
"""

from __future__ import annotations

import os
from contextlib import suppress
from functools import cache
from pathlib import Path

__all__ = ["cores_in_order", "pin"]

_SYSTEM = Path("/sys/devices/system")


def cores_in_order(allowed: frozenset[int], system: Path = _SYSTEM) -> list[int]:
    """Return the cores ``allowed``, neighbours in memory beside each other; in their own order if nothing is known."""
    nodes: dict[int, int] = {}
    for folder in sorted(system.glob("node/node[0-9]*")):
        with suppress(OSError, ValueError):
            listed = _cores_of((folder / "cpulist").read_text(encoding="ascii"))
            nodes |= dict.fromkeys(listed, int(folder.name.removeprefix("node")))
    seen: dict[tuple[int, int, int], int] = {}
    ranks = {}
    for core in sorted(allowed):
        package, number = (
            _read(system / f"cpu/cpu{core}/topology/{name}") for name in ("physical_package_id", "core_id")
        )
        place = (nodes.get(core, 0), package, core if number < 0 else number)
        sibling = seen[place] = seen.get(place, -1) + 1
        ranks[core] = (sibling, *place)
    return sorted(allowed, key=lambda core: ranks[core])


def _cores_of(text: str) -> list[int]:
    """Return the numbers of a list such as ``0-3,8``."""
    parts = [part.split("-") for part in text.strip().split(",") if part]
    return [core for part in parts for core in range(int(part[0]), int(part[-1]) + 1)]


def _read(file: Path) -> int:
    with suppress(OSError, ValueError):
        return int(file.read_text(encoding="ascii"))
    return -1


@cache
def _chosen() -> list[int]:
    """Return the cores to pin workers to; none: they go where the scheduler sends them."""
    if os.environ.get("CROSSWIND_PIN_WORKERS") != "1" or not hasattr(os, "sched_setaffinity"):
        return []
    return cores_in_order(frozenset(os.sched_getaffinity(0)))


def pin(worker: int) -> None:
    """Pin the thread that calls this, which is worker number ``worker``, if that is asked for."""
    cores = _chosen()
    if cores:
        with suppress(OSError):
            os.sched_setaffinity(0, {cores[worker % len(cores)]})
