"""Programs and the routing table: the one mechanism behind every join.

WJSP §3: each stream has a join unit with a small program (CMP, AND, OR, JOIN tag), and
a routing table says, for each tag, where a tuple is inserted, which units it probes and
which queries it is a result of. A tuple arrives with the tag of its stream; a JOIN
gives the joined tuple a new tag, with which it is routed on. A binary join is the table
with two arrivals and two results; an m-way join has tags for partial results (MJoin);
many queries have many tags. Deviation: jumps are not stored but implied, a JOIN names
the tag it answers to; the assembler can put them back.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from crosswind.plan.logic import Atom, Formula
from crosswind.query.tree import Call, Column, Expr, Literal, roles_of

__all__ = ["ALWAYS", "Instruction", "Opcode", "Program", "Route", "Slot", "SlotTable"]

ALWAYS = -1
"""The register that is always true: a JOIN without a condition."""


class Opcode(Enum):
    """What an instruction does."""

    CMP = "CMP"
    AND = "AND"
    OR = "OR"
    NOT = "NOT"
    JOIN = "JOIN"


@dataclass(frozen=True)
class Instruction:
    """One instruction.

    CMP puts the truth of ``atom`` into register ``target``; AND, OR and NOT (none of them)
    combine the registers ``sources`` into ``target``; JOIN gives a pair whose register
    ``sources[0]`` is true, and whose left part came with tag ``on``, the tag ``target``.
    """

    opcode: Opcode
    target: int
    sources: tuple[int, ...] = ()
    atom: Expr | None = None
    on: int = -1


@dataclass(frozen=True)
class Program:
    """What join unit ``unit`` does to every tuple that probes its window."""

    unit: int
    instructions: tuple[Instruction, ...]


@dataclass(frozen=True)
class Route:
    """A row of the routing table.

    ``members`` are the units whose tuples a tuple with this tag is made of.
    """

    tag: int
    members: tuple[int, ...]
    insert: int | None
    probe: tuple[int, ...]
    queries: tuple[str, ...]


@dataclass(frozen=True)
class Slot(Expr):
    """A value that each tuple of join unit ``unit`` carries: column ``index`` of its slots."""

    unit: int
    index: int


class SlotTable:
    """Collects, for each unit, the single-stream expressions that its tuples must carry.

    They are computed once, when a tuple arrives, so that a pair costs only what really
    depends on both sides (CellJoin §3.2: only the join attributes travel).
    """

    def __init__(self, units: int) -> None:
        self._slots: list[dict[Expr, int]] = [{} for _ in range(units)]

    @classmethod
    def of(cls, slots: tuple[tuple[Expr, ...], ...]) -> SlotTable:
        """Return the table in which each unit has these slots."""
        table = cls(len(slots))
        table._slots = [{expr: index for index, expr in enumerate(exprs)} for exprs in slots]
        return table

    def slots(self, unit: int) -> tuple[Expr, ...]:
        """Return the expressions that tuples of ``unit`` carry."""
        return tuple(self._slots[unit])

    def carry(self, expr: Expr, but: int) -> None:
        """Let tuples of all units, ``but`` one, carry the columns that ``expr`` is computed from."""
        if isinstance(expr, Column) or _is_leaf_conversion(expr):
            (unit,) = roles_of(expr)
            if unit != but:
                self._slots[unit].setdefault(expr, len(self._slots[unit]))
        elif isinstance(expr, Call):
            for arg in expr.args:
                self.carry(arg, but)

    def rewrite_leaf(self, leaf: Expr) -> Slot:
        """Return the slot of a column that :meth:`carry` has let tuples carry."""
        (unit,) = roles_of(leaf)
        return Slot(leaf.type, unit, self._slots[unit][leaf])

    def rewrite_formula(self, formula: Formula) -> Formula:
        """Return ``formula`` with its atoms rewritten."""
        if isinstance(formula, Atom):
            return Atom(self.rewrite(formula.expr))
        return type(formula)(tuple(self.rewrite_formula(part) for part in formula.parts))

    def rewrite(self, expr: Expr) -> Expr:
        """Return ``expr`` with every largest single-stream part replaced by its slot.

        A bare conversion of a column stays in the program: the narrow column is less to
        keep and to scan than the wide one.
        """
        roles = roles_of(expr)
        if len(roles) == 1 and not _is_conversion(expr):
            unit = min(roles)
            index = self._slots[unit].setdefault(expr, len(self._slots[unit]))
            return Slot(expr.type, unit, index, start=expr.start, end=expr.end)
        if isinstance(expr, Literal) or not isinstance(expr, Call):
            return expr
        args = tuple(self.rewrite(arg) for arg in expr.args)
        return Call(expr.type, expr.op, args, expr.function, start=expr.start, end=expr.end)


def _is_leaf_conversion(expr: Expr) -> bool:
    """Whether ``expr`` converts a column to or from a type that kernels do not compute in."""
    if not (isinstance(expr, Call) and expr.op == "cast" and isinstance(expr.args[0], Column)):
        return False
    return expr.type.is_wide or expr.args[0].type.is_wide


def _is_conversion(expr: Expr) -> bool:
    """Whether ``expr`` only converts a column to another type that kernels compute in."""
    return (
        isinstance(expr, Call)
        and expr.op == "cast"
        and isinstance(expr.args[0], Column)
        and not _is_leaf_conversion(expr)
    )
