"""The recent events of running turns: one row for all of them, and none is lost or read twice."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from penstock.store.batch_writer import WriteLimits
from penstock.store.records import LOCAL, LoggedEvent, Trace
from penstock.store.sqlite import writer
from penstock.store.sqlite.archive import SqliteArchive
from penstock.store.sqlite.store import SqliteStore
from tests.store.builders import closed, event, events, incompressible_text, opened, read, trace
from tests.store.sqlite.stores import fill_disk, free_disk, use_store

NEVER = WriteLimits(log_delay=3600, recent_delay=3600)
"""Events are written when a test says so."""


def counts(path: Path) -> tuple[int, int]:
    """Return the number of rows with recent events, and of rows in the logs of turns."""
    connection = sqlite3.connect(path)
    found = [
        connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in ("recent", "events")
    ]
    connection.close()
    return found[0], found[1]


def damage_first_row(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("UPDATE recent SET data = x'00ff' WHERE number = (SELECT min(number) FROM recent)")
    connection.commit()
    connection.close()


async def write(store: SqliteStore, id: str, begin: int, end: int) -> None:
    """Log events and write them to the file."""
    store.log(id, events(begin, end))
    await store._writer.flush()


def sequences(log: list[LoggedEvent]) -> list[int]:
    return [one.sequence for one in log]


def after_a_crash(path: Path, check: Callable[[SqliteStore], Awaitable[None]]) -> None:
    """Open a copy of the file of a running store, as the file would be after a crash."""
    copy = path.with_name("crashed.db")
    for suffix in ("", "-wal"):
        shutil.copyfile(f"{path}{suffix}", f"{copy}{suffix}")
    use_store(copy, check)


async def crash(path: Path, check: Callable[[SqliteStore], Awaitable[None]]) -> None:
    await asyncio.to_thread(after_a_crash, path, check)


def test_one_row_holds_the_events_of_all_turns_and_survives_a_crash(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def body(store: SqliteStore) -> None:
        await store.open(opened("resp_1"))
        await store.open(opened("resp_2"))
        store.log("resp_1", events(0, 3))
        await write(store, "resp_2", 0, 2)
        await write(store, "resp_1", 3, 5)
        assert counts(path) == (2, 0)
        assert store._writer.queued > 0, "they are still in memory"
        await crash(path, check)

    async def check(store: SqliteStore) -> None:
        first, second = await read(store, "resp_1"), await read(store, "resp_2")
        assert (first[:5], second[:2]) == (events(0, 5), events(0, 2)), "with the time of each"
        assert [len(first), len(second)] == [6, 3], "the end follows"
        assert counts(path.with_name("crashed.db"))[0] == 0

    use_store(path, body, limits=NEVER)


def test_recent_events_move_to_the_logs_of_their_turns_after_a_while(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def body(store: SqliteStore) -> None:
        await store.open(opened("resp_1"))
        running = store._turns["resp_1"]
        for number in range(3):
            await write(store, "resp_1", number, number + 1)
        async with asyncio.timeout(10):
            while running.events:
                await asyncio.sleep(0.001)
        assert counts(path) == (0, 1), "they share a row"
        assert store._writer.queued == 0
        await write(store, "resp_1", 3, 4)
        await store.close("resp_1", closed("resp_1"), patience=30)
        assert await read(store, "resp_1") == events(0, 4)
        assert await read(store, "resp_1", 1) == events(2, 4)

    use_store(path, body, limits=WriteLimits(log_delay=3600, recent_delay=0.05))


def test_events_in_the_log_of_a_turn_are_not_recovered_again(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def body(store: SqliteStore) -> None:
        await store.open(opened("resp_1"))
        await store.open(opened("resp_2"))
        store.log("resp_2", events(0, 4))
        await write(store, "resp_1", 0, 3)
        store.log("resp_1", [event(3)], soon=True)  # the end of an item: all of this turn is written
        await store._writer.flush()
        await store.close("resp_2", closed("resp_2"), patience=30)
        await write(store, "resp_1", 4, 6)
        assert counts(path) == (2, 2)
        await crash(path, check)

    async def check(store: SqliteStore) -> None:
        assert (await read(store, "resp_1"))[:6] == events(0, 6)
        assert sequences(await read(store, "resp_1")) == [0, 1, 2, 3, 4, 5, 6]
        assert await read(store, "resp_2") == events(0, 4)

    use_store(path, body, limits=NEVER)


def test_the_events_of_a_deleted_response_never_reach_another_one(tmp_path: Path) -> None:
    """The new row has the number of the deleted one."""
    path = tmp_path / "store.db"

    async def body(store: SqliteStore) -> None:
        await store.open(opened("resp_1"))
        await write(store, "resp_1", 0, 3)
        await store.close("resp_1", closed("resp_1"), patience=30)
        assert await store.delete(LOCAL, "resp_1")
        await store.open(opened("resp_2"))
        await crash(path, check)

    async def check(store: SqliteStore) -> None:
        assert all(b"delta" not in one.data for one in await read(store, "resp_2"))

    use_store(path, body, limits=NEVER)


def test_another_process_reads_the_recent_events_of_a_running_turn(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def body(store: SqliteStore) -> None:
        await store.open(opened("resp_1"))
        await store.open(opened("resp_2"))
        store.log("resp_2", events(0, 9))
        await write(store, "resp_1", 0, 2)
        store.log("resp_1", [event(2)], soon=True)
        await store._writer.flush()
        await write(store, "resp_1", 3, 5)
        with SqliteArchive(path) as archive:
            assert archive.events(LOCAL, "resp_1") == events(0, 5)

    use_store(path, body, limits=NEVER)


def test_a_turn_with_new_traces_is_written_to_its_own_rows_unless_they_are_reads(tmp_path: Path) -> None:
    """Traces have no numbers, so nothing would show which of them are in both places."""
    path = tmp_path / "store.db"

    async def body(store: SqliteStore) -> None:
        await store.open(opened("resp_1"))
        store.trace("resp_1", [trace(1)])
        await write(store, "resp_1", 0, 2)
        assert counts(path) == (1, 0)
        failure = Trace("failure", 100.0, b"{}")
        store.trace("resp_1", [failure])
        await write(store, "resp_1", 2, 4)
        assert counts(path) == (1, 1)
        assert await store.traces(LOCAL, "resp_1") == [trace(1), failure]
        store.trace("resp_1", [trace(2)])
        await store._writer.flush()
        assert not store._turns["resp_1"].traces, "without events there is nothing else to write"

    use_store(path, body, limits=NEVER)


def test_a_turn_that_is_given_up_keeps_its_recent_events(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def body(store: SqliteStore) -> None:
        await store.open(opened("resp_1"))
        await write(store, "resp_1", 0, 3)
        running = store._turns["resp_1"]
        store._writer.lose(running)
        del store._turns[running.opened.id]
        assert await read(store, "resp_1") == events(0, 3)
        await store._writer.flush_logs()
        assert counts(path) == (0, 1)
        assert await read(store, "resp_1") == events(0, 3)

    use_store(path, body, limits=NEVER)


def test_a_full_disk_loses_no_recent_events(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def body(store: SqliteStore) -> None:
        await store.open(opened("resp_1"))
        await write(store, "resp_1", 0, 3)
        await fill_disk(store)
        store.log("resp_1", [event(3, incompressible_text(3))])
        await store._writer.flush_logs()
        assert store._writer.is_failing
        assert counts(path) == (1, 0)
        await free_disk(store)
        await store._writer.flush_logs()
        assert counts(path) == (0, 1)
        await store.close("resp_1", closed("resp_1"), patience=30)
        assert await read(store, "resp_1") == [*events(0, 3), event(3, incompressible_text(3))]

    use_store(path, body, limits=NEVER, busy_ms=0)


def test_a_commit_with_a_waiting_caller_leaves_the_events_of_other_turns(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def body(store: SqliteStore) -> None:
        await store.open(opened("resp_1"))
        store.log("resp_1", events(0, 3))
        await store.open(opened("resp_2"))
        await store.close("resp_2", closed("resp_2"), patience=30)
        assert store._turns["resp_1"].recent_events == 0, "they are gathered for the whole delay"
        assert counts(path) == (0, 0)

    use_store(path, body, limits=NEVER)


def test_closing_the_store_leaves_no_recent_events(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def body(store: SqliteStore) -> None:
        await store.open(opened("resp_1"))
        await write(store, "resp_1", 0, 3)
        store.log("resp_1", events(3, 5))

    use_store(path, body, limits=NEVER)
    assert counts(path) == (0, 1)


def test_a_row_that_cannot_be_read_keeps_nothing_else_from_being_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "store.db"

    async def body(store: SqliteStore) -> None:
        await store.open(opened("resp_1"))
        await write(store, "resp_1", 0, 2)
        await write(store, "resp_1", 2, 4)
        damage_first_row(path)
        await crash(path, check)
        with SqliteArchive(path) as archive:
            assert sequences(archive.events(LOCAL, "resp_1")) == [2, 3]

    async def check(store: SqliteStore) -> None:
        log = await read(store, "resp_1")
        assert sequences(log)[:2] == [2, 3]

    use_store(path, body, limits=NEVER)
    assert "cannot be read" in caplog.text


def test_recent_events_that_cannot_be_moved_are_not_tried_without_a_pause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = 0

    def refuse(_: sqlite3.Connection) -> None:
        nonlocal tries
        tries += 1
        raise ValueError("planted")

    async def body(store: SqliteStore) -> None:
        await store.open(opened("resp_1"))
        await write(store, "resp_1", 0, 2)
        store._writer._has_lost_recent = True
        monkeypatch.setattr(writer, "move_recent", refuse)
        await store._writer.flush_logs()
        await asyncio.sleep(0.05)
        assert 0 < tries <= 4
        monkeypatch.undo()

    use_store(tmp_path / "store.db", body, limits=NEVER)
