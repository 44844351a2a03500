"""Tests on a database that nothing else uses at the same time."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from penstock.store.batch_writer import WriteLimits
from penstock.store.peers import PeerTimes
from penstock.store.postgres.address import address_of
from penstock.store.postgres.connections import DatabaseConnection, DatabasePool
from penstock.store.postgres.schema import migrate_database
from penstock.store.postgres.store import PostgresBackend, open_postgres_store
from penstock.store.shared import SharedStore
from tests.store.builders import NO_DELAYS
from tests.store.postgres.cluster import connected, empty, shared_cluster

Body = Callable[[str], Awaitable[None]]


def on_postgres(body: Body) -> Callable[[], None]:
    """Turn an async function of the URL of an empty store into a test."""

    @pytest.mark.store
    @functools.wraps(body)
    def test() -> None:
        async def run() -> None:
            url = shared_cluster().url()
            await migrate_database(address_of(url))
            await empty(url)
            async with asyncio.timeout(60):
                await body(url)

        asyncio.run(run())

    found = cast(Any, test)
    found.__signature__ = inspect.Signature([])
    return cast(Callable[[], None], found)


@asynccontextmanager
async def connection_to(url: str) -> AsyncIterator[DatabaseConnection]:
    connection = await connected(url)
    try:
        yield connection
    finally:
        await connection.close(timeout=5)


@asynccontextmanager
async def pool_of(url: str, **options: Any) -> AsyncIterator[DatabasePool]:
    pool = DatabasePool(address_of(url), **options)
    try:
        yield pool
    finally:
        await pool.aclose()


@asynccontextmanager
async def worker_on(
    url: str,
    *,
    bounds: WriteLimits = NO_DELAYS,
    times: PeerTimes | None = None,
    clock: Callable[[], float] | None = None,
    direct_url: str = "",
) -> AsyncIterator[SharedStore]:
    store = await open_postgres_store(url, bounds=bounds, times=times, clock=clock, direct_url=direct_url)
    try:
        yield store
    finally:
        await store.aclose()


def backend_of(store: SharedStore) -> PostgresBackend:
    backend = store._backend
    assert isinstance(backend, PostgresBackend)
    return backend


async def rows(url: str, query: str, *values: object) -> list[tuple[Any, ...]]:
    async with connection_to(url) as connection:
        return [tuple(row) for row in await connection.fetch(query, *values)]


async def kill_backends(url: str) -> int:
    """End all other sessions, as an administrator or a crash would."""
    query = """
    SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
    WHERE pid <> pg_backend_pid() AND datname = current_database()
    """
    [(count,)] = await rows(url, query)
    return int(count)
