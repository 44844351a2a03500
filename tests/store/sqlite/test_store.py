"""The store in a file: reopening, closing, and turns while the disk is slow."""

from __future__ import annotations

import asyncio
import sqlite3
import stat
import threading
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from penstock.errors import StoreError
from penstock.store.batch_writer import WriteLimits
from penstock.store.records import LOCAL, Opened, StoredConversation
from penstock.store.sqlite import statements
from penstock.store.sqlite.statements import begin_turn
from penstock.store.sqlite.store import SqliteStore, open_sqlite_store
from penstock.store.sqlite.workers import TurnClaim
from tests.store.builders import (
    closed,
    complete_turn,
    event,
    events,
    items,
    opened,
    read,
    recalled,
    trace,
)
from tests.store.sqlite.stores import fill_disk, free_disk, stuck_disk, use_store

# Reopening


def test_everything_is_there_after_reopening(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "store.db"

    async def write(store: SqliteStore) -> None:
        await store.create_conversation(LOCAL, StoredConversation("conv_1", 3, b"{}"))
        await complete_turn(store, "resp_1", ["in_1"], ["out_1"], log=events(0, 50), conversation="conv_1")
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

    use_store(path, write)
    use_store(path, check)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600, "other users cannot read the conversations"
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert not path.with_name("store.db-wal").exists(), "closing leaves one file"


def test_deleted_text_does_not_remain_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def write_and_delete(store: SqliteStore) -> None:
        await complete_turn(store, "resp_1", ["word-that-was-said"])
        await store.delete(LOCAL, "resp_1")

    use_store(path, write_and_delete)
    assert b"word-that-was-said" not in path.read_bytes()


def test_a_closed_store_raises(tmp_path: Path) -> None:
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


LARGE = b"x" * 100_000

BACKGROUND = replace(opened("resp_behind"), is_background=True)


def test_close_does_not_wait_longer_than_its_patience(tmp_path: Path) -> None:
    async def body(store: SqliteStore) -> None:
        await store.open(opened("resp_1", "in_1"))
        async with stuck_disk(store):
            store.log("resp_1", events(0, 3))
            assert not await store.close("resp_1", closed("resp_1", "out_1"), patience=0)
            found = await store.get(LOCAL, "resp_1")
            assert found is not None
            assert found.status == "completed"
            assert await read(store, "resp_1") == events(0, 3)
            chain = await store.chain(LOCAL, "resp_1")
            assert chain is not None
            assert chain[0].output == items("out_1")
        await store.stats()
        assert await read(store, "resp_1") == events(0, 3)

    use_store(tmp_path / "store.db", body, busy_ms=0)


def test_open_does_not_wait_longer_than_its_patience(tmp_path: Path) -> None:
    async def body(store: SqliteStore) -> None:
        async with stuck_disk(store):
            assert not await store.open(opened("resp_1"), patience=0)
            found = await store.get(LOCAL, "resp_1")
            assert found is not None
            assert not found.is_durable
        await store.stats()
        found = await store.get(LOCAL, "resp_1")
        assert found is not None
        assert found.is_durable

    use_store(tmp_path / "store.db", body, busy_ms=0)


@pytest.mark.parametrize("is_committing", [False, True])
def test_a_background_turn_that_is_not_durable_in_time_is_not_stored(
    tmp_path: Path, is_committing: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether its commit had started or not."""
    gate, reached = threading.Event(), threading.Event()

    def slow(connection: sqlite3.Connection, turn: Opened, claim: TurnClaim) -> int:
        reached.set()
        gate.wait(30)
        return begin_turn(connection, turn, claim)

    async def body(store: SqliteStore) -> None:
        if is_committing:
            monkeypatch.setattr(statements, "begin_turn", slow)
            with pytest.raises(StoreError) as raised:
                await store.open(BACKGROUND, patience=0.2)
            assert reached.is_set()
            gate.set()
        else:
            async with stuck_disk(store):
                with pytest.raises(StoreError) as raised:
                    await store.open(BACKGROUND, patience=0)
        assert raised.value.code == StoreError.LATE
        assert (await store.stats()).responses == 0
        assert await store.get(LOCAL, BACKGROUND.id) is None
        monkeypatch.undo()
        assert await store.open(BACKGROUND, patience=30), "it can be retried"

    use_store(tmp_path / "store.db", body, busy_ms=0)


def test_events_that_the_disk_cannot_write_in_time_are_dropped_and_counted(tmp_path: Path) -> None:
    async def body(store: SqliteStore) -> None:
        await store.open(opened("resp_1"))
        await store.open(opened("resp_2"))
        async with stuck_disk(store):
            for number in range(1_000):
                store.log("resp_1", [event(number)])
            store.log("resp_2", events(0, 5))  # each turn has its own limit
            store.trace("resp_2", [trace(1)])
            assert store._writer.queued < 35_000
            found = await store.get(LOCAL, "resp_1")
            assert found is not None
            assert 0 < found.dropped < 1_000
        assert await store.close("resp_1", closed("resp_1"), patience=30)
        assert await store.close("resp_2", closed("resp_2"), patience=30)
        found = await store.get(LOCAL, "resp_1")
        assert found is not None
        assert await read(store, "resp_1") == events(0, 1_000 - found.dropped)
        assert await read(store, "resp_2") == events(0, 5)
        other = await store.get(LOCAL, "resp_2")
        assert other is not None
        assert other.dropped == 0
        assert store._writer.queued == 0

    use_store(tmp_path / "store.db", body, limits=WriteLimits(queued=20_000, queued_turn=10_000), busy_ms=0)


def test_a_slow_reader_keeps_nothing_in_memory(tmp_path: Path) -> None:
    async def body(store: SqliteStore) -> None:
        await store.open(opened("resp_1"))
        slow = store.events(LOCAL, "resp_1")
        store.log("resp_1", events(0, 1))
        seen = [await anext(slow)]
        for begin in range(1, 5_001, 100):
            store.log("resp_1", events(begin, begin + 100))
        await store.stats()
        assert store._turns["resp_1"].events == [], "written events are not kept in memory"
        assert store._writer.queued == 0
        await store.close("resp_1", closed("resp_1"), patience=30)
        seen.extend([event async for event in slow])
        assert seen == events(0, 5_001)

    use_store(tmp_path / "store.db", body, busy_ms=0)


def test_a_background_turn_notices_that_the_disk_has_recovered(tmp_path: Path) -> None:
    """Even if nothing else is written."""

    async def body(store: SqliteStore) -> None:
        await fill_disk(store)
        large = replace(BACKGROUND, response=LARGE)
        for _ in range(2):
            with pytest.raises(StoreError) as raised:
                await store.open(large, patience=30)
            assert raised.value.code == StoreError.FULL
        assert not await store.open(opened("resp_late"), patience=30), "no caller waits for it"
        await free_disk(store)
        assert await store.open(large, patience=30)

    use_store(tmp_path / "store.db", body, busy_ms=0)


@pytest.mark.parametrize("is_background", [False, True])
def test_what_a_turn_is_opened_with_is_committed_with_its_row(tmp_path: Path, is_background: bool) -> None:
    """A crash right after `open` must not lose one of the two: a request would be run twice (decision 32)."""
    path = tmp_path / "store.db"

    async def write(store: SqliteStore) -> None:
        turn = replace(opened("resp_1"), is_background=is_background, memory={"key": b"kept"})
        assert await store.open(turn, patience=30)
        with closing(sqlite3.connect(path)) as file:
            rows = file.execute("SELECT key, data FROM memories").fetchall()
            assert rows == [("key", b"kept")]
        await store.close("resp_1", closed("resp_1"), patience=30)

    use_store(path, write, limits=WriteLimits(log_delay=60))
