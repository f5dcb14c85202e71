"""Combinations on their way along a route: bounds, limits, groups and products.

What a hop does with its combinations is the same for all queries, so this is compiled once.
Combinations are the columns of a matrix of *cells*: row 0 is the mask of terms, then each
member has four rows: number of its basic window, place in it, time, sequence number.
:mod:`crosswind.kernel.compiled.follow` calls these functions between its searches.
"""

from __future__ import annotations

import numpy as np

from crosswind.kernel.compiled.ring import record_at
from crosswind.kernel.compiled.runtime import fetch, store
from crosswind.kernel.jit import jit
from crosswind.kernel.records import (
    BOUND,
    BOUND_BYTES,
    BOUND_MEMBER,
    BOUND_MEMBER_BYTES,
    LIMIT_TABLE,
    LIMIT_TABLE_BYTES,
    LIMITS,
    LIMITS_BYTES,
    MEMBER_ROWS,
    NUMBER_ROW,
    PLACE_ROW,
    TIME_ROW,
    TURN,
    TURN_BYTES,
    TURN_UNIT,
    TURN_UNIT_BYTES,
    WINDOW_ROW,
)

__all__ = [
    "LEAST",
    "MOST",
    "base_of",
    "before_in",
    "bound",
    "copy_rows",
    "count_table",
    "cut_by",
    "group",
    "in_limits",
    "is_limited",
    "is_limited_by_time",
    "is_ordered",
    "loosen",
    "places_below",
    "places_up_to",
    "same",
    "spread",
    "within",
    "word_of_member",
]

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


@jit()
def base_of(turn, unit):
    """Return the number of the first tuple of ``unit`` that is being joined; -1: none is."""
    return record_at(turn + TURN_BYTES + TURN_UNIT_BYTES * unit, TURN_UNIT).base


@jit()
def before_in(turn, unit, other):
    """Return where it says how many tuples of ``other`` come before those of ``unit`` that are being joined."""
    units = record_at(turn, TURN).units
    return fetch(turn + TURN_BYTES + TURN_UNIT_BYTES * units, units * unit + other, np.int64)


@jit()
def is_ordered(turn):
    """Whether tuples are joined in the order of their sequence numbers: there are ROWS windows."""
    return record_at(turn, TURN).ordered != 0


@jit()
def bound(cells, room, k, spec, turn, out, out_room, at):
    """Fill, in column ``at``, what combination ``k`` may meet: least and greatest time, least and greatest number.

    ``cells`` and ``out`` are addresses; rows are ``room`` and ``out_room`` words long.
    """
    reach = record_at(spec, BOUND)
    members, age, since = reach.members, reach.age, reach.since
    latest, high = LEAST, MOST
    for m in range(members):
        t = fetch(cells, room * (TIME_ROW + MEMBER_ROWS * m) + k, np.int64)
        wait = record_at(spec + BOUND_BYTES + BOUND_MEMBER_BYTES * m, BOUND_MEMBER).age
        latest = max(latest, t)
        if wait >= 0:
            high = min(high, min(t, MOST - wait) + wait)
    low = LEAST if age < 0 else max(latest, LEAST + age) - age
    if since != LEAST:
        low = max(low, min(since, MOST - 1) + 1)
    store(out, at, low)
    store(out, out_room + at, high)
    if reach.counted == 0 or not is_ordered(turn):
        return
    first, last = LEAST, MOST
    count, target = reach.count, reach.target
    begun = base_of(turn, target)
    for m in range(members):
        own = fetch(cells, room * (NUMBER_ROW + MEMBER_ROWS * m) + k, np.int64)
        member = record_at(spec + BOUND_BYTES + BOUND_MEMBER_BYTES * m, BOUND_MEMBER)
        wait, unit = member.count, member.unit
        base = base_of(turn, unit)
        if count >= 0 and base >= 0 and own >= base:
            first = max(first, fetch(before_in(turn, unit, target), own - base, np.int64) - count)
        if begun >= 0 and wait >= 0:
            size = record_at(turn + TURN_BYTES + TURN_UNIT_BYTES * target, TURN_UNIT).size
            last = min(last, begun + places_up_to(before_in(turn, target, unit), size, own + wait) - 1)
    store(out, 2 * out_room + at, first)
    store(out, 3 * out_room + at, last)


@jit()
def word_of_member(a, a_room, j, split, b, b_room, k, m, row):
    """Return a word of member ``m`` of combination ``j`` of ``a``, or ``k`` of ``b`` for those from ``split`` on."""
    if m < split:
        return fetch(a, a_room * (row + MEMBER_ROWS * m) + j, np.int64)
    return fetch(b, b_room * (row + MEMBER_ROWS * (m - split)) + k, np.int64)


@jit()
def cut_by(table, depth, mask):
    """Return a mask without the terms whose size in the table is less than ``depth``."""
    known = record_at(table, LIMIT_TABLE)
    if depth <= fetch(known.sizes, 0, np.int64):
        return mask
    place = places_below(known.sizes, known.length, depth)
    return mask & fetch(known.bits, place, np.int64)


@jit()
def in_limits(mask, a, a_room, j, split, b, b_room, k, members, limits, turn):
    """Return the mask of a combination of two without the terms whose windows are too short for it.

    ``a`` and ``b`` are addresses of cells, whose rows are ``a_room`` and ``b_room`` words long; the first ``split``
    members are those of combination ``j`` of ``a``, the others those of ``k`` of ``b``. How members of one and the same
    have come one after the other has been looked at before.
    """
    known = record_at(limits, LIMITS)
    by_age, by_count, since = known.by_age, known.by_count, known.since_length
    units, tables = limits + LIMITS_BYTES, limits + LIMITS_BYTES + 8 * members
    if by_age != 0 or since != 0:
        latest, earliest = LEAST, MOST
        for m in range(members):
            t = word_of_member(a, a_room, j, split, b, b_room, k, m, TIME_ROW)
            latest, earliest = max(latest, t), min(earliest, t)
        for q in range(by_age):
            table = tables + LIMIT_TABLE_BYTES * q
            t = word_of_member(a, a_room, j, split, b, b_room, k, record_at(table, LIMIT_TABLE).member, TIME_ROW)
            apart = np.uint64(latest) - np.uint64(t)
            mask = cut_by(table, np.int64(apart) if apart <= np.uint64(MOST) else MOST, mask)
        if since != 0:
            begin = 1 - max(earliest, LEAST + 2)
            place = places_below(known.since_sizes, since, begin)
            mask &= fetch(known.since_bits, place, np.int64)
    if by_count != 0 and is_ordered(turn):
        for m in range(members):
            unit = fetch(units, m, np.int64)
            base = base_of(turn, unit)
            if base < 0:
                continue
            place = word_of_member(a, a_room, j, split, b, b_room, k, m, NUMBER_ROW) - base
            if place < 0:
                continue
            for q in range(by_age, by_age + by_count):
                table = tables + LIMIT_TABLE_BYTES * q
                mine = record_at(table, LIMIT_TABLE).member
                if (m < split) != (mine < split):
                    own = word_of_member(a, a_room, j, split, b, b_room, k, mine, NUMBER_ROW)
                    counted = fetch(units, mine, np.int64)
                    depth = fetch(before_in(turn, unit, counted), place, np.int64) - own
                    mask = cut_by(table, depth, mask)
    return mask


@jit()
def count_table(limits, members, mine):
    """Return where the table of counts of member ``mine`` is; 0: they do not differ."""
    known = record_at(limits, LIMITS)
    for q in range(known.by_age, known.by_age + known.by_count):
        table = limits + LIMITS_BYTES + 8 * members + LIMIT_TABLE_BYTES * q
        if record_at(table, LIMIT_TABLE).member == mine:
            return table
    return np.int64(0)


@jit()
def is_limited(limits):
    """Whether windows differ between terms at all."""
    known = record_at(limits, LIMITS)
    return known.by_age != 0 or known.by_count != 0 or known.since_length != 0


@jit()
def is_limited_by_time(limits):
    """Whether it takes times to find out whose windows are long enough."""
    known = record_at(limits, LIMITS)
    return known.by_age != 0 or known.since_length != 0


@jit()
def copy_rows(source, room, chosen, count, members, target, target_room):
    """Copy the members of the chosen combinations, row by row."""
    for row in range(1, MEMBER_ROWS * members + 1):
        from_at, to_at = source + 8 * room * row, target + 8 * target_room * row
        for n in range(count):
            store(to_at, n, fetch(from_at, fetch(chosen, n, np.int64), np.int64))


@jit()
def same(cells, chosen, j, k):
    """Whether two combinations have the same members of the chosen ones."""
    for m in chosen:
        window, place = WINDOW_ROW + MEMBER_ROWS * m, PLACE_ROW + MEMBER_ROWS * m
        if cells[window, j] != cells[window, k] or cells[place, j] != cells[place, k]:
            return False
    return True


@jit("int64(int64[:, ::1], int64[::1], int64, int64[::1], int64, int64[::1], int64[::1], int64[::1], int64[::1])")
def group(cells, want, count, chosen, most, table, group_of, order, starts):
    """Put the first ``count`` of ``want`` in the order of groups with the same chosen members; return their number.

    More groups than ``most`` do not pay: then 0. The length of ``table`` is a power of two.
    ``starts`` says where groups begin in ``order``.
    """
    table[:] = -1
    last = np.int64(table.shape[0] - 1)
    groups = np.int64(0)
    for k in range(count):
        h = np.uint64(0)
        for m in chosen:
            h = (h ^ np.uint64(cells[PLACE_ROW + MEMBER_ROWS * m, want[k]])) * np.uint64(0x9E3779B97F4A7C15)
            h = (h ^ np.uint64(cells[WINDOW_ROW + MEMBER_ROWS * m, want[k]])) * np.uint64(0xBF58476D1CE4E5B9)
        slot = np.int64(h >> np.uint64(32)) & last
        while table[slot] >= 0 and not same(cells, chosen, want[order[table[slot]]], want[k]):
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


@jit()
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
def within(bounds, room, k, t, number, counted):
    """Whether combination ``k`` may meet a tuple, by the bounds at an address, whose rows are ``room`` words long."""
    if t < fetch(bounds, k, np.int64) or t > fetch(bounds, room + k, np.int64):
        return False
    if not counted:
        return True
    return number >= fetch(bounds, 2 * room + k, np.int64) and number <= fetch(bounds, 3 * room + k, np.int64)


@jit()
def spread(groups, which, rows, found, order, starts, bounds, bounds_room, counted, runs, op, out_w, out_i, out_j):
    """Give what groups have found to their members, as much as there is room for."""
    room, done = out_w.shape[0], 0
    k, within_group = op.next, op.next_2
    while k < found:
        g, w, i = groups[k], which[k], rows[k]
        t = fetch(runs[w, 1], i, np.int64)
        number = fetch(runs[w, 2], i, np.int64) if counted else np.int64(0)
        for place in range(starts[g] + within_group, starts[g + 1]):
            if done == room:
                op.next, op.next_2 = k, place - starts[g]
                return done
            if within(bounds, bounds_room, order[place], t, number, counted):
                out_w[done], out_i[done], out_j[done] = w, i, order[place]
                done += 1
        within_group = 0
        k += 1
    op.next, op.next_2 = k, 0
    return done
