"""What the step views are made of: tuples that come, workers that hold them, steps in which they meet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

__all__ = ["SCENE", "Ledger", "Place", "Scene", "SceneArrival", "Step", "listed", "pair_of", "qualified"]


@dataclass(frozen=True)
class SceneArrival:
    """A tuple: its name, its stream (R or S), when it comes, and the value that it is joined by."""

    name: str
    stream: str
    time: int
    value: int


@dataclass(frozen=True)
class Scene:
    """What is played: arrivals in order of time, the length of both windows, and how near values must be to match."""

    arrivals: tuple[SceneArrival, ...]
    window: int
    near: int = 1


SCENE = Scene(
    tuple(
        SceneArrival(f"{stream.lower()}{number}", stream, time, value)
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
class Ledger:
    """Who waits, who has met; makes steps of it."""

    scene: Scene
    known: dict[str, SceneArrival] = field(default_factory=dict)

    def step(self, text: str, places: Sequence[Place], met: Sequence[tuple[str, str]] = ()) -> Step:
        """Return a step; pairs are given as (R, S)."""
        near = [(r, s) for r, s in met if abs(self.known[r].value - self.known[s].value) <= self.scene.near]
        return Step(text, tuple(places), tuple(met), tuple(near))

    def expired(self, names: Sequence[str], now: int) -> list[str]:
        """Return which of ``names`` no tuple from ``now`` on can meet."""
        return [name for name in names if now - self.known[name].time >= self.scene.window]


def pair_of(arrival: SceneArrival, other: str) -> tuple[str, str]:
    """Return an arrival and a tuple of the other stream as (R, S)."""
    return (arrival.name, other) if arrival.stream == "R" else (other, arrival.name)


def listed(names: Sequence[str]) -> str:
    """Return names as one text."""
    return ", ".join(names)


def qualified(scene: Scene) -> set[tuple[str, str]]:
    """Return the pairs that must meet, by the definition of a window join."""
    of = {stream: [a for a in scene.arrivals if a.stream == stream] for stream in "RS"}
    return {(r.name, s.name) for r in of["R"] for s in of["S"] if abs(r.time - s.time) < scene.window}
