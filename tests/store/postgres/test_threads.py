"""Threads in PostgreSQL, beyond what the contract's tests show."""

from __future__ import annotations

from penstock.store.records import LOCAL, StoredConversation
from tests.store.builders import complete_turn
from tests.store.ledger_records import ended, started
from tests.store.postgres.databases import on_postgres, worker_on

STRANGE = ("a\0", "b\x1a", "c\ud800")


@on_postgres
async def test_threads_with_strange_ids_are_listed(url: str) -> None:
    first, second, talk = STRANGE
    async with worker_on(url) as store:
        await store.create_conversation(LOCAL, StoredConversation(talk, 1, b"{}"))
        await complete_turn(store, first, ["in_1"], conversation=talk)
        await complete_turn(store, second, ["in_2"], previous=first)
        store.settle_turn(ended(started(second, tenant=LOCAL)))
        page = await store.threads(LOCAL, limit=1)
        rest = await store.threads(LOCAL, after=page.next)
        found = {(each.id, each.last_id, each.model) for each in (*page.threads, *rest.threads)}
        assert found == {(first, second, "demo"), (talk, first, "")}
        assert await store.continuations(LOCAL, first) == [second]
        assert [turn.previous_id for turn in await store.chain_turns(LOCAL, second)] == [None, first]
        assert [turn.id for turn in await store.conversation_turns(LOCAL, talk)] == [first]


@on_postgres
async def test_every_worker_sees_the_same_threads(url: str) -> None:
    async with worker_on(url) as first, worker_on(url) as second:
        await complete_turn(first, "a")
        await complete_turn(second, "b", previous="a")
        assert await first.threads(LOCAL) == await second.threads(LOCAL)
        assert await first.continuations(LOCAL, "a") == ["b"]
