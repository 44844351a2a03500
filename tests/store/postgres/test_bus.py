"""Messages over LISTEN and NOTIFY."""

from __future__ import annotations

import asyncio

from penstock.store.postgres.address import address_of
from penstock.store.postgres.bus import NotifyBus
from penstock.store.postgres.connections import DatabasePool
from tests.store.postgres.databases import kill_backends, on_postgres, pool_of
from tests.store.workers import until


class _Listener:
    def __init__(self) -> None:
        self.messages: list[bytes] = []
        self.changes = 0

    def changed(self) -> None:
        self.changes += 1

    async def listen(self, bus: NotifyBus, worker: str) -> None:
        """Return when messages arrive."""
        bus.listen(worker, self.messages.append, self.changed)
        await until(lambda: self.changes > 0)


@on_postgres
async def test_a_message_reaches_its_worker_only(url: str) -> None:
    async with pool_of(url) as pool:
        buses = [NotifyBus(pool) for _ in range(3)]
        listeners = [_Listener() for _ in range(2)]
        for bus, listener, worker in zip(buses, listeners, ("one", "two"), strict=False):
            await listener.listen(bus, worker)
        buses[2].send("one", b"\x00\xff news")
        buses[2].send("two", b"end")
        await until(lambda: bool(listeners[0].messages and listeners[1].messages))
        assert [each.messages for each in listeners] == [[b"\x00\xff news"], [b"end"]]
        for bus in buses:
            await bus.aclose()


@on_postgres
async def test_the_same_message_is_sent_once_and_a_long_one_never(url: str) -> None:
    async with pool_of(url) as pool:
        bus, listener = NotifyBus(pool), _Listener()
        await listener.listen(bus, "one")
        for _ in range(100):
            bus.send("one", b"news")
        bus.send("one", b"x" * 8_000)
        bus.send("one", b"y" * 5_900)
        await until(lambda: b"y" * 5_900 in listener.messages)
        assert listener.messages == [b"news", b"y" * 5_900]
        await bus.aclose()


@on_postgres
async def test_a_listener_that_was_disconnected_hears_again_and_reports_it(url: str) -> None:
    async with pool_of(url) as pool:
        bus, listener = NotifyBus(pool), _Listener()
        await listener.listen(bus, "one")
        await kill_backends(url)
        await until(lambda: listener.changes == 2)
        bus.send("one", b"news")
        await until(lambda: listener.messages == [b"news"])
        await bus.aclose()


@on_postgres
async def test_sending_never_fails(url: str) -> None:
    pool = DatabasePool(address_of("postgresql://postgres@127.0.0.1:1/postgres"))
    bus = NotifyBus(pool)
    bus.listen("one", lambda _: None, lambda: None)
    bus.send("one", b"news")
    await until(lambda: bus._sending is None)
    await bus.aclose()
    bus.send("one", b"news")
    assert not bus._waiting
    await pool.aclose()
    assert url


@on_postgres
async def test_behind_a_pooler_only_a_direct_connection_listens(url: str) -> None:
    pooled = url + "?pooler=transaction"
    async with pool_of(pooled) as pool:
        bus = NotifyBus(pool)
        bus.listen("one", lambda _: None, lambda: None)
        assert bus._listening is None
        listener, other = _Listener(), NotifyBus(DatabasePool(address_of(pooled, url)))
        await listener.listen(other, "one")
        bus.send("one", b"news")
        await until(lambda: listener.messages == [b"news"])
        await asyncio.gather(bus.aclose(), other.aclose())
