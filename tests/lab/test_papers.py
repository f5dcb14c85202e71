"""The page that lists what the papers have, place by place: places exist, and nothing numbered is left out."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from crosswind.lab.papers import PAPERS, the_paper

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
SECTIONS = dict(
    zip((paper.folder for paper in PAPERS[:5]), re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:], strict=True)
)
NUMBERED = {
    "celljoin": {"Figure": 13, "Equation": 4},
    "handshake": {"Figure": 18, "Table": 2},
    "fpga": {"Figure": 13, "Table": 1},
    "wjsp": {"Figure": 5, "Table": 2},
    "dpjoin": {"Figure": 7, "Equation": 7, "Table": 1, "Definition": 3},
}
"""Figures, equations, tables and definitions that each paper counts."""


def rows(paper: str) -> list[list[str]]:
    lines = [line for line in SECTIONS[paper].splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


PLACES = sorted({place for paper in SECTIONS for row in rows(paper) for place in re.findall(r"`([^`]+)`", row[2])})


def names_in(path: Path) -> set[str]:
    """All that a module defines at its top."""
    found: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        found |= {name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)}
    return found


@pytest.mark.parametrize("place", PLACES)
def test_every_place_exists(place):
    if place.startswith("lab run "):
        paper, figure = place.split()[2:]
        assert figure in the_paper(paper).experiments
        return
    file, _, name = place.partition("::")
    path = ROOT / "src" / "crosswind" / file
    assert path.is_file(), f"{file} is not there: change docs/papers.md with the code"
    if name:
        # Kernels may be source in strings, compiled when they are used.
        assert name in names_in(path) or f"def {name}(" in path.read_text(encoding="utf-8")


def numbers(text: str, kind: str) -> set[int]:
    """Return the numbers that a cell names: ``Figure 4``, ``Figures 1 to 6``, ``equations 3 and 4``, ``Table I``."""
    found: set[int] = set()
    for first, link, last in re.findall(rf"{kind}s? (\d+|I)(?:( to | and )(\d+))?", text, flags=re.IGNORECASE):
        start = 1 if first == "I" else int(first)
        found |= {start} if not link else set(range(start, int(last) + 1)) if link == " to " else {start, int(last)}
    return found


@pytest.mark.parametrize("paper", NUMBERED)
def test_nothing_that_a_paper_numbers_is_left_out(paper):
    for kind, count in NUMBERED[paper].items():
        named = set().union(*(numbers(row[0], kind) for row in rows(paper)))
        assert named == set(range(1, count + 1)), kind


@pytest.mark.parametrize("paper", NUMBERED)
def test_every_row_says_what_and_where(paper):
    for row in rows(paper):
        assert len(row) == 4
        assert row[0]
        assert row[1]
        assert "`" in row[2], row[0]


@pytest.mark.parametrize("paper", PAPERS[:5], ids=lambda paper: paper.folder)
def test_every_experiment_of_a_paper_is_listed(paper):
    listed = {place.split()[3] for place in PLACES if place.startswith(f"lab run {paper.folder} ")}
    assert set(paper.experiments) - listed <= {"admission"}  # the paper has no such figure


def test_the_papers_are_those_of_the_lab():
    for paper in PAPERS[:5]:
        authors = paper.reference.partition(":")[0]
        assert SECTIONS[paper.folder].splitlines()[2].startswith(authors), paper.folder
