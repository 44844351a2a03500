"""Writing while the disk is full or locked: turns end, reading continues, memory stays bounded."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
from pathlib import Path

import pytest

from penstock.errors import StoreError
from penstock.store import batch_writer
from penstock.store.batch_writer import WriteLimits
from penstock.store.records import LOCAL, Closed, LoggedEvent, StoredConversation
from penstock.store.sqlite.store import SqliteStore, open_sqlite_store
from tests.store.builders import closed, complete_turn, events, items, opened, read
from tests.store.ledger_records import started
from tests.store.sqlite.stores import fill_disk, free_disk, lost_responses, stuck_disk, use_store

LARGE = b"x" * 100_000


def test_ends_are_written_even_if_no_caller_waits(tmp_path: Path) -> None:
    async def body(store: SqliteStore) -> None:
        async with stuck_disk(store):
            for number in range(20):
                await store.open(opened(f"resp_{number}"), patience=0)
                assert not await store.close(f"resp_{number}", closed(f"resp_{number}"), patience=0)
        ends = [store._turns[id].end_write for id in list(store._turns)]
        assert all(await asyncio.gather(*ends))
        assert not store._turns, "written turns are not kept in memory"
        assert store._writer.queued == 0

    use_store(tmp_path / "store.db", body, busy_ms=0)


@pytest.mark.parametrize(("size", "soon"), [(70_000, False), (10, True)], ids=["much", "the end of an item"])
def test_a_log_is_not_always_gathered_for_the_whole_delay(tmp_path: Path, size: int, soon: bool) -> None:
    async def body(store: SqliteStore) -> None:
        await store.open(opened("resp_1"))
        running = store._turns["resp_1"]
        store.log("resp_1", events(0, 3))
        await asyncio.sleep(0.02)
        assert running.events, "these wait for more"
        store.log("resp_1", [LoggedEvent(3, 1.0, b"x" * size)], soon=soon)
        async with asyncio.timeout(10):
            while running.events:
                await asyncio.sleep(0.001)

    use_store(tmp_path / "store.db", body, limits=WriteLimits(log_delay=3600))


def test_everybody_who_flushes_waits_for_the_write(tmp_path: Path) -> None:
    """Also if another caller, or the timer, starts the next write first."""

    async def body(store: SqliteStore) -> None:
        writer = store._writer

        async def flush() -> bool:
            await writer.flush()
            return writer._commit is None and not writer._ledger

        await store.open(opened("resp_1"))
        async with stuck_disk(store):
            await store.admit(started("resp_1"))
            store.log("resp_1", events(0, 3))
            flushes = [asyncio.create_task(flush()) for _ in range(3)]
            await asyncio.sleep(0)
            writer.schedule(store._turns["resp_1"])
        assert await asyncio.gather(*flushes) == [True] * 3, "the write that takes it is over"

    use_store(tmp_path / "store.db", body, limits=WriteLimits(log_delay=3600))


def test_a_callback_that_fails_does_not_stop_the_writer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: object) -> None:
        raise RuntimeError("the callback has a bug")

    async def body(store: SqliteStore) -> None:
        store._writer.on_written = fail
        await store.open(opened("resp_1"))
        closing = asyncio.create_task(store.close("resp_1", closed("resp_1"), patience=30))
        async with asyncio.timeout(30):
            await store.create_conversation(LOCAL, StoredConversation("conv_1", 1, b"{}"))
            assert await closing

    use_store(tmp_path / "store.db", body)
    assert "the callback has a bug" in caplog.text


# Full


def test_a_full_disk_is_logged_and_reading_continues(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def body(store: SqliteStore) -> None:
        await complete_turn(store, "resp_0", ["in_0"], log=events(0, 5))
        await fill_disk(store)
        await store.open(opened("resp_1", "in_1", previous="resp_0"))
        store.log("resp_1", [LoggedEvent(0, 1.0, b'"secret words"'), *events(1, 9)])
        large = Closed(status="completed", response=LARGE, output=items("out_1"))
        assert not await store.close("resp_1", large, patience=30)
        assert not await complete_turn(store, "resp_2")
        assert not store._turns["resp_2"].end_write.done(), (
            "no caller waits for a disk that is known to be full"
        )
        with pytest.raises(StoreError) as raised:
            await store.create_conversation(LOCAL, StoredConversation("conv_1", 1, LARGE))
        assert raised.value.code == StoreError.FULL

        assert await read(store, "resp_0") == events(0, 5)
        found = await store.get(LOCAL, "resp_1")
        assert found is not None
        assert (found.status, found.response) == ("completed", LARGE)
        assert (await read(store, "resp_1", 0)) == events(1, 9)
        chain = await store.chain(LOCAL, "resp_1")
        assert chain is not None
        assert [turn.id for turn in chain] == ["resp_0", "resp_1"]

        await free_disk(store)
        await store.create_conversation(LOCAL, StoredConversation("conv_1", 1, b"{}"))
        assert not store._turns, "everything is written now"
        assert await complete_turn(store, "resp_3")

    with caplog.at_level(logging.WARNING, "penstock.store"):
        use_store(tmp_path / "store.db", body, busy_ms=0)
    fields = [(record.levelname, getattr(record, "fields", {}).get("code")) for record in caplog.records]
    assert fields == [("ERROR", "full"), ("WARNING", "full")], (
        "one line for the failure, and one for the recovery"
    )
    assert "secret words" not in caplog.text

    async def check(store: SqliteStore) -> None:
        found = await store.get(LOCAL, "resp_1")
        assert found is not None
        assert (found.status, found.response) == ("completed", LARGE)

    use_store(tmp_path / "store.db", check, busy_ms=0)


def test_a_disk_that_stays_full_does_not_fill_the_memory(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_writer, "CLOSE_TIMEOUT", 0.1)

    async def body(store: SqliteStore) -> None:
        await store.open(opened("resp_early"))
        await store.stats()
        await fill_disk(store)
        large = Closed(status="completed", response=LARGE)
        await store.close("resp_early", large, patience=30)
        for number in range(30):
            await store.open(opened(f"resp_{number}"))
            store.log(f"resp_{number}", events(0, 3))
            assert not await store.close(f"resp_{number}", large, patience=30)
            with pytest.raises(StoreError):
                await store.create_conversation(LOCAL, StoredConversation("conv_1", 1, LARGE))
            assert store._writer.queued <= 600_000
        assert len(store._turns) < 10
        last = await store.get(LOCAL, "resp_29")
        assert last is not None
        assert last.response == LARGE, "the oldest are discarded first"
        assert await store.get(LOCAL, "resp_0") is None
        early = await store.get(LOCAL, "resp_early")
        assert early is not None
        assert early.status == "failed", "its end is lost, but it must not seem to run forever"
        chain = await store.chain(LOCAL, "resp_early")
        assert chain is not None
        assert chain[0].status == "failed"

    with caplog.at_level(logging.ERROR, "penstock.store"):
        use_store(tmp_path / "store.db", body, limits=WriteLimits(queued=500_000), busy_ms=0)
    given_up = [id for code, id in lost_responses(caplog) if code == "given_up"]
    assert given_up[:3] == ["resp_early", "resp_0", "resp_1"]


def test_closing_the_store_retries_failed_writes(tmp_path: Path) -> None:
    async def lose(store: SqliteStore) -> None:
        await fill_disk(store)
        assert not await store.close("resp_1", Closed(status="completed", response=LARGE), patience=30)

    async def run() -> None:
        store = await open_sqlite_store(tmp_path / "store.db")
        await store.open(opened("resp_1"), patience=30)
        await lose(store)
        closing = asyncio.create_task(store.aclose())
        await asyncio.sleep(0.05)  # the first attempt has failed
        await free_disk(store)
        assert await closing == []
        store = await open_sqlite_store(tmp_path / "store.db")
        found = await store.get(LOCAL, "resp_1")
        assert found is not None
        assert found.status == "completed"
        await store.aclose()

    asyncio.run(run())


def test_responses_that_are_lost_on_close_are_logged_and_returned(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_writer, "CLOSE_TIMEOUT", 0.1)

    async def run() -> None:
        store = await open_sqlite_store(tmp_path / "store.db")
        assert await complete_turn(store, "resp_0")
        await fill_disk(store)
        for id in ("resp_1", "resp_2"):
            await store.open(opened(id))
            await store.close(id, Closed(status="completed", response=LARGE), patience=30)
        assert await store.aclose() == ["resp_1", "resp_2"]
        assert await store.aclose() == ["resp_1", "resp_2"], "closing twice returns the same"

    with caplog.at_level(logging.ERROR, "penstock.store"):
        asyncio.run(run())
    assert lost_responses(caplog) == [("full", "resp_1"), ("full", "resp_2")]


def test_a_turn_that_is_discarded_during_a_write_is_counted_once(tmp_path: Path) -> None:
    def fail(_: object) -> None:
        raise sqlite3.OperationalError

    async def body(store: SqliteStore) -> None:
        large = Closed(status="completed", response=LARGE)
        await store.open(opened("resp_1"))
        end = asyncio.ensure_future(store.close("resp_1", large, patience=30))
        await asyncio.sleep(0)
        with pytest.raises(StoreError):
            await store._writer.do(fail)
        assert not await end
        async with stuck_disk(store):  # the retry has started
            await store.open(opened("resp_2"))
            await store.close("resp_2", large, patience=0)
            assert list(store._turns) == ["resp_2"], "there is room for one"
        await store.stats()
        assert store._writer.queued == 0
        assert await store.get(LOCAL, "resp_2") is not None

    use_store(tmp_path / "store.db", body, limits=WriteLimits(queued=150_000), busy_ms=0)


def test_a_retried_write_preserves_the_order_of_a_chain(tmp_path: Path) -> None:
    gate, reached = threading.Event(), threading.Event()

    def fail(_: object) -> None:
        reached.set()
        gate.wait(30)
        raise sqlite3.OperationalError

    async def body(store: SqliteStore) -> None:
        await store.open(opened("resp_1"))
        job = asyncio.ensure_future(store._writer.do(fail))
        assert await asyncio.to_thread(reached.wait, 30)
        await store.open(opened("resp_2", previous="resp_1"))
        gate.set()
        with pytest.raises(StoreError) as raised:
            await job
        assert raised.value.code == StoreError.IO
        for id in ("resp_2", "resp_1"):
            await store.close(id, closed(id), patience=0)
        await store.create_conversation(LOCAL, StoredConversation("conv_1", 1, b"{}"))
        assert not store._turns
        chain = await store.chain(LOCAL, "resp_2")
        assert chain is not None
        assert [turn.id for turn in chain] == ["resp_1", "resp_2"]

    use_store(tmp_path / "store.db", body, busy_ms=0)
