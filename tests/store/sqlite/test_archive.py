"""The archive: reading a store's file while a gateway has it open."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from penstock.errors import StoreError
from penstock.store.records import LOCAL, Pruned, StoredConversation
from penstock.store.sqlite import archive
from penstock.store.sqlite.archive import SqliteArchive
from penstock.store.sqlite.schema import STEPS
from penstock.store.sqlite.store import SqliteStore
from tests.store.builders import (
    NO_DELAYS,
    Clock,
    closed,
    complete_turn,
    event,
    events,
    incompressible_text,
    item,
    items,
    opened,
    trace,
)
from tests.store.sqlite.stores import do_nothing, use_store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


# Files that are refused


def refused(path: Path) -> StoreError:
    with pytest.raises(StoreError) as caught, SqliteArchive(path):
        pass
    assert str(path) in caught.value.message
    return caught.value


def test_a_missing_file_is_not_created(path: Path) -> None:
    assert refused(path).code == StoreError.MISSING
    assert list(path.parent.iterdir()) == []


def test_a_folder_is_refused(tmp_path: Path) -> None:
    assert refused(tmp_path).code == StoreError.MISSING


@pytest.mark.parametrize("data", [b"", b"these are my notes, and no database at all"], ids=["empty", "text"])
def test_a_file_that_is_not_a_store_is_refused_and_unchanged(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    assert refused(path).code == StoreError.NOT_A_STORE
    assert path.read_bytes() == data


def test_a_database_of_another_program_is_refused(path: Path) -> None:
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE recipes (name TEXT)")
    other.close()
    assert refused(path).code == StoreError.NOT_A_STORE


def test_a_file_of_a_newer_version_is_refused(path: Path) -> None:
    use_store(path, do_nothing)
    with sqlite3.connect(path) as file:
        file.execute("PRAGMA user_version = 999")
    file.close()
    assert refused(path).code == StoreError.NEWER_VERSION


def test_a_file_of_an_older_version_is_not_migrated(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_store(path, do_nothing)
    monkeypatch.setattr(archive, "STEPS", (*STEPS, "CREATE TABLE more (number INTEGER)"))
    error = refused(path)
    assert error.code == StoreError.OLDER_VERSION
    assert "penstock serve" in error.message
    with sqlite3.connect(path) as file:
        assert file.execute("PRAGMA user_version").fetchone() == (len(STEPS),)
    file.close()


def test_a_closed_archive_raises(path: Path) -> None:
    use_store(path, do_nothing)
    with SqliteArchive(path) as file:
        assert file.find("resp_a") is None
    with pytest.raises(StoreError) as caught:
        file.find("resp_a")
    assert caught.value.code == StoreError.CLOSED


# Reading


def test_a_turn_is_read_with_everything_that_was_stored(path: Path) -> None:
    async def body(store: SqliteStore) -> None:
        log = [event(number, "x" * 30_000) for number in range(20)]  # more rows than one read returns
        await complete_turn(store, "resp_a", ["msg_before"], ["msg_early"], tenant="anna")
        await store.open(opened("resp_b", "msg_1", "msg_2", tenant="anna", previous="resp_a"))
        store.log("resp_b", log)
        store.trace("resp_b", [trace(5), trace(7)])
        await store.close("resp_b", closed("resp_b", "msg_3"), patience=30)
        with SqliteArchive(path) as file:
            stored = file.find("resp_b")
            assert stored is not None
            assert (stored.tenant, stored.status, stored.previous_id) == ("anna", "completed", "resp_a")
            assert stored == await store.get("anna", "resp_b")
            assert file.events("anna", "resp_b") == log
            assert file.traces("anna", "resp_b") == [trace(5), trace(7)]
            assert file.input("anna", "resp_b") == list(items("msg_1", "msg_2"))
            assert file.output("anna", "resp_b") == [item("msg_3")]
            assert file.find("resp_c") is None
            assert file.events(LOCAL, "resp_b") == []

    use_store(path, body, limits=NO_DELAYS)


def test_a_running_turn_is_visible_and_not_ended(path: Path) -> None:
    async def body(store: SqliteStore) -> None:
        await store.open(opened("resp_a", "msg_1"))
        store.log("resp_a", events(0, 3))
        await store.stats()  # writes what is in memory
        with SqliteArchive(path) as file:
            stored = file.find("resp_a")
            assert stored is not None
            assert stored.status == "in_progress"
            assert file.events(LOCAL, "resp_a") == events(0, 3)
            assert file.stats().by_status == {"in_progress": 1}
        assert await store.close("resp_a", closed("resp_a"), patience=30)
        with SqliteArchive(path) as file:
            assert (found := file.find("resp_a")) is not None
            assert found.status == "completed"

    use_store(path, body, limits=NO_DELAYS)


def emptied(path: Path) -> bool:
    """Empty the journal into the file; return whether no reader blocked it."""
    other = sqlite3.connect(path)
    is_busy, *_ = other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    other.close()
    return not is_busy


def test_responses_are_listed_oldest_first_without_an_open_read(path: Path) -> None:
    async def body(store: SqliteStore) -> None:
        for number in range(40):
            await complete_turn(store, f"resp_{number}", tenant="ab"[number % 2])
        with SqliteArchive(path) as file:
            walk = file.responses()
            first = next(walk)
            await complete_turn(store, "resp_late")
            assert emptied(path), "iterating does not block a checkpoint"
            found = [stored.id for stored in (first, *walk)]
        assert found == [*(f"resp_{number}" for number in range(40)), "resp_late"]

    use_store(path, body, limits=NO_DELAYS)


def test_conversations_are_listed_with_their_items(path: Path) -> None:
    async def body(store: SqliteStore) -> None:
        for number in range(20):
            await store.create_conversation(
                "anna", StoredConversation(f"conv_{number}", number, b'{"a":"b"}')
            )
        await store.add_items("anna", "conv_3", items("msg_1", "msg_2"))
        with SqliteArchive(path) as file:
            conversations = list(file.conversations())
        assert [each.conversation.id for each in conversations] == [f"conv_{number}" for number in range(20)]
        assert (conversations[3].tenant, conversations[3].items) == ("anna", items("msg_1", "msg_2"))
        assert conversations[3].conversation.metadata == b'{"a":"b"}'
        assert conversations[4].items == ()

    use_store(path, body, limits=NO_DELAYS)


def test_stats_include_statuses_and_times(path: Path) -> None:
    async def body(store: SqliteStore) -> None:
        await complete_turn(store, "resp_a", ["msg_1"], log=events(0, 4))
        await store.open(opened("resp_b"))
        await store.close("resp_b", closed("resp_b", status="failed"), patience=30)
        with SqliteArchive(path) as file:
            stats = file.stats()
        assert stats.total == await store.stats()
        assert stats.by_status == {"completed": 1, "failed": 1}
        assert (stats.oldest, stats.newest) == (7, 7)

    use_store(path, body, limits=NO_DELAYS)


def test_an_empty_store_has_no_oldest(path: Path) -> None:
    use_store(path, do_nothing)
    with SqliteArchive(path) as file:
        assert file.stats().oldest is None
        assert list(file.responses()) == []


# Pruning while a gateway runs


def test_prune_deletes_old_responses_with_everything_that_belongs_to_them(path: Path) -> None:
    clock = Clock()

    async def body(store: SqliteStore) -> None:
        await store.open(opened("resp_runs"))
        await store.create_conversation(LOCAL, StoredConversation("conv_a", 1, b"{}"))
        for number in range(5):
            clock.now = 1_000 + number
            await complete_turn(store, f"resp_{number}", [f"msg_{number}"], log=events(0, 2))
        with SqliteArchive(path) as file:
            assert file.count_expired(older_than=1_003) == Pruned(3, 1)
            totals: list[tuple[int, int]] = []
            pruned = file.prune(
                older_than=1_003, progress=lambda now: totals.append((now.responses, now.conversations))
            )
            assert pruned == Pruned(3, 1)
            assert totals == [(3, 0), (3, 1)]
            assert [each.id for each in file.responses()] == ["resp_runs", "resp_3", "resp_4"]
            assert (stats := file.stats()).total.events == 4
            assert stats.total.items == 2, "items of deleted responses are deleted"
        assert await store.close("resp_runs", closed("resp_runs"), patience=30)

    use_store(path, body, clock=clock, limits=NO_DELAYS)


def test_prune_deletes_the_oldest_until_it_fits_and_shrinks_the_file(path: Path) -> None:
    clock = Clock()

    async def body(store: SqliteStore) -> None:
        for number in range(30):
            clock.now += 1
            await complete_turn(store, f"resp_{number}", [], log=[event(0, incompressible_text(number))])
        with SqliteArchive(path) as file:
            before = file.stats().total.bytes
            emptied(path)
            assert path.stat().st_size >= before
            pruned = file.prune(most_bytes=before // 2)
            after = file.stats().total
            assert 0 < pruned.responses < 30
            assert after.bytes <= before // 2
            assert path.stat().st_size <= before // 2, "at once, not when the gateway stops"
            assert [each.id for each in file.responses()] == [
                f"resp_{n}" for n in range(pruned.responses, 30)
            ]
        assert await store.get(LOCAL, "resp_0") is None

    use_store(path, body, clock=clock, limits=NO_DELAYS)


def test_prune_without_a_limit_deletes_nothing(path: Path) -> None:
    async def body(store: SqliteStore) -> None:
        await complete_turn(store, "resp_a")
        with SqliteArchive(path) as file:
            assert file.prune() == Pruned()
            assert file.find("resp_a") is not None

    use_store(path, body, limits=NO_DELAYS)


def test_a_locked_file_can_be_read_but_not_pruned(path: Path) -> None:
    use_store(path, do_nothing)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with SqliteArchive(path, busy_ms=1) as file:
        with pytest.raises(StoreError) as caught:
            file.prune(older_than=1.0)
        assert caught.value.code == StoreError.LOCKED
        assert file.find("resp_a") is None, "reading does not wait for the lock"
    other.close()
