"""The handshake join as a circuit, clock by clock (sections IV-A to IV-D).

Join cores stand in a row. Each holds a segment of both windows as shift registers whose
places carry a valid flag; tuples of R enter at core 0, those of S at the last core. A new
tuple of a stream shifts the whole window of that stream by one place: every core takes over
the oldest tuple of its neighbour and compares it, one place a clock, with its segment of the
other window (the *immediate scan strategy*). Results wait in the FIFO of their core. Mergers,
each two in and one out, carry them down a perfect binary tree to the output port.

States of a join core (Figure 4)::

    0 reset -> 1 ready -> 2 read ports -> 3 fill input registers -> 4 new R? -yes-> 5 shift R, scan S
                 ^                                                  | no            | complete
                 |                                                  v               v
                 +--- complete -- 7 shift S, scan R <-yes- 6 new S? <---------------+
                 +------------------------------------ no -+

States of a merger (Figure 6): ``0 reset -> 1 read both ports -> 2 store port 1 -> 3 store port 2 -> 1``.

What the paper leaves open, and what is assumed here: every state takes one clock, states 5 and
7 take one for each place of the segment, the shift happening in the first of them; a *full* flag
rises when fewer than two places of a FIFO are left (a merger may still have two tuples to store);
the output port takes one result a clock; a number of cores that is no power of two leaves ports
of the tree open. A value written in one clock is seen in the next. Since both ends of every
FIFO belong to nodes of one tree, visiting the output port, then mergers from the root down, then
cores gives exactly that without a second copy of the state.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crosswind.kernel.jit import jit

__all__ = [
    "BUBBLE",
    "CLOCK",
    "COMPARED",
    "CURRENT",
    "DROPPED",
    "FINISHED",
    "LOST",
    "MATCHED",
    "NEXT",
    "NOTHING",
    "OUTPUT_FULL",
    "RESULTS",
    "RUNNING",
    "SUSPENDED",
    "TUPLE",
    "Circuit",
    "advance",
    "built",
]

_Ints = NDArray[np.int64]

NOTHING, TUPLE, BUBBLE = 0, 1, 2
"""What a port shows: nothing, a tuple, or a tuple whose valid flag is 0, which only moves the others on."""

CLOCK, NEXT, CURRENT, EXPECTED, DROPPED, COMPARED, MATCHED, RESULTS, SUSPENDED, LOST = range(10)
"""Places of the counters: clock; arrival to come, arrival in work, clock of the next one; tuples dropped; pairs
compared, pairs that matched, results put out; clocks in which all cores stood still; results that found no place."""

RUNNING, FINISHED, OUTPUT_FULL = 0, 1, 2

_R, _S = 0, 1
_KEY, _ROW, _VALID = 0, 1, 2
_STATE, _PLACE = 0, 1
_HEAD, _FILLED, _DEPTH, _FULL = 0, 1, 2, 3


class Circuit(NamedTuple):
    """All registers and memories of the join, and the input and output buffers around it.

    FIFOs are numbered like the nodes of a heap: mergers from 1, the root, upwards; the children of merger m are
    2m and 2m + 1; the cores are the leaves.
    """

    shown: _Ints
    """Input buffer: arrival, stream: what the port shows."""
    keys: _Ints
    """Input buffer: arrival, stream: the key."""
    taken_at: _Ints
    """Clock at which an arrival was taken in; -1 as long as it was not."""
    window: _Ints
    """Shift registers: core, stream, place (0: the newest), (key, arrival, valid flag)."""
    inlet: _Ints
    """Input registers: core, stream, (key, arrival, valid flag)."""
    core: _Ints
    """(state, place that is compared next), core."""
    merger: _Ints
    """State of a merger."""
    register: _Ints
    """Input registers: merger, port, (arrival of R, arrival of S, valid flag)."""
    fifo: _Ints
    """FIFOs: node, place, (arrival of R, arrival of S)."""
    queue: _Ints
    """FIFOs: (head, places filled, depth, full flag), node."""
    output: _Ints
    """Output buffer: (arrival of R, arrival of S, clock)."""
    counter: _Ints


def built(shown: _Ints, keys: _Ints, cores: int, segment: int, buffers: tuple[int, int], room: int) -> Circuit:
    """Return a circuit in reset, with its input buffer filled.

    Parameters
    ----------
    shown, keys : array
        What the ports of R and S show at each arrival.
    cores, segment : int
        Join cores, and places of each window in one.
    buffers : pair of int
        Places in the FIFO of a core and of a merger.
    room : int
        Places of the output buffer.
    """

    def ints(*shape: int) -> _Ints:
        return np.zeros(shape, np.int64)

    ports = max(2, 1 << (cores - 1).bit_length())
    queue = ints(4, 2 * ports)
    queue[_DEPTH, 1:ports], queue[_DEPTH, ports:] = buffers[1], buffers[0]
    count = ints(10)
    count[EXPECTED] = 1  # the clock after the reset
    return Circuit(
        shown=np.ascontiguousarray(shown, np.int64),
        keys=np.ascontiguousarray(keys, np.int64),
        taken_at=np.full(len(shown), -1, np.int64),
        window=ints(cores, 2, segment, 3),
        inlet=ints(cores, 2, 3),
        core=ints(2, cores),
        merger=ints(ports),
        register=ints(ports, 2, 3),
        fifo=ints(2 * ports, max(buffers), 2),
        queue=queue,
        output=ints(room, 3),
        counter=count,
    )


@jit()
def _push(fifo: _Ints, queue: _Ints, count: _Ints, node: int, r: int, s: int) -> None:
    if queue[_FILLED, node] == queue[_DEPTH, node]:
        count[LOST] += 1
        return
    place = queue[_HEAD, node] + queue[_FILLED, node]
    place -= queue[_DEPTH, node] if place >= queue[_DEPTH, node] else 0
    fifo[node, place, _R] = r
    fifo[node, place, _S] = s
    queue[_FILLED, node] += 1


@jit()
def _pop(queue: _Ints, node: int) -> None:
    head = queue[_HEAD, node] + 1
    queue[_HEAD, node] = 0 if head == queue[_DEPTH, node] else head
    queue[_FILLED, node] -= 1


@jit()
def _raise_flags(queue: _Ints) -> bool:
    """Set the full flags; return whether one is up."""
    some = False
    for node in range(1, queue.shape[1]):
        full = queue[_FILLED, node] > queue[_DEPTH, node] - 2
        queue[_FULL, node] = full
        some |= full
    return some


@jit()
def _put_out(fifo: _Ints, queue: _Ints, output: _Ints, count: _Ints) -> None:
    """Let the output port take what the root has."""
    if queue[_FILLED, 1] > 0:
        at, head = count[RESULTS], queue[_HEAD, 1]
        output[at, 0], output[at, 1], output[at, 2] = fifo[1, head, _R], fifo[1, head, _S], count[CLOCK]
        count[RESULTS] += 1
        _pop(queue, 1)


@jit()
def _merge(merger: _Ints, register: _Ints, fifo: _Ints, queue: _Ints, count: _Ints) -> None:
    for m in range(1, len(merger)):
        state = merger[m]
        if state == 1:
            for port in range(2):
                child = 2 * m + port
                # The second rule of admission control: a merger that is full keeps its ports shut.
                register[m, port, _VALID] = queue[_FILLED, child] > 0 and not queue[_FULL, m]
                if register[m, port, _VALID]:
                    register[m, port, _R] = fifo[child, queue[_HEAD, child], _R]
                    register[m, port, _S] = fifo[child, queue[_HEAD, child], _S]
                    _pop(queue, child)
        elif state > 1 and register[m, state - 2, _VALID]:
            _push(fifo, queue, count, m, register[m, state - 2, _R], register[m, state - 2, _S])
            register[m, state - 2, _VALID] = 0
        merger[m] = 1 if state == 3 else state + 1


@jit()
def _fill_registers(window: _Ints, inlet: _Ints, keys: _Ints, shown: _Ints, row: int, k: int) -> None:
    """Take over what the neighbours of core ``k``, or the ports, show: state 3."""
    oldest = window.shape[2] - 1
    for stream in range(2):
        if k == (0 if stream == _R else len(window) - 1):
            inlet[k, stream, _KEY] = keys[row, stream]
            inlet[k, stream, _ROW] = row
            inlet[k, stream, _VALID] = shown[row, stream] == TUPLE
        else:
            neighbour = k - 1 if stream == _R else k + 1
            for field in range(3):
                inlet[k, stream, field] = window[neighbour, stream, oldest, field]


@jit()
def _scan(window: _Ints, inlet: _Ints, core: _Ints, fifo: _Ints, queue: _Ints, count: _Ints, k: int) -> bool:
    """Shift a window of core ``k``, or compare with the next place of the other; return whether it was the last."""
    place = core[_PLACE, k]
    mine, other = (_R, _S) if core[_STATE, k] == 5 else (_S, _R)
    if place == 0:
        for field in range(3):
            for to in range(window.shape[2] - 1, 0, -1):
                window[k, mine, to, field] = window[k, mine, to - 1, field]
            window[k, mine, 0, field] = inlet[k, mine, field]
    if inlet[k, mine, _VALID] and window[k, other, place, _VALID]:
        count[COMPARED] += 1
        if inlet[k, mine, _KEY] == window[k, other, place, _KEY]:
            count[MATCHED] += 1
            new, held = inlet[k, mine, _ROW], window[k, other, place, _ROW]
            node = queue.shape[1] // 2 + k
            _push(fifo, queue, count, node, new if mine == _R else held, held if mine == _R else new)
    last = place + 1 == window.shape[2]
    core[_PLACE, k] = 0 if last else place + 1
    return last  # type: ignore[no-any-return]


@jit()
def _step(c: Circuit) -> None:
    """Let every core do what its state asks for; it leaves state 1 when an arrival is admitted."""
    # Taken out of the record: passing it on for every core would cost more than what the core does.
    window, inlet, core, fifo, queue, count = c.window, c.inlet, c.core, c.fifo, c.queue, c.counter
    shown, keys = c.shown, c.keys
    row, ports = count[CURRENT], queue.shape[1] // 2
    for k in range(core.shape[1]):
        state = core[_STATE, k]
        if state == 5 or state == 7:
            # With ``alone`` others may go on. A core stands still only here, where it makes results, so that all
            # still read their neighbours in the same clock.
            if not queue[_FULL, ports + k] and _scan(window, inlet, core, fifo, queue, count, k):
                core[_STATE, k] = 6 if state == 5 else 1
        elif state == 0 or state == 2:
            core[_STATE, k] = state + 1
        elif state == 3:
            _fill_registers(window, inlet, keys, shown, row, k)
            core[_STATE, k] = 4
        elif state == 4:
            core[_STATE, k] = 5 if shown[row, _R] != NOTHING else 6
        elif state == 6:
            core[_STATE, k] = 7 if shown[row, _S] != NOTHING else 1


@jit()
def _admit(c: Circuit, ready: bool, live: int, interval: int) -> None:
    """Take the next arrival in, or, where arrivals do not wait and this one is due, drop it."""
    row = c.counter[NEXT]
    waits = interval == 0 or row >= live
    if row == len(c.keys) or (waits and not ready) or (not waits and c.counter[CLOCK] < c.counter[EXPECTED]):
        return
    if ready:
        c.core[_STATE, :] = 2
        c.counter[CURRENT] = row
        c.taken_at[row] = c.counter[CLOCK]
    else:
        c.counter[DROPPED] += (c.shown[row, _R] == TUPLE) + (c.shown[row, _S] == TUPLE)
    c.counter[NEXT] += 1
    c.counter[EXPECTED] += interval


@jit()
def _all_ready(core: _Ints) -> bool:
    ready = True
    for k in range(core.shape[1]):
        ready &= core[_STATE, k] == 1
    return ready


@jit()
def advance(c: Circuit, clocks: int, live: int, interval: int, alone: bool) -> int:
    """Let the clock tick, at most ``clocks`` times.

    Parameters
    ----------
    c : Circuit
        Changed in place.
    clocks : int
        How often.
    live : int
        Arrivals from this one on wait until they are taken in, whatever the interval.
    interval : int
        Clocks between arrivals; what comes while the join is busy is dropped. 0: arrivals wait in the input buffer.
    alone : bool
        A full FIFO of a core holds up that core only. Otherwise, as in the paper, any that is full holds up all.

    Returns
    -------
    int
        ``FINISHED``: everything is taken in and put out; ``OUTPUT_FULL``: there is no place for results; ``RUNNING``.
    """
    count, queue = c.counter, c.queue
    for _ in range(clocks):
        ready = _all_ready(c.core)
        if ready and count[NEXT] == len(c.keys) and count[RESULTS] == count[MATCHED] - count[LOST]:
            return FINISHED
        if count[RESULTS] == len(c.output):
            return OUTPUT_FULL
        some = _raise_flags(queue)
        _put_out(c.fifo, queue, c.output, count)
        _merge(c.merger, c.register, c.fifo, queue, count)
        if alone or not some:
            _step(c)
        else:
            count[SUSPENDED] += 1
        _admit(c, ready and (alone or not some), live, interval)
        count[CLOCK] += 1
    return RUNNING
