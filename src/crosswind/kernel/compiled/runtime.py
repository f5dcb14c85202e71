"""What generated kernels call: memory behind pointers, checked integers, text, rounding.

Only functions that are awkward to spell out in generated source live here; plain
comparisons and arithmetic are emitted in place so that LLVM sees through them.
"""

from __future__ import annotations

import math

import numpy as np

from crosswind.kernel.jit import intrinsic, jit
from crosswind.loading import on_demand

__all__ = [
    "add_checked",
    "ceil_long",
    "fetch",
    "floor_long",
    "fmod",
    "is_among",
    "is_text_among",
    "mul_checked",
    "prefetch",
    "rem",
    "round_div",
    "store",
    "sub_checked",
    "text_equal",
    "text_order",
    "word_at",
]

ir = on_demand("llvmlite.ir")
types = on_demand("numba.core.types")
cgutils = on_demand("numba.core.cgutils")


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
def word_at(typingctx, address):
    """Read 8 bytes at ``address``, which need not be a multiple of 8."""

    def codegen(context, builder, signature, args):
        word = builder.load(builder.inttoptr(args[0], ir.IntType(64).as_pointer()))
        word.align = 1
        return word

    return types.uint64(types.int64), codegen


@intrinsic
def store(typingctx, address, index, value):
    """Write ``value`` to item ``index`` of the array of its type at ``address``."""

    def codegen(context, builder, signature, args):
        base = builder.inttoptr(args[0], context.get_data_type(value).as_pointer())
        context.pack_value(builder, value, args[2], builder.gep(base, [args[1]]))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, value), codegen


@intrinsic
def prefetch(typingctx, address):
    """Ask for the memory at ``address``: it will be read soon."""

    def codegen(context, builder, signature, args):
        pointer, flag = ir.IntType(8).as_pointer(), ir.IntType(32)
        of = ir.FunctionType(ir.VoidType(), [pointer, flag, flag, flag])
        function = cgutils.get_or_insert_function(builder.module, of, "llvm.prefetch.p0")
        flags = [ir.Constant(flag, value) for value in (0, 3, 1)]
        builder.call(function, [builder.inttoptr(args[0], pointer), *flags])
        return context.get_dummy_value()

    return types.void(types.int64), codegen


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
    a, b = fetch(left_offsets, i, np.int64), fetch(right_offsets, j, np.int64)
    m, n = fetch(left_offsets, i + 1, np.int64) - a, fetch(right_offsets, j + 1, np.int64) - b
    for k in range(min(m, n)):
        p, q = fetch(left_bytes, a + k, np.uint8), fetch(right_bytes, b + k, np.uint8)
        if p != q:
            return np.int64(p) - np.int64(q)
    return m - n


@jit()
def is_among(values, value):
    """Whether ``value`` is one of ``values``, which ascend. NaN is none of them."""
    low, high = np.int64(0), np.int64(len(values))
    while low < high:
        middle = (low + high) // 2
        if values[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low < len(values) and values[low] == value


@jit()
def is_text_among(offsets, texts, count, other_offsets, other_texts, i):
    """Whether text ``i`` of the latter is one of the ``count`` former ones, which ascend."""
    low, high = np.int64(0), np.int64(count)
    while low < high:
        middle = (low + high) // 2
        if text_order(offsets, texts, middle, other_offsets, other_texts, i) < 0:
            low = middle + 1
        else:
            high = middle
    return low < count and text_order(offsets, texts, low, other_offsets, other_texts, i) == 0


@jit()
def text_equal(left_offsets, left_bytes, i, right_offsets, right_bytes, j):
    """Whether two texts have the same bytes, compared 8 at a time."""
    a, b = fetch(left_offsets, i, np.int64), fetch(right_offsets, j, np.int64)
    left = fetch(left_offsets, i + 1, np.int64) - a
    if left != fetch(right_offsets, j + 1, np.int64) - b:
        return False
    a += left_bytes
    b += right_bytes
    while left >= 8:
        if word_at(a) != word_at(b):
            return False
        a += 8
        b += 8
        left -= 8
    while left > 0 and fetch(a, left - 1, np.uint8) == fetch(b, left - 1, np.uint8):
        left -= 1
    return left == 0


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
