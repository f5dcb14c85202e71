"""Compare random window joins with the oracle, as long as you like.

``python -m tests.fuzz --cases 10000 --seed 1 --jobs 2 --per-shape 40``

All modes take turns: joins of two to five streams, outer joins, many queries in one join that come and go, and pushes
that fail. A failure prints the query and the tables, both cut down, the difference and the command that runs that one
case again. Exit code 1 if anything failed, if a process crashed, if too many queries were refused, or if the run has
not covered what tests/shares.py asks for.
"""

from __future__ import annotations

import argparse
import faulthandler
import multiprocessing
import os
import random
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa

from tests.cases import Shape, TestCase, make_case, make_many, make_outer_shape, make_shape, with_times
from tests.conftest import ENGINES, KERNEL_CACHE, ON_SPARK, ON_STREAMS, ROOT, EngineConfig, use_kernel_cache
from tests.history import Run, Trial, UnknownError
from tests.oracle import OracleOverflowError, assert_same, expected_rows
from tests.shares import MOST, Shares, traits_of
from tests.shrinking import shrink, shrink_rows

REFUSED_SHARE_MAX = MOST["refused"]
SHAPES_PER_SEED = 1_000_000
REPORTED_FAILURES_MAX = 10
SHAPES_FROM = 100
"""Shapes from which on a run is asked whether it has covered what it should: fewer cannot have everything."""

MODES = {"join": 42, "outer": 22, "many": 18, "faults": 18}
"""What a shape is run as, and how often."""

PATIENCE_S = 600
"""A shape that takes longer hangs: its process shows where, and ends."""

INJECTIONS = 0.25
"""How likely it is, in the mode ``faults``, that an error is raised at some line in the course of a push."""


@dataclass(frozen=True)
class Verdict:
    """What became of one case: ``same``, ``refused``, ``overflow``, ``unknown``, ``not in Spark``, ``failed``."""

    kind: str
    rows: int = 0
    report: str = ""
    traits: frozenset[str] = field(default=frozenset(), repr=False)


@dataclass(frozen=True)
class Setup:
    """How a case is run: as what, on which engine, with what happening meanwhile."""

    mode: str
    engine: EngineConfig
    trial: Trial
    is_asked: bool = False


# ---------------------------------------------------------------------------------- drawing


def mode_of(shape_seed: int) -> str:
    """Return what shape number ``shape_seed`` is run as, unless something is asked for."""
    return random.Random(f"mode {shape_seed}").choices(list(MODES), list(MODES.values()))[0]


def shape_of(mode: str, shape_seed: int, width: int | None = None) -> Shape:
    """Return a shape for ``mode``: pushes fail in joins of all kinds, and most of these can overflow."""
    is_fragile = mode == "faults" and shape_seed % 5 != 0
    if mode == "outer" or (mode == "faults" and shape_seed % 3 == 0 and width is None):
        return make_outer_shape(shape_seed, is_fragile)
    return make_shape(shape_seed, width, is_fragile)


def is_many(mode: str, shape: Shape) -> bool:
    """Whether several queries share the join."""
    return mode == "many" or (mode == "faults" and shape.kind == "inner" and shape.seed % 4 == 1)


def draw_engine(rng: random.Random) -> EngineConfig:
    """Return any engine with any index; basic windows are mostly so small that many are filled."""
    name = rng.choices(["kang", "cell", "grid", "handshake"], [48, 18, 14, 20])[0]
    index = rng.choices(["auto", "band", "hash", "scan"], [40, 25, 20, 15])[0]
    workers = {"kang": None, "cell": rng.choice([2, 3]), "grid": rng.choice([2, 4, 6]), "handshake": rng.choice([2, 3])}
    size = rng.choices([4, 8, 32, None], [40, 25, 20, 15])[0]
    hurry = name == "handshake" and rng.random() < 0.3
    return EngineConfig(name, index, workers[name], "push", size, hurry=hurry)


def draw_setup(mode: str, shape: Shape, data_seed: int, asked: EngineConfig | None = None) -> Setup:
    """Return how data set number ``data_seed`` of ``shape`` is run."""
    rng = random.Random(f"setup {mode} {shape.seed} {data_seed}")
    engine = draw_engine(rng)
    way = rng.choices(["run", "cells", "push"], [14, 9, 77])[0]
    if mode == "faults" or (way == "cells" and is_many(mode, shape)):
        way = "push"
    if asked is not None:
        engine = asked
    elif way == "cells":
        engine = next(e for e in ENGINES if e.mode == "cells")
    else:
        engine = replace(engine, mode=way)
    restores = rng.choices([0, 1, 2], [55, 35, 10])[0]
    strict = rng.random() < 0.35
    trial = Trial(
        rng.randrange(2**32),
        strict=strict,
        ordered=rng.random() < 0.2,
        shed=rng.random() < 0.3,
        keep_late=strict and rng.random() < 0.5,
        restores=tuple(draw_engine(rng) for _ in range(restores)),
        advances=rng.choice([0.0, 0.15, 0.4]),
        changes=rng.choice([0.0, 0.2, 0.5]) if is_many(mode, shape) else 0.0,
        refusals=0.3 if mode == "faults" else 0.0,
        injections=INJECTIONS if mode == "faults" else 0.0,
    )
    if asked is not None and asked.mode == "restore" and not trial.restores:
        trial = replace(trial, restores=(asked,))
    return Setup(mode, engine, trial, asked is not None)


def draw_cases(mode: str, shape: Shape, data_seed: int) -> dict[str, TestCase]:
    """Return the queries of a data set, by name; ``q0`` is the one all are about."""
    return make_many(shape, data_seed) if is_many(mode, shape) else {"q0": make_case(shape, data_seed)}


# ---------------------------------------------------------------------------------- judging


def check(case: TestCase, engine: EngineConfig) -> Verdict:
    """Run one case on ``engine`` and compare with the oracle.

    Raises
    ------
    AssertionError
        The rows differ.
    """
    mode = "join" if case.join.kind == "inner" else "outer"
    setup = draw_setup(mode, case.shape, case.data_seed, engine)
    try:
        return check_cases({"q0": case}, setup)
    except Exception as error:
        error.add_note(f"{case.sql}\n{setup_text(setup)}\nagain: {command(case, setup)}")
        raise


def check_cases(cases: Mapping[str, TestCase], setup: Setup) -> Verdict:
    """Run queries over one data set and compare each with the oracle."""
    import crosswind as cw
    from tests.spark.frames import NotInSparkError

    first = cases["q0"]
    traits = {setup.mode, *traits_of(first)}
    try:
        rows, seen = _compare(cases, setup)
    except NotInSparkError as error:
        return Verdict("not in Spark", report=str(error), traits=frozenset(traits | {"not in Spark"}))
    except (cw.UnsupportedError, cw.QueryError) as error:
        return Verdict("refused", report=str(error), traits=frozenset(traits | {"refused"}))
    except cw.ArithmeticOverflowError:
        if not any(case.may_overflow for case in cases.values()):
            raise
        return Verdict("overflow", traits=frozenset(traits | {"overflow"}))
    except (OracleOverflowError, UnknownError):
        return Verdict("unknown", traits=frozenset(traits | {"unknown"}))
    traits |= seen
    traits |= {"results"} if rows else set()
    traits |= {"100 results"} if rows >= 100 else set()
    return Verdict("same", rows, traits=frozenset(traits))


def _compare(cases: Mapping[str, TestCase], setup: Setup) -> tuple[int, set[str]]:
    """Return how many rows there are, and what happened."""
    first, engine, trial = cases["q0"], setup.engine, setup.trial
    many = setup.mode == "many" or len(cases) > 1
    note = f"{setup_text(setup)}\n{command(first, setup)}"
    if engine.mode in ("push", "restore"):
        trial = replace(trial, shed=trial.shed and "[ROWS" not in " ".join(case.sql for case in cases.values()))
        if trial.ordered:
            cases = {name: with_times(case) for name, case in cases.items()}
        found = Run(engine, cases, trial, many).play()
        for name, (case, table, expected) in found.queries.items():
            assert_same(expected, table, f"{note} ({name})\n{case.sql}", case.approx)
        seen = {what for what, count in found.seen.items() if count} | {"live"}
        seen |= {"arranged"} if seen & {"arranged band", "arranged hash"} else set()
        return sum(len(expected) for _, _, expected in found.queries.values()), seen
    if many:
        tables = engine.run_many({name: case.sql for name, case in cases.items()}, first.tables, first.times)
        dropped: dict[str, set[int]] = {}
    else:
        outcome = engine.join(first.sql, first.tables, first.times, first.data_seed, trial.strict)
        tables, dropped = {"q0": outcome.table}, outcome.dropped
    rows = 0
    for name, case in cases.items():
        expected = expected_rows(case.join, dropped)
        assert_same(expected, tables[name], f"{note} ({name})\n{case.sql}", case.approx)
        rows += len(expected)
    return rows, {"replayed" if engine.mode == "run" else "cells"}


def judge(cases: dict[str, TestCase], setup: Setup) -> Verdict:
    """Run queries over one data set; a failure becomes a verdict with a report."""
    try:
        return check_cases(cases, setup)
    except Exception as error:
        small = smaller(cases, setup, type(error))
        try:
            check_cases(small, setup)
        except Exception as again:
            error = again
        return Verdict("failed", report=_report(small, setup, error), traits=frozenset({setup.mode, "failed"}))


def smaller(cases: dict[str, TestCase], setup: Setup, failure: type[Exception]) -> dict[str, TestCase]:
    """Return queries and tables cut down, as long as the case still fails in the same way."""

    def fails(some: dict[str, TestCase]) -> bool:
        try:
            check_cases(some, setup)
        except failure:
            return True
        except Exception:
            return False
        return False

    if len(cases) == 1:
        return {"q0": shrink(cases["q0"], lambda case: fails({"q0": case}))}
    for name in [name for name in cases if name != "q0"]:
        fewer = {other: case for other, case in cases.items() if other != name}
        cases = fewer if len(fewer) > 1 and fails(fewer) else cases
    first = shrink_rows(cases["q0"], lambda case: fails(_over(cases, case)))
    return _over(cases, first)


def _over(cases: dict[str, TestCase], first: TestCase) -> dict[str, TestCase]:
    """Return the queries over the tables of ``first``."""
    return {
        name: replace(case, join=replace(case.join, tables={n: first.tables[n] for n in case.tables}))
        for name, case in cases.items()
    }


def command(case: TestCase, setup: Setup) -> str:
    """Return the command that runs one case again."""
    width = f" --streams {len(case.shape.roles)}" if setup.mode != "outer" and case.join.kind == "inner" else ""
    width += f" --engine {setup.engine.id}" if setup.is_asked else ""
    return f"python -m tests.fuzz --mode {setup.mode} --shape {case.shape_seed} --data {case.data_seed}{width}"


def setup_text(setup: Setup) -> str:
    """Return how a case was run, in a line."""
    trial, blank = setup.trial, Trial(setup.trial.seed)
    changed = [f"{key}={value}" for key, value in vars(trial).items() if value != getattr(blank, key)]
    changed = [text for text in changed if not text.startswith("restores")]
    others = "".join(f", then {engine.id}" for engine in trial.restores)
    return f"{setup.engine.id}{others} {' '.join(changed)}"


def _report(cases: dict[str, TestCase], setup: Setup, error: Exception) -> str:
    case = cases["q0"]
    lines = ["", "=" * 100, f"again:  {command(case, setup)}", f"run on: {setup_text(setup)}"]
    lines += [f"{name}: {one.sql}\nduckdb: {one.join.predicate}" for name, one in cases.items()]
    for name, table in case.tables.items():
        lines.append(f"{name}: {_spell(table)}")
    shown = str(error) if isinstance(error, AssertionError) else "".join(traceback.format_exception(error)[-4:])
    return "\n".join([*lines, f"{type(error).__name__}: {shown}"])


def _spell(table: pa.Table) -> str:
    columns = ", ".join(f"{field.name}: {field.type} = {table[field.name].to_pylist()}" for field in table.schema)
    return f"{table.num_rows} rows, {columns}"


# ---------------------------------------------------------------------------------- command line


@dataclass(frozen=True)
class Task:
    """Data sets of one shape, in one mode; ``streams`` and ``engine`` if they were asked for."""

    mode: str
    shape_seed: int
    data_seeds: tuple[int, ...]
    streams: int | None = None
    engine: EngineConfig | None = None
    diary: str = ""


def perform(task: Task) -> list[Verdict]:
    """Run the cases of one shape in a process of the fuzzer."""
    use_kernel_cache(ROOT / ".pytest_cache" / "d" / KERNEL_CACHE)
    faulthandler.enable()
    return verdicts_of(task)


def verdicts_of(task: Task) -> list[Verdict]:
    """Run the cases of one shape, up to the first that fails."""
    shape = shape_of(task.mode, task.shape_seed, task.streams)
    verdicts = []
    for data_seed in task.data_seeds:
        setup = draw_setup(task.mode, shape, data_seed, task.engine)
        if task.diary:
            faulthandler.dump_traceback_later(PATIENCE_S, exit=True)
            text = f"python -m tests.fuzz --mode {task.mode} --shape {task.shape_seed} --data {data_seed}"
            Path(task.diary, str(os.getpid())).write_text(text)
        verdicts.append(judge(draw_cases(task.mode, shape, data_seed), setup))
        faulthandler.cancel_dump_traceback_later()
        if verdicts[-1].kind == "failed":
            break  # the other data sets would mostly fail for the same reason
    return verdicts


def tasks(options: argparse.Namespace) -> Iterator[Task]:
    """Yield what the command line asks for."""
    known = (*ENGINES, ON_SPARK, ON_STREAMS)
    asked = ON_SPARK.id if options.spark else options.engine
    engine = next((e for e in known if e.id == asked), None)
    if asked and engine is None:
        raise SystemExit(f"no engine {asked!r}; there are {', '.join(e.id for e in known)}")
    seeds = tuple(options.data or range(options.per_shape))
    first = options.seed * SHAPES_PER_SEED
    shapes = range(first, first + -(-options.cases // options.per_shape))
    for number in shapes if options.shape is None else [options.shape]:
        yield Task(options.mode or mode_of(number), number, seeds, options.streams, engine)


def run_tasks(work: Iterator[Task], jobs: int) -> Iterator[tuple[Task, list[Verdict]]]:
    """Run tasks in processes; one that crashes fails the case it was at, and the others go on."""
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as diary:
        waiting: list[Task] = []
        while True:
            with ProcessPoolExecutor(jobs, mp_context=context, max_tasks_per_child=50) as pool:
                pending = [(task, pool.submit(perform, task)) for task in waiting]
                waiting = []
                try:
                    while True:
                        while len(pending) < 2 * jobs and (task := next(work, None)) is not None:
                            noted = replace(task, diary=diary)
                            pending.append((noted, pool.submit(perform, noted)))
                        if not pending:
                            return
                        task, future = pending[0]
                        yield task, future.result()
                        pending.pop(0)
                except BrokenProcessPool:
                    last = [path.read_text() for path in Path(diary).iterdir()]
                    yield task, [Verdict("crashed", report="a process ended; it was at one of\n" + "\n".join(last))]
                    waiting = [task for task, future in pending[1:] if not future.done() or future.exception()]


def parser() -> argparse.ArgumentParser:
    """Return what the command line takes."""
    made = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__.split("\n")[0])
    made.add_argument("--cases", type=int, default=1000)
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--jobs", type=int, default=2)
    made.add_argument(
        "--per-shape", type=int, default=40, help="data sets for each query shape: a shape is compiled once"
    )
    made.add_argument("--mode", choices=list(MODES), help="only this; left out, all take turns")
    made.add_argument("--engine", help="only this one, for example kang-scan-push")
    made.add_argument("--spark", action="store_true", help="static frames on Spark, a session a job")
    made.add_argument("--streams", type=int, help="over so many; left out, over 2 to 5")
    made.add_argument("--shape", type=int, help="only this shape")
    made.add_argument("--data", type=int, nargs="*", help="only these data sets, with --shape")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the fuzzer and return the exit code."""
    options = parser().parse_args(arguments)
    started = shown = time.monotonic()
    counts: Counter[str] = Counter()
    refusals: Counter[str] = Counter()
    shares = Shares()
    for _, verdicts in run_tasks(tasks(options), options.jobs):
        for verdict in verdicts:
            counts[verdict.kind] += 1
            shares.add(verdict.traits, verdict.rows)
            if verdict.kind in ("failed", "crashed") and counts["failed"] + counts["crashed"] <= REPORTED_FAILURES_MAX:
                print(verdict.report, flush=True)
            elif verdict.kind == "refused":
                refusals[verdict.report] += 1
        if time.monotonic() - shown > 10:
            shown = time.monotonic()
            print(f"{shown - started:6.0f} s  {dict(counts)}", flush=True)
    total = max(1, sum(counts.values()))
    for reason, count in refusals.most_common(10):
        print(f"refused {count} times: {reason}")
    print(shares.table())
    whole = options.mode is options.engine is options.streams is options.shape is None and not options.spark
    missing = shares.missing() if whole and options.cases >= SHAPES_FROM * options.per_shape else []
    for text in missing:
        print(f"not covered: {text}")
    share = counts["refused"] / total
    print(
        f"{total} cases, {sum(shares.rows)} rows, {time.monotonic() - started:.0f} s: {dict(counts)}, "
        f"refused {share:.2%}, seed {options.seed}"
    )
    return int(counts["failed"] + counts["crashed"] > 0 or share > REFUSED_SHARE_MAX or bool(missing))


if __name__ == "__main__":
    sys.exit(main())
