"""Put faults into the source, one at a time, and see whether the tests notice.

``python -m tests.mutants [--room plan] [--only plan/age-inclusive ...] [--jobs 1] [--seed 0] [--list]``

Each mutant is put into a copy of the source of its own; the working tree is never touched. Its tests are run until
one fails. A test that fails, a crash and a run that does not end are all *caught*; a mutant that nothing notices has
*survived*, and is an error unless its entry explains why nothing goes wrong. First the tests are run without any
mutant: what fails then says nothing about mutants.
"""

from __future__ import annotations

import argparse
import compileall
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.mutants import MUTANTS, ROOMS
from tests.mutants.mutant import ROOT, Mutant, position

COPIED = ("src", "tests", "pyproject.toml")
"""What a run gets a copy of; the rest of the repository is linked to."""

LIMIT_S = 300
"""A mutant whose tests take longer hangs: all are chosen to take seconds."""

CAUGHT_SHARE_MIN = 0.95
NO_TESTS, USAGE, INTERNAL = 5, 4, 3
"""Exit codes of pytest that say nothing about the mutant."""

LIVING = "survived"

MEMORY_BYTES = 6 << 30
"""What a run may address: a loop that never ends may fill memory before its time is over."""

ALL_MEMORY_BYTES = 16 << 30
"""What the tests of all mutants may address, in one run."""

_BOUNDED = """
import os, resource, sys
most = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_AS, (most, most))
os.execv(sys.argv[2], sys.argv[2:])
"""

_running: set[int] = set()
"""Process groups of tests that run."""

_stopped = threading.Event()
"""Nothing more is to be run."""


@dataclass(frozen=True)
class Verdict:
    """What became of a mutant: ``caught``, ``hangs``, ``crashes``, ``survived``, ``stale`` or ``failed``."""

    mutant: Mutant
    kind: str
    seconds: float
    told: str = ""

    @property
    def is_caught(self) -> bool:
        """Whether the tests noticed."""
        return self.kind in ("caught", "hangs", "crashes")

    @property
    def is_explained(self) -> bool:
        """Whether it survived, and its entry says why that is right."""
        return self.kind == LIVING and bool(self.mutant.equivalent)


def make_template(folder: Path) -> None:
    """Copy what is mutated and what tests it; link to the rest, which tests only read."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, folder / name)
    for path in ROOT.iterdir():
        if path.name not in (*COPIED, ".git", ".pytest_cache", ".hypothesis"):
            (folder / path.name).symlink_to(path)
    compileall.compile_dir(folder / "src", quiet=2)


def run_tests(
    root: Path, tests: Iterable[str], seed: int, limit_s: float, memory_bytes: int = MEMORY_BYTES
) -> tuple[int | None, str]:
    """Run tests in the copy at ``root`` until one fails; return the exit code (None: it did not end) and the output."""
    environment = {**os.environ, "PYTHONPATH": str(root / "src"), "CROSSWIND_TEST_SEED": str(seed)}
    environment.setdefault("CROSSWIND_CACHE_DIR", str(ROOT / ".pytest_cache" / "mutants"))
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "--tb=line", "-m", "not long and not spark"]
    command += [f"--hypothesis-seed={seed}", *tests]
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", _BOUNDED, str(memory_bytes), *command],
            cwd=root,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        _running.add(process.pid)
        try:
            code: int | None = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            _kill(process.pid)
            process.wait()
            _running.discard(process.pid)
        output.seek(0)
        return code, output.read()


def _kill(group: int) -> None:
    """End tests, and what processes they have left behind."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def _give_up(number: int, _frame: object) -> None:
    """End the tests that run, and begin no others."""
    _stopped.set()
    for group in tuple(_running):
        _kill(group)
    raise SystemExit(128 + number)


def judge(mutant: Mutant, template: Path, seed: int, limit_s: float) -> Verdict:
    """Run the tests of one mutant."""
    began = time.monotonic()
    stale = mutant.fault(template)
    if stale:
        return Verdict(mutant, "stale", 0.0, stale)
    if _stopped.is_set():
        return Verdict(mutant, "failed", 0.0, "stopped")
    with tempfile.TemporaryDirectory(prefix="crosswind-mutant-") as name:
        root = Path(name)
        shutil.copytree(template, root, symlinks=True, dirs_exist_ok=True)
        mutant.apply(root)
        code, output = run_tests(root, mutant.test_ids, seed, limit_s)
    seconds = time.monotonic() - began
    lines = [line for line in output.splitlines() if line.startswith(("FAILED", "ERROR"))]
    told = lines[0].partition(" - ")[0] if lines else ""
    if code is None:
        return Verdict(mutant, "hangs", seconds, f"after {limit_s:.0f} s")
    if code < 0:
        return Verdict(mutant, "crashes", seconds, f"signal {-code}")
    if code == 0:
        return Verdict(mutant, LIVING, seconds)
    if code in (NO_TESTS, USAGE, INTERNAL):
        return Verdict(mutant, "failed", seconds, " ".join(output.split())[-300:])
    return Verdict(mutant, "caught", seconds, told)


def chosen(options: argparse.Namespace) -> list[Mutant]:
    """Return the mutants that the command line asks for."""
    names = {mutant.name for mutant in MUTANTS}
    for name in options.only or ():
        if name not in names:
            raise SystemExit(f"there is no mutant {name!r}; --list shows them")
    some = [mutant for mutant in MUTANTS if not options.room or mutant.room in options.room]
    return [mutant for mutant in some if not options.only or mutant.name in options.only]


def check_baseline(mutants: Sequence[Mutant], template: Path, seed: int) -> None:
    """Run all tests that are to notice something once without a mutant; this also compiles what they share."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="crosswind-mutant-") as name:
        root = Path(name)
        shutil.copytree(template, root, symlinks=True, dirs_exist_ok=True)
        tests = dict.fromkeys(test for mutant in mutants for test in mutant.test_ids)
        code, output = run_tests(root, tests, seed, LIMIT_S * 20, ALL_MEMORY_BYTES)
    if code != 0:
        raise SystemExit(f"the tests fail without a mutant (exit code {code}):\n{output[-3000:]}")
    print(f"without a mutant: {len(tests)} tests and files pass, {time.monotonic() - began:.0f} s", flush=True)


def report(verdicts: Sequence[Verdict]) -> int:
    """Print the summary; return the exit code."""
    counts = Counter(verdict.kind for verdict in verdicts)
    explained = [verdict for verdict in verdicts if verdict.is_explained]
    caught = sum(verdict.is_caught for verdict in verdicts)
    living = [verdict for verdict in verdicts if verdict.kind == LIVING and not verdict.is_explained]
    useless = [verdict for verdict in verdicts if verdict.kind in ("stale", "failed")]
    wrong = [verdict for verdict in verdicts if verdict.is_caught and verdict.mutant.equivalent]
    for verdict in (*living, *useless, *wrong):
        mutant = verdict.mutant
        kind = "explained, but caught: take the explanation out" if verdict in wrong else verdict.kind
        print(f"\n{mutant.name}: {kind} {verdict.told}")
        print(f"  {position(mutant, ROOT) if verdict.kind != 'stale' else mutant.path}: {mutant.why}")
        print(f"  - {mutant.old.strip()}\n  + {mutant.new.strip()}\n  tests: {mutant.tests}")
    judged = len(verdicts) - len(useless)
    share = caught / max(1, judged)
    print(
        f"\n{len(verdicts)} mutants: {caught} caught ({counts['hangs']} hang, {counts['crashes']} crash), "
        f"{len(living)} survived, {len(explained)} survived and are explained, {counts['stale']} stale, "
        f"{counts['failed']} failed; {share:.1%} caught"
    )
    return int(bool(living or useless or wrong) or share < CAUGHT_SHARE_MIN)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the mutants and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--room", nargs="*", choices=list(ROOMS), help="only the mutants of these rooms")
    parser.add_argument("--only", nargs="*", metavar="NAME", help="only these, such as plan/age-inclusive")
    parser.add_argument("--jobs", type=int, default=1, help="mutants at a time")
    parser.add_argument("--seed", type=int, default=0, help="of random tests")
    parser.add_argument("--limit", type=float, default=LIMIT_S, metavar="SECONDS", help="what takes longer hangs")
    parser.add_argument("--list", action="store_true", help="show the mutants and run nothing")
    parser.add_argument("--no-baseline", action="store_true", help="do not run the tests without a mutant first")
    options = parser.parse_args(arguments)
    mutants = chosen(options)
    if options.list:
        for mutant in mutants:
            print(f"{mutant.name:40} {mutant.why}{' (explained)' if mutant.equivalent else ''}")
        return 0
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _give_up)
    with tempfile.TemporaryDirectory(prefix="crosswind-mutants-") as name:
        template = Path(name)
        make_template(template)
        if not options.no_baseline:
            check_baseline(mutants, template, options.seed)
        verdicts = []
        with ThreadPoolExecutor(options.jobs) as pool:
            for verdict in pool.map(lambda mutant: judge(mutant, template, options.seed, options.limit), mutants):
                verdicts.append(verdict)
                print(f"{verdict.kind:8} {verdict.seconds:5.0f} s  {verdict.mutant.name:40} {verdict.told}", flush=True)
    return report(verdicts)


if __name__ == "__main__":
    sys.exit(main())
