"""Explicit vector code: which of 32 keys lie in an interval.

LLVM vectorises plain counting loops, but not the step from a comparison to the
positions that match. These intrinsics build that step directly: 32 keys are loaded and
compared at once (LLVM splits that into what the machine has: four registers of eight
lanes with AVX2), and the result comes back as 32 bits (CellJoin §5.2, §5.3).
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

__all__ = ["LANES", "any_in_halves", "in_range_16", "in_range_32", "in_range_64", "lowest_bit"]

LANES = 32


def _in_range(bits):
    """Return signature and code: bit k is set iff ``low <= key[index + k] <= low + width``.

    One subtraction and one unsigned comparison a key.
    """

    def codegen(context, builder, signature, args):
        address, index, low, width = args
        lane, mask = ir.IntType(bits), ir.VectorType(ir.IntType(1), LANES)
        vector = ir.VectorType(lane, LANES)
        base = builder.gep(builder.inttoptr(address, lane.as_pointer()), [index])
        keys = builder.load(builder.bitcast(base, vector.as_pointer()))
        keys.align = bits // 8

        def splat(value):
            narrow = builder.trunc(value, lane) if bits < 64 else value
            one = builder.insert_element(ir.Constant(vector, ir.Undefined), narrow, ir.Constant(ir.IntType(32), 0))
            zeros = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
            return builder.shuffle_vector(one, ir.Constant(vector, ir.Undefined), zeros)

        inside = builder.icmp_unsigned("<=", builder.sub(keys, splat(low)), splat(width))
        assert inside.type == mask
        return builder.zext(builder.bitcast(inside, ir.IntType(LANES)), ir.IntType(64))

    return types.int64(types.int64, types.int64, types.int64, types.int64), codegen


@intrinsic
def in_range_16(typingctx, address, index, low, width):
    """Compare 32 half keys of 16 bits at ``address`` from ``index`` on."""
    return _in_range(16)


@intrinsic
def in_range_32(typingctx, address, index, low, width):
    """Compare 32 keys of 32 bits at ``address`` from ``index`` on."""
    return _in_range(32)


@intrinsic
def in_range_64(typingctx, address, index, low, width):
    """Compare 32 keys of 64 bits at ``address`` from ``index`` on."""
    return _in_range(64)


@intrinsic
def any_in_halves(typingctx, addresses, highs, widths, index):
    """Tell whether one of 64 tuples from ``index`` on is inside in every dimension.

    ``addresses``, ``highs`` and ``widths`` are tuples, an entry a dimension. Written as
    ``high - key <= width`` so that the load is part of the subtraction, and with one test
    for 64 tuples: about half an instruction a pair.
    """

    def codegen(context, builder, signature, args):
        columns, tops, spans = (cgutils.unpack_tuple(builder, value) for value in args[:3])
        lane, vector = ir.IntType(16), ir.VectorType(ir.IntType(16), 16)
        zeros = ir.Constant(ir.VectorType(ir.IntType(32), 16), [0] * 16)

        def splat(value):
            first = builder.insert_element(
                ir.Constant(vector, ir.Undefined), builder.trunc(value, lane), ir.Constant(ir.IntType(32), 0)
            )
            return builder.shuffle_vector(first, ir.Constant(vector, ir.Undefined), zeros)

        highs_, widths_ = [splat(value) for value in tops], [splat(value) for value in spans]
        found = None
        for part in range(4):
            inside = None
            for column, high, width in zip(columns, highs_, widths_, strict=True):
                base = builder.gep(builder.inttoptr(column, lane.as_pointer()), [args[3]])
                place = builder.gep(base, [ir.Constant(ir.IntType(64), 16 * part)])
                keys = builder.load(builder.bitcast(place, vector.as_pointer()))
                keys.align = 2
                within = builder.icmp_unsigned("<=", builder.sub(high, keys), width)
                inside = within if inside is None else builder.and_(inside, within)
            wide = builder.sext(inside, vector)
            found = wide if found is None else builder.or_(found, wide)
        return builder.icmp_unsigned("!=", builder.bitcast(found, ir.IntType(256)), ir.Constant(ir.IntType(256), 0))

    return types.boolean(addresses, highs, widths, types.int64), codegen


@intrinsic
def lowest_bit(typingctx, mask):
    """Return the position of the lowest set bit of ``mask`` (not zero)."""

    def codegen(context, builder, signature, args):
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), codegen
