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

__all__ = ["BAND", "EPOCH_US", "VALUE_MAX", "BandWorkload", "KeyWorkload", "band_sql"]

VALUE_MAX = 10_000
BAND = 10
EPOCH_US = 1_735_689_600_000_000
"""2025-01-01: when the streams begin."""

_BELOW_MAX = np.nextafter(np.float32(VALUE_MAX), np.float32(0))
_CHUNK = 1 << 20
"""Tuples that are generated at once."""

_STREAMS = ("R", "S")
_PHILOX_STEP = 4
"""Draws that ``Philox.advance`` goes by."""


def band_sql(window: str, band_y: int = BAND, *, shown: str = "R.x, R.y, S.a, S.b") -> str:
    """Return the papers' query with windows such as ``[RANGE 60 SECONDS]``."""
    return (
        f"SELECT {shown}\n"
        f"FROM R {window}, S {window}\n"
        f"WHERE R.x BETWEEN S.a - {BAND} AND S.a + {BAND}\n"
        f"  AND R.y BETWEEN S.b - {band_y} AND S.b + {band_y}"
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
        return {stream: self.batch(stream, 0, 0).schema for stream in _STREAMS}

    def batch(self, stream: str, first: int, count: int) -> pa.RecordBatch:
        """Return ``count`` tuples of ``stream`` from number ``first`` on; they do not depend on how they are cut."""
        offsets = (np.arange(first, first + count, dtype=np.int64) * 1_000_000) // self.rate
        times = pa.array(offsets + EPOCH_US, pa.timestamp("us"))
        one, two = (self._draw(stream, column, first, count) for column in (0, 1))
        columns = self._columns(stream, one, two)
        return pa.RecordBatch.from_arrays([*columns.values(), times], names=[*columns, "ts"])

    def _draw(self, stream: str, column: int, first: int, count: int) -> npt.NDArray[np.uint64]:
        """Return 64 random bits for each tuple. The generator counts, so that any number can be begun at."""
        bits = np.random.Philox(key=np.array([self.seed, 2 * _STREAMS.index(stream) + column], dtype=np.uint64))
        bits.advance(first // _PHILOX_STEP)
        skip = first % _PHILOX_STEP
        return np.asarray(bits.random_raw(skip + count), dtype=np.uint64)[skip:]

    def batches(self, stream: str, first: int, count: int) -> Iterator[pa.RecordBatch]:
        """Yield ``count`` tuples of ``stream`` from number ``first`` on, a million or so at a time."""
        for start in range(first, first + count, _CHUNK):
            yield self.batch(stream, start, min(_CHUNK, first + count - start))

    def table(self, stream: str, first: int, count: int) -> pa.Table:
        """Return the same in one table."""
        batches = list(self.batches(stream, first, count))
        return pa.Table.from_batches(batches, self.schemas[stream]).combine_chunks()

    def _columns(self, stream: str, one: npt.NDArray[np.uint64], two: npt.NDArray[np.uint64]) -> dict[str, pa.Array]:
        """Return the columns but for the time, made of random bits."""
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

    def _columns(self, stream: str, one: npt.NDArray[np.uint64], two: npt.NDArray[np.uint64]) -> dict[str, pa.Array]:
        integer, real = ("x", "y") if stream == "R" else ("a", "b")
        share = (two >> np.uint64(11)) * 2.0**-53
        reals = (1 + share * (VALUE_MAX - 1)).astype(np.float32)
        # Rounding to 32 bits must not reach the end, which is exclusive.
        reals = np.minimum(reals, _BELOW_MAX)
        return {integer: pa.array((one % np.uint64(VALUE_MAX)).astype(np.int32) + 1), real: pa.array(reals)}


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

    def _columns(self, stream: str, one: npt.NDArray[np.uint64], two: npt.NDArray[np.uint64]) -> dict[str, pa.Array]:
        # Far apart, so that nothing can profit from keys being small or dense.
        keys = (one % np.uint64(self.keys)).astype(np.int64) * 2_654_435_761
        texts = pa.array([f"key-{key:016x}" for key in keys], pa.string()) if self.strings else pa.array(keys)
        return {"k": texts, "v" if stream == "R" else "w": pa.array((two >> np.uint64(34)).astype(np.int64))}
