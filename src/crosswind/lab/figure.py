"""What an experiment of the lab leaves behind: one figure or table, ours beside the published one."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from crosswind.lab.verdict import Check, Stated, overall, settled

__all__ = ["SOURCES", "Figure", "Series", "stated", "windows_of"]

SOURCES = {
    "measured": "run and timed or counted on this machine",
    "simulated": "played step by step, with costs that are measured on this machine or counted in clocks",
    "computed": "worked out by a formula, ours or the paper's",
    "published": "stated in the text or a table of the paper",
}
"""Where points can come from."""


@dataclass(frozen=True)
class Series:
    """One line of a plot: points with a label and where they come from.

    Parameters
    ----------
    label : str
        What it shows.
    x, y : tuple of float
        The points.
    source : str
        One of :data:`SOURCES`.
    place : str
        For published points: where in the paper they are.
    """

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    source: str
    place: str = ""

    def __post_init__(self) -> None:
        if self.source not in SOURCES:
            raise ValueError(f"source={self.source!r} of '{self.label}'; allowed: {', '.join(SOURCES)}")
        if (self.source == "published") != bool(self.place):
            raise ValueError(f"'{self.label}' is {self.source}: published points, and no others, have a place")


def stated(label: str, points: Mapping[float, Stated]) -> Series:
    """Return published points as a series."""
    places = list(dict.fromkeys(point.place for point in points.values()))
    values = tuple(point.value for point in points.values())
    return Series(label, tuple(map(float, points)), values, "published", "; ".join(places))


def windows_of(seconds: int) -> str:
    """Return how windows of a length are called.

    Examples
    --------
    >>> windows_of(900), windows_of(20)
    ('15-minute windows', '20-second windows')
    """
    return f"{seconds // 60}-minute windows" if seconds % 60 == 0 else f"{seconds}-second windows"


@dataclass(frozen=True)
class Figure:
    """One figure or table of a paper, reproduced."""

    paper: str  # folder name: "celljoin", "handshake", "fpga", "wjsp", "dpjoin", "beyond"
    name: str  # e.g. "figure-13"
    title: str
    claim: str  # what the paper says the figure shows, in our words
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    checks: tuple[Check, ...]  # what the paper states, held against the numbers of this run
    deviations: str  # what is not as in the paper, and why
    log_x: bool = False
    log_y: bool = False
    notes: tuple[str, ...] = field(default=())
    others: float | None = None  # cores that other programs kept busy meanwhile, where the system tells
    options: str = ""  # what the command was given besides the names

    @property
    def verdict(self) -> str:
        """What the checks come to."""
        return overall(self.checks)

    @property
    def command(self) -> str:
        """The command that makes it again."""
        return f"crosswind lab run {self.paper} {self.name}{self.options}"

    def settled(self, others: float | None, changed: Sequence[str], options: str) -> Figure:
        """Return the figure with what is known after the run; see :func:`crosswind.lab.verdict.settled`."""
        checks = settled(self.checks, others, changed)
        return dataclasses.replace(self, checks=checks, others=others, options=options)
