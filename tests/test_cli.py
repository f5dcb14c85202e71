"""The command line: what it prints, how it fails, how it stops; and what importing costs."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from click.testing import CliRunner

import crosswind as cw
from crosswind.cli.main import crosswind
from crosswind.cli.replay import Measured, Playback, replay
from crosswind.cli.report import figures, milliseconds, per_second, quantile
from crosswind.cli.workload import BandJoin
from crosswind.testing import TestClock, assert_same_rows, stream_from_text
from tests.waiting import PATIENCE_S, wait_until

COMMAND = [sys.executable, "-m", "crosswind"]
JOB = """
[job]
name = "near"
engine = "local"
query = "SELECT R.x, S.a FROM R [RANGE 5], S [RANGE 5] WHERE abs(R.x - S.a) <= 1"
[streams.R]
path = "r.parquet"
[streams.S]
path = "s.csv"
[sink]
"""


def invoke(*arguments: str, stdin: str | None = None):
    return CliRunner().invoke(crosswind, list(arguments), input=stdin)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a folder, made current, with two small streams."""
    monkeypatch.chdir(tmp_path)
    pa.parquet.write_table(stream_from_text("x ts\n1 10\n2 11\n3 30\n9 12\nnull 31"), "r.parquet")
    pa.csv.write_csv(stream_from_text("a ts\n1 12\n2 29\n3 32"), "s.csv")
    return tmp_path


def write_job(sink: str, job: str = JOB) -> str:
    Path("job.toml").write_text(job + sink)
    return "job.toml"


# -- import and help ----------------------------------------------------------------------------


def imported_by(statement: str) -> set[str]:
    code = f"import sys\n{statement}\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_the_package_loads_nothing_heavy():
    loaded = imported_by("import crosswind")
    assert loaded.isdisjoint({"numba", "llvmlite", "pyspark", "pyarrow", "numpy", "sqlglot", "pandas", "click"})


def test_the_help_loads_nothing_heavy():
    loaded = imported_by("import crosswind.cli.main")
    assert loaded.isdisjoint({"numba", "llvmlite", "pyspark", "pyarrow", "numpy", "sqlglot", "pandas", "rich"})


def test_the_public_face_is_complete():
    for name in cw.__all__:
        assert getattr(cw, name) is not None
        assert name in dir(cw)
    assert cw.testing.assert_same_rows is assert_same_rows


def test_an_unknown_attribute_is_the_usual_error():
    with pytest.raises(AttributeError, match="module 'crosswind' has no attribute 'joins'"):
        _ = cw.joins


def test_version_and_help():
    assert invoke("--version").output == f"crosswind {cw.__version__}\n"
    helped = invoke("--help")
    assert helped.exit_code == 0
    assert all(name in helped.output for name in ("demo", "run", "explain"))


# -- run ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["parquet", "csv", "jsonl", "arrow"])
def test_run_writes_results(folder, form):
    done = invoke("run", write_job(f'path = "out.{form}"'))
    assert done.exit_code == 0, done.output
    assert "near: done" in done.output
    assert "R 5, S 3" in done.output
    assert f"out.{form}" in done.output
    got = pa.dataset.dataset(f"out.{form}", format={"jsonl": "json", "arrow": "ipc"}.get(form, form)).to_table()
    assert_same_rows(got, [{"x": 1, "a": 1}, {"x": 2, "a": 1}, {"x": 3, "a": 2}, {"x": 3, "a": 3}])
    assert not list(folder.glob(".*"))


def test_run_writes_what_comes_out_in_the_end(folder):
    """What is alone is known when the streams have ended."""
    outer = JOB.replace("R [RANGE 5], S [RANGE 5] WHERE", "R [RANGE 5] LEFT JOIN S [RANGE 5] ON")
    done = invoke("run", write_job('path = "out.csv"', outer))
    assert done.exit_code == 0, done.output
    got = pa.csv.read_csv("out.csv")
    pairs = [{"x": 1, "a": 1}, {"x": 2, "a": 1}, {"x": 3, "a": 2}, {"x": 3, "a": 3}]
    assert_same_rows(got, [*pairs, {"x": 9, "a": None}, {"x": None, "a": None}])


def test_run_reports_what_was_left_out(folder):
    job = write_job('path = "out.csv"', JOB.replace("[job]", "[job]\nbatch_rows = 2"))
    pa.parquet.write_table(stream_from_text("x ts\n1 10\n2 11\n3 30\n9 12\n4 13\n4 null"), "r.parquet")
    done = invoke("run", job)
    assert done.exit_code == 0, done.output
    assert "late in R     1, dropped: older than the watermark." in done.output
    assert "no time in R  1, rejected" in done.output


def test_run_reports_in_json(folder):
    done = invoke("run", "--json", write_job('path = "out.csv"'))
    report = json.loads(done.stdout)
    assert report["tuples_read"] == {"R": 5, "S": 3}
    assert (report["finished"], report["results"], report["sink"]) == (True, 4, "out.csv")


def test_results_in_memory_are_shown(folder):
    done = invoke("run", write_job('memory = "found"'))
    assert done.exit_code == 0, done.output
    assert "  x=3, a=2\n" in done.stdout
    assert "near: done" in done.stdout


def test_where_there_is_no_java_it_is_said_how_to_get_it(folder, monkeypatch):
    pytest.importorskip("pyspark")
    monkeypatch.setenv("JAVA_HOME", str(folder))
    done = invoke("run", "--engine", "spark", write_job('path = "out.parquet"'))
    assert done.exit_code == 1
    assert f"JAVA_HOME is {folder}, which has no bin/java" in done.stderr
    assert "apt-get install openjdk-17-jre-headless" in done.stderr


def test_results_on_the_console_are_all_that_is_on_standard_output(folder):
    done = invoke("run", write_job('console = true\nformat = "jsonl"'))
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert_same_rows(rows, [{"x": 1, "a": 1}, {"x": 2, "a": 1}, {"x": 3, "a": 2}, {"x": 3, "a": 3}])
    assert "near: done" in done.stderr
    assert invoke("run", "--json", "job.toml").exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "none.toml"], "error: none.toml: cannot read the job file: No such file or directory."),
        (["explain", "none.sql"], "error: cannot read the query from 'none.sql': No such file or directory."),
        (["explain", "SELECT * FROM R [NOW], R [NOW]", "--stream", "R=x.csv"], "error: stream R: there is no file"),
        (["explain", "SELECT * FROM Q [NOW], R [NOW]", "--schema", "R=ts:int64"], "error: Unknown stream 'Q'."),
        (["explain", "SELECT *", "--schema", "R=ts:int46"], "error: unknown type 'int46'."),
    ],
)
def test_a_mistake_is_one_message_and_no_traceback(folder, arguments, message):
    done = invoke(*arguments)
    assert done.exit_code == 1
    assert done.stderr.startswith(message)
    assert done.stdout == ""
    assert "Traceback" not in done.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["explain", "SELECT *", "--schema", "ts:int64"], "--schema takes NAME=..., for example --schema R=x:int32"),
        (["explain", "j.toml", "--schema", "R=ts:int64"], "a job file names its own streams"),
        (["explain", "SELECT *", "--schema", "R=ts:int64", "--stream", "R=r.csv"], "stream 'R' is given twice"),
        (["demo", "--rate", "0"], "0 is not in the range x>=1"),
        (["demo", "--fast"], "--fast goes with --engine local"),
        (["dmo"], "No such command 'dmo'"),
    ],
)
def test_wrong_usage_is_explained(folder, arguments, message):
    done = invoke(*arguments)
    assert done.exit_code == 2
    assert message in done.stderr


def test_an_error_in_the_middle_leaves_no_file_behind(folder):
    job = write_job('path = "out.csv"', JOB.replace("abs(R.x - S.a) <= 1", "R.x * 9223372036854775807 > S.a"))
    done = invoke("run", job)
    assert done.exit_code == 1
    assert "64-bit" in done.stderr
    assert not list(folder.glob("*out.csv*"))


# -- explain ------------------------------------------------------------------------------------


def test_explain_takes_text_files_input_and_jobs(folder):
    sql = "SELECT R.x, S.a FROM R [RANGE 5], S [RANGE 5] WHERE abs(R.x - S.a) <= 1"
    Path("query.sql").write_text(sql)
    schemas = ["--schema", "R=x:int64,ts:int64", "--schema", "S=a:int64,ts:int64"]
    plans = [
        invoke("explain", sql, *schemas).output,
        invoke("explain", "query.sql", "--stream", "R=r.parquet", "--stream", "S=s.csv").output,
        invoke("explain", "-", *schemas, stdin=sql).output,
        invoke("explain", write_job("console = true")).output,
    ]
    assert len(set(plans)) == 1, plans
    assert len(plans[0]) > 50
    assert len(invoke("explain", "--verbose", sql, *schemas).output) > len(plans[0])


# -- demo ---------------------------------------------------------------------------------------


def test_the_demo_checks_itself():
    done = invoke("demo", "--engine", "local", "--seconds", "1", "--rate", "400", "--window", "2", "--fast", "--json")
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert report["same_rows"] is True
    assert report["tuples_in"] == {"R": 1200, "S": 1200}


def test_the_demo_is_quiet_where_there_is_no_terminal():
    done = invoke("demo", "--engine", "local", "--seconds", "0.3", "--rate", "200", "--window", "1", "--no-fill")
    assert done.exit_code == 0, done.output
    assert "\x1b" not in done.output
    assert done.output.rstrip().endswith("same rows as NumPy  yes")


def test_the_demo_fails_when_rows_are_missing(monkeypatch):
    monkeypatch.setattr(BandJoin, "expected", lambda _: stream_from_text("x y a b\n1 1 1 1"))
    done = invoke("demo", "--engine", "local", "--seconds", "0.1", "--rate", "10", "--window", "1", "--fast")
    assert done.exit_code == 1
    assert "same rows as NumPy  NO" in done.output
    assert "missing (1)" in done.stderr


class JoinStub:
    """A join that finds nothing and takes its time."""

    def __init__(self, clock: TestClock, push_s: float) -> None:
        self.clock = clock
        self.push_s = push_s
        self.pushed: list[tuple[float, str, int]] = []
        self.stats = cw.Stats({}, {}, {}, 0, 0, {"R": 1}, {}, 0, 0, {}, "kang", {}, {})

    def push(self, stream: str, batch: pa.Table) -> pa.Table:
        self.pushed.append((round(self.clock.now(), 3), stream, batch.num_rows))
        self.clock.advance(self.push_s)
        return pa.table({})

    def finish(self) -> pa.Table:
        return pa.table({})


@pytest.mark.parametrize(("push_s", "fast", "live_s"), [(0.001, False, 1.001), (0.1, False, 2.05), (0.001, True, 0.02)])
def test_replay_keeps_the_streams_pace_as_far_as_the_join_does(push_s, fast, live_s):
    workload = BandJoin(rate=100, seconds=3, window_s=2, seed=1)
    streams = {"R": workload.streams["R"]}
    clock = TestClock()
    join = JoinStub(clock, push_s)
    measured = Measured(tuples={"R": 0})
    seen = []
    playback = Playback(streams, {"R": workload.offsets_ms("R")}, fill_ms=2_000, end_ms=3_000, fast=fast)
    replay(join, playback, clock, measured, lambda measured: seen.append(measured.live_s))
    assert measured.finished
    assert measured.tuples == {"R": 300}
    assert measured.live_s == pytest.approx(live_s, abs=0.06)
    assert measured.fill_s == pytest.approx(2 * push_s)
    assert len(seen) == 22
    assert max(measured.push_s) == pytest.approx(push_s)
    assert (measured.behind_s_max > 0.5) == (push_s == 0.1)


def test_figures():
    assert figures({"a": "1", "long": "2"}) == "  a     1\n  long  2"
    assert [milliseconds(s) for s in (0.00012345, 0.0123, 1.5)] == ["0.123 ms", "12.3 ms", "1,500 ms"]
    assert (per_second(10, 4.0), per_second(10, 0.0)) == ("2/s", "-")
    assert [quantile([3.0, 1.0, 2.0, 4.0], q) for q in (0.0, 0.5, 0.99, 1.0)] == [1.0, 2.0, 4.0, 4.0]


# -- processes ----------------------------------------------------------------------------------


def scrape(address: str) -> str:
    with urllib.request.urlopen(address, timeout=PATIENCE_S) as answer:
        return answer.read().decode()


def test_an_interruption_stops_the_demo_with_what_was_done():
    options = ["--engine", "local", "--no-fill", "--seconds", "600", "--metrics-port", "0"]
    command = [*COMMAND, "demo", *options]
    # Unbuffered: a line read here must not take with it what communicate() is to return.
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)
    assert process.stdout is not None
    assert process.stderr is not None
    address = process.stderr.readline().split()[-1].decode()
    assert process.stdout.readline().startswith(b"SELECT")
    wait_until(lambda: re.search(r"crosswind_tuples_total\S+ [1-9]", scrape(address)), "the first tuples")
    process.send_signal(signal.SIGINT)
    output, errors = (text.decode() for text in process.communicate(timeout=PATIENCE_S))
    assert process.returncode == 130, errors
    assert "not checked, as it was stopped early" in output
    assert errors.endswith("interrupted\n")
    assert "Traceback" not in errors


def test_a_reader_that_goes_away_is_no_error(folder):
    Path("many.csv").write_text("x,ts\n" + "".join(f"{i},1\n" for i in range(2000)))
    job = JOB.replace("abs(R.x - S.a) <= 1", "TRUE").replace("s.csv", "many.csv").replace("r.parquet", "many.csv")
    name = write_job("console = true", job.replace("S.a", "S.x AS a"))
    done = subprocess.run(
        ["sh", "-c", f"({sys.executable} -m crosswind run {name}; echo exit $? >&2) | head -n 1"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == '"x","a"\n'
    assert "exit 141" in done.stderr, "as shells report it"
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


def test_on_a_terminal_progress_is_live():
    controller, terminal = pty.openpty()
    arguments = ["demo", "--engine", "local", "--seconds", "1", "--rate", "100", "--window", "1"]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "40"}
    process = subprocess.Popen([*COMMAND, *arguments], stdout=terminal, stderr=subprocess.DEVNULL, env=environment)
    os.close(terminal)
    printed = b""
    while True:
        try:
            chunk = os.read(controller, 65536)
        except OSError:
            break
        if not chunk:
            break
        printed += chunk
    os.close(controller)
    assert process.wait(timeout=PATIENCE_S) == 0
    assert b"\x1b[" in printed
    assert b"held in windows" in printed
    assert b"same rows as NumPy" in printed
