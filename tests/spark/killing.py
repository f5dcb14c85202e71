"""Drivers, executors and Python workers killed in mid-batch, and the proof that nothing was lost or doubled.

``python -m tests.spark.killing --kills 20 --seed 1`` kills twenty times, in several pipelines one after the other.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from tests.conftest import KERNEL_CACHE, ROOT, use_kernel_cache
from tests.spark.frames import Feed, written
from tests.spark.pipelines import PIPELINES, SCHEMA, expected, random_batches, rows

DRIVER, EXECUTOR, WORKER = "driver", "executor", "worker"
DAEMON = "-m crosswind.spark.daemon"
"""In the command of a worker and of the daemon that forks it. Without ``-m`` it is in that of the JVM, too, and of what
the JVM is about to start."""
LOCAL = ("local[2,4]", "local[1,4]", "local[3,4]")
"""Some cores, other ones at every start; a task may fail four times."""
CLUSTER = ("local-cluster[2,1,1024]",)
"""A master and two workers, each with an executor process of its own."""
SECONDS_MAX = 240
"""For one micro-batch, or for a start, on a busy machine."""
PARTITIONS = (2, 3, 1, 5)
"""Of the session, other ones at every start: those of the checkpoint hold."""
TRIGGERS = ("once", "live")
"""All that is there and then the end, or one micro-batch after the other (see :mod:`tests.spark.driver`)."""
KILLED = ("plain", "left after", "rows", "many queries", "join after join", "aggregate before")


def feed(folder: Path, batches: Mapping[str, list[pa.Table]]) -> None:
    """Write a file for each batch."""
    for stream, parts in batches.items():
        source = Feed(folder / f"in-{stream}", SCHEMA)
        for part in parts:
            source.add(part)


def check_output(folder: Path, name: str, batches: Mapping[str, list[pa.Table]]) -> int:
    """Compare what was written with what Spark's batch SQL gives; return the number of rows."""
    wanted = expected(PIPELINES[name], batches)
    assert wanted.num_rows, "a check that cannot fail"
    assert rows(written(folder, from_arrow_schema(wanted.schema))) == rows(wanted), name
    return wanted.num_rows


class Victim:
    """The driver program of a pipeline, started again whenever it is killed, with other settings."""

    def __init__(self, folder: Path, masters: Sequence[str], name: str, settings: Sequence[str] = ()) -> None:
        self.folder, self._name, self._more = folder, name, settings
        self._settings = zip(cycle(masters), cycle(PARTITIONS), cycle(TRIGGERS), strict=False)
        self._seen: dict[int, str] = {}
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        master, partitions, trigger = next(self._settings)
        arguments = [str(self.folder), master, self._name, str(partitions), trigger, *self._more]
        with (self.folder / "driver.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "tests.spark.driver", *arguments],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": path},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def batches(self) -> tuple[int, int]:
        """Return how many micro-batches were planned, and how many are committed."""
        counts = []
        for log in ("offsets", "commits"):
            found = (self.folder / "checkpoint" / log).glob("*")
            counts.append(sum(path.name.isdigit() for path in found))
        return counts[0], counts[1]

    def wait_for_batch(self, after: int) -> bool:
        """Wait until a micro-batch later than ``after`` is at work; False: the driver has ended."""
        deadline, seen = time.monotonic() + SECONDS_MAX, (0, 0)
        while time.monotonic() < deadline:
            planned, committed = self.batches()
            if planned > max(committed, after):
                return True
            if (planned, committed) != seen:
                deadline, seen = time.monotonic() + SECONDS_MAX, (planned, committed)
            if self.process.poll() is not None:
                return False
            time.sleep(0.02)
        raise TimeoutError(f"no micro-batch in {SECONDS_MAX} s after {after}: {self.log()}")

    def kill(self, what: str, rng: random.Random) -> bool:
        """Kill the driver (and start it again), one executor, or one Python worker; False: the driver has ended."""
        if what == DRIVER:
            if self.process.poll() is not None:
                return False
            self._see(descendants(self.process.pid))
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(SECONDS_MAX)
            self.process = self._start()
            return True
        deadline = time.monotonic() + SECONDS_MAX
        while time.monotonic() < deadline and self.process.poll() is None:
            found = self._find(what)  # a worker lives only as long as Spark needs it
            if found and kill(rng.choice(found)):
                return True
            time.sleep(0.02)
        return False

    def _see(self, tree: Sequence[int]) -> None:
        """Keep processes in mind; a number may be another's later, so it counts with the moment of its start."""
        self._seen |= {pid: began(pid) for pid in tree}

    def _find(self, what: str) -> list[int]:
        tree = descendants(self.process.pid)
        self._see(tree)
        mark = {EXECUTOR: "CoarseGrainedExecutorBackend", WORKER: DAEMON}[what]
        marked = [pid for pid in tree if mark in command(pid)]
        if what == WORKER:  # their parent, the daemon, is not one
            marked = [pid for pid in marked if parent(pid) in marked]
        return marked

    def wait(self) -> None:
        """Wait until all input is joined."""
        planned, deadline = -1, time.monotonic() + SECONDS_MAX
        while self.process.poll() is None:
            if self.batches()[0] != planned:
                planned, deadline = self.batches()[0], time.monotonic() + SECONDS_MAX
            if time.monotonic() > deadline:
                raise TimeoutError(f"the driver stands at micro-batch {planned}: {self.log()}")
            time.sleep(0.1)
        assert self.process.returncode == 0, self.log()

    def log(self) -> str:
        """Return what the driver wrote of errors, and where all of it is."""
        path = self.folder / "driver.log"
        lines = path.read_text(errors="replace").splitlines()
        told = [line[:1000] for line in lines if re.search(r"Error|Exception|Caused by", line)]
        return "\n".join([f"see {path}", *told[-20:]])

    def close(self) -> None:
        """Leave no process behind."""
        self._see(descendants(self.process.pid))
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(SECONDS_MAX)
        for pid, start in self._seen.items():
            if start and began(pid) == start:
                kill(pid)


def run_with_kills(
    folder: Path,
    masters: Sequence[str],
    name: str,
    kills: Sequence[str],
    rng: random.Random,
    *,
    last: int = 0,
    settings: Sequence[str] = (),
) -> int:
    """Run a pipeline to its end through ``kills``, the last not before micro-batch ``last``; return how many were."""
    victim, happened, after = Victim(folder, masters, name, settings), 0, 0
    try:
        for number, what in enumerate(kills, 1):
            after = max(after, last) if number == len(kills) else after
            if not victim.wait_for_batch(after):
                break
            after = victim.batches()[0]
            time.sleep(rng.uniform(0, 0.7))
            happened += victim.kill(what, rng)
        victim.wait()
    finally:
        victim.close()
    return happened


# ---------------------------------------------------------------------------------- processes


def descendants(pid: int) -> list[int]:
    """Return the processes below ``pid``."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            children.setdefault(parent(int(entry.name)), []).append(int(entry.name))
    found, waiting = [], [pid]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def parent(pid: int) -> int:
    """Return the parent of ``pid``; -1: it is gone."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return -1


def began(pid: int) -> str:
    """Return when ``pid`` was started, in ticks of the system; empty: it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""


def command(pid: int) -> str:
    """Return the command line of ``pid``; empty: it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def resident_mb(pids: Sequence[int]) -> float:
    """Return the memory that ``pids`` have to themselves, with their share of what they have in common."""
    total = 0
    for pid in pids:
        try:
            rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:"))
    return total / 1024


def kill(pid: int) -> bool:
    """Kill ``pid`` at once; False: it is gone."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def main(arguments: Sequence[str] | None = None) -> int:
    """Kill, restart, compare."""
    parser = argparse.ArgumentParser(prog="python -m tests.spark.killing", description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--master", nargs="*", default=LOCAL, help="one after the other, at every start the next")
    parser.add_argument("--what", nargs="*", default=[DRIVER, DRIVER, WORKER], help="driver, executor, worker")
    parser.add_argument("--setting", nargs="*", default=[], help="of Spark, KEY=VALUE")
    parser.add_argument("--pipeline", nargs="*", default=KILLED, help=f"of {', '.join(PIPELINES)}")
    options = parser.parse_args(arguments)
    use_kernel_cache(ROOT / ".pytest_cache" / "d" / KERNEL_CACHE)
    rng = random.Random(options.seed)
    missed = 0
    for number, name in enumerate(options.pipeline):  # the kills are spread over the pipelines
        share = (options.kills + number) // len(options.pipeline)
        kills = [rng.choice(options.what) for _ in range(share)]
        missed += share - _kill(name, kills, options.master, options.setting, rng)
    return int(missed > 0)


def _kill(name: str, kills: Sequence[str], masters: Sequence[str], settings: Sequence[str], rng: random.Random) -> int:
    """Run one pipeline through ``kills``, the last while windows are closed at its end; return how many happened."""
    folder, rounds = Path(tempfile.mkdtemp(prefix="crosswind-killing-")), 2 * len(kills) + 3
    batches = random_batches(rng, rounds)
    feed(folder, batches)
    start = time.monotonic()
    last = rounds + rng.choice([0, 1])  # the last tuples, or what the watermark does behind them
    happened = run_with_kills(folder, masters, name, kills, rng, last=last, settings=settings)
    count, seconds = check_output(folder, name, batches), time.monotonic() - start
    shutil.rmtree(folder)  # what fails can be looked at
    what = ", ".join(kills)
    print(f"{name}: {happened} kills ({what}) in {seconds:.0f} s; {count} rows, none lost, none doubled", flush=True)
    return happened


if __name__ == "__main__":
    sys.exit(main())
