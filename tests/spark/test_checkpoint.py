"""Checkpoints looked into and restarted: today's, those that were kept, damaged ones, and what is none."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

import crosswind as cw
from crosswind.cli.main import crosswind
from crosswind.spark.folder import CheckpointFolder, FolderDraft
from tests.conftest import SPARK
from tests.golden import FOLDER, QUERIES, batch, feed, open_golden, rows_of
from tests.golden.checkpoint import CHECKPOINTS, STARTS, add_file, flush, run, unpack
from tests.spark.session import session
from tests.test_golden import STATE_NOW


def kept(number: int, name: str) -> Path:
    return FOLDER / f"format-{number}" / f"{name}.checkpoint.zip"


@pytest.fixture
def inner(tmp_path) -> Path:
    """Return the checkpoint of an inner join that was kept."""
    unpack(kept(STATE_NOW, "inner"), tmp_path)
    return tmp_path / "checkpoint"


@SPARK
@pytest.mark.parametrize(("name", "written"), [(name, written) for written in (3, STATE_NOW) for name in CHECKPOINTS])
def test_a_checkpoint_that_was_kept_goes_on_exactly(tmp_path, name, written):
    found = unpack(kept(written, name), tmp_path)
    number = len(STARTS) - 1
    for stream in "RS":
        add_file(tmp_path, stream, number, batch(stream, STARTS[number]))
        add_file(tmp_path, stream, number + 1, flush())
    found += run(name, tmp_path, session())
    with open_golden(name) as join:
        expected = [row for start in STARTS for row in feed(name, join, start)] + rows_of(join.finish())
    assert sorted(found) == sorted(expected)


@SPARK
@pytest.mark.parametrize("number", [2])
def test_a_checkpoint_of_an_older_format_is_refused_by_name(tmp_path, number):
    unpack(kept(number, "inner"), tmp_path)
    for stream in "RS":
        add_file(tmp_path, stream, len(STARTS), flush())
    with pytest.raises(cw.SnapshotError, match=rf"another version of Crosswind, in format {number} "):
        run("inner", tmp_path, session())
    held = cw.spark.checkpoint(tmp_path / "checkpoint")
    assert held.joins[0].format == number
    assert f"format       {number}, which this version of Crosswind does not read" in str(held)
    with pytest.raises(cw.SnapshotError, match=f"has format {number}, which this version does not read"):
        cw.spark.rescale(tmp_path / "checkpoint", cells=4, spark=session())


@SPARK
def test_what_a_checkpoint_holds_is_shown(inner):
    held = cw.spark.checkpoint(inner, spark=session())
    (join,) = held.joins
    assert " ".join(QUERIES["inner"][0].split()) == join.query
    assert (join.format, held.partitions, held.unfinished, held.others) == (STATE_NOW, 2, False, {})
    assert [cell.cell for cell in join.cells] == [0, 1]
    assert [cell.partition for cell in join.cells] == [0, 1]
    assert 0 < join.tuples <= 32
    assert join.nbytes == sum(cell.nbytes for cell in join.cells) > 0
    text = str(held)
    for part in (
        "micro-batch ",
        "watermark ",
        f"format       {STATE_NOW}",
        "range layout, 2 cells",
        f"holds        {join.tuples} t",
    ):
        assert part in text
    assert {cell.watermark for cell in join.cells} <= {6, 12}


@SPARK
def test_damage_is_named(inner):
    spark = session()
    state = inner / "state" / "0"
    for path in (*state.glob("0/*.zip"), *state.glob("0/*.changelog")):
        path.write_bytes(b"")
    with pytest.raises(cw.SnapshotError, match=r"(?s)state in the checkpoint .* cannot be read: .* Spark says: "):
        cw.spark.checkpoint(inner, spark=spark)
    with pytest.raises(cw.SnapshotError, match="cannot be read"):
        cw.spark.rescale(inner, partitions=4, spark=spark)
    assert not list(inner.parent.glob("*.part")), "nothing is left behind"
    shutil.rmtree(state)
    with pytest.raises((cw.SnapshotError, cw.InputError), match=r"(?s)cannot be read|has no join of Crosswind"):
        cw.spark.checkpoint(inner, spark=spark)


# ---------------------------------------------------------------------------------- without Spark


@pytest.mark.parametrize(
    ("name", "content", "error", "words"),
    [
        ("commits/1", None, cw.InputError, "has not finished its first micro-batch"),
        ("offsets", None, cw.InputError, "it has no log of offsets"),
        ("offsets/1", None, cw.SnapshotError, "damaged: offsets/1: it is missing, and the micro-batch is committed"),
        ("offsets/1", "v1\n{", cw.SnapshotError, "damaged: offsets/1: it is not what Spark writes"),
        ("offsets/1", "v9\n{}", cw.SnapshotError, "another version of Spark: offsets/1 is of version 'v9'"),
        ("offsets/1", 'v1\n{"conf": {}}', cw.SnapshotError, "does not tell the number of partitions"),
        ("commits/1", "", cw.SnapshotError, "damaged: commits/1: it is not what Spark writes"),
        ("metadata", "{}", cw.SnapshotError, "damaged: metadata: it does not name the query"),
    ],
)
def test_damaged_folders_are_named(tmp_path, name, content, error, words):
    described = 'v1\n{"batchWatermarkMs": 5, "conf": {"spark.sql.shuffle.partitions": "2"}}\n{"logOffset": 0}'
    texts = {"offsets/0": described, "offsets/1": described, "commits/1": "v1\n{}", "metadata": '{"id": "a"}'}
    for part, text in texts.items():
        (tmp_path / part).parent.mkdir(exist_ok=True)
        (tmp_path / part).write_text(text)
    folder = CheckpointFolder(tmp_path)
    assert (folder.committed(), folder.watermark(1), folder.partitions(1), folder.query_id()) == (1, 5, 2, "a")
    if content is None:
        path = tmp_path / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    else:
        (tmp_path / name).write_text(content)
    with pytest.raises(error, match=words):
        folder.committed(), folder.watermark(1), folder.partitions(1), folder.query_id()


def test_a_folder_that_is_no_checkpoint_is_said_before_spark_starts(tmp_path):
    runner = CliRunner()
    for arguments in (["show"], ["rescale", "--cells", "2"]):
        done = runner.invoke(crosswind, ["checkpoint", *arguments, str(tmp_path / "none")])
        assert done.exit_code == 1
        assert "there is no checkpoint at" in done.output
    done = runner.invoke(crosswind, ["checkpoint", "rescale", str(tmp_path)])
    assert done.exit_code == 2
    assert "nothing to change" in done.output


def test_a_draft_takes_its_place_only_when_it_is_whole(tmp_path):
    checkpoint = tmp_path / "checkpoint"
    for part in ("offsets/0", "commits/0", "state/0/_metadata/v2/0"):
        (checkpoint / part).parent.mkdir(parents=True)
        (checkpoint / part).write_text('v1\n{"conf": {}, "nextBatchWatermarkMs": 50}')
    paths = {"stateStoreInfo": [{"stateSchemaFilePaths": [f"file:{checkpoint}/state/0/_stateSchema/default/0_a"]}]}
    (checkpoint / "state/0/_metadata/v2/0").write_text(f"v2\n{json.dumps(paths)}")
    source = CheckpointFolder(checkpoint)
    draft = FolderDraft(source, tmp_path / "new")
    draft.__enter__().copy()
    draft.__exit__(KeyError, KeyError(), None)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint"]
    with FolderDraft(source) as draft:
        draft.copy()
        draft.lag(0, -20)
        assert not list(tmp_path.glob("checkpoint.before-0"))
    assert CheckpointFolder(checkpoint).commit(0)["nextBatchWatermarkMs"] == 30
    assert CheckpointFolder(f"{checkpoint}.before-0").commit(0)["nextBatchWatermarkMs"] == 50
    with pytest.raises(cw.InputError, match=r"the way back: .*before-0 exists already"):
        FolderDraft(CheckpointFolder(checkpoint))
    with FolderDraft(CheckpointFolder(checkpoint), f"file://{tmp_path}/third") as draft:
        draft.copy()
    told = json.loads((tmp_path / "third/state/0/_metadata/v2/0").read_text().split("\n")[1])
    assert told["stateStoreInfo"][0]["stateSchemaFilePaths"] == [
        f"file:{tmp_path}/third/state/0/_stateSchema/default/0_a"
    ]
    with pytest.raises(cw.InputError, match=r"to: .*third exists already"):
        FolderDraft(source, tmp_path / "third")
    with pytest.raises(cw.InputError, match=r"in another file system|cannot be opened"):
        FolderDraft(source, "hdfs://nowhere/third")


@pytest.mark.parametrize("moved", [0, 1, 2], ids=["before the first rename", "between", "after the second"])
def test_an_interrupt_while_a_draft_takes_its_place_leaves_a_checkpoint(tmp_path, monkeypatch, moved):
    """Ctrl-C may fall anywhere: there is always a whole checkpoint under the name that the query knows."""
    checkpoint = tmp_path / "checkpoint"
    for part in ("offsets/0", "commits/0"):
        (checkpoint / part).parent.mkdir(parents=True)
        (checkpoint / part).write_text('v1\n{"conf": {}, "nextBatchWatermarkMs": 50}')
    source = CheckpointFolder(checkpoint)
    done: list[int] = []

    class Interrupted:
        """A file system whose user is impatient."""

        def __getattr__(self, name):
            return getattr(source.files, name)

        def move(self, before, after):
            if len(done) == moved:
                done.append(0)
                raise KeyboardInterrupt
            source.files.move(before, after)
            done.append(0)
            if len(done) == moved == 2:
                done.append(0)
                raise KeyboardInterrupt

    draft = FolderDraft(source)
    monkeypatch.setattr(draft, "_files", Interrupted())
    draft.__enter__().copy()
    draft.lag(0, -20)
    with pytest.raises(KeyboardInterrupt):
        draft.__exit__(None, None, None)
    assert CheckpointFolder(checkpoint).commit(0)["nextBatchWatermarkMs"] == (30 if moved == 2 else 50)
    assert not list(tmp_path.glob("*.part"))
