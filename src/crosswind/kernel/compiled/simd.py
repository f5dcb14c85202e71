"""Explicit vector code: which of 32 keys lie in an interval.

LLVM vectorises plain counting loops, but not the step from a comparison to the
positions that match. These intrinsics build that step directly: 32 keys are loaded and
compared at once (LLVM splits that into what the machine has: four registers of eight
lanes with AVX2), and the result comes back as 32 bits (CellJoin §5.2, §5.3).
"""

from __future__ import annotations

from crosswind.kernel.jit import intrinsic
from crosswind.loading import on_demand

__all__ = ["LANES", "any_inside", "in_range_16", "in_range_32", "in_range_64", "lowest_bit"]

ir = on_demand("llvmlite.ir")
types = on_demand("numba.core.types")
cgutils = on_demand("numba.core.cgutils")

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


def any_inside(bits):
    """Make an intrinsic that tells whether one of 64 tuples is inside in every dimension.

    ``bits`` are the widths of the keys, a dimension each. It takes tuples with an entry a
    dimension: addresses, greatest keys, widths; and the first tuple's index. Written as
    ``high - key <= width`` so that the load is part of the subtraction, and with one test
    for 64 tuples: half an instruction a pair and dimension with 16-bit keys.
    """

    @intrinsic
    def any_of_64(typingctx, addresses, highs, widths, index):
        def codegen(context, builder, signature, args):
            unpacked = [cgutils.unpack_tuple(builder, value) for value in args[:3]]
            return _any_of_64(builder, bits, *unpacked, args[3])

        return types.boolean(addresses, highs, widths, types.int64), codegen

    return any_of_64


def _any_of_64(builder, bits, addresses, highs, widths, index):
    """Build the code of :func:`any_inside`: four groups of 16 tuples, or-ed together."""
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), 16), [0] * 16)

    def splat(value, lane):
        empty = ir.Constant(ir.VectorType(lane, 16), ir.Undefined)
        narrow = builder.trunc(value, lane) if lane.width < 64 else value
        return builder.shuffle_vector(
            builder.insert_element(empty, narrow, ir.Constant(ir.IntType(32), 0)), empty, zeros
        )

    lanes = [ir.IntType(width) for width in bits]
    tops = [splat(value, lane) for value, lane in zip(highs, lanes, strict=True)]
    spans = [splat(value, lane) for value, lane in zip(widths, lanes, strict=True)]
    result = ir.VectorType(lanes[0] if len(set(bits)) == 1 else ir.IntType(16), 16)
    found = None
    for part in range(4):
        inside = None
        for address, lane, top, span in zip(addresses, lanes, tops, spans, strict=True):
            base = builder.gep(builder.inttoptr(address, lane.as_pointer()), [index])
            place = builder.gep(base, [ir.Constant(ir.IntType(64), 16 * part)])
            keys = builder.load(builder.bitcast(place, ir.VectorType(lane, 16).as_pointer()))
            keys.align = lane.width // 8
            within = builder.icmp_unsigned("<=", builder.sub(top, keys), span)
            inside = within if inside is None else builder.and_(inside, within)
        wide = builder.sext(inside, result)
        found = wide if found is None else builder.or_(found, wide)
    total = ir.IntType(result.element.width * 16)
    return builder.icmp_unsigned("!=", builder.bitcast(found, total), ir.Constant(total, 0))


@intrinsic
def lowest_bit(typingctx, mask):
    """Return the position of the lowest set bit of ``mask`` (not zero)."""

    def codegen(context, builder, signature, args):
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), codegen
