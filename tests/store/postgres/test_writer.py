"""The writer: unknown outcomes, refused data, and connections that break."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from penstock.errors import StoreError
from penstock.store.postgres.connections import DatabasePool
from penstock.store.records import LOCAL, StoredConversation, StoredItem
from penstock.store.shared import SharedStore
from tests.store.builders import closed, complete_turn, events, incompressible_text, opened, read, trace
from tests.store.postgres.databases import kill_backends, on_postgres, rows, worker_on
from tests.store.workers import NotingHost, until


@contextmanager
def answers_lost(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Let transactions of the writer be committed, and their answers be lost."""
    original = DatabasePool.transact
    count = [0]

    async def transact(pool: DatabasePool, job: Any, **options: Any) -> Any:
        result = await original(pool, job, **options)
        if options.get("seconds"):  # only the writer has a deadline of its own
            count[0] += 1
            raise StoreError(StoreError.UNREACHABLE, "the answer is lost")
        return result

    with monkeypatch.context() as patch:
        patch.setattr(DatabasePool, "transact", transact)
        yield count


@on_postgres
async def test_a_part_whose_answer_is_lost_is_written_once(url: str) -> None:
    monkeypatch = pytest.MonkeyPatch()
    async with worker_on(url) as store:
        host = NotingHost()
        store.attach(host)
        with answers_lost(monkeypatch):
            assert not await store.open(opened("resp_1", "in_1"), patience=30)
            store.log("resp_1", events(0, 5))
            store.trace("resp_1", [trace(1)])
            await store.settle("resp_1")
        store.log("resp_1", events(5, 8))
        assert await store.close("resp_1", closed("resp_1", "out_1"), patience=0) in (True, False)
        await until(lambda: "resp_1" not in store._turns)
        assert not host.lost
        assert await read(store, "resp_1") == events(0, 8)
        assert await store.traces(LOCAL, "resp_1") == [trace(1)]
        stats = await store.stats()
        assert (stats.responses, stats.items, stats.events) == (1, 2, 8)


@on_postgres
async def test_events_whose_answer_is_lost_are_written_once(url: str) -> None:
    monkeypatch = pytest.MonkeyPatch()
    async with worker_on(url) as store:
        assert await store.open(opened("resp_1"), patience=30)
        with answers_lost(monkeypatch) as count:
            store.log("resp_1", events(0, 5))
            store.trace("resp_1", [trace(1)])
            await store.settle("resp_1")
            assert count[0]
        store.log("resp_1", events(5, 8))
        store.trace("resp_1", [trace(2)])
        await store.close("resp_1", closed("resp_1"), patience=0)
        await until(lambda: "resp_1" not in store._turns)
        assert await read(store, "resp_1") == events(0, 8)
        assert await store.traces(LOCAL, "resp_1") == [trace(1), trace(2)]
        assert (await store.stats()).events == 8


@on_postgres
async def test_an_end_whose_answer_is_lost_is_an_end(url: str) -> None:
    monkeypatch = pytest.MonkeyPatch()
    async with worker_on(url) as store:
        host = NotingHost()
        store.attach(host)
        await store.open(opened("resp_1", "in_1"), patience=30)
        with answers_lost(monkeypatch) as count:
            store.log("resp_1", events(0, 5))
            assert not await store.close("resp_1", closed("resp_1", "out_1"), patience=30)
            assert count[0]
        await until(lambda: "resp_1" not in store._turns)
        assert not host.lost
        stored = await store.get(LOCAL, "resp_1")
        assert stored is not None
        assert (stored.status, stored.is_durable) == ("completed", True)
        assert await read(store, "resp_1") == events(0, 5)


@on_postgres
async def test_connections_that_break_at_any_time_lose_and_double_nothing(url: str) -> None:
    async with worker_on(url) as store:
        host = NotingHost()
        store.attach(host)

        async def run(id: str) -> None:
            await store.open(opened(id, f"in_{id}"), patience=0)
            for begin in range(0, 60, 3):
                store.log(id, events(begin, begin + 3))
                store.trace(id, [trace(begin)])
                await asyncio.sleep(0.01)
            await store.close(id, closed(id, f"out_{id}"), patience=0)

        async def break_connections() -> None:
            while True:
                await kill_backends(url)
                await asyncio.sleep(0.05)

        breaking = asyncio.create_task(break_connections())
        ids = [f"resp_{number}" for number in range(30)]
        await asyncio.gather(*map(run, ids))
        breaking.cancel()
        await asyncio.wait({breaking})
        await until(lambda: not store._turns)
        assert not host.lost
        for id in ids:
            assert await read(store, id) == events(0, 60)
            assert await store.traces(LOCAL, id) == [trace(begin) for begin in range(0, 60, 3)]
        stats = await store.stats()
        assert (stats.responses, stats.items, stats.events) == (30, 60, 30 * 60)
    assert await rows(url, "SELECT count(*) FROM penstock.running") == [(0,)]


@on_postgres
async def test_data_that_cannot_be_written_does_not_affect_other_turns(url: str) -> None:
    async with worker_on(url) as store:
        broken = replace(opened("resp_1"), created_at=2**70)
        await asyncio.gather(
            store.open(broken, patience=30), *(store.open(opened(f"resp_{n}"), patience=30) for n in (2, 3))
        )
        assert not await store.close("resp_1", closed("resp_1"), patience=30)
        for id in ("resp_2", "resp_3"):
            assert await store.close(id, closed(id), patience=30)
        assert await store.get(LOCAL, "resp_1") is None


@on_postgres
async def test_strange_ids_are_stored_like_any_other(url: str) -> None:
    for number, strange in enumerate(("a\0b", "half \ud800", "\x1a0000", incompressible_text(1))):
        item = StoredItem(f"item_{strange}", b'{"id":"\\u0000"}')
        turn = replace(
            opened("resp"),
            id=f"resp_{strange[:20]}",
            tenant=f"t{number}",
            input=(item,),
            memory={strange: b"data"},
        )
        async with worker_on(url) as store:
            await store.open(turn, patience=30)
            end = replace(closed("resp"), output=(StoredItem(strange, b"{}"),))
            assert await store.close(turn.id, end, patience=30)
        async with worker_on(url) as store:
            chain = await store.chain(turn.tenant, turn.id)
            assert chain is not None
            assert (chain[0].id, chain[0].input, chain[0].output) == (turn.id, (item,), end.output)
            assert await store.recall(turn.tenant, [strange]) == {strange: b"data"}
            assert await store.items(turn.tenant, [item.id, strange]) == {
                item.id: item,
                strange: end.output[0],
            }


@on_postgres
async def test_a_large_turn_is_packed_in_a_thread_and_read_again(url: str) -> None:
    async with worker_on(url) as store:
        large = b'"' + b"xyz" * 1_500_000 + b'"'
        await store.open(replace(opened("resp_1"), input=(StoredItem("in_1", large),)), patience=30)
        end = replace(closed("resp_1"), response=large, output=(StoredItem("out_1", large),))
        assert await store.close("resp_1", end, patience=30)
        stored = await store.get(LOCAL, "resp_1")
        assert stored is not None
        assert stored.response == large
        assert (await store.items(LOCAL, ["in_1"]))["in_1"].data == large


@on_postgres
async def test_200_turns_share_4_connections(url: str) -> None:
    async with worker_on(url + "?pool_size=4") as store:

        async def run(number: int) -> None:
            id = f"resp_{number}"
            previous = f"resp_{number - 100}" if number >= 100 else None
            await store.open(opened(id, f"in_{number}", previous=previous), patience=30)
            store.log(id, events(0, 10))
            assert await store.chain(LOCAL, previous or "resp_no") is None or previous
            await store.input_items(LOCAL, id)
            assert await store.close(id, closed(id, f"out_{number}"), patience=30)
            assert await read(store, id) == events(0, 10)

        for begin in (0, 100):
            await asyncio.gather(*(run(number) for number in range(begin, begin + 100)))
        assert (await store.stats()).responses == 200
        [(used,)] = await rows(
            url,
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'penstock' AND state = 'idle'",
        )
        assert used <= 5  # one of them listens


@on_postgres
async def test_a_turn_that_was_taken_over_is_reported(url: str) -> None:
    async with worker_on(url) as store:
        host = NotingHost()
        store.attach(host)
        await store.open(opened("resp_1"), patience=30)
        await rows(url, "UPDATE penstock.running SET token = 'of another worker'")
        store.log("resp_1", events(0, 3))
        await until(lambda: host.lost == ["resp_1"])
        await store.close("resp_1", closed("resp_1"))
        assert await rows(url, "SELECT count(*) FROM penstock.segments") == [(0,)]


@on_postgres
async def test_many_writers_of_one_conversation_are_not_in_each_others_way(url: str) -> None:
    async with worker_on(url) as first, worker_on(url) as second:
        for number in range(4):
            conversation = StoredConversation(f"conv_{number}", 1, b"{}")
            await first.create_conversation(LOCAL, conversation)
        turns = [(store, number) for number in range(20) for store in (first, second)]

        async def run(store: SharedStore, number: int) -> None:
            id = f"resp_{number}_{id_of(store)}"
            assert await complete_turn(
                store, id, [f"in_{id}"], [f"out_{id}"], conversation=f"conv_{number % 4}"
            )

        def id_of(store: SharedStore) -> int:
            return 1 if store is first else 2

        await asyncio.gather(*(run(*turn) for turn in turns))
        for number in range(4):
            page = await second.conversation_items(LOCAL, f"conv_{number}", limit=100)
            assert page is not None
            assert len(page.items) == 20
