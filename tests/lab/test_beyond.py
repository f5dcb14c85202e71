"""What goes beyond the papers, at tiny sizes."""

from __future__ import annotations

from crosswind.bench.record import Measurement
from crosswind.lab.beyond import figures, published
from crosswind.lab.setting import Setting
from crosswind.lab.size import Checked, Sample


def test_scan_and_index_are_driven_by_window(monkeypatch):
    asked = []
    monkeypatch.setattr(figures, "DrivenJoin", lambda workload, index, _batch: Live(workload, index, asked))
    monkeypatch.setattr(figures, "ns_a_tuple", lambda live, *_: live.cost_ns)
    figure = figures.index_and_scan(figures.measure_costs(Setting(quick=True)))
    assert [series.y for series in figure.series] == [(10.0, 60.0, 300.0), (1.0, 1.0, 1.0)]
    assert asked == [(10, "scan"), (10, "auto"), (60, "scan"), (60, "auto"), (300, "scan"), (300, "auto")]
    assert figure.checks[0].here == "300 times"


class Live:
    """A join that costs as much as its window if it scans."""

    def __init__(self, workload, index, asked):
        seconds = workload.window_us // 1_000_000
        asked.append((seconds, index))
        self.cost_ns = 1e3 * (seconds if index == "scan" else 1)

    def close(self):
        pass


def test_engines_are_raced_and_named(monkeypatch):
    def race(window_s, *_):
        names = {"DuckDB": 3.0, "Polars": 4.0, "crosswind": 2.0}
        made = [Measurement(f"{name}, {window_s} s windows", value * 1e5, "tuples/s") for name, value in names.items()]
        return made, ["a note", "SELECT\nof many lines"]

    monkeypatch.setattr(figures, "race", race)
    figure = figures.engines(figures.measure_engines(Setting(quick=True)))
    assert [series.label for series in figure.series] == ["DuckDB", "Polars", "crosswind"]
    assert [check.here for check in figure.checks] == ["0.667 times", "0.5 times"]
    assert "a note" in figure.notes
    assert not any("\n" in note for note in figure.notes)


def test_what_is_left_out_is_said():
    assert "Flink" in dict(published.NOT_SHOWN)["other-streaming-engines"]


def test_sparks_measurements_are_told_apart():
    names = {
        "60 s windows, Crosswind": "crosswind on Spark",
        "60 s windows, Spark's own join": "Spark's own join, buckets",
    }
    assert {name: figures._spark_name(Measurement(name, 1.0, "")) for name in names} == names
    assert figures._spark_name(Measurement("60 s windows, memory of all processes", 1.0, "GB")) == ""


def test_the_calculator_is_held_against_runs(monkeypatch):
    monkeypatch.setattr(figures, "take_sample", lambda _: Sample(4e-6, 500.0, 50.0, 1e5, 32.0, 0.1))
    monkeypatch.setattr(
        figures, "check_size", lambda *_: [Checked(100, 900.0, 1_000.0), Checked(1_000, 1_500.0, 1_000.0)]
    )
    figure = figures.calculator(figures.measure_calculator(Setting(quick=True)))
    assert [check.here for check in figure.checks] == ["0.9 times", "1.5 times"]
