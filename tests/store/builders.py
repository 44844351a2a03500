"""Builders for turns, items and events, and tests that run against every store."""

from __future__ import annotations

import asyncio
import functools
import inspect
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import cast

import pytest

from penstock.store.batch_writer import WriteLimits
from penstock.store.contract import Store
from penstock.store.memory import MemoryStore
from penstock.store.postgres.store import open_postgres_store
from penstock.store.records import LOCAL, Closed, LoggedEvent, Opened, Page, StoredItem, Trace
from penstock.store.sqlite.shared import hold_file, open_shared_sqlite_store
from penstock.store.sqlite.store import open_sqlite_store
from tests.store.postgres.cluster import empty, shared_cluster

KINDS = ("memory", "sqlite", "sqlite-shared", pytest.param("postgres", marks=pytest.mark.store))
NO_DELAYS = WriteLimits(commit_delay=0, log_delay=0, recent_delay=0)
"""Write at once, so that what is read next is more likely to be in the file than in memory."""


class Clock:
    """A clock that moves only when `now` is set."""

    def __init__(self, now: float = 1_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@asynccontextmanager
async def open_test_store(kind: str, folder: Path, clock: Callable[[], float]) -> AsyncIterator[Store]:
    store: Store
    async with AsyncExitStack() as stack:
        if kind == "memory":
            store = MemoryStore(clock=clock)
        elif kind == "sqlite":
            store = await open_sqlite_store(folder / "store.db", clock=clock, bounds=NO_DELAYS)
        elif kind == "postgres":
            url = shared_cluster().url()
            await empty(url)
            store = await open_postgres_store(url, clock=clock, bounds=NO_DELAYS)
        else:
            stack.callback(hold_file(folder / "store.db", clock=clock).release)
            store = await open_shared_sqlite_store(folder / "store.db", clock=clock, bounds=NO_DELAYS)
        stack.push_async_callback(store.aclose)
        yield store


Body = Callable[[Store], Awaitable[None]] | Callable[[Store, Clock], Awaitable[None]]


def for_every_store(body: Body) -> Callable[..., None]:
    """Turn an async function of a store, and optionally a clock, into a test for every store."""
    wants_clock = len(inspect.signature(body).parameters) > 1

    @pytest.mark.parametrize("kind", KINDS)
    @functools.wraps(body)
    def test(kind: str, tmp_path: Path) -> None:
        async def run() -> None:
            clock = Clock()
            async with open_test_store(kind, tmp_path, clock) as store:
                values = (store, clock) if wants_clock else (store,)
                await cast(Callable[..., Awaitable[None]], body)(*values)

        asyncio.run(run())

    # Pytest reads the parameters from here, and the file and line from the wrapped function.
    parameters = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in ("kind", "tmp_path")]
    test.__signature__ = inspect.Signature(parameters)
    return cast(Callable[..., None], test)


def item(id: str, text: str = "") -> StoredItem:
    return StoredItem(id, b'{"id":"%s","text":"%s"}' % (id.encode(), text.encode()))


async def item_of(store: Store, tenant: str, id: str) -> StoredItem | None:
    return (await store.items(tenant, [id])).get(id)


async def recalled(store: Store, tenant: str, key: str) -> bytes | None:
    return (await store.recall(tenant, [key])).get(key)


def items(*ids: str) -> tuple[StoredItem, ...]:
    return tuple(item(id) for id in ids)


def ids(page: Page | None) -> list[str]:
    assert page is not None
    return [item.id for item in page.items]


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
    """Return the event of a finished item."""
    data = b'{"type":"response.output_item.done","sequence_number":%d,"output_index":%d,"item":%s}'
    return LoggedEvent(sequence, 100.0 + sequence, data % (sequence, index, item(id).data))


def incompressible_text(seed: int) -> str:
    """Return text that does not compress well."""
    return "".join(random.Random(seed).choices("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOP", k=20_000))


def trace(size: int) -> Trace:
    return Trace("read", 100.0 + size, b"", size)


async def complete_turn(
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
    """Store a turn from its beginning to its end."""
    await store.open(opened(id, *input, tenant=tenant, previous=previous, conversation=conversation))
    store.log(id, log)
    return await store.close(id, closed(id, *output), patience=30)


async def read(store: Store, id: str, after: int = -1, tenant: str = LOCAL) -> list[LoggedEvent]:
    return [event async for event in store.events(tenant, id, after)]
