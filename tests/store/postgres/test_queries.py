"""Reading: strange ids, and plans that do not depend on how much is stored."""

from __future__ import annotations

from msgspec.structs import replace

from penstock.store.postgres import queries
from penstock.store.records import LOCAL, Page, StoredConversation
from tests.store.builders import complete_turn, events, ids, item, items, opened, read
from tests.store.postgres.databases import connection_to, on_postgres, worker_on

STRANGE = ("a\0b", "\ud800", "", "x" * 100_000, "\x1a0000", "'; DROP SCHEMA penstock; --")


@on_postgres
async def test_ids_that_cannot_exist_are_unknown(url: str) -> None:
    async with worker_on(url) as store:
        for id in STRANGE:
            assert await store.get(LOCAL, id) is None
            assert await store.get(id, "resp_1") is None
            assert not await store.delete(LOCAL, id)
            assert not await store.cancel(LOCAL, id)
            assert await store.input_items(LOCAL, id) is None
            assert await read(store, id) == []
            assert await store.traces(LOCAL, id) == []
            assert await store.chain(LOCAL, id) is None
            assert await store.items(LOCAL, [id]) == {}
            assert await store.recall(LOCAL, [id]) == {}
            assert await store.get_conversation(LOCAL, id) is None
            assert await store.update_conversation(LOCAL, id, b"{}") is None
            assert not await store.delete_conversation(LOCAL, id)
            assert not await store.add_items(LOCAL, id, items("a"))
            assert not await store.delete_item(LOCAL, id, id)
            assert await store.conversation_items(LOCAL, id) is None
            await store.remember(LOCAL, id, id, b"data")
            await store.wait_for_turns(LOCAL, id)


@on_postgres
async def test_items_of_conversations_with_strange_ids_are_paged_and_deleted(url: str) -> None:
    async with worker_on(url) as store:
        await store.create_conversation(LOCAL, StoredConversation("conv_1", 1, b"{}"))
        strange = [replace(item("x"), id=id) for id in STRANGE]
        await store.add_items(LOCAL, "conv_1", strange)
        for position, id in enumerate(STRANGE):
            page = await store.conversation_items(LOCAL, "conv_1", after=id, newest_first=False)
            assert ids(page) == [*STRANGE[position + 1 :]]
        for id in STRANGE:
            assert await store.delete_item(LOCAL, "conv_1", id)
        assert await store.conversation_items(LOCAL, "conv_1") == Page((), False)


@on_postgres
async def test_pages_of_a_conversation_start_after_the_last_occurrence_of_an_id(url: str) -> None:
    async with worker_on(url) as store:
        await store.create_conversation(LOCAL, StoredConversation("conv_1", 1, b"{}"))
        await store.add_items(LOCAL, "conv_1", items("a", "b", "a", "c"))
        for after, newest_first, limit, expected in (
            ("b", False, 1, (["a"], True)),
            ("a", False, 9, (["c"], False)),
            ("a", True, 9, ([], False)),
            ("c", True, 9, (["a", "b", "a"], False)),
            ("no", True, 9, ([], False)),
            (None, False, 0, ([], True)),
            (None, False, -1, ([], True)),
        ):
            page = await store.conversation_items(
                LOCAL, "conv_1", after=after, limit=limit, newest_first=newest_first
            )
            assert page is not None
            assert (ids(page), page.has_more) == expected


@on_postgres
async def test_an_item_with_a_long_common_prefix_is_not_another(url: str) -> None:
    async with worker_on(url) as store:
        first, second = (replace(item("x", name), id="p" * 500 + name) for name in "ab")
        await store.open(replace(opened("resp_1"), input=(first, second)), patience=30)
        await store.stats()
        async with worker_on(url) as other:
            assert await other.items(LOCAL, [first.id, second.id]) == {first.id: first, second.id: second}


@on_postgres
async def test_lookups_use_indexes(url: str) -> None:
    """Whatever the number of rows: the planner may only choose between indexes here."""
    async with worker_on(url) as store:
        await complete_turn(store, "resp_1", ["in_1"], ["out_1"], log=events(0, 3))
    values = {"$1": "'local'", "$2": "'resp_1'", "$3": "-1", "$4": "4"}
    async with connection_to(url) as connection:
        await connection.execute("SET enable_seqscan = off; SET enable_bitmapscan = off")
        for query in (queries._RESPONSE, queries._EXISTS, queries._EVENTS, queries._TRACES, queries._HISTORY):
            text = query.replace("OR $3", "")
            for name, value in values.items():
                text = text.replace(name, value)
            plan = "\n".join(str(line) for (line,) in await connection.fetch(f"EXPLAIN {text}"))
            assert "Seq Scan on responses" not in plan
            assert "Seq Scan on items" not in plan
            assert "Seq Scan on segments" not in plan
