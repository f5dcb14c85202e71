"""Values that a job file takes from the environment: ``${NAME}`` in its texts.

Secrets belong there and not in files. What was filled in where secrets are given, in tables of
options and settings, is remembered for one purpose: so that it can be taken out of messages.
"""

from __future__ import annotations

import os
import re

__all__ = ["UnsetVariableError", "fill_in", "is_secret_name", "redact"]

_REFERENCE = re.compile(r"\$\$\{|\$\{(?P<name>[^}]*)\}?")
_SECRET_NAME = re.compile(
    r"(password|passwd|secret|secret[._-]?key|access[._-]?key|token|jaas\.config)$", re.IGNORECASE
)
_SHOWABLE_CHARS = 3
"""Values no longer than this are no secrets, and taking them out would make messages unreadable."""

_filled_in: dict[str, str] = {}


class UnsetVariableError(Exception):
    """The environment has no such variable."""


def fill_in(text: str, *, secret: bool = False) -> str:
    """Return ``text`` with every ``${NAME}`` replaced by that variable; ``$${`` stands for ``${``.

    Parameters
    ----------
    text : str
        As it stands in the file.
    secret : bool
        Take the values out of messages, see :func:`redact`.

    Raises
    ------
    UnsetVariableError
        With the name of the variable that is not there.
    """

    def value(match: re.Match[str]) -> str:
        name = match["name"]
        if name is None:
            return "${"
        if name not in os.environ:
            raise UnsetVariableError(name)
        found = os.environ[name]
        if secret and len(found) > _SHOWABLE_CHARS:
            _filled_in[found] = name
        return found

    return _REFERENCE.sub(value, text)


def is_secret_name(name: str) -> bool:
    """Whether a setting of this name holds a secret."""
    return _SECRET_NAME.search(name) is not None


def redact(text: str) -> str:
    """Return ``text`` with the secrets that were filled in shown as the variables they came from."""
    for secret in sorted(_filled_in, key=len, reverse=True):
        text = text.replace(secret, f"${{{_filled_in[secret]}}}")
    return text
