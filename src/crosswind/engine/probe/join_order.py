"""Join orders: in which turn windows are searched, chosen from what waits there, and chosen again as that drifts.

The first window of a join order should leave few combinations, for all the others multiply them.
How many a window leaves is its size times the selectivity of the comparisons that can be made
there; both are looked at: sizes as they are, selectivities on samples of the waiting tuples.

Two things hold whatever the samples say. No order takes a step without a condition (a cross product) while one with a
condition is left. And a new order is on trial: the combinations that it really makes are counted, and if they are many
more than the former order would make, that one is taken again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from crosswind.engine.ingest.intake import Intake
from crosswind.plan.compile import Plan
from crosswind.plan.logic import Atom, Formula
from crosswind.plan.probe_steps import plain_order, tied_units
from crosswind.plan.split import Band, Key, Side
from crosswind.plan.terms import Term, units_in
from crosswind.query.tree import Call, Column
from crosswind.window.replicas import Replicas

__all__ = ["JoinOrders", "Work"]

_SAMPLE = 128
_LOOK_EVERY, _LOOK_MAX = 64, 4096
"""Calls between two looks at the windows: twice as many whenever nothing has changed, up to the latter."""

_BETTER = 1.5
"""Another join order is taken if it promises this many times less work: changing costs, too."""

_TRIAL = 16
"""Calls that a new join order is on trial for."""

_WORSE, _MUCH_WORSE = 2.0, 8.0
"""It is taken back if it makes this many times the combinations of the former one, at the end or at any time."""

_BARRED = 64
"""Looks for which a join order that was taken back is not taken again."""

_ALL_WAYS = 6
"""Streams up to which every join order is weighed; with more, the least window is next."""

_UNKNOWN = 0.3


class Work(NamedTuple):
    """What tuples of a unit took: how many came, and how many combinations they have made."""

    tuples: int
    combinations: int

    def since(self, before: Work) -> Work:
        """Return what has come and was made after ``before``."""
        return Work(self.tuples - before.tuples, self.combinations - before.combinations)

    @property
    def width(self) -> float:
        """Combinations for each tuple."""
        return self.combinations / max(1, self.tuples)


@dataclass
class _Trial:
    """New join orders of a unit's tuples: what was there before, and by what its estimates were wrong."""

    former: dict[Term, tuple[int, ...]]
    error: float
    began: Work
    calls: int = 0


class JoinOrders:
    """The join orders of all terms from all their sources.

    Parameters
    ----------
    plan : Plan
        A plan with terms.
    intakes : list of Intake
        Say where tuples keep what.
    windows : tuple of Replicas
        What waits.
    """

    def __init__(self, plan: Plan, intakes: list[Intake], windows: tuple[Replicas, ...]) -> None:
        self._plan = plan
        self._intakes = intakes
        self._windows = windows
        self._linear: dict[Formula, Key | Band] = {}
        for entry in plan.queries:
            self._linear |= {key.atom: key for key in entry.split.keys}
            for band in entry.split.bands:
                self._linear |= dict.fromkeys(band.atoms[:1], band)
        self._known = {atom for entry in plan.queries for band in entry.split.bands for atom in band.atoms[1:]}
        self._chosen: dict[tuple[Term, int], tuple[int, ...]] = {}
        self._has_choice = any(len(term.units) > 2 for term in plan.terms)
        self._calls, self._pause, self._looks = 0, _LOOK_EVERY, 0
        self._seen: list[Work] = [Work(0, 0)] * len(plan.units)
        self._trials: dict[int, _Trial] = {}
        self._barred: dict[tuple[Term, int, tuple[int, ...]], int] = {}
        self.reason = "by the kind of comparison; nothing has been sampled yet"

    def __call__(self, term: Term, source: int) -> tuple[int, ...]:
        """Return the join order of ``term`` from ``source``."""
        return self._chosen.setdefault((term, source), plain_order(term, source))

    def revisit(self, work: Callable[[], list[Work]]) -> bool:
        """Look at the windows now and then; return whether some join order has changed.

        ``work`` tells, by unit, what its tuples have taken so far.
        """
        if not self._has_choice:
            return False
        self._calls += 1
        if self._trials and self._can_sample and self._judge(work()):
            return True
        if self._calls < self._pause:
            return False
        self._calls = 0
        if not self._can_sample:
            return False
        self._looks += 1
        done = work()
        changed = self._choose(done)
        self._seen = done
        self._pause = _LOOK_EVERY if changed else min(_LOOK_MAX, 2 * self._pause)
        return changed

    @property
    def _can_sample(self) -> bool:
        return all(len(window) for window in self._windows)

    def _choose(self, done: list[Work]) -> bool:
        """Choose join orders anew; those that change are on trial."""
        samples = _Samples(self._intakes, self._windows, self._plan)
        shares: dict[Formula, float] = {}
        former: dict[int, dict[Term, tuple[int, ...]]] = {}
        estimates: dict[int, float] = {}
        for (term, source), now in self._chosen.items():
            if len(term.units) < 3:
                continue
            best = self._best(term, source, samples, shares)
            before, after = (self._cost(term, source, order, samples, shares) for order in (now, best))
            estimates[source] = estimates.get(source, 0.0) + before
            if before > _BETTER * after:
                former.setdefault(source, {})[term] = now
                self._chosen[term, source] = best
                self.reason = (
                    f"{self._named(source, best)}: {before / after:.1f} times fewer combinations than before (sampled)"
                )
        for source, ways in former.items():
            measured = done[source].since(self._seen[source])
            error = measured.width / estimates[source] if measured.tuples else 1.0
            self._trials[source] = _Trial(ways, error, done[source])
        return bool(former)

    def _judge(self, done: list[Work]) -> bool:
        """Compare what new join orders make with what the former would; return whether some are taken back."""
        samples = _Samples(self._intakes, self._windows, self._plan)
        shares: dict[Formula, float] = {}
        changed = False
        for source, trial in list(self._trials.items()):
            measured = done[source].since(trial.began)
            trial.calls += 1
            if not measured.tuples:
                continue
            ways = {
                term: order for (term, start), order in self._chosen.items() if start == source and len(term.units) > 2
            }
            costs = (self._cost(t, source, trial.former.get(t, order), samples, shares) for t, order in ways.items())
            expected = trial.error * sum(costs)
            limit = _WORSE if trial.calls >= _TRIAL else _MUCH_WORSE
            if measured.width > limit * (expected + 1):
                self._take_back(source, trial, measured.width / max(expected, 1e-3))
                changed = True
            elif trial.calls >= _TRIAL:
                del self._trials[source]
        return changed

    def _take_back(self, source: int, trial: _Trial, times: float) -> None:
        del self._trials[source]
        for term, order in trial.former.items():
            bad = self._chosen[term, source]
            self._barred[term, source, bad] = self._looks + _BARRED
            self._chosen[term, source] = order
            self.reason = (
                f"{self._named(source, order)} again: {self._named(source, bad)} made {times:.1f} times as many "
                "combinations (measured)"
            )

    def _named(self, source: int, order: tuple[int, ...]) -> str:
        return " > ".join(self._plan.units[unit].stream.alias for unit in (source, *order))

    def ways(self) -> dict[str, str]:
        """Return, by alias, the join orders of its tuples."""
        made: dict[str, dict[str, None]] = {unit.stream.alias: {} for unit in self._plan.units}
        for (_, source), order in self._chosen.items():
            text = " > ".join(self._plan.units[unit].stream.alias for unit in order)
            made[self._plan.units[source].stream.alias][text] = None
        return {alias: "; ".join(texts) for alias, texts in made.items()}

    def _best(self, term: Term, source: int, samples: _Samples, shares: dict[Formula, float]) -> tuple[int, ...]:
        rest = [unit for unit in term.units if unit != source]
        if len(rest) < _ALL_WAYS:
            known = [order for order in _ways(term, {source}, rest) if not self._is_barred(term, source, order)]
            known = known or [self._chosen[term, source]]
            return min(known, key=lambda order: self._cost(term, source, order, samples, shares))
        order: list[int] = []
        while rest:
            tied = tied_units(term, {source, *order}, rest)
            chosen = min(tied, key=lambda unit: self._cost(term, source, (*order, unit), samples, shares))
            order.append(chosen)
            rest.remove(chosen)
        made = tuple(order)
        return self._chosen[term, source] if self._is_barred(term, source, made) else made

    def _is_barred(self, term: Term, source: int, order: tuple[int, ...]) -> bool:
        return self._barred.get((term, source, order), 0) > self._looks

    def _cost(
        self, term: Term, source: int, order: tuple[int, ...], samples: _Samples, shares: dict[Formula, float]
    ) -> float:
        """Return how many combinations a tuple makes."""
        joined, total, many = {source}, 0.0, 1.0
        left = list(term.parts)
        for unit in order:
            joined.add(unit)
            ready = [part for part in left if units_in(part) <= joined]
            left = [part for part in left if part not in ready]
            many *= len(self._windows[unit])
            for part in ready:
                if part not in shares:
                    shares[part] = self._share(part, samples)
                many *= shares[part]
            total += many
        return max(total, 1e-9)

    def _share(self, part: Formula, samples: _Samples) -> float:
        """Return which share of pairs satisfies ``part``."""
        if part in self._known:  # the other half of a band
            return 1.0
        form = self._linear.get(part)
        if form is not None:
            values = [samples.side(side) for side in (form.left, form.right)]
            if values[0] is not None and values[1] is not None:
                with np.errstate(invalid="ignore", over="ignore"):  # an infinity less another is no number
                    gap = values[0][:, None] - values[1][None, :]
                if isinstance(form, Key):
                    return float(max((gap == float(form.offset)).mean(), 0.5 / gap.size))
                inside = np.ones(gap.shape, dtype=np.bool_)
                inside &= True if form.low is None else gap >= float(form.low)
                inside &= True if form.high is None else gap <= float(form.high)
                return float(max(inside.mean(), 0.5 / gap.size))
        equal = isinstance(part, Atom) and isinstance(part.expr, Call) and part.expr.op == "eq"
        return 0.01 if equal else _UNKNOWN


def _ways(term: Term, joined: set[int], rest: list[int]) -> Iterator[tuple[int, ...]]:
    """Yield the join orders of ``rest``: no step without a condition while one with a condition is left."""
    if not rest:
        yield ()
    for unit in tied_units(term, joined, rest) if rest else ():
        for order in _ways(term, joined | {unit}, [other for other in rest if other != unit]):
            yield (unit, *order)


class _Samples:
    """Some of the waiting tuples, by unit."""

    def __init__(self, intakes: list[Intake], windows: tuple[Replicas, ...], plan: Plan) -> None:
        self._intakes = intakes
        self._windows = windows
        self._plan = plan

    def side(self, side: Side) -> npt.NDArray[np.float64] | None:
        """Return the values of a linear combination of columns; None: it is not that easy."""
        slots = self._plan.units[side.role].slots
        total: npt.NDArray[np.float64] = np.zeros(1)
        for expr, coefficient in side.terms:
            if not isinstance(expr, Column) or expr not in slots:
                return None
            vector = self._windows[side.role].sample(self._intakes[side.role].slot_at[slots.index(expr)], _SAMPLE)
            if vector.values.dtype.kind not in "iuf" or len(vector) != len(vector.values):
                return None
            values = vector.values.astype(np.float64)
            if vector.valid is not None:
                values = np.where(vector.valid != 0, values, np.nan)
            with np.errstate(invalid="ignore", over="ignore"):
                total = total + float(coefficient) * values
        return total
