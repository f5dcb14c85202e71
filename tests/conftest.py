"""The engines under test, and the one ``engine`` fixture that every semantic test runs through.

To put a new engine, index or layout under the whole suite, add it to :data:`ENGINES`.
"""

from __future__ import annotations

import atexit
import os
import random
import shutil
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest

from tests import seeds, skips
from tests.oracle import late_rows, ticks, ticks_per_second

JOINS = ("Join", "ManyJoin")
KERNEL_CACHE = "crosswind-kernels"
ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Step:
    """Rows ``start`` to ``stop`` of ``stream`` arrive together."""

    stream: str
    start: int
    stop: int


@dataclass(frozen=True)
class Outcome:
    """A result, and by stream the rows that the rule of lateness drops (row numbers)."""

    table: pa.Table
    dropped: dict[str, set[int]]


@dataclass(frozen=True)
class EngineConfig:
    """One way to run a join.

    ``mode``: ``run`` replays finite tables; ``push`` pushes random batches in random turns;
    ``restore`` does the same and goes on from a snapshot at a random moment; ``spark`` joins
    static frames on Spark, ``stream`` streaming ones in random batches, ``cells`` does as Spark would
    in this process, with failures (tests/spark/simulation.py); these have ``layout`` and ``cells``
    (``layout="any"``: chosen at random).
    ``basic_window``: tuples in a basic window, if not the engine's own choice.
    ``hurry``: with the handshake, results at once.
    """

    name: str = "kang"
    index: str = "scan"
    workers: int | None = None
    mode: str = "run"
    basic_window: int | None = None
    layout: str | tuple[int, int] = "auto"
    cells: int | None = None
    hurry: bool = False

    @property
    def on_spark(self) -> bool:
        """Whether Spark does the work, or is played."""
        return self.mode in ("spark", "stream", "cells")

    @property
    def id(self) -> str:
        """Name in test ids and on the command line of the fuzzer."""
        if self.on_spark:
            shape = self.layout if isinstance(self.layout, str) else "x".join(map(str, self.layout))
            return f"{self.mode}-{self.index}-{shape}" + ("" if self.cells is None else f"-{self.cells}")
        workers = "" if self.workers is None else f"-{self.workers}"
        small = "" if self.basic_window is None else f"-small{self.basic_window}"
        hurry = "-hurry" if self.hurry else ""
        return f"{self.name}-{self.index}{workers}-{self.mode}{small}{hurry}"

    @property
    def options(self) -> dict[str, Any]:
        """Keyword arguments for ``cw.run`` and ``cw.open``."""
        return {"engine": self.name, "index": self.index, "workers": self.workers}

    def open(self, sql: str, schemas: Mapping[str, pa.Schema], **options: Any) -> Any:
        """Open a live join on this engine."""
        import crosswind as cw

        with self.small_windows():
            return cw.open(sql, dict(schemas), **self.options, **options, **({"hurry": True} if self.hurry else {}))

    @contextmanager
    def small_windows(self) -> Iterator[None]:
        """Make basic windows of few tuples, so that small tables fill, seal and expire many of them.

        And let workers have every probe, however little there is to do.
        """
        if self.basic_window is None:
            yield
            return
        from crosswind.engine import session
        from crosswind.engine.parallel import pool
        from crosswind.engine.parallel.handshake import engine as handshake
        from crosswind.engine.probe import cached_pairs, operators, tree

        small = {name: partial(_with_basic_window, getattr(session, name), self.basic_window) for name in JOINS}
        with (
            patch.multiple(session, **small),
            patch.object(session, "_CHUNK", 2 * self.basic_window),
            patch.object(pool, "ALONE", 0),
            patch.object(handshake, "BATCH", 2),
            patch.object(tree, "ROOM", 32 if self.basic_window > 4 else 200),
            patch.object(operators, "RESULTS_ROOM", 3),
            patch.object(cached_pairs, "PAIRS_ROOM", 2),
            patch.object(cached_pairs, "PAIRS_MOST", 32 if self.basic_window > 4 else 1 << 12),
        ):
            yield

    def rows(self, sql: str, tables: Mapping[str, pa.Table], time: str | dict[str, str] = "ts") -> pa.Table:
        """Return the join's result over finite tables; nothing is late."""
        if not self.on_spark:
            return self.join(sql, tables, time).table
        from tests.spark.frames import NotInSparkError

        try:
            return self.join(sql, tables, time).table
        except NotInSparkError as reason:
            pytest.skip(f"Spark has no such value: {reason}")

    def join(
        self,
        sql: str,
        tables: Mapping[str, pa.Table],
        time: str | dict[str, str] = "ts",
        seed: int = 0,
        strict: bool = False,
    ) -> Outcome:
        """Return the join's result over finite tables.

        Parameters
        ----------
        seed : int
            Decides batches, turns and the moment of the snapshot.
        strict : bool
            Allow (in the live modes) less lateness than the disorder needs, so that tuples
            are dropped. The outcome says which ones must have been.
        """
        import crosswind as cw

        times = dict.fromkeys(tables, time) if isinstance(time, str) else time
        if self.on_spark:
            return self._on_spark(sql, tables, time, times, random.Random(f"spark {seed}"), strict)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            if any(table.column(times[name]).null_count for name, table in tables.items()):
                warnings.simplefilter("ignore", cw.NullTimeWarning)
            if self.mode == "run":
                with self.small_windows():
                    return Outcome(cw.run(sql, dict(tables), time=time, **self.options), {})
            if strict:
                warnings.simplefilter("ignore", cw.LateTupleWarning)
            return self._live(sql, tables, time, times, random.Random(f"live {seed}"), strict)

    def run_many(
        self, queries: Mapping[str, str], tables: Mapping[str, pa.Table], times: dict[str, str]
    ) -> dict[str, pa.Table]:
        """Return the results of queries that share a join over finite tables, replayed in time order."""
        import crosswind as cw

        with warnings.catch_warnings(), self.small_windows():
            warnings.simplefilter("ignore", cw.NullTimeWarning)
            return dict(cw.run(dict(queries), dict(tables), time=times, **self.options))

    def _on_spark(
        self,
        sql: str,
        tables: Mapping[str, pa.Table],
        time: str | dict[str, str],
        times: dict[str, str],
        rng: random.Random,
        strict: bool,
    ) -> Outcome:
        from tests.spark.engine import cell_rows, static_rows, stream_rows

        windows = sql.count("[")
        known = [(layout, cells) for layout, cells in LAYOUTS if isinstance(layout, str) or len(layout) == windows]
        layout, cells = rng.choice(known) if self.layout == "any" else (self.layout, self.cells)
        options = {"layout": layout, "cells": cells, "index": self.index}
        if self.mode == "spark":
            return Outcome(static_rows(sql, tables, time, **options), {})
        lateness = {name: disorder(tables[name].column(times[name])) for name in tables}
        if strict:
            lateness = {name: rng.randint(0, lateness[name]) for name in tables}
        rows = stream_rows if self.mode == "stream" else cell_rows
        return Outcome(*rows(sql, tables, time, times, lateness, rng, **options))

    def _live(
        self,
        sql: str,
        tables: Mapping[str, pa.Table],
        time: str | dict[str, str],
        times: dict[str, str],
        rng: random.Random,
        strict: bool,
    ) -> Outcome:
        steps = plan_steps(tables, rng)
        lateness = {name: disorder(tables[name].column(times[name])) for name in tables}
        if strict:
            lateness = {name: rng.randint(0, lateness[name]) for name in tables}
        options = {"time": time, "lateness": spell_lateness(lateness, tables, times)}
        schemas = {name: table.schema for name, table in tables.items()}
        stop = rng.randrange(len(steps) + 1) if self.mode == "restore" else -1
        parts = []
        join = self.open(sql, schemas, **options)
        for number, step in enumerate([*steps, None]):
            if number == stop:
                snapshot = join.snapshot()
                join.close()
                join = self.open(sql, schemas, restore=snapshot, **options)
            if step is not None:
                batch = tables[step.stream].slice(step.start, step.stop - step.start)
                batch = batch.combine_chunks().to_batches()[0] if rng.random() < 0.3 and batch.num_rows else batch
                parts.append(join.push(step.stream, batch))
                parts.extend(self._advance(join, step, tables, times, rng) if not strict else ())
        parts.append(join.finish())
        result = pa.concat_tables(parts)
        dropped = {name: _dropped(name, steps, tables, times, lateness) for name in tables}
        _check_stats(join.stats, tables, times, dropped, result)
        join.close()
        return Outcome(result, dropped)

    def _advance(
        self, join: Any, step: Step, tables: Mapping[str, pa.Table], times: dict[str, str], rng: random.Random
    ) -> Iterator[pa.Table]:
        """Now and then say that a stream stands at its least time to come, which drops nothing."""
        if rng.random() > 0.15:
            return
        column = tables[step.stream].column(times[step.stream])
        ahead = [t for t in ticks(column)[step.stop :] if t is not None]
        if ahead:
            yield join.advance(step.stream, time_value(min(ahead), column.type))


ENGINES = (
    EngineConfig(mode="run"),
    EngineConfig(mode="run", basic_window=8),
    EngineConfig(mode="push"),
    EngineConfig(mode="push", basic_window=4),
    EngineConfig(mode="restore", basic_window=4),
    EngineConfig(index="band", mode="run", basic_window=8),
    EngineConfig(index="band", mode="push", basic_window=4),
    EngineConfig(index="hash", mode="push", basic_window=4),
    EngineConfig(index="auto", mode="restore", basic_window=4),
    EngineConfig(index="auto", mode="cells", layout="any"),
    EngineConfig("cell", "scan", 3, "run", 8),
    EngineConfig("cell", "auto", 2, "push", 4),
    EngineConfig("grid", "auto", 4, "run", 4),
    EngineConfig("grid", "scan", 6, "restore", 4),
    EngineConfig("handshake", "scan", 2, "run", 8),
    EngineConfig("handshake", "auto", 3, "restore", 4),
    EngineConfig("handshake", "band", 3, "push", 4, hurry=True),
    EngineConfig("split", "auto", 2, "push", 4),
)

LAYOUTS = (("auto", None), ("grid", 4), ("range", 3), ("hash", 2), ((2, 3), None))
"""Layouts on Spark with their number of cells."""

ON_SPARK = EngineConfig(mode="spark", index="auto", layout="any")
"""Static frames on Spark."""

ON_STREAMS = replace(ON_SPARK, mode="stream")
"""Streaming frames; a query costs seconds, so a choice of tests runs on them (tests/spark/test_streams.py)."""

SPARK = pytest.mark.spark
"""Tests on Spark; those of one process share one session."""


def _with_basic_window(join: Any, tuples: int, *args: Any, **options: Any) -> Any:
    return join(*args, **{**options, "basic_window": tuples})


def plan_steps(tables: Mapping[str, pa.Table], rng: random.Random) -> list[Step]:
    """Cut each table into batches and let the streams take turns, all at random."""
    queues: dict[str, list[Step]] = {}
    for name, table in tables.items():
        size = rng.choice([1, 3, 10, 50, 200])
        cuts, at = [], 0
        while at < table.num_rows:
            length = rng.randint(0, 2 * size) if size > 1 else rng.choice([0, 1, 1, 1, 1, 2])
            cuts.append(Step(name, at, min(at + length, table.num_rows)))
            at += length
        queues[name] = cuts
    eager = rng.choice([0.5, 0.5, 0.1, 0.9])
    steps = []
    while any(queues.values()):
        waiting = [name for name in queues if queues[name]]
        name = waiting[0] if rng.random() < eager else rng.choice(waiting)
        steps.append(queues[name].pop(0))
    return steps


def disorder(column: pa.ChunkedArray) -> int:
    """Return how many ticks a tuple comes behind a later one at most."""
    worst, high = 0, None
    for t in ticks(column):
        if t is not None:
            high = t if high is None else max(high, t)
            worst = max(worst, high - t)
    return worst


def spell_lateness(
    lateness: Mapping[str, int], tables: Mapping[str, pa.Table], times: Mapping[str, str]
) -> dict[str, int | str]:
    """Return ticks of lateness as ``cw.open`` takes them: text for temporal times, ints for integers."""
    spelled: dict[str, int | str] = {}
    for name, count in lateness.items():
        rate = ticks_per_second(tables[name].schema.field(times[name]).type)
        spelled[name] = count if rate is None else f"{int(count * 1_000_000_000 / rate)}ns"
    return spelled


def time_value(count: int, kind: pa.DataType) -> int | pa.Scalar:
    """Return ticks as a value of a time column."""
    if pa.types.is_integer(kind):
        return count
    return pa.scalar(count, pa.int32() if pa.types.is_date32(kind) else pa.int64()).cast(kind)


def _dropped(
    name: str, steps: list[Step], tables: Mapping[str, pa.Table], times: Mapping[str, str], lateness: Mapping[str, int]
) -> set[int]:
    values = ticks(tables[name].column(times[name]))
    return late_rows([values[s.start : s.stop] for s in steps if s.stream == name], lateness[name])


def _check_stats(
    stats: Any,
    tables: Mapping[str, pa.Table],
    times: Mapping[str, str],
    dropped: Mapping[str, set[int]],
    result: pa.Table,
) -> None:
    late = {name: len(rows) for name, rows in dropped.items()}
    rejected = {name: table.column(times[name]).null_count for name, table in tables.items()}
    taken = {name: table.num_rows - late[name] - rejected[name] for name, table in tables.items()}
    assert (stats.late, stats.rejected, stats.tuples_in) == (late, rejected, taken)
    assert stats.results == result.num_rows


def use_kernel_cache(folder: Path) -> None:
    """Let this process and its children keep compiled kernels in ``folder``, or in the one that the environment names.

    A file there is used only where all that decides its machine code is the same, so a folder outside the clone can
    serve many clones, commits and machines: ``CROSSWIND_CACHE_DIR=~/.cache/crosswind-tests make test``.
    """
    from crosswind.folders import distrust, make_private

    chosen = Path(os.environ.get("CROSSWIND_CACHE_DIR") or folder)
    make_private(chosen)
    reason = distrust(chosen)
    if reason is not None and chosen != folder:
        pytest.exit(f"CROSSWIND_CACHE_DIR is {chosen}, and {reason}. Name a folder of your own.", returncode=4)
    if reason is not None:
        # A clone that others may write to, as some runners make them: kernels are kept for this run alone.
        chosen = Path(tempfile.mkdtemp(prefix="crosswind-tests-"))
        atexit.register(_remove, chosen, os.getpid())
    os.environ["CROSSWIND_CACHE_DIR"] = str(chosen)


def _remove(folder: Path, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""A JVM that lives for a minute spends most of it on compiling for later; ours are told not to."""


def pytest_configure(config: pytest.Config) -> None:
    """Reuse compiled kernels from one session to the next: a new query costs about a second."""
    for plugin in (seeds, skips):
        config.pluginmanager.register(plugin)
    os.environ.setdefault("JDK_JAVA_OPTIONS", QUICK_JAVA)
    cache = getattr(config, "cache", None)  # pytest can be told to have none
    use_kernel_cache(Path(cache.mkdir(KERNEL_CACHE)) if cache else ROOT / ".pytest_cache" / "d" / KERNEL_CACHE)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests of one query beside each other, all engines in a row, and those on Spark before all others.

    Processes take tests in stretches (``--dist worksteal``), so that a query is compiled in one of them, while others
    compile other queries, and one alone has a session of Spark, unless it is still at it when others are done.
    """
    groups: dict[tuple[object, ...], int] = {}

    def group(item: pytest.Item) -> tuple[bool, int]:
        params = getattr(item, "callspec", None)
        shape = sorted((name, _mark(value)) for name, value in params.params.items()) if params else ()
        number = groups.setdefault((item.nodeid.partition("[")[0], *shape), len(groups))
        return item.get_closest_marker(SPARK.name) is None, number

    items.sort(key=group)


def _mark(value: object) -> str:
    """Return what tells parameters apart; engines are not, as they share kernels."""
    if isinstance(value, EngineConfig):
        return ""
    return repr(value) if isinstance(value, int | str | tuple) else str(id(value))


@pytest.fixture(params=[*ENGINES, pytest.param(ON_SPARK, marks=SPARK)], ids=lambda engine: engine.id)
def engine(request: pytest.FixtureRequest) -> EngineConfig:
    """Return each engine under test in turn."""
    return request.param


def _answers_at_once(engine: EngineConfig) -> bool:
    return engine.mode == "push" and (engine.name != "handshake" or engine.hurry)


@pytest.fixture(params=[e for e in ENGINES if _answers_at_once(e)], ids=lambda engine: engine.id)
def live(request: pytest.FixtureRequest) -> EngineConfig:
    """Return each engine under test in turn, for tests that open the join themselves."""
    return request.param


@pytest.fixture
def cpp_loop() -> Any:
    """Return the benchmarks' loop in C++, where there is a compiler, and a processor that it is written for."""
    from crosswind.bench.baseline import BaselineMissingError, load_baseline
    from crosswind.bench.machine import describe_machine

    if shutil.which("g++") is None:
        pytest.skip("no C++ loop here: apt-get install g++")
    try:
        return load_baseline()
    except BaselineMissingError:
        if "avx2" in describe_machine()["vectors"]:
            raise
        pytest.skip("this processor has no AVX2, for which the C++ loop is written")
