"""The loop of a worker: it takes notices from its rings, does its task, and posts what it finds.

One loop serves every query: kernels are called by address. A worker's *seat* is a record
of words that says which rings, buffers and events are its own; a *notice* has a
horizon (of which window, and which), then the address of a task for every worker that
it passes, and is handed on before the task is begun (DP-Join §III-D2). Matches go to one
of two buffers, and while the coordinator reads that one the worker goes on in the other
(CellJoin §4.3).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from crosswind.kernel.jit import load_source

__all__ = ["Message", "Seat", "Task", "address_of", "crew_kernels", "crew_source", "filled_in"]


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
    WORDS = 64


class Task:
    """Words of a task; phases follow: first run, last, and which probes (address and count, or first and end)."""

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
    BOX, PAIRS = 1, 2


class Message:
    """Kinds of messages: notices to workers, and what workers post."""

    TASK = 1
    MATCHES, DONE, FAULT = 1, 2, 3
    KINDS = 16


_SOURCE = '''"""The loop of a worker."""

import numpy as np

from crosswind.kernel.jit import jit
from crosswind.kernel.ring import call_box, call_recheck, call_scan, event_init, load_acquire, move, nanoseconds
from crosswind.kernel.ring import pop, push, reals_at, rest, store_release, table_at, usleep, vector_at, wake
from crosswind.kernel.runtime import fetch


@jit()
def give(seat, kind, a, b, c):
    """Post a message to the coordinator; there is room for all that can be under way."""
    push(seat[{RESULTS}], seat[{CAPACITY}], kind + {KINDS} * seat[{INDEX}], a, b, c)
    wake(seat[{MAIN}])


@jit()
def halted(seat):
    """Whether to stop, or to give the task up."""
    return load_acquire(seat[{FLAGS}], 0) != 0 or load_acquire(seat[{FLAGS}], 8) != 0


@jit()
def free_buffer(seat):
    """Wait for the next buffer; -1 if there is no more use for it."""
    turn = 0
    while not halted(seat):
        which = seat[{TURN}]
        if load_acquire(seat[{TAKEN}], which) == 0:
            return which
        turn = rest(seat[{EVENT}], turn, seat[{SPINS}])
    return np.int64(-1)


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


@jit("int64(int64[::1], int64[::1], int64)")
def run_task(seat, task, about):
    """Do a task, in slices so that it can be given up; 0 if it was done to its end.

    The last matches stay in the buffer; they are handed over with the next that are about something else.
    """
    state = vector_at(seat[{SCRATCH}], 8)
    if seat[{ABOUT}] != about or seat[{ROOM}] - seat[{FILLED}] < task[{NEED}]:
        hand_over(seat)
    seat[{ABOUT}] = about
    for phase in range(task[{PHASES}]):
        at = {WORDS} + 4 * phase
        last, order, count = task[at + 1], task[at + 2], task[at + 3]
        begin(state, task[{KIND}], task[at], order)
        while state[0] < last:
            if seat[{FILLED}] == 0 and free_buffer(seat) < 0:
                return 1
            if halted(seat):
                return 1
            until = min(last, state[0] + task[{SLICE}])
            found = look(seat, task, order, count, until, state)
            if found < 0:
                fault = seat[{SCRATCH}] + (0 if task[{KIND}] == {PAIRS} else 64)
                give(seat, {FAULT}, fetch(fault, 3, np.int64), fetch(fault, 4, np.int64), fetch(fault, 5, np.int64))
                return 1
            seat[{FILLED}] += found
            if state[0] == until and until < last:
                begin(state, task[{KIND}], until, order)
            if seat[{ROOM}] - seat[{FILLED}] < task[{NEED}]:
                hand_over(seat)
    return 0


@jit("int64(int64[::1])")
def work(seat):
    """Serve until told to stop (0), or until a message cannot be understood (its kind)."""
    message = seat[{SCRATCH}] + 128
    clock = seat[{SCRATCH}] + 192
    noise = np.uint64(seat[{INDEX}] + 1) * np.uint64(0x9E3779B97F4A7C15)
    turn = 0
    while True:
        lane = -1
        if pop(seat[{IN}], seat[{CAPACITY}], message):
            lane = 0
        elif seat[{IN} + 1] != 0 and pop(seat[{IN} + 1], seat[{CAPACITY}], message):
            lane = 1
        elif load_acquire(seat[{FLAGS}], 0) != 0:
            return 0
        if lane < 0:
            turn = rest(seat[{EVENT}], turn, seat[{SPINS}])
            continue
        turn = 0
        kind = fetch(message, 0, np.int64)
        notice = fetch(message, 1, np.int64)
        if kind != {TASK}:
            return kind
        if seat[{DELAY}] > 0:
            noise ^= noise << np.uint64(13)
            noise ^= noise >> np.uint64(7)
            noise ^= noise << np.uint64(17)
            usleep(np.int64(noise % np.uint64(seat[{DELAY}])))
        if seat[{OUT} + lane] != 0:
            push(seat[{OUT} + lane], seat[{CAPACITY}], kind, notice, 0, 0)
            wake(seat[{NEXT} + lane])
        began = nanoseconds(clock)
        task = fetch(notice, 2 + seat[{INDEX}], np.int64)
        if task != 0:
            if run_task(seat, vector_at(task, 64), 0) != 0:
                seat[{FILLED}] = 0
            hand_over(seat)
        unit = fetch(notice, 0, np.int64)
        if unit >= 0:
            store_release(seat[{SEEN}], unit, fetch(notice, 1, np.int64))
        seat[{BUSY}] += nanoseconds(clock) - began
        seat[{TASKS}] += 1
        give(seat, {DONE}, 0, 0, 0)


@jit("int64(int64, int64, int64, int64, int64, int64)")
def send(ring, capacity, event, kind, a, b):
    """Write a message for whoever sleeps on ``event``, and wake it; 0 if the ring is full."""
    if not push(ring, capacity, kind, a, b, 0):
        return 0
    wake(event)
    return 1


@jit("int64(int64, int64, int64, int64, int64, int64)")
def collect(tree, count, capacity, event, spins, out):
    """Merge what workers have posted, and read one message; 0 if nothing came for a while.

    A tree of mergers with two inputs and one output each, bounded buffers between them
    (FPGA paper, section IV-C): node k takes from nodes 2k and 2k + 1, the leaves are the
    rings of the workers, and the root is what is read.
    """
    turn = 0
    naps = 0
    while naps < 2:
        for node in range(count - 1, 0, -1):
            target = fetch(tree, node, np.int64)
            move(fetch(tree, 2 * node, np.int64), target, capacity, out)
            move(fetch(tree, 2 * node + 1, np.int64), target, capacity, out)
        if pop(fetch(tree, 1, np.int64), capacity, out):
            return 1
        before = turn
        turn = rest(event, turn, spins)
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

    words = {"GROUP": PROBE_GROUP, "WORDS": Task.WORDS}
    return filled_in(_SOURCE, [Message, Seat, Task], words)


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
