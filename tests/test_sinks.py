"""Files that a job writes: never one that it reads, whole or not at all, whatever ends the process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from crosswind.cli.main import crosswind
from crosswind.errors import JobError
from crosswind.io.draft import Draft
from crosswind.io.job import load_job

JOB = """
[job]
{query}
engine = "{engine}"
[streams.R]
path = "{read}"
format = "csv"
[sink]
path = "{write}"
format = "csv"
[spark]
{spark}
"""
QUERY = 'query = "SELECT a.x, b.x AS y FROM R [NOW] AS a, R [NOW] AS b"'
ROWS = "x,ts\n1,1\n2,1\n"


def job_file(read: str, write: str, *, engine: str = "local", query: str = QUERY, spark: str = "") -> Path:
    path = Path("job.toml")
    path.write_text(JOB.format(read=read, write=write, engine=engine, query=query, spark=spark))
    return path


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """Return a folder, made current, with a stream in it under several names."""
    monkeypatch.chdir(tmp_path)
    for name in ("in.csv", "data/in.csv", "data/deep/er/in.csv", "away/some.csv"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(ROWS)
    Path("link.csv").symlink_to("in.csv")
    Path("hard.csv").hardlink_to("in.csv")
    Path("linked").symlink_to("data")
    Path("query.sql").write_text("SELECT a.x, b.x AS y FROM R [NOW] AS a, R [NOW] AS b")
    return tmp_path


def contents(folder: Path) -> dict[str, str]:
    return {str(path): path.read_text() for path in folder.rglob("*") if path.is_file() and path.name != "job.toml"}


# -- a job does not write what it reads -----------------------------------------------------------


@pytest.mark.parametrize(
    ("read", "write", "message"),
    [
        ("in.csv", "in.csv", "is the file in.csv of stream R"),
        ("in.csv", "./data/../in.csv", "is the file in.csv of stream R"),
        ("in.csv", "HERE/in.csv", "is the file in.csv of stream R"),
        ("HERE/in.csv", "in.csv", "is the file .*/in.csv of stream R"),
        ("in.csv", "link.csv", "is the file in.csv of stream R"),
        ("link.csv", "in.csv", "is the file link.csv of stream R"),
        ("in.csv", "hard.csv", "is the file in.csv of stream R"),
        ("data/in.csv", "linked/in.csv", "is the file data/in.csv of stream R"),
        ("data", "data/in.csv", r"is the file data/in.csv of stream R"),
        ("data", "data/new.csv", r"is one of the files data/\* that stream R reads"),
        ("linked", "data/new.csv", r"is one of the files linked/\* that stream R reads"),
        ("data", "linked/new.csv", r"is one of the files data/\* that stream R reads"),
        ("data/*.csv", "data/new.csv", r"is one of the files data/\*.csv that stream R reads"),
        ("d*/in.csv", "data/in.csv", "is the file data/in.csv of stream R"),
        ("d*/i?.csv", "data/io.csv", r"is one of the files d\*/i\?.csv that stream R reads"),
        ("data/**/*.csv", "data/new.csv", r"is one of the files data/\*\*/\*.csv that stream R reads"),
        ("data/**/*.csv", "data/deep/er/new.csv", r"is one of the files data/\*\*/\*.csv that stream R reads"),
    ],
)
def test_in_one_process(folder, read, write, message):
    path = job_file(read.replace("HERE", str(folder)), write.replace("HERE", str(folder)))
    before = contents(folder)
    with pytest.raises(JobError, match=message) as caught:
        load_job(path)
    assert "[sink]: 'path' is " in str(caught.value)
    assert str(caught.value).endswith(
        "A job cannot write what it reads: give another name, or a folder that is not read."
    )
    for command in ("check", "run"):
        done = CliRunner().invoke(crosswind, [command, str(path)])
        assert done.exit_code == 1, done.output
        assert "cannot write what it reads" in done.output
    assert contents(folder) == before


@pytest.mark.parametrize(
    ("read", "write"),
    [
        ("in.csv", "out.csv"),
        ("data", "out.csv"),
        ("data", "data/_out.csv"),
        ("data", "data/.out.csv"),
        ("data", "data/deep/out.csv"),
        ("data/i*.csv", "data/out.csv"),
        ("data/*.csv", "data/deep/out.csv"),
        ("data/**/i*.csv", "data/deep/out.csv"),
        ("d[a]ta/in.csv", "away/in.csv"),
    ],
)
def test_elsewhere_is_fine(folder, read, write):
    done = CliRunner().invoke(crosswind, ["run", str(job_file(read, write))])
    assert done.exit_code == 0, done.output
    assert Path(write).read_text().count("\n") > 2
    again = CliRunner().invoke(crosswind, ["run", "job.toml"])
    assert again.exit_code == 0, "a second run reads the same"


def test_the_job_itself_is_not_overwritten(folder):
    with pytest.raises(JobError, match=r"'path' is job.toml, which is a file of the job itself. Give another name."):
        load_job(job_file("in.csv", "job.toml"))
    with pytest.raises(JobError, match=r"'path' is query.sql, which is a file of the job itself"):
        load_job(job_file("in.csv", "query.sql", query='query_file = "query.sql"'))


def test_devices_and_pipes_are_no_files(folder):
    os.mkfifo("pipe")
    for write in ("pipe", "/dev/null"):
        with pytest.raises(JobError, match=r"which is no file but a device or a pipe. .* console = true"):
            load_job(job_file("in.csv", write))


@pytest.mark.parametrize(
    ("read", "write", "message"),
    [
        ("data", "data/out", r"lies among the files data/\* that stream R reads"),
        ("data", "data", r"holds the files data/\* of stream R"),
        ("data/in.csv", "data", "holds the files data/in.csv of stream R"),
        ("data/deep/er/*.csv", "data", r"holds the files data/deep/er/\*.csv of stream R"),
        ("data/*", "data/deep/out", r"lies among the files data/\* that stream R reads"),
        ("data/*", "data/_out", r"lies among the files data/\* that stream R reads"),
        ("data/*", "data/.out", r"lies among the files data/\* that stream R reads"),
        ("linked", "data/out", r"lies among the files linked/\* that stream R reads"),
        ("data", "linked/out", r"lies among the files data/\* that stream R reads"),
    ],
)
def test_on_spark(folder, read, write, message):
    with pytest.raises(JobError, match=message) as caught:
        load_job(job_file(read, write, engine="spark"))
    assert "'path' is the folder " in str(caught.value)


def test_on_spark_elsewhere_is_fine(folder):
    for read, write in [("in.csv", "out"), ("data", "out"), ("data", "data/deep/_out"), ("data/*.csv", "data/out")]:
        load_job(job_file(read, write, engine="spark"))


def test_on_spark_neither_checkpoint_nor_log_are_read(folder):
    with pytest.raises(JobError, match=r"'\[spark\] checkpoint' is the folder data/kept, which lies among the files"):
        load_job(job_file("data", "out", engine="spark", spark='checkpoint = "data/kept"'))
    with pytest.raises(JobError, match=r"'\[spark\] log' is data/in.csv, which is the file data/in.csv of stream R"):
        load_job(job_file("data", "out", engine="spark", spark='log = "data/in.csv"'))


# -- whole or not at all --------------------------------------------------------------------------


@pytest.fixture(params=["nameless", "named"])
def kind(request, monkeypatch) -> str:
    """Return which kind of draft there is: file systems differ."""
    if request.param == "named":
        monkeypatch.delattr(os, "O_TMPFILE")
    return request.param


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.usefixtures("kind")
def test_a_draft_takes_its_place_at_once(tmp_path):
    path = tmp_path / "out"
    path.write_bytes(b"old")
    draft = Draft(path)
    draft.file.write(b"new" * 100_000)
    assert path.read_bytes() == b"old"
    draft.keep()
    assert path.read_bytes() == b"new" * 100_000
    draft.discard()
    assert names(tmp_path) == ["out"]


@pytest.mark.usefixtures("kind")
def test_a_draft_that_is_discarded_was_never_there(tmp_path):
    draft = Draft(tmp_path / "out")
    draft.file.write(b"new")
    draft.discard()
    assert names(tmp_path) == []


@pytest.mark.usefixtures("kind")
def test_a_draft_has_the_rights_of_any_file(tmp_path):
    before = os.umask(0o027)
    try:
        draft = Draft(tmp_path / "out")
        draft.keep()
    finally:
        os.umask(before)
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o640


@pytest.mark.usefixtures("kind")
def test_through_a_link_its_target_is_replaced(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to("there/out")
    draft = Draft(tmp_path / "link")
    draft.file.write(b"new")
    draft.keep()
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "there" / "out").read_bytes() == b"new"


def test_where_a_name_cannot_be_given_it_is_copied(tmp_path, monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError("no links here")

    draft = Draft(tmp_path / "out")
    draft.file.write(b"new")
    monkeypatch.setattr(os, "link", refuse)
    draft.keep()
    assert (tmp_path / "out").read_bytes() == b"new"
    assert names(tmp_path) == ["out"]


def test_drafts_of_dead_processes_go_and_those_of_others_stay(tmp_path, monkeypatch):
    monkeypatch.delattr(os, "O_TMPFILE")
    code = (
        "import os, signal\nfrom pathlib import Path\nfrom crosswind.io.draft import Draft\ndel os.O_TMPFILE\n"
        "draft = Draft(Path('out'))\ndraft.file.write(b'half')\ndraft.file.flush()\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path)
    assert done.returncode == -signal.SIGKILL
    (left,) = names(tmp_path)
    assert left.startswith(".out.")
    (tmp_path / ".out.of somebody else.partial").write_text("kept")
    (tmp_path / ".outer.12345678.partial").write_text("kept")
    alive = Draft(tmp_path / "out")
    assert left not in names(tmp_path)
    other = Draft(tmp_path / "out")
    assert len(names(tmp_path)) == 4, "the draft of one that is alive stays"
    other.file.write(b"other")
    other.keep()
    alive.file.write(b"alive")
    alive.keep()
    assert (tmp_path / "out").read_bytes() == b"alive"
    assert names(tmp_path) == [".out.of somebody else.partial", ".outer.12345678.partial", "out"]


LONG = """
[job]
engine = "local"
batch_rows = 1000
query = "SELECT a.x, b.x AS y FROM R [RANGE 300] AS a, R [RANGE 300] AS b WHERE a.x <> b.x"
[streams.R]
path = "in.csv"
[sink]
path = "out/found.csv"
"""


@pytest.mark.parametrize(
    ("number", "code", "says"),
    [
        (signal.SIGTERM, 143, "terminated"),
        (signal.SIGHUP, 129, "terminated"),
        (signal.SIGINT, 130, "interrupted"),
        (signal.SIGKILL, -signal.SIGKILL, None),
    ],
    ids=["SIGTERM", "SIGHUP", "SIGINT", "SIGKILL"],
)
def test_a_job_that_is_ended_leaves_nothing_behind(tmp_path, number, code, says):
    (tmp_path / "in.csv").write_text("x,ts\n" + "".join(f"{i},{i}\n" for i in range(300_000)))
    (tmp_path / "job.toml").write_text(LONG)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "found.csv").write_text("an older one\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "crosswind", "run", "job.toml", "--log", "json"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=_heed_signals,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if '"event": "progress"' in line:  # results are being written
            break
    process.send_signal(number)
    output, errors = process.communicate(timeout=300)
    assert process.returncode == code, errors
    assert names(tmp_path / "out") == ["found.csv"]
    assert (tmp_path / "out" / "found.csv").read_text() == "an older one\n"
    if says is not None:
        assert errors.endswith(f"{says}\n")
        assert "Traceback" not in errors
        assert "job: stopped early" in output


def _heed_signals() -> None:
    """Undo what a runner in the background may have set: children inherit signals that are ignored."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def test_a_signal_that_is_ignored_stays_ignored(tmp_path):
    code = (
        "import os, signal\nfrom crosswind.cli.interruption import heed_termination\nsignal.signal(signal.SIGHUP, "
        "signal.SIG_IGN)\nheed_termination()\nos.kill(os.getpid(), signal.SIGHUP)\nprint('goes on')"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "goes on\n"
