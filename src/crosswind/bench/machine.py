"""The machine that a benchmark ran on, and the versions of what ran."""

from __future__ import annotations

import ctypes
import gc
import importlib.metadata
import os
import platform
import resource
from pathlib import Path
from typing import Any

import pyarrow as pa

__all__ = ["describe_machine", "resident_bytes", "tree_bytes"]

_PACKAGES = ("crosswind", "numba", "numpy", "pyarrow", "pyspark", "duckdb", "polars")
_VECTORS = ("avx2", "avx512f", "neon", "asimd", "sve")


def describe_machine() -> dict[str, Any]:
    """Return processor, memory, load and versions."""
    facts = _processor()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "processor": facts.get("model name") or platform.processor() or platform.machine(),
        "vectors": [name for name in _VECTORS if name in facts.get("flags", facts.get("Features", "")).split()],
        "cores": cores,
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "load_average_1min": round(os.getloadavg()[0], 2),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in _PACKAGES},
    }


def resident_bytes() -> int:
    """Return the resident memory of this process, after what is free was given back to the system."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):
        libc.malloc_trim(0)
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        # Not Linux: the greatest so far is what there is, in bytes on macOS.
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return pages * os.sysconf("SC_PAGE_SIZE")


def _processor() -> dict[str, str]:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n\n")[0].splitlines()
    except OSError:
        return {}
    pairs = [line.partition(":") for line in lines]
    return {name.strip(): value.strip() for name, _, value in pairs}


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def tree_bytes() -> int:
    """Return the resident memory of this process and of all processes below it."""
    page = os.sysconf("SC_PAGE_SIZE")
    parents: dict[int, int] = {}
    sizes: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # it has just ended
                continue
            parents[int(entry.name)], sizes[int(entry.name)] = int(stat[1]), int(stat[21]) * page
    mine = {os.getpid()}
    while True:
        more = {pid for pid, parent in parents.items() if parent in mine} - mine
        if not more:
            return sum(sizes.get(pid, 0) for pid in mine)
        mine |= more
