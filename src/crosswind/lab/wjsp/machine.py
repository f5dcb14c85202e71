"""The processor, clock by clock (section 3.1, Figure 1; section 4, Figure 4).

The RIOU (routing and I/O unit) takes a tuple, an input or one that a join unit has returned, looks
up its tag in the join routing table, and in the same clock writes it to the window of its stream
(*insert* bit), hands it to the queries whose windows it fits (*query* bits: a result is in a window
if its greatest time is less than the window's length after its least), and gives it to the join units
it has to probe (*probe* bits), as soon as those are free. Returned tuples wait in a queue. The next
input is taken when everything that the last one led to is done.

A join unit goes through the tuples of its window. For each it takes a clock to read it, then one an
instruction of its program, up to NOP. A JOIN whose register is true returns a tuple; the RIOU takes
one a clock, and units that come too late repeat the instruction. Units take turns in being first.

A multi-core join unit is several of them with one stream: what probes, probes all; what is inserted goes
to one of them, in turn (the window control unit, a shift register in which one bit is set).

The paper gives clock rates and no clock counts; the counts above are our assumption. It does not say
whether the scan ends at the largest window or at the end of the buffer; here a unit holds as many
tuples as its share of the largest window. A comparison with a stream that the tuple does not hold is false.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crosswind.kernel.jit import jit

__all__ = [
    "CLOCK",
    "CODES",
    "FINISHED",
    "INSTRUCTIONS",
    "NEXT",
    "OUTPUT_FULL",
    "OVERRUN",
    "QUEUED",
    "QUEUE_FULL",
    "QUEUE_MOST",
    "RESULTS",
    "RUNNING",
    "STREAMS",
    "WAITED",
    "Machine",
    "advance",
]

_Ints = NDArray[np.int64]

STREAMS = 4
"""Streams that a word of WJSI can name."""

CODES = {"NOP": 0, "CMP": 1, "AND": 2, "OR": 3, "JMPLI": 4, "JMPCT": 5, "JMP": 6, "JOIN": 7}
"""Numbers of the instructions in the instruction memory, once decoded."""
_NOP, _CMP, _AND, _OR, _JMPLI, _JMPCT, _JMP, _JOIN = range(8)

CLOCK, NEXT, RESULTS, HEAD, QUEUED, QUEUE_MOST, OVERRUN, INSTRUCTIONS, WAITED = range(9)
"""Places of the counters: clock; input to come; results; first of the queue, its length, the most it was; tuples
overwritten while some window held them; instructions run; clocks that units waited for the RIOU."""

RUNNING, FINISHED, OUTPUT_FULL, QUEUE_FULL = range(4)

_IDLE, _READ, _RUN = range(3)
_STATE, _PLACE, _HELD, _AT, _MASK, _FILLED, _FREE = range(7)
_TAG, _LEAST, _GREATEST, _ROWS = 0, 1, 2, 3
_COMPARISONS = (1 << 16) - 1
_TRUE = 63


class Machine(NamedTuple):
    """Memories and registers of the processor, input and output."""

    unit_of: _Ints
    """Input: the join unit whose stream each tuple belongs to; its tag is the same number."""
    values: _Ints
    """Input: row, attribute."""
    times: _Ints
    program: _Ints
    """Instruction memories: unit, address, (instruction, up to four operands)."""
    insert: _Ints
    """Routing table: tag: whether tuples with it are inserted."""
    probe: _Ints
    """Routing table: tag, unit."""
    query: _Ints
    """Routing table: tag, query."""
    limit: _Ints
    """Length of each query's window in time; negative: what a unit holds is the window."""
    longest: _Ints
    """The longest window in time of each unit's stream, 0 for none."""
    core: _Ints
    """Join units: unit, core, (state, place, row held, address, registers, places filled, place to be written next)."""
    window: _Ints
    """Window buffers: unit, core, place: the row."""
    turn: _Ints
    """Window control units: the core whose bit is set."""
    probing: _Ints
    """The tuple in work at each unit: (tag, least time, greatest time, row of each stream or -1)."""
    queue: _Ints
    """Tuples returned, in the same form."""
    output: _Ints
    """Results: (query, row of each stream or -1, clock)."""
    done_at: _Ints
    """Clock at which all that an input led to was done."""
    counter: _Ints


@jit()
def _write(m: Machine, unit: int, row: int) -> None:
    """Insert a tuple into the core whose turn it is."""
    turn = m.turn[unit]
    filled, free = m.core[unit, turn, _FILLED], m.core[unit, turn, _FREE]
    places = m.window.shape[2]
    if filled == places:
        if m.times[row] - m.times[m.window[unit, turn, free]] < m.longest[unit]:
            m.counter[OVERRUN] += 1
    else:
        m.core[unit, turn, _FILLED] = filled + 1
    m.window[unit, turn, free] = row
    m.core[unit, turn, _FREE] = 0 if free + 1 == places else free + 1
    m.turn[unit] = 0 if turn + 1 == m.core.shape[1] else turn + 1


@jit()
def _put_out(m: Machine, one: int) -> None:
    """Give a tuple of the queue to the queries of its tag whose windows it fits."""
    tag, spread = m.queue[one, _TAG], m.queue[one, _GREATEST] - m.queue[one, _LEAST]
    for query in range(m.query.shape[1]):
        if m.query[tag, query] and (m.limit[query] < 0 or spread < m.limit[query]):
            at = m.counter[RESULTS]
            m.output[at, 0] = query
            for stream in range(STREAMS):
                m.output[at, 1 + stream] = m.queue[one, _ROWS + stream]
            m.output[at, 1 + STREAMS] = m.counter[CLOCK]
            m.counter[RESULTS] += 1


@jit()
def _start(m: Machine, one: int) -> None:
    """Give a tuple of the queue to the join units that it probes."""
    for unit in range(m.probe.shape[1]):
        if m.probe[m.queue[one, _TAG], unit]:
            for k in range(m.queue.shape[1]):
                m.probing[unit, k] = m.queue[one, k]
            for core in range(m.core.shape[1]):
                m.core[unit, core, _STATE], m.core[unit, core, _PLACE] = _READ, 0


@jit()
def _free(probe: _Ints, core: _Ints, tag: int) -> bool:
    """Whether all units that a tuple with this tag probes are idle."""
    free = True
    for unit in range(probe.shape[1]):
        if probe[tag, unit]:
            for k in range(core.shape[1]):
                free &= core[unit, k, _STATE] == _IDLE
    return free


@jit()
def _route(m: Machine) -> None:
    """Let the RIOU take the tuple that has waited longest."""
    _put_out(m, m.counter[HEAD])
    _start(m, m.counter[HEAD])
    m.counter[HEAD] = (m.counter[HEAD] + 1) % len(m.queue)
    m.counter[QUEUED] -= 1


@jit()
def _take(m: Machine) -> None:
    """Let the RIOU take the next input."""
    row = m.counter[NEXT]
    unit = m.unit_of[row]
    to = m.counter[HEAD]
    m.queue[to, _ROWS:] = -1
    m.queue[to, _TAG], m.queue[to, _ROWS + unit] = unit, row
    m.queue[to, _LEAST] = m.queue[to, _GREATEST] = m.times[row]
    _start(m, to)
    if m.insert[unit]:
        _write(m, unit, row)
    m.counter[NEXT] += 1


@jit()
def _compared(mine: int, op: int, other: int) -> bool:
    if op == 1:
        return mine == other
    if op == 2:
        return mine != other
    if op == 3:
        return mine < other
    if op == 4:
        return mine <= other
    if op == 5:
        return mine > other
    return op == 6 and mine >= other


@jit()
def _register(mask: int, register: int) -> bool:
    return register == _TRUE or mask >> register & 1 == 1


@jit()
def _return(probing: _Ints, unit: int, tag: int, held: int, time: int, queue: _Ints, counter: _Ints) -> None:
    """Put a joined tuple with its new tag into the queue of the RIOU."""
    to = (counter[HEAD] + counter[QUEUED]) % len(queue)
    for k in range(queue.shape[1]):
        queue[to, k] = probing[unit, k]
    queue[to, _TAG], queue[to, _ROWS + unit] = tag, held
    queue[to, _LEAST] = min(queue[to, _LEAST], time)
    queue[to, _GREATEST] = max(queue[to, _GREATEST], time)
    counter[QUEUED] += 1
    counter[QUEUE_MOST] = max(counter[QUEUE_MOST], counter[QUEUED])


@jit()
def _calculate(
    core: _Ints, program: _Ints, probing: _Ints, values: _Ints, unit: int, k: int, at: int, code: int
) -> None:
    """Run a CMP, AND or OR."""
    mask = core[unit, k, _MASK]
    if code == _CMP:
        stream, attribute = program[unit, at, 2] >> 2, program[unit, at, 2] & 3
        row, target = probing[unit, _ROWS + stream], program[unit, at, 4]
        outcome = False
        if row >= 0:
            own = values[core[unit, k, _HELD], program[unit, at, 1]]
            outcome = _compared(own, program[unit, at, 3], values[row, attribute])
    else:
        first, second = _register(mask, program[unit, at, 1]), _register(mask, program[unit, at, 2])
        target = program[unit, at, 3]
        outcome = (first and second) if code == _AND else (first or second)
    bit = np.int64(1) << target
    core[unit, k, _MASK] = mask | bit if outcome else mask & ~bit


@jit()
def _jump(core: _Ints, program: _Ints, probing: _Ints, unit: int, k: int, at: int, code: int) -> None:
    """Run a jump or NOP."""
    if code == _JMP or (code == _JMPLI and core[unit, k, _MASK] & _COMPARISONS == 0):
        core[unit, k, _AT] = program[unit, at, 1]
    elif code == _JMPCT and probing[unit, _TAG] != program[unit, at, 1]:
        core[unit, k, _AT] = program[unit, at, 2]
    elif code == _NOP:
        core[unit, k, _STATE] = _READ
        core[unit, k, _PLACE] += 1


@jit()
def _work(
    core: _Ints,
    window: _Ints,
    program: _Ints,
    values: _Ints,
    times: _Ints,
    probing: _Ints,
    queue: _Ints,
    counter: _Ints,
) -> bool:
    """Let every join unit do its clock; return whether one had work."""
    units, cores = core.shape[0], core.shape[1]
    unit, k = counter[CLOCK] % units, counter[CLOCK] % cores
    returned = busy = False
    for _ in range(units * cores):
        k += 1
        if k >= cores:
            k, unit = 0, unit + 1
            unit = 0 if unit >= units else unit
        if core[unit, k, _STATE] == _IDLE:
            continue
        busy = True
        if core[unit, k, _STATE] == _READ:
            if core[unit, k, _PLACE] == core[unit, k, _FILLED]:
                core[unit, k, _STATE] = _IDLE
            else:
                core[unit, k, _HELD] = window[unit, k, core[unit, k, _PLACE]]
                core[unit, k, _AT] = core[unit, k, _MASK] = 0
                core[unit, k, _STATE] = _RUN
            continue
        at = core[unit, k, _AT]
        code = program[unit, at, 0]
        if code == _JOIN and _register(core[unit, k, _MASK], program[unit, at, 1]):
            if returned:
                counter[WAITED] += 1
                continue
            held = core[unit, k, _HELD]
            _return(probing, unit, program[unit, at, 2], held, times[held], queue, counter)
            returned = True
        counter[INSTRUCTIONS] += 1
        core[unit, k, _AT] = at + 1
        if _CMP <= code <= _OR:
            _calculate(core, program, probing, values, unit, k, at, code)
        elif code != _JOIN:
            _jump(core, program, probing, unit, k, at, code)
    return busy


@jit()
def advance(m: Machine, clocks: int, warm: int) -> int:
    """Let the clock tick, at most ``clocks`` times.

    Parameters
    ----------
    m : Machine
        Changed in place.
    clocks : int
        How often.
    warm : int
        Inputs before this one only fill windows, in no time.

    Returns
    -------
    int
        ``FINISHED``: all input is done; ``OUTPUT_FULL``, ``QUEUE_FULL``: there is no room to go on; ``RUNNING``.
    """
    # Taken out of the record: passing it on in every clock would cost more than the clock.
    core, window, program, values, times = m.core, m.window, m.program, m.values, m.times
    probe, probing, queue, counter = m.probe, m.probing, m.queue, m.counter
    while counter[NEXT] < min(warm, len(times)):
        _write(m, m.unit_of[counter[NEXT]], counter[NEXT])
        counter[NEXT] += 1
    for _ in range(clocks):
        if counter[RESULTS] + len(m.limit) > len(m.output):
            return OUTPUT_FULL
        if counter[QUEUED] == len(queue):
            return QUEUE_FULL
        waiting = counter[QUEUED] > 0
        free = waiting and _free(probe, core, queue[counter[HEAD], _TAG])
        busy = _work(core, window, program, values, times, probing, queue, counter)
        if waiting:
            if free:
                _route(m)
        elif not busy:
            if counter[NEXT] > warm:
                m.done_at[counter[NEXT] - 1] = counter[CLOCK]
            if counter[NEXT] == len(times):
                return FINISHED
            _take(m)
        counter[CLOCK] += 1
    return RUNNING
