"""The first look at the text: where strings, quoted names, comments and ``[...]`` are.

sqlglot knows no window clauses. They are cut out here and overwritten with spaces, so
that every offset sqlglot reports stays a valid offset into the text the user wrote.
"""

from __future__ import annotations

from dataclasses import dataclass

from crosswind.errors import QueryError

__all__ = ["Bracket", "Source", "scan"]

_CLOSERS = {"'": "'", '"': '"', "`": "`"}
_WHAT = {"'": "string literal", '"': "quoted name", "`": "quoted name", "/*": "comment", "[": "window clause"}


@dataclass(frozen=True)
class Bracket:
    """A ``[...]`` in the text: its content and the offsets of the whole, brackets included."""

    content: str
    start: int
    end: int


@dataclass(frozen=True)
class Source:
    """The query text in three readings of equal length.

    ``sql`` is as written; ``code`` has comments and window clauses blanked out, for
    sqlglot; ``mask`` has strings and quoted names blanked out too, to look for keywords.
    """

    sql: str
    code: str
    mask: str
    brackets: tuple[Bracket, ...]


def scan(sql: str) -> Source:
    """Split ``sql`` into what sqlglot may read and the window clauses it may not."""
    code, mask = list(sql), list(sql)
    brackets: list[Bracket] = []
    at = 0
    while at < len(sql):
        end, kind = _piece(sql, at)
        if kind in ("comment", "["):
            _blank(code, at, end)
        if kind:
            _blank(mask, at, end)
        if kind == "[":
            brackets.append(Bracket(sql[at + 1 : end - 1], at, end))
        at = end
    return Source(sql, "".join(code), "".join(mask), tuple(brackets))


def _piece(sql: str, at: int) -> tuple[int, str]:
    """Return the end and the kind of the piece of text at ``at``; the kind of plain text is empty."""
    char = sql[at]
    if char in _CLOSERS:
        return _end_of_quoted(sql, at), char
    if sql.startswith("--", at):
        newline = sql.find("\n", at)
        return (len(sql) if newline < 0 else newline), "comment"
    if sql.startswith("/*", at):
        close = sql.find("*/", at + 2)
        if close < 0:
            raise _unclosed(sql, at, "/*", "*/")
        return close + 2, "comment"
    if char == "[":
        close = sql.find("]", at)
        opened = sql.find("[", at + 1)
        if close < 0 or 0 <= opened < close:
            raise _unclosed(sql, at, "[", "]")
        return close + 1, "["
    if char == "]":
        raise QueryError("This ']' closes nothing: no '[' comes before it.", sql, at, at + 1)
    return at + 1, ""


def _end_of_quoted(sql: str, start: int) -> int:
    """Return the offset after the literal that opens at ``start``; a doubled quote is part of it."""
    quote = sql[start]
    at = start + 1
    while at < len(sql):
        if sql[at] == "\\" and quote == "'":
            at += 2
        elif sql[at] != quote:
            at += 1
        elif sql.startswith(quote, at + 1):
            at += 2
        else:
            return at + 1
    raise _unclosed(sql, start, quote, quote)


def _unclosed(sql: str, start: int, opener: str, closer: str) -> QueryError:
    what = _WHAT[opener]
    return QueryError(f"This {what} is never closed. Add the missing {closer}", sql, start, start + len(opener))


def _blank(text: list[str], start: int, end: int) -> None:
    """Overwrite a stretch with spaces; line ends stay, so line numbers do too."""
    for at in range(start, end):
        if text[at] != "\n":
            text[at] = " "
