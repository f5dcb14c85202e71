"""Job files: what they may say, how streams are read and results written."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest

from crosswind.errors import JobError
from crosswind.io.endpoints import (
    FileSink,
    FileSource,
    KafkaSink,
    KafkaSource,
    MemorySink,
    RateSource,
    SocketSource,
    source_of_file,
)
from crosswind.io.files import FileStream, ResultWriter, merged_by_time
from crosswind.io.job import SparkOptions, load_job
from crosswind.testing import assert_same_rows, stream_from_text

MINIMAL = """
[job]
query = "SELECT * FROM R [NOW]"
[streams.R]
path = "r.csv"
[sink]
path = "out.parquet"
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "r.csv").write_text("x,ts\n1,10\n")
    return tmp_path


def load(folder: Path, text: str):
    path = folder / "job.toml"
    path.write_text(text)
    return load_job(path)


def test_defaults(folder):
    job = load(folder, MINIMAL)
    assert (job.name, job.engine, job.lateness) == ("job", "spark", "0s")
    path = folder / "r.csv"
    assert job.sources == (FileSource("R", (path,), "csv", "ts", {}, str(path)),)
    assert job.sink == FileSink(folder / "out.parquet", "parquet")
    assert job.spark == SparkOptions(checkpoint=folder / "job.checkpoint", trigger="available now")


def test_everything_given(folder):
    (folder / "q.sql").write_text("SELECT 1")
    (folder / "part-2.txt").write_text("")
    (folder / "part-1.txt").write_text("")
    job = load(
        folder,
        """
        [job]
        name = "everything"
        query_file = "q.sql"
        engine = "local"
        lateness = "5 seconds"
        batch_rows = 100
        [streams.R]
        path = "part-*.txt"
        format = "csv"
        time = "at"
        schema = { x = "int16", at = "timestamp[ms, UTC]" }
        [sink]
        console = true
        format = "jsonl"
        """,
    )
    assert (job.name, job.query, job.lateness, job.batch_rows) == ("everything", "SELECT 1", "5 seconds", 100)
    (source,) = job.sources
    assert [path.name for path in source.paths] == ["part-1.txt", "part-2.txt"]
    assert (source.time, source.types) == ("at", {"x": pa.int16(), "at": pa.timestamp("ms", tz="UTC")})
    assert job.sink == FileSink(None, "jsonl")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[job]", "[job", "the job file is not TOML: .*line 2"),
        ("[job]", "[jobb]", "unknown section 'jobb'. Allowed: job, streams, sink, spark. Did you mean 'job'?"),
        ('[sink]\npath = "out.parquet"', "", r"the section \[sink\] is missing"),
        ("[streams.R]", "[streams]", r"\[streams\]: 'path' must be a section, \[streams.path\], got the text 'r.csv'"),
        ('query = "SELECT * FROM R [NOW]"', "", r"\[job\]: give either 'query' .* or 'query_file'"),
        ("query =", 'query_file = "q.sql"\nquery =', r"\[job\]: give either 'query' .*, and not both"),
        ("query = ", "query_file = ", r"\[job\]: cannot read 'query_file' .*: No such file or directory"),
        ("query =", "lateness = 5\nquery =", r"\[job\]: 'lateness' must be a text .*, got the number 5"),
        ("query =", 'engine = "locl"\nquery =', "'engine' is 'locl'. Allowed: spark, local. Did you mean 'local'?"),
        ("query =", "batch_rows = 0\nquery =", "'batch_rows' must be at least 1, got 0"),
        ("query =", "batch_rows = true\nquery =", "'batch_rows' must be a whole number, got the true/false True"),
        ('path = "r.csv"', "", r"\[streams.R\]: the key 'path' is missing"),
        ('path = "r.csv"', 'path = "s*.csv"', r"\[streams.R\]: 'path' is 's\*.csv', but no file matches"),
        ('path = "r.csv"', 'path = "r.csv"\ntimes = "t"', r"\[streams.R\]: unknown key 'times'.*Did you mean 'time'?"),
        ('path = "r.csv"', 'path = "r.csv"\nformat = "cvs"', "'format' is 'cvs'. Allowed: parquet.*mean 'csv'?"),
        ('path = "r.csv"', 'path = "job.toml"', "the name of job.toml does not tell its format. Add 'format', one of"),
        ('path = "r.csv"', 'path = "r.csv"\nschema = {x = "int31"}', r"schema\]: column 'x': unknown type 'int31'"),
        ('path = "out.parquet"', "", r"\[sink\]: give either 'path' .*, 'console = true'"),
        ('path = "out.parquet"', 'path = "no/out.csv"', "'no/out.csv', which lies in .*, which does not exist"),
        ('path = "out.parquet"', 'console = "yes"', "'console' must be true or false, got the text 'yes'"),
        ('path = "out.parquet"', 'console = true\nformat = "arrow"', "'format' is 'arrow'. Allowed: csv, jsonl"),
    ],
)
def test_a_mistake_is_reported_with_its_place(folder, old, new, message):
    assert old in MINIMAL
    with pytest.raises(JobError, match=message) as caught:
        load(folder, MINIMAL.replace(old, new))
    assert str(caught.value).startswith(str(folder / "job.toml") + ": ")


ON_SPARK = """
[job]
query = "SELECT * FROM R [NOW], S [NOW]"
[streams.R]
kafka = "localhost:9092"
topic = "r"
schema = { x = "int32", ts = "timestamp[ms]" }
[streams.S]
rate = 10
columns = { x = "value % 10" }
[sink]
kafka = "localhost:9092"
topic = "out"
"""


def test_everything_given_for_spark(folder):
    (folder / "kafka.jar").write_text("")
    job = load(
        folder,
        """
        [job]
        query = "SELECT 1"
        [streams.A]
        kafka = "one:9092,two:9092"
        topic = "a"
        format = "csv"
        time = "_timestamp"
        schema = { x = "int16" }
        starting = "latest"
        options = { "kafka.security.protocol" = "SSL", maxOffsetsPerTrigger = 10, failOnDataLoss = false }
        [streams.B]
        socket = "localhost:9999"
        schema = { x = "int16", ts = "int64" }
        [streams.C]
        rate = 100
        time = "at"
        columns = { x = "value % 7" }
        [streams.D]
        path = "later/*.parquet"
        schema = { ts = "int64" }
        files_per_batch = 3
        [sink]
        kafka = "one:9092"
        topic = "out"
        key = "x"
        [spark]
        master = "local[2]"
        checkpoint = "state"
        trigger = "1.5 s"
        layout = [2, 3]
        cells = 6
        jars = ["*.jar"]
        log = "spark.log"
        conf = { "spark.driver.memory" = "2g", "spark.ui.enabled" = true }
        """,
    )
    options = {"kafka.security.protocol": "SSL", "maxOffsetsPerTrigger": "10", "failOnDataLoss": "false"}
    kafka = KafkaSource("A", "one:9092,two:9092", "a", "csv", "_timestamp", {"x": pa.int16()}, "latest", options)
    socket = SocketSource("B", "localhost", 9999, "jsonl", "ts", {"x": pa.int16(), "ts": pa.int64()})
    files = FileSource("D", (), "parquet", "ts", {"ts": pa.int64()}, str(folder / "later/*.parquet"), 3)
    assert job.sources == (kafka, socket, RateSource("C", 100, "at", {"x": "value % 7"}), files)
    assert job.sink == KafkaSink("one:9092", "out", ("x",), {})
    conf = {"spark.driver.memory": "2g", "spark.ui.enabled": "true"}
    jars, log = (folder / "kafka.jar",), folder / "spark.log"
    state = folder / "state"
    assert job.spark == SparkOptions("local[2]", state, "1500 milliseconds", (2, 3), 6, jars, log, conf)


def test_a_job_that_only_shows_results_needs_no_checkpoint_and_runs_until_it_is_stopped(folder):
    job = load(folder, ON_SPARK[: ON_SPARK.index("[sink]")] + '[sink]\nmemory = "found"')
    assert (job.sink, job.spark.checkpoint, job.spark.trigger) == (MemorySink("found"), None, None)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[sink]", "[spark]\nmster = 1\n[sink]", r"\[spark\]: unknown key 'mster'. .*Did you mean 'master'?"),
        ("[sink]", "[spark]\ntrigger = 'often'\n[sink]", "'trigger' is 'often'. Allowed: a time .*'available now'"),
        ("[sink]", "[spark]\ncells = 0\n[sink]", r"\[spark\]: 'cells' must be at least 1, got 0"),
        ("[sink]", "[spark]\njars = 'no/*.jar'\n[sink]", "'jars' names 'no/\\*.jar', but no file matches"),
        ("[sink]", "[spark]\nconf = { x = [] }\n[sink]", r"\[spark.conf\]: 'x' must be a text, a number or true/false"),
        ("rate = 10", "rate = 10\nsocket = 'a:1'", "'socket' and 'rate' are both given. A stream has one source."),
        ("rate = 10", "", "the key 'path' is missing. Give one of: path"),
        ('topic = "r"', "", r"\[streams.R\]: the key 'topic' is missing"),
        ('schema = { x = "int32", ts = "timestamp[ms]" }', "", "'schema' is missing: nothing else tells"),
        ('topic = "r"', 'topic = "r"\nstarting = "now"', "'starting' is 'now'. Allowed: earliest, latest"),
        ('columns = { x = "value % 10" }', "columns = {}", r"\[streams.S.columns\]: no column is given"),
        (
            'rate = 10\ncolumns = { x = "value % 10" }',
            "socket = 'here'\nschema = { ts = 'int64' }",
            "'socket' is 'here'. Write host:port",
        ),
        ("[sink]", "[spark]\nlayout = [2, 0]\n[sink]", "'layout' must be a name or a list of positive whole numbers"),
        ("[job]", '[job]\nengine = "local"', "a 'kafka' source needs Spark; one process reads files only"),
        (
            '[sink]\nkafka = "localhost:9092"\ntopic = "out"',
            "[sink]\nmemory = 'a b'",
            "'memory' is 'a b', which is no name for a table",
        ),
    ],
)
def test_a_mistake_in_a_job_for_spark_is_reported_with_its_place(folder, old, new, message):
    assert old in ON_SPARK
    with pytest.raises(JobError, match=message) as caught:
        load(folder, ON_SPARK.replace(old, new, 1))
    assert str(caught.value).startswith(str(folder / "job.toml") + ": ")


@pytest.mark.parametrize(
    ("engine", "old", "new", "message"),
    [
        (
            "spark",
            'path = "r.csv"',
            'path = "r.csv"\nformat = "arrow"',
            "Spark does not read 'arrow' files. Allowed: par",
        ),
        ("spark", 'path = "out.parquet"', 'path = "out.arrow"', "Spark does not write 'arrow' files"),
        ("spark", 'path = "out.parquet"', 'path = "r.csv"', "'r.csv', which is a file. On Spark results are a folder"),
        ("local", 'path = "out.parquet"', 'path = "old.csv"', "'old.csv', which is a folder. Give the name of a file"),
        ("local", 'path = "out.parquet"', 'kafka = "a:1"\ntopic = "t"', "a 'kafka' sink needs Spark"),
        ("local", 'path = "r.csv"', 'path = "q.csv"\nschema = {ts="int64"}', "there is no waiting for one"),
    ],
)
def test_what_an_engine_cannot_do_is_said_before_it_starts(folder, engine, old, new, message):
    (folder / "old.csv").mkdir()
    (folder / "job.toml").write_text(MINIMAL.replace(old, new))
    with pytest.raises(JobError, match=message):
        load_job(folder / "job.toml", engine)


def test_a_job_file_that_is_not_there(tmp_path):
    with pytest.raises(JobError, match="cannot read the job file: No such file"):
        load_job(tmp_path / "none.toml")


TUPLES = stream_from_text(
    """
    x | f   | s    | ts
    1 | 0.5 | a    | 00:00:01
      | nan | null | 00:00:02.25
    3 | 1e9 | ß    | 00:00:03
    """,
    "x:int64, f:double, s:string, ts:timestamp[ms]",
)


def write(table: pa.Table, path: Path, form: str) -> None:
    with ResultWriter(FileSink(path, form)) as writer:
        writer.write(table.slice(0, 1))
        writer.write(table.slice(1))
        writer.commit()


@pytest.mark.parametrize("form", ["parquet", "csv", "jsonl", "arrow"])
def test_what_is_written_can_be_read(tmp_path, form):
    path = tmp_path / f"tuples.{form}"
    # JSON has no NaN.
    tuples = TUPLES if form != "jsonl" else TUPLES.set_column(1, "f", pa.array([0.5, 2.0, 1e9]))
    write(tuples, path, form)
    types = dict(zip(tuples.schema.names, tuples.schema.types, strict=True))
    stream = FileStream(FileSource("R", (path,), form, "ts", types))
    assert stream.schema.equals(tuples.schema)
    assert_same_rows(pa.Table.from_batches(stream.batches(2)), tuples, ordered=True)
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_types_that_a_text_format_does_not_tell_are_inferred(tmp_path):
    write(TUPLES, tmp_path / "tuples.csv", "csv")
    schema = FileStream(source_of_file("R", tmp_path / "tuples.csv", "ts")).schema
    assert schema.field("x").type == pa.int64()
    assert pa.types.is_timestamp(schema.field("ts").type)


def test_json_lines_hold_what_json_cannot_say_as_text(tmp_path):
    table = pa.table(
        {
            "f": pa.array([math.nan, math.inf, -math.inf]),
            "d": pa.array([Decimal("1.50"), None, None], pa.decimal128(5, 2)),
            "b": pa.array([b"\xff", None, None]),
            "n": pa.array([[1.0, math.nan], None, []]),
            "t": pa.array([1, None, None], pa.timestamp("ns", tz="UTC")),
        }
    )
    write(table, tmp_path / "out.jsonl", "jsonl")
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [row["f"] for row in rows] == ["NaN", "Infinity", "-Infinity"]
    assert rows[0] == {"f": "NaN", "d": "1.50", "b": "/w==", "n": [1.0, "NaN"], "t": "1970-01-01 00:00:00.000000001Z"}


def test_a_result_without_rows_still_has_its_columns(tmp_path):
    write(TUPLES.slice(0, 0), tmp_path / "out.parquet", "parquet")
    assert pa.parquet.read_schema(tmp_path / "out.parquet").names == TUPLES.column_names


@pytest.mark.parametrize("form", ["parquet", "csv", "jsonl", "arrow"])
def test_without_a_commit_the_old_file_stays(tmp_path, form):
    path = tmp_path / "out"
    path.write_text("old")
    with ResultWriter(FileSink(path, form)) as writer:
        writer.write(TUPLES)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_type_that_the_format_cannot_hold_is_an_error_that_says_so(tmp_path):
    nested = pa.table({"n": [[1, 2]]})
    with (
        pytest.raises(JobError, match=r"\[sink\]: cannot write .*out.csv as csv"),
        ResultWriter(FileSink(tmp_path / "out.csv", "csv")) as writer,
    ):
        writer.write(nested)
    assert list(tmp_path.iterdir()) == []


def source(tmp_path, name, table, time="ts"):
    path = tmp_path / f"{name}.parquet"
    pa.parquet.write_table(table, path)
    return FileStream(source_of_file(name, path, time))


def test_streams_are_merged_by_time_whatever_its_unit(tmp_path):
    r = source(tmp_path, "R", stream_from_text("ts\n1\n2\n5\n6", "ts:timestamp[s]"))
    micros = "at\n3000000\n4000000\n9000000\n9500000"  # Parquet keeps seconds as milliseconds
    s = source(tmp_path, "S", stream_from_text(micros, "at:timestamp[us]"), "at")
    assert {r.schema.field("ts").type, s.schema.field("at").type} == {pa.timestamp("ms"), pa.timestamp("us")}
    empty = source(tmp_path, "T", stream_from_text("ts", "ts:timestamp[us]"))
    merged = list(merged_by_time([r, s, empty], 2))
    assert [(item.stream, item.batch.num_rows) for item in merged] == [("R", 2), ("S", 2), ("R", 2), ("S", 2)]


@pytest.mark.parametrize("times", ["ts:int64", "ts:date", "ts:string"])
def test_times_of_other_types_are_merged_too(tmp_path, times):
    cells = {"ts:int64": "5", "ts:date": "2024-01-01", "ts:string": "soon"}[times]
    r = source(tmp_path, "R", stream_from_text(f"ts\n{cells}\nnull", times))
    s = source(tmp_path, "S", stream_from_text("ts\nnull", times))
    merged = [item.stream for item in merged_by_time([r, s], 10)]
    assert sorted(merged) == ["R", "S"]
    assert merged[0] == ("R" if times == "ts:string" else "S")


def test_only_an_empty_cell_of_a_csv_file_is_null(tmp_path):
    (tmp_path / "a.csv").write_text('x,ts\nNULL,1\n,2\nnan,3\n"",4\n')
    stream = FileStream(FileSource("R", (tmp_path / "a.csv",), "csv", "ts", {"x": pa.string()}))
    assert pa.Table.from_batches(stream.batches(10)).column("x").to_pylist() == ["NULL", None, "nan", ""]


def test_files_whose_names_begin_with_a_dot_or_a_stroke_are_not_read(folder):
    for name in ("part.csv", ".part.csv.77.partial.csv", "_SUCCESS.csv"):
        (folder / "parts").mkdir(exist_ok=True)
        (folder / "parts" / name).write_text("x,ts\n1,10\n")
    job = load(folder, MINIMAL.replace('"r.csv"', '"parts"'))
    assert job.sources[0].paths == (folder / "parts" / "part.csv",)


def test_files_of_a_stream_follow_each_other_by_name(tmp_path):
    for name in ("b", "a"):
        (tmp_path / f"{name}.csv").write_text(f"x,ts\n{name},1\n")
    stream = FileStream(FileSource("R", (tmp_path / "a.csv", tmp_path / "b.csv"), "csv", "ts", {}))
    assert pa.Table.from_batches(stream.batches(10)).column("x").to_pylist() == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "types", "time", "message"),
    [
        ("x,t\n1,2\n", {}, "ts", "its time column 'ts' is not in .*r.csv. Columns there: x, t."),
        ("x,ts\n1,2\n", {"y": pa.int8()}, "ts", r"\[streams.R.schema\] names the column 'y', which is not in"),
        ("x,ts\n1,2,3\n", {}, "ts", "stream R: cannot read .*r.csv as csv: .*Expected 2 columns, got 3"),
        ("x,ts\nn,2\n", {"x": pa.int8()}, "ts", "stream R: cannot read .*r.csv as csv: .*conversion error to int8"),
    ],
)
def test_files_that_do_not_fit_are_reported(tmp_path, text, types, time, message):
    (tmp_path / "r.csv").write_text(text)
    with pytest.raises(JobError, match=message):
        list(FileStream(FileSource("R", (tmp_path / "r.csv",), "csv", time, types)).batches(10))


def test_a_single_file_must_exist_and_tell_its_format(tmp_path):
    with pytest.raises(JobError, match="stream R: there is no file"):
        source_of_file("R", tmp_path / "r.csv", "ts")
    (tmp_path / "r.txt").write_text("")
    with pytest.raises(JobError, match=r"does not tell its format. It must end in one of: \.parquet"):
        source_of_file("R", tmp_path / "r.txt", "ts")
