"""Machine code on disk: one file a compiled function, named by all that decides it, with a checksum.

Numba has a cache of its own. It trusts what it finds (its files are pickles, which are run), fails for good on
one that is cut short, takes an object file with a flipped bit, and does not notice when a function that is
called from another file has changed. So this one stands in its place. Whatever is wrong with a file, the function
is compiled anew and the file replaced.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.util
import os
import pickle
import re
import sys
import time
import warnings
from collections.abc import Iterator
from functools import lru_cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

import llvmlite
import numba
import numpy as np
from numba.core import compiler, config, serialize, types
from numba.core.caching import _Cache

from crosswind.errors import CrosswindWarning
from crosswind.folders import cache_root, distrust, make_private, read_trusted, replace_file

__all__ = ["KernelCache", "cache_folder", "fingerprint", "module_source"]

_FORMAT = b"crosswind kernel 1\n"
_IMPORT = re.compile(r"^(?:from|import) (crosswind\.[\w.]+)", re.MULTILINE)
_WAIT_S = 60.0
_LOOK_S = 0.02
_DECISIVE = (
    "BOUNDSCHECK",
    "DEBUGINFO_DEFAULT",
    "DEBUG_NRT",
    "DISABLE_INTEL_SVML",
    "ENABLE_AVX",
    "ENABLE_PROFILING",
    "LLVM_REFPRUNE_FLAGS",
    "LLVM_REFPRUNE_PASS",
    "LOOP_VECTORIZE",
    "NRT_STATS",
    "OPT",
    "SLP_VECTORIZE",
    "USING_SVML",
)
"""Settings of Numba that change the machine code, beside the processor, which it names itself."""


def cache_folder() -> Path | None:
    """Return the folder of machine code; None if there is none that can be trusted.

    Then each process compiles for itself, and nothing is written.
    """
    root = cache_root()
    return None if root is None else _folder(root / "kernels", os.geteuid())


@lru_cache(maxsize=16)
def _folder(folder: Path, _user: int) -> Path | None:
    try:
        make_private(folder)
        reason = distrust(folder)
    except OSError:
        return None
    if reason is None:
        return folder
    warnings.warn(
        f"Compiled queries are not kept in {folder}: {reason}. What others can write there would be run. Each process "
        "compiles for itself meanwhile. Take the right to write there from others (chmod go-w), or name a folder of "
        "your own in CROSSWIND_CACHE_DIR.",
        CrosswindWarning,
        stacklevel=2,
    )
    return None


def fingerprint(source: str) -> str:
    """Return a mark of all that decides the machine code of ``source``: versions, settings, the files it calls.

    The processor is not in it: Numba names it when it compiles, and :class:`KernelCache` adds that.
    """
    called = sorted(_closure(frozenset(_IMPORT.findall(source))))
    digest = hashlib.sha256(repr(_environment()).encode())
    for text in (source, *(part for name in called for part in (name, module_source(name)))):
        digest.update(hashlib.sha256(text.encode()).digest())
    return digest.hexdigest()


@lru_cache(maxsize=1)
def _environment() -> tuple[Any, ...]:
    versions = (numba.__version__, llvmlite.__version__, np.__version__, sys.version, sys.implementation.cache_tag)
    settings = tuple((name, str(getattr(config, name, None))) for name in _DECISIVE)
    return (*versions, EXTENSION_SUFFIXES[0], *settings)


@lru_cache(maxsize=64)
def _closure(modules: frozenset[str]) -> frozenset[str]:
    """Return ``modules`` and what they import of ours in turn: kernels call functions of these files."""
    known: set[str] = set()
    waiting = set(modules)
    while waiting:
        name = waiting.pop()
        known.add(name)
        # What the decorator does with files decides no machine code.
        if name != "crosswind.kernel.jit":
            waiting |= {found for found in _IMPORT.findall(module_source(name)) if found not in known}
    return frozenset(known)


@lru_cache(maxsize=64)
def module_source(module: str) -> str:
    """Return the text of one of our modules, wherever it was installed."""
    spec = importlib.util.find_spec(module)
    get_source = getattr(spec.loader, "get_source", None) if spec else None
    text = get_source(module) if get_source else None
    if text is None:
        raise ImportError(f"the source of {module} is not there, and compiled queries depend on it")
    return str(text)


class KernelCache(_Cache):  # type: ignore[misc]
    """The compiled overloads of one function on disk, for Numba's dispatcher.

    Parameters
    ----------
    function : function
        The Python function.
    mark : str
        The :func:`fingerprint` of its file.
    """

    def __init__(self, function: Any, mark: str) -> None:
        self._function = function
        self._mark = mark

    @property
    def cache_path(self) -> str | None:
        """The folder, as Numba shows it."""
        folder = cache_folder()
        return None if folder is None else str(folder)

    def enable(self) -> None:
        """Do nothing: the cache is always on."""

    def disable(self) -> None:
        """Do nothing: the cache is always on."""

    def flush(self) -> None:
        """Do nothing: files are replaced, never stale."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return what was compiled for ``sig``, or None: there is no file, or it is damaged, or not ours."""
        target_context.refresh()
        path = self._path(sig, target_context.codegen())
        content = None if path is None else read_trusted(path)
        if content is None or not content.startswith(_FORMAT):
            return None
        head = len(_FORMAT)
        checksum, body = content[head : head + 32], memoryview(content)[head + 32 :]
        if hashlib.sha256(body).digest() != checksum:
            return None
        try:
            key, parts = pickle.loads(body)
            if key != self._key(sig, target_context.codegen()):
                return None
            return compiler.CompileResult._rebuild(target_context, *parts)
        except Exception:  # whatever it is: what cannot be loaded is compiled
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep what was compiled for ``sig``, if it can be kept; a disk that is full or read-only is no error."""
        path = self._path(sig, data.codegen)
        if path is None or data.lifted or data.library.has_dynamic_globals:
            return
        body = serialize.dumps((self._key(sig, data.codegen), data._reduce()))
        with contextlib.suppress(OSError):
            replace_file(path, _FORMAT + hashlib.sha256(body).digest() + body)

    @contextlib.contextmanager
    def compiled_once(self, sig: Any, target_context: Any) -> Iterator[None]:
        """Let one process at a time compile ``sig``: those that wait find it on disk.

        Nobody waits longer than :data:`_WAIT_S`, in case the other process was stopped.
        """
        target_context.refresh()
        path = self._path(sig, target_context.codegen())
        if path is None or path.exists():
            yield
            return
        lock = path.with_suffix(".lock")
        try:
            handle = os.open(lock, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError:
            yield
            return
        try:
            _wait_for(handle)
            yield
        finally:
            lock.unlink(missing_ok=True)
            os.close(handle)

    def _path(self, sig: Any, codegen: Any) -> Path | None:
        folder = cache_folder()
        if folder is None or not _is_plain(sig):
            return None
        name = hashlib.sha256(repr(self._key(sig, codegen)).encode()).hexdigest()
        return folder / f"{self._function.__name__}-{name[:32]}.kernel"

    def _key(self, sig: Any, codegen: Any) -> tuple[str, ...]:
        code = self._function.__code__
        place = (self._function.__module__, self._function.__qualname__, str(code.co_firstlineno))
        return (self._mark, *place, str(sig), *map(str, codegen.magic_tuple()))


def _is_plain(sig: Any) -> bool:
    """Whether ``sig`` names types that mean the same in another process; a function as an argument does not."""
    return isinstance(sig, str) or not any(isinstance(kind, types.Callable | types.Opaque) for kind in sig)


def _wait_for(handle: int) -> None:
    """Lock an open file; go on without after :data:`_WAIT_S`, or where there are no locks."""
    until = time.monotonic() + _WAIT_S
    while time.monotonic() < until:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_LOOK_S)
        except OSError:
            return
        else:
            return
