"""Names: which stream and which column a name in the query means."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from crosswind.errors import QueryError, did_you_mean
from crosswind.query.tree import Column, Stream
from crosswind.query.types import sql_type

__all__ = ["Name", "Scope", "find_name"]


@dataclass(frozen=True)
class Name:
    """A name as written, and where."""

    text: str
    start: int = -1
    end: int = -1


@dataclass
class Scope:
    """The streams of one query and the names they bring.

    ``merged`` maps columns joined with USING to the role that stands for all of them;
    ``shown`` is how many of the streams ``SELECT *`` shows.
    """

    sql: str
    streams: Sequence[Stream] = ()
    merged: dict[str, int] = field(default_factory=dict)
    shown: int = 0

    def error(self, message: str, name: Name) -> QueryError:
        """Return an error that points at ``name``."""
        return QueryError(message, self.sql, name.start, name.end)

    def role(self, name: Name) -> int:
        """Return the position in FROM of the stream that ``name`` means."""
        aliases = [stream.alias for stream in self.streams]
        found = find_name(name.text, aliases)
        if found is not None:
            return aliases.index(found)
        renamed = next((stream for stream in self.streams if stream.name.lower() == name.text.lower()), None)
        if renamed is not None:
            raise self.error(
                f"The stream {renamed.name} is called {renamed.alias} in this query. "
                f"Write {renamed.alias} in place of {name.text}.",
                name,
            )
        raise self.error(
            f"Unknown stream '{name.text}'.{did_you_mean(name.text, aliases)} In FROM: {', '.join(aliases)}.", name
        )

    def column(self, name: Name, table: Name | None = None) -> Column:
        """Return the column that ``name``, perhaps qualified by ``table``, means."""
        if table is not None:
            return self.column_of(self.role(table), name, whole=Name(name.text, table.start, name.end))
        roles = self._roles_with(name)
        if len(roles) > 1:
            both = ", ".join(f"{self.streams[role].alias}.{name.text}" for role in roles)
            raise self.error(f"The column '{name.text}' is ambiguous. Write one of: {both}.", name)
        if not roles:
            every = {column: None for stream in self.streams for column in stream.schema.names}
            listed = "; ".join(f"{s.alias} has {', '.join(s.schema.names)}" for s in self.streams)
            raise self.error(f"Unknown column '{name.text}'.{did_you_mean(name.text, every)} {listed}.", name)
        return self.column_of(roles[0], name)

    def _roles_with(self, name: Name) -> list[int]:
        if name.text.lower() in self.merged:
            return [self.merged[name.text.lower()]]
        exact = [role for role, stream in enumerate(self.streams) if name.text in stream.schema.names]
        if exact:
            return exact
        low = name.text.lower()
        return [role for role, s in enumerate(self.streams) if any(column.lower() == low for column in s.schema.names)]

    def column_of(self, role: int, name: Name, whole: Name | None = None) -> Column:
        """Return the column of one stream that ``name`` means; ``whole`` is the place with the qualifier."""
        stream, place = self.streams[role], whole or name
        alike = [column for column in stream.schema.names if column.lower() == name.text.lower()]
        found = find_name(name.text, stream.schema.names)
        if found is None and alike:
            raise self.error(f"'{name.text}' is ambiguous in {stream.alias}: it could be {', '.join(alike)}.", name)
        if found is None:
            names = stream.schema.names
            raise self.error(
                f"Unknown column '{name.text}' of {stream.alias}.{did_you_mean(name.text, names)} "
                f"It has: {', '.join(names)}.",
                name,
            )
        if stream.schema.names.count(found) > 1:
            raise self.error(f"The stream {stream.name} has more than one column called '{found}'. Rename them.", name)
        of = sql_type(stream.schema.field(found).type)
        return Column(of, role, found, start=place.start, end=place.end)


def find_name(name: str, among: Iterable[str]) -> str | None:
    """Return the entry equal to ``name``, else the only one equal but for case, else None."""
    entries = list(among)
    if name in entries:
        return name
    alike = [entry for entry in entries if entry.lower() == name.lower()]
    return alike[0] if len(alike) == 1 else None


def stream_schema(name: Name, schemas: Mapping[str, pa.Schema], sql: str) -> str:
    """Return the key of ``schemas`` that a stream in FROM means."""
    found = find_name(name.text, schemas)
    if found is None:
        listed = ", ".join(schemas) or "none"
        raise QueryError(
            f"Unknown stream '{name.text}'.{did_you_mean(name.text, schemas)} Known: {listed}.",
            sql,
            name.start,
            name.end,
        )
    return found
