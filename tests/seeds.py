"""The one seed of all tests that draw at random: ``make test SEED=7``, or ``SEED=any`` for another one each time.

The header of a run shows it, and so does every failure. With the same seed a test draws the same again, alone or among
all others, in any order and in any process.
"""

from __future__ import annotations

import os
import random
import zlib
from collections.abc import Generator
from typing import Any

import numpy as np
import pytest

VARIABLE = "CROSSWIND_TEST_SEED"
_MOST = 2**32


def _read() -> int:
    text = os.environ.get(VARIABLE, "").strip() or "0"
    if text == "any":
        text = os.environ[VARIABLE] = str(random.SystemRandom().randrange(_MOST))  # for the processes below, too
    if not text.isdecimal() or int(text) >= _MOST:
        raise pytest.UsageError(f"{VARIABLE}={text} is no seed; give a number from 0 to {_MOST - 1}, or 'any'")
    return int(text)


SEED = _read()
_AGAIN = f"crosswind: random tests draw with seed {SEED}; again: make test SEED={SEED}"


def chance(*what: object) -> random.Random:
    """Return a generator of the standard library for ``what`` (say the name of a test and its parameters)."""
    return random.Random(_name(what))


def numbers(*what: object) -> np.random.Generator:
    """Return a generator of NumPy for ``what``."""
    return np.random.default_rng([SEED, zlib.crc32(_name(what).encode())])


def _name(what: tuple[object, ...]) -> str:
    return " ".join(map(str, (SEED, *what)))


# -- hooks; tests/conftest.py registers this module -----------------------------------------------


def pytest_configure(config: pytest.Config) -> None:
    """Let Hypothesis have the same seed."""
    if config.pluginmanager.hasplugin("hypothesispytest") and config.getoption("--hypothesis-seed") is None:
        from hypothesis import core

        core.global_force_seed = SEED


def pytest_report_header() -> str:
    """Say how to run the same again."""
    return _AGAIN


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say it where the header is left out, too."""
    if terminalreporter.no_header or not terminalreporter.showheader:
        terminalreporter.write_line(_AGAIN)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, Any, Any]:
    """Show the seed with every failure."""
    report = yield
    if report.failed:
        report.sections.append(("Seed", f"{VARIABLE}={SEED}"))
    return report
