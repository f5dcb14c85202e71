"""The search for the ends of a box: what is the same for all comparisons.

Generated kernels only evaluate the comparison at a key; where to look next is decided
here, in code that is compiled once, when a kernel that calls it is (a kernel from the disk
cache brings it along, so that nothing is loaded for it). Keys are handled as unsigned offsets from the least
key: they wrap where they must, which for signed integers is undefined to LLVM.
"""

from __future__ import annotations

import numpy as np

from crosswind.kernel.compiled.runtime import fetch, store, word_at
from crosswind.kernel.jit import intrinsic, jit
from crosswind.loading import on_demand

__all__ = [
    "PLAN",
    "box_ends",
    "end_of",
    "float32_of_key",
    "float64_of_key",
    "mix_key",
    "mix_text",
    "reach",
    "search_on",
    "start",
    "stored_key",
    "whole_box",
]

ir = on_demand("llvmlite.ir")
types = on_demand("numba.core.types")

PLAN = 8
"""Numbers that describe a condition: dimension, least key, span of keys, offsets of the values
0 and 1, width of floats (0: integers), whether it holds below its end (1) or above, and, if
infinities and NaN fall out of line, the offset of infinity (else 0)."""


def _float_of_key(source, target, bits):
    """Return signature and code: the float that the ordered integer ``key`` stands for."""

    def codegen(context, builder, signature, args):
        lane = ir.IntType(bits)
        sign = builder.ashr(args[0], ir.Constant(lane, bits - 1))
        flipped = builder.xor(args[0], builder.and_(sign, ir.Constant(lane, 2 ** (bits - 1) - 1)))
        return builder.bitcast(flipped, ir.FloatType() if bits == 32 else ir.DoubleType())

    return target(source), codegen


@intrinsic
def float32_of_key(typingctx, key):
    """Return the float whose key is ``key``."""
    return _float_of_key(types.int32, types.float32, 32)


@intrinsic
def float64_of_key(typingctx, key):
    """Return the double whose key is ``key``."""
    return _float_of_key(types.int64, types.float64, 64)


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


@jit()
def mix_key(key, hashed):
    """Fold a key into a hash (never negative): all bits of the key reach the low ones."""
    h = np.uint64(key) ^ np.uint64(hashed)
    h = (h ^ (h >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)
    h = (h ^ (h >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    return np.int64((h ^ (h >> np.uint64(32))) >> np.uint64(1))


@jit()
def mix_text(at, left):
    """Hash the ``left`` bytes at ``at``, 8 at a time, to 32 bits."""
    h = np.uint64(0xCBF29CE484222325) ^ np.uint64(left)
    while left >= 8:
        h = (h ^ word_at(at)) * np.uint64(0x9E3779B97F4A7C15)
        h ^= h >> np.uint64(29)
        at += 8
        left -= 8
    for b in range(left):
        h = (h ^ np.uint64(fetch(at, b, np.uint8))) * np.uint64(0x9E3779B97F4A7C15)
    h ^= h >> np.uint64(32)
    h *= np.uint64(0xD6E8FEB86659FD93)
    h ^= h >> np.uint64(32)
    return np.int32(np.uint32(h & np.uint64(0xFFFFFFFF)))


@jit()
def stored_key(key, floats):
    """Return the key under which the value of ``key`` is stored: one for both zeros, one for all NaNs."""
    if floats == 32:
        return np.int64(0) if key == -1 else np.int64(0x7FC00000) if key > 0x7F800000 else key
    if floats == 64:
        return np.int64(0) if key == -1 else np.int64(0x7FF8000000000000) if key > 0x7FF0000000000000 else key
    return key


@jit()
def _offset_near(value, bits, first, span):
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
    if key < np.int64(first):
        return np.uint64(0)
    offset = np.uint64(key) - first
    return min(span, offset)


# The state of a search, in an array of uint64: offset to test, greatest that passed, least
# that failed, flags, step, distance to jump, then the plan: least key, last offset to test,
# offset of 1, width, upper, offset of infinity, first offset to test. Flags: some passed (1),
# some failed (2), the condition holds at minus infinity (4), at infinity (8), at NaN (16).


@jit()
def whole_box(ends, dimensions):
    """Begin with a box that holds everything."""
    for d in range(dimensions):
        ends[1, d] = 0
        ends[2, d] = ends[0, d]


@jit()
def start(m, plans, condition):
    """Begin the search for the end of a condition."""
    plan = plans[condition]
    m[0], m[1], m[2] = plan[3], 0, plan[2]
    m[3], m[4], m[5] = 0, 0, 1
    m[6], m[7], m[8], m[9], m[10] = plan[1], plan[2], plan[4], plan[5], plan[6]
    m[11], m[12] = plan[7], 0
    if plan[7] != 0:  # finite values first
        m[7], m[12] = plan[7] - np.uint64(1), 1


@jit()
def _special(m, truth):
    """After the finite values: test minus infinity, infinity and NaN, if they are out of line."""
    if m[11] == 0:
        return False
    if m[4] == 2:
        m[0], m[4] = 0, 3
    elif m[4] == 3:
        m[3] |= np.uint64(4) if truth else np.uint64(0)
        m[0], m[4] = m[11], 4
    elif m[4] == 4:
        m[3] |= np.uint64(8) if truth else np.uint64(0)
        m[0], m[4] = m[11] + np.uint64(1), 5
    else:
        m[3] |= np.uint64(16) if truth else np.uint64(0)
        return False
    return True


@jit()
def search_on(m, f, truth, apart):
    """Note the outcome at the tested offset and choose the next; return False when the end is found.

    Sought is the greatest offset at which the test passes; the test is the condition for
    an upper end, its failure for a lower one. Steps 0 and 1 measure how far the two sides
    of the comparison are ``apart`` at two values of the column; step 2 tests the place
    where they would meet, further steps double away from it until the end is bracketed,
    then halve.
    """
    span, least = m[7], m[12]
    if m[4] >= 3:
        return _special(m, truth)
    if m[4] == 0:
        f[0] = apart
        m[0], m[4] = m[8], 1
        return True
    if m[4] == 1:
        m[0] = max(_offset_near(-f[0] / (apart - f[0]), m[9], m[6], span), least)
        m[4] = 2
        return True
    t, jump = m[0], m[5]
    if truth == (m[10] != 0):
        m[1] = t
        m[3] |= np.uint64(1)
        if t == span:
            return _special(m, False)
        if not m[3] & np.uint64(2):
            m[0] = t + jump if span - t > jump else span
            m[5] = jump * np.uint64(2)
            return True
    else:
        m[2] = t
        m[3] |= np.uint64(2)
        if t == least:
            return _special(m, False)
        if not m[3] & np.uint64(1):
            m[0] = t - jump if t - least > jump else least
            m[5] = jump * np.uint64(2)
            return True
    if m[2] - m[1] <= 1:
        return _special(m, False)
    m[0] = m[1] + (m[2] - m[1]) // np.uint64(2)
    return True


@jit()
def _hull(m, d, lows, highs, passes, last):
    """Narrow the box to a hull of where a condition holds; return whether that is nowhere."""
    bottom, top = m[3] & np.uint64(4) != 0, m[3] & np.uint64(24) != 0
    if m[10] != 0:
        if not passes and not bottom and not top:
            return True
        highs[d] = min(highs[d], last if top else m[1] if passes else np.uint64(0))
        return False
    finite = not passes or m[1] < m[7]
    if not finite and not bottom and not top:
        return True
    if not bottom:
        start = (m[1] + np.uint64(1) if passes else m[12]) if finite else m[11]
        lows[d] = max(lows[d], start)
    return False


@jit()
def end_of(m, plans, condition, lows, highs):
    """Narrow the box to where the condition holds; return whether nothing is left."""
    d = plans[condition, 0]
    passes = m[3] & np.uint64(1) != 0
    if m[11] != 0:
        return _hull(m, d, lows, highs, passes, plans[condition, 2])
    if m[10] != 0:
        highs[d] = min(highs[d], m[1])
        return not passes
    if not passes:
        return False
    if m[1] == m[7]:
        return True
    lows[d] = max(lows[d], m[1] + np.uint64(1))
    return False


@jit()
def box_ends(outs, at, j, low, high, first, bits, floats):
    """Store the ends of probe ``j`` in one dimension as keys and as doubles; return the least key."""
    least, most = np.int64(low + first), np.int64(high + first)
    if bits == 32:
        store(outs[at], j, np.int32(least))
        store(outs[at + 1], j, np.int32(np.int64(high - low)))
    else:
        store(outs[at], j, least)
        store(outs[at + 1], j, np.int64(high - low))
    if floats == 32:
        a, b = np.float64(float32_of_key(np.int32(least))), np.float64(float32_of_key(np.int32(most)))
    elif floats == 64:
        a, b = float64_of_key(least), float64_of_key(most)
    else:
        a, b = np.float64(least), np.float64(most)
    store(outs[at + 2], j, np.inf if a != a else a)
    store(outs[at + 3], j, np.inf if b != b else b)
    return least


@jit()
def reach(outs, j, spans):
    """Store the times that probe ``j`` may meet, within the 64-bit range, and note their extent."""
    t = fetch(spans[0], j, np.int64)
    early = t - min(spans[1], t - np.int64(-9223372036854775808) if t < 0 else spans[1])
    late = t + min(spans[2], np.int64(9223372036854775807) - t if t > 0 else spans[2])
    store(outs[1], j, early)
    store(outs[2], j, late)
    spans[3] = min(spans[3], early)
    spans[4] = max(spans[4], early)
    spans[5] = min(spans[5], late)
    spans[6] = max(spans[6], late)
