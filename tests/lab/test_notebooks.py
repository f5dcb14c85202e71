"""The notebooks of the papers: well formed, and every cell runs."""

from __future__ import annotations

import importlib.machinery
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from crosswind.lab.figure import Figure, Series
from crosswind.lab.notebook import show
from crosswind.lab.papers import PAPERS
from crosswind.lab.verdict import compare

FOLDER = Path(__file__).parents[2] / "examples" / "papers"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def test_every_paper_has_one():
    assert {path.stem for path in NOTEBOOKS} == {paper.folder for paper in PAPERS[:5]}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_well_formed(path):
    book = json.loads(path.read_text(encoding="utf-8"))
    assert (book["nbformat"], book["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in book["cells"]}) == len(book["cells"])
    for cell in book["cells"]:
        assert set(cell) == {"cell_type", "id", "metadata", "source"} | (
            {"execution_count", "outputs"} if cell["cell_type"] == "code" else set()
        )
        assert not cell.get("outputs"), "clear the outputs before you commit"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_cell_runs(path, monkeypatch, capsys):
    shown = []
    display = ModuleType("IPython.display")
    display.SVG, display.display = str, shown.append
    python = ModuleType("IPython")
    python.version_info, python.__spec__ = (9, 0), importlib.machinery.ModuleSpec("IPython", None)
    monkeypatch.setitem(sys.modules, "IPython", python)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    names: dict[str, object] = {}
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), f"{path.name}, {cell['id']}", "exec"), names)
    printed = capsys.readouterr().out
    assert "@" in printed
    assert all(text.startswith("<svg") for text in shown)


def test_a_figure_is_told_without_ipython(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "IPython", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    line = Series("theirs", (1.0,), (2.0,), "published", "Table 1")
    checks = (compare("doubles", 2.0, low=1.5, published="2", place="Table 1"), compare("ours", 1.0, low=2.0))
    show(Figure("p", "n", "t", "c", "x", "y", (line,), checks, "d"))
    assert capsys.readouterr().out.splitlines() == [
        "theirs (published): 1: 2",
        "- agrees: doubles: 2; published: 2 (Table 1)",
        "- differs: ours: 1; published: nothing",
    ]
