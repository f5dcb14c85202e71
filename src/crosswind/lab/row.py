"""A row of workers, simulated: :mod:`crosswind.engine.parallel.handshake.engine`, event by event.

Every message is played: chunks of tuples enter at both ends, a worker that gets one compares it with what it holds of
the other stream, acknowledges (from the right), and forwards the oldest chunks when it has more than its neighbour
(Handshake Join, sections 3.5, 4.2 and 4.3). A worker that takes a message is busy with that for its time. What
it does not do is compare: a comparison only takes its time. Chunks are cut as the engine cuts them.
So it can be asked about more workers than the machine has cores.
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass, field
from functools import lru_cache

from crosswind.engine.parallel.handshake.engine import chunk_tuples
from crosswind.lab.costs import Costs

__all__ = ["SimulatedRow", "push_ns", "row_rate"]

_R, _S, _ACK = 0, 1, 2


@dataclass
class _Worker:
    """Chunks of each stream that are here, messages that wait, and when it is free again."""

    held: list[int]
    unacknowledged: int
    inbox: tuple[deque[tuple[float, int]], deque[tuple[float, int]]]
    free_at: float = 0.0
    busy: float = 0.0
    side: int = 0
    coming: list[int] = field(default_factory=lambda: [0, 0, 0])
    """Messages in its inboxes, by kind."""


class SimulatedRow:
    """Workers whose windows are full, and spread as they are when tuples have been forwarded for long.

    Parameters
    ----------
    workers : int
        How many.
    window : float
        Tuples in each window.
    chunk : int
        Tuples in a chunk.
    costs : Costs
        What things take.
    """

    def __init__(self, workers: int, window: float, chunk: int, costs: Costs) -> None:
        # A worker forwards when it has more than one chunk more than its neighbour: so windows that have been full
        # for long go down by one chunk from worker to worker.
        least = max(0, round(window / chunk / workers - (workers - 1) / 2))
        slope = [least + workers - 1 - k for k in range(workers)]
        self._workers = [_Worker([r, s], 0, (deque(), deque())) for r, s in zip(slope, reversed(slope), strict=True)]
        self._pair_s = costs.pair_ns * 1e-9 * chunk * chunk
        self._hop_s = costs.hop_ns * 1e-9
        self._events: list[tuple[float, int]] = []
        self.now = 0.0
        self.done: list[float] = []

    def feed(self, stream: int, count: int, at: float) -> None:
        """Let ``count`` chunks of a stream come at its end of the row."""
        end = 0 if stream == _R else len(self._workers) - 1
        for _ in range(count):
            self._send(end, stream, stream, at)

    def expire(self, stream: int, count: int) -> None:
        """Let ``count`` chunks go at the other end."""
        end = len(self._workers) - 1 if stream == _R else 0
        worker = self._workers[end]
        worker.held[stream] = max(0, worker.held[stream] - count)

    def run(self) -> float:
        """Play until no message is under way; return when that is."""
        while self._events:
            self.now, at = heapq.heappop(self._events)
            self._serve(at)
        return self.now

    def busy(self) -> list[float]:
        """Return the seconds that each worker has worked."""
        return [worker.busy for worker in self._workers]

    def _send(self, to: int, side: int, kind: int, at: float) -> None:
        """Put a message into the inbox of a worker: from the left (side 0) or from the right."""
        self._workers[to].inbox[side].append((at, kind))
        self._workers[to].coming[kind] += 1
        heapq.heappush(self._events, (max(at, self._workers[to].free_at), to))

    def _serve(self, at: int) -> None:
        """Take one message from either side in turn, if the worker is free and one is there."""
        worker = self._workers[at]
        if worker.free_at > self.now:
            heapq.heappush(self._events, (worker.free_at, at))
            return
        for side in (worker.side, 1 - worker.side):
            box = worker.inbox[side]
            if box and box[0][0] <= self.now:
                _, kind = box.popleft()
                worker.coming[kind] -= 1
                worker.side = 1 - side
                self._handle(at, worker, kind)
                return

    def _handle(self, at: int, worker: _Worker, kind: int) -> None:
        taken = self._hop_s  # to take the message, whatever it brings
        if kind == _ACK:
            worker.unacknowledged -= 1
        else:
            other = 1 - kind
            facing = worker.held[other] + (worker.unacknowledged if other == _S else 0)
            taken += self._pair_s * facing
            worker.held[kind] += 1
        worker.busy += taken
        worker.free_at = done = self.now + taken
        if kind == _S and at < len(self._workers) - 1:
            self._send(at + 1, 0, _ACK, done)
        if kind != _ACK and at == (len(self._workers) - 1 if kind == _R else 0):
            self.done.append(done)
        self._forward(at, worker, done)

    def _forward(self, at: int, worker: _Worker, when: float) -> None:
        """Send the oldest chunks on while the neighbour has fewer."""
        for stream, to in ((_R, at + 1), (_S, at - 1)):
            if not 0 <= to < len(self._workers):
                continue
            next_one = self._workers[to]
            while worker.held[stream] > next_one.held[stream] + next_one.coming[stream] + 1:
                worker.held[stream] -= 1
                if stream == _S:
                    worker.unacknowledged += 1
                self._send(to, stream, stream, when)


def push_ns(workers: int, window: float, batch: int, costs: Costs) -> float:
    """Return what a ``push`` of ``batch`` tuples takes this engine, which returns when no message is under way."""
    chunk = chunk_tuples(batch, workers)
    chunks = -(-batch // chunk)
    row = SimulatedRow(workers, window, chunk, costs)
    ends = []
    for turn in range(6):  # the streams in turn; the first pushes set the row in motion
        stream, began = turn % 2, row.now
        row.feed(stream, chunks, began)
        row.expire(stream, chunks)
        row.run()
        ends.append(row.now - began)
    return (ends[4] + ends[5]) / 2 * 1e9 + costs.push_ns + costs.tuple_ns * batch


def _streamed_ns(workers: int, window: float, costs: Costs) -> float:
    """Return what a tuple takes when both streams come without end, and nobody waits for quiet, as in the paper."""
    chunk, turns = chunk_tuples(1, workers), 40
    row = SimulatedRow(workers, window, chunk, costs)
    for _ in range(turns):
        for stream in (_R, _S):
            row.feed(stream, 1, 0.0)
            row.expire(stream, 1)
    row.run()
    busiest = max(row.busy()) / (2 * turns * chunk)
    return max(busiest * 1e9, costs.tuple_ns)


@lru_cache(maxsize=256)
def row_rate(workers: int, window_s: float, costs: Costs, tick: float | None) -> float:
    """Return the tuples/s of each stream that a row sustains.

    Parameters
    ----------
    workers : int
        How many stand in the row.
    window_s : float
        Length of both windows, seconds.
    costs : Costs
        What things take.
    tick : float, optional
        Event time in a push, seconds; None: both streams come without end.
    """
    rate = (1e9 * workers / (2 * window_s * costs.pair_ns)) ** 0.5
    for _ in range(8):
        if tick is None:
            taken = _streamed_ns(workers, rate * window_s, costs)
        else:
            batch = max(1, round(rate * tick))
            taken = push_ns(workers, rate * window_s, batch, costs) / batch
        utilisation = 2 * rate * taken * 1e-9
        if abs(utilisation - 1) < 0.02:
            break
        rate /= utilisation**0.5
    return float(rate)
