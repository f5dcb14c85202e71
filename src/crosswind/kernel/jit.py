"""The one jit decorator, and the store of generated modules.

Generated source goes to a file named by its content, so that Numba can cache its
machine code on disk and a traceback shows real lines. The file is written aside and
linked into place: of many processes that compile the same program at once one wins,
and the time stamp on which Numba's cache depends never changes afterwards.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import sys
import tempfile
import threading
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

from crosswind.folders import cache_root
from crosswind.loading import heavy_loading

with heavy_loading():
    import numba

__all__ = ["assembly_of", "cache_folder", "jit", "load_source"]

_LOCK = threading.Lock()


def jit(signature: str | None = None, **options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Compile a function without the GIL, with IEEE division, cached on disk."""
    settings: dict[str, Any] = {"nogil": True, "error_model": "numpy", "cache": True, **options}
    decorator: Callable[[Callable[..., Any]], Callable[..., Any]]
    decorator = numba.njit(signature, **settings) if signature else numba.njit(**settings)
    return decorator


def assembly_of(kernel: Callable[..., Any]) -> str:
    """Return the machine code of a compiled function as assembly, without directives for the assembler.

    It is compiled anew, as what comes from the cache on disk is machine code only.
    """
    python: Any = kernel
    fresh: Any = numba.njit(nogil=True, error_model="numpy")(python.py_func)
    fresh.compile(python.nopython_signatures[0].args)
    (text,) = fresh.inspect_asm().values()
    return "\n".join(
        line for line in text.splitlines() if line.strip() and not line.lstrip().startswith((".", "#", '"'))
    )


def cache_folder() -> Path:
    """Return the folder of generated modules.

    Where it cannot be written, a folder of this process alone serves: slower, not wrong.
    """
    folder = cache_root() / "kernels"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError:
        folder = Path(tempfile.gettempdir()) / f"crosswind-kernels-{os.getuid()}-{os.getpid()}"
        folder.mkdir(parents=True, exist_ok=True)
    return folder


@lru_cache(maxsize=1)
def _fingerprint() -> str:
    """Return a mark of everything besides the source that decides the machine code."""
    names = ("jit.py", "ring.py", "runtime.py", "search.py", "simd.py")
    called = b"".join(Path(__file__).with_name(name).read_bytes() for name in names)
    return f"{numba.__version__}/{hashlib.sha256(called).hexdigest()}"


def load_source(source: str) -> ModuleType:
    """Return the module made of ``source``, from this process, the disk, or anew."""
    digest = hashlib.sha256(f"{_fingerprint()}\n{source}".encode()).hexdigest()[:24]
    name = f"crosswind_kernel_{digest}"
    with _LOCK, heavy_loading():
        if name in sys.modules:
            return sys.modules[name]
        path = cache_folder() / f"{name}.py"
        if not path.exists():
            _write_once(path, source)
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise ImportError(f"no loader for the generated kernel {path}")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # before it runs: Numba's cache looks the name up
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
        return module


def _write_once(path: Path, source: str) -> None:
    """Create ``path`` with ``source`` in one step; if another process was first, keep its file."""
    handle, aside = tempfile.mkstemp(dir=path.parent, prefix=path.stem, suffix=".tmp")
    try:
        with os.fdopen(handle, "w") as file:
            file.write(source)
        with contextlib.suppress(FileExistsError):
            os.link(aside, path)
    finally:
        Path(aside).unlink()
