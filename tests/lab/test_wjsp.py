"""The WJSP processor: exact for every number of units, runs the paper's own words, and scales as it says."""

from __future__ import annotations

import dataclasses
from collections import Counter
from itertools import product

import numpy as np
import pyarrow as pa
import pytest

import crosswind as cw
from crosswind.bench.queries import NINE
from crosswind.lab.setting import Setting
from crosswind.lab.wjsp import published
from crosswind.lab.wjsp.figures import EXPERIMENTS
from crosswind.lab.wjsp.form import PROTOTYPE, TupleForm
from crosswind.lab.wjsp.processor import Input, Outcome, Processor, Row, run, words_of
from crosswind.lab.wjsp.workload import COLUMNS, input_of, nine_texts, plan_of, schemas
from crosswind.plan.compile import compile_plan
from crosswind.plan.wjsi import Line, encode
from crosswind.query import parse
from tests import seeds

PREDICATES = {
    "q1": lambda r, s: r[0] == s[0],
    "q2": lambda r, s, t: r[0] == s[0] and s[1] == t[0],
    "q3": lambda s, t: s[1] == t[0],
    "q4": lambda r, s: r[1] == s[1],
    "q5": lambda r, s: r[0] == s[0] or r[2] == s[1],
    "q6": lambda s, t: s[1] == t[1],
    "q7": lambda r, s: r[0] == s[0] and r[2] == s[1],
    "q8": lambda s, t: s[0] == t[0],
    "q9": lambda r, s, t: (r[2] == s[1] or s[1] == t[0]) and r[0] == s[0],
}
"""The nine queries by hand; attributes in the order of the streams' columns."""


def oracle(fed: Input, windows: dict[str, int]) -> Counter:
    """All combinations within a window by time that satisfy a query, one by one."""
    found: Counter = Counter()
    for name, length in windows.items():
        streams = ["RST".index(stream) for stream in NINE[name][0]]
        for rows in product(*(np.flatnonzero(fed.units == stream).tolist() for stream in streams)):
            times = [int(fed.times[row]) for row in rows]
            if max(times) - min(times) < length and PREDICATES[name](*(fed.values[row].tolist() for row in rows)):
                found[name, rows] += 1
    return found


def found_by(processor: Processor, outcome: Outcome) -> Counter:
    return Counter(
        (processor.names[int(query)], tuple(int(row) for row in rows if row >= 0))
        for query, *rows, _ in outcome.results
    )


def random_input(rng: np.random.Generator, count: int, values: int) -> Input:
    """Tuples of random streams at random times, also several at once."""
    times = np.cumsum(rng.integers(0, 3, count))
    return Input(rng.integers(0, 3, count), rng.integers(0, values, (count, 4)), times)


@pytest.mark.parametrize("cores", [1, 2, 3, 4, 8, 16, 32, 64])
def test_the_nine_queries_are_exact_for_every_number_of_units(cores):
    for window in (8, 40):
        rng = seeds.numbers(*(cores, window))
        fed = random_input(rng, 60, values=5)
        processor = Processor.of(plan_of(nine_texts(window)), places=60, cores=cores)
        windows = {name: max(1, NINE[name][2] * window // 2000) for name in NINE}
        outcome = run(processor, fed)
        assert found_by(processor, outcome) == oracle(fed, windows)
        assert len(outcome.clocks_each) == 60
        assert (outcome.clocks_each > 0).all()


def test_what_the_processor_finds_is_what_the_join_finds():
    fed = input_of(40, seed=3, values=12)
    texts = nine_texts(16)
    processor = Processor.of(plan_of(texts), cores=4)
    counts = Counter(name for name, _ in found_by(processor, run(processor, fed)).elements())
    tables = {
        name: pa.table(
            [
                *(pa.array(fed.values[fed.units == unit, k].tolist(), pa.uint8()) for k in range(len(columns))),
                pa.array(fed.times[fed.units == unit].tolist(), pa.int64()),
            ],
            schema=schemas()[name],
        )
        for unit, (name, columns) in enumerate(COLUMNS.items())
    }
    assert counts == {name: table.num_rows for name, table in cw.run(texts, tables).items() if table.num_rows}


@pytest.mark.parametrize("cores", [1, 2, 6])
def test_windows_that_count_are_what_the_units_hold(cores):
    """A tuple meets the last six of the other stream, whenever they came."""
    rng = seeds.numbers(cores)
    fed = random_input(rng, 150, values=4)
    text = "SELECT * FROM R [ROWS 6], S [ROWS 6] WHERE R.a < S.d AND R.b <> S.e"
    processor = Processor.of(compile_plan({"one": parse(text, schemas())}, many=True), cores=cores)
    fed = Input(fed.units[fed.units < 2], fed.values[fed.units < 2], fed.times[fed.units < 2])
    expected, windows = Counter(), ([], [])
    for row, unit in enumerate(fed.units):
        for other in windows[1 - unit][-6:]:
            r, s = (row, other) if unit == 0 else (other, row)
            if fed.values[r, 0] < fed.values[s, 0] and fed.values[r, 1] != fed.values[s, 1]:
                expected["one", (r, s)] += 1
        windows[unit].append(row)
    assert found_by(processor, run(processor, fed)) == expected


def table_1_processor() -> Processor:
    """Return the unit of R with the words of Table 1, and one of S that gives S.e = T.f the tag 12 of the table."""
    unit_s = [Line("CMP", (1, 0b1000, 1, 0)), Line("JMPLI"), Line("JMPCT", (2, 4)), Line("JOIN", (0, 12)), Line("NOP")]
    routes = {
        0: Row(insert=True),
        1: Row(insert=True, probe=(0,)),
        2: Row(insert=True, probe=(1,)),
        4: Row(queries=(0,)),
        5: Row(queries=(3,)),
        6: Row(queries=(4,)),
        7: Row(queries=(6,)),
        12: Row(probe=(0,), queries=(2,)),
        16: Row(queries=(1,)),
    }
    programs = (published.TABLE_1, tuple(encode(line) for line in unit_s), (encode(Line("NOP")),))
    return Processor(programs, routes, (100,) * 7, places=90, cores=3, names=("q1", "q2", "q3", "q4", "q5", "q6", "q7"))


def test_the_words_of_table_1_run_and_give_what_their_comments_say():
    """Tuples of S meet R by four queries, tuples of T meet S and then R; what others would find is not in the table."""
    rng = seeds.numbers(5)
    fed = random_input(rng, 80, values=4)
    processor = table_1_processor()
    full = oracle(fed, dict.fromkeys(("q1", "q2", "q3", "q4", "q5", "q7"), 100))
    last = {"q1": 1, "q4": 1, "q5": 1, "q7": 1, "q3": 2, "q2": 2}
    expected = {key: n for key, n in full.items() if fed.units[max(key[1])] == last[key[0]]}
    assert expected
    assert found_by(processor, run(processor, fed)) == expected


def test_clocks_of_one_tuple_are_what_the_model_says():
    """One R held, one S comes: look it up, read R, run the program, read the end of the window.

    What is returned is looked up while the unit goes on.
    """
    lines = [Line("CMP", (0, 0b0100, 1, 0)), Line("JMPLI"), Line("JMPCT", (1, 4)), Line("JOIN", (0, 2)), Line("NOP")]
    programs = (tuple(encode(line) for line in lines), (0,))
    routes = {0: Row(insert=True), 1: Row(insert=True, probe=(0,)), 2: Row(queries=(0,))}
    processor = Processor(programs, routes, (10,), places=4, names=("q",))
    for other, clocks, count in ((7, 8, 1), (8, 6, 0)):
        fed = Input(np.array([0, 1]), np.array([[7, 0, 0, 0], [other, 0, 0, 0]]), np.array([0, 1]))
        outcome = run(processor, fed, warm=1)
        assert len(outcome.results) == count
        assert outcome.instructions == (5 if count else 3)
        assert outcome.clocks_each.tolist() == [clocks]


def test_units_that_return_at_once_wait_for_each_other():
    lines = [Line("JOIN", (63, 2)), Line("NOP")]
    routes = {0: Row(insert=True), 1: Row(insert=True, probe=(0,)), 2: Row(queries=(0,))}
    processor = Processor((tuple(map(encode, lines)), (0,)), routes, (100,), places=8, cores=8, names=("q",))
    fed = Input(np.array([0] * 8 + [1]), np.zeros((9, 4), int), np.arange(9))
    outcome = run(processor, fed, warm=8)
    assert len(outcome.results) == 8
    assert outcome.waited == sum(range(8))


def test_a_queue_and_an_output_that_overflow_are_made_longer():
    rng = seeds.numbers(1)
    text = "SELECT * FROM R [RANGE 500], S [RANGE 500], T [RANGE 500] WHERE R.a <= S.d AND S.e <= T.f"
    processor = Processor.of(compile_plan({"one": parse(text, schemas())}, many=True), cores=16)
    fed = Input(np.tile([0, 1, 2], 25), rng.integers(0, 2, (75, 4)), np.repeat(np.arange(25), 3))
    outcome = run(processor, fed)
    values = [fed.values[fed.units == unit] for unit in range(3)]
    first = (values[0][:, None, 0] <= values[1][None, :, 0]).sum(axis=0)
    second = (values[1][:, None, 1] <= values[2][None, :, 0]).sum(axis=1)
    assert len(outcome.results) == int((first * second).sum()) > 4096


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("R [ROWS 5], S [ROWS 6] WHERE R.a = S.d", {}, "the same ROWS window"),
        ("R [ROWS 5], S [RANGE 6] WHERE R.a = S.d", {}, "the same ROWS window"),
        ("R [RANGE 5], S [RANGE 6] WHERE R.a = S.d", {}, "Query one has different windows"),
        ("R [ROWS 5], S [ROWS 5] WHERE R.a = S.d", {"cores": 2}, "cannot be cut evenly over 2 cores"),
        ("R [RANGE 5], S [RANGE 5] WHERE R.a = S.d + 1", {}, "compares a column"),
        ("R [RANGE 5], S [RANGE 5] WHERE R.a = S.d AND R.b > 3", {}, "no filters on single streams"),
        ("R [RANGE 5], S [RANGE 5] WHERE R.a = S.d", {"cores": 0}, "at least one core"),
    ],
)
def test_what_does_not_fit_the_processor_is_refused(text, options, message):
    plan = compile_plan({"one": parse(f"SELECT * FROM {text}", schemas())}, many=True)
    with pytest.raises(cw.UnsupportedError, match=message):
        Processor.of(plan, **options)


def test_a_buffer_that_is_too_small_is_told():
    processor = Processor.of(plan_of(nine_texts(40)), places=10)
    with pytest.raises(cw.UnsupportedError, match="still held them: a join unit has 10 places"):
        run(processor, input_of(30, seed=1))


def test_figure_5_holds():
    """64 units are more than ten times as fast as one at every window, at the clocks of Table 2."""
    names = ("table-1", "table-2", "figure-5a", "figure-5d")
    made = {name: EXPERIMENTS[name].run(Setting(quick=True)) for name in names}
    assert all(figure.name == name for name, figure in made.items())
    words, joins, length, bits = made["table-1"].checks
    assert [check.verdict for check in (words, joins, length, bits)] == ["agrees", "agrees", "differs", "agrees"]
    for name in ("figure-5a", "figure-5d"):
        speeds = made[name].series[0].y
        assert speeds[-1] > published.STREAM_AT_LEAST * speeds[0]
        assert list(speeds) == sorted(speeds)
        assert made[name].verdict == "agrees"
    assert made["figure-5a"].series[0].y[0] < made["figure-5d"].series[0].y[0]


# -- the form of a tuple ----------------------------------------------------------------------------


def test_a_tuple_of_the_prototype_has_152_bits():
    assert PROTOTYPE.bits == published.TUPLE_BITS == 152
    rng = seeds.chance(3)
    for _ in range(200):
        tuples = tuple(tuple(rng.randrange(256) for _ in range(4)) for _ in range(3))
        tag, times = rng.randrange(256), sorted(rng.randrange(1 << 24) for _ in range(2))
        word = PROTOTYPE.pack(tuples, tag, *times)
        assert word < 1 << 152
        assert PROTOTYPE.unpack(word) == (tuples, tag, *times)


def test_the_parts_of_a_word_lie_one_after_the_other():
    form = TupleForm(streams=1, attributes=2, attribute_bits=4, tag_bits=4, time_bits=8)
    assert form.pack([(0xA, 0xB)], 0xC, 0xDE, 0xF0) == 0xABCDEF0


def test_results_leave_the_processor_as_words():
    fed = input_of(40, seed=3, values=12)
    processor = Processor.of(plan_of(nine_texts(16)), cores=4)
    outcome = run(processor, fed)
    words = words_of(processor, fed, outcome)
    assert len(words) == len(outcome.results) > 0
    for word, (query, *rows, _) in zip(words, outcome.results.tolist(), strict=True):
        tuples, tag, least, greatest = PROTOTYPE.unpack(word)
        assert query in processor.routes[tag].queries
        assert greatest - least < processor.limits[query]  # the difference tells the window
        for values, row in zip(tuples, rows, strict=False):
            assert values == (tuple(fed.values[row].tolist()) if row >= 0 else (0, 0, 0, 0))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"values": np.full((2, 4), 256)}, "an attribute of 256 does not fit: the processor has 8 bits"),
        ({"values": np.full((2, 4), -1)}, "an attribute of -1 does not fit"),
        ({"times": np.array([0, 1 << 24])}, "a time of 16777216 does not fit: the processor has 24 bits"),
    ],
)
def test_what_does_not_fit_the_form_of_a_tuple_is_refused(change, message):
    fed = Input(**{"units": np.array([0, 1]), "values": np.zeros((2, 4), int), "times": np.array([0, 1]), **change})
    processor = Processor.of(plan_of(nine_texts(16)))
    with pytest.raises(cw.UnsupportedError, match=message):
        run(processor, fed)
    wide = dataclasses.replace(processor, form=TupleForm(attribute_bits=62, time_bits=62), places=99)
    if "-1" not in message:
        run(wide, fed)


def test_windows_longer_than_the_buffers_are_refused():
    with pytest.raises(cw.UnsupportedError, match="A window of 4,097 does not fit: a join unit has 4,096 places"):
        Processor.of(plan_of(nine_texts(4_097)))
    assert Processor.of(plan_of(nine_texts(4_097)), places=5_000).places == 5_000
    assert Processor.of(plan_of(nine_texts(4_096))).places == 4_096
    assert Processor(((0,),), {0: Row()}, ()).places == 4_096
