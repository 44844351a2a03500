"""A connection to a new, empty file of the store."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.store.sqlite.file import connect, prepare_for_writing
from penstock.store.sqlite.schema import migrate


@pytest.fixture
def file(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    connection = connect(tmp_path / "store.db", 0)
    prepare_for_writing(connection)
    migrate(connection)
    yield connection
    connection.close()
