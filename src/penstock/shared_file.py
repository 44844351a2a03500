"""Files that several processes share: locked while they are changed, and replaced as a whole."""

from __future__ import annotations

import os
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

LOCK_WAIT = 0.5
"""Seconds to wait for the lock. A change takes about a millisecond; the event loop must not wait longer for a
process that was stopped in the middle of one."""
USER_LOCK_WAIT = 10.0
"""The same for a file of the user, which only a command changes."""
_LOCK_POLL = 0.002
_TRIES = 5
_RETRY_WAIT = 0.01


if sys.platform == "win32":  # pragma: no cover
    import msvcrt

    def lock_descriptor(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def lock_descriptor(descriptor: int) -> None:
        """Lock the file until the descriptor is closed or the process ends, however it ends; raise `OSError`
        if another descriptor has the lock."""
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Lock the file for a short change. If the lock cannot be had, the change is made without it: at worst, a
    concurrent change is lost."""
    descriptor = None
    try:
        with suppress(OSError):  # reading or writing the file reports it
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
            _lock(descriptor)
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _lock(descriptor: int, wait: float = LOCK_WAIT) -> None:
    for _ in range(round(wait / _LOCK_POLL)):
        with suppress(BlockingIOError, PermissionError):  # another process has it; the latter on Windows
            lock_descriptor(descriptor)
            return
        time.sleep(_LOCK_POLL)


def read_start(path: Path, size: int) -> bytes:
    """Read at most `size` bytes from the start of the file."""

    def read() -> bytes:
        with path.open("rb") as opened:
            return opened.read(size)

    return _retried(read)


def replace_file(path: Path, data: bytes) -> None:
    """Write a file that only the user can read. Readers see the old or the new content, never a part."""
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as opened:
            opened.write(data)
        _retried(lambda: os.replace(temporary, path))
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def replace_keeping_mode(path: Path, data: bytes) -> None:
    """Replace a user's file atomically. The new one has the mode and the owner of the old one from the start;
    if that is not possible, raise `OSError`, because a program that reads the file might be locked out."""
    path = path.resolve()  # write through a symbolic link
    old = path.stat()
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as opened:
            opened.write(data)
            opened.flush()
            os.fsync(opened.fileno())
        if hasattr(os, "chown") and (old.st_uid, old.st_gid) != (os.getuid(), os.getgid()):
            os.chown(temporary, old.st_uid, old.st_gid)
        os.chmod(temporary, stat.S_IMODE(old.st_mode))
        _retried(lambda: os.replace(temporary, path))
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def open_private(path: Path | str, flags: int) -> int:
    """Open or create a file that only its owner can read. It can be the `opener` of `open`."""
    descriptor = os.open(path, flags | os.O_CREAT, 0o600)
    try:
        found = os.fstat(descriptor)
        if os.name == "posix" and flags & os.O_TRUNC and stat.S_ISREG(found.st_mode):
            os.fchmod(descriptor, 0o600)  # it gets new content, so its old mode no longer counts
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def is_planted(path: Path) -> bool:
    """Return whether another user may have put a file there: in a folder such as /tmp, to which everyone can
    write, it is a symbolic link or a file of somebody else. The owner of the folder is trusted."""
    if os.name != "posix":
        return False
    try:
        found, folder = path.lstat(), path.parent.stat()
    except OSError:
        return False
    is_foreign = stat.S_ISLNK(found.st_mode) or found.st_uid not in (os.getuid(), folder.st_uid)
    is_shared = folder.st_mode & stat.S_IWOTH and folder.st_mode & stat.S_ISVTX
    return bool(is_shared) and is_foreign


def replace_with_backup(path: Path, data: bytes, *, before: bytes | None = None) -> Path | None:
    """Replace a user's file, or create it. Keep the old one next to it, and return the path of that copy.

    With `before`, raise `FileExistsError` if the file has another content now: somebody else has changed it.
    """
    path = path.resolve()  # write through a symbolic link
    with folder_locked(path.parent):
        if before is not None and before != (path.read_bytes() if path.exists() else b""):
            raise FileExistsError("another program has changed it in the meantime: try again")
        if not path.exists():
            replace_file(path, data)
            return None
        backup = _backup_of(path)
        replace_keeping_mode(path, data)
        return backup


def _backup_of(path: Path) -> Path:
    """Copy a file to a name that no file has: an older backup may be the only copy of something."""
    backup, number = path.with_name(f"{path.name}.bak"), 2
    while True:
        try:
            os.close(os.open(backup, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            break
        except FileExistsError:
            backup, number = path.with_name(f"{path.name}.bak{number}"), number + 1
    try:
        shutil.copy2(path, backup)
    except BaseException:
        with suppress(OSError):
            backup.unlink()
        raise
    return backup


@contextmanager
def folder_locked(folder: Path) -> Iterator[None]:
    """Lock a user's folder for a short change, without a file for it: the folder is not ours. Where this is
    not possible, as on Windows, the change is made without it."""
    descriptor = None
    try:
        with suppress(OSError):
            descriptor = os.open(folder, os.O_RDONLY)
            _lock(descriptor, USER_LOCK_WAIT)
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _retried(action: Callable[[], T]) -> T:
    """Windows does not replace a file that another process is reading, or open one that is being replaced."""
    for _ in range(_TRIES - 1):
        with suppress(PermissionError):
            return action()
        time.sleep(_RETRY_WAIT)
    return action()
