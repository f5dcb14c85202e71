"""The loop of a worker of Handshake Join (figures 9, 12 and 13 of the paper).

Workers stand in a row. Tuples of the first stream come from the left, those of the
second from the right, in *chunks* that are numbered in the order they came in. Since
FIFOs keep that order, what a worker holds of a stream is a stretch of chunks, and three
numbers describe it. The tuples themselves lie in windows that all workers read.

What a worker does with a message, and what it may send, is spelled out a second time in
the tests, as a model of which every interleaving is explored.
"""

from __future__ import annotations

import numpy as np

from crosswind.kernel.compiled.crew import begin_task, hand_over, step_task, wait_at_random
from crosswind.kernel.compiled.ring import (
    load_acquire,
    move,
    nanoseconds,
    pop,
    push,
    record_at,
    rest,
    store_release,
    vector_at,
    wake,
)
from crosswind.kernel.compiled.runtime import fetch, store
from crosswind.kernel.jit import jit
from crosswind.kernel.records import (
    BOARD,
    BOARD_BYTES,
    CHUNK,
    CHUNK_BYTES,
    PHASE,
    SEAT,
    SIGNAL_ACK,
    SIGNAL_DATA,
    SIGNAL_EXPIRE,
    SIGNAL_FLUSH,
    SIGNAL_HURRY,
    STEP_DONE,
    STEP_IDLE,
    STEP_MORE,
    TASK,
    TASK_BOX,
    TASK_BYTES,
    TASK_WORDS,
)

__all__ = [
    "await_quiet",
    "begin_left",
    "begin_right",
    "chunk_of",
    "drop_left",
    "drop_right",
    "end_left",
    "end_right",
    "forward",
    "go_on",
    "has_room",
    "is_quiet",
    "let_go",
    "meet",
    "place",
    "receive",
    "resize",
    "shake",
    "shake_step",
    "tell",
    "tuples_of",
]

_LONG = 100_000_000
"""Nanoseconds after which the coordinator looks for what Python has for it, such as Ctrl-C."""


@jit()
def chunk_of(seat, unit, chunk):
    """Return where a chunk of ``unit`` is described."""
    window = record_at(seat.board + BOARD_BYTES * unit, BOARD)
    return window.chunks + CHUNK_BYTES * (chunk - window.base)


@jit()
def place(starts, items, number):
    """Return the last run that begins at or before ``number``."""
    low = np.int64(0)
    high = items
    while high - low > 1:
        middle = (low + high) // 2
        if fetch(starts, middle, np.int64) <= number:
            low = middle
        else:
            high = middle
    return low


@jit()
def meet(seat, unit, chunk, low, high):
    """Begin to compare a chunk of ``unit`` with chunks ``low`` to ``high`` of the other (immediate scan, §3.5)."""
    other = 1 - unit
    theirs = record_at(seat.board + BOARD_BYTES * other, BOARD)
    if chunk < record_at(seat.board + BOARD_BYTES * unit, BOARD).met:
        low = max(low, theirs.met)
    if low >= high:
        return
    mine = record_at(chunk_of(seat, unit, chunk), CHUNK)
    first = record_at(chunk_of(seat, other, low), CHUNK).first
    end = record_at(chunk_of(seat, other, high - 1), CHUNK).end
    for k in range(TASK_BYTES // 8):
        store(seat.task, k, fetch(mine.template, k, np.int64))
    task = record_at(seat.task, TASK)
    task.runs, task.run_columns, task.items = theirs.runs, theirs.run_columns, theirs.items
    task.params, task.lengths = theirs.params, theirs.lengths
    task.table, task.table_columns = theirs.table, theirs.table_columns
    for k in range(mine.end - mine.first):
        store(seat.lows, k, first)
        store(seat.highs, k, end - 1)
    given = task.probe if task.kind == TASK_BOX else task.pair
    room = seat.probe if task.kind == TASK_BOX else seat.pair
    probe = vector_at(room, TASK_WORDS)
    for k in range(TASK_WORDS):
        probe[k] = fetch(given, k, np.int64)
    probe[2] = seat.lows - 8 * mine.tuple
    probe[3] = seat.highs - 8 * mine.tuple
    if task.kind == TASK_BOX:
        task.probe = room
    else:
        task.pair = room
    task.phases = 1
    phase = record_at(seat.task + TASK_BYTES, PHASE)
    phase.first = place(theirs.starts, theirs.items, first)
    phase.last = place(theirs.starts, theirs.items, end - 1) + 1
    phase.order, phase.count = mine.order, mine.count
    begin_task(seat, seat.task, mine.about)


@jit()
def has_room(seat, side):
    """Whether a message can be sent to the right (side 0) or to the left (side 1), or there is nobody."""
    ring = seat.outbox[side]
    return ring == 0 or fetch(ring, 8, np.int64) - load_acquire(ring, 0) < seat.capacity


@jit()
def tell(seat, side, kind, a, b):
    """Send a message to a neighbour, if there is one."""
    if seat.outbox[side] == 0:
        return
    counts = seat.counts
    store_release(counts, 0, fetch(counts, 0, np.int64) + 1)
    push(seat.outbox[side], seat.capacity, kind, a, b, 0)
    wake(seat.next[side])


@jit()
def resize(seat, unit, change):
    """Note, for the neighbours, that more or fewer tuples are here."""
    sizes = seat.sizes
    store_release(sizes, unit, fetch(sizes, unit, np.int64) + change)


@jit()
def tuples_of(seat, unit, chunk):
    """Return the number of tuples in a chunk."""
    known = record_at(chunk_of(seat, unit, chunk), CHUNK)
    return known.end - known.first


@jit()
def let_go(seat, unit, count):
    """Take tuples off the number held, unless they have been taken off it before."""
    known = min(seat.owed[unit], count)
    seat.owed[unit] -= known
    resize(seat, unit, known - count)


@jit()
def drop_right(seat):
    """At the right end: let tuples of the first stream go that have expired (figure 13)."""
    while seat.r_low < seat.r_high and seat.r_low < seat.r_gone:
        let_go(seat, 0, tuples_of(seat, 0, seat.r_low))
        seat.r_low += 1


@jit()
def drop_left(seat):
    """At the left end: let tuples of the second stream go that have expired (figure 12)."""
    while seat.s_low < seat.s_high and seat.s_low < seat.s_gone:
        let_go(seat, 1, tuples_of(seat, 1, seat.s_low))
        seat.s_low += 1
    seat.s_sent = max(seat.s_sent, seat.s_low)


@jit()
def begin_left(seat, kind, a, b):
    """Begin with a message from the left (figure 9, lines 9 to 16)."""
    if kind == SIGNAL_DATA:
        meet(seat, 0, a, seat.s_low, seat.s_high)
    elif kind == SIGNAL_HURRY:
        tell(seat, 0, SIGNAL_HURRY, a, b)
        if seat.index > b:
            meet(seat, 0, a, seat.s_low, seat.s_high)
    return SIGNAL_DATA <= kind <= SIGNAL_HURRY


@jit()
def end_left(seat, kind, a):
    """Do what is left to do with a message from the left when all have been met."""
    if kind == SIGNAL_DATA:
        seat.r_high = a + 1
        resize(seat, 0, tuples_of(seat, 0, a))
        if seat.index == seat.last:
            drop_right(seat)
    elif kind == SIGNAL_ACK:
        seat.s_low = a + 1
    elif kind == SIGNAL_EXPIRE:
        seat.s_gone = a
        drop_left(seat)
    elif kind == SIGNAL_FLUSH:
        seat.r_flush = a


@jit()
def begin_right(seat, kind, a):
    """Begin with a message from the right (figure 9, lines 17 to 24, and figure 13)."""
    if kind == SIGNAL_DATA:
        meet(seat, 1, a, seat.r_low, seat.r_high)
    return kind in (SIGNAL_DATA, SIGNAL_EXPIRE, SIGNAL_FLUSH)


@jit()
def end_right(seat, kind, a):
    """Do what is left to do with a message from the right when all have been met."""
    if kind == SIGNAL_DATA:
        seat.s_high = a + 1
        resize(seat, 1, tuples_of(seat, 1, a))
        tell(seat, 0, SIGNAL_ACK, a, 0)
        if seat.index == 0:
            drop_left(seat)
    elif kind == SIGNAL_EXPIRE:
        seat.r_gone = a
        drop_right(seat)
    elif kind == SIGNAL_FLUSH:
        seat.s_flush = a


@jit()
def forward(seat):
    """Send tuples on to neighbours that have fewer (figure 9, lines 25 to 31; section 4.3); whether any went."""
    went = False
    if seat.outbox[0] != 0:
        while seat.r_low < seat.r_high and has_room(seat, 0):
            size = tuples_of(seat, 0, seat.r_low)
            more = fetch(seat.sizes, 0, np.int64) - load_acquire(seat.right_sizes, 0)
            if seat.r_low >= seat.r_flush and more <= size:
                break
            tell(seat, 0, SIGNAL_DATA, seat.r_low, 0)
            seat.r_low += 1
            resize(seat, 0, -size)
            went = True
    if seat.outbox[1] != 0:
        while seat.s_sent < seat.s_high and has_room(seat, 1):
            size = tuples_of(seat, 1, seat.s_sent)
            more = fetch(seat.sizes, 1, np.int64) - load_acquire(seat.left_sizes, 1)
            if seat.s_sent >= seat.s_flush and more <= size:
                break
            tell(seat, 1, SIGNAL_DATA, seat.s_sent, 0)
            seat.s_sent += 1
            resize(seat, 1, -size)
            went = True
    passed = seat.outbox[0] == 0 or seat.r_low >= min(seat.r_flush, seat.r_high)
    if seat.r_flush > 0 and passed and has_room(seat, 0):
        tell(seat, 0, SIGNAL_FLUSH, seat.r_flush, 0)
        seat.r_flush = 0
        went = True
    passed = seat.outbox[1] == 0 or seat.s_sent >= min(seat.s_flush, seat.s_high)
    if seat.s_flush > 0 and passed and has_room(seat, 1):
        tell(seat, 1, SIGNAL_FLUSH, seat.s_flush, 0)
        seat.s_flush = 0
        went = True
    return went


@jit()
def receive(seat, side):
    """Take a message from the left (side 0) or the right, and begin with it; idle if there is none."""
    message = seat.scratch + 128
    if not has_room(seat, 0) or not pop(seat.inbox[side], seat.capacity, message):
        return np.int64(STEP_IDLE)
    wake(seat.next[1 - side] if seat.outbox[1 - side] != 0 else seat.main)
    kind = fetch(message, 0, np.int64)
    a = fetch(message, 1, np.int64)
    b = fetch(message, 2, np.int64)
    seat.now = 0
    known = begin_left(seat, kind, a, b) if side == 0 else begin_right(seat, kind, a)
    if not known:
        return -(64 + kind)
    seat.got = kind
    seat.side = side
    seat.a = a
    seat.b = b
    return np.int64(STEP_DONE)


@jit()
def go_on(seat):
    """Do a slice of what is under way; at its end go on to neighbours whatever is too much here."""
    kind = seat.got
    if seat.now != 0:
        code = step_task(seat)
        if code != STEP_DONE:
            return np.int64(STEP_DONE) if code == STEP_MORE else code
        seat.now = 0
    if seat.side == 0:
        end_left(seat, kind, seat.a)
    else:
        end_right(seat, kind, seat.a)
    seat.got = 0
    seat.handled += 1
    seat.tasks += 1
    if kind != SIGNAL_HURRY or seat.r_flush > 0 or seat.s_flush > 0:
        forward(seat)  # not after a hurry, or who has been hurried past would be met again
    return np.int64(STEP_DONE)


@jit()
def shake_step(seat):
    """Take a message, or do a slice of what one asks for; when there is nothing to do say so."""
    began = nanoseconds(seat.scratch + 192)
    if seat.got != 0:
        code = go_on(seat)
        seat.busy += nanoseconds(seat.scratch + 192) - began
        return code
    side = seat.turn_side
    if seat.delay > 0:
        side = wait_at_random(seat) & 1
    code = receive(seat, side)
    if code == STEP_IDLE:
        code = receive(seat, 1 - side)
    seat.turn_side = 1 - side
    if code != STEP_IDLE:
        seat.busy += nanoseconds(seat.scratch + 192) - began
        return code
    if (seat.r_flush > 0 or seat.s_flush > 0) and forward(seat):
        return np.int64(STEP_DONE)
    hand_over(seat)
    if seat.r_flush == 0 and seat.s_flush == 0:
        store_release(seat.counts, 1, seat.handled)
    return np.int64(STEP_IDLE)


@jit("int64(int64)")
def shake(at):
    """Serve, from the seat at this address, until told to stop (0), or until a message cannot be understood."""
    seat = record_at(at, SEAT)
    turn = 0
    while load_acquire(seat.flags, 0) == 0:
        code = shake_step(seat)
        if code < 0:
            return -code
        if code == STEP_DONE:
            turn = 0
            continue
        if turn == 0:
            wake(seat.main)
        turn = max(1, rest(seat.event, turn, seat.spins))
    return 0


@jit("int64(int64, int64, int64)")
def is_quiet(seats, count, driven):
    """Whether every message has been handled. ``driven`` came from outside.

    What was handled is added up before what was sent: if the sums agree there was a moment
    in between at which nothing was under way, and only a message makes a worker send one.
    """
    handled = np.int64(0)
    for k in range(count):
        handled += load_acquire(fetch(seats, k, np.int64), 1)
    sent = driven
    for k in range(count):
        sent += load_acquire(fetch(seats, k, np.int64), 0)
    return np.int64(handled == sent)


@jit("int64(int64, int64, int64, int64, int64, int64, int64, int64)")
def await_quiet(at, tree, count, capacity, spins, out, seats, driven):
    """Merge and read one message (1), or find that nothing is under way (2); 0 if neither for a while.

    Meanwhile the steps of the seat at address ``at`` are done; less than 0: minus the kind of a message that it did
    not understand.
    """
    seat = record_at(at, SEAT)
    turn = 0
    naps = 0
    began = nanoseconds(seat.scratch + 192)
    quiet = False
    while naps < 2:
        for node in range(count - 1, 0, -1):
            target = fetch(tree, node, np.int64)
            move(fetch(tree, 2 * node, np.int64), target, capacity, out)
            move(fetch(tree, 2 * node + 1, np.int64), target, capacity, out)
        if pop(fetch(tree, 1, np.int64), capacity, out):
            return 1
        if quiet:
            return 2
        code = shake_step(seat)
        if code < 0:
            return code
        if code == STEP_DONE:
            turn = 0
            if nanoseconds(seat.scratch + 192) - began > _LONG:
                return 0
            continue
        quiet = is_quiet(seats, count, driven) != 0
        if quiet:
            continue
        before = turn
        turn = rest(seat.main, turn, spins)
        if turn < before:
            naps += 1
    return 0
