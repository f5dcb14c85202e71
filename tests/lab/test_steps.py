"""The step views: whatever the strategy, the pairs that must meet do, once, and a view shows what it says."""

from __future__ import annotations

import json
import re

import pytest
from click.testing import CliRunner

from crosswind.cli.main import crosswind
from crosswind.lab.scene import SCENE, Scene, SceneArrival, qualified
from crosswind.lab.steps import FAULTY, STRATEGIES, steps_of, told
from crosswind.lab.theatre import theatre
from tests import seeds


def random_scene(seed: int) -> Scene:
    rng = seeds.chance(seed)
    counts, arrivals, time = {"R": 0, "S": 0}, [], 0
    for _ in range(rng.randint(1, 30)):
        stream = rng.choice("RS")
        counts[stream] += 1
        arrivals.append(SceneArrival(f"{stream.lower()}{counts[stream]}", stream, time, rng.randint(0, 9)))
        time += rng.randint(1, 3)
    return Scene(tuple(arrivals), rng.randint(1, 20))


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("seed", range(30))
def test_pairs_that_must_meet_do_once(strategy, seed):
    scene = random_scene(seed)
    workers = 1 + seed % 4
    met = [pair for step in steps_of(strategy, scene, workers) for pair in step.met]
    assert sorted(met) == sorted(qualified(scene)), f"seed {seed}, {workers} workers"


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_pairs_meet_where_both_are(strategy):
    for step in steps_of(strategy):
        for r, s in step.met:
            assert any({r, s} <= {*place.r, *place.s, *place.guests} for place in step.places), (
                f"{r}-{s} in: {step.text}"
            )


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_results_are_the_pairs_that_are_near(strategy):
    values = {arrival.name: arrival.value for arrival in SCENE.arrivals}
    matched = {pair for step in steps_of(strategy) for pair in step.matched}
    assert matched == {(r, s) for r, s in qualified(SCENE) if abs(values[r] - values[s]) <= SCENE.near}
    assert matched


def test_copies_are_kept_until_they_are_acknowledged():
    """And what R sends meets them, before the acknowledgment that follows it in the same queue."""
    for workers in (2, 3, 4):
        kept: list[str] = []
        for step in steps_of("handshake-messages", workers=workers):
            if "keeps a copy" in step.text:
                kept += [part.split(" sends ")[1].split(" ")[0] for part in step.text.split("; ") if "keeps" in part]
            if "drops its copy" in step.text:
                kept.remove(step.text.split("acknowledgment of ")[1].split(" ")[0])
            assert sorted(kept) == sorted(guest for place in step.places for guest in place.guests)
        assert not kept


def test_without_copies_tuples_that_are_under_way_miss_each_other():
    steps = steps_of("handshake-missed")
    met = [pair for step in steps for pair in step.met]
    assert len(met) == len(set(met))
    missed = qualified(SCENE) - set(met)
    assert missed
    sent = [step.text for step in steps if step.text.startswith("sent at the same time")]
    for r, s in missed:  # they were sent towards each other
        assert any(f"sends {r} " in text and f"sends {s} " in text for text in sent)
    assert f"missed: {', '.join(f'{r}-{s}' for r, s in sorted(missed))}" in list(told("handshake-missed"))


def test_splitjoin_forwards_nothing():
    for name in (arrival.name for arrival in SCENE.arrivals):
        at = {
            k for step in steps_of("splitjoin") for k, place in enumerate(step.places) if name in (*place.r, *place.s)
        }
        assert len(at) == 1


def test_the_chip_is_shown_clock_by_clock():
    lines = list(told("chip"))
    assert lines[1].startswith("clock 0: cores in state 0")
    assert any("compares" in line for line in lines)


def test_the_row_meets_later_than_the_others():
    """In a row a pair may meet long after both have come; elsewhere the later one meets at once."""
    late = [step for step in steps_of("handshake") if step.met and " enters " not in step.text]
    assert late
    assert all("goes to" in step.text for name in ("cell", "grid", "splitjoin") for step in steps_of(name) if step.met)


def test_show_tells_steps_as_text():
    done = CliRunner().invoke(crosswind, ["lab", "show", "handshake", "--workers", "2"])
    assert done.exit_code == 0, done.output
    assert "  1  r1 (value 4) enters at worker 1 and meets who is there" in done.output
    assert f"{len(qualified(SCENE))} pairs met, each once" in done.output
    wrong = CliRunner().invoke(crosswind, ["lab", "show", "kang"])
    assert wrong.exit_code == 1
    assert "there are: cell, handshake, handshake-messages, grid, splitjoin, handshake-missed, chip" in wrong.output


def test_the_theatre_holds_all_steps():
    found = re.findall(r'<script type="application/json">(.*?)</script>', theatre(), re.DOTALL)
    assert [len(json.loads(text)["steps"]) for text in found] == [
        len(steps_of(name)) for name in (*STRATEGIES, *FAULTY)
    ]
