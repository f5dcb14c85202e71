"""What a join has done so far, and what it holds."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np

from crosswind.engine.strategy import Shift

__all__ = ["Latencies", "Stats"]


@dataclass(frozen=True)
class Stats:
    """Counters of a join, at one moment.

    Attributes
    ----------
    tuples_in, late, rejected : dict of str to int
        By stream: tuples that were taken, that were too late, that had no time.
    results : int
        Rows handed out.
    held : int
        Tuples that wait for the watermark before they may join (ROWS windows).
    window_tuples : dict of str to int
        By alias: tuples in the window, expired ones of the oldest basic window included.
    watermarks : dict of str to int or None
        By stream, in ticks of the common time axis; None before the first tuple.
    bytes_held : int
        Memory of windows and held tuples.
    pushes : int
        Calls of push, advance and finish.
    latency_ms : dict of str to float
        Quantiles of the time those calls took (the last 4096 of them).
    engine : str
        The strategy at work.
    index, reason : dict of str to str
        By alias: how the window is arranged (the latest choice), and why.
    shed : dict of str to int
        By stream: tuples that were not admitted (``admission="shed"``).
    workers : tuple of Shift
        What each worker of a parallel engine has done: ``busy_s``, ``tasks``, ``matches``.
    routes : dict of str to str
        By alias: the windows that its tuples go through, in turn (more than two streams or
        one query; else empty).
    busy_s : float
        Seconds that those calls took, all together.

    Examples
    --------
    >>> import crosswind as cw, pyarrow as pa
    >>> sql = "SELECT a.x FROM R [RANGE 5] a, R [RANGE 5] b WHERE a.x = b.x + 1"
    >>> with cw.open(sql, {"R": pa.schema({"x": pa.int64(), "ts": pa.int64()})}) as join:
    ...     found = join.push("R", {"x": [1, 2], "ts": [1, 2]})
    ...     join.stats.tuples_in, join.stats.results, join.stats.window_tuples
    ({'R': 2}, 1, {'a': 2, 'b': 2})
    """

    tuples_in: dict[str, int]
    late: dict[str, int]
    rejected: dict[str, int]
    results: int
    held: int
    window_tuples: dict[str, int]
    watermarks: dict[str, int | None]
    bytes_held: int
    pushes: int
    latency_ms: dict[str, float]
    engine: str
    index: dict[str, str]
    reason: dict[str, str]
    shed: dict[str, int] = field(default_factory=dict)
    workers: tuple[Shift, ...] = ()
    routes: dict[str, str] = field(default_factory=dict)
    busy_s: float = 0.0


@dataclass
class Latencies:
    """The durations of the latest calls."""

    seconds: deque[float] = field(default_factory=lambda: deque(maxlen=4096))
    count: int = 0
    total_s: float = 0.0

    def add(self, seconds: float) -> None:
        """Note one call."""
        self.seconds.append(seconds)
        self.count, self.total_s = self.count + 1, self.total_s + seconds

    def cut(self, count: int) -> None:
        """Forget what was noted after the first ``count`` calls: at most one."""
        if self.count > count:
            self.count, self.total_s = count, self.total_s - self.seconds.pop()

    def quantiles_ms(self) -> dict[str, float]:
        """Return p50, p95, p99 and max in milliseconds (empty before the first call)."""
        if not self.seconds:
            return {}
        times = np.array(self.seconds) * 1e3
        p50, p95, p99 = np.quantile(times, [0.5, 0.95, 0.99])
        return {"p50": float(p50), "p95": float(p95), "p99": float(p99), "max": float(times.max())}
