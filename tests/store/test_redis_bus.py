"""Messages over a real Redis, and over the store while Redis is away, frozen or restarted."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable, Iterator

import pytest

from penstock.errors import StoreError
from penstock.store import redis_bus
from penstock.store.redis_bus import RedisBus, redis_location
from tests.store.redis_server import RedisServer
from tests.store.workers import until

pytestmark = pytest.mark.store


class StoreBus:
    """The bus of a store: it notes what it is asked to send."""

    most_bytes = 0

    def __init__(self) -> None:
        self.sent: list[tuple[str, bytes]] = []

    def listen(self, worker: str, receive: Callable[[bytes], None], changed: Callable[[], None]) -> None:
        """Receive nothing."""

    def send(self, worker: str, data: bytes) -> None:
        self.sent.append((worker, data))

    async def aclose(self) -> None:
        """Nothing is open."""


class Receiver:
    """One worker on the bus."""

    def __init__(self, url: str) -> None:
        self.other = StoreBus()
        self.bus = RedisBus(url, self.other)
        self.received: list[bytes] = []
        self.changes = 0

    def listen(self, worker: str) -> None:
        self.bus.listen(worker, self.received.append, self._changed)

    def _changed(self) -> None:
        self.changes += 1

    def connected(self) -> bool:
        return self.bus.is_connected and self.changes > 0


@pytest.fixture
def server() -> Iterator[RedisServer]:
    server = RedisServer()
    server.start()
    yield server
    server.stop()


@pytest.fixture(autouse=True)
def _short_times(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in (("_DEADLINE", 0.3), ("_QUIET", 0.3), ("_FIRST_WAIT", 0.05), ("_LONGEST_WAIT", 0.2)):
        monkeypatch.setattr(redis_bus, name, seconds)


def with_two(server: RedisServer, body: Callable[[Receiver, Receiver], Awaitable[None]]) -> None:
    async def run() -> None:
        first, second = Receiver(server.url), Receiver(server.url)
        first.listen("first")
        second.listen("second")
        try:
            async with asyncio.timeout(20):
                await until(lambda: first.connected() and second.connected())
                await body(first, second)
        finally:
            await first.bus.aclose()
            await second.bus.aclose()

    asyncio.run(run())


def test_messages_arrive_in_order_at_their_worker_only(server: RedisServer) -> None:
    async def body(first: Receiver, second: Receiver) -> None:
        messages = [b"%d" % number for number in range(1000)]
        for message in messages:
            first.bus.send("second", message)
        await until(lambda: len(second.received) == 1000)
        assert second.received == messages
        assert not first.received
        assert not first.other.sent
        assert first.bus.most_bytes > 0

    with_two(server, body)


def test_messages_go_through_the_store_while_redis_is_away(
    server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    async def body(first: Receiver, second: Receiver) -> None:
        server.stop()
        await until(lambda: not first.bus.is_connected)
        first.bus.send("second", b"news")
        assert first.other.sent == [("second", b"news")]
        assert first.bus.most_bytes == 0
        first.bus.send("second", b"x" * 100_000)
        assert len(first.other.sent) == 1, "a bus that carries no events gets none"
        server.start()
        before = second.changes
        await until(lambda: first.bus.is_connected and second.bus.is_connected and second.changes > before)
        first.bus.send("second", b"again")
        await until(lambda: second.received == [b"again"])

    with caplog.at_level(logging.WARNING, "penstock.store"):
        with_two(server, body)
    assert "planted-password" not in caplog.text
    assert 1 <= caplog.text.count("cannot be reached") <= 4, "once for each direction of each worker"


def test_a_frozen_server_delays_nothing(server: RedisServer) -> None:
    async def body(first: Receiver, second: Receiver) -> None:
        server.freeze()
        try:
            first.bus.send("second", b"lost, or late")
            await until(lambda: not first.bus.is_connected)
            first.bus.send("second", b"news")
            assert first.other.sent == [("second", b"news")]
        finally:
            server.thaw()
        await until(lambda: first.bus.is_connected and second.bus.is_connected)
        first.bus.send("second", b"again")
        await until(lambda: b"again" in second.received)

    with_two(server, body)


def test_a_server_that_is_frozen_in_a_silence_is_noticed(server: RedisServer) -> None:
    async def body(first: Receiver, second: Receiver) -> None:
        await asyncio.sleep(3 * redis_bus._QUIET)
        assert first.changes == second.changes == 1, "it answers, so nothing was connected again"
        server.freeze()
        try:
            await until(lambda: not first.bus.is_connected)
        finally:
            server.thaw()
        await until(lambda: first.bus.is_connected)

    with_two(server, body)


def test_a_worker_starts_while_redis_is_away(server: RedisServer) -> None:
    async def run() -> None:
        server.stop()
        worker = Receiver(server.url)
        worker.listen("first")
        await until(lambda: not worker.bus.is_connected)
        worker.bus.send("second", b"news")
        assert worker.other.sent == [("second", b"news")]
        async with asyncio.timeout(5):
            await worker.bus.aclose()

    asyncio.run(run())


def test_a_wrong_address_is_refused_with_the_right_form() -> None:
    with pytest.raises(StoreError) as raised:
        RedisBus("http://user:planted-password@host/0", StoreBus())
    assert raised.value.code == StoreError.ADDRESS
    assert "redis://HOST:PORT" in raised.value.message
    assert "planted-password" not in raised.value.message


def test_without_the_library_the_error_has_the_command_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "redis.asyncio", None)
    with pytest.raises(StoreError) as raised:
        RedisBus("redis://user:planted-password@host/0", StoreBus())
    assert raised.value.code == StoreError.NOT_INSTALLED
    assert "penstock[redis]" in raised.value.message
    assert "planted-password" not in raised.value.message


def test_a_location_has_no_secrets() -> None:
    assert redis_location("rediss://user:planted-password@host:1/2") == "rediss://host:1/2"
    assert redis_location("redis://[planted-password") == "redis://"
