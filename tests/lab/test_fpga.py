"""The handshake join circuit: exact at every size, loses nothing, and is fast and slow where the paper says so."""

from __future__ import annotations

import itertools
import runpy
from pathlib import Path

import numpy as np
import pytest

import crosswind as cw
from crosswind.lab.fpga import circuit
from crosswind.lab.fpga import figures as fpga_figures
from crosswind.lab.fpga.figures import EXPERIMENTS
from crosswind.lab.fpga.join import ChipArrivals, ChipJoin, ChipOutcome, Settings, run
from crosswind.lab.fpga.nested import run_nested
from crosswind.lab.fpga.runs import FULL, LONG, NESTED, NESTED_SHORT, SHORT, crossing
from crosswind.lab.fpga.trace import trace
from crosswind.lab.fpga.workload import matching
from crosswind.lab.setting import Setting
from crosswind.lab.wjsp import figures as wjsp_figures
from tests import seeds


def random_arrivals(rng: np.random.Generator, count: int, values: int, share: float = 0.8) -> ChipArrivals:
    """Each arrival brings a tuple of R with probability ``share``, one of S likewise."""
    keys = rng.integers(0, values, (2, count))
    return ChipArrivals(keys[0], keys[1], rng.random(count) < share, rng.random(count) < share)


def taken(arrivals: ChipArrivals, outcome: ChipOutcome) -> ChipArrivals:
    inside = outcome.taken_at >= 0
    return ChipArrivals(arrivals.r, arrivals.s, arrivals.r_here & inside, arrivals.s_here & inside)


def window_join(arrivals: ChipArrivals, window: int) -> list[tuple[int, int]]:
    """Kang's three steps, straight: a tuple meets the last ``window`` of the other stream; R comes first."""
    found = []
    for row in range(len(arrivals.r)):
        if arrivals.r_here[row]:
            held = np.flatnonzero(arrivals.s_here[:row])[-window:]
            found += [(row, s) for s in held[arrivals.s[held] == arrivals.r[row]].tolist()]
        if arrivals.s_here[row]:
            held = np.flatnonzero(arrivals.r_here[: row + 1])[-window:]
            found += [(r, row) for r in held[arrivals.r[held] == arrivals.s[row]].tolist()]
    return sorted(found)


def met_so_far(arrivals: ChipArrivals, cores: int, segment: int) -> set[tuple[int, int]]:
    """Which pairs were in one core at some time, from the places that the tuples have after each arrival."""
    found, rs, ss = set(), [], []
    for row in range(len(arrivals.r)):
        for stream, here in ((rs, arrivals.r_here), (ss, arrivals.s_here)):
            if not here[row]:
                continue
            stream.append(row)
            r_core = {r: (len(rs) - 1 - k) // segment for k, r in enumerate(rs)}
            s_core = {s: cores - 1 - (len(ss) - 1 - k) // segment for k, s in enumerate(ss)}
            found |= {
                (r, s)
                for r, at in r_core.items()
                for s, other in s_core.items()
                if at == other and at < cores and arrivals.r[r] == arrivals.s[s]
            }
    return found


def pairs(outcome: ChipOutcome) -> list[tuple[int, int]]:
    """Return results as pairs of arrivals, in order; one that came twice is there twice."""
    return sorted(map(tuple, outcome.results[:, :2].tolist()))


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("cores", [1, 2, 3, 4, 5, 8, 16, 32, 64, 128])
def test_the_circuit_is_the_window_join_at_every_size(cores, alone):
    for seed, values in enumerate((1, 2, 7, 40)):
        rng = seeds.numbers(*(cores, seed))
        settings = Settings(cores, segment=int(rng.integers(1, 9)), alone=alone)
        arrivals = random_arrivals(
            rng, min(3 * settings.window, 300 if values > 1 else 100), values, share=float(rng.uniform(0.3, 1))
        )
        outcome = run(arrivals, settings, flush=True)
        assert outcome.lost == 0
        assert outcome.dropped == 0
        assert pairs(outcome) == window_join(arrivals, settings.window), (cores, seed, settings)


@pytest.mark.parametrize("interval", [1, 9, 21, 60])
@pytest.mark.parametrize("cores", [2, 8, 64])
def test_what_comes_too_fast_is_dropped_and_counted_and_the_rest_is_joined_exactly(cores, interval):
    for values in (2, 50):
        rng = seeds.numbers(*(cores, interval, values))
        arrivals = random_arrivals(rng, 300, values)
        outcome = run(arrivals, Settings(cores), interval=interval, flush=True)
        there = int(arrivals.r_here.sum() + arrivals.s_here.sum())
        assert outcome.tuples + outcome.dropped == there
        if interval < 21 or outcome.suspended == 0:
            assert (outcome.dropped > 0) == (interval < 21)
        assert pairs(outcome) == window_join(taken(arrivals, outcome), Settings(cores).window)


@pytest.mark.parametrize("cores", [1, 2, 4, 8])
def test_without_a_flush_the_results_are_those_of_tuples_that_have_been_in_one_core(cores):
    rng = seeds.numbers(cores)
    arrivals = random_arrivals(rng, 60, 3)
    outcome = run(arrivals, Settings(cores, segment=3))
    assert pairs(outcome) == sorted(met_so_far(arrivals, cores, 3))


@pytest.mark.parametrize("buffers", [(2, 2), (2, 4), (8, 2), (8, 4), (32, 16)])
def test_small_buffers_lose_nothing(buffers):
    rng = seeds.numbers(buffers)
    arrivals = random_arrivals(rng, 120, 1)
    outcome = run(arrivals, Settings(16, 4, *buffers), flush=True)
    assert outcome.lost == 0
    assert pairs(outcome) == window_join(arrivals, 64)


def test_the_nested_loop_design_gives_the_same_results():
    for seed, values in enumerate((1, 5, 60)):
        rng = seeds.numbers(seed)
        arrivals = random_arrivals(rng, 300, values)
        assert pairs(run_nested(arrivals, 32)) == window_join(arrivals, 32)


def test_an_arrival_without_results_takes_the_clocks_of_figure_4():
    """1, 2, 3, 4, then 5 for each place, 6, and 7 for each place; 5 or 7 is left out where nothing came."""
    keys = np.arange(20)
    here, none = np.ones(20, bool), np.zeros(20, bool)
    for r_here, s_here, clocks in ((here, here, 21), (here, none, 13), (none, here, 13)):
        outcome = run(ChipArrivals(keys, -1 - keys, r_here, s_here), Settings(4))
        assert set(np.diff(outcome.taken_at)) == {clocks}


def test_cores_and_mergers_go_through_the_states_of_figures_4_and_6():
    arrows = {0: {1}, 1: {1, 2}, 2: {3}, 3: {4}, 4: {5, 6}, 5: {5, 6}, 6: {7, 1}, 7: {7, 1}}
    rng = seeds.numbers(3)
    join = ChipJoin(random_arrivals(rng, 80, 2, share=0.5), Settings(4, 4))
    seen, done = set(), False
    while not done:
        before, merger, held = join.circuit.core[0].copy(), join.circuit.merger.copy(), join.count(circuit.SUSPENDED)
        done = join.tick()
        after = join.circuit.core[0]
        assert len(set(after)) == 1, "cores run in lock step"
        if not done and join.count(circuit.SUSPENDED) == held:
            seen.add((int(before[0]), int(after[0])))
        if not done:
            assert [(int(m) % 3) + 1 if m else 1 for m in merger[1:]] == list(join.circuit.merger[1:])
    assert seen == {(a, b) for a, to in arrows.items() for b in to}


def test_cores_stand_still_while_a_buffer_is_full():
    join = ChipJoin(ChipArrivals.both(np.zeros(40, int), np.zeros(40, int)), Settings(8))
    stood, done = 0, False
    while not done:
        before = join.circuit.core.copy(), join.circuit.window.copy(), join.count(circuit.NEXT)
        full = bool((join.circuit.queue[1, 1:] > join.circuit.queue[2, 1:] - 2).any())
        done = join.tick()
        if full and not done:
            stood += 1
            assert (before[0] == join.circuit.core).all()
            assert (before[1] == join.circuit.window).all()
            assert before[2] == join.count(circuit.NEXT)
    assert stood == join.count(circuit.SUSPENDED) > 0


@pytest.mark.parametrize("wrong", [{"cores": 0}, {"segment": 0}, {"core_buffer": 1}, {"merger_buffer": 1}])
def test_a_circuit_that_cannot_be_is_refused(wrong):
    with pytest.raises(cw.UnsupportedError, match=r"must be at least \d, got \d"):
        Settings(**wrong)


def test_the_trace_tells_of_states_comparisons_buffers_and_results():
    arrivals = ChipArrivals.both(np.array([1, 2, 1]), np.array([1, 1, 2]))
    told = list(trace(arrivals, Settings(2, 2), flush=True))
    assert told[0].startswith("clock 0: cores in state 0 (reset)")
    assert "clock 1: cores in state 1 (ready), arrival 0 is admitted: R 1 and S 1" in told[1]
    assert any("compares R 2 = S 2" in text for text in told)
    out = [line for text in told for line in text.splitlines() if line.startswith("  output")]
    assert len(out) == len(window_join(arrivals, 4))
    crowded = ChipArrivals.both(np.zeros(12, int), np.zeros(12, int))
    assert any("held up: a buffer is almost full" in text for text in trace(crowded, Settings(4, 2, 2, 2)))
    assert len(list(trace(crowded, clocks=7))) == 7


def test_a_match_rate_is_the_share_of_pairs():
    for rate in (0.0, 0.04, 0.25, 1.0):
        arrivals = matching(100, rate, 1)
        assert np.mean(arrivals.r[:, None] == arrivals.s[None, :]) == pytest.approx(rate)


def test_where_lines_cross():
    assert crossing([0, 1, 2], [4, 2, 1], [1, 1, 2]) == pytest.approx(1.5)
    assert crossing([0, 1], [2, 2], [1, 1]) is None
    assert crossing([0, 1], [1, 1], [2, 2]) == 0


def test_figure_13_holds():
    """Ten times the input of the nested loop at 0 %, less than it at 100 %, falling in between."""
    lines = {line.label: line for line in EXPERIMENTS["figure-13"].run(Setting(quick=True)).series}
    for cores, nested in ((SHORT, NESTED_SHORT), (LONG, NESTED_SHORT), (FULL, NESTED)):
        ours, theirs = lines[cores].y, lines[nested].y
        assert ours[0] >= 10 * theirs[0]
        assert all(a >= b for a, b in itertools.pairwise(ours))
        assert (ours[-1] < theirs[-1]) == (cores != SHORT)


def test_a_core_more_is_a_clock_less():
    """The table of Teubner and Mueller, up to the clocks in which no place is compared."""
    theirs, ours = (line.y for line in EXPERIMENTS["clock-500k"].run(Setting(quick=True)).series)
    assert ours == pytest.approx([mhz + 1.25 for mhz in theirs], rel=0.01)


@pytest.mark.long
@pytest.mark.parametrize("module", [fpga_figures, wjsp_figures])
def test_every_figure_can_be_made(module):
    made = [experiment.run(Setting(quick=True)) for experiment in module.EXPERIMENTS.values()]
    assert [figure.name for figure in made] == list(module.EXPERIMENTS)
    assert all(len(line.x) == len(line.y) > 0 for figure in made for line in figure.series)
    assert all(figure.claim and figure.checks and figure.deviations for figure in made)


def test_the_example_shows_both_machines(capsys):
    runpy.run_path(str(Path(__file__).parents[2] / "examples" / "join_on_a_chip.py"))["main"]()
    printed = capsys.readouterr().out
    assert "compares" in printed
    assert printed.count("0 lost") == 4
    assert "64 units a stream" in printed
