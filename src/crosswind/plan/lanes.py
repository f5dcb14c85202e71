"""Which conditions many pairs can be compared by with one instruction."""

from __future__ import annotations

from crosswind.plan.logic import Formula, atoms_of
from crosswind.plan.physical import Storage, storage_of
from crosswind.query.tree import COMPARISONS, Call, Expr, walk

__all__ = ["is_vectorised"]

_LANE_OPS = {*COMPARISONS, "add", "sub", "mul", "neg", "abs", "div", "sqrt", "cast", "least", "greatest", "coalesce"}
_LANE_OPS |= {"and", "or", "not", "if", "is_null", "is_true", "is_false", "same"}


def is_vectorised(condition: Formula) -> bool:
    """Whether LLVM can be expected to make vector code of ``condition``: no calls, no texts."""
    nodes = [node for atom in atoms_of(condition) for node in walk(atom.expr)]
    return bool(nodes) and all(map(_has_lanes, nodes))


def _has_lanes(node: Expr) -> bool:
    return storage_of(node.type) is Storage.FIXED and (not isinstance(node, Call) or node.op in _LANE_OPS)
