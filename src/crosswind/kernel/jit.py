"""The one jit decorator, intrinsics, and modules made of generated source.

Numba takes half a second to import, so that happens when something is first compiled: kernels can be imported
anywhere. A kernel is compiled when it is first called, or when another one that calls it is compiled.

What is run is the source in hand, never a file: only machine code is kept on disk (:mod:`crosswind.kernel.store`).
A traceback shows the lines all the same.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import linecache
import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

from crosswind.loading import heavy_loading, on_demand

__all__ = ["Intrinsic", "Kernel", "address_of", "assembly_of", "intrinsic", "jit", "load_compiler", "load_source"]

numba = on_demand("numba")
store = on_demand("crosswind.kernel.store")

_LOCK = threading.Lock()
_MARKS: dict[str, str] = {}
"""The fingerprints of generated modules, by name."""


class Kernel:
    """A function that is compiled when it is needed; called, it is the compiled one.

    Parameters
    ----------
    function : function
        The Python function.
    signature : str or None
        The types of arguments that it is compiled for; without, it is compiled for those that it is called with.
    settings : dict
        Options of Numba.

    Attributes
    ----------
    compiled : numba.core.dispatcher.Dispatcher
        What Numba made of it. Who calls it often takes it from here, which saves a call.
    """

    compiled: Any

    def __init__(self, function: Callable[..., Any], signature: str | None, settings: dict[str, Any]) -> None:
        functools.update_wrapper(self, function)
        self.signature = signature
        self._function, self._settings = function, settings

    def __call__(self, *args: Any) -> Any:
        """Call the compiled function."""
        return self.compiled(*args)

    @property
    def _numba_type_(self) -> Any:
        """What it is to a kernel that calls it: Numba asks for this name."""
        return self.compiled._numba_type_

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name != "compiled":
            return getattr(self.compiled, name)
        with heavy_loading(), _compiler_lock():
            if "compiled" not in vars(self):  # while this thread waited for the lock
                self.compiled = self._compile()
        return self.compiled

    def _compile(self) -> Any:
        function = self._function
        compiled: Any = numba.njit(**self._settings)(function)
        if compiled is function:
            return compiled  # Numba was told to compile nothing (NUMBA_DISABLE_JIT)
        mark = f"{_mark_of(function.__module__)} {sorted(self._settings.items())}"
        compiled._cache = store.KernelCache(function, mark)
        if self.signature:
            with compiled._cache.compiled_once(self.signature, compiled.targetctx):
                compiled.compile(self.signature)
            compiled.disable_compile()
        return compiled


class Intrinsic:
    """A function of kernels that is written in LLVM's terms.

    Parameters
    ----------
    define : function
        What :func:`numba.extending.intrinsic` takes.
    """

    def __init__(self, define: Callable[..., Any]) -> None:
        functools.update_wrapper(self, define)
        self._define = define

    def __call__(self, *_args: Any) -> Any:
        """Refuse to be called from Python."""
        raise NotImplementedError(f"{self._define.__name__} can be called by compiled code only")

    @functools.cached_property
    def _numba_type_(self) -> Any:
        """What it is to a kernel that calls it. Only asked for by Numba, which compiles one kernel at a time."""
        context = importlib.import_module("numba.core.registry").cpu_target.typing_context
        made = importlib.import_module("numba.extending").intrinsic(self._define)
        context.refresh()
        return context.resolve_value_type(made)


def jit(signature: str | None = None, **options: Any) -> Callable[[Callable[..., Any]], Kernel]:
    """Compile a function without the GIL, with IEEE division; machine code is kept on disk."""
    settings: dict[str, Any] = {"nogil": True, "error_model": "numpy", **options}
    return lambda function: Kernel(function, signature, settings)


def intrinsic(define: Callable[..., Any]) -> Intrinsic:
    """Make an intrinsic of the function that returns its signature and the function that writes its code."""
    return Intrinsic(define)


def load_compiler() -> None:
    """Import what is needed to compile, or to load what was compiled, for a process that others are forked from."""
    with heavy_loading():
        _compiler_lock()
        importlib.import_module(store.__name__)


def _compiler_lock() -> Any:
    """Return Numba's own lock, which a thread may take more than once: kernels are compiled while it is held."""
    return importlib.import_module("numba.core.compiler_lock").global_compiler_lock


def _mark_of(module: str) -> str:
    mark: str = _MARKS.get(module) or store.fingerprint(store.module_source(module))
    return mark


def address_of(kernel: Callable[..., int]) -> int:
    """Return where a compiled kernel can be called from other compiled code."""
    overloads: dict[Any, Any] = kernel.overloads  # type: ignore[attr-defined]
    compiled = next(iter(overloads.values()))
    return int(compiled.library.get_pointer_to_function(compiled.fndesc.llvm_cfunc_wrapper_name))


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
    """Return the module made of ``source``, from this process, or anew with machine code from the disk.

    Kernels in it that have a signature are compiled.
    """
    mark = store.fingerprint(source)
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
            for kernel in [value for value in vars(module).values() if isinstance(value, Kernel)]:
                if kernel.signature and kernel.__module__ == name:
                    kernel.compiled  # noqa: B018 - compiled now, not at the first push
        except BaseException:
            del sys.modules[name], linecache.cache[file], _MARKS[name]
            raise
        return module
