"""Tests that are skipped for a reason that nobody expected fail, so that nothing goes untested unseen.

What a machine cannot have is named: ``CROSSWIND_TEST_MAY_SKIP="no Chromium here"``; ``make test`` names what it could
not install (scripts/test-tools).
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Generator
from typing import Any

import pytest

VARIABLE = "CROSSWIND_TEST_MAY_SKIP"
EXPECTED = {
    "Spark has no such value: ": 120,
    "Spark has neither uint64 nor nanoseconds": 2,
    "not in Spark: ": 20,
    "refused: ": 20,
    "this processor has no AVX2": 3,
    "not a git checkout": 2,
    "a small disk cannot be mounted": 1,
}
"""How a reason that is expected begins, and how often it may come in one run."""


def may_skip() -> list[str]:
    """Return how reasons begin that are allowed on this machine."""
    return [text.strip() for text in os.environ.get(VARIABLE, "").split(",") if text.strip()]


def reason_of(report: Any) -> str:
    """Return why a test, or a module, was skipped."""
    longrepr = report.longrepr
    text = longrepr[2] if isinstance(longrepr, tuple) else str(longrepr)
    return str(text).removeprefix("Skipped: ")


def kind_of(reason: str) -> str | None:
    """Return which expected reason it is; None: it is not expected."""
    return next((begin for begin in (*EXPECTED, *may_skip()) if reason.startswith(begin)), None)


def judge(report: Any) -> Any:
    """Return the report, as a failure if it is one of an unexpected skip."""
    if not report.skipped or hasattr(report, "wasxfail"):
        return report
    reason = reason_of(report)
    if kind_of(reason) is None:
        report.outcome = "failed"
        report.longrepr = (
            f"skipped, and that was not expected: {reason}\nSee to what is missing. If this machine cannot have it, "
            f'say so: {VARIABLE}="{reason.splitlines()[0]}". Reasons that always hold are listed in tests/skips.py.'
        )
    return report


# -- hooks; tests/conftest.py registers this module -----------------------------------------------


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what needs Java where there is none."""
    if item.get_closest_marker("spark") and not (shutil.which("java") or os.environ.get("JAVA_HOME")):
        pytest.skip("no Java here: apt-get install openjdk-17-jre-headless")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, Any, Any]:
    """Judge a test that is skipped."""
    return judge((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, Any, Any]:
    """Judge a module that is skipped as a whole."""
    return judge((yield))


class Counted:
    """Counts expected skips by reason, where all reports come together."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Count a test that was skipped."""
        if report.skipped and not hasattr(report, "wasxfail"):
            self.counts[kind_of(reason_of(report)) or "not expected"] += 1

    pytest_collectreport = pytest_runtest_logreport

    @property
    def too_many(self) -> dict[str, int]:
        """Reasons that came more often than expected."""
        return {kind: count for kind, count in self.counts.items() if count > EXPECTED.get(kind, count)}

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail a run with too many skips."""
        if self.too_many and session.exitstatus == 0:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Show how often each reason came."""
        for kind, count in sorted(self.counts.items()):
            most = EXPECTED.get(kind)
            verdict = f"MORE THAN THE {most} EXPECTED" if kind in self.too_many else "as expected"
            terminalreporter.write_line(f"crosswind: {count} skipped, {verdict}: {kind.rstrip(': ')}")


def pytest_configure(config: pytest.Config) -> None:
    """Count in the process that collects the reports of all others."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Counted(), "crosswind-skips")
