"""Bad input: every error says what was wrong, what was got, what is allowed, what to do, and changes nothing."""

from __future__ import annotations

import datetime as dt
import re
import warnings
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

import crosswind as cw
from crosswind.errors import did_you_mean, point_at
from crosswind.io.checksum import seal, unseal

SCHEMAS = {
    "R": pa.schema([("x", pa.int32()), ("ts", pa.int64())]),
    "S": pa.schema([("a", pa.int32()), ("ts", pa.int64())]),
}
TIMED = {
    "R": pa.schema([("x", pa.int32()), ("ts", pa.timestamp("ms"))]),
    "S": pa.schema([("a", pa.int32()), ("ts", pa.timestamp("ms"))]),
}
QUERY = "SELECT R.x, S.a FROM R [RANGE 10], S [RANGE 10] WHERE R.x <> S.a"
TIMED_QUERY = QUERY.replace("RANGE 10", "RANGE 10 SECONDS")


def join_of(**options) -> cw.Join:
    return cw.open(QUERY, SCHEMAS, **options)


def taken_snapshot(**options) -> bytes:
    with join_of(**options) as join:
        join.push("R", {"x": [1, 2, 3], "ts": [1, 2, 3]})
        return join.snapshot()


def reads_well(error: BaseException) -> None:
    """Check what is common to all messages: a sentence or more for people, nothing lost in its making."""
    text = str(error)
    assert isinstance(error, cw.CrosswindError)
    assert len(text) > 30, text
    assert not re.search(r"\{[a-z_.()']+\}", text), f"a lost f-prefix: {text}"
    assert not text.startswith("("), f"a message split by a comma: {text}"


# ---------------------------------------------------------------------------------- opening


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: cw.open("", SCHEMAS), cw.QueryError, "The query is empty. Write a SELECT"),
        (lambda: cw.open(5, SCHEMAS), cw.CrosswindError, "query.*got int"),
        (lambda: cw.open(None, SCHEMAS), cw.CrosswindError, "query.*got None"),
        (lambda: cw.open({"q": 5}, SCHEMAS), cw.CrosswindError, "got int"),
        (lambda: cw.open(QUERY, None), cw.InputError, "mapping of stream names to pyarrow schemas, got NoneType"),
        (
            lambda: cw.open(QUERY, {**SCHEMAS, "R": {"x": "int32"}}),
            cw.InputError,
            "stream 'R' must be a pyarrow.Schema, got dict",
        ),
        (lambda: cw.open(QUERY, {"R": SCHEMAS["R"]}), cw.QueryError, "Unknown stream 'S'. Known: R"),
        (lambda: cw.open(QUERY, SCHEMAS, time="when"), cw.QueryError, "no time column 'when'. It has: x, ts.*time="),
        (lambda: cw.open(QUERY, SCHEMAS, time=5), cw.CrosswindError, "time.*got int"),
        (
            lambda: cw.open(QUERY, SCHEMAS, time={"R": "ts", "Q": "ts"}),
            cw.QueryError,
            "names the stream 'Q', which is not known. Known: R, S",
        ),
        (
            lambda: cw.open(QUERY, {**SCHEMAS, "R": pa.schema([("x", pa.int32()), ("ts", pa.float64())])}),
            cw.QueryError,
            "R.ts is of type double. Allowed: timestamp",
        ),
        (lambda: cw.open(QUERY, TIMED), cw.QueryError, "no unit.*Add a unit, for example"),
        (lambda: join_of(engine="kangg"), cw.InputError, "engine='kangg'.*allowed: auto, kang.*Did you mean 'kang'"),
        (lambda: join_of(engine=None), cw.InputError, "engine=None is not known; allowed: auto, kang"),
        (
            lambda: join_of(index="hsh"),
            cw.InputError,
            "index='hsh'.*allowed: auto, scan, band, hash.*Did you mean 'hash'",
        ),
        (lambda: cw.explain(QUERY, SCHEMAS, index="tree"), cw.InputError, "index='tree'.*allowed: auto, scan, band"),
        (
            lambda: join_of(engine="kang", workers=4),
            cw.InputError,
            "workers=4 is not possible.*one worker; leave workers out",
        ),
        (lambda: join_of(workers="two"), cw.InputError, "workers='two' is not possible"),
        (lambda: join_of(basic_window=-1), cw.InputError, "basic_window.*-1.*at least 1"),
        (lambda: join_of(basic_window=2.5), cw.InputError, "basic_window.*2.5"),
        (lambda: join_of(basic_window="big"), cw.InputError, "basic_window.*'big'"),
        (lambda: join_of(lateness=-1), cw.InputError, "lateness -1 is negative; the least is 0"),
        (lambda: join_of(lateness="soon"), cw.InputError, "lateness 'soon' is not understood.*give a text like"),
        (lambda: join_of(lateness=1.5), cw.InputError, "lateness 1.5 is not understood.*timedelta"),
        (lambda: join_of(lateness=None), cw.InputError, "lateness None is not understood"),
        (lambda: join_of(lateness="5 s"), cw.InputError, "time columns are integers; give lateness as a plain integer"),
        (lambda: cw.open(TIMED_QUERY, TIMED, lateness=5), cw.InputError, "give it with a unit, for example"),
        (lambda: join_of(lateness={"Q": 1}), cw.InputError, "names the stream 'Q', the query has R, S"),
        (
            lambda: cw.open("SELECT R.x FROM R [NOW] LEFT JOIN S [NOW] ON TRUE, R [NOW] AS t", SCHEMAS),
            cw.UnsupportedError,
            "LEFT JOIN joins two streams, FROM names 3",
        ),
        (
            lambda: cw.open("SELECT x FROM R [NOW]", SCHEMAS),
            cw.QueryError,
            "at least two streams, got only R.*two names",
        ),
        (lambda: cw.open({"p": QUERY, 5: QUERY}, SCHEMAS), cw.InputError, "name of a query must be text, got 5"),
        (lambda: cw.open({}, SCHEMAS), cw.InputError, "mapping of queries is empty"),
        (lambda: cw.run(QUERY, [1, 2]), cw.InputError, "mapping of stream names to tables, got list"),
        (lambda: cw.run(QUERY, {"R": 5, "S": {}}), cw.InputError, "'R': got int.*push a pyarrow Table"),
        (lambda: cw.predicate(5), cw.QueryError, "takes a plain Python function, got 5"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_wrong_arguments(call, error, words):
    with pytest.raises(error, match=f"(?s){words}") as caught:
        call()
    reads_well(caught.value)


# ---------------------------------------------------------------------------------- pushing


def a_table(x: pa.Array) -> pa.Table:
    return pa.table({"x": x, "ts": pa.array(range(4, 4 + len(x)), pa.int64())})


READABLE = "cannot be read as Arrow data"


@pytest.mark.parametrize(
    ("stream", "batch", "words"),
    [
        ("R", None, "'R': got NoneType.*not Arrow-shaped; push a pyarrow Table"),
        ("R", [1, 2], "got list.*not Arrow-shaped"),
        (
            "R",
            {"x": [1]},
            "no column 'ts'; it has x.*the schema.*x int32, ts int64.*push batches with these",
        ),
        ("R", {"X": [1], "ts": [4]}, "no column 'x'; it has X, ts. Did you mean 'X'"),
        ("R", pa.table([[1], [1], [4]], names=["x", "x", "ts"]), "has 2 columns named 'x'"),
        ("R", {}, "no column 'ts'; it has no columns"),
        (
            "R",
            a_table(pa.array(["a"])),
            "'x' came as string.*opened with int32; convert it before the push, or open",
        ),
        ("R", a_table(pa.array([2**40])), "'x' came as int64.*not in range"),
        ("R", a_table(pa.array([1.5])), "'x' came as double.*truncated"),
        ("R", a_table(pa.array([[1]])), "'x' came as list"),
        ("R", {"x": ["a"], "ts": [4]}, f"{READABLE}.*'a'"),
        ("R", {"x": [1, 2], "ts": [4]}, f"{READABLE}.*length"),
        ("R", {"x": 1, "ts": 4}, "'R'"),
        ("R", {"x": np.zeros((2, 2)), "ts": [4, 4]}, f"{READABLE}.*1-dimensional"),
        ("R", {"x": [1], "ts": [dt.datetime(2026, 1, 1)]}, f"{READABLE}.*datetime"),
        ("r", {"x": [1], "ts": [4]}, "no stream 'r' in this join; its streams are R, S. Did you mean 'R'"),
        ("Quotes", {"x": [1], "ts": [4]}, "no stream 'Quotes' in this join; its streams are R, S"),
        (0, {"x": [1], "ts": [4]}, "no stream.*0.*its streams are R, S"),
        (None, {"x": [1], "ts": [4]}, "no stream.*None.*its streams are R, S"),
        (["R"], {"x": [1], "ts": [4]}, "no stream.*its streams are R, S"),
    ],
    ids=range(20),
)
def test_a_batch_that_does_not_fit_changes_nothing(stream, batch, words):
    with join_of(keep_late=True) as join:
        join.push("R", {"x": [1, 2], "ts": [1, 3]})
        before, saved = join.stats, join.snapshot()
        with pytest.raises(cw.InputError, match=f"(?s){words}") as caught:
            join.push(stream, batch)
        reads_well(caught.value)
        assert join.snapshot() == saved
        assert join.stats == before
        assert join.push("S", {"a": [2], "ts": [3]}).to_pylist() == [{"x": 1, "a": 2}]


def test_a_duplicate_column_is_not_its_own_alternative():
    with join_of() as join, pytest.raises(cw.InputError, match="2 columns named 'x'") as caught:
        join.push("R", pa.table([[1], [1], [4]], names=["x", "x", "ts"]))
    assert "Did you mean" not in str(caught.value)


@pytest.mark.parametrize(
    "watermark",
    [None, "soon", 1.5, 2**70, [1], object(), dt.datetime(2026, 1, 1), pa.scalar(None, pa.int64())],
    ids=lambda value: type(value).__name__,
)
def test_a_watermark_of_another_type(watermark):
    with join_of() as join:
        join.push("R", {"x": [1], "ts": [1]})
        before, saved = join.stats, join.snapshot()
        with pytest.raises(cw.InputError, match=r"'S'.*is no watermark; give a value of.*'ts' \(int64\)"):
            join.advance("S", watermark)
        assert (join.stats, join.snapshot()) == (before, saved)


def test_a_watermark_of_an_unknown_stream():
    with join_of() as join, pytest.raises(cw.InputError, match=r"no stream 'Q'.*R, S"):
        join.advance("Q", 1)


def test_times_too_far_away():
    schemas = {**TIMED, "S": pa.schema([("a", pa.int32()), ("ts", pa.timestamp("ns"))])}
    with (
        cw.open(TIMED_QUERY, schemas) as join,
        pytest.raises(cw.InputError, match=r"'R': a time lies too far from 1970.*coarser unit"),
    ):
        join.push("R", {"x": [1], "ts": pa.array([10**17], pa.timestamp("ms"))})


# ---------------------------------------------------------------------------------- late, null, closed


def test_late_and_missing_times_are_told_once_with_what_to_do():
    with join_of() as join:
        join.push("R", {"x": [1], "ts": [10]})
        with pytest.warns(cw.LateTupleWarning, match=r"'R': 1 tuples.*Raise lateness=.*keep_late=True.*join.late"):
            join.push("R", {"x": [2, 3], "ts": [9, 10]})
        with pytest.warns(cw.NullTimeWarning, match=r"'R': 2 tuples.*no time \(ts is null\).*stats.rejected.*Fill"):
            join.push("R", {"x": [4, 5], "ts": [None, None]})
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            join.push("R", {"x": [6, 7], "ts": [None, 1]})
        assert (join.stats.late, join.stats.rejected) == ({"R": 2, "S": 0}, {"R": 3, "S": 0})
        assert join.stats.window_tuples == {"R": 2, "S": 0}


def test_late_tuples_are_there_only_if_they_were_kept():
    with join_of() as join:
        with pytest.raises(cw.InputError, match=r"only counted.*keep_late=True"):
            join.late("R")
        with pytest.raises(cw.InputError, match=r"no stream 'Q'.*R, S"):
            join.late("Q")


@pytest.mark.parametrize("end", ["finish", "close"])
def test_a_join_that_has_ended_says_so(end):
    join = join_of()
    getattr(join, end)()
    word = {"finish": "finished", "close": "closed"}[end]
    calls = [
        lambda: join.push("R", {"x": [1], "ts": [1]}),
        lambda: join.advance("R", 1),
        join.finish,
        join.snapshot,
    ]
    for call in calls:
        with pytest.raises(cw.ClosedJoinError, match=f"the join is {word} and takes nothing more; open a new one"):
            call()
    join.close()
    assert word in repr(join)


# ---------------------------------------------------------------------------------- snapshots


def resealed(data: bytes, kind: int, change: Callable[[dict], object]) -> bytes:
    """Return a snapshot whose head is changed and has the checksum that goes with it."""
    at = len(b"crosswind snapshot\n") + 8
    end = at + int.from_bytes(data[at - 8 : at], "little")
    head = unseal(data[at:end], 2)
    change(head)
    made = seal(kind, head)
    return data[: at - 8] + len(made).to_bytes(8, "little") + made + data[end:]


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda _: b"garbage", "7 bytes that are not a Crosswind snapshot; pass what"),
        (lambda _: b"", "0 bytes that are not"),
        (lambda _: "text", "got str.*pass what join.snapshot"),
        (lambda _: 5, "got int.*pass what join.snapshot"),
        (lambda data: data[:19], "cut off or damaged: its head is cut off.*Nothing was restored.*take a new one"),
        (lambda data: data[:60], "cut off or damaged: its head is cut off.*take a new one"),
        (lambda data: data[:-1], "cut off or damaged: 1 bytes are missing at its end.*take a new one"),
        (lambda data: data + b"ab", "cut off or damaged: 2 bytes follow its end.*take a new one"),
        (lambda data: data[:-200] + bytes(200), "the checksum of section 1 of 1 does not match.*take a new one"),
        (lambda data: data.replace(b'"format": 2', b'"format": 9'), "its checksum does not match"),
        (lambda data: data.replace(b'"sections"', b'"sektions"'), "its checksum does not match"),
        (lambda data: resealed(data, 9, lambda _: None), "format 9, this version reads format 2; restore"),
        (lambda data: resealed(data, 2, lambda head: head.pop("sections")), "damaged.*KeyError"),
        (lambda data: resealed(data, 2, lambda head: head["about"].pop("counts")), "damaged.*KeyError"),
        (lambda data: resealed(data, 2, lambda head: head["about"]["counts"].pop()), "its counts are not those of"),
        (lambda data: resealed(data, 2, lambda head: head["about"].update(results=-1)), "its results are out of range"),
    ],
    ids=range(16),
)
def test_a_spoilt_snapshot(spoil, words):
    with pytest.raises(cw.SnapshotError, match=f"(?s){words}") as caught:
        join_of(restore=spoil(taken_snapshot()))
    reads_well(caught.value)


def test_a_snapshot_of_something_else():
    saved = taken_snapshot()
    with pytest.raises(cw.SnapshotError, match=r"(?s)another query.*snapshot: .*<>.*this join: .*<.*Open the join"):
        cw.open(QUERY.replace("<>", "<"), SCHEMAS, restore=saved)
    wider = {**SCHEMAS, "S": pa.schema([("a", pa.int64()), ("ts", pa.int64())])}
    with pytest.raises(cw.SnapshotError, match="other schemas"):
        cw.open(QUERY, wider, restore=saved)
    with pytest.raises(cw.SnapshotError, match="another value of ordered=; open the join with the same"):
        join_of(restore=saved, ordered=True)


# ---------------------------------------------------------------------------------- arithmetic


def test_overflow_in_a_condition_names_it_and_changes_nothing():
    schemas = {"R": pa.schema([("x", pa.int64()), ("ts", pa.int64())]), "S": SCHEMAS["S"]}
    with cw.open("SELECT R.x, S.a FROM R [RANGE 9], S [RANGE 9] WHERE R.x * 2 > S.a - R.x", schemas) as join:
        join.push("S", {"a": [1], "ts": [1]})
        before, saved = join.stats, join.snapshot()
        with pytest.raises(cw.ArithmeticOverflowError, match=r"64-bit range.*batch was not taken.*CAST") as caught:
            join.push("R", {"x": [5, 2**62], "ts": [1, 2]})
        assert "R.x * 2" in str(caught.value)
        assert (join.stats, join.snapshot()) == (before, saved)
        assert join.push("R", {"x": [5], "ts": [1]}).to_pylist() == [{"x": 5, "a": 1}]


def test_overflow_in_a_result_names_it_and_changes_nothing():
    schemas = {"R": pa.schema([("x", pa.int64()), ("ts", pa.int64())]), "S": SCHEMAS["S"]}
    with cw.open("SELECT R.x + S.a AS total FROM R [RANGE 9], S [RANGE 9]", schemas) as join:
        join.push("S", {"a": [1], "ts": [1]})
        before, saved = join.stats, join.snapshot()
        with pytest.raises(cw.ArithmeticOverflowError, match=r"R.x \+ S.a in the SELECT list.*batch was not taken"):
            join.push("R", {"x": [2**63 - 1], "ts": [1]})
        assert (join.stats, join.snapshot()) == (before, saved)
        assert join.push("R", {"x": [2**63 - 2], "ts": [1]}).to_pylist() == [{"total": 2**63 - 1}]


def test_overflow_in_a_filter_names_it():
    schemas = {"R": pa.schema([("x", pa.int64()), ("ts", pa.int64())]), "S": SCHEMAS["S"]}
    with cw.open("SELECT S.a FROM R [RANGE 9], S [RANGE 9] WHERE R.x * R.x > 5", schemas) as join:
        with pytest.raises(cw.ArithmeticOverflowError, match=r"R.x \* R.x.*64"):
            join.push("R", {"x": [2**40], "ts": [1]})
        assert join.stats.tuples_in == {"R": 0, "S": 0}


# ---------------------------------------------------------------------------------- how errors look


def test_errors_point_at_the_place():
    assert point_at("SELECT\n  x, wrong\nFROM", 12, 17) == "  line 2, column 6:   x, wrong\n" + " " * 25 + "^^^^^"
    with pytest.raises(cw.QueryError, match=r"Unknown column 'xx'.*Did you mean 'x'") as caught:
        cw.open("SELECT R.xx\nFROM R [NOW], S [NOW]", SCHEMAS)
    assert "line 1, column 10: SELECT R.xx" in str(caught.value)


def test_suggestions_are_close_or_absent():
    assert did_you_mean("hsh", ["scan", "band", "hash"]) == " Did you mean 'hash'?"
    assert did_you_mean("TS", ["x", "ts"]) == " Did you mean 'ts'?"
    assert did_you_mean("quotes", ["x", "ts"]) == ""


def test_all_errors_have_one_base():
    errors = [value for name, value in vars(cw.errors).items() if name.endswith("Error") and name in cw.errors.__all__]
    assert len(errors) >= 7
    assert all(issubclass(error, cw.CrosswindError) for error in errors)
