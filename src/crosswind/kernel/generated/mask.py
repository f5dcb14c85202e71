"""Which terms a candidate satisfies: one bit each.

One search serves many queries (:mod:`crosswind.plan.probe_steps`); this kernel then decides, for each
candidate, whose it is. A comparison that several of them make is made once. Queries that
differ in constants only are one loop over their constants, so a hundred of them are as
little code as one, and another one needs no new code at all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from crosswind.kernel.generated.emit import Emitter, Facts
from crosswind.kernel.generated.scan import WINDOW_POSITIONS
from crosswind.kernel.generated.source import header, leaves_at, open_arrays
from crosswind.kernel.jit import load_source
from crosswind.plan.alike import Blank, skeleton
from crosswind.plan.bounds import may_overflow
from crosswind.plan.logic import Atom, Formula, atoms_of, conjuncts
from crosswind.plan.physical import POINTERS_PER_COLUMN
from crosswind.plan.program import Slot
from crosswind.query.tree import Call, Expr, Literal, walk

__all__ = ["MaskSpec", "Pattern", "mask_kernel", "mask_source", "patterns_of"]

_SIGNATURE = (
    '"int64(int64[:, ::1], int64[::1], int64[::1], int64[::1], int64[::1], int64, '
    'int64, int64[::1], uint64[::1], int64[::1])"'
)


@dataclass(frozen=True)
class Pattern:
    """A condition with its constants blanked."""

    condition: Formula
    blanks: tuple[Blank, ...]


@dataclass(frozen=True)
class MaskSpec:
    """What a mask kernel is generated from: the slots of either side, and the conditions.

    Window slots are the columns from number ``skip`` on.
    """

    window: tuple[Slot, ...]
    probe: tuple[Slot, ...]
    skip: int
    patterns: tuple[Pattern, ...]


def patterns_of(conditions: tuple[Formula, ...]) -> dict[Pattern, list[tuple[int, tuple[Literal, ...]]]]:
    """Group conditions that differ in constants only: by pattern, which ones, with their constants."""
    made: dict[Pattern, list[tuple[int, tuple[Literal, ...]]]] = {}
    for number, condition in enumerate(conditions):
        found: list[Literal] = []
        bare = _blanked(condition, found)
        blanks = tuple(Blank(literal.type, k) for k, literal in enumerate(found))
        made.setdefault(Pattern(bare, blanks), []).append((number, tuple(found)))
    single: dict[Pattern, list[tuple[int, tuple[Literal, ...]]]] = {}
    for pattern, users in made.items():
        if len(users) > 1:
            single[pattern] = users
        else:  # nothing alike: constants stay in the code
            single.setdefault(Pattern(conditions[users[0][0]], ()), []).append((users[0][0], ()))
    return single


def _blanked(formula: Formula, found: list[Literal]) -> Formula:
    if isinstance(formula, Atom):
        bare, numbers = skeleton(formula.expr, sums=False)
        base = len(found)
        found += numbers
        return Atom(_shifted(bare, base))
    return type(formula)(tuple(_blanked(part, found) for part in formula.parts))


def _shifted(expr: Expr, base: int) -> Expr:
    if isinstance(expr, Blank):
        return Blank(expr.type, expr.index + base)
    if isinstance(expr, Call):
        return Call(expr.type, expr.op, tuple(_shifted(arg, base) for arg in expr.args), expr.function)
    return expr


def mask_source(spec: MaskSpec, facts: Facts) -> str:
    """Return the source of the kernel that fills the masks of candidates."""
    pad = " " * 8
    leaves = leaves_at(spec.window, "s", "i") | leaves_at(spec.probe, "p", "j")
    shared = Emitter(leaves, facts, pad)
    atoms = [atom.expr for pattern in spec.patterns for atom in atoms_of(pattern.condition)]
    plain = [expr for expr in dict.fromkeys(atoms) if _is_plain(expr)]
    known = {expr: shared.is_true(expr) for expr in plain}
    emitters = [shared]
    body: list[str] = []
    opened: list[str] = []
    row = 0
    for number, pattern in enumerate(spec.patterns):
        opened.append(f"    bits{number} = table[{row}]; size{number} = table[{row + 1}]")
        opened += open_arrays(pattern.blanks, f"b{number}_", "table[", nulls=facts.nulls, first=row + 2)
        row += 2 + POINTERS_PER_COLUMN * len(pattern.blanks)
        blanks = leaves_at(pattern.blanks, f"b{number}_", "q")
        emitter = Emitter({**leaves, **blanks, **known}, facts, " " * 12, prefix=f"m{number}v")
        emitters.append(emitter)
        body += _loop(number, pattern, emitter)
    first = WINDOW_POSITIONS + POINTERS_PER_COLUMN * spec.skip
    lines = [
        "",
        "",
        f"@jit({_SIGNATURE})",
        "def mask(win, probe, out_w, out_i, out_j, count, given, table, masks, state):",
        '    """Fill ``masks``; return 0, or -1 where arithmetic overflowed.',
        "",
        "    ``given``: address of the masks of the probing tuples. ``table``: for each pattern the",
        "    address and number of its bits, then its constants, three addresses each.",
        '    """',
        *open_arrays(spec.probe, "p", "probe[", nulls=facts.nulls),
        *opened,
        "    fault = False",
        "    for k in range(count):",
        "        w = out_w[k]; i = out_i[k]; j = out_j[k]",
        "        live = fetch(given, j, np.uint64)",
        "        found = np.uint64(0)",
        *open_arrays(spec.window, "s", "win[w, ", nulls=facts.nulls, first=first, indent=pad),
        *shared.lines,
        *body,
        "        masks[k] = found",
        "    return 0",
    ]
    return "\n".join([*header("Whose a candidate is, one bit a term.", emitters), *lines]) + "\n"


def _is_plain(expr: Expr) -> bool:
    """Whether a comparison has no blank and cannot fault, so that it may be made beforehand."""
    return not may_overflow(expr) and not any(isinstance(node, Blank) for node in walk(expr))


def _loop(number: int, pattern: Pattern, emitter: Emitter) -> list[str]:
    """Return the loop over the terms of a pattern; the cheap parts of the condition settle most."""
    pad = emitter.indent
    for part in sorted(conjuncts(pattern.condition), key=_cost):
        before, emitter.checks = emitter.checks, False
        truth = emitter.truth(part)
        if emitter.checks:
            emitter.lines += [
                f"{pad}if fault:",
                f"{pad}    state[1] = {number}; state[2] = q; state[3] = w; state[4] = i; state[5] = j",
                f"{pad}    return -1",
            ]
        emitter.checks |= before
        emitter.lines += [f"{pad}if not {truth}:", f"{pad}    continue"]
    return [
        f"        for q in range(size{number}):",
        f"            bit = fetch(bits{number}, q, np.uint64)",
        "            if live & bit == np.uint64(0):",
        "                continue",
        *emitter.lines,
        "            found |= bit",
    ]


def _cost(part: Formula) -> tuple[bool, int]:
    faults = any(may_overflow(atom.expr) for atom in atoms_of(part))
    return faults, sum(1 for atom in atoms_of(part) for _ in walk(atom.expr))


@lru_cache(maxsize=256)
def mask_kernel(spec: MaskSpec, facts: Facts) -> Callable[..., int]:
    """Return the compiled kernel of :func:`mask_source`."""
    kernel: Callable[..., int] = load_source(mask_source(spec, facts)).mask
    return kernel
