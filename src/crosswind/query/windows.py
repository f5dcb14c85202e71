"""Window clauses and durations: ``[RANGE 15 MINUTES]``, ``[ROWS 500]``, ``[NOW]``, ``"200ms"``."""

from __future__ import annotations

import re
from fractions import Fraction

from crosswind.errors import QueryError, did_you_mean
from crosswind.query.scan import Bracket
from crosswind.query.tree import Now, Range, Rows, Window

__all__ = ["ALLOWED", "is_unit", "parse_duration", "parse_parts", "parse_window"]

_NS = Fraction(1, 1_000_000_000)
_NAMES: dict[Fraction, tuple[str, ...]] = {
    _NS: ("nanosecond", "nanoseconds", "nanos", "nano", "nsec", "nsecs", "ns"),
    _NS * 1000: ("microsecond", "microseconds", "micros", "micro", "usec", "usecs", "us", "µs", "μs"),
    _NS * 1_000_000: ("millisecond", "milliseconds", "millis", "milli", "msec", "msecs", "ms"),
    Fraction(1): ("second", "seconds", "sec", "secs", "s"),
    Fraction(60): ("minute", "minutes", "min", "mins", "m"),
    Fraction(3600): ("hour", "hours", "hr", "hrs", "h"),
    Fraction(86400): ("day", "days", "d"),
    Fraction(604800): ("week", "weeks", "w"),
}
_SECONDS = {name: seconds for seconds, names in _NAMES.items() for name in names}
_NOT_CONSTANT = {"month", "months", "mon", "mons", "quarter", "quarters", "year", "years", "yr", "yrs", "y"}
_LONG_NAMES = [names[1] for names in _NAMES.values()]
UNITS = "nanoseconds, microseconds, milliseconds, seconds, minutes, hours, days, weeks"

ALLOWED = (
    "Allowed: [RANGE <length> <unit>], [RANGE <length>] over an integer time column, either one with INCLUSIVE, "
    "[ROWS <count>], [NOW]; for example FROM R [RANGE 15 MINUTES], S [ROWS 500]."
)

_NUMBER = r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,2}(?!\d))?"
_TOKEN = re.compile(rf"\s*(?P<number>{_NUMBER})|\s*(?P<word>[^\W\d]+)|\s*(?P<other>\S)")


_DIGITS_MAX = 40
_LONGEST = 2**63
"""Lengths are counted in 64 bits, in nanoseconds at the finest."""


class DurationError(ValueError):
    """A duration that cannot be read; the message says why, the caller adds the place."""


def is_unit(word: str) -> bool:
    """Whether ``word`` names a unit of time, also one that is refused later."""
    return word.lower() in _SECONDS or word.lower() in _NOT_CONSTANT


def unit_seconds(word: str) -> Fraction:
    """Return the length of the unit called ``word`` in seconds."""
    name = word.lower()
    if name in _NOT_CONSTANT:
        raise DurationError(
            f"'{word}' is not of constant length, so it cannot measure time exactly. "
            f"Give the length in days or weeks, for example 30 DAYS. Allowed units: {UNITS}."
        )
    if name not in _SECONDS:
        raise DurationError(f"Unknown unit of time '{word}'.{did_you_mean(name, _LONG_NAMES)} Allowed units: {UNITS}.")
    return _SECONDS[name]


def parse_parts(text: str) -> tuple[Fraction, bool]:
    """Read ``1 HOUR 30 MINUTES``, ``1.5h`` or a bare number.

    Returns
    -------
    tuple of Fraction and bool
        The length, and whether units were given (then it is in seconds).

    Raises
    ------
    DurationError
        If the text is anything else.
    """
    tokens = list(_TOKEN.finditer(text.rstrip()))
    if not tokens:
        raise DurationError("A length of time is missing, for example 15 MINUTES.")
    total, at = Fraction(0), 0
    while at < len(tokens):
        token = tokens[at]
        if token["number"] is None:
            found = token.group().strip()
            raise DurationError(f"Expected a number, got '{found}', as in 15 MINUTES or 1.5 HOURS.")
        if len(token["number"]) > _DIGITS_MAX:
            raise DurationError(f"The number {token['number'][:10]}... has more than {_DIGITS_MAX} characters.")
        number = Fraction(token["number"])
        word = tokens[at + 1]["word"] if at + 1 < len(tokens) else None
        if word is None:
            if len(tokens) == 1:
                return number, False
            found = tokens[at + 1].group().strip() if at + 1 < len(tokens) else "nothing"
            raise DurationError(
                f"Expected a unit of time after {token['number']}, got {found}. Allowed units: {UNITS}."
            )
        total += number * unit_seconds(word)
        at += 2
    return total, True


def parse_duration(text: str) -> Fraction:
    """Return the seconds in a duration such as ``"10 seconds"``, ``"0s"``, ``"15 min"`` or ``"200ms"``.

    Raises
    ------
    QueryError
        If the text is no duration, has no unit, or is negative.
    """
    example = 'Write it like "10 seconds", "1.5h" or "200ms".'
    if not isinstance(text, str):
        raise QueryError(f"A duration must be text, got {text!r} of type {type(text).__name__}. {example}")
    try:
        seconds, has_unit = parse_parts(text)
    except DurationError as error:
        raise QueryError(f"Cannot read the duration {text!r}. {error} {example}") from None
    if not has_unit and seconds != 0:
        raise QueryError(f"The duration {text!r} has no unit. Allowed units: {UNITS}. {example}")
    if seconds < 0:
        raise QueryError(f"The duration {text!r} is negative. Durations are zero or more. {example}")
    return seconds


def parse_window(clause: Bracket, sql: str) -> Window:
    """Read one window clause; errors point at it in ``sql``."""
    text = " ".join(clause.content.split())
    word, _, rest = text.partition(" ")
    match word.upper():
        case "RANGE":
            return _range(rest, text, clause, sql)
        case "ROWS":
            return _rows(rest, text, clause, sql)
        case "NOW" if not rest:
            return Now(text)
    hint = did_you_mean(word, ("RANGE", "ROWS", "NOW")) if word else ""
    raise _error(f"'[{text}]' is not a window.{hint}", clause, sql)


def _range(rest: str, text: str, clause: Bracket, sql: str) -> Range:
    if "UNBOUNDED" in rest.upper():
        raise _error("An UNBOUNDED window would keep every tuple forever. Give a length.", clause, sql)
    body = re.sub(r"\s*\bINCLUSIVE$", "", rest, flags=re.IGNORECASE)
    inclusive = body != rest
    body = re.sub(r"^INTERVAL\b\s*", "", body, flags=re.IGNORECASE).replace("'", " ")
    try:
        length, seconds = parse_parts(body)
    except DurationError as error:
        raise _error(f"Cannot read the window '[{text}]'. {error}", clause, sql) from None
    if length == 0 and not inclusive:
        raise _error(
            f"The window '[{text}]' has length zero and would hold nothing. For tuples of the same time write [NOW] or "
            "[RANGE 0 INCLUSIVE].",
            clause,
            sql,
        )
    if length < 0:
        raise _error(f"The window '[{text}]' has a negative length.", clause, sql)
    if not seconds and length.denominator != 1:
        raise _error(f"The window '[{text}]' has no unit, so it counts in whole steps of an integer time.", clause, sql)
    if length * (10**9 if seconds else 1) >= _LONGEST:
        raise _error(f"The window '[{text}]' is too long: at most 292 years, or 2^63 - 1 without a unit.", clause, sql)
    return Range(length, seconds, inclusive, text)


def _rows(rest: str, text: str, clause: Bracket, sql: str) -> Rows:
    if rest.upper().startswith("UNBOUNDED"):
        raise _error("An UNBOUNDED window would keep every tuple forever. Give a count.", clause, sql)
    if not re.fullmatch(r"\+?\d{1,19}", rest) or not 0 < int(rest) < 2**63:
        raise _error(f"ROWS needs a whole number of at least 1 and below 2^63, got '{rest}'.", clause, sql)
    return Rows(int(rest), text)


def _error(message: str, clause: Bracket, sql: str) -> QueryError:
    return QueryError(f"{message} {ALLOWED}", sql, clause.start, clause.end)
