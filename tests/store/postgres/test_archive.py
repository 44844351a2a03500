"""The archive: what operators' tools read and delete while workers use the store."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from penstock.errors import StoreError
from penstock.store import is_in_use, migrate_store, open_archive
from penstock.store.ledger import TurnFilter
from penstock.store.postgres.archive import PostgresArchive
from penstock.store.postgres.schema import STEPS
from penstock.store.records import LOCAL, StoredConversation
from tests.store.builders import closed, complete_turn, events, items, opened, read, trace
from tests.store.ledger_records import NOON, ended, started
from tests.store.postgres.databases import on_postgres, rows, worker_on
from tests.store.workers import FAST, NotingHost


async def fill(url: str) -> None:
    async with worker_on(url, clock=lambda: NOON) as store:
        await store.create_conversation(LOCAL, StoredConversation("conv_1", 5, b'{"a":"b"}'))
        for number in range(40):
            await store.open(opened(f"resp_{number}", f"in_{number}", conversation="conv_1"), patience=30)
            store.log(f"resp_{number}", events(0, 30))
            store.trace(f"resp_{number}", [trace(1), trace(2)])
            end = closed(f"resp_{number}", f"out_{number}")
            await store.close(f"resp_{number}", end, patience=30)
        await complete_turn(store, "resp_0", tenant="other")
        store.settle_turn(ended(started("resp_0"), tokens=10, cost=0.5))
        await store.turns(TurnFilter())


@on_postgres
async def test_everything_is_read_across_tenants(url: str) -> None:
    await fill(url)

    def read() -> None:
        with open_archive(url) as archive:
            assert isinstance(archive, PostgresArchive)
            assert archive.files == []
            assert "planted-password" not in archive.location
            ids = [(stored.tenant, stored.id) for stored in archive.responses()]
            assert ids == [*((LOCAL, f"resp_{number}") for number in range(40)), ("other", "resp_0")]
            found = archive.find("resp_0")
            assert found is not None
            assert (found.tenant, found.status) == ("other", "completed"), "the newest"
            assert archive.find("resp_no") is None
            assert archive.find("a\0b") is None
            assert archive.events(LOCAL, "resp_7") == events(0, 30)
            assert archive.traces(LOCAL, "resp_7") == [trace(1), trace(2)]
            assert archive.input(LOCAL, "resp_7") == [*items("in_7")]
            assert archive.output(LOCAL, "resp_7") == [*items("out_7")]
            [talk] = archive.conversations()
            assert talk.conversation == StoredConversation("conv_1", 5, b'{"a":"b"}')
            assert talk.items[:2] == items("in_0", "out_0")
            assert len(talk.items) == 80
            assert [turn.id for turn in archive.turns(TurnFilter()).turns] == ["resp_0"]
            assert [total.cost for total in archive.totals(TurnFilter(), ())] == [0.5]
            assert archive.last_used() == {"alice": NOON}
            stats = archive.stats()
            assert (stats.total.responses, stats.by_status) == (41, {"completed": 41})
            assert stats.disk_bytes is not None
            assert stats.disk_bytes > stats.total.bytes > 0
            assert (stats.oldest, stats.newest) == (7, 7)
            assert archive.time(NOON + 10**9) < NOON + 10**6

    await asyncio.to_thread(read)


@on_postgres
async def test_pruning_counts_and_deletes(url: str) -> None:
    await fill(url)

    def prune() -> None:
        with open_archive(url) as archive:
            assert archive.count_expired(older_than=NOON).responses == 0
            expired = archive.count_expired(older_than=NOON + 1)
            assert (expired.responses, expired.conversations) == (41, 1)
            seen: list[int] = []
            pruned = archive.prune(
                older_than=NOON + 1, most_bytes=0, progress=lambda so_far: seen.append(so_far.responses)
            )
            assert (pruned.responses, pruned.conversations) == (41, 1)
            assert seen[-1] == 41

    await asyncio.to_thread(prune)


@on_postgres
async def test_an_archive_can_be_used_while_an_event_loop_runs(url: str) -> None:
    with open_archive(url) as archive:
        assert archive.stats().total.responses == 0


@on_postgres
async def test_a_store_is_in_use_while_a_worker_lives(url: str) -> None:
    assert not await asyncio.to_thread(is_in_use, url)
    async with worker_on(url):
        assert await asyncio.to_thread(is_in_use, url)
    assert not await asyncio.to_thread(is_in_use, url)
    assert not is_in_use("postgresql://postgres@127.0.0.1:1/postgres")


@on_postgres
async def test_what_is_queued_in_a_restored_backup_ends_as_failed_after_the_command(url: str) -> None:
    """The original gateways may have started it after the backup was made."""

    def fail_queued() -> int:
        with open_archive(url) as archive:
            return archive.fail_queued()

    async with worker_on(url) as store:
        for id in ("resp_1", "resp_2"):
            await store.open(replace(opened(id), is_background=True), patience=30)
        assert await store.start("resp_2")
    assert [await asyncio.to_thread(fail_queued) for _ in range(2)] == [1, 0]
    async with worker_on(url, times=FAST) as store:
        store.attach(host := NotingHost())
        for id in ("resp_1", "resp_2"):
            assert b'"worker_lost"' in (await read(store, id))[-1].data
        assert not host.started


@on_postgres
async def test_a_database_without_tables_is_not_changed(url: str) -> None:
    await rows(url, "DROP SCHEMA penstock CASCADE")
    with pytest.raises(StoreError) as caught, open_archive(url):
        pass
    assert caught.value.code == StoreError.EMPTY
    assert "penstock store migrate" in caught.value.message
    assert await rows(url, "SELECT to_regnamespace('penstock') IS NULL") == [(True,)]
    assert await asyncio.to_thread(migrate_store, url) == [step.summary for step in STEPS]
    assert await asyncio.to_thread(migrate_store, url) == []


@on_postgres
async def test_an_archive_is_used_in_a_with_statement(url: str) -> None:
    archive = open_archive(url)
    with pytest.raises(StoreError) as caught:
        archive.find("resp_1")
    assert caught.value.code == StoreError.CLOSED
