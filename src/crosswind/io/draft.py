"""A file that takes its name when it is complete, and leaves nothing behind if it never is."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
import stat
from pathlib import Path
from typing import IO

__all__ = ["Draft"]


class Draft:
    """A file without a name that becomes ``path`` in one step.

    It is gone with the process, however that ends. File systems that have no such files get one with a hidden name,
    locked while somebody writes it: what a process that was killed has left there is removed by the next draft of
    the same ``path``.

    Parameters
    ----------
    path : Path
        What it is to become; through a link, what that points to. Until then an older file stays as it was.

    Attributes
    ----------
    file : file object
        To write to.

    Raises
    ------
    OSError
        Nothing can be written there.
    """

    def __init__(self, path: Path) -> None:
        self._path = path.resolve()
        _remove_leftovers(self._path)
        self._name: Path | None = None
        handle = self._open_nameless()
        self.file: IO[bytes] = os.fdopen(self._open_named() if handle is None else handle, "w+b")

    def keep(self) -> None:
        """Finish the file, and let it take its place."""
        self.file.flush()
        os.fsync(self.file.fileno())
        if self._name is None:
            self._give_name()
        assert self._name is not None
        os.replace(self._name, self._path)  # noqa: PTH105 - the one that replaces on every platform
        self._name = None
        self.file.close()

    def discard(self) -> None:
        """Let it go, if it was not kept."""
        try:
            self.file.close()
        finally:
            if self._name is not None:
                self._name.unlink(missing_ok=True)

    def _open_nameless(self) -> int | None:
        try:
            handle = os.open(self._path.parent, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o666)
        except (OSError, AttributeError):
            return None
        with contextlib.suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)  # for when it has a name
        return handle

    def _open_named(self) -> int:
        while True:
            self._name = self._hidden_name()
            handle = os.open(self._name, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o666)
            with contextlib.suppress(OSError):
                fcntl.flock(handle, fcntl.LOCK_EX)
            if os.fstat(handle).st_nlink:
                return handle
            os.close(handle)  # somebody who cleared up was quicker than the lock

    def _give_name(self) -> None:
        handle = self.file.fileno()
        self._name = self._hidden_name()
        try:
            # With a folder given, links are followed, from the open file to what it is.
            os.link(f"/proc/self/fd/{handle}", self._name, src_dir_fd=handle, follow_symlinks=True)
        except OSError:
            self.file.seek(0)
            with os.fdopen(self._open_named(), "wb") as copy:
                shutil.copyfileobj(self.file, copy)

    def _hidden_name(self) -> Path:
        return self._path.with_name(f".{self._path.name}.{secrets.token_hex(4)}.partial")


def _remove_leftovers(path: Path) -> None:
    """Remove drafts of ``path`` that nobody writes any more: nobody holds their lock."""
    beginning = f".{path.name}."
    with contextlib.suppress(OSError):
        found = [entry for entry in path.parent.iterdir() if entry.name.startswith(beginning)]
        for entry in found:
            if entry.suffix == ".partial" and len(entry.name) == len(beginning) + len("01234567.partial"):
                _remove_unless_locked(entry)


def _remove_unless_locked(path: Path) -> None:
    with contextlib.suppress(OSError):
        handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if stat.S_ISREG(os.fstat(handle).st_mode):
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()
        finally:
            os.close(handle)
