"""Times and causes in PostgreSQL: tables of an older version, and workers of an older version."""

from __future__ import annotations

import asyncio

from penstock.store.ledger import DIMENSIONS, Dimension, TurnFilter
from penstock.store.postgres.address import address_of
from penstock.store.postgres.schema import STEPS, migrate_database
from tests.store.ledger_records import ended, started, varied
from tests.store.postgres.databases import on_postgres, rows, worker_on

STEP = 4
"""The migration step since which times are kept."""


async def undo_steps(url: str) -> None:
    """Make the tables those of an older version, with what they contain."""
    assert "how long turns took" in STEPS[STEP - 1].summary
    for statement in (
        "ALTER TABLE penstock.turn_hours DROP COLUMN latencies",
        "ALTER TABLE penstock.turn_days DROP COLUMN latencies",
        "DROP TABLE penstock.turn_causes",
        "ALTER TABLE penstock.state DROP COLUMN advanced_at",
        f"DELETE FROM penstock.schema_steps WHERE step >= {STEP}",
    ):
        await rows(url, statement)


@on_postgres
async def test_older_tables_get_the_times_and_causes_of_their_turns(url: str) -> None:
    async def read() -> list[object]:
        async with worker_on(url) as store:
            queries: tuple[tuple[Dimension, ...], ...] = ((), ("hour",), ("day", "model"), DIMENSIONS)
            times: list[object] = [await store.latencies(TurnFilter(), by) for by in queries]
            return [*times, await store.causes(TurnFilter())]

    async with worker_on(url) as store:
        for record in varied(600):
            store.settle_turn(record)
        await store.admit(started("running"))
    before = await read()
    await undo_steps(url)
    assert await migrate_database(address_of(url)) == [*STEPS[STEP - 1 :]]
    assert await read() == before


@on_postgres
async def test_a_worker_of_an_older_version_goes_on(url: str) -> None:
    """It does not know the new columns; its turns are missing from the times only."""
    async with worker_on(url) as store:
        store.settle_turn(ended(started("new")))
        await store.totals(TurnFilter(), ())
        await rows(
            url,
            "INSERT INTO penstock.turn_hours (hour, tenant, model, target, outcome, turns, failed, "
            "input_tokens, cached_tokens, output_tokens, reasoning_tokens, cost, unpriced, estimated, "
            "duration_ms) SELECT hour, tenant, model, target, outcome, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0 "
            "FROM penstock.turn_hours ON CONFLICT (hour, tenant, model, target, outcome) "
            "DO UPDATE SET turns = turn_hours.turns + excluded.turns",
        )
        [total] = await store.totals(TurnFilter(), ("hour",))
        [times] = await store.latencies(TurnFilter(), ("hour",))
        assert (total.turns, times.duration.count) == (2, 1)


@on_postgres
async def test_workers_add_to_the_same_times_without_losing_any(url: str) -> None:
    records = varied(1_000)
    async with worker_on(url) as first, worker_on(url) as second:
        for number, record in enumerate(records):
            (first if number % 2 else second).settle_turn(record)
            if number % 20 == 0:
                await asyncio.sleep(0)
        await second.totals(TurnFilter(), ())
        for by in ((), ("hour",)):
            found = await first.latencies(TurnFilter(), by)
            assert sum(each.duration.count for each in found) == 1_000
        failed = sum(record.outcome in ("failed", "refused") for record in records)
        assert sum(turns for _, turns in await first.causes(TurnFilter())) == failed
