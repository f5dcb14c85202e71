"""Damaged snapshots, blocks and manifests: refused, or read rightly; nothing ends the process (see tests/damage.py)."""

from __future__ import annotations

import json

import pytest

import crosswind as cw
from crosswind.io.checksum import DamageError, OtherFormatError, digest_of, seal, unseal
from tests.damage import BYTES, FIRST, SCHEMAS, SUBJECTS, boundaries, open_subject, report, rest_of, run, taken
from tests.seeds import SEED

CASES = 240
BY_NAME = {subject.name: subject for subject in SUBJECTS}


def test_whatever_is_damaged_is_refused_or_read_rightly():
    verdicts = run(CASES, SEED)
    failures = report(verdicts, SEED)
    assert not failures, "\n".join(failures)
    assert len(verdicts) == CASES
    kinds = {verdict.kind for verdict in verdicts.values()}
    assert kinds >= {*(spoil.__name__ for spoil in BYTES), "splice", "swap", "other", "reseal"}
    assert {kind.partition(":")[0] for kind in kinds} >= {"manifest", "block"}
    assert sum(verdict.outcome == "refused" for verdict in verdicts.values()) > CASES / 2


def test_every_single_byte_of_a_small_snapshot_counts():
    subject = BY_NAME["left"]
    with open_subject(subject) as join:
        join.push("R", {name: [1 if name == "ts" else None] for name in SCHEMAS["R"].names})
        good = join.snapshot()
        before = join.snapshot()
        for at in range(0, len(good), 7):
            spoilt = bytearray(good)
            spoilt[at] ^= 1 << at % 8
            with pytest.raises(cw.SnapshotError):
                join.restore(bytes(spoilt))
        assert join.snapshot() == before


@pytest.mark.parametrize("engine", ["cell", "grid", "handshake"])
def test_every_engine_refuses_damage_and_restores_the_rest(engine):
    subject = BY_NAME["strings"]
    good = taken(subject, FIRST)
    at = boundaries(good.data)[0] + 100
    spoilt = good.data[:at] + bytes([good.data[at] ^ 1]) + good.data[at + 1 :]
    with pytest.raises(cw.SnapshotError, match=r"the checksum of section 1 of \d+ does not match"):
        open_subject(subject, engine=engine, workers=2, restore=spoilt)
    with open_subject(subject, engine=engine, workers=2, restore=good.data) as join:
        assert rest_of(subject, join, FIRST) == good.rows


def test_a_restore_that_breaks_off_leaves_no_trace(monkeypatch):
    subject = BY_NAME["strings"]
    good = taken(subject, FIRST)
    with open_subject(subject) as join:
        inserted = []

        def restore(unit, block):
            inserted.append(unit)
            if len(inserted) > 1:
                raise MemoryError
            type(join._strategy).restore(join._strategy, unit, block)

        monkeypatch.setattr(join._strategy, "restore", restore)
        with pytest.raises(MemoryError):
            join.restore(good.data)
        assert set(join.stats.window_tuples.values()) == {0}
        assert set(join.stats.tuples_in.values()) == {0}
        monkeypatch.undo()
        join.restore(good.data)
        assert rest_of(subject, join, FIRST) == good.rows


def test_a_snapshot_may_come_as_any_bytes():
    subject = BY_NAME["inner"]
    good = taken(subject, FIRST)
    for data in (bytearray(good.data), memoryview(good.data)):
        with open_subject(subject, restore=data) as join:
            assert rest_of(subject, join, FIRST) == good.rows


# ---------------------------------------------------------------------------------- seals


def test_what_is_sealed_comes_back_and_nothing_else_does():
    content = {"a": [1, 2], "ä": '"}', "nothing": None}
    data = seal(3, content)
    assert unseal(data, 3) == content
    assert json.loads(data)["format"] == 3, "a reader that knows no checksums finds the format"
    for at in range(len(data)):
        with pytest.raises(DamageError, match="its checksum does not match"):
            unseal(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :], 3)
        with pytest.raises(DamageError):
            unseal(data[:at], 3)
    with pytest.raises(OtherFormatError, match="format 3") as caught:
        unseal(data, 2)
    assert caught.value.found == 3
    with pytest.raises(OtherFormatError, match="format 1"):
        unseal(b'{"format": 1, "a": 2}', 2)
    for junk in (b"", b"[]", b"{}", b"[" * 10_000, b'{"format": 2}', b"\xff"):
        with pytest.raises(DamageError):
            unseal(junk, 2)


def test_checksums_have_at_least_64_bits_and_tell_order():
    assert len(digest_of(b"")) * 4 >= 64
    assert digest_of(b"ab") != digest_of(b"ba")
    assert digest_of(memoryview(b"ab")) == digest_of(b"ab")
