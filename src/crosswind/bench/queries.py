"""``bench queries``: many queries in one join against a join for each, three streams against a tree of joins."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from crosswind.bench.record import BenchReport, Goal, Measurement, Tell, interleave, measured_in
from crosswind.engine.session import open as open_join

__all__ = ["NINE", "measure"]

NINE = {
    "q1": ("RS", "R.a = S.d", 500),
    "q2": ("RST", "R.a = S.d AND S.e = T.f", 1_000),
    "q3": ("ST", "S.e = T.f", 500),
    "q4": ("RS", "R.b = S.e", 1_000),
    "q5": ("RS", "R.a = S.d OR R.c = S.e", 500),
    "q6": ("ST", "S.e = T.g", 1_000),
    "q7": ("RS", "R.a = S.d AND R.c = S.e", 1_000),
    "q8": ("ST", "S.d = T.f", 2_000),
    "q9": ("RST", "(R.c = S.e OR S.e = T.f) AND R.a = S.d", 2_000),
}
"""The example of WJSP §3.2: streams, condition, window."""

_HEAVIEST = "q9"
"""Most of the rows are its own: one join for all nine cannot be faster than a join for this one."""

_COLUMNS = {"R": "abc", "S": "de", "T": "fg"}
_SIMILAR = 64
_ASKED = (2_000, 64)
"""Window and batch that the goals are about."""
_WIDEST = 2_000

_PARTS = (0.25, 0.5, 1, 2)
"""The longest windows that are tried: §4 of the paper has 500, 1,000, 2,000 and 4,000 tuples."""

_DISTINCT = 1 << 14
"""Tuples of a stream before they come again, at least."""

Drive = Callable[[], float]


def measure(*, window: int, batch: int, pushes: int, rounds: int, tell: Tell, similar: int = _SIMILAR) -> BenchReport:
    """Drive joins that share, and the same queries apart.

    Parameters
    ----------
    window : int
        Tuples in the longest window of the nine queries; the others in proportion.
    batch : int
        Tuples in a push.
    pushes : int
        Pushes of each stream in a run.
    rounds : int
        Runs of each, interleaved.
    tell : callable
        Told what is being done.
    similar : int
        How many similar queries are compared with one.
    """
    measurements: list[Measurement] = []

    def asked(value: float, at_least: bool) -> Goal | None:
        return Goal(value, at_least=at_least) if (window, batch) == _ASKED else None

    for longest in dict.fromkeys(max(1, int(part * window)) for part in _PARTS):
        for size in dict.fromkeys((1, batch)):
            how = f"windows to {longest}, {'a tuple at a time' if size == 1 else f'batches of {size}'}"
            tell(f"the nine queries of the paper, {how}: filling windows")
            runs = interleave(_nine(longest, size, batch, pushes * (5 if size == 1 else 1)), rounds, tell)
            one, apart, heaviest = runs.values()
            name = f"nine queries in one join, {how}"
            measurements.append(measured_in(one, name, "tuples/s"))
            # The processor of the paper takes a tuple at a time. In batches the rows of one of the nine are most of it.
            goal = asked(4.0, True) if size == 1 else None
            measurements.append(measured_in(_shares(one, apart), f"{name}, times as fast as nine", "x", goal))
            alone = f"the heaviest of the nine alone, {how}, times as fast as nine"
            measurements.append(measured_in(_shares(heaviest, apart), alone, "x"))
    tell(f"{similar} similar queries: filling windows")
    runs = interleave(_similar(similar, 10 * window, 16 * batch, pushes), rounds, tell)
    times = [one / many for one, many in zip(*runs.values(), strict=True)]
    measurements.append(measured_in(times, f"{similar} similar queries, times as long as one", "x", asked(6.0, False)))
    tell("three streams: filling windows")
    runs = interleave(_three(window, batch, pushes), rounds, tell)
    times = [tree / routes for routes, tree in zip(*runs.values(), strict=True)]
    measurements.append(measured_in(times, "three streams, times as long as a tree of joins", "x", asked(1.2, False)))
    tell("three streams, two workers: filling windows")
    runs = interleave(_shared(20 * window, 16 * batch, max(2, pushes // 4)), rounds, tell)
    gains = [two / one for one, two in zip(*runs.values(), strict=True)]
    measurements.append(measured_in(gains, "three streams, scanned: two workers, times as fast as one", "x"))
    settings = {"window": window, "batch": batch, "pushes": pushes, "rounds": rounds}
    notes = [
        "Tuples of all streams together, taken once however many joins they are pushed to. Ratios are of one round."
    ]
    return BenchReport("queries", "many queries and many streams", settings, measurements, notes)


class _Source:
    """Endless batches of random tuples, one of each stream in turn."""

    def __init__(self, columns: dict[str, str], high: int, batch: int, dtype: type = np.uint8) -> None:
        rng = np.random.default_rng(1)
        count = batch * -(-max(64 * batch, _DISTINCT) // batch)
        self._batch, self._count = batch, count
        self._values: dict[str, dict[str, np.ndarray[Any, Any]]] = {
            name: {column: rng.integers(0, high, count).astype(dtype) for column in names}
            for name, names in columns.items()
        }
        self._taken = 0

    def schemas(self) -> dict[str, pa.Schema]:
        """Return the schemas of the streams."""
        return {name: batch.schema for name, batch in self.next().items()}

    def next(self) -> dict[str, pa.RecordBatch]:
        """Return the next batch of each stream."""
        at = self._taken % self._count
        size = min(self._batch, self._count - at)
        times = np.arange(self._taken, self._taken + size)
        self._taken += size
        return {
            name: pa.RecordBatch.from_pydict(
                {"ts": times, **{column: v[at : at + size] for column, v in values.items()}}
            )
            for name, values in self._values.items()
        }

    def in_batches(self, size: int) -> None:
        """Give batches of ``size`` from now on."""
        self._batch = size


def _drive(source: _Source, push: Callable[[str, pa.RecordBatch], Any], fill: int, batch: int, pushes: int) -> Drive:
    """Fill windows, then return what pushes on and returns the tuples of all streams in a second."""
    for _ in range(-(-fill // batch)):
        for name, taken in source.next().items():
            push(name, taken)

    def run() -> float:
        batches = [source.next() for _ in range(pushes)]
        began = time.perf_counter()
        for taken in batches:
            for name, part in taken.items():
                push(name, part)
        return sum(len(part) for taken in batches for part in taken.values()) / (time.perf_counter() - began)

    return run


def _everywhere(joins: Sequence[Any]) -> Callable[[str, pa.RecordBatch], None]:
    """Return a push to every join that has the stream."""

    def push(name: str, batch: pa.RecordBatch) -> None:
        for join in joins:
            if name in join.streams:
                join.push(name, batch)

    return push


def _shares(some: Sequence[float], others: Sequence[float]) -> list[float]:
    return [one / other for one, other in zip(some, others, strict=True)]


def _nine(window: int, batch: int, fill: int, pushes: int) -> dict[str, Drive]:
    """Return the nine queries in one join, in nine, and the heaviest of them; windows filled in batches of ``fill``."""
    texts = {}
    for name, (streams, condition, rows) in NINE.items():
        entries = ", ".join(f"{stream} [ROWS {max(1, rows * window // _WIDEST)}]" for stream in streams)
        texts[name] = f"SELECT * FROM {entries} WHERE {condition}"
    made = {}
    asked: dict[str, list[str | dict[str, str]]] = {
        "nine queries in one join": [texts],
        "nine joins": list(texts.values()),
        "the heaviest of the nine alone": [texts[_HEAVIEST]],
    }
    for name, queries in asked.items():
        source = _Source(_COLUMNS, 256, fill)
        schemas = source.schemas()
        joins: list[Any] = [open_join(query, schemas) for query in queries]
        # Twice: as long as windows are filling, what is looked for again and again is not all known.
        made[name] = _drive(source, _everywhere(joins), 3 * window, fill, pushes)
        source.in_batches(batch)
    return made


def _similar(many: int, window: int, batch: int, pushes: int) -> dict[str, Drive]:
    def text(k: int) -> str:
        band = f"R.x BETWEEN S.a - {3 + k % 8} AND S.a + {3 + k % 8} AND R.y BETWEEN S.b - {3 + k // 8} AND S.b + {k}"
        return f"SELECT R.x, S.a FROM R [RANGE {window}], S [RANGE {max(1, window - window * k // 128)}] WHERE {band}"

    made = {}
    for count in (1, many):
        source = _Source({"R": "xy", "S": "ab"}, 10_000, batch, np.int32)
        join = open_join({f"q{k}": text(k) for k in range(count)}, source.schemas())
        made[f"{count} similar"] = _drive(source, _everywhere([join]), window, batch, pushes)
    return made


def _three(window: int, batch: int, pushes: int) -> dict[str, Drive]:
    """Return a join of three streams, and a tree of two joins that gives about the same."""
    columns = {"R": "ab", "S": "cd", "T": "ef"}
    span = f"[RANGE {window}]"
    whole = f"SELECT R.a, S.d, T.f FROM R {span}, S {span}, T {span} WHERE R.a = S.c AND S.d = T.e"
    first = f"SELECT R.a, S.d, greatest(R.ts, S.ts) AS ts FROM R {span}, S {span} WHERE R.a = S.c"
    second = f"SELECT P.a, P.d, T.f FROM P {span}, T {span} WHERE P.d = T.e"
    source = _Source(columns, window, batch, np.int32)
    routes = _drive(source, _everywhere([open_join(whole, source.schemas())]), window, batch, pushes)
    source = _Source(columns, window, batch, np.int32)
    schemas = source.schemas()
    lower = open_join(first, schemas)
    upper = open_join(second, {"P": lower.schema, "T": schemas["T"]}, lateness=batch)

    def push(name: str, taken: pa.RecordBatch) -> None:
        if name == "T":
            upper.push("T", taken)
        else:
            upper.push("P", lower.push(name, taken))

    return {"one join of three streams": routes, "a tree of two joins": _drive(source, push, window, batch, pushes)}


def _shared(window: int, batch: int, pushes: int) -> dict[str, Drive]:
    """Return a join of three streams that is scanned by one worker, and by two."""
    span = f"[RANGE {window}]"
    near = "R.a BETWEEN S.c - 2 AND S.c + 2 AND S.d BETWEEN T.e - 2 AND T.e + 2"
    sql = f"SELECT R.a, S.d, T.f FROM R {span}, S {span}, T {span} WHERE {near}"
    made = {}
    for workers in (1, 2):
        source = _Source({"R": "ab", "S": "cd", "T": "ef"}, 100_000, batch, np.int32)
        join = open_join(sql, source.schemas(), index="scan", engine="cell", workers=workers)
        made[f"{workers} workers"] = _drive(source, _everywhere([join]), window, batch, pushes)
    return made
