"""Pairs that stand, compiled: noting them, and taking them from where they were noted.

:mod:`crosswind.kernel.compiled.follow` calls these functions for its ops *keep* and *stand*;
:mod:`crosswind.engine.standing` says what they are for.
"""

from __future__ import annotations

__all__ = ["STAND"]

STAND = '''

# -- pairs that stand --------------------------------------------------------


@jit()
def keep_pairs(op):
    """Note pairs; False: there is no room."""
    entry, pairs = vector_at(op[{INPUT}], {WORDS}), vector_at(op[{QUERY}], 3)
    cells, room, bits = entry[{CELLS}], entry[{ROOM}], op[{BITS}]
    first, second = cells + 8 * room * (4 + 4 * op[{FIRST}]), cells + 8 * room * (4 + 4 * op[{LAST}])
    known, size, count = pairs[0], pairs[1], pairs[2]
    k = op[{NEXT}]
    while k < entry[{COUNT}]:
        mask = fetch(cells, k, np.int64) & bits
        if mask != 0:
            if count == size:
                break
            store(known, count, mask)
            store(known, size + count, fetch(first, k, np.int64))
            store(known, 2 * size + count, fetch(second, k, np.int64))
            count += 1
        k += 1
    pairs[2] = count
    op[{NEXT}] = k
    return k >= entry[{COUNT}]


@jit()
def item_of(runs, run_bytes, items, number):
    """Return the basic window that would hold the tuple with this sequence number; -1: it is gone."""
    w = items - 1
    while w >= 0 and number < fetch(fetch(runs + run_bytes * w, 2, np.int64), 0, np.int64):
        w -= 1
    return w


@jit()
def place_in(run, number):
    """Return where in a basic window the tuple with this sequence number is; -1: it is not there."""
    numbers, length = fetch(run, 2, np.int64), fetch(run, 0, np.int64)
    place = number - fetch(numbers, 0, np.int64)  # as long as none was left out
    if place >= length or fetch(numbers, place, np.int64) != number:
        place = places_up_to(numbers, length, number) - 1
    return place if fetch(numbers, place, np.int64) == number else np.int64(-1)


@jit()
def advance_stand(op):
    """Take the next pairs of tuples that still wait."""
    bits, out, room = op[{BITS}], op[{CELLS}], op[{ROOM}]
    if bits == 0:
        return np.int64(0)
    pairs = vector_at(op[{QUERY}], 3)
    known, size, count = pairs[0], pairs[1], pairs[2]
    k, kept = op[{NEXT}], np.int64(0)
    while k < count and kept < room:
        mask = fetch(known, k, np.int64) & bits
        fits = mask != 0
        for side in range(2):
            if fits:
                number = fetch(known, size * (1 + side) + k, np.int64)
                runs, items = op[{RUNS_2}] if side else op[{RUNS}], op[{ITEMS_2}] if side else op[{ITEMS}]
                run_bytes = 8 * (op[{RUN_COLUMNS_2}] if side else op[{RUN_COLUMNS}])
                w = item_of(runs, run_bytes, items, number)
                i = place_in(runs + run_bytes * w, number) if w >= 0 else np.int64(-1)
                fits = i >= 0
                if fits:
                    cells = out + 32 * room * side
                    store(cells, room + kept, w)
                    store(cells, 2 * room + kept, i)
                    store(cells, 3 * room + kept, fetch(fetch(runs + run_bytes * w, 1, np.int64), i, np.int64))
                    store(cells, 4 * room + kept, number)
        if fits:
            store(out, kept, mask)
            kept += 1
        k += 1
    op[{NEXT}] = k
    return kept
'''
