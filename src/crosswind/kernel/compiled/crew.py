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

import numpy as np

from crosswind.kernel.compiled.ring import (
    call_box,
    call_recheck,
    call_scan,
    event_init,
    load_acquire,
    push,
    reals_at,
    record_at,
    store_release,
    table_at,
    usleep,
    vector_at,
    wake,
)
from crosswind.kernel.compiled.runtime import fetch
from crosswind.kernel.jit import jit
from crosswind.kernel.records import (
    MESSAGE_FAULT,
    MESSAGE_KINDS,
    MESSAGE_MATCHES,
    PHASE,
    PHASE_BYTES,
    STEP_DONE,
    STEP_MORE,
    STEP_STUCK,
    TASK,
    TASK_BYTES,
    TASK_PAIRS,
    TASK_WORDS,
)
from crosswind.plan.physical import PROBE_GROUP

__all__ = [
    "begin",
    "begin_task",
    "give",
    "give_about",
    "halted",
    "hand_over",
    "look",
    "prepare",
    "publish",
    "rouse",
    "send",
    "step_task",
    "wait_at_random",
]


@jit()
def give(seat, kind, a, b, c):
    """Post a message to the coordinator; there is room for all that can be under way."""
    push(seat.results, seat.capacity, kind + MESSAGE_KINDS * seat.index, a, b, c)
    wake(seat.main)


@jit()
def give_about(seat, kind, a, b, c):
    """Post a message in the name of whoever it is about."""
    push(seat.results, seat.capacity, kind + MESSAGE_KINDS * seat.about, a, b, c)
    wake(seat.main)


@jit()
def halted(seat):
    """Whether to stop, or to give the task up."""
    return load_acquire(seat.flags, 0) != 0 or load_acquire(seat.flags, 8) != 0


@jit()
def hand_over(seat):
    """Let the coordinator read the buffer, if anything is in it, and go on with the other."""
    filled = seat.filled
    if filled == 0:
        return
    which = seat.turn
    store_release(seat.taken, which, 1)
    seat.turn = 1 - which
    seat.found += filled
    seat.filled = 0
    give(seat, MESSAGE_MATCHES, which, filled, seat.about)


@jit()
def look(seat, task, order, count, until, state):
    """Call the kernel once; return how many matches it appended to the buffer, -1 on overflow."""
    which = seat.turn
    filled = seat.filled
    room = seat.room - filled
    out_w = vector_at(seat.buffers[3 * which] + 8 * filled, room)
    out_i = vector_at(seat.buffers[3 * which + 1] + 8 * filled, room)
    out_j = vector_at(seat.buffers[3 * which + 2] + 8 * filled, room)
    items = task.items
    if task.kind == TASK_PAIRS:
        table = table_at(task.table, items, task.table_columns)
        lengths = vector_at(task.lengths, items)
        return call_scan(
            task.kernel, table, lengths, until, vector_at(task.pair, TASK_WORDS), count, out_w, out_i, out_j, state
        )
    found = call_box(
        task.kernel,
        table_at(task.runs, items, task.run_columns),
        reals_at(task.params, items, 4),
        until,
        vector_at(task.probe, TASK_WORDS),
        vector_at(task.spans, 8),
        vector_at(order, count),
        count,
        table_at(seat.work, PROBE_GROUP, 4),
        out_w,
        out_i,
        out_j,
        state,
    )
    if found > 0 and task.recheck != 0:
        table = table_at(task.table, items, task.table_columns)
        return call_recheck(
            task.recheck,
            table,
            vector_at(task.pair, TASK_WORDS),
            out_w,
            out_i,
            out_j,
            found,
            vector_at(seat.scratch + 64, 8),
        )
    return found


@jit()
def begin(state, kind, run, order):
    """Set the state of a kernel to the beginning of ``run``."""
    state[0] = run
    if kind == TASK_PAIRS:
        state[1] = state[2] = order
    else:
        state[1] = 0
        state[2] = state[3] = -1


@jit()
def begin_task(seat, task, about):
    """Let a task be under way.

    The last matches of the one before stay in the buffer if they are about the same.
    """
    if seat.about != about or seat.room - seat.filled < record_at(task, TASK).need:
        hand_over(seat)
    seat.about = about
    seat.now = task
    seat.phase = 0
    seat.fresh = 1


@jit()
def step_task(seat):
    """Do a slice of the task that is under way: done, stuck, or more; given up or with a fault it is done, too.

    A task that was not done to its end leaves no matches behind.
    """
    task = record_at(seat.now, TASK)
    state = vector_at(seat.scratch, 8)
    while True:
        if halted(seat):
            seat.filled = 0
            return STEP_DONE
        if seat.phase >= task.phases:
            return STEP_DONE
        phase = record_at(seat.now + TASK_BYTES + PHASE_BYTES * seat.phase, PHASE)
        first, last, order, count = phase.first, phase.last, phase.order, phase.count
        if seat.fresh != 0:
            begin(state, task.kind, first, order)
            seat.fresh = 0
        if state[0] < last:
            break
        seat.fresh = 1
        seat.phase += 1
    if seat.filled == 0 and load_acquire(seat.taken, seat.turn) != 0:
        return STEP_STUCK
    until = min(last, state[0] + task.slice)
    found = look(seat, task, order, count, until, state)
    if found < 0:
        fault = seat.scratch + (0 if task.kind == TASK_PAIRS else 64)
        seat.filled = 0
        give_about(seat, MESSAGE_FAULT, fetch(fault, 3, np.int64), fetch(fault, 4, np.int64), fetch(fault, 5, np.int64))
        return STEP_DONE
    seat.filled += found
    if state[0] == until and until < last:
        begin(state, task.kind, until, order)
    if seat.room - seat.filled < task.need:
        hand_over(seat)
    return STEP_MORE


@jit()
def wait_at_random(seat):
    """Sleep a little, for tests of scheduling; return something random."""
    noise = np.uint64(seat.noise)
    if noise == np.uint64(0):
        noise = np.uint64(seat.index + 1) * np.uint64(0x9E3779B97F4A7C15)
    noise ^= noise << np.uint64(13)
    noise ^= noise >> np.uint64(7)
    noise ^= noise << np.uint64(17)
    seat.noise = np.int64(noise)
    if noise & np.uint64(3) == np.uint64(0):
        usleep(np.int64((noise >> np.uint64(8)) % np.uint64(seat.delay)))
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
