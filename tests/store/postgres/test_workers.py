"""Leases, orphans and held keys."""

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from penstock.store import import_secret
from penstock.store.records import LOCAL, HeldKey
from tests.store.builders import closed, events, opened, read
from tests.store.postgres.databases import backend_of, on_postgres, rows, worker_on
from tests.store.workers import FAST, NotingHost, stop_renewing, until


async def kill_worker(url: str, id: str) -> None:
    """Let the lease of the worker of a turn be expired."""
    query = "DELETE FROM penstock.workers WHERE id = (SELECT worker FROM penstock.running WHERE id = $1)"
    await rows(url, query, id)


@on_postgres
async def test_workers_that_look_for_orphans_at_once_take_each_turn_once(url: str) -> None:
    async with worker_on(url) as first, worker_on(url) as second, worker_on(url) as third:
        for number in range(40):
            await first.open(opened(f"resp_{number}", f"in_{number}"), patience=30)
            first.log(f"resp_{number}", events(0, 3))
        await first.stats()
        await kill_worker(url, "resp_0")
        backends = [backend_of(store) for store in (second, third)]
        found = await asyncio.gather(
            *(each.claim_orphans(each._worker, 7) for each in backends for _ in range(5))
        )
        orphans = [orphan for some in found for orphan in some]
        assert sorted(orphan.turn.id for orphan in orphans) == sorted(f"resp_{n}" for n in range(40))
        assert len({orphan.token for orphan in orphans}) == 40
        one = next(orphan for orphan in orphans if orphan.turn.id == "resp_7")
        assert one.turn == replace(opened("resp_7", "in_7"), memory={})
        assert (one.last_sequence, one.is_started) == (2, True)


@on_postgres
async def test_a_turn_that_its_worker_has_given_up_ends_after_a_while(url: str) -> None:
    async with worker_on(url, times=FAST) as store:
        await store.open(opened("resp_1"), patience=30)
        store._writer.lose(store._turns.pop("resp_1"))
        backend = backend_of(store)
        assert await backend.claim_orphans(backend._worker, 9) == []
        await rows(url, "UPDATE penstock.running SET started_at = now() - interval '1 hour'")
        assert [each.turn.id for each in await backend.claim_orphans(backend._worker, 9)] == ["resp_1"]


@on_postgres
async def test_a_background_turn_whose_client_was_refused_is_never_run(url: str) -> None:
    async with worker_on(url) as store, worker_on(url, times=FAST) as other:
        host = NotingHost()
        other.attach(host)
        turn = replace(opened("resp_1", "in_1", status="queued"), is_background=True)
        task = asyncio.create_task(store.open(turn, patience=30))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()

        async def is_gone() -> bool:
            return await store.get(LOCAL, "resp_1") is None

        await until(is_gone)
        await until(lambda: not backend_of(store)._opening)
        await until(is_gone)
        assert not host.started
    assert await rows(url, "SELECT count(*) FROM penstock.running") == [(0,)]
    assert await rows(url, "SELECT count(*) FROM penstock.items") == [(0,)]


@on_postgres
async def test_a_worker_that_closes_leaves_its_turns_to_the_others(url: str) -> None:
    async with worker_on(url, times=FAST) as other:
        async with worker_on(url, times=FAST) as store:
            await store.open(opened("resp_1", "in_1"), patience=30)
            store.log("resp_1", events(0, 2))

        async def is_failed() -> bool:
            found = await other.get(LOCAL, "resp_1")
            return found is not None and found.status == "failed"

        await until(is_failed)
        assert (await read(other, "resp_1"))[:2] == events(0, 2)
    assert await rows(url, "SELECT count(*) FROM penstock.workers") == [(0,)]


@on_postgres
async def test_a_key_is_held_by_one_living_worker(url: str) -> None:
    async with worker_on(url, times=FAST) as first, worker_on(url, times=FAST) as second:
        assert await first.hold(LOCAL, "key\0", b"first") is None
        assert await second.hold(LOCAL, "key\0", b"second") == HeldKey(b"first", is_alive=True)
        assert await second.hold("other", "key\0", b"second") is None
        await second.release(LOCAL, "key\0")
        held = await second.hold(LOCAL, "key\0", b"second")
        assert held == HeldKey(b"first", is_alive=True), "it was not the second's to release"
        await first.release(LOCAL, "key\0")
        assert await second.hold(LOCAL, "key\0", b"second") is None
        await second.release(LOCAL, "key\0")
        await first.hold(LOCAL, "key\0", b"first")
        await stop_renewing(first)

        async def is_orphaned() -> bool:
            return await second.hold(LOCAL, "key\0", b"second") == HeldKey(b"first", is_alive=False)

        await until(is_orphaned)
        assert await rows(url, "UPDATE penstock.held_keys SET until = now() RETURNING true")
        assert await second.hold(LOCAL, "key\0", b"second") is None


@on_postgres
async def test_old_keys_of_dead_workers_are_deleted(url: str) -> None:
    async with worker_on(url, times=FAST) as first, worker_on(url, times=FAST) as second:
        await first.hold(LOCAL, "old", b"")
        await first.hold(LOCAL, "new", b"")
        await second.hold(LOCAL, "alive", b"")
        await rows(url, "UPDATE penstock.held_keys SET until = now() WHERE key <> 'new' RETURNING true")
        await stop_renewing(first)

        async def is_deleted() -> bool:
            left = await rows(url, "SELECT key FROM penstock.held_keys ORDER BY key")
            return left == [("alive",), ("new",)]

        await until(is_deleted)


@on_postgres
async def test_many_workers_that_want_a_key_agree_who_has_it(url: str) -> None:
    async with worker_on(url) as first, worker_on(url) as second:
        stores = [first, second] * 10
        found = await asyncio.gather(
            *(store.hold(LOCAL, "key", b"%d" % number) for number, store in enumerate(stores))
        )
        [winner] = {number % 2 for number, data in enumerate(found) if data is None}
        assert all(data is None for data in found[winner::2]), "a worker may hold a key again"
        assert all(held is not None and int(held.data) % 2 == winner for held in found[1 - winner :: 2])


@on_postgres
async def test_all_workers_get_the_same_secret(url: str) -> None:
    async with worker_on(url) as first, worker_on(url) as second:
        candidates = [(store, b"%d" % number) for number, store in enumerate([first, second] * 5)]
        found = await asyncio.gather(
            *(backend_of(store).shared_secrets("seal", candidate) for store, candidate in candidates)
        )
        assert len({secret for [secret] in found}) == 1
        assert await backend_of(first).shared_secrets("other", b"x") == [b"x"]


@on_postgres
async def test_the_secret_of_an_imported_store_is_in_use_only_if_there_was_none(url: str) -> None:
    async def add(name: str, secret: str, url: str) -> bool:
        return await asyncio.to_thread(import_secret, name, secret, url)

    async with worker_on(url) as store:
        assert await add("seal", "of the file", url)
        assert await store.shared_secrets("seal", "candidate") == ["of the file"]
        for _ in range(2):
            assert not await add("seal", "of another file", url)
        assert await add("seal", "of the file", url)
        assert await store.shared_secrets("seal", "candidate") == ["of the file", "of another file"]
        assert await store.shared_secrets("sealed", "other") == ["other"]


@on_postgres
async def test_times_are_those_of_the_database(url: str) -> None:
    """The clock of this worker's machine is wrong by an hour."""
    async with worker_on(url, times=FAST) as store:
        [(before,)] = await rows(url, "SELECT extract(epoch FROM clock_timestamp())::float8")
        assert abs(store.clock() - before) < 5
        backend_of(store)._database_clock._ahead += 3_600

        async def is_corrected() -> bool:
            return bool(abs(store.clock() - before) < 60)

        await until(is_corrected)
        await store.open(opened("resp_1"), patience=30)
        await store.close("resp_1", closed("resp_1"), patience=30)
    [(ended_at,)] = await rows(url, "SELECT ended_at FROM penstock.responses")
    assert abs(ended_at - before) < 60
