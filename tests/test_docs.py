"""README, docs and examples are run, and what they claim to print is compared with what they print.

In Markdown files, in order and in an empty folder:

- ``python`` blocks are executed, all of a file in one namespace;
- a ``text`` block right after a ``python`` or ``console`` block is what that must print;
- ``console`` blocks run their ``$`` lines in a shell; lines after one are what it must print;
- a block such as ``toml file=job.toml`` becomes a file of that name.

In expected output ``...`` stands for anything. ``sh`` blocks are for people and are not run.
Examples in docstrings are run by doctest.
"""

from __future__ import annotations

import doctest
import os
import re
import runpy
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import crosswind as cw
from crosswind.monitor.reading import METRICS
from crosswind.query import userfunctions
from crosswind.testing import assert_same_rows
from tests.conftest import SPARK

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
WITH_EXAMPLES = sorted(
    path
    for path in (ROOT / "src").rglob("*.py")
    # Those of Spark need a session: tests/spark/test_examples.py
    if ">>> " in path.read_text(encoding="utf-8") and path.parent.name != "spark"
)
FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<body>.*?)^```$", re.DOTALL | re.MULTILINE)
COMMAND_SECONDS_MAX = 400
"""Spark takes its time to start where others are at work."""


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    language: str
    file: str | None
    body: str
    line: int
    follows: int
    """Characters of text between this block and the one before it."""


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    found, last = [], 0
    for match in FENCE.finditer(text):
        language, *options = match["info"].split() or [""]
        named = dict(option.split("=", 1) for option in options if "=" in option)
        gap = len(text[last : match.start()].strip())
        found.append(Block(language, named.get("file"), match["body"], text.count("\n", 0, match.start()) + 1, gap))
        last = match.end()
    return found


def on_spark(page: Path) -> bool:
    """Whether a page runs something on Spark."""
    return any(word in block.body for block in blocks(page) for word in ("SparkSession", "--engine spark"))


def assert_printed(got: str, wanted: str, where: str) -> None:
    checker = doctest.OutputChecker()
    assert checker.check_output(wanted, got, doctest.ELLIPSIS), f"{where} says\n{wanted}\nbut this was printed:\n{got}"


@pytest.fixture(autouse=True)
def own_predicates(monkeypatch):
    """Let pages register predicates for themselves alone: other tests have some of the same name."""
    monkeypatch.setattr(userfunctions, "_REGISTERED", dict(userfunctions._REGISTERED))


@pytest.fixture
def shell(tmp_path):
    """Return a function that runs a command line with `crosswind` and `python` of this environment."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, words in {"crosswind": [sys.executable, "-m", "crosswind"], "python": [sys.executable]}.items():
        script = programs / name
        script.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
        script.chmod(0o755)
    # `sort` goes by the locale.
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "COLUMNS": "120", "LC_ALL": "C.UTF-8"}

    def run(command: str, cwd: Path) -> str:
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=cwd,
            env=environment,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS_MAX,
            check=False,
        )
        assert done.returncode == 0, f"$ {command}\nended with {done.returncode}:\n{done.stdout}{done.stderr}"
        # A slow run tells how far it is; a page does not show that.
        told = [line for line in done.stderr.splitlines(keepends=True) if not line.startswith("tuples read: ")]
        return done.stdout + "".join(told)

    return run


def run_here(script: str, capsys) -> str:
    """Run a script in this process, which has a session of Spark: to start one takes longer than most scripts."""
    from tests.spark.session import work_in

    work_in(Path.cwd())
    arguments = sys.argv
    try:
        runpy.run_path(script, run_name="__main__")
    finally:
        sys.argv = arguments
    return capsys.readouterr().out


def run_console(block: Block, shell, folder: Path, where: str) -> str:
    """Run a console block; return what its last command printed."""
    steps: list[tuple[str, str]] = []
    for line in block.body.replace("\\\n", "").splitlines():
        if line.startswith("$ "):
            steps.append((line[2:], ""))
        elif steps:
            steps[-1] = (steps[-1][0], steps[-1][1] + line + "\n")
    assert steps, f"{where}: a console block needs a line that begins with $"
    printed = ""
    for command, wanted in steps:
        printed = shell(command, folder)
        if wanted.strip():
            assert_printed(printed, wanted, where)
    return printed


def keep_session(monkeypatch) -> None:
    """Let a page have the session of the tests, which others need when the page has stopped its own."""
    pytest.importorskip("pyspark")
    from tests.spark.session import session

    monkeypatch.setattr(type(session()), "stop", lambda _: None)


@pytest.mark.timeout(1500)
@pytest.mark.parametrize(
    "page", [pytest.param(page, id=page.name, marks=[SPARK] if on_spark(page) else []) for page in PAGES]
)
def test_pages_run(page, tmp_path, monkeypatch, capsys, shell):
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    if "SparkSession" in page.read_text(encoding="utf-8"):
        keep_session(monkeypatch)
    namespace = {"__name__": "__main__"}
    printed: str | None = None
    ran: list[str] = []

    def run_command(command: str, cwd: Path) -> str:
        """Run the first script of a page as a reader would, and others where Spark is running already."""
        script = re.fullmatch(r"python (\w+\.py)(?: 2>>? [\w.]+)?", command)
        if script is None or "SparkSession" not in (cwd / script[1]).read_text(encoding="utf-8"):
            return shell(command, cwd)
        ran.append(script[1])
        return shell(command, cwd) if len(ran) == 1 else run_here(script[1], capsys)

    for block in blocks(page):
        where = f"{page.name}:{block.line}"
        if block.file is not None:
            (folder / block.file).parent.mkdir(parents=True, exist_ok=True)
            (folder / block.file).write_text(block.body, encoding="utf-8")
        elif block.language == "python":
            # From a file, as a reader would: user-defined predicates are compiled from their source.
            source = tmp_path / f"{page.stem}_{block.line}.py"
            source.write_text("\n" * block.line + block.body, encoding="utf-8")
            exec(compile(source.read_text(encoding="utf-8"), source, "exec"), namespace)
            printed = capsys.readouterr().out
            continue
        elif block.language == "console":
            printed = run_console(block, run_command, folder, where)
            continue
        elif block.language == "text" and block.follows == 0 and printed is not None:
            assert_printed(printed, block.body, where)
        printed = None


def test_examples_in_docstrings_run(shell, tmp_path):
    # In a process of their own: doctest takes over sys.stdout, which threads of other tests may use.
    modules = [".".join(path.relative_to(ROOT / "src").with_suffix("").parts) for path in WITH_EXAMPLES]
    (tmp_path / "examples.py").write_text(
        "import doctest, importlib, sys\n"
        "for name in sys.argv[1:]:\n"
        "    outcome = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)\n"
        "    print(name, 'ran' if outcome.attempted and not outcome.failed else 'FAILED', flush=True)\n",
        encoding="utf-8",
    )
    printed = shell(f"python examples.py {' '.join(modules)}", tmp_path)
    assert printed.split() == [word for name in modules for word in (name, "ran")], printed


def public_names():
    for module in (cw, cw.testing):
        yield from (getattr(module, name) for name in module.__all__ if not name.startswith("__"))


def test_every_public_name_has_an_example():
    bare = [found.__name__ for found in public_names() if ">>> " not in (found.__doc__ or "") and callable(found)]
    assert not bare, f"no example in the docstrings of {bare}"


def test_reference_pages_name_everything():
    metrics = (ROOT / "docs" / "how-to" / "monitoring.md").read_text(encoding="utf-8")
    missing = [metric.sample_name for metric in METRICS if f"`{metric.sample_name}`" not in metrics]
    errors = (ROOT / "docs" / "reference" / "errors.md").read_text(encoding="utf-8")
    missing += [name for name in cw.__all__ if name.endswith(("Error", "Warning")) and f"`{name}`" not in errors]
    assert not missing


@pytest.mark.parametrize("page", [*PAGES, *sorted(ROOT.glob("*.md"))], ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page):
    text = page.read_text(encoding="utf-8")
    headings = {
        path: {re.sub(r"[^\w -]", "", line.lstrip("# ").lower()).strip().replace(" ", "-") for line in lines}
        for path in [*PAGES, *ROOT.glob("*.md")]
        if (lines := [line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("#")])
    }
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        path = (page.parent / name).resolve() if name else page
        assert path.exists(), f"{page.name} links to {target}, which is not there"
        assert not anchor or anchor in headings[path], f"{page.name} links to {target}, which has no such heading"


def test_the_taxi_example_runs(shell, tmp_path):
    printed = shell(f"python {shlex.quote(str(ROOT / 'examples' / 'taxis_and_riders.py'))}", tmp_path)
    assert "rider" in printed


@pytest.mark.parametrize(
    ("example", "says"),
    [
        ("orders_without_payments", "of 60 orders were not paid in time"),
        ("three_sensors", "tuples of t go by"),
        ("nine_queries", "q9   636,610"),
        ("engines_side_by_side", "the same rows: True"),
    ],
)
def test_other_examples_run(shell, tmp_path, example, says):
    printed = shell(f"python {shlex.quote(str(ROOT / 'examples' / f'{example}.py'))}", tmp_path)
    assert says in printed


def test_the_alarms_example_runs(shell, tmp_path):
    printed = shell(f"python {shlex.quote(str(ROOT / 'examples' / 'machines_and_alarms.py'))}", tmp_path)
    assert re.search(r"tuples in [\d,]+ pushes", printed)
    assert "off by" in printed


@SPARK
@pytest.mark.timeout(900)
def test_the_band_join_on_spark_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    keep_session(monkeypatch)  # starting another takes long
    runpy.run_path(str(ROOT / "examples" / "band_join_on_spark.py"), run_name="__main__")
    printed = capsys.readouterr().out
    assert "pairs, as in one process: True" in printed


@SPARK
@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_growing_join_on_spark_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    keep_session(monkeypatch)
    runpy.run_path(str(ROOT / "examples" / "growing_on_spark.py"), run_name="__main__")
    printed = capsys.readouterr().out
    for part in ("16 cells in 4 partitions", "as many as in one process: True", "the window of 'R' is longer"):
        assert part in printed


@SPARK
@pytest.mark.timeout(900)
def test_the_trades_example_runs(shell, tmp_path):
    folder = tmp_path / "trades_and_quotes"
    folder.mkdir()
    for file in (ROOT / "examples" / "trades_and_quotes").iterdir():
        if file.is_file():
            (folder / file.name).write_bytes(file.read_bytes())
    shell("python make_data.py", folder)
    printed = shell("crosswind run job.toml", folder)
    assert "trades-and-quotes: done" in printed
    assert (folder / "data" / "crossed.parquet").is_file()
    printed = shell("crosswind run on_spark.toml", folder)
    assert "trades-and-quotes: done" in printed
    here, there = (pq.read_table(folder / "data" / name) for name in ("crossed.parquet", "crossed"))
    assert_same_rows(there.select(["symbol", "traded"]), here.select(["symbol", "traded"]))
