"""The constants of the cost model, kept between processes.

``crosswind bench calibrate`` writes them; without it, or where the file cannot be used, built-in ones
serve. They decide how fast a join is, never what it gives.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from crosswind.errors import CrosswindError
from crosswind.folders import cache_root, distrust, make_private, read_trusted, replace_file
from crosswind.plan.cost import Constants

__all__ = ["Calibration", "calibration", "calibration_path", "store_calibration"]

_VERSION = 1
"""Changes whenever a constant changes its meaning."""
_STEP = "Name a folder of your own in CROSSWIND_CACHE_DIR, or give --no-store."


@dataclass(frozen=True)
class Calibration:
    """The constants in use, and whether they were measured on this machine."""

    constants: Constants
    measured: bool


def calibration_path() -> Path | None:
    """Return the file of measured constants; None if there is no folder for it."""
    root = cache_root()
    return None if root is None else root / "calibration.json"


def calibration() -> Calibration:
    """Return the constants in use; the file is read once a process."""
    path = calibration_path()
    return Calibration(Constants(), measured=False) if path is None else _read(path)


def store_calibration(constants: Constants) -> Path:
    """Keep ``constants`` for this process and those to come; return the file."""
    path = calibration_path()
    if path is None:
        raise CrosswindError(f"There is no folder to keep the measured constants in: this user has no home. {_STEP}")
    kept = {"version": _VERSION, "constants": dataclasses.asdict(constants)}
    try:
        make_private(path.parent)
        reason = distrust(path.parent)
        if reason is None:
            replace_file(path, json.dumps(kept, indent=2).encode())
    except OSError as error:
        raise CrosswindError(f"The measured constants cannot be kept in {path}: {error}. {_STEP}") from error
    if reason is not None:
        raise CrosswindError(f"The measured constants are not kept in {path}: {reason}. {_STEP}")
    _read.cache_clear()
    return path


@lru_cache(maxsize=8)
def _read(path: Path) -> Calibration:
    """Return what ``path`` holds. A file that is missing, damaged, another user's or of another version is as none."""
    try:
        content = read_trusted(path) if distrust(path.parent) is None else None
        kept = {} if content is None else json.loads(content)
        if kept["version"] == _VERSION:
            return Calibration(Constants(**kept["constants"]), measured=True)
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        pass
    return Calibration(Constants(), measured=False)
