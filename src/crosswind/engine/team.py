"""A team: a crew that answers inquiries, one at a time, and gives up cleanly when one fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from crosswind.engine.inquiry import Inquiry
from crosswind.engine.strategy import Matches, PairFaultError, RowMaker, Shift
from crosswind.engine.workers import Crew, Posted, cores
from crosswind.window.join_window import Residents
from crosswind.window.vector import address

__all__ = ["Team"]

_ASIDE = 4096
"""Matches from which on their rows are made by another thread."""

_WORKERS_A_MAKER = 4
"""Workers to one such thread: rows take a fraction of the search, and with fewer workers the caller makes them."""


class Team:
    """Lets a crew answer inquiries.

    Parameters
    ----------
    hire : callable
        Returns a crew. When an inquiry is broken off its crew is dismissed, and another one hired.
    """

    def __init__(self, hire: Callable[[], Crew]) -> None:
        self._hire = hire
        self.crew = hire()
        self.maker: RowMaker | None = None
        self._threads: ThreadPoolExecutor | None = None
        self._makers = min(self.crew.count, cores()) // _WORKERS_A_MAKER
        self._asked: tuple[Inquiry, Sequence[Residents]] | None = None
        self._past: list[Shift] = []

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
        waiting, fault = sum(count for _, count in lanes), None
        making: list[Future[Matches]] = []
        self.crew.check()
        self._asked = inquiry, residents  # until all have answered: workers read that, also if this is broken off
        for lane, _ in lanes:
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
        if fault is not None:
            self.crew.cancel(False)
        self._asked = None
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

    def undo(self) -> None:
        """End an inquiry that was broken off: nobody reads windows any more, and a new crew is ready."""
        if self._asked is None and not self.crew.is_stopped:
            return
        self._end_makers()
        self._past = list(self.shifts())
        self.crew.stop()
        if self.crew.alive:  # what it reads is kept, and the join refuses to go on
            self.crew.fail("a worker could not be called off when a call was given up.")
            return
        if not self.crew.has_failed:
            self.crew = self._hire()
        self._asked = None

    def shifts(self) -> tuple[Shift, ...]:
        """Return what each worker has done so far."""
        past = self._past or [Shift(0.0, 0, 0)] * self.crew.count
        return tuple(
            Shift(now.busy_s + then.busy_s, now.tasks + then.tasks, now.matches + then.matches)
            for now, then in zip(self.crew.shifts(), past, strict=True)
        )

    def _end_makers(self) -> None:
        """Wait for the threads that make rows, and let them go."""
        if self._threads is not None:
            self._threads.shutdown(cancel_futures=True)
            self._threads = None

    def close(self) -> None:
        """End the workers."""
        self.crew.stop()
        self._end_makers()


def _pair_fault(fault: Posted, residents: Sequence[Residents]) -> PairFaultError:
    return PairFaultError(residents[fault.worker].items[fault.a], fault.b, fault.c)
