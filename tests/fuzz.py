"""Compare random window joins with the oracle, as long as you like.

``python -m tests.fuzz --cases 5000 --seed 1 --jobs 2 --per-shape 8``

A failure prints the query, the tables (cut down to few rows), the difference and the
command that runs that one case again. Exit code 1 if anything failed, or if more than
1 % of the queries were refused.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace

import pyarrow as pa

from tests.cases import Shape, TestCase, make_case, make_many, make_outer_shape, make_shape
from tests.conftest import ENGINES, KERNEL_CACHE, ON_SPARK, ON_STREAMS, ROOT, EngineConfig, use_kernel_cache
from tests.oracle import OracleOverflowError, assert_same, expected_rows, without

REFUSED_SHARE_MAX = 0.01
SHAPES_PER_SEED = 1_000_000
REPORTED_FAILURES_MAX = 10


@dataclass(frozen=True)
class Verdict:
    """What became of one case: ``same``, ``refused``, ``overflow``, ``unknown``, ``elsewhere`` or ``failed``.

    A case is for ``elsewhere`` if this engine names another that runs it.
    """

    kind: str
    rows: int = 0
    report: str = ""


def check(case: TestCase, engine: EngineConfig) -> Verdict:
    """Run one case and compare with the oracle.

    Raises
    ------
    AssertionError
        The rows differ.
    """
    import crosswind as cw
    from tests.spark.frames import NotInSparkError

    strict = case.data_seed % 5 == 4
    try:
        outcome = engine.join(case.sql, case.tables, case.times, case.data_seed, strict)
    except NotInSparkError as error:
        return Verdict("not in Spark", report=str(error))
    except cw.UnsupportedError as error:
        return Verdict("refused", report=str(error))
    except cw.QueryError as error:
        return Verdict("refused", report=str(error))
    except cw.ArithmeticOverflowError:
        if case.may_overflow:
            return Verdict("overflow")
        raise
    try:
        expected = expected_rows(case.join, outcome.dropped)
    except OracleOverflowError:
        return Verdict("unknown")
    assert_same(expected, outcome.table, command(case, engine), case.approx)
    return Verdict("same", len(expected))


def check_many(cases: dict[str, TestCase], engine: EngineConfig) -> Verdict:
    """Run the queries of one data set in one join, and compare each with the oracle."""
    import crosswind as cw

    first = cases["q0"]
    queries = {name: case.sql for name, case in cases.items()}
    try:
        found = engine.join_many(queries, first.tables, first.times, first.data_seed)
    except (cw.UnsupportedError, cw.QueryError) as error:
        return Verdict("refused", report=str(error))
    except cw.ArithmeticOverflowError:
        if any(case.may_overflow for case in cases.values()):
            return Verdict("overflow")
        raise
    rows = 0
    for name, case in cases.items():
        try:
            expected = expected_rows(case.join, {})
        except OracleOverflowError:
            return Verdict("unknown")
        again = f"{command(case, engine)} --many ({name})\n{case.sql}"
        assert_same(expected, found[name], again, case.approx)
        rows += len(expected)
    return Verdict("same", rows)


def judge_many(shape: Shape, data_seed: int, engine: EngineConfig) -> Verdict:
    """Run the queries of one data set; a failure becomes a verdict with a report."""
    cases = make_many(shape, data_seed)
    try:
        return check_many(cases, engine)
    except Exception as error:
        return Verdict("failed", report=_report(cases["q0"], engine, error))


def command(case: TestCase, engine: EngineConfig) -> str:
    """Return the command that runs one case again."""
    outer = " --outer" if case.join.kind != "inner" else ""
    width = f" --streams {len(case.join.roles)}" if len(case.join.roles) > 2 else ""
    return f"python -m tests.fuzz --shape {case.shape_seed} --data {case.data_seed} --engine {engine.id}{outer}{width}"


def judge(case: TestCase, engine: EngineConfig) -> Verdict:
    """Run one case; a failure becomes a verdict with a report."""
    try:
        return check(case, engine)
    except Exception as error:
        small = shrink(case, engine, type(error))
        try:
            check(small, engine)
        except Exception as smaller:
            error = smaller
        return Verdict("failed", report=_report(small, engine, error))


def shrink(case: TestCase, engine: EngineConfig, failure: type[Exception]) -> TestCase:
    """Leave out rows as long as the case still fails in the same way."""
    for name in case.tables:
        size = max(1, case.tables[name].num_rows // 2)
        while size:
            at = 0
            while at < case.tables[name].num_rows:
                table = without(case.tables[name], at, at + size)
                smaller = replace(case, join=replace(case.join, tables={**case.tables, name: table}))
                if _fails(smaller, engine, failure):
                    case = smaller
                else:
                    at += size
            size //= 2
    return case


def _fails(case: TestCase, engine: EngineConfig, failure: type[Exception]) -> bool:
    try:
        check(case, engine)
    except failure:
        return True
    except Exception:
        return False
    return False


def _report(case: TestCase, engine: EngineConfig, error: Exception) -> str:
    lines = ["", "=" * 100, f"again:  {command(case, engine)}", case.sql, f"duckdb: {case.join.predicate}"]
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
    """All data sets of one shape."""

    shape_seed: int
    data_seeds: tuple[int, ...]
    engines: tuple[EngineConfig, ...]
    outer: bool
    many: bool
    streams: int | None


def perform(task: Task) -> list[Verdict]:
    """Run the cases of one shape, each on one of the engines in turn."""
    use_kernel_cache(ROOT / ".pytest_cache" / "d" / KERNEL_CACHE)
    shape: Shape = make_outer_shape(task.shape_seed) if task.outer else make_shape(task.shape_seed, task.streams)
    verdicts = []
    for data_seed in task.data_seeds:
        engine = task.engines[(task.shape_seed + data_seed) % len(task.engines)]
        verdict = judge_many(shape, data_seed, engine) if task.many else judge(make_case(shape, data_seed), engine)
        verdicts.append(verdict)
        if verdict.kind == "failed":
            break  # the other data sets would mostly fail for the same reason
    return verdicts


def tasks(options: argparse.Namespace) -> Iterator[Task]:
    """Yield what the command line asks for."""
    known = (*ENGINES, ON_SPARK, ON_STREAMS)
    asked = ON_SPARK.id if options.spark else options.engine
    engines = tuple(e for e in known if e.id == asked) if asked else ENGINES
    if options.many:
        engines = tuple(e for e in engines if e.mode in ("run", "push", "restore"))
    if not engines:
        raise SystemExit(f"no engine {asked!r}; there are {', '.join(e.id for e in known)}")
    kind = (options.outer, options.many, options.streams)
    if options.shape is not None:
        yield Task(options.shape, tuple(options.data or range(options.per_shape)), engines, *kind)
        return
    first = options.seed * SHAPES_PER_SEED
    for number in range(-(-options.cases // options.per_shape)):
        yield Task(first + number, tuple(range(options.per_shape)), engines, *kind)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the fuzzer and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__.split("\n")[0])
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--per-shape", type=int, default=8, help="data sets for each query shape")
    parser.add_argument("--engine", help="only this one, for example kang-scan-push")
    parser.add_argument("--spark", action="store_true", help="static frames on Spark, a session a job")
    parser.add_argument("--outer", action="store_true", help="outer, semi and anti joins instead of inner ones")
    parser.add_argument("--many", action="store_true", help="several queries in one join")
    parser.add_argument("--streams", type=int, help="over so many; left out, over 2 to 5")
    parser.add_argument("--shape", type=int, help="only this shape")
    parser.add_argument("--data", type=int, nargs="*", help="only these data sets, with --shape")
    options = parser.parse_args(arguments)

    started = shown = time.monotonic()
    counts: Counter[str] = Counter()
    refusals: Counter[str] = Counter()
    rows = 0
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.jobs, mp_context=context, max_tasks_per_child=200) as pool:
        for verdicts in pool.map(perform, tasks(options)):
            for verdict in verdicts:
                counts[verdict.kind] += 1
                rows += verdict.rows
                if verdict.kind == "failed" and counts["failed"] <= REPORTED_FAILURES_MAX:
                    print(verdict.report, flush=True)
                elif verdict.kind == "refused":
                    refusals[verdict.report] += 1
            if time.monotonic() - shown > 10:
                shown = time.monotonic()
                print(f"{shown - started:6.0f} s  {dict(counts)}", flush=True)
    total = max(1, sum(counts.values()))
    for reason, count in refusals.most_common(10):
        print(f"refused {count} times: {reason}")
    share = counts["refused"] / total
    print(f"{total} cases, {rows} rows, {time.monotonic() - started:.0f} s: {dict(counts)}, refused {share:.2%}")
    return int(counts["failed"] > 0 or share >= REFUSED_SHARE_MAX)


if __name__ == "__main__":
    sys.exit(main())
