"""The tables and their migrations."""

from __future__ import annotations

import asyncio
import multiprocessing

import pytest

from penstock.errors import StoreError
from penstock.store.postgres.address import address_of
from penstock.store.postgres.schema import CONTRACT, STEPS, Step, check, migrate, migrate_database
from tests.store.postgres.databases import connection_to, on_postgres, rows

NEXT = Step(CONTRACT, "add a column", "ALTER TABLE penstock.responses ADD COLUMN later text")


async def start_again(url: str) -> None:
    async with connection_to(url) as connection:
        await connection.execute("DROP SCHEMA IF EXISTS penstock CASCADE")


def _migrate_in_process(url: str) -> int:
    return len(asyncio.run(migrate_database(address_of(url))))


@on_postgres
async def test_steps_are_applied_once(url: str) -> None:
    await start_again(url)
    assert await migrate_database(address_of(url)) == list(STEPS)
    assert await migrate_database(address_of(url)) == []


@on_postgres
async def test_processes_that_start_together_apply_each_step_once(url: str) -> None:
    await start_again(url)
    loop = asyncio.get_running_loop()

    def run() -> list[int]:
        with multiprocessing.get_context("spawn").Pool(4) as processes:
            return processes.map(_migrate_in_process, [url] * 4)

    assert sum(await loop.run_in_executor(None, run)) == len(STEPS)


@on_postgres
async def test_tables_are_seen_that_another_worker_has_just_created(url: str) -> None:
    """The server remembers within a transaction that a table was missing when it was looked up by name."""
    await start_again(url)
    async with connection_to(url) as connection:
        await connection.execute("BEGIN")
        assert await check(connection) == 0
        await migrate_database(address_of(url))
        assert await check(connection) == len(STEPS)
        await connection.execute("COMMIT")


@on_postgres
async def test_old_workers_go_on_after_a_step_that_they_can_ignore(url: str) -> None:
    async with connection_to(url) as connection:
        assert await migrate(connection, [*STEPS, NEXT]) == [NEXT]
        assert await check(connection) == len(STEPS) + 1
        assert await migrate(connection) == []
    await start_again(url)


@on_postgres
async def test_tables_with_an_unknown_contract_are_refused(url: str) -> None:
    async with connection_to(url) as connection:
        await migrate(connection, [*STEPS, Step(CONTRACT + 1, "change everything", "SELECT 1")])
    with pytest.raises(StoreError) as caught:
        await migrate_database(address_of(url))
    assert caught.value.code == StoreError.NEWER_VERSION
    assert caught.value.message.startswith(address_of(url).location)
    await start_again(url)


@on_postgres
async def test_a_step_that_fails_changes_nothing(url: str) -> None:
    broken = Step(CONTRACT, "fail", "CREATE TABLE penstock.half (x int); SELECT 1 / 0")
    async with connection_to(url) as connection:
        with pytest.raises(Exception, match="division"):
            await migrate(connection, [*STEPS, broken])
        assert await check(connection) == len(STEPS)
    assert await rows(url, "SELECT to_regclass('penstock.half') IS NULL") == [(True,)]


@on_postgres
async def test_the_schema_of_another_program_is_not_touched(url: str) -> None:
    await start_again(url)
    async with connection_to(url) as connection:
        await connection.execute("CREATE SCHEMA penstock; CREATE TABLE penstock.theirs (x int)")
    with pytest.raises(StoreError) as caught:
        await migrate_database(address_of(url))
    assert caught.value.code == StoreError.NOT_A_STORE
    assert await rows(url, "SELECT count(*) FROM pg_tables WHERE schemaname = 'penstock'") == [(1,)]
    await start_again(url)


WITHOUT_TENANT = {"workers", "state", "secrets", "schema_steps"}
"""Tables that belong to no tenant."""


@on_postgres
async def test_every_key_and_every_index_contains_the_tenant(url: str) -> None:
    """Decision 9 of many workers: no query can reach the data of another tenant by its id alone."""
    found = await rows(url, "SELECT tablename, indexdef FROM pg_indexes WHERE schemaname = 'penstock'")
    assert len(found) > 15
    without = {table for table, definition in found if "tenant" not in definition}
    assert without == WITHOUT_TENANT
