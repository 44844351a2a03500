"""Finding what has changed in the ledger."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from msgspec.structs import replace

from penstock.inspector import ledger_watch
from penstock.inspector.ledger_watch import OVERLAP, OVERLAP_EVERY, RECENT, LedgerWatch, TooManyTurns
from penstock.store.ledger import TurnFilter, TurnPage, TurnRecord
from penstock.store.memory_ledger import MemoryLedger
from tests.store.ledger_records import NOON, ended, started


class CountingLedger(MemoryLedger):
    read = 0
    """Turns that were returned."""

    async def turns(self, filter: TurnFilter, *, after: str = "", limit: int = 50) -> TurnPage:
        page = await super().turns(filter, after=after, limit=limit)
        self.read += len(page.turns)
        return page


class Scene:
    """A ledger, a clock that a test moves, and a watch of them."""

    def __init__(self) -> None:
        self.ledger = CountingLedger()
        self.now = NOON
        self.watch = LedgerWatch(self.ledger, lambda: self.now)

    async def start(self, id: str, at: float | None = None) -> TurnRecord:
        record = started(id, self.now if at is None else at)
        await self.ledger.admit(record)
        return record

    def end(self, record: TurnRecord) -> None:
        self.ledger.settle_turn(ended(record, tokens=3))

    async def changes(self) -> list[tuple[str, str]]:
        return [(record.id, record.outcome) for record in await self.watch.next()]


def scene(test: Callable[[Scene], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(test(Scene()))


def test_a_turn_is_seen_when_it_starts_and_when_it_ends() -> None:
    async def scenario(scene: Scene) -> None:
        assert await scene.changes() == []
        first = await scene.start("a")
        second = await scene.start("b", scene.now + 1)
        scene.now += 1
        assert await scene.changes() == [("a", "running"), ("b", "running")]
        assert await scene.changes() == []
        scene.end(second)
        assert await scene.changes() == [("b", "completed")]
        scene.end(first)
        assert await scene.changes() == [("a", "completed")]
        assert await scene.changes() == []

    scene(scenario)


def test_a_turn_that_starts_and_ends_between_two_readings_is_seen_once() -> None:
    async def scenario(scene: Scene) -> None:
        scene.end(await scene.start("a"))
        assert await scene.changes() == [("a", "completed")]
        assert await scene.changes() == []

    scene(scenario)


def test_the_end_of_a_turn_that_runs_for_hours_is_seen() -> None:
    async def scenario(scene: Scene) -> None:
        long = await scene.start("long")
        assert await scene.changes() == [("long", "running")]
        for hour in range(5):
            scene.now += 3600
            scene.end(await scene.start(f"short {hour}"))
            assert await scene.changes() == [(f"short {hour}", "completed")]
        scene.end(long)
        assert await scene.changes() == [("long", "completed")]
        assert await scene.changes() == []

    scene(scenario)


def test_a_record_that_is_written_late_is_seen() -> None:
    async def scenario(scene: Scene) -> None:
        scene.end(await scene.start("a"))
        await scene.changes()
        scene.end(await scene.start("late", scene.now - RECENT / 2))
        assert await scene.changes() == [("late", "completed")]
        scene.end(await scene.start("very late", scene.now - OVERLAP / 2))
        seen = [await scene.changes() for _ in range(OVERLAP_EVERY)]
        assert [each for each in seen if each] == [[("very late", "completed")]]

    scene(scenario)


def test_most_readings_read_only_the_newest_turns() -> None:
    async def scenario(scene: Scene) -> None:
        for number in range(100):
            scene.end(await scene.start(f"{number}"))
            scene.now += 0.1
        await scene.changes()
        read: list[int] = []
        for _ in range(OVERLAP_EVERY):
            scene.ledger.read = 0
            assert await scene.changes() == []
            read.append(scene.ledger.read)
        assert sorted(read)[-2:] == [pytest.approx(20, abs=1), pytest.approx(100, abs=1)]

    scene(scenario)


def test_a_start_in_the_future_hides_nothing() -> None:
    async def scenario(scene: Scene) -> None:
        scene.end(await scene.start("ahead", scene.now + 1000))
        await scene.changes()
        scene.end(await scene.start("a"))
        assert await scene.changes() == [("a", "completed")]

    scene(scenario)


def test_an_open_record_that_changes_is_seen() -> None:
    async def scenario(scene: Scene) -> None:
        record = await scene.start("a")
        await scene.changes()
        scene.watch._running["a"] = replace(record, target="before")
        assert await scene.changes() == [("a", "running")]

    scene(scenario)


def test_too_many_turns_are_not_followed_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_watch, "MOST", 3)
    monkeypatch.setattr(ledger_watch, "_PAGE", 2)

    async def scenario(scene: Scene) -> None:
        for number in range(6):
            scene.end(await scene.start(f"{number}"))
        scene.now += 1
        with pytest.raises(TooManyTurns):
            await scene.changes()
        assert await scene.changes() == []
        scene.end(await scene.start("next"))
        assert await scene.changes() == [("next", "completed")]

    scene(scenario)
