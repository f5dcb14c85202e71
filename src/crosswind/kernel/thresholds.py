"""Where a probe's box begins and ends in each dimension, found by bisection.

The comparison itself, as the user wrote it, is the test: with the arithmetic, the
rounding and the null rules it has. So the interval is exact by construction, and the
loops that compare keys with it need to know nothing of types.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from crosswind.kernel.emit import Emitter, Facts
from crosswind.kernel.jit import load_source
from crosswind.kernel.source import header, leaves_at, open_arrays
from crosswind.plan.box import Condition, Dimension
from crosswind.plan.physical import machine_dtype
from crosswind.query.tree import Expr
from crosswind.query.types import Kind, SqlType
from crosswind.plan.keys import first_and_last

__all__ = ["OUTPUTS_PER_DIMENSION", "threshold_kernel", "threshold_source"]

OUTPUTS_PER_DIMENSION = 2
"""Arrays a dimension: least key, and greatest minus least."""

_SIGNATURE = '"void(int64[::1], int64, int64[::1])"'


def threshold_source(dimensions: tuple[Dimension, ...], leaves: tuple[Expr, ...], facts: Facts) -> str:
    """Return the source of a kernel that fills, for each probe, the box in ``dimensions``.

    ``leaves`` are the columns of the probe; the first output is 1 where the box is empty.
    """
    emitters: list[Emitter] = []
    body: list[str] = []
    for d, dimension in enumerate(dimensions):
        body += _dimension_lines(d, dimension, leaves, facts, emitters)
    lines = [
        "",
        "",
        f"@jit({_SIGNATURE})",
        "def thresholds(probe, n, outs):",
        '    """Fill least keys and widths; mark probes that can match nothing."""',
        *open_arrays(leaves, "p", "probe[", nulls=facts.nulls),
        "    for j in range(n):",
        "        empty = False",
        *body,
        "        store(outs[0], j, np.uint8(empty))",
    ]
    return "\n".join([*header("The ends of each probe's box, found by bisection.", emitters), *lines]) + "\n"


def _dimension_lines(
    d: int, dimension: Dimension, leaves: tuple[Expr, ...], facts: Facts, emitters: list[Emitter]
) -> list[str]:
    first, last = first_and_last(dimension.expr.type, dimension.bits)
    span = last - first
    lines = [f"        low = np.uint64(0); high = np.uint64({span})"]
    for condition in dimension.conditions:
        lines += _bisect(condition, dimension, leaves, facts, emitters, first, span)
    key = f"np.int{dimension.bits}"
    base = OUTPUTS_PER_DIMENSION * d + 1
    return [
        *lines,
        "        empty |= low > high",
        f"        least = np.int64(low + np.uint64({first % 2**64}))",
        f"        store(outs[{base}], j, {key}(least))",
        f"        store(outs[{base + 1}], j, {key}(np.int64(high - low)))",
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

    The greatest offset at which the test is still true is built bit by bit from the top;
    the test is the condition for an upper end, its failure for a lower one. Offsets are
    unsigned: they wrap where they must, which for signed integers is undefined to LLVM.
    """
    bits = span.bit_length()
    emitter = Emitter({**leaves_at(leaves, "p", "j"), dimension.expr: "value"}, facts, " " * 12)
    truth = emitter.is_true(condition.atom)
    emitters.append(emitter)
    lines = [
        "        reached = np.uint64(0); holds = False",
        f"        for b in range({bits}, -1, -1):",
        f"            t = reached if b == {bits} else reached | (np.uint64(1) << np.uint64(b))",
        f"            if t > np.uint64({span}):",
        "                continue",
        f"            key = np.int64(t + np.uint64({first % 2**64}))",
        f"            value = {_decode(dimension.expr.type)}",
        *emitter.lines,
        f"            passed = {'' if condition.upper else 'not '}({truth})",
        f"            if b == {bits}:",
        "                holds = passed",
        "                if not passed:",
        "                    break",
        "            elif passed:",
        "                reached = t",
    ]
    if condition.upper:
        return [*lines, "        empty |= not holds", "        high = min(high, reached)"]
    return [
        *lines,
        f"        empty |= holds and reached == np.uint64({span})",
        f"        low = max(low, (reached + np.uint64(1)) if holds and reached < np.uint64({span}) else np.uint64(0))",
    ]


def _decode(of: SqlType) -> str:
    """Return source that turns ``key`` into a value of type ``of``."""
    if of.kind is Kind.BOOL:
        return "key != 0"
    if of.kind is Kind.FLOAT:
        return f"float{of.bits}_of_key(np.int{of.bits}(key))"
    return f"np.{machine_dtype(of)}(key)"


@lru_cache(maxsize=512)
def threshold_kernel(
    dimensions: tuple[Dimension, ...], leaves: tuple[Expr, ...], facts: Facts
) -> Callable[..., None]:
    """Return the compiled kernel of :func:`threshold_source`."""
    kernel: Callable[..., None] = load_source(threshold_source(dimensions, leaves, facts)).thresholds
    return kernel
