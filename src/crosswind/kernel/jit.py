"""The one jit decorator, and modules made of generated source.

What is run is the source in hand, never a file: only machine code is kept on disk (:mod:`crosswind.kernel.store`).
A traceback shows the lines all the same.
"""

from __future__ import annotations

import hashlib
import linecache
import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

from crosswind.loading import heavy_loading

with heavy_loading():
    import numba

    from crosswind.kernel.store import KernelCache, fingerprint, module_source

__all__ = ["assembly_of", "jit", "load_source"]

_LOCK = threading.Lock()
_MARKS: dict[str, str] = {}
"""The fingerprints of generated modules, by name."""


def jit(signature: str | None = None, **options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Compile a function without the GIL, with IEEE division; machine code is kept on disk."""
    settings: dict[str, Any] = {"nogil": True, "error_model": "numpy", **options}

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        compiled: Callable[..., Any] = numba.njit(**settings)(function)
        if compiled is function:
            return compiled  # Numba was told to compile nothing (NUMBA_DISABLE_JIT)
        kernel: Any = compiled
        kernel._cache = KernelCache(function, f"{_mark_of(function.__module__)} {sorted(settings.items())}")
        if signature:
            with kernel._cache.compiled_once(signature, kernel.targetctx):
                kernel.compile(signature)
            kernel.disable_compile()
        return compiled

    return decorate


def _mark_of(module: str) -> str:
    return _MARKS.get(module) or fingerprint(module_source(module))


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


def load_source(source: str) -> ModuleType:
    """Return the module made of ``source``, from this process, or anew with machine code from the disk."""
    mark = fingerprint(source)
    name = f"crosswind_kernel_{hashlib.sha256(mark.encode()).hexdigest()[:24]}"
    with _LOCK, heavy_loading():
        if name in sys.modules:
            return sys.modules[name]
        file = f"<{name}>"
        linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
        module = ModuleType(name)
        module.__file__ = file
        _MARKS[name] = mark
        sys.modules[name] = module  # before it runs: what comes from the disk looks the name up
        try:
            exec(compile(source, file, "exec", dont_inherit=True), module.__dict__)
        except BaseException:
            del sys.modules[name], linecache.cache[file], _MARKS[name]
            raise
        return module
