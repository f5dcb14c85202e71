"""sqlglot set up for Crosswind's SQL.

Strings in single quotes, names in double quotes or backticks, every function left as it
is written, and the place of every operand kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar

from sqlglot import exp, parser, tokens
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ErrorLevel, ParseError, TokenError
from sqlglot.tokenizer_core import TokenType

from crosswind.errors import QueryError
from crosswind.query.scan import Source
from crosswind.query.windows import is_unit

__all__ = ["parse_statements"]

_NO_BINARY = re.compile(r"\b[xX]'(?![0-9a-fA-F]*')[^']*'")
_OWN_FUNCTIONS = ("CAST", "TRY_CAST", "EXTRACT", "TRIM", "SUBSTRING", "POSITION", "OVERLAY")


class CrosswindSql(Dialect):
    """Spark's SQL, except that double quotes quote names."""

    class Tokenizer(tokens.Tokenizer):
        """Single quotes for strings, double quotes and backticks for names."""

        QUOTES: ClassVar[list[Any]] = ["'"]
        IDENTIFIERS: ClassVar[list[Any]] = ['"', "`"]
        HEX_STRINGS: ClassVar[list[Any]] = [("x'", "'"), ("X'", "'")]
        STRING_ESCAPES: ClassVar[list[str]] = ["'", "\\"]

    class Parser(parser.Parser):
        """Functions stay anonymous, so ``functions`` alone decides what they mean."""

        FUNCTIONS: ClassVar[dict[str, Callable[..., Any]]] = {}
        FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., Any]]] = {
            name: parser.Parser.FUNCTION_PARSERS[name] for name in _OWN_FUNCTIONS
        }

        def _spanned(self, parse: Callable[[], exp.Expr | None]) -> exp.Expr | None:
            """Run ``parse`` and note on its result where it began and ended."""
            first = self._curr
            node = parse()
            if node is not None and first is not None and self._prev is not None and "span" not in node.meta:
                node.meta["span"] = (first.start, self._prev.end + 1)
            return node

        def _parse_lambda(self, alias: bool = False) -> exp.Expr | None:
            return self._spanned(lambda: super(CrosswindSql.Parser, self)._parse_lambda(alias))

        def _parse_unary(self) -> exp.Expr | None:
            node = self._spanned(super()._parse_unary)
            if isinstance(node, exp.Literal) and not node.is_string and self._touches():
                self.raise_error(f"a number takes no suffix; use CAST({node.this} AS BIGINT) or the like")
            return node

        def _touches(self) -> bool:
            """Whether a word follows the last token without a space, as in ``5L``."""
            return self._curr.token_type == TokenType.VAR and self._curr.start == self._prev.end + 1

        def _parse_range(self, this: exp.Expr | None = None, parse_is: bool = True) -> exp.Expr | None:
            if this is not None:
                return super()._parse_range(this, parse_is)
            return self._spanned(lambda: super(CrosswindSql.Parser, self)._parse_range(None, parse_is))

        def _parse_conjunction(self) -> exp.Expr | None:
            return self._spanned(super()._parse_conjunction)

        def _parse_disjunction(self) -> exp.Expr | None:
            return self._spanned(super()._parse_disjunction)

        def _parse_interval(self, *_: Any, **__: Any) -> Any:
            """Read ``INTERVAL`` with numbers, strings and units after it, as the text they are."""
            index = self._index
            if not self._match(TokenType.INTERVAL):
                return None
            words: list[str] = []
            while self._curr is not None and self._interval_word(words):
                words.append(self._curr.text)
                self._advance()
            if not words:
                self._retreat(index)
                return None
            return self.expression(exp.Interval(this=exp.Literal.string(" ".join(words))))

        def _interval_word(self, words: list[str]) -> bool:
            """Whether the next token continues an interval of which ``words`` are read."""
            kind, text = self._curr.token_type, self._curr.text
            if not words or is_unit(words[-1]):
                if kind == TokenType.DASH:
                    return not words
                return kind == TokenType.NUMBER or (not words and kind == TokenType.STRING)
            if words[-1] == "-":
                return bool(kind in (TokenType.NUMBER, TokenType.STRING))
            if re.search(r"[^\W\d_]", words[-1]):
                return False
            return kind == TokenType.VAR or is_unit(text)


def parse_statements(source: Source) -> list[exp.Expr | None]:
    """Return the statements in the text.

    Raises
    ------
    QueryError
        Where sqlglot finds the text wrong, in our words and at the place it gives.
    """
    dialect = CrosswindSql()
    try:
        return list(dialect.parse(source.code, error_level=ErrorLevel.IMMEDIATE))
    except ParseError as error:
        detail = error.errors[0] if error.errors else {}
        start = _offset(source.code, detail.get("line"), detail.get("col"), detail.get("highlight") or "")
        found = detail.get("highlight") or ""
        near = f"near '{found}'" if found.strip() else "at the end"
        what = _in_our_words(str(detail.get("description") or ""))
        message = f"Syntax error {near}: {what}. Expected SELECT ... FROM R [window], S [window] WHERE ..."
    except TokenError as error:
        start, found = -1, ""
        message = f"Cannot read the query: {str(error).splitlines()[0]}."
        wrong = _NO_BINARY.search(source.code)
        if wrong is not None:
            start, found = wrong.start(), wrong.group()
            message = f"{found} is not a binary constant: only 0-9 and A-F are allowed."
    raise QueryError(message, source.sql, start, start + max(1, len(found)))


def _offset(code: str, line: int | None, column: int | None, highlight: str) -> int:
    """Return the offset of a token from the line and the column of its end, which are what sqlglot gives."""
    if line is None or column is None:
        return -1
    before = sum(len(text) + 1 for text in code.split("\n")[: line - 1])
    return max(0, before + column - max(1, len(highlight)))


def _in_our_words(description: str) -> str:
    """Return what sqlglot has to say without the names of its classes."""
    if description.startswith("Required keyword"):
        return "an operand is missing"
    if "Unexpected token" in description or not description:
        return "this is not expected here"
    if match := re.match(r"Expect(?:ing|ed) (\S+)$", description):
        return f"expected {match[1]}"
    return re.sub(r"<class '[^']*'>", "this", description).rstrip(".")
