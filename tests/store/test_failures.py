"""A disk that is slow, full or locked while turns run: they end, reading goes on, memory stays bounded."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from penstock.errors import StoreError
from penstock.store.contract import LOCAL, Closed, LoggedEvent, Opened, StoredConversation
from penstock.store.sqlite import statements, writer
from penstock.store.sqlite.statements import begin_turn
from penstock.store.sqlite.store import SqliteStore, open_sqlite_store
from penstock.store.sqlite.writer import WriteLimits
from tests.store.making import Clock, closed, event, events, items, opened, read, stuck, trace, whole


def using(
    folder: Path, body: Callable[[SqliteStore], Awaitable[None]], bounds: WriteLimits | None = None
) -> None:
    async def run() -> None:
        store = await open_sqlite_store(folder / "store.db", clock=Clock(), bounds=bounds, busy_ms=0)
        try:
            await body(store)
        finally:
            await store.aclose()

    asyncio.run(run())


async def fill_disk(store: SqliteStore, pages: int = 1) -> None:
    """From now on the file cannot grow (beyond so many pages, if it is smaller)."""
    writer = store._writer
    limit = f"PRAGMA max_page_count = {pages}"
    loop = asyncio.get_running_loop()
    await loop.run_in_executor(writer._thread, lambda: writer._connection.execute(limit).fetchall())


async def free_disk(store: SqliteStore) -> None:
    await fill_disk(store, 1_000_000)


LARGE = b"x" * 100_000
BACKGROUND = replace(opened("resp_behind"), is_background=True)


# Slow


def test_an_end_does_not_wait_longer_than_its_patience(tmp_path: Path) -> None:
    async def body(store: SqliteStore) -> None:
        await store.open(opened("resp_1", "in_1"))
        async with stuck(store):
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

    using(tmp_path, body)


def test_a_beginning_does_not_wait_longer_than_its_patience(tmp_path: Path) -> None:
    async def body(store: SqliteStore) -> None:
        async with stuck(store):
            assert not await store.open(opened("resp_1"), patience=0)
            found = await store.get(LOCAL, "resp_1")
            assert found is not None
            assert not found.is_durable
        await store.stats()
        found = await store.get(LOCAL, "resp_1")
        assert found is not None
        assert found.is_durable

    using(tmp_path, body)


@pytest.mark.parametrize("is_committing", [False, True])
def test_a_background_turn_that_is_not_durable_in_time_leaves_nothing(
    tmp_path: Path, is_committing: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether its commit had begun by then or not."""
    gate, reached = threading.Event(), threading.Event()

    def slow(connection: sqlite3.Connection, turn: Opened) -> int:
        reached.set()
        gate.wait(30)
        return begin_turn(connection, turn)

    async def body(store: SqliteStore) -> None:
        if is_committing:
            monkeypatch.setattr(statements, "begin_turn", slow)
            with pytest.raises(StoreError) as raised:
                await store.open(BACKGROUND, patience=0.2)
            assert reached.is_set()
            gate.set()
        else:
            async with stuck(store):
                with pytest.raises(StoreError) as raised:
                    await store.open(BACKGROUND, patience=0)
        assert raised.value.code == StoreError.LATE
        assert (await store.stats()).responses == 0
        assert await store.get(LOCAL, BACKGROUND.id) is None
        monkeypatch.undo()
        assert await store.open(BACKGROUND, patience=30), "it can be tried again"

    using(tmp_path, body)


def test_what_is_not_waited_for_is_written_all_the_same(tmp_path: Path) -> None:
    async def body(store: SqliteStore) -> None:
        async with stuck(store):
            for number in range(20):
                await store.open(opened(f"resp_{number}"))
                assert not await store.close(f"resp_{number}", closed(f"resp_{number}"), patience=0)
        ends = [store._turns[id].end_write for id in list(store._turns)]
        assert all(await asyncio.gather(*ends))
        assert not store._turns, "nothing is held in memory that is in the file"
        assert store._writer.queued == 0

    using(tmp_path, body)


def test_a_log_that_the_disk_does_not_take_is_cut_and_that_is_told(tmp_path: Path) -> None:
    async def body(store: SqliteStore) -> None:
        await store.open(opened("resp_1"))
        await store.open(opened("resp_2"))
        async with stuck(store):
            for number in range(1_000):
                store.log("resp_1", [event(number)])
            store.log("resp_2", events(0, 5))  # it has room of its own
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

    using(tmp_path, body, WriteLimits(queued=20_000, queued_turn=10_000))


def test_a_slow_reader_holds_nothing_in_memory(tmp_path: Path) -> None:
    async def body(store: SqliteStore) -> None:
        await store.open(opened("resp_1"))
        slow = store.events(LOCAL, "resp_1")
        store.log("resp_1", events(0, 1))
        seen = [await anext(slow)]
        for begin in range(1, 5_001, 100):
            store.log("resp_1", events(begin, begin + 100))
        await store.stats()
        assert store._turns["resp_1"].events == [], "what is in the file is read from there"
        assert store._writer.queued == 0
        await store.close("resp_1", closed("resp_1"), patience=30)
        seen.extend([event async for event in slow])
        assert seen == events(0, 5_001)

    using(tmp_path, body)


# Full


def test_a_full_disk_is_told_and_reading_goes_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def body(store: SqliteStore) -> None:
        await whole(store, "resp_0", ["in_0"], log=events(0, 5))
        await fill_disk(store)
        await store.open(opened("resp_1", "in_1", previous="resp_0"))
        store.log("resp_1", [LoggedEvent(0, 1.0, b'"secret words"'), *events(1, 9)])
        large = Closed(status="completed", response=LARGE, output=items("out_1"))
        assert not await store.close("resp_1", large, patience=30)
        assert not await whole(store, "resp_2")
        assert not store._turns["resp_2"].end_write.done(), "nobody waits for a disk that is known to be full"
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
        assert not store._turns, "what was kept in memory is in the file now"
        assert await whole(store, "resp_3")

    with caplog.at_level(logging.WARNING, "penstock.store"):
        using(tmp_path, body)
    fields = [(record.levelname, getattr(record, "fields", {}).get("code")) for record in caplog.records]
    assert fields == [("ERROR", "full"), ("WARNING", "full")], "once, and once when it is over"
    assert "secret words" not in caplog.text

    async def check(store: SqliteStore) -> None:
        found = await store.get(LOCAL, "resp_1")
        assert found is not None
        assert (found.status, found.response) == ("completed", LARGE)

    using(tmp_path, check)


def test_a_disk_that_stays_full_does_not_fill_the_memory(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
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
        assert last.response == LARGE, "the newest are kept the longest"
        assert await store.get(LOCAL, "resp_0") is None
        early = await store.get(LOCAL, "resp_early")
        assert early is not None
        assert early.status == "failed", "its end is lost: it must not seem to run for ever"
        chain = await store.chain(LOCAL, "resp_early")
        assert chain is not None
        assert chain[0].status == "failed"

    with caplog.at_level(logging.ERROR, "penstock.store"):
        using(tmp_path, body, WriteLimits(queued=500_000))
    given_up = [id for code, id in lost_in(caplog) if code == "given_up"]
    assert given_up[:3] == ["resp_early", "resp_0", "resp_1"]


def test_a_background_turn_finds_out_that_the_disk_is_well_again(tmp_path: Path) -> None:
    """Also where nothing else is written."""

    async def body(store: SqliteStore) -> None:
        await fill_disk(store)
        large = replace(BACKGROUND, response=LARGE)
        for _ in range(2):
            with pytest.raises(StoreError) as raised:
                await store.open(large, patience=30)
            assert raised.value.code == StoreError.FULL
        assert not await store.open(opened("resp_late"), patience=30), "nobody waits for it"
        await free_disk(store)
        assert await store.open(large, patience=30)

    using(tmp_path, body)


def test_what_could_not_be_written_is_tried_again_when_the_store_is_closed(tmp_path: Path) -> None:
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


def test_what_is_lost_when_the_store_is_closed_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "CLOSE_TIMEOUT", 0.1)

    async def run() -> None:
        store = await open_sqlite_store(tmp_path / "store.db")
        assert await whole(store, "resp_0")
        await fill_disk(store)
        for id in ("resp_1", "resp_2"):
            await store.open(opened(id))
            await store.close(id, Closed(status="completed", response=LARGE), patience=30)
        assert await store.aclose() == ["resp_1", "resp_2"]
        assert await store.aclose() == ["resp_1", "resp_2"], "whoever asks again is told the same"

    with caplog.at_level(logging.ERROR, "penstock.store"):
        asyncio.run(run())
    assert lost_in(caplog) == [("full", "resp_1"), ("full", "resp_2")]


def lost_in(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    """Codes and ids of the responses that the log says are lost."""
    fields = [getattr(record, "fields", {}) for record in caplog.records]
    return [(each["code"], each["response_id"]) for each in fields if "response_id" in each]


def test_a_turn_that_is_given_up_while_it_is_written_is_counted_once(tmp_path: Path) -> None:
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
        async with stuck(store):  # the second attempt has begun
            await store.open(opened("resp_2"))
            await store.close("resp_2", large, patience=0)
            assert list(store._turns) == ["resp_2"], "there is room for one"
        await store.stats()
        assert store._writer.queued == 0
        assert await store.get(LOCAL, "resp_2") is not None

    using(tmp_path, body, WriteLimits(queued=150_000))


def test_a_lock_of_another_program_is_waited_out(tmp_path: Path) -> None:
    async def body(store: SqliteStore) -> None:
        stranger = sqlite3.connect(tmp_path / "store.db", isolation_level=None)
        stranger.execute("BEGIN IMMEDIATE")
        assert not await whole(store, "resp_1", log=events(0, 3))
        assert await read(store, "resp_1") == events(0, 3)
        stranger.close()
        await store.create_conversation(LOCAL, StoredConversation("conv_1", 1, b"{}"))
        assert not store._turns
        assert await read(store, "resp_1") == events(0, 3)

    using(tmp_path, body)


def test_a_write_that_is_tried_again_keeps_the_order_of_a_chain(tmp_path: Path) -> None:
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

    using(tmp_path, body)


# One that cannot be written


def test_a_turn_that_cannot_be_written_does_not_take_others_with_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def body(store: SqliteStore) -> None:
        async with stuck(store):
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
        using(tmp_path, body)
    assert lost_in(caplog) == [("refused", "resp_\ud800")]


def test_an_id_that_is_in_the_file_is_not_written_over(tmp_path: Path) -> None:
    async def body(store: SqliteStore) -> None:
        assert await whole(store, "resp_1", ["in_1"], log=events(0, 2))
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

    using(tmp_path, body)
