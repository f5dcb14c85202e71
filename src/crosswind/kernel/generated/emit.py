"""Expressions as Numba source.

Every node becomes a named value and, where it can be null, a named validity. What the
types and the data rule out is not emitted: no validity without nulls, no NaN cases
without NaNs, no overflow check where the bounds of the operands exclude one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from crosswind.errors import UnsupportedError
from crosswind.plan.axis import INT64_MAX, INT64_MIN
from crosswind.plan.bounds import bounds, cast_factor, machine_literal, type_bounds
from crosswind.plan.logic import And, Atom, Formula, Not, Or
from crosswind.plan.physical import Storage, machine_dtype, storage_of
from crosswind.query.tree import COMPARISONS, Call, Expr, Literal, UserFunction
from crosswind.query.types import BOOL, UNITS_PER_SECOND, Kind, SqlType

__all__ = ["Emitter", "Facts", "Leaf"]

_SYMBOL = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_TOTAL = {
    "eq": "(({a} == {b}) | (({a} != {a}) & ({b} != {b})))",
    "ne": "(({a} != {b}) & (({a} == {a}) | ({b} == {b})))",
    "lt": "(({a} < {b}) | (({b} != {b}) & ({a} == {a})))",
    "le": "(({a} <= {b}) | ({b} != {b}))",
    "gt": "(({a} > {b}) | (({a} != {a}) & ({b} == {b})))",
    "ge": "(({a} >= {b}) | ({a} != {a}))",
}
"""Comparisons of floats in Spark's order: NaN equals itself and is greater than all else."""

_WIDE = {
    "eq": "(({ah} == {bh}) & ({al} == {bl}))",
    "ne": "(({ah} != {bh}) | ({al} != {bl}))",
    "lt": "(({ah} < {bh}) | (({ah} == {bh}) & ({al} < {bl})))",
    "le": "(({ah} < {bh}) | (({ah} == {bh}) & ({al} <= {bl})))",
    "gt": "(({ah} > {bh}) | (({ah} == {bh}) & ({al} > {bl})))",
    "ge": "(({ah} > {bh}) | (({ah} == {bh}) & ({al} >= {bl})))",
}
_MATH = {
    "sqrt": "np.sqrt({0})",
    "exp": "np.exp({0})",
    "sin": "np.sin({0})",
    "cos": "np.cos({0})",
    "tan": "np.tan({0})",
    "asin": "np.arcsin({0})",
    "acos": "np.arccos({0})",
    "atan": "np.arctan({0})",
    "cbrt": "np.cbrt({0})",
    "radians": "np.radians({0})",
    "degrees": "np.degrees({0})",
    "power": "np.power({0}, {1})",
    "atan2": "np.arctan2({0}, {1})",
    "hypot": "np.hypot({0}, {1})",
    "sign": "np.sign({0})",
}
_LOGS = {"ln": "np.log({0})", "log10": "np.log10({0})", "log2": "np.log2({0})"}
_CHECKED = {"add": "add_checked", "sub": "sub_checked", "mul": "mul_checked"}
_CHAIN = 64
"""Operands of one line of source."""
_PLAIN = {"add": "+", "sub": "-", "mul": "*"}


@dataclass(frozen=True)
class Facts:
    """What is known of the data: whether any value in play is null, or NaN."""

    nulls: bool = True
    nans: bool = True


@dataclass(frozen=True)
class Leaf:
    """Where the value of a leaf is found: variables that hold addresses, and the index."""

    values: str
    valid: str
    text: str
    index: str


@dataclass(frozen=True)
class _Value:
    """An emitted value: its code (or high/low halves, or text), and its validity (None: always).

    ``beyond`` (where overflow is not a fault) is true where the exact value lies beyond the
    64-bit range; ``code`` is then the end of the range on that side.
    """

    code: str
    valid: str | None
    low: str = ""
    text: tuple[str, str, str] = ("", "", "")
    beyond: str | None = None


def _ticks(of: SqlType) -> int:
    return UNITS_PER_SECOND[of.unit]


def _may_make_nan(expr: Expr) -> bool:
    """Whether ``expr`` can be NaN even if no column is: sqrt(-1), inf - inf, 0 * inf, ..."""
    if not isinstance(expr, Call):
        return isinstance(expr, Literal) and expr.value != expr.value
    keeps = expr.op in ("cast", "neg", "abs", "least", "greatest", "coalesce", "if")
    return expr.type.kind is Kind.FLOAT and (not keeps or any(map(_may_make_nan, expr.args)))


class Emitter:
    """Emits expressions into a list of source lines.

    Parameters
    ----------
    leaves : mapping of Expr to Leaf or str
        Where each column or slot is read from; a str is a variable that holds its value.
    facts : Facts
        What the data is known to be free of.
    indent : str
        Put before every line.
    prefix : str
        Begins the names of variables.
    saturate : bool
        Let sums that overflow stop at the end of the range, known to be beyond it,
        instead of being faults.
    lanes : bool
        Emit what LLVM can make vector code of: a fault may then be a false alarm.
    """

    def __init__(
        self,
        leaves: Mapping[Expr, Leaf | str],
        facts: Facts,
        indent: str,
        prefix: str = "v",
        saturate: bool = False,
        lanes: bool = False,
    ) -> None:
        self.lines: list[str] = []
        self.functions: dict[str, UserFunction] = {}
        self.constants: list[str] = []
        self.checks = False
        self.indent = indent
        self._prefix = prefix
        self._saturate = saturate
        self._lanes = lanes
        self._leaves = leaves
        self._facts = facts
        self._guard: str | None = None
        self._memo: dict[tuple[Expr, str | None], _Value] = {}
        self._count = 0

    def in_lanes(self, indent: str) -> Emitter:
        """Return an emitter of the same leaves for vector code, with names of its own."""
        return Emitter(self._leaves, self._facts, indent, prefix=f"{self._prefix}_", lanes=True)

    # -- formulas ------------------------------------------------------------

    def truth(self, formula: Formula) -> str:
        """Emit ``formula``; return code that is true iff it holds."""
        if isinstance(formula, Atom):
            return self.is_true(formula.expr)
        parts = [self.truth(part) for part in formula.parts]
        if not parts:
            return "False" if isinstance(formula, Or) else "True"
        joined = self._joined(parts, " & " if isinstance(formula, And) else " | ")
        return self._name(f"not ({joined})" if isinstance(formula, Not) else f"({joined})")

    def _joined(self, parts: list[str], joint: str) -> str:
        """Return ``parts`` joined; many go by way of names, for Python reads a long chain by recursion."""
        while len(parts) > _CHAIN:
            parts = [self._name(joint.join(parts[at : at + _CHAIN])) for at in range(0, len(parts), _CHAIN)]
        return joint.join(parts)

    def is_true(self, expr: Expr) -> str:
        """Emit a boolean expression; return code that is true iff it is TRUE."""
        value = self.emit(expr)
        if value.valid is None:
            return value.code
        return self._name(f"{value.valid} & {value.code}")

    # -- expressions ---------------------------------------------------------

    def emit(self, expr: Expr) -> _Value:
        """Emit ``expr`` (once a guard) and return its value."""
        key = (expr, self._guard)
        if key not in self._memo:
            self._memo[key] = self._emit(expr)
        return self._memo[key]

    def _emit(self, expr: Expr) -> _Value:
        if expr in self._leaves:
            leaf = self._leaves[expr]
            return _Value(leaf, None) if isinstance(leaf, str) else self._leaf(expr, leaf)
        if isinstance(expr, Literal):
            return self._literal(expr)
        if not isinstance(expr, Call):
            raise UnsupportedError(f"no kernel can read {type(expr).__name__} values.")
        op = expr.op
        if op in COMPARISONS:
            a, b = (self.emit(arg) for arg in expr.args)
            return self._compare(op, a, b, expr.args[0].type, nans=any(map(_may_make_nan, expr.args)))
        if op in _PLAIN or op in ("neg", "abs"):
            return self._arithmetic(expr)
        if op in _MATH:
            args = [self.emit(arg) for arg in expr.args]
            return _Value(self._name(_MATH[op].format(*(a.code for a in args))), self._all_valid(args))
        if op in _LOGS:
            arg = self.emit(expr.args[0])
            positive = self._name(f"({arg.code} > 0.0) | ({arg.code} != {arg.code})")
            return _Value(self._name(_LOGS[op].format(arg.code)), self._both(arg.valid, positive))
        special = getattr(self, f"_op_{op}", None)
        if special is None:
            raise UnsupportedError(f"the operation '{op}' has no kernel.")
        value: _Value = special(expr)
        return value

    def _leaf(self, expr: Expr, leaf: Leaf) -> _Value:
        valid = self._name(f"fetch({leaf.valid}, {leaf.index}, np.uint8) != 0") if self._facts.nulls else None
        match storage_of(expr.type):
            case Storage.TEXT:
                return _Value("", valid, text=(leaf.values, leaf.text, leaf.index))
            case Storage.WIDE:
                high = self._name(f"fetch({leaf.values}, 2 * {leaf.index} + 1, np.int64)")
                return _Value(high, valid, low=self._name(f"fetch({leaf.values}, 2 * {leaf.index}, np.uint64)"))
            case _:
                code = f"fetch({leaf.values}, {leaf.index}, np.{machine_dtype(expr.type)})"
                return _Value(self._name(f"{code} != 0" if expr.type.kind is Kind.BOOL else code), valid)

    def _literal(self, literal: Literal) -> _Value:
        value = literal.value
        if literal.type.is_text:
            return _Value("", "False" if value is None else None, text=(*self._texts([value]), "0"))
        if value is None:
            return _Value(_zero(literal.type), "False", low="np.uint64(0)")
        number = machine_literal(literal)
        if literal.type.is_wide and isinstance(number, int):
            unsigned = number & (2**128 - 1)
            high, low = unsigned >> 64, unsigned & (2**64 - 1)
            return _Value(f"np.int64({high - 2**64 if high >= 2**63 else high})", None, low=f"np.uint64({low})")
        return _Value(_constant(literal.type, number), None)

    def _compare(self, op: str, a: _Value, b: _Value, of: SqlType, nans: bool = True) -> _Value:
        valid = self._all_valid([a, b])
        match storage_of(of):
            case Storage.TEXT:
                sides = ", ".join((*a.text, *b.text))
                equal = {"eq": f"text_equal({sides})", "ne": f"not text_equal({sides})"}
                code = equal.get(op) or f"text_order({sides}) {_SYMBOL[op]} 0"
            case Storage.WIDE:
                code = _WIDE[op].format(ah=a.code, al=a.low, bh=b.code, bl=b.low)
            case _:
                total = of.kind is Kind.FLOAT and (nans or self._facts.nans)
                code = _TOTAL[op].format(a=a.code, b=b.code) if total else f"{a.code} {_SYMBOL[op]} {b.code}"
                if a.beyond is not None or b.beyond is not None:
                    code = self._compare_beyond(op, a, b, code)
        return _Value(self._name(code), valid)

    def _compare_beyond(self, op: str, a: _Value, b: _Value, code: str) -> str:
        """Return the comparison where a side may lie beyond the range: its sign decides."""
        for side, low, high in ((a, "lt", "gt"), (b, "gt", "lt")):
            if side.beyond is not None:
                holds_low = op in ("ne", low, low.replace("t", "e"))
                holds_high = op in ("ne", high, high.replace("t", "e"))
                decided = f"({holds_low} if {side.code} < 0 else {holds_high})"
                code = f"({decided} if {side.beyond} else ({code}))"
        return code

    def _arithmetic(self, expr: Call) -> _Value:
        args = [self.emit(arg) for arg in expr.args]
        valid, codes = self._all_valid(args), [arg.code for arg in args]
        if expr.type.kind is Kind.FLOAT:
            if expr.op == "neg":
                return _Value(self._name(f"-{codes[0]}"), valid)
            if expr.op == "abs":
                return _Value(self._name(f"np.abs({codes[0]})"), valid)
            return _Value(self._name(f"{codes[0]} {_PLAIN[expr.op]} {codes[1]}"), valid)
        wide = [f"np.int64({code})" for code in codes]
        if expr.op == "abs":
            return self._absolute(expr, wide[0], valid)
        op, wide = ("sub", ["np.int64(0)", *wide]) if expr.op == "neg" else (expr.op, wide)
        low, high = bounds(expr)
        if low >= INT64_MIN and high <= INT64_MAX:
            return _Value(self._name(f"{wide[0]} {_PLAIN[op]} {wide[1]}"), valid)
        return self._checked(op, wide[0], wide[1], valid)

    def _absolute(self, expr: Call, code: str, valid: str | None) -> _Value:
        if bounds(expr.args[0])[0] <= INT64_MIN and not self._saturate:
            self._fault(f"{code} == np.int64({INT64_MIN})", valid)
        return _Value(self._name(f"np.int64(abs({code}))"), valid)

    def _checked(self, op: str, left: str, right: str, valid: str | None) -> _Value:
        if self._lanes:
            return self._wrapped(op, left, right, valid)
        value = self._name(f"{_CHECKED[op]}({left}, {right})  # (value, overflowed)")
        if self._saturate:  # a sum that wrapped has the wrong sign
            sign = f"{left} > 0" if op == "mul" else f"{value}[0] < 0"
            end = f"(np.int64({INT64_MAX}) if {sign} else np.int64({INT64_MIN}))"
            return _Value(self._name(f"{end} if {value}[1] else {value}[0]"), valid, beyond=self._name(f"{value}[1]"))
        self._fault(f"{value}[1]", valid)
        return _Value(self._name(f"{value}[0]"), valid)

    def _wrapped(self, op: str, left: str, right: str, valid: str | None) -> _Value:
        """Compute without a branch or a call; every overflow is noted, and a product that comes near one, too."""
        a, b = self._name(left), self._name(right)
        value = self._name(f"np.int64(np.uint64({a}) {_PLAIN[op]} np.uint64({b}))")
        wrapped = {
            "add": f"(({a} ^ {value}) & ({b} ^ {value})) < 0",
            "sub": f"(({a} ^ {b}) & ({a} ^ {value})) < 0",
            "mul": f"abs(np.float64({a}) * np.float64({b})) > 4.6e18",
        }
        self._fault(wrapped[op], valid)
        return _Value(value, valid)

    def _fault(self, condition: str, valid: str | None) -> None:
        """Note an overflow where ``condition`` holds for a value that counts."""
        self.checks = True
        terms = [f"({condition})", *(f"({term})" for term in (valid, self._guard) if term is not None)]
        self.lines.append(f"{self.indent}fault |= {' & '.join(terms)}")

    # -- the rest, one method an operation -----------------------------------

    def _op_same(self, expr: Call) -> _Value:
        a, b = (self.emit(arg) for arg in expr.args)
        equal = self._compare("eq", a, b, expr.args[0].type)
        if equal.valid is None:
            return equal
        va, vb = a.valid or "True", b.valid or "True"
        return _Value(self._name(f"(({va}) & ({vb}) & ({equal.code})) | (not ({va}) and not ({vb}))"), None)

    def _op_in(self, expr: Call) -> _Value:
        value, constants = self.emit(expr.args[0]), [arg for arg in expr.args[1:] if isinstance(arg, Literal)]
        if storage_of(expr.args[0].type) is Storage.TEXT:
            offsets, texts = self._texts([arg.value for arg in constants])
            found = f"is_text_among({offsets}, {texts}, {len(constants)}, {', '.join(value.text)})"
        else:
            name = f"{self._prefix.upper()}_LIST_{len(self.constants)}"
            numbers = ", ".join(repr(machine_literal(arg)) for arg in constants)
            self.constants.append(f"{name} = np.array([{numbers}], dtype=np.{machine_dtype(expr.args[0].type)})")
            found = f"is_among({name}, {value.code})"
        if value.beyond is not None:
            found = f"(not {value.beyond}) & {found}"
        return _Value(self._name(found), value.valid)

    def _texts(self, texts: list[Any]) -> tuple[str, str]:
        """Make constants of texts; return the addresses of their offsets and of their bytes."""
        raws = [text.encode() if isinstance(text, str) else text or b"" for text in texts]
        name = f"{self._prefix.upper()}_TEXT_{len(self.constants)}"
        offsets = [0, *accumulate(map(len, raws))]
        self.constants.append(f"{name} = np.frombuffer({b''.join(raws)!r} + b'\\0', dtype=np.uint8)")
        self.constants.append(f"{name}_OFFSETS = np.array({offsets!r}, dtype=np.int64)")
        return f"{name}_OFFSETS.ctypes.data", f"{name}.ctypes.data"

    def _op_and(self, expr: Call) -> _Value:
        """Emit AND: false wins over null, so it is valid iff all are, or one is false."""
        return self._logic(expr, " & ", "(not {code})")

    def _op_or(self, expr: Call) -> _Value:
        """Emit OR: true wins over null, so it is valid iff all are, or one is true."""
        return self._logic(expr, " | ", "{code}")

    def _logic(self, expr: Call, joint: str, decides: str) -> _Value:
        args = [self.emit(arg) for arg in expr.args]
        if all(arg.valid is None for arg in args):
            return _Value(self._name(joint.join(arg.code for arg in args)), None)
        every = " & ".join(f"({arg.valid})" for arg in args if arg.valid is not None)
        one = " | ".join(f"(({arg.valid or 'True'}) & {decides.format(code=arg.code)})" for arg in args)
        decided = self._name(one)
        value = f"not {decided}" if joint == " & " else decided
        return _Value(self._name(value), self._name(f"({every}) | {decided}"))

    def _op_not(self, expr: Call) -> _Value:
        arg = self.emit(expr.args[0])
        return _Value(self._name(f"not {arg.code}"), arg.valid)

    def _op_is_null(self, expr: Call) -> _Value:
        arg = self.emit(expr.args[0])
        return _Value("False" if arg.valid is None else self._name(f"not {arg.valid}"), None)

    def _op_is_true(self, expr: Call) -> _Value:
        return _Value(self.is_true(expr.args[0]), None)

    def _op_is_false(self, expr: Call) -> _Value:
        arg = self.emit(expr.args[0])
        negated = f"(not {arg.code})"
        return _Value(self._name(negated if arg.valid is None else f"{arg.valid} & {negated}"), None)

    def _op_div(self, expr: Call) -> _Value:
        a, b = (self.emit(arg) for arg in expr.args)
        return _Value(self._name(f"{a.code} / {b.code}"), self._both(self._all_valid([a, b]), f"({b.code} != 0)"))

    def _op_mod(self, expr: Call) -> _Value:
        a, b = (self.emit(arg) for arg in expr.args)
        call = "fmod" if expr.type.kind is Kind.FLOAT else "rem"
        wide = "" if call == "fmod" else "np.int64"
        code = f"{call}({wide}({a.code}), {wide}({b.code}))"
        return _Value(self._name(code), self._both(self._all_valid([a, b]), f"({b.code} != 0)"))

    def _op_floor(self, expr: Call) -> _Value:
        return self._round(expr, "floor_long({0})", "{0} // np.int64({1})")

    def _op_ceil(self, expr: Call) -> _Value:
        return self._round(expr, "ceil_long({0})", "-((-{0}) // np.int64({1}))")

    def _round(self, expr: Call, of_float: str, of_decimal: str) -> _Value:
        arg, source = self.emit(expr.args[0]), expr.args[0].type
        if source.kind is Kind.FLOAT:
            return _Value(self._name(of_float.format(f"np.float64({arg.code})")), arg.valid)
        scale = 10**source.scale if source.kind is Kind.DECIMAL else 1
        return _Value(self._name(of_decimal.format(arg.code, scale)), arg.valid)

    def _op_least(self, expr: Call) -> _Value:
        return self._extreme(expr, "lt")

    def _op_greatest(self, expr: Call) -> _Value:
        return self._extreme(expr, "gt")

    def _extreme(self, expr: Call, better: str) -> _Value:
        self._refuse_layout(expr)
        best = self.emit(expr.args[0])
        for arg in expr.args[1:]:
            other = self.emit(arg)
            wins = self._compare(better, _Value(other.code, None), _Value(best.code, None), expr.type).code
            if other.valid is not None or best.valid is not None:
                mine, theirs = best.valid or "True", other.valid or "True"
                wins = self._name(f"({theirs}) & ({wins} | (not {mine}))")
                valid: str | None = self._name(f"({mine}) | ({theirs})")
            else:
                valid = None
            best = _Value(self._name(f"{other.code} if {wins} else {best.code}"), valid)
        return best

    def _op_coalesce(self, expr: Call) -> _Value:
        self._refuse_layout(expr)
        args = [self.emit(arg) for arg in expr.args]
        result = args[-1]
        for arg in reversed(args[:-1]):
            if arg.valid is None:
                result = arg
                continue
            valid = None if result.valid is None else self._name(f"({arg.valid}) | ({result.valid})")
            result = _Value(self._name(f"{arg.code} if {arg.valid} else {result.code}"), valid)
        return result

    def _op_if(self, expr: Call) -> _Value:
        self._refuse_layout(expr)
        chosen = self.is_true(expr.args[0])
        outer = self._guard
        self._guard = self._name(chosen if outer is None else f"{outer} & {chosen}")
        then = self.emit(expr.args[1])
        self._guard = self._name(f"not {chosen}" if outer is None else f"{outer} & (not {chosen})")
        other = self.emit(expr.args[2])
        self._guard = outer
        valid = None
        if then.valid is not None or other.valid is not None:
            valid = self._name(f"({then.valid or 'True'}) if {chosen} else ({other.valid or 'True'})")
        return _Value(self._name(f"{then.code} if {chosen} else {other.code}"), valid)

    def _op_user(self, expr: Call) -> _Value:
        function = expr.function
        if function is None:
            raise UnsupportedError("a call of a user function carries no function.")
        self.functions[function.name] = function
        args = [self.emit(arg) for arg in expr.args]
        valid = self._all_valid(args)
        call = f"bool({function.name}({', '.join(arg.code for arg in args)}))"
        return _Value(self._name(call if valid is None else f"{call} if {valid} else False"), valid)

    def _op_cast(self, expr: Call) -> _Value:
        source, target = expr.args[0].type, expr.type
        if target.is_wide or source.is_wide:
            raise UnsupportedError(f"{source} cannot be converted to {target} inside a computation.")
        arg = self.emit(expr.args[0])
        if target.kind is Kind.FLOAT:
            scale = 10**source.scale if source.kind is Kind.DECIMAL else 1
            code = f"np.float64({arg.code})" + (f" / np.float64({scale})" if scale > 1 else "")
            return _Value(self._name(code if target.bits == 64 else f"np.float32({code})"), arg.valid)
        if source.kind is Kind.FLOAT:
            return self._float_to_integer(arg, source, target)
        return self._integral_cast(expr, arg, target)

    def _float_to_integer(self, arg: _Value, source: SqlType, target: SqlType) -> _Value:
        if target.kind is not Kind.INT:
            raise UnsupportedError(
                f"{source} cannot be converted to {target} exactly; convert the other side to DOUBLE."
            )
        low, high = type_bounds(target)
        cut = self._name(f"np.trunc(np.float64({arg.code}))")
        fits = self._name(f"({cut} >= {float(low)!r}) & ({cut} < {float(high + 1)!r})")
        self._fault(f"not {fits}", arg.valid)
        return _Value(self._name(f"np.int64({cut}) if {fits} else np.int64(0)"), arg.valid)

    def _integral_cast(self, expr: Call, arg: _Value, target: SqlType) -> _Value:
        source, factor = expr.args[0].type, cast_factor(expr)
        wide = f"np.int64({arg.code})"
        if factor > 1:
            low, high = bounds(expr)
            if low < INT64_MIN or high > INT64_MAX:
                scaled = self._checked("mul", wide, f"np.int64({factor})", arg.valid)
            else:
                scaled = _Value(self._name(f"{wide} * np.int64({factor})"), arg.valid)
            if not self._saturate:
                self._fit(scaled.code, (low, high), target, arg.valid)
            return scaled
        if source.kind is Kind.DECIMAL:
            drop = 10 ** (source.scale - (target.scale if target.kind is Kind.DECIMAL else 0))
            if drop > 1:
                whole = (
                    "round_div({0}, np.int64({1}))" if target.kind is Kind.DECIMAL else "(({0} - rem({0}, {1})) // {1})"
                )
                wide = self._name(whole.format(wide, f"np.int64({drop})"))
        elif source.kind is Kind.TIMESTAMP and target.kind is Kind.DATE:
            wide = self._name(f"{wide} // np.int64({86_400 * _ticks(source)})")
        elif source.kind is target.kind and source.unit and _ticks(source) > _ticks(target):
            wide = self._name(f"{wide} // np.int64({_ticks(source) // _ticks(target)})")
        if not self._saturate:
            self._fit(wide, bounds(expr.args[0]), target, arg.valid)
        return _Value(self._name(wide), arg.valid)

    def _fit(self, code: str, span: tuple[int, int], target: SqlType, valid: str | None) -> None:
        """Note an overflow where ``code``, somewhere in ``span``, has too many digits for ``target``."""
        room = type_bounds(target)
        if target.kind in (Kind.INT, Kind.DECIMAL) and (span[0] < room[0] or span[1] > room[1]):
            self._fault(f"({code} < np.int64({room[0]})) | ({code} > np.int64({room[1]}))", valid)

    # -- small things --------------------------------------------------------

    def _refuse_layout(self, expr: Call) -> None:
        if storage_of(expr.type) is not Storage.FIXED:
            raise UnsupportedError(
                f"{expr.op}() over {expr.type} values is not supported; compare the columns directly."
            )

    def _name(self, code: str) -> str:
        """Assign ``code`` to a fresh variable and return its name."""
        name = f"{self._prefix}{self._count}"
        self._count += 1
        self.lines.append(f"{self.indent}{name} = {code}")
        return name

    def _all_valid(self, values: list[_Value]) -> str | None:
        terms = list(dict.fromkeys(value.valid for value in values if value.valid is not None))
        if len(terms) <= 1:
            return terms[0] if terms else None
        return self._name(" & ".join(f"({term})" for term in terms))

    def _both(self, valid: str | None, condition: str) -> str:
        return self._name(condition if valid is None else f"{valid} & {condition}")


def _constant(of: SqlType, number: int | float | None) -> str:
    """Return the source of a typed constant."""
    if of.kind is Kind.BOOL:
        return repr(bool(number))
    if of.kind is Kind.FLOAT:
        text = {"inf": "np.inf", "-inf": "-np.inf", "nan": "np.nan"}.get(
            repr(float(number or 0)), repr(float(number or 0))
        )
        return f"np.float{of.bits}({text})"
    return f"np.{machine_dtype(of)}({number})"


def _zero(of: SqlType) -> str:
    return "False" if of == BOOL else _constant(of, 0)
