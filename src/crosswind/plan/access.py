"""How windows are searched: the columns of their boxes, and what is checked beyond these."""

from __future__ import annotations

from dataclasses import dataclass

from crosswind.plan.box import Dimension
from crosswind.plan.logic import Formula

__all__ = ["Access"]


@dataclass(frozen=True)
class Access:
    """How the window of a unit is searched: boxes in ``dimensions``, then ``residual``.

    The residual is over slots. Without dimensions it is the whole condition. Where there
    are many streams or queries, the dimensions are all that some search may need, and what
    else is checked depends on the search; ``required`` says that a tuple with a null in a
    dimension can be no part of any result.
    """

    dimensions: tuple[Dimension, ...]
    residual: Formula
    required: bool = True
