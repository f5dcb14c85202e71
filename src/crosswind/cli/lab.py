"""``crosswind lab``: the papers' experiments, run here and drawn beside what was published."""

from __future__ import annotations

import json as json_module
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from crosswind.cli.view import LiveView, PlainView, SilentView, View

if TYPE_CHECKING:
    from crosswind.lab.figure import Figure

__all__ = ["lab"]

Function = TypeVar("Function", bound=Callable[..., Any])

_INDENT = "  "


def _json(function: Function) -> Function:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, and nothing else.")(function)


def _quick(function: Function) -> Function:
    text = "Small sizes: minutes for all of it, and rougher figures."
    return click.option("--quick", is_flag=True, help=text)(function)


def _out(default: str | None) -> Callable[[Function], Function]:
    text = "Folder to write to; it is made if need be."
    kind = click.Path(file_okay=False, path_type=Path)
    return click.option("--out", type=kind, default=default, show_default=default is not None, help=text)


@click.group()
def lab() -> None:
    """Run the papers' experiments again, beside what was published.

    Experiments are real runs where this machine can do them; beyond its cores they are simulations from costs that
    are measured here, and marked so. Plots need the extra: pip install 'crosswind[lab]'.
    """


@lab.command(name="list")
@_json
def list_papers(as_json: bool) -> None:
    """List papers and figures, and what is not shown."""
    from crosswind.lab.papers import papers_here

    found = [
        {
            "paper": paper.folder,
            "title": paper.title,
            "reference": paper.reference,
            "figures": list(paper.experiments),
            "not_shown": dict(paper.not_shown),
        }
        for paper in papers_here()
    ]
    if as_json:
        click.echo(json_module.dumps(found))
        return
    for paper, entry in zip(papers_here(), found, strict=True):
        click.echo(f"{paper.folder}: {paper.reference}")
        if paper.experiments:
            click.echo(f"{_INDENT}figures    {', '.join(paper.experiments)}")
        for name, why in paper.not_shown:
            click.echo(f"{_INDENT}not shown  {name}: {why}")
        click.echo("" if entry is not found[-1] else "crosswind lab run PAPER [FIGURE] runs them; lab report runs all.")


@lab.command()
@click.argument("paper")
@click.argument("figure", required=False)
@_quick
@_out(None)
@_json
def run(paper: str, figure: str | None, quick: bool, out: Path | None, as_json: bool) -> None:
    """Run the experiments of PAPER, or the one of FIGURE.

    With --out each figure is also written as PNG, CSV and JSON.
    """
    from crosswind.lab.papers import the_paper
    from crosswind.lab.report import as_json as plain
    from crosswind.lab.report import run_paper, save_figure

    chosen = the_paper(paper)
    made: list[Figure] = []
    with _telling(f"crosswind lab run {paper}", quiet=as_json) as tell:
        for found in chosen.run(quick, figure) if figure else run_paper(chosen, quick, tell):
            made.append(found)
            if out is not None:
                save_figure(found, out)
            if not as_json:
                _print_figure(found)
    if as_json:
        click.echo(json_module.dumps([plain(found) for found in made]))


@lab.command()
@click.argument("papers", nargs=-1)
@_quick
@_out("lab-report")
@_json
def report(papers: tuple[str, ...], quick: bool, out: Path, as_json: bool) -> None:
    """Run everything, or some PAPERS, and write one page.

    The page holds plots, tables, the machine, what agrees and what differs, and needs no other file. Figures are
    also written as PNG, CSV and JSON beside it. --quick takes less than five minutes on two cores.
    """
    from crosswind.lab.papers import papers_here, the_paper
    from crosswind.lab.report import make_report

    chosen = [the_paper(name) for name in papers] or papers_here()
    began = time.monotonic()
    with _telling("crosswind lab report", quiet=as_json) as tell:
        page = make_report(chosen, out, quick, tell)
    took = time.monotonic() - began
    if as_json:
        click.echo(json_module.dumps({"page": str(page), "seconds": round(took, 1)}))
    else:
        click.echo(f"{page}: written in {took:.0f} s")


@lab.command()
@click.argument("strategy")
@click.option("--workers", type=click.IntRange(1, 9), help="Workers; of each side, for a grid.")
def show(strategy: str, workers: int | None) -> None:
    """Show, step by step, how tuples meet under STRATEGY: cell, handshake or grid.

    The page of the report has the same as a view to click through.
    """
    from crosswind.lab.steps import told

    for line in told(strategy, workers=workers):
        click.echo(line)


@contextmanager
def _telling(title: str, *, quiet: bool) -> Iterator[Callable[[str], None]]:
    """Give a function that shows what is being done now."""
    # A thread that draws would take time from what is measured: views draw only when told to.
    view: View = SilentView() if quiet else LiveView(title, err=True) if sys.stderr.isatty() else PlainView(err=True)
    began = time.monotonic()
    with view:
        yield lambda line: view.show({"now": line, "passed": f"{time.monotonic() - began:.0f} s"})


def _print_figure(figure: Figure) -> None:
    click.echo(f"{figure.paper} {figure.name}: {figure.title}\n{_INDENT}{figure.claim}\n")
    width = max((len(series.label) for series in figure.series), default=0)
    for series in figure.series:
        points = ", ".join(f"{x:g}: {y:.4g}" for x, y in zip(series.x, series.y, strict=True))
        click.echo(f"{_INDENT}{series.label:<{width}}  {series.source:<9}  {points}")
    click.echo(f"{_INDENT}({figure.x_label}: {figure.y_label})\n")
    click.echo(f"{_INDENT}agrees   {figure.agrees}\n{_INDENT}differs  {figure.differs}")
    for note in figure.notes:
        click.echo(f"{_INDENT}note     {note}")
    click.echo()
