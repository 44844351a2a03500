"""The pool of connections: its bounds, and what happens to a connection after a failure."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

from penstock.errors import StoreError
from penstock.store.postgres.connections import DatabaseConnection, DatabasePool
from tests.store.postgres.cluster import shared_cluster
from tests.store.postgres.databases import kill_backends, on_postgres, pool_of, rows
from tests.store.workers import until


async def backend_id(connection: DatabaseConnection) -> int:
    return int(await connection.fetchval("SELECT pg_backend_pid()"))


async def sleep(connection: DatabaseConnection, seconds: float) -> None:
    await connection.execute("SELECT pg_sleep($1)", seconds)


async def echo(connection: DatabaseConnection, number: int) -> int:
    return int(await connection.fetchval("SELECT $1::int", number))


async def code_of(work: Any) -> str:
    with pytest.raises(StoreError) as caught:
        await work
    assert "planted-password" not in caught.value.message
    return caught.value.code


@on_postgres
async def test_a_connection_is_used_again(url: str) -> None:
    async with pool_of(url) as pool:
        first = await pool.run(backend_id)
        assert await pool.run(backend_id) == first
        assert await pool.transact(backend_id) == first


@on_postgres
async def test_a_call_that_is_cancelled_leaves_no_half_read_reply(url: str) -> None:
    async with pool_of(url + "?pool_size=2") as pool:
        for delay in (0.0, 0.001, 0.01, 0.05):
            task = asyncio.create_task(pool.run(partial(sleep, seconds=30)))
            await asyncio.sleep(delay)
            task.cancel()
            await asyncio.wait({task})
            assert task.cancelled()
        for number in range(5):
            assert await pool.run(partial(echo, number=number)) == number


@on_postgres
async def test_a_call_that_takes_too_long_is_given_up(url: str) -> None:
    async with pool_of(url) as pool:
        assert await code_of(pool.run(partial(sleep, seconds=30), seconds=0.05)) == StoreError.UNREACHABLE
        assert await pool.run(backend_id)


@asynccontextmanager
async def all_in_use(pool: DatabasePool) -> AsyncIterator[list[asyncio.Event]]:
    """Keep all connections of a pool in use; yield an event for each that gives it back."""
    releases: list[asyncio.Event] = []

    async def hold(_: DatabaseConnection) -> None:
        releases.append(asyncio.Event())
        await releases[-1].wait()

    tasks = [asyncio.create_task(pool.run(hold)) for _ in range(pool.address.pool_size)]
    await until(lambda: len(releases) == len(tasks))
    try:
        yield releases
    finally:
        for release in releases:
            release.set()
        await asyncio.gather(*tasks)


@on_postgres
async def test_waiting_for_a_connection_has_an_end(url: str) -> None:
    async with pool_of(url + "?pool_size=2") as pool:
        async with all_in_use(pool):
            assert await code_of(pool.run(backend_id, seconds=0.05)) == StoreError.BUSY
        assert await pool.run(backend_id)


@on_postgres
async def test_a_limited_number_of_callers_waits_and_urgent_ones_are_first(url: str) -> None:
    order: list[str] = []

    async def note(_: DatabaseConnection, name: str) -> None:
        order.append(name)

    async with pool_of(url + "?pool_size=2", most_waiting=1) as pool, all_in_use(pool) as releases:
        waiting = asyncio.create_task(pool.run(partial(note, name="patient")))
        await asyncio.sleep(0)
        assert await code_of(pool.run(backend_id)) == StoreError.BUSY
        urgent = asyncio.create_task(pool.transact(partial(note, name="urgent"), is_urgent=True))
        await asyncio.sleep(0)
        releases[0].set()
        await urgent
        await waiting
    assert order == ["urgent", "patient"]


@on_postgres
async def test_a_caller_that_gives_up_waiting_takes_no_place(url: str) -> None:
    async with pool_of(url + "?pool_size=2") as pool:
        async with all_in_use(pool):
            waiting = [asyncio.create_task(pool.run(backend_id)) for _ in range(5)]
            await asyncio.sleep(0)
            for task in waiting[:4]:
                task.cancel()
            await asyncio.wait(waiting[:4])
        assert await waiting[4]
        assert len({*await asyncio.gather(*(pool.run(backend_id) for _ in range(20)))}) <= 2


@on_postgres
async def test_a_caller_gives_up_at_the_moment_when_a_place_is_left(url: str) -> None:
    async with pool_of(url + "?pool_size=2") as pool:
        async with all_in_use(pool) as releases:
            waiting = asyncio.create_task(pool.run(backend_id))
            await asyncio.sleep(0)
            releases[0].set()  # its task runs before that of the caller that gives up
            waiting.cancel()
            await asyncio.wait({waiting})
            assert waiting.cancelled()
        assert await pool.run(backend_id)


@on_postgres
async def test_a_read_does_not_fail_because_idle_connections_are_dead(url: str) -> None:
    async with pool_of(url) as pool:
        await asyncio.gather(*(pool.run(partial(sleep, seconds=0.02)) for _ in range(8)))
        assert await kill_backends(url) >= 8
        assert await pool.run(backend_id)


@on_postgres
async def test_an_error_in_a_transaction_undoes_it_and_keeps_the_connection(url: str) -> None:
    async def fail(connection: DatabaseConnection, error: Exception | None) -> None:
        await connection.execute("INSERT INTO penstock.secrets VALUES ('one', '')")
        if error is not None:
            raise error
        await connection.execute("INSERT INTO penstock.secrets VALUES ('one', '')")

    async with pool_of(url) as pool:
        before = await pool.run(backend_id)
        assert await code_of(pool.transact(partial(fail, error=None))) == StoreError.DUPLICATE
        with pytest.raises(ValueError, match="ours"):
            await pool.transact(partial(fail, error=ValueError("ours")))
        assert await pool.run(backend_id) == before
    assert await rows(url, "SELECT name FROM penstock.secrets") == []


@on_postgres
async def test_only_what_must_be_durable_waits_for_the_disk(url: str) -> None:
    async def setting(connection: DatabaseConnection) -> str:
        return str(await connection.fetchval("SHOW synchronous_commit"))

    for option in ("", "?pooler=transaction"):
        async with pool_of(url + option) as pool:
            default = await pool.run(setting)
            assert await pool.transact(setting) == default
            assert await pool.transact(setting, is_synced=False) == "off"
            assert await pool.run(setting) == default


@on_postgres
async def test_sessions_cannot_hold_locks_for_ever(url: str) -> None:
    async def settings(connection: DatabaseConnection) -> list[str]:
        names = ("lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout")
        return [str(await connection.fetchval(f"SHOW {name}")) for name in names]

    for option in ("", "?pooler=transaction"):
        async with pool_of(url + option) as pool:
            assert "0" not in await pool.transact(settings)


@on_postgres
async def test_behind_a_pooler_nothing_outlives_a_transaction(url: str) -> None:
    async def statements(connection: DatabaseConnection) -> int:
        await connection.fetchval("SELECT $1::int", 1)
        return int(await connection.fetchval("SELECT count(*) FROM pg_prepared_statements WHERE name <> ''"))

    async with pool_of(url + "?pooler=transaction") as pool:
        for _ in range(2):
            assert await pool.run(statements) == 0


def test_why_a_database_cannot_be_used_is_reported_without_secrets() -> None:
    async def check() -> None:
        for url, code in (
            ("postgresql://postgres:planted-password@127.0.0.1:1/postgres", StoreError.UNREACHABLE),
            ("postgresql://postgres:planted-password@127.0.0.1:1/postgres?sslmode=no", StoreError.ADDRESS),
        ):
            async with pool_of(url) as pool:
                assert await code_of(pool.run(backend_id)) == code

    asyncio.run(check())


@on_postgres
async def test_a_database_that_does_not_exist_and_a_user_that_is_refused(url: str) -> None:
    async with pool_of(shared_cluster().url("missing")) as pool:
        assert await code_of(pool.run(backend_id)) == StoreError.MISSING
    async with pool_of(url.replace("//postgres:", "//nobody:")) as pool:
        assert await code_of(pool.run(backend_id)) == StoreError.DENIED


@on_postgres
async def test_a_closed_pool_is_not_used(url: str) -> None:
    async with pool_of(url) as pool:
        await pool.run(backend_id)
        await pool.aclose()
        assert await code_of(pool.run(backend_id)) == StoreError.CLOSED


@on_postgres
async def test_a_worker_that_is_stopped_in_a_transaction_loses_it_with_its_lease(url: str) -> None:
    """It locks its turns, which nobody could take over."""

    async def setting(connection: DatabaseConnection) -> str:
        return str(await connection.fetchval("SHOW idle_in_transaction_session_timeout"))

    for lease, longest in (("2.5", "2500ms"), ("60", "10s")):
        for pooler in ("", "&pooler=transaction"):
            async with pool_of(f"{url}?lease={lease}{pooler}") as pool:
                assert await pool.transact(setting) == longest
