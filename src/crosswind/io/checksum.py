"""Checksums of what is kept and read again: bytes that changed meanwhile are noticed, not believed.

A description is JSON that ends with the checksum of all before it; it holds the checksums of the parts that
it describes. So no byte of the whole can change, and no part can be exchanged for another, unnoticed. Checksums
tell damage; they are no signature, and do not tell what somebody made on purpose.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

__all__ = ["DIGEST_SIZE", "DamageError", "OtherFormatError", "digest_of", "seal", "unseal"]

DIGEST_SIZE = 16
"""Bytes of a checksum."""

_BEFORE, _AFTER = b', "checksum": "', b'"}'
_SEAL = len(_BEFORE) + 2 * DIGEST_SIZE + len(_AFTER)


class DamageError(Exception):
    """Bytes are not those that were written; whoever read them says which, and what to do."""


class OtherFormatError(Exception):
    """A description is of another format than the one that is read.

    Parameters
    ----------
    found : int
        Its format.
    """

    def __init__(self, found: Any) -> None:
        super().__init__(f"format {found}")
        self.found = found


def digest_of(data: bytes | memoryview) -> str:
    """Return the checksum of ``data``, in hexadecimal digits."""
    return hashlib.blake2b(data, digest_size=DIGEST_SIZE).hexdigest()


def seal(kind: int, content: dict[str, Any]) -> bytes:
    """Return ``content``, in the format ``kind``, as JSON that ends with its checksum.

    Readers before there were checksums find the format in it, and refuse it by that.
    """
    text = json.dumps({"format": kind, **content}).encode()
    return text[:-1] + _BEFORE + digest_of(text).encode() + _AFTER


def unseal(data: bytes, kind: int) -> dict[str, Any]:
    """Return the content that :func:`seal` made ``data`` of.

    Raises
    ------
    DamageError
        The checksum does not match.
    OtherFormatError
        It is whole, but of another format; or of one from before there were checksums.
    """
    text = data[:-_SEAL] + b"}"
    sealed = len(data) > _SEAL and data[-_SEAL:] == _BEFORE + digest_of(text).encode() + _AFTER
    content = _parsed(text if sealed else data)
    found = content.pop("format", None)
    if sealed and found == kind:
        return content
    if sealed or (found == 1 and "checksum" not in content):
        raise OtherFormatError(found)
    raise DamageError("its checksum does not match")


def _parsed(text: bytes) -> dict[str, Any]:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        content = None
    return content if isinstance(content, dict) else {}
