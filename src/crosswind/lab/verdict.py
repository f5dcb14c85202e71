"""Verdicts: what a paper says, what a run gives, and whether the two agree by a tolerance that is stated beforehand.

A check *agrees* or *differs* when its value, give or take what it may be off by, lies inside or outside the tolerance.
Everything else is *not comparable here*, with the reason: the value lies too near to the limit, a simulation misses the
real engine where both can be run, other programs took the processor while something was timed, or the run had other
settings than the paper.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

__all__ = [
    "AGREES",
    "DIFFERS",
    "ERROR_MAX",
    "NOT_COMPARABLE",
    "OTHERS_MAX",
    "TIMED",
    "VERDICTS",
    "Check",
    "Stated",
    "compare",
    "not_comparable",
    "overall",
    "rising",
    "settled",
]

AGREES, DIFFERS, NOT_COMPARABLE = "agrees", "differs", "not comparable here"
VERDICTS = (AGREES, DIFFERS, NOT_COMPARABLE)

ERROR_MAX = 0.25
"""A simulation that misses the real engine by more than this at one or two workers says nothing about more."""

OTHERS_MAX = 0.2
"""Cores that other programs may keep busy while something is timed."""

TIMED = 0.1
"""What a value that was timed may be off by from run to run, as a share of it."""


@dataclass(frozen=True)
class Stated:
    """A number of a paper: its value, its place in the paper, and the words of the text around it."""

    value: float
    place: str
    words: str

    @property
    def told(self) -> str:
        """The value, as short as it can be written."""
        return f"{self.value:,.6g}"


@dataclass(frozen=True)
class Check:
    """One statement of a paper, held against the numbers of a run.

    Parameters
    ----------
    claim : str
        What the paper states, in our words.
    place : str
        Where it states it; empty if the statement is ours.
    published : str
        The published value; empty if the paper gives none.
    here : str
        The value of this run.
    tolerance : str
        When the two agree.
    verdict : str
        One of :data:`VERDICTS`.
    why : str
        Why the two cannot be compared.
    timed : bool
        Whether the value was timed here, so that other programs disturb it.
    """

    claim: str
    place: str
    published: str
    here: str
    tolerance: str
    verdict: str
    why: str = ""
    timed: bool = False


def compare(
    claim: str,
    value: float | None,
    *,
    low: float | None = None,
    high: float | None = None,
    published: Stated | str = "",
    place: str = "",
    unit: str = "",
    spread: float = 0.0,
    timed: bool = False,
    errors: Sequence[float] | None = None,
    missing: str = "",
) -> Check:
    """Hold a value of this run against its tolerance.

    Parameters
    ----------
    claim : str
        What the paper states.
    value : float or None
        What this run gives; None: nothing, for the reason ``missing``.
    low, high : float, optional
        The tolerance: the least and the greatest value that agree.
    published : Stated or str
        What the paper gives.
    place : str
        Where, if ``published`` does not say it.
    unit : str
        Written behind values.
    spread : float
        What the value may be off by, as a share of it.
    timed : bool
        Whether it was timed: then ``spread`` is at least :data:`TIMED`.
    errors : sequence of float, optional
        For a simulated value: by what share the simulation misses the real engine where both were run.
    missing : str
        Why there is no value.
    """
    given = f"{published.told}{unit}" if isinstance(published, Stated) else published
    place = published.place if isinstance(published, Stated) else place
    told = _told(value, unit)
    allowed = _tolerance(low, high, unit)
    if value is None:
        return Check(claim, place, given, told, allowed, NOT_COMPARABLE, missing, timed)
    worst = max(map(abs, errors), default=0.0) if errors is not None else 0.0
    if worst > ERROR_MAX:
        why = (
            f"the simulation misses the real engine by {worst:.0%} at one or two workers, and {ERROR_MAX:.0%} is the "
            "most that is allowed"
        )
        return Check(claim, place, given, told, allowed, NOT_COMPARABLE, why, timed)
    off = max(spread, worst, TIMED if timed else 0.0)
    ends = sorted((value * (1 - off), value * (1 + off)))
    inside = [(low is None or end >= low) and (high is None or end <= high) for end in ends]
    beyond = (low is not None and ends[1] < low) or (high is not None and ends[0] > high)
    verdict = AGREES if all(inside) else DIFFERS if beyond else NOT_COMPARABLE
    near = f"too near to the limit: the value may be off by {off:.0%}" if verdict == NOT_COMPARABLE else ""
    return Check(claim, place, given, told, allowed, verdict, near, timed)


def rising(values: Sequence[float]) -> float:
    """Return the least ratio of a value to the one before it: 1 or more, if they never fall."""
    return min((b / a for a, b in pairwise(values)), default=1.0)


def not_comparable(claim: str, why: str, *, published: Stated | str = "", place: str = "", here: str = "") -> Check:
    """Return a check that this machine cannot make, with the reason."""
    given = published.told if isinstance(published, Stated) else published
    place = published.place if isinstance(published, Stated) else place
    return Check(claim, place, given, here, "", NOT_COMPARABLE, why)


def overall(checks: Iterable[Check]) -> str:
    """Return the verdict of a figure: it differs if a check does, and agrees if more of the others do than are open."""
    found = [check.verdict for check in checks]
    if DIFFERS in found:
        return DIFFERS
    return AGREES if found.count(AGREES) > found.count(NOT_COMPARABLE) else NOT_COMPARABLE


def settled(checks: Iterable[Check], others: float | None, changed: Sequence[str] = ()) -> tuple[Check, ...]:
    """Return checks with what is known after the run: how busy others were, and settings that are not the paper's."""
    made = []
    for check in checks:
        why = ""
        if check.timed and others is not None and others > OTHERS_MAX and check.verdict != NOT_COMPARABLE:
            why = (
                f"the machine was too noisy: other programs kept {others:.2f} cores busy, and {OTHERS_MAX:g} is the "
                "most that is allowed"
            )
        if check.place and changed:
            why = f"run with settings that are not the paper's: {', '.join(changed)}"
        made.append(dataclasses.replace(check, verdict=NOT_COMPARABLE, why=why) if why else check)
    return tuple(made)


def _told(value: float | None, unit: str) -> str:
    if value is None:
        return "none"
    return f"{value:,.0f}{unit}" if abs(value) >= 1_000 else f"{value:.3g}{unit}"


def _tolerance(low: float | None, high: float | None, unit: str) -> str:
    if low is not None and high is not None:
        return f"{_told(low, '')} to {_told(high, unit)}"
    if low is not None:
        return f"at least {_told(low, unit)}"
    return f"at most {_told(high, unit)}" if high is not None else ""
