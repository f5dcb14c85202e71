"""``crosswind bench``: what is asked of Crosswind, measured on this machine."""

from __future__ import annotations

import json as json_module
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from crosswind.cli.view import LiveView, SilentView, View

if TYPE_CHECKING:
    from crosswind.bench.record import BenchReport, Measurement

__all__ = ["bench"]

Function = TypeVar("Function", bound=Callable[..., Any])

_INDEXES = ("auto", "scan", "band", "hash")
_PARALLEL = ("cell", "grid", "handshake")
_INDENT = "  "


class _Numbers(click.ParamType):  # type: ignore[type-arg]
    """Integers separated by commas."""

    name = "N,N,..."

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        try:
            numbers = tuple(int(part) for part in str(value).split(",") if part.strip())
        except ValueError:
            numbers = (0,)
        if any(number < 1 for number in numbers):
            self.fail(f"'{value}' is not a list of positive integers such as 60,900.", param, ctx)
        return numbers


class _Engines(click.ParamType):  # type: ignore[type-arg]
    """Names of parallel engines, separated by commas."""

    name = "NAME,NAME,..."

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        names = value if isinstance(value, tuple) else tuple(part.strip() for part in str(value).split(","))
        wrong = [name for name in names if name not in _PARALLEL]
        if wrong:
            self.fail(f"'{wrong[0]}' is no parallel engine; allowed: {', '.join(_PARALLEL)}.", param, ctx)
        return names


def _index(function: Function) -> Function:
    text = "Index of the join: every choice gives the same rows."
    return click.option("--index", type=click.Choice(_INDEXES), default="auto", show_default=True, help=text)(function)


def _json(function: Function) -> Function:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, and nothing else.")(function)


def _number(name: str, default: int, text: str) -> Callable[[Function], Function]:
    return click.option(name, type=click.IntRange(1), default=default, show_default=True, help=text)


def _count(name: str, default: int, text: str) -> Callable[[Function], Function]:
    return click.option(name, type=click.IntRange(0), default=default, show_default=True, help=text)


def _numbers(name: str, default: str, text: str) -> Callable[[Function], Function]:
    return click.option(name, type=_Numbers(), default=default, show_default=True, help=text)


def _seconds(name: str, default: float, text: str) -> Callable[[Function], Function]:
    kind = click.FloatRange(0, 86_400, min_open=True)
    return click.option(name, type=kind, default=default, show_default=True, help=text)


_rounds = _number("--rounds", 5, "Runs of each; they are interleaved, and medians reported.")


@click.group()
def bench() -> None:
    """Measure this machine: what is asked, what is reached.

    The workload is that of the papers unless said otherwise: two streams, x and a random integers of 1 to 10,000,
    y and b random floats, joined where both pairs are at most 10 apart. Tuples are generated beforehand and windows
    are full.
    Goals are judged only at the sizes they are about. Another load on the machine shows in every figure.
    """


@bench.command()
@_number("--window", 900_000, "Tuples in the window.")
@_number("--probes", 128, "Tuples that come at once.")
@_number("--rounds", 7, "Runs of each variant; they are interleaved, and medians reported.")
@_json
def kernel(as_json: bool, **sizes: Any) -> None:
    """Measure the inner loop: C++ by hand in three variants, and the scan.

    The C++ is compiled on the spot with g++; without one it is left out.
    """
    _run("kernel", sizes, as_json)


@bench.command()
@_numbers("--windows", "900", "Lengths of the windows, seconds.")
@_number("--start", 20_000, "The first rate to try, tuples/s of each stream.")
@_seconds("--tick", 1.0, "Event time in a batch, seconds.")
@_seconds("--trial", 8.0, "Event time of a trial, seconds.")
@_seconds("--seconds", 90.0, "Begin no trial after this long.")
@_index
@_json
def rate(as_json: bool, **sizes: Any) -> None:
    """Find the greatest rate that is sustained with full windows.

    Each trial fills windows for its rate, then drives the join: the rate holds if a second of event time takes less
    than a second. Memory is reported for the greatest rate that held.
    """
    _run("rate", sizes, as_json)


@bench.command()
@_numbers("--windows", "60,900", "Lengths of the windows, seconds.")
@_number("--rate", 1_000, "Tuples/s of event time, of each stream.")
@_seconds("--seconds", 2.0, "Time spent in each run.")
@_rounds
@_index
@click.option("--compare/--no-compare", default=False, show_default=True, help="Race DuckDB and Polars as well.")
@_number("--prefix", 900, "Length of the streams of that race, seconds; at least two windows.")
@_json
def replay(as_json: bool, **sizes: Any) -> None:
    """Replay as fast as possible, in batches of a second."""
    _run("replay", sizes, as_json)


@bench.command()
@_number("--rate", 2_500, "Tuples/s of each stream.")
@_number("--window", 300, "Length of the windows, seconds.")
@_seconds("--seconds", 20.0, "How long the streams are played.")
@_number("--limit", 4_096, "Greatest number of tuples in a push.")
@_index
@_json
def latency(as_json: bool, **sizes: Any) -> None:
    """Measure, in real time, from a tuple's due time to its results.

    Tuples are due at fixed intervals. Whatever is due is pushed at once; nothing waits for more.
    """
    _run("latency", sizes, as_json)


@bench.command()
@_number("--window", 900_000, "Tuples in the window that is scanned.")
@_numbers("--probes", "100,1000", "Sizes of the batches that scan it.")
@_number("--rounds", 3, "Runs of each side; they are interleaved, and medians reported.")
@_numbers("--windows", "60,900", "Windows for DuckDB and Polars, seconds; an empty text leaves them out.")
@_number("--prefix", 900, "Length of the streams for them, seconds; at least two windows.")
@_number("--rate", 1_000, "Tuples/s of those streams.")
@_json
def compare(as_json: bool, **sizes: Any) -> None:
    """Compare with C++ by hand, DuckDB and Polars.

    The scan runs through push, on the same window as a vectorised C++ loop that is compiled on the spot. DuckDB and
    Polars join finite streams as a batch. All must find the same results.
    """
    _run("compare", sizes, as_json)


@bench.command()
@_number("--keys", 1_000_000, "Distinct keys.")
@_number("--batch", 10_000, "Tuples in a push.")
@_number("--window", 1_000_000, "Tuples in each window.")
@_seconds("--seconds", 1.0, "Time spent in each run.")
@_rounds
@_index
@_json
def equality(as_json: bool, **sizes: Any) -> None:
    """Measure equality joins over many distinct keys: integers and strings."""
    _run("equality", sizes, as_json)


@bench.command()
@_number("--rate", 1_000, "Tuples/s of event time, of each stream.")
@_number("--window", 60, "The least length of the windows, seconds.")
@_numbers("--factors", "1,2,4,8,16", "How many times as long the others are.")
@_seconds("--seconds", 0.5, "Time spent in each run.")
@_rounds
@_index
@_json
def growth(as_json: bool, **sizes: Any) -> None:
    """Measure what a tuple costs as the windows grow, at a fixed rate."""
    _run("growth", sizes, as_json)


@bench.command()
@_number("--rate", 10_000, "Tuples/s of event time, of each stream.")
@_number("--window", 600, "Length of the windows, seconds.")
@_seconds("--seconds", 15.0, "How long to drive the join on with full windows.")
@_index
@_json
def memory(as_json: bool, **sizes: Any) -> None:
    """Measure what a join holds, against the bytes of the live columns."""
    _run("memory", sizes, as_json)


@bench.command()
@_number("--window", 2_000, "Tuples in the longest window of the paper's nine queries.")
@_number("--batch", 64, "Tuples in a push.")
@_number("--pushes", 20, "Pushes of each stream in a run.")
@_rounds
@_json
def queries(as_json: bool, **sizes: Any) -> None:
    """Measure many queries in one join, and joins of three streams.

    The nine queries of WJSP over R(a,b,c), S(d,e), T(f,g), values 0 to 255: one join against nine, in batches and a
    tuple at a time, with longest windows of a quarter, half, all and twice of --window. 64 similar bands against one.
    Three streams in one join against a tree of two joins, and on two workers.
    """
    _run("queries", sizes, as_json)


@bench.command()
@_rounds
@_json
def start(as_json: bool, **sizes: Any) -> None:
    """Measure how long a new process takes to its first result."""
    _run("start", sizes, as_json)


@bench.command()
@_numbers("--windows", "60,900", "Lengths of the windows, seconds.")
@_number("--rate", 1_000, "Tuples/s of event time, of each stream.")
@_number("--length", 1_500, "Event time to replay once windows are full, seconds.")
@_number("--batch", 300, "Event time in a micro-batch, seconds.")
@_count("--own", 300, "The same length for Spark's own join with buckets, seconds; 0 leaves it out.")
@_number("--bucket", 50, "Width of the buckets of Spark's own join.")
@_number("--cores", 2, "Cores of local Spark, and cells of the join.")
@_count("--theta", 300, "Event time for a join without any key, on one core and on all, seconds; 0 leaves it out.")
@_json
def spark(as_json: bool, **sizes: Any) -> None:
    """Replay files through Spark; ours against Spark's own join.

    Needs Java 17 and the extra: pip install 'crosswind[spark]'.
    """
    _run("spark", sizes, as_json)


@bench.command(name="spark-latency")
@_number("--rate", 5_000, "Tuples/s of each stream.")
@_number("--window", 60, "Length of the windows, seconds.")
@_seconds("--seconds", 60.0, "How long the streams are played.")
@_seconds("--chunk", 0.2, "Seconds of tuples in a file.")
@_number("--cores", 2, "Cores of local Spark, and cells of the join.")
@_json
def spark_latency(as_json: bool, **sizes: Any) -> None:
    """Measure, in real time, from a tuple's due time to its results on Spark."""
    _run("spark-latency", sizes, as_json)


@bench.command()
@_number("--window", 60, "Length of the windows, seconds, when sizes are tried out.")
@_number("--batch", 100, "Tuples in a push.")
@_numbers("--sizes", "256,512,1024,2048,4096,8192,16384", "Tuples in a basic window to try out.")
@_seconds("--seconds", 0.3, "Time spent in each run.")
@_rounds
@click.option("--store/--no-store", default=True, show_default=True, help="Keep the constants for joins to come.")
@_json
def calibrate(as_json: bool, **sizes: Any) -> None:
    """Measure the constants of the cost model, and check what it chooses.

    From now on joins on this machine choose the size of their basic windows by these constants. Then several sizes
    are tried out in real runs: the predicted best and the measured one are shown with what each size costs.
    """
    _run("calibrate", sizes, as_json)


@bench.command()
@click.option(
    "--engines",
    type=_Engines(),
    default="cell,grid,handshake",
    show_default=True,
    help="Engines to measure; kang, with one worker, is always there.",
)
@_numbers("--workers", "1,2", "Numbers of workers.")
@_number("--rate", 1_000, "Tuples/s of event time, of each stream.")
@_number("--window", 900, "Length of the windows, seconds.")
@_number("--batch", 1_000, "Tuples in a push: a second of the streams.")
@_seconds("--seconds", 1.5, "Time spent in each run.")
@_rounds
@_number("--latency-rate", 2_500, "Tuples/s of the streams that are played in real time.")
@_number("--latency-window", 300, "Length of their windows, seconds.")
@click.option(
    "--latency-seconds",
    type=click.FloatRange(0, 86_400),
    default=10.0,
    show_default=True,
    help="How long they are played to each engine; 0 leaves that out.",
)
@click.option("--index", type=click.Choice(_INDEXES), default="scan", show_default=True, help="Index of the join.")
@_json
def scale(as_json: bool, **sizes: Any) -> None:
    """Measure engines by workers, beside the papers' models.

    All joins are driven in turns with windows that are full; then streams are played in real time to each engine with
    the greatest number of workers. Predictions are those of DP-Join: results (equation 3), latency (5 to 7); when
    results of a row of workers come is our own estimate.
    With more workers than free cores there is nothing to be gained.
    """
    _run("scale", sizes, as_json)


@bench.command(name="all")
@click.option("--quick", is_flag=True, help="Small sizes: whether everything works, not how fast it is.")
@_json
@click.pass_context
def everything(context: click.Context, quick: bool, as_json: bool) -> None:
    """Run all of them, one after the other."""
    from crosswind.bench.suite import BENCHMARKS, QUICK

    reports = []
    for name in BENCHMARKS:
        command = bench.commands[name]
        given = {p.name: p.type_cast_value(context, p.get_default(context)) for p in command.params if p.name}
        sizes = {key: value for key, value in given.items() if key != "as_json"}
        sizes |= QUICK[name] if quick else {}
        report = _measure(name, sizes, quiet=as_json)
        reports.append(report)
        if not as_json:
            _print_report(report)
    if as_json:
        click.echo(json_module.dumps({"machine": _machine(), "reports": [report.as_json() for report in reports]}))
    else:
        _print_machine()


def _run(name: str, sizes: dict[str, Any], as_json: bool) -> None:
    report = _measure(name, sizes, quiet=as_json)
    if as_json:
        click.echo(json_module.dumps({"machine": _machine(), **report.as_json()}))
    else:
        _print_report(report)
        _print_machine()


def _measure(name: str, sizes: dict[str, Any], *, quiet: bool) -> BenchReport:
    from crosswind.bench.suite import BENCHMARKS

    # A thread that draws would take time from what is measured: the view draws only when told to.
    view: View = LiveView(f"crosswind bench {name}", err=True) if sys.stderr.isatty() and not quiet else SilentView()
    began = time.monotonic()
    with view:
        return BENCHMARKS[name](
            **sizes, tell=lambda line: view.show({"now": line, "passed": f"{time.monotonic() - began:.0f} s"})
        )


def _machine() -> dict[str, Any]:
    from crosswind.bench.machine import describe_machine

    return describe_machine()


def _print_machine() -> None:
    facts = _machine()
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items() if version)
    click.echo(
        f"{facts['processor']}, {facts['cores']} cores, {' '.join(facts['vectors'])}, {facts['memory_gb']} GB, "
        f"load {facts['load_average_1min']}; {facts['system']}, Python {facts['python']}; {versions}"
    )


def _print_report(report: BenchReport) -> None:
    sizes = ", ".join(f"{name} {_plain(value)}" for name, value in report.settings.items())
    click.echo(f"{report.name}: {report.title}\n{_INDENT}{sizes}\n")
    header = ("", "asked", "measured", "ratio", "", "")
    rows = [header, *(_row(entry) for entry in report.measurements)]
    kept = [k for k in range(len(header)) if any(row[k] for row in rows[1:])]
    widths = {k: max(len(row[k]) for row in rows) for k in kept}
    for row in rows:
        click.echo((_INDENT + "  ".join(f"{row[k]:<{widths[k]}}" for k in kept)).rstrip())
    click.echo()
    for note in report.notes:
        click.echo("\n".join(_INDENT + line for line in note.splitlines()))
    click.echo()


def _row(entry: Measurement) -> tuple[str, ...]:
    asked = ratio = ""
    if entry.goal is not None:
        asked = f"{'at least' if entry.goal.at_least else 'at most'} {_figure(entry.goal.value)}"
        asked += "" if entry.goal.aim is None else f", aim {_figure(entry.goal.aim)}"
        ratio = "" if entry.value is None else f"{entry.value / entry.goal.value:.2f} x asked"
    if entry.ratio is not None:
        ratio = f"{entry.ratio:.2f} x {entry.ratio_to}"
    measured = "not measured" if entry.value is None else f"{_figure(entry.value)} {entry.unit}".rstrip()
    verdict = {None: "", True: "holds", False: "DOES NOT HOLD"}[entry.holds]
    return entry.name, asked, measured, ratio, verdict, entry.note


def _figure(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.3g}"


def _plain(value: Any) -> str:
    if isinstance(value, list):
        return "/".join(_plain(entry) for entry in value)
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
