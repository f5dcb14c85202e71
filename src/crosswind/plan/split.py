"""The predicate, split into what an index can use and what must be looked at.

Every conjunct of the WHERE clause lands in exactly one of four places: *filters* (one
stream, or none: settled on arrival), *keys* (left = right), *bands* (low <= left - right
<= high, CellJoin §2.1), or the *residual*. Bands are found however they are spelled
(BETWEEN, abs(), pairs of inequalities, arithmetic on either side, INTERVAL) because
both sides of a comparison are brought into linear form first.

Integers, decimals and times are rearranged exactly. Floats are rearranged too, but a
band over floats is marked inexact: it may be used to find candidates, which are then
checked with the comparison as the user wrote it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction

from crosswind.plan.logic import Atom, Formula, atoms_of, conjuncts
from crosswind.query.tree import Call, Expr, Literal, roles_of
from crosswind.query.types import UNITS_PER_SECOND, Kind, SqlType

__all__ = ["Band", "Key", "Side", "Split", "split"]

_TEMPORAL = (Kind.TIMESTAMP, Kind.DURATION, Kind.DATE)


@dataclass(frozen=True)
class Side:
    """A linear combination of expressions of one stream: sum of coefficient * expr.

    Times count in seconds, whatever their unit, so that the two sides compare.
    """

    role: int
    terms: tuple[tuple[Expr, Fraction], ...]

    @property
    def bare(self) -> Expr | None:
        """The expression itself, where the side is just that."""
        return self.terms[0][0] if len(self.terms) == 1 and self.terms[0][1] == 1 else None


@dataclass(frozen=True)
class Key:
    """``left = right + offset``: an equality usable for hashing."""

    left: Side
    right: Side
    offset: Fraction
    exact: bool
    atom: Atom


@dataclass(frozen=True)
class Band:
    """``low <= left - right <= high``; None: open on that side. ``atoms`` are its sources."""

    left: Side
    right: Side
    low: Fraction | None
    high: Fraction | None
    low_strict: bool
    high_strict: bool
    exact: bool
    atoms: tuple[Atom, ...]

    def narrowed(self, other: Band) -> Band:
        """Return the band in which both hold."""
        low, low_strict = max(
            ((b.low, b.low_strict) for b in (self, other) if b.low is not None), default=(None, False)
        )
        high, loose = min(
            ((b.high, not b.high_strict) for b in (self, other) if b.high is not None), default=(None, True)
        )
        return Band(
            self.left,
            self.right,
            low,
            high,
            low_strict,
            not loose,
            self.exact and other.exact,
            self.atoms + other.atoms,
        )


@dataclass(frozen=True)
class Split:
    """A predicate in its four parts; together they are the whole predicate."""

    filters: tuple[Formula, ...]
    keys: tuple[Key, ...]
    bands: tuple[Band, ...]
    residual: tuple[Formula, ...]


@dataclass(frozen=True)
class _Linear:
    terms: dict[Expr, Fraction]
    constant: Fraction
    exact: bool

    def plus(self, other: _Linear, factor: int | Fraction = 1) -> _Linear:
        terms = dict(self.terms)
        for expr, coefficient in other.terms.items():
            terms[expr] = terms.get(expr, Fraction(0)) + factor * coefficient
        kept = {expr: coefficient for expr, coefficient in terms.items() if coefficient}
        return _Linear(kept, self.constant + factor * other.constant, self.exact and other.exact)

    def times(self, factor: Fraction) -> _Linear:
        return _Linear({e: c * factor for e, c in self.terms.items()}, self.constant * factor, self.exact)


def split(formula: Formula) -> Split:
    """Split a formula in normal form into filters, keys, bands and residual."""
    filters: list[Formula] = []
    keys: list[Key] = []
    bands: dict[tuple[Side, Side], Band] = {}
    residual: list[Formula] = []
    for part in conjuncts(formula):
        roles = frozenset().union(*(roles_of(atom.expr) for atom in atoms_of(part)), frozenset())
        if len(roles) <= 1:
            filters.append(part)
            continue
        found = _recognise(part) if isinstance(part, Atom) else None
        if found is None:
            residual.append(part)
        elif isinstance(found, Key):
            keys.append(found)
        else:
            for band in found:
                at = (band.left, band.right)
                bands[at] = bands[at].narrowed(band) if at in bands else band
    return Split(tuple(filters), tuple(keys), tuple(bands.values()), tuple(residual))


def _recognise(atom: Atom) -> Key | list[Band] | None:
    """Return the key or the band halves that ``atom`` amounts to, or None."""
    expr = atom.expr
    if not (isinstance(expr, Call) and expr.op in ("eq", "lt", "le", "gt", "ge")):
        return None
    left, right = expr.args
    if left.type.is_text or left.type.kind is Kind.BOOL or left.type.is_wide:
        return _plain_key(atom, left, right) if expr.op == "eq" else None
    op = expr.op
    if op != "eq":
        if op in ("gt", "ge"):  # left > right is right < left
            left, right, op = right, left, {"gt": "lt", "ge": "le"}[op]
        inner = _absolute(left)
        if inner is not None:  # |e| <= g is e <= g and -e <= g
            halves = [_half(atom, _linear(inner).plus(_linear(right), -1), op == "lt")]
            halves.append(_half(atom, _linear(inner).times(Fraction(-1)).plus(_linear(right), -1), op == "lt"))
            return [half for half in halves if half] if all(halves) else None
    difference = _linear(left).plus(_linear(right), -1)
    if op == "eq":
        sides = _sides(difference)
        return None if sides is None else Key(sides[0], sides[1], -sides[2], difference.exact, atom)
    half = _half(atom, difference, op == "lt")
    return None if half is None else [half]


def _plain_key(atom: Atom, left: Expr, right: Expr) -> Key | None:
    """Return the key of an equality whose sides are not numbers."""
    if len(roles_of(left)) != 1 or len(roles_of(right)) != 1 or roles_of(left) == roles_of(right):
        return None
    first, second = sorted((left, right), key=lambda e: min(roles_of(e)))
    one = Fraction(1)
    sides = [Side(min(roles_of(e)), ((e, one),)) for e in (first, second)]
    return Key(sides[0], sides[1], Fraction(0), True, atom)


def _absolute(expr: Expr) -> Expr | None:
    """Return e where ``expr`` is abs(e), looking through casts that keep the value."""
    while isinstance(expr, Call) and expr.op == "cast" and _keeps_value(expr):
        expr = expr.args[0]
    return expr.args[0] if isinstance(expr, Call) and expr.op == "abs" else None


def _sides(form: _Linear) -> tuple[Side, Side, Fraction, bool] | None:
    """Split ``form`` into left - right + constant over two streams; last: was the sign turned."""
    by_role: dict[int, list[tuple[Expr, Fraction]]] = {}
    for expr, coefficient in form.terms.items():
        roles = roles_of(expr)
        if len(roles) != 1:
            return None
        by_role.setdefault(min(roles), []).append((expr, coefficient))
    if len(by_role) != 2:
        return None
    first, second = sorted(by_role)
    lead = by_role[first][0][1]
    left = Side(first, tuple((e, c / lead) for e, c in by_role[first]))
    right = Side(second, tuple((e, -c / lead) for e, c in by_role[second]))
    return left, right, form.constant / lead, lead < 0


def _half(atom: Atom, form: _Linear, strict: bool) -> Band | None:
    """Return the band half that ``form < 0`` (or <= 0) amounts to."""
    sides = _sides(form)
    if sides is None:
        return None
    left, right, constant, turned = sides
    open_band = Band(left, right, None, None, False, False, form.exact, (atom,))
    if turned:
        return replace(open_band, low=-constant, low_strict=strict)
    return replace(open_band, high=-constant, high_strict=strict)


def _linear(expr: Expr) -> _Linear:
    """Bring ``expr`` into linear form; what is not linear stays whole as one term."""
    if isinstance(expr, Literal):
        value = _number(expr)
        if value is not None:
            return _Linear({}, value, expr.type.kind is not Kind.FLOAT or float(value).is_integer())
    if isinstance(expr, Call):
        exact = expr.type.kind is not Kind.FLOAT
        rule = _RULES.get(expr.op)
        form = rule(expr) if rule else None
        if form is not None:
            return replace(form, exact=form.exact and exact)
    return _Linear({expr: Fraction(1)}, Fraction(0), expr.type.kind is not Kind.FLOAT)


def _product(expr: Call) -> _Linear | None:
    left, right = (_linear(arg) for arg in expr.args)
    if not right.terms:
        return left.times(right.constant)
    if not left.terms:
        return right.times(left.constant)
    return None


def _cast(expr: Call) -> _Linear | None:
    return _linear(expr.args[0]) if _keeps_value(expr) else None


_RULES: dict[str, Callable[[Call], _Linear | None]] = {
    "add": lambda e: _linear(e.args[0]).plus(_linear(e.args[1])),
    "sub": lambda e: _linear(e.args[0]).plus(_linear(e.args[1]), -1),
    "neg": lambda e: _linear(e.args[0]).times(Fraction(-1)),
    "mul": _product,
    "cast": _cast,
}


def _keeps_value(expr: Call) -> bool:
    """Whether a cast gives the same number (as floats: up to rounding, marked inexact)."""
    source, target = expr.args[0].type, expr.type
    if target.kind is Kind.FLOAT:
        return source.is_numeric
    if source.kind is Kind.INT and target.kind is Kind.INT:
        return target.bits >= source.bits
    if source.kind in (Kind.INT, Kind.DECIMAL) and target.kind is Kind.DECIMAL:
        return target.scale >= source.scale
    if source.kind in _TEMPORAL and target.kind in _TEMPORAL:
        return _ticks(target) >= _ticks(source)
    return False


def _ticks(of: SqlType) -> Fraction:
    """Return the ticks of a temporal type in a second."""
    return Fraction(1, 86_400) if of.kind is Kind.DATE else Fraction(UNITS_PER_SECOND[of.unit])


def _number(literal: Literal) -> Fraction | None:
    """Return a literal as an exact number (times in seconds), or None."""
    value = literal.value
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    if isinstance(value, float) and not abs(value) < float("inf"):
        return None
    number = Fraction(value)
    return number / _ticks(literal.type) if literal.type.kind in _TEMPORAL else number
