"""What generated kernels call: memory behind pointers, checked integers, text, rounding.

Only functions that are awkward to spell out in generated source live here; plain
comparisons and arithmetic are emitted in place so that LLVM sees through them.
"""

# mypy: ignore-errors  -- bodies are Numba IR builders; their types are LLVM's, not Python's

from __future__ import annotations

import math

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from crosswind.kernel.jit import jit

__all__ = [
    "above_nan",
    "add_checked",
    "ceil_long",
    "fetch",
    "float32_of_key",
    "float64_of_key",
    "floor_long",
    "fmod",
    "guess_offset",
    "mix_key",
    "mul_checked",
    "rem",
    "round_div",
    "store",
    "sub_checked",
    "text_order",
]


@intrinsic
def fetch(typingctx, address, index, dtype):
    """Read item ``index`` of the ``dtype`` array at ``address``.

    Plain pointers instead of array objects: kernels compile in two thirds of the time,
    and an index is not tested for being negative.
    """
    of = dtype.dtype

    def codegen(context, builder, signature, args):
        base = builder.inttoptr(args[0], context.get_data_type(of).as_pointer())
        return context.unpack_value(builder, of, builder.gep(base, [args[1]]))

    return of(types.int64, types.int64, dtype), codegen


@intrinsic
def store(typingctx, address, index, value):
    """Write ``value`` to item ``index`` of the array of its type at ``address``."""

    def codegen(context, builder, signature, args):
        base = builder.inttoptr(args[0], context.get_data_type(value).as_pointer())
        context.pack_value(builder, value, args[2], builder.gep(base, [args[1]]))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, value), codegen


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


def _reinterpret(source, target, bits):
    """Return signature and code: the ordered integer ``key`` as the float it stands for."""

    def codegen(context, builder, signature, args):
        lane = ir.IntType(bits)
        sign = builder.ashr(args[0], ir.Constant(lane, bits - 1))
        flipped = builder.xor(args[0], builder.and_(sign, ir.Constant(lane, 2 ** (bits - 1) - 1)))
        return builder.bitcast(flipped, ir.FloatType() if bits == 32 else ir.DoubleType())

    return target(source), codegen


@intrinsic
def float32_of_key(typingctx, key):
    """Return the float whose key is ``key``."""
    return _reinterpret(types.int32, types.float32, 32)


@intrinsic
def float64_of_key(typingctx, key):
    """Return the double whose key is ``key``."""
    return _reinterpret(types.int64, types.float64, 64)


@intrinsic
def _bits_of_float32(typingctx, value):
    """Return the bits of a float as an integer."""

    def codegen(context, builder, signature, args):
        return builder.sext(builder.bitcast(args[0], ir.IntType(32)), ir.IntType(64))

    return types.int64(types.float32), codegen


@intrinsic
def _bits_of_float64(typingctx, value):
    """Return the bits of a double as an integer."""

    def codegen(context, builder, signature, args):
        return builder.bitcast(args[0], ir.IntType(64))

    return types.int64(types.float64), codegen


@jit("uint64(float64, int64, uint64, uint64)")
def guess_offset(value, bits, first, span):
    """Return the offset, from key ``first``, of a value near ``value``: a place to start from."""
    if value != value:
        return span // np.uint64(2)
    if bits == 32:
        raw = _bits_of_float32(np.float32(value))
        key = raw ^ ((raw >> 31) & 0x7FFFFFFF)
    elif bits == 64:
        raw = _bits_of_float64(value)
        key = raw ^ ((raw >> 63) & 0x7FFFFFFFFFFFFFFF)
    elif value >= 9.2e18:
        key = np.int64(9223372036854775807)
    elif value <= -9.2e18:
        key = np.int64(-9223372036854775808)
    else:
        key = np.int64(np.floor(value))
    least = np.int64(first)
    if key < least:
        return np.uint64(0)
    offset = np.uint64(key) - first
    return offset if offset < span else span


@jit("float64(float64)")
def above_nan(value):
    """Return ``value``, with NaN as infinity: both are above all numbers."""
    return np.inf if value != value else value


@jit("int64(int64, int64)")
def mix_key(key, hashed):
    """Fold a key into a hash (never negative): all bits of the key reach the low ones."""
    h = np.uint64(key) ^ np.uint64(hashed)
    h = (h ^ (h >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)
    h = (h ^ (h >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    return np.int64((h ^ (h >> np.uint64(32))) >> np.uint64(1))


@jit()
def text_order(left_offsets, left_bytes, i, right_offsets, right_bytes, j):
    """Compare two texts bytewise: negative, zero or positive."""
    a, b = fetch(left_offsets, i, np.int64), fetch(right_offsets, j, np.int64)
    m, n = fetch(left_offsets, i + 1, np.int64) - a, fetch(right_offsets, j + 1, np.int64) - b
    for k in range(min(m, n)):
        p, q = fetch(left_bytes, a + k, np.uint8), fetch(right_bytes, b + k, np.uint8)
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
