"""COMPILED CODE: each kernel against a naive twin in plain Python, and the vectorisation of the inner loop.

The twins share no code with the kernels; seeds are in the test ids.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from itertools import pairwise
from operator import eq, ge, gt, le, lt

import numpy as np
import pyarrow as pa
import pytest

import crosswind as cw
from crosswind.engine.probe.boxes import Scratch
from crosswind.engine.probe.index import Index
from crosswind.kernel.compiled.arrange import (
    float_keys,
    grid_cells,
    group,
    hash_cells,
    hash_keys,
    hash_texts,
    hash_wides,
)
from crosswind.kernel.compiled.gather import gather_text, gather_width
from crosswind.kernel.compiled.runtime import text_equal
from crosswind.kernel.generated.box import box_kernel
from crosswind.kernel.jit import load_source
from crosswind.plan.compile import compile_plan
from crosswind.plan.keys import PAD, encode, first_and_last, value_of
from crosswind.plan.physical import Storage
from crosswind.query import parse
from crosswind.query.types import DOUBLE, Kind, SqlType
from crosswind.window.basic import BasicWindow
from crosswind.window.block import Block
from crosswind.window.join_window import Residents
from crosswind.window.vector import Layout, Vector, address
from tests import seeds

FLOAT = SqlType(Kind.FLOAT, bits=32)
NAN, INF = math.nan, math.inf
TINY = float(np.nextafter(0.0, 1.0))
REALS = [-INF, -1.7976931348623157e308, -10.5, -1.0, -TINY, -0.0, 0.0, TINY, 0.1, 1.0, 10.5, 2.0**53, 1e308, INF, NAN]
OPERATORS = {"<": lt, "<=": le, ">": gt, ">=": ge, "=": eq}
BLOCK = 4096


# ---------------------------------------------------------------------------------- keys


def naive_order(value: float) -> tuple[bool, float]:
    return (True, 0.0) if math.isnan(value) else (False, value)


@pytest.mark.parametrize(("of", "dtype"), [(FLOAT, "float32"), (DOUBLE, "float64")], ids=["float32", "float64"])
def test_keys_keep_the_order_of_floats(of, dtype):
    rng = seeds.numbers(7)
    raw = rng.integers(0, 256, 2000 * np.dtype(dtype).itemsize, dtype=np.uint8).view(dtype)
    with np.errstate(over="ignore"):
        special = np.concatenate([np.array([*REALS, NAN, 0.0, -0.0]), -np.array([NAN])]).astype(dtype)
    values = np.concatenate([raw, special])
    keys = encode(values, of, of.bits).tolist()
    assert float_keys(values.ctypes.data, len(values), of.bits).tolist() == keys
    order = [naive_order(v) for v in values.tolist()]
    pairs = list(itertools.product(range(len(raw), len(values)), repeat=2))
    pairs += rng.integers(0, len(keys), (20_000, 2)).tolist()
    for i, j in pairs:
        assert (keys[i] < keys[j], keys[i] == keys[j]) == (order[i] < order[j], order[i] == order[j])
    first, last = first_and_last(of, of.bits)
    assert first <= min(keys) <= max(keys) <= last
    for value, back in zip(values.tolist(), value_of(np.array(keys, dtype=f"int{of.bits}"), of).tolist(), strict=True):
        assert back == (INF if math.isnan(value) else value)


def test_keys_of_integers_are_the_integers():
    for bits in (8, 16, 32, 64):
        of = SqlType(Kind.INT, bits=bits)
        values = np.array([-(2 ** (bits - 1)), -1, 0, 1, 2 ** (bits - 1) - 1], dtype=f"int{bits}")
        assert encode(values, of, max(32, bits)).tolist() == values.tolist()
        assert first_and_last(of, max(32, bits)) == (values[0], values[-1])


def test_encoding_does_not_change_its_input():
    values = np.array([-0.0, NAN, 1.0])
    before = values.tobytes()
    encode(values, DOUBLE, 64)
    assert values.tobytes() == before


# ---------------------------------------------------------------------------------- 32 keys at a time

_RANGES = '''"""Both comparisons, for tests."""

from crosswind.kernel.jit import jit
from crosswind.kernel.compiled.simd import in_range_32, in_range_64, lowest_bit


@jit("int64(int64, int64, int64, int64)")
def narrow(address, index, low, width):
    return in_range_32(address, index, low, width)


@jit("int64(int64, int64, int64, int64)")
def wide(address, index, low, width):
    return in_range_64(address, index, low, width)


@jit("int64(int64)")
def lowest(mask):
    return lowest_bit(mask)
'''


@pytest.mark.parametrize("bits", [32, 64])
def test_comparing_32_keys_at_a_time(bits):
    rng = seeds.chance(bits)
    least, most = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    kernels = load_source(_RANGES)
    compare = kernels.narrow if bits == 32 else kernels.wide
    for _ in range(200):
        near = rng.choice([0, least, most, rng.randint(least, most)])
        keys = [min(most, max(least, near + rng.randint(-9, 9))) for _ in range(64)]
        low = rng.choice([*keys, least, near])
        high = rng.choice([low, most, min(most, low + rng.randint(0, 9))])
        array, index = np.array(keys, dtype=f"int{bits}"), rng.randint(0, 32)
        width = high - low if high - low <= most else high - low - 2**bits
        mask = compare(address(array), index, low, width)
        assert mask == sum(1 << k for k in range(32) if low <= keys[index + k] <= high)
        if mask:
            assert kernels.lowest(mask) == bin(mask)[::-1].index("1")


# ---------------------------------------------------------------------------------- the box kernel

DIMENSIONS = {
    "band": "R.x BETWEEN S.a - 5 AND S.a + 5 AND R.f BETWEEN S.f - 1 AND S.f + 1",
    "hash": "R.x = S.a AND R.f BETWEEN S.f - 1 AND S.f + 1",
}
SCHEMAS = {
    "R": pa.schema([("x", pa.int32()), ("f", pa.float64()), ("ts", pa.int64())]),
    "S": pa.schema([("a", pa.int32()), ("f", pa.float64()), ("ts", pa.int64())]),
}


class Boxes:
    """Random boxes over an int32 and a double column, with bounds of time and sequence number."""

    def __init__(self, rng: np.random.Generator, count: int, equality: bool, flags: int) -> None:
        self.low_x = rng.integers(-60, 60, count).astype(np.int32)
        self.high_x = self.low_x.copy()
        if not equality:
            self.high_x += rng.integers(0, 12, count).astype(np.int32)
            self.high_x[::7] = 2**31 - 1
            self.low_x[::11] = -(2**31)
        low = rng.normal(0, 20, count)
        low[::9] = -INF
        self.low_f = encode(low, DOUBLE, 64)
        self.high_f = encode(np.where(np.arange(count) % 5 == 0, NAN, low + rng.random(count) * 9), DOUBLE, 64)
        self.high_f = np.maximum(self.low_f, self.high_f)
        self.low_t, self.low_q = rng.integers(0, 50, count), rng.integers(0, 50, count)
        self.high_t, self.high_q = self.low_t + rng.integers(0, 500, count), self.low_q + rng.integers(0, 500, count)
        self.flags = flags

    def tables(self) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
        """Return the probe table, the spans, and what must stay alive behind the addresses."""
        ends = [value_of(self.low_f, DOUBLE), value_of(self.high_f, DOUBLE)]
        narrow = (self.high_x.astype(np.int64) - self.low_x).astype(np.uint32).view(np.int32)
        arrays = [
            *(self.low_t, self.high_t, self.low_q, self.high_q, hash_keys([self.low_x])),
            *(self.low_x, narrow, self.low_x.astype(float), self.high_x.astype(float)),
            *(self.low_f, self.high_f - self.low_f, *ends),
        ]
        times = [f(t) for t in (self.low_t, self.high_t) for f in (np.min, np.max)]
        return np.array([address(a) for a in arrays]), np.array([0, 0, 0, *times, self.flags]), arrays

    def naive(self, item: int, row: int, block: Block) -> set[tuple[int, int, int]]:
        x, f = int(block.columns[0].values[row]), int(block.columns[1].values[row])
        hits = (self.low_x <= x) & (x <= self.high_x) & (self.low_f <= f) & (f <= self.high_f)
        if self.flags & 1:
            hits &= (self.low_t <= block.times[row]) & (block.times[row] <= self.high_t)
        if self.flags & 2:
            hits &= (self.low_q <= block.numbers[row]) & (block.numbers[row] <= self.high_q)
        return {(item, row, int(j)) for j in np.flatnonzero(hits)}


def random_block(rng: np.random.Generator, count: int) -> Block:
    x = encode(rng.integers(-60, 60, count).astype(np.int32), SqlType(Kind.INT, bits=32), 32)
    reals = rng.normal(0, 20, count)
    reals[::13] = rng.choice([NAN, INF, -INF, -0.0])
    columns = (
        Vector(Layout(Storage.FIXED, "int32"), x),
        Vector(Layout(Storage.FIXED, "int64"), encode(reals, DOUBLE, 64)),
    )
    return Block(np.sort(rng.integers(0, 400, count)), columns, np.arange(count, dtype=np.int64))


def resident(kind: str, block: Block, rng: np.random.Generator):
    """Return ``block`` as a basic window (arrangement ``none``) or as a run."""
    if kind == "none":
        made = BasicWindow(tuple(column.layout for column in block.columns), len(block) + 3, True)
        made.append(block, 0, len(block))
        return made
    sql = f"SELECT R.x FROM R [NOW], S [NOW] WHERE {DIMENSIONS.get(kind, DIMENSIONS['band'])}"
    index = Index(compile_plan({"q": parse(sql, SCHEMAS, "ts")}).accesses[0].dimensions, kind)
    centre = [rng.integers(-60, 60, 300).astype(float), rng.normal(0, 20, 300)]
    reach = [0.0 if kind == "hash" else 5.0, 3.0]
    lows, highs = ([c + s * r for c, r in zip(centre, reach, strict=True)] for s in (-1, 1))
    index.see(lows, highs, np.arange(300))
    run = index.arrange([block])
    assert run is not None
    assert (run.arrangement.kind if run.arrangement else "scan") == kind
    return run


def candidates(items: list, boxes: Boxes, count: int, room: int) -> list[tuple[int, int, int]]:
    """Run the kernel with buffers of ``room``, going on where it stopped."""
    view = Residents(items, (0, 1), 2)
    probe, spans, alive = boxes.tables()
    out = [np.empty(room, dtype=np.int64) for _ in range(3)]
    state, order = np.array([0, 0, -1, -1]), seeds.numbers(count).permutation(count)
    found: list[tuple[int, int, int]] = []
    kernel, work = box_kernel((32, 64), BLOCK), Scratch((32, 64), count).work
    while state[0] < len(items):
        n = kernel(view.runs, view.params, len(items), probe, spans, order, count, work, *out, state)
        assert n <= room
        found += zip(*(part[:n].tolist() for part in out), strict=True)
    assert alive
    return found


@pytest.mark.parametrize("kind", ["none", "scan", "band", "hash"])
@pytest.mark.parametrize("room", [128, 1 << 16])
@pytest.mark.parametrize("flags", [0, 1, 2, 3])
def test_candidates_of_boxes(kind, room, flags):
    rng = seeds.numbers(*[flags, room])
    for sizes, count in [((700,), 40), ((1, 33, 250), 7), ((5000,), 3)]:
        items = [resident(kind, random_block(rng, size), rng) for size in sizes]
        boxes = Boxes(rng, count, kind == "hash", flags)
        found = candidates(items, boxes, count, room)
        wanted = set().union(
            *(boxes.naive(w, row, item.block()) for w, item in enumerate(items) for row in range(item.length))
        )
        assert len(found) == len(set(found)), "every candidate once"
        assert set(found) == wanted


# ---------------------------------------------------------------------------------- pair by pair


def pairs(where: str, r: dict, s: dict) -> list[tuple[int, int]]:
    """Return the rows of R and S that join; S waits, R probes."""
    schema = pa.schema({"ts": pa.int64(), "i": pa.int32(), "k": pa.int64(), "f": pa.bool_()})
    sql = f"SELECT R.i AS i, S.i AS j FROM R [RANGE 10], S [RANGE 10] WHERE {where}"
    with cw.open(sql, {"R": schema, "S": schema}, lateness=1000) as join:
        assert not join._plan.accesses[1].dimensions, "pair by pair"
        join.push("S", {"i": list(range(len(s["k"]))), **s})
        found = join.push("R", {"i": list(range(len(r["k"]))), **r})
    return sorted(zip(found["i"].to_pylist(), found["j"].to_pylist(), strict=True))


@pytest.mark.parametrize("at", [0, 255, 256, 511, 699])
def test_a_single_match_is_found_wherever_it_lies(at):
    keys = [5] * 700
    keys[at] = 11
    s = {"ts": [1] * 700, "k": keys, "f": [True] * 700}
    assert pairs("R.k * S.k = 77", {"ts": [1], "k": [7], "f": [True]}, s) == [(0, at)]


def test_a_match_that_has_expired_does_not_count():
    s = {"ts": [1] * 300 + [20] * 300, "k": [11] * 600, "f": [True] * 600}
    found = pairs("R.k * S.k = 77", {"ts": [20], "k": [7], "f": [True]}, s)
    assert found == [(0, j) for j in range(300, 600)]


@pytest.mark.parametrize("big", [2**62 + 9, -(2**62) - 9, 2**63 - 1])
@pytest.mark.parametrize("operation", ["R.k * S.k = 77", "R.k + S.k + S.k = 9", "R.k - S.k - S.k = 9 OR R.k * 3 = S.k"])
def test_an_overflow_is_an_error_exactly_where_it_counts(operation, big):
    """Vector code evaluates more than it should; only pairs that are really evaluated may raise."""
    probe = {"ts": [20], "k": [7], "f": [True]}
    keys = [1] * 600
    keys[300] = big
    s = {"ts": [20] * 600, "k": keys, "f": [True] * 600}
    with pytest.raises(cw.ArithmeticOverflowError):
        pairs(operation, probe, s)
    expired = {**s, "ts": [20] * 300 + [1] + [20] * 299}
    assert pairs(operation, probe, expired) == pairs(operation, probe, {**expired, "k": [1] * 600})
    masked = {**s, "f": [k != big for k in keys]}
    shielded = f"(S.f OR R.i = S.i + 100000) AND ({operation})"
    assert pairs(shielded, probe, masked) == pairs(shielded, probe, {**masked, "k": [1] * 600})


@pytest.mark.parametrize("factor", [2**31, 3_037_000_499, -3_037_000_499])
def test_products_near_the_end_of_the_range_are_exact(factor):
    """What vector code takes for an overflow, to be safe, is computed again."""
    s = {"ts": [1] * 400, "k": [factor] * 400, "f": [True] * 400}
    found = pairs(f"R.k * S.k = {factor * abs(factor)}", {"ts": [1], "k": [abs(factor)], "f": [True]}, s)
    assert len(found) == 400


# ---------------------------------------------------------------------------------- the ends of boxes


def joined(where: str, x: pa.Array, a: pa.Array, first: str) -> set[tuple[int, int]]:
    """Return which (row of R.x, row of S.a) join; ``first`` waits in its window, the other probes."""
    tables = {
        "R": pa.table({"i": np.arange(len(x), dtype=np.int32), "x": x, "ts": np.ones(len(x), dtype=np.int64)}),
        "S": pa.table({"j": np.arange(len(a), dtype=np.int32), "a": a, "ts": np.ones(len(a), dtype=np.int64)}),
    }
    sql = f"SELECT R.i, S.j FROM R [RANGE 5], S [RANGE 5] WHERE {where}"
    with cw.open(sql, {name: table.schema for name, table in tables.items()}, index="scan") as join:
        parts = [join.push(name, tables[name]) for name in (first, "S" if first == "R" else "R")]
    found = pa.concat_tables(parts)
    return set(zip(found["i"].to_pylist(), found["j"].to_pylist(), strict=True))


def holds(op: str, left: float, right: float) -> bool:
    return OPERATORS[op](naive_order(left), naive_order(right))


INTEGERS = {
    "R.x {} S.a": lambda x, a: (x, a),
    "R.x + 100 {} S.a * 2": lambda x, a: (x + 100, a * 2),
    "S.a - R.x {} 7": lambda x, a: (a - x, 7),
    "R.x * -3 {} S.a - 500": lambda x, a: (x * -3, a - 500),
    "R.x {} S.a / 4": lambda x, a: (x, Fraction(a, 4)),
}


@pytest.mark.parametrize("first", ["R", "S"])
@pytest.mark.parametrize("shape", list(INTEGERS))
def test_ends_of_integer_conditions(shape, first):
    """Every value of an 8-bit column against every kind of partner: the whole domain is tried."""
    x, a = list(range(-128, 128)), [-(2**31), -500, -129, -128, -1, 0, 3, 127, 128, 999, 2**31 - 1]
    op = {"R": "<=", "S": ">"}[first]
    found = joined(shape.format(op), pa.array(x, pa.int8()), pa.array(a, pa.int32()), first)
    pairs = {(i, j): INTEGERS[shape](p, q) for i, p in enumerate(x) for j, q in enumerate(a)}
    assert found == {at for at, (left, right) in pairs.items() if OPERATORS[op](left, right)}


@pytest.mark.parametrize("first", ["R", "S"])
@pytest.mark.parametrize("op", list(OPERATORS))
def test_ends_at_the_extremes_of_64_bits(op, first):
    ends = [-(2**63), -(2**63) + 1, -(2**53) - 1, -1, 0, 1, 2**53, 2**53 + 1, 2**63 - 2, 2**63 - 1]
    found = joined(f"R.x {op} S.a", pa.array(ends, pa.int64()), pa.array(ends, pa.int64()), first)
    assert found == {(i, j) for i, p in enumerate(ends) for j, q in enumerate(ends) if OPERATORS[op](p, q)}


FLOATS = {
    "R.x {} S.a": lambda x, a: (x, a),
    "R.x - S.a {} 10.5e0": lambda x, a: (x - a, 10.5),
    "R.x + S.a {} S.a": lambda x, a: (x + a, a),
    "S.a - R.x {} 1e0": lambda x, a: (a - x, 1.0),
    "-R.x {} S.a": lambda x, a: (-x, a),
    "R.x * 3e0 {} S.a": lambda x, a: (x * 3.0, a),
    "R.x * -2e0 {} S.a": lambda x, a: (x * -2.0, a),
}


@pytest.mark.parametrize("first", ["R", "S"])
@pytest.mark.parametrize("op", ["<=", "=", ">"])
@pytest.mark.parametrize("shape", list(FLOATS))
def test_ends_of_float_conditions(shape, op, first):
    """NaN, infinities, zeros, and the neighbours of every end."""
    near = [v for end in (10.5, 1.0, 0.1, 11.5) for v in (np.nextafter(end, -INF), end, np.nextafter(end, INF))]
    x, a = [*REALS, *(float(v) for v in near)], [*REALS, 0.3, 11.0]
    found = joined(shape.format(op), pa.array(x), pa.array(a), first)
    pairs = {(i, j): FLOATS[shape](p, q) for i, p in enumerate(x) for j, q in enumerate(a)}
    wanted = {at for at, (left, right) in pairs.items() if holds(op, left, right)}
    show = [[(x[i], a[j]) for i, j in sorted(some)] for some in (found - wanted, wanted - found)]
    assert found == wanted, f"too many: {show[0]}, missing: {show[1]}"


@pytest.mark.parametrize("first", ["R", "S"])
def test_a_box_may_be_empty(first):
    """Its least end may lie beyond its greatest one."""
    x, a = pa.array([-9, 0, 3, 4, 9], pa.int32()), pa.array([5, 3, -4], pa.int32())
    assert joined("R.x BETWEEN S.a AND 3 - S.a", x, a, first) == {(1, 2), (2, 2), (3, 2)}
    assert joined("R.x > S.a AND R.x < S.a", x, a, first) == set()
    assert joined("abs(R.x - S.a) < S.a - 5", x, a, first) == set()
    reals = pa.array([0.0, INF, -INF, NAN])
    assert joined("abs(R.x - S.a) <= 1e0", reals, reals, first) == {(0, 0)}


# ---------------------------------------------------------------------------------- cells, hashes, gathering


@pytest.mark.parametrize("seed", range(3))
def test_tuples_are_grouped_by_cell_in_the_order_they_came(seed):
    rng = seeds.numbers(seed)
    cells = rng.integers(0, 20, 500 * seed).astype(np.int32)
    directory, places = group(cells, 23)
    naive = [[i for i, c in enumerate(cells.tolist()) if c == cell] for cell in range(23)]
    assert [places[directory[c] : directory[c + 1]].tolist() for c in range(23)] == naive
    assert (directory[0], directory[-1]) == (0, len(cells))


def test_values_beyond_the_grid_belong_to_its_end_cells():
    values = np.array([-INF, -5.0, 0.0, 0.4, 1.0, 9.99, 10.0, 1e300, INF])
    first = grid_cells([(values, 0.0, 1.0, 10)], len(values))
    assert first.tolist() == [0, 0, 0, 0, 1, 9, 9, 9, 9]
    both = grid_cells([(values, 0.0, 1.0, 10), (values, 0.0, 0.1, 3)], len(values))
    second = [0, 0, 0, 0, 0, 0, 1, 2, 2]
    assert both.tolist() == [3 * c + d for c, d in zip(first.tolist(), second, strict=True)]


def test_equal_keys_have_equal_hashes_and_others_spread():
    keys = np.array([3, -1, 3, 2**62, -1, 7], dtype=np.int64)
    one = hash_keys([keys])
    assert (one[0], one[1]) == (one[2], one[4])
    assert one.min() >= 0
    assert hash_keys([keys.astype(np.int32)])[0] == one[0], "a key's width does not matter"
    assert hash_keys([keys, keys[::-1].copy()])[0] != hash_keys([keys[::-1].copy(), keys])[0]
    cells = hash_cells(hash_keys([np.arange(0, 1 << 20, 1024)]), 1024)
    assert np.bincount(cells, minlength=1024).max() <= 10, "regular keys do not pile up"


def test_equal_texts_have_equal_hashes():
    words = ["", "a", "b", "ab", "ba", "a\0", "ä", "x" * 1000]
    rng = seeds.chance(0)
    texts = [rng.choice(words) for _ in range(200)]
    array = pa.array(["skipped", *texts], pa.large_string()).slice(1)
    offsets = np.frombuffer(array.buffers()[1], dtype=np.int64)[1:]
    hashes = hash_texts(offsets, np.frombuffer(array.buffers()[2], dtype=np.uint8)).tolist()
    assert len({(text, key) for text, key in zip(texts, hashes, strict=True)}) == len(set(texts)) == len(set(hashes))


def one_byte_off(length: int) -> list[bytes]:
    """Return a text, and all that differ from it in one byte or by one byte more."""
    text = bytes(range(65, 65 + length))
    return [text, text + b"!", *(text[:k] + b"?" + text[k + 1 :] for k in range(length))]


@pytest.mark.parametrize("length", [*range(19), 31, 32, 33])
def test_every_byte_of_a_text_counts(length):
    """Texts are hashed and compared 8 bytes at a time; no place may be left out, and none read that is not theirs."""
    texts = one_byte_off(length)
    array = pa.array([b"123", *texts, b"9"], pa.large_binary())
    offsets = np.frombuffer(array.buffers()[1], dtype=np.int64)
    data = np.frombuffer(array.buffers()[2], dtype=np.uint8)
    assert len(set(hash_texts(offsets[1:-1], data).tolist())) == len(texts)
    shifted = np.concatenate([np.zeros(5, dtype=np.uint8), data])  # another alignment
    for i, left in enumerate(texts):
        for j, right in enumerate(texts):
            sides = (address(offsets), address(data), i + 1, address(offsets), address(shifted) + 5, j + 1)
            assert text_equal(*sides) == (left == right)


def test_texts_are_taken_in_any_order():
    rng = seeds.chance(3)
    texts = [bytes(rng.randrange(256) for _ in range(rng.choice([0, 1, 7, 8, 40]))) for _ in range(50)]
    array = pa.array(texts, pa.large_binary())
    offsets = np.frombuffer(array.buffers()[1], dtype=np.int64)
    whole = Vector(Layout(Storage.TEXT), offsets, None, np.frombuffer(array.buffers()[2], dtype=np.uint8))
    for vector, start in ((whole, 0), (whole.slice(20, 45), 20)):
        for count in (0, 1, 60):
            rows = np.array([rng.randrange(len(vector)) for _ in range(count)], dtype=np.int64)
            taken = vector.take(rows)
            ends = taken.values.tolist()
            found = [taken.text[a:b].tobytes() for a, b in pairwise(ends)]
            assert found == [texts[start + row] for row in rows.tolist()]
            assert len(taken) == count


def test_equal_wide_values_have_equal_hashes():
    pairs = np.array([1, 0, 0, 1, 1, 0, -1, -1], dtype=np.int64)
    first, second, third, fourth = hash_wides(pairs).tolist()
    assert first == third
    assert len({first, second, fourth}) == 3


@pytest.mark.parametrize("width", [1, 2, 4, 8, 16])
def test_gathering_fixed_widths(width):
    rng = seeds.numbers(width)
    windows = [rng.integers(0, 256, size * width, dtype=np.uint8) for size in (5, 1, 40)]
    which = rng.integers(0, 3, 100)
    rows = np.array([rng.integers(0, len(windows[w]) // width) for w in which])
    found = gather_width(np.array([address(w) for w in windows]), which, rows, width)
    wanted = b"".join(
        windows[w][r * width : (r + 1) * width].tobytes() for w, r in zip(which.tolist(), rows.tolist(), strict=True)
    )
    assert found.tobytes() == wanted
    assert gather_width(np.array([0]), which[:0], rows[:0], width).tolist() == []


def test_gathering_texts():
    windows = [["", "one", "zwölf"], ["x" * 3000]]
    arrays = [pa.array(texts, pa.large_binary()) for texts in windows]
    buffers = [
        [np.frombuffer(array.buffers()[k], dtype=d) for array in arrays] for k, d in ((1, "int64"), (2, "uint8"))
    ]
    addresses, texts = (np.array([address(b) for b in some]) for some in buffers)
    which, rows = np.array([1, 0, 0, 1, 0, 0]), np.array([0, 2, 0, 0, 1, 2])
    offsets, text = gather_text(addresses, texts, which, rows)
    found = [text[s:e].tobytes().decode() for s, e in pairwise(offsets.tolist())]
    assert found == [windows[w][r] for w, r in zip(which.tolist(), rows.tolist(), strict=True)]


def test_arithmetic_that_is_awkward_in_generated_source():
    from crosswind.kernel.compiled.runtime import ceil_long, floor_long, rem, round_div

    for left in (-7, -6, -1, 0, 1, 6, 7, 2**63 - 1, -(2**63)):
        for right in (-3, -1, 1, 2, 3, 2**62):
            assert rem(left, right) == int(math.copysign(1, left)) * (abs(left) % abs(right))
            if right > 0 and abs(left) < 2**62:
                half_up = int(math.copysign(1, left)) * int(Fraction(abs(left), right) + Fraction(1, 2))
                assert round_div(left, right) == half_up
    assert rem(5, 0) == 0
    for value in (-2.5, -0.5, 0.5, 1e15 + 0.5, 1e18, 1e30, -1e30, INF, -INF):
        saturated = [
            max(-(2**63), min(2**63 - 1, f(value) if math.isfinite(value) else value)) for f in (math.floor, math.ceil)
        ]
        assert [floor_long(value), ceil_long(value)] == saturated
    assert floor_long(NAN) == ceil_long(NAN) == 0


def test_reading_beyond_the_last_key_is_allowed_for():
    made = BasicWindow((Layout(Storage.FIXED, "int32"),), 5, False)
    assert len(made._buffers[0].values) >= 5 + PAD
    assert PAD >= 32
