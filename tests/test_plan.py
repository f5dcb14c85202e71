"""HOW: predicates split and boxed, programs, routes, the time axis, and plans as text.

Nothing here compiles machine code.
"""

from __future__ import annotations

import datetime as dt
from fractions import Fraction

import pyarrow as pa
import pytest

import crosswind as cw
from crosswind.plan.axis import axis_of
from crosswind.plan.bounds import may_overflow
from crosswind.plan.box import box_of, key_bits
from crosswind.plan.compile import Plan, compile_plan
from crosswind.plan.explain import describe, pairs_per_second
from crosswind.plan.logic import And, Atom, Or, atoms_of, normal_form
from crosswind.plan.program import ALWAYS, Opcode
from crosswind.query import parse
from crosswind.query.format import format_expr
from crosswind.query.types import sql_type


def schema(number: str, time: pa.DataType) -> pa.Schema:
    return pa.schema(
        [
            (number, pa.int32()),
            ("k", pa.int64()),
            ("f", pa.float64()),
            ("g", pa.float32()),
            ("d", pa.decimal128(10, 2)),
            ("w", pa.decimal128(30, 2)),
            ("t", pa.string()),
            ("b", pa.bool_()),
            ("ts", time),
        ]
    )


SCHEMAS = {
    "R": schema("x", pa.timestamp("ms")),
    "S": schema("a", pa.timestamp("us")),
    "T": schema("c", pa.timestamp("ms")),
}
FLOATS = "   (floats: candidates are checked as written)"


def plan_of(where: str, streams: str = "R [RANGE 1 MINUTE], S [RANGE 1 MINUTE]") -> Plan:
    return compile_plan({"query": parse(f"SELECT R.x FROM {streams} WHERE {where}", SCHEMAS, "ts")})


def parts_of(where: str) -> dict[str, list[str]]:
    """Return what explain shows of the predicate, without what is not there."""
    wanted = ("filters", "keys", "bands", "residual")
    return {title: lines for title, lines in describe(plan_of(where)) if title in wanted and lines != ["none"]}


# ---------------------------------------------------------------------------------- the split


@pytest.mark.parametrize(
    "where",
    [
        "R.x BETWEEN S.a - 10 AND S.a + 10",
        "S.a BETWEEN R.x - 10 AND R.x + 10",
        "abs(R.x - S.a) <= 10",
        "abs(S.a - R.x) <= 10",
        "10 >= abs(R.x - S.a)",
        "R.x >= S.a - 10 AND R.x <= S.a + 10",
        "S.a + 10 >= R.x AND S.a - 10 <= R.x",
        "R.x - S.a >= -10 AND S.a - R.x >= -10",
        "R.x + 5 <= S.a + 15 AND R.x - 7 >= S.a - 17",
        "2 * R.x <= 2 * S.a + 20 AND R.x * 3 >= S.a * 3 - 30",
        "NOT (R.x < S.a - 10) AND NOT (R.x > S.a + 10)",
        "NOT (R.x < S.a - 10 OR R.x > S.a + 10)",
        "-R.x <= 10 - S.a AND -R.x >= -10 - S.a",
        "R.x BETWEEN S.a - 10 AND S.a + 99 AND R.x <= S.a + 10 AND R.x >= S.a - 77",
        "R.x - 10 <= S.a AND R.x >= S.a + -10",
    ],
)
def test_a_band_is_found_however_it_is_spelled(where):
    assert parts_of(where) == {"bands": ["-10 <= R.x - S.a <= 10"]}


@pytest.mark.parametrize(
    ("where", "band"),
    [
        ("abs(R.x - S.a) < 10", "-10 < R.x - S.a < 10"),
        ("R.x - S.a >= -10 AND S.a - R.x > -10", "-10 <= R.x - S.a < 10"),
        ("R.x < S.a", "R.x - S.a < 0"),
        ("S.a < R.x", "0 < R.x - S.a"),
        ("R.x >= S.a + 3", "3 <= R.x - S.a"),
        ("R.x > S.a * 2", "0 < R.x - (2 * S.a)"),
        ("R.d BETWEEN S.d - 0.5 AND S.d + 0.5", "-0.5 <= R.d - S.d <= 0.5"),
        ("R.ts BETWEEN S.ts - INTERVAL 5 SECONDS AND S.ts", "-5 s <= R.ts - S.ts <= 0 s"),
        ("S.ts - R.ts <= INTERVAL 1 MINUTE", "-60 s <= R.ts - S.ts"),
        ("R.f BETWEEN S.f - 1 AND S.f + 1", f"-1 <= R.f - S.f <= 1{FLOATS}"),
        ("R.x < S.f", f"R.x - S.f < 0{FLOATS}"),
        ("abs(R.k - S.k) < 5", "-5 < R.k - S.k < 5"),
        ("R.x + R.k < S.a", "R.x + R.k - S.a < 0"),
        ("sqrt(R.f) < S.f", f"sqrt(R.f) - S.f < 0{FLOATS}"),
    ],
)
def test_bands_of_every_type(where, band):
    assert parts_of(where) == {"bands": [band]}


@pytest.mark.parametrize(
    ("where", "key"),
    [
        ("R.x = S.a", "R.x = S.a"),
        ("S.a = R.x", "R.x = S.a"),
        ("R.x + 3 = S.a", "R.x = S.a - 3"),
        ("R.x - S.a = 4", "R.x = S.a + 4"),
        ("2 * R.x = 2 * S.a", "R.x = S.a"),
        ("NOT (R.x <> S.a)", "R.x = S.a"),
        ("R.t = S.t", "R.t = S.t"),
        ("R.w = S.w", "R.w = S.w"),
        ("R.b = S.b", "R.b = S.b"),
        ("R.ts = S.ts - INTERVAL 2 SECONDS", "R.ts = S.ts - 2 s"),
        ("R.x IN (S.a)", "R.x = S.a"),
    ],
)
def test_keys(where, key):
    assert parts_of(where) == {"keys": [key]}


@pytest.mark.parametrize(
    "where",
    [
        "R.x * S.a < 5",
        "R.x < S.a OR R.x = 3",
        "R.x <> S.a",
        "R.t < S.t",
        "R.w < S.w",
        "R.x IS NOT DISTINCT FROM S.a",
        "R.x % S.a = 1",
        "abs(R.x - S.a) > 10",
        "hypot(R.f - S.f, R.g - S.g) < 1e0",
    ],
)
def test_everything_else_is_residual(where):
    found = parts_of(where)
    assert list(found) == ["residual"]
    assert len(found["residual"]) == 1


def test_every_conjunct_lands_in_one_place():
    found = parts_of("R.x = 3 AND S.a > 4 AND R.t = S.t AND abs(R.f - S.f) < 1 AND R.x <> S.a AND R.b")
    assert found == {
        "filters": ["R.x = 3", "S.a > 4", "R.b"],
        "keys": ["R.t = S.t"],
        "bands": [f"-1 < R.f - S.f < 1{FLOATS}"],
        "residual": ["R.x <> S.a"],
    }


def test_two_bands_on_different_columns_stay_apart():
    found = parts_of("abs(R.x - S.a) <= 10 AND abs(R.d - S.d) <= 1")
    assert found == {"bands": ["-10 <= R.x - S.a <= 10", "-1 <= R.d - S.d <= 1"]}


# ---------------------------------------------------------------------------------- logic


def formula(where: str):
    return normal_form(parse(f"SELECT R.x FROM R [NOW], S [NOW] WHERE {where}", SCHEMAS, "ts").where)


def test_not_is_pushed_down_to_the_comparisons():
    made = formula("NOT (R.x < S.a AND (R.b OR NOT R.k = S.k))")
    assert isinstance(made, Or)
    assert [atom.expr.op if hasattr(atom.expr, "op") else "column" for atom in atoms_of(made)] == [
        "ge",
        "is_false",
        "eq",
    ]


def test_constants_are_settled():
    assert formula("TRUE AND R.x < S.a") == formula("R.x < S.a")
    assert formula("R.x < S.a OR TRUE") == And(())
    assert formula("R.x < S.a AND NULL") == Or(())
    assert formula("NOT NULL") == Or(())
    assert formula("R.x < S.a AND R.x < S.a") == formula("R.x < S.a")
    assert isinstance(formula("R.x < S.a"), Atom)


# ---------------------------------------------------------------------------------- boxes


def dimensions(where: str, unit: int) -> list[tuple[str, int, list[bool], bool, bool]]:
    """Return the box that a probe makes in the window of ``unit``, in short."""
    plan = plan_of(where)
    streams = tuple(entry.stream for entry in plan.units)
    return [
        (format_expr(d.expr, streams), d.bits, [c.upper for c in d.conditions], d.equality, d.hashed)
        for d in plan.accesses[unit].dimensions
    ]


def has_residual(where: str, unit: int) -> bool:
    return plan_of(where).accesses[unit].residual != And(())


LOW, HIGH = False, True


@pytest.mark.parametrize(
    ("where", "of_r", "of_s"),
    [
        ("R.x BETWEEN S.a - 10 AND S.a + 10", ("R.x", 32, [LOW, HIGH]), ("S.a", 32, [HIGH, LOW])),
        ("abs(R.x - S.a) < 10", ("R.x", 32, [LOW, HIGH]), ("S.a", 32, [HIGH, LOW])),
        ("R.x < S.a", ("R.x", 32, [HIGH]), ("S.a", 32, [LOW])),
        ("S.a - R.x > 3", ("R.x", 32, [HIGH]), ("S.a", 32, [LOW])),
        ("R.x * -2 < S.a", ("R.x", 32, [LOW]), ("S.a", 32, [LOW])),
        ("R.k < S.k", ("R.k", 64, [HIGH]), ("S.k", 64, [LOW])),
        ("R.x < S.k", ("R.x", 32, [HIGH]), ("S.k", 64, [LOW])),
        ("R.g >= S.f", ("R.g", 32, [LOW]), ("S.f", 64, [HIGH])),
        ("R.d >= S.d", ("R.d", 64, [LOW]), ("S.d", 64, [HIGH])),
        ("R.x + R.f < S.f", ("R.x + R.f", 64, [HIGH]), ("S.f", 64, [LOW])),
    ],
)
def test_monotone_comparisons_are_sides_of_a_box(where, of_r, of_s):
    for unit, wanted in enumerate((of_r, of_s)):
        assert dimensions(where, unit) == [(*wanted, False, False)]
        assert not has_residual(where, unit)


@pytest.mark.parametrize(
    ("where", "bits"), [("R.x = S.a", 32), ("R.k = S.k", 64), ("R.f = S.f", 64), ("R.b = S.b", 32)]
)
def test_equalities_of_numbers_are_single_keys(where, bits):
    for unit in range(2):
        ((_, width, conditions, equality, hashed),) = dimensions(where, unit)
        assert (width, sorted(conditions), equality, hashed) == (bits, [LOW, HIGH], True, False)
        assert not has_residual(where, unit)


@pytest.mark.parametrize("where", ["R.t = S.t", "R.w = S.w"])
def test_equalities_of_texts_and_wide_decimals_are_hashed_and_checked(where):
    for unit in range(2):
        ((_, width, conditions, equality, hashed),) = dimensions(where, unit)
        assert (width, conditions, equality, hashed) == (32, [], True, True)
        assert has_residual(where, unit)


@pytest.mark.parametrize(
    "where",
    ["R.x * S.a < 5", "R.x < S.a OR R.x > S.a + 9", "R.x <> S.a", "R.t < S.t", "abs(R.x - S.a) > 10", "R.x % S.a = 1"],
)
def test_what_is_no_interval_is_residual(where):
    for unit in range(2):
        assert dimensions(where, unit) == []
        assert has_residual(where, unit)


@pytest.mark.parametrize(
    ("expression", "may"),
    [
        ("R.x * 4294967296", False),
        ("R.x * 4294967296 - 1", True),  # only below
        ("R.x * 4294967296 + 4294967295", False),
        ("R.x * 4294967296 + 4294967296", True),  # only above
        ("abs(R.k)", True),
        ("abs(R.x)", False),
    ],
)
def test_what_can_leave_64_bits_is_known(expression: str, may: bool):
    where = plan_of(f"{expression} <> S.k").queries[0].query.where
    assert where is not None
    assert may_overflow(where) is may


def test_what_may_overflow_stays_where_it_is_checked():
    """A box is found by trying keys, where an overflow could not be told from a wrong answer."""
    query = parse("SELECT R.x FROM R [NOW], S [NOW] WHERE R.k * 2 < S.k", SCHEMAS, "ts")
    assert query.where is not None
    assert may_overflow(query.where)
    box = box_of(normal_form(query.where), 0)
    assert box.dimensions == ()
    assert not may_overflow(parse("SELECT R.x FROM R [NOW], S [NOW] WHERE R.x * 2 < S.k", SCHEMAS, "ts").where)


def test_conditions_on_one_column_share_a_dimension():
    found = dimensions("R.x BETWEEN S.a - 5 AND S.a + 100 AND R.x < S.a AND R.f > S.f", 0)
    assert [(name, conditions) for name, _, conditions, *_ in found] == [("R.x", [LOW, HIGH, HIGH]), ("R.f", [LOW])]


@pytest.mark.parametrize(
    ("arrow", "bits"),
    [
        (pa.bool_(), 32), (pa.int8(), 32), (pa.uint16(), 32), (pa.int32(), 32), (pa.uint32(), 64), (pa.int64(), 64),
        (pa.uint64(), 0), (pa.float16(), 32), (pa.float32(), 32), (pa.float64(), 64), (pa.date32(), 32),
        (pa.timestamp("ns"), 64), (pa.duration("s"), 64), (pa.decimal128(18, 3), 64), (pa.decimal128(19, 3), 0),
        (pa.string(), 0), (pa.binary(), 0), (pa.list_(pa.int8()), 0),
    ],
    ids=str,
)  # fmt: skip
def test_widths_of_keys(arrow, bits):
    assert key_bits(sql_type(arrow)) == bits


# ---------------------------------------------------------------------------------- programs and routes


def code(plan: Plan, unit: int) -> list[str]:
    """Return the program of a unit, without what the comparisons compare."""
    lines = []
    for step in plan.programs[unit].instructions:
        if step.opcode is Opcode.JOIN:
            lines.append(f"JOIN {step.sources[0]} on {step.on} -> {step.target}")
        else:
            lines.append(f"{step.opcode.value} {step.target} <- {','.join(map(str, step.sources))}".strip())
    return lines


def routes(plan: Plan) -> list[tuple]:
    return [(route.members, route.insert, route.probe, route.queries) for route in plan.routes]


def test_two_streams_are_two_arrivals_and_two_results():
    plan = plan_of("R.x < S.a AND (R.k = S.k OR R.t = S.t)")
    assert routes(plan) == [
        ((0,), 0, (1,), ()),
        ((1,), 1, (0,), ()),
        ((0, 1), None, (), ("query",)),
        ((1, 0), None, (), ("query",)),
    ]
    assert code(plan, 1) == ["CMP 0 <-", "CMP 1 <-", "CMP 2 <-", "OR 3 <- 1,2", "AND 4 <- 0,3", "JOIN 4 on 0 -> 2"]
    assert code(plan, 0) == [*code(plan, 1)[:-1], "JOIN 4 on 1 -> 3"]


def test_no_condition_joins_always():
    plan = compile_plan({"q": parse("SELECT R.x FROM R [NOW], S [NOW]", SCHEMAS, "ts")})
    assert code(plan, 1) == [f"JOIN {ALWAYS} on 0 -> 2"]


def test_filters_are_settled_on_arrival():
    plan = plan_of("R.x = 3 AND R.x < S.a")
    assert [format_expr(atom.expr, (plan.units[0].stream,)) for atom in atoms_of(plan.units[0].filter)] == ["R.x = 3"]
    assert plan.units[1].filter == And(())
    assert code(plan, 0) == ["CMP 0 <-", "JOIN 0 on 1 -> 3"]


def test_tuples_carry_what_is_shown_and_no_more():
    sql = "SELECT R.t, S.a + 1 AS next FROM R [NOW], S [NOW] WHERE R.x < S.k"
    plan = compile_plan({"q": parse(sql, SCHEMAS, "ts")})
    assert [unit.payload for unit in plan.units] == [("t",), ("a",)]
    assert [unit.kept for unit in plan.units] == [0, 0]  # columns that only new tuples need do not wait


def test_three_streams_go_through_partial_results():
    streams = "R [RANGE 1 MINUTE], S [ROWS 5], T [NOW]"
    plan = plan_of("R.x = S.a AND S.k < T.k AND R.x + S.a < T.c", streams)
    assert [unit.stream.name for unit in plan.units] == ["R", "S", "T"]
    made = routes(plan)
    assert made[:3] == [((0,), 0, (1,), ()), ((1,), 1, (0,), ()), ((2,), 2, (1,), ())]
    # T is not tied to R alone: its tuples visit S first, then R.
    assert [members for members, *_ in made[3:]] == [(0, 1), (0, 1, 2), (1, 0), (1, 0, 2), (2, 1), (2, 1, 0)]
    assert [queries for *_, queries in made[3:]] == [(), ("query",)] * 3
    assert [probe for _, _, probe, _ in made[3:]] == [(2,), (), (2,), (), (0,), ()]
    # What R and S decide is settled before T is asked; T checks the rest.
    joins = [[s for s in p.instructions if s.opcode is Opcode.JOIN] for p in plan.programs]
    assert [len(steps) for steps in joins] == [2, 2, 2]
    assert {step.on for step in joins[2]} == {3, 5}
    assert sum(s.opcode is Opcode.CMP for s in plan.programs[2].instructions) == 2
    assert [len(access.dimensions) for access in plan.accesses] == [1, 2, 2]
    assert [term.units for term in plan.terms] == [(0, 1, 2)]


def test_two_queries_share_units_and_comparisons():
    first = parse("SELECT R.x FROM R [NOW], S [NOW] WHERE R.x < S.a AND R.k = S.k", SCHEMAS, "ts")
    second = parse("SELECT S.a FROM R [NOW], S [NOW] WHERE R.x < S.a AND R.f > S.f", SCHEMAS, "ts")
    plan = compile_plan({"one": first, "two": second})
    assert len(plan.units) == 2
    assert [unit.payload for unit in plan.units] == [("x",), ("a",)]
    assert sum(step.opcode is Opcode.CMP for step in plan.programs[0].instructions) == 3
    assert [queries for *_, queries in routes(plan)] == [(), (), ("one",), ("one",), ("two",), ("two",)]
    assert "two: bands" in dict(describe(plan))


def test_a_self_join_has_two_units():
    plan = compile_plan({"q": parse("SELECT p.x FROM R [NOW] p, R [ROWS 3] q WHERE p.x < q.x", SCHEMAS, "ts")})
    assert plan.units_of("R") == (0, 1)
    assert [unit.stream.alias for unit in plan.units] == ["p", "q"]


# ---------------------------------------------------------------------------------- the time axis


def test_the_axis_is_the_finest_unit():
    plan = plan_of("R.x < S.a")
    assert plan.axis.ticks_per_second == 1_000_000
    assert plan.axis.factors == (1000, 1)
    assert plan.axis.age_limit(plan.units[0].stream.window) == 60_000_000 - 1


@pytest.mark.parametrize(
    ("window", "age"),
    [("RANGE 2 SECONDS", 1), ("RANGE 2 SECONDS INCLUSIVE", 2), ("RANGE 1.5 SECONDS", 1), ("NOW", 0), ("ROWS 7", None),
     ("RANGE 1500 MILLISECONDS INCLUSIVE", 1), ("RANGE 500 MILLISECONDS", 0)],
)  # fmt: skip
def test_the_greatest_age_at_which_a_tuple_waits(window, age):
    coarse = {"R": pa.schema([("x", pa.int32()), ("ts", pa.timestamp("s"))])}
    query = parse(f"SELECT p.x FROM R [{window}] AS p, R [NOW] AS q", coarse, "ts")
    assert axis_of(query.streams).age_limit(query.streams[0].window) == age


def test_lateness_is_rounded_up():
    axis = plan_of("R.x < S.a").axis
    assert axis.ticks(Fraction(1, 3), is_seconds=True) == 333_334


def test_the_cost_of_the_papers_workload_is_that_of_celljoin():
    streams = "R [RANGE 15 MINUTES], S [RANGE 15 MINUTES]"
    assert pairs_per_second(plan_of("R.x < S.a", streams), (1000.0, 1000.0)) == pytest.approx(1.8e9)


# ---------------------------------------------------------------------------------- as text


def test_explain_shows_the_whole_plan():
    sql = """SELECT R.x, S.t FROM R [RANGE 15 MINUTES], S [ROWS 500] AS s
             WHERE R.x BETWEEN s.a - 10 AND s.a + 10 AND R.t = s.t AND R.f <> s.f AND s.b"""
    text = cw.explain(sql.replace("S.t", "s.t"), SCHEMAS)
    for line in [
        "streams   R [RANGE 15 MINUTES] by ts (waits up to 899,999,999 ticks); ",
        "S AS s [ROWS 500] by ts; ",
        "filters   s.b",
        "keys      R.t = s.t",
        "bands     -10 <= R.x - s.a <= 10",
        "residual  R.f <> s.f",
        "program   join unit 0, window of R:",
        "JOIN  r4 on tag 0 -> tag 2",
        "routes    tag 0 (R): insert into R; probe s",
        "tag 2 (R + s): result of query",
        "at 1,000 tuples/s a stream",
    ]:
        assert line in text, f"{line!r} is not in\n{text}"


def test_explain_warns_of_what_no_index_helps():
    told = "no equality and no band between the streams"
    assert told in cw.explain("SELECT R.x FROM R [NOW], S [NOW] WHERE R.x <> S.a", SCHEMAS)
    assert told not in cw.explain("SELECT R.x FROM R [NOW], S [NOW] WHERE R.x < S.a", SCHEMAS)


def test_explain_tells_what_is_needed_at_a_rate():
    sql = "SELECT R.x FROM R [RANGE 15 MINUTES], S [RANGE 15 MINUTES] WHERE R.x * S.a > 5"
    text = cw.explain(sql, SCHEMAS, rate=1_000_000)
    assert "every pair is compared; about 1.8 Ppairs/s needed at 1,000,000 tuples/s a stream" in text
    assert "or run it on Spark with more cells" in text
    text = cw.explain(sql.replace("*", "-"), SCHEMAS, rate={"R": 10, "S": 1_000})
    assert "at 10 and 1,000 tuples/s 18 Mpairs/s meet in the windows" in text
    assert "searched by index: about " in text
    assert "warnings" not in text.sections


def test_explain_is_a_tree_sections_and_html():
    sql = "SELECT R.x, S.t FROM R [RANGE 1 MINUTE], S [ROWS 500] WHERE R.t = S.t AND R.x < S.a"
    plan = cw.explain(sql, SCHEMAS)
    assert plan.sections["tree"] == [
        "result: x, t",
        "└─ join by 1 equality, 1 band",
        "   ├─ R [RANGE 1 MINUTE], about 60,000 tuples wait",
        "   └─ S [ROWS 500], about 500 tuples wait",
    ]
    shown = plan._repr_html_()
    assert "<summary>keys</summary><pre>R.t = S.t</pre>" in shown
    assert "R.x &lt; S.a" in shown
    assert plan == str(plan)


def test_explain_shows_machine_code_when_asked():
    plan = cw.explain("SELECT R.x FROM R [NOW], S [NOW] WHERE R.x * S.a < 5", SCHEMAS, assembly=True)
    assert any("ret" in line for line in plan.sections["assembly"])


def test_explain_does_not_know_rates_of_integer_times():
    plain = {"R": pa.schema([("x", pa.int32()), ("ts", pa.int64())])}
    assert "rates in tuples/s mean nothing" in cw.explain("SELECT a.x FROM R [NOW] a, R [NOW] b", plain)


def test_explain_shows_generated_source_when_asked():
    sql = "SELECT R.x FROM R [NOW], S [NOW] WHERE R.x * S.a < 5"
    assert "@jit(" in cw.explain(sql, SCHEMAS, verbose=True)
    assert "@jit(" not in cw.explain(sql, SCHEMAS)


def test_dates_count_in_days():
    days = {"R": pa.schema([("d", pa.date32()), ("ts", pa.date32())])}
    query = parse("SELECT p.d FROM R [RANGE 2 DAYS] p, R [RANGE 36 HOURS] q", days, "ts")
    axis = axis_of(query.streams)
    assert axis.ticks_per_second == Fraction(1, 86_400)
    assert [axis.age_limit(stream.window) for stream in query.streams] == [1, 1]
    assert axis.ticks(Fraction(dt.timedelta(hours=25).total_seconds()), is_seconds=True) == 2
