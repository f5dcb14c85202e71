"""Where things are kept between processes."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["cache_root"]


def cache_root() -> Path:
    """Return the folder of compiled kernels and of what was measured: ``CROSSWIND_CACHE_DIR`` or the user's cache."""
    base = os.environ.get("CROSSWIND_CACHE_DIR")
    if base:
        return Path(base)
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path("~/.cache").expanduser()) / "crosswind"
