"""The gateway: settings, upstreams and turns in one place."""

from __future__ import annotations

import asyncio

import pytest

from penstock.errors import InvalidRequestError
from penstock.gateway.errors import ClientDisconnected, RequestRefused
from penstock.gateway.gateway import Gateway
from penstock.gateway.http.exchange import Exchange
from penstock.gateway.settings import Limits, Settings
from penstock.gateway.turn.stop_reasons import CANCELLED
from penstock.store.memory import MemoryStore
from penstock.upstream.target import UpstreamTarget
from tests.gateway.fake_channels import FakeHttpChannel
from tests.gateway.fake_upstreams import paused_upstream
from tests.gateway.in_process import SLOW, Caller, call, chain, with_gateway


def test_more_turns_than_allowed_are_refused_at_once() -> None:
    """Ask J5: no hidden queue."""
    upstream, gate = paused_upstream()

    async def test(gateway: Gateway) -> None:
        first = Caller(gateway, model="m", input="Hi", stream=True)
        await first.received(b"output_text.delta")
        second = await call(gateway, model="m", input="Hi")
        assert (second.status, second.error["code"]) == (503, "server_is_overloaded")
        assert second.headers["retry-after"]
        gate.set()
        await first.task
        assert (await call(gateway, model="demo", input="say exactly: ok")).status == 200

    with_gateway(test, upstream, settings=chain(upstream, limits=Limits(max_turns=1)))


def test_a_gateway_that_stops_takes_no_new_turns_and_lets_running_ones_end() -> None:
    upstream, gate = paused_upstream()

    async def test(gateway: Gateway) -> None:
        running = Caller(gateway, model="m", input="Hi", stream=True)
        await running.received(b"output_text.delta")
        draining = asyncio.create_task(gateway.drain())
        await asyncio.sleep(0)
        refused = await call(gateway, model="demo", input="Hi")
        assert refused.status == 503
        assert not draining.done()
        gate.set()
        await running.task
        await draining
        assert running.text == "ab"

    with_gateway(test, upstream)


def test_a_turn_that_takes_longer_than_the_drain_is_stopped() -> None:
    upstream, _ = paused_upstream()

    async def test(gateway: Gateway) -> None:
        running = Caller(gateway, model="m", input="Hi", stream=True)
        await running.received(b"output_text.delta")
        await gateway.drain()
        await running.task
        assert running.response["error"]["code"] == "shutting_down"

    with_gateway(test, upstream, settings=chain(upstream, limits=Limits(drain=0)))


def test_work_for_a_client_that_disconnects_is_dropped() -> None:
    """A follow-up may wait long for the response that it continues."""

    async def test(gateway: Gateway) -> None:
        started, dropped = asyncio.Event(), asyncio.Event()

        async def work() -> None:
            started.set()
            try:
                await asyncio.Event().wait()
            finally:
                dropped.set()

        channel = FakeHttpChannel()

        async def leave() -> None:
            await started.wait()
            channel.disconnect()

        leaving = asyncio.create_task(leave())
        with pytest.raises(ClientDisconnected):
            await gateway.unless_disconnected(Exchange(channel), work())
        assert dropped.is_set()
        await leaving
        await asyncio.sleep(0)  # the request's own task is not cancelled

    with_gateway(test)


def test_a_disconnect_that_is_reported_too_late_cancels_nothing() -> None:
    """The work has ended when the callback for a client that had already disconnected is called."""

    async def test(gateway: Gateway) -> None:
        channel = FakeHttpChannel()
        channel.disconnect()

        async def work() -> str:
            return "done"

        assert await gateway.unless_disconnected(Exchange(channel), work()) == "done"
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    with_gateway(test)


def test_work_that_fails_raises_its_own_error() -> None:
    async def test(gateway: Gateway) -> None:
        async def work() -> None:
            raise RequestRefused(400, "invalid_request", "wrong")

        with pytest.raises(RequestRefused, match="wrong"):
            await gateway.unless_disconnected(Exchange(FakeHttpChannel()), work())

    with_gateway(test)


class SilentChannel(FakeHttpChannel):
    """A client that does not send its body."""

    async def receive(self) -> bytes:
        await asyncio.Event().wait()
        return b""


def test_a_body_that_comes_too_slowly_is_a_timeout() -> None:
    async def test(gateway: Gateway) -> None:
        with pytest.raises(RequestRefused) as caught:
            await gateway.read(Exchange(SilentChannel()))
        assert (caught.value.status, caught.value.code) == (408, "request_timeout")

    with_gateway(test, settings=Settings(limits=Limits(client_timeout=0.01)))


def target(port: int) -> UpstreamTarget:
    return UpstreamTarget(name="near", base_url=f"http://127.0.0.1:{port}/v1")


def test_running_turns_end_under_the_settings_that_they_began_with() -> None:
    """What only the old settings need is closed when the last such turn has ended."""
    upstream, gate = paused_upstream()

    async def test(gateway: Gateway) -> None:
        running = Caller(gateway, model="m", input="Hi", stream=True)
        await running.received(b"output_text.delta")
        old = gateway.services
        gateway.reload(Settings(targets=(target(1),)))
        assert gateway.services is not old
        assert (await call(gateway, model="m", input="Hi")).status == 404
        gateway.reload(Settings(targets=(target(2),)))
        assert not old.idle.is_set()
        gate.set()
        await running.task
        assert running.text == "ab"
        assert old.idle.is_set()
        async with asyncio.timeout(5):
            while len(asyncio.all_tasks()) > 1:  # those that wait for the end of the old settings
                await asyncio.sleep(0)

    with_gateway(test, upstream)


def test_settings_that_cannot_work_change_nothing() -> None:
    async def test(gateway: Gateway) -> None:
        before = gateway.services
        bad = UpstreamTarget(name="bad", base_url="https://{region}.example/v1")
        with pytest.raises(InvalidRequestError):
            gateway.reload(Settings(targets=(bad,)))
        assert gateway.services is before

    with_gateway(test)


def test_closing_waits_for_what_runs_in_the_background() -> None:
    async def test() -> None:
        gateway, ended = Gateway(Settings(), store=MemoryStore()), []

        async def work() -> None:
            for _ in range(20):
                await asyncio.sleep(0)
            ended.append(True)

        gateway.run_in_background(work())
        assert await gateway.aclose() == []
        assert ended == [True]

    asyncio.run(test())


def test_the_running_turns_are_a_metric() -> None:
    async def test(gateway: Gateway) -> None:
        assert b"penstock_turns_running 0" in gateway.metrics.render()
        running = Caller(gateway, model="demo", input=SLOW, stream=True)
        await running.runs()
        assert b"penstock_turns_running 1" in gateway.metrics.render()
        gateway.turns.stop(CANCELLED)
        await running.task

    with_gateway(test)
