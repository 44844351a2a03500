"""The file under the store: who may have it, how it is opened, and what its failures are called."""

from __future__ import annotations

import errno
import os
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.errors import StoreError

BUSY_MS = 5_000
"""How long a connection waits for another. Only a stranger's, such as a backup, can be in the way."""

FAILURES = {
    "SQLITE_FULL": (StoreError.FULL, "the disk is full"),
    "SQLITE_BUSY": (StoreError.LOCKED, "another program holds a lock on it"),
    "SQLITE_LOCKED": (StoreError.LOCKED, "another program holds a lock on it"),
    "SQLITE_NOTADB": (StoreError.NOT_A_STORE, "it is no database: give another file"),
    "SQLITE_CORRUPT": (StoreError.NOT_A_STORE, "it is damaged: move it away, or restore it"),
    "SQLITE_READONLY": (StoreError.UNWRITABLE, "it cannot be written"),
    "SQLITE_CANTOPEN": (StoreError.UNWRITABLE, "it cannot be opened"),
    "SQLITE_PERM": (StoreError.UNWRITABLE, "it cannot be opened"),
    "SQLITE_AUTH": (StoreError.UNWRITABLE, "it cannot be opened"),
    "SQLITE_CONSTRAINT": (StoreError.DUPLICATE, "an id was given twice"),
}
"""SQLite's names for failures, without what it adds behind the second word."""

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
_OTHER = (StoreError.IO, "the disk fails")

SUFFIXES = ("-wal", "-shm", ".lock")
"""What the names of the files that belong to a store's file end with."""

_WRITER = (
    "PRAGMA auto_vacuum = INCREMENTAL",  # Free pages can be given back bit by bit; only a new file takes it.
    "PRAGMA journal_mode = WAL",  # ReaderPool and the writer do not wait for each other.
    "PRAGMA foreign_keys = ON",  # What belongs to a response goes with it.
    "PRAGMA secure_delete = FAST",  # Deleted text is overwritten where that costs no more input or output.
    "PRAGMA journal_size_limit = 67108864",  # A burst does not leave a large journal behind for ever.
    "PRAGMA temp_store = MEMORY",  # Nothing that was said is written beside the file.
)


class FileLock:
    """Says that this process has the file. The system lets go of it when the process ends, however it ends.

    SQLite's own locks would let two gateways share a file, each taking the other's turns for dead ones.
    """

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path.with_name(path.name + ".lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            _lock(self._descriptor)
        except OSError as error:
            self.release()
            raise StoreError(
                StoreError.LOCKED,
                f"{path}: another Penstock has this file open: stop it, or give another file",
            ) from error

    def release(self) -> None:
        os.close(self._descriptor)


class FileLocation:
    """Where the file was when it was opened. SQLite goes on to write into one that was deleted or moved away,
    and all of that would be gone with the process."""

    def __init__(self, path: Path) -> None:
        self._path, self._file = path, path.stat()

    def is_there(self) -> bool:
        try:
            return os.path.samestat(self._path.stat(), self._file)
        except OSError:
            return False


if sys.platform == "win32":  # pragma: no cover
    import msvcrt

    def _lock(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def create_private_file(path: Path) -> None:
    """See that the folder and the file are there, for nobody but their owner: they hold what people said."""
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
    """As `connect`, and never makes a file."""
    return connect(f"{path.as_uri()}?mode=rw", busy_ms)


def connect(path: Path | str, busy_ms: int) -> sqlite3.Connection:
    # Transactions are begun and ended by us. A connection is made and closed by other threads than its own.
    connection = sqlite3.connect(
        path, isolation_level=None, check_same_thread=False, uri=isinstance(path, str)
    )
    connection.execute(f"PRAGMA busy_timeout = {busy_ms}")
    return connection


@contextmanager
def as_store_errors(path: Path) -> Iterator[None]:
    """Everything that goes wrong with the file, as a `StoreError` that says what to do."""
    try:
        yield
    except StoreError as error:
        message = error.message if str(path) in error.message else f"{path}: {error.message}"
        raise StoreError(error.code, message) from error
    except sqlite3.Error as error:
        code, words = failure_of(error)
        raise StoreError(code, f"{path}: {words}") from error
    except OSError as error:
        code = StoreError.FULL if error.errno in _NO_SPACE else StoreError.UNWRITABLE
        raise StoreError(code, f"{path}: it cannot be opened: {error.strerror}") from error


def failure_of(error: sqlite3.Error) -> tuple[str, str]:
    """Our code for a failure, and a few words. Never SQLite's: they may repeat what was to be stored."""
    name = getattr(error, "sqlite_errorname", "")
    return FAILURES.get("_".join(name.split("_")[:2]), _OTHER)
