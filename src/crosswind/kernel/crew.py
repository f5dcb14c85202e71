"""The loop of a worker: it takes notices from its rings, does its task, and posts what it finds.

One loop serves every query: kernels are called by address. A worker's *seat* is a record
of words that says which rings, buffers and events are its own; a *notice* has a
horizon (of which window, and which), then the address of a task for every worker that
it passes, and is handed on before the task is begun (DP-Join §III-D2). Matches go to one
of two buffers, and while the coordinator reads that one the worker goes on in the other
(CellJoin §4.3).

Work goes in steps: a step is a slice of a task, or what begins or ends one, and never
waits. Threads run steps until they are told to stop. The coordinator runs those of the
first seat while it waits for the others: as many threads work as there are workers, and
nobody who has work is kept from a core by somebody who waits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from crosswind.kernel.jit import load_source

__all__ = ["Message", "Seat", "Task", "address_of", "crew_kernels", "crew_source", "filled_in", "step_words"]


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
    SEEN = 28
    """Address of two words: the latest horizon seen of each window."""
    FILLED = 29
    ABOUT = 30
    """Matches in the buffer that is being filled, and a word on whose they are."""
    NOW = 31
    """Address of the task that is under way (0: none); then its phase, whether more of that is to be begun, and how
    far what was begun goes."""
    PHASE, FRESH, UNTIL = 53, 54, 57
    FIRST = 65
    """Address of the task that was begun with."""
    NOTICE = 55
    """Address of the notice that the task came with."""
    NOISE = 56
    WORDS = 72


LONG = 100_000_000
"""Nanoseconds after which the coordinator looks for what Python has for it, such as Ctrl-C."""


class Step:
    """What came of a step: nothing to do, done, a buffer is missing; anything less than 0: minus an unknown kind."""

    IDLE, DONE, STUCK = 0, 1, 2


class Task:
    """Words of a task; phases follow: first run, last, which probes (address and count, or first and end), cursor.

    A cursor is the address of a word that all who have the same phase share: the next run that nobody has taken.
    Without one (0) the phase is its worker's alone.
    """

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
    NEXT = 16
    """Address of the task to go on with (0: none), until it is the one that was begun with."""
    ABOUT = 17
    """A word on whose matches these are."""
    WORDS = 18
    PHASE_WORDS = 5
    BOX, PAIRS = 1, 2


class Message:
    """Kinds of messages: notices to workers, and what workers post."""

    TASK = 1
    MATCHES, DONE, FAULT = 1, 2, 3
    KINDS = 16


_SOURCE = '''"""The loop of a worker."""

import numpy as np

from crosswind.kernel.jit import jit
from crosswind.kernel.ring import add_atomic, call_box, call_recheck, call_scan, event_init, load_acquire, move
from crosswind.kernel.ring import nanoseconds, pop, push, reals_at, rest, store_release, table_at, usleep, vector_at
from crosswind.kernel.ring import wake
from crosswind.kernel.runtime import fetch


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


@jit()
def next_task(seat):
    """Go on with the next task of the ring, if there is one that has not been gone through."""
    task = fetch(seat[{NOW}], {NEXT_TASK}, np.int64)
    if task == 0 or task == seat[{FIRST}]:
        return False
    begin_task(seat, task, fetch(task, {ABOUT_TASK}, np.int64))
    return True


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
            return 3 if next_task(seat) else {STEP_DONE}
        at = {WORDS} + {PHASE_WORDS} * seat[{PHASE}]
        first, last, order, count, cursor = task[at], task[at + 1], task[at + 2], task[at + 3], task[at + 4]
        if seat[{FRESH}] != 0:
            if cursor != 0:
                first = add_atomic(cursor, 0, task[{SLICE}])
                last = min(last, first + task[{SLICE}])
            begin(state, task[{KIND}], first, order)
            seat[{FRESH}] = 0
            seat[{UNTIL}] = last
            if first >= last:
                seat[{PHASE}] += 1
                seat[{FRESH}] = 1
                continue
        last = seat[{UNTIL}]
        if state[0] < last:
            break
        seat[{FRESH}] = 1
        if cursor == 0:
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


@jit()
def take_notice(seat):
    """Take a notice, hand it on, and begin the task in it; idle if there is none."""
    message = seat[{SCRATCH}] + 128
    lane = -1
    if pop(seat[{IN}], seat[{CAPACITY}], message):
        lane = 0
    elif seat[{IN} + 1] != 0 and pop(seat[{IN} + 1], seat[{CAPACITY}], message):
        lane = 1
    if lane < 0:
        return np.int64({STEP_IDLE})
    kind = fetch(message, 0, np.int64)
    if kind != {TASK}:
        return -kind
    if seat[{DELAY}] > 0:
        wait_at_random(seat)
    notice = fetch(message, 1, np.int64)
    if seat[{OUT} + lane] != 0:
        push(seat[{OUT} + lane], seat[{CAPACITY}], kind, notice, 0, 0)
        wake(seat[{NEXT} + lane])
    seat[{NOTICE}] = notice
    task = fetch(notice, 2 + seat[{INDEX}], np.int64)
    seat[{NOW}] = 0
    seat[{FIRST}] = task
    if task != 0:
        begin_task(seat, task, fetch(task, {ABOUT_TASK}, np.int64))
    return np.int64({STEP_DONE})


@jit("int64(int64[::1])")
def step(seat):
    """Take a notice, or do a slice of its task; after the last one say what has been seen, and that it is done."""
    if seat[{NOTICE}] == 0:
        return take_notice(seat)
    if seat[{NOW}] != 0:
        began = nanoseconds(seat[{SCRATCH}] + 192)
        code = step_task(seat)
        seat[{BUSY}] += nanoseconds(seat[{SCRATCH}] + 192) - began
        if code != {STEP_DONE}:
            return np.int64({STEP_DONE}) if code == 3 else code
        hand_over(seat)
    unit = fetch(seat[{NOTICE}], 0, np.int64)
    if unit >= 0:
        store_release(seat[{SEEN}], unit, fetch(seat[{NOTICE}], 1, np.int64))
    seat[{NOTICE}] = 0
    seat[{NOW}] = 0
    seat[{TASKS}] += 1
    give(seat, {DONE}, 0, 0, 0)
    return np.int64({STEP_DONE})


@jit("int64(int64[::1])")
def work(seat):
    """Serve until told to stop (0), or until a message cannot be understood (its kind)."""
    turn = 0
    while True:
        code = step(seat)
        if code < 0:
            return -code
        if code == {STEP_DONE}:
            turn = 0
            continue
        if code == {STEP_IDLE} and load_acquire(seat[{FLAGS}], 0) != 0:
            return 0
        turn = rest(seat[{EVENT}], turn, seat[{SPINS}])


@jit("int64(int64, int64, int64, int64, int64, int64)")
def send(ring, capacity, event, kind, a, b):
    """Write a message for whoever sleeps on ``event``, and wake it; 0 if the ring is full."""
    if not push(ring, capacity, kind, a, b, 0):
        return 0
    wake(event)
    return 1


@jit("int64(int64[::1], int64, int64, int64, int64, int64)")
def collect(seat, tree, count, capacity, spins, out):
    """Merge what workers have posted, and read one message; 0 if nothing came for a while.

    Meanwhile the steps of ``seat`` are done; less than 0: minus the kind of a message that it did not understand.

    A tree of mergers with two inputs and one output each, bounded buffers between them
    (FPGA paper, section IV-C): node k takes from nodes 2k and 2k + 1, the leaves are the
    rings of the workers, and the root is what is read.
    """
    turn = 0
    naps = 0
    began = nanoseconds(seat[{SCRATCH}] + 192)
    while naps < 2:
        for node in range(count - 1, 0, -1):
            target = fetch(tree, node, np.int64)
            move(fetch(tree, 2 * node, np.int64), target, capacity, out)
            move(fetch(tree, 2 * node + 1, np.int64), target, capacity, out)
        if pop(fetch(tree, 1, np.int64), capacity, out):
            return 1
        code = step(seat)
        if code < 0:
            return code
        if code == {STEP_DONE}:
            turn = 0
            if nanoseconds(seat[{SCRATCH}] + 192) - began > {LONG}:
                return 0
            continue
        before = turn
        turn = rest(seat[{MAIN}], turn, spins)
        if turn < before:
            naps += 1
    return 0


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

    words = {"GROUP": PROBE_GROUP, "WORDS": Task.WORDS, "NEXT_TASK": Task.NEXT, "ABOUT_TASK": Task.ABOUT}
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


@lru_cache(maxsize=1)
def crew_kernels() -> Any:
    """Return the compiled functions of the loop."""
    return load_source(crew_source())


def address_of(kernel: Callable[..., int]) -> int:
    """Return where a compiled kernel can be called from other compiled code."""
    overloads: dict[Any, Any] = kernel.overloads  # type: ignore[attr-defined]
    compiled = next(iter(overloads.values()))
    return int(compiled.library.get_pointer_to_function(compiled.fndesc.llvm_cfunc_wrapper_name))
