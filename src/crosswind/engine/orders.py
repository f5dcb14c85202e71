"""Which way tuples go through the windows: chosen from what waits there, and chosen again as that drifts.

The first window of a route should leave few combinations, for all the others multiply them.
How many a window leaves is its size times the selectivity of the comparisons that can be made
there; both are looked at: sizes as they are, selectivities on samples of the waiting tuples.
"""

from __future__ import annotations

from itertools import permutations

import numpy as np
import numpy.typing as npt

from crosswind.engine.intake import Intake
from crosswind.plan.compile import Plan
from crosswind.plan.hops import plain_order
from crosswind.plan.logic import Atom, Formula
from crosswind.plan.split import Band, Key, Side
from crosswind.plan.terms import Term, units_in
from crosswind.query.tree import Call, Column
from crosswind.window.replicas import Replicas

__all__ = ["Orders"]

_SAMPLE = 128
_LOOK_EVERY, _LOOK_MAX = 64, 4096
"""Calls between two looks at the windows: twice as many whenever nothing has changed, up to the latter."""

_BETTER = 1.5
"""Another way is taken if it promises this many times less work: changing costs, too."""

_ALL_WAYS = 6
"""Streams up to which every way is weighed; with more, one goes to the least window next."""

_UNKNOWN = 0.3


class Orders:
    """The ways of all terms from all their sources.

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
        self._calls, self._pause = 0, _LOOK_EVERY
        self.reason = "by the kind of comparison; nothing has been sampled yet"

    def __call__(self, term: Term, source: int) -> tuple[int, ...]:
        """Return the way of ``term`` from ``source``."""
        return self._chosen.setdefault((term, source), plain_order(term, source))

    def revisit(self) -> bool:
        """Look at the windows now and then; return whether some way has changed."""
        self._calls += 1
        if self._calls < self._pause or all(len(term.units) < 3 for term in self._plan.terms):
            return False
        self._calls = 0
        if not all(len(window) for window in self._windows):
            return False
        samples = _Samples(self._intakes, self._windows, self._plan)
        shares: dict[Formula, float] = {}
        changed = False
        for (term, source), now in self._chosen.items():
            if len(term.units) < 3:
                continue
            best = self._best(term, source, samples, shares)
            before, after = (self._cost(term, source, way, samples, shares) for way in (now, best))
            if before > _BETTER * after:
                self._chosen[term, source] = best
                changed = True
                names = [self._plan.units[unit].stream.alias for unit in (source, *best)]
                self.reason = (
                    f"{' > '.join(names)}: {before / after:.1f} times fewer combinations than before (sampled)"
                )
        self._pause = _LOOK_EVERY if changed else min(_LOOK_MAX, 2 * self._pause)
        return changed

    def ways(self) -> dict[str, str]:
        """Return, by alias, the ways that its tuples go."""
        made: dict[str, dict[str, None]] = {unit.stream.alias: {} for unit in self._plan.units}
        for (_, source), way in self._chosen.items():
            text = " > ".join(self._plan.units[unit].stream.alias for unit in way)
            made[self._plan.units[source].stream.alias][text] = None
        return {alias: "; ".join(texts) for alias, texts in made.items()}

    def _best(self, term: Term, source: int, samples: _Samples, shares: dict[Formula, float]) -> tuple[int, ...]:
        rest = [unit for unit in term.units if unit != source]
        if len(rest) < _ALL_WAYS:
            return min(permutations(rest), key=lambda way: self._cost(term, source, way, samples, shares))
        way: list[int] = []
        while rest:
            chosen = min(rest, key=lambda unit: self._cost(term, source, (*way, unit), samples, shares))
            way.append(chosen)
            rest.remove(chosen)
        return tuple(way)

    def _cost(
        self, term: Term, source: int, way: tuple[int, ...], samples: _Samples, shares: dict[Formula, float]
    ) -> float:
        """Return how many combinations a tuple makes on its way."""
        joined, total, many = {source}, 0.0, 1.0
        left = list(term.parts)
        for unit in way:
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
                gap = values[0][:, None] - values[1][None, :]
                if isinstance(form, Key):
                    return float(max((gap == float(form.offset)).mean(), 0.5 / gap.size))
                inside = np.ones(gap.shape, dtype=np.bool_)
                inside &= True if form.low is None else gap >= float(form.low)
                inside &= True if form.high is None else gap <= float(form.high)
                return float(max(inside.mean(), 0.5 / gap.size))
        equal = isinstance(part, Atom) and isinstance(part.expr, Call) and part.expr.op == "eq"
        return 0.01 if equal else _UNKNOWN


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
            vector = self._windows[side.role].sample(self._intakes[side.role].keys + slots.index(expr), _SAMPLE)
            if vector.values.dtype.kind not in "iuf" or len(vector) != len(vector.values):
                return None
            values = vector.values.astype(np.float64)
            if vector.valid is not None:
                values = np.where(vector.valid != 0, values, np.nan)
            total = total + float(coefficient) * values
        return total
