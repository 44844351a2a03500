"""The ledger in PostgreSQL, beyond what the contract's tests show."""

from __future__ import annotations

import asyncio
import math

from msgspec.structs import replace

from penstock.store.ledger import Budget, KeyLimits, TurnFilter
from tests.store.builders import incompressible_text
from tests.store.ledger_records import NOON, ended, started
from tests.store.postgres.databases import connection_to, on_postgres, rows, worker_on


@on_postgres
async def test_any_record_can_be_written(url: str) -> None:
    strange = replace(
        ended(started("resp_1", tenant="a\0b"), tokens=10),
        model=incompressible_text(1),
        target=incompressible_text(2),
        outcome="failed",
        code="\ud800" + incompressible_text(5),
        user_agent="\0" + incompressible_text(3),
        request_id=incompressible_text(4),
        output_tokens=2**80,
        overhead_ms=math.nan,
        cost=math.inf,
        diagnostics=("\0", "\ud800"),
    )
    async with worker_on(url) as store:
        store.settle_turn(strange)
        [record] = (await store.turns(TurnFilter(tenant="a\0b"))).turns
        assert (record.id, record.tenant, record.cost) == ("resp_1", "a\0b", 0.0)
        assert record.user_agent == strange.user_agent
        assert record.model.startswith(strange.model[:50])
        [total] = await store.totals(TurnFilter(), ("model",))
        assert total.turns == 1
        assert (await store.turns(TurnFilter(search="A\0"))).turns == (record,)
        [(code, turns)] = await store.causes(TurnFilter())
        assert (code[:20], turns) == ("?" + strange.code[1:20], 1)


@on_postgres
async def test_a_record_that_is_refused_does_not_take_the_others_with_it(url: str) -> None:
    async with worker_on(url) as store:
        await rows(url, "ALTER TABLE penstock.turns ADD CONSTRAINT no_model CHECK (model <> 'refused')")
        try:
            for number, model in enumerate(("demo", "refused", "demo")):
                store.settle_turn(replace(ended(started(f"resp_{number}")), model=model))
            found = await store.turns(TurnFilter())
        finally:
            await rows(url, "ALTER TABLE penstock.turns DROP CONSTRAINT no_model")
    assert sorted(record.id for record in found.turns) == ["resp_0", "resp_2"]


@on_postgres
async def test_workers_cannot_spend_the_same_budget(url: str) -> None:
    limits = KeyLimits(budgets=(Budget(1000, "tokens", "day"),))
    async with worker_on(url) as first, worker_on(url) as second:
        stores = [first, second] * 150
        admitted = await asyncio.gather(
            *(
                store.admit(started(f"resp_{number}", tokens=100), limits)
                for number, store in enumerate(stores)
            )
        )
        assert admitted.count(None) == 10
        for number, exceeded in enumerate(admitted):
            if exceeded is None:
                stores[number].settle_turn(ended(started(f"resp_{number}", tokens=100), tokens=50))
        await asyncio.gather(first.turns(TurnFilter()), second.turns(TurnFilter()))
        again = [await first.admit(started(f"again_{number}", tokens=100), limits) for number in range(6)]
        assert again.count(None) == 5


@on_postgres
async def test_workers_add_to_the_same_sums_without_losing_any(url: str) -> None:
    async with worker_on(url) as first, worker_on(url) as second:
        for number in range(300):
            for name, store in (("first", first), ("second", second)):
                record = started(f"resp_{name}_{number}", NOON + number * 60, tenant=f"t{number % 3}")
                store.settle_turn(replace(ended(record, tokens=10, cost=0.125), model=f"m{number % 5}"))
            if number % 20 == 0:
                await asyncio.sleep(0)
        [total] = await first.totals(TurnFilter(), ()) if await second.totals(TurnFilter(), ()) else []
        assert (total.turns, total.cost) == (600, 75.0)
        by_day = await first.totals(TurnFilter(), ("day", "key", "model"))
        assert sum(each.turns for each in by_day) == 600
    [(tokens,)] = await rows(url, "SELECT sum(tokens)::bigint FROM penstock.tenant_days")
    assert tokens == 6_000


@on_postgres
async def test_pruning_the_ledger_does_not_wait_for_another_worker(url: str) -> None:
    async with worker_on(url) as store, connection_to(url) as other:
        for number in range(3):
            store.settle_turn(ended(started(f"resp_{number}", NOON)))
        await store.turns(TurnFilter())
        await other.execute("BEGIN; DELETE FROM penstock.turns WHERE id = 'resp_1'")
        assert await store.prune_ledger(older_than=NOON + 7200) == 2
        await other.execute("ROLLBACK")
        assert await store.prune_ledger(older_than=NOON + 7200) == 1
