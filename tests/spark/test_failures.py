"""What goes wrong outside the join comes back as one sentence with the cause and what to do; most of it for real."""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import crosswind as cw
from crosswind.spark.failure import error_of
from tests.conftest import SPARK
from tests.spark.frames import Feed, run_to_end
from tests.spark.killing import command, descendants, parent

SCHEMA = pa.schema([("x", pa.int64()), ("word", pa.string()), ("ts", pa.int64())])
SQL = "SELECT R.x, R.word, S.word AS w FROM R [RANGE 1000], S [RANGE 1000] WHERE R.x = S.x"
PLAN = "\n=== Streaming Query ===\nLogical Plan:\n+- Filter (word = No space left on device)"
GOES_ON = "goes on from there"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "Job aborted: Lost task 1.1 in stage 2.0 (TID 6): java.io.IOException: No space left on device\n\tat java",
            r"^a disk is full \(No space left on device\)\. Make room .*goes on from there\.$",
        ),
        (
            "[STREAM_FAILED] Query [id = 1] terminated with exception: [CANNOT_LOAD_STATE_STORE."
            "CANNOT_READ_STREAMING_STATE_FILE] An error occurred during loading state. Error reading streaming state "
            "file of file:/c/state/0/0/1.changelog does not exist. If the stream job is restarted with a new or "
            "updated state operation, please create a new checkpoint location. SQLSTATE: 58030 SQLSTATE: XXKST",
            r"^Spark cannot load the state of this checkpoint: file:/c/state/0/0/1.changelog does not exist "
            r"\(CANNOT_LOAD_STATE_STORE.CANNOT_READ_STREAMING_STATE_FILE\)\. Restore .*new checkpointLocation\.$",
        ),
        (
            "[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred during loading state.  SQLSTATE: 58030",
            r"\(CANNOT_LOAD_STATE_STORE.UNCATEGORIZED\)",
        ),
        (
            "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)\n\tat org",
            r"^a Python worker died \(Python worker exited unexpectedly \(crashed\)\).*memoryOverhead.*cache_mb=",
        ),
        (
            "Python worker failed to connect back. SQLSTATE: XXKST",
            r"^a Python worker did not start in time.*overloaded",
        ),
        (
            "ExecutorLostFailure (executor 3 exited caused by one of the running tasks) Reason: Container killed\n",
            r"^an executor was lost again and again \(ExecutorLostFailure .*Reason: Container killed\)",
        ),
    ],
)
def test_known_causes_are_one_sentence(text, told):
    error = error_of(text + PLAN)
    assert isinstance(error, cw.SparkError)
    assert re.search(told, str(error)), str(error)
    assert "\n" not in str(error)


def test_what_is_not_known_is_left_as_it_is():
    assert error_of("java.lang.NullPointerException" + PLAN) is None, "the text of a query is no cause"
    own = "crosswind.errors.InputError: no stream 'Q'\n\tat x\nNo space left on device"
    assert isinstance(error_of(own), cw.InputError), "the join's own error comes first"


# ---------------------------------------------------------------------------------- for real


def fed(folder: Path, rounds: int = 3, rows: int = 20) -> dict[str, Feed]:
    feeds = {name: Feed(folder / f"in-{name}", SCHEMA) for name in ("R", "S")}
    for k in range(rounds):
        add(feeds, k, rows)
    return feeds


def add(feeds: dict[str, Feed], k: int, rows: int) -> None:
    for name, feed in feeds.items():
        rng = random.Random(f"{name} {k}")
        words = [rng.randbytes(100).hex() for _ in range(rows)]
        feed.add(pa.table({"x": [rng.randrange(10**6) for _ in words], "word": words, "ts": [k] * rows}, SCHEMA))


def joined(feeds: dict[str, Feed]) -> object:
    return cw.spark.join(SQL, {name: feed.frame() for name, feed in feeds.items()}, cells=2, name="words")


@contextlib.contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """Mount a disk of ``size`` on ``folder``; only root may."""
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip("a small disk cannot be mounted")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@SPARK
def test_a_full_disk_is_named_and_the_query_goes_on_when_there_is_room(tmp_path):
    feeds = fed(tmp_path, rounds=4, rows=3000)
    with small_disk(tmp_path / "small", "3m") as disk:
        with pytest.raises(cw.SparkError) as caught:
            run_to_end(joined(feeds), disk)
        told = str(caught.value)
        assert "a disk is full" in told, told
        assert GOES_ON in told, told
        assert "\n" not in told
        subprocess.run(["mount", "-o", "remount,size=60m", str(disk)], check=True)
        assert sum(p.tuples for p in run_to_end(joined(feeds), disk)) > 0


@SPARK
@pytest.mark.long
def test_state_that_is_gone_is_named(tmp_path):
    feeds = fed(tmp_path)
    run_to_end(joined(feeds), tmp_path)
    gone = [path for path in (tmp_path / "checkpoint" / "state").glob("0/*/*") if path.suffix in (".changelog", ".zip")]
    assert gone
    for path in gone:
        path.unlink()
    add(feeds, 9, 20)
    with pytest.raises(
        cw.SparkError, match=r"^Spark cannot load the state of this checkpoint: .*new checkpointLocation"
    ):
        run_to_end(joined(feeds), tmp_path)


@SPARK
@pytest.mark.long
def test_a_worker_that_is_killed_is_named(tmp_path):
    """The session of the tests gives a task one attempt, so one lost worker ends the query."""
    feeds = fed(tmp_path, rounds=60, rows=5)
    stop = threading.Event()

    def kill() -> None:
        while not stop.wait(0.05):
            found = [pid for pid in descendants(os.getpid()) if "-m crosswind.spark.daemon" in command(pid)]
            for pid in found:
                if parent(pid) in found:  # the first of them is the daemon
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    try:
        with pytest.raises(cw.SparkError, match=f"^a Python worker died .*{GOES_ON}"):
            run_to_end(joined(feeds), tmp_path)
    finally:
        stop.set()
        killer.join()


@SPARK
def test_the_plan_names_the_join_and_its_streams(tmp_path, capsys):
    feeds = fed(tmp_path, rounds=1)
    joined(feeds).explain()
    plan = capsys.readouterr().out
    for named in ("words: pack R", "words: pack S", "words: unpack", "crosswind: words"):
        assert named in plan, plan
    cw.spark.join({"same": SQL}, {name: feed.frame() for name, feed in feeds.items()}).explain()
    assert "same of R and S: pack R" in capsys.readouterr().out
