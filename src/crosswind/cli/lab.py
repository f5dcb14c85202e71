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

from crosswind.cli.report import figures
from crosswind.cli.view import LiveView, PlainView, SilentView, View

if TYPE_CHECKING:
    from crosswind.lab.figure import Figure
    from crosswind.lab.size import Size

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
    are measured here, and marked so. Verdicts (agrees, differs, not comparable here) are computed from tolerances that
    are printed with them. Plots need the extra: pip install 'crosswind[lab]'.
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
            "options": {name: list(experiment.takes) for name, experiment in paper.experiments.items()},
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


class _NumberList(click.ParamType):  # type: ignore[type-arg]
    """Whole numbers, parted by commas: 1,2,4."""

    name = "N,..."

    def __init__(self, count: int | None = None) -> None:
        self._count = count

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        try:
            numbers = tuple(int(text) for text in str(value).split(","))
        except ValueError:
            numbers = ()
        if not numbers or min(numbers) < 1 or (self._count or len(numbers)) != len(numbers):
            what = f"{self._count} numbers" if self._count else "numbers"
            self.fail(f"'{value}' is not {what} of 1 or more; write them parted by commas, such as 8,4.", param, ctx)
        return numbers


def _setting(function: Function) -> Function:
    """Add the options of :class:`crosswind.lab.setting.Setting`."""
    options = [
        click.option(
            "--rate", type=click.IntRange(1), help="Tuples/s of each stream; of the first, where they differ."
        ),
        click.option(
            "--window",
            type=click.IntRange(1),
            help="Length of both windows, seconds; ticks, for the processor of wjsp.",
        ),
        click.option("--workers", type=_NumberList(), help="Workers that are run for real, such as 1,2,4."),
        click.option("--cores", type=_NumberList(), help="Join cores of the chip, or join units of the processor."),
        click.option(
            "--segment", type=click.IntRange(1), help="Tuples of a stream that a join core of the chip holds."
        ),
        click.option(
            "--buffers", type=_NumberList(2), help="Places in the buffers of a join core and of a merger: 8,4."
        ),
        click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Seed of random values."),
    ]
    for option in reversed(options):
        function = option(function)
    return function


@lab.command()
@click.argument("paper")
@click.argument("figure", required=False)
@_quick
@_setting
@_out(None)
@_json
def run(paper: str, figure: str | None, quick: bool, out: Path | None, as_json: bool, **options: Any) -> None:
    """Run the experiments of PAPER, or the one of FIGURE.

    With --out each figure is also written as CSV, as JSON with the machine and the settings, and, if matplotlib is
    installed, as PNG. Settings such as --rate are for one FIGURE that takes them; what is run with other settings than
    the paper's is not comparable with it, and its verdicts say so.
    """
    from crosswind.bench.machine import describe_machine
    from crosswind.lab.draw import can_draw
    from crosswind.lab.papers import the_paper
    from crosswind.lab.report import as_json as plain
    from crosswind.lab.report import save_figure
    from crosswind.lab.setting import Setting

    chosen, setting = the_paper(paper), Setting(quick, **options)
    made: list[Figure] = []
    with _telling(f"crosswind lab run {paper}", quiet=as_json) as tell:
        for name in [figure] if figure else chosen.experiments:
            tell(f"{paper} {name}")
            found = chosen.run(setting, name)
            made.append(found)
            if out is not None:
                save_figure(found, out, describe_machine(), setting, plot=can_draw())
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

    The page opens with one table: what the papers state, what this machine gives, and the verdict. It holds plots,
    tables and the machine, and needs no other file. Figures are also written as CSV, JSON and PNG beside it. --quick
    takes less than five minutes on two cores that have nothing else to do.
    """
    from crosswind.lab.papers import papers_here, the_paper
    from crosswind.lab.report import make_report
    from crosswind.lab.setting import Setting

    chosen = [the_paper(name) for name in papers] or papers_here()
    began = time.monotonic()
    with _telling("crosswind lab report", quiet=as_json) as tell:
        page = make_report(chosen, out, Setting(quick), tell)
    took = time.monotonic() - began
    if as_json:
        click.echo(json_module.dumps({"page": str(page), "seconds": round(took, 1)}))
    else:
        click.echo(f"{page}: written in {took:.0f} s")


@lab.command()
@click.argument("papers", nargs=-1)
@_json
def cite(papers: tuple[str, ...], as_json: bool) -> None:
    """Print the papers as BibTeX, all of them or some PAPERS."""
    from crosswind.lab.citations import cite as entries

    made = entries(papers)
    click.echo(json_module.dumps({"bibtex": made}) if as_json else made)


@lab.command()
@click.argument("strategy")
@click.option("--workers", type=click.IntRange(1, 9), help="Workers; of each side, for a grid.")
@click.option("--json", "as_json", is_flag=True, help="Print the lines as JSON.")
def show(strategy: str, workers: int | None, as_json: bool) -> None:
    """Show, step by step, how tuples meet under STRATEGY.

    STRATEGY is cell, handshake, grid or splitjoin. handshake-messages has the copies and acknowledgments of tuples
    that are under way, handshake-missed what goes wrong without them, chip the clocks of a circuit. The page of the
    report has the same as views to click through.
    """
    from crosswind.lab.steps import told

    lines = list(told(strategy, workers=workers))
    click.echo(json_module.dumps({"strategy": strategy, "lines": lines}) if as_json else "\n".join(lines))


_UNITS_S = {"s": 1, "m": 60, "min": 60, "h": 3_600}


class _Length(click.ParamType):  # type: ignore[type-arg]
    """A length of time such as 90s, 15m or 1h, in seconds."""

    name = "LENGTH"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        text = str(value).strip().lower()
        unit = text.lstrip("0123456789.")
        number = text[: len(text) - len(unit)]
        try:
            length = float(number) * _UNITS_S[unit.strip() or "s"]
        except (KeyError, ValueError):
            length = 0.0
        if length <= 0:
            self.fail(f"'{value}' is no length of time; write 90s, 15m or 1h.", param, ctx)
        return length


@lab.command()
@click.option("--rate", type=click.IntRange(1), required=True, help="Tuples/s of each stream.")
@click.option("--window", type=_Length(), required=True, help="Length of both windows: 90s, 15m, 1h.")
@click.option("--predicate", default=None, help="What is asked of a pair; the papers' two bands if left out.")
@click.option(
    "--schema",
    "schemas",
    multiple=True,
    metavar="NAME=COL:TYPE,...",
    help="A stream's columns, in the order of FROM; R=x:int32,y:float32 and S=a:int32,b:float32 if left out.",
)
@click.option("--match", type=click.FloatRange(0, 1), help="Share of all pairs that match; sampled if left out.")
@click.option("--span", type=click.IntRange(1), default=10_000, show_default=True, help="Sampled values are 1 to this.")
@click.option("--check", is_flag=True, help="Also run it at lower rates, and compare with the model.")
@_json
def size(
    window: float, predicate: str | None, schemas: tuple[str, ...], check: bool, as_json: bool, **load: Any
) -> None:
    """Say what a load needs: cores, memory, layout, latency.

    From the cost model and its constants (crosswind bench calibrate measures those of this machine), and from a
    moment's sample of random tuples. Give --match if your values are not spread evenly over 1 to --span.
    """
    import dataclasses

    from crosswind.lab.size import check_size, size_of, take_sample

    workload = _workload(window, predicate, schemas, load["rate"], load["span"])
    sample = take_sample(workload, load["match"])
    found = size_of(workload, sample)
    checks = check_size(workload, sample, 0.5) if check else []
    if as_json:
        plain = {**dataclasses.asdict(found), "sample": dataclasses.asdict(sample)}
        click.echo(json_module.dumps({**plain, "checks": [dataclasses.asdict(entry) for entry in checks]}))
        return
    _print_size(found)
    for entry in checks:
        click.echo(
            f"check at {entry.rate:,} tuples/s: predicted {entry.predicted_ns / 1e3:.3g} us a tuple, measured "
            f"{entry.measured_ns / 1e3:.3g} us ({entry.predicted_ns / entry.measured_ns - 1:+.0%})"
        )


def _workload(window_s: float, predicate: str | None, schemas: tuple[str, ...], rate: int, span: int) -> Any:
    from crosswind.lab.loads import BANDS
    from crosswind.lab.streams import PAPERS_SCHEMAS, Uniform, schemas_with_time

    texts = dict(text.partition("=")[::2] for text in schemas)
    if texts and (len(texts) != 2 or not all(texts.values())):
        raise click.UsageError("--schema is given for both streams, as NAME=COL:TYPE,...; or not at all.")
    if texts and predicate is None:
        raise click.UsageError("--schema needs --predicate: the papers' condition is about their own columns.")
    columns = tuple(schemas_with_time(texts or PAPERS_SCHEMAS).items())
    return Uniform(rate, round(window_s * 1e6), columns=columns, predicate=predicate or BANDS, span=span)


def _print_size(found: Size) -> None:
    sides = f", {found.layout[0]} x {found.layout[1]}" if found.engine == "grid" else ""
    lines = {
        "cores": f"{found.cores} (the load takes {found.utilisation:.0%} of one)",
        "engine": f"{found.engine}{sides}; index: {found.index}",
        "memory": f"{found.memory_mb:,.0f} MB for both windows",
        "latency": f"{found.latency_ms:.2g} ms on average, if tuples are pushed as they come",
        "results": f"{found.results_per_s:,.0f}/s",
        "on Spark": found.spark,
        "a tuple": ", ".join(f"{name} {cost:,.0f} ns" for name, cost in found.parts_ns.items()),
    }
    click.echo(figures(lines))


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
    for check in figure.checks:
        published = f"; published: {check.published}" if check.published else ""
        place = f" ({check.place})" if check.place else ""
        limits = f"; agrees if {check.tolerance}" if check.tolerance else ""
        click.echo(f"{_INDENT}{check.verdict}: {check.claim}: {check.here}{published}{place}{limits}")
        if check.why:
            click.echo(f"{_INDENT * 2}{check.why}")
    click.echo(f"{_INDENT}verdict: {figure.verdict}\n{_INDENT}not as in the paper: {figure.deviations}")
    for note in figure.notes:
        click.echo(f"{_INDENT}note: {note}")
    click.echo()
