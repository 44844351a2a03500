"""The ledger in memory is bounded; what it forgets still counts towards budgets."""

from __future__ import annotations

import asyncio

from penstock.store.ledger import Budget, KeyLimits, TurnFilter
from penstock.store.memory_ledger import MemoryLedger
from tests.store.ledger_records import NOON, ended, started


def test_the_oldest_turns_are_dropped_but_count_towards_budgets() -> None:
    async def check() -> None:
        ledger = MemoryLedger(most_turns=2)
        for number in range(4):
            ledger.settle_turn(ended(started(f"resp_{number}", NOON + number), tokens=10))
        assert [turn.id for turn in (await ledger.turns(TurnFilter())).turns] == ["resp_3", "resp_2"]
        exceeded = await ledger.admit(
            started("resp_9", NOON + 9), KeyLimits(budgets=(Budget(40, "tokens", "day"),))
        )
        assert exceeded is not None
        assert exceeded.used == 40

    asyncio.run(check())


def test_turns_that_run_are_never_dropped() -> None:
    async def check() -> None:
        ledger = MemoryLedger(most_turns=1)
        await ledger.admit(started("running"))
        for number in range(3):
            ledger.settle_turn(ended(started(f"resp_{number}", NOON + 1 + number)))
        assert [turn.id for turn in (await ledger.turns(TurnFilter())).turns] == ["resp_2", "running"]

    asyncio.run(check())
