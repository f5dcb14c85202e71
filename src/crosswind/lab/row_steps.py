"""Handshake Join step by step: a row of workers, at once or with messages that are under way (sections 3.5 to 4.4)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from crosswind.lab.scene import Ledger, Place, Scene, SceneArrival, Step

__all__ = ["play_handshake", "play_messages", "play_missed"]


class StepRow:
    """Workers in a row; R walks to the right, S to the left."""

    def __init__(self, ledger: Ledger, workers: int) -> None:
        self.ledger = ledger
        self.held: dict[str, list[list[str]]] = {stream: [[] for _ in range(workers)] for stream in "RS"}
        self.last = workers - 1

    def places(self, lit: Sequence[str] = ()) -> list[Place]:
        """Return the row; newest tuples are nearest to where they come from."""
        r, s = self.held["R"], self.held["S"]
        return [Place(f"worker {k + 1}", 0, k, tuple(r[k]), tuple(reversed(s[k])), tuple(lit)) for k in range(len(r))]

    def enter(self, stream: str, name: str, at: int, text: str) -> Step:
        """Let a tuple come to a worker, and meet what is there of the other stream (immediate scan, section 3.5)."""
        other = self.facing(stream, at)
        pairs = [(name, s) if stream == "R" else (s, name) for s in other]
        self.held[stream][at].insert(0, name)
        return self.ledger.step(text, self.places([name, *other]), pairs)

    def facing(self, stream: str, at: int) -> list[str]:
        """Return who a tuple of ``stream`` meets at a worker."""
        return list(self.held["S" if stream == "R" else "R"][at])

    def arrive(self, arrival: SceneArrival) -> Step:
        """Let a tuple enter at its end."""
        at = 0 if arrival.stream == "R" else self.last
        text = f"{arrival.name} (value {arrival.value}) enters at worker {at + 1} and meets who is there"
        return self.enter(arrival.stream, arrival.name, at, text)

    def balance(self) -> Iterator[Step]:
        """Forward the oldest tuple wherever a worker holds more than its next neighbour (section 4.3)."""
        moved = True
        while moved:
            moved = False
            for stream, way in (("R", 1), ("S", -1)):
                held = self.held[stream]
                for at in range(self.last + 1) if way > 0 else range(self.last, -1, -1):
                    to = at + way
                    if 0 <= to <= self.last and len(held[at]) > len(held[to]) + 1:
                        yield self._forward(stream, at, to, "it has more tuples than its neighbour")
                        moved = True

    def expire(self, now: int) -> Iterator[Step]:
        """Send what has expired to the far end, meeting who it has not met yet, and let it go (section 4.4)."""
        for stream, way in (("R", 1), ("S", -1)):
            end = self.last if way > 0 else 0
            for name in self.ledger.expired([name for held in self.held[stream] for name in held], now):
                yield from self._walk(stream, name, way, "its window has ended")
                self.held[stream][end].remove(name)
                yield self.ledger.step(f"{name} leaves the row: it has expired", self.places())

    def finish(self) -> Iterator[Step]:
        """Let everybody meet who has not yet: R walks on to the end."""
        for held in reversed(range(self.last + 1)):
            for name in reversed(list(self.held["R"][held])):
                yield from self._walk("R", name, 1, "the streams have ended")

    def _walk(self, stream: str, name: str, way: int, why: str) -> Iterator[Step]:
        at = next(k for k, held in enumerate(self.held[stream]) if name in held)
        while 0 <= at + way <= self.last:
            yield self._forward(stream, at, at + way, why, name)
            at += way

    def _forward(self, stream: str, at: int, to: int, why: str, name: str | None = None) -> Step:
        name = name or self.held[stream][at][-1]
        self.held[stream][at].remove(name)
        return self.enter(stream, name, to, f"worker {at + 1} sends {name} on to worker {to + 1}: {why}")


class MessageRow(StepRow):
    """A row whose workers send messages to their neighbours, which take them a step later (section 4.2, figure 9).

    Two tuples that are sent towards each other in the same step would miss each other. So a worker keeps a copy of what
    it has sent to the left, until the neighbour acknowledges it; the acknowledgment follows what that one has
    sent before, in the same queue.

    Parameters
    ----------
    ledger : Ledger
        Who has met.
    workers : int
        How many.
    acknowledged : bool
        Whether copies are kept until they are acknowledged; otherwise pairs are missed.
    """

    def __init__(self, ledger: Ledger, workers: int, acknowledged: bool) -> None:
        super().__init__(ledger, workers)
        self._acknowledged = acknowledged
        self._copies: list[list[str]] = [[] for _ in range(workers)]
        # By link between a worker and the next: to the right (R and acknowledgments), and to the left (S).
        self._right: list[deque[tuple[str, str]]] = [deque() for _ in range(workers - 1)]
        self._left: list[deque[tuple[str, str]]] = [deque() for _ in range(workers - 1)]

    def places(self, lit: Sequence[str] = ()) -> list[Place]:
        """Return the row; copies are guests."""
        made = []
        for k, place in enumerate(super().places(lit)):
            copies = tuple(self._copies[k])
            made.append(Place(place.name, 0, k, place.r, place.s, place.lit, copies))
        return made

    def balance(self) -> Iterator[Step]:
        """Let all workers send what is too much, then let all take what has come, until nothing is under way."""
        while sent := self._send():
            yield self.ledger.step(f"sent at the same time: {'; '.join(sent)}", self.places())
            while any(self._right) or any(self._left):
                yield from self._receive()

    def _send(self) -> list[str]:
        sent = []
        for stream, way in (("R", 1), ("S", -1)):
            held = self.held[stream]
            sizes = [len(some) for some in held]
            for at in range(self.last + 1):
                to = at + way
                if 0 <= to <= self.last and sizes[at] > sizes[to] + 1:
                    name = held[at].pop()
                    link = (self._right if way > 0 else self._left)[min(at, to)]
                    link.append((stream, name))
                    kept = ""
                    if stream == "S" and self._acknowledged:
                        self._copies[at].append(name)
                        kept = ", and keeps a copy"
                    sent.append(f"worker {at + 1} sends {name} to worker {to + 1}{kept}")
        return sent

    def _receive(self) -> Iterator[Step]:
        for k in range(self.last):
            if self._right[k]:
                yield self._take_from_left(k + 1, *self._right[k].popleft())
            if self._left[k]:
                yield self._take_from_right(k, *self._left[k].popleft())

    def _take_from_left(self, at: int, kind: str, name: str) -> Step:
        if kind == "R":
            return self.enter("R", name, at, f"{name} reaches worker {at + 1} and meets who is there")
        self._copies[at].remove(name)
        text = f"the acknowledgment of {name} reaches worker {at + 1}, which drops its copy"
        return self.ledger.step(text, self.places([name]))

    def _take_from_right(self, at: int, kind: str, name: str) -> Step:
        text = f"{name} reaches worker {at + 1} and meets who is there"
        if self._acknowledged:
            self._right[at].append(("ack", name))
            text += ", which is acknowledged"
        return self.enter(kind, name, at, text)

    def facing(self, stream: str, at: int) -> list[str]:
        """Return who a tuple of ``stream`` meets at a worker: copies as well, if it comes from the left."""
        return super().facing(stream, at) + (self._copies[at] if stream == "R" else [])


def _play(scene: Scene, row: StepRow, together: int = 1) -> Iterator[Step]:
    """Play a scene; workers compare what they hold when ``together`` tuples have come."""
    for number, arrival in enumerate(scene.arrivals, start=1):
        row.ledger.known[arrival.name] = arrival
        yield from row.expire(arrival.time)
        yield row.arrive(arrival)
        if number % together == 0:
            yield from row.balance()
    yield from row.finish()


def play_handshake(scene: Scene, workers: int) -> Iterator[Step]:
    """Handshake Join: two streams walk past each other along a row of workers, and nothing is ever under way."""
    return _play(scene, StepRow(Ledger(scene), workers))


def play_messages(scene: Scene, workers: int) -> Iterator[Step]:
    """Handshake Join with copies and acknowledgments."""
    return _play(scene, MessageRow(Ledger(scene), workers, acknowledged=True), together=2)


def play_missed(scene: Scene, workers: int) -> Iterator[Step]:
    """Handshake Join without copies: tuples that are on their way at the same time miss each other (figure 7)."""
    return _play(scene, MessageRow(Ledger(scene), workers, acknowledged=False), together=2)
