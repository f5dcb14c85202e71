"""The cost model and its constants: what it chooses, what it keeps, who uses it. Nothing is timed."""

from __future__ import annotations

import dataclasses
import json
import math

import pyarrow as pa
import pytest

import crosswind as cw
from crosswind.engine import session
from crosswind.plan.calibration import calibration, calibration_path, store_calibration
from crosswind.plan.cost import SIZES, Constants, Curve, curve_of

SCHEMAS = {
    "R": pa.schema({"ts": pa.timestamp("ms"), "x": pa.int32(), "k": pa.int64()}),
    "S": pa.schema({"ts": pa.timestamp("ms"), "a": pa.int32(), "k": pa.int64()}),
}
BAND = "SELECT R.x FROM R [RANGE 1 MINUTE], S [RANGE 1 MINUTE] WHERE abs(R.x - S.a) < 3"
PAIRS = "SELECT R.x FROM R [{0}], S [{0}] WHERE R.x * S.a = 7"


@pytest.fixture(autouse=True)
def own_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("CROSSWIND_CACHE_DIR", str(tmp_path))


def chosen(sql: str, index: str = "auto", **constants: float) -> int:
    return curve_of(session.plan_for(sql, SCHEMAS), index, Constants(**constants)).size


# -- the model ------------------------------------------------------------------------------------


@pytest.mark.parametrize("fixed", [1e3, 1e6, 1e9])
@pytest.mark.parametrize("level", [0.0, 40.0, 4_000.0])
@pytest.mark.parametrize("slope", [0.01, 0.3, 9.0])
def test_the_closed_form_is_the_least_of_the_curve(fixed, level, slope):
    curve = Curve(fixed, level, slope)
    least = curve.cost_ns(curve.optimum)
    grid = [curve.optimum * 1.1**k for k in range(-60, 61)]
    assert all(curve.cost_ns(size) >= least for size in grid)
    below, above = grid[:61], grid[60:]
    costs = [curve.cost_ns(size) for size in below]
    assert costs == sorted(costs, reverse=True), "falls up to the optimum"
    costs = [curve.cost_ns(size) for size in above]
    assert costs == sorted(costs), "rises from there"


def test_without_levels_it_is_the_square_root_of_a_ratio():
    assert Curve(1_000_000.0, 0.0, 0.5).optimum == pytest.approx(math.sqrt(2 * 1_000_000 / 0.5))


@pytest.mark.parametrize(("fixed", "size"), [(1e-3, SIZES[0]), (1e12, SIZES[-1])])
def test_the_size_stays_within_bounds(fixed, size):
    assert Curve(fixed, 0.0, 0.1).size == size


def test_the_size_is_next_to_the_optimum():
    for fixed in (1e5, 3e5, 1e6, 4e6):
        curve = Curve(fixed, 60.0, 0.3)
        assert SIZES[0] <= curve.optimum <= SIZES[-1]
        assert 0.5 < curve.size / curve.optimum < 2


def test_dear_sealing_asks_for_larger_basic_windows_and_dear_comparisons_for_smaller():
    assert chosen(BAND, seal_ns=1e5) < chosen(BAND, seal_ns=1e7)
    assert chosen(BAND, compare_ns=0.2) < chosen(BAND, compare_ns=0.002)


def test_wider_keys_make_the_open_basic_window_dearer():
    narrow = curve_of(session.plan_for(BAND, SCHEMAS), "auto", Constants())
    wide = curve_of(session.plan_for(BAND.replace("R.x - S.a", "R.k - S.k"), SCHEMAS), "auto", Constants())
    assert wide.slope == 2 * narrow.slope
    assert wide.optimum < narrow.optimum


def test_what_is_scanned_grows_with_the_window_as_in_celljoin():
    """Equation 4: the best size grows with the root of rate times window."""
    curves = {
        rows: curve_of(session.plan_for(PAIRS.format(f"ROWS {rows}"), SCHEMAS), "auto", Constants())
        for rows in (10_000, 40_000)
    }
    assert curves[40_000].optimum == pytest.approx(2 * curves[10_000].optimum)
    long = curve_of(session.plan_for(PAIRS.format("RANGE 15 MINUTES"), SCHEMAS), "auto", Constants())
    short = curve_of(session.plan_for(PAIRS.format("RANGE 1 SECOND"), SCHEMAS), "auto", Constants())
    assert long.optimum > short.optimum


def test_a_forced_scan_has_no_levels():
    plan = session.plan_for(BAND, SCHEMAS)
    assert curve_of(plan, "scan", Constants()).level == 0
    assert curve_of(plan, "auto", Constants()).level > 0


def test_integer_times_have_a_size_too():
    schemas = {name: pa.schema({"ts": pa.int64(), "x": pa.int32()}) for name in "RS"}
    sql = "SELECT R.x FROM R [RANGE 100], S [RANGE 100] WHERE R.x * S.x = 7"
    assert curve_of(session.plan_for(sql, schemas), "auto", Constants()).size in SIZES


@pytest.mark.parametrize("value", [0, -1.0, math.nan, math.inf, "much", None, True])
def test_constants_are_positive_numbers(value):
    with pytest.raises(ValueError, match=r"seal_ns = .* is not a positive number"):
        Constants(seal_ns=value)


# -- what is kept ---------------------------------------------------------------------------------


def test_nothing_kept_means_built_in_constants():
    assert not calibration_path().exists()
    assert calibration().constants == Constants()
    assert not calibration().measured


def test_constants_are_kept():
    calibration()  # what was read before must not hide what is written
    mine = Constants(seal_ns=123_456.0, compare_ns=0.5)
    path = store_calibration(mine)
    assert path == calibration_path()
    assert calibration().constants == mine
    assert calibration().measured
    assert [entry.name for entry in path.parent.iterdir()] == [path.name], "nothing is left lying about"


def damaged() -> dict[str, str]:
    whole = {"version": 1, "constants": dataclasses.asdict(Constants())}
    return {
        "empty": "",
        "cut off": json.dumps(whole)[:40],
        "no text": "\x00\x01",
        "a list": "[1, 2]",
        "another version": json.dumps({**whole, "version": 2}),
        "no version": json.dumps({"constants": whole["constants"]}),
        "a constant more": json.dumps({**whole, "constants": {**whole["constants"], "more_ns": 1.0}}),
        "no number": json.dumps({**whole, "constants": {**whole["constants"], "seal_ns": "much"}}),
        "negative": json.dumps({**whole, "constants": {**whole["constants"], "seal_ns": -5.0}}),
        "no constants": json.dumps({"version": 1, "constants": None}),
    }


@pytest.mark.parametrize("how", damaged())
def test_a_damaged_file_is_as_good_as_none(how):
    calibration_path().write_text(damaged()[how], encoding="utf-8")
    assert calibration() == type(calibration())(Constants(), measured=False)
    with cw.open(BAND, SCHEMAS) as join:
        assert join.push("R", {"ts": [1], "x": [1], "k": [1]}).num_rows == 0


def test_the_file_is_read_once(monkeypatch):
    store_calibration(Constants(seal_ns=5e6))
    first = calibration()
    calibration_path().unlink()
    assert calibration() is first


# -- who uses it ----------------------------------------------------------------------------------


def opened_with(monkeypatch, **options) -> int:
    given = []

    def spy(*args, **named):
        given.append(named["basic_window"])
        return real(*args, **named)

    real = session.Join
    monkeypatch.setattr(session, "Join", spy)
    cw.open(BAND, SCHEMAS, **options).close()
    return given[0]


def test_a_join_takes_the_size_of_the_model(monkeypatch):
    store_calibration(Constants(seal_ns=1e9))
    assert opened_with(monkeypatch) == SIZES[-1]
    store_calibration(Constants(seal_ns=1.0, arrange_ns=1e-3, run_ns=1e-3))
    assert opened_with(monkeypatch) == SIZES[0]


def test_a_given_size_goes_before(monkeypatch):
    store_calibration(Constants(seal_ns=1e9))
    assert opened_with(monkeypatch, basic_window=300) == 300


def test_explain_shows_the_size_and_why():
    text = cw.explain(BAND, SCHEMAS)
    assert f"basic windows of {chosen(BAND):,} tuples: " in text
    assert "built in, crosswind bench calibrate measures them" in text
    store_calibration(Constants(seal_ns=1e9))
    text = cw.explain(BAND, SCHEMAS)
    assert f"basic windows of {SIZES[-1]:,} tuples: " in text
    assert "measured on this machine" in text
