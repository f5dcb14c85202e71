"""Loading programs and routing tables into the processor, and running it on input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crosswind.errors import UnsupportedError
from crosswind.lab.wjsp import machine
from crosswind.lab.wjsp.form import PROTOTYPE, TupleForm
from crosswind.lab.wjsp.machine import CODES, STREAMS, Machine
from crosswind.lab.wjsp.published import PLACES
from crosswind.plan.compile import Plan
from crosswind.plan.logic import And
from crosswind.plan.wjsi import assemble, decode, encode
from crosswind.query.tree import Rows

__all__ = ["Input", "Outcome", "Processor", "Row", "run", "words_of"]

_Ints = NDArray[np.int64]
_OUTPUT = 1 << 10
_QUEUE = 1 << 8
_STRETCH = 1 << 20


@dataclass(frozen=True)
class Row:
    """A row of the join routing table: what becomes of tuples with one tag.

    Attributes
    ----------
    insert : bool
        Put into the window of its stream; then the tag is the number of the stream.
    probe : tuple of int
        Join units that the tuple is given to.
    queries : tuple of int
        Queries that it is a result of.
    """

    insert: bool = False
    probe: tuple[int, ...] = ()
    queries: tuple[int, ...] = ()


@dataclass(frozen=True)
class Processor:
    """What is loaded into the processor: a program a join unit, the routing table, the windows.

    Attributes
    ----------
    programs : tuple of tuple of int
        Words of WJSI.
    routes : dict of int to Row
        The routing table, by tag.
    limits : tuple of int
        For each query, the length of its window in time; -1: the window is what the units hold.
    places : int
        Tuples that a unit, or all cores of a multi-core one together, hold of its stream.
    cores : int
        Basic join units of a multi-core one.
    names : tuple of str
        Names of the queries.
    form : TupleForm
        Bits of a tuple; the prototype's 152.
    """

    programs: tuple[tuple[int, ...], ...]
    routes: dict[int, Row]
    limits: tuple[int, ...]
    places: int = PLACES
    cores: int = 1
    names: tuple[str, ...] = ()
    form: TupleForm = PROTOTYPE

    def __post_init__(self) -> None:
        if self.cores < 1 or self.places < 1:
            raise UnsupportedError(f"A processor has at least one core and place, got {self.cores} and {self.places}.")
        if min(self.limits, default=0) < 0 and self.places % self.cores:
            raise UnsupportedError(
                f"Windows of {self.places} tuples cannot be cut evenly over {self.cores} cores; take a number that "
                "divides them, or windows by time."
            )

    @classmethod
    def of(cls, plan: Plan, *, places: int | None = None, cores: int = 1, form: TupleForm = PROTOTYPE) -> Processor:
        """Return the processor that runs a plan.

        Parameters
        ----------
        plan : Plan
            Its queries have windows by time, each query the same for all of its streams; or all queries have windows
            of the same number of tuples.
        places : int, optional
            Tuples that a unit holds. By default it uses as many of its 4,096 places as the longest window is long,
            which is enough for one tuple of each stream per unit of time.
        cores : int
            Basic join units of a multi-core one.
        form : TupleForm
            Bits of a tuple.

        Raises
        ------
        UnsupportedError
            If programs or windows do not fit the processor.
        """
        if any(unit.filter != And(()) for unit in plan.units):
            raise UnsupportedError("The processor has no filters on single streams; filter before.")
        limits, counts = _windows(plan)
        longest = counts or max(limits)
        if places is None and longest > PLACES:
            raise UnsupportedError(
                f"A window of {longest:,} does not fit: a join unit has {PLACES:,} places. Use a shorter window, or "
                "load the plan with more places."
            )
        numbers = {entry.name: number for number, entry in enumerate(plan.queries)}
        routes = {
            route.tag: Row(route.insert is not None, route.probe, tuple(numbers[name] for name in route.queries))
            for route in plan.routes
        }
        programs = tuple(tuple(encode(line) for line in assemble(plan, unit)) for unit in range(len(plan.units)))
        return cls(programs, routes, limits, counts or places or longest, cores, tuple(numbers), form)


def _windows(plan: Plan) -> tuple[tuple[int, ...], int]:
    """Return the limit of each query, and the tuples of a window if windows count."""
    counts = {s.window.count if isinstance(s.window, Rows) else 0 for q in plan.queries for s in q.query.streams}
    if counts != {0}:
        if len(counts) > 1:
            raise UnsupportedError(
                "The processor tells windows apart by time only. Give all streams of all queries the same ROWS window, "
                "or RANGE windows."
            )
        return (-1,) * len(plan.queries), counts.pop()
    limits = []
    for entry in plan.queries:
        ages = {plan.axis.age_limit(stream.window) for stream in entry.query.streams}
        age = ages.pop()
        if ages or age is None:
            raise UnsupportedError(f"Query {entry.name} has different windows; the processor has one a query.")
        limits.append(age + 1)
    return tuple(limits), 0


@dataclass(frozen=True)
class Input:
    """Tuples in the order they come: which join unit's stream, attributes, time."""

    units: _Ints
    values: _Ints
    times: _Ints


@dataclass(frozen=True)
class Outcome:
    """What the processor made of its input.

    Attributes
    ----------
    results : array
        Query, row of each of the four streams (-1: none), clock.
    clocks_each : array
        Clocks that each input after the first ``warm`` took.
    instructions, waited : int
        Instructions run; clocks that units waited to return a tuple.
    queue_most : int
        The longest that the queue of returned tuples was.
    """

    results: _Ints
    clocks_each: _Ints
    instructions: int
    waited: int
    queue_most: int

    def rate(self, mhz: float) -> float:
        """Return inputs a second at a clock of ``mhz``."""
        return float(1e6 * mhz / self.clocks_each.mean())


def run(processor: Processor, fed: Input, *, warm: int = 0) -> Outcome:
    """Run the processor on input until all is done.

    Parameters
    ----------
    processor : Processor
        What to run.
    fed : Input
        Its input; attributes, times and tags must fit the form of a tuple.
    warm : int
        So many inputs only fill windows: no time, no results.

    Raises
    ------
    UnsupportedError
        If a window buffer is too small for what came: a tuple was overwritten that a window still held. If a
        value does not fit its bits.
    """
    _check_form(processor, fed)
    made = _built(processor, fed)
    while (state := machine.advance(made, _STRETCH, warm)) != machine.FINISHED:
        if state == machine.OUTPUT_FULL:
            made = made._replace(output=np.concatenate([made.output, np.zeros_like(made.output)]))
        elif state == machine.QUEUE_FULL:
            waiting = np.roll(made.queue, -int(made.counter[machine.HEAD]), axis=0)
            made.counter[machine.HEAD] = 0
            made = made._replace(queue=np.concatenate([waiting, np.zeros_like(waiting)]))
    overrun = int(made.counter[machine.OVERRUN])
    if overrun:
        raise UnsupportedError(
            f"{overrun} tuples were overwritten while a window still held them: a join unit has "
            f"{processor.places} places. Load the plan with more places."
        )
    return Outcome(
        results=made.output[: made.counter[machine.RESULTS]].copy(),
        clocks_each=np.diff(made.done_at[warm:], prepend=0),
        instructions=int(made.counter[machine.INSTRUCTIONS]),
        waited=int(made.counter[machine.WAITED]),
        queue_most=int(made.counter[machine.QUEUE_MOST]),
    )


def _check_form(processor: Processor, fed: Input) -> None:
    """Refuse what does not fit the form of a tuple."""
    form = processor.form
    if len(processor.programs) > form.streams:
        raise UnsupportedError(
            f"{len(processor.programs)} streams do not fit: a tuple of the processor joins {form.streams}. Run it with "
            "a wider TupleForm."
        )
    if len(fed.times):
        form.check("an attribute", int(fed.values.min()), int(fed.values.max()), form.attribute_bits)
        form.check("a time", int(fed.times.min()), int(fed.times.max()), form.time_bits)
    form.check("a tag", min(processor.routes), max(processor.routes), form.tag_bits)


def words_of(processor: Processor, fed: Input, outcome: Outcome) -> list[int]:
    """Return the results as the words that leave the processor; the tag of each is that of its first query's route."""
    tags = {query: tag for tag, row in sorted(processor.routes.items(), reverse=True) for query in row.queries}
    words = []
    for query, *rows, _ in outcome.results.tolist():
        here = [row for row in rows if row >= 0]
        times = [int(fed.times[row]) for row in here]
        empty = [0] * processor.form.attributes
        tuples = [fed.values[row].tolist() if row >= 0 else empty for row in rows[: processor.form.streams]]
        words.append(processor.form.pack(tuples, tags[query], min(times), max(times)))
    return words


def _built(processor: Processor, fed: Input) -> Machine:
    units, tags = len(processor.programs), max(processor.routes) + 1
    queries = len(processor.limits)

    def ints(*shape: int) -> _Ints:
        return np.zeros(shape, np.int64)

    insert, probe, query = ints(tags), ints(tags, units), ints(tags, max(queries, 1))
    for tag, row in processor.routes.items():
        insert[tag] = row.insert
        probe[tag, list(row.probe)] = 1
        query[tag, list(row.queries)] = 1
    share = -(-processor.places // processor.cores)
    longest = max(processor.limits, default=0)
    return Machine(
        unit_of=np.ascontiguousarray(fed.units, np.int64),
        values=np.ascontiguousarray(fed.values, np.int64),
        times=np.ascontiguousarray(fed.times, np.int64),
        program=_loaded(processor.programs),
        insert=insert,
        probe=probe,
        query=query,
        limit=np.array(processor.limits, np.int64),
        longest=np.full(units, max(longest, 0), np.int64),
        core=ints(units, processor.cores, 7),
        window=ints(units, processor.cores, share),
        turn=ints(units),
        probing=ints(units, 3 + STREAMS),
        queue=ints(_QUEUE, 3 + STREAMS),
        output=ints(_OUTPUT, 2 + STREAMS),
        done_at=ints(len(fed.times)),
        counter=ints(9),
    )


def _loaded(programs: Sequence[Sequence[int]]) -> _Ints:
    """Return the instruction memories, decoded; JMPLI gets the address of the end, NOP."""
    memory = np.zeros((len(programs), max(map(len, programs)), 5), np.int64)
    for unit, words in enumerate(programs):
        for address, word in enumerate(words):
            line = decode(word)
            memory[unit, address, 0] = CODES[line.name]
            operands = (len(words) - 1,) if line.name == "JMPLI" else line.operands
            memory[unit, address, 1 : 1 + len(operands)] = operands
    return memory
