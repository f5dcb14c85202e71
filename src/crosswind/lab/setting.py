"""How an experiment is run: quickly or at full size, with the paper's settings or with others."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Generic, TypeVar

from crosswind.errors import InputError
from crosswind.lab.figure import Figure
from crosswind.lab.noise import Others

__all__ = ["OPTIONS", "Experiment", "Setting"]

T = TypeVar("T")

OPTIONS = {
    "rate": "tuples/s of each stream",
    "window": "length of both windows, seconds; of the longest window in ticks, for the processor",
    "workers": "workers that are run for real",
    "cores": "join cores of a chip, or join units of a processor",
    "segment": "tuples of a stream that a join core holds",
    "buffers": "places in the buffer of a join core and of a merger",
    "seed": "seed of what is drawn at random",
}
"""What can be set, where an experiment takes it."""


@dataclass(frozen=True)
class Setting:
    """How an experiment is run. What is None is as in the paper.

    Parameters
    ----------
    quick : bool
        Small sizes.
    rate, window, workers, cores, segment, buffers
        See :data:`OPTIONS`.
    seed : int
        Of what is drawn at random.
    """

    quick: bool = False
    rate: int | None = None
    window: int | None = None
    workers: tuple[int, ...] | None = None
    cores: tuple[int, ...] | None = None
    segment: int | None = None
    buffers: tuple[int, int] | None = None
    seed: int = 1

    @property
    def given(self) -> dict[str, Any]:
        """What is set and not as usual, by name."""
        return {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.name != "quick" and getattr(self, field.name) != field.default
        }

    @property
    def changed(self) -> tuple[str, ...]:
        """What is not as in the paper, as on the command line."""
        return tuple(_spelt(name, value) for name, value in self.given.items() if name != "seed")

    @property
    def options(self) -> str:
        """All that is set, as on the command line."""
        said = ["--quick"] if self.quick else []
        return "".join(f" {text}" for text in [*said, *(_spelt(name, value) for name, value in self.given.items())])


def _spelt(name: str, value: Any) -> str:
    return f"--{name} {','.join(map(str, value)) if isinstance(value, tuple) else value}"


class Experiment(Generic[T]):
    """An experiment: what it measures, and the figure that is drawn and judged from that alone.

    The two are apart so that a test can feed a figure numbers that contradict its paper.

    Parameters
    ----------
    measure : callable
        Runs it, and returns what was found. What two experiments share is run once.
    draw : callable
        Makes the figure of what was found.
    takes : tuple of str
        Options that ``measure`` heeds.
    """

    def __init__(self, measure: Callable[[Setting], T], draw: Callable[[T], Figure], takes: tuple[str, ...] = ()):
        self.measure = _once(measure)
        self.draw, self.takes = draw, takes

    def run(self, setting: Setting) -> Figure:
        """Run it; refuse options that it does not take."""
        for name in setting.given:
            if name not in self.takes:
                known = ", ".join(f"--{option}" for option in self.takes) or "none"
                raise InputError(f"--{name} is not an option of this figure; its options are: {known}.")
        others = Others()
        figure = self.draw(self.measure(setting))
        return figure.settled(_most(others.cores()), setting.changed, setting.options)


@lru_cache(maxsize=64)
def _once(measure: Callable[[Setting], T]) -> Callable[[Setting], T]:
    """Return ``measure`` such that it runs once per setting, whichever experiments ask for it."""
    return lru_cache(maxsize=4)(measure)


_busiest: list[float] = []


def _most(others: float | None) -> float | None:
    """Return the most that others were busy so far: a figure may use what was measured for an earlier one."""
    if others is not None:
        _busiest.append(others)
    return max(_busiest, default=None)
