"""Stores in files for tests, and disks that are stuck or full."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from penstock.errors import PenstockError, StoreError
from penstock.store.batch_writer import WriteLimits
from penstock.store.sqlite.file import BUSY_MS
from penstock.store.sqlite.store import SqliteStore, open_sqlite_store
from tests.store.builders import Clock


def use_store(
    path: Path,
    body: Callable[[SqliteStore], Awaitable[None]],
    *,
    clock: Clock | None = None,
    limits: WriteLimits | None = None,
    busy_ms: int = BUSY_MS,
) -> None:
    """Open a store, run the body with it, and close the store."""

    async def run() -> None:
        store = await open_sqlite_store(path, clock=clock or Clock(), bounds=limits, busy_ms=busy_ms)
        try:
            await body(store)
        finally:
            await store.aclose()

    asyncio.run(run())


async def do_nothing(_: SqliteStore) -> None:
    """A body for `use_store` that only creates the file."""


def opening_error(path: Path) -> StoreError:
    """Return the error when a file cannot be opened."""
    with pytest.raises(StoreError) as raised:
        asyncio.run(open_sqlite_store(path, busy_ms=0))
    assert isinstance(raised.value, PenstockError)
    assert str(path) in str(raised.value)
    return raised.value


@asynccontextmanager
async def stuck_disk(store: SqliteStore) -> AsyncIterator[None]:
    """Let no write finish until the block is left."""
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


async def fill_disk(store: SqliteStore, pages: int = 1) -> None:
    """Keep the file from growing beyond so many pages."""
    writer = store._writer
    limit = f"PRAGMA max_page_count = {pages}"
    loop = asyncio.get_running_loop()
    await loop.run_in_executor(writer._thread, lambda: writer._connection.execute(limit).fetchall())


async def free_disk(store: SqliteStore) -> None:
    await fill_disk(store, 1_000_000)


def lost_responses(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    """Return the codes and ids of the responses that are logged as lost."""
    fields = [getattr(record, "fields", {}) for record in caplog.records]
    return [(entry["code"], entry["response_id"]) for entry in fields if "response_id" in entry]
