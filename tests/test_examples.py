"""The jobs in examples/, over the data that they make, in this process; their results are checked by hand."""

from __future__ import annotations

import importlib.util
import json
import math
import random
from datetime import timedelta
from pathlib import Path
from types import ModuleType

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from crosswind.cli.main import crosswind
from crosswind.testing import assert_same_rows

EXAMPLES = Path(__file__).parent.parent / "examples"


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a copy of examples/jobs with its data, and the module that made it."""
    made = tmp_path_factory.mktemp("jobs")
    for file in (EXAMPLES / "jobs").iterdir():
        if file.is_file():
            (made / file.name).write_bytes(file.read_bytes())
    maker = load(made / "make_data.py")
    maker.main()
    return made


def run(path: Path) -> dict[str, int]:
    checked = CliRunner().invoke(crosswind, ["check", str(path)])
    assert checked.exit_code == 0, checked.output
    done = CliRunner().invoke(crosswind, ["run", "--json", str(path)])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def rows(folder: Path, name: str) -> list[dict]:
    return pq.read_table(folder / "data" / f"{name}.parquet").to_pylist()


def test_taxis_and_riders(folder):
    assert run(folder / "taxis.toml")["results"] > 20
    found = [json.loads(line) for line in (folder / "data" / "offers.jsonl").read_text().splitlines()]
    expected = {
        (rider["rider"], taxi["taxi"])
        for rider in rows(folder, "riders")
        for taxi in rows(folder, "taxis")
        if math.hypot(rider["x"] - taxi["x"], rider["y"] - taxi["y"]) <= 250 and taxi["free"]
        if -timedelta(seconds=20) < taxi["ts"] - rider["ts"] < timedelta(minutes=2)
    }
    assert {(row["rider"], row["taxi"]) for row in found} == expected


def test_orders_without_payments(folder):
    run(folder / "unpaid.toml")
    streams = load(folder / "make_data.py")
    chance = random.Random(7)
    streams.taxis(chance)
    made = streams.orders(chance)
    paid = {payment["order_id"]: payment["ts"] for payment in made["payments"]}
    unpaid = [
        {"id": order["id"]}
        for order in made["orders"]
        if not timedelta(0) <= paid.get(order["id"], order["ts"] - timedelta(1)) - order["ts"] < timedelta(minutes=15)
    ]
    found = [{"id": int(line.split(",")[0])} for line in (folder / "data" / "unpaid.csv").read_text().splitlines()[1:]]
    assert len(found) > 5
    assert_same_rows(found, unpaid)


def test_three_sensors(folder):
    results = run(folder / "sensors.toml")["results"]
    short = timedelta(seconds=2)
    expected = [
        (t["ts"], v["ts"], p["ts"])
        for t in rows(folder, "temperature")
        if t["value"] > 30
        for v in rows(folder, "vibration")
        if abs(t["value"] - v["value"]) <= 1.5 and abs(t["ts"] - v["ts"]) < short
        for p in rows(folder, "power")
        if abs(v["value"] - p["value"]) <= 1.5
        if max(t["ts"], v["ts"], p["ts"]) - min(t["ts"], v["ts"], p["ts"]) < short
    ]
    assert results == len(expected) > 0


def test_the_logs_can_be_sent_and_their_job_is_in_order(tmp_path, monkeypatch):
    pytest.importorskip("kafka", reason="kafka-python is not installed")
    sent = load(EXAMPLES / "log_correlation" / "produce.py").messages()
    assert len(sent["gateway"]) == 600
    assert 30 < len(sent["errors"]) < 90
    (tmp_path / "data").mkdir()
    (tmp_path / "connector.jar").touch()
    (tmp_path / "job.toml").write_bytes((EXAMPLES / "log_correlation" / "job.toml").read_bytes())
    monkeypatch.setenv("KAFKA_SERVERS", "localhost:9092")
    monkeypatch.setenv("KAFKA_JARS", str(tmp_path))
    checked = CliRunner().invoke(crosswind, ["check", str(tmp_path / "job.toml")])
    assert checked.exit_code == 0, checked.output
    assert "topic errors at localhost:9092" in checked.output
