"""The streams that benchmarks join.

The band join on which the papers measure themselves (CellJoin section 8.2, Handshake Join
section 5): two streams of uniformly random tuples, a band on an integer and one on a float. Here
the tuples of a stream come at fixed intervals. And an equality join over many distinct keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["BAND", "EPOCH_US", "VALUE_MAX", "BandWorkload", "KeyWorkload", "band_sql", "band_tuples"]

VALUE_MAX = 10_000
BAND = 10
EPOCH_US = 1_735_689_600_000_000
"""2025-01-01: when the streams begin."""

_BELOW_MAX = np.nextafter(np.float32(VALUE_MAX), np.float32(0))
_CHUNK = 1 << 20
"""Tuples that are generated at once."""

_BAND_NAMES = {"R": ("x", "y"), "S": ("a", "b")}


def band_sql(window: str, band_y: int = BAND) -> str:
    """Return the papers' query with windows such as ``[RANGE 60 SECONDS]``."""
    return (
        "SELECT R.x, R.y, S.a, S.b\n"
        f"FROM R {window}, S {window}\n"
        f"WHERE R.x BETWEEN S.a - {BAND} AND S.a + {BAND}\n"
        f"  AND R.y BETWEEN S.b - {band_y} AND S.b + {band_y}"
    )


def band_tuples(stream: str, times: pa.Array, random: np.random.Generator) -> pa.RecordBatch:
    """Return a tuple of ``stream`` ("R" or "S") for each of ``times``: an int32, a float32, the time."""
    integer, real = _BAND_NAMES[stream]
    return pa.RecordBatch.from_arrays(
        [
            pa.array(random.integers(1, VALUE_MAX + 1, len(times), dtype=np.int32)),
            # Rounding to 32 bits must not reach the end, which is exclusive.
            pa.array(np.minimum(random.uniform(1, VALUE_MAX, len(times)).astype(np.float32), _BELOW_MAX)),
            times,
        ],
        names=[integer, real, "ts"],
    )


@dataclass(frozen=True)
class _Paced:
    """Streams R and S whose tuples come at fixed intervals, with a time window on each.

    Parameters
    ----------
    rate : int
        Tuples a second, of each stream.
    window_us : int
        Length of both windows.
    seed : int
        The same seed gives the same streams.
    """

    rate: int
    window_us: int
    seed: int = 1

    @property
    def window_tuples(self) -> int:
        """Tuples of each stream in a full window."""
        return self.rate * self.window_us // 1_000_000

    @property
    def window(self) -> str:
        """The window, in SQL."""
        return f"[RANGE {self.window_us} MICROSECONDS]"

    @property
    def schemas(self) -> dict[str, pa.Schema]:
        """What the batches of each stream look like."""
        return {stream: self.batch(stream, 0, 0).schema for stream in _BAND_NAMES}

    def batch(self, stream: str, first: int, count: int) -> pa.RecordBatch:
        """Return ``count`` tuples of ``stream`` from number ``first`` on."""
        random = np.random.default_rng([self.seed, list(_BAND_NAMES).index(stream), first])
        offsets = (np.arange(first, first + count, dtype=np.int64) * 1_000_000) // self.rate
        return self._tuples(stream, pa.array(offsets + EPOCH_US, pa.timestamp("us")), random)

    def batches(self, stream: str, first: int, count: int) -> Iterator[pa.RecordBatch]:
        """Yield ``count`` tuples of ``stream`` from number ``first`` on, a million or so at a time."""
        for start in range(first, first + count, _CHUNK):
            yield self.batch(stream, start, min(_CHUNK, first + count - start))

    def table(self, stream: str, first: int, count: int) -> pa.Table:
        """Return the same in one table."""
        batches = list(self.batches(stream, first, count))
        return pa.Table.from_batches(batches, self.schemas[stream]).combine_chunks()

    def _tuples(self, stream: str, times: pa.Array, random: np.random.Generator) -> pa.RecordBatch:
        raise NotImplementedError


@dataclass(frozen=True)
class BandWorkload(_Paced):
    """R(x, y, ts) and S(a, b, ts), joined on two bands.

    Parameters
    ----------
    rate, window_us, seed
        As above.
    band_y : int
        Half the width of the band on the float.
    """

    band_y: int = BAND

    @property
    def sql(self) -> str:
        """The query."""
        return band_sql(self.window, self.band_y)

    def _tuples(self, stream: str, times: pa.Array, random: np.random.Generator) -> pa.RecordBatch:
        return band_tuples(stream, times, random)


@dataclass(frozen=True)
class KeyWorkload(_Paced):
    """R(k, v, ts) and S(k, w, ts), joined on an equal key.

    Parameters
    ----------
    rate, window_us, seed
        As above.
    keys : int
        Distinct keys, all equally likely.
    strings : bool
        Whether keys are strings instead of 64-bit integers.
    """

    keys: int = 1_000_000
    strings: bool = False

    @property
    def sql(self) -> str:
        """The query."""
        return f"SELECT R.k, R.v, S.w\nFROM R {self.window}, S {self.window}\nWHERE R.k = S.k"

    def _tuples(self, stream: str, times: pa.Array, random: np.random.Generator) -> pa.RecordBatch:
        drawn: npt.NDArray[np.int64] = random.integers(0, self.keys, len(times))
        # Far apart, so that nothing can profit from keys being small or dense.
        keys = pa.array(drawn * 2_654_435_761)
        if self.strings:
            keys = pa.array([f"key-{key:016x}" for key in keys.to_numpy()], pa.string())
        values = pa.array(random.integers(0, 1 << 30, len(times)))
        return pa.RecordBatch.from_arrays([keys, values, times], names=["k", "v" if stream == "R" else "w", "ts"])
