"""What is kept does not grow for ever."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from penstock.errors import StoreError
from penstock.gateway.housekeeping import keep_house
from penstock.gateway.settings import Limits
from penstock.store.memory import MemoryStore
from penstock.store.store import Closed, Opened
from tests.client.server import run

DAY = 86400


def test_what_is_too_old_goes_and_the_rest_stays() -> None:
    async def kept() -> list[int]:
        today = [0]
        store = MemoryStore(clock=lambda: today[0] * DAY)
        for day in range(5):
            today[0] = day
            await store.open(Opened(id=f"resp_{day}", created_at=day * DAY, response=b"{}"))
            await store.close(f"resp_{day}", Closed(status="completed", response=b"{}"))
        limits = Limits(store_days=3)
        house = asyncio.create_task(keep_house(store, lambda: limits, clock=lambda: 5 * DAY))
        for _ in range(50):
            await asyncio.sleep(0)
        house.cancel()
        with suppress(asyncio.CancelledError):
            await house
        found = [day for day in range(5) if await store.get("local", f"resp_{day}")]
        await store.aclose()
        return found

    assert run(kept()) == [2, 3, 4]


class Broken(MemoryStore):
    async def prune(self, *, older_than: int, most_bytes: int | None = None) -> int:  # noqa: ARG002
        raise StoreError(StoreError.UNWRITABLE, "no room")


def test_a_store_that_cannot_be_tidied_is_tried_again() -> None:
    async def twice() -> bool:
        house = asyncio.create_task(keep_house(Broken(), Limits, every=0))
        for _ in range(20):
            await asyncio.sleep(0)
        alive = not house.done()
        house.cancel()
        with suppress(asyncio.CancelledError):
            await house
        return alive

    assert run(twice())
