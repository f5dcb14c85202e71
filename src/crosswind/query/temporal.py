"""Timestamps, dates and intervals: constants and arithmetic."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, timezone
from fractions import Fraction

from crosswind.query.refusal import RefusalError
from crosswind.query.tree import Literal
from crosswind.query.types import DATE, UNITS_PER_SECOND, Kind, SqlType

__all__ = ["interval_literal", "read_date", "read_temporal", "read_timestamp"]

_DATE = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})")
_MOMENT = re.compile(
    r"(?P<date>\d{4}-\d{1,2}-\d{1,2})(?:[ T](?P<h>\d{1,2}):(?P<m>\d{1,2})(?::(?P<s>\d{1,2})(?:\.(?P<f>\d{1,9}))?)?)?"
    r"\s*(?P<zone>Z|UTC|[+-]\d{1,2}(?::?\d{2})?)?",
    re.IGNORECASE,
)
_FORMS = "Write it as '2026-01-31 12:00:00.5', with an offset such as Z or +01:00 if it is an instant"


def read_temporal(literal: Literal, like: SqlType) -> Literal:
    """Read a string constant as a date or timestamp, whichever ``like`` is."""
    if like.kind is Kind.DATE:
        return read_date(literal)
    read = read_timestamp(literal)
    if read.type.zoned == like.zoned:
        return read
    if like.zoned:
        raise RefusalError(
            "{0} has no offset, but an instant is needed here. "
            "Give it one, for example '2026-01-31 12:00:00Z' or '2026-01-31 12:00:00+01:00'.",
            literal,
        )
    raise RefusalError(
        "{0} has an offset, but it is compared with a wall clock time, which has no zone. Leave the offset out.",
        literal,
    )


def read_date(literal: Literal) -> Literal:
    """Read a string constant as a date: days since 1970."""
    match = _DATE.fullmatch(str(literal.value).strip())
    try:
        if match is None:
            raise ValueError("not of the form year-month-day")
        day = date(*(int(part) for part in match.groups()))
    except ValueError as error:
        raise RefusalError(f"{{0}} is not a date: {error}. Write it as '2026-01-31'.", literal) from None
    return Literal(DATE, (day - date(1970, 1, 1)).days, start=literal.start, end=literal.end)


def read_timestamp(literal: Literal) -> Literal:
    """Read a string constant as a timestamp in the coarsest unit that is exact."""
    match = _MOMENT.fullmatch(str(literal.value).strip())
    try:
        if match is None:
            raise ValueError("not of the form year-month-day hour:minute:second")
        day = [int(part) for part in match["date"].split("-")]
        hour, minute, second = (int(match[part] or 0) for part in ("h", "m", "s"))
        moment = datetime(day[0], day[1], day[2], hour, minute, second, tzinfo=_zone(match["zone"]))
    except ValueError as error:
        raise RefusalError(f"{{0}} is not a timestamp: {error}. {_FORMS}.", literal) from None
    fraction = Fraction(int(match["f"] or 0), 10 ** len(match["f"] or ""))
    seconds = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(seconds=1)
    unit = coarsest_unit(fraction) or "ns"
    ticks = int((seconds + fraction) * UNITS_PER_SECOND[unit])
    if not -(2**63) <= ticks < 2**63:
        raise RefusalError(f"{{0}} is not a timestamp: 64 bits of {unit} do not reach so far.", literal)
    of = SqlType(Kind.TIMESTAMP, unit=unit, zoned=match["zone"] is not None)
    return Literal(of, ticks, start=literal.start, end=literal.end)


def _zone(text: str | None) -> timezone:
    """Return the offset; a wall clock time is counted as if it were UTC."""
    if text is None or text.upper() in ("Z", "UTC"):
        return UTC
    digits = text[1:].replace(":", "")
    hours, minutes = (int(digits[:-2]), int(digits[-2:])) if len(digits) > 2 else (int(digits), 0)
    if minutes > 59 or hours > 18:
        raise ValueError("an offset lies between -18:00 and +18:00")
    offset = timedelta(hours=hours, minutes=minutes)
    return timezone(-offset if text[0] == "-" else offset)


def coarsest_unit(seconds: Fraction) -> str | None:
    """Return the coarsest Arrow unit that holds ``seconds`` exactly, or None."""
    return next((unit for unit, per in UNITS_PER_SECOND.items() if (seconds * per).denominator == 1), None)


def interval_literal(seconds: Fraction, start: int, end: int) -> Literal | None:
    """Return an interval constant, or None if nanoseconds cannot hold it."""
    unit = coarsest_unit(seconds)
    if unit is None or not -(2**63) <= seconds * UNITS_PER_SECOND[unit] < 2**63:
        return None
    of = SqlType(Kind.DURATION, unit=unit)
    return Literal(of, int(seconds * UNITS_PER_SECOND[unit]), start=start, end=end)
