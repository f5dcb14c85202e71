"""Live runs of a join, drawn at random.

Batches of any size in random turns, watermarks that are told, snapshots restored into other engines, queries that come
and go, pushes that fail. The run remembers what the join took; the oracle then says what must have come out.
"""

from __future__ import annotations

import random
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from unittest.mock import patch

import pyarrow as pa

from tests import failed_pushes
from tests.cases import TestCase
from tests.conftest import EngineConfig, disorder, plan_steps, spell_lateness, time_value
from tests.oracle import Advance, assert_same, common_unit, expected_rows, late_rows, rows_of, ticks

NOWHERE = -(2**63)


@dataclass(frozen=True)
class Trial:
    """How a case is run.

    Attributes
    ----------
    seed : int
        Decides batches, turns and moments.
    strict : bool
        Allow less lateness than the disorder needs, and let watermarks be told that make tuples late.
    ordered, shed, keep_late : bool
        Options of the join.
    restores : tuple of EngineConfig
        Engines that go on from a snapshot, in turn.
    advances, changes, refusals, injections : float
        How likely it is, before a push, that a watermark is told, that a query comes or goes, that a
        batch is refused, that an error is raised somewhere in the package.
    """

    seed: int
    strict: bool = False
    ordered: bool = False
    shed: bool = False
    keep_late: bool = False
    restores: tuple[EngineConfig, ...] = ()
    advances: float = 0.0
    changes: float = 0.0
    refusals: float = 0.0
    injections: float = 0.0


@dataclass
class Query:
    """A query of the run: its case, whether it is at work, since when, what it found."""

    case: TestCase
    at_work: bool
    since: int = NOWHERE
    parts: list[pa.Table] = field(default_factory=list)


@dataclass
class Found:
    """What a run gave: what each query found and should have found, and what happened."""

    queries: dict[str, tuple[TestCase, pa.Table, list[tuple[Any, ...]]]]
    seen: Counter[str]


class UnknownError(Exception):
    """A tuple was set aside that cannot be told from another: nothing can be said about the results."""


class Run:
    """One run of a join of one query (``many`` False) or of several."""

    def __init__(self, engine: EngineConfig, cases: Mapping[str, TestCase], trial: Trial, many: bool) -> None:
        self.engine, self.trial, self.many = engine, trial, many
        self.rng = random.Random(f"history {trial.seed}")
        base = cases["q0"]
        self.tables, self.times = base.tables, base.times
        self.factors = dict(zip([role.name for role in base.join.roles], common_unit(base.join), strict=True))
        first = {"q0"} | {name for name in cases if self.rng.random() < 0.5}
        self.queries = {n: Query(c, n in first or not trial.changes) for n, c in cases.items()}
        self.lateness = {name: disorder(self.tables[name].column(self.times[name])) for name in self.tables}
        if trial.strict:
            self.lateness = {name: self.rng.randint(0, most) for name, most in self.lateness.items()}
        self.taken: dict[str, list[pa.Table]] = {name: [] for name in self.tables}
        self.marks: dict[str, list[list[int | None] | Advance]] = {name: [] for name in self.tables}
        self.shed: dict[str, set[int]] = {name: set() for name in self.tables}
        self.late: dict[str, list[pa.Table]] = {name: [] for name in self.tables}
        self.aside: dict[str, set[int]] = {name: set() for name in self.tables}
        self.put_aside: list[tuple[str, int]] = []
        self.newest = NOWHERE
        self.portions: list[Any] = []
        # Whether tuples are joined when the watermarks have passed them, not when they come.
        self.in_the_order = any(role.window.kind == "rows" for case in cases.values() for role in case.join.roles)
        self.may_overflow = any(case.may_overflow for case in cases.values())
        self.seen: Counter[str] = Counter()
        self.join: Any = None

    # -- the run ----------------------------------------------------------------

    def play(self) -> Found:
        """Run it from the first batch to the end."""
        with self._watched():
            self._open(self.engine, None)
            steps = plan_steps(self.tables, self.rng)
            stops = sorted(self.rng.randrange(len(steps) + 1) for _ in self.trial.restores)
            look = self.rng.randrange(len(steps) + 1) if self._answers_at_once() else -1
            for number, step in enumerate(steps):
                for _ in range(stops.count(number)):
                    self._restart(self.trial.restores[stops.index(number)])
                if number == look:
                    self._check_so_far()
                if self.rng.random() < self.trial.changes:
                    self._change()
                self._arrive(step.stream, self._batch(step.stream, step.start, step.stop))
                self._tell(step.stream, step.stop)
            self._finish()
            self.join.close()
        return self._found()

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Note which tuples are admitted and how windows are arranged; warnings are errors, but for those expected."""
        import crosswind as cw
        from crosswind.engine.ingest.admission import Admission
        from crosswind.engine.inorder import InOrder
        from crosswind.engine.probe.index import Index

        portions, arrange, set_aside = Admission.portions, Index.arrange, InOrder._set_aside

        def noting_portions(admission: Any, count: int, waiting: int) -> Iterator[Any]:
            for rows in portions(admission, count, waiting):
                self.portions.append(rows)
                yield rows

        def noting_arrange(index: Any, blocks: Any) -> Any:
            run = arrange(index, blocks)
            self.seen[f"arranged {'scan' if run.arrangement is None else run.arrangement.kind}"] += 1
            return run

        def noting_set_aside(join: Any, unit: int, times: Any, error: Any) -> None:
            self.put_aside += [(join._plan.units[unit].stream.name, time) for time in times]
            set_aside(join, unit, times, error)

        with (
            warnings.catch_warnings(),
            patch.object(InOrder, "_set_aside", noting_set_aside),
            patch.object(Admission, "portions", noting_portions),
            patch.object(Index, "arrange", noting_arrange),
        ):
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", cw.NullTimeWarning)
            warnings.simplefilter("ignore", cw.LateTupleWarning)
            warnings.simplefilter("ignore", cw.OverflowWarning)
            yield

    def _open(self, engine: EngineConfig, state: bytes | None) -> None:
        known = {name: query.case.sql for name, query in self.queries.items() if query.at_work}
        options: dict[str, Any] = {
            "time": self.times,
            "lateness": spell_lateness(self.lateness, self.tables, self.times),
            "ordered": self.trial.ordered,
            "keep_late": self.trial.keep_late,
        }
        if self.trial.shed:
            options |= {"admission": "shed", "output_rows": self.rng.choice([1, 2, 5, 20])}
        if state is not None:
            options["restore"] = state
            if self.many:
                known = self.join.queries
        schemas = {name: table.schema for name, table in self.tables.items()}
        self.join = engine.open(known if self.many else known["q0"], schemas, **options)
        self.engine = engine
        self.seen[f"engine {self.join.stats.engine}"] += 1

    def _restart(self, engine: EngineConfig) -> None:
        """Go on from a snapshot in another engine."""
        self._take_late()
        state = self.join.snapshot()
        self.join.close()
        self._open(engine, state)
        self.seen["restore"] += 1

    def _batch(self, stream: str, start: int, stop: int) -> pa.Table:
        batch = self.tables[stream].slice(start, stop - start)
        return batch.combine_chunks() if self.rng.random() < 0.3 else batch

    def _arrive(self, stream: str, batch: pa.Table) -> None:
        """Push a batch; maybe another one that fails comes first."""
        if self.rng.random() < self.trial.refusals:
            self._refused(stream, batch)
        given = batch.combine_chunks().to_batches()[0] if batch.num_rows and self.rng.random() < 0.3 else batch
        fails = self.rng.random() < self.trial.injections
        if not fails or not self._injected(stream, batch, lambda: self.join.push(stream, given)):
            self._push(stream, batch, given)

    def _push(self, stream: str, batch: pa.Table, given: Any) -> None:
        import crosswind as cw

        before = failed_pushes.counters(self.join.stats)
        try:
            self._call(self.join.push, stream, given)
        except cw.ArithmeticOverflowError:
            if not self.may_overflow:
                raise
            assert failed_pushes.counters(self.join.stats) == before, "a batch that overflows left its trace"
            self.seen["overflow"] += 1
            return
        self._note_taken(stream, batch)
        held, after = before["window_tuples"], self.join.stats
        self.seen["expired"] += any(after.window_tuples[alias] < count for alias, count in held.items())
        self.seen[f"batch of {_size(batch.num_rows)}"] += 1
        self.seen["linked"] += any("equals are linked" in why for why in after.reason.values())

    def _note_taken(self, stream: str, batch: pa.Table) -> None:
        """Remember that the join took ``batch``, and what of it is late or was shed."""
        start = sum(table.num_rows for table in self.taken[stream])
        self.taken[stream].append(batch)
        times = ticks(batch.column(self.times[stream]))
        self.marks[stream].append(times)
        late = late_rows(self.marks[stream], self.lateness[stream])
        live = [start + i for i, t in enumerate(times) if t is not None and start + i not in late]
        if live:
            self.newest = max(self.newest, max(times[i - start] for i in live) * self.factors[stream])
        if self.trial.shed:
            admitted = {live[row] for rows in self.portions for row in rows.tolist()}
            self.shed[stream] |= set(live) - admitted

    def _call(self, call: Callable[..., Any], *arguments: Any) -> None:
        """Make a call that is to succeed, and keep what it gives."""
        self.portions.clear()
        self.put_aside.clear()
        self._keep(call(*arguments))
        self._note_aside()

    def _note_aside(self) -> None:
        """Find the tuples that the last call has set aside: in ROWS windows, those that overflow in their turn."""
        assert self.may_overflow or not self.put_aside, "tuples were set aside that cannot overflow"
        for stream, time in self.put_aside:
            rows = self._times_of(stream)
            alike = [i for i, t in rows.items() if t * self.factors[stream] == time and i not in self.aside[stream]]
            if len(alike) > 1:  # which of them, nobody says
                raise UnknownError
            self.aside[stream].update(alike)
        self.seen["set aside"] += len(self.put_aside)
        self.put_aside.clear()

    def _times_of(self, stream: str) -> dict[int, int]:
        """Return the times of all tuples that the join took and that were not late."""
        late = late_rows(self.marks[stream], self.lateness[stream])
        times = [t for marks in self.marks[stream] if not isinstance(marks, Advance) for t in marks]
        return {i: t for i, t in enumerate(times) if t is not None and i not in late}

    def _keep(self, result: Any) -> None:
        for name, table in (result if self.many else {"q0": result}).items():
            self.queries[name].parts.append(table)

    # -- what happens between batches ---------------------------------------------

    def _tell(self, stream: str, stop: int) -> None:
        """Maybe say how far a stream has come: what then is late is known if the trial is strict, else nothing is."""
        if self.rng.random() >= self.trial.advances:
            return
        column = self.tables[stream].column(self.times[stream])
        ahead = [t for t in ticks(column)[stop:] if t is not None]
        if not ahead:
            return
        to = self.rng.choice(ahead) if self.trial.strict else min(ahead)
        value = time_value(to, column.type)
        if self.rng.random() < self.trial.injections:
            if not self._injected(stream, None, lambda: self.join.advance(stream, value)):
                self._call(self.join.advance, stream, value)
        else:
            self._call(self.join.advance, stream, value)
        self.marks[stream].append(Advance(to))
        self.seen["advance"] += 1

    def _change(self) -> None:
        """Let a query come, or go."""
        waiting = [name for name, query in self.queries.items() if not query.at_work and query.since == NOWHERE]
        going = [name for name, query in self.queries.items() if query.at_work and name != "q0"]
        with self.engine.small_windows():
            if waiting and (not going or self.rng.random() < 0.6):
                query = self.queries[waiting[0]]
                self.join.add(waiting[0], query.case.sql)
                query.at_work, query.since = True, self.newest
                self.seen["added"] += 1
            elif going:
                name = self.rng.choice(going)
                self.join.drop(name)
                del self.queries[name]
                self.seen["dropped"] += 1

    def _finish(self) -> None:
        self._call(self.join.finish)
        self._take_late()

    def _take_late(self) -> None:
        for name in self.tables if self.trial.keep_late else ():
            self.late[name].append(self.join.late(name))

    # -- faults -------------------------------------------------------------------

    def _refused(self, stream: str, batch: pa.Table) -> None:
        """Push a batch that cannot be taken, or hardly; what is refused leaves no trace."""
        import crosswind as cw

        before = failed_pushes.counters(self.join.stats)
        large = None
        meets = all(before["window_tuples"].values())
        if self.rng.random() < 0.6 and meets:
            large = failed_pushes.overflowing(batch, self.times[stream], self.rng)
        what, bad = "large numbers", large
        if large is None:
            what, bad = failed_pushes.spoil(batch, self.times[stream], self.rng)
        self.portions.clear()
        self.put_aside.clear()
        self.may_overflow |= large is not None
        try:
            result = self.join.push(stream, bad)
        except cw.CrosswindError as error:
            if large is not None and not isinstance(error, cw.ArithmeticOverflowError):
                raise
            self.seen["overflow refused" if large is not None else "batch refused"] += 1
        else:
            assert large is not None, f"a batch was taken that cannot be: {what}"
            self._keep(result)
            self._note_aside()
            self._note_taken(stream, large)
            return
        after = failed_pushes.counters(self.join.stats)
        assert after == before, f"a refused batch ({what}) left its trace: {before} became {after}"

    def _injected(self, stream: str, batch: pa.Table | None, call: Callable[[], Any]) -> bool:
        """Make a call in which an error is raised somewhere; return whether it was taken, or there was no error."""
        import crosswind as cw

        before = failed_pushes.counters(self.join.stats)
        error = self.rng.choice(failed_pushes.ERRORS)
        self.portions.clear()
        self.put_aside.clear()
        result = None
        with failed_pushes.raise_at_line(failed_pushes.wait_of(self.rng), error) as where:
            try:
                result = call()
            except (error, cw.CrosswindError) as raised:
                if not where and not (self.may_overflow and isinstance(raised, cw.ArithmeticOverflowError)):
                    raise
                self.seen[f"injected {type(raised).__name__}"] += 1
        if result is not None:
            self._keep(result)
        elif not failed_pushes.was_taken(stream, before, failed_pushes.counters(self.join.stats)):
            return False
        self._note_aside()
        if batch is not None:
            self._note_taken(stream, batch)
        return True

    # -- what must have come out -----------------------------------------------------

    def _answers_at_once(self) -> bool:
        """Whether what was found so far can be compared: results come at once, and with the last member."""
        plain = all(query.case.join.kind == "inner" for query in self.queries.values())
        others = (self.engine, *self.trial.restores)
        return (
            plain
            and not self.trial.ordered
            and not self.in_the_order
            and all(engine.name != "handshake" for engine in others)
        )

    def _check_so_far(self) -> None:
        for name, query in self.queries.items():
            if query.at_work:
                found = pa.concat_tables(query.parts) if query.parts else self._nothing(name)
                assert_same(self._expected(query), found, f"{name}, so far", query.case.approx)
        self.seen["looked at half-way"] += 1

    def _nothing(self, name: str) -> pa.Table:
        schema = self.join.schema[name] if self.many else self.join.schema
        return pa.Table.from_batches([], schema=schema)

    def _expected(self, query: Query) -> list[tuple[Any, ...]]:
        tables = {name: pa.concat_tables([*self.taken[name], self.tables[name].slice(0, 0)]) for name in self.tables}
        dropped = {name: self._dropped(name) for name in self.tables}
        if query.since != NOWHERE:
            for name, table in tables.items():
                times = ticks(table.column(self.times[name]))
                old = {i for i, t in enumerate(times) if t is not None and t * self.factors[name] <= query.since}
                dropped[name] = dropped[name] | old
        own = {name: tables[name] for name in query.case.tables}
        return expected_rows(replace(query.case.join, tables=own), dropped)

    def _dropped(self, name: str) -> set[int]:
        return late_rows(self.marks[name], self.lateness[name]) | self.shed[name] | self.aside[name]

    def _found(self) -> Found:
        stats = self.join.stats
        tables = {name: pa.concat_tables([*parts, self.tables[name].slice(0, 0)]) for name, parts in self.taken.items()}
        late = {name: late_rows(self.marks[name], self.lateness[name]) for name in self.tables}
        missing = {name: table.column(self.times[name]).null_count for name, table in tables.items()}
        shed = {name: len(rows) for name, rows in self.shed.items()}
        counts = {name: table.num_rows - len(late[name]) - missing[name] - shed[name] for name, table in tables.items()}
        rejected = {name: missing[name] + len(self.aside[name]) for name in self.tables}
        want = (counts, {name: len(rows) for name, rows in late.items()}, rejected, shed)
        have = (stats.tuples_in, stats.late, stats.rejected, stats.shed)
        assert have == want, f"taken, late, rejected, shed are {have}, not {want}"
        self.seen["late"] += sum(map(len, late.values()))
        self.seen["rejected"] += sum(missing.values())
        self.seen["shed"] += sum(shed.values())
        for name in self.tables if self.trial.keep_late else ():
            rows, kept = rows_of(tables[name]), pa.concat_tables(self.late[name])
            assert kept.schema == self.tables[name].schema, "late tuples have other types"
            assert_same([rows[i] for i in late[name]], kept, f"late tuples of {name}")
        made = {}
        for name, query in self.queries.items():
            if query.at_work:
                made[name] = (query.case, pa.concat_tables(query.parts), self._expected(query))
        if not self.seen["dropped"]:
            assert stats.results == sum(found.num_rows for _, found, _ in made.values()), "wrong number of results"
        if self.trial.ordered:
            for name, (case, found, _) in made.items():
                _check_order(case, found, name)
            self.seen["ordered"] += 1
        return Found(made, self.seen)


def _check_order(case: TestCase, found: pa.Table, name: str) -> None:
    """Fail unless results come in the order of their last members (those of one member have times of their own)."""
    places = [
        place
        for place, output in enumerate(case.join.outputs)
        if output.column == case.join.roles[output.role].time and not output.duck
    ]
    if case.join.kind in ("semi", "anti") or len(places) < len(case.join.roles):
        return
    members = [[row[place] for place in places] for row in rows_of(found)]
    times = [max(row) for row in members if None not in row]
    assert times == sorted(times), f"{name}: results are not in the order of their times"


def _size(rows: int) -> str:
    return "none" if not rows else "one" if rows == 1 else "few" if rows < 20 else "tens" if rows < 100 else "hundreds"
