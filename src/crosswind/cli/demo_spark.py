"""The demonstration on Spark: the papers' band join as a streaming query, live on this machine."""

from __future__ import annotations

import functools
import json as json_module
import operator
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from crosswind.cli.interruption import Interruption
from crosswind.cli.readings import reading_of_spark, starting
from crosswind.cli.report import figures, held_on_spark, milliseconds, per_second, quantile, show_rows
from crosswind.cli.watching import Observer, Watching

if TYPE_CHECKING:
    import pyarrow as pa

    from crosswind.cli.feed import BandFeed
    from crosswind.monitor.reading import Reading
    from crosswind.spark.progress import CellTotal, Progress
    from crosswind.spark.watch import Watch

__all__ = ["SparkDemo"]

_POLL_S = 0.1
_NEWEST, _SAMPLE = 3, 5
"""Rows that are shown while it runs, and in the end."""
_BYTES_PER_BATCH = 2_000_000
"""Of each stream in a micro-batch, so that figures appear soon while the past is being read."""
_LATENCIES = 200_000
"""Results, newest last, whose latency is kept."""
_PAIRS_CHECKED = 100_000_000
"""Pairs that NumPy looks at, at most: the check must not take longer than the demonstration."""
_NEXT = """Next
  crosswind run JOB.toml         your own streams: files, Kafka, a socket (docs/jobs.md)
  cw.spark.join(sql, frames)     in your own Spark program (docs/spark.md)
  crosswind demo --engine local  the same join in one process, without Spark: results in milliseconds
  crosswind bench spark          how fast it is here, beside Spark's own join"""


@dataclass
class _Seen:
    """What the demonstration has seen so far. ``live`` are micro-batches that had nothing to catch up with."""

    batches: dict[int, pa.Table] = field(default_factory=dict)
    arrived_s: dict[int, float] = field(default_factory=dict)
    reports: list[Progress] = field(default_factory=list)
    live: list[Progress] = field(default_factory=list)
    consumed: dict[str, int] = field(default_factory=lambda: {"R": 0, "S": 0})
    latencies_s: list[float] = field(default_factory=list)
    cells: dict[int, CellTotal] = field(default_factory=dict)
    begun: float | None = None
    live_begun: float | None = None
    ended: float = 0.0

    @property
    def results(self) -> int:
        return sum(report.results for report in self.reports)

    @property
    def live_s(self) -> float:
        return self.ended - self.live_begun if self.live_begun is not None else 0.0

    def tables(self) -> list[pa.Table]:
        """Return the results of micro-batches that are done."""
        return [self.batches[report.batch] for report in self.reports if report.batch in self.batches]


class SparkDemo:
    """One run of ``crosswind demo`` on Spark.

    Parameters
    ----------
    seconds : float
        How long to play once the first micro-batch is done.
    rate : int
        Tuples/s of each stream.
    window_s : int
        Length of both windows.
    seed : int
        The same seed gives the same tuples.
    fill : bool
        Begin with full windows.
    as_json : bool
        Print figures as JSON, and nothing else.
    watching : Watching
        How it is shown.
    """

    def __init__(
        self, seconds: float, rate: int, window_s: int, seed: int, fill: bool, as_json: bool, watching: Watching
    ) -> None:
        from crosswind.bench.workload import band_sql

        self._seconds, self._rate, self._window_s = seconds, rate, window_s
        self._seed, self._fill, self._as_json = seed, fill, as_json
        shown = "R.x, R.y, S.a, S.b, R.ts AS r_ts, S.ts AS s_ts"
        self._sql = band_sql(f"[RANGE {window_s} SECONDS]", shown=shown)
        self._seen = _Seen()
        self._refusal, self._layout = "", ""
        self._past = rate * window_s if fill else 0
        self._same: bool | None = None
        self._checked = ""
        self._watching = watching

    def run(self) -> int:
        """Run it, print what it found, and return the exit code."""
        from crosswind.bench.workload import BandWorkload
        from crosswind.cli.feed import BandFeed
        from crosswind.spark.launch import BRIEF, start_session

        self._tell(f"{self._sql}\n\nstarting Spark on this machine ...")
        workload = BandWorkload(self._rate, self._window_s * 1_000_000, self._seed)
        with tempfile.TemporaryDirectory(prefix="crosswind-demo-", ignore_cleanup_errors=True) as name:
            folder = Path(name)
            with ExitStack() as session:
                with self._observer() as observer:
                    spark = start_session("crosswind demo", folder / "spark.log", conf=BRIEF)
                    session.callback(spark.stop)
                    feed = BandFeed(folder, workload, self._window_s if self._fill else 0)
                    with Interruption() as interruption, feed:
                        self._play(spark, feed, folder, interruption, observer)
                if not interruption.asked:
                    self._check(feed)
        click.echo(json_module.dumps(self._as_dict()) if self._as_json else self._summary())
        if interruption.error is not None:
            raise interruption.error
        return 1 if self._same is False else 0

    def _tell(self, text: str) -> None:
        if not self._as_json:
            click.echo(text)

    # -- playing -------------------------------------------------------------

    def _play(self, spark: Any, feed: BandFeed, folder: Path, interruption: Interruption, observer: Observer) -> None:
        from crosswind.bench.workload import BAND
        from crosswind.spark import explain, join
        from crosswind.spark.baseline import refusal_of, start_own
        from crosswind.spark.watch import Watch

        frames = {stream: _frame(spark, stream, where) for stream, where in feed.folders.items()}
        own = start_own(frames["R"], frames["S"], BAND, str(folder / "own"))
        self._layout = next(line for line in explain(self._sql, frames).splitlines() if line.startswith("layout"))[10:]
        writer = join(self._sql, frames).writeStream.foreachBatch(self._take)
        watch = Watch(writer.option("checkpointLocation", str(folder / "checkpoint")).start())
        try:
            self._refusal = refusal_of(own)
            self._tell(f"Spark alone says to this query: {self._refusal}\nCrosswind runs it:\n")
            self._watch(watch, interruption, observer)
        finally:
            watch.stop()

    def _take(self, batch: Any, number: int) -> None:
        """Receive the results of a micro-batch (Spark calls this, in a thread of its own)."""
        self._seen.batches[number] = batch.toArrow()
        self._seen.arrived_s[number] = time.time()

    def _watch(self, watch: Watch, interruption: Interruption, observer: Observer) -> None:
        seen, launched = self._seen, time.monotonic()
        while not interruption.wait(_POLL_S):
            watch.check()
            for progress, report in watch.news():
                if report is not None:
                    self._note(progress, report)
            now = time.monotonic()
            over = seen.begun is not None and now - seen.begun >= self._seconds
            if over or observer.is_due():
                observer.take(self._reading(now - launched, over))
            if over:
                return

    def _reading(self, seconds: float, over: bool) -> Reading:
        seen = self._seen
        total = functools.reduce(operator.add, seen.reports) if seen.reports else None
        batch_s = [report.batch_ms / 1e3 for report in seen.live or seen.reports]
        notes = self._notes() if seen.reports else None
        return reading_of_spark(seen.consumed, total, batch_s, seen.cells, seconds, finished=over, notes=notes)

    def _note(self, progress: Any, report: Progress) -> None:
        """Take in what Spark reports of a micro-batch that is done."""
        from crosswind.spark.progress import add_cells

        seen, now = self._seen, time.monotonic()
        seen.reports.append(report)
        add_cells(seen.cells, report)
        seen.begun = seen.begun or now
        was_live = min(seen.consumed.values()) >= self._past
        for stream in seen.consumed:
            row = progress.observedMetrics.get(_metric(stream))
            seen.consumed[stream] += row["tuples"] if row is not None else 0
        if seen.live_begun is not None:
            seen.live.append(report)
            seen.latencies_s = [*seen.latencies_s, *self._latencies_s(report.batch)][-_LATENCIES:]
        elif was_live:  # this one has taken what came while the past was read
            seen.live_begun = now
        seen.ended = now

    def _latencies_s(self, batch: int) -> list[float]:
        """Return how old the last tuple of each result was when the result arrived here."""
        import numpy as np

        table = self._seen.batches.get(batch)
        if table is None or not table.num_rows:
            return []
        times = [table.column(name).cast("int64").to_numpy() for name in ("r_ts", "s_ts")]
        late: list[float] = (self._seen.arrived_s[batch] - np.maximum(*times) / 1e6).tolist()
        return late

    def _observer(self) -> Observer:
        from crosswind.monitor.recorder import Recorder

        recorder = Recorder("demo", "spark", "cell")
        recorder.take(starting(list(self._seen.consumed)))
        title = f"2 x {self._rate:,} tuples/s, windows of {self._window_s} s; Ctrl-C stops"
        return Observer(self._watching, recorder, title, quiet=self._as_json, err=False)

    # -- what is shown -------------------------------------------------------

    def _notes(self) -> dict[str, str]:
        """Return what is shown beside the figures that every job has."""
        seen = self._seen
        last = seen.reports[-1]
        elapsed = time.monotonic() - (seen.begun or 0.0)
        filled = min(1.0, min(seen.consumed.values()) / self._past) if self._past else 1.0
        phase = "live" if seen.live_begun else f"catching up, windows {100 * filled:.0f}% full"
        notes = {"phase": f"{phase}; {elapsed:.0f} of {self._seconds:.0f} s, {len(seen.reports)} micro-batches"}
        notes |= {name: text for name, text in self._figures(seen.live or seen.reports).items() if name == "latency"}
        notes["last micro-batch"] = (
            f"{last.tuples:,} tuples, {last.results:,} results, {milliseconds(last.batch_ms / 1e3)} "
            f"(joining {milliseconds(last.join_ms / 1e3)}, state {milliseconds(last.state_ms / 1e3)})"
        )
        newest = seen.batches.get(last.batch)
        if sys.stdout.isatty() and newest is not None and newest.num_rows:
            notes["layout"] = self._layout
            rows = show_rows(newest.slice(max(0, newest.num_rows - _NEWEST)), ("r_ts", "s_ts"))
            notes |= {"newest result" if k == 0 else " " * k: row for k, row in enumerate(rows)}
        return notes

    def _figures(self, reports: list[Progress]) -> dict[str, str]:
        seen = self._seen
        last = seen.reports[-1]
        batch_s = seen.live_s if reports is seen.live else sum(r.batch_ms for r in reports) / 1e3
        lines = {
            "rate in": per_second(sum(r.tuples for r in reports), batch_s),
            "rate out": f"{per_second(sum(r.results for r in reports), batch_s)}, {seen.results:,} results so far",
        }
        if seen.latencies_s:
            named = {"p50": 0.5, "p99": 0.99}
            shown = ", ".join(f"{name} {milliseconds(quantile(seen.latencies_s, q))}" for name, q in named.items())
            lines["latency"] = f"{shown}, from a tuple's time to its results"
        lines |= {
            "held in windows": held_on_spark(last.window_tuples, last.state_bytes),
            "late": f"{sum(r.late for r in seen.reports):,}",
            "layout": self._layout,
        }
        return lines

    def _summary(self) -> str:
        seen = self._seen
        if not seen.reports:
            return "stopped before the first micro-batch was done"
        text = ""
        found = [table for table in seen.tables() if table.num_rows]
        if found:
            sample = "".join(f"  {line}\n" for line in show_rows(found[-1].slice(0, _SAMPLE), ("r_ts", "s_ts")))
            text = f"some of {seen.results:,} results\n{sample}\n"
        past = [report for report in seen.reports if report not in seen.live]
        lines = {"tuples in": ", ".join(f"{name} {count:,}" for name, count in seen.consumed.items())}
        if past:
            tuples, seconds = sum(r.tuples for r in past), sum(r.batch_ms for r in past) / 1e3
            lines["caught up"] = f"{tuples:,} tuples in {seconds:.1f} s, compilation included"
        if seen.live:
            lines["then live for"] = f"{seen.live_s:.1f} s, {len(seen.live)} micro-batches"
            lines |= self._figures(seen.live)
            lines["micro-batch"] = f"p50 {milliseconds(quantile([r.batch_ms / 1e3 for r in seen.live], 0.5))}"
        lines["results"] = f"{seen.results:,}"
        verdict = {True: f"yes{self._checked}", False: "NO", None: "not checked, as it was stopped early"}
        lines["same rows as NumPy"] = verdict[self._same]
        lines["Spark alone says"] = self._refusal
        return f"{text}{figures(lines)}\n\n{_NEXT}"

    def _as_dict(self) -> dict[str, Any]:
        seen = self._seen
        live, live_s = seen.live, seen.live_s
        last = seen.reports[-1] if seen.reports else None
        return {
            "engine": "spark",
            "query": self._sql,
            "rate": self._rate,
            "window_s": self._window_s,
            "seed": self._seed,
            "spark_says": self._refusal,
            "layout": self._layout,
            "tuples_in": seen.consumed,
            "late": sum(r.late for r in seen.reports),
            "results": seen.results,
            "micro_batches": len(seen.reports),
            "live_s": live_s,
            "live_batch_ms_p50": quantile([r.batch_ms for r in live], 0.5) if live else None,
            "live_tuples_per_s": sum(r.tuples for r in live) / live_s if live_s else None,
            "live_results_per_s": sum(r.results for r in live) / live_s if live_s else None,
            "latency_ms_p50": quantile(seen.latencies_s, 0.5) * 1e3 if seen.latencies_s else None,
            "latency_ms_p99": quantile(seen.latencies_s, 0.99) * 1e3 if seen.latencies_s else None,
            "window_tuples": last.window_tuples if last else None,
            "state_bytes": last.state_bytes if last else None,
            "same_rows": self._same,
        }

    # -- checking ------------------------------------------------------------

    def _check(self, feed: BandFeed) -> None:
        """Compute the result again with NumPy, for as many tuples of R as that can do in a second or so."""
        import pyarrow as pa
        import pyarrow.compute as pc

        from crosswind.bench.workload import BAND, VALUE_MAX
        from crosswind.cli.workload import band_matches
        from crosswind.testing import assert_same_rows

        seen = self._seen
        self._tell("checking the result ...")
        r, s = (_arrays(table) for table in (feed.table(stream, count) for stream, count in seen.consumed.items()))
        pairs = len(r["x"]) * len(s["a"]) * (2 * BAND + 1) / VALUE_MAX
        x_max = VALUE_MAX if pairs <= _PAIRS_CHECKED else int(VALUE_MAX * _PAIRS_CHECKED / pairs)
        if x_max < VALUE_MAX:
            self._checked = f", of all tuples of R with x <= {x_max}: {100 * x_max / VALUE_MAX:.2g}% of the result"
        r = {name: values[r["x"] <= x_max] for name, values in r.items()}
        left, right = band_matches(r, s, self._window_s * 1_000_000)
        got = pa.concat_tables(seen.tables()).select(["x", "y", "a", "b"])
        got = got.filter(pc.less_equal(got.column("x"), x_max))
        expected = pa.table({"x": r["x"][left], "y": r["y"][left], "a": s["a"][right], "b": s["b"][right]})
        try:
            assert_same_rows(got, expected)
            self._same = True
        except AssertionError as error:
            click.echo(f"{error}", err=True)
            self._same = False


def _frame(spark: Any, stream: str, folder: Path) -> Any:
    """Return the streaming DataFrame of a folder of files, which counts what is taken from it."""
    from crosswind.spark.progress import counted

    schema = {"R": "x int, y float, ts timestamp", "S": "a int, b float, ts timestamp"}[stream]
    reader = spark.readStream.schema(schema).option("maxBytesPerTrigger", _BYTES_PER_BATCH)
    return counted(reader.parquet(str(folder)), _metric(stream))


def _arrays(table: pa.Table) -> dict[str, Any]:
    """Return the columns of a stream, times in microseconds."""
    times = table.column("ts").cast("int64").to_numpy()
    return {name: table.column(name).to_numpy() for name in table.column_names[:2]} | {"ts": times}


def _metric(stream: str) -> str:
    return f"demo_{stream}"
