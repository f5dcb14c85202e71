"""State that was written once and kept: this version restores it exactly, or refuses it by name (see tests/golden)."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

import crosswind as cw
from crosswind.io.checksum import unseal
from tests.golden import FOLDER, ON_SPARK, QUERIES, batch, feed, make_simulation, open_golden, rows_of, streams
from tests.golden.checkpoint import CHECKPOINTS
from tests.spark.simulation import Committed

NOW, STATE_NOW = 2, 4
"""The formats that this version writes: of snapshots, and of the state of cells on Spark."""

KEPT_CHECKPOINTS = [("inner", 2), *((name, number) for number in range(3, STATE_NOW + 1) for name in CHECKPOINTS)]


def snapshot(number: int, name: str) -> bytes:
    return (FOLDER / f"format-{number}" / f"{name}.snapshot").read_bytes()


def test_every_format_up_to_the_present_one_is_kept():
    kept = {str(path.relative_to(FOLDER)) for path in FOLDER.glob("format-*/*")}
    snapshots = {f"format-{number}/{name}.snapshot" for name in QUERIES for number in range(1, NOW + 1)}
    states = {f"format-{number}/{name}.state.json" for name in ON_SPARK for number in range(1, STATE_NOW + 1)}
    checkpoints = {f"format-{number}/{name}.checkpoint.zip" for name, number in KEPT_CHECKPOINTS}
    assert kept == snapshots | states | checkpoints


@pytest.mark.parametrize("name", QUERIES)
def test_a_snapshot_that_was_kept_gives_what_a_join_gives_that_went_on(name):
    with open_golden(name) as join:
        feed(name, join, 0)
        feed(name, join, 6)
        expected = feed(name, join, 12)
        rest = rows_of(join.finish())
    with open_golden(name, restore=snapshot(NOW, name)) as join:
        assert feed(name, join, 12) == expected
        assert sorted(rows_of(join.finish())) == sorted(rest)
    assert expected or rest


@pytest.mark.parametrize("name", QUERIES)
def test_what_is_written_today_is_of_the_form_that_was_kept(name):
    with open_golden(name) as join:
        feed(name, join, 0)
        feed(name, join, 6)
        assert head(join.snapshot()) == head(snapshot(NOW, name)), "a new form needs a new format number, and is kept"


def head(data: bytes) -> dict[str, Any]:
    """Return the description of a snapshot without what a version of Arrow decides."""
    at = len(b"crosswind snapshot\n") + 8
    content = unseal(data[at : at + int.from_bytes(data[at - 8 : at], "little")], NOW)
    for section in content["sections"]:
        del section["bytes"], section["checksum"]
    return content


@pytest.mark.parametrize("name", QUERIES)
def test_a_snapshot_of_the_first_format_is_refused_by_name(name):
    with pytest.raises(
        cw.SnapshotError, match="the snapshot has format 1, this version reads format 2; restore it with"
    ):
        open_golden(name, restore=snapshot(1, name))


# ---------------------------------------------------------------------------------- on Spark


def simulation_of(number: int, name: str) -> Any:
    """Return a simulated join that goes on from a state that was kept."""
    kept = json.loads((FOLDER / f"format-{number}" / f"{name}.state.json").read_text())
    simulation = make_simulation(name)
    (cell,) = simulation._keys
    state = {part: base64.b64decode(data) for part, data in kept["content"].items()}
    simulation.now = Committed({cell: state}, {})
    simulation.watermark, simulation._highs = kept["watermark"], kept["highs"]
    return simulation


READ = [*((name, STATE_NOW) for name in ON_SPARK), ("inner", 3), ("left", 3)]
"""States that are read: those of the present format, and those before in which there was no snapshot."""


@pytest.mark.parametrize(("name", "number"), READ)
def test_the_state_of_a_cell_that_was_kept_gives_what_a_join_gives_that_went_on(name, number):
    whole, restored = make_simulation(name), simulation_of(number, name)
    for start in (0, 6):
        whole.batch({stream: batch(stream, start) for stream in streams(name)})
    before = len(whole.results)
    for simulation in (whole, restored):
        simulation.batch({stream: batch(stream, 12) for stream in streams(name)})
    whole.results = whole.results[before:]
    assert sorted(rows_of(restored.table())) == sorted(rows_of(whole.table()))
    assert restored.table().num_rows


@pytest.mark.parametrize(
    ("name", "number"),
    [(name, number) for name in ON_SPARK for number in range(1, STATE_NOW) if (name, number) not in READ],
)
def test_the_state_of_a_cell_of_an_older_format_is_refused_by_name(name, number):
    reads = r"format 4 and format 3 of joins without ROWS windows" if number == 3 else "format 4"
    words = rf"another version of Crosswind, in format {number} \(this one reads {reads}\).*new checkpointLocation"
    with pytest.raises(cw.SnapshotError, match=words):
        simulation_of(number, name).batch({stream: batch(stream, 12) for stream in streams(name)})
