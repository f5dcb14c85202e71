"""Combinations on their way along a route: bounds, limits, groups and products, compiled.

What a hop does with its combinations is the same for all queries, so this is compiled once.
Combinations are the columns of a matrix of *cells*: row 0 is the mask of terms, then each
member has four rows: number of its basic window, place in it, time, sequence number.
:mod:`crosswind.kernel.follow` calls these functions between its searches.
"""

from __future__ import annotations

__all__ = ["BOUND_HEAD", "BOUND_MEMBER", "COMBINE", "LIMIT_HEAD", "TURN_HEAD", "combine_words"]

TURN_HEAD = 2
"""Words that say what is being joined in the order, before those of the units: whether anything is (there
are ROWS windows), and how many units there are. Then two a unit: the number of the first of its tuples that
are being joined (-1: none are), and how many; then for any two units where it is written how many tuples of the
second come before each of those of the first."""

BOUND_HEAD = 6
"""Words that say what may be met in a window, before those of the members: how many members
there are, greatest age, since when, how many tuples wait, the unit, whether sequence numbers matter."""

BOUND_MEMBER = 3
"""Words a member: greatest age, how many wait, its unit."""

LIMIT_HEAD = 5
"""Words that say whose windows are long enough, before the units of the members and the tables: how many tables
there are by age, and by count; then the table of beginnings, which is length (0: none), sizes, bits."""

COMBINE = '''
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
    return fetch(turn, {TURN_HEAD} + 2 * unit, np.int64)


@jit()
def before_in(turn, unit, other):
    """Return where it says how many tuples of ``other`` come before those of ``unit`` that are being joined."""
    units = fetch(turn, 1, np.int64)
    return fetch(turn, {TURN_HEAD} + 2 * units + units * unit + other, np.int64)


@jit("void(int64[:, ::1], int64, int64, int64, int64[:, ::1], int64)")
def bound(cells, k, spec, turn, out, at):
    """Fill, in column ``at``, what combination ``k`` may meet: least and greatest time, least and greatest number."""
    members, age, since = fetch(spec, 0, np.int64), fetch(spec, 1, np.int64), fetch(spec, 2, np.int64)
    latest, high = LEAST, MOST
    for m in range(members):
        t, wait = cells[3 + 4 * m, k], fetch(spec, {BOUND_HEAD} + {BOUND_MEMBER} * m, np.int64)
        latest = max(latest, t)
        if wait >= 0:
            high = min(high, min(t, MOST - wait) + wait)
    low = LEAST if age < 0 else max(latest, LEAST + age) - age
    if since != LEAST:
        low = max(low, min(since, MOST - 1) + 1)
    out[0, at], out[1, at] = low, high
    if fetch(spec, 5, np.int64) == 0 or fetch(turn, 0, np.int64) == 0:
        return
    first, last = LEAST, MOST
    count, target = fetch(spec, 3, np.int64), fetch(spec, 4, np.int64)
    begun = base_of(turn, target)
    for m in range(members):
        word, own = {BOUND_HEAD} + {BOUND_MEMBER} * m, cells[4 + 4 * m, k]
        wait, unit = fetch(spec, word + 1, np.int64), fetch(spec, word + 2, np.int64)
        base = base_of(turn, unit)
        if count >= 0 and base >= 0 and own >= base:
            first = max(first, fetch(before_in(turn, unit, target), own - base, np.int64) - count)
        if begun >= 0 and wait >= 0:
            size = fetch(turn, {TURN_HEAD} + 2 * target + 1, np.int64)
            last = min(last, begun + places_up_to(before_in(turn, target, unit), size, own + wait) - 1)
    out[2, at], out[3, at] = first, last


@jit("int64(int64[:, ::1], int64, int64, int64, int64)")
def in_limits(cells, k, members, limits, turn):
    """Return the mask of combination ``k`` without the terms whose windows are too short for it."""
    mask = cells[0, k]
    by_age, by_count, since = fetch(limits, 0, np.int64), fetch(limits, 1, np.int64), fetch(limits, 2, np.int64)
    if by_age == 0 and by_count == 0 and since == 0:
        return mask
    latest, earliest = LEAST, MOST
    for m in range(members):
        latest, earliest = max(latest, cells[3 + 4 * m, k]), min(earliest, cells[3 + 4 * m, k])
    at = {LIMIT_HEAD} + members
    for _ in range(by_age):
        mine = fetch(limits, at, np.int64)
        apart = np.uint64(latest) - np.uint64(cells[3 + 4 * mine, k])
        need = np.int64(apart) if apart <= np.uint64(MOST) else MOST
        place = places_below(fetch(limits, at + 2, np.int64), fetch(limits, at + 1, np.int64), need)
        mask &= fetch(fetch(limits, at + 3, np.int64), place, np.int64)
        at += 4
    if fetch(turn, 0, np.int64) != 0:
        for _ in range(by_count):
            mine = fetch(limits, at, np.int64)
            own, deep = cells[4 + 4 * mine, k], np.int64(0)
            counted = fetch(limits, {LIMIT_HEAD} + mine, np.int64)
            for m in range(members):
                unit = fetch(limits, {LIMIT_HEAD} + m, np.int64)
                base = base_of(turn, unit)
                place = cells[4 + 4 * m, k] - base
                if m != mine and base >= 0 and place >= 0:
                    deep = max(deep, fetch(before_in(turn, unit, counted), place, np.int64) - own)
            place = places_below(fetch(limits, at + 2, np.int64), fetch(limits, at + 1, np.int64), deep)
            mask &= fetch(fetch(limits, at + 3, np.int64), place, np.int64)
            at += 4
    if since != 0:
        begin = 1 - max(earliest, LEAST + 2)
        place = places_below(fetch(limits, 3, np.int64), since, begin)
        mask &= fetch(fetch(limits, 4, np.int64), place, np.int64)
    return mask


@jit()
def same(cells, chosen, j, k):
    """Whether two combinations have the same members of the chosen ones."""
    for m in chosen:
        if cells[1 + 4 * m, j] != cells[1 + 4 * m, k] or cells[2 + 4 * m, j] != cells[2 + 4 * m, k]:
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
            h = (h ^ np.uint64(cells[2 + 4 * m, want[k]])) * np.uint64(0x9E3779B97F4A7C15)
            h = (h ^ np.uint64(cells[1 + 4 * m, want[k]])) * np.uint64(0xBF58476D1CE4E5B9)
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
def within(bounds, at, k, t, number, counted):
    """Whether combination ``k`` may meet a tuple, by the bounds from row ``at`` on."""
    if t < bounds[at, k] or t > bounds[at + 1, k]:
        return False
    return not counted or (number >= bounds[at + 2, k] and number <= bounds[at + 3, k])


@jit()
def spread(groups, which, rows, found, order, starts, bounds, counted, runs, op, out_w, out_i, out_j):
    """Give what groups have found to their members, as much as there is room for."""
    room, done = out_w.shape[0], 0
    k, within_group = op[{NEXT}], op[{NEXT_2}]
    while k < found:
        g, w, i = groups[k], which[k], rows[k]
        t = fetch(runs[w, 1], i, np.int64)
        number = fetch(runs[w, 2], i, np.int64) if counted else np.int64(0)
        for place in range(starts[g] + within_group, starts[g + 1]):
            if done == room:
                op[{NEXT}], op[{NEXT_2}] = k, place - starts[g]
                return done
            if within(bounds, 0, order[place], t, number, counted):
                out_w[done], out_i[done], out_j[done] = w, i, order[place]
                done += 1
        within_group = 0
        k += 1
    op[{NEXT}], op[{NEXT_2}] = k, 0
    return done
'''


def combine_words() -> dict[str, int]:
    """Return the words that the source needs filled in."""
    return {
        "TURN_HEAD": TURN_HEAD,
        "BOUND_HEAD": BOUND_HEAD,
        "BOUND_MEMBER": BOUND_MEMBER,
        "LIMIT_HEAD": LIMIT_HEAD,
    }
