"""How tuples meet under each strategy, step by step: few tuples, few workers, nothing hidden.

For teaching. The strategies of :mod:`crosswind.engine` in their barest form, one tuple at a time and one step after
the other, so that each step can be drawn: who holds what, who is compared with whom. Windows are those of the
engines: a pair meets iff the later of the two arrives less than a window after the earlier.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from crosswind.errors import InputError

__all__ = ["SCENE", "STRATEGIES", "Arrival", "Place", "Scene", "Step", "qualified", "steps_of", "told"]


@dataclass(frozen=True)
class Arrival:
    """A tuple: its name, its stream (R or S), when it comes, and the value that it is joined by."""

    name: str
    stream: str
    time: int
    value: int


@dataclass(frozen=True)
class Scene:
    """What is played: arrivals in order of time, the length of both windows, and how near values must be to match."""

    arrivals: tuple[Arrival, ...]
    window: int
    near: int = 1


SCENE = Scene(
    tuple(
        Arrival(f"{stream.lower()}{number}", stream, time, value)
        for stream, number, time, value in (
            ("R", 1, 0, 4),
            ("S", 1, 1, 5),
            ("R", 2, 2, 9),
            ("S", 2, 3, 2),
            ("R", 3, 4, 2),
            ("S", 3, 5, 8),
            ("R", 4, 6, 5),
            ("S", 4, 7, 4),
            ("R", 5, 8, 7),
            ("S", 5, 9, 9),
            ("R", 6, 10, 1),
            ("S", 6, 11, 6),
        )
    ),
    window=8,
)
"""Twelve tuples; enough for some to expire."""


@dataclass(frozen=True)
class Place:
    """A worker: where it stands, what it holds of each stream, which of these have just been touched, and guests.

    Guests are tuples that are compared here without being held here.
    """

    name: str
    row: int
    column: int
    r: tuple[str, ...]
    s: tuple[str, ...]
    lit: tuple[str, ...] = ()
    guests: tuple[str, ...] = ()


@dataclass(frozen=True)
class Step:
    """One step: what happens, who holds what after it, and who is compared with whom."""

    text: str
    places: tuple[Place, ...]
    met: tuple[tuple[str, str], ...] = ()
    matched: tuple[tuple[str, str], ...] = ()


@dataclass
class _Ledger:
    """Who waits, who has met; makes steps of it."""

    scene: Scene
    known: dict[str, Arrival] = field(default_factory=dict)

    def step(self, text: str, places: Sequence[Place], met: Sequence[tuple[str, str]] = ()) -> Step:
        """Return a step; pairs are given as (R, S)."""
        near = [(r, s) for r, s in met if abs(self.known[r].value - self.known[s].value) <= self.scene.near]
        return Step(text, tuple(places), tuple(met), tuple(near))

    def expired(self, names: Sequence[str], now: int) -> list[str]:
        """Return which of ``names`` no tuple from ``now`` on can meet."""
        return [name for name in names if now - self.known[name].time >= self.scene.window]


def _pair(arrival: Arrival, other: str) -> tuple[str, str]:
    return (arrival.name, other) if arrival.stream == "R" else (other, arrival.name)


# -- CellJoin -------------------------------------------------------------------------------------------------


def _cell(scene: Scene, workers: int) -> Iterator[Step]:
    """CellJoin: every worker compares a new tuple with its share of the other window (section 4.1)."""
    ledger = _Ledger(scene)
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
                yield ledger.step(f"{_listed(gone)} of {stream} expired: the shares are shifted", places())
        other = "S" if arrival.stream == "R" else "R"
        text = f"{arrival.name} (value {arrival.value}) goes to all workers; each compares it with its share of {other}"
        pairs = [_pair(arrival, name) for name in windows[other]]
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


# -- Handshake Join -------------------------------------------------------------------------------------------


class _Row:
    """Workers in a row; R walks to the right, S to the left."""

    def __init__(self, ledger: _Ledger, workers: int) -> None:
        self._ledger = ledger
        self._held: dict[str, list[list[str]]] = {stream: [[] for _ in range(workers)] for stream in "RS"}
        self._last = workers - 1

    def places(self, lit: Sequence[str] = ()) -> list[Place]:
        """Return the row; newest tuples are nearest to where they come from."""
        r, s = self._held["R"], self._held["S"]
        return [Place(f"worker {k + 1}", 0, k, tuple(r[k]), tuple(reversed(s[k])), tuple(lit)) for k in range(len(r))]

    def enter(self, stream: str, name: str, at: int, text: str) -> Step:
        """Let a tuple come to a worker, and meet what is there of the other stream (immediate scan, section 3.5)."""
        other = self._held["S" if stream == "R" else "R"][at]
        pairs = [(name, s) if stream == "R" else (s, name) for s in other]
        self._held[stream][at].insert(0, name)
        return self._ledger.step(text, self.places([name, *other]), pairs)

    def arrive(self, arrival: Arrival) -> Step:
        """Let a tuple enter at its end."""
        at = 0 if arrival.stream == "R" else self._last
        text = f"{arrival.name} (value {arrival.value}) enters at worker {at + 1} and meets who is there"
        return self.enter(arrival.stream, arrival.name, at, text)

    def balance(self) -> Iterator[Step]:
        """Forward the oldest tuple wherever a worker holds more than its next neighbour (section 4.3)."""
        moved = True
        while moved:
            moved = False
            for stream, way in (("R", 1), ("S", -1)):
                held = self._held[stream]
                for at in range(self._last + 1) if way > 0 else range(self._last, -1, -1):
                    to = at + way
                    if 0 <= to <= self._last and len(held[at]) > len(held[to]) + 1:
                        yield self._forward(stream, at, to, "it has more tuples than its neighbour")
                        moved = True

    def expire(self, now: int) -> Iterator[Step]:
        """Send what has expired to the far end, meeting who it has not met yet, and let it go (section 4.4)."""
        for stream, way in (("R", 1), ("S", -1)):
            end = self._last if way > 0 else 0
            for name in self._ledger.expired([name for held in self._held[stream] for name in held], now):
                yield from self._walk(stream, name, way, "its window has ended")
                self._held[stream][end].remove(name)
                yield self._ledger.step(f"{name} leaves the row: it has expired", self.places())

    def finish(self) -> Iterator[Step]:
        """Let everybody meet who has not yet: R walks on to the end."""
        for held in reversed(range(self._last + 1)):
            for name in reversed(list(self._held["R"][held])):
                yield from self._walk("R", name, 1, "the streams have ended")

    def _walk(self, stream: str, name: str, way: int, why: str) -> Iterator[Step]:
        at = next(k for k, held in enumerate(self._held[stream]) if name in held)
        while 0 <= at + way <= self._last:
            yield self._forward(stream, at, at + way, why, name)
            at += way

    def _forward(self, stream: str, at: int, to: int, why: str, name: str | None = None) -> Step:
        name = name or self._held[stream][at][-1]
        self._held[stream][at].remove(name)
        return self.enter(stream, name, to, f"worker {at + 1} sends {name} on to worker {to + 1}: {why}")


def _handshake(scene: Scene, workers: int) -> Iterator[Step]:
    """Handshake Join: two streams walk past each other along a row of workers."""
    ledger = _Ledger(scene)
    row = _Row(ledger, workers)
    for arrival in scene.arrivals:
        ledger.known[arrival.name] = arrival
        yield from row.expire(arrival.time)
        yield row.arrive(arrival)
        yield from row.balance()
    yield from row.finish()


# -- DP-Join --------------------------------------------------------------------------------------------------


def _grid(scene: Scene, workers: int) -> Iterator[Step]:
    """DP-Join: rows of workers share segments of R, columns segments of S (section III-C)."""
    sides = {"R": workers, "S": workers}
    ledger = _Ledger(scene)
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
                yield ledger.step(f"{_listed(gone)} of {stream} expired", places())
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
            pairs = [_pair(arrival, name) for name in segment]
            yield ledger.step(text, places([arrival.name, *segment], at), pairs)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names)


# -- the way in -----------------------------------------------------------------------------------------------

STRATEGIES: Mapping[str, tuple[Callable[[Scene, int], Iterator[Step]], int, str]] = {
    "cell": (_cell, 3, "CellJoin: a new tuple goes to all workers, each of which has a share of the other window"),
    "handshake": (_handshake, 3, "Handshake Join: R walks to the right, S to the left, and who passes shakes hands"),
    "grid": (_grid, 2, "DP-Join: R is cut up among rows, S among columns; a pair meets where they cross"),
}
"""By name: the steps, the workers (of a side, for a grid), and what it is."""


def steps_of(strategy: str, scene: Scene = SCENE, workers: int | None = None) -> list[Step]:
    """Return the steps of ``scene`` under a strategy.

    Examples
    --------
    >>> steps_of("cell")[0].text
    'r1 (value 4) goes to all workers; each compares it with its share of S'
    """
    if strategy not in STRATEGIES:
        raise InputError(f"'{strategy}' is no strategy to show; there are: {', '.join(STRATEGIES)}.")
    play, usual, _ = STRATEGIES[strategy]
    return list(play(scene, workers or usual))


def qualified(scene: Scene) -> set[tuple[str, str]]:
    """Return the pairs that must meet, by the definition of a window join."""
    of = {stream: [a for a in scene.arrivals if a.stream == stream] for stream in "RS"}
    return {(r.name, s.name) for r in of["R"] for s in of["S"] if abs(r.time - s.time) < scene.window}


def told(strategy: str, scene: Scene = SCENE, workers: int | None = None) -> Iterator[str]:
    """Yield the steps as text."""
    steps = steps_of(strategy, scene, workers)
    yield STRATEGIES[strategy][2]
    matched: list[str] = []
    for number, step in enumerate(steps, start=1):
        yield f"\n{number:>3}  {step.text}"
        for place in step.places:
            yield f"       {place.name:<11} R [{' '.join(place.r):<11}]  S [{' '.join(place.s):<11}]".rstrip()
        if step.met:
            yield "       met: " + ", ".join(f"{r}-{s}{'*' if (r, s) in step.matched else ''}" for r, s in step.met)
        matched += [f"{r}-{s}" for r, s in step.matched]
    met = sum(len(step.met) for step in steps)
    yield f"\n{met} pairs met, each once; {len(matched)} match (*): {', '.join(matched)}"
