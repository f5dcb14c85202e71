"""String constants: escapes as Spark reads them."""

from __future__ import annotations

import re

__all__ = ["unescape"]

_ESCAPE = re.compile(r"''|\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|([01][0-7]{2})|(.))", re.DOTALL)
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_SPECIAL = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}


def unescape(raw: str) -> str:
    r"""Return the value of a string constant from what stands between its quotes.

    A doubled quote is a quote; ``\n``, ``\t``, ``\u0041``, ``\101`` and the like are what
    Spark makes of them, two halves of a character together; any other escaped character stands for itself.
    """
    text = _ESCAPE.sub(_replacement, raw)
    return _PAIR.sub(lambda pair: pair.group().encode("utf-16", "surrogatepass").decode("utf-16"), text)


def _replacement(match: re.Match[str]) -> str:
    if match.group() == "''":
        return "'"
    short, long, octal, char = match.groups()
    if short or long:
        point = int(short or long, 16)
        return chr(point) if point <= 0x10FFFF else match.group()
    return chr(int(octal, 8)) if octal else _SPECIAL.get(char, char)
