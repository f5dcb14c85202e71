"""Handshake Join: two streams walk past each other along a row of workers (Handshake Join §3, §4).

The driver, which is the caller of ``push``, feeds the first stream at the left end and the
second at the right end, and tells each *other* end what has expired (§4.4, figure 12).
Workers compare what arrives with what they hold (§3.5), forward what is too much compared
with their neighbour (§4.3), and keep what they have sent to the left until that is
acknowledged, so that tuples which pass each other on the way still meet, once (§4.2).

Tuples meet when they pass each other, so results come late: a pair whose members entered
at opposite ends meets when the streams have moved on by up to a window. ``finish`` lets
all of them pass. Where results must come at once (hurried: :mod:`crosswind.engine.parallel.pool`) the
tuples are hurried ahead.

A worker forwards its oldest chunk when it holds at least two chunks more than its neighbour: with a difference of one
it would be the neighbour's turn to have more, and the chunk would be sent for nothing. So windows that have been full
for long go down by one chunk from worker to worker.

Where we deviate: messages carry chunks of tuples, by number, and all workers read the
same windows; tuples that have expired before they reached the end of the row are sent
there; and a call returns when no message is under way, so that windows are arranged and
released while nobody reads them; what is about to expire does not count when neighbours
compare what they hold, so that others are sent on while it is still met. The caller is the
first worker of the row as well as its driver.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from crosswind.engine.ingest.intake import Intake
from crosswind.engine.parallel.handshake.crew import Crew
from crosswind.engine.parallel.handshake.search import ChunkProber, ChunkSearch
from crosswind.engine.parallel.handshake.window import ChunkedWindow
from crosswind.engine.probe.index import Index
from crosswind.engine.strategy import AtOnce, Combinations, DeferredMatches, Matches, Shift
from crosswind.kernel.compiled.handshake import await_quiet, shake
from crosswind.kernel.records import (
    BOARD,
    SIGNAL_DATA,
    SIGNAL_EXPIRE,
    SIGNAL_FLUSH,
    SIGNAL_HURRY,
    TASK_PAIRS,
    TASK_WORDS,
)
from crosswind.plan.compile import Plan
from crosswind.window.arrival import Release
from crosswind.window.block import Block, concat_blocks
from crosswind.window.join_window import JoinWindow
from crosswind.window.vector import address

__all__ = ["Handshake", "chunk_tuples"]

BATCH = 64
"""Tuples of both streams that are gathered before they are sent on their way: so both ends of the row have work."""

_BATCHES = 64
"""As many times that of one stream do not wait for the other."""

_PART = 64
"""A part of a window, one of so many, may have expired before it is sent off."""


_CHUNKS_A_WORKER = 8
"""A large batch is cut into about as many chunks a worker: all of the row can work at a time."""

_CHUNK_MIN, _CHUNK_SCANNED, _CHUNK_MAX = 32, 128, 1_024
"""Tuples in a chunk, where windows are scanned, and at most: the last workers of a row wait for the first ones as long
as these take for one."""

_ROOM = 1 << 15
"""Matches in a buffer."""


def chunk_tuples(batch: int, workers: int, most: int = _CHUNK_SCANNED) -> int:
    """Return the tuples in a chunk of a batch; ``most`` is larger where windows are searched by an index."""
    cuts = _CHUNKS_A_WORKER * workers if workers > 1 else 1
    return min(most, max(_CHUNK_MIN, -(-batch // cuts)))


_SLICE = 16
"""Basic windows that a chunk is compared with before the stop flag is looked at."""

FOREVER = 1 << 62
"""A chunk that never comes."""


@dataclass(eq=False)
class _Parcel:
    """A block on its way, with its boxes."""

    unit: int
    block: Block
    inquiry: ChunkSearch
    template: npt.NDArray[np.void]
    end: int
    """One past its last chunk."""


class Handshake(AtOnce):
    """A row of workers between two streams.

    Parameters
    ----------
    plan : Plan
        Two units, one query, windows of time.
    intakes : list of Intake
        One a unit.
    index : str
        ``auto``, ``scan``, ``band`` or ``hash``.
    basic_window : int
        Tuples in a basic window when it is sealed.
    workers : int
        How many stand in the row.
    """

    name = "handshake"

    def __init__(self, plan: Plan, intakes: list[Intake], index: str, basic_window: int, workers: int) -> None:
        self.indexes = [Index(access.dimensions, index) for access in plan.accesses]
        scanned = index == "scan" or not all(access.dimensions for access in plan.accesses)
        self.windows = tuple(
            ChunkedWindow(
                JoinWindow(
                    tuple(intake.layouts[: intake.stored]),
                    basic_window,
                    tuple(range(intake.keys)),
                    numbered=True,
                    arranger=own if access.dimensions else None,
                    uniform=scanned,
                )
            )
            for intake, own, access in zip(intakes, self.indexes, plan.accesses, strict=True)
        )
        self._inquirers = [ChunkProber(plan, unit, intakes[unit], self.indexes[1 - unit]) for unit in range(2)]
        row = list(range(workers))
        lanes = [[(worker, 0) for worker in row], [(worker, 1) for worker in reversed(row)]]
        self._crew = Crew(self.name, workers, max(_ROOM, basic_window), lanes, shake, await_quiet)
        self._board = self._crew.take(2 * BOARD.itemsize // 8).view(BOARD)
        self._counts = self._crew.take(workers)
        self._place_workers(workers)
        self._queue: tuple[list[Block], list[Block]] = ([], [])
        self._parcels: dict[int, _Parcel] = {}
        self._under_way: tuple[deque[int], deque[int]] = (deque(), deque())
        self._parcel = self._driven = 0
        self._restored = self._has_moved = False
        self._need, self._batch = basic_window, BATCH
        self._chunk = _CHUNK_SCANNED if scanned else _CHUNK_MAX

    def _place_workers(self, workers: int) -> None:
        """Give each worker its place in the row: what it shares with its neighbours, and room of its own."""
        sizes = [self._crew.take(8) for _ in range(workers + 2)]
        for worker, seat in enumerate(self._crew.seats):
            counts = self._crew.take(8)
            self._counts[worker] = seat["counts"] = address(counts)
            seat["board"], seat["last"] = address(self._board), workers - 1
            seat["sizes"] = address(sizes[worker + 1])
            seat["left_sizes"], seat["right_sizes"] = address(sizes[worker]), address(sizes[worker + 2])
            for name in ("lows", "highs"):
                seat[name] = address(self._crew.take(_CHUNK_MAX))
            for name in ("probe", "pair", "task"):
                seat[name] = address(self._crew.take(TASK_WORDS))

    # -- the strategy's face -------------------------------------------------

    def combine(
        self,
        unit: int,  # noqa: ARG002
        block: Block,  # noqa: ARG002
        released: list[Release | None] | None,  # noqa: ARG002
    ) -> Iterator[Combinations]:
        """Find nothing yet, whatever is asked for: partners are met on the way."""
        self._crew.check()
        yield from ()

    def complete(self, queries: Iterable[int]) -> Iterator[Combinations]:  # noqa: ARG002
        """Yield nothing: what is found is collected."""
        yield from ()

    def ways(self) -> dict[str, str]:
        """Return nothing: there is but one join order."""
        return {}

    def insert(self, unit: int, block: Block) -> None:
        """Let new tuples of ``unit`` queue at their end of the row."""
        r, s = self._queue
        self._queue = ([*r, block], s) if unit == 0 else (r, [*s, block])

    def collect(self) -> Iterator[DeferredMatches]:
        """Send tuples on their way, and what has expired off it; yield what is found."""
        waiting = [sum(len(block) for block in blocks) for blocks in self._queue]
        enough = min(waiting) >= self._batch or max(waiting) >= _BATCHES * self._batch
        if enough or any(self._is_due(unit) for unit in range(2)):
            yield from self._move_on()

    def _is_due(self, unit: int) -> bool:
        """Whether tuples of ``unit`` have expired, before the row or, more than a small part, in it."""
        window = self.windows[unit]
        if any(window.is_over(block) for block in self._queue[unit]):
            return True
        return bool(window.due_tuples() > min(_BATCHES * self._batch, len(window) // _PART))

    def settle(self) -> None:
        """Release what has left the row, then arrange and merge what has been sealed."""
        if not self._has_moved:
            return
        for unit, (window, under_way) in enumerate(zip(self.windows, self._under_way, strict=True)):
            gone = self._oldest(unit)
            window.release(gone)
            window.content.settle()
            while under_way and self._parcels[under_way[0]].end <= gone:
                del self._parcels[under_way.popleft()]

    def drain(self) -> Iterator[DeferredMatches]:
        """Let everybody meet who has not yet: nothing is owed afterwards."""
        yield from self._drain()

    def restore(self, unit: int, block: Block) -> None:
        """Put tuples into the row that have met everything there is.

        Windows do not keep what tuples need to look for partners, so these are put where
        they need not: at the far end, where new ones come to them.
        """
        self._has_moved = True
        window = self.windows[unit]
        block = window.number(block)
        window.content.append(block)
        for start in range(0, len(block), self._chunk):
            window.add_chunk(block, start, min(len(block), start + self._chunk), (0, 0, 0), -1)
        self._restored = True

    def fill(self, on: bool) -> None:
        """Begin (or end) to let tuples pass each other without a look: benchmarks fill windows so.

        Afterwards all stand where they would stand, and those who have not passed each other will meet.
        """
        for window in self.windows:
            window.met = FOREVER if on else 0

    def save(self) -> Any:
        """Note that a call has begun."""
        self._has_moved = False
        return self._queue, [window.mark() for window in self.windows]

    def undo(self, saved: Any) -> None:
        """Be again what this was at :meth:`save`, if no tuple has moved since; else the join cannot go on.

        Tuples that have passed each other in the row cannot be told to walk back.
        """
        if self._has_moved:
            self._crew.stop()
            self._crew.fail("a call was broken off while tuples were on their way.")
            return
        self._queue, marks = saved
        for window, mark in zip(self.windows, marks, strict=True):
            window.cut(mark)

    def check(self) -> None:
        """Raise WorkerError if the join cannot go on."""
        self._crew.check()

    @property
    def alive(self) -> int:
        """How many threads are running."""
        return self._crew.alive

    def shifts(self) -> tuple[Shift, ...]:
        """Return what each worker has done so far."""
        return tuple(self._crew.shifts())

    def end(self) -> None:
        """End the workers."""
        self._has_moved = True
        self._crew.stop()

    # -- the driver ----------------------------------------------------------

    def _move_on(self) -> Iterator[DeferredMatches]:
        """Feed what is queued at both ends, and tell each other end what has expired."""
        self._crew.check()
        self._has_moved = True
        self._crew.start(self._crew.count)
        if self._restored:
            self._put_at_ends()
        fed = [self._load(unit, concat_blocks(blocks)) if blocks else (0, 0) for unit, blocks in enumerate(self._queue)]
        self._queue = ([], [])
        due = [window.due() for window in self.windows]
        for unit, end in enumerate(due):
            self._announce(unit, end)
        self._describe()
        for turn in range(max(end - first for first, end in fed)):
            for unit, (first, end) in enumerate(fed):
                if first + turn < end:
                    yield from self._send(unit, SIGNAL_DATA, first + turn)
        for unit, end in enumerate(due):
            if end:
                yield from self._send(1 - unit, SIGNAL_EXPIRE, end)
        yield from self._quiet()
        late = [unit for unit, end in enumerate(due) if end > self._oldest(unit)]
        for unit in late:
            yield from self._send(unit, SIGNAL_FLUSH, due[unit])
        if late:
            yield from self._quiet()

    def _announce(self, unit: int, due: int) -> None:
        """Let the end of the row count no more what is about to go, so that what follows is sent on meanwhile."""
        window = self.windows[unit]
        count = window.held(self._oldest(unit)) - window.held(due) if due else 0
        seat = self._crew.seats[-1 if unit == 0 else 0]
        self._crew.words(int(seat["sizes"]), 2)[unit] += int(seat["owed"][unit]) - count
        seat["owed"][unit] = count

    def _drain(self) -> Iterator[DeferredMatches]:
        yield from self._move_on()
        for worker, seat in enumerate(self._crew.seats):
            for chunk in range(int(seat["r_low"]), int(seat["r_high"])):
                yield from self._send(0, SIGNAL_HURRY, chunk, worker)
        yield from self._quiet()
        self._all_met()

    def _send(self, lane: int, kind: int, a: int, b: int = 0) -> Iterator[DeferredMatches]:
        """Send a message into the row; take results in while its ring is full."""
        while not self._crew.try_send(lane, kind, a, b):
            yield from self._take(self._crew.post_or_quiet(address(self._counts), -1))
        self._driven += 1

    def _quiet(self) -> Iterator[DeferredMatches]:
        """Take results in until no message is under way."""
        while True:
            posted = self._crew.post_or_quiet(address(self._counts), self._driven)
            if posted is True:
                return
            yield from self._take(posted)

    def _take(self, posted: Any) -> Iterator[DeferredMatches]:
        if isinstance(posted, bool):
            return
        parcel = self._parcels[posted.c]
        found = self._crew.matches(posted.worker, posted.a, posted.b)
        matches = Matches(self.windows[1 - parcel.unit].content.residents(), *found)
        yield DeferredMatches(parcel.unit, parcel.block, matches)
        self._crew.give_back(posted.worker, posted.a)

    # -- chunks, and the board -----------------------------------------------

    def _load(self, unit: int, block: Block) -> tuple[int, int]:
        """Put a block into its window and cut it into chunks; return the first, and one past the last."""
        window = self.windows[unit]
        block = window.number(block)
        other = self.windows[1 - unit].content.residents()
        inquiry = self._inquirers[unit].ask(block)
        window.content.append(block)
        template = inquiry.template()
        template["slice"] = _SLICE
        if inquiry.kind == TASK_PAIRS:
            template["need"] = self._need
        number, self._parcel = self._parcel, self._parcel + 1
        size = chunk_tuples(len(block), self._crew.count, self._chunk)
        first = window.next_chunk
        for start in range(0, len(block), size):
            stop = min(len(block), start + size)
            probes = (start, stop) if inquiry.kind == TASK_PAIRS else inquiry.probes(start, stop, other)
            window.add_chunk(block, start, stop, (address(template), *probes), number)
        self._parcels[number] = _Parcel(unit, block, inquiry, template, window.next_chunk)
        self._under_way[unit].append(number)
        return first, window.next_chunk

    def _describe(self) -> None:
        """Write the board: where chunks and basic windows lie."""
        for unit, window in enumerate(self.windows):
            self._board[unit] = window.describe()

    def _oldest(self, unit: int) -> int:
        """Return the oldest chunk of ``unit`` that is still in the row."""
        seats = self._crew.seats
        return int(seats[-1]["r_low"] if unit == 0 else seats[0]["s_low"])

    def _all_met(self) -> None:
        """Note that everybody in the row has met everybody else."""
        for window in self.windows:
            window.met = window.next_chunk

    def _put_at_ends(self) -> None:
        """Put what is in the row at the end it walks to; it has all met, so it may stand anywhere."""
        self._all_met()
        self._restored = False
        ends = (self._crew.count - 1, 0)
        for unit, window in enumerate(self.windows):
            first, end = self._oldest(unit), window.next_chunk
            for worker, seat in enumerate(self._crew.seats):
                low = first if worker == ends[unit] else end
                if unit == 0:
                    seat["r_low"], seat["r_high"] = low, end
                else:
                    seat["s_low"], seat["s_sent"], seat["s_high"] = low, low, end
                self._crew.words(int(seat["sizes"]), 2)[unit] = window.held(low)
