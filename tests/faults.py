"""Interrupt live joins at any line, and see that nothing is lost, doubled or left behind.

``python -m tests.faults --faults 10000 --seed 0``

A call of a join is traced, and at one of its lines an exception is raised, as Ctrl-C or a lack of memory
would. Afterwards the join must be exactly as before the call, or as after it with the results at hand, or refuse every
further call. Then the same call is made again, with a fault at another line, and at last without. What all calls
gave is compared with a run without faults.
"""

from __future__ import annotations

import argparse
import random
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any
from unittest.mock import patch

import pyarrow as pa

import crosswind as cw
from tests.conftest import KERNEL_CACHE, ROOT, use_kernel_cache

PACKAGE = str(Path(cw.__file__).parent) + "/"
FAULTS = (KeyboardInterrupt, MemoryError)
R = pa.schema([("ts", pa.int64()), ("x", pa.int64()), ("f", pa.float64()), ("s", pa.string())])
BAND = "R.x BETWEEN S.x - 2 AND S.x + 2"
KEY = "R.x = S.x"
SCAN = "R.x * S.x % 7 = 3"


@dataclass(frozen=True)
class Scenario:
    """A join, and how it is opened."""

    name: str
    sql: str | dict[str, str]
    options: dict[str, Any] = field(default_factory=dict)
    streams: tuple[str, ...] = ("R", "S")
    size: int = 12
    domain: int = 9
    changes: bool = False

    def open(self) -> Any:
        """Open the join, with small basic windows and work for all workers."""
        from crosswind.engine.parallel import pool
        from crosswind.engine.parallel.handshake import engine as handshake
        from crosswind.engine.probe import cached_pairs

        schemas = dict.fromkeys(self.streams, R)
        with (
            patch.object(pool, "ALONE", 0),
            patch.object(handshake, "BATCH", 2),
            patch.object(cached_pairs, "PAIRS_ROOM", 2),
        ):
            return cw.open(self.sql, schemas, **{"basic_window": 8, "lateness": 3, **self.options})


def _select(kind: str, window: str = "[RANGE 9]", on: str = BAND, shown: str = "R.x AS a, R.s AS t, S.x AS b") -> str:
    if kind == "inner":
        return f"SELECT {shown} FROM R {window}, S {window} WHERE {on}"
    only = "R.x AS a, R.s AS t" if kind in ("LEFT SEMI", "LEFT ANTI") else shown
    return f"SELECT {only} FROM R {window} {kind} JOIN S {window} ON {on}"


ENGINES: dict[str, dict[str, Any]] = {
    "kang": {"engine": "kang"},
    "kang-scan": {"engine": "kang", "index": "scan"},
    "cell": {"engine": "cell", "workers": 2},
    "grid": {"engine": "grid", "workers": 4, "layout": (2, 2)},
    "hurry": {"engine": "handshake", "workers": 2, "hurry": True},
    "handshake": {"engine": "handshake", "workers": 2},
}
THREE = "SELECT R.x AS a, S.x AS b, T.x AS c FROM R {w}, S {w}, T {w} WHERE R.x = S.x AND abs(S.x - T.x) <= 1"
PAIRS = "SELECT R.x AS a, T.x AS c FROM R [ROWS 9], S [ROWS 9], T [ROWS 9] WHERE R.x = S.x AND (R.x = T.x OR S.x = T.x)"
PLAIN = "R.x AS a, S.x AS b"


def scenarios() -> Iterator[Scenario]:
    """Yield every kind of join on every engine that runs it."""
    for engine, options in ENGINES.items():
        yield Scenario(f"{engine}-band", _select("inner"), options)
        yield Scenario(f"{engine}-few", _select("inner", shown=PLAIN), options, size=1)
        yield Scenario(f"{engine}-pairs", _select("inner", on=SCAN), options)
        if engine == "handshake":
            continue
        yield Scenario(f"{engine}-rows", _select("inner", "[ROWS 20]", KEY), options)
        yield Scenario(f"{engine}-ordered", _select("inner"), {**options, "ordered": True})
        for kind in ("LEFT", "FULL", "LEFT SEMI", "LEFT ANTI"):
            yield Scenario(f"{engine}-{kind.lower().replace(' ', '-')}", _select(kind), options)
    queries = {"one": _select("inner", on=KEY), "two": _select("inner", "[ROWS 9]")}
    queries["three"] = THREE.format(w="[RANGE 5]")
    for engine in ("kang", "cell", "grid"):
        options, streams = ENGINES[engine], ("R", "S", "T")
        yield Scenario(f"{engine}-three", THREE.format(w="[RANGE 9]"), options, streams, 8)
        yield Scenario(f"{engine}-three-rows", THREE.format(w="[ROWS 9]"), options, streams, 8)
        yield Scenario(f"{engine}-many", queries, options, streams, 8, changes=True)
        yield Scenario(f"{engine}-standing", PAIRS, options, streams, 2, 4)
    own = "SELECT a.x AS a, b.x AS b FROM R [RANGE 9] a, R [RANGE 9] b WHERE a.x = b.x + 1"
    yield Scenario("kang-self", own, {}, ("R",))
    yield Scenario("kang-shed", _select("inner"), {"admission": "shed", "output_rows": 10**6})
    yield Scenario("kang-left-rows", _select("LEFT", "[ROWS 20]"), {})


Step = Callable[[Any], Any]


def steps_of(scenario: Scenario, count: int, seed: int) -> list[Step]:
    """Return calls of a join: pushes mostly, some late tuples and nulls among them, watermarks, a snapshot, the end."""
    rng = random.Random(f"{scenario.name} {seed}")
    steps: list[Step] = []
    for number in range(count):
        stream = scenario.streams[number % len(scenario.streams)]
        size = rng.randint(1, scenario.size)
        at = 3 * (number // len(scenario.streams))
        times = [at + rng.randint(0, 3) if rng.random() < 0.95 else at - 9 for _ in range(size)]
        holes = 0.0 if scenario.size == 1 else 0.1
        values = [None if rng.random() < holes else rng.randint(0, scenario.domain) for _ in range(size)]
        batch = {
            "ts": times,
            "x": values,
            "f": [rng.random() for _ in range(size)],
            "s": [rng.choice(["a", "bb", ""]) for _ in range(size)],
        }
        table = pa.table(batch, schema=R)
        steps.append(lambda join, stream=stream, table=table: join.push(stream, table))
        if number % 7 == 5:
            steps.append(lambda join, stream=stream, at=at: join.advance(stream, at - 1))
        if scenario.changes and number == count // 2:
            steps.append(lambda join: join.add("four", _select("inner", "[RANGE 4]", KEY)))
        if scenario.changes and number == 3 * count // 4:
            steps.append(lambda join: join.drop("two"))
    steps.append(lambda join: join.finish())
    return steps


def spelled(found: Any) -> Counter[str]:
    """Return results as a bag of rows."""
    tables = found if isinstance(found, dict) else {"": found}
    return Counter(f"{name}: {row}" for name, table in tables.items() if table is not None for row in table.to_pylist())


def shown(join: Any) -> tuple[Any, ...]:
    """Return what can be seen of a join without calling it."""
    stats = join.stats
    return (
        stats.tuples_in,
        stats.late,
        stats.rejected,
        stats.results,
        stats.held,
        stats.window_tuples,
        stats.watermarks,
        stats.pushes,
        stats.shed,
    )


class Tracer:
    """Raises ``error`` at some line events (by number) of code of the package, in this thread."""

    def __init__(self, at: tuple[int, ...], error: type[BaseException]) -> None:
        self.at, self.error = at, error
        self.lines = 0
        self.place = ""

    def __call__(self, frame: FrameType, event: str, _argument: Any) -> Any:
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        if event == "line":
            self.lines += 1
            if self.lines in self.at:
                self.place = f"{frame.f_code.co_filename.removeprefix(PACKAGE)}:{frame.f_lineno}"
                raise self.error
        return self

    @contextmanager
    def tracing(self) -> Iterator[None]:
        """Trace what is called meanwhile."""
        before = sys.gettrace()
        sys.settrace(self)
        try:
            yield
        finally:
            sys.settrace(before)


class BrokenPromiseError(AssertionError):
    """A join that was interrupted did not hold."""


@dataclass
class Tally:
    """What became of the faults."""

    undone: int = 0
    refused: int = 0
    swallowed: int = 0
    refusals: list[str] = field(default_factory=list)

    @property
    def faults(self) -> int:
        """How many there were."""
        return self.undone + self.refused + self.swallowed


class Run:
    """One scenario with faults.

    Parameters
    ----------
    scenario : Scenario
        What is joined.
    pushes : int
        How many pushes there are.
    seed : int
        Decides data and lines.
    most : int
        Faults, about: as many in each call.
    """

    def __init__(self, scenario: Scenario, pushes: int, seed: int, most: int) -> None:
        self.scenario, self.most = scenario, most
        self.rng = random.Random(f"faults {scenario.name} {seed}")
        self.steps = steps_of(scenario, pushes, seed)
        self.tally = Tally()
        self.place = ""

    def run(self) -> Tally:
        """Run it; raise BrokenPromiseError if the join did not hold."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cw.CrosswindWarning)
            expected = self._without_faults()
            join, found, number = self.scenario.open(), Counter(), 0
            parts: list[Counter[str]] = []
            try:
                while number < len(self.steps):
                    join, result = self._step(join, number, parts)
                    parts.append(spelled(result) if result is not None else Counter())
                    number += 1
            finally:
                join.close()
            found = sum(parts, Counter())
        if found != expected:
            lost, more = expected - found, found - expected
            raise BrokenPromiseError(
                f"{self.scenario.name}: lost {dict(lost)}, too much {dict(more)} (last: {self.place})"
            )
        return self.tally

    def _without_faults(self) -> Counter[str]:
        """Return what all calls give; note how many lines each takes."""
        found: Counter[str] = Counter()
        self.lengths: list[int] = []
        with self.scenario.open() as join:
            for step in self.steps:
                tracer = Tracer((), KeyboardInterrupt)
                with tracer.tracing():
                    result = step(join)
                found += spelled(result) if result is not None else Counter()
                self.lengths.append(tracer.lines)
        return found

    def _replayed(self, number: int, parts: list[Counter[str]]) -> Any:
        """Return a new join that has made the first ``number`` calls; what they gave is what they gave before."""
        join = self.scenario.open()
        parts[:] = [spelled(found) if (found := step(join)) is not None else Counter() for step in self.steps[:number]]
        return join

    def _step(self, join: Any, number: int, parts: list[Counter[str]]) -> tuple[Any, Any]:
        """Make a call again and again, each time with a fault at one of its lines, and at last without."""
        step, length = self.steps[number], self.lengths[number]
        for _ in range(-(-self.most // len(self.steps))):
            join.advance_to(-(2**63))  # completes nothing, but releases what the last call left to be released
            before = shown(join)
            at = self.rng.randint(1, length)
            # Now and then another fault comes while the first one is being dealt with.
            again = at + self.rng.randint(1, 150) if self.rng.random() < 0.3 else 0
            tracer = Tracer((at, again), self.rng.choice(FAULTS))
            try:
                with tracer.tracing():
                    result = step(join)
            except FAULTS:
                self.place = f"{tracer.place} in call {number}, lines {at} and {again}"
                join = self._judged(join, before, number, parts)
            else:
                self.tally.swallowed += tracer.lines >= at
                return join, result
        return join, step(join)

    def _judged(self, join: Any, before: tuple[Any, ...], number: int, parts: list[Counter[str]]) -> Any:
        """See that a join is as it was before a call that was interrupted, or refuses; return what to go on with."""
        try:
            join.advance_to(-(2**63))  # completes nothing; who was broken off mends or refuses here
        except cw.CrosswindError as error:
            try:
                self.steps[number](join)
            except cw.CrosswindError:
                pass
            else:
                raise BrokenPromiseError(
                    f"{self.scenario.name}: refused once, then taken: {error} ({self.place})"
                ) from None
            join.close()
            self.tally.refused += 1
            self.tally.refusals.append(f"{self.place}: {error}")
            return self._replayed(number, parts)
        after = shown(join)
        if _but_pushes(after) != _but_pushes(before):
            raise BrokenPromiseError(f"{self.scenario.name}: {before} became {after} ({self.place})")
        self.tally.undone += 1
        return join


def _but_pushes(seen: tuple[Any, ...]) -> tuple[Any, ...]:
    return (*seen[:7], *seen[8:])


def _own_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("crosswind")}


def check(scenario: Scenario, *, pushes: int, seed: int, most: int) -> Tally:
    """Run a scenario with faults; no thread may be left."""
    threads = _own_threads()
    swallowed: list[Any] = []
    with patch.object(sys, "unraisablehook", swallowed.append):
        tally = Run(scenario, pushes, seed, most).run()
    until = time.monotonic() + 20
    while (left := _own_threads() - threads) and time.monotonic() < until:
        time.sleep(0.01)
    if left:
        raise BrokenPromiseError(f"{scenario.name}: threads were left: {left}")
    return tally


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__.split("\n")[0])
    parser.add_argument("--faults", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="scenarios whose names hold this")
    parser.add_argument("--pushes", type=int, default=40)
    options = parser.parse_args()
    use_kernel_cache(ROOT / ".pytest_cache" / "d" / KERNEL_CACHE)
    chosen = [s for s in scenarios() if options.only in s.name]
    total, failed, seed = Counter[str](), 0, options.seed
    while sum(total.values()) < options.faults and not failed:
        for scenario in chosen:
            most = -(-options.faults // len(chosen))
            try:
                tally = check(scenario, pushes=options.pushes, seed=seed, most=most)
            except Exception as error:
                failed += 1
                print(f"FAILED {scenario.name} --seed {seed}: {type(error).__name__}: {str(error)[:2000]}", flush=True)
                continue
            told = {"undone": tally.undone, "refused": tally.refused, "swallowed": tally.swallowed}
            total.update(told)
            print(f"{scenario.name:24} seed {seed}: {told}", flush=True)
        seed += 1
    print(f"{sum(total.values())} faults: {dict(total)}; {failed} scenarios failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
