"""Seeing a join run: rates, the page in a real browser, metrics, logs, notebooks."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner
from prometheus_client.openmetrics.parser import text_string_to_metric_families

import crosswind as cw
from crosswind.cli.main import crosswind
from crosswind.cli.readings import reading_of_spark, reading_of_stats, starting
from crosswind.monitor.metrics import MetricsEndpoint
from crosswind.monitor.page import LivePage
from crosswind.monitor.reading import METRICS, Reading, StreamReading, WorkerReading
from crosswind.monitor.recorder import Recorder
from crosswind.testing import TestClock
from tests.waiting import PATIENCE_S, wait_until

ROOT = Path(__file__).parent.parent
CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)
SQL = "SELECT R.x, S.a FROM R [RANGE 5], S [ROWS 3] WHERE abs(R.x - S.a) <= 1"
SCHEMAS = {
    "R": pa.schema([("x", pa.int64()), ("ts", pa.int64())]),
    "S": pa.schema([("a", pa.int64()), ("ts", pa.int64())]),
}


def reading(seconds: float, tuples: int, results: int, **more) -> Reading:
    streams = (StreamReading("R", tuples, late=2), StreamReading("S", tuples // 2, shed=1))
    workers = (WorkerReading("0", seconds / 2, results), WorkerReading("1", seconds / 4, 0, 7))
    return Reading(seconds, streams, results, {"R": 10, "S": 4}, workers, {"p50": 0.001, "p99": 0.002}, 5, 4096, **more)


@pytest.fixture
def recorder():
    made = Recorder("near <b>", "cell", clock=TestClock())
    made.take(starting(["R", "S"]))
    return made


# -- the recorder -------------------------------------------------------------------------------


def test_rates_are_those_of_the_last_seconds():
    clock = TestClock()
    recorder = Recorder("near", "cell", clock=clock)
    for second in range(11):
        recorder.take(reading(second, 100 * second + (5_000 if second > 3 else 0), 10 * second))
        clock.advance(1)
    state = recorder.state()
    # From second 6 (the last reading that is older than the span) to now, a second after the last reading.
    assert state["streams"][0]["per_second"] == pytest.approx(400 / 5)
    assert state["results_per_second"] == pytest.approx(40 / 5)
    assert [worker["load"] for worker in state["workers"]] == pytest.approx([2 / 5, 1 / 5])
    assert state["seconds"] == pytest.approx(11)
    clock.advance(95)
    assert recorder.state()["results_per_second"] == pytest.approx(0.4)  # nothing comes any more


def test_when_it_has_ended_time_stands_still():
    clock = TestClock()
    recorder = Recorder("near", "cell", clock=clock)
    recorder.take(reading(0, 0, 0))
    clock.advance(2)
    recorder.take(reading(2, 100, 10, finished=True))
    clock.advance(100)
    state = recorder.state()
    assert (state["seconds"], state["results_per_second"], state["finished"]) == (2, 5.0, True)


def test_the_terminal_shows_the_same(recorder):
    recorder.take(reading(1, 2_000, 30, notes={"phase": "live"}))
    lines = recorder.lines()
    assert lines["tuples read"] == "R 2,000, S 1,000"
    assert lines["late"].startswith("R 2, dropped")
    assert lines["shed"].startswith("S 1, not admitted")
    assert lines["held in windows"] == "R 10, S 4; 0.0 MB"
    assert lines["workers"].endswith("% busy, 7 tuples")
    assert lines["phase"] == "live"


def test_a_viewer_can_wait_for_news(recorder):
    assert recorder.wait(0, 0.0) == 1
    threading.Timer(0.05, recorder.take, [reading(1, 1, 1)]).start()
    assert recorder.wait(1, 10.0) == 2
    assert recorder.wait(2, 0.01) == 2


def test_readings_of_a_join_in_this_process():
    with cw.open(SQL, SCHEMAS, engine="cell", workers=2) as join:
        join.push("R", {"x": [1, 2], "ts": [1, 2]})
        join.push("S", {"a": [1], "ts": [3]})
        join.advance("R", 10)
        join.advance("S", 10)
        taken = reading_of_stats(join.stats, 1.0)
        shown = join._repr_html_()
    assert [(s.name, s.tuples) for s in taken.streams] == [("R", 2), ("S", 1)]
    assert taken.results == 2
    assert len(taken.workers) == 2
    assert taken.latency_s["p50"] > 0
    assert "2 results" in shown
    assert "<td>R</td>" in shown
    with cw.open(SQL, SCHEMAS, engine="kang") as join:
        join.push("R", {"x": [1, 2], "ts": [1, 2]})
        (worker,) = reading_of_stats(join.stats, 1.0).workers
        assert worker.busy_s == pytest.approx(join.stats.busy_s)
        assert worker.busy_s > 0


def test_readings_of_a_join_on_spark():
    pytest.importorskip("pyspark")
    from crosswind.spark.progress import CellProgress, CellTotal, Progress, add_cells

    cells: dict[int, CellTotal] = {}
    report = Progress(4, 10, 1, 2, 3, 9, 500, 0, 0, 2, 0, 4.0, 1.0, 800.0, (CellProgress(1, 9, 3, 4.0),))
    add_cells(cells, report)
    add_cells(cells, report)
    taken = reading_of_spark({"R": 5, "S": 8}, report, [0.8, 0.4], cells, 2.0)
    assert taken.workers == (WorkerReading("1", 0.008, 6, 9),)
    assert (taken.batches, taken.others.late, taken.others.rejected) == (5, 1, 2)
    assert taken.latency_s["p99"] == 0.8
    assert reading_of_spark({"R": 0}, None, [], {}, 2.0).notes["phase"].startswith("first micro-batch")


# -- the page -----------------------------------------------------------------------------------


def get(port: int, path: str = "/", host: str | None = None, address: str = "127.0.0.1"):
    with contextlib.closing(http.client.HTTPConnection(address, port, timeout=PATIENCE_S)) as connection:
        connection.request("GET", path, headers={"Host": host} if host else {})
        answer = connection.getresponse()
        return answer, answer.read()


def test_the_page_is_for_this_machine_only(recorder):
    with LivePage(recorder, 0) as page:
        assert page._server.socket.getsockname()[0] == "127.0.0.1"
        assert get(page.port)[0].status == 200
        assert get(page.port, host=f"localhost:{page.port}")[0].status == 200
        for stranger in (
            f"example.org:{page.port}",
            "127.0.0.1",
            f"0.0.0.0:{page.port}",
            f"127.0.0.1.nip.io:{page.port}",
        ):
            answer, body = get(page.port, "/state", stranger)
            assert (answer.status, b"near" in body) == (421, False), stranger
        with pytest.raises(ConnectionRefusedError):  # another address of this machine
            get(page.port, address="127.0.0.2")
        answer, body = get(page.port)
        assert answer.getheader("Access-Control-Allow-Origin") is None
        assert "default-src 'none'" in answer.getheader("Content-Security-Policy")
        assert not re.findall(rb"(?:src|href)=\"(?:https?:)?//", body), "nothing is fetched from elsewhere"
        assert get(page.port, "/../errors.py")[0].status == 404
        assert json.loads(get(page.port, "/state")[1])["job"] == "near <b>"
    with pytest.raises(ConnectionRefusedError):
        get(page.port)


def test_events_come_and_viewers_are_bounded(recorder):
    with LivePage(recorder, 0) as page, contextlib.ExitStack() as stack:
        viewers = [
            stack.enter_context(urllib.request.urlopen(f"{page.address}events", timeout=PATIENCE_S)) for _ in range(16)
        ]
        first = json.loads(viewers[0].readline().removeprefix(b"data: "))
        assert first["streams"][0] == vars(StreamReading("R", 0)) | {"per_second": 0.0}
        assert get(page.port, "/events")[0].status == 503


def test_a_viewer_that_goes_makes_room_for_another(recorder):
    with LivePage(recorder, 0) as page:
        for _ in range(3):
            viewers = [urllib.request.urlopen(f"{page.address}events", timeout=10) for _ in range(16)]
            assert get(page.port, "/events")[0].status == 503
            for viewer in viewers:
                viewer.close()
            wait_until(
                lambda: not [thread for thread in threading.enumerate() if "process_request" in thread.name], "the page"
            )


@pytest.mark.parametrize("what", ["page", "metrics"])
def test_connections_are_bounded_and_come_free_again(recorder, what):
    def serving() -> int:
        return sum("process_request" in thread.name for thread in threading.enumerate())

    server = LivePage(recorder, 0) if what == "page" else MetricsEndpoint(recorder, "1", "127.0.0.1", 0)
    with server:
        address = ("127.0.0.1", int(server.address.split(":")[2].partition("/")[0]))
        idle = [socket.create_connection(address, timeout=60) for _ in range(64)]
        wait_until(lambda: serving() == 64, "the page")
        for _ in range(200):
            with socket.create_connection(address, timeout=60) as more:
                assert more.recv(100).startswith(b"HTTP/1.1 503")
        assert serving() == 64
        for connection in idle:
            connection.close()
        wait_until(lambda: serving() == 0, "the page")
        with urllib.request.urlopen(server.address, timeout=60) as answer:
            assert answer.status == 200


def test_a_port_that_is_taken_is_said_with_the_next_step(recorder):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(cw.MonitorError, match=f"page: port {port} is taken.*--ui-port 0"):
            LivePage(recorder, port)
        with pytest.raises(cw.MonitorError, match=f"metrics: port {port} is taken.*--metrics-port 0"):
            MetricsEndpoint(recorder, "1", "127.0.0.1", port)


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: apt-get install chromium")
def test_the_page_shows_live_numbers(tmp_path):
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    expect = sync_api.expect
    expect.set_options(timeout=PATIENCE_S * 1000)
    arguments = [
        "demo",
        "--engine",
        "local",
        "--no-fill",
        "--seconds",
        "600",
        "--window",
        "10",
        "--ui",
        "--ui-port",
        "0",
    ]
    quiet = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
    quiet += ["--disable-sync", "--no-first-run"]
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=quiet)
        page = browser.new_page()
        page.set_default_timeout(PATIENCE_S * 1000)
        wrong: list[str] = []
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
        process = subprocess.Popen(
            [sys.executable, "-m", "crosswind", *arguments],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )  # fmt: skip
        try:
            assert process.stderr is not None
            address = process.stderr.readline().split()[-1]
            page.goto(address)
            expect(page.locator("#status")).to_have_text("live")
            shown = page.inner_text("#seconds")
            expect(page.locator("#seconds")).not_to_have_text(shown)
            expect(page.locator("#rate-in")).to_have_text(re.compile("[1-9]"))
            expect(page.locator("#tuples")).to_have_text(re.compile("R [1-9].*, S [1-9]"))
            expect(page.locator("#picture .box")).to_have_count(4)
            expect(page.locator("#chart polyline.in")).to_have_count(1)
            before = page.inner_text("#tuples")
            expect(page.locator("#tuples")).not_to_have_text(before)
        finally:
            process.terminate()
            process.communicate(timeout=PATIENCE_S)
        expect(page.locator("#status")).to_contain_text("no connection")
        browser.close()
    refused = [text for text in wrong if "ERR_CONNECTION_REFUSED" not in text and "ERR_INCOMPLETE" not in text]
    assert not refused


# -- metrics ------------------------------------------------------------------------------------


def scrape(address: str, accept: str) -> str:
    request = urllib.request.Request(address, headers={"Accept": accept})
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
        return answer.read().decode()


def test_metrics_are_openmetrics_and_those_of_the_reading(recorder):
    recorder.take(reading(3, 2_000, 30, held=6))
    with MetricsEndpoint(recorder, "1.2.3", "127.0.0.1", 0) as endpoint:
        text = scrape(endpoint.address, "application/openmetrics-text; version=1.0.0")
        plain = scrape(endpoint.address, "text/plain")
    families = {family.name: family for family in text_string_to_metric_families(text)}
    samples = {(s.name, *s.labels.values()): s.value for f in families.values() for s in f.samples}
    assert samples["crosswind_tuples_total", "R"] == 2_000
    assert samples["crosswind_late_tuples_total", "R"] == 2
    assert samples["crosswind_shed_tuples_total", "S"] == 1
    assert samples["crosswind_latency_seconds", "0.99"] == 0.002
    assert samples["crosswind_worker_busy_seconds_total", "0"] == 1.5
    assert samples["crosswind_worker_window_tuples", "1"] == 7
    assert ("crosswind_worker_window_tuples", "0") not in samples
    assert samples["crosswind_state_bytes",] == 4096
    assert samples["crosswind_running",] == 1
    assert families["crosswind_job"].samples[0].labels == {"job": "near <b>", "engine": "cell", "version": "1.2.3"}
    assert 'crosswind_tuples_total{stream="R"} 2000.0' in plain
    assert {metric.name for metric in METRICS} < set(families)


def test_metrics_keep_to_the_conventions():
    for metric in METRICS:
        assert re.fullmatch(r"crosswind_[a-z_]+", metric.name)
        assert not metric.name.endswith(("_total", "_count", "_sum"))
        assert not metric.unit or metric.name.endswith(f"_{metric.unit}"), metric.name
        assert metric.about.endswith(".")


def test_the_dashboard_asks_for_metrics_that_there_are():
    dashboard = json.loads((ROOT / "deploy" / "grafana" / "crosswind.json").read_text())
    known = {metric.sample_name: metric for metric in METRICS}
    asked = set()
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            expr = target["expr"]
            names = re.findall(r"crosswind_\w+", expr)
            assert names, expr
            for name in names:
                assert name in known, f"{panel['title']}: there is no {name}"
                assert ("rate(" in expr) == (known[name].kind == "counter"), expr
                asked.add(name)
            for label in re.findall(r"by \((\w+)\)", expr):
                labels = {"instance", *(key for key, _ in known[names[0]].samples(reading(1, 1, 1))[0][0].items())}
                assert label in labels, f"{expr}: {names[0]} has no label {label}"
    assert {"crosswind_tuples_total", "crosswind_results_total", "crosswind_worker_busy_seconds_total"} <= asked


# -- through the command line -------------------------------------------------------------------


@pytest.fixture
def job(tmp_path):
    (tmp_path / "r.csv").write_text("x,ts\n1,10\n2,11\n")
    (tmp_path / "s.csv").write_text("a,ts\n1,12\n")
    text = f'[job]\nname = "near"\nengine = "local"\nquery = "{SQL}"\n'
    (tmp_path / "job.toml").write_text(
        f'{text}[streams.R]\npath = "r.csv"\n[streams.S]\npath = "s.csv"\n[sink]\nmemory = "found"\n'
    )
    return str(tmp_path / "job.toml")


def test_logs_are_lines_of_json(job):
    done = CliRunner().invoke(crosswind, ["run", job, "--log", "json", "--ui", "--ui-port", "0", "--metrics-port", "0"])
    assert done.exit_code == 0, done.output
    events = [json.loads(line) for line in done.stderr.splitlines()]
    assert [event["event"] for event in events] == ["page", "metrics", "started", "progress", "ended"]
    assert all(event["job"] == "near" and event["level"] == "info" for event in events)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+\+00:00", events[0]["time"])
    assert events[-1]["results"] == 2
    assert [(stream["name"], stream["tuples"]) for stream in events[-1]["streams"]] == [("R", 2), ("S", 1)]


def test_a_failure_is_in_the_log(job):
    Path(job).write_text(Path(job).read_text().replace("abs(R.x - S.a) <= 1", "R.x * 9223372036854775807 > S.a"))
    done = CliRunner().invoke(crosswind, ["run", job, "--log", "json"])
    assert done.exit_code == 1
    events = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
    assert (events[-1]["event"], events[-1]["level"]) == ("failed", "error")
    assert "64-bit" in events[-1]["error"]


def test_run_says_which_port_is_taken(job):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        for option in ("--ui-port", "--metrics-port"):
            done = CliRunner().invoke(crosswind, ["run", job, "--ui", option, port])
            assert (done.exit_code, f"port {port} is taken" in done.stderr) == (1, True), done.output
