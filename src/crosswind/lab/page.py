"""The report as one HTML page that needs nothing else: no network, no other file."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

from crosswind.lab.draw import as_svg
from crosswind.lab.figure import Figure
from crosswind.lab.papers import Paper
from crosswind.lab.style import CSS

__all__ = ["write_page"]

_SOURCES = {
    "measured": "measured on this machine",
    "simulated": "simulated, from costs measured on this machine",
    "published": "published in the paper",
}


def write_page(
    sections: Sequence[tuple[Paper, list[Figure]]],
    machine: Mapping[str, Any],
    settings: Mapping[str, Any],
    theatre: str,
) -> str:
    """Return the page.

    Parameters
    ----------
    sections : sequence of (Paper, list of Figure)
        What was run, in order.
    machine : mapping
        As :func:`crosswind.bench.machine.describe_machine` returns it.
    settings : mapping
        How it was run: quick or not, when, how long it took.
    theatre : str
        The step view, HTML.
    """
    navigation = "".join(_entry(paper, figures) for paper, figures in sections)
    body = "".join(_section(paper, figures) for paper, figures in sections)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Crosswind: the lab</title><style>{CSS}</style></head><body>"
        f'<nav><a class="brand" href="#top">Crosswind lab</a>{navigation}'
        '<a class="paper" href="#steps">Step by step</a></nav>'
        f'<main id="top">{_head(sections, machine, settings)}{body}'
        f'<section id="steps"><h2>Step by step: how tuples meet</h2>{theatre}</section></main></body></html>\n'
    )


def _entry(paper: Paper, figures: list[Figure]) -> str:
    links = "".join(f'<a href="#{_anchor(figure)}">{_text(_spoken(figure.name))}</a>' for figure in figures)
    return f'<a class="paper" href="#{paper.folder}">{_text(paper.title)}</a>{links}'


_BUSY = ": others were at work, so that two workers show less than they gain on a quiet machine"


def _head(
    sections: Sequence[tuple[Paper, list[Figure]]], machine: Mapping[str, Any], settings: Mapping[str, Any]
) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items() if version)
    load = machine["load_average_1min"]
    facts = {
        "Processor": f"{machine['processor']}, {machine['cores']} cores, {' '.join(machine['vectors'])}",
        "Memory": f"{machine['memory_gb']} GB",
        "System": f"{machine['system']}, Python {machine['python']}",
        "Versions": versions,
        "Load when it began": f"{load}{_BUSY if load > 1 else ''}",
        "Run": ", ".join(f"{name} {value}" for name, value in settings.items()),
    }
    rows = "".join(f"<tr><th>{_text(name)}</th><td>{_text(value)}</td></tr>" for name, value in facts.items())
    legend = "".join(
        f'<li><span class="mark {source}">{source}</span> {_text(said)}</li>' for source, said in _SOURCES.items()
    )
    count = sum(len(figures) for _, figures in sections)
    return (
        "<header><h1>The papers' experiments, run again</h1>"
        f"<p>{count} figures and tables. What was published is drawn beside what this machine gives. Where the paper's "
        "hardware is gone or larger than this machine, a simulation goes on from what was measured here, and is marked "
        f'as such.</p><ul class="legend">{legend}</ul><table class="facts">{rows}</table></header>'
    )


def _section(paper: Paper, figures: list[Figure]) -> str:
    cards = "".join(_card(figure) for figure in figures)
    missing = "".join(f"<li><b>{_text(_spoken(name))}</b>: {_text(why)}</li>" for name, why in paper.not_shown)
    left_out = f'<div class="missing"><h3>Not shown, and why</h3><ul>{missing}</ul></div>' if missing else ""
    return (
        f'<section id="{paper.folder}"><h2>{_text(paper.title)}</h2><p class="reference">{_text(paper.reference)}</p>'
        f"{''.join(f'<p>{_text(part)}</p>' for part in paper.claim.split(chr(10) * 2))}{cards}{left_out}</section>"
    )


def _card(figure: Figure) -> str:
    notes = "".join(f"<li>{_text(note)}</li>" for note in figure.notes)
    marks = "".join(
        f'<span class="mark {source}">{source}</span>'
        for source in _SOURCES
        if any(series.source == source for series in figure.series)
    )
    return (
        f'<article id="{_anchor(figure)}"><h3><span class="number">{_text(_spoken(figure.name))}</span> '
        f"{_text(figure.title)}</h3><p>{_text(figure.claim)}</p><p>{marks}</p>"
        f'<div class="plot">{as_svg(figure)}</div>'
        f'<div class="verdict {"agrees" if figure.holds else "missed"}"><b>{figure.verdict}</b> '
        f"{_text(figure.agrees)}</div>"
        f'<div class="verdict differs"><b>Differs</b> {_text(figure.differs)}</div>'
        + (f'<ul class="notes">{notes}</ul>' if notes else "")
        + f"<details><summary>Points</summary>{_table(figure)}</details>"
        f"<p class='command'>again: <code>{_text(figure.command)}</code></p></article>"
    )


def _table(figure: Figure) -> str:
    """Return all points: a row for each x, a column for each series."""
    places = sorted({x for series in figure.series for x in series.x})
    head = "".join(f"<th>{_text(series.label)}<br><i>{series.source}</i></th>" for series in figure.series)
    values = [dict(zip(series.x, series.y, strict=True)) for series in figure.series]
    rows = "".join(
        f"<tr><th>{number(x)}</th>"
        + "".join(f"<td>{number(some[x]) if x in some else ''}</td>" for some in values)
        + "</tr>"
        for x in places
    )
    return (
        f'<div class="points"><table><tr><th>{_text(figure.x_label)}</th>{head}</tr>{rows}</table>'
        f"<p>values: {_text(figure.y_label)}</p></div>"
    )


def number(value: float) -> str:
    """Return ``value`` with as many digits as a reader wants."""
    if value == round(value) and abs(value) < 1e15:
        return f"{value:,.0f}"
    return f"{value:,.0f}" if abs(value) >= 1e4 else f"{value:.4g}"


def _anchor(figure: Figure) -> str:
    return f"{figure.paper}-{figure.name}"


def _spoken(name: str) -> str:
    """Return ``figure-13`` as Figure 13."""
    return name.replace("-", " ").capitalize()


def _text(value: object) -> str:
    return html.escape(str(value), quote=True)
