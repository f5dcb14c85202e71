"""Where things are kept between processes, and whether others could have put them there.

Kept machine code is run, so a file counts only if nobody else can have written it: it, its folder and every
folder above belong to this user or to root, and no other user may write there (in a folder above, the sticky
bit does as well: nobody can then exchange what is not theirs). OpenSSH asks the same of the keys it reads.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from pathlib import Path

__all__ = ["cache_root", "distrust", "make_private", "read_trusted", "replace_file"]

_LINKS_MAX = 40


def cache_root() -> Path | None:
    """Return the folder of compiled kernels and of what was measured: ``CROSSWIND_CACHE_DIR`` or the user's cache.

    None if the user has no home.
    """
    base = os.environ.get("CROSSWIND_CACHE_DIR")
    if base:
        return Path(base).absolute()
    home = Path(os.environ.get("XDG_CACHE_HOME") or "")
    if not home.is_absolute():
        try:
            home = Path.home() / ".cache"
        except RuntimeError:
            return None
    return home / "crosswind" if home.is_absolute() else None


def make_private(folder: Path) -> None:
    """Make ``folder``, and what is missing above it, for this user alone; a folder that exists stays as it is."""
    for missing in reversed([path for path in (folder, *folder.parents) if not path.exists()]):
        missing.mkdir(mode=0o700, exist_ok=True)


def distrust(folder: Path) -> str | None:
    """Return why others could exchange what is in ``folder``, which exists; None if only this user and root can."""
    here, rest, links = Path("/"), list(reversed(folder.absolute().parts[1:])), 0
    reason = _distrust_one(here, last=not rest)
    while rest and reason is None:
        part = rest.pop()
        if part == "..":
            here = here.parent
            continue
        path = here / part
        if path.is_symlink():
            links += 1
            target = path.readlink()
            if links > _LINKS_MAX or not _ours(path.lstat()):
                return f"{path} is a link of user {path.lstat().st_uid}"
            here = Path("/") if target.is_absolute() else here
            rest += reversed(target.parts[target.is_absolute() :])
        else:
            here = path
            reason = _distrust_one(here, last=not rest)
    return reason


def read_trusted(path: Path) -> bytes | None:
    """Return what is in the file ``path``, in a folder that is trusted; None if it is not ours, or not to be had."""
    try:
        # Not blocking: what lies there might be a pipe.
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode) or not _ours(status) or status.st_mode & 0o022:
                return None
            return file.read()
    except OSError:
        return None


def replace_file(path: Path, content: bytes) -> None:
    """Write ``path`` in one step: whoever reads it sees all of ``content``, or what was there before."""
    handle, aside = tempfile.mkstemp(dir=path.parent, prefix=path.stem, suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(aside).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(aside).unlink()
        raise


def _distrust_one(folder: Path, *, last: bool) -> str | None:
    status = folder.stat()
    if not stat.S_ISDIR(status.st_mode):
        return f"{folder} is not a folder"
    if not _ours(status):
        return f"{folder} belongs to user {status.st_uid}, and this is user {os.geteuid()}"
    if status.st_mode & stat.S_ISVTX and not last:
        return None
    if status.st_mode & stat.S_IWOTH or (status.st_mode & stat.S_IWGRP and not _alone_in(status.st_gid)):
        return f"other users may write to {folder} (its mode is {stat.S_IMODE(status.st_mode):04o})"
    return None


def _ours(status: os.stat_result) -> bool:
    return status.st_uid in (os.geteuid(), 0)


def _alone_in(group: int) -> bool:
    """Whether ``group`` is this user's own, as many systems give one to each user and let it write."""
    import grp
    import pwd

    try:
        user, members = pwd.getpwuid(os.geteuid()), grp.getgrgid(group)
    except KeyError:
        return False
    return user.pw_gid == group and members.gr_name == user.pw_name and set(members.gr_mem) <= {user.pw_name}
