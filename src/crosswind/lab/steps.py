"""How tuples meet under each strategy, step by step: few tuples, few workers, nothing hidden.

For teaching. The strategies of :mod:`crosswind.engine` in their barest form, one tuple at a time and one step after
the other, so that each step can be drawn: who holds what, who is compared with whom. Windows are those of the
engines: a pair meets iff the later of the two arrives less than a window after the earlier.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from crosswind.errors import InputError
from crosswind.lab.fpga.join import ChipArrivals, Settings
from crosswind.lab.fpga.trace import trace
from crosswind.lab.row_steps import play_handshake, play_messages, play_missed
from crosswind.lab.scene import SCENE, Ledger, Place, Scene, Step, listed, pair_of, qualified

__all__ = ["FAULTY", "STRATEGIES", "steps_of", "told"]

Play = tuple[Callable[[Scene, int], Iterator[Step]], int, str]


# -- CellJoin -------------------------------------------------------------------------------------------------


def _cell(scene: Scene, workers: int) -> Iterator[Step]:
    """CellJoin: every worker compares a new tuple with its share of the other window (section 4.1)."""
    ledger = Ledger(scene)
    windows: dict[str, list[str]] = {"R": [], "S": []}

    def places(lit: Sequence[str] = (), guests: tuple[str, ...] = ()) -> list[Place]:
        shares = {stream: _shares(held, workers) for stream, held in windows.items()}
        return [
            Place(f"worker {k + 1}", 0, k, tuple(shares["R"][k]), tuple(shares["S"][k]), tuple(lit), guests)
            for k in range(workers)
        ]

    for arrival in scene.arrivals:
        ledger.known[arrival.name] = arrival
        for stream, held in windows.items():
            gone = ledger.expired(held, arrival.time)
            if gone:
                windows[stream] = [name for name in held if name not in gone]
                yield ledger.step(f"{listed(gone)} of {stream} expired: the shares are shifted", places())
        other = "S" if arrival.stream == "R" else "R"
        text = f"{arrival.name} (value {arrival.value}) goes to all workers; each compares it with its share of {other}"
        pairs = [pair_of(arrival, name) for name in windows[other]]
        yield ledger.step(text, places([arrival.name, *windows[other]], (arrival.name,)), pairs)
        windows[arrival.stream].insert(0, arrival.name)
        yield ledger.step(f"{arrival.name} joins the window of {arrival.stream}, newest first", places([arrival.name]))


def _shares(held: list[str], workers: int) -> list[list[str]]:
    """Return consecutive shares that differ by one at most, larger ones first (equation 2)."""
    least, more = divmod(len(held), workers)
    shares, start = [], 0
    for k in range(workers):
        stop = start + least + (1 if k < more else 0)
        shares.append(held[start:stop])
        start = stop
    return shares


# -- DP-Join --------------------------------------------------------------------------------------------------


def _grid(scene: Scene, workers: int) -> Iterator[Step]:
    """DP-Join: rows of workers share segments of R, columns segments of S (section III-C)."""
    sides = {"R": workers, "S": workers}
    ledger = Ledger(scene)
    segments: dict[str, list[list[str]]] = {stream: [[] for _ in range(count)] for stream, count in sides.items()}
    turns = {"R": 0, "S": 0}

    def places(lit: Sequence[str] = (), at: tuple[int, int] | None = None) -> list[Place]:
        return [
            Place(
                f"worker {m + 1},{n + 1}",
                m,
                n,
                tuple(segments["R"][m]),
                tuple(segments["S"][n]),
                tuple(lit) if at in (None, (m, n)) else (),
            )
            for m in range(sides["R"])
            for n in range(sides["S"])
        ]

    for arrival in scene.arrivals:
        ledger.known[arrival.name] = arrival
        for stream, parts in segments.items():
            gone = ledger.expired([name for part in parts for name in part], arrival.time)
            if gone:
                segments[stream] = [[name for name in part if name not in gone] for part in parts]
                yield ledger.step(f"{listed(gone)} of {stream} expired", places())
        mine, other = ("R", "S") if arrival.stream == "R" else ("S", "R")
        turn = turns[mine] % sides[mine]
        turns[mine] += 1
        segments[mine][turn].insert(0, arrival.name)
        line = f"row {turn + 1}" if mine == "R" else f"column {turn + 1}"
        for k, segment in enumerate(segments[other]):
            at = (turn, k) if mine == "R" else (k, turn)
            text = (
                f"{arrival.name} (value {arrival.value}) goes to {line}; worker {at[0] + 1},{at[1] + 1} "
                f"compares it with segment {other}-{k + 1}"
            )
            pairs = [pair_of(arrival, name) for name in segment]
            yield ledger.step(text, places([arrival.name, *segment], at), pairs)


# -- SplitJoin ------------------------------------------------------------------------------------------------


def _split(scene: Scene, workers: int) -> Iterator[Step]:
    """SplitJoin: every tuple goes to all workers, and is stored by one of them, in turn; nothing is forwarded."""
    ledger = Ledger(scene)
    held: dict[str, list[list[str]]] = {stream: [[] for _ in range(workers)] for stream in "RS"}
    turns = {"R": 0, "S": 0}

    def places(lit: Sequence[str] = (), guests: tuple[str, ...] = ()) -> list[Place]:
        return [
            Place(f"worker {k + 1}", 0, k, tuple(held["R"][k]), tuple(held["S"][k]), tuple(lit), guests)
            for k in range(workers)
        ]

    for arrival in scene.arrivals:
        ledger.known[arrival.name] = arrival
        for stream, parts in held.items():
            gone = ledger.expired([name for part in parts for name in part], arrival.time)
            if gone:
                held[stream] = [[name for name in part if name not in gone] for part in parts]
                yield ledger.step(f"{listed(gone)} of {stream} expired", places())
        other = [name for part in held["S" if arrival.stream == "R" else "R"] for name in part]
        text = f"{arrival.name} (value {arrival.value}) goes to all workers; each compares it with what it stores"
        pairs = [pair_of(arrival, name) for name in other]
        yield ledger.step(text, places([arrival.name, *other], (arrival.name,)), pairs)
        turn = turns[arrival.stream] % workers
        turns[arrival.stream] += 1
        held[arrival.stream][turn].insert(0, arrival.name)
        yield ledger.step(f"it is the turn of worker {turn + 1} to store {arrival.name}", places([arrival.name]))


# -- the way in -----------------------------------------------------------------------------------------------

STRATEGIES: Mapping[str, Play] = {
    "cell": (_cell, 3, "CellJoin: a new tuple goes to all workers, each of which has a share of the other window"),
    "handshake": (
        play_handshake,
        3,
        "Handshake Join: R walks to the right, S to the left, and who passes shakes hands",
    ),
    "handshake-messages": (
        play_messages,
        2,
        "Handshake Join with messages: what is sent to the left stays as a copy until it is acknowledged",
    ),
    "grid": (_grid, 2, "DP-Join: R is cut up among rows, S among columns; a pair meets where they cross"),
    "splitjoin": (_split, 3, "SplitJoin: every tuple goes to all workers, one of which stores it, in turn"),
}
"""By name: the steps, the workers (of a side, for a grid), and what it is."""

FAULTY: Mapping[str, Play] = {
    "handshake-missed": (
        play_missed,
        2,
        "Handshake Join without copies: tuples that are on their way to each other miss each other",
    ),
}
"""What goes wrong without a mechanism, by name."""

_CHIP = "chip"


def steps_of(strategy: str, scene: Scene = SCENE, workers: int | None = None) -> list[Step]:
    """Return the steps of ``scene`` under a strategy.

    Examples
    --------
    >>> steps_of("cell")[0].text
    'r1 (value 4) goes to all workers; each compares it with its share of S'
    """
    known = {**STRATEGIES, **FAULTY}
    if strategy not in known:
        raise InputError(f"'{strategy}' is no strategy to show; there are: {', '.join([*known, _CHIP])}.")
    play, usual, _ = known[strategy]
    return list(play(scene, workers or usual))


def told(strategy: str, scene: Scene = SCENE, workers: int | None = None) -> Iterator[str]:
    """Yield the steps as text; of ``chip``, clocks of the circuit of two join cores that hold two tuples each."""
    if strategy == _CHIP:
        yield "Handshake Join as a circuit, clock by clock"
        keys = np.array([arrival.value for arrival in scene.arrivals if arrival.stream == "R"][:3])
        yield from trace(ChipArrivals.both(keys, keys[::-1].copy()), Settings(workers or 2, 2), flush=True)
        return
    steps = steps_of(strategy, scene, workers)
    yield {**STRATEGIES, **FAULTY}[strategy][2]
    matched: list[str] = []
    for number, step in enumerate(steps, start=1):
        yield f"\n{number:>3}  {step.text}"
        for place in step.places:
            guests = f"  ({' '.join(place.guests)})" if place.guests else ""
            yield f"       {place.name:<11} R [{' '.join(place.r):<11}]  S [{' '.join(place.s):<11}]{guests}".rstrip()
        if step.met:
            yield "       met: " + ", ".join(f"{r}-{s}{'*' if (r, s) in step.matched else ''}" for r, s in step.met)
        matched += [f"{r}-{s}" for r, s in step.matched]
    met = {pair for step in steps for pair in step.met}
    yield f"\n{len(met)} pairs met, each once; {len(matched)} match (*): {', '.join(matched)}"
    missed = [f"{r}-{s}" for r, s in sorted(qualified(scene) - met)]
    if missed:
        yield f"missed: {', '.join(missed)}"
