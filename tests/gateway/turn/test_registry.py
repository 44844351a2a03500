"""The turns that run now."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock.gateway.turn.registry import RunningTurns
from penstock.gateway.turn.stop_reasons import SHUTTING_DOWN, StopReason


class FakeTurn:
    def __init__(self, tenant: str, id: str) -> None:
        self.tenant, self.id = tenant, id
        self.stops: list[StopReason] = []

    def stop(self, why: StopReason) -> None:
        self.stops.append(why)


class FakeServices:
    def __init__(self) -> None:
        self.running = 0

    def enter(self) -> None:
        self.running += 1

    def leave(self) -> None:
        self.running -= 1


class FakeExchange:
    aborts = 0

    def abort(self) -> None:
        self.aborts += 1


def added(turns: RunningTurns, tenant: str = "local", id: str = "resp_1") -> tuple[Any, Any, Any]:
    turn, exchange, services = FakeTurn(tenant, id), FakeExchange(), FakeServices()
    turns.add(turn, exchange, services)  # type: ignore[arg-type]
    return turn, exchange, services


def test_a_turn_is_found_by_its_own_tenant_only() -> None:
    turns = RunningTurns()
    turn, _, _ = added(turns)
    assert turns.find("local", "resp_1") is turn
    assert turns.find("bob", "resp_1") is None
    assert turns.find("local", "resp_2") is None


def test_a_turn_is_added_once_and_leaves_the_services_that_it_began_with() -> None:
    """A background turn is added before it is durable, and again when it runs."""
    turns = RunningTurns()
    turn, exchange, services = added(turns)
    turns.add(turn, exchange, FakeServices())  # type: ignore[arg-type]
    assert (len(turns), services.running) == (1, 1)
    turns.remove(turn)
    assert (len(turns), services.running) == (0, 0)
    with pytest.raises(KeyError):
        turns.remove(turn)


def test_ended_is_set_while_nothing_runs() -> None:
    async def test() -> None:
        turns = RunningTurns()
        assert turns.ended.is_set()
        first, _, _ = added(turns, id="resp_1")
        second, _, _ = added(turns, id="resp_2")
        turns.remove(first)
        assert not turns.ended.is_set()
        turns.remove(second)
        assert turns.ended.is_set()

    asyncio.run(test())


def test_stopping_reaches_every_turn_and_aborting_every_connection() -> None:
    turns = RunningTurns()
    entries = [added(turns, id=f"resp_{number}") for number in range(3)]
    turns.stop(SHUTTING_DOWN)
    turns.abort()
    assert [turn.stops for turn, _, _ in entries] == [[SHUTTING_DOWN]] * 3
    assert [exchange.aborts for _, exchange, _ in entries] == [1, 1, 1]
