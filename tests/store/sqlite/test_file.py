"""Files that cannot be opened, and the errors that report them."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from penstock.errors import StoreError
from penstock.store.sqlite.file import FileLocation, as_store_errors, failure_of
from tests.store.sqlite.stores import opening_error


def test_a_file_that_is_not_a_database_is_refused_and_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "letter.txt"
    path.write_text("Dear reader,\n" * 1_000)
    assert opening_error(path).code == StoreError.NOT_A_STORE
    assert path.read_text().startswith("Dear reader")


def test_a_folder_is_refused(tmp_path: Path) -> None:
    assert opening_error(tmp_path).code == StoreError.UNWRITABLE
    (tmp_path / "file").touch()
    assert opening_error(tmp_path / "file" / "store.db").code == StoreError.UNWRITABLE


_AS_NOBODY = """
import asyncio, os, sys
from pathlib import Path
from penstock.errors import StoreError
from penstock.store.sqlite.store import open_sqlite_store
if os.getuid() == 0:
    os.setuid(65534)
try:
    asyncio.run(open_sqlite_store(Path(sys.argv[1])))
except StoreError as error:
    print(error.code)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="folders have other permissions there")
def test_a_read_only_folder_is_reported() -> None:
    folder = Path(tempfile.mkdtemp())
    try:
        folder.chmod(0o555)
        command = [sys.executable, "-c", _AS_NOBODY, str(folder / "store.db")]
        result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        assert result.stdout.strip() == StoreError.UNWRITABLE
    finally:
        folder.chmod(0o700)
        shutil.rmtree(folder)


def test_a_lock_of_another_program_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    stranger = sqlite3.connect(path, isolation_level=None)
    stranger.execute("BEGIN EXCLUSIVE")
    assert opening_error(path).code == StoreError.LOCKED
    stranger.close()


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("SQLITE_FULL", StoreError.FULL),
        ("SQLITE_BUSY_SNAPSHOT", StoreError.LOCKED),
        ("SQLITE_CORRUPT_INDEX", StoreError.NOT_A_STORE),
        ("SQLITE_READONLY_DBMOVED", StoreError.UNWRITABLE),
        ("SQLITE_CONSTRAINT_UNIQUE", StoreError.DUPLICATE),
        ("SQLITE_IOERR_FSYNC", StoreError.IO),
        ("", StoreError.IO),
    ],
)
def test_an_error_of_sqlite_has_our_code_and_not_its_message(tmp_path: Path, name: str, code: str) -> None:
    error = sqlite3.OperationalError("stored words")
    error.sqlite_errorname = name
    assert failure_of(error)[0] == code
    with pytest.raises(StoreError) as raised, as_store_errors(tmp_path / "store.db"):
        raise error
    assert raised.value.code == code
    assert raised.value.message.startswith(f"{tmp_path / 'store.db'}: ")
    assert "stored words" not in raised.value.message


@pytest.mark.parametrize(
    ("number", "code"), [(errno.ENOSPC, StoreError.FULL), (errno.EACCES, StoreError.UNWRITABLE)]
)
def test_a_system_error_is_a_store_error(tmp_path: Path, number: int, code: str) -> None:
    with pytest.raises(StoreError) as raised, as_store_errors(tmp_path):
        raise OSError(number, os.strerror(number))
    assert raised.value.code == code
    assert os.strerror(number) in raised.value.message


def test_the_path_is_added_to_a_message_once(tmp_path: Path) -> None:
    for message in ("refused", f"{tmp_path}: refused"):
        with pytest.raises(StoreError) as raised, as_store_errors(tmp_path):
            raise StoreError(StoreError.LOCKED, message)
        assert raised.value.message == f"{tmp_path}: refused"


def test_a_file_that_was_deleted_or_replaced_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.touch()
    location = FileLocation(path)
    assert location.exists()
    path.rename(tmp_path / "elsewhere")
    assert not location.exists()
    path.touch()
    assert not location.exists(), "another file has its name now"
    (tmp_path / "elsewhere").rename(path)
    assert location.exists()
