"""Figures of the lab in a notebook."""

from __future__ import annotations

import importlib
import importlib.util
import sys

from crosswind.lab.draw import as_svg, can_draw
from crosswind.lab.figure import Figure

__all__ = ["show"]


def show(figure: Figure) -> None:
    """Print the points and the verdicts of a figure; draw it, where IPython and matplotlib are installed."""
    lines = []
    for series in figure.series:
        points = ", ".join(f"{x:g}: {y:.4g}" for x, y in zip(series.x, series.y, strict=True))
        lines.append(f"{series.label} ({series.source}): {points}")
    for check in figure.checks:
        published = f"{check.published} ({check.place})" if check.place else "nothing"
        lines.append(f"- {check.verdict}: {check.claim}: {check.here}; published: {published}")
    sys.stdout.write("\n".join(lines) + "\n")
    if can_draw() and importlib.util.find_spec("IPython") is not None:
        shown = importlib.import_module("IPython.display")
        shown.display(shown.SVG(as_svg(figure)))
