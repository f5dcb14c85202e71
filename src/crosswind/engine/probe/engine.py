"""All joins, of two streams or many, of one query or many: windows, and probe trees over them.

MJoin, as CellJoin §7.1 and WJSP §3.1 have it: a batch of new tuples probes the first window of
its join order; what it found probes the next, until combinations are complete. Every
combination is found once, by the member that comes last to the join. All queries share
the windows, and the searches as far as they are alike (:mod:`crosswind.plan.probe_steps`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from crosswind.engine.ingest.direct import DIRECT
from crosswind.engine.ingest.intake import Intake
from crosswind.engine.parallel.policy import Policy
from crosswind.engine.parallel.pool import WorkerPool
from crosswind.engine.probe.bounds import ReleaseBounds, Wait, WindowBounds
from crosswind.engine.probe.cached_pairs import CachedPairs, ReadPairs
from crosswind.engine.probe.index import Index
from crosswind.engine.probe.join_order import JoinOrders, Work
from crosswind.engine.probe.step import ProbeStep, word
from crosswind.engine.probe.tree import Findings, Masks, ProbeTree
from crosswind.engine.strategy import AtOnce, Combinations, Shift
from crosswind.kernel.compiled.arrange import link_tuples, put_into_copies
from crosswind.plan.axis import INT64_MIN
from crosswind.plan.compile import Plan
from crosswind.plan.probe_steps import PlannedStep, planned_steps
from crosswind.window.arrival import Release
from crosswind.window.block import Block
from crosswind.window.replicas import Replicas

__all__ = ["ProbeEngine"]

_Name = tuple[frozenset[int], bool]
"""What a copy of a window is known by: keys, and whether those are compared for equality."""

_CAPACITY_MIN = 256

_SHORT = 1 << 15
"""Tuples up to which a window stays in the cache, where to jump about in it costs little."""

_BANK = 64
"""Terms whose bits share a word, and whose searches can be shared."""


class ProbeEngine(AtOnce):
    """Windows of all units, and the steps between them.

    Parameters
    ----------
    plan : Plan
        A plan with terms.
    intakes : list of Intake
        One a unit.
    spans : tuple of WindowBounds
        The windows of each query.
    index : str
        ``auto``, ``scan``, ``band`` or ``hash``.
    basic_window : int
        Tuples in a basic window when it is sealed.
    numbered : bool
        Whether tuples carry sequence numbers.
    name : str
        The engine, as users know it.
    policy : Policy, optional
        Says which worker does which part; without one the caller does everything.
    """

    def __init__(
        self,
        plan: Plan,
        intakes: list[Intake],
        spans: tuple[WindowBounds, ...],
        index: str,
        basic_window: int,
        numbered: bool,
        *,
        name: str = "kang",
        policy: Policy | None = None,
    ) -> None:
        self.name = name
        self._plan = plan
        self._intakes = intakes
        self._spans = spans
        self._choice = index
        scanned = index == "scan" or not all(access.dimensions for access in plan.accesses)
        self._workers = 1 if policy is None else policy.workers
        self.windows = tuple(
            Replicas(tuple(intake.layouts[: intake.stored]), numbered, uniform=scanned and self._workers > 1)
            for intake in intakes
        )
        self._waits = [Wait.of(unit, plan, spans) for unit in range(len(intakes))]
        self._basic_window = basic_window
        self._copies: list[dict[_Name, tuple[int, tuple[int, ...], Index]]] = [{} for _ in intakes]
        self._banks = [tuple(range(at, min(at + _BANK, len(plan.terms)))) for at in range(0, len(plan.terms), _BANK)]
        self._always = [{bank: self._bits_of(unit, bank) for bank in self._banks} for unit in range(len(plan.units))]
        self._later = [{bank: self._later_terms(unit, bank) for bank in self._banks} for unit in range(len(plan.units))]
        later = any(terms for of_unit in self._later for terms in of_unit.values())
        self._no_masks: Masks | None = None if later else [None] * len(self._banks)
        self.orders = JoinOrders(plan, intakes, self.windows)
        self._came, self._made = [0] * len(intakes), [0] * len(intakes)
        self._policy = policy
        self.pool: WorkerPool | None = None
        self._newest = [-1] * len(intakes)
        self._derive()

    def _derive(self) -> None:
        """Make what is only derived from plan and windows: who looks for what, and room for what is found."""
        self._release: ReleaseBounds | None = None
        self._findings = [[Findings(entry.units) for entry in self._plan.queries] for _ in range(self._workers)]
        if self.pool is not None:
            self.pool.findings = self._findings
        elif self._policy is not None:
            self.pool = WorkerPool(self._policy, self._findings)
        self._pair_readers: list[ReadPairs] = []
        self._pairs: list[CachedPairs] = []
        self._combined: Block | None = None
        self._probe_trees = self._plan_probe_trees()

    def _bits_of(self, unit: int, bank: tuple[int, ...]) -> int:
        """Return the bits of the terms of ``bank`` that every tuple of ``unit`` may be part of."""
        terms = [self._plan.terms[term] for term in bank]
        return sum(
            1 << place
            for place, term in enumerate(terms)
            if unit in term.units and self._spans[term.query].since == INT64_MIN
        )

    def _later_terms(self, unit: int, bank: tuple[int, ...]) -> list[tuple[int, int]]:
        """Return the places in ``bank`` of the terms of ``unit`` whose queries were added later, and since when."""
        terms = [(place, self._plan.terms[term]) for place, term in enumerate(bank)]
        known = [(place, self._spans[term.query].since) for place, term in terms if unit in term.units]
        return [(place, since) for place, since in known if since != INT64_MIN]

    def _plan_probe_trees(self) -> list[list[ProbeTree]]:
        """Return the probe trees of each unit, by worker, and see to it that windows can be searched."""
        plan, units = self._plan, range(len(self._plan.units))
        trees = [
            [(planned_steps(plan.terms, bank, unit, self.orders, plan.accesses), bank) for bank in self._banks]
            for unit in units
        ]
        wanted: list[dict[_Name, tuple[int, ...]]] = [{} for _ in units]
        for tree in trees:
            for steps, _ in tree:
                self._gather_keys(steps, wanted)
        for unit in units:
            self._provide(unit, wanted[unit])
        probe_trees = [self._probe_tree(unit, tree) for unit, tree in enumerate(trees)]
        self._pair_readers, self._pairs = [], []
        if self.pool is None:
            self._cache_pairs([mine for (mine,) in probe_trees])
        return probe_trees

    def _cache_pairs(self, probe_trees: list[ProbeTree]) -> None:
        """See to it that pairs are kept for those who ask for them again and again, where both of them find them."""
        for probe_tree in probe_trees:
            for bank, reader in probe_tree.pair_readers:
                units = reader.units
                ways = [probe_trees[unit].finds(bank, reader.bits, sum(units) - unit) for unit in units]
                if None in ways:
                    continue
                pairs = CachedPairs((units[0], units[1]), self._newest)
                for unit, way in zip(units, ways, strict=True):
                    if way is not None:
                        probe_trees[unit].keep(bank, way, reader.bits, pairs)
                reader.take(pairs)
                self._pair_readers.append(reader)
                self._pairs.append(pairs)

    def _probe_tree(self, unit: int, tree: list[tuple[tuple[PlannedStep, ...], tuple[int, ...]]]) -> list[ProbeTree]:
        roots = [(self._probe_steps(steps, bank), word(self._always[unit][bank])) for steps, bank in tree]
        return [ProbeTree(unit, roots, self.windows, findings) for findings in self._findings]

    # -- copies of windows -----------------------------------------------------

    @property
    def indexes(self) -> list[Index]:
        """The index of the first copy of each window."""
        return [next(iter(copies.values()))[2] for copies in self._copies]

    def _wanted(self, step: PlannedStep) -> tuple[_Name, tuple[int, ...]]:
        """Return what the copy that ``step`` searches is known by, and the keys that the step needs in it."""
        known = [(dimension.expr, dimension.hashed) for dimension in self._plan.accesses[step.target].dimensions]
        places = {known.index((d.expr, d.hashed)): d for d in step.dimensions}
        equal = frozenset(k for k, dimension in places.items() if dimension.equality)
        return (equal or frozenset(places), bool(equal)), tuple(places)

    def _gather_keys(self, steps: Iterable[PlannedStep], into: list[dict[_Name, tuple[int, ...]]]) -> None:
        """Add to the copies of each window those that ``steps`` and the steps after them search, with their keys."""
        for step in steps:
            name, own = self._wanted(step)
            if own:
                keys = into[step.target].setdefault(name, ())
                into[step.target][name] = (*keys, *(k for k in own if k not in keys))
            self._gather_keys(step.onward, into)

    def _provide(self, unit: int, wanted: dict[_Name, tuple[int, ...]]) -> None:
        """See to it that there are copies of the window of ``unit`` by the keys that are wanted; at least one."""
        for name, own in wanted.items():
            copies = self._copies[unit]
            before = copies[name][1] if name in copies else ()
            more = tuple(k for k in own if k not in before)
            if name not in copies or more:
                self._copy(unit, name, (*before, *more))
        if not self._copies[unit]:
            self._copy(unit, (frozenset(), False), ())

    def _copy(self, unit: int, name: _Name, own: tuple[int, ...]) -> None:
        """Keep a copy of a window that is searched by the keys ``own``; by hashes of some, if those are asked for."""
        keys, equal = name
        dimensions = self._plan.accesses[unit].dimensions
        index = Index(tuple(replace(dimensions[k], equality=equal and k in keys) for k in own), self._choice, own)
        linked = self._choice in {"auto", "hash"} and equal and keys == set(own) and _is_short(self._waits[unit])
        if linked:
            index.link()
        capacity = _capacity(self._basic_window, self._waits[unit], linked)
        number = self.windows[unit].add(own, index, capacity, link_tuples if linked else None)
        self._copies[unit] = {**self._copies[unit], name: (number, own, index)}

    def _probe_steps(self, steps: tuple[PlannedStep, ...], bank: tuple[int, ...]) -> list[ProbeStep]:
        made = []
        for step in steps:
            name, own = self._wanted(step)
            copies = self._copies[step.target]
            copy, keys, index = copies[name] if own else next(iter(copies.values()))
            own = keys if own else ()
            onward = self._probe_steps(step.onward, bank)
            made.append(ProbeStep(step, self._plan, self._intakes, self._spans, bank, copy, own, index, onward))
        return made

    # -- joining -----------------------------------------------------------------

    def combine(self, unit: int, block: Block, released: list[Release | None] | None) -> Iterable[Combinations]:
        """Find the combinations that new tuples of ``unit`` complete; those that are many are yielded at once.

        ``released`` is what is being joined in the order (only if there are ROWS windows).
        """
        self._combined = block
        count = len(block.times)
        self._came[unit] += count
        if self._release is None or self._release.released is not released:
            self._release = ReleaseBounds(len(self.windows), released)
        masks = self._no_masks
        if masks is None:
            masks = [self._begin(unit, block, bank) for bank in self._banks]
        if self.pool is None and count <= DIRECT:
            self._probe_trees[unit][0].follow_few(block, masks, self._release)
            return ()
        return self._combine_many(self._probe_trees[unit], block, masks, self._release)

    def _combine_many(
        self, probe_trees: list[ProbeTree], block: Block, masks: Masks, release: ReleaseBounds
    ) -> Iterator[Combinations]:
        shared = None if self.pool is None else self.pool.follow(probe_trees, block, masks, release)
        if shared is not None:
            yield from shared
            return
        for query in probe_trees[0].follow(block, masks, release):
            yield self._taken(query)

    def complete(self, queries: Iterable[int]) -> Iterator[Combinations]:
        """Yield the combinations of ``queries`` that were found and have not been yielded."""
        for query in queries:
            for findings in self._findings:
                if findings[query].count:
                    yield self._taken(query)
                    break

    def save(self) -> Any:
        """Note that a call has begun."""
        if self.pool is not None:
            self.pool.policy.call_begins()
        return [window.mark() for window in self.windows], list(self._copies), list(self._newest)

    def undo(self, saved: Any) -> None:
        """Be again what this was at :meth:`save`; workers that are still at it are waited for."""
        if self.pool is not None:
            self.pool.undo()
        marks, copies, newest = saved
        super().undo(marks)
        self._copies, self._newest = list(copies), list(newest)
        self._derive()

    def _taken(self, query: int) -> Combinations:
        if self.pool is None:
            return Combinations(query, *self._findings[0][query].take())
        taken = [findings[query].take() for findings in self._findings]
        return Combinations(query, [part for parts, _ in taken for part in parts], sum(count for _, count in taken))

    def ways(self) -> dict[str, str]:
        """Return, by alias, the join orders of its tuples, where there is a choice."""
        return self.orders.ways() if any(len(term.units) > 2 for term in self._plan.terms) else {}

    def shifts(self) -> tuple[Shift, ...]:
        """Return what each worker has done."""
        return () if self.pool is None else self.pool.shifts()

    def end(self) -> None:
        """End all workers."""
        if self.pool is not None:
            self.pool.end()

    @property
    def alive(self) -> int:
        """How many threads are running."""
        return 0 if self.pool is None else self.pool.alive

    def _begin(self, unit: int, block: Block, bank: tuple[int, ...]) -> npt.NDArray[np.int64] | None:
        """Return the terms that each tuple may be part of; None: all that its unit is part of."""
        later = self._later[unit][bank]
        if not later:
            return None
        mask = np.full(len(block), self._always[unit][bank], dtype=np.uint64)
        for place, since in later:
            mask |= np.where(block.times > since, np.uint64(1 << place), np.uint64(0))
        return mask.view(np.int64)

    def insert(self, unit: int, block: Block) -> None:
        """Let new tuples of ``unit`` wait in its window."""
        if not len(block):
            return
        if block.numbers is not None:
            self._newest[unit] = max(self._newest[unit], int(block.numbers[-1]))
            if block is not self._combined:  # they have met others elsewhere
                self._newest[unit] = max(self._newest[unit], int(block.numbers.max()))
                for pairs in self._pairs:
                    pairs.start(self._newest)
        if len(block) > DIRECT or not self._write(unit, block):
            super().insert(unit, block)

    def _write(self, unit: int, block: Block) -> bool:
        window: Replicas = self.windows[unit]
        ends = block.ends or (int(block.times.min()), int(block.times.max()))
        return window.write(block, ends, put_into_copies)

    def settle(self) -> None:
        """Arrange and merge what has been sealed."""
        for reader in self._pair_readers:
            reader.tidy(self._newest)
        if self.orders.revisit(self._work):
            self._made = [made for _, made in self._work()]
            self._probe_trees = self._plan_probe_trees()
        super().settle()
        if self.pool is not None:
            self.pool.policy.call_ends()

    def _work(self) -> list[Work]:
        """Return, by unit, how many tuples have come, and how many combinations they have made."""
        made = [sum(probe_tree.made for probe_tree in mine) for mine in self._probe_trees]
        return [Work(*both) for both in zip(self._came, map(sum, zip(self._made, made, strict=True)), strict=True)]


def _is_short(wait: Wait) -> bool:
    """Whether a window holds so few tuples that they need not be arranged, and is known to."""
    return wait.age is None and wait.count is not None and wait.count <= _SHORT


def _capacity(asked: int, wait: Wait, linked: bool) -> int:
    """Return the size of basic windows: a fraction of the window, where its length is known.

    Combinations probe a window many times for each tuple that comes in, so what has expired, or is not arranged yet,
    costs more than in a join of two. Where equals are linked, neither does; then a basic window is as long as the
    window.
    """
    if wait.age is not None or wait.count is None:
        return asked
    return min(asked, max(_CAPACITY_MIN, 1 << (wait.count // (1 if linked else 4)).bit_length()))
