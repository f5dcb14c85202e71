"""Every interleaving of a small Handshake Join, explored.

The model is the protocol alone: what a worker does with a message, and what it may send.
It is written from the paper's figures 9, 12 and 13, without any of the engine's code. Every
order in which workers can take messages and forward tuples is followed, and at every end
each pair must have met exactly once. A model without acknowledgments must fail.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

R, S = "r", "s"


@dataclass(frozen=True)
class Worker:
    """Tuples of each stream that are here; of S also those that were sent and not acknowledged."""

    r: tuple[int, ...] = ()
    s: tuple[int, ...] = ()
    sent: tuple[int, ...] = ()


@dataclass(frozen=True)
class State:
    """Workers, what is in the FIFOs into each from the left and from the right, and who has met."""

    workers: tuple[Worker, ...]
    left: tuple[tuple[tuple[str, int], ...], ...]
    right: tuple[tuple[tuple[str, int], ...], ...]
    fed: tuple[int, int]
    met: frozenset[tuple[int, int]]


class DoubledPairError(Exception):
    """A pair has met twice."""


def put(items: tuple, at: int, item: object) -> tuple:
    return (*items[:at], item, *items[at + 1 :])


def meet(state: State, pairs: list[tuple[int, int]]) -> State:
    for pair in pairs:
        if pair in state.met:
            raise DoubledPairError(pair)
    return replace(state, met=state.met | set(pairs))


def send(state: State, side: str, worker: int, message: tuple[str, int]) -> State:
    """Put a message into the FIFO of ``worker`` from its left or right; beyond the row it is lost."""
    if not 0 <= worker < len(state.workers):
        return state
    queues = state.left if side == "left" else state.right
    queues = put(queues, worker, (*queues[worker], message))
    return replace(state, left=queues) if side == "left" else replace(state, right=queues)


def process_left(state: State, k: int) -> State:
    (kind, value), rest = state.left[k][0], state.left[k][1:]
    me = state.workers[k]
    state = replace(state, left=put(state.left, k, rest))
    if kind == R:
        state = meet(state, [(value, s) for s in (*me.sent, *me.s)])
        me = replace(me, r=(*me.r, value))
    elif kind == "ack":
        assert me.sent[0] == value, "acknowledgments come in the order of what they are for"
        me = replace(me, sent=me.sent[1:])
    elif kind == "expire":
        me = replace(me, s=tuple(s for s in me.s if s > value))
    return replace(state, workers=put(state.workers, k, me))


def process_right(state: State, k: int, acknowledged: bool) -> State:
    (kind, value), rest = state.right[k][0], state.right[k][1:]
    me = state.workers[k]
    state = replace(state, right=put(state.right, k, rest))
    if kind == S:
        state = meet(state, [(r, value) for r in me.r])
        me = replace(me, s=(*me.s, value))
        if acknowledged:
            state = send(state, "left", k + 1, ("ack", value))
    elif kind == "expire":
        me = replace(me, r=tuple(r for r in me.r if r > value))
    return replace(state, workers=put(state.workers, k, me))


def forward_r(state: State, k: int) -> State:
    me = state.workers[k]
    state = replace(state, workers=put(state.workers, k, replace(me, r=me.r[1:])))
    return send(state, "left", k + 1, (R, me.r[0]))


def forward_s(state: State, k: int, acknowledged: bool) -> State:
    me = state.workers[k]
    sent = (*me.sent, me.s[0]) if acknowledged else me.sent
    state = replace(state, workers=put(state.workers, k, replace(me, s=me.s[1:], sent=sent)))
    return send(state, "right", k - 1, (S, me.s[0]))


def successors(state: State, tuples: tuple[int, int], acknowledged: bool) -> list[State]:
    """Return every state that one step of anybody leads to: driver, messages, forwarding whenever it likes."""
    last = len(state.workers) - 1
    found = []
    if state.fed[0] < tuples[0]:
        fed = replace(state, fed=(state.fed[0] + 1, state.fed[1]))
        found.append(send(fed, "left", 0, (R, state.fed[0])))
    if state.fed[1] < tuples[1]:
        fed = replace(state, fed=(state.fed[0], state.fed[1] + 1))
        found.append(send(fed, "right", last, (S, state.fed[1])))
    for k, me in enumerate(state.workers):
        if state.left[k]:
            found.append(process_left(state, k))
        if state.right[k]:
            found.append(process_right(state, k, acknowledged))
        if me.r and k < last:
            found.append(forward_r(state, k))
        if me.s and k > 0:
            found.append(forward_s(state, k, acknowledged))
    return found


def explore(workers: int, tuples: tuple[int, int], acknowledged: bool = True) -> tuple[int, list[State]]:
    """Follow every interleaving; return how many states there are, and those where nothing more can happen."""
    start = State((Worker(),) * workers, ((),) * workers, ((),) * workers, (0, 0), frozenset())
    seen, waiting, ends = {start}, [start], []
    while waiting:
        state = waiting.pop()
        following = successors(state, tuples, acknowledged)
        if not following:
            ends.append(state)
        for one in following:
            if one not in seen:
                seen.add(one)
                waiting.append(one)
    return len(seen), ends


@pytest.mark.parametrize(("workers", "tuples"), [(1, (3, 3)), (2, (2, 2)), (2, (3, 2)), (2, (2, 3)), (3, (2, 2))])
def test_no_interleaving_misses_or_doubles_a_pair(workers, tuples):
    states, ends = explore(workers, tuples)
    everybody = {(r, s) for r in range(tuples[0]) for s in range(tuples[1])}
    assert ends
    assert states > 20
    for end in ends:
        assert end.met == everybody
        assert not any(worker.sent for worker in end.workers)


def test_without_acknowledgments_pairs_are_missed():
    _, ends = explore(2, (1, 1), acknowledged=False)
    assert {end.met for end in ends} == {frozenset(), frozenset({(0, 0)})}


def test_tuples_of_one_stream_keep_their_order():
    """What a worker holds is a stretch: the engine names it by two numbers."""
    start = State((Worker(),) * 2, ((),) * 2, ((),) * 2, (0, 0), frozenset())
    seen, waiting = {start}, [start]
    while waiting:
        for one in successors(waiting.pop(), (3, 2), True):
            if one not in seen:
                seen.add(one)
                waiting.append(one)
                for worker in one.workers:
                    for held in (worker.r, (*worker.sent, *worker.s)):
                        assert list(held) == list(range(held[0], held[0] + len(held))) if held else True


@pytest.mark.parametrize("early", [R, S])
def test_what_has_expired_is_not_missed_by_those_who_came_before(early):
    """The driver sends an expiry behind the data of the other stream, so who was there first is met (figure 12)."""
    start = State((Worker(),) * 2, ((),) * 2, ((),) * 2, (0, 0), frozenset())
    both = send(send(start, "left", 0, (R, 0)), "right", 1, (S, 0))
    both = send(both, "right", 1, ("expire", 0)) if early == R else send(both, "left", 0, ("expire", 0))
    both = replace(both, fed=(1, 1))
    seen, waiting, ends = {both}, [both], []
    while waiting:
        state = waiting.pop()
        following = successors(state, (1, 1), True)
        if not following:
            ends.append(state)
        for one in following:
            if one not in seen:
                seen.add(one)
                waiting.append(one)
    assert all(end.met == {(0, 0)} for end in ends)
