"""The only runner: a turn owns the task that it cancels, and every kind of turn ends in the same way."""

from __future__ import annotations

import asyncio
import gc
import json
import logging

import pytest

from penstock.errors import ServerError
from penstock.gateway.gateway import Gateway
from penstock.gateway.turn.heartbeats import Heartbeats
from penstock.gateway.turn.stop_reasons import CANCELLED, SHUTTING_DOWN
from penstock.gateway.turn.turn import Turn
from penstock.store.records import LOCAL
from penstock.stream.machine import ResponseStreamStateMachine
from tests.garbage import without_collector
from tests.gateway.fake_upstreams import FakeUpstream
from tests.gateway.in_process import SLOW, Caller, Json, call, with_gateway


def test_stopping_a_turn_does_not_cancel_its_caller() -> None:
    async def test(gateway: Gateway) -> None:
        caller = Caller(gateway, input=SLOW, stream=True)
        await caller.runs()
        gateway.turns.stop(CANCELLED)
        await caller.task
        assert caller.task.cancelling() == 0
        assert b'"type":"response.incomplete"' in caller.body
        assert caller.body.endswith(b"data: [DONE]\n\n")

    with_gateway(test)


def test_a_cancelled_caller_returns_when_the_turn_has_ended() -> None:
    async def test(gateway: Gateway) -> None:
        caller = Caller(gateway, input=SLOW, stream=True)
        await caller.runs()
        caller.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller.task
        assert b'"code":"shutting_down"' in caller.body
        assert caller.body.count(b'"type":"response.failed"') == 1

    with_gateway(test)


def test_a_caller_that_is_cancelled_repeatedly_leaves_no_tasks() -> None:
    async def test(gateway: Gateway) -> None:
        caller = Caller(gateway, input=SLOW, stream=True)
        await caller.runs()
        while not caller.task.done():
            caller.task.cancel()
            await asyncio.sleep(0)
        assert caller.body.count(b'"type":"response.failed"') == 1

    with_gateway(test)


def test_the_client_gets_its_end_when_every_task_is_cancelled_at_once() -> None:
    """As a closing event loop does. The turn writes its end when its caller is cancelled."""

    async def test(gateway: Gateway) -> None:
        caller = Caller(gateway, input=SLOW, stream=True)
        await caller.runs()
        for task in asyncio.all_tasks() - {asyncio.current_task(), caller.task}:
            task.cancel()
        await asyncio.sleep(0)
        caller.task.cancel()
        await asyncio.gather(caller.task, return_exceptions=True)
        assert caller.body.count(b'"type":"response.failed"') == 1

    with_gateway(test)


@pytest.mark.parametrize("ticks", range(25))
def test_a_turn_ends_whenever_it_is_stopped(ticks: int) -> None:
    """Also between its registration and its first step."""

    async def test(gateway: Gateway) -> None:
        caller = Caller(gateway, input=SLOW, background=True)
        for _ in range(ticks):
            await asyncio.sleep(0)
        while not len(gateway.turns):
            await asyncio.sleep(0)
        gateway.turns.stop(CANCELLED)
        await caller.task
        await gateway.turns.ended.wait()
        stored = await gateway.store.get(LOCAL, json.loads(caller.body)["id"])
        assert stored is not None
        assert stored.status == "cancelled"

    with_gateway(test)


@pytest.mark.parametrize("more", [{"stream": False}, {"background": True}], ids=["whole", "background"])
def test_every_kind_of_turn_is_found_and_stopped_in_the_same_way(more: Json) -> None:
    async def test(gateway: Gateway) -> None:
        caller = Caller(gateway, input=SLOW, **more)
        while not len(gateway.turns):
            await asyncio.sleep(0.01)
        gateway.turns.stop(SHUTTING_DOWN)
        await caller.task
        await gateway.turns.ended.wait()
        answer = json.loads(caller.body)
        assert answer.get("status") == "queued" or answer["error"]["code"] == "shutting_down"

    with_gateway(test)


def test_a_cancelled_reader_of_a_log_leaves_no_tasks() -> None:
    async def test(gateway: Gateway) -> None:
        caller = Caller(gateway, input=SLOW, stream=True, background=True)
        await caller.received(b"response.created")
        caller.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller.task
        gateway.turns.stop(CANCELLED)
        await gateway.turns.ended.wait()

    with_gateway(test)


@pytest.mark.parametrize("more", [{"stream": True}, {"background": True}], ids=["streamed", "background"])
def test_a_fault_of_the_heartbeats_is_logged_and_costs_nothing(
    more: Json, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: object) -> float:
        raise OSError("planted")

    monkeypatch.setattr(Heartbeats, "check", fail)
    monkeypatch.setattr(Heartbeats, "_until_next", lambda _: 0.0)

    async def test(gateway: Gateway) -> None:
        caller = Caller(gateway, input="Count from 1 to 3.", **more)
        await caller.task
        await gateway.turns.ended.wait()

    with caplog.at_level(logging.ERROR):
        with_gateway(test)
    assert "OSError" in caplog.text


COUNT = "Count from 1 to 3."


@pytest.mark.parametrize("is_stopped", [False, True], ids=["answered", "stopped"])
@pytest.mark.parametrize(
    "more",
    [{"stream": True}, {"stream": True, "store": False}, {"stream": False}, {"background": True}],
    ids=["streamed", "not stored", "whole", "background"],
)
def test_an_ended_turn_does_not_wait_for_the_garbage_collector(more: Json, is_stopped: bool) -> None:
    """A turn holds its request and its answer. In a reference cycle they would stay for a long time."""

    async def test(gateway: Gateway) -> None:
        caller = Caller(gateway, input=SLOW if is_stopped else COUNT, **more)
        if is_stopped:
            while not len(gateway.turns):
                await asyncio.sleep(0)
            gateway.turns.stop(CANCELLED)
        await caller.task
        await gateway.turns.ended.wait()
        await asyncio.sleep(0)  # the task of the demo model ends
        assert _turns() == 0

    with without_collector():
        with_gateway(test)


def test_a_turn_whose_client_has_disconnected_does_not_wait_for_the_garbage_collector() -> None:
    async def test(gateway: Gateway) -> None:
        caller = Caller(gateway, input=SLOW, stream=True, store=False)
        await caller.received(b"response.output_text.delta")
        caller.disconnect()
        await caller.task
        await asyncio.sleep(0)  # the task of the demo model ends
        assert _turns() == 0

    with without_collector():
        with_gateway(test)


@pytest.mark.parametrize("is_streamed", [True, False], ids=["streamed", "whole"])
def test_a_failed_turn_does_not_wait_for_the_garbage_collector(is_streamed: bool) -> None:
    """The traceback of an exception refers to everything around it."""

    async def test(gateway: Gateway) -> None:
        await call(gateway, model="m", input="Hi", stream=is_streamed)
        await asyncio.sleep(0)
        assert _turns() == 0

    with without_collector():
        with_gateway(test, FakeUpstream("up", ServerError("planted", status=400)))


def _turns() -> int:
    """The number of turns and state machines in memory."""
    return sum(isinstance(each, Turn | ResponseStreamStateMachine) for each in gc.get_objects())
