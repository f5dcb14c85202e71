"""Combinations on their way along a route: bounds, growth, groups and products, compiled.

What a hop does with its combinations is the same for all queries, so this is compiled once.
Combinations are the columns of a matrix of *cells*: row 0 is the mask of terms, then each
member has four rows: number of its basic window, place in it, time, sequence number.
"""

from __future__ import annotations

from functools import lru_cache
from types import ModuleType

from crosswind.kernel.jit import load_source

__all__ = ["BOUND_HEAD", "BOUND_MEMBER", "LIMIT_HEAD", "combine_kernels"]

BOUND_HEAD = 7
"""Numbers that say what may be met in a window, before those of the members: how many members
there are, greatest age, since when, whether sequence numbers count, how many tuples wait, whether
tuples of that window are being joined, and the first number of those."""

BOUND_MEMBER = 6
"""Numbers a member: greatest age, how many wait, first number of those that are being joined
(-1: none are), where it says how many tuples of the window come before each of them; and of
the tuples of the window that are being joined, how many of this unit come before, and their count."""

LIMIT_HEAD = 5
"""Numbers that say whose windows are long enough, before the tables: how many tables there are by
age, and by count; then the table of beginnings, which is length (0: none), sizes, bits."""

_SOURCE = '''"""What happens to combinations between two searches."""

import numpy as np

from crosswind.kernel.jit import jit
from crosswind.kernel.runtime import fetch

LEAST = np.int64(-9223372036854775808)
MOST = np.int64(9223372036854775807)


@jit()
def places_up_to(address, length, value):
    """Return how many of the rising numbers are not greater than ``value``."""
    low, high = np.int64(0), length
    while low < high:
        middle = (low + high) // 2
        if fetch(address, middle, np.int64) <= value:
            low = middle + 1
        else:
            high = middle
    return low


@jit()
def places_below(address, length, value):
    """Return how many of the rising numbers are less than ``value``."""
    return np.int64(0) if value == LEAST else places_up_to(address, length, value - 1)


@jit("void(int64[:, ::1], int64, int64[::1], int64[:, ::1], int64[::1])")
def bound(cells, count, spec, out, extent):
    """Fill what combinations may meet: least and greatest time, least and greatest number."""
    members, age, since = spec[0], spec[1], spec[2]
    extent[0], extent[1], extent[2], extent[3] = MOST, LEAST, MOST, LEAST
    for k in range(count):
        latest, high = LEAST, MOST
        for m in range(members):
            t, wait = cells[3 + 4 * m, k], spec[{head} + {per} * m]
            latest = max(latest, t)
            if wait >= 0:
                high = min(high, min(t, MOST - wait) + wait)
        low = LEAST if age < 0 else max(latest, LEAST + age) - age
        if since != LEAST:
            low = max(low, min(since, MOST - 1) + 1)
        out[0, k], out[1, k] = low, high
        extent[0], extent[1] = min(extent[0], low), max(extent[1], low)
        extent[2], extent[3] = min(extent[2], high), max(extent[3], high)
        if spec[3] == 0:
            continue
        first, last = LEAST, MOST
        for m in range(members):
            at, own = {head} + {per} * m, cells[4 + 4 * m, k]
            place = own - spec[at + 2]
            if spec[4] >= 0 and spec[at + 2] >= 0 and place >= 0:
                first = max(first, fetch(spec[at + 3], place, np.int64) - spec[4])
            if spec[5] != 0 and spec[at + 1] >= 0:
                last = min(last, spec[6] + places_up_to(spec[at + 4], spec[at + 5], own + spec[at + 1]) - 1)
        out[2, k], out[3, k] = first, last


@jit()
def in_limits(cells, k, members, limits):
    """Return the mask of combination ``k`` without the terms whose windows are too short for it."""
    mask = cells[0, k]
    if limits[0] == 0 and limits[1] == 0 and limits[2] == 0:
        return mask
    latest, earliest = LEAST, MOST
    for m in range(members):
        latest, earliest = max(latest, cells[3 + 4 * m, k]), min(earliest, cells[3 + 4 * m, k])
    at = np.int64({limit_head})
    for _ in range(limits[0]):
        apart = np.uint64(latest) - np.uint64(cells[3 + 4 * limits[at], k])
        need = np.int64(apart) if apart <= np.uint64(MOST) else MOST
        mask &= fetch(limits[at + 3], places_below(limits[at + 2], limits[at + 1], need), np.int64)
        at += 4
    for _ in range(limits[1]):
        own, deep = cells[4 + 4 * limits[at], k], np.int64(0)
        for m in range(members):
            base = limits[at + 4 + 2 * m]
            place = cells[4 + 4 * m, k] - base
            if m != limits[at] and base >= 0 and place >= 0:
                deep = max(deep, fetch(limits[at + 5 + 2 * m], place, np.int64) - own)
        mask &= fetch(limits[at + 3], places_below(limits[at + 2], limits[at + 1], deep), np.int64)
        at += 4 + 2 * members
    if limits[2] != 0:
        begin = 1 - max(earliest, LEAST + 2)
        mask &= fetch(limits[4], places_below(limits[3], limits[2], begin), np.int64)
    return mask


@jit(
    "int64(int64[:, ::1], int64[::1], int64[::1], int64[::1], int64, int64[::1], int64, "
    "int64[:, ::1], int64, int64[::1], int64[:, ::1])"
)
def grow(cells, at, which, rows, found, masks, bits, runs, numbered, limits, out):
    """Put combinations ``at`` together with the tuples they found; return how many some term wants."""
    members = (cells.shape[0] - 1) // 4
    last = 4 * members
    decided = masks.shape[0] > 0
    kept = 0
    for k in range(found):
        j, w, i = at[k], which[k], rows[k]
        mask = (masks[k] if decided else cells[0, j]) & bits
        if mask == 0:
            continue
        out[0, kept] = mask
        for m in range(1, last + 1):
            out[m, kept] = cells[m, j]
        out[last + 1, kept], out[last + 2, kept] = w, i
        out[last + 3, kept] = fetch(runs[w, 1], i, np.int64)
        out[last + 4, kept] = fetch(runs[w, 2], i, np.int64) if numbered else i
        out[0, kept] = in_limits(out, kept, members + 1, limits)
        if out[0, kept] != 0:
            kept += 1
    return kept


@jit("int64(int64[:, ::1], int64, int64)")
def alive(cells, count, bits):
    """Return how many combinations one of the terms ``bits`` may want."""
    total = 0
    for k in range(count):
        total += cells[0, k] & bits != 0
    return total


@jit("int64(int64[:, ::1], int64, int64, int64[:, ::1])")
def pick(cells, count, bits, out):
    """Copy the combinations that one of the terms ``bits`` may want."""
    kept = 0
    for k in range(count):
        if cells[0, k] & bits != 0:
            for m in range(cells.shape[0]):
                out[m, kept] = cells[m, k]
            kept += 1
    return kept


@jit()
def same(cells, chosen, j, k):
    """Whether two combinations have the same members of the chosen ones."""
    for m in chosen:
        if cells[1 + 4 * m, j] != cells[1 + 4 * m, k] or cells[2 + 4 * m, j] != cells[2 + 4 * m, k]:
            return False
    return True


@jit("int64(int64[:, ::1], int64, int64[::1], int64, int64[::1], int64[::1], int64[::1], int64[::1])")
def group(cells, count, chosen, most, table, group_of, order, starts):
    """Put combinations in the order of groups with the same chosen members; return how many groups there are.

    More groups than ``most`` do not pay: then 0. The length of ``table`` is a power of two.
    ``starts`` says where groups begin in ``order``.
    """
    table[:] = -1
    last = np.int64(table.shape[0] - 1)
    groups = np.int64(0)
    for k in range(count):
        h = np.uint64(0)
        for m in chosen:
            h = (h ^ np.uint64(cells[2 + 4 * m, k])) * np.uint64(0x9E3779B97F4A7C15)
            h = (h ^ np.uint64(cells[1 + 4 * m, k])) * np.uint64(0xBF58476D1CE4E5B9)
        slot = np.int64(h >> np.uint64(32)) & last
        while table[slot] >= 0 and not same(cells, chosen, order[table[slot]], k):
            slot = (slot + 1) & last
        if table[slot] < 0:
            if groups == most:
                return 0
            table[slot] = groups
            order[groups] = k  # the first of its group, for now
            starts[groups + 1] = 0
            groups += 1
        group_of[k] = table[slot]
        starts[table[slot] + 1] += 1
    starts[0] = 0
    for g in range(groups):
        starts[g + 1] += starts[g]
        table[g] = starts[g]
    for k in range(count):
        order[table[group_of[k]]] = k
        table[group_of[k]] += 1
    return groups


@jit("void(int64[:, ::1], int64[::1], int64[::1], int64, int64, int64[:, ::1])")
def loosen(bounds, order, starts, groups, counted, out):
    """Fill bounds that allow all that one of a group may meet."""
    for g in range(groups):
        for e in range(4 if counted else 2):
            value = bounds[e, order[starts[g]]]
            for k in range(starts[g] + 1, starts[g + 1]):
                other = bounds[e, order[k]]
                value = max(value, other) if e % 2 else min(value, other)
            out[e, g] = value


@jit()
def within(bounds, k, t, number, counted):
    """Whether combination ``k`` may meet a tuple."""
    if t < bounds[0, k] or t > bounds[1, k]:
        return False
    return not counted or (number >= bounds[2, k] and number <= bounds[3, k])


@jit(
    "int64(int64[::1], int64[::1], int64[::1], int64, int64[::1], int64[::1], int64[:, ::1], int64, "
    "int64[:, ::1], int64[::1], int64[:, ::1])"
)
def spread(groups, which, rows, found, order, starts, bounds, counted, runs, state, out):
    """Give what groups have found to their members, as much as there is room for."""
    room, done = out.shape[1], 0
    k, within_group = state[0], state[1]
    while k < found:
        g, w, i = groups[k], which[k], rows[k]
        t = fetch(runs[w, 1], i, np.int64)
        number = fetch(runs[w, 2], i, np.int64) if counted else np.int64(0)
        for place in range(starts[g] + within_group, starts[g + 1]):
            if done == room:
                state[0], state[1] = k, place - starts[g]
                return done
            if within(bounds, order[place], t, number, counted):
                out[0, done], out[1, done], out[2, done] = order[place], w, i
                done += 1
        within_group = 0
        k += 1
    state[0], state[1] = k, 0
    return done


@jit(
    "int64(int64[:, ::1], int64, int64[:, ::1], int64, int64[:, :, ::1], int64, int64, int64[::1], int64[::1], "
    "int64[:, ::1])"
)
def product(beside, beside_count, grown, grown_count, bounds, counted, bits, limits, state, out):
    """Fill combinations of both that their windows allow, as many as there is room for."""
    left, right = (beside.shape[0] - 1) // 4, (grown.shape[0] - 1) // 4
    room, done = out.shape[1], 0
    g, b = state[0], state[1]
    while g < grown_count:
        while b < beside_count:
            if done == room:
                state[0], state[1] = g, b
                return done
            mask = beside[0, b] & grown[0, g] & bits
            fits = mask != 0
            for m in range(right):
                fits = fits and within(bounds[m], b, grown[3 + 4 * m, g], grown[4 + 4 * m, g], counted)
            if fits:
                out[0, done] = mask
                for m in range(1, 4 * left + 1):
                    out[m, done] = beside[m, b]
                for m in range(1, 4 * right + 1):
                    out[4 * left + m, done] = grown[m, g]
                out[0, done] = in_limits(out, done, left + right, limits)
                done += out[0, done] != 0
            b += 1
        b = 0
        g += 1
    state[0], state[1] = g, 0
    return done
'''


@lru_cache(maxsize=1)
def combine_kernels() -> ModuleType:
    """Return the module of the kernels."""
    numbers = {"head": BOUND_HEAD, "per": BOUND_MEMBER, "limit_head": LIMIT_HEAD}
    source = _SOURCE
    for name, number in numbers.items():
        source = source.replace(f"{{{name}}}", str(number))
    return load_source(source)
