"""Rate-aware batching (CellJoin §4.2): whatever waits is taken, up to a limit, never waiting for more.

While tuples come slowly, each is pushed as it comes. When they come faster than pushes can be made, they
gather, the next push takes more of them at once, and a tuple costs less. Nobody has to choose a size.
CellJoin takes whole unit blocks, at most l of them, and skips a stream that has less than one, as its vector code
needs; here any number will do, and that is an option: ``unit_block``.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from crosswind.errors import ClosedJoinError, InputError, OverloadError

if TYPE_CHECKING:
    from crosswind.engine.join import Join

__all__ = ["Backlog", "Feeder", "Portion"]

_LOOK_S = 1.0
"""How long a wait lasts before it looks around; what it waits for wakes it at once."""


@dataclass(frozen=True)
class Portion:
    """What is to be done next: push ``batch``, or (if that is None) move the watermark of ``stream``."""

    stream: str
    batch: pa.RecordBatch | None
    watermark: Any = None

    def __len__(self) -> int:
        return 0 if self.batch is None else self.batch.num_rows

    def give_to(self, join: Join) -> pa.Table:
        """Do it; return the results."""
        return join.advance(self.stream, self.watermark) if self.batch is None else join.push(self.stream, self.batch)


class Backlog:
    """Tuples that wait to be pushed, by stream, in the order in which they came.

    For a loop of your own; a :class:`Feeder` is this with a thread. Not to be used by several threads at once.

    Parameters
    ----------
    limit : int
        Greatest number of tuples in a portion.
    unit_block : int
        Tuples that are taken together: a portion holds a whole number of such blocks, and a stream that has less is
        skipped (CellJoin §4.2.2; ``limit`` is l blocks there). What is in front of a watermark does not wait for more.

    Examples
    --------
    >>> import pyarrow as pa
    >>> backlog = Backlog(limit=3)
    >>> for x in range(4):
    ...     backlog.put("R", pa.record_batch({"x": [x]}))
    >>> [(len(backlog.take()), len(backlog)), (len(backlog.take()), len(backlog)), backlog.take()]
    [(3, 1), (1, 0), None]
    """

    def __init__(self, limit: int, unit_block: int = 1) -> None:
        if not 1 <= unit_block <= limit:
            raise InputError(
                f"unit_block={unit_block!r} is not possible with limit={limit!r}; give a number of tuples from 1 to "
                "the limit."
            )
        self._limit, self._block = limit // unit_block * unit_block, unit_block
        self._waiting: dict[str, deque[Portion]] = {}
        self._turns: deque[str] = deque()
        self._tuples = 0

    def __len__(self) -> int:
        return self._tuples

    def __bool__(self) -> bool:
        return bool(self._turns)

    def put(self, stream: str, batch: pa.RecordBatch) -> None:
        """Let ``batch`` wait."""
        if batch.num_rows:
            self._append(Portion(stream, batch))

    def advance(self, stream: str, watermark: Any) -> None:
        """Let a watermark wait behind the tuples of its stream that came before it."""
        self._append(Portion(stream, None, watermark))

    def _append(self, portion: Portion) -> None:
        queue = self._waiting.setdefault(portion.stream, deque())
        if not queue:
            self._turns.append(portion.stream)
        queue.append(portion)
        self._tuples += len(portion)

    def take(self, *, rest: bool = False) -> Portion | None:
        """Return all that waits of one stream, up to the limit, or None. The streams take turns.

        Parameters
        ----------
        rest : bool
            Whether what is less than a unit block is taken as well: at the end.
        """
        for _ in range(len(self._turns)):
            stream = self._turns.popleft()
            ready = self._ready(self._waiting[stream], rest)
            if ready is not None:
                return self._take(stream, ready)
            self._turns.append(stream)
        return None

    def _ready(self, queue: deque[Portion], rest: bool) -> int | None:
        """Return how many tuples of a stream can be taken now; None: it has less than a unit block, and is skipped."""
        count = 0
        for portion in queue:
            if not _same_kind(queue[0], portion):  # a watermark, or tuples of another schema: they wait for these
                return min(count, self._limit)
            count += len(portion)
            if count >= self._limit:
                return self._limit
        whole = count if rest else count // self._block * self._block
        return whole or None

    def _take(self, stream: str, count: int) -> Portion:
        queue = self._waiting[stream]
        first = queue.popleft()
        pieces, found = [first], len(first)
        while found < count:
            pieces.append(queue.popleft())
            found += len(pieces[-1])
        taken = first if len(pieces) == 1 else Portion(stream, _joined([piece.batch for piece in pieces]))
        if found > count and taken.batch is not None:
            queue.appendleft(Portion(stream, taken.batch.slice(count)))
            taken = Portion(stream, taken.batch.slice(0, count))
        if queue:
            self._turns.append(stream)
        self._tuples -= len(taken)
        return taken

    def clear(self) -> None:
        """Forget everything."""
        self._waiting.clear()
        self._turns.clear()
        self._tuples = 0


def _same_kind(one: Portion, other: Portion) -> bool:
    return one.batch is not None and other.batch is not None and bool(one.batch.schema.equals(other.batch.schema))


def _joined(pieces: list[pa.RecordBatch]) -> pa.RecordBatch:
    (whole,) = pa.Table.from_batches(pieces).unify_dictionaries().combine_chunks().to_batches()
    return whole


class Feeder:
    """Pushes what producers put, from a thread of its own; made by :meth:`crosswind.Join.feeder`.

    Any number of threads may call :meth:`put`. If they are faster than the join they are held up (back-pressure):
    no tuple is dropped. Until the feeder is closed, nobody else may call the join.

    Parameters
    ----------
    join : Join
        What is fed.
    deliver : callable
        Called with every table of results that has rows, in the feeder's thread.
    limit : int
        Greatest number of tuples in a push.
    capacity : int
        Tuples that may wait.
    timeout : float
        Seconds that a call may wait for room, or for the end.

    Examples
    --------
    >>> import crosswind as cw, pyarrow as pa
    >>> r = pa.schema({"x": pa.int64(), "ts": pa.int64()})
    >>> sql = "SELECT a.x, b.x AS y FROM R [RANGE 5] a, R [RANGE 5] b WHERE a.x = b.x + 1"
    >>> found = []
    >>> with cw.open(sql, {"R": r}) as join:
    ...     with join.feeder(found.append) as feeder:
    ...         feeder.put("R", {"x": [1, 2], "ts": [1, 2]})
    >>> found[0].to_pylist()
    [{'x': 2, 'y': 1}]
    """

    def __init__(
        self, join: Join, deliver: Callable[[pa.Table], Any], *, limit: int, capacity: int, timeout: float
    ) -> None:
        for name, value in {"limit": limit, "capacity": capacity}.items():
            if type(value) is not int or value < 1:
                raise InputError(f"{name}={value!r} is not possible; give a whole number of tuples, at least 1.")
        _check_seconds(timeout)
        if not callable(deliver):
            raise InputError(f"deliver got {type(deliver).__name__}; give a function that takes a table of results.")
        self._join = join
        self._deliver = deliver
        self._capacity = capacity
        self._timeout = timeout
        self._backlog = Backlog(limit)
        self._changed = threading.Condition()
        self._busy = self._closing = False
        self._error: BaseException | None = None
        self._pushes = self._tuples = 0
        self._thread = threading.Thread(target=self._work, name="crosswind-feeder", daemon=True)
        self._thread.start()

    # -- for producers ---------------------------------------------------------

    def put(self, stream: str, batch: Any, *, timeout: float | None = None) -> None:
        """Hand over tuples of ``stream``; wait for room if too many wait already.

        Parameters
        ----------
        stream : str
            A stream of the query.
        batch : Arrow-shaped
            As for :meth:`crosswind.Join.push`.
        timeout : float, optional
            Seconds to wait for room, if not the feeder's.

        Raises
        ------
        OverloadError
            There was no room in time. The batch was not taken.
        """
        whole = self._join.record_batch(stream, batch)
        with self._changed:
            # A batch that is larger than the room there is waits until it is alone.
            self._wait(lambda: not self._backlog or len(self._backlog) + whole.num_rows <= self._capacity, timeout)
            self._check_usable()
            self._backlog.put(stream, whole)
            self._changed.notify_all()

    def advance(self, stream: str, watermark: Any) -> None:
        """Say that no tuple of ``stream`` older than ``watermark`` will come after those put so far."""
        self._join.check_watermark(stream, watermark)
        with self._changed:
            self._check_usable()
            self._backlog.advance(stream, watermark)
            self._changed.notify_all()

    def flush(self, *, timeout: float | None = None) -> None:
        """Wait until all that was put has been joined and its results delivered."""
        with self._changed:
            self._wait(lambda: not self._backlog and not self._busy, timeout)
            if self._error is not None:
                raise self._error

    @property
    def stats(self) -> Mapping[str, int]:
        """Tuples that wait, pushes made, and tuples in them."""
        with self._changed:
            return {"waiting": len(self._backlog), "pushes": self._pushes, "tuples": self._tuples}

    # -- the end ---------------------------------------------------------------

    def close(self, *, discard: bool = False, timeout: float | None = None) -> None:
        """Take nothing more, push what waits (unless ``discard``), and end the thread. Harmless if repeated.

        Raises the error that stopped the feeder, if one did. The join stays open.
        """
        limit_s = self._timeout if timeout is None else _check_seconds(timeout)
        with self._changed:
            self._closing = True
            if discard:
                self._backlog.clear()
            self._changed.notify_all()
        if threading.current_thread() is self._thread:
            return
        self._thread.join(limit_s)
        if self._thread.is_alive():
            raise OverloadError(
                f"the feeder is still at work after {limit_s:g} s: {len(self._backlog):,} tuples wait. Call close() "
                f"again to wait on, or close(discard=True) to forget them; if nothing moves, deliver= does not return."
            )
        if self._error is not None:
            raise self._error

    def __enter__(self) -> Feeder:
        """Return the feeder itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it; after an error what waits is forgotten, and that error goes on."""
        if error is None:
            self.close()
            return
        try:
            self.close(discard=True)
        except Exception as second:
            if second is not error:
                error.add_note(f"the feeder ended with {type(second).__name__}: {second}")

    # -- inside ----------------------------------------------------------------

    def _check_usable(self) -> None:
        if self._error is not None:
            raise self._error
        if self._closing:
            raise ClosedJoinError("the feeder is closed and takes nothing more; make a new one with join.feeder().")

    def _wait(self, is_so: Callable[[], bool], timeout: float | None) -> None:
        """Wait, with the lock held, until ``is_so`` or the feeder has stopped."""
        limit_s = self._timeout if timeout is None else _check_seconds(timeout)
        until = time.monotonic() + limit_s
        while not is_so() and self._error is None and self._thread.is_alive():
            left = until - time.monotonic()
            if left <= 0 or threading.current_thread() is self._thread:
                raise OverloadError(
                    f"the join did not keep up: after {limit_s:g} s {len(self._backlog):,} tuples still wait "
                    f"(capacity={self._capacity:,}). Put fewer tuples, wait longer (timeout=), or allow more to wait "
                    f"(capacity=); join.stats says what a push takes."
                )
            self._changed.wait(min(left, _LOOK_S))

    def _work(self) -> None:
        try:
            while (portion := self._next()) is not None:
                results = portion.give_to(self._join)
                if results.num_rows:
                    self._deliver(results)
                self._pushes += 1
                self._tuples += len(portion)
        except BaseException as error:  # whoever puts, flushes or closes next gets it
            self._error = error
        finally:
            with self._changed:
                self._busy = False
                self._changed.notify_all()

    def _next(self) -> Portion | None:
        """Wait for tuples, and take all that wait; None: there will be none."""
        with self._changed:
            self._busy = False
            self._changed.notify_all()
            while not self._backlog and not self._closing:
                self._changed.wait(_LOOK_S)
            portion = self._backlog.take()
            self._busy = portion is not None
            self._changed.notify_all()
            return portion


def _check_seconds(timeout: Any) -> float:
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout >= 0:
        raise InputError(f"timeout={timeout!r} is not possible; give seconds, at least 0.")
    return min(float(timeout), threading.TIMEOUT_MAX)
