"""SEEING IT RUN: readings, the page, metrics."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MONITOR = "test_monitor.py"

ENTRIES = [
    Mutant(
        "page-for-anybody",
        "page.py",
        'if self.headers.get("Host") not in {',
        'if self.headers.get("Host") is None and "" not in {',
        "a page of another site reads the state by a name that points here",
        f"{MONITOR}::test_the_page_is_for_this_machine_only",
    ),
    Mutant(
        "viewer-slot-kept",
        "page.py",
        "            self.server.viewers.release()",
        "            self.server.viewers",
        "after sixteen visits nobody sees the page any more",
        f"{MONITOR}::test_a_viewer_that_goes_makes_room_for_another",
    ),
    Mutant(
        "viewers-unbounded",
        "page.py",
        "if not self.server.viewers.acquire(blocking=False):",
        "if not self.server.viewers.acquire(blocking=False) and False:",
        "any number of viewers holds threads",
        f"{MONITOR}::test_events_come_and_viewers_are_bounded",
    ),
    Mutant(
        "connection-slot-kept",
        "connections.py",
        "            serve(request, address)\n        finally:\n            free.release()",
        "            serve(request, address)\n        finally:\n            free.acquire",
        "after 64 requests nobody is answered any more",
        f"{MONITOR}::test_connections_are_bounded_and_come_free_again",
    ),
    Mutant(
        "rates-since-the-beginning",
        "recorder.py",
        "self._readings[1][0] < now - self._span_s",
        "self._readings[1][0] < now - 1000 * self._span_s",
        "rates are those since the beginning, not of the last seconds",
        f"{MONITOR}::test_rates_are_those_of_the_last_seconds",
    ),
    Mutant(
        "time-goes-on",
        "recorder.py",
        "span = (ended if last.finished else max(ended, now)) - began",
        "span = max(ended, now) - began",
        "the rates of a job that has ended go down",
        f"{MONITOR}::test_when_it_has_ended_time_stands_still",
    ),
    Mutant(
        "late-not-shown",
        "recorder.py",
        "counts = [stream for stream in told if stream[kind]]",
        "counts = [stream for stream in told if stream[kind] > 1]",
        "a single late tuple is not told",
        MONITOR,
    ),
    Mutant(
        "counters-without-total",
        "reading.py",
        'return f"{self.name}_total" if self.kind == "counter" else self.name',
        "return self.name",
        "counters break the conventions, and dashboards show nothing",
        f"{MONITOR}::test_metrics_are_openmetrics_and_those_of_the_reading",
    ),
    Mutant(
        "others-not-served",
        "reading.py",
        "told = reading.streams if reading.others is None else (*reading.streams, reading.others)",
        "told = reading.streams",
        "late tuples of a join on Spark are in no metric",
        MONITOR,
    ),
    Mutant(
        "running-for-ever",
        "reading.py",
        "0 if r.finished else 1",
        "1 if r.finished else 1",
        "a job that has ended is shown as running",
        MONITOR,
    ),
]
