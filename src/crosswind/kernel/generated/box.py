"""Probing with boxes: candidates from basic windows, arranged or not.

One kernel serves scan, band and hash. In a basic window that is not arranged, all tuples
are candidates, taken block by block (a few KB, in L1) for every probe before moving on.
In one that is arranged in cells, the candidates are those of the cells that the box
overlaps: ranges of neighbouring tuples. Either way 32 candidates are compared at a time.
Where equals are linked, the candidates are those with the hash of the probe, the last one first.
The kernel depends on the widths of the dimensions only, not on the query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache

from crosswind.kernel.jit import load_source
from crosswind.plan.physical import PROBE_GROUP, RUN_DIMENSION, RUN_HEAD

__all__ = ["box_kernel", "box_source"]

PROBE_HEAD = 5
"""Addresses before the dimensions in the probe table: bounds of time and number, hashes."""

PROBE_DIMENSION = 4
"""Addresses a dimension: least key, width, least and greatest value as doubles."""

_SIGNATURE = (
    '"int64(int64[:, ::1], float64[:, ::1], int64, int64[::1], int64[::1], int64[::1], int64, '
    'int64[:, ::1], int64[::1], int64[::1], int64[::1], int64[::1])"'
)

_HEAD = '''"""Candidates of boxes in basic windows, 32 keys at a time."""

import numpy as np

from crosswind.kernel.jit import jit
from crosswind.kernel.compiled.arrange import cell_of, half_of
from crosswind.kernel.compiled.runtime import fetch, prefetch
from crosswind.kernel.compiled.simd import any_inside, in_range_16, in_range_32, in_range_64, lowest_bit
'''


def box_source(bits: tuple[int, ...], block: int) -> str:
    """Return the source of the probe kernel for dimensions of ``bits``, scanning by ``block``."""
    load = []
    for d, width in enumerate(bits):
        base = PROBE_HEAD + PROBE_DIMENSION * d
        load.append(f"            low{d} = np.int64(fetch(probe[{base}], j, np.int{width}))")
        load.append(f"            wide{d} = np.int64(fetch(probe[{base + 1}], j, np.uint{width}))")
        at = RUN_HEAD + RUN_DIMENSION * d
        load.append("            if h0:")
        load.append(f"                a{d} = half_of(low{d}, runs[r, {at + 2}], runs[r, {at + 3}])")
        high = f"np.int64(np.uint64(low{d}) + np.uint64(wide{d}))"
        load.append(f"                b{d} = half_of({high}, runs[r, {at + 2}], runs[r, {at + 3}])")
        load.append(f"                skip |= b{d} < 0 or a{d} > 65535")
        load.append(f"                a{d} = max(a{d}, 0)")
        load.append(f"                b{d} = min(b{d}, 65535) - a{d}")
    text = (_CELLS + _PASS_OVER + _OPEN_RUN + _LINKED + _RANGE + _MASK + _KEEP + _NEXT).format(
        signature=_SIGNATURE,
        keys="\n".join(
            f"        k{d} = runs[r, {at}]; h{d} = runs[r, {at + 1}]"
            for d, at in enumerate(range(RUN_HEAD, RUN_HEAD + RUN_DIMENSION * len(bits), RUN_DIMENSION))
        ),
        load="\n".join(load),
        mask=" & ".join(f"in_range_{width}(k{d}, i, low{d}, wide{d})" for d, width in enumerate(bits)),
        group=PROBE_GROUP,
        prefetches="\n".join(
            f"        prefetch(runs[r, {RUN_HEAD + RUN_DIMENSION * d}] + {width // 8} * first)"
            for d, width in enumerate(bits)
        ),
        halves=(16,) * len(bits),
        bits=bits,
        full_columns=_tuple(f"k{d}" for d in range(len(bits))),
        full_tops=_tuple(f"np.int64(np.uint64(low{d}) + np.uint64(wide{d}))" for d in range(len(bits))),
        full_spans=_tuple(f"wide{d}" for d in range(len(bits))),
        columns=_tuple(f"h{d}" for d in range(len(bits))),
        tops=_tuple(f"a{d} + b{d}" for d in range(len(bits))),
        spans=_tuple(f"b{d}" for d in range(len(bits))),
        half=" & ".join(f"in_range_16(h{d}, i, a{d}, b{d})" for d in range(len(bits))),
        exact=" and ".join(
            f"np.uint{width}(fetch(k{d}, at, np.int{width}) - np.int{width}(low{d})) <= np.uint{width}(wide{d})"
            for d, width in enumerate(bits)
        ),
        block=block,
        dims=PROBE_HEAD,
        per=PROBE_DIMENSION,
    )
    return _HEAD + text


def _tuple(parts: Iterable[str]) -> str:
    return "(" + "".join(f"{part}, " for part in parts) + ")"


_CELLS = '''

@jit()
def locate(runs, params, r, probe, order, start, stop, work):
    """Find the cells of some probes, and ask for what lies there before any of it is read.

    Fills first and last cell of the first axis, and of the second.
    """
    directory = runs[r, 6]
    cells_1 = runs[r, 7]
    cells_2 = runs[r, 8]
    at_1 = {dims} + {per} * (runs[r, 9] & 15)
    at_2 = {dims} + {per} * (runs[r, 9] >> 4)
    for k in range(start, stop):
        j = order[k]
        g = k - start
        if runs[r, 5] == 2:
            work[g, 0] = work[g, 1] = fetch(probe[4], j, np.int64) & (cells_1 - 1)
            work[g, 2] = work[g, 3] = 0
        else:
            work[g, 0] = cell_of(fetch(probe[at_1 + 2], j, np.float64), params[r, 0], params[r, 1], cells_1)
            work[g, 1] = cell_of(fetch(probe[at_1 + 3], j, np.float64), params[r, 0], params[r, 1], cells_1)
            work[g, 2] = cell_of(fetch(probe[at_2 + 2], j, np.float64), params[r, 2], params[r, 3], cells_2)
            work[g, 3] = cell_of(fetch(probe[at_2 + 3], j, np.float64), params[r, 2], params[r, 3], cells_2)
        prefetch(directory + 4 * (work[g, 0] * cells_2 + work[g, 2]))
    for k in range(start, stop):
        g = k - start
        first = np.int64(fetch(directory, work[g, 0] * cells_2 + work[g, 2], np.int32))
{prefetches}


'''
"""Which cells a box overlaps."""

_PASS_OVER = '''\
any_half = any_inside({halves})
any_full = any_inside({bits})


@jit()
def next_half(columns, tops, spans, i, stop):
    """Return the first of 64 tuples, one of which is a candidate by half keys, from ``i`` on."""
    while i < stop:
        if any_half(columns, tops, spans, i):
            return i
        i += 64
    return i


@jit()
def next_full(columns, tops, spans, i, stop):
    """Return the first of 64 tuples, one of which is a candidate, from ``i`` on."""
    while i < stop:
        if any_full(columns, tops, spans, i):
            return i
        i += 64
    return i


'''
"""Passing over candidates, none of which is inside."""

_OPEN_RUN = '''\
@jit({signature})
def probe_runs(runs, params, n_runs, probe, spans, order, n_probe, work, out_w, out_i, out_j, state):
    """Append candidates ``<run, i, j>``; return how many. Goes on from ``state`` when called again.

    ``spans[3:7]``: least and greatest of the probes' least times, and of their greatest
    times; ``spans[7]``: whether times (1) and sequence numbers (2) matter at all.
    ``state``: run, place in ``order``, block or cell, candidate; -1 where none is begun.
    """
    room = out_i.shape[0]
    n = 0
    r = state[0]
    k = state[1]
    c = state[2]
    i = state[3]
    while r < n_runs:
        length = runs[r, 0]
        times = runs[r, 1]
        numbers = runs[r, 2]
        kind = runs[r, 5]
        directory = runs[r, 6]
        cells_2 = runs[r, 8]
        checks = spans[7] & 2
        if spans[7] & 1:
            if runs[r, 4] < spans[3] or runs[r, 3] > spans[6]:
                r += 1
                continue
            if runs[r, 3] < spans[4] or runs[r, 4] > spans[5]:
                checks |= 1
{keys}
        last = 0
        begun = 0
        ready = -1
        while k < n_probe:
            j = order[k]
            skip = False
{load}
'''
"""The next basic window, and the box of a probe in it; ``c`` is a block or cell, ``i`` a candidate."""

_LINKED = """\
            if kind == 3:
                if c < 0:
                    c = 0
                    i = np.int64(fetch(directory, fetch(probe[4], j, np.int64) & (runs[r, 7] - 1), np.int32))
                while i >= 0:
                    at = i
                    i = np.int64(fetch(cells_2, at, np.int32))
                    if not ({exact}):
                        continue
                    if checks & 2:
                        q = fetch(numbers, at, np.int64)
                        if q < fetch(probe[2], j, np.int64):
                            if runs[r, 9]:
                                break
                            continue
                        if q > fetch(probe[3], j, np.int64):
                            continue
                    if checks & 1:
                        t = fetch(times, at, np.int64)
                        if t < fetch(probe[0], j, np.int64) or t > fetch(probe[1], j, np.int64):
                            continue
                    if n == room:
                        state[0] = r; state[1] = k; state[2] = c; state[3] = at
                        return n
                    out_w[n] = r; out_i[n] = at; out_j[n] = j
                    n += 1
                c = -1
                i = -1
                k += 1
                continue
"""
"""Where equals are linked: the candidates are those of the hash, the last one first."""

_RANGE = """\
            if kind == 0:
                if c < 0:
                    c = 0
                start = c
                stop = min(c + {block}, length)
            else:
                if k >= ready:
                    begun = k
                    ready = min(k + {group}, n_probe)
                    locate(runs, params, r, probe, order, k, ready, work)
                at = k - begun
                last = work[at, 1]
                if c < 0:
                    c = work[at, 0]
                start = np.int64(fetch(directory, c * cells_2 + work[at, 2], np.int32))
                stop = np.int64(fetch(directory, c * cells_2 + work[at, 3] + 1, np.int32))
            if i < 0:
                i = start
            if skip:
                i = stop
"""
"""Else the candidates are a range: a block of a basic window that is not arranged, or a row of cells."""

_MASK = """\
            while i < stop:
                if h0:
                    i = next_half({columns}, {tops}, {spans}, i, stop)
                    if i >= stop:
                        break
                    mask = {half}
                else:
                    if stop - i >= 64:
                        i = next_full({full_columns}, {full_tops}, {full_spans}, i, stop)
                        if i >= stop:
                            break
                    if stop - i <= 4:
                        mask = 0
                        for at in range(i, stop):
                            if {exact}:
                                mask |= np.int64(1) << (at - i)
                    else:
                        mask = {mask}
"""
"""Which of 32 candidates are inside."""

_KEEP = """\
                if mask:
                    if stop - i < 32:
                        mask &= (np.int64(1) << (stop - i)) - 1
                    if n + 32 > room:
                        state[0] = r; state[1] = k; state[2] = c; state[3] = i
                        return n
                    while mask:
                        at = i + lowest_bit(mask)
                        mask &= mask - 1
                        if h0 and not ({exact}):
                            continue
                        if checks & 1:
                            t = fetch(times, at, np.int64)
                            if t < fetch(probe[0], j, np.int64) or t > fetch(probe[1], j, np.int64):
                                continue
                        if checks & 2:
                            q = fetch(numbers, at, np.int64)
                            if q < fetch(probe[2], j, np.int64) or q > fetch(probe[3], j, np.int64):
                                continue
                        out_w[n] = r; out_i[n] = at; out_j[n] = j
                        n += 1
                i += 32
"""
"""Those of them that are, with half keys compared exactly, and whose time and number may be met."""

_NEXT = """\
            i = -1
            if kind == 0:
                k += 1
                if k == n_probe and stop < length:
                    k = 0
                    c = stop
            else:
                c += 1
                if c > last:
                    c = -1
                    k += 1
        k = 0
        c = -1
        i = -1
        r += 1
    state[0] = r
    return n
"""
"""On to the next range, probe, basic window."""


@lru_cache(maxsize=64)
def box_kernel(bits: tuple[int, ...], block: int) -> Callable[..., int]:
    """Return the compiled kernel of :func:`box_source`."""
    kernel: Callable[..., int] = load_source(box_source(bits, block)).probe_runs
    return kernel
