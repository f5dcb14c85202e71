"""Kernels are made of vector code: on this processor, with wider registers, with narrower ones, and on ARM.

Looked up in what LLVM makes of them, and not by measuring time. What is asked for is the property, operations on
whole registers; which instruction that is differs between processors.
"""

from __future__ import annotations

import pyarrow as pa
import pytest

from crosswind.engine.probe.boxes import pair_spec
from crosswind.kernel.generated.box import box_source
from crosswind.kernel.generated.emit import Facts
from crosswind.kernel.generated.scan import PairSpec, scan_source
from crosswind.plan.compile import compile_plan
from crosswind.plan.lanes import is_vectorised
from crosswind.query import parse
from tests.processors import OTHERS, OWN, PROCESSORS, Kernels

BLOCK = 4096
NUMBERS = pa.schema({"ts": pa.int64(), "x": pa.int32(), "y": pa.float32(), "k": pa.int64(), "t": pa.string()})
NARROW_PRODUCT = "R.x * S.x = 77"
PACKED = {
    NARROW_PRODUCT: [("mul", "i64"), ("icmp", "i64")],
    "(R.y + S.y) * R.y = 3.5": [("fadd", "float"), ("fmul", "float"), ("fcmp", "float")],
    "R.x = S.x OR R.y = S.y": [("icmp", "i32"), ("fcmp", "float")],
    "CAST(R.x AS DOUBLE) / S.x > 9.5 OR R.y < S.y": [("fdiv", "double"), ("fcmp", "double")],
    "R.k * S.k = 77": [("mul", "i64"), ("icmp", "i64")],
}
"""Conditions without a box, and the operations on vectors that their scan must be made of."""


def scan_spec(where: str) -> PairSpec:
    sql = f"SELECT R.x FROM R [RANGE 9], S [RANGE 9] WHERE {where}"
    return pair_spec(compile_plan({"query": parse(sql, {"R": NUMBERS, "S": NUMBERS}, "ts")}), 0)


@pytest.fixture(autouse=True)
def empty_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("CROSSWIND_CACHE_DIR", str(tmp_path))


def test_the_processors_are_of_different_kinds():
    """On a machine whose LLVM knows only one architecture there are fewer, but always the own one."""
    assert (OWN, *OTHERS) == PROCESSORS
    if {"x86_64", "aarch64"} <= {each.architecture for each in PROCESSORS}:
        assert {each.register_bits for each in OTHERS} == {128, 256, 512}


def test_keys_are_compared_in_whole_registers():
    kernels = Kernels(box_source((32, 32), BLOCK) + "# to be looked at\n")
    for processor in PROCESSORS:
        code = kernels.on(processor)
        for element in ("i32", "i16"):
            assert code.vectors("icmp", element), f"{processor}: 32 keys, or half keys, at a time"
            assert code.vectors("sub", element), f"{processor}: the lower end is taken off a register of keys at a time"
        compared = code.compared_bits()
        # 32 keys in two dimensions; the rest of the kernel compares more.
        assert compared is None or compared >= 32 * 2 * 32, f"{processor}: {code.assembly}"


@pytest.mark.parametrize("where", PACKED)
def test_wide_registers_evaluate_any_condition(where):
    """The scan of a condition without a box is vectorised by LLVM, and the test sees the difference."""
    spec = scan_spec(where)
    assert is_vectorised(spec.condition)
    source = scan_source(spec, Facts(nulls=False, nans=False))
    plain = "\n".join(line for line in source.splitlines() if "hit" not in line)  # the same, one by one
    plain = plain.replace("                    continue\n                for i", "                for i")
    in_blocks, one_by_one = Kernels(f"{source}# to be looked at\n"), Kernels(plain)
    for processor in PROCESSORS:
        expected = where != NARROW_PRODUCT or processor.multiplies_narrow
        code = in_blocks.on(processor)
        for operation, element in PACKED[where]:
            assert bool(code.vectors(operation, element)) == expected, f"{processor}: {operation}\n{code.ir}"
        code = one_by_one.on(processor)
        assert not any(code.vectors(*each) for each in PACKED[where]), f"{processor}:\n{code.ir}"


def test_what_has_no_vector_code_is_not_asked_for_it():
    assert not is_vectorised(scan_spec("R.t < S.t OR R.x = S.x").condition)
    assert not is_vectorised(scan_spec("sin(R.y * S.y) < 0.5").condition)
    assert "hit" not in scan_source(scan_spec("R.t < S.t OR R.x = S.x"), Facts())
