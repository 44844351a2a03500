"""Turns and conversations that age while a gateway prunes."""

from __future__ import annotations

from penstock.store.contract import Store
from penstock.store.records import LOCAL, StoredConversation
from tests.store.builders import complete_turn

DAY = 86_400


async def prune_repeatedly(store: Store, *, times: int = 1, days: int = 30) -> None:
    """Advance the time and prune, as the gateway does every ten minutes."""
    for _ in range(times):
        now = await store.advance_time()
        assert now is not None
        await store.prune(older_than=now - days * DAY)


async def stored_ids(store: Store) -> list[str]:
    responses = [f"resp_{number}" for number in range(5) if await store.get(LOCAL, f"resp_{number}")]
    talks = [f"conv_{number}" for number in range(5) if await store.get_conversation(LOCAL, f"conv_{number}")]
    return responses + talks


async def store_numbered(store: Store, number: int) -> None:
    await complete_turn(store, f"resp_{number}")
    await store.create_conversation(LOCAL, StoredConversation(f"conv_{number}", 1, b"{}"))
