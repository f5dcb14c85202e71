"""What a join is made of, save its frames: kept in its checkpoint, so that the join can be made again from there.

The state of the first cell holds it beside its blocks. ``crosswind checkpoint show`` tells the query from it, and
``crosswind checkpoint rescale`` routes what the cells hold to other cells by it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from crosswind.engine.session import parse_queries
from crosswind.errors import SnapshotError
from crosswind.plan.compile import Plan
from crosswind.plan.layout import CellLayout, choose_layout
from crosswind.spark.event_time import EventTime, event_time_of
from crosswind.spark.spec import JoinSpec, unit_plan

__all__ = ["Definition", "spec_of"]


@dataclass(frozen=True)
class Definition:
    """The arguments of a join, with what was chosen where they left a choice.

    ``schemas`` and ``times`` are by stream, and so are ``delays``: those of the watermarks that frames bring, in
    milliseconds (None: the frame has none). ``layout`` is as asked for; ``cells`` are those that were chosen, without
    the grids of ``hot_sides`` cells that ``hot`` places have.
    """

    query: str | Mapping[str, str]
    schemas: Mapping[str, pa.Schema]
    times: Mapping[str, str]
    delays: Mapping[str, int | None]
    event_time: str | None
    layout: str | tuple[int, ...]
    cells: int
    hot: tuple[int, ...] = ()
    hot_sides: tuple[int, int] = (1, 1)
    index: str = "auto"
    cache_bytes: int = 1 << 30

    def to_text(self) -> str:
        """Return the definition as text, the same for the same definition."""
        content = dict(vars(self))
        content["schemas"] = {
            name: base64.b64encode(schema.serialize().to_pybytes()).decode() for name, schema in self.schemas.items()
        }
        return json.dumps(content)

    @staticmethod
    def from_text(text: str | bytes) -> Definition:
        """Return the definition that was written as ``text``; raise SnapshotError if it is none."""
        try:
            content = json.loads(text)
            content["schemas"] = {
                name: pa.ipc.read_schema(pa.py_buffer(base64.b64decode(data)))
                for name, data in content["schemas"].items()
            }
            for name in ("layout", "hot", "hot_sides"):
                content[name] = tuple(content[name]) if isinstance(content[name], list) else content[name]
            return Definition(**content)
        except (ValueError, LookupError, TypeError, AttributeError, pa.ArrowException) as error:
            raise SnapshotError(
                f"the definition of the join in this checkpoint is damaged ({' '.join(str(error).split())}). Restore "
                f"the folder of the checkpoint from a copy."
            ) from None

    @property
    def text(self) -> str:
        """The queries in one line."""
        named = {"": self.query} if isinstance(self.query, str) else self.query
        return "; ".join(f"{name}: {' '.join(sql.split())}".removeprefix(": ") for name, sql in named.items())

    def make(self) -> tuple[JoinSpec, EventTime | None]:
        """Return the join, and the column of its result that carries event time."""
        plan, sources = unit_plan(parse_queries(self.query, dict(self.schemas), time=self.times))
        layout = choose_layout(plan, self.layout, None if isinstance(self.layout, tuple) else self.cells)
        return spec_of(self, plan, sources, replace(layout, hot=self.hot, hot_sides=self.hot_sides))


def spec_of(
    definition: Definition, plan: Plan, sources: tuple[str, ...], layout: CellLayout
) -> tuple[JoinSpec, EventTime | None]:
    """Return the join of ``plan``, without lateness, and the column of its result that carries event time."""
    fixed = [source for source, delay in definition.delays.items() if delay is not None]
    times = [unit.stream.time for unit in plan.units]
    carried = event_time_of(plan, definition.event_time, times, fixed=fixed)
    many = not isinstance(definition.query, str)
    spec = JoinSpec(
        plan,
        layout,
        sources,
        (0,) * len(sources),
        definition.index,
        definition.cache_bytes,
        many,
        0,
        bool(fixed),
        definition=definition.to_text(),
    )
    if carried is not None and not fixed:
        spec = spec.with_lag(carried.lag)
    return spec, carried
