"""Run the lab in one go: one page, and each figure as CSV, JSON and PNG."""

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
from crosswind.lab.draw import as_png, can_draw
from crosswind.lab.figure import Figure
from crosswind.lab.page import write_page
from crosswind.lab.papers import Paper
from crosswind.lab.setting import Setting
from crosswind.lab.theatre import theatre

__all__ = ["PAGE", "as_csv", "as_json", "make_report", "run_paper", "save_figure"]

PAGE = "report.html"

Tell = Callable[[str], None]
"""Takes a line about what is being done now. Never called while a clock runs."""


def make_report(papers: Sequence[Paper], folder: Path, setting: Setting, tell: Tell) -> Path:
    """Run every experiment of ``papers`` and write the report into ``folder``; return the page.

    Figures are written as soon as they are there, so that a run that is broken off leaves those behind.
    """
    machine, began = describe_machine(), time.monotonic()
    sections: list[tuple[Paper, list[Figure]]] = []
    for paper in papers:
        figures = []
        for figure in run_paper(paper, setting, tell):
            save_figure(figure, folder / "figures", machine, setting, plot=can_draw())
            figures.append(figure)
        sections.append((paper, figures))
    took = time.monotonic() - began
    run = {
        "sizes": "quick" if setting.quick else "full",
        "seed": setting.seed,
        "on": time.strftime("%Y-%m-%d"),
        "took": f"{took:.0f} s",
    }
    everything = {
        "machine": machine,
        "settings": run,
        "figures": [as_json(figure) for _, figures in sections for figure in figures],
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.json").write_text(json.dumps(everything, indent=1), encoding="utf-8")
    page = folder / PAGE
    page.write_text(write_page(sections, machine, run, theatre()), encoding="utf-8")
    return page


def run_paper(paper: Paper, setting: Setting, tell: Tell) -> Iterator[Figure]:
    """Yield the figures of a paper, one by one."""
    for name in paper.experiments:
        tell(f"{paper.folder} {name}")
        yield paper.run(setting, name)


def save_figure(
    figure: Figure, folder: Path, machine: dict[str, Any], setting: Setting, *, plot: bool = True
) -> list[Path]:
    """Write a figure as CSV, as JSON with the machine and the settings, and as PNG; return the files.

    The points come first: they need no matplotlib.
    """
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{figure.paper}-{figure.name}"
    table, points, png = (folder / f"{stem}.{ending}" for ending in ("csv", "json", "png"))
    table.write_text(as_csv(figure), encoding="utf-8")
    data = {**as_json(figure), "machine": machine, "settings": dataclasses.asdict(setting)}
    points.write_text(json.dumps(data, indent=1), encoding="utf-8")
    if not plot:
        return [table, points]
    png.write_bytes(as_png(figure))
    return [table, points, png]


def as_json(figure: Figure) -> dict[str, Any]:
    """Return a figure as what ``json.dumps`` takes."""
    return {**dataclasses.asdict(figure), "verdict": figure.verdict, "command": figure.command}


def as_csv(figure: Figure) -> str:
    """Return the points of a figure, one per line."""
    room = io.StringIO()
    writer = csv.writer(room, lineterminator="\n")
    writer.writerow(["series", "source", "place", figure.x_label, figure.y_label])
    for series in figure.series:
        writer.writerows(
            (series.label, series.source, series.place, x, y) for x, y in zip(series.x, series.y, strict=True)
        )
    return room.getvalue()
