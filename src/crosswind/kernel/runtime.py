"""What generated kernels call: memory behind pointers, checked integers, text, rounding.

Only functions that are awkward to spell out in generated source live here; plain
comparisons and arithmetic are emitted in place so that LLVM sees through them.
"""

# mypy: ignore-errors  -- bodies are Numba IR builders; their types are LLVM's, not Python's

from __future__ import annotations

import math

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from crosswind.kernel.jit import jit

__all__ = [
    "add_checked",
    "at",
    "ceil_long",
    "floor_long",
    "fmod",
    "mul_checked",
    "rem",
    "round_div",
    "sub_checked",
    "text_order",
]


@intrinsic
def _void_pointer(typingctx, address):
    """Turn an integer address into a void pointer."""

    def codegen(context, builder, signature, args):
        return builder.inttoptr(args[0], ir.IntType(8).as_pointer())

    return types.voidptr(types.int64), codegen


@numba.njit(inline="always")
def at(address, length, dtype):
    """View ``length`` items of ``dtype`` at ``address`` as an array."""
    return numba.carray(_void_pointer(address), (length,), dtype)


@intrinsic
def add_checked(typingctx, left, right):
    """Return (left + right, overflowed)."""
    return _checked_signature("sadd_with_overflow")


@intrinsic
def sub_checked(typingctx, left, right):
    """Return (left - right, overflowed)."""
    return _checked_signature("ssub_with_overflow")


@intrinsic
def mul_checked(typingctx, left, right):
    """Return (left * right, overflowed)."""
    return _checked_signature("smul_with_overflow")


def _checked_signature(method):
    """Return signature and code of a checked 64-bit operation, by its llvmlite builder method."""
    result = types.Tuple((types.int64, types.boolean))

    def codegen(context, builder, signature, args):
        both = getattr(builder, method)(args[0], args[1])
        value, over = builder.extract_value(both, 0), builder.extract_value(both, 1)
        return context.make_tuple(builder, signature.return_type, (value, over))

    return result(types.int64, types.int64), codegen


@jit()
def text_order(left_offsets, left_bytes, i, right_offsets, right_bytes, j):
    """Compare two texts bytewise: negative, zero or positive."""
    a, b = left_offsets[i], right_offsets[j]
    m, n = left_offsets[i + 1] - a, right_offsets[j + 1] - b
    for k in range(min(m, n)):
        p, q = left_bytes[a + k], right_bytes[b + k]
        if p != q:
            return np.int64(p) - np.int64(q)
    return m - n


@jit()
def floor_long(value):
    """Round a double down to a 64-bit integer as the JVM does: NaN is 0, the rest saturates."""
    if value != value:
        return np.int64(0)
    low = math.floor(value) if abs(value) < 9.0e15 else value
    if low >= 9.223372036854775807e18:
        return np.int64(9223372036854775807)
    if low <= -9.223372036854775808e18:
        return np.int64(-9223372036854775808)
    return np.int64(low)


@jit()
def ceil_long(value):
    """Round a double up to a 64-bit integer as the JVM does."""
    if value != value:
        return np.int64(0)
    high = -math.floor(-value) if abs(value) < 9.0e15 else value
    if high >= 9.223372036854775807e18:
        return np.int64(9223372036854775807)
    if high <= -9.223372036854775808e18:
        return np.int64(-9223372036854775808)
    return np.int64(high)


@jit()
def rem(left, right):
    """Return the remainder with the sign of ``left``; 0 for a divisor of 0 (the result is null)."""
    if right == 0 or right == -1:
        return np.int64(0)
    result = left % right
    if result != 0 and (left < 0) != (right < 0):
        result -= right
    return result


@jit()
def fmod(left, right):
    """Return the floating remainder with the sign of ``left``."""
    return np.fmod(left, right)


@jit()
def round_div(value, divisor):
    """Divide integers, rounding halves away from zero (Spark's HALF_UP)."""
    half = divisor // 2
    if value >= 0:
        whole = value // divisor
        return whole + (1 if value - whole * divisor >= divisor - half else 0)
    whole = -(-value // divisor)
    return whole - (1 if whole * divisor - value >= divisor - half else 0)
