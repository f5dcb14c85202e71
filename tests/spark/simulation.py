"""Spark's contract without Spark: micro-batches, watermark, timers, and everything that may go wrong.

The parts that run on workers (packing, routing, cells, state) are the real ones. What is played
here is Spark: tasks are tried more than once, in processes with other caches; some fail half-way,
some finish and lose to a copy; the driver dies and a whole micro-batch is run again. It costs
milliseconds, so thousands of random cases go through it; tests on the real Spark follow.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from crosswind.engine.session import lateness_of, parse_queries
from crosswind.io.blocks import read_block
from crosswind.plan.layout import choose_layout
from crosswind.query.tree import Rows
from crosswind.spark.cache import JoinCache
from crosswind.spark.cell import Cell, CellInput, Report
from crosswind.spark.dropped import NO_TIME, Dropped
from crosswind.spark.operator import result_blocks
from crosswind.spark.pack import Heartbeat, Pack, Unpack
from crosswind.spark.partition import cell_keys
from crosswind.spark.reroute import MANIFEST, Reroute, adopted_of, watermark_after
from crosswind.spark.spec import JoinSpec, result_schema, unit_plan
from crosswind.spark.state import Manifest

CACHE_BYTES = 64 << 20
EPOCH, MILLISECOND = dt.datetime(1970, 1, 1, tzinfo=dt.UTC), dt.timedelta(milliseconds=1)
FAR_FUTURE_MS = (2**63 - 1) // 1000
ROUNDS_MAX = 100
"""Micro-batches without data, at most: timers that wake each other for ever are an error."""


def make_spec(
    sql: str,
    schemas: Mapping[str, pa.Schema],
    *,
    time: Any = "ts",
    lateness: Any = 0,
    layout: Any = "auto",
    cells: int | None = None,
    index: str = "auto",
    cache_bytes: int = CACHE_BYTES,
    hot: Sequence[int] = (),
    lag: int = 0,
    by_previous: bool = False,
    late: str | None = None,
) -> JoinSpec:
    """Return what ``crosswind.spark.join`` would send to workers."""
    plan, sources = unit_plan(parse_queries(sql, dict(schemas), time=time))
    by_source = lateness if isinstance(lateness, Mapping) else dict.fromkeys(sources, lateness)
    units = [unit.stream.name for unit in plan.units]
    ticks = lateness_of(plan, {unit: by_source[source] for unit, source in zip(units, sources, strict=True)}, schemas)
    chosen = choose_layout(plan, layout, cells, cores=2)
    if hot:
        chosen = chosen.with_hot(hot, 4, plan.queries[0].query.preserved)
    spans = tuple(ticks[unit] for unit in units)
    return JoinSpec(plan, chosen, sources, spans, index, cache_bytes, lag=lag, by_previous=by_previous, late=late)


class DictStore:
    """The state of a cell in a dict: changes hold when the attempt that made them is committed."""

    def __init__(self, content: Mapping[str, bytes] | None = None) -> None:
        self.content: dict[str, bytes] = dict(content or {})

    def read_manifest(self) -> bytes | None:
        return self.content.get("manifest")

    def write_manifest(self, data: bytes) -> None:
        self.content["manifest"] = data

    def read(self, name: str) -> bytes | None:
        return self.content.get(f"block {name}")

    def write(self, name: str, data: bytes) -> None:
        assert f"block {name}" not in self.content, f"block {name} is written twice"
        self.content[f"block {name}"] = data

    def remove(self, name: str) -> None:
        del self.content[f"block {name}"]

    def has_blocks(self) -> bool:
        return any(name.startswith("block ") for name in self.content)


@dataclass
class Committed:
    """What one micro-batch left behind: state and timers by cell, results, reports."""

    states: dict[int, dict[str, bytes]]
    timers: dict[int, set[int]]
    results: list[bytes] = field(default_factory=list)
    reports: list[Report] = field(default_factory=list)
    rejected: int = 0
    dropped: list[Dropped] = field(default_factory=list)


@dataclass(frozen=True)
class Trouble:
    """How often things go wrong, as chances."""

    replay: float = 0.15
    """The driver dies after a micro-batch and runs it again."""
    crash: float = 0.15
    """An attempt fails half-way."""
    loser: float = 0.15
    """An attempt finishes, but another one is committed."""
    fresh: float = 0.1
    """The attempt runs in a worker that has just started."""


CALM = Trouble(0, 0, 0, 0)


class Simulation:
    """A streaming join in which Spark is played."""

    def __init__(self, spec: JoinSpec, rng: random.Random, trouble: Trouble) -> None:
        self.spec, self._rng, self._trouble = spec, rng, trouble
        self._keys = cell_keys(spec.layout.total)
        self._ordered = any(
            isinstance(stream.window, Rows) for entry in spec.plan.queries for stream in entry.query.streams
        )
        self._workers = [JoinCache(), JoinCache()]
        self._highs = [0] * len(spec.units)
        self.watermark = self.last_watermark = 0
        self.now = Committed({}, {})
        self.results: list[bytes] = []
        self.reports: list[Report] = []
        self.rejected = 0
        self.dropped: list[Dropped] = []

    def batch(self, tables: Mapping[str, pa.Table], heartbeats: Mapping[str, pa.Table] | None = None) -> None:
        """Run a micro-batch, and run it again as often as the driver dies."""
        rows = self._packed(tables) + self._packed(heartbeats or {}, Heartbeat)
        while True:
            done = self._run(rows)
            if self._rng.random() >= self._trouble.replay:
                break
            self._rng.shuffle(self._workers)
        self.now = done
        self.results += done.results
        self.reports += done.reports
        self.rejected += done.rejected
        self.dropped += done.dropped
        self._advance(rows)

    def settle(self) -> None:
        """Run micro-batches without data, as Spark does, until the watermark stands."""
        for _ in range(ROUNDS_MAX):
            before = self.watermark
            self.batch({})
            if self.watermark == before and not any(due <= before for due in self._due()):
                return
        raise AssertionError(f"timers still fire after {ROUNDS_MAX} rounds: {self._due()} at {self.watermark}")

    def close_windows(self) -> None:
        """Let the watermark pass everything, as if tuples of a far future had come."""
        self.watermark = FAR_FUTURE_MS - self.spec.lag
        self.settle()

    def table(self) -> pa.Table:
        """Return all results so far."""
        batches = [read_block(block) for block in self.results]
        return pa.Table.from_batches(batches, result_schema(self.spec.plan, many=False))

    def dropped_rows(self, source: str, reason: str) -> list[dict[str, Any]]:
        """Return the tuples of ``source`` that were dropped for ``reason``, as the output has them."""
        output, late = Unpack(self.spec), self.spec.late
        batches = [output.dropped(entry.batch, entry.unit, entry.reason) for entry in self.dropped]
        rows = [row[late] for batch in batches for row in batch.to_pylist()]
        return [row[source] for row in rows if (row["stream"], row["reason"]) == (source, reason)]

    def total(self, name: str) -> int:
        """Return a counter, added up."""
        return sum(getattr(report, name) for report in self.reports)

    # -- one run of a micro-batch --------------------------------------------

    def _packed(self, tables: Mapping[str, pa.Table], by: type[Pack] = Pack) -> list[dict[str, Any]]:
        """Return the packed rows of all units; copies of a cell come in any order."""
        rows: list[dict[str, Any]] = []
        for unit, source in enumerate(self.spec.sources):
            if source in tables and tables[source].num_rows:
                pack = by(self.spec, unit, self._keys)
                batches = tables[source].select(list(pack.columns)).combine_chunks().to_batches()
                rows += [row for packed in pack(batches) for row in packed.to_pylist()]
        if not self._ordered:
            self._rng.shuffle(rows)
        return rows

    def _run(self, rows: list[dict[str, Any]]) -> Committed:
        done = Committed(dict(self.now.states), {key: set(due) for key, due in self.now.timers.items()})
        by_cell: dict[int, list[dict[str, Any]]] = {}
        for row in rows:
            by_cell.setdefault(row["cell"], []).append(row)
        for cell, mine in by_cell.items():
            done.rejected += sum(row["rejected"] for row in mine)
            blocks = [row for row in mine if row["block"] is not None]
            done.dropped += [Dropped(r["unit"], NO_TIME, read_block(r["block"])) for r in blocks if r["rejected"]]
            arrivals = [
                CellInput(row["unit"], row["is_primary"], read_block(row["block"]))
                for row in blocks
                if not row["rejected"]
            ]
            passed = sum(row["tuples"] for row in mine if row["block"] is None)
            self._attempts(cell, arrivals, done, passed)
        for cell in sorted(done.timers):
            fired = {due for due in done.timers[cell] if due <= self.watermark}
            for _ in fired:
                self._attempts(cell, [], done)
            done.timers[cell] -= fired
        return done

    def _attempts(self, cell: int, arrivals: list[CellInput], done: Committed, passed: int = 0) -> None:
        """Try until an attempt is committed."""
        rng, trouble = self._rng, self._trouble
        while True:
            cache = JoinCache() if rng.random() < trouble.fresh else rng.choice(self._workers)
            crashes = rng.random() < trouble.crash
            store, report = DictStore(done.states.get(cell)), Report(tuples=passed)
            task = Cell(self.spec, store, cache)
            blocks: list[bytes] = []
            with closing(task.process(arrivals, self.spec.own_watermark(self.watermark), report)) as tables:
                if crashes and arrivals:
                    next(tables, None)  # some results are out, the state is not written
                    continue
                blocks += [block for _, block in result_blocks(tables)]
            if rng.random() >= trouble.loser:
                break
        done.states[cell] = store.content
        done.rejected += task.set_aside
        done.dropped += task.dropped
        if task.timer is not None:
            done.timers.setdefault(cell, set()).add(self.spec.spark_timer(task.timer))
        done.results += blocks
        done.reports.append(report)

    # -- Spark's clock ---------------------------------------------------------

    def _due(self) -> list[int]:
        return [due for timers in self.now.timers.values() for due in timers]

    def _advance(self, rows: list[dict[str, Any]]) -> None:
        for unit in range(len(self.spec.units)):
            times = [row["time"] for row in rows if row["unit"] == unit and row["time"] is not None]
            if times:
                delay = int(self.spec.delay(unit).split()[0])
                self._highs[unit] = max(self._highs[unit], (max(times) - EPOCH) // MILLISECOND - delay)
        self.watermark = max(self.watermark, *([min(self._highs)] if self._highs else []))


def carried_over(simulation: Simulation, spec: JoinSpec, trouble: Trouble | None = None) -> Simulation:
    """Return a simulation of ``spec`` that begins with what ``simulation`` holds, as a rescaled checkpoint does."""
    old, began = simulation.spec, Simulation(spec, simulation._rng, trouble or simulation._trouble)
    moved: dict[int, list[tuple[int, bytes, bytes]]] = {key: [] for key in began._keys}
    rows = [
        {"cell": key, "name": MANIFEST if name == "manifest" else name.removeprefix("block "), "content": content}
        for key, state in sorted(simulation.now.states.items())
        for name, content in state.items()
    ]
    for batch in Reroute(old, spec)(pa.Table.from_pylist(rows).to_batches(max_chunksize=3) if rows else []):
        for row in batch.to_pylist():
            moved[row["cell"]].append((row["unit"], row["block"], row["flags"]))
    manifests = [Manifest.from_bytes(state["manifest"]) for state in simulation.now.states.values()]
    passed = watermark_after(old, manifests)
    for number, (key, parts) in enumerate(moved.items()):
        store = DictStore()
        cell = Cell(spec, store, JoinCache(), number)
        cell.adopt(adopted_of(parts), passed, old.own_watermark(simulation.last_watermark))
        began.now.states[key] = store.content
        assert cell.timer is not None
        began.now.timers[key] = {spec.spark_timer(cell.timer)}
    shift = old.lag - spec.lag
    began.watermark = max(1, simulation.watermark + shift) if simulation.watermark else 0
    began._highs = [high + shift if high else 0 for high in simulation._highs]
    return began


def join_simulated(
    spec: JoinSpec, batches: Mapping[str, list[pa.Table]], rng: random.Random, trouble: Trouble | None = None
) -> Simulation:
    """Return the simulation after all batches, one of each stream at a time."""
    simulation = Simulation(spec, rng, trouble or Trouble())
    for number in range(max(len(parts) for parts in batches.values())):
        simulation.batch({name: parts[number] for name, parts in batches.items() if number < len(parts)})
    simulation.settle()
    return simulation
