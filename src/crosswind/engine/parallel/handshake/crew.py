"""A crew: threads that run the loop of :mod:`crosswind.kernel.compiled.crew`, and the one that hands them work.

The rings, buffers and events of all workers lie in one piece of memory. Every wait has an
end: workers look for the stop flag whenever they wake, between any two slices of a task
and before any buffer; the coordinator returns to Python a few times a second, so that
Ctrl-C is heard and a worker that has died is noticed.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from crosswind.engine.parallel.placement import pin
from crosswind.engine.strategy import Shift
from crosswind.errors import WorkerError
from crosswind.kernel.compiled.crew import prepare, publish, rouse, send
from crosswind.kernel.compiled.ring import EVENT_WORDS, MESSAGE, RING_HEAD
from crosswind.kernel.jit import Kernel
from crosswind.kernel.records import MESSAGE_KINDS, SEAT
from crosswind.plan.physical import PROBE_GROUP
from crosswind.window.vector import address

__all__ = ["Crew", "Posted", "cores"]

_CAPACITY = 64
"""Messages in a ring."""

_STOP_S = 10.0
"""How long a worker may take to stop; a slice of a task takes far less."""

_Words = npt.NDArray[np.int64]


class Posted(NamedTuple):
    """What a worker has posted: its kind, by whom, and three words."""

    kind: int
    worker: int
    a: int
    b: int
    c: int


class Crew:
    """Workers, and what they share.

    Parameters
    ----------
    name : str
        Of the engine, for names of threads and in errors.
    count : int
        Workers.
    room : int
        Matches in each of a worker's two buffers.
    lanes : sequence of sequence of (int, int)
        Chains of workers, each with the side (0 or 1) on which the lane enters it: what is
        sent into a lane goes from its first worker to its last.
    loop : Kernel
        The compiled loop that workers run, each with the address of its seat.
    wait : Kernel
        What waits for the workers, and does the steps of the first.
    """

    def __init__(
        self,
        name: str,
        count: int,
        room: int,
        lanes: Sequence[Sequence[tuple[int, int]]],
        loop: Kernel,
        wait: Kernel,
    ) -> None:
        self.count = count
        self._name, self._loop, self._wait = name, loop.compiled, wait.compiled
        ring = RING_HEAD + MESSAGE * _CAPACITY
        self._memory = _Memory((6 * (room + 8) + 8 * ring + 4096) * count + 1024)
        take = self._memory.take
        self.flags = take(16)
        self.main = take(EVENT_WORDS)
        self._out = take(8)
        self.seats = [take(SEAT.itemsize // 8).view(SEAT).reshape(()) for _ in range(count)]
        self._events = [self.main, *(take(EVENT_WORDS) for _ in range(count - 1))]
        spins = 300 if count <= cores() else 20
        for index, seat in enumerate(self.seats):
            seat["index"], seat["capacity"], seat["spins"] = index, _CAPACITY, spins
            seat["flags"], seat["main"] = address(self.flags), address(self.main)
            seat["event"] = address(self._events[index])
            seat["room"] = room
            seat["buffers"] = [address(take(room)) for _ in range(6)]
            seat["taken"] = address(take(16))
            seat["scratch"] = address(take(64))
            seat["work"] = address(take(4 * PROBE_GROUP))
        for event in self._events:
            prepare(address(event))
        self._tree = take(2 * count + 2)
        for node in range(1, 2 * count):
            self._tree[node] = address(take(ring))
            if node >= count:
                self.seats[node - count]["results"] = self._tree[node]
        self._heads = [self._link(lane, ring) for lane in lanes]
        self._mouth = (address(self.seats[0]), address(self._tree), count, _CAPACITY, spins, address(self._out))
        self._failures: list[str] = []
        self._threads: list[threading.Thread] = []
        self._started = 0
        for _ in range(2):  # an interrupt may fall into one of them, and nobody would try again
            weakref.finalize(self, _stop, self.flags, self._events)

    def _link(self, lane: Sequence[tuple[int, int]], ring: int) -> tuple[int, int]:
        """Put rings between the workers of a lane, and one before the first; return that one and its event."""
        head = (0, 0)
        before: tuple[int, int] | None = None
        for worker, side in lane:
            place, event = address(self._memory.take(ring)), address(self._events[worker])
            self.seats[worker]["inbox"][side] = place
            if before is None:
                head = (place, event)
            else:
                self.seats[before[0]]["outbox"][before[1]] = place
                self.seats[before[0]]["next"][before[1]] = event
            before = (worker, side)
        return head

    # -- handing out and taking in -------------------------------------------

    def start(self, count: int) -> None:
        """Let the first ``count`` workers begin; harmless if they have. The first is the caller itself."""
        for index in range(1 + len(self._threads), count):
            thread = threading.Thread(
                target=_serve,
                args=(self._loop, self.seats[index], index, self._name, self._failures, self.main),
                name=f"crosswind-{self._name}-{index}",
                daemon=True,
            )
            self._threads.append(thread)
        for thread in self._threads[self._started : count - 1]:
            if thread.ident is None:
                thread.start()
            self._started += 1

    def send(self, lane: int, kind: int, a: int, b: int = 0) -> None:
        """Send a message into a lane; wait while its ring is full."""
        while not self.try_send(lane, kind, a, b):
            self.check()
            time.sleep(1e-4)

    def try_send(self, lane: int, kind: int, a: int, b: int = 0) -> bool:
        """Send a message into a lane; False if its ring is full."""
        ring, event = self._heads[lane]
        return bool(send(ring, _CAPACITY, event, kind, a, b))

    def post_or_quiet(self, counts: int, driven: int) -> Posted | bool:
        """Wait for what workers post; True if no message is under way any more, False if neither for a while.

        ``counts`` is the address of the addresses of their counters, ``driven`` the number
        of messages that came from outside.
        """
        got = self._wait(*self._mouth, counts, driven)
        self._check_own(got)
        self.check()
        return self._read() if got == 1 else bool(got)

    def _check_own(self, got: int) -> None:
        if got < 0:
            self._failures.append(_unknown(0, self._name, -got))
            self.check()

    def _read(self) -> Posted:
        kind, a, b, c = (int(value) for value in self._out[:4])
        return Posted(kind % MESSAGE_KINDS, kind // MESSAGE_KINDS, a, b, c)

    def matches(self, worker: int, which: int, count: int) -> tuple[_Words, _Words, _Words]:
        """Return what is in a buffer of a worker, until it is given back."""
        buffers = self.seats[worker]["buffers"][3 * which : 3 * which + 3]
        out_w, out_i, out_j = (self._memory.at(int(at), count) for at in buffers)
        return out_w, out_i, out_j

    def give_back(self, worker: int, which: int) -> None:
        """Let a worker use its buffer again."""
        seat = self.seats[worker]
        publish(int(seat["taken"]), which, 0)
        rouse(int(seat["event"]))

    def take(self, words: int) -> _Words:
        """Return memory that lives as long as the crew."""
        return self._memory.take(words)

    def words(self, place: int, count: int) -> _Words:
        """Return the words at an address in the crew's memory."""
        return self._memory.at(place, count)

    def fail(self, why: str) -> None:
        """Note that the crew cannot go on."""
        self._failures.append(f"engine '{self._name}': {why}")

    def check(self) -> None:
        """Raise WorkerError if a worker has died."""
        if self._failures:
            raise WorkerError(f"{self._failures[0]} The join cannot go on; open it again, from its last snapshot.")

    @property
    def alive(self) -> int:
        """How many threads are running."""
        return sum(thread.is_alive() for thread in self._threads)

    def shifts(self) -> Iterator[Shift]:
        """Yield what each worker has done so far."""
        for seat in self.seats:
            yield Shift(int(seat["busy"]) / 1e9, int(seat["tasks"]), int(seat["found"]))

    def stop(self) -> None:
        """Let the workers end and wait for them; harmless if they have."""
        _stop(self.flags, self._events)
        until = time.monotonic() + _STOP_S
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(max(0.0, until - time.monotonic()))


def cores() -> int:
    """Return how many cores this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def _serve(
    loop: Callable[[int], int],
    seat: npt.NDArray[np.void],
    index: int,
    name: str,
    failures: list[str],
    main: _Words,
) -> None:
    """Run a worker's loop. It refers to nothing that would keep the crew alive."""
    pin(index)
    try:
        code = loop(address(seat))
        if code:
            failures.append(_unknown(index, name, code))
    except BaseException as error:
        failures.append(f"worker {index} of engine '{name}' stopped: {type(error).__name__}: {error}.")
    finally:
        rouse(address(main))


def _unknown(index: int, name: str, kind: int) -> str:
    return f"worker {index} of engine '{name}' stopped: it got a message of unknown kind {kind}."


def _stop(flags: _Words, events: list[_Words]) -> None:
    publish(address(flags), 0, 1)
    for event in events:
        rouse(address(event))


class _Memory:
    """One piece of words, cut up on cache lines."""

    def __init__(self, words: int) -> None:
        self._whole = np.zeros(words + 8, dtype=np.int64)
        self._used = (-(address(self._whole) // 8)) % 8

    def take(self, words: int) -> _Words:
        """Return that many words that nobody else has."""
        part = self._whole[self._used : self._used + words]
        if len(part) < words:
            raise MemoryError("the memory of a crew was planned too small")
        self._used += (words + 7) // 8 * 8
        return part

    def at(self, place: int, count: int) -> _Words:
        """Return the words at an address."""
        first = (place - address(self._whole)) // 8
        return self._whole[first : first + count]
