"""Forty and more wrong inputs on the command line: each names its cause and the next step, without a traceback.

All through the command's own entry, in this process. Messages of single functions are asserted where those are
tested; here it is what a person sees who has made a mistake.
"""

from __future__ import annotations

import re
import socket
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner

from crosswind.cli.main import crosswind

QUERY = "SELECT R.x, S.a FROM R [RANGE 5], S [RANGE 5] WHERE R.x = S.a"
JOB = f"""[job]
engine = "local"
query = "{QUERY}"
[streams.R]
path = "r.csv"
[streams.S]
path = "s.csv"
[sink]
path = "out.csv"
"""
ON_SPARK = JOB.replace('engine = "local"\n', "").replace("out.csv", "out.parquet")
EXPLAIN = ["--schema", "R=x:int32,ts:int64", "--schema", "S=a:int32,ts:int64"]


class Wrong(NamedTuple):
    """A command, what is wrong about the job file before it, the cause and the next step that must be told."""

    command: list[str]
    cause: str
    step: str
    old: str = ""
    new: str = ""
    code: int = 1


def sql(text: str, cause: str, step: str) -> Wrong:
    return Wrong(["explain", text, *EXPLAIN], cause, step)


def job(old: str, new: str, cause: str, step: str, command: str = "run") -> Wrong:
    return Wrong([command, "job.toml"], cause, step, old, new)


BAD_SQL = [
    sql("", "cannot read the query from ''", "Give SQL text, a file"),
    sql("SELECT R.x FROM R [RANGE 5], S [RANGE 5] WHERE R.y = S.a", "Unknown column 'y' of R", "It has: x, ts"),
    sql("SELECT R.x FROM R [RANGE 5], T [RANGE 5] WHERE R.x = T.a", "Unknown stream 'T'", "Known: R, S"),
    sql("SELECT R.x FROM R, S [RANGE 5] WHERE R.x = S.a", "window", "for example"),
    sql("SELECT R.x FROM R [RANGE 5 SECONDS], S [RANGE 5] WHERE R.x = S.a", "unit", "integer"),
    sql("SELECT R.x FROM R [RANGE UNBOUNDED], S [RANGE 5]", "UNBOUNDED", "bounded|length|RANGE"),
    sql("SELECT R.x FROM R [ROWS 0], S [RANGE 5]", "ROWS 0|0", "at least 1|positive"),
    sql("SELECT R.x FROM R [RANGE 5], S [RANGE 5] WHERE R.x = 'text'", "string|'text'", "number|CAST|guessed|compare"),
    sql("SELECT R.x FROM R [RANGE 5], S [RANGE 5] WHERE distance(R.x, S.a) < 3", "distance", "predicate|Known|Allowed"),
    sql("SELECT count(*) FROM R [RANGE 5], S [RANGE 5]", "(?i)count|aggregate", "(?i)after|before|Spark|join"),
    sql("SELECT R.x FROM R [RANGE 5], S [RANGE 5] ORDER BY R.x", "ORDER BY", "(?i)sort|after|results"),
    sql("SELEC R.x FROM R [RANGE 5], S [RANGE 5]", "(?i)SELEC", "SELECT"),
    sql("SELECT x FROM R [RANGE 5]", "two streams", "two names"),
]

BAD_JOBS = [
    job("[job]", "[job", "not TOML", "line 1"),
    job("[sink]", "[snk]", "unknown section 'snk'", "Did you mean 'sink'"),
    job('path = "r.csv"', 'pth = "r.csv"', "unknown key 'pth'", "Did you mean 'path'"),
    job('engine = "local"', 'engine = "flink"', "'engine' is 'flink'", "Allowed: spark, local"),
    job('engine = "local"', 'engine = "local"\nbatch_rows = "many"', "must be a whole number", "batch_rows"),
    job('path = "out.csv"', 'path = "out.csv"\nconsole = true', "not both", "give either 'path'"),
    job('path = "s.csv"', 'path = "s.csv"\ntime = "at"', "time column 'at' is not in", "Columns there: a, ts"),
    job('path = "s.csv"', 'path = "s.csv"\nschema = { b = "int8" }', "'b', which is not in", "Columns there: a, ts"),
    job('path = "s.csv"', 'path = "s.csv"\nschema = { a = "integer" }', "unknown type 'integer'", "Allowed: .*int32"),
    job('path = "s.csv"', 'path = "s.csv"\nformat = "xml"', "'format' is 'xml'", "Allowed: parquet"),
    job(QUERY, "SELECT R.x FROM R [NOW], S [NOW] WHERE R.q = S.a", "Unknown column 'q'", "It has: x", "check"),
    job('engine = "local"', 'lateness = "soon"\nengine = "local"', "lateness 'soon'", "give"),
    job(
        'path = "s.csv"',
        'kafka = "a:1"\ntopic = "s"\nschema = { a = "int64", ts = "int64" }',
        "needs Spark",
        "engine =",
    ),
    job('path = "s.csv"', 'kafka = "${BROKERS}"\ntopic = "s"', "variable BROKERS, which is not set", "export BROKERS="),
]

BAD_FILES = [
    Wrong(["run", "none.toml"], "none.toml: cannot read", "No such file"),
    Wrong(["check", "."], "Is a directory", "job file"),
    job('path = "r.csv"', 'path = "gone-*.csv"', "no file matches", "'format' and all columns under 'schema'"),
    job('path = "r.csv"', 'path = "torn.parquet"', "cannot read .*torn.parquet as parquet", "(?i)magic|footer|parquet"),
    job('path = "r.csv"', 'path = "words.csv"\nschema = { x = "int64" }', "cannot read .*words.csv as csv", "int64"),
    job('path = "out.csv"', 'path = "no/where/out.csv"', "which does not exist", "Make that folder first"),
    job(
        'path = "out.csv"',
        'path = "/sys/out.csv"',
        "cannot write /sys/out.csv",
        "(?i)permission|not permitted|read-only",
    ),
    job(f'query = "{QUERY}"', 'query_file = "none.sql"', "cannot read 'query_file'", "No such file"),
    Wrong(["explain", "none.sql"], "cannot read the query from 'none.sql'", "Give SQL text, a file"),
    Wrong(["init", "/sys/new"], "cannot write /sys/new", "in which you may write"),
    Wrong(["init", "."], "job.toml is there already", "--force"),
]

BAD_USAGE = [
    Wrong(["rnu", "job.toml"], "No such command 'rnu'", "--help", code=2),
    Wrong(["run"], "Missing argument 'JOB.toml'", "--help", code=2),
    Wrong(["run", "job.toml", "--ui-port", "99999"], "99999 is not in the range", "0<=x<=65535", code=2),
    Wrong(["run", "job.toml", "--log", "xml"], "'xml' is not one of", "'text', 'json'", code=2),
    Wrong(["explain", QUERY, "--schema", "R"], "--schema takes NAME=...", "for example --schema R=x:int32", code=2),
    Wrong(["explain", QUERY, *EXPLAIN, "--engine", "cel"], "engine='cel' is not known", "Did you mean 'cell'"),
    Wrong(["explain", QUERY, *EXPLAIN, "--layout", "2x2x2"], "layout=.2, 2, 2. is not possible", "allowed: auto, hash"),
    Wrong(["demo", "--fast"], "--fast goes with --engine local", "on Spark", code=2),
    Wrong(["bench", "scale", "--engines", "kang"], "'kang' is no parallel engine", "allowed: cell", code=2),
    Wrong(["completion", "tcsh"], "'tcsh' is not one of", "'bash', 'zsh', 'fish'", code=2),
]

TABLE = [*BAD_SQL, *BAD_JOBS, *BAD_FILES, *BAD_USAGE]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a folder, made current, with two small streams and files that cannot be used."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BROKERS", raising=False)
    Path("r.csv").write_text("x,ts\n1,10\n")
    Path("s.csv").write_text("a,ts\n1,10\n")
    Path("words.csv").write_text("x,ts\none,10\n")
    Path("torn.parquet").write_bytes(b"PAR1 and no more")
    return tmp_path


def invoke(*command: str):
    return CliRunner().invoke(crosswind, list(command))


def reads_well(done, wrong: Wrong) -> None:
    told = done.stderr
    assert done.exit_code == wrong.code, done.output
    assert re.search(wrong.cause, told, re.DOTALL), f"no cause ({wrong.cause}) in:\n{told}"
    assert re.search(wrong.step, told, re.DOTALL), f"no next step ({wrong.step}) in:\n{told}"
    assert "Traceback" not in done.output
    assert not re.search(r"\{[a-z_.]+\}", told.replace("${", "")), f"a lost f-prefix:\n{told}"
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception


@pytest.mark.parametrize("wrong", TABLE, ids=lambda wrong: f"{' '.join(wrong.command)[:50]} {wrong.cause[:30]}")
def test_a_wrong_input_is_explained(folder, wrong):
    assert not wrong.old or wrong.old in JOB
    Path("job.toml").write_text(JOB.replace(wrong.old, wrong.new, 1) if wrong.old else JOB)
    reads_well(invoke(*wrong.command), wrong)


def test_there_are_forty():
    assert len({(*wrong.command, wrong.new) for wrong in TABLE}) >= 40


def test_a_port_that_is_taken(folder):
    Path("job.toml").write_text(JOB)
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        wrong = Wrong([], f"port {port} is taken", "--ui-port 0")
        reads_well(invoke("run", "job.toml", "--ui", "--ui-port", port), wrong)
        wrong = Wrong([], f"port {port} is taken", "--metrics-port 0")
        reads_well(invoke("run", "job.toml", "--metrics-port", port), wrong)


def test_there_is_no_java(folder, monkeypatch):
    pytest.importorskip("pyspark")
    Path("job.toml").write_text(ON_SPARK)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(folder))
    reads_well(invoke("run", "job.toml"), Wrong([], "no `java` on the PATH", "apt-get install openjdk.*--engine local"))


def test_there_is_no_spark(folder, monkeypatch):
    Path("job.toml").write_text(ON_SPARK)
    for name in [name for name in sys.modules if name.startswith(("pyspark", "crosswind.spark"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyspark", None)
    reads_well(invoke("run", "job.toml"), Wrong([], "'pyspark' is not installed", r"pip install 'crosswind\[spark\]'"))


def test_a_broker_that_is_dead(folder):
    """No broker listens there: that is said before Spark is started."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
    kafka = f'kafka = "127.0.0.1:{port}"\ntopic = "s"\nschema = {{ a = "int64", ts = "int64" }}'
    Path("job.toml").write_text(ON_SPARK.replace('path = "s.csv"', kafka))
    pytest.importorskip("pyspark")
    done = invoke("run", "job.toml")
    reads_well(done, Wrong([], f"no broker answers at 127.0.0.1:{port}", r"\[streams.S\].*kafka"))
