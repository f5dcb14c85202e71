"""Routes, followed by compiled code: a tuple goes through the windows until its combinations are complete.

WJSP's routing table (§3.1) as a tree of *ops*, each a record of words. An op takes the combinations
of the one before it and makes its own, as many as its buffer has room for; those go on to the ops after it before
it makes more. So memory is bounded, and what is handed on is still in the cache. One loop runs the tree of
any query: kernels that depend on the query (boxes, checks, masks) are called by address.

Ops: *start* takes new tuples; *search* lets combinations look for their next member; *all* takes what waits in a
window, for products; *product* puts combinations together; *emit* writes down those that are complete; *keep* notes
pairs that others will ask for, and *stand* takes them from there (:mod:`crosswind.engine.probe.cached_pairs`).
"""

from __future__ import annotations

import numpy as np

from crosswind.kernel.compiled.cached_pairs import advance_stand, keep_pairs
from crosswind.kernel.compiled.combine import (
    LEAST,
    MOST,
    base_of,
    bound,
    copy_rows,
    count_table,
    cut_by,
    group,
    in_limits,
    is_limited,
    is_limited_by_time,
    is_ordered,
    loosen,
    spread,
    within,
)
from crosswind.kernel.compiled.ring import (
    add_atomic,
    call_box,
    call_mask,
    call_recheck,
    call_scan,
    call_thresholds,
    masks_at,
    nanoseconds,
    reals_at,
    record_at,
    row_at,
    table_at,
    vector_at,
    words_at,
)
from crosswind.kernel.compiled.runtime import fetch, store
from crosswind.kernel.compiled.search import mix_key, mix_text
from crosswind.kernel.jit import jit
from crosswind.kernel.records import (
    ALL,
    BOUND,
    COLUMN,
    COLUMN_BYTES,
    EMIT,
    FOLLOW_DONE,
    FOLLOW_FULL,
    FOLLOW_PAUSED,
    FOLLOW_SHORT,
    KEEP,
    MASK_ROW,
    MEMBER_ROWS,
    NUMBER_ROW,
    OP,
    PLACE_ROW,
    PRODUCT,
    RESULTS,
    SEARCH,
    STAND,
    START,
    TIME_ROW,
    WINDOW_ROW,
)
from crosswind.plan.physical import PROBE_GROUP

__all__ = ["ALIKE_FROM", "follow"]

ALIKE_FROM = 64
"""Combinations from which on it pays to search once for those that look for the same."""

_SORT_FROM = 32
"""Probes from which on it pays to go through them in the order of the cells."""

_BREATH = 50_000_000
"""Nanoseconds after which the caller is asked whether to go on."""


# -- start -------------------------------------------------------------------


@jit()
def take_new(op):
    """Take the next new tuples: of those that nobody has taken yet."""
    first = add_atomic(op.cursor, 0, op.step)
    count = min(op.size - first, op.step)
    if count <= 0:
        return np.int64(0)
    cells = table_at(op.cells, 1 + MEMBER_ROWS, op.room)
    for k in range(count):
        i = first + k
        cells[MASK_ROW, k] = op.bits if op.start_masks == 0 else fetch(op.start_masks, i, np.int64)
        cells[WINDOW_ROW, k] = 0
        cells[PLACE_ROW, k] = i
        cells[TIME_ROW, k] = fetch(op.times, i, np.int64)
        cells[NUMBER_ROW, k] = i if op.numbers == 0 else fetch(op.numbers, i, np.int64)
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
def move_texts(column, out, cells, rows, n):
    """Copy texts; return how many bytes they have, which may be more than there is room for: then nothing is copied."""
    at = WINDOW_ROW + MEMBER_ROWS * column.member
    offsets = out.values
    total = np.int64(0)
    store(offsets, 0, np.int64(0))
    for k in range(n):
        w, i = cells[at, rows[k]], cells[at + 1, rows[k]]
        source = fetch(column.values, w, np.int64)
        total += fetch(source, i + 1, np.int64) - fetch(source, i, np.int64)
        store(offsets, k + 1, total)
    if total > out.text_room:
        return total
    for k in range(n):
        w, i = cells[at, rows[k]], cells[at + 1, rows[k]]
        begin = fetch(column.texts, w, np.int64) + fetch(fetch(column.values, w, np.int64), i, np.int64)
        first = fetch(offsets, k, np.int64)
        for b in range(fetch(offsets, k + 1, np.int64) - first):
            store(out.texts, first + b, fetch(begin, b, np.uint8))
    return total


@jit()
def hash_column(column, out, n):
    """Fill the hashes of texts or of wide values."""
    for k in range(n):
        if column.width == 0:
            begin = fetch(out.values, k, np.int64)
            key = mix_text(out.texts + begin, fetch(out.values, k + 1, np.int64) - begin)
        else:
            low = mix_key(fetch(out.values, 2 * k, np.int64), np.int64(0))
            key = np.int32(mix_key(fetch(out.values, 2 * k + 1, np.int64), low))
        store(out.hashes, k, key)


@jit()
def move_columns(op, cells, rows, n, side):
    """Fetch what the search reads of combinations ``rows``; False: there is no room for texts."""
    for q in range(op.n_columns):
        column = record_at(op.columns + COLUMN_BYTES * q, COLUMN)
        out = column.out[side]
        at = WINDOW_ROW + MEMBER_ROWS * column.member
        if column.width == 0:
            total = move_texts(column, out, cells, rows, n)
            if total > out.text_room:
                op.need = total
                op.need_at = 2 * q + side
                return False
        else:
            for k in range(n):
                source = fetch(column.values, cells[at, rows[k]], np.int64)
                move_value(column.width, source, cells[at + 1, rows[k]], out.values, k)
        if column.nulls != 0:
            for k in range(n):
                valid = fetch(column.valids, cells[at, rows[k]], np.int64)
                store(out.valids, k, fetch(valid, cells[at + 1, rows[k]], np.uint8))
        if out.hashes != 0:
            hash_column(column, out, n)
    return True


@jit()
def is_counted(op, turn):
    return op.counted != 0 and is_ordered(turn)


@jit()
def narrow(op, ends, n, turn):
    """Cut bounds to what some combination beside may meet."""
    beside = record_at(op.beside, OP)
    cells, room = beside.cells, beside.room
    scratch = table_at(op.loose, 4, op.in_room)
    low, high, first, last = MOST, LEAST, MOST, LEAST
    for k in range(beside.count):
        if fetch(cells, k, np.int64) & op.bits != 0:
            bound(cells, room, k, op.aside, turn, op.loose, op.in_room, 0)
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
    spans = vector_at(op.spans, 8)
    spans[0], spans[1], spans[2] = op.loose if side else op.ends, 0, 0
    present = call_thresholds(
        op.thresholds,
        vector_at(op.ins[side], op.n_ins),
        probes,
        vector_at(op.outs, 64),
        spans,
        words_at(op.plans, op.plan_rows, 8),
        words_at(op.threshold_ends, 4, op.threshold_columns),
        row_at(op.threshold_room, 1),
    )
    spans[3], spans[4], spans[5], spans[6] = MOST, LEAST, MOST, LEAST
    for k in range(probes):
        spans[3], spans[4] = min(spans[3], ends[0, k]), max(spans[4], ends[0, k])
        spans[5], spans[6] = min(spans[5], ends[1, k]), max(spans[6], ends[1, k])
    if present > _SORT_FROM and op.sorts != 0:
        put_in_order(vector_at(op.order, present), present, op.sorts)
    return present


@jit()
def begin_search(op, turn):
    """Find out who looks for what; False: there is no room for texts."""
    entry = record_at(op.input, OP)
    cells = table_at(entry.cells, WINDOW_ROW + MEMBER_ROWS * op.members, entry.room)
    want, given = vector_at(op.want, op.in_room), vector_at(op.given, op.in_room)
    ends = table_at(op.ends, 4, op.in_room)
    state = vector_at(op.state, 8)
    op.probes = op.found = op.groups = op.present = 0
    state[0] = op.last
    if op.first >= op.last:
        return True
    n = 0
    for k in range(entry.count):
        if cells[MASK_ROW, k] & op.bits != 0:
            want[n], given[n] = k, cells[MASK_ROW, k]
            bound(entry.cells, entry.room, k, op.bound, turn, op.ends, op.in_room, n)
            n += 1
    if n == 0:
        return True
    counted = is_counted(op, turn)
    if op.beside != 0:
        narrow(op, ends, n, turn)
    groups = np.int64(0)
    order, starts = vector_at(op.group_order, op.in_room + 1), vector_at(op.group_starts, op.in_room + 1)
    if n >= ALIKE_FROM and op.n_refers < op.members:
        chosen = vector_at(op.refers, op.n_refers)
        size = op.group_size
        while size >= 4 * n:
            size //= 2
        table, group_of = vector_at(op.group_table, size), vector_at(op.group_of, op.in_room + 1)
        groups = group(cells, want, n, chosen, n // 2, table, group_of, order, starts)
    side, probes = np.int64(0), np.int64(n)
    if groups > 0:
        side, probes = 1, groups
        loose = table_at(op.loose, 4, op.in_room)
        loosen(ends, order, starts, groups, counted, loose)
        reps = vector_at(op.reps, op.in_room)
        for g in range(groups):
            reps[g] = want[order[starts[g]]]
        if not move_columns(op, cells, reps, groups, 1):
            return False
        if op.mask != 0 and not move_columns(op, cells, want, n, 0):
            return False
    elif not move_columns(op, cells, want, n, 0):
        return False
    op.groups, op.probes = groups, probes
    if op.thresholds != 0:
        met = table_at(op.loose if groups > 0 else op.ends, 4, op.in_room)
        op.present = make_boxes(op, met, probes, side)
        vector_at(op.spans, 8)[7] = 3 if counted else 1
        if op.present == 0:
            return True
        state[1], state[2], state[3] = 0, -1, -1
    else:
        state[1] = state[2] = 0
    state[0] = op.first
    return True


@jit()
def search_on(op):
    """Go on with the search until something is found; return how many matches, -1 on overflow."""
    side = np.int64(op.groups > 0)
    state = vector_at(op.state, 8)
    room = op.match_room
    out_w, out_i = vector_at(op.found_w, room), vector_at(op.found_i, room)
    out_j = vector_at(op.found_j, room)
    found = np.int64(0)
    table = table_at(op.table, op.items, op.table_columns)
    while found == 0 and state[0] < op.last:
        if op.thresholds == 0:
            lengths, pair = vector_at(op.lengths, op.items), vector_at(op.pair[side], 64)
            found = call_scan(op.scan, table, lengths, op.last, pair, op.probes, out_w, out_i, out_j, state)
            if found < 0:
                op.fault = 1
            continue
        found = call_box(
            op.box,
            table_at(op.runs, op.items, op.run_columns),
            reals_at(op.params, op.items, 4),
            op.last,
            vector_at(op.probe[side], 64),
            vector_at(op.spans, 8),
            vector_at(op.order, op.present),
            op.present,
            table_at(op.work, PROBE_GROUP, 4),
            out_w,
            out_i,
            out_j,
            state,
        )
        if found > 0 and op.recheck != 0:
            again = vector_at(op.state + 64, 8)
            pair = vector_at(op.pair[side], 64)
            found = call_recheck(op.recheck, table, pair, out_w, out_i, out_j, found, again)
            if found < 0:
                op.fault = 2
    return found


@jit()
def grow(op, found, out_w, out_i, out_j, turn):
    """Put combinations together with what they found; return how many some term wants, -1 on overflow."""
    decided = op.mask != 0
    masks = masks_at(op.masks, op.room)
    if decided:
        table = table_at(op.table, op.items, op.table_columns)
        done = call_mask(
            op.mask,
            table,
            vector_at(op.mask_probe, 64),
            out_w,
            out_i,
            out_j,
            found,
            op.given,
            vector_at(op.mask_table, 64),
            masks,
            vector_at(op.state + 128, 8),
        )
        if done < 0:
            op.fault = 3
            return np.int64(-1)
    members, room = op.members, op.room
    entry = record_at(op.input, OP)
    cells, cells_room = entry.cells, entry.room
    out = op.cells
    new = out + 8 * MEMBER_ROWS * room * members  # the last member, as cells without a mask
    want, given = vector_at(op.want, op.in_room), vector_at(op.given, op.in_room)
    runs, run_bytes = op.runs, 8 * op.run_columns
    numbered = is_ordered(turn)
    limits, bits, lean = op.limits, op.bits, op.lean != 0
    limited = is_limited(limits)
    chosen = op.chosen
    timed = not lean or (limited and is_limited_by_time(limits))
    reach = record_at(op.bound, BOUND)
    # How many of the window have come before a combination, its bounds say, if they are of tuples that came before.
    waiting, target = reach.count, reach.target
    direct = limited and not is_limited_by_time(limits) and waiting >= 0 and is_counted(op, turn)
    table, begun = count_table(limits, members + 1, members), base_of(turn, target) if numbered else np.int64(-1)
    firsts = op.ends + 16 * op.in_room
    kept = np.int64(0)
    for k in range(found):
        j = out_j[k]
        mask = (np.int64(masks[k]) if decided else given[j]) & bits
        if mask == 0:
            continue
        w, i, c = out_w[k], out_i[k], want[j]
        store(new, WINDOW_ROW * room + kept, w)
        store(new, PLACE_ROW * room + kept, i)
        if timed:
            store(new, TIME_ROW * room + kept, fetch(fetch(runs + run_bytes * w, 1, np.int64), i, np.int64))
        if limited or not lean:
            number = fetch(fetch(runs + run_bytes * w, 2, np.int64), i, np.int64) if numbered else i
            store(new, NUMBER_ROW * room + kept, number)
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
        if op.found == 0:
            found = search_on(op)
            if found <= 0:
                return found
            op.found, op.next, op.next_2 = found, 0, 0
        found, room = op.found, op.room
        if op.groups == 0:
            first = op.next
            size = min(found - first, room)
            out_w, out_i = vector_at(op.found_w + 8 * first, size), vector_at(op.found_i + 8 * first, size)
            kept = grow(op, size, out_w, out_i, vector_at(op.found_j + 8 * first, size), turn)
            op.next = first + size
        else:
            met_w, met_i = vector_at(op.spread_w, room), vector_at(op.spread_i, room)
            met_j = vector_at(op.spread_j, room)
            size = spread(
                vector_at(op.found_j, found),
                vector_at(op.found_w, found),
                vector_at(op.found_i, found),
                found,
                vector_at(op.group_order, op.in_room + 1),
                vector_at(op.group_starts, op.in_room + 1),
                op.ends,
                op.in_room,
                is_counted(op, turn),
                table_at(op.runs, op.items, op.run_columns),
                op,
                met_w,
                met_i,
                met_j,
            )
            kept = grow(op, size, met_w, met_i, met_j, turn) if size > 0 else np.int64(0)
        if op.next >= found:
            op.found = 0
        if kept != 0:
            return kept


# -- all that waits, and products --------------------------------------------


@jit()
def begin_all(op, turn):
    """Find out what some combination may meet."""
    entry = record_at(op.input, OP)
    cells, scratch = entry.cells, table_at(op.ends, 4, 1)
    op.next, op.next_2 = op.last, 0
    op.low, op.high, op.low_number, op.high_number = MOST, LEAST, MOST, LEAST
    for k in range(entry.count):
        if fetch(cells, k, np.int64) & op.bits != 0:
            bound(cells, entry.room, k, op.bound, turn, op.ends, 1, 0)
            op.low, op.high = min(op.low, scratch[0, 0]), max(op.high, scratch[1, 0])
            op.low_number = min(op.low_number, scratch[2, 0])
            op.high_number = max(op.high_number, scratch[3, 0])
            op.next = op.first


@jit()
def advance_all(op, turn):
    """Take the next tuples that wait in the window."""
    runs = table_at(op.runs, op.items, op.run_columns)
    out = table_at(op.cells, 1 + MEMBER_ROWS, op.room)
    counted, numbered = is_counted(op, turn), is_ordered(turn)
    kept = np.int64(0)
    w, i = op.next, op.next_2
    while w < op.last and kept < op.room:
        if runs[w, 4] < op.low or runs[w, 3] > op.high:
            w, i = w + 1, 0
            continue
        while i < runs[w, 0] and kept < op.room:
            t = fetch(runs[w, 1], i, np.int64)
            number = fetch(runs[w, 2], i, np.int64) if numbered else i
            met = t >= op.low and t <= op.high
            if met and (not counted or (number >= op.low_number and number <= op.high_number)):
                out[MASK_ROW, kept], out[WINDOW_ROW, kept], out[PLACE_ROW, kept] = op.bits, w, i
                out[TIME_ROW, kept], out[NUMBER_ROW, kept] = t, number
                kept += 1
            i += 1
        if i >= runs[w, 0]:
            w, i = w + 1, 0
    op.next, op.next_2 = w, i
    return kept


@jit()
def begin_product(op, turn):
    """Find out which combinations on the left go this way, and what they may meet."""
    left = record_at(op.beside, OP)
    cells, room, want = left.cells, left.room, vector_at(op.want, op.in_room)
    n = 0
    for k in range(left.count):
        if fetch(cells, k, np.int64) & op.bits != 0:
            want[n] = k
            n += 1
    for g in range(op.grown):
        ends = op.ends + 8 * 4 * op.in_room * g
        for k in range(n):
            bound(cells, room, want[k], fetch(op.bound, g, np.int64), turn, ends, op.in_room, k)
    op.probes = n
    op.next = op.next_2 = 0


@jit()
def advance_product(op, turn):
    """Make the next combinations of both that their windows allow."""
    left, right = record_at(op.beside, OP), record_at(op.input, OP)
    members, grown = op.members, op.grown
    a, a_room, b, b_room = left.cells, left.room, right.cells, right.room
    out, room = op.cells, op.room
    want, ends, ends_room = vector_at(op.want, op.in_room), op.ends, op.in_room
    limits, bits, lean = op.limits, op.bits, op.lean != 0
    limited, counted = is_limited(limits), is_counted(op, turn)
    chosen, chosen_2 = op.chosen, op.chosen_2
    count, probes = right.count, op.probes
    kept = np.int64(0)
    g, k = op.next, op.next_2
    while g < count and kept < room:
        theirs = fetch(b, g, np.int64) & bits
        while k < probes and kept < room:
            j = want[k]
            mask = fetch(a, j, np.int64) & theirs
            fits = mask != 0
            for m in range(grown):
                t, number = (
                    fetch(b, b_room * (TIME_ROW + MEMBER_ROWS * m) + g, np.int64),
                    fetch(b, b_room * (NUMBER_ROW + MEMBER_ROWS * m) + g, np.int64),
                )
                fits = fits and within(ends + 8 * 4 * ends_room * m, ends_room, k, t, number, counted)
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
    op.made += (g - op.next) * probes + k - op.next_2 - kept
    op.next, op.next_2 = g, k
    if not lean:
        copy_rows(a, a_room, chosen, kept, members, out, room)
        copy_rows(b, b_room, chosen_2, kept, grown, out + 8 * MEMBER_ROWS * room * members, room)
    return kept


# -- results -----------------------------------------------------------------


@jit()
def write_members(op, query, at, first, end, cells, room, picks, n):
    """Write down where members ``first`` to ``end`` of ``n`` results are: combinations ``picks`` of ``cells``."""
    for m in range(first, end):
        place, base = fetch(op.places, 2 * m, np.int64), fetch(op.places, 2 * m + 1, np.int64)
        which = cells + 8 * room * (WINDOW_ROW + MEMBER_ROWS * (m - first))
        rows = which + 8 * room
        out = query.at + 8 * (2 * place * query.room + at)
        for q in range(n):
            store(out, q, fetch(which, fetch(picks, q, np.int64), np.int64) + base)
        out += 8 * query.room
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
    entry = record_at(op.input, OP)
    cells, bits = entry.cells, op.bits
    query = record_at(op.results, RESULTS)
    count, picks, other = query.count, op.chosen, op.chosen_2
    left = query.room - count
    k, n = op.next, np.int64(0)
    while k < entry.count and n < left:
        store(picks, n, k)
        n += (fetch(cells, k, np.int64) & bits) != 0
        k += 1
    members, split, room = op.members, entry.members, entry.room
    if entry.lean == 0:
        write_members(op, query, count, 0, members, cells, room, picks, n)
    else:
        pick_from(entry.chosen, picks, n, other)
        if entry.kind == SEARCH:
            before = record_at(entry.input, OP)
            write_members(op, query, count, 0, split, before.cells, before.room, other, n)
            write_members(op, query, count, split, members, cells + 8 * MEMBER_ROWS * room * split, room, picks, n)
        else:
            before, beside = record_at(entry.input, OP), record_at(entry.beside, OP)
            write_members(op, query, count, 0, split, beside.cells, beside.room, other, n)
            pick_from(entry.chosen_2, picks, n, other)
            write_members(op, query, count, split, members, before.cells, before.room, other, n)
    query.count = count + n
    op.next = k
    return k >= entry.count


@jit()
def begin(op, turn):
    """Begin with the combinations that came in; False: there is no room for texts."""
    kind = op.kind
    if kind == SEARCH:
        return begin_search(op, turn)
    if kind == ALL:
        begin_all(op, turn)
    elif kind == PRODUCT:
        begin_product(op, turn)
    elif kind in (EMIT, KEEP, STAND):
        op.next = 0
    return True


@jit()
def advance(op, turn):
    """Make the next combinations: how many, 0 at the end, or less where it cannot go on."""
    kind = op.kind
    if kind == SEARCH:
        made = advance_search(op, turn)
    elif kind == START:
        made = take_new(op)
    elif kind == ALL:
        made = advance_all(op, turn)
    elif kind == PRODUCT:
        made = advance_product(op, turn)
    elif kind == STAND:
        made = advance_stand(op)
    elif kind == KEEP:
        made = np.int64(0) if keep_pairs(op) else np.int64(FOLLOW_FULL)
    else:
        made = np.int64(0) if write_down(op) else np.int64(FOLLOW_FULL)
    op.count = max(made, 0)
    op.made += op.count
    return made


@jit("int64(int64[::1], int64, int64)")
def follow(place, turn, clock):
    """Run the ops from where it stopped: ``place`` is the address of an op, and whether it is still to be begun.

    ``clock`` is the address of two words for the time.
    """
    until = nanoseconds(clock) + _BREATH
    while nanoseconds(clock) < until:
        op = record_at(place[0], OP)
        if place[1] != 0:
            if not begin(op, turn):
                return FOLLOW_SHORT
            place[1] = 0
        made = advance(op, turn)
        if made < 0:
            return made
        if made > 0:
            place[0], place[1] = op.child, 1
        elif op.sibling != 0:
            place[0], place[1] = op.sibling, 1
        elif op.parent != 0:
            place[0] = op.parent
        else:
            return FOLLOW_DONE
    return FOLLOW_PAUSED
