"""Random window joins: a query in our SQL, the same in DuckDB's, and data. Seeded.

A *shape* (:func:`make_shape`) fixes schemas, predicate and projection: what a kernel is
compiled for. A *case* (:func:`make_case`) adds windows and data to a shape. Both come from
``random.Random`` alone, so ``(shape seed, data seed)`` names a case for good.

Imports nothing of the package.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal

import pyarrow as pa

from tests import streams
from tests.expressions import (
    BIN,
    BOOL,
    COMPARISONS,
    DATE,
    F32,
    F64,
    INT,
    TEXT,
    TRANSCENDENTAL,
    Arith,
    Between,
    Case,
    Cast,
    Col,
    Compare,
    Expr,
    Func,
    In,
    Is,
    Lit,
    Logic,
    Type,
    interval,
    lit,
)
from tests.oracle import Join, OracleOverflowError, Output, Role, count_matches
from tests.streams import Column, WindowText

NUMERIC_PAIRS = {("int", "int"): 30, ("f64", "f64"): 14, ("f32", "f32"): 12, ("int", "f64"): 8, ("int", "f32"): 6}
NUMERIC_PAIRS |= {("f32", "f64"): 6, ("dec", "dec"): 6, ("int", "dec"): 4, ("dec", "f64"): 3, ("dec", "f32"): 2}
KEY_KINDS = {"int": 12, "text": 8, "bool": 2, "ts": 4, "date": 2, "bin": 3, "dec": 2, "f64": 3, "f32": 2}
KEY_KINDS |= {"wide": 2, "u64": 2}
INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int32(), pa.int64(), pa.int64(), pa.int64(), pa.int64()]
INTEGERS += [pa.uint8(), pa.uint16(), pa.uint32()]
TEXTS = [pa.string()] * 6 + [pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]
TEXTS += [pa.dictionary(pa.int8(), pa.string())]
BINARIES = [pa.binary(), pa.binary(), pa.large_binary(), pa.binary(3), pa.binary_view()]
PAYLOADS = [pa.list_(pa.int64()), pa.struct([("u", pa.float64()), ("v", pa.string())]), pa.string(), pa.int32()]
PAYLOADS += [pa.float64(), pa.bool_(), pa.decimal128(30, 5), pa.timestamp("us"), pa.date32(), pa.duration("ms")]
UNITS = ["s", "ms", "us", "us", "ns"]
OUTER_KINDS = ("left", "right", "full", "semi", "anti")
DRAWS_MAX = 4
RESULTS_MIN, RESULTS_MAX = 5, 5_000
"""Matches that a data set should have; more than the latter only take time."""


@dataclass(frozen=True)
class Choice:
    """One column of SELECT: an expression under a name; a bare column where ``passed``."""

    name: str
    expr: Expr
    passed: bool
    named: bool


@dataclass(frozen=True)
class Shape:
    """Everything about a query but its windows."""

    seed: int
    columns: dict[str, list[Column]]
    roles: tuple[tuple[str, str], ...]
    times: dict[str, str]
    where: tuple[Expr, ...]
    select: tuple[Choice, ...] | None
    join_on: bool
    kind: str = "inner"
    after: tuple[Expr, ...] = ()


@dataclass(frozen=True)
class TestCase:
    """A query with its data: ``sql`` for us, ``join`` for the oracle.

    ``may_overflow``: an ArithmeticOverflowError is as good as the exact rows.
    """

    __test__ = False

    shape_seed: int
    data_seed: int
    sql: str
    join: Join = field(repr=False)
    times: dict[str, str]
    may_overflow: bool
    approx: tuple[int, ...]
    shape: Shape = field(repr=False)
    windows: tuple[WindowText, ...]
    extreme: bool

    @property
    def tables(self) -> dict[str, pa.Table]:
        """The streams' tuples in arrival order."""
        return dict(self.join.tables)


class ShapeMaker:
    """Grows one shape. Columns come into being when the predicate asks for them."""

    def __init__(self, seed: int, width: int = 2) -> None:
        self.seed = seed
        self.rng = random.Random(f"shape {seed}")
        if width == 2 and self.rng.random() < 0.12:
            self.roles = [("R", "a"), ("R", "b")]
        elif width > 2 and self.rng.random() < 0.15:
            self.roles = [("R", "a"), ("R", "b"), *((name, name) for name in "STUVWX"[: width - 2])]
        else:
            names = list("RSTUVWXY")[:width]
            aliased = self.rng.random() < 0.25
            self.roles = [(name, name.lower() + "1" if aliased else name) for name in names]
        self.columns: dict[str, list[Column]] = {name: [] for name, _ in self.roles}
        self.zoned = self.rng.random() < 0.4
        self._between: tuple[int, int] | None = None
        self._add_times()

    def pick(self, options: Sequence | dict) -> object:
        """Return one of ``options``; of a dict, one of its keys by weight."""
        if isinstance(options, dict):
            return self.rng.choices(list(options), list(options.values()))[0]
        return self.rng.choice(options)

    # ------------------------------------------------------------------ columns

    def _add_times(self) -> None:
        family = self.pick({"int": 4, "ts": 6, "date": 1})
        one_unit = self.rng.random() < 0.7
        unit = self.pick(UNITS)
        one_name = self.rng.random() < 0.75
        self.times = {}
        for name in self.columns:
            time = "ts" if one_name else f"at_{name.lower()}"
            if family == "int":
                column = Column(time, self.pick(INTEGERS), INT)
            elif family == "date":
                column = Column(time, pa.date32(), replace(DATE, unit="day"))
            else:
                unit = unit if one_unit else self.pick(UNITS)
                arrow = pa.timestamp(unit, "UTC" if self.zoned else None)
                column = Column(time, arrow, Type("ts", unit=unit, zoned=self.zoned))
            self.times[name] = time
            self.columns[name].append(column)

    def _new_type(self, kind: str) -> tuple[pa.DataType, Type]:
        rng = self.rng
        match kind:
            case "int":
                return self.pick(INTEGERS), INT
            case "f32":
                return (pa.float16() if rng.random() < 0.07 else pa.float32()), F32
            case "f64":
                return pa.float64(), F64
            case "dec":
                precision, scale = rng.randint(5, 12), rng.randint(0, 3)
                return self.pick([pa.decimal128, pa.decimal128, pa.decimal64])(precision, scale), Type(
                    "dec", precision, scale
                )
            case "u64":
                return pa.uint64(), Type("dec", 20, 0)
            case "bool":
                return pa.bool_(), BOOL
            case "text":
                return self.pick(TEXTS), TEXT
            case "bin":
                return self.pick(BINARIES), BIN
            case "ts":
                unit = self.pick(UNITS)
                zone = self.pick(["UTC", "Europe/Rome"]) if self.zoned else None
                return pa.timestamp(unit, zone), Type("ts", unit=unit, zoned=self.zoned)
            case "date":
                if rng.random() < 0.15:
                    return pa.date64(), replace(DATE, unit="ms")
                return pa.date32(), replace(DATE, unit="day")
        raise ValueError(kind)

    def column(self, role: int, kind: str) -> Col:
        """Return a column of ``kind`` in ``role``, an old one or a new one."""
        name, alias = self.roles[role]
        have = [c for c in self.columns[name] if c.tag(kind)]
        if not have or (self.rng.random() < 0.5 and len(self.columns[name]) < 7):
            arrow, of = self._new_type(kind)
            have = [Column(f"c{len(self.columns[name])}", arrow, of)]
            self.columns[name] += have
        chosen = self.pick(have)
        return Col(alias, chosen.name, chosen.type)

    def wide_pair(self, left: int, right: int) -> tuple[Col, Col]:
        """Return two columns of one type decimal(20..38, s)."""
        of = Type("dec", self.rng.randint(20, 38), self.rng.randint(0, 6))
        made = []
        for role in (left, right):
            name, alias = self.roles[role]
            column = Column(f"c{len(self.columns[name])}", pa.decimal128(of.precision, of.scale), of)
            self.columns[name].append(column)
            made.append(Col(alias, column.name, of))
        return made[0], made[1]

    def pair(self) -> tuple[int, int]:
        """Return two different roles in random order."""
        left, right = self.rng.sample(self._between or range(len(self.roles)), 2)
        return left, right

    # ------------------------------------------------------------------ numbers

    def constant(self, kind: str) -> Lit:
        """Return a number that fits well with columns of ``kind``."""
        rng = self.rng
        if kind == "int" or rng.random() < 0.3:
            return lit(rng.randint(-12, 12)) if rng.random() < 0.9 else lit(rng.choice([100, 1000, -129, 2**31]))
        if kind in ("dec", "f32", "f64") and rng.random() < 0.7:
            return (
                lit(Decimal(rng.randint(-60, 60)) / 4) if rng.random() < 0.7 else lit(Decimal(rng.randint(1, 99)) / 10)
            )
        return lit(rng.choice([0.5, 2.25, -1.75, 1e1, 3.7]) if kind != "dec" else Decimal("1.50"))

    def number(self, roles: Sequence[int], depth: int, kind: str | None = None) -> Expr:
        """Return a numeric expression over columns of ``roles``."""
        kind = kind or self.pick({"int": 9, "f64": 4, "f32": 3, "dec": 2})
        if depth <= 0 or self.rng.random() < 0.2:
            return self.column(self.pick(roles), kind)
        inner = self.number(roles, depth - 1, kind)
        other = self.constant(kind) if self.rng.random() < 0.6 else self.number(roles, depth - 1, kind)
        is_decimal = "dec" in (inner.type.kind, other.type.kind)
        match self.pick({"+": 6, "-": 6, "*": 3, "/": 2, "%": 2, "one": 5, "many": 4, "case": 2, "cast": 1}):
            case "+" | "-" as op:
                return Arith(op, inner, other)
            case "*":
                return Arith("*", self.column(self.pick(roles), kind), lit(self.rng.choice([2, 3, -1, 5])))
            case "/" | "%" as op:
                return Arith("+" if is_decimal else op, inner, other)
            case "one":
                name = self.pick(["abs", "-", "sqrt", "floor", "ceil", "sign"])
                return Func("abs" if is_decimal and name in ("floor", "ceil") else name, (inner,))
            case "many":
                name = self.pick(["least", "greatest", "coalesce", "nullif"])
                extra = (lit(None),) if name != "nullif" and self.rng.random() < 0.15 else ()
                return Func(name, (inner, other, *extra))
            case "cast":
                return Cast(inner, INT if inner.type.kind == "int" else F64)
        otherwise = None if self.rng.random() < 0.3 else other
        return Case(((self.single(self.pick(roles)), inner),), otherwise)

    # ------------------------------------------------------------------ conditions

    def condition(self, depth: int = 2) -> Expr:
        """Return a random condition, mostly over two roles."""
        plain: dict[Callable[[], Expr], int] = {
            self.key: 5,
            self.band: 9,
            self.comparison: 5,
            self.single_any: 3,
            self.residual: 2,
            self.temporal: 3,
            self.text: 2,
            self.membership: 2,
            self.transcendental: 1,
            self.constant_condition: 1,
        }
        if depth > 0:
            plain[lambda: self.logic(depth - 1)] = 5
        return self.pick(plain)()

    def key(self) -> Expr:
        """Return an equality of two columns; sometimes <>, <=> or an inequality."""
        left, right = self.pair()
        kind = self.pick(KEY_KINDS)
        if kind == "wide":
            a, b = self.wide_pair(left, right)
        else:
            a, b = self.column(left, kind), self.column(right, kind)
        ops = {"=": 14, "<>": 2, "IS NOT DISTINCT FROM": 2, "IS DISTINCT FROM": 1, "<=": 1, ">": 1}
        return Compare(self.pick(ops if kind != "bool" else {"=": 4, "<>": 2}), a, b)

    def band(self) -> Expr:
        """Return |a - b| <= w in one of its spellings."""
        left, right = self.pair()
        kinds = self.pick(NUMERIC_PAIRS)
        a, b = self.column(left, kinds[0]), self.column(right, kinds[1])
        fraction = kinds != ("int", "int") and self.rng.random() < 0.6
        low, high = (
            lit(Decimal(self.rng.randint(1, 40)) / 4 if fraction else self.rng.randint(0, 10)) for _ in range(2)
        )
        minus_low = lit(-low.value)
        if self.rng.random() < 0.2:
            b = Arith(self.pick("+-*"), b, lit(self.rng.randint(1, 3)))
        match self.rng.randrange(9):
            case 0 | 1:
                return Between(a, Arith("-", b, low), Arith("+", b, high), self.rng.random() < 0.1)
            case 2 | 3:
                return Compare(self.pick(["<=", "<", "<="]), Func("abs", (Arith("-", a, b),)), low)
            case 4:
                return Logic("AND", (Compare(">=", a, Arith("-", b, low)), Compare("<=", a, Arith("+", b, high))))
            case 5:
                return Between(Arith("-", a, b), minus_low, high)
            case 6:
                return Logic("AND", (Compare(">=", Arith("+", a, low), b), Compare(">=", Arith("+", b, high), a)))
            case 7:
                return Logic("AND", (Compare("<=", minus_low, Arith("-", a, b)), Compare("<", Arith("-", a, b), high)))
            case _:
                return Logic("AND", (Compare(">", Arith("-", a, b), minus_low), Compare(">", b, Arith("-", a, high))))

    def comparison(self) -> Expr:
        """Return a comparison of two numeric expressions."""
        left, right = self.pair()
        kinds = self.pick(NUMERIC_PAIRS)
        op = self.pick(COMPARISONS)
        if self.rng.random() < 0.12:
            a, b = self.column(left, "u64"), self.column(right, self.pick(["u64", "int"]))
            return Compare(op, a, b)
        if self.rng.random() < 0.25:
            return Compare(op, self.number([left, right], 2, kinds[0]), self.constant(kinds[0]))
        return Compare(op, self.number([left], 1, kinds[0]), self.number([right], 2, kinds[1]))

    def single_any(self) -> Expr:
        """Return a condition on one random role."""
        return self.single(self.rng.randrange(len(self.roles)))

    def single(self, role: int) -> Expr:
        """Return a condition on one role."""
        rng = self.rng
        match rng.randrange(6):
            case 0:
                flag = self.column(role, "bool")
                return rng.choice([flag, Logic("NOT", (flag,)), Is("TRUE", flag), Is("FALSE", flag, True)])
            case 1:
                kind = self.pick(["int", "f64", "text", "ts", "bool", "dec"])
                return Is("NULL", self.column(role, kind), rng.random() < 0.7)
            case 2:
                low = rng.randint(-10, 5)
                bounds = lit(low), lit(low + rng.randint(0, 15))
                return Between(self.column(role, self.pick(["int", "f64"])), *bounds, rng.random() < 0.3)
            case 3:
                return Compare(
                    self.pick(COMPARISONS), self.column(role, "text"), lit(rng.choice(streams.LITERAL_TEXTS))
                )
            case _:
                kind = self.pick(["int", "f32", "f64", "dec"])
                return Compare(self.pick(COMPARISONS), self.column(role, kind), self.constant(kind))

    def residual(self) -> Expr:
        """Return a squared distance compared with a radius."""
        left, right = self.pair()
        kind = self.pick({"int": 3, "f64": 3, "f32": 2})
        gaps = [Arith("-", self.column(left, kind), self.column(right, kind)) for _ in range(2)]
        radius: Expr = lit(self.rng.randint(5, 200))
        if self.rng.random() < 0.3:
            squares = [Func("power", (gap, lit(2))) for gap in gaps]
            radius = lit(self.rng.uniform(5, 200))  # libms differ: never hit it exactly
        else:
            squares = [Arith("*", gap, gap) for gap in gaps]
        total: Expr = Arith("+", squares[0], squares[1])
        if self.rng.random() < 0.3:
            total, radius = Func("sqrt", (total,)), lit(self.rng.uniform(2, 15))
        return Compare(self.pick(["<", "<=", ">"]), total, radius)

    def temporal(self) -> Expr:
        """Return a condition on times and intervals."""
        rng = self.rng
        left, right = self.pair()
        if rng.random() < 0.2:
            return Compare(self.pick(COMPARISONS), self.column(left, "date"), self.column(right, "date"))
        a, b = self.column(left, "ts"), self.column(right, "ts")
        spans = [(1, "SECOND"), (2, "SECOND"), (5, "SECOND"), (1500, "MILLISECOND"), (250, "MILLISECOND")]
        spans += [(3, "MINUTE"), (1, "MINUTE"), (1, "HOUR")]
        low, high = interval(*self.pick(spans)), interval(*self.pick(spans))
        match rng.randrange(6):
            case 0:
                return Compare(self.pick(COMPARISONS), a, b)
            case 1:
                return Compare(self.pick(["<", "<=", ">="]), Arith("-", a, b), low)
            case 2:
                return Between(a, Arith("-", b, low), Arith("+", b, high), rng.random() < 0.1)
            case 3:
                return Between(a, b, Arith("+", b, high))
            case 4:
                return Compare("<=", Func("abs", (Arith("-", a, b),)), low)
        return Compare(self.pick(["<", ">="]), Arith(self.pick("+-"), a, low), b)

    def text(self) -> Expr:
        """Return a comparison of texts or binaries."""
        left, right = self.pair()
        kind = self.pick(["text", "text", "bin"])
        a, b = self.column(left, kind), self.column(right, kind)
        if self.rng.random() < 0.2:
            return (
                Between(a, *sorted((lit("a"), lit("b")), key=lambda e: e.value))
                if kind == "text"
                else Compare("=", a, b)
            )
        return Compare(self.pick(COMPARISONS), a, b)

    def membership(self) -> Expr:
        """Return IN or NOT IN, sometimes with NULL or a column of the other role in the list."""
        rng = self.rng
        left, right = self.pair()
        kind = self.pick({"int": 5, "text": 3, "f64": 2})
        make = {
            "int": lambda: lit(rng.randint(-10, 10)),
            "text": lambda: lit(rng.choice(streams.LITERAL_TEXTS)),
            "f64": lambda: lit(rng.randint(-20, 20) / 2),
        }[kind]
        items: list[Expr] = [make() for _ in range(rng.choice([1, 2, 3, 4, 30]))]
        if rng.random() < 0.25:
            items.append(lit(None))
        if rng.random() < 0.35:
            items.append(self.column(right, kind))
        rng.shuffle(items)
        return In(self.column(left, kind), tuple(items), rng.random() < 0.4)

    def transcendental(self) -> Expr:
        """Return a function compared with a threshold that no argument of ours hits exactly."""
        left, right = self.pair()
        name = self.pick(TRANSCENDENTAL)
        argument: Expr = Arith("/", self.number([left], 0, "f64"), lit(self.rng.choice([3, 7, 20])))
        if name == "power":
            call = Func(name, (argument, lit(self.rng.choice([2, 3]))))
        elif name in ("atan2", "hypot"):
            call = Func(name, (argument, self.column(right, "f64")))
        else:
            call = Func(name, (argument,))
        return Compare(self.pick(["<", ">="]), call, lit(self.rng.uniform(-1.5, 3.0)))

    def constant_condition(self) -> Expr:
        """Return a condition without columns, alone or beside one with columns."""
        rng = self.rng
        if rng.random() < 0.6:
            return Logic(rng.choice(["OR", "AND"]), (self.constant_condition(), self.condition(0)))
        kind = self.pick(["int", "f64", "dec", "text"])
        first, second, third = (
            lit(rng.choice(streams.LITERAL_TEXTS)) if kind == "text" else self.constant(kind) for _ in range(3)
        )
        match rng.randrange(8):
            case 0 | 1:
                return Compare(self.pick(COMPARISONS), first, rng.choice([second, second, lit(None)]))
            case 2:
                return In(first, (second, rng.choice([third, first, lit(None)])), rng.random() < 0.4)
            case 3:
                return Is("NULL", rng.choice([first, lit(None)]), rng.random() < 0.5)
            case 4:
                return Logic("NOT", (Compare(self.pick(COMPARISONS), first, second),))
            case 5 if kind != "text":
                total = Arith(self.pick("+-*"), first, second)
                return Compare(self.pick(COMPARISONS), total, rng.choice([total, third]))
            case 6 if kind != "text":
                return Compare(self.pick(COMPARISONS), Func(self.pick(["abs", "sqrt", "sign"]), (first,)), second)
        return Func("coalesce", (lit(None), lit(rng.random() < 0.5)))

    def logic(self, depth: int) -> Expr:
        """Return OR, NOT, IS NULL/TRUE/FALSE or CASE over smaller conditions."""
        rng = self.rng
        match rng.randrange(8):
            case 0 | 1 | 2:
                return Logic("OR", tuple(self.condition(depth) for _ in range(rng.randint(2, 3))))
            case 3:
                return Logic("NOT", (self.condition(depth),))
            case 4:
                return Is(self.pick(["NULL", "TRUE", "FALSE"]), self.condition(depth), rng.random() < 0.5)
            case 5:
                branches = tuple((self.condition(0), self.condition(0)) for _ in range(rng.randint(1, 2)))
                return Case(branches, self.condition(0) if rng.random() < 0.7 else None)
            case 6:
                return Logic("OR", (self.band(), self.band()))
        return Logic("AND", (self.condition(depth), self.condition(depth)))

    # ------------------------------------------------------------------ the whole

    def conditions(self, least: int = 0) -> tuple[Expr, ...]:
        """Return what is linked by AND: mostly what an index can use, between each stream and an earlier one."""
        rng = self.rng
        made: list[Expr] = []
        for role in range(1, len(self.roles)):
            if rng.random() < 0.05 and len(made) >= least:
                continue
            self._between = (rng.randrange(role), role)
            made.append(self.pick({self.key: 3, self.band: 3, self.condition: 2})())
            self._between = None
        extra = self.pick({0: 50, 1: 35, 2: 15} if len(self.roles) == 2 else {0: 70, 1: 30})
        made += [self.condition() for _ in range(extra)]
        rng.shuffle(made)
        return tuple(made)

    def fragile(self) -> Expr:
        """Return a condition that holds for all tuples but those so large that their product overflows."""
        roles = self.rng.sample(range(len(self.roles)), 2)
        factors = []
        for role in roles:
            name, alias = self.roles[role]
            have = [column for column in self.columns[name] if column.arrow == pa.int64() and column.type == INT]
            have = [column for column in have if column.name != self.times[name]]
            if not have:
                have = [Column(f"c{len(self.columns[name])}", pa.int64(), INT)]
                self.columns[name] += have
            factors.append(Col(alias, have[0].name, INT))
        return Compare("<", Arith("*", factors[0], factors[1]), lit(10**6))

    def make(self, is_fragile: bool = False) -> Shape:
        """Return the finished shape."""
        rng = self.rng
        where = self.conditions()
        if is_fragile:
            where = (*where, self.fragile())
        numbers = [self.number(range(len(self.roles)), 2) for _ in range(rng.randint(0, 2))]
        for name in self.columns:
            for _ in range(rng.choice([0, 1, 2])):
                self.columns[name].append(Column(f"p{len(self.columns[name])}", self.pick(PAYLOADS), None))
            rng.shuffle(self.columns[name])
        select = None
        if numbers or rng.random() < 0.4:
            select = self._select(numbers)
        join_on = len(self.roles) == 2 and bool(where) and rng.random() < 0.3
        return Shape(self.seed, self.columns, tuple(self.roles), self.times, where, select, join_on)

    def _select(self, numbers: Sequence[Expr]) -> tuple[Choice, ...]:
        every = [(alias, column) for name, alias in self.roles for column in self.columns[name]]
        chosen = self.rng.sample(every, min(len(every), self.rng.randint(1, 5)))
        names = [column.name for _, column in chosen]
        choices = []
        for number, (alias, column) in enumerate(chosen):
            named = names.count(column.name) > 1 or self.rng.random() < 0.4
            expr = Col(alias, column.name, column.type or INT)
            choices.append(Choice(f"o{number}" if named else column.name, expr, True, named))
        choices += [Choice(f"n{number}", expr, False, True) for number, expr in enumerate(numbers)]
        self.rng.shuffle(choices)
        return tuple(choices)


def make_shape(seed: int, width: int | None = None, is_fragile: bool = False) -> Shape:
    """Return shape number ``seed`` over ``width`` streams; left out, over 2 to 5.

    ``is_fragile``: with arithmetic that overflows where a value is large.
    """
    if width is None:
        width = random.Random(f"width {seed}").choices([2, 3, 4, 5], [60, 25, 10, 5])[0]
    return ShapeMaker(seed, width).make(is_fragile)


def make_outer_shape(seed: int, is_fragile: bool = False) -> Shape:
    """Return shape number ``seed`` of an outer, semi or anti join of two streams; the kinds take turns."""
    maker = ShapeMaker(seed, 2)
    rng = maker.rng
    kind = OUTER_KINDS[seed % len(OUTER_KINDS)]
    where = maker.conditions(least=1) + ((maker.fragile(),) if is_fragile else ())
    after: tuple[Expr, ...] = ()
    if rng.random() < 0.3:
        after = (maker.single(0) if kind in ("semi", "anti") else maker.single_any(),)
    for name in maker.columns:
        maker.columns[name].append(Column(f"p{len(maker.columns[name])}", maker.pick(PAYLOADS), None))
    return Shape(seed, maker.columns, tuple(maker.roles), maker.times, where, None, True, kind, after)


def make_many(shape: Shape, data_seed: int) -> dict[str, TestCase]:
    """Return queries over the streams of one data set.

    They differ in windows and in how much they ask; some leave streams out. What they ask is the same for all data
    sets, but for those that would find far too much.
    """
    asking = random.Random(f"many {shape.seed}")
    rng = random.Random(f"many {shape.seed} {data_seed}")
    first, plan = _draw(shape, data_seed)
    made = {"q0": first}
    for number in range(1, asking.randint(3, 5)):
        kept = sorted(asking.sample(range(len(shape.roles)), asking.randint(2, len(shape.roles))))
        other = replace(shape, where=tuple(term for term in shape.where if asking.random() < 0.8), join_on=False)
        other = only_roles(other, kept)
        for _ in range(DRAWS_MAX):
            windows = tuple(plan.window(rng, name) for name, _ in other.roles)
            case = assemble(other, windows, first.tables, data_seed, first.extreme)
            if _count(case) <= RESULTS_MAX:
                made[f"q{number}"] = case
                break
    return made


def make_case(shape: Shape, data_seed: int) -> TestCase:
    """Return data set number ``data_seed`` for ``shape``, with windows to match."""
    return _draw(shape, data_seed)[0]


def _draw(shape: Shape, data_seed: int) -> tuple[TestCase, streams.Plan]:
    """Draw data and windows, again if hardly anything or far too much matches; one in ten is taken as it comes."""
    picky = random.Random(f"picky {shape.seed} {data_seed}").random() < 0.9
    best: tuple[int, TestCase, streams.Plan] | None = None
    for attempt in range(DRAWS_MAX if picky else 1):
        rng = random.Random(f"data {shape.seed} {data_seed} {attempt}")
        plan = streams.plan(rng, shape.columns, shape.times, len(shape.roles), generous=attempt > 0)
        windows = tuple(plan.window(rng, name) for name, _ in shape.roles)
        tables = {name: plan.table(rng, name, columns, shape.times[name]) for name, columns in shape.columns.items()}
        case = assemble(shape, windows, tables, data_seed, plan.extreme or plan.extreme_times)
        count = _count(case) if picky else RESULTS_MIN
        if RESULTS_MIN <= count <= RESULTS_MAX:
            return case, plan
        away = RESULTS_MIN - count if count < RESULTS_MIN else count
        if best is None or away < best[0]:
            best = (away, case, plan)
    assert best is not None
    return best[1:]


def _count(case: TestCase) -> int:
    try:
        return count_matches(case.join)
    except OracleOverflowError:
        return 0


def assemble(
    shape: Shape,
    windows: Sequence[WindowText],
    tables: Mapping[str, pa.Table],
    data_seed: int,
    extreme: bool,
) -> TestCase:
    """Return a query of ``shape`` over ``tables``, in our SQL and for the oracle."""
    roles = tuple(
        Role(name, alias, window.window, shape.times[name])
        for (name, alias), window in zip(shape.roles, windows, strict=True)
    )
    used = {name: tables[name].select([c.name for c in columns]) for name, columns in shape.columns.items()}
    outputs = _outputs(shape)
    predicate = None if not shape.where else " AND ".join(term.duck() for term in shape.where)
    computed = [*shape.where, *shape.after, *(choice.expr for choice in shape.select or () if not choice.passed)]
    rounds = any(_uses(expr, ("floor", "ceil")) for expr in computed)
    return TestCase(
        shape.seed,
        data_seed,
        _sql(shape, [window.text for window in windows]),
        Join(roles, used, predicate, outputs, shape.kind, shape.after[0].duck() if shape.after else None),
        shape.times,
        (extreme or rounds) and any(expr.checked() for expr in computed),
        tuple(i for i, output in enumerate(outputs) if output.approx),
        shape,
        tuple(windows),
        extreme,
    )


def only_roles(shape: Shape, kept: Sequence[int]) -> Shape:
    """Return ``shape`` with some of its streams, and what is said of these alone."""
    if len(kept) == len(shape.roles):
        return shape
    roles = tuple(shape.roles[role] for role in kept)
    names, aliases = {name for name, _ in roles}, {alias for _, alias in roles}
    select = tuple(choice for choice in shape.select or () if aliases_of(choice.expr) <= aliases) or None
    return replace(
        shape,
        columns={name: columns for name, columns in shape.columns.items() if name in names},
        roles=roles,
        times={name: time for name, time in shape.times.items() if name in names},
        where=tuple(term for term in shape.where if aliases_of(term) <= aliases),
        select=select,
    )


def with_times(case: TestCase) -> TestCase:
    """Return the case with the times of all members among its results."""
    shape = case.shape
    if shape.select is None:
        return case
    times = [
        Choice(f"at__{k}", Col(alias, shape.times[name], INT), True, True)
        for k, (name, alias) in enumerate(shape.roles)
    ]
    shape = replace(shape, select=(*shape.select, *times))
    return assemble(shape, case.windows, case.tables, case.data_seed, case.extreme)


def aliases_of(expr: Expr) -> set[str]:
    """Return the roles whose columns an expression reads."""
    return {column.alias for column in columns_of(expr)}


def columns_of(expr: Expr) -> list[Col]:
    """Return the columns that an expression reads."""
    own = [expr] if isinstance(expr, Col) else []
    return own + [column for arg in expr.args for column in columns_of(arg)]


def _uses(expr: Expr, names: Sequence[str]) -> bool:
    return (isinstance(expr, Func) and expr.name in names) or any(_uses(arg, names) for arg in expr.args)


def _outputs(shape: Shape) -> tuple[Output, ...]:
    if shape.select is None:
        return tuple(
            Output(f"{alias}_{column.name}", role, column.name)
            for role, (name, alias) in enumerate(shape.roles[:1] if shape.kind in ("semi", "anti") else shape.roles)
            for column in shape.columns[name]
        )
    aliases = [alias for _, alias in shape.roles]
    return tuple(
        Output(choice.name, aliases.index(choice.expr.alias), choice.expr.name)
        if choice.passed and isinstance(choice.expr, Col)
        else Output(choice.name, duck=choice.expr.duck(), approx=choice.expr.approx())
        for choice in shape.select
    )


def _sql(shape: Shape, windows: Sequence[str]) -> str:
    sources = [
        f"{name} [{window}]" + (f" AS {alias}" if alias != name else "")
        for (name, alias), window in zip(shape.roles, windows, strict=True)
    ]
    select = "*"
    if shape.select is not None:
        items = (c.expr.bare() + (f" AS {c.name}" if c.named else "") for c in shape.select)
        select = ", ".join(items)
    terms = [f"({term.ours()})" if isinstance(term, Logic | Case) else term.ours() for term in shape.where]
    if shape.kind != "inner":
        words = {"left": "LEFT", "right": "RIGHT OUTER", "full": "FULL OUTER", "semi": "LEFT SEMI", "anti": "LEFT ANTI"}
        where = f"\nWHERE {shape.after[0].ours()}" if shape.after else ""
        on = " AND ".join(terms)
        return f"SELECT *\nFROM {sources[0]} {words[shape.kind]} JOIN {sources[1]} ON {on}{where}"
    if not shape.join_on:
        where = f"\nWHERE {' AND '.join(terms)}" if terms else ""
        return f"SELECT {select}\nFROM {', '.join(sources)}{where}"
    where = f"\nWHERE {' AND '.join(terms[1:])}" if terms[1:] else ""
    return f"SELECT {select}\nFROM {sources[0]} JOIN {sources[1]} ON {terms[0]}{where}"
