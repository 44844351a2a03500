"""Short ways to make turns and stores."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest

from penstock.store.contract import LOCAL, Closed, LoggedEvent, Opened, Store, StoredItem, Trace
from penstock.store.memory import MemoryStore
from penstock.store.sqlite.store import SqliteStore, open_sqlite_store
from penstock.store.sqlite.writer import WriteLimits

KINDS = ("memory", "sqlite")
SQUEEZED = WriteLimits(commit_delay=0, log_delay=0)
"""Every write at once: what is asked next is more likely to be in the file than in memory."""


class Clock:
    """A time that is told, and stands still otherwise."""

    def __init__(self, now: float = 1_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@asynccontextmanager
async def a_store(kind: str, folder: Path, clock: Callable[[], float]) -> AsyncIterator[Store]:
    store: Store
    if kind == "memory":
        store = MemoryStore(clock=clock)
    else:
        store = await open_sqlite_store(folder / "store.db", clock=clock, bounds=SQUEEZED)
    try:
        yield store
    finally:
        await store.aclose()


Body = Callable[[Store], Awaitable[None]] | Callable[[Store, Clock], Awaitable[None]]


def _given(body: Body, *values: object) -> tuple[object, ...]:
    return values[: len(inspect.signature(body).parameters)]


def for_both(body: Body) -> Callable[[str, Path], None]:
    """A test that must hold for every store; it may ask for the clock as well."""

    @pytest.mark.parametrize("kind", KINDS)
    def test(kind: str, tmp_path: Path) -> None:
        async def run() -> None:
            clock = Clock()
            async with a_store(kind, tmp_path, clock) as store:
                await cast(Callable[..., Awaitable[None]], body)(*_given(body, store, clock))

        asyncio.run(run())

    test.__name__ = getattr(body, "__name__", "test")
    test.__doc__ = body.__doc__
    return test


def item(id: str, text: str = "") -> StoredItem:
    return StoredItem(id, b'{"id":"%s","text":"%s"}' % (id.encode(), text.encode()))


async def item_of(store: Store, tenant: str, id: str) -> StoredItem | None:
    return (await store.items(tenant, [id])).get(id)


async def recalled(store: Store, tenant: str, key: str) -> bytes | None:
    return (await store.recall(tenant, [key])).get(key)


def items(*ids: str) -> tuple[StoredItem, ...]:
    return tuple(item(id) for id in ids)


def opened(
    id: str,
    *input: str,
    tenant: str = LOCAL,
    previous: str | None = None,
    conversation: str | None = None,
    status: str = "in_progress",
) -> Opened:
    return Opened(
        id=id,
        tenant=tenant,
        created_at=7,
        status=status,
        previous_id=previous,
        conversation_id=conversation,
        request=b'{"input":"hi"}',
        response=b'{"id":"%s","status":"in_progress","output":[]}' % id.encode(),
        input=items(*input),
    )


def closed(id: str, *output: str, status: str = "completed") -> Closed:
    response = b'{"id":"%s","status":"%s"}' % (id.encode(), status.encode())
    return Closed(status=status, response=response, output=items(*output), verdict=b'{"ok":true}')


def event(sequence: int, text: str = "x") -> LoggedEvent:
    data = b'{"type":"response.output_text.delta","sequence_number":%d,"delta":"%s"}'
    return LoggedEvent(sequence, 100.0 + sequence, data % (sequence, text.encode()))


def events(begin: int, end: int) -> list[LoggedEvent]:
    return [event(sequence) for sequence in range(begin, end)]


def done(sequence: int, index: int, id: str) -> LoggedEvent:
    """A finished item, as the machine tells of it."""
    data = b'{"type":"response.output_item.done","sequence_number":%d,"output_index":%d,"item":%s}'
    return LoggedEvent(sequence, 100.0 + sequence, data % (sequence, index, item(id).data))


def trace(size: int) -> Trace:
    return Trace("read", 100.0 + size, b"", size)


async def whole(
    store: Store,
    id: str,
    input: Sequence[str] = (),
    output: Sequence[str] = (),
    *,
    log: Sequence[LoggedEvent] = (),
    tenant: str = LOCAL,
    previous: str | None = None,
    conversation: str | None = None,
) -> bool:
    """A turn from its beginning to its end."""
    await store.open(opened(id, *input, tenant=tenant, previous=previous, conversation=conversation))
    store.log(id, log)
    return await store.close(id, closed(id, *output), patience=30)


async def read(store: Store, id: str, after: int = -1, tenant: str = LOCAL) -> list[LoggedEvent]:
    return [event async for event in store.events(tenant, id, after)]


@asynccontextmanager
async def stuck(store: SqliteStore) -> AsyncIterator[None]:
    """A disk that takes nothing until the block is left."""
    gate, reached = threading.Event(), threading.Event()

    def wait(_: object) -> None:
        reached.set()
        gate.wait(30)

    job = asyncio.ensure_future(store._writer.do(wait))
    assert await asyncio.to_thread(reached.wait, 30)
    try:
        yield
    finally:
        gate.set()
        await job
