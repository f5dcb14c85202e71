"""Pairs that stand: noting them, and taking them from where they were noted.

:mod:`crosswind.kernel.compiled.follow` calls these functions for its ops *keep* and *stand*;
:mod:`crosswind.engine.probe.cached_pairs` says what they are for.
"""

from __future__ import annotations

import numpy as np

from crosswind.kernel.compiled.combine import places_up_to
from crosswind.kernel.compiled.ring import record_at
from crosswind.kernel.compiled.runtime import fetch, store
from crosswind.kernel.jit import jit
from crosswind.kernel.records import MEMBER_ROWS, NUMBER_ROW, OP, PAIRS, PLACE_ROW, TIME_ROW, WINDOW_ROW

__all__ = ["advance_stand", "item_of", "keep_pairs", "place_in"]


@jit()
def keep_pairs(op):
    """Note pairs; False: there is no room."""
    entry, pairs = record_at(op.input, OP), record_at(op.pairs, PAIRS)
    cells, room, bits = entry.cells, entry.room, op.bits
    first, second = (
        cells + 8 * room * (NUMBER_ROW + MEMBER_ROWS * op.first),
        cells + 8 * room * (NUMBER_ROW + MEMBER_ROWS * op.last),
    )
    known, size, count = pairs.at, pairs.room, pairs.count
    k = op.next
    while k < entry.count:
        mask = fetch(cells, k, np.int64) & bits
        if mask != 0:
            if count == size:
                break
            store(known, count, mask)
            store(known, size + count, fetch(first, k, np.int64))
            store(known, 2 * size + count, fetch(second, k, np.int64))
            count += 1
        k += 1
    pairs.count = count
    op.next = k
    return k >= entry.count


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
    bits, out, room = op.bits, op.cells, op.room
    if bits == 0:
        return np.int64(0)
    pairs = record_at(op.pairs, PAIRS)
    known, size, count = pairs.at, pairs.room, pairs.count
    k, kept = op.next, np.int64(0)
    while k < count and kept < room:
        mask = fetch(known, k, np.int64) & bits
        fits = mask != 0
        for side in range(2):
            if fits:
                number = fetch(known, size * (1 + side) + k, np.int64)
                runs, items = op.runs_2 if side else op.runs, op.items_2 if side else op.items
                run_bytes = 8 * (op.run_columns_2 if side else op.run_columns)
                w = item_of(runs, run_bytes, items, number)
                i = place_in(runs + run_bytes * w, number) if w >= 0 else np.int64(-1)
                fits = i >= 0
                if fits:
                    cells = out + 8 * MEMBER_ROWS * room * side
                    store(cells, WINDOW_ROW * room + kept, w)
                    store(cells, PLACE_ROW * room + kept, i)
                    store(cells, TIME_ROW * room + kept, fetch(fetch(runs + run_bytes * w, 1, np.int64), i, np.int64))
                    store(cells, NUMBER_ROW * room + kept, number)
        if fits:
            store(out, kept, mask)
            kept += 1
        k += 1
    op.next = k
    return kept
