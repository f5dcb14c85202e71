"""Drivers, executors and Python workers killed in mid-batch, and the proof that nothing was lost or doubled.

``python -m tests.spark.killing --kills 20 --seed 1`` kills twenty times in a row.
"""

from __future__ import annotations

import argparse
import datetime as dt
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import pyarrow as pa

from tests.conftest import KERNEL_CACHE, ROOT, use_kernel_cache
from tests.oracle import Join, Output, Role, Window, assert_same, expected_rows
from tests.spark.frames import Feed, written

DRIVER, EXECUTOR, WORKER = "driver", "executor", "worker"
LOCAL = "local[2,4]"
"""Two cores; a task may fail four times."""
CLUSTER = "local-cluster[2,1,1024]"
"""A master and two workers, each with an executor process of its own."""
SECONDS_MAX = 240
"""For one micro-batch, or for a start, on a busy machine."""
START = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
SCHEMA = pa.schema([("n", pa.int64()), ("x", pa.float64()), ("ts", pa.timestamp("us", "UTC"))])


def feed(folder: Path, rounds: int, rows: int, seed: int) -> dict[str, pa.Table]:
    """Write ``rounds`` files a stream, out of order by up to 5 seconds; return all tuples."""
    rng = random.Random(f"killing {seed}")
    tables = {}
    for name in ("R", "S"):
        source, parts = Feed(folder / f"in-{name}", SCHEMA), []
        for k in range(rounds):
            numbers = range(k * rows, (k + 1) * rows)
            times = [START + dt.timedelta(seconds=4 * k + rng.uniform(-2.5, 2.5)) for _ in numbers]
            values = [rng.uniform(0, 200) for _ in numbers]
            parts.append(pa.table({"n": pa.array(numbers, pa.int64()), "x": values, "ts": times}, schema=SCHEMA))
            source.add(parts[-1])
        tables[name] = pa.concat_tables(parts)
    return tables


def check_output(folder: Path, tables: dict[str, pa.Table], note: str) -> int:
    """Compare what was written with the oracle; return the number of rows."""
    roles = (
        Role("R", "R", Window("range", Fraction(20))),
        Role("S", "S", Window("range", Fraction(10))),
    )
    outputs = (Output("n", 0, "n"), Output("m", 1, "n"))
    expected = expected_rows(Join(roles, tables, "R.x BETWEEN S.x - 2 AND S.x + 2", outputs))
    assert expected, "a check that cannot fail"
    assert_same(expected, written(folder, "n long, m long"), note)
    return len(expected)


class Victim:
    """The driver program under ``master``, started again whenever it is killed."""

    def __init__(self, folder: Path, master: str) -> None:
        self.folder, self._master = folder, master
        self._seen: set[int] = set()
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        with (self.folder / "driver.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "tests.spark.driver", str(self.folder), self._master],
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
        deadline = time.monotonic() + SECONDS_MAX
        while time.monotonic() < deadline:
            planned, committed = self.batches()
            if planned > max(committed, after):
                return True
            if self.process.poll() is not None:
                return False
            time.sleep(0.02)
        raise TimeoutError(f"no micro-batch in {SECONDS_MAX} s after {after}: {self.log()}")

    def kill(self, what: str, rng: random.Random) -> bool:
        """Kill the driver (and start it again), one executor, or one Python worker; False: the driver has ended."""
        if what == DRIVER:
            self._seen |= set(descendants(self.process.pid))
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

    def _find(self, what: str) -> list[int]:
        tree = descendants(self.process.pid)
        self._seen |= set(tree)
        mark = {EXECUTOR: "CoarseGrainedExecutorBackend", WORKER: "spark.daemon"}[what]
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
        """Return the end of what the driver wrote."""
        return (self.folder / "driver.log").read_text(errors="replace")[-3000:]

    def close(self) -> None:
        """Leave no process behind."""
        left = self._seen | set(descendants(self.process.pid))
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(SECONDS_MAX)
        for pid in left:
            if any(mark in command(pid) for mark in ("pyspark", "org.apache.spark")):
                kill(pid)


def run_with_kills(folder: Path, master: str, kills: Sequence[str], rng: random.Random) -> int:
    """Run the driver to its end through ``kills``; return how many happened."""
    victim, happened, after = Victim(folder, master), 0, 0
    try:
        for what in kills:
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
    parser.add_argument("--master", default=LOCAL)
    parser.add_argument("--what", nargs="*", default=[DRIVER, DRIVER, WORKER], help="driver, executor, worker")
    options = parser.parse_args(arguments)
    use_kernel_cache(ROOT / ".pytest_cache" / "d" / KERNEL_CACHE)
    rng = random.Random(options.seed)
    kills = [rng.choice(options.what) for _ in range(options.kills)]
    with tempfile.TemporaryDirectory(prefix="crosswind-killing-") as name:
        folder = Path(name)
        tables = feed(folder, rounds=2 * options.kills + 5, rows=60, seed=options.seed)
        began = time.monotonic()
        happened = run_with_kills(folder, options.master, kills, rng)
        rows = check_output(folder, tables, f"seed {options.seed}")
    seconds = time.monotonic() - began
    print(f"{happened} kills ({', '.join(kills)}) in {seconds:.0f} s; {rows} rows, none lost, none doubled")
    return int(happened < options.kills)


if __name__ == "__main__":
    sys.exit(main())
