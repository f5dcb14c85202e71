"""``crosswind demo``: a live window join to watch, which checks its own result."""

from __future__ import annotations

import json as json_module
import sys
from typing import TYPE_CHECKING, Any

import click

from crosswind.cli.report import figures, milliseconds, per_second, quantile, show_rows
from crosswind.cli.room import spark_room
from crosswind.cli.watching import Observer, Watching, watched

if TYPE_CHECKING:
    import pyarrow as pa

    from crosswind.cli.replay import Measured
    from crosswind.cli.workload import BandJoin

__all__ = ["demo"]

_SPARK_SECONDS, _SPARK_WINDOW_S = 90.0, 300
_LOCAL_SECONDS, _LOCAL_WINDOW_S = 20.0, 60
_SAMPLE_ROWS = 5
_BEHIND_S = 0.25
"""Being later than this with a push is worth a line."""


@click.command()
@click.option(
    "--engine",
    type=click.Choice(["spark", "local"]),
    default="spark",
    show_default=True,
    help="On Spark, in local mode, or in this process.",
)
@click.option("--seconds", type=click.FloatRange(0.1, 86_400), help="How long to play.  [default: 90; local: 20]")
@click.option("--rate", type=click.IntRange(1), default=1_000, show_default=True, help="Tuples/s of each stream.")
@click.option("--window", type=click.IntRange(1), help="Length of the windows, seconds.  [default: 300; local: 60]")
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Same seed, same streams.")
@click.option("--fill/--no-fill", default=True, show_default=True, help="Begin with full windows, or with empty ones.")
@click.option("--fast", is_flag=True, help="Local only: as fast as possible, not at the streams' own pace.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON, and nothing else.")
@watched
def demo(
    engine: str,
    seconds: float | None,
    rate: int,
    window: int | None,
    seed: int,
    fill: bool,
    fast: bool,
    as_json: bool,
    watching: Watching,
) -> None:
    """Join two live streams, and watch.

    The query is the one on which the papers measure themselves: two streams of random tuples and a
    band on each of two columns, without any equality. Spark refuses it; Crosswind runs it on Spark.
    The windows are full from the beginning; the streams then go on at their own pace. In the end the
    result is computed again, with NumPy, and compared. --ui shows it live in a browser on this machine.
    """
    if engine == "spark":
        if fast:
            raise click.UsageError("--fast goes with --engine local: on Spark the streams come at their own pace.")
        with spark_room():
            from crosswind.cli.demo_spark import SparkDemo

            shown = SparkDemo(seconds or _SPARK_SECONDS, rate, window or _SPARK_WINDOW_S, seed, fill, as_json, watching)
            code = shown.run()
        if code:
            sys.exit(code)
    else:
        from crosswind.cli.workload import BandJoin

        window = window or _LOCAL_WINDOW_S
        fill_s = window if fill else 0
        workload = BandJoin(rate, fill_s + (seconds or _LOCAL_SECONDS), window, seed)
        _demo_here(workload, fill_s, fast, as_json, watching)


def _demo_here(workload: BandJoin, fill_s: int, fast: bool, as_json: bool, watching: Watching) -> None:
    from crosswind.cli.replay import Measured

    measured = Measured(tuples={"R": 0, "S": 0}, fast=fast)
    if not as_json:
        click.echo(f"{workload.sql}\n")
    interruption = None
    try:
        with _observer(workload, watching, quiet=as_json) as observer:
            _play(workload, fill_s * 1_000, measured, observer)
    except KeyboardInterrupt as signal:
        interruption = signal
    same = None if interruption else _same_rows(workload, measured)
    if as_json:
        click.echo(json_module.dumps(_as_json(workload, measured, same)))
    else:
        _print_summary(measured, same)
    if interruption is not None:
        raise interruption
    if same is False:
        sys.exit(1)


def _observer(workload: BandJoin, watching: Watching, *, quiet: bool) -> Observer:
    from crosswind.cli.readings import starting
    from crosswind.monitor.recorder import Recorder

    recorder = Recorder("demo", "kang")
    recorder.take(starting(["R", "S"]))
    title = f"2 x {workload.rate:,} tuples/s, windows of {workload.window_s} s; Ctrl-C stops"
    return Observer(watching, recorder, title, quiet=quiet, err=False)


def _play(workload: BandJoin, fill_ms: int, measured: Measured, observer: Observer) -> None:
    """Play the streams, and note in ``measured`` what happens."""
    import crosswind as cw
    from crosswind.cli.readings import reading_of_stats
    from crosswind.cli.replay import Playback, replay
    from crosswind.clock import SystemClock

    streams = workload.streams
    offsets_ms = {name: workload.offsets_ms(name) for name in streams}
    playback = Playback(streams, offsets_ms, fill_ms, round(workload.seconds * 1_000), measured.fast)
    with cw.open(workload.sql, {name: table.schema for name, table in streams.items()}) as join:

        def observe(measured: Measured) -> None:
            if observer.is_due() or measured.finished:
                stats = join.stats
                if not measured.finished:  # in the end nothing waits any more
                    measured.window_tuples = dict(stats.window_tuples)
                seconds = measured.fill_s + measured.live_s
                notes = {"phase": _phase(measured)}
                observer.take(reading_of_stats(stats, seconds, finished=measured.finished, notes=notes))

        replay(join, playback, SystemClock(), measured, observe)
        observe(measured)


def _phase(measured: Measured) -> str:
    return f"live for {measured.live_s:.0f} s" if measured.is_live else f"filling, {measured.fill_s:.0f} s"


def _live_figures(measured: Measured) -> dict[str, str]:
    lines = {
        "rate in": per_second(measured.live_tuples, measured.live_s),
        "rate out": per_second(measured.live_rows, measured.live_s),
        "push latency": ", ".join(f"{name} {milliseconds(value)}" for name, value in _latency_s(measured).items()),
    }
    if measured.behind_s_max > _BEHIND_S:
        lines["behind schedule"] = f"up to {milliseconds(measured.behind_s_max)}"
    return lines


def _latency_s(measured: Measured) -> dict[str, float]:
    if not measured.push_s:
        return {}
    return {
        "p50": quantile(measured.push_s, 0.5),
        "p99": quantile(measured.push_s, 0.99),
        "max": max(measured.push_s),
    }


def _by_stream(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.items())


def _results(measured: Measured) -> pa.Table | None:
    import pyarrow as pa

    return pa.concat_tables(measured.results) if measured.results else None


def _same_rows(workload: BandJoin, measured: Measured) -> bool:
    from crosswind.testing import assert_same_rows

    got = _results(measured)
    try:
        assert_same_rows([] if got is None else got, workload.expected())
    except AssertionError as error:
        click.echo(f"{error}", err=True)
        return False
    return True


def _print_summary(measured: Measured, same: bool | None) -> None:
    results = _results(measured)
    if results is not None:
        click.echo(f"{min(_SAMPLE_ROWS, results.num_rows)} of {results.num_rows:,} results")
        for line in show_rows(results.slice(0, _SAMPLE_ROWS)):
            click.echo(f"  {line}")
        click.echo()
    lines = {"tuples in": _by_stream(measured.tuples)}
    if measured.fill_s:
        lines["windows filled in"] = f"{measured.fill_s:.2f} s"
    if measured.is_live:
        name = "the rest played in" if measured.fast else "then live for"
        lines[name] = f"{measured.live_s:.2f} s"
        lines |= _live_figures(measured)
    if measured.window_tuples:
        lines["held in windows"] = _by_stream(measured.window_tuples)
    lines["results"] = f"{measured.rows:,}"
    verdict = {True: "yes", False: "NO", None: "not checked, as it was stopped early"}
    lines["same rows as NumPy"] = verdict[same]
    click.echo(figures(lines))


def _as_json(workload: BandJoin, measured: Measured, same: bool | None) -> dict[str, Any]:
    latency = {f"push_latency_ms_{name}": value * 1_000 for name, value in _latency_s(measured).items()}
    return {
        "engine": "local",
        "query": workload.sql,
        "rate": workload.rate,
        "window_s": workload.window_s,
        "seed": workload.seed,
        "tuples_in": measured.tuples,
        "results": measured.rows,
        "fill_s": measured.fill_s,
        "live_s": measured.live_s,
        "live_tuples_per_s": measured.live_tuples / measured.live_s if measured.live_s else None,
        "live_results_per_s": measured.live_rows / measured.live_s if measured.live_s else None,
        **latency,
        "behind_s_max": measured.behind_s_max,
        "window_tuples": measured.window_tuples,
        "same_rows": same,
    }
