"""The format of the file: migrations, and files that are refused."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from penstock.errors import StoreError
from penstock.store.records import LOCAL, StoredConversation
from penstock.store.sqlite.schema import APPLICATION, STEPS, migrate
from penstock.store.sqlite.store import SqliteStore
from tests.store.builders import (
    complete_turn,
    events,
    items,
    read,
    recalled,
    trace,
)
from tests.store.sqlite.stores import opening_error, use_store

VERSION_1 = Path(__file__).parent / "version_1.sql"


# Versions


def test_a_file_of_the_first_version_is_read(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    connection = sqlite3.connect(path)
    connection.executescript(VERSION_1.read_text())
    connection.close()

    async def check(store: SqliteStore) -> None:
        chain = await store.chain(LOCAL, "resp_2")
        assert chain is not None
        assert [(turn.id, turn.status) for turn in chain] == [("resp_1", "completed"), ("resp_2", "failed")]
        assert chain[0].input == items("in_1")
        assert chain[0].output == items("out_1")
        assert await read(store, "resp_1") == events(0, 2)
        assert await store.traces(LOCAL, "resp_1") == [trace(3)]
        assert await recalled(store, LOCAL, "rs_1") == b"secret"
        assert await store.get_conversation(LOCAL, "conv_1") == StoredConversation("conv_1", 3, b"{}")
        talk = await store.conversation_items(LOCAL, "conv_1")
        assert talk is not None
        assert talk.items == items("out_1", "in_1")
        assert await complete_turn(store, "resp_3", ["in_3"], previous="resp_2")

    use_store(path, check)
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (len(STEPS),)
    connection.close()


def test_a_released_migration_step_never_changes() -> None:
    """The first step is the schema in `version_1.sql`, literally."""
    assert "\n".join(line.strip() for line in STEPS[0].strip().splitlines()) in "\n".join(
        line.strip() for line in VERSION_1.read_text().splitlines()
    )


def test_migration_steps_are_applied_once_and_atomically(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "store.db", isolation_level=None)
    steps = ["CREATE TABLE a (x)"]
    migrate(connection, steps)
    steps.append("ALTER TABLE a ADD COLUMN y; INSERT INTO a VALUES (1, 2)")
    migrate(connection, steps)
    migrate(connection, steps)
    assert connection.execute("SELECT x, y FROM a").fetchall() == [(1, 2)]
    steps.append("INSERT INTO a VALUES (3, 4); INSERT INTO missing VALUES (1)")
    with pytest.raises(sqlite3.OperationalError):
        migrate(connection, steps)
    assert connection.execute("SELECT x, y FROM a").fetchall() == [(1, 2)]
    assert connection.execute("PRAGMA user_version").fetchone() == (2,)
    connection.close()


def test_a_newer_file_is_refused_and_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    connection = sqlite3.connect(path)
    connection.executescript(
        f"CREATE TABLE t (x); PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {len(STEPS) + 1}"
    )
    connection.close()
    before = path.read_bytes()
    error = opening_error(path)
    assert error.code == StoreError.NEWER_VERSION
    assert "newer Penstock" in error.message
    assert path.read_bytes() == before


# Files that are refused


def test_a_database_of_another_program_is_refused_and_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    connection = sqlite3.connect(path)
    connection.executescript("CREATE TABLE bookmarks (x)")
    connection.close()
    before = path.read_bytes()
    assert opening_error(path).code == StoreError.NOT_A_STORE
    assert path.read_bytes() == before
