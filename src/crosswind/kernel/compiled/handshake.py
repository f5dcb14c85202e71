"""The loop of a worker of Handshake Join (figures 9, 12 and 13 of the paper).

Workers stand in a row. Tuples of the first stream come from the left, those of the
second from the right, in *chunks* that are numbered in the order they came in. Since
FIFOs keep that order, what a worker holds of a stream is a stretch of chunks, and three
numbers describe it. The tuples themselves lie in windows that all workers read.

What a worker does with a message, and what it may send, is spelled out a second time in
the tests, as a model of which every interleaving is explored.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from crosswind.kernel.compiled.crew import Message, Seat, Task, crew_source, filled_in, step_words
from crosswind.kernel.jit import load_source

__all__ = ["Board", "Chunk", "Signal", "Stand", "handshake_kernels"]


class Stand:
    """Words of a worker's seat beyond those that all have."""

    R_LOW, R_HIGH = 32, 33
    """Chunks of the first stream that are here: from, to."""
    S_LOW, S_SENT, S_HIGH = 34, 35, 36
    """Chunks of the second: from; from which on they have not been sent on; to. What has been sent but not
    acknowledged can still be met here."""
    R_GONE, S_GONE = 37, 38
    """At the end of the row: chunks before these have expired."""
    R_FLUSH, S_FLUSH = 39, 40
    """Chunks before these are to be sent on whatever the neighbour has (0: none)."""
    BOARD = 41
    LAST = 42
    """The index of the last worker."""
    COUNTS = 43
    """Address of two words: messages sent to neighbours, messages handled."""
    SIZES = 44
    """Address of two words: tuples held of each stream; then the neighbour's on the left, and on the right."""
    LEFT_SIZES, RIGHT_SIZES = 45, 46
    LOWS, HIGHS = 47, 48
    """Addresses of room for bounds of sequence numbers, a chunk long."""
    PROBE, PAIR, TASK = 49, 50, 51
    """Addresses of room for a probe table, a pair table, a task."""
    HANDLED = 52
    GOT, SIDE, A, B = 58, 59, 60, 61
    """The message that is under way (kind 0: none): its kind, from where it came, what it says."""
    TURN_SIDE = 62
    """From which side the next is taken first."""
    R_OWED, S_OWED = 63, 64
    """At the end of the row: tuples that are about to go, and have been taken off the number held already, so that
    neighbours send others while they are still met."""


class Board:
    """Words that describe the window of a unit to all workers; a unit's begin at ``WIDTH`` times its number."""

    CHUNKS, BASE, MET = 0, 1, 2
    """Address of the table of chunks, the number of its first, and the first that has not met everything."""
    RUNS, ITEMS, RUN_COLUMNS, PARAMS = 3, 4, 5, 6
    TABLE, TABLE_COLUMNS, LENGTHS, STARTS = 7, 8, 9, 10
    WIDTH = 16


class Chunk:
    """Words of a chunk: sequence numbers from and to, a task to begin with, probes, its first tuple in its block."""

    FIRST, END, TEMPLATE, ORDER, COUNT, TUPLE, ABOUT = 0, 1, 2, 3, 4, 5, 6
    WIDTH = 8


class Signal:
    """Kinds of messages in the row."""

    DATA, ACK, EXPIRE, FLUSH, HURRY = 1, 2, 3, 4, 5


_SOURCE = '''

@jit()
def about_chunk(board, unit, chunk, word):
    """Return a word of a chunk."""
    table = fetch(board, {WIDTH_BOARD} * unit + {CHUNKS}, np.int64)
    base = fetch(board, {WIDTH_BOARD} * unit + {BASE}, np.int64)
    return fetch(table, {WIDTH} * (chunk - base) + word, np.int64)


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


@jit("void(int64[::1], int64, int64, int64, int64)")
def meet(seat, unit, chunk, low, high):
    """Begin to compare a chunk of ``unit`` with chunks ``low`` to ``high`` of the other (immediate scan, §3.5)."""
    board = seat[{BOARD}]
    other = 1 - unit
    theirs = board + 8 * {WIDTH_BOARD} * other
    if chunk < fetch(board, {WIDTH_BOARD} * unit + {MET}, np.int64):
        low = max(low, fetch(theirs, {MET}, np.int64))
    if low >= high:
        return
    first = about_chunk(board, other, low, {FIRST})
    end = about_chunk(board, other, high - 1, {END})
    task = vector_at(seat[{TASK_ROOM}], 64)
    template = about_chunk(board, unit, chunk, {TEMPLATE})
    for k in range({WORDS}):
        task[k] = fetch(template, k, np.int64)
    task[{RUNS_TASK}] = fetch(theirs, {RUNS}, np.int64)
    task[{ITEMS_TASK}] = items = fetch(theirs, {ITEMS}, np.int64)
    task[{RUN_COLUMNS_TASK}] = fetch(theirs, {RUN_COLUMNS}, np.int64)
    task[{PARAMS_TASK}] = fetch(theirs, {PARAMS}, np.int64)
    task[{TABLE_TASK}] = fetch(theirs, {TABLE}, np.int64)
    task[{TABLE_COLUMNS_TASK}] = fetch(theirs, {TABLE_COLUMNS}, np.int64)
    task[{LENGTHS_TASK}] = fetch(theirs, {LENGTHS}, np.int64)
    begins = about_chunk(board, unit, chunk, {TUPLE})
    size = about_chunk(board, unit, chunk, {END}) - about_chunk(board, unit, chunk, {FIRST})
    lows = vector_at(seat[{LOWS}], size)
    highs = vector_at(seat[{HIGHS}], size)
    for k in range(size):
        lows[k] = first
        highs[k] = end - 1
    room = seat[{PROBE_ROOM}] if task[{KIND}] == {BOX} else seat[{PAIR_ROOM}]
    at = {PROBE_TASK} if task[{KIND}] == {BOX} else {PAIR_TASK}
    given = task[at]
    probe = vector_at(room, 64)
    for k in range(64):
        probe[k] = fetch(given, k, np.int64)
    probe[2] = seat[{LOWS}] - 8 * begins
    probe[3] = seat[{HIGHS}] - 8 * begins
    task[at] = room
    starts = fetch(theirs, {STARTS}, np.int64)
    task[{PHASES}] = 1
    task[{WORDS}] = place(starts, items, first)
    task[{WORDS} + 1] = place(starts, items, end - 1) + 1
    task[{WORDS} + 2] = about_chunk(board, unit, chunk, {ORDER})
    task[{WORDS} + 3] = about_chunk(board, unit, chunk, {COUNT})
    begin_task(seat, seat[{TASK_ROOM}], about_chunk(board, unit, chunk, {ABOUT_CHUNK}))


@jit()
def has_room(seat, side):
    """Whether a message can be sent to the right (side 0) or to the left (side 1), or there is nobody."""
    ring = seat[{OUT} + side]
    return ring == 0 or fetch(ring, 8, np.int64) - load_acquire(ring, 0) < seat[{CAPACITY}]


@jit()
def tell(seat, side, kind, a, b):
    """Send a message to a neighbour, if there is one."""
    if seat[{OUT} + side] == 0:
        return
    counts = seat[{COUNTS}]
    store_release(counts, 0, fetch(counts, 0, np.int64) + 1)
    push(seat[{OUT} + side], seat[{CAPACITY}], kind, a, b, 0)
    wake(seat[{NEXT} + side])


@jit()
def resize(seat, unit, change):
    """Note, for the neighbours, that more or fewer tuples are here."""
    sizes = seat[{SIZES}]
    store_release(sizes, unit, fetch(sizes, unit, np.int64) + change)


@jit()
def tuples_of(seat, unit, chunk):
    """Return the number of tuples in a chunk."""
    return about_chunk(seat[{BOARD}], unit, chunk, {END}) - about_chunk(seat[{BOARD}], unit, chunk, {FIRST})


@jit()
def let_go(seat, unit, owed, count):
    """Take tuples off the number held, unless they have been taken off it before."""
    known = min(seat[owed], count)
    seat[owed] -= known
    resize(seat, unit, known - count)


@jit()
def drop_right(seat):
    """At the right end: let tuples of the first stream go that have expired (figure 13)."""
    while seat[{R_LOW}] < seat[{R_HIGH}] and seat[{R_LOW}] < seat[{R_GONE}]:
        let_go(seat, 0, {R_OWED}, tuples_of(seat, 0, seat[{R_LOW}]))
        seat[{R_LOW}] += 1


@jit()
def drop_left(seat):
    """At the left end: let tuples of the second stream go that have expired (figure 12)."""
    while seat[{S_LOW}] < seat[{S_HIGH}] and seat[{S_LOW}] < seat[{S_GONE}]:
        let_go(seat, 1, {S_OWED}, tuples_of(seat, 1, seat[{S_LOW}]))
        seat[{S_LOW}] += 1
    seat[{S_SENT}] = max(seat[{S_SENT}], seat[{S_LOW}])


@jit()
def begin_left(seat, kind, a, b):
    """Begin with a message from the left (figure 9, lines 9 to 16)."""
    if kind == {DATA}:
        meet(seat, 0, a, seat[{S_LOW}], seat[{S_HIGH}])
    elif kind == {HURRY}:
        tell(seat, 0, {HURRY}, a, b)
        if seat[{INDEX}] > b:
            meet(seat, 0, a, seat[{S_LOW}], seat[{S_HIGH}])
    return {DATA} <= kind <= {HURRY}


@jit()
def end_left(seat, kind, a):
    """Do what is left to do with a message from the left when all have been met."""
    if kind == {DATA}:
        seat[{R_HIGH}] = a + 1
        resize(seat, 0, tuples_of(seat, 0, a))
        if seat[{INDEX}] == seat[{LAST}]:
            drop_right(seat)
    elif kind == {ACK}:
        seat[{S_LOW}] = a + 1
    elif kind == {EXPIRE}:
        seat[{S_GONE}] = a
        drop_left(seat)
    elif kind == {FLUSH}:
        seat[{R_FLUSH}] = a


@jit()
def begin_right(seat, kind, a):
    """Begin with a message from the right (figure 9, lines 17 to 24, and figure 13)."""
    if kind == {DATA}:
        meet(seat, 1, a, seat[{R_LOW}], seat[{R_HIGH}])
    return kind == {DATA} or kind == {EXPIRE} or kind == {FLUSH}


@jit()
def end_right(seat, kind, a):
    """Do what is left to do with a message from the right when all have been met."""
    if kind == {DATA}:
        seat[{S_HIGH}] = a + 1
        resize(seat, 1, tuples_of(seat, 1, a))
        tell(seat, 0, {ACK}, a, 0)
        if seat[{INDEX}] == 0:
            drop_left(seat)
    elif kind == {EXPIRE}:
        seat[{R_GONE}] = a
        drop_right(seat)
    elif kind == {FLUSH}:
        seat[{S_FLUSH}] = a


@jit()
def forward(seat):
    """Send tuples on to neighbours that have fewer (figure 9, lines 25 to 31; section 4.3); whether any went."""
    went = False
    if seat[{OUT}] != 0:
        while seat[{R_LOW}] < seat[{R_HIGH}] and has_room(seat, 0):
            size = tuples_of(seat, 0, seat[{R_LOW}])
            more = fetch(seat[{SIZES}], 0, np.int64) - load_acquire(seat[{RIGHT_SIZES}], 0)
            if seat[{R_LOW}] >= seat[{R_FLUSH}] and more <= size:
                break
            tell(seat, 0, {DATA}, seat[{R_LOW}], 0)
            seat[{R_LOW}] += 1
            resize(seat, 0, -size)
            went = True
    if seat[{OUT} + 1] != 0:
        while seat[{S_SENT}] < seat[{S_HIGH}] and has_room(seat, 1):
            size = tuples_of(seat, 1, seat[{S_SENT}])
            more = fetch(seat[{SIZES}], 1, np.int64) - load_acquire(seat[{LEFT_SIZES}], 1)
            if seat[{S_SENT}] >= seat[{S_FLUSH}] and more <= size:
                break
            tell(seat, 1, {DATA}, seat[{S_SENT}], 0)
            seat[{S_SENT}] += 1
            resize(seat, 1, -size)
            went = True
    if seat[{R_FLUSH}] > 0 and has_room(seat, 0):
        if seat[{OUT}] == 0 or seat[{R_LOW}] >= min(seat[{R_FLUSH}], seat[{R_HIGH}]):
            tell(seat, 0, {FLUSH}, seat[{R_FLUSH}], 0)
            seat[{R_FLUSH}] = 0
            went = True
    if seat[{S_FLUSH}] > 0 and has_room(seat, 1):
        if seat[{OUT} + 1] == 0 or seat[{S_SENT}] >= min(seat[{S_FLUSH}], seat[{S_HIGH}]):
            tell(seat, 1, {FLUSH}, seat[{S_FLUSH}], 0)
            seat[{S_FLUSH}] = 0
            went = True
    return went


@jit()
def receive(seat, side):
    """Take a message from the left (side 0) or the right, and begin with it; idle if there is none."""
    message = seat[{SCRATCH}] + 128
    if not has_room(seat, 0) or not pop(seat[{IN} + side], seat[{CAPACITY}], message):
        return np.int64({STEP_IDLE})
    wake(seat[{NEXT} + 1 - side] if seat[{OUT} + 1 - side] != 0 else seat[{MAIN}])
    kind = fetch(message, 0, np.int64)
    a = fetch(message, 1, np.int64)
    b = fetch(message, 2, np.int64)
    seat[{NOW}] = 0
    known = begin_left(seat, kind, a, b) if side == 0 else begin_right(seat, kind, a)
    if not known:
        return -(64 + kind)
    seat[{GOT}] = kind
    seat[{SIDE}] = side
    seat[{A}] = a
    seat[{B}] = b
    return np.int64({STEP_DONE})


@jit()
def go_on(seat):
    """Do a slice of what is under way; at its end go on to neighbours whatever is too much here."""
    kind = seat[{GOT}]
    if seat[{NOW}] != 0:
        code = step_task(seat)
        if code != {STEP_DONE}:
            return np.int64({STEP_DONE}) if code == 3 else code
        seat[{NOW}] = 0
    if seat[{SIDE}] == 0:
        end_left(seat, kind, seat[{A}])
    else:
        end_right(seat, kind, seat[{A}])
    seat[{GOT}] = 0
    seat[{HANDLED}] += 1
    seat[{TASKS}] += 1
    if kind != {HURRY} or seat[{R_FLUSH}] > 0 or seat[{S_FLUSH}] > 0:
        forward(seat)  # not after a hurry, or who has been hurried past would be met again
    return np.int64({STEP_DONE})


@jit("int64(int64[::1])")
def shake_step(seat):
    """Take a message, or do a slice of what one asks for; when there is nothing to do say so."""
    began = nanoseconds(seat[{SCRATCH}] + 192)
    if seat[{GOT}] != 0:
        code = go_on(seat)
        seat[{BUSY}] += nanoseconds(seat[{SCRATCH}] + 192) - began
        return code
    side = seat[{TURN_SIDE}]
    if seat[{DELAY}] > 0:
        side = wait_at_random(seat) & 1
    code = receive(seat, side)
    if code == {STEP_IDLE}:
        code = receive(seat, 1 - side)
    seat[{TURN_SIDE}] = 1 - side
    if code != {STEP_IDLE}:
        seat[{BUSY}] += nanoseconds(seat[{SCRATCH}] + 192) - began
        return code
    if (seat[{R_FLUSH}] > 0 or seat[{S_FLUSH}] > 0) and forward(seat):
        return np.int64({STEP_DONE})
    hand_over(seat)
    if seat[{R_FLUSH}] == 0 and seat[{S_FLUSH}] == 0:
        store_release(seat[{COUNTS}], 1, seat[{HANDLED}])
    return np.int64({STEP_IDLE})


@jit("int64(int64[::1])")
def shake(seat):
    """Serve until told to stop (0), or until a message cannot be understood."""
    turn = 0
    while load_acquire(seat[{FLAGS}], 0) == 0:
        code = shake_step(seat)
        if code < 0:
            return -code
        if code == {STEP_DONE}:
            turn = 0
            continue
        if turn == 0:
            wake(seat[{MAIN}])
        turn = max(1, rest(seat[{EVENT}], turn, seat[{SPINS}]))
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


@jit("int64(int64[::1], int64, int64, int64, int64, int64, int64, int64)")
def await_quiet(seat, tree, count, capacity, spins, out, seats, driven):
    """Merge and read one message (1), or find that nothing is under way (2); 0 if neither for a while.

    Meanwhile the steps of ``seat`` are done; less than 0: minus the kind of a message that it did not understand.
    """
    turn = 0
    naps = 0
    began = nanoseconds(seat[{SCRATCH}] + 192)
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
        if code == {STEP_DONE}:
            turn = 0
            if nanoseconds(seat[{SCRATCH}] + 192) - began > {LONG}:
                return 0
            continue
        quiet = is_quiet(seats, count, driven) != 0
        if quiet:
            continue
        before = turn
        turn = rest(seat[{MAIN}], turn, spins)
        if turn < before:
            naps += 1
    return 0
'''


@lru_cache(maxsize=1)
def handshake_kernels() -> Any:
    """Return the compiled functions of the loop, and those of every crew."""
    words = {
        "WORDS": Task.WORDS,
        "WIDTH": Chunk.WIDTH,
        "WIDTH_BOARD": Board.WIDTH,
        "ABOUT_CHUNK": Chunk.ABOUT,
        "TASK_ROOM": Stand.TASK,
        "PROBE_ROOM": Stand.PROBE,
        "PAIR_ROOM": Stand.PAIR,
        **step_words(),
        **{f"{name}_TASK": value for name, value in vars(Task).items() if isinstance(value, int)},
    }
    return load_source(crew_source() + filled_in(_SOURCE, [Message, Task, Seat, Chunk, Stand, Board, Signal], words))
