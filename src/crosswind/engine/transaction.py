"""Calls that are all or nothing: a call that raises has changed nothing, whatever raised and wherever.

A call saves what is needed to go back, works, and commits by one store. An exception before that store takes
everything back. If that is broken off as well (a second Ctrl-C), the next call does it first: it can be repeated.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from threading import get_ident
from types import FrameType
from typing import Any, TypeVar

from crosswind.errors import ConcurrentCallError

__all__ = ["Transaction"]

Returned = TypeVar("Returned")


class Transaction(ABC):
    """What has calls that are all or nothing, one at a time."""

    __slots__ = ("_caller", "_saved")  # apart from the attributes that a call saves and puts back

    def __init__(self) -> None:
        self._caller = 0
        self._saved: Any = None

    @abstractmethod
    def _save(self) -> Any:
        """Return what :meth:`_undo` needs; changes nothing that matters."""

    @abstractmethod
    def _undo(self, saved: Any) -> None:
        """Put back what was there at :meth:`_save`; may be repeated."""

    def _call(self, work: Callable[..., Returned], *arguments: Any) -> Returned:
        """Return ``work(*arguments)``, done wholly or not at all."""
        me = get_ident()
        if self._caller:
            self._end_last_call(sys._getframe().f_back)
        try:
            self._caller = me
            self._saved = self._save()
            done = work(*arguments)
        except BaseException:
            self._roll_back()
            raise
        # One line: nothing can come between the commit and what it gives out.
        self._saved, self._caller = None, 0; return done  # fmt: skip # noqa: E702

    def _roll_back(self) -> None:
        if self._saved is not None:
            self._undo(self._saved)
        self._saved, self._caller = None, 0

    def _mend(self) -> None:
        """Take the last call of this thread back if its undo was broken off, as the next call would."""
        if self._caller == get_ident() and not _is_in_call(self, sys._getframe(1)):
            self._roll_back()

    def _end_last_call(self, frame: FrameType | None) -> None:
        """Take the last call back if it was broken off; if it is still under way, say so."""
        self._refuse_in_call(frame)
        self._roll_back()

    def _refuse_in_call(self, frame: FrameType | None) -> None:
        """Raise ConcurrentCallError while a call is under way, in another thread or above ``frame``."""
        here = self._caller == get_ident()
        if _is_in_call(self, frame if here else sys._current_frames().get(self._caller)):
            where = "a callback or a signal handler of that call" if here else "another thread"
            raise ConcurrentCallError(
                f"the join is in the middle of a call, and was called again from {where}. A join is for one thread at "
                f"a time, one call after the other: use join.feeder() to take tuples from many threads, a lock of "
                f"your own, or a join for each thread."
            )


def _is_in_call(owner: Transaction, frame: FrameType | None) -> bool:
    """Whether a call of ``owner`` is on the stack that ends with ``frame``."""
    while frame is not None:
        if frame.f_code is Transaction._call.__code__ and frame.f_locals.get("self") is owner:
            return True
        frame = frame.f_back
    return False
