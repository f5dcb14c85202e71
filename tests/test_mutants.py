"""The list of mutants is up to date: every entry can be put into the source, and names tests that there are."""

from __future__ import annotations

import ast
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from tests.mutants import MUTANTS, ROOMS
from tests.mutants.mutant import ROOT, Mutant


@cache
def functions_of(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_an_entry_is_up_to_date(mutant: Mutant):
    stale = mutant.fault(ROOT)
    assert not stale, f"{mutant.name}: {stale}. Change the entry in tests/mutants/{mutant.room}.py with the code."
    text = (ROOT / mutant.path).read_text(encoding="utf-8")
    ast.parse(text.replace(mutant.old, mutant.new))
    assert mutant.old != mutant.new
    assert mutant.why
    for test in mutant.test_ids:
        name, _, function = test.partition("::")
        assert (ROOT / name).is_file(), f"{mutant.name}: there is no {name}"
        known = not function or function.partition("[")[0] in functions_of(ROOT / name)
        assert known, f"{mutant.name}: there is no {test}"


def test_there_are_enough_and_in_every_room():
    assert len(MUTANTS) >= 120
    assert all(ROOMS.values())
    twice = [name for name, count in Counter(mutant.name for mutant in MUTANTS).items() if count > 1]
    assert not twice
    assert sum(bool(mutant.equivalent) for mutant in MUTANTS) <= 0.05 * len(MUTANTS), "most must be caught"
