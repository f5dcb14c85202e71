"""Whether a job would write what it reads."""

from __future__ import annotations

import fnmatch
import glob
from collections.abc import Iterable, Sequence
from pathlib import Path

from crosswind.io.endpoints import FileSource

__all__ = ["file_overlap", "folder_overlap"]

_SKIPPED = ("_", ".")
"""Files and folders whose names begin like this are not read."""


def file_overlap(path: Path, sources: Iterable[FileSource]) -> str | None:
    """Return in which way the file ``path``, which need not exist, is read by one of ``sources``; None if it is not.

    It may be one of their files under the same name or another, by links of either kind, or fit their pattern, so that
    the next run would read it.
    """
    for source in sources:
        for read in source.paths:
            if read.resolve() == path.resolve() or (path.exists() and path.samefile(read)):
                return f"is the file {read} of stream {source.stream}"
        if any(_is_read(form, source, below=False) for form in (path.absolute(), path.resolve())):
            return f"is one of the files {source.pattern} that stream {source.stream} reads"
    return None


def folder_overlap(path: Path, sources: Iterable[FileSource]) -> str | None:
    """Return in which way files in the folder ``path`` are read by one of ``sources``, as Spark reads; None if not.

    Spark reads all that lies in folders that fit a pattern, however deep.
    """
    for source in sources:
        whole = path.resolve()
        for read in (*source.paths, _split(source.pattern)[0]):
            if read.resolve().is_relative_to(whole):
                return f"holds the files {source.pattern} of stream {source.stream}"
        if any(_is_read(form / "part-0", source, below=True) for form in (path.absolute(), whole)):
            return f"lies among the files {source.pattern} that stream {source.stream} reads"
    return None


def _split(pattern: str) -> tuple[Path, tuple[str, ...]]:
    """Return the folder that a pattern begins with, and its parts from the first with a wildcard on."""
    parts = Path(pattern).absolute().parts
    plain = next((k for k, part in enumerate(parts) if glob.has_magic(part)), len(parts))
    return Path(*parts[:plain]), parts[plain:]


def _is_read(path: Path, source: FileSource, *, below: bool) -> bool:
    folder, rest = _split(source.pattern)
    if path.name.startswith(_SKIPPED):
        return False
    starts = (folder, folder.resolve())
    return any(path.is_relative_to(start) and _fits(path.relative_to(start).parts, rest, below) for start in starts)


def _fits(parts: Sequence[str], pattern: Sequence[str], below: bool) -> bool:
    """Whether a path fits a pattern, part by part; with ``below``, also what lies in a folder that fits."""
    if not pattern:
        return not parts or (below and not any(part.startswith(_SKIPPED) for part in parts))
    if pattern[0] == "**":
        return any(_fits(parts[k:], pattern[1:], below) for k in range(len(parts) + 1))
    # Spark's wildcards match hidden folders, Python's do not.
    if not parts or (parts[0].startswith(".") and not pattern[0].startswith(".") and not below):
        return False
    return fnmatch.fnmatchcase(parts[0], pattern[0]) and _fits(parts[1:], pattern[1:], below)
