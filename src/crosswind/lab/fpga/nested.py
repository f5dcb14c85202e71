"""The nested-loop join that the circuit is compared with (section V-C, after Terada et al.).

Both windows lie in memory as rings. Two matching processes work at the same time: one
compares a new tuple of R with the window of S, the other a new tuple of S with the window of
R, one pair a clock each. Results wait in a FIFO a process; the output port takes one a clock,
from both in turn; a process whose FIFO is full waits. The paper estimates this design rather than
building it and gives no more detail. Assumed here: an arrival costs the same four clocks as in
the states 1 to 4 of a join core, the loops run over tuples that are there and not over empty
places, and the FIFOs have eight places like those of a join core.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crosswind.kernel.jit import jit
from crosswind.lab.fpga.join import ChipArrivals, ChipOutcome

__all__ = ["run_nested"]

_Ints = NDArray[np.int64]
_BUFFER = 8
_LOADING = 4
_R, _S = 0, 1
_CLOCK, _RESULTS, _COMPARED, _WAITED = range(4)


def run_nested(arrivals: ChipArrivals, window: int = 512) -> ChipOutcome:
    """Run the nested-loop join until everything is put out.

    Parameters
    ----------
    arrivals : ChipArrivals
        What comes in; it waits in the input buffer until it is taken.
    window : int
        Tuples of a window.
    """
    here = np.stack([arrivals.r_here, arrivals.s_here], 1)
    keys = np.stack([arrivals.r, arrivals.s], 1)
    taken_at = np.full(len(keys), -1, np.int64)
    room = 1 + _pairs(keys, here, window)
    output, count = np.zeros((room, 3), np.int64), np.zeros(4, np.int64)
    _nested(
        keys, here, np.zeros((2, window, 2), np.int64), np.zeros((2, _BUFFER, 2), np.int64), taken_at, output, count
    )
    return ChipOutcome(
        results=output[: count[_RESULTS]],
        taken_at=taken_at,
        tuples=int(np.count_nonzero(here)),
        dropped=0,
        clocks=int(count[_CLOCK]),
        compared=int(count[_COMPARED]),
        suspended=int(count[_WAITED]),
        lost=0,
    )


def _pairs(keys: _Ints, here: NDArray[np.bool_], window: int) -> int:
    """Return an upper bound of the results."""
    present = [keys[here[:, stream], stream] for stream in (_R, _S)]
    counts = [dict(zip(*np.unique(values, return_counts=True), strict=True)) for values in present]
    met = sum(int(counts[_R][key]) * int(counts[_S].get(key, 0)) for key in counts[_R])
    return min(met, window * sum(len(values) for values in present))


@jit()
def _output(fifo: _Ints, head: _Ints, filled: _Ints, output: _Ints, count: _Ints) -> None:
    """Let the output port take a result, from the processes in turn."""
    turn = count[_CLOCK] % 2
    process = turn if filled[turn] > 0 else 1 - turn
    if filled[process] > 0:
        at = count[_RESULTS]
        output[at, 0], output[at, 1] = fifo[process, head[process], _R], fifo[process, head[process], _S]
        output[at, 2] = count[_CLOCK]
        count[_RESULTS] += 1
        head[process] = (head[process] + 1) % _BUFFER
        filled[process] -= 1


@jit()
def _insert(window: _Ints, arrived: _Ints, stream: int, key: int, row: int) -> None:
    place = arrived[stream] % window.shape[1]
    window[stream, place, 0], window[stream, place, 1] = key, row
    arrived[stream] += 1


@jit()
def _nested(
    keys: _Ints, here: NDArray[np.bool_], window: _Ints, fifo: _Ints, taken_at: _Ints, output: _Ints, count: _Ints
) -> None:
    size = window.shape[1]
    head, filled = np.zeros(2, np.int64), np.zeros(2, np.int64)
    arrived, held = np.zeros(2, np.int64), np.zeros(2, np.int64)
    for row in range(len(keys)):
        taken_at[row] = count[_CLOCK]
        for _ in range(_LOADING):
            _output(fifo, head, filled, output, count)
            count[_CLOCK] += 1
        # R comes first: the new tuple of S meets the new one of R, which is in its window by then.
        if here[row, _R]:
            _insert(window, arrived, _R, keys[row, _R], row)
        held[_R], held[_S] = min(arrived[_R], size), min(arrived[_S], size)
        at = np.zeros(2, np.int64)
        while (here[row, _R] and at[_R] < held[_S]) or (here[row, _S] and at[_S] < held[_R]):
            _output(fifo, head, filled, output, count)
            for new in range(2):
                other = 1 - new
                if not here[row, new] or at[new] >= held[other]:
                    continue
                if filled[new] == _BUFFER:
                    count[_WAITED] += 1
                    continue
                count[_COMPARED] += 1
                if window[other, at[new], 0] == keys[row, new]:
                    place = (head[new] + filled[new]) % _BUFFER
                    fifo[new, place, new], fifo[new, place, other] = row, window[other, at[new], 1]
                    filled[new] += 1
                at[new] += 1
            count[_CLOCK] += 1
        if here[row, _S]:
            _insert(window, arrived, _S, keys[row, _S], row)
    while filled.sum() > 0:
        _output(fifo, head, filled, output, count)
        count[_CLOCK] += 1
