"""An explanation of a plan: text that is also sections, and HTML in notebooks."""

from __future__ import annotations

import html
from collections.abc import Iterable
from typing import Self

from crosswind.plan.explain import Section

__all__ = ["Explanation"]

_TITLE = 9
"""Characters of a title that has its first line beside it."""

_OPEN = ("tree", "streams", "constants", "keys", "bands", "residual", "engine", "index", "layout", "cost", "warnings")
"""Sections that a notebook shows unfolded."""

_STYLE = (
    "<style>.crosswind-plan{font:13px/1.45 system-ui,sans-serif;border:1px solid #8884;border-radius:6px;"
    "padding:8px 12px;max-width:110ch}.crosswind-plan summary{cursor:pointer;font-weight:600}"
    ".crosswind-plan pre{margin:2px 0 6px 1.2em;white-space:pre-wrap;background:none}"
    ".crosswind-plan .warn{border-left:3px solid #d97706;padding-left:8px}</style>"
)


class Explanation(str):
    """How a query will be run, and why.

    A text. In a notebook it shows as sections to fold; ``sections`` has them as lists of lines, by title.

    Examples
    --------
    >>> import crosswind as cw, pyarrow as pa
    >>> r = pa.schema({"ts": pa.int64(), "x": pa.int32()})
    >>> plan = cw.explain("SELECT a.x FROM R [RANGE 5] a, R [RANGE 5] b WHERE abs(a.x - b.x) < 3", {"R": r})
    >>> plan.sections["bands"]
    ['-3 < a.x - b.x < 3']
    """

    __slots__ = ("_listed",)
    _listed: tuple[Section, ...]

    @classmethod
    def of(cls, sections: Iterable[Section]) -> Self:
        """Return the explanation that consists of ``sections``; empty ones are left out."""
        listed = tuple(section for section in sections if section[1])
        made = cls("\n".join(_lay_out(section) for section in listed))
        made._listed = listed
        return made

    @property
    def sections(self) -> dict[str, list[str]]:
        """The lines of each section, by title."""
        found: dict[str, list[str]] = {}
        last = ""
        for title, lines in self._listed:
            last = title or last
            found.setdefault(last, []).extend(lines)
        return found

    def _repr_html_(self) -> str:
        parts = []
        for title, lines in self.sections.items():
            shown = html.escape("\n".join(lines))
            unfolded = " open" if title.rpartition(": ")[2] in _OPEN else ""
            kind = ' class="warn"' if title == "warnings" else ""
            parts.append(
                f"<details{unfolded}{kind}><summary>{html.escape(title)}</summary><pre>{shown}</pre></details>"
            )
        return f'{_STYLE}<div class="crosswind-plan">{"".join(parts)}</div>'


def _lay_out(section: Section) -> str:
    """Return a section as lines, its title before the first."""
    title, lines = section
    if title in ("source", "assembly"):
        return "\n" + "\n".join(lines)
    head = [title] if len(title) > _TITLE else []
    shown = "" if head else title
    return "\n".join([*head, *(f"{shown if k == 0 else '':<{_TITLE + 1}}{line}" for k, line in enumerate(lines))])
