"""What happens in the circuit, clock by clock, as text to read along with Figures 4 to 8 of the paper."""

from __future__ import annotations

from collections.abc import Iterator

from crosswind.lab.fpga import circuit
from crosswind.lab.fpga.join import PAPER, ChipArrivals, ChipJoin, Settings

__all__ = ["trace"]

_CORE_STATES = (
    "reset",
    "ready",
    "read the ports",
    "fill the input registers",
    "a new R?",
    "shift R, scan S",
    "a new S?",
    "shift S, scan R",
)
_MERGER_STATES = ("reset", "read both ports", "store port 1", "store port 2")


def trace(
    arrivals: ChipArrivals, settings: Settings = PAPER, *, flush: bool = False, clocks: int = 10_000
) -> Iterator[str]:
    """Yield what each clock does, a paragraph a clock.

    A window is shown with its newest tuple first, as ``key`` and the number of its arrival; ``-`` is a place whose
    valid flag is 0.

    Parameters
    ----------
    arrivals, settings, flush
        As for :class:`~crosswind.lab.fpga.join.ChipJoin`.
    clocks : int
        Stop after as many, if not done before.
    """
    join = ChipJoin(arrivals, settings, flush=flush)
    for clock in range(clocks):
        before = _Before(join)
        if join.tick():
            return
        yield "\n".join(
            [_headline(join, before, clock), *_cores(join, before), *_mergers(join), *_output(join, before)]
        )


class _Before:
    """What has to be remembered of the state before a clock."""

    def __init__(self, join: ChipJoin) -> None:
        self.core = join.circuit.core.copy()
        self.suspended, self.next = join.count(circuit.SUSPENDED), join.count(circuit.NEXT)
        self.results = join.count(circuit.RESULTS)


def _headline(join: ChipJoin, before: _Before, clock: int) -> str:
    state = int(before.core[0, 0])
    text = f"clock {clock}: cores in state {state} ({_CORE_STATES[state]})"
    if join.count(circuit.SUSPENDED) > before.suspended:
        text += ", held up: a buffer is almost full"
    if join.count(circuit.NEXT) > before.next:
        row = before.next
        shown = join.circuit.shown[row]
        came = [
            f"{name} {join.circuit.keys[row, k]}" if shown[k] == circuit.TUPLE else f"an empty {name}"
            for k, name in enumerate("RS")
            if shown[k] != circuit.NOTHING
        ]
        text += f", arrival {row} is admitted: {' and '.join(came) or 'nothing'}"
    return text


def _cores(join: ChipJoin, before: _Before) -> Iterator[str]:
    c = join.circuit
    ports = len(c.merger)
    for k in range(join.settings.cores):
        windows = "  ".join(f"{name} [{_window(join, k, stream)}]" for stream, name in enumerate("RS"))
        text = f"  core {k:<3} {windows}  fifo {c.queue[1, ports + k]}/{c.queue[2, ports + k]}"
        state, place = int(before.core[0, k]), int(before.core[1, k])
        moved = tuple(before.core[:, k]) != tuple(c.core[:, k]) or join.settings.segment == 1
        if state in (5, 7) and moved and join.count(circuit.SUSPENDED) == before.suspended:
            mine = 0 if state == 5 else 1
            new, held = c.inlet[k, mine], c.window[k, 1 - mine, place]
            if new[2] and held[2]:
                met = "=" if new[0] == held[0] else "<>"
                text += f"  compares {'RS'[mine]} {new[0]} {met} {'SR'[mine]} {held[0]}"
        yield text


def _window(join: ChipJoin, core: int, stream: int) -> str:
    places = join.circuit.window[core, stream]
    return " ".join(f"{key}@{row}" if valid else "-" for key, row, valid in places)


def _mergers(join: ChipJoin) -> Iterator[str]:
    c = join.circuit
    for m in range(1, len(c.merger)):
        held = [f"port {port + 1}: ({r}, {s})" for port, (r, s, valid) in enumerate(c.register[m]) if valid]
        text = f"  merger {m:<3} next {_MERGER_STATES[int(c.merger[m])]}  fifo {c.queue[1, m]}/{c.queue[2, m]}"
        yield text + ("  holds " + ", ".join(held) if held else "")


def _output(join: ChipJoin, before: _Before) -> Iterator[str]:
    for r, s, _ in join.circuit.output[before.results : join.count(circuit.RESULTS)]:
        yield f"  output: R of arrival {r} with S of arrival {s}"
