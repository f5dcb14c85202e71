"""The command line in a process of its own, for tests that need a Spark of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

SECONDS_MAX = 280
_MANY = """
import json, shutil, sys
from click.testing import CliRunner
from crosswind.cli.main import crosswind
for line in sys.argv[1:]:
    command = json.loads(line)
    if command[0] == "cp":
        shutil.copy(*command[1:])
        continue
    done = CliRunner().invoke(crosswind, command)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    print(json.dumps([done.exit_code, done.stdout, done.stderr]), flush=True)
"""


class Done:
    """What a command came to."""

    def __init__(self, code: int, stdout: str, stderr: str) -> None:
        self.code, self.stdout, self.stderr = code, stdout, stderr

    def __repr__(self) -> str:
        return f"exit code {self.code}\n{self.stdout}\n{self.stderr}"


def run_many(*commands: list[str], cwd: Path) -> list[Done]:
    """Run commands one after the other in one process, so that they share a JVM; ``cp`` copies a file in between."""
    done = subprocess.run(
        [sys.executable, "-c", _MANY, *map(json.dumps, commands)],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=len(commands) * SECONDS_MAX,
        check=False,
    )
    lines = done.stdout.splitlines()
    assert len(lines) == sum(command[0] != "cp" for command in commands), done.stdout + done.stderr
    return [Done(*json.loads(line)) for line in lines]


def start(*arguments: str, cwd: Path) -> subprocess.Popen[str]:
    """Start a command in a process group of its own: itself, the JVM, the workers."""
    return subprocess.Popen(
        [sys.executable, "-m", "crosswind", *arguments],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def kill_all(process: subprocess.Popen[str]) -> None:
    """Kill a command and everything below it, without a chance to clean up."""
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=30)


def processes_of(group: int) -> list[str]:
    """Return the commands that still run in a process group."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdecimal() and os.getpgid(int(entry.name)) == group:
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
                if state != "Z":
                    found.append((entry / "cmdline").read_text().replace("\0", " ")[:200])
        except (OSError, ProcessLookupError):
            continue
    return found


def committed(checkpoint: Path) -> int:
    """Return how many micro-batches a query has committed."""
    folder = checkpoint / "commits"
    return len([entry for entry in folder.iterdir() if entry.name.isdecimal()]) if folder.is_dir() else 0


def sink_table(folder: Path) -> pa.Table:
    """Return what is in a folder of parquet files by Spark's own log of it, without those of failed attempts."""
    entries: dict[str, bool] = {}
    logs = [entry for entry in (folder / "_spark_metadata").iterdir() if entry.name.partition(".")[0].isdecimal()]
    for log in sorted(logs, key=lambda entry: int(entry.name.partition(".")[0])):
        for line in log.read_text().splitlines()[1:]:
            entry = json.loads(line)
            entries[entry["path"].rpartition("/")[2]] = entry["action"] == "add"
    tables = [pq.read_table(folder / name) for name, there in entries.items() if there]
    return pa.concat_tables(tables)
