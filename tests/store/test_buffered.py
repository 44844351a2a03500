"""What is in memory and what is written: discarded ends, and the ledger while the disk is slow or full."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from penstock.errors import StoreError
from penstock.store.batch_writer import WriteLimits
from penstock.store.ledger import KeyLimits, TurnFilter
from penstock.store.records import LOCAL
from penstock.store.sqlite.store import SqliteStore
from tests.store.builders import done, event, item, opened
from tests.store.ledger_records import ended, started
from tests.store.sqlite.stores import fill_disk, free_disk, stuck_disk, use_store

EVERYTHING = TurnFilter()
SLOW = WriteLimits(log_delay=3600.0)
"""Nothing is written before somebody reads."""


def test_a_record_without_limits_does_not_wait_for_the_disk(tmp_path: Path) -> None:
    async def check(store: SqliteStore) -> None:
        async with stuck_disk(store):
            assert await store.admit(started("resp_1")) is None
            store.settle_turn(ended(started("resp_1"), tokens=7))
        assert [turn.input_tokens for turn in (await store.turns(EVERYTHING)).turns] == [4]

    use_store(tmp_path / "store.db", check)


def test_a_short_turn_is_written_once(tmp_path: Path) -> None:
    async def check(store: SqliteStore) -> None:
        statements: list[str] = []
        store._writer._connection.set_trace_callback(statements.append)
        await store.admit(started("resp_1"))
        store.settle_turn(ended(started("resp_1")))
        await store.turns(EVERYTHING)
        assert sum("INSERT INTO turns " in each for each in statements) == 1

    use_store(tmp_path / "store.db", check, limits=SLOW)


def test_a_full_disk_raises_with_limits_and_keeps_records_without(tmp_path: Path) -> None:
    async def check(store: SqliteStore) -> None:
        await fill_disk(store)
        for number in range(50):
            await store.admit(started(f"resp_{number}"))
            store.settle_turn(ended(started(f"resp_{number}")))
        with pytest.raises(StoreError) as raised:
            await store.admit(started("limited"), KeyLimits(requests_per_minute=1000))
        assert raised.value.code == StoreError.FULL
        await free_disk(store)
        assert await store.admit(started("limited"), KeyLimits(requests_per_minute=51)) is None
        exceeded = await store.admit(started("more"), KeyLimits(requests_per_minute=51))
        assert exceeded is not None
        assert exceeded.used == 51

    use_store(tmp_path / "store.db", check)


def test_a_cancelled_admission_can_be_settled(tmp_path: Path) -> None:
    async def check(store: SqliteStore) -> None:
        async with stuck_disk(store):
            admission = asyncio.ensure_future(store.admit(started("resp_1"), KeyLimits(concurrent_turns=1)))
            await asyncio.sleep(0)
            admission.cancel()
        store.settle_turn(ended(started("resp_1")))
        [turn] = (await store.turns(EVERYTHING)).turns
        assert turn.outcome == "completed"

    use_store(tmp_path / "store.db", check)


def test_closing_the_store_writes_the_ledger(tmp_path: Path) -> None:
    async def settle(store: SqliteStore) -> None:
        store.settle_turn(ended(started("resp_1")))

    async def check(store: SqliteStore) -> None:
        assert [turn.outcome for turn in (await store.turns(EVERYTHING)).turns] == ["completed"]

    use_store(tmp_path / "store.db", settle, limits=SLOW)
    use_store(tmp_path / "store.db", check)


def test_pruning_deletes_many_turns_in_steps(tmp_path: Path) -> None:
    async def check(store: SqliteStore) -> None:
        for number in range(2500):
            store.settle_turn(ended(started(f"resp_{number}", number)))
        assert await store.prune_ledger(older_than=3600.0) == 2500
        assert (await store.turns(EVERYTHING)).turns == ()

    use_store(tmp_path / "store.db", check)


def test_a_response_whose_end_was_discarded_is_returned_as_failed(tmp_path: Path) -> None:
    """It must not seem to run forever."""

    async def check(store: SqliteStore) -> None:
        await store.open(opened("resp_1"))
        store.log("resp_1", [event(0), done(1, 0, "msg_1")])
        await store.stats()
        store._writer.lose(store._turns.pop("resp_1"))
        stored = await store.get(LOCAL, "resp_1")
        assert stored is not None
        assert stored.status == "failed"
        assert item("msg_1").data in stored.response
        chain = await store.chain(LOCAL, "resp_1")
        assert chain is not None
        assert [turn.status for turn in chain] == ["failed"]

    use_store(tmp_path / "store.db", check)
