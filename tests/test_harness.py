"""The tests' own machinery: the seed that reproduces a run, and skips that nobody expected."""

from __future__ import annotations

import os
import re

import pytest

from tests import seeds, skips
from tests.conftest import ROOT

pytest_plugins = ["pytester"]

CONFTEST = """
from tests import seeds, skips

def pytest_configure(config):
    for plugin in (seeds, skips):
        config.pluginmanager.register(plugin)
"""


@pytest.fixture
def run(pytester, monkeypatch):
    """Return a function that runs tests with the hooks under test, and returns what came of them."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "src"), str(ROOT)]))
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    pytester.makeconftest(CONFTEST)

    def run(source, *arguments, **variables):
        for name in (seeds.VARIABLE, skips.VARIABLE):
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        pytester.makepyfile(test_sample=source)
        return pytester.runpytest_subprocess("-p", "no:cacheprovider", *arguments)

    return run


DRAWS = """
from tests.seeds import SEED, chance, numbers
from hypothesis import given, strategies as st

def test_draws():
    print("drawn", SEED, chance("a").random(), chance("b", 1).random(), numbers("a").random())
    assert False

@given(st.integers())
def test_hypothesis(n):
    print("given", n)
"""


def drawn(result) -> list[str]:
    return re.findall(r"(?:drawn|given) [-\d. e]+", result.stdout.str())


def test_a_seed_gives_the_same_again_and_is_shown(run):
    first = run(DRAWS, "-s", CROSSWIND_TEST_SEED="7")
    first.stdout.fnmatch_lines(["crosswind: random tests draw with seed 7; again: make test SEED=7"])
    first.stdout.fnmatch_lines(["CROSSWIND_TEST_SEED=7"])  # with the failure
    assert len(drawn(first)) > 10
    assert len(set(drawn(first)[0].split())) == 5, "each name has numbers of its own"
    assert drawn(run(DRAWS, "-s", CROSSWIND_TEST_SEED="7")) == drawn(first)
    other = run(DRAWS, "-s", "-q", CROSSWIND_TEST_SEED="any")
    assert drawn(other) != drawn(first)
    other.stdout.fnmatch_lines(["crosswind: random tests draw with seed *"])
    run(DRAWS, "-s").stdout.fnmatch_lines(["*draw with seed 0; again: make test SEED=0"])


@pytest.mark.parametrize("text", ["-1", "4294967296", "now"])
def test_what_is_no_seed_is_refused(run, text):
    result = run(DRAWS, CROSSWIND_TEST_SEED=text)
    assert result.ret != 0
    said = result.stdout.str() + result.stderr.str()
    assert f"CROSSWIND_TEST_SEED={text} is no seed; give a number from 0 to 4294967295, or 'any'" in said


SKIPS = """
import pytest

@pytest.mark.parametrize("k", range(3))
def test_on_spark(k):
    pytest.skip("Spark has neither uint64 nor nanoseconds")

def test_in_the_test():
    pytest.skip("no Chromium here: apt-get install chromium")

@pytest.mark.skip(reason="by a mark")
def test_marked():
    pass

@pytest.fixture
def missing():
    pytest.skip("in a fixture")

def test_with_a_fixture(missing):
    pass

@pytest.mark.xfail(reason="known")
def test_known():
    assert False
"""


def test_a_skip_that_is_not_expected_fails(run):
    result = run(SKIPS, "-k", "not spark or 0")
    result.assert_outcomes(skipped=1, failed=1, errors=2, xfailed=1)
    result.stdout.fnmatch_lines(["skipped, and that was not expected: no Chromium here: apt-get install chromium"])
    result.stdout.fnmatch_lines(['*CROSSWIND_TEST_MAY_SKIP="no Chromium here: apt-get install chromium"*'])
    result.stdout.fnmatch_lines(["crosswind: 1 skipped, as expected: Spark has neither uint64 nor nanoseconds"])


def test_a_machine_may_lack_something_by_name(run):
    named = "no Chromium here, by a mark, in a fixture"
    result = run(SKIPS, "-k", "not spark", CROSSWIND_TEST_MAY_SKIP=named)
    result.assert_outcomes(skipped=3, xfailed=1)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["crosswind: 1 skipped, as expected: no Chromium here"])


def test_more_skips_than_expected_fail_the_run(run):
    result = run(SKIPS, "-k", "spark")
    result.assert_outcomes(skipped=3)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["crosswind: 3 skipped, MORE THAN THE 2 EXPECTED: Spark has neither*"])


def test_a_module_that_is_skipped_as_a_whole_fails(run):
    source = 'import pytest; pytest.importorskip("no_such_module", reason="it is not installed")'
    assert run(source).ret != 0
    result = run(source, CROSSWIND_TEST_MAY_SKIP="it is not installed")
    result.stdout.fnmatch_lines(["crosswind: 1 skipped, as expected: it is not installed"])
