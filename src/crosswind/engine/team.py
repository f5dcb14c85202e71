"""A team: a crew that answers inquiries, one at a time, and gives up cleanly when one fails."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait

import numpy as np

from crosswind.engine.inquiry import Inquiry
from crosswind.engine.strategy import Matches, PairFaultError, RowMaker, Shift
from crosswind.engine.workers import Crew, Posted, cores
from crosswind.errors import WorkerError
from crosswind.window.join_window import Residents
from crosswind.window.vector import address

__all__ = ["Team"]

_ASIDE = 4096
"""Matches from which on their rows are made by another thread."""

_WORKERS_A_MAKER = 4
"""Workers to one such thread: rows take a fraction of the search, and with fewer workers the caller makes them."""

_GIVE_UP_S = 30.0
"""How long workers may take to give a task up; the slice they are in takes far less."""


class Team:
    """Lets a crew answer inquiries.

    Parameters
    ----------
    crew : Crew
        The workers.
    """

    def __init__(self, crew: Crew) -> None:
        self.crew = crew
        self.maker: RowMaker | None = None
        self._threads: ThreadPoolExecutor | None = None
        self._makers = min(crew.count, cores()) // _WORKERS_A_MAKER

    def answer(
        self,
        unit: int,
        inquiry: Inquiry,
        tasks: Sequence[int],
        lanes: Sequence[tuple[int, int]],
        residents: Sequence[Residents],
        seen: tuple[int, int] = (-1, 0),
    ) -> Iterator[Matches]:
        """Yield matches as workers post them.

        Parameters
        ----------
        unit : int
            Whose tuples probe.
        inquiry : Inquiry
            Whose probes are looked for.
        tasks : sequence of int
            The address of each worker's task (0: none).
        lanes : sequence of (int, int)
            Into which lanes to send the notice, and how many workers it passes there.
        residents : sequence of Residents
            In which basic windows the tasks look, by the word that says whose they are.
        seen : (int, int)
            A unit (-1: none), and the horizon of its window that workers then have seen.
        """
        from crosswind.kernel.crew import Message

        notice = np.array([*seen, *tasks], dtype=np.int64)
        inquiry.kept.append(notice)
        waiting, fault = 0, None
        making: list[Future[Matches]] = []
        self.crew.check()
        try:
            for lane, count in lanes:
                waiting += count
                self.crew.send(lane, Message.TASK, address(notice))
            while waiting:
                posted = self.crew.post()
                if posted.kind == Message.DONE:
                    waiting -= 1
                elif posted.kind == Message.FAULT:
                    fault = fault or posted
                    self.crew.cancel(True)
                elif fault is None and self.maker is not None and posted.b >= _ASIDE and self._makers:
                    making.append(self._pool().submit(self._make, unit, inquiry, posted, residents[posted.c]))
                else:
                    if fault is None:
                        found = self.crew.matches(posted.worker, posted.a, posted.b)
                        yield Matches(residents[posted.c], *found)
                    self.crew.give_back(posted.worker, posted.a)
            for made in making:
                yield made.result()
        finally:
            wait(making)
            if waiting:
                self._give_up(waiting)
            elif fault is not None:
                self.crew.cancel(False)
        if fault is not None:
            raise _pair_fault(fault, residents)

    def _make(self, unit: int, inquiry: Inquiry, posted: Posted, residents: Residents) -> Matches:
        """Make the rows of a buffer and give it back (CellJoin §4.3: a result thread, so that nobody waits)."""
        try:
            matches = Matches(residents, *self.crew.matches(posted.worker, posted.a, posted.b))
            if self.maker is not None and inquiry.block is not None:
                matches.table = self.maker(unit, inquiry.block, matches)
            return matches
        finally:
            self.crew.give_back(posted.worker, posted.a)

    def _pool(self) -> ThreadPoolExecutor:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self._makers, "crosswind-rows")
        return self._threads

    def tell(self, lanes: Sequence[tuple[int, int]], seen: tuple[int, int]) -> None:
        """Let workers see a horizon, with nothing to look for."""
        nothing = Inquiry(None)
        for _ in self.answer(0, nothing, [0] * self.crew.count, lanes, [], seen):
            pass

    def _give_up(self, waiting: int) -> None:
        """Call the workers off, and wait until all have stopped reading what the inquiry is about."""
        from crosswind.kernel.crew import Message

        self.crew.cancel(True)
        until = time.monotonic() + _GIVE_UP_S
        try:
            while waiting and time.monotonic() < until:
                waiting -= self.crew.post().kind == Message.DONE
        except WorkerError:
            return
        finally:
            if waiting:
                self.crew.fail("the workers could not be called off when a push was given up.")
        self.crew.free_buffers()
        self.crew.cancel(False)

    def shifts(self) -> tuple[Shift, ...]:
        """Return what each worker has done so far."""
        return tuple(self.crew.shifts())

    def close(self) -> None:
        """End the workers."""
        self.crew.stop()
        if self._threads is not None:
            self._threads.shutdown()
            self._threads = None


def _pair_fault(fault: Posted, residents: Sequence[Residents]) -> PairFaultError:
    return PairFaultError(residents[fault.worker].items[fault.a], fault.b, fault.c)
