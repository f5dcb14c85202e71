"""Runs of the handshake join circuit: input, clock, what came out and when (sections IV and V-A)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosswind.errors import UnsupportedError
from crosswind.lab.fpga import circuit
from crosswind.lab.fpga.circuit import BUBBLE, NOTHING, TUPLE, Circuit

__all__ = ["PAPER", "ChipArrivals", "ChipJoin", "ChipOutcome", "Settings", "run"]

_Ints = NDArray[np.int64]
_ROOM = 1 << 12
_STRETCH = 1 << 16
_MHZ = 100.0


@dataclass(frozen=True)
class Settings:
    """A configuration of the circuit; what is not said is the paper's (section V-C).

    Attributes
    ----------
    cores : int
        ChipJoin cores; each holds ``segment`` tuples of either window.
    segment : int
        Places of a shift register.
    core_buffer, merger_buffer : int
        Places in the FIFO of a core and of a merger.
    alone : bool
        Hold up only the cores that are full, which the paper leaves to future work (section VI).
    """

    cores: int = 64
    segment: int = 8
    core_buffer: int = 8
    merger_buffer: int = 4
    alone: bool = False

    def __post_init__(self) -> None:
        for name, least in (("cores", 1), ("segment", 1), ("core_buffer", 2), ("merger_buffer", 2)):
            if getattr(self, name) < least:
                raise UnsupportedError(f"{name} must be at least {least}, got {getattr(self, name)}.")

    @property
    def window(self) -> int:
        """Tuples of a window."""
        return self.cores * self.segment


PAPER = Settings()
"""The configuration of the paper's measurements."""


@dataclass(frozen=True)
class ChipArrivals:
    """What comes in: at each arrival a tuple of R, one of S, or one of both.

    ``r`` and ``s`` hold the keys, and ``r_here`` and ``s_here`` whether there is a tuple.
    """

    r: _Ints
    s: _Ints
    r_here: NDArray[np.bool_]
    s_here: NDArray[np.bool_]

    @classmethod
    def both(cls, r: _Ints, s: _Ints) -> ChipArrivals:
        """Return arrivals with a tuple of either stream each."""
        here = np.ones(len(r), np.bool_)
        return cls(np.asarray(r, np.int64), np.asarray(s, np.int64), here, here)


@dataclass(frozen=True)
class ChipOutcome:
    """What a design made of its input.

    Attributes
    ----------
    results : array
        Arrival of the R tuple, arrival of the S tuple and clock, one row a result, in the order of the output.
    taken_at : array
        Clock at which each arrival was taken in, -1 for those dropped.
    tuples, dropped : int
        Tuples taken in, tuples dropped.
    clocks : int
        Clocks until everything was put out.
    compared, suspended, lost : int
        Pairs of tuples compared; clocks in which cores were held up; results that were lost.
    """

    results: _Ints
    taken_at: _Ints
    tuples: int
    dropped: int
    clocks: int
    compared: int
    suspended: int
    lost: int

    def input_rate(self, mhz: float = _MHZ) -> float:
        """Return tuples of both streams taken in, in millions a second."""
        return self.tuples / self.clocks * mhz

    def output_rate(self, mhz: float = _MHZ) -> float:
        """Return results put out, in millions a second."""
        return len(self.results) / self.clocks * mhz

    def rates_between(self, first: int, last: int, mhz: float = _MHZ) -> tuple[float, float]:
        """Return input and output rate between the arrivals ``first`` and ``last``, which bring two tuples each."""
        begin, end = (int(self.taken_at[k]) for k in (first, last))
        out = int(np.count_nonzero((self.results[:, 2] >= begin) & (self.results[:, 2] < end)))
        return 2 * (last - first) / (end - begin) * mhz, out / (end - begin) * mhz


class ChipJoin:
    """A circuit with its input, to be run to the end or stepped through clock by clock.

    Parameters
    ----------
    arrivals : ChipArrivals
        What comes in.
    settings : Settings
        The configuration.
    interval : int
        Clocks between arrivals; those that find the join busy are dropped. 0: they wait, as in section V-A.
    flush : bool
        Push the window of R through to its end at last, so that tuples that have yet to meet do. Without it, pairs
        that would meet when more input came are not among the results.
    """

    def __init__(
        self, arrivals: ChipArrivals, settings: Settings = PAPER, *, interval: int = 0, flush: bool = False
    ) -> None:
        self.settings = settings
        self._live = len(arrivals.r)
        self._interval = interval
        more = settings.window if flush else 0
        shown = np.where(np.stack([arrivals.r_here, arrivals.s_here], 1), TUPLE, NOTHING)
        bubbles = np.full((more, 2), (BUBBLE, NOTHING))
        keys = np.stack([arrivals.r, arrivals.s], 1)
        self.circuit: Circuit = circuit.built(
            np.concatenate([shown, bubbles]),
            np.concatenate([keys, np.zeros((more, 2), np.int64)]),
            settings.cores,
            settings.segment,
            (settings.core_buffer, settings.merger_buffer),
            _ROOM,
        )

    def tick(self, clocks: int = 1) -> bool:
        """Let ``clocks`` pass; return whether all is done."""
        until = self.count(circuit.CLOCK) + clocks
        while (left := until - self.count(circuit.CLOCK)) > 0:
            state = circuit.advance(self.circuit, left, self._live, self._interval, self.settings.alone)
            if state == circuit.FINISHED:
                return True
            if state == circuit.OUTPUT_FULL:
                self.circuit = self.circuit._replace(
                    output=np.concatenate([self.circuit.output, np.zeros_like(self.circuit.output)])
                )
        return False

    def count(self, counter: int) -> int:
        """Return a counter, by its place."""
        return int(self.circuit.counter[counter])

    def outcome(self) -> ChipOutcome:
        """Return what has been made so far."""
        c = self.circuit
        taken = c.shown[c.taken_at >= 0]
        return ChipOutcome(
            results=c.output[: self.count(circuit.RESULTS)].copy(),
            taken_at=c.taken_at[: self._live].copy(),
            tuples=int(np.count_nonzero(taken == TUPLE)),
            dropped=self.count(circuit.DROPPED),
            clocks=self.count(circuit.CLOCK),
            compared=self.count(circuit.COMPARED),
            suspended=self.count(circuit.SUSPENDED),
            lost=self.count(circuit.LOST),
        )


def run(arrivals: ChipArrivals, settings: Settings = PAPER, **options: Any) -> ChipOutcome:
    """Run the circuit until everything is put out; ``options`` as for :class:`ChipJoin`."""
    join = ChipJoin(arrivals, settings, **options)
    while not join.tick(_STRETCH):
        pass
    return join.outcome()
