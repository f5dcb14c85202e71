"""The papers of the lab: one explicit list, and the way to each paper's folder."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from crosswind.errors import InputError
from crosswind.lab.citations import BIBTEX
from crosswind.lab.figure import Figure
from crosswind.lab.setting import Experiment, Setting

__all__ = ["PAPERS", "Paper", "papers_here", "the_paper"]


@dataclass(frozen=True)
class Paper:
    """A paper, and the folder in which its experiments are.

    Parameters
    ----------
    folder : str
        Its name on the command line, and of the package below ``crosswind.lab``.
    title : str
        Short title.
    reference : str
        Authors, title, place and year.
    """

    folder: str
    title: str
    reference: str

    @property
    def is_here(self) -> bool:
        """Whether its folder is part of this installation."""
        return importlib.util.find_spec(f"crosswind.lab.{self.folder}") is not None

    @property
    def claim(self) -> str:
        """What the paper claims, in our words."""
        return (self._module("").__doc__ or "").strip()

    @property
    def not_shown(self) -> tuple[tuple[str, str], ...]:
        """Figures and tables that software cannot show, with the reason."""
        return tuple(self._module("published").NOT_SHOWN)

    @property
    def experiments(self) -> Mapping[str, Experiment[Any]]:
        """The experiments, by the name of their figure."""
        return dict(self._module("figures").EXPERIMENTS)

    @property
    def bibtex(self) -> str:
        """The citation in full; empty for what is no paper."""
        return BIBTEX.get(self.folder, "")

    def run(self, setting: Setting, only: str) -> Figure:
        """Run the experiment whose figure is called ``only``."""
        experiments = self.experiments
        if only not in experiments:
            raise InputError(f"'{only}' is no figure of {self.folder}; there are: {', '.join(experiments)}.")
        return experiments[only].run(setting)

    def _module(self, name: str) -> Any:
        return importlib.import_module(f"crosswind.lab.{self.folder}" + (f".{name}" if name else ""))


PAPERS = (
    Paper(
        "celljoin",
        "CellJoin",
        "Gedik, Yu, Bordawekar: Executing Stream Joins on the Cell Processor. VLDB 2007",
    ),
    Paper(
        "handshake",
        "Handshake Join",
        "Teubner, Mueller: How Soccer Players Would do Stream Joins. SIGMOD 2011",
    ),
    Paper(
        "fpga",
        "Handshake Join in hardware",
        "Oge, Miyoshi, Kawashima, Yoshinaga: An Implementation of Handshake Join on FPGA. ICNC 2011",
    ),
    Paper(
        "wjsp",
        "WJSP",
        "Qian, Wang, Chen, Chen, Jin: Hardware Processor for Window Joins over Multiple Data Streams (in Chinese). "
        "Acta Electronica Sinica 2009",
    ),
    Paper(
        "dpjoin",
        "DP-Join",
        "Buono, De Matteis, Mencagli: A High-Throughput and Low-Latency Parallelization of Window-based Stream Joins "
        "on Multicores. ISPA 2014",
    ),
    Paper(
        "beyond",
        "Beyond the papers",
        "What the papers do not ask: indexes, other engines, and a calculator that is checked against runs",
    ),
)
"""All papers of the lab, in the order of the report."""


def papers_here() -> list[Paper]:
    """Return the papers whose folders are there."""
    return [paper for paper in PAPERS if paper.is_here]


def the_paper(folder: str) -> Paper:
    """Return the paper in ``folder``."""
    found = next((paper for paper in papers_here() if paper.folder == folder), None)
    if found is None:
        allowed = ", ".join(paper.folder for paper in papers_here())
        raise InputError(f"the lab has no paper '{folder}'; there are: {allowed}.")
    return found
