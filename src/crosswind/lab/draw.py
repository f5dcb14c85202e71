"""Figures as pictures: measured, simulated, computed and published points are told apart at a glance."""

from __future__ import annotations

import importlib.util
import io
from typing import Any

from crosswind.errors import InputError
from crosswind.lab.figure import Figure, Series

__all__ = ["MARKS", "as_png", "as_svg", "can_draw"]

MARKS = {
    "measured": ("o", "-", "measured here"),
    "simulated": ("^", "--", "simulated"),
    "computed": ("", "-.", "computed"),
    "published": ("s", ":", "published"),
}
"""By source: marker, line, and what the legend says."""

_COLOURS = ("#2563eb", "#dc2626", "#059669", "#d97706", "#7c3aed", "#0891b2", "#be185d", "#4d7c0f", "#64748b")
_INK, _GRID = "#1e293b", "#e2e8f0"
_WIDTH_INCHES, _HEIGHT_INCHES = 7.4, 4.3
_MARKED_MAX = 40
"""Points of a line that are marked; more of them would be a bar."""
_WIDE = 4.0
"""Times that the greatest value of a logarithmic axis has to be of the least."""


def can_draw() -> bool:
    """Return whether matplotlib is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def as_svg(figure: Figure) -> str:
    """Return the plot as an SVG element that stands by itself."""
    made = _plot(figure)
    room = io.StringIO()
    import matplotlib as mpl

    # Names in one picture must not be those of another on the same page.
    with mpl.rc_context({"svg.hashsalt": f"{figure.paper}-{figure.name}"}):
        made.savefig(room, format="svg", metadata={"Date": None, "Creator": None})
    text = room.getvalue()
    return text[text.index("<svg") :]


def as_png(figure: Figure) -> bytes:
    """Return the plot as PNG."""
    room = io.BytesIO()
    _plot(figure).savefig(room, format="png", dpi=150)
    return room.getvalue()


def _plot(figure: Figure) -> Any:
    try:
        from matplotlib.figure import Figure as Canvas
    except ModuleNotFoundError as error:
        raise InputError(
            "plots need the Python package 'matplotlib', which is not installed. Type:\n  pip install 'crosswind[lab]'"
        ) from error
    rows = -(-len(figure.series) // 2)
    canvas = Canvas(figsize=(_WIDTH_INCHES, _HEIGHT_INCHES + 0.24 * rows), layout="constrained")
    axes = canvas.add_subplot()
    colours = _colours(figure.series)
    for series in figure.series:
        _line(axes, series, colours[series.label])
    if figure.log_x:
        axes.set_xscale("log")
        _number_plainly(axes.xaxis)
    log_y = figure.log_y and _is_wide(figure.series)
    if log_y:
        axes.set_yscale("log")
        _number_plainly(axes.yaxis)
    if not log_y and all(value >= 0 for series in figure.series for value in series.y):
        axes.set_ylim(bottom=0)
    _finish(axes, figure, log_y)
    if figure.series:  # below the plot, where it covers no point
        canvas.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=8.5)
    return canvas


def _is_wide(series: tuple[Series, ...]) -> bool:
    """Whether the values span so much that a logarithmic axis shows more of them than a linear one."""
    values = [value for some in series for value in some.y if value > 0]
    return bool(values) and max(values) > _WIDE * min(values)


def _colours(series: tuple[Series, ...]) -> dict[str, str]:
    """Return a colour for each label: what is called the same is the same thing, wherever it comes from."""
    labels = list(dict.fromkeys(entry.label for entry in series))
    return {label: _COLOURS[k % len(_COLOURS)] for k, label in enumerate(labels)}


def _line(axes: Any, series: Series, colour: str) -> None:
    marker, line, said = MARKS[series.source]
    marker = "" if len(series.x) > _MARKED_MAX else marker or ("x" if len(series.x) == 1 else "")
    axes.plot(
        series.x,
        series.y,
        marker=marker,
        linestyle=line,
        color=colour,
        markerfacecolor="white" if series.source == "published" else colour,
        markeredgewidth=1.6,
        markersize=7 if series.source == "published" else 5.5,
        linewidth=1.3 if series.source == "published" else 1.8,
        label=f"{series.label} ({said})",
        zorder=3 if series.source == "published" else 2,
    )


def _number_plainly(axis: Any) -> None:
    """Put plain numbers at the ticks of a logarithmic axis."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    plain = FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}")
    axis.set_major_locator(LogLocator(10, subs=(1.0, 2.0, 5.0) if high < 2_000 * low else (1.0,), numticks=12))
    axis.set_major_formatter(plain)
    axis.set_minor_formatter(NullFormatter())


def _finish(axes: Any, figure: Figure, log_y: bool) -> None:
    from matplotlib.ticker import FuncFormatter

    for axis, is_log in ((axes.xaxis, figure.log_x), (axes.yaxis, log_y)):
        if not is_log:
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
    axes.set_xlabel(figure.x_label, color=_INK)
    axes.set_ylabel(figure.y_label, color=_INK)
    axes.grid(True, color=_GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(colors=_INK)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color("#94a3b8")
