"""The workload of the demonstration: the band join on which the papers measure themselves.

CellJoin (section 8.2) and Handshake Join (section 5) join two streams of uniformly random tuples
on two bands. Each stream has the same rate; their tuples come at random moments here, not in step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from crosswind.bench.workload import BAND, VALUE_MAX, band_sql

__all__ = ["BandJoin", "band_matches"]

Array = np.ndarray[tuple[int], np.dtype[Any]]

_EPOCH_MS = 1_735_689_600_000
"""2025-01-01: when the streams begin."""

_PROBES_PER_STEP = 4_096


@dataclass(frozen=True)
class BandJoin:
    """Two streams R(x, y, ts) and S(a, b, ts) and the query that joins them.

    Parameters
    ----------
    rate : int
        Tuples a second, of each stream.
    seconds : float
        Length of the streams, in event time.
    window_s : int
        Length of both windows, in seconds.
    seed : int
        The same seed gives the same streams.
    """

    rate: int
    seconds: float
    window_s: int
    seed: int

    @property
    def sql(self) -> str:
        """The query."""
        return band_sql(f"[RANGE {self.window_s} SECONDS]")

    @cached_property
    def streams(self) -> dict[str, pa.Table]:
        """The tuples, each stream in time order."""
        random = np.random.default_rng(self.seed)
        return {"R": self._stream(random, "x", "y"), "S": self._stream(random, "a", "b")}

    def offsets_ms(self, stream: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """Return when the tuples of ``stream`` come, in milliseconds since the beginning."""
        times = self.streams[stream].column("ts").cast(pa.int64()).to_numpy()
        return np.asarray(times - _EPOCH_MS, dtype=np.int64)

    def _stream(self, random: np.random.Generator, integer: str, real: str) -> pa.Table:
        count = round(self.rate * self.seconds)
        offsets = np.sort(random.integers(0, max(1, round(self.seconds * 1_000)), count))
        return pa.table(
            {
                integer: pa.array(random.integers(1, VALUE_MAX + 1, count), pa.int32()),
                real: pa.array(random.uniform(1, VALUE_MAX, count).astype(np.float32)),
                "ts": pa.array(offsets + _EPOCH_MS, pa.timestamp("ms")),
            }
        )

    def expected(self) -> pa.Table:
        """Return the result, computed with NumPy over the whole streams, without any of the engine.

        Both windows are equally long, so that a pair qualifies iff its times are less than a
        window apart.
        """
        r, s = (
            {name: table.column(name).to_numpy() for name in table.column_names if name != "ts"}
            | {"ts": self.offsets_ms(stream)}
            for stream, table in self.streams.items()
        )
        left, right = band_matches(r, s, self.window_s * 1_000)
        return pa.table({"x": r["x"][left], "y": r["y"][left], "a": s["a"][right], "b": s["b"][right]})


def band_matches(r: Mapping[str, Array], s: Mapping[str, Array], window: int) -> tuple[Array, Array]:
    """Return the rows of R and of S that match: within the bands, and less than ``window`` apart in time.

    S is sorted by ``a``; for each tuple of R only those of S within the integer band are looked at.
    """
    order = np.argsort(s["a"], kind="stable")
    a, b, s_ts = s["a"][order], s["b"][order].astype(np.float64), s["ts"][order]
    first = np.searchsorted(a, r["x"] - BAND, side="left")
    counts = np.searchsorted(a, r["x"] + BAND, side="right") - first
    r_rows, s_rows = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for start in range(0, len(counts), _PROBES_PER_STEP):
        step = slice(start, start + _PROBES_PER_STEP)
        left = np.repeat(np.arange(start, start + len(counts[step])), counts[step])
        within = np.arange(len(left)) - np.repeat(np.cumsum(counts[step]) - counts[step], counts[step])
        right = first[left] + within
        y = r["y"][left].astype(np.float64)
        hit = (y >= b[right] - BAND) & (y <= b[right] + BAND)
        hit &= np.abs(r["ts"][left] - s_ts[right]) < window
        r_rows.append(left[hit])
        s_rows.append(order[right[hit]])
    return np.concatenate(r_rows), np.concatenate(s_rows)
