"""Committing to the file: locks of other programs, and entries that are invalid."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from pathlib import Path

import pytest

from penstock.store.records import LOCAL, Closed, Opened, StoredConversation
from penstock.store.sqlite.store import SqliteStore
from tests.store.builders import closed, complete_turn, events, opened, read, trace
from tests.store.sqlite.stores import lost_responses, stuck_disk, use_store


def test_turns_are_written_after_another_program_releases_its_lock(tmp_path: Path) -> None:
    async def body(store: SqliteStore) -> None:
        stranger = sqlite3.connect(tmp_path / "store.db", isolation_level=None)
        stranger.execute("BEGIN IMMEDIATE")
        assert not await complete_turn(store, "resp_1", log=events(0, 3))
        assert await read(store, "resp_1") == events(0, 3)
        stranger.close()
        await store.create_conversation(LOCAL, StoredConversation("conv_1", 1, b"{}"))
        assert not store._turns
        assert await read(store, "resp_1") == events(0, 3)

    use_store(tmp_path / "store.db", body, busy_ms=0)


# Turns that cannot be written


def test_a_turn_that_cannot_be_written_does_not_affect_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def body(store: SqliteStore) -> None:
        async with stuck_disk(store):
            await store.open(opened("resp_1"))
            await store.open(Opened(id="resp_\ud800", created_at=1, response=b"{}"))
            await store.open(opened("resp_2"))
            ends = [
                asyncio.ensure_future(store.close(id, Closed(status="completed", response=b""), patience=30))
                for id in ("resp_1", "resp_\ud800", "resp_2")
            ]
            await asyncio.sleep(0)
        assert await asyncio.gather(*ends) == [True, False, True]
        assert not store._turns
        assert store._writer.queued == 0
        assert (await store.stats()).responses == 2

    with caplog.at_level(logging.ERROR, "penstock.store"):
        use_store(tmp_path / "store.db", body, busy_ms=0)
    assert lost_responses(caplog) == [("refused", "resp_\ud800")]


def test_a_response_in_the_file_is_not_overwritten(tmp_path: Path) -> None:
    async def body(store: SqliteStore) -> None:
        assert await complete_turn(store, "resp_1", ["in_1"], log=events(0, 2))
        await store.open(opened("resp_1"))
        await store.stats()
        store.log("resp_1", events(0, 9))
        store.trace("resp_1", [trace(1)])
        running = await store.get(LOCAL, "resp_1")
        assert running is not None
        assert running.dropped == 9
        assert store._writer.queued == 0
        assert not await store.close("resp_1", closed("resp_1", status="failed"), patience=30)
        found = await store.get(LOCAL, "resp_1")
        assert found is not None
        assert found.status == "completed"
        assert await read(store, "resp_1") == events(0, 2)

    use_store(tmp_path / "store.db", body, busy_ms=0)
