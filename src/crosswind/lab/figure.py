"""What an experiment of the lab leaves behind: one figure or table, ours beside the published one."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["TWO_WORKERS", "Figure", "Series"]


@dataclass(frozen=True)
class Series:
    """One line of a plot: points with a label and where they come from."""

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    source: str  # "published", "measured" or "simulated"


TWO_WORKERS = 1.5
"""How much more than one worker two must give for it to be called scaling; the caller has no core of its own."""


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
    agrees: str  # what agrees, from the numbers of this run
    differs: str  # what differs and why
    command: str  # the command that makes it again
    log_x: bool = False
    log_y: bool = False
    notes: tuple[str, ...] = field(default=())  # e.g. validation error of a simulation
    holds: bool = True  # whether the numbers of this run show what is claimed

    @property
    def verdict(self) -> str:
        """How what ``agrees`` says is to be introduced."""
        return "Agrees" if self.holds else "Not seen in this run"
