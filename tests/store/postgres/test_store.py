"""The store as a whole: outages of the server, poolers, and what is durable."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count

import pytest
from msgspec.structs import replace

from penstock.errors import StoreError
from penstock.store import open_store
from penstock.store.ledger import KeyLimits, TurnFilter
from penstock.store.peers import PeerTimes
from penstock.store.postgres.store import open_postgres_store
from penstock.store.records import LOCAL, StoredConversation
from penstock.store.shared import SharedStore
from tests.store.builders import NO_DELAYS, closed, complete_turn, events, ids, opened, read
from tests.store.ledger_records import NOON, ended, started
from tests.store.postgres.cluster import PostgresCluster
from tests.store.postgres.databases import on_postgres, rows, worker_on
from tests.store.workers import NotingHost, until

pytestmark = pytest.mark.store

DURABLE = ("synchronous_commit=on", "wal_sync_method=fdatasync")
"""Settings of a server that syncs to the disk, as in production."""


@contextmanager
def own_cluster() -> Iterator[PostgresCluster]:
    cluster = PostgresCluster(settings=DURABLE)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.remove()


def run_on_own_cluster(body: Callable[[PostgresCluster, SharedStore], Awaitable[None]]) -> None:
    with own_cluster() as cluster:

        async def run() -> None:
            async with asyncio.timeout(120), worker_on(cluster.url(), bounds=NO_DELAYS) as store:
                await body(cluster, store)

        asyncio.run(run())


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT, signal.SIGKILL], ids=lambda how: how.name)
def test_turns_go_on_while_the_server_is_restarted(how: signal.Signals) -> None:
    async def body(cluster: PostgresCluster, store: SharedStore) -> None:
        host = NotingHost()
        store.attach(host)
        numbers = range(20)
        for number in numbers:
            assert await store.open(opened(f"resp_{number}", f"in_{number}"), patience=30)
            store.log(f"resp_{number}", events(0, 5))
        assert await store.close("resp_0", closed("resp_0", "out_0"), patience=30)
        await asyncio.to_thread(cluster.stop, how)
        for number in numbers[1:]:
            store.log(f"resp_{number}", events(5, 9))
        assert not await store.close("resp_1", closed("resp_1", "out_1"), patience=5)
        with pytest.raises(StoreError) as caught:
            await store.get(LOCAL, "resp_0")
        assert caught.value.code == StoreError.UNREACHABLE
        with pytest.raises(StoreError):
            await store.open(replace(opened("resp_b"), is_background=True), patience=1)
        with pytest.raises(StoreError):
            await store.admit(started("resp_a"), KeyLimits(requests_per_minute=1))
        await until(lambda: store.is_unavailable)
        await asyncio.to_thread(cluster.start)
        for number in numbers[2:]:
            await store.close(f"resp_{number}", closed(f"resp_{number}", f"out_{number}"), patience=0)
        await until(lambda: not store._turns)
        await until(lambda: not store.is_unavailable)
        assert not host.lost
        for number in numbers:
            stored = await store.get(LOCAL, f"resp_{number}")
            assert stored is not None
            assert (stored.status, stored.is_durable) == ("completed", True)
            assert await read(store, f"resp_{number}") == events(0, 9 if number else 5)
        assert await store.get(LOCAL, "resp_b") is None

    run_on_own_cluster(body)


def test_what_close_has_confirmed_survives_crashes_of_the_server() -> None:
    async def body(cluster: PostgresCluster, store: SharedStore) -> None:
        confirmed: set[str] = set()

        async def turns(name: str) -> None:
            for number in count():
                id = f"resp_{name}_{number}"
                await store.open(opened(id), patience=0.1)
                store.log(id, events(0, 2))
                if await store.close(id, closed(id), patience=0.2):
                    confirmed.add(id)
                else:
                    await asyncio.sleep(0.05)

        async def crash() -> None:
            for _ in range(4):
                before = len(confirmed)
                await until(lambda before=before: len(confirmed) >= before + 40)  # type: ignore[misc]
                await asyncio.to_thread(cluster.restart, signal.SIGQUIT)

        running = [asyncio.create_task(turns(name)) for name in "abcdefgh"]
        await crash()
        for task in running:
            task.cancel()
        await asyncio.wait(running)
        await until(lambda: not any(turn.end for turn in store._turns.values()))
        found = {id for (id,) in await rows(cluster.url(), "SELECT id FROM penstock.responses")}
        assert len(confirmed) >= 160
        assert confirmed <= found
        query = "SELECT count(*) FROM (SELECT response, sum(count) FROM penstock.segments GROUP BY 1) AS logs"
        query += " WHERE sum > 2"
        assert await rows(cluster.url(), query) == [(0,)]

    run_on_own_cluster(body)


def test_a_crash_of_the_server_does_not_undo_the_release_of_a_key() -> None:
    async def body(cluster: PostgresCluster, store: SharedStore) -> None:
        assert await store.hold(LOCAL, "key", b"data") is None
        await store.release(LOCAL, "key")
        await asyncio.to_thread(cluster.restart, signal.SIGQUIT)
        assert await rows(cluster.url(), "SELECT key FROM penstock.held_keys") == []

    run_on_own_cluster(body)


def test_records_of_the_ledger_wait_for_the_server() -> None:
    async def body(cluster: PostgresCluster, store: SharedStore) -> None:
        await asyncio.to_thread(cluster.stop)
        for number in range(5):
            assert await store.admit(started(f"resp_{number}")) is None
            store.settle_turn(ended(started(f"resp_{number}"), tokens=10))
        await asyncio.to_thread(cluster.start)

        async def are_there() -> bool:
            with suppress(StoreError):
                return len((await store.turns(TurnFilter())).turns) == 5
            return False

        await until(are_there)
        totals = await store.totals(TurnFilter(), ())
        assert [each.turns for each in totals] == [5]

    run_on_own_cluster(body)


def test_a_store_that_is_closed_while_the_server_is_away_names_what_is_lost() -> None:
    async def body(cluster: PostgresCluster, store: SharedStore) -> None:
        await store.open(opened("resp_1"), patience=30)
        await asyncio.to_thread(cluster.stop)
        store.log("resp_1", events(0, 2))
        assert await store.aclose() == ["resp_1"]
        await asyncio.to_thread(cluster.start)

    run_on_own_cluster(body)


@on_postgres
async def test_everything_works_behind_a_pooler_of_transactions(url: str) -> None:
    pooled = url + "?pooler=transaction&pool_size=4"
    times = PeerTimes(lease=0.4, tick=0.05)
    async with (
        worker_on(pooled, times=times) as first,
        worker_on(pooled, times=times, direct_url=url) as second,
    ):
        await first.create_conversation(LOCAL, StoredConversation("conv_1", 1, b"{}"))
        await first.open(opened("resp_1", "in_1", conversation="conv_1"), patience=30)
        reading = asyncio.create_task(read(second, "resp_1"))
        first.log("resp_1", events(0, 3))
        assert await second.cancel(LOCAL, "resp_1")
        assert await first.close("resp_1", closed("resp_1", "out_1"), patience=30)
        assert await reading == events(0, 3)
        assert ids(await second.conversation_items(LOCAL, "conv_1", newest_first=False)) == ["in_1", "out_1"]
        assert await second.chain(LOCAL, "resp_1") is not None
        assert await first.admit(started("a"), KeyLimits(concurrent_turns=1)) is None
        assert await second.admit(started("b"), KeyLimits(concurrent_turns=1)) is not None
        assert await second.prune(older_than=second.clock() + 10) == 1


@on_postgres
async def test_a_store_is_opened_by_its_url(url: str) -> None:
    for scheme in ("postgresql", "postgres"):
        store = await open_store(url.replace("postgresql", scheme, 1))
        assert isinstance(store, SharedStore)
        assert await complete_turn(store, f"resp_{scheme}")
        await store.aclose()
    assert len(await rows(url, "SELECT id FROM penstock.responses")) == 2


@on_postgres
async def test_opening_takes_the_time_of_the_database_unless_a_clock_is_given(url: str) -> None:
    store = await open_postgres_store(url)
    [(now,)] = await rows(url, "SELECT extract(epoch FROM clock_timestamp())::float8")
    assert abs(store.clock() - now) < 5
    await store.aclose()
    store = await open_postgres_store(url, clock=lambda: NOON)
    assert store.clock() == NOON
    await store.aclose()


@on_postgres
async def test_a_database_that_is_away_is_reported_when_the_store_is_opened(url: str) -> None:
    nowhere = "postgresql://postgres:planted-password@127.0.0.1:1/postgres"
    for place in (nowhere, url + "?pool_size=0", url + "?sslmode=nonsense"):
        with pytest.raises(StoreError) as caught:
            await open_postgres_store(place)
        assert "planted-password" not in str(caught.value)
