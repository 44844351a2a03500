"""The store's file: its lock, its connections, and its errors."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.errors import StoreError
from penstock.shared_file import is_planted, lock_descriptor

BUSY_MS = 5_000
"""Milliseconds that a connection waits for a lock. Only another program, such as a backup, can hold one."""

FAILURES = {
    "SQLITE_FULL": (StoreError.FULL, "the disk is full"),
    "SQLITE_BUSY": (StoreError.LOCKED, "another program holds a lock on it"),
    "SQLITE_LOCKED": (StoreError.LOCKED, "another program holds a lock on it"),
    "SQLITE_NOTADB": (StoreError.NOT_A_STORE, "the file is not a database; use another file (--store PATH)"),
    "SQLITE_CORRUPT": (
        StoreError.NOT_A_STORE,
        "the file is damaged; move it aside, or restore it from a backup",
    ),
    "SQLITE_READONLY": (StoreError.UNWRITABLE, "the file is not writable"),
    "SQLITE_CANTOPEN": (StoreError.UNWRITABLE, "the file cannot be opened"),
    "SQLITE_PERM": (StoreError.UNWRITABLE, "the file cannot be opened"),
    "SQLITE_AUTH": (StoreError.UNWRITABLE, "the file cannot be opened"),
    "SQLITE_CONSTRAINT": (StoreError.DUPLICATE, "the id already exists"),
}
"""By the first two words of SQLite's error name, without its extensions."""

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
_OTHER = (StoreError.IO, "the disk reports an I/O error")

SUFFIXES = ("-wal", "-shm", ".lock")
"""The suffixes of the files that belong to a store's file."""

_WRITER = (
    "PRAGMA auto_vacuum = INCREMENTAL",  # Free pages can be released step by step; works for a new file only.
    "PRAGMA journal_mode = WAL",  # Readers and the writer do not wait for each other.
    "PRAGMA foreign_keys = ON",  # Deleting a response deletes everything that belongs to it.
    "PRAGMA secure_delete = FAST",  # Deleted text is overwritten where that costs no additional I/O.
    "PRAGMA journal_size_limit = 67108864",  # The journal shrinks again after a burst.
    "PRAGMA temp_store = MEMORY",  # No stored text is written to temporary files.
)


class FileLock:
    """Locks the file for this process. The system releases the lock when the process ends, however it ends.

    SQLite's own locks would let two gateways share a file, and each would end the other's turns.
    """

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path.with_name(path.name + ".lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            lock_descriptor(self._descriptor)
        except OSError as error:
            self.release()
            raise StoreError(
                StoreError.LOCKED,
                f"{path}: another Penstock has this file open; stop it, or use another file (--store PATH)",
            ) from error

    def release(self) -> None:
        os.close(self._descriptor)


def is_locked(path: Path) -> bool:
    """Return whether a process has locked the file. Nothing is created; a lock is held for a moment only."""
    try:
        descriptor = os.open(path.with_name(path.name + ".lock"), os.O_RDWR)
    except OSError:
        return False
    try:
        lock_descriptor(descriptor)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


class FileLocation:
    """The location of the file when it was opened. SQLite continues to write to a file that was deleted or
    moved, and those writes would be lost when the process ends."""

    def __init__(self, path: Path) -> None:
        self._path, self._file = path, path.stat()

    def exists(self) -> bool:
        try:
            return os.path.samestat(self._path.stat(), self._file)
        except OSError:
            return False


def locate(path: Path | str) -> Path:
    """Return the absolute path of a store's file, which need not exist; raise `StoreError` if it, or a file
    that belongs to it, may be another user's."""
    named = Path(path).expanduser()
    file = named.resolve()
    for each in (named, file, *(file.with_name(file.name + suffix) for suffix in SUFFIXES)):
        if is_planted(each):
            raise StoreError(
                StoreError.UNWRITABLE,
                f"{each}: this is a link or a file of another user, in a folder that everyone can write to: "
                "use another folder (--store PATH)",
            )
    return file


def create_private_file(path: Path) -> None:
    """Create the folder and the file if needed, readable by their owner only: they contain conversations."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))


def prepare_for_writing(connection: sqlite3.Connection) -> None:
    for pragma in _WRITER:
        connection.execute(pragma)


def reading_connection(path: Path, busy_ms: int) -> sqlite3.Connection:
    connection = connect_existing(path, busy_ms)
    connection.execute("PRAGMA query_only = ON")
    return connection


def connect_existing(path: Path, busy_ms: int) -> sqlite3.Connection:
    """Connect like `connect`, but never create a file."""
    return connect(f"{path.as_uri()}?mode=rw", busy_ms)


def connect(path: Path | str, busy_ms: int) -> sqlite3.Connection:
    # We begin and end transactions ourselves. A connection may be opened and closed by different threads.
    connection = sqlite3.connect(
        path, isolation_level=None, check_same_thread=False, uri=isinstance(path, str)
    )
    connection.execute(f"PRAGMA busy_timeout = {busy_ms}")
    return connection


@contextmanager
def as_store_errors(path: Path) -> Iterator[None]:
    """Convert every error of the file to a `StoreError` whose message starts with the path."""
    try:
        yield
    except StoreError as error:
        message = error.message if str(path) in error.message else f"{path}: {error.message}"
        raise StoreError(error.code, message) from error
    except sqlite3.Error as error:
        code, message = failure_of(error)
        raise StoreError(code, f"{path}: {message}") from error
    except OSError as error:
        code = StoreError.FULL if error.errno in _NO_SPACE else StoreError.UNWRITABLE
        raise StoreError(code, f"{path}: the file cannot be opened: {error.strerror}") from error


def failure_of(error: sqlite3.Error) -> tuple[str, str]:
    """Return our code and message for an error, never SQLite's message: it may contain stored data."""
    name = getattr(error, "sqlite_errorname", "")
    return FAILURES.get("_".join(name.split("_")[:2]), _OTHER)
