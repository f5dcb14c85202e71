"""The report as one HTML page that needs nothing else: no network, no other file."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

from crosswind.lab.draw import as_svg, can_draw
from crosswind.lab.figure import SOURCES, Figure
from crosswind.lab.papers import Paper
from crosswind.lab.verdict import VERDICTS, Check

__all__ = ["number", "write_page"]

_NO_PLOT = "<p class=\"missing\">Plots need matplotlib: pip install 'crosswind[lab]'. The points are below.</p>"
_KIND = dict(zip(VERDICTS, ("agrees", "differs", "open"), strict=True))
"""By verdict: its class in the style sheet."""


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
    style = resources.files("crosswind.lab").joinpath("page.css").read_text(encoding="utf-8")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Crosswind: the lab</title><style>\n{style}</style></head><body>"
        f'<nav><a class="brand" href="#top">Crosswind lab</a>{navigation}'
        '<a class="paper" href="#steps">Step by step</a></nav>'
        f'<main id="top">{_head(sections, machine, settings)}{body}'
        f'<section id="steps"><h2>Step by step: how tuples meet</h2>{theatre}</section></main></body></html>\n'
    )


def _entry(paper: Paper, figures: list[Figure]) -> str:
    links = "".join(f'<a href="#{_anchor(figure)}">{_text(_spoken(figure.name))}</a>' for figure in figures)
    return f'<a class="paper" href="#{paper.folder}">{_text(paper.title)}</a>{links}'


def _head(
    sections: Sequence[tuple[Paper, list[Figure]]], machine: Mapping[str, Any], settings: Mapping[str, Any]
) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items() if version)
    facts = {
        "Processor": f"{machine['processor']}, {machine['cores']} cores, {' '.join(machine['vectors'])}",
        "Memory": f"{machine['memory_gb']} GB",
        "System": f"{machine['system']}, Python {machine['python']}",
        "Versions": versions,
        "Load when it began": machine["load_average_1min"],
        "Run": ", ".join(f"{name} {value}" for name, value in settings.items()),
    }
    rows = "".join(f"<tr><th>{_text(name)}</th><td>{_text(value)}</td></tr>" for name, value in facts.items())
    legend = "".join(
        f'<li><span class="mark {source}">{source}</span> {_text(said)}</li>' for source, said in SOURCES.items()
    )
    checks = [check for _, figures in sections for figure in figures for check in figure.checks]
    counts = ", ".join(f"{sum(check.verdict == verdict for check in checks)} {verdict}" for verdict in VERDICTS)
    return (
        "<header><h1>The papers' experiments, run again</h1>"
        f"<p>{len(checks)} statements of the papers, held against runs on this machine: {counts}. A verdict follows "
        "from the numbers by a tolerance that is stated with it. Statements without a place are ours.</p>"
        f"{_summary(sections)}"
        "<h3>Where points come from</h3>"
        f'<ul class="legend">{legend}</ul><table class="facts">{rows}</table></header>'
    )


def _summary(sections: Sequence[tuple[Paper, list[Figure]]]) -> str:
    """Return the table that the report opens with: paper, claim, published, here, verdict."""
    rows = []
    for paper, figures in sections:
        for figure in figures:
            for check in figure.checks:
                link = f'<a href="#{_anchor(figure)}">{_text(_spoken(figure.name))}</a>'
                rows.append(
                    f"<tr><td>{_text(paper.title)}<br>{link}</td><td>{_text(check.claim)}</td>{_published(check)}"
                    f"<td>{_text(check.here)}</td>{_verdict(check)}</tr>"
                )
    head = "<tr><th>Paper</th><th>Claim</th><th>Published</th><th>Here</th><th>Verdict</th></tr>"
    return f'<table class="checks" id="verdicts">{head}{"".join(rows)}</table>'


def _published(check: Check) -> str:
    place = f"<br><i>{_text(check.place)}</i>" if check.place else ""
    return f"<td>{_text(check.published)}{place}</td>"


def _verdict(check: Check) -> str:
    return f'<td><span class="verdict {_KIND[check.verdict]}">{check.verdict}</span></td>'


def _section(paper: Paper, figures: list[Figure]) -> str:
    cards = "".join(_card(figure) for figure in figures)
    missing = "".join(f"<li><b>{_text(_spoken(name))}</b>: {_text(why)}</li>" for name, why in paper.not_shown)
    left_out = f'<div class="missing"><h3>Not shown, and why</h3><ul>{missing}</ul></div>' if missing else ""
    bibtex = f"<details><summary>BibTeX</summary><pre>{_text(paper.bibtex)}</pre></details>" if paper.bibtex else ""
    return (
        f'<section id="{paper.folder}"><h2>{_text(paper.title)}</h2><p class="reference">{_text(paper.reference)}</p>'
        f"{bibtex}{''.join(f'<p>{_text(part)}</p>' for part in paper.claim.split(chr(10) * 2))}{cards}{left_out}"
        "</section>"
    )


def _card(figure: Figure) -> str:
    notes = "".join(f"<li>{_text(note)}</li>" for note in figure.notes)
    marks = "".join(
        f'<span class="mark {source}">{source}</span>'
        for source in SOURCES
        if any(series.source == source for series in figure.series)
    )
    return (
        f'<article id="{_anchor(figure)}"><h3><span class="number">{_text(_spoken(figure.name))}</span> '
        f"{_text(figure.title)} "
        f'<span class="verdict {_KIND[figure.verdict]}">{figure.verdict}</span></h3>'
        f"<p>{_text(figure.claim)}</p><p>{marks}</p>"
        f'<div class="plot">{as_svg(figure) if can_draw() else _NO_PLOT}</div>'
        f"{_checks(figure)}"
        f'<p class="deviations"><b>Not as in the paper:</b> {_text(figure.deviations)}</p>'
        + (f'<ul class="notes">{notes}</ul>' if notes else "")
        + f"<details><summary>Points</summary>{_table(figure)}</details>"
        f"<p class='command'>again: <code>{_text(figure.command)}</code></p></article>"
    )


def _checks(figure: Figure) -> str:
    rows = "".join(
        f"<tr><td>{_text(check.claim)}</td>{_published(check)}<td>{_text(check.here)}</td>"
        f"<td>{_text(check.tolerance)}</td>{_verdict(check)[:-5]}"
        + (f"<br><small>{_text(check.why)}</small>" if check.why else "")
        + "</td></tr>"
        for check in figure.checks
    )
    head = "<tr><th>Claim</th><th>Published</th><th>Here</th><th>Agrees if</th><th>Verdict</th></tr>"
    return f'<table class="checks">{head}{rows}</table>'


def _table(figure: Figure) -> str:
    """Return all points: a row for each x, a column for each series."""
    places = sorted({x for series in figure.series for x in series.x})
    head = "".join(
        f"<th>{_text(series.label)}<br><i>{_text(series.source)}"
        f"{f', {_text(series.place)}' if series.place else ''}</i></th>"
        for series in figure.series
    )
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
