"""The hand-written C++ loop, compiled on the spot."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["VARIANTS", "Baseline", "BaselineMissingError", "load_baseline"]

VARIANTS = ("scalar", "vectorised", "unrolled")
"""As CellJoin (section 5) has them; the last is the best that we could write by hand."""

_SOURCE = Path(__file__).with_name("baseline.cpp")
_COMPILER = "g++"
_FLAGS = ("-O3", "-march=native", "-std=c++17", "-shared", "-fPIC")
_COMPILE_SECONDS_MAX = 120


class BaselineMissingError(Exception):
    """The C++ loop cannot be compiled or run here; the message says why."""


@dataclass
class Baseline:
    """The compiled loop.

    Parameters
    ----------
    library : ctypes.CDLL
        With a function ``scan_<variant>`` for each of :data:`VARIANTS`.
    how : str
        Compiler and flags.
    """

    library: Any
    how: str
    _room: tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]] = field(
        default_factory=lambda: (np.empty(1 << 20, np.int32), np.empty(1 << 20, np.int32))
    )

    def scan(
        self,
        variant: str,
        window: tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]],
        probes: tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]],
    ) -> tuple[int, float]:
        """Return the number of matches of ``probes`` in ``window``, and the seconds it took to find them."""
        arguments = [
            *(ctypes.c_void_p(column.ctypes.data) for column in window),
            ctypes.c_int64(len(window[0])),
            *(ctypes.c_void_p(column.ctypes.data) for column in probes),
            ctypes.c_int64(len(probes[0])),
            *(ctypes.c_void_p(room.ctypes.data) for room in self._room),
            ctypes.c_int64(len(self._room[0])),
        ]
        function = getattr(self.library, f"scan_{variant}")
        began = time.perf_counter()
        count = function(*arguments)
        return int(count), time.perf_counter() - began


def load_baseline() -> Baseline:
    """Compile and load the loop.

    Raises
    ------
    BaselineMissingError
        Without g++, or on a processor without AVX2.
    """
    compiler = shutil.which(_COMPILER)
    if compiler is None:
        raise BaselineMissingError(f"{_COMPILER} is not installed, so that there is no C++ loop to compare with")
    with tempfile.TemporaryDirectory(prefix="crosswind-bench-") as folder:
        target = Path(folder) / "baseline.so"
        command = [compiler, *_FLAGS, "-o", str(target), str(_SOURCE)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_COMPILE_SECONDS_MAX, check=False)
        if done.returncode != 0:
            first = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr[:200])
            raise BaselineMissingError(f"the C++ loop does not compile on this machine: {first.strip()}")
        library = ctypes.CDLL(str(target))
    for variant in VARIANTS:
        getattr(library, f"scan_{variant}").restype = ctypes.c_int64
    version = subprocess.run([compiler, "-dumpfullversion"], capture_output=True, text=True, check=False).stdout.strip()
    return Baseline(library, f"{_COMPILER} {version} {' '.join(_FLAGS[:3])}")
