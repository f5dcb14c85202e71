"""Damage snapshots, and the blocks and manifests of Spark's state, and see what becomes of them.

``python -m tests.damage --cases 2000 --seed 1``

Each case damages what a join has written, and reads it again: it must be refused by a SnapshotError, or
give exactly the rows that it would have given undamaged. Cases run in a process of their own, so that one that
ends the process is seen, too. A failure prints the command that runs that one case again.
"""

from __future__ import annotations

import argparse
import decimal
import faulthandler
import json
import os
import queue
import random
import subprocess
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from typing import Any

import pyarrow as pa

import crosswind as cw
from crosswind.io.blocks import read_block
from crosswind.io.checksum import digest_of, seal, unseal
from tests.conftest import KERNEL_CACHE, ROOT, use_kernel_cache

HANG_S = 240
"""Seconds after which a case that says nothing is taken to hang (the first one of a kind compiles kernels)."""
FIRST, SECOND = 160, 80
"""Tuples of a stream before and after the snapshot."""
HEAD_AT = len(b"crosswind snapshot\n") + 8

SCHEMAS = {
    name: pa.schema(
        [
            ("ts", pa.int64()),
            ("x", pa.int64()),
            ("f", pa.float64()),
            ("word", pa.string()),
            ("small", pa.decimal128(9, 2)),
            ("wide", pa.decimal128(38, 4)),
            ("flag", pa.bool_()),
            ("tags", pa.list_(pa.int16())),
            ("kind", pa.dictionary(pa.int8(), pa.string())),
        ]
    )
    for name in "RST"
}
ALL = ", ".join(
    f"{a}.{c} AS {a}_{c}" for a in "RS" for c in ("ts", "x", "f", "word", "small", "wide", "flag", "tags", "kind")
)
PAIR = "FROM R [RANGE 40], S [RANGE 30]"


@dataclass(frozen=True, eq=False)
class Subject:
    """A join whose state is damaged."""

    name: str
    sql: str | Mapping[str, str]
    options: Mapping[str, Any] = field(default_factory=dict)
    on_spark: bool = False


SUBJECTS = (
    Subject("inner", f"SELECT {ALL} {PAIR} WHERE abs(R.x - S.x) <= 2", on_spark=True),
    Subject("indexed", f"SELECT R.x, S.x AS a {PAIR} WHERE abs(R.f - S.f) <= 3", {"index": "band", "basic_window": 16}),
    Subject("strings", f"SELECT R.x, R.word, S.x AS a {PAIR} WHERE R.word = S.word", on_spark=True),
    Subject("decimals", f"SELECT R.wide, S.small {PAIR} WHERE R.wide = S.wide AND R.small <= S.small"),
    Subject("rows", "SELECT R.x, R.ts, S.x AS a FROM R [ROWS 9], S [ROWS 12] WHERE R.x <= S.x", on_spark=True),
    Subject("mixed", "SELECT R.x, S.word FROM R [ROWS 9], S [RANGE 12] WHERE R.word = S.word", {"ordered": True}),
    Subject("left", f"SELECT {ALL} FROM R [RANGE 40] LEFT JOIN S [RANGE 30] ON R.x = S.x AND R.flag", on_spark=True),
    Subject("full", "SELECT R.x, S.x AS a FROM R [RANGE 9] FULL JOIN S [RANGE 9] ON R.x = S.x", {"ordered": True}),
    Subject("anti", "SELECT R.x, R.tags FROM R [ROWS 9] ANTI JOIN S [ROWS 9] ON R.x = S.x"),
    Subject("semi", "SELECT R.x, R.word FROM R [RANGE 9] SEMI JOIN S [RANGE 9] ON R.x < S.x - 9"),
    Subject("ordered", f"SELECT R.ts, S.ts AS t, R.kind {PAIR} WHERE R.x = S.x", {"ordered": True}),
    Subject("self", "SELECT a.x, b.word FROM R [RANGE 9] a, R [RANGE 15] b WHERE a.x = b.x + 1"),
    Subject("three", "SELECT R.x, T.word FROM R [RANGE 9], S [RANGE 9], T [RANGE 9] WHERE R.x = S.x AND S.x = T.x"),
    Subject(
        "many",
        {
            "near": f"SELECT R.x, S.word {PAIR} WHERE abs(R.x - S.x) <= 1",
            "last": "SELECT R.x, S.wide FROM R [ROWS 4], S [ROWS 4] WHERE R.x < S.x",
            "self": "SELECT a.x, b.x AS y FROM R [RANGE 9] a, R [RANGE 9] b WHERE a.x = b.x - 2",
        },
    ),
    Subject(
        "many ordered",
        {"near": f"SELECT R.x {PAIR} WHERE R.x = S.x", "far": f"SELECT S.tags {PAIR} WHERE R.x > S.x + 25"},
        {"ordered": True},
    ),
    Subject("handshake", f"SELECT R.x, S.word {PAIR} WHERE R.x = S.x", {"engine": "handshake", "workers": 2}),
)


def stream_batch(rng: random.Random, start: int, count: int) -> pa.Table:
    """Return ``count`` tuples, nearly in order, with nulls here and there."""

    def rarely(value: Any) -> Any:
        return None if rng.random() < 0.08 else value

    rows = [
        {
            "ts": max(0, start + k - rng.randint(0, 2)),
            "x": rarely(rng.randint(0, 30)),
            "f": rarely(rng.choice([rng.uniform(0, 50), float("nan")])),
            "word": rarely(rng.choice(["", "a", "ä", "long " * rng.randint(1, 9)])),
            "small": rarely(decimal.Decimal(rng.randint(-999, 999)) / 100),
            "wide": rarely(decimal.Decimal(rng.randint(0, 9)) * 10**20),
            "flag": rarely(rng.random() < 0.7),
            "tags": rarely([rng.randint(0, 9) for _ in range(rng.randint(0, 3))]),
            "kind": rarely(rng.choice(["one", "two", "three"])),
        }
        for k in range(count)
    ]
    return pa.Table.from_pylist(rows, SCHEMAS["R"])


def batches(subject: Subject, start: int, count: int) -> list[tuple[str, pa.Table]]:
    """Return what is pushed, small batches of each stream in turn."""
    rng = random.Random(f"{subject.name} {start}")
    names = [name for name in "RST" if any(f"{name} [" in sql for sql in texts(subject))]
    return [(name, stream_batch(rng, at, 20)) for at in range(start, start + count, 20) for name in names]


def texts(subject: Subject) -> list[str]:
    """Return the queries."""
    return [subject.sql] if isinstance(subject.sql, str) else list(subject.sql.values())


def rows_of(found: Any) -> list[str]:
    """Return results as text, a row each."""
    named = found if isinstance(found, dict) else {"": found}
    return [f"{name} {row}" for name, table in named.items() for row in table.to_pylist()]


def open_subject(subject: Subject, **options: Any) -> Any:
    """Open the join of a subject."""
    schemas = {name: SCHEMAS[name] for name in "RST" if any(f"{name} [" in sql for sql in texts(subject))}
    return cw.open(subject.sql, schemas, lateness=4, **{**subject.options, **options})


def rest_of(subject: Subject, join: Any, start: int) -> list[str]:
    """Push what comes after tuple ``start`` of each stream, and return the rows."""
    found = []
    for name, table in batches(subject, start, SECOND):
        found += rows_of(join.push(name, table))
    found += rows_of(join.finish())
    return found if subject.options.get("ordered") else sorted(found)


@dataclass(frozen=True)
class Taken:
    """A snapshot, the tuple of each stream after which it was taken, and the rows that come after it."""

    data: bytes
    start: int
    rows: list[str]


@cache
def taken(subject: Subject, start: int) -> Taken:
    """Return a snapshot of a subject and what a join that went on gave."""
    with open_subject(subject) as join:
        for name, table in batches(subject, 0, start):
            join.push(name, table)
        data = join.snapshot()
        return Taken(data, start, rest_of(subject, join, start))


# ---------------------------------------------------------------------------------- damage to bytes


def flip(rng: random.Random, data: bytes) -> bytes:
    """Flip one bit or a few, half of the time near the beginning."""
    made = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 8])):
        made[rng.randrange(min(len(made), rng.choice([2048, len(made)])))] ^= 1 << rng.randrange(8)
    return bytes(made)


def overwrite(rng: random.Random, data: bytes) -> bytes:
    """Overwrite a word, or a few."""
    made = bytearray(data)
    for _ in range(rng.choice([1, 1, 3])):
        word = rng.choice([0, 2**64 - 1, 2**63, 1, rng.getrandbits(64), rng.getrandbits(20)])
        at = rng.randrange(max(1, len(made) - 8)) // 8 * 8
        made[at : at + 8] = word.to_bytes(8, "little")
    return bytes(made[: len(data)])


def blank(rng: random.Random, data: bytes) -> bytes:
    """Make a sector zero."""
    at = rng.randrange(len(data))
    size = min(512, len(data) - at)
    return data[:at] + bytes(size) + data[at + size :]


def truncate(rng: random.Random, data: bytes) -> bytes:
    """Cut off the end."""
    return data[: rng.choice([rng.randrange(len(data)), len(data) - rng.randint(1, min(64, len(data)))])]


def append(rng: random.Random, data: bytes) -> bytes:
    """Let something follow: other bytes, or some of its own."""
    return data + rng.choice([rng.randbytes(rng.randint(1, 64)), data[-rng.randint(1, len(data)) :], bytes(8)])


def lose(rng: random.Random, data: bytes) -> bytes:
    """Lose some bytes in between."""
    at = rng.randrange(len(data))
    return data[:at] + data[at + rng.randint(1, 64) :]


BYTES = (flip, overwrite, blank, truncate, append, lose)


def splice(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """Put the beginning of one and the end of another together, somewhere or where a section ends."""
    cuts = boundaries(data)
    at = rng.choice([rng.randrange(len(data)), rng.choice(cuts)])
    return data[:at] + other[rng.choice([at, len(other) - (len(data) - at), rng.choice(boundaries(other))]) :]


def boundaries(data: bytes) -> list[int]:
    """Return where the head and each section of a snapshot end."""
    ends = [HEAD_AT + int.from_bytes(data[HEAD_AT - 8 : HEAD_AT], "little")]
    for section in json.loads(data[HEAD_AT : ends[0]])["sections"]:
        ends.append(ends[-1] + section["bytes"])
    return ends


def swap(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """Exchange two sections, or one for that of another snapshot."""
    ends = boundaries(data)
    parts = [data[a:b] for a, b in zip([0, *ends[:-1]], ends, strict=True)]
    one, two = rng.randrange(1, len(parts)), rng.randrange(1, len(parts))
    parts[one], parts[two] = parts[two], parts[one]
    if one == two or rng.random() < 0.5:
        theirs = boundaries(other)
        pick = rng.randrange(1, len(theirs))
        parts[one] = other[theirs[pick - 1] : theirs[pick]]
    return b"".join(parts)


def reseal(rng: random.Random, data: bytes) -> bytes:
    """Damage the content of a section, or the description, and write the checksums that go with it."""
    ends = boundaries(data)
    parts = [data[a:b] for a, b in pairwise(ends)]
    head = unseal(data[HEAD_AT : ends[0]], 2)
    at = rng.randrange(len(parts))
    if rng.random() < 0.7:
        parts[at] = rng.choice(BYTES)(rng, parts[at])
    else:
        section = head["sections"][at]
        key = rng.choice(["place", "unit", "rows"])
        section[key] = rng.choice([0, 1, 2, -1, 2**40, None, "held", "window", "unmatched", "owed", "pending"])
    for section, part in zip(head["sections"], parts, strict=True):
        section["bytes"], section["checksum"] = len(part), digest_of(part)
    if rng.random() < 0.3:
        name = rng.choice(sorted(head["about"]))
        head["about"][name] = rng.choice([None, {}, [], 0, -1, 2**70, "x", {"R": 2**70}, {"R": "x"}])
    made = seal(2, head)
    return data[: HEAD_AT - 8] + len(made).to_bytes(8, "little") + made + b"".join(parts)


# ---------------------------------------------------------------------------------- cases in one process


@dataclass(frozen=True)
class Verdict:
    """What became of a case: ``refused``, ``right`` or (a failure) ``wrong``, ``raised``, ``crashed``, ``hung``."""

    kind: str
    what: str
    outcome: str
    report: str = ""

    @property
    def is_failure(self) -> bool:
        return self.outcome not in ("refused", "right", "survived")


def snapshot_case(rng: random.Random) -> Verdict:
    """Damage a snapshot and restore it."""
    subject = rng.choice(SUBJECTS)
    start = rng.choice([FIRST // 2, FIRST])
    one, two = taken(subject, start), taken(subject, FIRST + FIRST // 2 - start)
    kind = rng.choice([*(spoil.__name__ for spoil in BYTES), "splice", "swap", "other", "reseal"])
    if kind in ("splice", "swap"):
        spoilt = {"splice": splice, "swap": swap}[kind](rng, one.data, two.data)
    elif kind == "other":
        others = [other for other in SUBJECTS if other is not subject]
        spoilt = taken(rng.choice(others), FIRST).data
    else:
        spoilt = {**{spoil.__name__: spoil for spoil in BYTES}, "reseal": reseal}[kind](rng, one.data)
    whole = {two.data: two}.get(spoilt, one)
    try:
        if rng.random() < 0.3:
            return _restored_after_refusal(subject, kind, one, spoilt)
        with open_subject(subject, restore=spoilt) as join:
            if kind == "reseal":  # it is another state now, and only has to do no harm
                _try_rest(subject, join, start)
                return Verdict(kind, subject.name, "survived")
            found = rest_of(subject, join, whole.start)
    except cw.SnapshotError as error:
        _check_message(str(error), "restore", "Open the join", "open the join", "pass what")
        return Verdict(kind, subject.name, "refused")
    outcome = "right" if found == whole.rows else "wrong"
    return Verdict(kind, subject.name, outcome, f"{len(found)} rows instead of {len(whole.rows)}")


def _try_rest(subject: Subject, join: Any, start: int) -> None:
    try:
        rest_of(subject, join, start)
    except Exception as error:  # anything but the end of the process
        del error


def _restored_after_refusal(subject: Subject, kind: str, good: Taken, spoilt: bytes) -> Verdict:
    """Restore what is damaged, then what is not: the first must have changed nothing."""
    with open_subject(subject) as join:
        before = join.snapshot()
        try:
            join.restore(spoilt)
        except cw.SnapshotError:
            if join.snapshot() != before:
                return Verdict(kind, subject.name, "wrong", "a restore that was refused changed the join")
            join.restore(good.data)
            found = rest_of(subject, join, good.start)
            outcome = "refused" if found == good.rows else "wrong"
            return Verdict(kind, subject.name, outcome, "after a restore that was refused")
        if kind == "reseal":
            _try_rest(subject, join, good.start)
            return Verdict(kind, subject.name, "survived")
        outcome = "right" if rest_of(subject, join, good.start) == good.rows else "wrong"
        return Verdict(kind, subject.name, outcome, "restored though it was damaged")


def _check_message(text: str, *words: str) -> None:
    if not any(word in text for word in words):
        raise AssertionError(f"the error does not say what to do: {text}")


@dataclass(frozen=True)
class CellTaken:
    """The state of a cell of a join on Spark, what comes next to it, and the rows that gives."""

    spec: Any
    watermark: int
    content: dict[str, bytes]
    other: dict[str, bytes]
    arrivals: list[Any]
    rows: list[str]


@cache
def cell_taken(subject: Subject) -> CellTaken:
    """Run some micro-batches of a subject, and return the state of a cell."""
    from crosswind.spark.cell import CellInput
    from tests.spark.simulation import CALM, Simulation, make_spec

    spec = make_spec(subject.sql, {name: SCHEMAS[name] for name in "RS"}, lateness=4, layout=(1, 1))
    simulation = Simulation(spec, random.Random(1), CALM)
    other: dict[str, bytes] = {}
    pushed = batches(subject, 0, FIRST)
    for number in range(0, len(pushed), 2):
        simulation.batch(dict(pushed[number : number + 2]))
        (state,) = simulation.now.states.values()
        other = dict(state) if number == len(pushed) // 2 else other
    coming = simulation._packed(dict(batches(subject, FIRST, 20)))
    arrivals = [CellInput(row["unit"], row["is_primary"], read_block(row["block"])) for row in coming if row["block"]]
    made = CellTaken(spec, simulation.watermark, dict(state), other, arrivals, [])
    return CellTaken(spec, simulation.watermark, dict(state), other, arrivals, cell_rows(made, state))


def cell_rows(taken_cell: CellTaken, content: Mapping[str, bytes]) -> list[str]:
    """Run the next micro-batch over a state, in a worker that has just started."""
    from crosswind.spark.cache import JoinCache
    from crosswind.spark.cell import Cell, Report
    from tests.spark.simulation import DictStore

    cell = Cell(taken_cell.spec, DictStore(content), JoinCache(), 5)
    found = [table for _, table in cell.process(taken_cell.arrivals, taken_cell.watermark, Report())]
    return sorted(row for table in found for row in rows_of(table))


def state_case(rng: random.Random) -> Verdict:
    """Damage the state of a cell on Spark and go on with it."""
    subject = rng.choice([subject for subject in SUBJECTS if subject.on_spark])
    state = cell_taken(subject)
    content = dict(state.content)
    name = rng.choice(sorted(content))
    part = "manifest" if name == "manifest" else "block"
    spoil = rng.choice([*BYTES, "missing", "exchanged", "older", "another's"])
    if callable(spoil):
        kind, content[name] = spoil.__name__, spoil(rng, content[name])
    else:
        kind = str(spoil)
        if kind == "missing":
            del content[name]
        elif kind == "exchanged":
            other = rng.choice(sorted(content))
            content[name], content[other] = content[other], content[name]
        elif kind == "older":  # the manifest of an earlier micro-batch is no damage: all that it names is there
            older = [key for key in state.other if key != "manifest"]
            content[name] = state.other[rng.choice(older)]
        else:
            strangers = [s for s in SUBJECTS if s.on_spark and s is not subject]
            theirs = cell_taken(rng.choice(strangers)).content
            content[name] = theirs["manifest"] if name == "manifest" else rng.choice(list(theirs.values()))
    kind = f"{part}: {kind}"
    try:
        found = cell_rows(state, content)
    except cw.SnapshotError as error:
        if kind != "manifest: another's":
            _check_message(str(error), "cell 5: ")
        _check_message(str(error), "new checkpointLocation")
        return Verdict(kind, subject.name, "refused")
    outcome = "right" if found == state.rows else "wrong"
    return Verdict(kind, subject.name, outcome, f"{len(found)} rows instead of {len(state.rows)}")


def judge(seed: int, number: int) -> Verdict:
    """Run one case."""
    rng = random.Random(f"damage {seed} {number}")
    case: Callable[[random.Random], Verdict] = state_case if number % 4 == 3 else snapshot_case
    try:
        return case(rng)
    except Exception as error:
        return Verdict(case.__name__, "", "raised", f"{type(error).__name__}: {error}")


def work(seed: int, numbers: Sequence[int]) -> None:
    """Run cases and write a line before and after each of them."""
    faulthandler.enable()
    warnings.simplefilter("ignore", cw.CrosswindWarning)
    use_kernel_cache(ROOT / ".pytest_cache" / "d" / KERNEL_CACHE)
    for number in numbers:
        print(json.dumps({"begins": number}), flush=True)
        print(json.dumps({"number": number, **vars(judge(seed, number))}), flush=True)


# ---------------------------------------------------------------------------------- the command


def run(cases: int, seed: int, first: int = 0) -> dict[int, Verdict]:
    """Run cases in processes of their own; one that ends its process is a verdict, and the others go on."""
    verdicts: dict[int, Verdict] = {}
    at = first
    while at < first + cases:
        at = _run_process(seed, at, first + cases, verdicts)
    return verdicts


def _run_process(seed: int, at: int, end: int, verdicts: dict[int, Verdict]) -> int:
    """Run cases from ``at`` until ``end`` or until the process ends; return where to go on."""
    command = [sys.executable, "-m", "tests.damage", "--work", "--seed", str(seed), "--first", str(at)]
    process = subprocess.Popen(
        [*command, "--cases", str(end - at)], cwd=ROOT, env=dict(os.environ), text=True, stdout=subprocess.PIPE
    )
    lines: queue.Queue[str | None] = queue.Queue()

    def listen() -> None:
        if process.stdout is not None:
            for line in process.stdout:
                lines.put(line)
        lines.put(None)

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    outcome = "crashed"
    try:
        while (line := lines.get(timeout=HANG_S)) is not None:
            said = json.loads(line)
            if "begins" in said:
                at = said["begins"]
            else:
                number = said.pop("number")
                verdicts[number], at = Verdict(**said), number + 1
    except queue.Empty:
        outcome = "hung"
    finally:
        process.kill()
        code = process.wait()
        listener.join()
        if process.stdout is not None:
            process.stdout.close()
    if at < end:
        verdicts[at] = Verdict("process", "", outcome, f"exit code {code}")
        at += 1
    return at


def report(verdicts: Mapping[int, Verdict], seed: int) -> list[str]:
    """Return what went wrong, with the command that runs it again."""
    return [
        f"case {number}: {verdict.outcome}, {verdict.kind} of {verdict.what}: {verdict.report}\n"
        f"  again:  python -m tests.damage --seed {seed} --first {number} --cases 1"
        for number, verdict in sorted(verdicts.items())
        if verdict.is_failure
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run cases and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.damage", description=__doc__.split("\n")[0])
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    parser.add_argument("--work", action="store_true", help="run them in this process, and write a line of JSON each")
    options = parser.parse_args(arguments)
    if options.work:
        work(options.seed, range(options.first, options.first + options.cases))
        return 0
    began = time.monotonic()
    verdicts = run(options.cases, options.seed, options.first)
    failures = report(verdicts, options.seed)
    for text in failures[:20]:
        print(text)
    for kind in sorted({verdict.kind for verdict in verdicts.values()}):
        mine = Counter(verdict.outcome for verdict in verdicts.values() if verdict.kind == kind)
        print(f"{kind:24} {dict(mine)}")
    total = Counter(verdict.outcome for verdict in verdicts.values())
    print(f"{len(verdicts)} cases, seed {options.seed}, {time.monotonic() - began:.0f} s: {dict(total)}")
    return int(bool(failures) or len(verdicts) < options.cases)


if __name__ == "__main__":
    sys.exit(main())
