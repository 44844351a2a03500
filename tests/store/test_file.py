"""The file: opened again, of an old or a new version, not ours, not writable, or somebody else's."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from penstock.errors import PenstockError, StoreError
from penstock.store.contract import LOCAL, StoredConversation
from penstock.store.sqlite.file import FileLock
from penstock.store.sqlite.schema import APPLICATION, STEPS, migrate
from penstock.store.sqlite.store import SqliteStore, open_sqlite_store
from tests.store.making import (
    Clock,
    closed,
    done,
    event,
    events,
    item,
    item_of,
    items,
    opened,
    read,
    recalled,
    trace,
    whole,
)

VERSION_1 = Path(__file__).parent / "version_1.sql"


def opening(path: Path) -> StoreError:
    """The error that a file cannot be opened with."""
    with pytest.raises(StoreError) as raised:
        asyncio.run(open_sqlite_store(path, busy_ms=0))
    assert isinstance(raised.value, PenstockError)
    assert str(path) in str(raised.value)
    return raised.value


def using(path: Path, body: Callable[[SqliteStore], Awaitable[None]]) -> None:
    async def run() -> None:
        store = await open_sqlite_store(path, clock=Clock())
        try:
            await body(store)
        finally:
            await store.aclose()

    asyncio.run(run())


# Opened again


def test_everything_is_there_when_it_is_opened_again(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "store.db"

    async def write(store: SqliteStore) -> None:
        await store.create_conversation(LOCAL, StoredConversation("conv_1", 3, b"{}"))
        await whole(store, "resp_1", ["in_1"], ["out_1"], log=events(0, 50), conversation="conv_1")
        await store.open(opened("resp_2", "in_2", previous="resp_1"))
        store.trace("resp_2", [trace(3)])
        store.log("resp_2", events(0, 5))
        await store.remember(LOCAL, "resp_2", "rs_1", b"secret")
        await store.close("resp_2", closed("resp_2", "out_2", status="incomplete"), patience=0)

    async def check(store: SqliteStore) -> None:
        found = await store.get(LOCAL, "resp_2")
        assert found is not None
        assert (found.status, found.response) == (
            "incomplete",
            closed("resp_2", status="incomplete").response,
        )
        chain = await store.chain(LOCAL, "resp_2")
        assert chain is not None
        assert [(turn.input, turn.output) for turn in chain] == [
            (items("in_1"), items("out_1")),
            (items("in_2"), items("out_2")),
        ]
        assert await read(store, "resp_1", 20) == events(21, 50)
        assert await store.traces(LOCAL, "resp_2") == [trace(3)]
        assert await recalled(store, LOCAL, "rs_1") == b"secret"
        assert await store.get_conversation(LOCAL, "conv_1") == StoredConversation("conv_1", 3, b"{}")
        talk = await store.conversation_items(LOCAL, "conv_1", newest_first=False)
        assert talk is not None
        assert talk.items == items("in_1", "out_1")

    using(path, write)
    using(path, check)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600, "nobody else reads what people said"
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert not path.with_name("store.db-wal").exists(), "closing leaves one file"


def test_deleted_words_are_not_left_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def write_and_delete(store: SqliteStore) -> None:
        await whole(store, "resp_1", ["word-that-was-said"])
        await store.delete(LOCAL, "resp_1")

    using(path, write_and_delete)
    assert b"word-that-was-said" not in path.read_bytes()


# A process that died


def test_a_turn_that_was_left_running_has_failed_with_what_was_finished(tmp_path: Path) -> None:
    """Ask G8: nothing stays in_progress, and the items that came are kept."""
    path = tmp_path / "store.db"

    async def leave(store: SqliteStore) -> None:
        await store.create_conversation(LOCAL, StoredConversation("conv_1", 3, b"{}"))
        await store.open(opened("resp_1", "in_1", conversation="conv_1"))
        store.log("resp_1", [event(0), done(1, 1, "fc_2"), done(2, 0, "msg_1"), event(3, "output_item.done")])
        store.trace("resp_1", [trace(1)])
        await store.open(opened("resp_2", status="queued"))

    async def check(store: SqliteStore) -> None:
        found = await store.get(LOCAL, "resp_1")
        assert found is not None
        assert found.status == "failed"
        assert found.response == (
            b'{"id":"resp_1","status":"failed","output":['
            + item("msg_1").data
            + b","
            + item("fc_2").data
            + b'],"error":{"code":"gateway_restarted","message":"the gateway was stopped before the response '
            b'was complete; the output so far is stored"}}'
        )
        log = await read(store, "resp_1")
        assert [one.sequence for one in log] == [0, 1, 2, 3, 4]
        assert log[1] == done(1, 1, "fc_2")
        assert log[4].data == b'{"type":"response.failed","sequence_number":4,"response":%s}' % found.response
        chain = await store.chain(LOCAL, "resp_1")
        assert chain is not None
        assert (chain[0].status, chain[0].output) == ("failed", items("msg_1", "fc_2"))
        assert await item_of(store, LOCAL, "fc_2") == item("fc_2")
        talk = await store.conversation_items(LOCAL, "conv_1", newest_first=False)
        assert talk is not None
        assert talk.items == items("in_1", "msg_1", "fc_2")
        queued = await store.get(LOCAL, "resp_2")
        assert queued is not None
        assert queued.status == "failed"
        assert b'"code":"gateway_restarted"' in queued.response
        begun, ended = await read(store, "resp_2")  # who asked for it may have been told that it began
        assert begun.data.startswith(b'{"type":"response.created","sequence_number":0,')
        assert ended.data.startswith(b'{"type":"response.failed","sequence_number":1,')
        assert await store.delete(LOCAL, "resp_1"), "it runs no more"

    using(path, leave)
    using(path, check)


def test_a_snapshot_that_cannot_be_read_is_replaced_by_the_least(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def leave(store: SqliteStore) -> None:
        turn = opened("resp_1")
        await store.open(type(turn)(id="resp_1", created_at=1, response=b"no json"))
        store.log("resp_1", [event(0), type(event(1))(1, 0.0, b'no json "response.output_item.done"')])

    async def check(store: SqliteStore) -> None:
        found = await store.get(LOCAL, "resp_1")
        assert found is not None
        assert found.response.startswith(b'{"id":"resp_1","object":"response","status":"failed",')

    using(path, leave)
    using(path, check)


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
        assert await whole(store, "resp_3", ["in_3"], previous="resp_2")

    using(path, check)
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (len(STEPS),)
    connection.close()


def test_a_step_that_was_released_is_not_changed() -> None:
    """The first version is what `version_1.sql` says it is, word by word."""
    assert "\n".join(line.strip() for line in STEPS[0].strip().splitlines()) in "\n".join(
        line.strip() for line in VERSION_1.read_text().splitlines()
    )


def test_steps_are_taken_once_and_wholly(tmp_path: Path) -> None:
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


def test_a_newer_file_is_refused_and_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    connection = sqlite3.connect(path)
    connection.executescript(
        f"CREATE TABLE t (x); PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {len(STEPS) + 1}"
    )
    connection.close()
    before = path.read_bytes()
    error = opening(path)
    assert error.code == StoreError.NEWER_VERSION
    assert "newer Penstock" in error.message
    assert path.read_bytes() == before


# Not ours


def test_a_database_of_another_program_is_refused_and_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    connection = sqlite3.connect(path)
    connection.executescript("CREATE TABLE bookmarks (x)")
    connection.close()
    before = path.read_bytes()
    assert opening(path).code == StoreError.NOT_A_STORE
    assert path.read_bytes() == before


def test_a_file_that_is_no_database_is_refused_and_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "letter.txt"
    path.write_text("Dear reader,\n" * 1_000)
    assert opening(path).code == StoreError.NOT_A_STORE
    assert path.read_text().startswith("Dear reader")


def test_an_empty_file_becomes_a_store(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.touch()

    async def check(store: SqliteStore) -> None:
        assert (await store.stats()).responses == 0

    using(path, check)


def test_a_folder_is_no_file(tmp_path: Path) -> None:
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


@pytest.mark.skipif(sys.platform == "win32", reason="folders have other rights there")
def test_a_folder_that_cannot_be_written_is_told() -> None:
    folder = Path(tempfile.mkdtemp())
    try:
        folder.chmod(0o555)
        command = [sys.executable, "-c", _AS_NOBODY, str(folder / "store.db")]
        told = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        assert told.stdout.strip() == StoreError.UNWRITABLE
    finally:
        folder.chmod(0o700)
        shutil.rmtree(folder)


# Somebody else's


def test_two_cannot_have_one_file(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def first(store: SqliteStore) -> None:
        await store.open(opened("resp_1"))
        with pytest.raises(StoreError) as raised:
            await open_sqlite_store(path)
        assert raised.value.code == StoreError.LOCKED
        link = tmp_path / "another name"
        os.symlink(path, link)
        with pytest.raises(StoreError) as raised:
            await open_sqlite_store(link)
        assert raised.value.code == StoreError.LOCKED
        found = await store.get(LOCAL, "resp_1")
        assert found is not None
        assert found.status == "in_progress", "a second one must not end the turns of the first"
        assert await store.close("resp_1", closed("resp_1"), patience=30)

    using(path, first)
    using(path, lambda store: _nothing(store))


async def _nothing(_: SqliteStore) -> None:
    """A file that was closed can be opened."""


def test_a_file_that_could_not_be_opened_is_let_go(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.write_text("no database " * 100)
    opening(path)
    FileLock(path).release()


def test_a_lock_of_another_program_is_told(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    stranger = sqlite3.connect(path, isolation_level=None)
    stranger.execute("BEGIN EXCLUSIVE")
    assert opening(path).code == StoreError.LOCKED
    stranger.close()


def test_a_store_that_was_closed_says_so(tmp_path: Path) -> None:
    async def run() -> None:
        store = await open_sqlite_store(tmp_path / "store.db")
        await store.aclose()
        await store.aclose()
        for question in (
            store.get(LOCAL, "resp_1"),
            store.open(opened("resp_1")),
            store.delete(LOCAL, "resp_1"),
        ):
            with pytest.raises(StoreError) as raised:
                await question
            assert raised.value.code == StoreError.CLOSED
        assert not await store.close("resp_1", closed("resp_1"))

    asyncio.run(run())
