"""The code that kernels become, on this processor and on others.

LLVM compiles for any processor on any machine. So a test can look at what a kernel becomes with and without wide
registers, and on ARM, wherever it runs. Nothing that is compiled for another processor is run.

``python -m tests.processors`` runs the tests of kernels once more for each lesser processor that this one can stand in
for: the least of its architecture, and one with narrower registers. What it is given goes to pytest.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from llvmlite import binding
from numba.core import codegen, config
from numba.core.registry import cpu_target

from crosswind.kernel.jit import load_source

KERNEL_TESTS = (
    "tests/test_kernel.py",
    "tests/test_processors.py",
    "tests/test_combine.py",
    "tests/test_small_pushes.py",
)

_X86, _ARM = "x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"
_BITS = {"float": 32, "double": 64}
_COMPARISONS = {
    "x86_64": re.compile(r"^\s+v?p(?:cmp|minu|maxu|subus)\w*\s.*%(?P<register>[xyz])mm", re.MULTILINE),
    "aarch64": re.compile(r"^\s+cm(?:hs|hi|p\w\w)(?:\.\w+)?\s+[vp]\d", re.MULTILINE),
}
_REGISTER_BITS = {"y": 256, "z": 512}
_VECTOR = re.compile(r"= (\w+) [^<\n]*<(?:vscale x )?(\d+) x (\w+)>")


@dataclass(frozen=True)
class Processor:
    """A processor that LLVM can compile for. ``register_bits``: at least so wide are its vectors."""

    name: str
    triple: str
    cpu: str
    register_bits: int = 128
    features: str = ""

    @property
    def architecture(self) -> str:
        """The first part of the triple, in one spelling."""
        first = self.triple.partition("-")[0]
        return {"arm64": "aarch64", "amd64": "x86_64"}.get(first, first)

    @property
    def multiplies_narrow(self) -> bool:
        """Whether it has a packed product of signed 32-bit numbers: x86-64 without SSE4.1 has none."""
        oldest = self.architecture == "x86_64" and self.cpu in ("generic", "x86-64", "")
        return not oldest and "-sse4.1" not in self.features

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Code:
    """Optimised LLVM IR and assembly."""

    processor: Processor
    ir: str
    assembly: str

    def vectors(self, operation: str, element: str) -> list[int]:
        """Return the widths in bits of all operations on vectors of ``element`` that fill a register."""
        widths = [
            int(count) * (_BITS.get(kind) or int(kind[1:]))
            for name, count, kind in _VECTOR.findall(self.ir)
            if (name, kind) == (operation, element)
        ]
        return [width for width in widths if width >= self.processor.register_bits]

    def compared_bits(self) -> int | None:
        """Return how many bits the packed comparisons of the machine code take in; None: it is of an unknown kind."""
        pattern = _COMPARISONS.get(self.processor.architecture)
        if pattern is None:
            return None
        found = [match.groupdict().get("register") for match in pattern.finditer(self.assembly)]
        return sum(_REGISTER_BITS.get(register or "", 128) for register in found)


def _own() -> Processor:
    """Return the processor for which Numba compiles here: this one, or the one of ``NUMBA_CPU_NAME``."""
    made: Any = cpu_target.target_context.codegen()
    triple, cpu, features = made.magic_tuple()
    return Processor("own", triple, cpu, 256 if "+avx2" in features.split(",") else 128, features)


def _known(processor: Processor) -> bool:
    """Whether LLVM was built with that architecture."""
    try:
        binding.Target.from_triple(processor.triple)
    except RuntimeError:
        return False
    return True


binding.initialize_all_targets()
binding.initialize_all_asmprinters()
OWN = _own()
OTHERS = tuple(
    filter(
        _known,
        (
            Processor("x86-64", _X86, "x86-64"),
            Processor("x86-64-v2", _X86, "x86-64-v2"),
            Processor("x86-64-v3", _X86, "x86-64-v3", 256),
            Processor("x86-64-v4", _X86, "x86-64-v4", 256),
            Processor("zen 4", _X86, "znver4", 512),
            Processor("arm with neon", _ARM, "neoverse-n1"),
            Processor("arm with sve", _ARM, "neoverse-v1"),
        ),
    )
)
PROCESSORS = (OWN, *OTHERS)


class Kernels:
    """The kernels in ``source``, to be compiled for any processor.

    The kernel cache must be empty: Numba shows only what it has compiled itself.
    """

    def __init__(self, source: str) -> None:
        with _before_optimisation() as self._modules:
            self._module = load_source(source)

    def on(self, processor: Processor) -> Code:
        """Return what they become on ``processor``."""
        if processor is OWN:
            return self._as_they_run()
        machine = binding.Target.from_triple(processor.triple).create_target_machine(
            cpu=processor.cpu, features=processor.features, opt=int(config.OPT), reloc="pic", codemodel="default"
        )
        parts = [_optimised(text, processor, machine) for text in self._modules]
        return Code(processor, "\n".join(map(str, parts)), "\n".join(map(machine.emit_assembly, parts)))

    def _as_they_run(self) -> Code:
        named = [each for each in vars(self._module).values() if hasattr(each, "inspect_asm")]
        own = [each for each in named if each.__module__ == self._module.__name__]
        ir = [text for kernel in own for text in kernel.inspect_llvm().values()]
        assembly = [text for kernel in own for text in kernel.inspect_asm().values()]
        return Code(OWN, "\n".join(ir), "\n".join(assembly))


@contextmanager
def _before_optimisation() -> Iterator[list[str]]:
    """Collect the modules that Numba compiles, as they are before LLVM optimises them for this processor."""
    modules: list[str] = []
    optimise = codegen.CPUCodeLibrary._optimize_final_module

    def collect(library: Any) -> None:
        modules.append(str(library._final_module))
        optimise(library)

    with patch.object(codegen.CPUCodeLibrary, "_optimize_final_module", collect):
        yield modules


def _optimised(text: str, processor: Processor, machine: Any) -> Any:
    """Return the module optimised for ``processor`` in the two steps that Numba takes."""
    module = binding.parse_assembly(text)
    for function in module.functions:
        if function.name.startswith("NRT_") and not function.is_declaration:
            function.linkage = "available_externally"  # Numba's own; it was compiled for this machine
    module.triple, module.data_layout = processor.triple, str(machine.target_data)
    for level, vectorise in ((0, False), (int(config.OPT), True)):
        builder = codegen.create_pass_builder(
            machine, opt=level, loop_vectorize=vectorise, slp_vectorize=vectorise and bool(config.SLP_VECTORIZE)
        )
        passes = builder.getModulePassManager()
        if not vectorise:
            passes.add_loop_rotate_pass()
            passes.add_instruction_combine_pass()
            passes.add_jump_threading_pass()
        passes.add_refprune_pass()
        passes.run(module, builder)
    module.verify()
    return module


def lesser() -> list[str]:
    """Return names of processors whose code runs on this machine, too."""
    if OWN.architecture != "x86_64":
        return ["generic"]
    has = binding.get_host_cpu_features()
    narrower = "x86-64-v3" if has.get("avx512f") else "x86-64-v2" if has.get("avx2") else None
    return ["generic", *([narrower] if narrower else [])]


def main(arguments: Sequence[str]) -> int:
    """Run the tests for each; return how many of them failed."""
    failed = 0
    for name in lesser():
        print(f"crosswind: kernels compiled for {name}", flush=True)
        environment = {**os.environ, "NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": ""}
        command = [sys.executable, "-m", "pytest", "-q", *(arguments or KERNEL_TESTS)]
        failed += subprocess.run(command, env=environment, check=False).returncode != 0
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
