"""Opening a file: the lock, and turns that were running when the last process died."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.errors import StoreError
from penstock.store.records import LOCAL, StoredConversation
from penstock.store.sqlite.file import FileLock
from penstock.store.sqlite.store import SqliteStore, open_sqlite_store
from tests.store.builders import (
    closed,
    done,
    event,
    item,
    item_of,
    items,
    opened,
    read,
    trace,
)
from tests.store.sqlite.stores import do_nothing, opening_error, use_store

# Interrupted turns


def test_an_interrupted_turn_is_failed_with_its_finished_items(tmp_path: Path) -> None:
    """Ask G8: no turn stays in_progress, and finished items are preserved."""
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
        begun, ended = await read(store, "resp_2")  # `response.created` may have been sent to the client
        assert begun.data.startswith(b'{"type":"response.created","sequence_number":0,')
        assert ended.data.startswith(b'{"type":"response.failed","sequence_number":1,')
        assert await store.delete(LOCAL, "resp_1"), "it is no longer running"

    use_store(path, leave)
    use_store(path, check)


def test_an_invalid_snapshot_is_replaced_by_a_minimal_one(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def leave(store: SqliteStore) -> None:
        turn = opened("resp_1")
        await store.open(type(turn)(id="resp_1", created_at=1, response=b"no json"))
        store.log("resp_1", [event(0), type(event(1))(1, 0.0, b'no json "response.output_item.done"')])

    async def check(store: SqliteStore) -> None:
        found = await store.get(LOCAL, "resp_1")
        assert found is not None
        assert found.response.startswith(b'{"id":"resp_1","object":"response","status":"failed",')

    use_store(path, leave)
    use_store(path, check)


def test_an_empty_file_becomes_a_store(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.touch()

    async def check(store: SqliteStore) -> None:
        assert (await store.stats()).responses == 0

    use_store(path, check)


# Locked files


def test_a_file_can_be_opened_by_one_store_only(tmp_path: Path) -> None:
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
        assert found.status == "in_progress", "a second store must not end the turns of the first"
        assert await store.close("resp_1", closed("resp_1"), patience=30)

    use_store(path, first)
    use_store(path, do_nothing)


def test_a_file_that_could_not_be_opened_is_unlocked(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.write_text("no database " * 100)
    opening_error(path)
    FileLock(path).release()
