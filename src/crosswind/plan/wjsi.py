"""WJSI: programs of join units as 20-bit machine words, and back (WJSP §3.2, Figure 3, Table 1).

======  ===================================================  =====================================
JMPLI   0001 0000000000000000                                no comparison is true: go to the end
CMP     0011 own(2) stream(2) attribute(2) op(3) reg(6) 0    compare, outcome to a register
JOIN    0010 reg(6) tag(8) 00                                if the register is true, join: new tag
OR      11 reg(6) reg(6) reg(6)                              outcome in the last register
AND     10 reg(6) reg(6) reg(6)
JMPCT   01 tag(8) address(10)                                if the tuple's tag is another: go on there
JMP     00001 address(10) 00000
NOP     00000000000000000000                                 the end
======  ===================================================  =====================================

The paper shows one operator of CMP, ``001`` for ``=``; the codes of the others are ours. Its
registers 0 to 15 hold comparisons, those from 16 on what AND and OR make of them; so here.
Our programs name for each JOIN the tag it answers to; the jumps that make this true are put
back by :func:`assemble`. Register 63 is always true: some joins have no condition, and stand before
the comparisons, since JMPLI skips what follows when none of those holds. A program
fits the processor if it compares plain columns, and if its streams, columns, registers and
tags are few enough; :func:`assemble` says what does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from crosswind.errors import UnsupportedError
from crosswind.plan.compile import Plan
from crosswind.plan.logic import INVERSE
from crosswind.plan.program import ALWAYS, Instruction, Opcode, Program
from crosswind.query.tree import Call, Column, Expr

__all__ = ["Line", "assemble", "decode", "encode", "listing", "parse_listing"]

_OPERATORS = {"eq": 1, "ne": 2, "lt": 3, "le": 4, "gt": 5, "ge": 6}
_TURNED = {"eq": "eq", "ne": "ne", "lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}
_FIELDS: dict[str, tuple[tuple[int, int], tuple[int, ...], int]] = {
    "OR": ((0b11, 2), (6, 6, 6), 0),
    "AND": ((0b10, 2), (6, 6, 6), 0),
    "JMPCT": ((0b01, 2), (8, 10), 0),
    "CMP": ((0b0011, 4), (2, 4, 3, 6), 1),
    "JOIN": ((0b0010, 4), (6, 8), 2),
    "JMPLI": ((0b0001, 4), (), 16),
    "JMP": ((0b00001, 5), (10,), 5),
    "NOP": ((0, 20), (), 0),
}
"""Opcode with its width, widths of the operands, zeros at the end. No opcode begins another."""

_COMBINED = 16
"""The first register for what AND and OR make."""

_TRUE = 63
"""The register that is always true."""


@dataclass(frozen=True)
class Line:
    """One instruction: its name and its operands, in the order of the word."""

    name: str
    operands: tuple[int, ...] = ()

    def __str__(self) -> str:
        """Return the instruction as the paper writes it, operands in binary."""
        widths = _FIELDS[self.name][1]
        text = ",".join(f"{value:0{width}b}" for value, width in zip(self.operands, widths, strict=True))
        return f"{self.name} {text}".rstrip()


def encode(line: Line) -> int:
    """Return the 20-bit word of an instruction."""
    if line.name not in _FIELDS:
        raise UnsupportedError(f"WJSI has no instruction '{line.name}'; it has {', '.join(_FIELDS)}.")
    (code, _), widths, zeros = _FIELDS[line.name]
    if len(line.operands) != len(widths):
        raise UnsupportedError(f"{line.name} takes {len(widths)} operands, got {len(line.operands)}.")
    for value, width in zip(line.operands, widths, strict=True):
        if not 0 <= value < 1 << width:
            raise UnsupportedError(f"{line.name}: {value} does not fit into {width} bits.")
        code = code << width | value
    return code << zeros


def decode(word: int) -> Line:
    """Return the instruction of a 20-bit word."""
    if not 0 <= word < 1 << 20:
        raise UnsupportedError(f"{word} is no word of 20 bits.")
    for name, ((code, size), widths, zeros) in _FIELDS.items():
        if word >> (20 - size) == code:
            left = word & ((1 << (20 - size)) - 1)
            if left & ((1 << zeros) - 1):
                raise UnsupportedError(f"the word {word:020b} is no {name}: it does not end in {zeros} zeros.")
            left >>= zeros
            operands = []
            for width in reversed(widths):
                operands.append(left & ((1 << width) - 1))
                left >>= width
            return Line(name, tuple(reversed(operands)))
    raise UnsupportedError(f"the word {word:020b} is no instruction of WJSI.")


def parse_listing(text: str) -> list[Line]:
    """Read instructions as :class:`Line` writes them, one a line; addresses and words beside them are left out."""
    lines = []
    for row in text.splitlines():
        words = row.split()
        at = next((k for k, word in enumerate(words) if word in _FIELDS), None)
        if at is None:
            continue
        operands = words[at + 1].split(",") if _FIELDS[words[at]][1] else []
        lines.append(Line(words[at], tuple(int(operand, 2) for operand in operands)))
    return lines


def listing(lines: Sequence[Line]) -> list[str]:
    """Return a program as text: address, word, instruction."""
    return [f"{k:>3}  {_grouped(encode(line))}  {line}" for k, line in enumerate(lines)]


def _grouped(word: int) -> str:
    bits = f"{word:020b}"
    return ",".join(bits[k : k + 4] for k in range(0, 20, 4))


def assemble(plan: Plan, unit: int) -> list[Line]:
    """Return the WJSI program of a join unit.

    Raises
    ------
    UnsupportedError
        If the program does not fit the processor.
    """
    if len(plan.units) > 4:
        raise UnsupportedError(f"WJSI names up to 4 streams, the plan has {len(plan.units)}.")
    program = plan.programs[unit]
    conditions, registers = _conditions(plan, program)
    joins = [step for step in program.instructions if step.opcode is Opcode.JOIN]
    lines: list[Line] = []
    for section in _by_tag([step for step in joins if step.sources[0] == ALWAYS]):
        # Ahead of JMPLI, which would leave them out where no comparison holds.
        lines.append(Line("JMPCT", (section[0].on, len(lines) + 1 + len(section))))
        lines += [Line("JOIN", (_TRUE, step.target)) for step in section]
    lines += conditions
    sections = _by_tag([step for step in joins if step.sources[0] != ALWAYS])
    begin = len(lines)
    end = begin + sum(2 + len(section) for section in sections) - bool(sections)
    for number, section in enumerate(sections):
        last = number == len(sections) - 1
        begin += 1 + len(section) + (not last)
        lines.append(Line("JMPCT", (section[0].on, end if last else begin)))
        lines += [Line("JOIN", (registers[step.sources[0]], step.target)) for step in section]
        lines += [] if last else [Line("JMP", (end,))]
    lines.append(Line("NOP"))
    for line in lines:
        encode(line)
    return lines


def _by_tag(joins: list[Instruction]) -> list[list[Instruction]]:
    """Return the joins that answer to the same tag together."""
    tags = dict.fromkeys(step.on for step in joins)
    return [[step for step in joins if step.on == tag] for tag in tags]


def _conditions(plan: Plan, program: Program) -> tuple[list[Line], dict[int, int]]:
    """Return comparisons, JMPLI and what combines them, and the register of the machine for each of ours."""
    compares: list[Line] = []
    combines: list[Line] = []
    registers: dict[int, int] = {ALWAYS: _TRUE}
    atoms: dict[int, Expr] = {}
    spare = _COMBINED
    for step in program.instructions:
        if step.opcode is Opcode.CMP and step.atom is not None:
            registers[step.target], atoms[step.target] = len(compares), step.atom
            compares.append(_compare(plan, program.unit, step.atom, len(compares)))
        elif step.opcode is Opcode.NOT:
            if len(step.sources) != 1 or step.sources[0] not in atoms:
                raise UnsupportedError("WJSI has no NOT; only a single comparison can be turned around.")
            registers[step.target] = len(compares)
            compares.append(_compare(plan, program.unit, _inverse(atoms[step.sources[0]]), len(compares)))
        elif step.opcode is not Opcode.JOIN:
            first, *others = [registers[source] for source in step.sources]
            for other in others:
                combines.append(Line(step.opcode.value, (first, other, spare)))
                first, spare = spare, spare + 1
            registers[step.target] = first
    if len(compares) > _COMBINED:
        raise UnsupportedError(f"WJSI has {_COMBINED} registers for comparisons, the program makes {len(compares)}.")
    if spare > _TRUE:
        raise UnsupportedError(
            f"WJSI has {_TRUE - _COMBINED} registers for what AND and OR make, the program needs {spare - _COMBINED}."
        )
    return [*compares, Line("JMPLI"), *combines], registers


def _compare(plan: Plan, unit: int, atom: Expr, register: int) -> Line:
    if isinstance(atom, Call) and atom.op in _OPERATORS:
        left, right = (_bare(arg) for arg in atom.args)
        if isinstance(left, Column) and isinstance(right, Column):
            op = atom.op
            if left.role != unit:
                left, right, op = right, left, _TURNED[op]
            if left.role == unit != right.role:
                own, other = _attribute(plan, left), _attribute(plan, right)
                return Line("CMP", (own, right.role << 2 | other, _OPERATORS[op], register))
    raise UnsupportedError("WJSI compares a column of the unit's stream with a column of another, and nothing else.")


def _inverse(atom: Expr) -> Expr:
    """Return the comparison that holds where ``atom`` does not; the machine knows no nulls."""
    if isinstance(atom, Call) and atom.op in INVERSE:
        return Call(atom.type, INVERSE[atom.op], atom.args)
    return atom


def _bare(expr: Expr) -> Expr:
    """Look through conversions: the machine has one type."""
    return expr.args[0] if isinstance(expr, Call) and expr.op == "cast" else expr


def _attribute(plan: Plan, column: Column) -> int:
    stream = plan.units[column.role].stream
    names = [name for name in stream.schema.names if name != stream.time]
    if column.name not in names[:4]:
        raise UnsupportedError(
            f"WJSI names up to 4 columns of a stream; {stream.alias}.{column.name} is not among them."
        )
    return names.index(column.name)
