"""Changes that do not belong to a running turn."""

from __future__ import annotations

import asyncio

from penstock.store.records import LOCAL, StoredConversation
from tests.store.builders import closed, complete_turn, ids, item, items, opened
from tests.store.postgres.databases import on_postgres, rows, worker_on


async def size_of(url: str, table: str) -> int:
    [(size,)] = await rows(url, f"SELECT coalesce(sum(size), 0)::bigint FROM penstock.{table}")
    return int(size)


@on_postgres
async def test_the_size_of_a_conversation_follows_its_items(url: str) -> None:
    async with worker_on(url) as store:
        await store.create_conversation(LOCAL, StoredConversation("conv_1", 1, b"{}"))
        empty = await size_of(url, "conversations")
        await store.add_items(LOCAL, "conv_1", [item("a", "x" * 1_000), item("b", "y" * 2_000)])
        assert await size_of(url, "conversations") - empty > 3_000
        await store.delete_item(LOCAL, "conv_1", "a")
        await store.delete_item(LOCAL, "conv_1", "b")
        await store.update_conversation(LOCAL, "conv_1", b'{"a":1}')
        assert await size_of(url, "conversations") == empty + 5
        await store.delete_conversation(LOCAL, "conv_1")
        assert await size_of(url, "conversations") == 0


@on_postgres
async def test_items_keep_their_order_when_many_workers_add_them(url: str) -> None:
    async with worker_on(url) as first, worker_on(url) as second:
        await first.create_conversation(LOCAL, StoredConversation("conv_1", 1, b"{}"))
        groups = [[f"{number}_{place}" for place in range(5)] for number in range(20)]
        await asyncio.gather(
            *(
                store.add_items(LOCAL, "conv_1", items(*group))
                for store, group in zip([first, second] * 10, groups, strict=True)
            )
        )
        page = await first.conversation_items(LOCAL, "conv_1", limit=200, newest_first=False)
        found = ids(page)
        assert len(found) == 100
        assert sorted(found[begin : begin + 5] for begin in range(0, 100, 5)) == sorted(groups)


@on_postgres
async def test_what_is_added_while_a_conversation_is_deleted_goes_with_it(url: str) -> None:
    async with worker_on(url) as first, worker_on(url) as second:
        for number in range(20):
            await first.create_conversation(LOCAL, StoredConversation(f"conv_{number}", 1, b"{}"))
            await asyncio.gather(
                first.delete_conversation(LOCAL, f"conv_{number}"),
                *(second.add_items(LOCAL, f"conv_{number}", items("a")) for _ in range(3)),
            )
    assert await rows(url, "SELECT count(*) FROM penstock.conversation_items") == [(0,)]


@on_postgres
async def test_what_is_remembered_while_a_response_is_deleted_goes_with_it(url: str) -> None:
    async with worker_on(url) as first, worker_on(url) as second:
        for number in range(20):
            id = f"resp_{number}"
            await complete_turn(first, id, ["in"], ["out"])
            await asyncio.gather(
                first.delete(LOCAL, id),
                *(second.remember(LOCAL, id, f"key_{n}", b"data") for n in range(3)),
                return_exceptions=True,
            )
    for table in ("responses", "items", "memories"):
        assert await rows(url, f"SELECT count(*) FROM penstock.{table}") == [(0,)]


@on_postgres
async def test_a_response_that_has_just_ended_is_deleted_although_it_is_not_written_yet(url: str) -> None:
    async with worker_on(url) as store:
        await store.open(opened("resp_1"), patience=30)
        await store.close("resp_1", closed("resp_1"), patience=0)
        assert await store.delete(LOCAL, "resp_1")
        assert await store.get(LOCAL, "resp_1") is None
