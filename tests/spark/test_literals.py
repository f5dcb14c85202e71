"""String constants mean what they mean in Spark: the same escapes, the same quotes."""

from __future__ import annotations

import pytest

import crosswind as cw
from tests.conftest import SPARK
from tests.spark.session import session

pytestmark = SPARK

LITERALS = [
    *("''", "'a'", "'it''s'", r"'it\'s'", r"'say \"x\"'", "'say \"x\"'", "'two\nlines'"),
    *(r"'a\nb'", r"'a\tb'", r"'a\rb'", r"'a\bb'", r"'a\0b'", r"'a\Zb'", r"'C:\\temp'", r"'a\\'", r"'\\\\'"),
    *(r"'50\%'", r"'a\_b'", r"'\q'", r"'\x41'", r"'\101'", r"'\377'", r"'\400'", r"'\18'", r"'\7'"),
    *(r"'\u0041'", r"'\u00e9'", r"'\u00'", r"'\U0001F600'", r"'\ud83d\ude00'", r"'\u005cn'", "'é'", "'\U0001f600'"),
]


@pytest.fixture(scope="module")
def in_spark() -> dict[str, str]:
    columns = ", ".join(f"{literal} AS c{k}" for k, literal in enumerate(LITERALS))
    (row,) = session().sql(f"SELECT {columns}").collect()
    return dict(zip(LITERALS, row, strict=True))


@pytest.mark.parametrize("literal", LITERALS)
def test_string_constants_are_those_of_spark(literal: str, in_spark: dict[str, str]):
    sql = f"SELECT {literal} AS value FROM R [NOW], S [NOW] WHERE {literal} = R.s"
    tables = {"R": {"s": [in_spark[literal]], "ts": [1]}, "S": {"ts": [1]}}
    assert cw.run(sql, tables).to_pylist() == [{"value": in_spark[literal]}]
