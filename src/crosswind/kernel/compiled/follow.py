"""Routes, followed by compiled code: a tuple goes through the windows until its combinations are complete.

WJSP's routing table (§3.1) as a tree of *ops*, each a record of words. An op takes the combinations
of the one before it and makes its own, as many as its buffer has room for; those go on to the ops after it before
it makes more. So memory is bounded, and what is handed on is still in the cache. One loop runs the tree of
any query: kernels that depend on the query (boxes, checks, masks) are called by address.

Ops: *start* takes new tuples; *search* lets combinations look for their next member; *all* takes what waits in a
window, for products; *product* puts combinations together; *emit* writes down those that are complete; *keep* notes
pairs that others will ask for, and *stand* takes them from there (:mod:`crosswind.engine.standing`).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from crosswind.kernel.compiled.combine import COMBINE, combine_words
from crosswind.kernel.compiled.crew import filled_in
from crosswind.kernel.compiled.stand import STAND
from crosswind.kernel.jit import load_source

__all__ = ["ALIKE_FROM", "ColumnWords", "Op", "Outcome", "QueryWords", "follow_kernels", "follow_source"]

ALIKE_FROM = 64
"""Combinations from which on it pays to search once for those that look for the same."""

_SORT_FROM = 32
"""Probes from which on it pays to go through them in the order of the cells."""

_BREATH = 50_000_000
"""Nanoseconds after which the caller is asked whether to go on."""


class Op:
    """Words of an op. Where two sides are named, the first is of combinations, the second of groups of them."""

    KIND = 0
    PARENT, CHILD, SIBLING = 1, 2, 3
    """Addresses of ops (0: none)."""
    INPUT, BESIDE = 4, 5
    """Addresses of the ops whose combinations are taken; those of the latter have nothing to do with the search."""
    BITS = 6
    """The terms that go this way."""
    MEMBERS = 7
    CELLS, ROOM, COUNT = 8, 9, 10
    """The combinations that were made: where, for how many there is room, how many there are."""
    WANT, ENDS, IN_ROOM = 11, 12, 13
    """Combinations that some term wants, and what they may meet."""
    BOUND, ASIDE, LIMITS = 14, 15, 16
    RUNS, RUN_COLUMNS, ITEMS, PARAMS, TABLE, TABLE_COLUMNS, LENGTHS = 17, 18, 19, 20, 21, 22, 23
    FIRST, LAST = 24, 25
    """Which of the basic windows are searched."""
    THRESHOLDS, PLANS, PLAN_ROWS, THRESHOLD_ENDS, THRESHOLD_COLUMNS, THRESHOLD_ROOM = 26, 27, 28, 29, 30, 31
    OUTS, PROBE, PROBE_2, SPANS, ORDER, PRESENT = 32, 33, 34, 35, 36, 37
    BOX, RECHECK, SCAN, MASK, MASK_TABLE = 38, 39, 40, 41, 42
    """Addresses of kernels, and of what the last reads."""
    FOUND_W, FOUND_I, FOUND_J, SPREAD_W, SPREAD_I, SPREAD_J = 43, 44, 45, 46, 47, 48
    STATE = 49
    """Of the search from word 0, of the recheck from 8, of masks from 16."""
    WORK = 50
    COLUMNS, N_COLUMNS = 51, 52
    INS, INS_2, N_INS, PAIR, PAIR_2, MASK_PROBE = 53, 54, 55, 56, 57, 58
    REFERS, N_REFERS, GROUP_TABLE, GROUP_SIZE, GROUP_OF, GROUP_ORDER, GROUP_STARTS, GROUPS = range(59, 67)
    LOOSE, REPS, GIVEN, MASKS = 67, 68, 69, 70
    COUNTED = 71
    FOUND, MATCH_ROOM = 72, 93
    """Matches that have been found, and for how many there is room; from ``NEXT`` on they are to be gone on with."""
    PROBES = 73
    NEED, NEED_AT = 74, 75
    """Bytes that are missing for texts, and in which column of which side."""
    SORTS = 76
    """Where the numbers are by which probes are put in order (0: they stay as they are)."""
    QUERY, PLACES = 77, 78
    NEXT, NEXT_2 = 79, 80
    TIMES, NUMBERS, START_MASKS, SIZE, CURSOR, STEP = 81, 82, 83, 84, 85, 86
    GROWN = 87
    FAULT = 88
    """Which check found an overflow: 1 a search, 2 a recheck, 3 a mask."""
    LOW, HIGH, LOW_NUMBER, HIGH_NUMBER = 89, 90, 91, 92
    CHOSEN, CHOSEN_2 = 94, 95
    """Combinations that go on: which those of the input are, and of the other one."""
    LEAN = 96
    """Whether combinations that are made are complete: they are only noted, and put together when written down."""
    RUNS_2, RUN_COLUMNS_2, ITEMS_2 = 97, 98, 99
    MADE = 100
    """How many combinations have been made, or, by a product, looked at, in all."""
    WORDS = 101
    START, SEARCH, ALL, PRODUCT, EMIT, KEEP, STAND = 1, 2, 3, 4, 5, 6, 7


class ColumnWords:
    """Words of a column that a search reads: whose it is, what it is like, where it is, and where it goes."""

    MEMBER, WIDTH, VALUES, VALIDS, TEXTS, NULLS = 0, 1, 2, 3, 4, 5
    """``WIDTH`` is 0 for texts. The addresses are those of tables of addresses, by basic window."""
    OUT = 6
    """Twice, for either side: values, validity, bytes of texts and for how many there is room, hashes (0: none)."""
    SIDE = 5
    COLUMN_WORDS = 16


class QueryWords:
    """Words of what a query has found: where it is written, for how many there is room, and how many there are."""

    RESULTS, RESULT_ROOM, RESULT_COUNT = 0, 1, 2


class Outcome:
    """What comes of following: done; an overflow; no room for results, for texts; or a pause."""

    DONE, FAULTED, FULL, SHORT, PAUSED = 0, -1, -2, -3, -4


_HEAD = '''"""Routes, followed."""

import numpy as np

from crosswind.kernel.jit import jit
from crosswind.kernel.compiled.ring import add_atomic, call_box, call_mask, call_recheck, call_scan, call_thresholds
from crosswind.kernel.compiled.ring import masks_at, nanoseconds, reals_at, row_at, table_at, vector_at, words_at
from crosswind.kernel.compiled.runtime import fetch, store
from crosswind.kernel.compiled.search import mix_key, mix_text
'''

_SOURCE = '''

# -- start -------------------------------------------------------------------


@jit()
def take_new(op):
    """Take the next new tuples: of those that nobody has taken yet."""
    first = add_atomic(op[{CURSOR}], 0, op[{STEP}])
    count = min(op[{SIZE}] - first, op[{STEP}])
    if count <= 0:
        return np.int64(0)
    cells = table_at(op[{CELLS}], 5, op[{ROOM}])
    for k in range(count):
        i = first + k
        cells[0, k] = op[{BITS}] if op[{START_MASKS}] == 0 else fetch(op[{START_MASKS}], i, np.int64)
        cells[1, k] = 0
        cells[2, k] = i
        cells[3, k] = fetch(op[{TIMES}], i, np.int64)
        cells[4, k] = i if op[{NUMBERS}] == 0 else fetch(op[{NUMBERS}], i, np.int64)
    return count


# -- search ------------------------------------------------------------------


@jit()
def move_value(width, source, i, target, k):
    """Copy a value of fixed width."""
    if width == 8:
        store(target, k, fetch(source, i, np.uint64))
    elif width == 4:
        store(target, k, fetch(source, i, np.uint32))
    elif width == 2:
        store(target, k, fetch(source, i, np.uint16))
    elif width == 1:
        store(target, k, fetch(source, i, np.uint8))
    else:
        store(target, 2 * k, fetch(source, 2 * i, np.uint64))
        store(target, 2 * k + 1, fetch(source, 2 * i + 1, np.uint64))


@jit()
def source_of(column, word, w):
    """Return where values of a column are, in basic window ``w``."""
    return fetch(column[word], w, np.int64)


@jit()
def move_texts(column, out, cells, rows, n):
    """Copy texts; return how many bytes they have, which may be more than there is room for: then nothing is copied."""
    at = 1 + 4 * column[{MEMBER}]
    offsets = column[out]
    total = np.int64(0)
    store(offsets, 0, np.int64(0))
    for k in range(n):
        w, i = cells[at, rows[k]], cells[at + 1, rows[k]]
        source = source_of(column, {VALUES}, w)
        total += fetch(source, i + 1, np.int64) - fetch(source, i, np.int64)
        store(offsets, k + 1, total)
    if total > column[out + 3]:
        return total
    for k in range(n):
        w, i = cells[at, rows[k]], cells[at + 1, rows[k]]
        begin = source_of(column, {TEXTS}, w) + fetch(source_of(column, {VALUES}, w), i, np.int64)
        first = fetch(offsets, k, np.int64)
        for b in range(fetch(offsets, k + 1, np.int64) - first):
            store(column[out + 2], first + b, fetch(begin, b, np.uint8))
    return total


@jit()
def hash_column(column, out, n):
    """Fill the hashes of texts or of wide values."""
    for k in range(n):
        if column[{WIDTH}] == 0:
            begin = fetch(column[out], k, np.int64)
            key = mix_text(column[out + 2] + begin, fetch(column[out], k + 1, np.int64) - begin)
        else:
            low = mix_key(fetch(column[out], 2 * k, np.int64), np.int64(0))
            key = np.int32(mix_key(fetch(column[out], 2 * k + 1, np.int64), low))
        store(column[out + 4], k, key)


@jit()
def move_columns(op, cells, rows, n, side):
    """Fetch what the search reads of combinations ``rows``; False: there is no room for texts."""
    for q in range(op[{N_COLUMNS}]):
        column = vector_at(op[{COLUMNS}] + 8 * {COLUMN_WORDS} * q, {COLUMN_WORDS})
        out = {OUT} + {SIDE} * side
        at = 1 + 4 * column[{MEMBER}]
        if column[{WIDTH}] == 0:
            total = move_texts(column, out, cells, rows, n)
            if total > column[out + 3]:
                op[{NEED}] = total
                op[{NEED_AT}] = 2 * q + side
                return False
        else:
            for k in range(n):
                source = source_of(column, {VALUES}, cells[at, rows[k]])
                move_value(column[{WIDTH}], source, cells[at + 1, rows[k]], column[out], k)
        if column[{NULLS}] != 0:
            for k in range(n):
                valid = source_of(column, {VALIDS}, cells[at, rows[k]])
                store(column[out + 1], k, fetch(valid, cells[at + 1, rows[k]], np.uint8))
        if column[out + 4] != 0:
            hash_column(column, out, n)
    return True


@jit()
def is_counted(op, turn):
    return op[{COUNTED}] != 0 and fetch(turn, 0, np.int64) != 0


@jit()
def narrow(op, ends, n, turn):
    """Cut bounds to what some combination beside may meet."""
    beside = vector_at(op[{BESIDE}], {WORDS})
    cells, room = beside[{CELLS}], beside[{ROOM}]
    scratch = table_at(op[{LOOSE}], 4, op[{IN_ROOM}])
    low, high, first, last = MOST, LEAST, MOST, LEAST
    for k in range(beside[{COUNT}]):
        if fetch(cells, k, np.int64) & op[{BITS}] != 0:
            bound(cells, room, k, op[{ASIDE}], turn, op[{LOOSE}], op[{IN_ROOM}], 0)
            low, high = min(low, scratch[0, 0]), max(high, scratch[1, 0])
            first, last = min(first, scratch[2, 0]), max(last, scratch[3, 0])
    counted = is_counted(op, turn)
    for k in range(n):
        ends[0, k], ends[1, k] = max(ends[0, k], low), min(ends[1, k], high)
        if counted:
            ends[2, k], ends[3, k] = max(ends[2, k], first), min(ends[3, k], last)


@jit()
def put_in_order(order, count, keys):
    """Sort probes by what they look for (Shell's sort: they are few)."""
    gap = np.int64(1)
    while gap < count:
        gap = 3 * gap + 1
    while gap > 1:
        gap //= 3
        for k in range(gap, count):
            j = order[k]
            key, at = fetch(keys, j, np.float64), k
            while at >= gap and fetch(keys, order[at - gap], np.float64) > key:
                order[at] = order[at - gap]
                at -= gap
            order[at] = j


@jit()
def make_boxes(op, ends, probes, side):
    """Find what probes look for; return how many look for anything."""
    spans = vector_at(op[{SPANS}], 8)
    spans[0], spans[1], spans[2] = op[{LOOSE}] if side else op[{ENDS}], 0, 0
    present = call_thresholds(
        op[{THRESHOLDS}],
        vector_at(op[{INS} + side], op[{N_INS}]),
        probes,
        vector_at(op[{OUTS}], 64),
        spans,
        words_at(op[{PLANS}], op[{PLAN_ROWS}], 8),
        words_at(op[{THRESHOLD_ENDS}], 4, op[{THRESHOLD_COLUMNS}]),
        row_at(op[{THRESHOLD_ROOM}], 1),
    )
    spans[3], spans[4], spans[5], spans[6] = MOST, LEAST, MOST, LEAST
    for k in range(probes):
        spans[3], spans[4] = min(spans[3], ends[0, k]), max(spans[4], ends[0, k])
        spans[5], spans[6] = min(spans[5], ends[1, k]), max(spans[6], ends[1, k])
    if present > {SORT_FROM} and op[{SORTS}] != 0:
        put_in_order(vector_at(op[{ORDER}], present), present, op[{SORTS}])
    return present


@jit()
def begin_search(op, turn):
    """Find out who looks for what; False: there is no room for texts."""
    entry = vector_at(op[{INPUT}], {WORDS})
    cells = table_at(entry[{CELLS}], 1 + 4 * op[{MEMBERS}], entry[{ROOM}])
    want, given = vector_at(op[{WANT}], op[{IN_ROOM}]), vector_at(op[{GIVEN}], op[{IN_ROOM}])
    ends = table_at(op[{ENDS}], 4, op[{IN_ROOM}])
    state = vector_at(op[{STATE}], 8)
    op[{PROBES}] = op[{FOUND}] = op[{GROUPS}] = op[{PRESENT}] = 0
    state[0] = op[{LAST}]
    if op[{FIRST}] >= op[{LAST}]:
        return True
    n = 0
    for k in range(entry[{COUNT}]):
        if cells[0, k] & op[{BITS}] != 0:
            want[n], given[n] = k, cells[0, k]
            bound(entry[{CELLS}], entry[{ROOM}], k, op[{BOUND}], turn, op[{ENDS}], op[{IN_ROOM}], n)
            n += 1
    if n == 0:
        return True
    counted = is_counted(op, turn)
    if op[{BESIDE}] != 0:
        narrow(op, ends, n, turn)
    groups = np.int64(0)
    order, starts = vector_at(op[{GROUP_ORDER}], op[{IN_ROOM}] + 1), vector_at(op[{GROUP_STARTS}], op[{IN_ROOM}] + 1)
    if n >= {ALIKE_FROM} and op[{N_REFERS}] < op[{MEMBERS}]:
        chosen = vector_at(op[{REFERS}], op[{N_REFERS}])
        size = op[{GROUP_SIZE}]
        while size >= 4 * n:
            size //= 2
        table, group_of = vector_at(op[{GROUP_TABLE}], size), vector_at(op[{GROUP_OF}], op[{IN_ROOM}] + 1)
        groups = group(cells, want, n, chosen, n // 2, table, group_of, order, starts)
    side, probes = np.int64(0), np.int64(n)
    if groups > 0:
        side, probes = 1, groups
        loose = table_at(op[{LOOSE}], 4, op[{IN_ROOM}])
        loosen(ends, order, starts, groups, counted, loose)
        reps = vector_at(op[{REPS}], op[{IN_ROOM}])
        for g in range(groups):
            reps[g] = want[order[starts[g]]]
        if not move_columns(op, cells, reps, groups, 1):
            return False
        if op[{MASK}] != 0 and not move_columns(op, cells, want, n, 0):
            return False
    elif not move_columns(op, cells, want, n, 0):
        return False
    op[{GROUPS}], op[{PROBES}] = groups, probes
    if op[{THRESHOLDS}] != 0:
        met = table_at(op[{LOOSE}] if groups > 0 else op[{ENDS}], 4, op[{IN_ROOM}])
        op[{PRESENT}] = make_boxes(op, met, probes, side)
        vector_at(op[{SPANS}], 8)[7] = 3 if counted else 1
        if op[{PRESENT}] == 0:
            return True
        state[1], state[2], state[3] = 0, -1, -1
    else:
        state[1] = state[2] = 0
    state[0] = op[{FIRST}]
    return True


@jit()
def search_on(op):
    """Go on with the search until something is found; return how many matches, -1 on overflow."""
    side = np.int64(op[{GROUPS}] > 0)
    state = vector_at(op[{STATE}], 8)
    room = op[{MATCH_ROOM}]
    out_w, out_i = vector_at(op[{FOUND_W}], room), vector_at(op[{FOUND_I}], room)
    out_j = vector_at(op[{FOUND_J}], room)
    found = np.int64(0)
    table = table_at(op[{TABLE}], op[{ITEMS}], op[{TABLE_COLUMNS}])
    while found == 0 and state[0] < op[{LAST}]:
        if op[{THRESHOLDS}] == 0:
            lengths, pair = vector_at(op[{LENGTHS}], op[{ITEMS}]), vector_at(op[{PAIR} + side], 64)
            found = call_scan(
                op[{SCAN}], table, lengths, op[{LAST}], pair, op[{PROBES}], out_w, out_i, out_j, state
            )
            if found < 0:
                op[{FAULT}] = 1
            continue
        found = call_box(
            op[{BOX}],
            table_at(op[{RUNS}], op[{ITEMS}], op[{RUN_COLUMNS}]),
            reals_at(op[{PARAMS}], op[{ITEMS}], 4),
            op[{LAST}],
            vector_at(op[{PROBE} + side], 64),
            vector_at(op[{SPANS}], 8),
            vector_at(op[{ORDER}], op[{PRESENT}]),
            op[{PRESENT}],
            table_at(op[{WORK}], {GROUP}, 4),
            out_w,
            out_i,
            out_j,
            state,
        )
        if found > 0 and op[{RECHECK}] != 0:
            again = vector_at(op[{STATE}] + 64, 8)
            pair = vector_at(op[{PAIR} + side], 64)
            found = call_recheck(op[{RECHECK}], table, pair, out_w, out_i, out_j, found, again)
            if found < 0:
                op[{FAULT}] = 2
    return found


@jit()
def grow(op, found, out_w, out_i, out_j, turn):
    """Put combinations together with what they found; return how many some term wants, -1 on overflow."""
    decided = op[{MASK}] != 0
    masks = masks_at(op[{MASKS}], op[{ROOM}])
    if decided:
        table = table_at(op[{TABLE}], op[{ITEMS}], op[{TABLE_COLUMNS}])
        done = call_mask(
            op[{MASK}],
            table,
            vector_at(op[{MASK_PROBE}], 64),
            out_w,
            out_i,
            out_j,
            found,
            op[{GIVEN}],
            vector_at(op[{MASK_TABLE}], 64),
            masks,
            vector_at(op[{STATE}] + 128, 8),
        )
        if done < 0:
            op[{FAULT}] = 3
            return np.int64(-1)
    members, room = op[{MEMBERS}], op[{ROOM}]
    entry = vector_at(op[{INPUT}], {WORDS})
    cells, cells_room = entry[{CELLS}], entry[{ROOM}]
    out = op[{CELLS}]
    new = out + 32 * room * members  # the last member, as cells without a mask
    want, given = vector_at(op[{WANT}], op[{IN_ROOM}]), vector_at(op[{GIVEN}], op[{IN_ROOM}])
    runs, run_bytes = op[{RUNS}], 8 * op[{RUN_COLUMNS}]
    numbered = fetch(turn, 0, np.int64) != 0
    limits, bits, lean = op[{LIMITS}], op[{BITS}], op[{LEAN}] != 0
    limited = is_limited(limits)
    chosen = op[{CHOSEN}]
    timed = not lean or (limited and is_limited_by_time(limits))
    # How many of the window have come before a combination, its bounds say, if they are of tuples that came before.
    waiting, target = fetch(op[{BOUND}], 3, np.int64), fetch(op[{BOUND}], 4, np.int64)
    direct = limited and not is_limited_by_time(limits) and waiting >= 0 and is_counted(op, turn)
    table, begun = count_table(limits, members + 1, members), base_of(turn, target) if numbered else np.int64(-1)
    firsts = op[{ENDS}] + 16 * op[{IN_ROOM}]
    kept = np.int64(0)
    for k in range(found):
        j = out_j[k]
        mask = (np.int64(masks[k]) if decided else given[j]) & bits
        if mask == 0:
            continue
        w, i, c = out_w[k], out_i[k], want[j]
        store(new, room + kept, w)
        store(new, 2 * room + kept, i)
        if timed:
            store(new, 3 * room + kept, fetch(fetch(runs + run_bytes * w, 1, np.int64), i, np.int64))
        if limited or not lean:
            number = fetch(fetch(runs + run_bytes * w, 2, np.int64), i, np.int64) if numbered else i
            store(new, 4 * room + kept, number)
            if direct and (begun < 0 or number < begun):
                if table != 0 and fetch(firsts, j, np.int64) != LEAST:
                    mask = cut_by(table, fetch(firsts, j, np.int64) + waiting - number, mask)
            elif limited:
                mask = in_limits(mask, cells, cells_room, c, members, new, room, kept, members + 1, limits, turn)
        store(out, kept, mask)
        store(chosen, kept, c)
        kept += mask != 0
    if not lean:
        copy_rows(cells, cells_room, chosen, kept, members, out, room)
    return kept


@jit()
def advance_search(op, turn):
    """Make the next combinations; return how many, 0 when there are no more, -1 on overflow."""
    while True:
        if op[{FOUND}] == 0:
            found = search_on(op)
            if found <= 0:
                return found
            op[{FOUND}], op[{NEXT}], op[{NEXT_2}] = found, 0, 0
        found, room = op[{FOUND}], op[{ROOM}]
        if op[{GROUPS}] == 0:
            first = op[{NEXT}]
            size = min(found - first, room)
            out_w, out_i = vector_at(op[{FOUND_W}] + 8 * first, size), vector_at(op[{FOUND_I}] + 8 * first, size)
            kept = grow(op, size, out_w, out_i, vector_at(op[{FOUND_J}] + 8 * first, size), turn)
            op[{NEXT}] = first + size
        else:
            met_w, met_i = vector_at(op[{SPREAD_W}], room), vector_at(op[{SPREAD_I}], room)
            met_j = vector_at(op[{SPREAD_J}], room)
            size = spread(
                vector_at(op[{FOUND_J}], found),
                vector_at(op[{FOUND_W}], found),
                vector_at(op[{FOUND_I}], found),
                found,
                vector_at(op[{GROUP_ORDER}], op[{IN_ROOM}] + 1),
                vector_at(op[{GROUP_STARTS}], op[{IN_ROOM}] + 1),
                op[{ENDS}],
                op[{IN_ROOM}],
                is_counted(op, turn),
                table_at(op[{RUNS}], op[{ITEMS}], op[{RUN_COLUMNS}]),
                op,
                met_w,
                met_i,
                met_j,
            )
            kept = grow(op, size, met_w, met_i, met_j, turn) if size > 0 else np.int64(0)
        if op[{NEXT}] >= found:
            op[{FOUND}] = 0
        if kept != 0:
            return kept


# -- all that waits, and products --------------------------------------------


@jit()
def begin_all(op, turn):
    """Find out what some combination may meet."""
    entry = vector_at(op[{INPUT}], {WORDS})
    cells, scratch = entry[{CELLS}], table_at(op[{ENDS}], 4, 1)
    op[{NEXT}], op[{NEXT_2}] = op[{LAST}], 0
    op[{LOW}], op[{HIGH}], op[{LOW_NUMBER}], op[{HIGH_NUMBER}] = MOST, LEAST, MOST, LEAST
    for k in range(entry[{COUNT}]):
        if fetch(cells, k, np.int64) & op[{BITS}] != 0:
            bound(cells, entry[{ROOM}], k, op[{BOUND}], turn, op[{ENDS}], 1, 0)
            op[{LOW}], op[{HIGH}] = min(op[{LOW}], scratch[0, 0]), max(op[{HIGH}], scratch[1, 0])
            op[{LOW_NUMBER}] = min(op[{LOW_NUMBER}], scratch[2, 0])
            op[{HIGH_NUMBER}] = max(op[{HIGH_NUMBER}], scratch[3, 0])
            op[{NEXT}] = op[{FIRST}]


@jit()
def advance_all(op, turn):
    """Take the next tuples that wait in the window."""
    runs = table_at(op[{RUNS}], op[{ITEMS}], op[{RUN_COLUMNS}])
    out = table_at(op[{CELLS}], 5, op[{ROOM}])
    counted, numbered = is_counted(op, turn), fetch(turn, 0, np.int64) != 0
    kept = np.int64(0)
    w, i = op[{NEXT}], op[{NEXT_2}]
    while w < op[{LAST}] and kept < op[{ROOM}]:
        if runs[w, 4] < op[{LOW}] or runs[w, 3] > op[{HIGH}]:
            w, i = w + 1, 0
            continue
        while i < runs[w, 0] and kept < op[{ROOM}]:
            t = fetch(runs[w, 1], i, np.int64)
            number = fetch(runs[w, 2], i, np.int64) if numbered else i
            met = t >= op[{LOW}] and t <= op[{HIGH}]
            if met and (not counted or (number >= op[{LOW_NUMBER}] and number <= op[{HIGH_NUMBER}])):
                out[0, kept], out[1, kept], out[2, kept] = op[{BITS}], w, i
                out[3, kept], out[4, kept] = t, number
                kept += 1
            i += 1
        if i >= runs[w, 0]:
            w, i = w + 1, 0
    op[{NEXT}], op[{NEXT_2}] = w, i
    return kept


@jit()
def begin_product(op, turn):
    """Find out which combinations on the left go this way, and what they may meet."""
    left = vector_at(op[{BESIDE}], {WORDS})
    cells, room, want = left[{CELLS}], left[{ROOM}], vector_at(op[{WANT}], op[{IN_ROOM}])
    n = 0
    for k in range(left[{COUNT}]):
        if fetch(cells, k, np.int64) & op[{BITS}] != 0:
            want[n] = k
            n += 1
    for g in range(op[{GROWN}]):
        ends = op[{ENDS}] + 32 * op[{IN_ROOM}] * g
        for k in range(n):
            bound(cells, room, want[k], fetch(op[{BOUND}], g, np.int64), turn, ends, op[{IN_ROOM}], k)
    op[{PROBES}] = n
    op[{NEXT}] = op[{NEXT_2}] = 0


@jit()
def advance_product(op, turn):
    """Make the next combinations of both that their windows allow."""
    left, right = vector_at(op[{BESIDE}], {WORDS}), vector_at(op[{INPUT}], {WORDS})
    members, grown = op[{MEMBERS}], op[{GROWN}]
    a, a_room, b, b_room = left[{CELLS}], left[{ROOM}], right[{CELLS}], right[{ROOM}]
    out, room = op[{CELLS}], op[{ROOM}]
    want, ends, ends_room = vector_at(op[{WANT}], op[{IN_ROOM}]), op[{ENDS}], op[{IN_ROOM}]
    limits, bits, lean = op[{LIMITS}], op[{BITS}], op[{LEAN}] != 0
    limited, counted = is_limited(limits), is_counted(op, turn)
    chosen, chosen_2 = op[{CHOSEN}], op[{CHOSEN_2}]
    count, probes = right[{COUNT}], op[{PROBES}]
    kept = np.int64(0)
    g, k = op[{NEXT}], op[{NEXT_2}]
    while g < count and kept < room:
        theirs = fetch(b, g, np.int64) & bits
        while k < probes and kept < room:
            j = want[k]
            mask = fetch(a, j, np.int64) & theirs
            fits = mask != 0
            for m in range(grown):
                t, number = fetch(b, b_room * (3 + 4 * m) + g, np.int64), fetch(b, b_room * (4 + 4 * m) + g, np.int64)
                fits = fits and within(ends + 32 * ends_room * m, ends_room, k, t, number, counted)
            if fits:
                if limited:
                    mask = in_limits(mask, a, a_room, j, members, b, b_room, g, members + grown, limits, turn)
                store(out, kept, mask)
                store(chosen, kept, j)
                store(chosen_2, kept, g)
                kept += mask != 0
            k += 1
        if k >= probes:
            g, k = g + 1, 0
    op[{MADE}] += (g - op[{NEXT}]) * probes + k - op[{NEXT_2}] - kept
    op[{NEXT}], op[{NEXT_2}] = g, k
    if not lean:
        copy_rows(a, a_room, chosen, kept, members, out, room)
        copy_rows(b, b_room, chosen_2, kept, grown, out + 32 * room * members, room)
    return kept


# -- results -----------------------------------------------------------------


@jit()
def write_members(op, query, at, first, end, cells, room, picks, n):
    """Write down where members ``first`` to ``end`` of ``n`` results are: combinations ``picks`` of ``cells``."""
    for m in range(first, end):
        place, base = fetch(op[{PLACES}], 2 * m, np.int64), fetch(op[{PLACES}], 2 * m + 1, np.int64)
        which = cells + 8 * room * (1 + 4 * (m - first))
        rows = which + 8 * room
        out = query[{RESULTS}] + 8 * (2 * place * query[{RESULT_ROOM}] + at)
        for q in range(n):
            store(out, q, fetch(which, fetch(picks, q, np.int64), np.int64) + base)
        out += 8 * query[{RESULT_ROOM}]
        for q in range(n):
            store(out, q, fetch(rows, fetch(picks, q, np.int64), np.int64))


@jit()
def pick_from(chosen, picks, n, out):
    """Fill ``out`` with what is chosen at ``picks``."""
    for q in range(n):
        store(out, q, fetch(chosen, fetch(picks, q, np.int64), np.int64))


@jit()
def write_down(op):
    """Write down complete combinations; False: there is no room.

    Those of a lean op have not been put together: their members are fetched from where those are.
    """
    entry = vector_at(op[{INPUT}], {WORDS})
    cells, bits = entry[{CELLS}], op[{BITS}]
    query = vector_at(op[{QUERY}], 4)
    count, picks, other = query[{RESULT_COUNT}], op[{CHOSEN}], op[{CHOSEN_2}]
    left = query[{RESULT_ROOM}] - count
    k, n = op[{NEXT}], np.int64(0)
    while k < entry[{COUNT}] and n < left:
        store(picks, n, k)
        n += (fetch(cells, k, np.int64) & bits) != 0
        k += 1
    members, split, room = op[{MEMBERS}], entry[{MEMBERS}], entry[{ROOM}]
    if entry[{LEAN}] == 0:
        write_members(op, query, count, 0, members, cells, room, picks, n)
    else:
        pick_from(entry[{CHOSEN}], picks, n, other)
        if entry[{KIND}] == {SEARCH}:
            before = vector_at(entry[{INPUT}], {WORDS})
            write_members(op, query, count, 0, split, before[{CELLS}], before[{ROOM}], other, n)
            write_members(op, query, count, split, members, cells + 32 * room * split, room, picks, n)
        else:
            before, beside = vector_at(entry[{INPUT}], {WORDS}), vector_at(entry[{BESIDE}], {WORDS})
            write_members(op, query, count, 0, split, beside[{CELLS}], beside[{ROOM}], other, n)
            pick_from(entry[{CHOSEN_2}], picks, n, other)
            write_members(op, query, count, split, members, before[{CELLS}], before[{ROOM}], other, n)
    query[{RESULT_COUNT}] = count + n
    op[{NEXT}] = k
    return k >= entry[{COUNT}]


@jit()
def begin(op, turn):
    """Begin with the combinations that came in; False: there is no room for texts."""
    kind = op[{KIND}]
    if kind == {SEARCH}:
        return begin_search(op, turn)
    if kind == {ALL}:
        begin_all(op, turn)
    elif kind == {PRODUCT}:
        begin_product(op, turn)
    elif kind == {EMIT} or kind == {KEEP} or kind == {STAND}:
        op[{NEXT}] = 0
    return True


@jit()
def advance(op, turn):
    """Make the next combinations: how many, 0 at the end, or less where it cannot go on."""
    kind = op[{KIND}]
    if kind == {SEARCH}:
        made = advance_search(op, turn)
    elif kind == {START}:
        made = take_new(op)
    elif kind == {ALL}:
        made = advance_all(op, turn)
    elif kind == {PRODUCT}:
        made = advance_product(op, turn)
    elif kind == {STAND}:
        made = advance_stand(op)
    elif kind == {KEEP}:
        made = np.int64(0) if keep_pairs(op) else np.int64({FULL})
    else:
        made = np.int64(0) if write_down(op) else np.int64({FULL})
    op[{COUNT}] = max(made, 0)
    op[{MADE}] += op[{COUNT}]
    return made


@jit("int64(int64[::1], int64, int64)")
def follow(place, turn, clock):
    """Run the ops from where it stopped: ``place`` is the address of an op, and whether it is still to be begun.

    ``clock`` is the address of two words for the time.
    """
    until = nanoseconds(clock) + {BREATH}
    while nanoseconds(clock) < until:
        op = vector_at(place[0], {WORDS})
        if place[1] != 0:
            if not begin(op, turn):
                return {SHORT}
            place[1] = 0
        made = advance(op, turn)
        if made < 0:
            return made
        if made > 0:
            place[0], place[1] = op[{CHILD}], 1
        elif op[{SIBLING}] != 0:
            place[0], place[1] = op[{SIBLING}], 1
        elif op[{PARENT}] != 0:
            place[0] = op[{PARENT}]
        else:
            return {DONE}
    return {PAUSED}
'''


def follow_source() -> str:
    """Return the source of the loop, with the places of words filled in."""
    from crosswind.plan.physical import PROBE_GROUP

    words = {"GROUP": PROBE_GROUP, "ALIKE_FROM": ALIKE_FROM, "SORT_FROM": _SORT_FROM, "BREATH": _BREATH}
    return filled_in(_HEAD + COMBINE + STAND + _SOURCE, [Op, ColumnWords, QueryWords, Outcome], words | combine_words())


@lru_cache(maxsize=1)
def follow_kernels() -> Any:
    """Return the compiled functions."""
    return load_source(follow_source())
