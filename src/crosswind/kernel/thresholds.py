"""Where a probe's box begins and ends in each dimension, found by bisection.

The comparison itself, as the user wrote it, is the test: with the arithmetic, the
rounding and the null rules it has. So the interval is exact by construction, and the
loops that compare keys with it need to know nothing of types. The search starts from
where the comparison would turn if it were linear, so it mostly needs a handful of tests.

The kernel also does what else a batch of probes needs before it can be looked up: the
times it may meet, the ends of boxes as doubles (for cells), the hash of equal keys.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from crosswind.kernel.emit import Emitter, Facts
from crosswind.kernel.jit import load_source
from crosswind.kernel.source import header, leaves_at, open_arrays
from crosswind.plan.box import Condition, Dimension
from crosswind.plan.keys import first_and_last
from crosswind.plan.physical import POINTERS_PER_COLUMN, machine_dtype
from crosswind.query.tree import Call, Expr
from crosswind.query.types import Kind, SqlType

__all__ = ["OUT_DIMENSION", "OUT_HEAD", "threshold_kernel", "threshold_source"]

OUT_HEAD = 4
"""Addresses before the dimensions in the output table: order, least and greatest time, hash."""

OUT_DIMENSION = 4
"""Addresses a dimension: least key, width, least and greatest value as doubles."""

_SIGNATURE = '"int64(int64[::1], int64, int64[::1], int64[::1])"'


def threshold_source(dimensions: tuple[Dimension, ...], leaves: tuple[Expr, ...], facts: Facts) -> str:
    """Return the source of a kernel that fills, for each probe, the box in ``dimensions``.

    ``leaves`` are columns of the probe, three addresses each; after them come two a
    hashed dimension: keys and validity.
    """
    emitters: list[Emitter] = []
    body: list[str] = []
    at = POINTERS_PER_COLUMN * len(leaves)
    for d, dimension in enumerate(dimensions):
        if dimension.hashed:
            body += _hashed_lines(d, at)
            at += 2
        else:
            body += _dimension_lines(d, dimension, leaves, facts, emitters)
    equal = [d for d, dimension in enumerate(dimensions) if dimension.equality]
    lines = [
        "",
        "",
        f"@jit({_SIGNATURE})",
        "def thresholds(probe, n, outs, spans):",
        '    """Fill boxes, times and the order of probes that have a box; return how many do.',
        "",
        "    ``spans``: address of times, how far back and ahead they reach; then, as results,",
        "    the least and greatest of the least times, and of the greatest times.",
        '    """',
        *open_arrays(leaves, "p", "probe[", nulls=facts.nulls),
        "    present = 0",
        "    spans[3] = 9223372036854775807; spans[4] = -9223372036854775808",
        "    spans[5] = 9223372036854775807; spans[6] = -9223372036854775808",
        "    for j in range(n):",
        "        empty = False",
        *body,
        *_hash_lines(equal),
        "        t = fetch(spans[0], j, np.int64)",
        "        early = t - min(spans[1], t - np.int64(-9223372036854775808) if t < 0 else spans[1])",
        "        late = t + min(spans[2], np.int64(9223372036854775807) - t if t > 0 else spans[2])",
        "        store(outs[1], j, early)",
        "        store(outs[2], j, late)",
        "        spans[3] = min(spans[3], early); spans[4] = max(spans[4], early)",
        "        spans[5] = min(spans[5], late); spans[6] = max(spans[6], late)",
        "        if not empty:",
        "            store(outs[0], present, np.int64(j))",
        "            present += 1",
        "    return present",
    ]
    return "\n".join([*header("The ends of each probe's box, found by bisection.", emitters), *lines]) + "\n"


def _hash_lines(equal: list[int]) -> list[str]:
    if not equal:
        return []
    lines = ["        hashed = np.int64(0)"]
    lines += [f"        hashed = mix_key(least{d}, hashed)" for d in equal]
    return [*lines, "        store(outs[3], j, hashed)"]


def _hashed_lines(d: int, at: int) -> list[str]:
    base = OUT_HEAD + OUT_DIMENSION * d
    return [
        f"        least{d} = np.int64(fetch(probe[{at}], j, np.int32))",
        f"        empty |= fetch(probe[{at + 1}], j, np.uint8) == 0",
        f"        store(outs[{base}], j, np.int32(least{d}))",
        f"        store(outs[{base + 1}], j, np.int32(0))",
        f"        store(outs[{base + 2}], j, np.float64(least{d}))",
        f"        store(outs[{base + 3}], j, np.float64(least{d}))",
    ]


def _dimension_lines(
    d: int, dimension: Dimension, leaves: tuple[Expr, ...], facts: Facts, emitters: list[Emitter]
) -> list[str]:
    of = dimension.expr.type
    first, last = first_and_last(of, dimension.bits)
    span = last - first
    lines = [f"        low = np.uint64(0); high = np.uint64({span})"]
    for condition in dimension.conditions:
        lines += _bisect(condition, dimension, leaves, facts, emitters, first, span)
    key = f"np.int{dimension.bits}"
    base = OUT_HEAD + OUT_DIMENSION * d
    return [
        *lines,
        "        empty |= low > high",
        f"        least{d} = np.int64(low + np.uint64({first % 2**64}))",
        f"        most = np.int64(high + np.uint64({first % 2**64}))",
        f"        store(outs[{base}], j, {key}(least{d}))",
        f"        store(outs[{base + 1}], j, {key}(np.int64(high - low)))",
        f"        store(outs[{base + 2}], j, above_nan({_decode(of, f'least{d}')}))",
        f"        store(outs[{base + 3}], j, above_nan({_decode(of, 'most')}))",
    ]


def _bisect(
    condition: Condition,
    dimension: Dimension,
    leaves: tuple[Expr, ...],
    facts: Facts,
    emitters: list[Emitter],
    first: int,
    span: int,
) -> list[str]:
    """Return lines that narrow ``low`` or ``high`` to where ``condition`` holds.

    Sought is the greatest offset at which the test passes; the test is the condition for
    an upper end, its failure for a lower one. Steps 0 and 1 measure the two sides of the
    comparison at two values of the column; step 2 tests the place where they would meet,
    further steps double away from it until the end is bracketed, then halve. Offsets are
    unsigned: they wrap where they must, which for signed integers is undefined to LLVM.
    """
    of, wrap = dimension.expr.type, first % 2**64
    emitter = Emitter({**leaves_at(leaves, "p", "j"), dimension.expr: "value"}, facts, " " * 12)
    atom = condition.atom
    truth = emitter.is_true(atom)
    sides = [emitter.emit(arg).code for arg in atom.args] if isinstance(atom, Call) else ["0.0", "0.0"]
    emitters.append(emitter)
    zero, one = (_offset_of(of, value, first) for value in (0, 1))
    lines = [
        f"        below = np.uint64(0); passes = False; above = np.uint64({span}); fails = False",
        f"        t = np.uint64({zero}); step = 0; jump = np.uint64(1); origin = 0.0",
        "        while True:",
        f"            key = np.int64(t + np.uint64({wrap}))",
        f"            value = {_decode(of, 'key')}",
        *emitter.lines,
        "            if step == 0:",
        f"                origin = np.float64({sides[0]}) - np.float64({sides[1]})",
        f"                t = np.uint64({one}); step = 1",
        "                continue",
        "            if step == 1:",
        f"                slope = np.float64({sides[0]}) - np.float64({sides[1]}) - origin",
        f"                t = {_guess(of, first, span)}",
        "                step = 2",
        "                continue",
        f"            if {'' if condition.upper else 'not '}({truth}):",
        "                below = t; passes = True",
        f"                if t == np.uint64({span}):",
        "                    break",
        "                if not fails:",
        f"                    t = t + jump if np.uint64({span}) - t > jump else np.uint64({span})",
        "                    jump *= np.uint64(2)",
        "                    continue",
        "            else:",
        "                above = t; fails = True",
        "                if t == np.uint64(0):",
        "                    break",
        "                if not passes:",
        "                    t = t - jump if t > jump else np.uint64(0)",
        "                    jump *= np.uint64(2)",
        "                    continue",
        "            if above - below <= np.uint64(1):",
        "                break",
        "            t = below + (above - below) // np.uint64(2)",
    ]
    if condition.upper:
        return [*lines, "        empty |= not passes", "        high = min(high, below)"]
    return [
        *lines,
        f"        empty |= passes and below == np.uint64({span})",
        f"        low = max(low, (below + np.uint64(1)) if passes and below < np.uint64({span}) else np.uint64(0))",
    ]


def _offset_of(of: SqlType, value: int, first: int) -> int:
    """Return the offset of the key of a small whole number."""
    if of.kind is not Kind.FLOAT:
        return value - first
    bits = {32: (0, 0x3F800000), 64: (0, 0x3FF0000000000000)}[of.bits][value]
    return bits - first


def _guess(of: SqlType, first: int, span: int) -> str:
    """Return source of the offset where the sides of the comparison would meet."""
    width = of.bits if of.kind is Kind.FLOAT else 0
    return f"guess_offset(-origin / slope, np.int64({width}), np.uint64({first % 2**64}), np.uint64({span}))"


def _decode(of: SqlType, key: str) -> str:
    """Return source that turns ``key`` into a value of type ``of``."""
    if of.kind is Kind.BOOL:
        return f"{key} != 0"
    if of.kind is Kind.FLOAT:
        return f"float{of.bits}_of_key(np.int{of.bits}({key}))"
    return f"np.{machine_dtype(of)}({key})"


@lru_cache(maxsize=512)
def threshold_kernel(
    dimensions: tuple[Dimension, ...], leaves: tuple[Expr, ...], facts: Facts
) -> Callable[..., int]:
    """Return the compiled kernel of :func:`threshold_source`."""
    kernel: Callable[..., int] = load_source(threshold_source(dimensions, leaves, facts)).thresholds
    return kernel
