"""What a benchmark returns: measurements with their goals and ratios, and how runs are interleaved."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["BenchReport", "Goal", "Measurement", "Tell", "interleave", "measured_in", "median"]

Tell = Callable[[str], None]
"""Takes a line about what is being done now, for whoever watches. Never called while a clock runs."""


@dataclass(frozen=True)
class Goal:
    """What is asked of a measurement.

    Parameters
    ----------
    value : float
        The bound that must hold.
    at_least : bool
        Whether more is better.
    aim : float, optional
        What would be better still.
    """

    value: float
    at_least: bool = True
    aim: float | None = None

    def is_met(self, value: float) -> bool:
        """Whether ``value`` is on the right side."""
        return value >= self.value if self.at_least else value <= self.value


@dataclass(frozen=True)
class Measurement:
    """One figure.

    Parameters
    ----------
    name : str
        What was measured.
    value : float or None
        The figure (the median, if there are runs); None if it could not be measured.
    unit : str
        Its unit.
    goal : Goal, optional
        What is asked of it. Left out where the sizes are not those that the goal is about.
    runs : tuple of float
        What ``value`` is the median of.
    ratio : float, optional
        ``value`` relative to the measurement named by ``ratio_to``.
    ratio_to : str
        Name of that measurement.
    note : str
        Anything else that a reader should know.
    """

    name: str
    value: float | None
    unit: str
    goal: Goal | None = None
    runs: tuple[float, ...] = ()
    ratio: float | None = None
    ratio_to: str = ""
    note: str = ""

    @property
    def holds(self) -> bool | None:
        """Whether the goal is met; None without a goal or without a figure."""
        return None if self.goal is None or self.value is None else self.goal.is_met(self.value)

    def against(self, other: Measurement) -> Measurement:
        """Return this with the ratio to ``other``."""
        if self.value is None or not other.value:
            return self
        return dataclasses.replace(self, ratio=self.value / other.value, ratio_to=other.name)

    def as_json(self) -> dict[str, Any]:
        """Return it as what ``json.dumps`` takes."""
        return {**dataclasses.asdict(self), "holds": self.holds}


@dataclass(frozen=True)
class BenchReport:
    """The outcome of one benchmark.

    Parameters
    ----------
    name : str
        The benchmark.
    title : str
        What it measures, in a line.
    settings : mapping of str to Any
        The sizes it ran with.
    measurements : list of Measurement
        The figures.
    notes : list of str
        What holds for all of them: what was left out and why, the code of competitors.
    """

    name: str
    title: str
    settings: Mapping[str, Any]
    measurements: list[Measurement]
    notes: list[str] = field(default_factory=list)

    def __getitem__(self, name: str) -> Measurement:
        """Return the measurement called ``name``."""
        return next(m for m in self.measurements if m.name == name)

    def as_json(self) -> dict[str, Any]:
        """Return it as what ``json.dumps`` takes."""
        return {
            "benchmark": self.name,
            "title": self.title,
            "settings": dict(self.settings),
            "measurements": [m.as_json() for m in self.measurements],
            "notes": self.notes,
        }


def interleave(tasks: Mapping[str, Callable[[], float]], rounds: int, tell: Tell) -> dict[str, list[float]]:
    """Run every task once a round, in turns, and return what each returned.

    A machine's speed drifts, and neighbours come and go: tasks that alternate share good and bad
    times. Every other round goes backwards, so that none always follows the same one.
    """
    runs: dict[str, list[float]] = {name: [] for name in tasks}
    for number in range(rounds):
        names = list(tasks) if number % 2 == 0 else list(tasks)[::-1]
        for name in names:
            tell(f"round {number + 1} of {rounds}: {name}")
            runs[name].append(tasks[name]())
    return runs


def median(values: list[float]) -> float | None:
    """Return the median, None of nothing."""
    return statistics.median(values) if values else None


def measured_in(runs: list[float], name: str, unit: str, goal: Goal | None = None, note: str = "") -> Measurement:
    """Return the measurement that is the median of ``runs``."""
    return Measurement(name, median(runs), unit, goal, tuple(runs), note=note)
