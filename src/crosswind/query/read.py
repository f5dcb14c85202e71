"""Query text to :class:`~crosswind.query.tree.Query`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
from sqlglot import exp

from crosswind.errors import QueryError, UnsupportedError, did_you_mean
from crosswind.query.check import Checker, all_of, name_of, place_of
from crosswind.query.coerce import compare
from crosswind.query.dialect import parse_statements
from crosswind.query.project import project
from crosswind.query.refusal import RefusalError
from crosswind.query.room import with_room
from crosswind.query.scan import Source, scan
from crosswind.query.scope import Name, Scope, find_name, stream_schema
from crosswind.query.tree import Call, Expr, Literal, Query, Range, Stream, Window, roles_of
from crosswind.query.types import Kind, sql_type
from crosswind.query.windows import ALLOWED, parse_window

__all__ = ["read"]

_AFTER = "the result afterwards"
_CLAUSES = {
    "group": ("GROUP BY", f"Aggregate {_AFTER}."),
    "having": ("HAVING", f"Aggregate and filter {_AFTER}."),
    "order": ("ORDER BY", f"Sort {_AFTER}; ordered=True gives results in time order."),
    "sort": ("SORT BY", f"Sort {_AFTER}; ordered=True gives results in time order."),
    "limit": ("LIMIT", f"Cut {_AFTER}."),
    "offset": ("OFFSET", f"Cut {_AFTER}."),
    "distinct": ("DISTINCT", f"Remove duplicates from {_AFTER}."),
    "with_": ("WITH", "Name the streams in FROM directly; prepare them before the join."),
    "qualify": ("QUALIFY", f"Filter {_AFTER}."),
    "windows": ("WINDOW", f"Apply window functions to {_AFTER}."),
    "laterals": ("LATERAL", "Bring what it yields into the stream before the join."),
}
_PARTS = {"expressions", "from_", "joins", "where", "kind", "hint", "operation_modifiers"}
_EXAMPLE = "for example SELECT R.x, S.a FROM R [RANGE 15 MINUTES], S [RANGE 15 MINUTES] WHERE R.x = S.a"
_DEPTH = 100
"""Levels of an expression, and of parentheses and CASE in its text."""
_SIZE = 2_000
"""Operations of an expression: to compile more takes minutes."""
_VALUES = 100_000
"""Constants in the lists of an expression."""
_OPENS, _CLOSES = re.compile(r"\(|\bCASE\b", re.IGNORECASE), re.compile(r"\)|\bEND\b", re.IGNORECASE)
_SURROGATE = re.compile("[\ud800-\udfff]")
_SPLIT = "Split it into several queries, or use @crosswind.predicate."
_SIGNS = re.compile(rf"(?:(?:\bNOT\b|[-+~!])\s*){{{_DEPTH + 1}}}", re.IGNORECASE)
_JOINS = (
    "Allowed: INNER JOIN, CROSS JOIN, a comma; between two streams also LEFT, RIGHT and FULL OUTER JOIN, "
    "LEFT SEMI JOIN and LEFT ANTI JOIN."
)
_WORDS = ("POSITIONAL", "ARRAY", "HASH", "MERGE", "LOOP", "LOOKUP", "GLOBAL", "ANY", "PASTE", "TEMPORAL", "BROADCAST")
"""Words that other languages have before JOIN, and that could be read as the name of the stream before them."""
_KINDS = {("", ""), ("", "INNER"), ("", "CROSS"), ("", "SEMI"), ("", "ANTI"), ("LEFT", "SEMI"), ("LEFT", "ANTI")}
_KINDS |= {(side, kind) for side in ("LEFT", "RIGHT", "FULL") for kind in ("", "OUTER")}


@dataclass(frozen=True)
class _Item:
    """One entry of FROM as written."""

    name: Name
    alias: Name | None
    join: exp.Join | None


def read(sql: str, schemas: Mapping[str, pa.Schema], time: str | Mapping[str, str] = "ts") -> Query:
    """Parse, bind and type-check ``sql``; see :func:`crosswind.query.parse`."""
    if not isinstance(sql, str):
        raise QueryError(f"A query must be text, got {type(sql).__name__}. Write it as SQL, {_EXAMPLE}.")
    _check_characters(sql)
    scope = Scope(sql)
    source = scan(sql)
    _check_nesting(source)
    try:
        return with_room(lambda: _query(source, scope, schemas, time))
    except RefusalError as refusal:
        error = with_room(partial(refusal.told, sql, scope.streams))
    except RecursionError:
        error = _too_deep(sql)
    raise error


def _check_characters(sql: str) -> None:
    """Refuse halves of characters, which no encoding of text can hold."""
    half = _SURROGATE.search(sql)
    if half is not None:
        raise QueryError(
            f"The query holds a lone surrogate, {half.group()!a}: half of a character, which is no text. Decode the "
            "query with errors='replace', or take it out.",
            _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", sql),
            half.start(),
            half.end(),
        )


def _too_deep(sql: str, start: int = -1, end: int = -1) -> QueryError:
    return QueryError(
        f"The query is too deeply nested: at most {_DEPTH} levels of parentheses, functions, NOT and CASE are allowed. "
        "Take some of them out of each other.",
        sql,
        start,
        end,
    )


def _check_nesting(source: Source) -> None:
    """Refuse a text that nests more than a parser can follow, whatever the caller's stack."""
    signs = _SIGNS.search(source.mask)
    if signs is not None:
        raise _too_deep(source.sql, signs.start(), signs.start() + 1)
    places = [(match.start(), 1) for match in _OPENS.finditer(source.mask)]
    places += [(match.start(), -1) for match in _CLOSES.finditer(source.mask)]
    depth = 0
    for at, step in sorted(places):
        depth += step
        if depth > _DEPTH:
            raise _too_deep(source.sql, at, at + 1)


_CHAINS = (exp.And, exp.Or, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod)
"""What is read from the left in a loop, however long it is."""
_TREE_DEPTH = 4 * _DEPTH
"""Levels of sqlglot's tree: it has some for each of ours."""


def _check_tree(select: exp.Select, sql: str) -> None:
    """Refuse a tree that is deep though its text is not nested, such as ``a = b = c = ...``."""
    stack: list[tuple[exp.Expr, int]] = [(select, 0)]
    while stack:
        node, depth = stack.pop()
        if depth > _TREE_DEPTH:
            raise _too_deep(sql)
        for child in node.iter_expressions():
            chained = isinstance(child, _CHAINS) and child is node.this
            stack.append((child, depth + (not chained)))


def _query(source: Source, scope: Scope, schemas: Mapping[str, pa.Schema], time: str | Mapping[str, str]) -> Query:
    select = _select(source)
    _check_tree(select, source.sql)
    items = _from(select, source)
    windows = _windows(items, source)
    _check_time_keys(items, schemas, time)
    scope.streams = tuple(_stream(item, windows[at], schemas, time, source.sql) for at, item in enumerate(items))
    _check_aliases(items, scope)
    _check_times(items, scope)
    checker = Checker(scope)
    kind = _kind(items, source)
    conditions = list(_conditions(items, checker))
    after = select.args.get("where")
    filters = [] if after is None else [checker.condition(after.this, "WHERE")]
    if kind == "inner":
        conditions, filters = conditions + filters, []
    scope.shown = 1 if kind in ("semi", "anti") else len(scope.streams)
    outputs = project(select.expressions, checker)
    where = all_of(conditions) if conditions else None
    for expr in [*conditions, *filters, *(output.expr for output in outputs)]:
        _check_size(expr, source.sql)
    _check_shown([*filters, *(output.expr for output in outputs)], kind, scope)
    return Query(source.sql, scope.streams, where, outputs, kind, filters[0] if filters else None)


def _kind(items: list[_Item], source: Source) -> str:
    """Return the kind of join that FROM asks for."""
    for item in items:
        if item.join is None:
            continue
        side, word = (str(item.join.args.get(part) or "").upper() for part in ("side", "kind"))
        kind = word.lower() if word in ("SEMI", "ANTI") else side.lower()
        if not kind:
            continue
        if len(items) > 2:
            raise UnsupportedError(
                f"{kind.upper()} JOIN joins two streams, FROM names {len(items)}. Join two of them, and push the "
                "result into another join.",
                source.sql,
                item.name.start,
                item.name.end,
            )
        if kind in ("right", "full") and item.join.args.get("using"):
            raise UnsupportedError(
                f"USING is not supported in a {kind.upper()} JOIN: the column has two sides. Write the equality "
                "after ON.",
                source.sql,
                item.name.start,
                item.name.end,
            )
        return kind
    return "inner"


def _check_shown(exprs: list[Expr], kind: str, scope: Scope) -> None:
    """Refuse columns of the right stream where only tuples of the left one come out."""
    for expr in exprs:
        if scope.shown == 1 and roles_of(expr) - {0}:
            raise QueryError(
                f"A {kind.upper()} JOIN gives tuples of {scope.streams[0].alias} only: SELECT and WHERE cannot use "
                f"columns of {scope.streams[1].alias}. Put conditions on it after ON.",
                scope.sql,
                expr.start,
                expr.end,
            )


def _check_size(root: Expr, sql: str) -> None:
    """Refuse an expression that others could not walk by recursion, or not in reasonable time.

    Depth and size are those of the tree, though it may share parts: ``nullif(a, b)`` holds
    ``a`` twice, so that nesting it doubles the tree each time. A list that is looked up is one operation.
    """
    done: dict[int, tuple[int, int, int]] = {}
    stack = [root]
    while stack:
        expr = stack[-1]
        args = expr.args if isinstance(expr, Call) else ()
        waiting = [arg for arg in args if id(arg) not in done]
        if waiting:
            stack += waiting
            continue
        stack.pop()
        depth = 1 + max((done[id(arg)][0] for arg in args), default=0)
        size = int(isinstance(expr, Call)) + sum(done[id(arg)][1] for arg in args)
        values = int(isinstance(expr, Literal)) + sum(done[id(arg)][2] for arg in args)
        done[id(expr)] = depth, size, values
        counted = [(depth, _DEPTH, "levels"), (size, _SIZE, "operations"), (values, _VALUES, "constants")]
        for count, most, what in counted:
            if count > most:
                raise QueryError(
                    f"The expression is too deeply nested or too large: at most {most:,} {what} are allowed. {_SPLIT}",
                    sql,
                    root.start,
                    root.end,
                )


def _select(source: Source) -> exp.Select:
    """Return the one SELECT of the text, without anything a window join does not have."""
    sql = source.sql
    if not source.code.strip(" \t\r\n;"):
        raise QueryError(f"The query is empty. Write a SELECT, {_EXAMPLE}.")
    statements = [statement for statement in parse_statements(source) if statement is not None]
    if len(statements) != 1:
        at = source.mask.find(";")
        raise QueryError(
            f"Expected one SELECT, got {len(statements)} statements. To run many queries, give a mapping of names "
            "to queries.",
            sql,
            at,
            at + 1,
        )
    (statement,) = statements
    while isinstance(statement, exp.Subquery) and not any(v for k, v in statement.args.items() if k != "this"):
        statement = statement.this
    if isinstance(statement, exp.SetOperation):
        raise _refused(source, type(statement).__name__.upper(), "Run each SELECT as a query of its own.")
    if not isinstance(statement, exp.Select):
        raise QueryError(f"Expected a SELECT, {_EXAMPLE}.", sql, *_first_word(source))
    for part, value in statement.args.items():
        if value and part not in _PARTS:
            keyword, step = _CLAUSES.get(part, (part.strip("_").upper(), "Leave it out."))
            raise _refused(source, keyword, step)
    if not statement.expressions:
        raise QueryError(f"SELECT needs at least one column, or '*', {_EXAMPLE}.", sql, *_first_word(source))
    return statement


def _refused(source: Source, keyword: str, step: str) -> UnsupportedError:
    match = re.search(r"\b" + keyword.replace(" ", r"\s+") + r"\b", source.mask, re.IGNORECASE)
    start, end = match.span() if match else (-1, -1)
    return UnsupportedError(f"{keyword} is not supported in a window join. {step}", source.sql, start, end)


def _first_word(source: Source) -> tuple[int, int]:
    match = re.search(r"\S+", source.code)
    return match.span() if match else (-1, -1)


def _from(select: exp.Select, source: Source) -> list[_Item]:
    """Return the entries of FROM in order."""
    clause = select.args.get("from_")
    if clause is None:
        raise QueryError(f"FROM is missing: a join needs at least two streams, {_EXAMPLE}.", source.sql)
    items = [_item(clause.this, None, source)]
    items += [_item(join.this, join, source) for join in select.args.get("joins") or ()]
    if len(items) < 2:
        name = items[0].name
        raise QueryError(
            f"A join needs at least two streams, got only {name.text}. To join it with itself, give it two names: "
            f"FROM {name.text} [RANGE 15 MINUTES] AS a, {name.text} [RANGE 15 MINUTES] AS b.",
            source.sql,
            name.start,
            name.end,
        )
    return items


def _item(table: exp.Expr, join: exp.Join | None, source: Source) -> _Item:
    start, end = place_of(table)
    if isinstance(table, exp.Paren | exp.Subquery) and not isinstance(table.this, exp.Query):
        raise UnsupportedError(
            "Parentheses around streams or joins in FROM are not supported: joins are read from the left. Leave them "
            "out: FROM R [window] JOIN S [window] ON ...",
            source.sql,
            start,
            end,
        )
    if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
        raise UnsupportedError(
            "FROM takes names of streams; subqueries and table functions are not supported. "
            "Put the condition into WHERE, or prepare the stream before the join.",
            source.sql,
            start,
            end,
        )
    if table.args.get("db") is not None:
        raise UnsupportedError("A stream has a single name, without a dot.", source.sql, start, end)
    for part in ("joins", "pivots", "sample", "laterals", "hints", "when", "version", "partition"):
        if table.args.get(part):
            raise UnsupportedError(f"{part} after a stream is not supported. Leave it out.", source.sql, start, end)
    if join is not None:
        _check_join(join, source, start, end)
    alias = table.args.get("alias")
    if alias is not None:
        _check_alias(alias.this, source)
    if alias is not None and alias.args.get("columns"):
        raise UnsupportedError("Column lists after an alias are not supported.", source.sql, start, end)
    return _Item(name_of(table.this), name_of(alias.this) if alias is not None else None, join)


def _check_alias(alias: exp.Expr, source: Source) -> None:
    """Refuse a word before JOIN that asks for a join of another kind, rather than take it for a name."""
    start, end = place_of(alias)
    word = source.mask[start:end].upper()
    before, after = source.mask[:start].split()[-1:], source.mask[end:].split()[:1]
    if word in _WORDS and [text.upper() for text in before] != ["AS"] and [text.upper() for text in after] == ["JOIN"]:
        raise UnsupportedError(
            f"{word} JOIN is not supported. {_JOINS} To call the stream before it {word}, write AS {word}.",
            source.sql,
            start,
            end,
        )


def _instead(words: list[str]) -> str:
    """Return what to write in place of a join that is not supported."""
    if words[0] == "NATURAL":
        return "Write which columns must be equal: JOIN ... USING (column, ...)."
    if words[1] == "RIGHT" and words[2] in ("SEMI", "ANTI"):
        return f"Swap the streams: S LEFT {words[2]} JOIN R gives tuples of S as R RIGHT {words[2]} JOIN S would."
    return _JOINS


def _check_join(join: exp.Join, source: Source, start: int, end: int) -> None:
    words = [str(join.args.get(part) or "").upper() for part in ("method", "side", "kind")]
    name = " ".join(word for word in words if word)
    if words[0] or tuple(words[1:]) not in _KINDS:
        name = name if name.endswith("JOIN") else f"{name} JOIN"
        raise UnsupportedError(f"{name} is not supported. {_instead(words)}", source.sql, start, end)
    if join.args.get("using") == []:
        raise QueryError("USING needs at least one column: USING (column, ...).", source.sql, start, end)
    if (words[1] or words[2] in ("SEMI", "ANTI")) and not (join.args.get("on") or join.args.get("using")):
        raise QueryError(f"{name} JOIN needs a condition: write ON after the stream.", source.sql, start, end)


def _windows(items: list[_Item], source: Source) -> list[Window]:
    """Attach each window clause to the entry of FROM whose name or alias it follows."""
    found: dict[int, Window] = {}
    ends = {name.end: at for at, item in enumerate(items) for name in (item.name, item.alias) if name is not None}
    for bracket in source.brackets:
        at = ends.get(len(source.code[: bracket.start].rstrip()))
        if at is None:
            raise QueryError(
                "Brackets are for windows and come after the name of a stream in FROM. Arrays are not supported. "
                + ALLOWED,
                source.sql,
                bracket.start,
                bracket.end,
            )
        if at in found:
            message = f"The stream {items[at].name.text} has two windows. Leave one out."
            raise QueryError(message, source.sql, bracket.start, bracket.end)
        found[at] = parse_window(bracket, source.sql)
    for at, item in enumerate(items):
        if at not in found:
            raise QueryError(
                f"The stream {item.name.text} has no window. A window says how long its tuples wait for partners. "
                + ALLOWED,
                source.sql,
                item.name.start,
                item.name.end,
            )
    return [found[at] for at in range(len(items))]


def _stream(
    item: _Item, window: Window, schemas: Mapping[str, pa.Schema], time: str | Mapping[str, str], sql: str
) -> Stream:
    name = stream_schema(item.name, schemas, sql)
    alias = item.alias.text if item.alias is not None else name
    schema = schemas[name]
    if not isinstance(schema, pa.Schema):
        raise QueryError(f"The schema of {name} must be a pyarrow.Schema, got {type(schema).__name__}.")
    wanted = time if isinstance(time, str) else _time_of(name, alias, time)
    column = find_name(wanted, schema.names)
    if column is None:
        raise QueryError(
            f"The stream {name} has no time column '{wanted}'.{did_you_mean(wanted, schema.names)} It has: "
            f"{', '.join(schema.names)}. Say which one it is with time=..., a name or a mapping of stream to name.",
            sql,
            item.name.start,
            item.name.end,
        )
    if schema.names.count(column) > 1:
        raise QueryError(
            f"The stream {name} has {schema.names.count(column)} columns called '{column}', its time column. Rename "
            "all but one.",
            sql,
            item.name.start,
            item.name.end,
        )
    return Stream(name, alias, window, schema, column)


def _check_time_keys(items: list[_Item], schemas: Mapping[str, pa.Schema], time: str | Mapping[str, str]) -> None:
    known = [*schemas, *(item.alias.text for item in items if item.alias is not None)]
    for key in time if not isinstance(time, str) else ():
        if find_name(key, known) is None:
            raise QueryError(
                f"time= names the stream '{key}', which is not known.{did_you_mean(key, known)} "
                f"Known: {', '.join(known)}."
            )


def _time_of(name: str, alias: str, time: Mapping[str, str]) -> str:
    own = find_name(name, time) or find_name(alias, time)
    return time[own] if own is not None else "ts"


def _check_aliases(items: list[_Item], scope: Scope) -> None:
    seen: set[str] = set()
    for item, stream in zip(items, scope.streams, strict=True):
        if stream.alias.lower() in seen:
            place = item.alias or item.name
            raise scope.error(
                f"'{stream.alias}' stands twice in FROM. Give each its own name with AS, for example "
                f"FROM {stream.name} [RANGE 15 MINUTES] AS a, {stream.name} [RANGE 15 MINUTES] AS b.",
                place,
            )
        seen.add(stream.alias.lower())


def _check_times(items: list[_Item], scope: Scope) -> None:
    """Check each time column and window, and that all times can be compared."""
    kinds: dict[str, str] = {}
    for item, stream in zip(items, scope.streams, strict=True):
        arrow = stream.schema.field(stream.time).type
        of = sql_type(arrow)
        if of.kind not in (Kind.TIMESTAMP, Kind.DATE, Kind.INT) or pa.types.is_dictionary(arrow):
            raise scope.error(
                f"The time column {stream.name}.{stream.time} is of type {arrow}. "
                "Allowed: timestamp of any unit, date, or an integer of up to 64 bits (uint64 excepted). "
                + _conversion(arrow, stream.time),
                item.name,
            )
        _check_unit(stream, of.kind is Kind.INT, item, scope)
        kind = "an integer" if of.kind is Kind.INT else "an instant (with a zone)" if of.zoned else "a wall clock time"
        kinds.setdefault(kind, f"{stream.alias}.{stream.time} ({arrow})")
        if len(kinds) > 1:
            (kind1, column1), (kind2, column2) = kinds.items()
            raise scope.error(
                f"The time columns cannot be compared: {column1} is {kind1}, {column2} is {kind2}. "
                "Allowed: all integers, all timestamps with a zone, or all dates and timestamps without one.",
                item.name,
            )


def _conversion(arrow: pa.DataType, time: str) -> str:
    """Say how a time column of another type becomes one that is allowed."""
    if pa.types.is_dictionary(arrow):
        return f"Decode it before the join: table['{time}'].cast(pa.{arrow.value_type}())."
    if pa.types.is_integer(arrow) or pa.types.is_decimal(arrow):
        return f"Cast it before the join: table['{time}'].cast(pa.int64()), on Spark CAST({time} AS BIGINT)."
    if pa.types.is_string(arrow) or pa.types.is_large_string(arrow):
        return f"Cast it before the join: table['{time}'].cast(pa.timestamp('us')), on Spark CAST({time} AS TIMESTAMP)."
    return "Convert it before the join."


def _check_unit(stream: Stream, integer: bool, item: _Item, scope: Scope) -> None:
    window = stream.window
    if not isinstance(window, Range) or window.seconds != integer:
        return
    column = f"{stream.name}.{stream.time} ({stream.schema.field(stream.time).type})"
    if integer:
        message = f"The window [{window.text}] has a unit of time, but the time column {column} is an integer."
        step = "Give the length in that integer's own unit, for example [RANGE 900]."
    else:
        message = f"The window [{window.text}] has no unit, but the time column {column} is temporal."
        step = f"Add a unit, for example [RANGE {window.length} SECONDS]."
    raise scope.error(f"{message} {step}", item.name)


def _conditions(items: list[_Item], checker: Checker) -> Iterator[Expr]:
    """Yield the conditions of USING and ON."""
    for role, item in enumerate(items):
        if item.join is None:
            continue
        for identifier in item.join.args.get("using") or ():
            yield _using(name_of(identifier), role, checker.scope)
    for item in items:
        if item.join is not None and item.join.args.get("on") is not None:
            yield checker.condition(item.join.args["on"], "ON")


def _using(name: Name, role: int, scope: Scope) -> Expr:
    """Return the equality that ``USING (name)`` stands for, and let the bare name mean its left side."""
    left = Scope(scope.sql, scope.streams[:role], dict(scope.merged)).column(name)
    right = scope.column_of(role, name)
    scope.merged[name.text.lower()] = left.role
    return compare("eq", left, right)
