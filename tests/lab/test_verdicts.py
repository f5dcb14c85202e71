"""Verdicts: computed from stated tolerances, for every figure, and able to fail."""

from __future__ import annotations

import dataclasses

import pytest

from crosswind.lab import setting
from crosswind.lab.beyond import figures as beyond
from crosswind.lab.celljoin import figures as celljoin
from crosswind.lab.dpjoin import figures as dpjoin
from crosswind.lab.figure import SOURCES, Series, stated
from crosswind.lab.fpga import figures as fpga
from crosswind.lab.handshake import figures as handshake
from crosswind.lab.noise import Others
from crosswind.lab.papers import papers_here
from crosswind.lab.setting import Experiment, Setting
from crosswind.lab.verdict import (
    AGREES,
    DIFFERS,
    ERROR_MAX,
    NOT_COMPARABLE,
    OTHERS_MAX,
    TIMED,
    VERDICTS,
    Check,
    Stated,
    compare,
    not_comparable,
    overall,
    rising,
    settled,
)
from crosswind.lab.wjsp import figures as wjsp
from tests.lab.numbers import AGREE, CONTRADICT

PAPERS = {"celljoin": celljoin, "handshake": handshake, "fpga": fpga, "wjsp": wjsp, "dpjoin": dpjoin, "beyond": beyond}
EXPERIMENTS = {(paper, name): found for paper, module in PAPERS.items() for name, found in module.EXPERIMENTS.items()}
FIGURES = list(EXPERIMENTS)

FROM_THE_TEXT = (
    "the formula at 1,000 tuples/s and 15-minute windows",
    "load with eight cores to that of CellJoin, by the rates in the text",
    "equation 3 at 2,100 tuples/s, 300 s and a hit rate of 3.6e-6",
)
"""Checks of published numbers against each other: no number of a run is in them."""


def test_every_figure_has_numbers_of_both_kinds():
    assert [(paper.folder, name) for paper in papers_here() for name in paper.experiments] == FIGURES
    assert set(FIGURES) == set(AGREE) == set(CONTRADICT)


@pytest.mark.parametrize("key", FIGURES, ids="-".join)
def test_numbers_that_agree_are_said_to(key):
    figure = EXPERIMENTS[key].draw(AGREE[key])
    assert (figure.paper, figure.name) == key
    assert figure.checks
    assert {check.verdict for check in figure.checks} == {AGREES}, [c for c in figure.checks if c.verdict != AGREES]
    assert figure.verdict == AGREES


@pytest.mark.parametrize("key", FIGURES, ids="-".join)
def test_numbers_that_contradict_a_figure_are_said_to(key):
    """Not one check of the figure agrees, but those that no number of a run is in."""
    figure = EXPERIMENTS[key].draw(CONTRADICT[key])
    kept = [check for check in figure.checks if check.verdict == AGREES and not check.claim.startswith(FROM_THE_TEXT)]
    assert not kept
    assert figure.verdict == DIFFERS


@pytest.mark.parametrize("key", FIGURES, ids="-".join)
def test_every_check_states_what_it_asks_and_where_it_was_published(key):
    figure = EXPERIMENTS[key].draw(AGREE[key])
    for check in figure.checks:
        assert check.claim
        assert check.tolerance
        assert bool(check.published) == bool(check.place), check
    for series in figure.series:
        assert series.source in SOURCES
        assert (series.source == "published") == bool(series.place)
        assert len(series.x) == len(series.y)


@pytest.mark.parametrize("key", FIGURES, ids="-".join)
def test_a_noisy_machine_has_no_verdict_on_what_was_timed(key):
    figure = EXPERIMENTS[key].draw(CONTRADICT[key])
    noisy = figure.settled(2 * OTHERS_MAX, (), "")
    for before, after in zip(figure.checks, noisy.checks, strict=True):
        assert after.verdict == (NOT_COMPARABLE if before.timed else before.verdict)
    assert figure.settled(OTHERS_MAX / 2, (), "").checks == figure.checks


# -- one check --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "given", "verdict"),
    [
        (1.0, {"low": 0.5, "high": 2.0}, AGREES),
        (3.0, {"low": 0.5, "high": 2.0}, DIFFERS),
        (0.4, {"low": 0.5}, DIFFERS),
        (0.5, {"low": 0.5}, AGREES),
        (0.5, {"high": 0.4}, DIFFERS),
        (1.05, {"low": 1.0, "spread": 0.1}, NOT_COMPARABLE),
        (1.2, {"low": 1.0, "spread": 0.1}, AGREES),
        (0.8, {"low": 1.0, "spread": 0.1}, DIFFERS),
        (1.05, {"low": 1.0, "timed": True}, NOT_COMPARABLE),
        (-1.0, {"low": -1.2, "high": -0.9, "spread": 0.05}, AGREES),
        (-1.0, {"low": 0.0, "spread": 0.05}, DIFFERS),
        (8.0, {"low": 5.0, "errors": [0.1, -0.2]}, AGREES),
        (8.0, {"low": 7.0, "errors": [0.1, -0.2]}, NOT_COMPARABLE),
        (8.0, {"low": 50.0, "errors": [0.1, -0.2]}, DIFFERS),
        (8.0, {"low": 5.0, "errors": [0.1, -0.74]}, NOT_COMPARABLE),
        (8.0, {"low": 50.0, "errors": [ERROR_MAX * 1.01]}, NOT_COMPARABLE),
        (None, {"low": 5.0, "missing": "nobody looked"}, NOT_COMPARABLE),
    ],
)
def test_a_value_is_inside_its_tolerance_or_outside_or_too_near(value, given, verdict):
    check = compare("it is so", value, **given)
    assert check.verdict == verdict
    assert bool(check.why) == (verdict == NOT_COMPARABLE)


def test_a_check_says_what_was_published_and_where():
    check = compare("it is so", 3.0, low=1.0, high=2_000.0, published=Stated(2.5, "section 7", "it is 2.5"), unit=" s")
    assert (check.published, check.place, check.here, check.tolerance) == ("2.5 s", "section 7", "3 s", "1 to 2,000 s")
    assert compare("so", 3.0, high=4.0, unit=" ms").tolerance == "at most 4 ms"
    assert "74%" in compare("so", 3.0, high=4.0, errors=[-0.74]).why
    assert f"{TIMED:.0%}" in compare("so", 1.0, low=1.0, timed=True).why
    assert not_comparable("so", "no chip", published=Stated(1.0, "Table 9", "one")).place == "Table 9"


def test_a_figure_differs_if_one_check_does():
    checks = {verdict: Check("", "", "", "", "", verdict) for verdict in VERDICTS}
    assert overall(checks.values()) == DIFFERS
    assert overall([checks[AGREES], checks[AGREES], checks[NOT_COMPARABLE]]) == AGREES
    assert overall([checks[AGREES], checks[NOT_COMPARABLE]]) == NOT_COMPARABLE
    assert overall([checks[NOT_COMPARABLE]]) == overall([]) == NOT_COMPARABLE


def test_settings_that_are_not_the_papers_are_not_comparable_with_it():
    ours, theirs = compare("ours", 1.0, low=0.5), compare("theirs", 1.0, low=0.5, published="1", place="section 1")
    assert [c.verdict for c in settled((ours, theirs), None, ["--rate 7"])] == [AGREES, NOT_COMPARABLE]
    assert "--rate 7" in settled((theirs,), None, ["--rate 7"])[0].why


def test_rising_is_the_least_step():
    assert rising([1.0, 2.0, 3.0]) == 1.5
    assert rising([2.0, 1.0]) == 0.5
    assert rising([2.0]) == 1.0


# -- what surrounds a check ---------------------------------------------------------------------------


def test_points_say_where_they_come_from():
    with pytest.raises(ValueError, match="allowed: measured, simulated, computed, published"):
        Series("it", (1.0,), (1.0,), "guessed")
    for source, place in (("published", ""), ("measured", "section 1")):
        with pytest.raises(ValueError, match="published points, and no others, have a place"):
            Series("it", (1.0,), (1.0,), source, place)
    made = stated("it", {8: Stated(1.0, "section 1", "one"), 9: Stated(2.0, "section 1", "two")})
    assert made == Series("it", (8.0, 9.0), (1.0, 2.0), "published", "section 1")


def test_an_experiment_refuses_options_that_it_does_not_take():
    figure = EXPERIMENTS["fpga", "cores"].draw(AGREE["fpga", "cores"])
    asked = []
    experiment = Experiment(asked.append, lambda _: figure, ("cores", "seed"))
    made = experiment.run(Setting(quick=True, cores=(2, 4), seed=3))
    assert made.command == "crosswind lab run fpga cores --quick --cores 2,4 --seed 3"
    assert [check.verdict for check in made.checks if check.place] == [NOT_COMPARABLE]
    with pytest.raises(Exception, match="--rate is not an option of this figure; its options are: --cores, --seed"):
        experiment.run(Setting(rate=5))
    experiment.run(Setting(quick=True, cores=(2, 4), seed=3))
    assert len(asked) == 1  # what was measured is kept


def test_what_others_do_is_counted(monkeypatch):
    from crosswind.lab import noise

    clock = {"busy": 10.0, "own": 1.0, "now": 0.0}
    monkeypatch.setattr(noise, "_busy_s", lambda: clock["busy"])
    monkeypatch.setattr(noise, "_own_s", lambda: clock["own"])
    monkeypatch.setattr(noise.time, "monotonic", lambda: clock["now"])
    others = Others()
    clock.update(busy=16.0, own=4.0, now=2.0)
    assert others.cores() == 1.5
    clock["busy"] = None
    assert others.cores() is None
    clock["busy"] = 10.0
    soon = Others()
    clock.update(busy=10.1, now=2.1)
    assert soon.cores() is None  # hundredths of a second tell nothing of a tenth


def test_a_figure_of_what_was_measured_before_is_as_noisy_as_that_was(monkeypatch):
    monkeypatch.setattr(setting, "_busiest", [])
    assert setting._most(None) is None
    assert [setting._most(value) for value in (0.1, 0.7, None, 0.2)] == [0.1, 0.7, 0.7, 0.7]


def test_the_settings_of_a_run_are_those_of_the_command_line():
    assert Setting().options == ""
    assert Setting(quick=True, buffers=(8, 4), seed=2).options == " --quick --buffers 8,4 --seed 2"
    assert Setting(seed=2).changed == ()
    assert {field.name for field in dataclasses.fields(Setting)} > {"rate", "window", "workers", "seed"}
