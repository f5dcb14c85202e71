"""State that is damaged, incomplete or makes no sense: the micro-batch is refused by name, nothing is written."""

from __future__ import annotations

import re

import pytest

import crosswind as cw
from crosswind.io.checksum import DamageError, digest_of, seal
from crosswind.spark.cache import JoinCache
from crosswind.spark.cell import Cell
from crosswind.spark.state import Manifest
from tests.spark.cells import CROSS, SCHEMAS, batch, feed
from tests.spark.simulation import DictStore, make_spec


def damaged(content: dict[str, bytes], name: str, sql: str) -> str:
    """Return the error of a micro-batch over a state in which one thing is damaged."""
    data = bytearray(content[name])
    data[len(data) // 2] ^= 4
    store = DictStore({**content, name: bytes(data)})
    with pytest.raises(cw.SnapshotError) as caught:
        feed(Cell(make_spec(sql, SCHEMAS), store, JoinCache(), 3), S=batch((9, 3)))
    assert store.content == {**content, name: bytes(data)}
    return str(caught.value)


@pytest.mark.parametrize(
    ("sql", "name", "words"),
    [
        (CROSS, "block 0-1-1", r"cell 3: block '0-1-1' in the state of this checkpoint is damaged \(\d+ bytes whose"),
        (CROSS, "manifest", r"cell 3: the manifest in the state of this checkpoint is damaged \(its checksum does not"),
        (
            CROSS.replace("RANGE 10", "ROWS 3"),
            "block 0-1-1",
            r"cell 3: block '0-1-1' in .* is damaged \(\d+ bytes whose",
        ),
    ],
    ids=["block", "manifest", "rows"],
)
def test_damaged_state_fails_the_query_and_names_the_cell(sql, name, words):
    store = DictStore()
    feed(Cell(make_spec(sql, SCHEMAS), store, JoinCache()), R=batch(*((k, k) for k in range(1, 99))))
    told = damaged(store.content, name, sql)
    assert re.match(words, told), told
    assert told.endswith(
        "so the micro-batch was not taken. Restore the folder of the checkpoint from a copy, or start with a new "
        "checkpointLocation."
    )


def test_state_that_is_missing_fails_the_query():
    store = DictStore()
    feed(Cell(make_spec(CROSS, SCHEMAS), store, JoinCache()), R=batch((1, 1)))
    for name, words in (
        ("block 0-1-1", r"block '0-1-1' .*it is missing"),
        ("manifest", r"manifest .*it is missing, and"),
    ):
        left = DictStore({key: data for key, data in store.content.items() if key != name})
        with pytest.raises(cw.SnapshotError, match=rf"cell 7: .*{words}"):
            feed(Cell(make_spec(CROSS, SCHEMAS), left, JoinCache(), 7), S=batch((9, 3)))


def test_an_order_that_lacks_tuples_is_refused():
    spec, store, cache = make_spec(CROSS.replace("RANGE 10", "ROWS 3"), SCHEMAS), DictStore(), JoinCache()
    for k in range(3):
        feed(Cell(spec, store, cache), 10 * k, R=batch((k, 10 * k + 1)), S=batch((k, 10 * k + 1)))
    manifest = Manifest.from_bytes(store.read_manifest())
    manifest.blocks = [entry for entry in manifest.blocks if entry.name != "0-2-2"]
    store.write_manifest(manifest.to_bytes())
    with pytest.raises(cw.SnapshotError, match=r"cell 0: the order of tuples .*1 tuples are not the 2 that were numb"):
        feed(Cell(spec, store, JoinCache()), S=batch((9, 30)))


def test_a_block_that_is_damaged_is_noticed_when_blocks_are_put_together():
    store, cache = DictStore(), JoinCache()
    spec = make_spec(CROSS, SCHEMAS)
    for k in range(1, 8):
        feed(Cell(spec, store, cache), R=batch((k, 1)))
    store.content["block 0-2-2"] = store.content["block 0-3-3"]
    with pytest.raises(cw.SnapshotError, match=r"cell 0: block '0-2-2'"):
        feed(Cell(spec, store, cache), R=batch((8, 1)))


def test_flags_that_are_damaged_are_refused():
    spec, store = make_spec("SELECT R.x FROM R [RANGE 9] LEFT JOIN S [RANGE 9] ON R.x = S.x", SCHEMAS), DictStore()
    feed(Cell(spec, store, JoinCache()), R=batch((1, 5), (2, 6)))
    (name,) = [name for name in store.content if name.startswith("block matched")]
    for damaged in (b"", b"\xff", store.content[name] + b"\0"):
        broken = DictStore({**store.content, name: damaged})
        with pytest.raises(cw.SnapshotError, match=r"cell 0: what has matched .*is damaged"):
            feed(Cell(spec, broken, JoinCache()), S=batch((1, 7)))


def test_what_is_sealed_and_makes_no_sense_is_refused():
    """Checksums match, as after a fault of the writer: it is an error with a name, none of zlib's or Python's."""
    spec, store = make_spec("SELECT R.x FROM R [RANGE 9] LEFT JOIN S [RANGE 9] ON R.x = S.x", SCHEMAS), DictStore()
    feed(Cell(spec, store, JoinCache()), R=batch((1, 5), (2, 6)))
    manifest = Manifest.from_bytes(store.read_manifest())
    store.remove(manifest.flags)
    store.write(manifest.flags, b"not compressed")
    manifest.flags_bytes, manifest.flags_checksum = 14, digest_of(b"not compressed")
    store.write_manifest(manifest.to_bytes())
    with pytest.raises(cw.SnapshotError, match=r"cell 0: what has matched .*is damaged"):
        feed(Cell(spec, store, JoinCache()), S=batch((1, 7)))
    with pytest.raises(DamageError, match="its fields are not those of a manifest"):
        Manifest.from_bytes(seal(3, {"snapshot": []}))
