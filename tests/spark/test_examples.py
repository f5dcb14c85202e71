"""Examples in the docstrings of the room of Spark, run in a session."""

from __future__ import annotations

import doctest
import importlib

import pytest

import crosswind as cw
from tests.conftest import SPARK

pytest.importorskip("pyspark")
pytestmark = SPARK

MODULES = ("checkpoint", "failure", "join", "progress", "rescale", "session")


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_run(spark, name):
    module = importlib.import_module(f"crosswind.spark.{name}")
    outcome = doctest.testmod(module, extraglobs={"spark": spark}, optionflags=doctest.ELLIPSIS)
    assert outcome.attempted > 0
    assert outcome.failed == 0, "see what was printed above"


def test_every_public_name_has_an_example():
    bare = [name for name in cw.spark.__all__ if ">>> " not in (getattr(cw.spark, name).__doc__ or "")]
    assert not bare, f"no example in the docstrings of {bare}"
