"""Looking into a store's file from beside the gateway that has it open."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path

import pytest

from penstock.errors import StoreError
from penstock.store.contract import LOCAL, Pruned, StoredConversation
from penstock.store.sqlite import archive
from penstock.store.sqlite.archive import SqliteArchive
from penstock.store.sqlite.schema import STEPS
from penstock.store.sqlite.store import SqliteStore
from tests.store.builders import (
    NO_DELAYS,
    Clock,
    closed,
    event,
    events,
    item,
    items,
    opened,
    trace,
    whole,
)
from tests.store.sqlite.stores import do_nothing, use_store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


# Which files it takes


def refused(path: Path) -> StoreError:
    with pytest.raises(StoreError) as caught, SqliteArchive(path):
        pass
    assert str(path) in caught.value.message
    return caught.value


def test_a_file_that_is_not_there_is_not_made(path: Path) -> None:
    assert refused(path).code == StoreError.MISSING
    assert list(path.parent.iterdir()) == []


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    assert refused(tmp_path).code == StoreError.MISSING


@pytest.mark.parametrize("data", [b"", b"these are my notes, and no database at all"], ids=["empty", "text"])
def test_a_file_of_something_else_is_refused_and_stays_as_it_was(path: Path, data: bytes) -> None:
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


def test_a_file_of_an_older_version_is_left_to_a_gateway(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_store(path, do_nothing)
    monkeypatch.setattr(archive, "STEPS", (*STEPS, "CREATE TABLE more (number INTEGER)"))
    error = refused(path)
    assert error.code == StoreError.OLDER_VERSION
    assert "penstock serve" in error.message
    with sqlite3.connect(path) as file:
        assert file.execute("PRAGMA user_version").fetchone() == (len(STEPS),)
    file.close()


def test_it_answers_nothing_once_it_is_closed(path: Path) -> None:
    use_store(path, do_nothing)
    with SqliteArchive(path) as file:
        assert file.find("resp_a") is None
    with pytest.raises(StoreError) as caught:
        file.find("resp_a")
    assert caught.value.code == StoreError.CLOSED


# Reading


def test_a_turn_is_read_with_all_that_was_kept_of_it(path: Path) -> None:
    async def body(store: SqliteStore) -> None:
        log = [event(number, "x" * 30_000) for number in range(20)]  # more rows than are read at a time
        await whole(store, "resp_a", ["msg_before"], ["msg_early"], tenant="anna")
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


def test_a_turn_that_runs_is_seen_running_and_goes_on(path: Path) -> None:
    async def body(store: SqliteStore) -> None:
        await store.open(opened("resp_a", "msg_1"))
        store.log("resp_a", events(0, 3))
        await store.stats()  # what waited is in the file
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
    """Bring all that is in the journal into the file; whether nobody was in the way."""
    other = sqlite3.connect(path)
    is_busy, *_ = other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    other.close()
    return not is_busy


def test_all_responses_come_oldest_first_and_no_read_stays_open(path: Path) -> None:
    async def body(store: SqliteStore) -> None:
        for number in range(40):
            await whole(store, f"resp_{number}", tenant="ab"[number % 2])
        with SqliteArchive(path) as file:
            walk = file.responses()
            first = next(walk)
            await whole(store, "resp_late")
            assert emptied(path), "whoever walks through the file keeps nobody from emptying its journal"
            found = [stored.id for stored in (first, *walk)]
        assert found == [*(f"resp_{number}" for number in range(40)), "resp_late"]

    use_store(path, body, limits=NO_DELAYS)


def test_conversations_come_with_their_items(path: Path) -> None:
    async def body(store: SqliteStore) -> None:
        for number in range(20):
            await store.create_conversation(
                "anna", StoredConversation(f"conv_{number}", number, b'{"a":"b"}')
            )
        await store.add_items("anna", "conv_3", items("msg_1", "msg_2"))
        with SqliteArchive(path) as file:
            kept = list(file.conversations())
        assert [each.conversation.id for each in kept] == [f"conv_{number}" for number in range(20)]
        assert (kept[3].tenant, kept[3].items) == ("anna", items("msg_1", "msg_2"))
        assert kept[3].conversation.metadata == b'{"a":"b"}'
        assert kept[4].items == ()

    use_store(path, body, limits=NO_DELAYS)


def test_stats_are_those_of_the_store_and_more(path: Path) -> None:
    async def body(store: SqliteStore) -> None:
        await whole(store, "resp_a", ["msg_1"], log=events(0, 4))
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


# Pruning beside a gateway


def test_prune_takes_what_is_old_with_all_that_belongs_to_it(path: Path) -> None:
    clock = Clock()

    async def body(store: SqliteStore) -> None:
        await store.open(opened("resp_runs"))
        await store.create_conversation(LOCAL, StoredConversation("conv_a", 1, b"{}"))
        for number in range(5):
            clock.now = 1_000 + number
            await whole(store, f"resp_{number}", [f"msg_{number}"], log=events(0, 2))
        with SqliteArchive(path) as file:
            assert file.due(older_than=1_003) == Pruned(3, 1)
            told: list[tuple[int, int]] = []
            gone = file.prune(
                older_than=1_003, progress=lambda now: told.append((now.responses, now.conversations))
            )
            assert gone == Pruned(3, 1)
            assert told == [(3, 0), (3, 1)]
            assert [each.id for each in file.responses()] == ["resp_runs", "resp_3", "resp_4"]
            assert (stats := file.stats()).total.events == 4
            assert stats.total.items == 2, "what belongs to a response goes with it"
        assert await store.close("resp_runs", closed("resp_runs"), patience=30)

    use_store(path, body, clock=clock, limits=NO_DELAYS)


def test_prune_takes_the_oldest_until_it_fits_and_the_file_shrinks(path: Path) -> None:
    clock = Clock()

    async def body(store: SqliteStore) -> None:
        for number in range(30):
            clock.now += 1
            await whole(store, f"resp_{number}", [], log=[event(0, _noise(number))])
        with SqliteArchive(path) as file:
            before = file.stats().total.bytes
            emptied(path)
            assert path.stat().st_size >= before
            gone = file.prune(most_bytes=before // 2)
            after = file.stats().total
            assert 0 < gone.responses < 30
            assert after.bytes <= before // 2
            assert path.stat().st_size <= before // 2, "at once, and not when the gateway ends"
            assert [each.id for each in file.responses()] == [f"resp_{n}" for n in range(gone.responses, 30)]
        assert await store.get(LOCAL, "resp_0") is None

    use_store(path, body, clock=clock, limits=NO_DELAYS)


def _noise(seed: int) -> str:
    """Text that does not get smaller when it is packed."""
    return "".join(random.Random(seed).choices("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOP", k=20_000))


def test_prune_without_a_bound_deletes_nothing(path: Path) -> None:
    async def body(store: SqliteStore) -> None:
        await whole(store, "resp_a")
        with SqliteArchive(path) as file:
            assert file.prune() == Pruned()
            assert file.find("resp_a") is not None

    use_store(path, body, limits=NO_DELAYS)


def test_a_file_that_somebody_holds_is_told_as_locked(path: Path) -> None:
    use_store(path, do_nothing)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with SqliteArchive(path, busy_ms=1) as file:
        with pytest.raises(StoreError) as caught:
            file.prune(older_than=1.0)
        assert caught.value.code == StoreError.LOCKED
        assert file.find("resp_a") is None, "reading waits for nobody"
    other.close()
