"""The constants of the cost model, kept between processes.

``crosswind bench calibrate`` writes them; without it, or where the file cannot be used, built-in ones
serve. They decide how fast a join is, never what it gives.
"""

from __future__ import annotations

import dataclasses
import json
import os
import tempfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from crosswind.folders import cache_root
from crosswind.plan.cost import Constants

__all__ = ["Calibration", "calibration", "calibration_path", "store_calibration"]

_VERSION = 1
"""Changes whenever a constant changes its meaning."""


@dataclass(frozen=True)
class Calibration:
    """The constants in use, and whether they were measured on this machine."""

    constants: Constants
    measured: bool


def calibration_path() -> Path:
    """Return the file of measured constants."""
    return cache_root() / "calibration.json"


def calibration() -> Calibration:
    """Return the constants in use; the file is read once a process."""
    return _read(calibration_path())


def store_calibration(constants: Constants) -> Path:
    """Keep ``constants`` for this process and those to come; return the file."""
    path = calibration_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, aside = tempfile.mkstemp(dir=path.parent, prefix=path.stem, suffix=".tmp")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump({"version": _VERSION, "constants": dataclasses.asdict(constants)}, file, indent=2)
        Path(aside).replace(path)
    except BaseException:
        Path(aside).unlink(missing_ok=True)
        raise
    _read.cache_clear()
    return path


@lru_cache(maxsize=8)
def _read(path: Path) -> Calibration:
    """Return what ``path`` holds. A file that is missing, damaged or of another version is as good as none."""
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        if kept["version"] == _VERSION:
            return Calibration(Constants(**kept["constants"]), measured=True)
    except (OSError, ValueError, TypeError, KeyError):
        pass
    return Calibration(Constants(), measured=False)
