"""Rings between threads: bounded, first in, first out."""

from __future__ import annotations

import numpy as np

from crosswind.kernel.compiled.ring import MESSAGE, RING_HEAD, move, pop, push

CAPACITY = 4


def ring() -> np.ndarray:
    return np.zeros(RING_HEAD + MESSAGE * CAPACITY + 8, dtype=np.int64)


def test_a_full_ring_takes_nothing_and_loses_nothing():
    memory, out = ring(), np.zeros(MESSAGE, dtype=np.int64)
    at, to = memory.ctypes.data, out.ctypes.data
    assert not pop(at, CAPACITY, to)
    sent = taken = 0
    for _ in range(3):  # around the end of the memory
        while push(at, CAPACITY, sent, sent + 1, sent + 2, sent + 3):
            sent += 1
        assert sent - taken == CAPACITY
        for _ in range(3):
            assert pop(at, CAPACITY, to)
            assert out.tolist() == [taken, taken + 1, taken + 2, taken + 3]
            taken += 1
    assert memory[RING_HEAD + MESSAGE * CAPACITY :].tolist() == [0] * 8, "nothing is written beyond it"


def test_a_message_is_moved_only_where_there_is_room():
    one, other, out = ring(), ring(), np.zeros(MESSAGE, dtype=np.int64)
    source, target, to = (memory.ctypes.data for memory in (one, other, out))
    assert not move(source, target, CAPACITY, to)
    for k in range(CAPACITY):
        assert push(target, CAPACITY, k, 0, 0, 0)
    assert push(source, CAPACITY, 99, 0, 0, 0)
    assert not move(source, target, CAPACITY, to)
    assert pop(target, CAPACITY, to)
    assert move(source, target, CAPACITY, to)
    found = []
    while pop(target, CAPACITY, to):
        found.append(int(out[0]))
    assert found == [1, 2, 3, 99]
