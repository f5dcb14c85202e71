"""What every worker of a row does: it does its task in slices, and posts what it finds.

One loop serves every query: kernels are called by address. A worker's *seat* is a record
of words that says which rings, buffers and events are its own. Matches go to one
of two buffers, and while the coordinator reads that one the worker goes on in the other
(CellJoin §4.3).

Work goes in steps: a step is a slice of a task, or what begins or ends one, and never
waits. Threads run steps until they are told to stop. The coordinator runs those of the
first seat while it waits for the others: as many threads work as there are workers, and
nobody who has work is kept from a core by somebody who waits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

__all__ = ["Message", "Seat", "Task", "crew_source", "filled_in", "step_words"]


class Seat:
    """Words of a worker's record."""

    INDEX = 0
    FLAGS = 1
    """Address of the crew's flags: stop, and eight words on cancel."""
    EVENT = 2
    MAIN = 3
    """Address of the coordinator's event."""
    CAPACITY = 4
    SPINS = 5
    RESULTS = 6
    IN = 7
    """Two rings that notices come from (0: none), then two that they are handed on to, and the events there."""
    OUT = 9
    NEXT = 11
    ROOM = 13
    BUFFERS = 14
    """Twice the addresses of runs, tuples and probes of matches."""
    TAKEN = 20
    """Address of two words: whether the coordinator still reads a buffer."""
    TURN = 21
    SCRATCH = 22
    """Address of words for states, a message and a time."""
    WORK = 23
    DELAY = 24
    """Microseconds to sleep at most before each notice, at random: for tests of scheduling."""
    BUSY = 25
    TASKS = 26
    FOUND = 27
    FILLED = 29
    ABOUT = 30
    """Matches in the buffer that is being filled, and a word on whose they are."""
    NOW = 31
    """Address of the task that is under way (0: none); then its phase, and whether that is to be begun."""
    PHASE, FRESH = 53, 54
    NOISE = 56
    WORDS = 72


LONG = 100_000_000
"""Nanoseconds after which the coordinator looks for what Python has for it, such as Ctrl-C."""


class Step:
    """What came of a step: nothing to do, done, a buffer is missing; anything less than 0: minus an unknown kind."""

    IDLE, DONE, STUCK = 0, 1, 2


class Task:
    """Words of a task; phases follow: first run, last, which probes (address and count, or first and end)."""

    KIND = 0
    KERNEL = 1
    RECHECK = 2
    RUNS = 3
    RUN_COLUMNS = 4
    ITEMS = 5
    PARAMS = 6
    PROBE = 7
    SPANS = 8
    TABLE = 9
    TABLE_COLUMNS = 10
    PAIR = 11
    LENGTHS = 12
    NEED = 13
    """Room that the kernel must find in a buffer to get anywhere."""
    SLICE = 14
    """Basic windows that are looked through before anything else is thought of, such as being called off."""
    PHASES = 15
    WORDS = 16
    PHASE_WORDS = 4
    BOX, PAIRS = 1, 2


class Message:
    """Kinds of messages that workers post."""

    MATCHES, FAULT = 1, 2
    KINDS = 16


_SOURCE = '''"""The loop of a worker."""

import numpy as np

from crosswind.kernel.jit import jit
from crosswind.kernel.compiled.ring import call_box, call_recheck, call_scan, event_init, load_acquire, move
from crosswind.kernel.compiled.ring import nanoseconds, pop, push, reals_at, rest, store_release, table_at
from crosswind.kernel.compiled.ring import usleep, vector_at, wake
from crosswind.kernel.compiled.runtime import fetch


@jit()
def give(seat, kind, a, b, c):
    """Post a message to the coordinator; there is room for all that can be under way."""
    push(seat[{RESULTS}], seat[{CAPACITY}], kind + {KINDS} * seat[{INDEX}], a, b, c)
    wake(seat[{MAIN}])


@jit()
def give_about(seat, kind, a, b, c):
    """Post a message in the name of whoever it is about."""
    push(seat[{RESULTS}], seat[{CAPACITY}], kind + {KINDS} * seat[{ABOUT}], a, b, c)
    wake(seat[{MAIN}])


@jit()
def halted(seat):
    """Whether to stop, or to give the task up."""
    return load_acquire(seat[{FLAGS}], 0) != 0 or load_acquire(seat[{FLAGS}], 8) != 0


@jit()
def hand_over(seat):
    """Let the coordinator read the buffer, if anything is in it, and go on with the other."""
    filled = seat[{FILLED}]
    if filled == 0:
        return
    which = seat[{TURN}]
    store_release(seat[{TAKEN}], which, 1)
    seat[{TURN}] = 1 - which
    seat[{FOUND}] += filled
    seat[{FILLED}] = 0
    give(seat, {MATCHES}, which, filled, seat[{ABOUT}])


@jit()
def look(seat, task, order, count, until, state):
    """Call the kernel once; return how many matches it appended to the buffer, -1 on overflow."""
    which = seat[{TURN}]
    filled = seat[{FILLED}]
    room = seat[{ROOM}] - filled
    out_w = vector_at(seat[{BUFFERS} + 3 * which] + 8 * filled, room)
    out_i = vector_at(seat[{BUFFERS} + 3 * which + 1] + 8 * filled, room)
    out_j = vector_at(seat[{BUFFERS} + 3 * which + 2] + 8 * filled, room)
    items = task[{ITEMS}]
    if task[{KIND}] == {PAIRS}:
        table = table_at(task[{TABLE}], items, task[{TABLE_COLUMNS}])
        lengths = vector_at(task[{LENGTHS}], items)
        return call_scan(
            task[{KERNEL}], table, lengths, until, vector_at(task[{PAIR}], 64), count, out_w, out_i, out_j, state
        )
    found = call_box(
        task[{KERNEL}],
        table_at(task[{RUNS}], items, task[{RUN_COLUMNS}]),
        reals_at(task[{PARAMS}], items, 4),
        until,
        vector_at(task[{PROBE}], 64),
        vector_at(task[{SPANS}], 8),
        vector_at(order, count),
        count,
        table_at(seat[{WORK}], {GROUP}, 4),
        out_w,
        out_i,
        out_j,
        state,
    )
    if found > 0 and task[{RECHECK}] != 0:
        table = table_at(task[{TABLE}], items, task[{TABLE_COLUMNS}])
        return call_recheck(
            task[{RECHECK}],
            table,
            vector_at(task[{PAIR}], 64),
            out_w,
            out_i,
            out_j,
            found,
            vector_at(seat[{SCRATCH}] + 64, 8),
        )
    return found


@jit()
def begin(state, kind, run, order):
    """Set the state of a kernel to the beginning of ``run``."""
    state[0] = run
    if kind == {PAIRS}:
        state[1] = state[2] = order
    else:
        state[1] = 0
        state[2] = state[3] = -1


@jit()
def begin_task(seat, task, about):
    """Let a task be under way.

    The last matches of the one before stay in the buffer if they are about the same.
    """
    if seat[{ABOUT}] != about or seat[{ROOM}] - seat[{FILLED}] < fetch(task, {NEED}, np.int64):
        hand_over(seat)
    seat[{ABOUT}] = about
    seat[{NOW}] = task
    seat[{PHASE}] = 0
    seat[{FRESH}] = 1


@jit("int64(int64[::1])")
def step_task(seat):
    """Do a slice of the task that is under way: done, stuck, or more (3); given up or with a fault it is done, too.

    A task that was not done to its end leaves no matches behind.
    """
    task = vector_at(seat[{NOW}], 64)
    state = vector_at(seat[{SCRATCH}], 8)
    while True:
        if halted(seat):
            seat[{FILLED}] = 0
            return {STEP_DONE}
        if seat[{PHASE}] >= task[{PHASES}]:
            return {STEP_DONE}
        at = {WORDS} + {PHASE_WORDS} * seat[{PHASE}]
        first, last, order, count = task[at], task[at + 1], task[at + 2], task[at + 3]
        if seat[{FRESH}] != 0:
            begin(state, task[{KIND}], first, order)
            seat[{FRESH}] = 0
        if state[0] < last:
            break
        seat[{FRESH}] = 1
        seat[{PHASE}] += 1
    if seat[{FILLED}] == 0 and load_acquire(seat[{TAKEN}], seat[{TURN}]) != 0:
        return {STEP_STUCK}
    until = min(last, state[0] + task[{SLICE}])
    found = look(seat, task, order, count, until, state)
    if found < 0:
        fault = seat[{SCRATCH}] + (0 if task[{KIND}] == {PAIRS} else 64)
        seat[{FILLED}] = 0
        give_about(seat, {FAULT}, fetch(fault, 3, np.int64), fetch(fault, 4, np.int64), fetch(fault, 5, np.int64))
        return {STEP_DONE}
    seat[{FILLED}] += found
    if state[0] == until and until < last:
        begin(state, task[{KIND}], until, order)
    if seat[{ROOM}] - seat[{FILLED}] < task[{NEED}]:
        hand_over(seat)
    return 3


@jit()
def wait_at_random(seat):
    """Sleep a little, for tests of scheduling; return something random."""
    noise = np.uint64(seat[{NOISE}])
    if noise == np.uint64(0):
        noise = np.uint64(seat[{INDEX}] + 1) * np.uint64(0x9E3779B97F4A7C15)
    noise ^= noise << np.uint64(13)
    noise ^= noise >> np.uint64(7)
    noise ^= noise << np.uint64(17)
    seat[{NOISE}] = np.int64(noise)
    if noise & np.uint64(3) == np.uint64(0):
        usleep(np.int64((noise >> np.uint64(8)) % np.uint64(seat[{DELAY}])))
    return np.int64(noise >> np.uint64(40))


@jit("int64(int64, int64, int64, int64, int64, int64)")
def send(ring, capacity, event, kind, a, b):
    """Write a message for whoever sleeps on ``event``, and wake it; 0 if the ring is full."""
    if not push(ring, capacity, kind, a, b, 0):
        return 0
    wake(event)
    return 1


@jit("void(int64)")
def prepare(event):
    """Make an event of zeros ready to be slept on."""
    event_init(event)


@jit("void(int64)")
def rouse(event):
    """Wake whoever sleeps on ``event``."""
    wake(event)


@jit("void(int64, int64, int64)")
def publish(address, index, value):
    """Write a word that other threads read."""
    store_release(address, index, value)
'''


def crew_source() -> str:
    """Return the source of the loop, with the places of words filled in."""
    from crosswind.plan.physical import PROBE_GROUP

    words = {"GROUP": PROBE_GROUP, "WORDS": Task.WORDS}
    return filled_in(_SOURCE, [Message, Task, Seat], words | step_words())


def step_words() -> dict[str, int]:
    """Return the words that steps come back with, and how long is a long time."""
    return {"LONG": LONG} | {f"STEP_{name}": value for name, value in vars(Step).items() if isinstance(value, int)}


def filled_in(source: str, records: Sequence[type], words: Mapping[str, int]) -> str:
    """Return ``source`` with every ``{NAME}`` replaced by that word of ``records``, or of ``words``."""
    places: dict[str, int] = {}
    for record in records:
        places |= {name: value for name, value in vars(record).items() if isinstance(value, int)}
    for name, value in {**places, **words}.items():
        source = source.replace("{" + name + "}", str(value))
    return source
