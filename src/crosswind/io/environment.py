"""Values that a job file takes from the environment: ``${NAME}`` in its texts.

Secrets belong there and not in files. What was filled in where secrets are given (in tables of options and
settings, and anywhere from a variable that is named like one) is remembered for one purpose: so that it can be
taken out of messages.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import fields
from urllib.parse import quote

__all__ = ["Discreet", "UnsetVariableError", "fill_in", "is_secret_name", "redact"]

_REFERENCE = re.compile(r"\$\$\{|\$\{(?P<name>[^}]*)\}?")
_SECRET_NAME = re.compile(
    r"pass(word|wd|phrase|code)?($|[._-])|password|passphrase|pwd($|[._-])|secret|token|credential"
    r"|(api|access|account|private|keystore)[._-]?key|jaas[._-]?config",
    re.IGNORECASE,
)
_NO_SECRET_NAME = re.compile(
    r"(class|enabled|endpoint|file|interval|location|mode|ms|path|providers?|regex|seconds|type|ur[il])$", re.IGNORECASE
)
"""Settings about a secret that say nothing of it, such as ``fs.s3a.aws.credentials.provider``."""
_INNER = re.compile(r"""(?P<name>[\w.-]+)\s*=\s*(?P<quote>["'])(?P<value>.*?)(?P=quote)""")
"""Secrets inside a secret: a login of Kafka's holds a password, which errors may show alone."""
_SHOWABLE_CHARS = 3
"""Values no longer than this are no secrets, and taking them out would make messages unreadable."""

_filled_in: dict[str, str] = {}


class UnsetVariableError(Exception):
    """The environment has no such variable."""


class Discreet:
    """A record whose ``repr`` does not tell the secrets in it."""

    def __repr__(self) -> str:
        shown = [f"{field.name}={getattr(self, field.name)!r}" for field in fields(self)]  # type: ignore[arg-type]
        return redact(f"{type(self).__name__}({', '.join(shown)})")


def fill_in(text: str, *, secret: bool = False) -> str:
    """Return ``text`` with every ``${NAME}`` replaced by that variable; ``$${`` stands for ``${``.

    Parameters
    ----------
    text : str
        As it stands in the file.
    secret : bool
        Take the values out of messages, see :func:`redact`, whatever the variables are called.

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
        if secret or _SECRET_NAME.search(name):
            _remember(found, name)
        return found

    return _REFERENCE.sub(value, text)


def is_secret_name(name: str) -> bool:
    """Whether a setting of this name holds a secret.

    Examples
    --------
    >>> [is_secret_name(name) for name in ("kafka.ssl.key.password", "clientSecret", "fs.s3a.aws.credentials.provider")]
    [True, True, False]
    """
    return _SECRET_NAME.search(name) is not None and _NO_SECRET_NAME.search(name) is None


def redact(text: str) -> str:
    """Return ``text`` with the secrets that were filled in shown as the variables they came from."""
    for secret in sorted(_filled_in, key=len, reverse=True):
        text = text.replace(secret, f"${{{_filled_in[secret]}}}")
    return text


def _remember(value: str, name: str) -> None:
    """Keep a secret in every form in which a message may show it: escaped, as part of an address, a line of it."""
    inner = [match["value"] for match in _INNER.finditer(value) if is_secret_name(match["name"])]
    for part in (value, *value.splitlines(), *inner):
        for form in (part, part.strip(), repr(part)[1:-1], json.dumps(part)[1:-1], quote(part), quote(part, safe="")):
            if len(form) > _SHOWABLE_CHARS:
                _filled_in[form] = name
