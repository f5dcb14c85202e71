"""Run the lab in one go: one page, and each figure as PNG, CSV and JSON."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from crosswind.bench.machine import describe_machine
from crosswind.lab.draw import as_png
from crosswind.lab.figure import Figure
from crosswind.lab.page import write_page
from crosswind.lab.papers import Paper
from crosswind.lab.theatre import theatre

__all__ = ["PAGE", "make_report", "run_paper", "save_figure"]

PAGE = "report.html"

Tell = Callable[[str], None]
"""Takes a line about what is being done now. Never called while a clock runs."""


def make_report(papers: Sequence[Paper], folder: Path, quick: bool, tell: Tell) -> Path:
    """Run every experiment of ``papers`` and write the report into ``folder``; return the page.

    Figures are written as soon as they are there, so that a run that is broken off leaves those behind.
    """
    machine, began = describe_machine(), time.monotonic()
    sections: list[tuple[Paper, list[Figure]]] = []
    for paper in papers:
        figures = []
        for figure in run_paper(paper, quick, tell):
            save_figure(figure, folder / "figures")
            figures.append(figure)
        sections.append((paper, figures))
    took = time.monotonic() - began
    settings = {
        "sizes": "quick" if quick else "full",
        "on": time.strftime("%Y-%m-%d"),
        "took": f"{took:.0f} s",
    }
    page = folder / PAGE
    page.write_text(write_page(sections, machine, settings, theatre()), encoding="utf-8")
    everything = {
        "machine": machine,
        "settings": settings,
        "figures": [as_json(figure) for _, figures in sections for figure in figures],
    }
    (folder / "report.json").write_text(json.dumps(everything, indent=1), encoding="utf-8")
    return page


def run_paper(paper: Paper, quick: bool, tell: Tell) -> Iterator[Figure]:
    """Yield the figures of a paper, one by one where they can be had so."""
    names: list[str | None] = [*paper.experiments]
    for name in names or [None]:
        tell(f"{paper.folder} {name or ''}".strip())
        yield from paper.run(quick, name)


def save_figure(figure: Figure, folder: Path) -> list[Path]:
    """Write a figure as PNG, CSV and JSON; return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{figure.paper}-{figure.name}"
    png, table, points = (folder / f"{stem}.{ending}" for ending in ("png", "csv", "json"))
    png.write_bytes(as_png(figure))
    table.write_text(as_csv(figure), encoding="utf-8")
    points.write_text(json.dumps(as_json(figure), indent=1), encoding="utf-8")
    return [png, table, points]


def as_json(figure: Figure) -> dict[str, Any]:
    """Return a figure as what ``json.dumps`` takes."""
    return dataclasses.asdict(figure)


def as_csv(figure: Figure) -> str:
    """Return the points of a figure, one a line."""
    room = io.StringIO()
    writer = csv.writer(room, lineterminator="\n")
    writer.writerow(["series", "source", figure.x_label, figure.y_label])
    for series in figure.series:
        writer.writerows((series.label, series.source, x, y) for x, y in zip(series.x, series.y, strict=True))
    return room.getvalue()
