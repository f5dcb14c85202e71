"""Finite streams played back as if they were live, at the pace of their own times."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from crosswind.clock import Clock

if TYPE_CHECKING:
    from crosswind.engine.join import Join

__all__ = ["Measured", "Playback", "replay"]

_TICK_MS = 50
"""Event time between two pushes of a stream while it is live."""

_FILL_TICK_MS = 1_000
"""The same while the windows are being filled, as fast as possible."""


@dataclass(frozen=True)
class Playback:
    """What is played, and how.

    Parameters
    ----------
    streams : mapping of str to pyarrow.Table
        Tuples in time order.
    offsets_ms : mapping of str to numpy.ndarray
        When each of them comes, since the beginning.
    fill_ms : int
        Event time to run through as fast as possible before anything is measured.
    end_ms : int
        Event time to stop at.
    fast : bool
        Run through the rest as fast as possible, too.
    """

    streams: Mapping[str, pa.Table]
    offsets_ms: Mapping[str, np.ndarray[tuple[int], np.dtype[np.int64]]]
    fill_ms: int
    end_ms: int
    fast: bool = False


@dataclass
class Measured:
    """What happened so far. ``push_s`` and ``live_*`` leave the filling out."""

    tuples: dict[str, int]
    fast: bool = False
    results: list[pa.Table] = field(default_factory=list)
    rows: int = 0
    fill_s: float = 0.0
    live_s: float = 0.0
    live_tuples: int = 0
    live_rows: int = 0
    push_s: list[float] = field(default_factory=list)
    behind_s_max: float = 0.0
    window_tuples: dict[str, int] = field(default_factory=dict)
    finished: bool = False

    @property
    def is_live(self) -> bool:
        """Whether the filling is over."""
        return self.live_s > 0.0


def replay(
    join: Join, playback: Playback, clock: Clock, measured: Measured, observe: Callable[[Measured], None]
) -> None:
    """Push the streams of ``playback`` into ``join``, and measure.

    ``measured`` is kept up to date throughout, so that it is worth something to a caller who is
    interrupted. ``observe`` is called after every tick.
    """
    begun = clock.now()
    event_ms = 0
    while event_ms < playback.fill_ms:
        event_ms = min(event_ms + _FILL_TICK_MS, playback.fill_ms)
        _push_until(join, playback, event_ms, clock, measured, live=False)
        measured.fill_s = clock.now() - begun
        observe(measured)
    begun = clock.now()
    while event_ms < playback.end_ms:
        event_ms = min(event_ms + _TICK_MS, playback.end_ms)
        due = begun + (event_ms - playback.fill_ms) / 1_000
        if not playback.fast:
            clock.sleep(due - clock.now())
        _push_until(join, playback, event_ms, clock, measured, live=True)
        measured.live_s = clock.now() - begun
        if not playback.fast:
            measured.behind_s_max = max(measured.behind_s_max, clock.now() - due)
        observe(measured)
    measured.window_tuples = dict(join.stats.window_tuples)
    _keep(measured, join.finish())
    measured.finished = True


def _push_until(join: Join, playback: Playback, event_ms: int, clock: Clock, measured: Measured, *, live: bool) -> None:
    for name, tuples in playback.streams.items():
        first = measured.tuples[name]
        last = int(np.searchsorted(playback.offsets_ms[name], event_ms))
        if last == first:
            continue
        batch = tuples.slice(first, last - first)
        before = clock.now()
        found = join.push(name, batch)
        after = clock.now()
        measured.tuples[name] = last
        _keep(measured, found)
        if live:
            measured.push_s.append(after - before)
            measured.live_tuples += last - first
            measured.live_rows += found.num_rows


def _keep(measured: Measured, found: pa.Table) -> None:
    measured.rows += found.num_rows
    if found.num_rows:
        measured.results.append(found)
