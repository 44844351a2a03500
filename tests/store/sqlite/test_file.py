"""Files that cannot be opened, and the errors that report them."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from penstock.errors import PenstockError, StoreError
from penstock.store.sqlite.store import open_sqlite_store


def opening(path: Path) -> StoreError:
    """Return the error when a file cannot be opened."""
    with pytest.raises(StoreError) as raised:
        asyncio.run(open_sqlite_store(path, busy_ms=0))
    assert isinstance(raised.value, PenstockError)
    assert str(path) in str(raised.value)
    return raised.value


def test_a_file_that_is_not_a_database_is_refused_and_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "letter.txt"
    path.write_text("Dear reader,\n" * 1_000)
    assert opening(path).code == StoreError.NOT_A_STORE
    assert path.read_text().startswith("Dear reader")


def test_a_folder_is_refused(tmp_path: Path) -> None:
    assert opening(tmp_path).code == StoreError.UNWRITABLE
    (tmp_path / "file").touch()
    assert opening(tmp_path / "file" / "store.db").code == StoreError.UNWRITABLE


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
    assert opening(path).code == StoreError.LOCKED
    stranger.close()
