"""Faults in the source that the tests must notice: ``make mutants``.

A list for each room says what to change, why that is wrong and which tests should notice. An entry
whose text is no longer in the source is stale, and an error: whoever changes the code changes the entry, too.
``tests/test_mutants.py`` checks that in every run of the tests; ``python -m tests.mutants`` runs the mutants.
"""

from __future__ import annotations

from tests.mutants import cli, engine, io, kernel, lab, monitor, plan, query, spark, window
from tests.mutants.mutant import Mutant, mutants_of

__all__ = ["MUTANTS", "ROOMS"]

ROOMS = {
    "query": query.ENTRIES,
    "plan": plan.ENTRIES,
    "window": window.ENTRIES,
    "kernel": kernel.ENTRIES,
    "engine": engine.ENTRIES,
    "spark": spark.ENTRIES,
    "io": io.ENTRIES,
    "lab": lab.ENTRIES,
    "monitor": monitor.ENTRIES,
    "cli": cli.ENTRIES,
}

MUTANTS: list[Mutant] = [mutant for room, entries in ROOMS.items() for mutant in mutants_of(room, entries)]
