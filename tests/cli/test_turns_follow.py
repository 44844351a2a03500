"""`penstock turns --follow`: which turns have ended since the last reading, and a real gateway."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path

import pytest
from msgspec.structs import replace

from penstock.cli.turns_follow import EndedTurns
from penstock.store.ledger import FAILED, TurnFilter, TurnPage, TurnRecord, TurnTotals
from penstock.store.memory_ledger import MemoryLedger
from tests.cli.running import start
from tests.gateway.running import gateway
from tests.store.ledger_records import NOON, ended, started


class Source:
    """A ledger to read without waiting."""

    def __init__(self) -> None:
        self.ledger = MemoryLedger()

    def add(self, *records: TurnRecord) -> None:
        for record in records:
            self.ledger.settle_turn(record)

    def open(self, record: TurnRecord) -> None:
        self.ledger.admit_now(record, None)

    def turns(self, filter: TurnFilter, *, after: str = "", limit: int = 50) -> TurnPage:
        return asyncio.run(self.ledger.turns(filter, after=after, limit=limit))

    def totals(self, filter: TurnFilter, by: object) -> list[TurnTotals]:
        raise NotImplementedError


def ids(turns: list[TurnRecord]) -> list[str]:
    return [turn.id for turn in turns]


def test_each_turn_is_returned_once_when_it_has_ended() -> None:
    source = Source()
    slow = started("slow", NOON)
    source.open(slow)
    source.add(ended(started("a", NOON + 100)), ended(started("b", NOON + 101)))
    turns = EndedTurns(source, TurnFilter(), ("",))
    assert ids(turns.begin(1)) == ["b"]
    assert turns.running == 1
    assert turns.next(source) == []
    source.add(ended(started("c", NOON + 200)))
    assert ids(turns.next(source)) == ["c"]
    source.add(replace(ended(slow), ended_at=NOON + 300))  # it started long before the others
    assert ids(turns.next(source)) == ["slow"]
    assert (turns.next(source), turns.running) == ([], 0)


def test_only_the_wanted_outcomes_are_returned() -> None:
    source = Source()
    source.add(ended(started("a")))
    turns = EndedTurns(source, TurnFilter(), FAILED)
    assert turns.begin(5) == []
    source.add(ended(started("b", NOON + 1)), replace(ended(started("c", NOON + 2)), outcome="failed"))
    assert ids(turns.next(source)) == ["c"]


def test_turns_that_are_not_listed_at_first_do_not_follow() -> None:
    source = Source()
    source.add(*(ended(started(f"{number}", NOON + number)) for number in range(5)))
    turns = EndedTurns(source, TurnFilter(), ("",))
    assert turns.begin(0) == []
    assert turns.next(source) == []


@pytest.mark.e2e
@pytest.mark.parametrize("source", ["gateway", "file"])
def test_turns_of_a_gateway_are_followed_until_ctrl_c(tmp_path: Path, source: str) -> None:
    with gateway(tmp_path) as running:
        running.whole("demo", store=False)
        where = (
            ("--base-url", f"{running.url}/v1")
            if source == "gateway"
            else ("--store", str(tmp_path / "store.sqlite"))
        )
        process = start("turns", "--follow", "--json", *where)
        assert process.stdout is not None
        try:
            first = json.loads(process.stdout.readline())
            running.whole("demo", store=False)
            second = json.loads(process.stdout.readline())
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=30)
        finally:
            process.kill()
        assert (process.returncode, errors) == (0, b"")
        assert first["outcome"] == second["outcome"] == "completed"
        assert first["id"] != second["id"]
        assert first["started_at"] < second["started_at"]
