"""What is kept does not grow for ever."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from penstock.errors import StoreError
from penstock.gateway.settings import Limits
from penstock.gateway.storage import prune_regularly
from penstock.store.contract import Closed, Opened, Store
from penstock.store.memory import MemoryStore
from tests.client.server import run
from tests.store.builders import Clock

DAY = 86400


async def keep(store: Store, id: str) -> None:
    await store.open(Opened(id=id, created_at=1, response=b"{}"))
    await store.close(id, Closed(status="completed", response=b"{}"))


@asynccontextmanager
async def pruning(store: Store, limits: Limits, *, every: float = 0) -> AsyncIterator[None]:
    """Housekeeping that has had its first look, and without `every` some more."""
    task = asyncio.create_task(prune_regularly(store, lambda: limits, every=every))
    for _ in range(50):
        await asyncio.sleep(0)
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def days_of(store: Store) -> list[int]:
    return [day for day in range(5) if await store.get("local", f"resp_{day}")]


def test_what_is_too_old_goes_and_the_rest_stays() -> None:
    async def kept() -> list[int]:
        clock = Clock(0)
        store = MemoryStore(clock=clock)
        for day in range(5):
            clock.now = day * DAY
            await keep(store, f"resp_{day}")
        clock.now = 5 * DAY
        async with pruning(store, Limits(store_days=3)):
            found = await days_of(store)
        await store.aclose()
        return found

    assert run(kept()) == [2, 3, 4]


def test_nothing_goes_for_its_age_when_the_gateway_starts() -> None:
    async def kept() -> list[int]:
        clock = Clock(0)
        store = MemoryStore(clock=clock)
        await keep(store, "resp_0")
        for _ in range(40 * 4):  # the store has seen all of this time
            clock.now += DAY / 4
            await store.advance_time()
        async with pruning(store, Limits(store_days=3), every=3600):
            return await days_of(store)

    assert run(kept()) == [0]


class Broken(MemoryStore):
    async def prune(self, *, older_than: float, most_bytes: int | None = None) -> int:  # noqa: ARG002
        raise StoreError(StoreError.UNWRITABLE, "no room")


def test_a_store_that_cannot_be_tidied_is_tried_again() -> None:
    async def twice() -> bool:
        task = asyncio.create_task(prune_regularly(Broken(), Limits, every=0))
        for _ in range(20):
            await asyncio.sleep(0)
        alive = not task.done()
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        return alive

    assert run(twice())
