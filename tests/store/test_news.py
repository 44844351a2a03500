"""Workers send each other news of turns: sooner than the store has it, and whatever the bus loses."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest

from penstock.store import news
from penstock.store.batch_writer import WriteLimits
from penstock.store.news import FollowedTurn, WorkerMessage
from penstock.store.records import LOCAL, LoggedEvent
from penstock.store.shared import SharedStore
from penstock.store.sqlite.shared import hold_file
from tests.store.builders import NO_DELAYS, closed, event, events, opened, read
from tests.store.workers import Network, NotingHost, open_on_network, until

LATE = WriteLimits(log_delay=3600)
"""Events are not written before the end of their turn."""

Body = Callable[[SharedStore, SharedStore, Network], Awaitable[None]]


def on_a_network(folder: Path, body: Body, bounds: WriteLimits = NO_DELAYS) -> None:
    async def run() -> None:
        lock, network = hold_file(folder / "store.db"), Network()
        first = await open_on_network(folder / "store.db", network, "first", bounds=bounds)
        second = await open_on_network(folder / "store.db", network, "second", bounds=bounds)
        try:
            async with asyncio.timeout(30):
                await body(first, second, network)
        finally:
            await first.aclose()
            await second.aclose()
            lock.release()

    asyncio.run(run())


def message(data: bytes) -> WorkerMessage:
    return msgspec.msgpack.decode(data, type=WorkerMessage)


def kinds(network: Network) -> list[str]:
    return [message(data).kind for data in network.sent]


class Follower:
    """Reads the log of a turn."""

    def __init__(self, store: SharedStore, id: str, after: int = -1) -> None:
        self.events: list[LoggedEvent] = []
        self.task = asyncio.create_task(self._read(store, id, after))

    async def _read(self, store: SharedStore, id: str, after: int) -> None:
        async for each in store.events(LOCAL, id, after):
            self.events.append(each)

    async def has(self, count: int) -> None:
        await until(lambda: len(self.events) >= count)


# What a follower knows


def test_events_continue_the_log_or_are_not_used() -> None:
    async def run() -> None:
        turn = FollowedTurn()
        assert turn.take(-1) == []
        turn.add(events(3, 6))
        assert turn.take(1) == [], "2 is missing"
        assert turn.take(2) == events(3, 6)
        assert turn.take(4) == events(5, 6)
        assert turn.take(5) == turn.take(9) == []

    asyncio.run(run())


def test_repeated_events_are_kept_once() -> None:
    async def run() -> None:
        turn = FollowedTurn()
        turn.add(events(3, 6))
        turn.add(events(4, 8))
        turn.add(events(3, 5))
        assert turn.take(2) == events(3, 8)

    asyncio.run(run())


def test_nothing_is_returned_across_a_gap() -> None:
    async def run() -> None:
        turn = FollowedTurn()
        turn.add(events(3, 6))
        turn.add(events(7, 9))
        assert turn.take(2) == [], "6 must be read from the store first"
        assert turn.take(6) == events(7, 9)

    asyncio.run(run())


@pytest.mark.parametrize(("size", "kept"), [(1, 1000), (100_000, 10)])
def test_a_follower_keeps_a_limited_number_of_events(size: int, kept: int) -> None:
    async def run() -> None:
        turn = FollowedTurn()
        turn.add([LoggedEvent(sequence, 0.0, b"x" * size) for sequence in range(1500)])
        assert turn.take(1499 - kept), "the latest are kept"
        assert not turn.take(1498 - kept)

    asyncio.run(run())


# Events over the bus


def test_events_arrive_before_they_are_stored(tmp_path: Path) -> None:
    async def body(first: SharedStore, second: SharedStore, _: Network) -> None:
        await first.open(opened("resp_1"), patience=30)
        first.log("resp_1", events(0, 3))
        follower = Follower(second, "resp_1")
        await follower.has(3)  # sent to whoever begins to follow
        first.log("resp_1", events(3, 6))
        first.log("resp_1", events(6, 7))
        await follower.has(7)
        assert await second._backend.events(LOCAL, "resp_1", -1) == [], "nothing is stored yet"
        first.log("resp_1", [event(7)])
        await first.close("resp_1", closed("resp_1"), patience=30)
        await follower.task
        assert follower.events == events(0, 8)

    on_a_network(tmp_path, body, LATE)


def test_many_followers_cost_as_many_messages_as_one(tmp_path: Path) -> None:
    async def body(first: SharedStore, second: SharedStore, network: Network) -> None:
        await first.open(opened("resp_1"), patience=30)
        followers = [Follower(second, "resp_1") for _ in range(10)]
        first.log("resp_1", events(0, 3))
        for follower in followers:
            await follower.has(3)
        assert kinds(network).count("watch") == 1
        await first.close("resp_1", closed("resp_1"), patience=30)
        for follower in followers:
            await follower.task
            assert follower.events == events(0, 3)
        assert kinds(network).count("unwatch") == 1

    on_a_network(tmp_path, body)


def test_lost_messages_are_replaced_by_the_store(tmp_path: Path) -> None:
    async def body(first: SharedStore, second: SharedStore, network: Network) -> None:
        def is_lost(data: bytes) -> bool:
            return any(each.sequence % 5 == 2 for each in message(data).events)

        network.is_lost = is_lost
        await first.open(opened("resp_1"), patience=30)
        follower = Follower(second, "resp_1")
        for sequence in range(30):
            first.log("resp_1", [event(sequence)])
            await asyncio.sleep(0.002)
        await first.close("resp_1", closed("resp_1"), patience=30)
        await follower.task
        assert follower.events == events(0, 30)

    on_a_network(tmp_path, body)


def test_a_bus_that_loses_everything_only_delays(tmp_path: Path) -> None:
    async def body(first: SharedStore, second: SharedStore, network: Network) -> None:
        network.is_lost = lambda _: True
        host = NotingHost()
        first.attach(host)
        await first.open(opened("resp_1"), patience=30)
        follower = Follower(second, "resp_1")
        first.log("resp_1", events(0, 3))
        await follower.has(3)
        assert await second.cancel(LOCAL, "resp_1")
        await until(lambda: "resp_1" in host.cancelled)
        await first.close("resp_1", closed("resp_1"), patience=30)
        await follower.task
        assert follower.events == events(0, 3)

    on_a_network(tmp_path, body)


def test_what_is_not_in_the_log_is_not_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(news, "_SEND_DELAY", 0)

    async def body(first: SharedStore, second: SharedStore, network: Network) -> None:
        await first.open(opened("resp_1"), patience=30)
        first.log("resp_1", events(0, 3))
        follower = Follower(second, "resp_1")
        await follower.has(3)
        ending = asyncio.create_task(first.close("resp_1", closed("resp_1"), patience=30))
        await asyncio.sleep(0)
        first.log("resp_1", [event(3, "too late")])
        await ending
        await follower.task
        assert follower.events == events(0, 3)
        assert not any(b"too late" in data for data in network.sent)

    on_a_network(tmp_path, body, LATE)


def test_a_message_is_not_larger_than_its_limit(tmp_path: Path) -> None:
    async def body(first: SharedStore, second: SharedStore, network: Network) -> None:
        large = LoggedEvent(1, 1.0, b"x" * (news._MOST_BYTES + 1))
        await first.open(opened("resp_1"), patience=30)
        follower = Follower(second, "resp_1")
        first.log("resp_1", [event(0)])
        await follower.has(1)
        first.log("resp_1", [large, event(2)])
        await first.close("resp_1", closed("resp_1"), patience=30)
        await follower.task
        assert follower.events == [event(0), large, event(2)]
        assert max(map(len, network.sent)) < news._MOST_BYTES

    on_a_network(tmp_path, body)


def test_events_of_an_earlier_owner_are_ignored(tmp_path: Path) -> None:
    async def body(first: SharedStore, second: SharedStore, network: Network) -> None:
        await first.open(opened("resp_1"), patience=30)
        follower = Follower(second, "resp_1")
        first.log("resp_1", events(0, 2))
        await follower.has(2)
        wrong = WorkerMessage("news", "a dead worker", LOCAL, "resp_1", [event(2, "wrong")])
        network.send("second", msgspec.msgpack.encode(wrong))
        await asyncio.sleep(0.01)
        first.log("resp_1", [event(2)])
        await first.close("resp_1", closed("resp_1"), patience=30)
        await follower.task
        assert follower.events == events(0, 3)

    on_a_network(tmp_path, body)


# Who gets news


def test_a_worker_that_does_not_follow_any_more_gets_no_news(tmp_path: Path) -> None:
    async def body(first: SharedStore, second: SharedStore, network: Network) -> None:
        host = NotingHost()
        first.attach(host)
        await first.open(opened("resp_1"), patience=30)
        follower = Follower(second, "resp_1")
        first.log("resp_1", [event(0)])
        await follower.has(1)
        assert host.follows == [("resp_1", True)]
        follower.task.cancel()
        await until(lambda: host.follows == [("resp_1", True), ("resp_1", False)])
        await first.settle("resp_1")
        network.sent.clear()
        first.log("resp_1", [event(1)])
        await first.close("resp_1", closed("resp_1"), patience=30)
        await asyncio.sleep(3 * news._SEND_DELAY)
        assert network.sent == []

    on_a_network(tmp_path, body)


def test_a_follower_that_does_not_ask_again_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(news, "WATCH_FOR", 0.1)

    async def body(first: SharedStore, second: SharedStore, network: Network) -> None:
        host = NotingHost()
        first.attach(host)
        await first.open(opened("resp_1"), patience=30)
        network.is_lost = lambda data: message(data).kind == "unwatch"
        follower = Follower(second, "resp_1")
        await until(lambda: host.follows == [("resp_1", True)])
        follower.task.cancel()
        await until(lambda: host.follows == [("resp_1", True), ("resp_1", False)])
        assert not first._news._watchers

    on_a_network(tmp_path, body)


def test_a_follower_hears_of_the_end_although_a_write_ran_when_the_turn_ended(tmp_path: Path) -> None:
    """The end is not written yet when the write before it is reported: its followers are still needed."""

    async def body(first: SharedStore, second: SharedStore, network: Network) -> None:
        await first.open(opened("resp_1"), patience=30)
        follower = Follower(second, "resp_1")
        first.log("resp_1", [event(0)])
        await follower.has(1)
        first.log("resp_1", [event(1)], soon=True)
        writing = first._writer._start()
        network.sent.clear()
        ending = asyncio.create_task(first.close("resp_1", closed("resp_1"), patience=30))
        await writing
        await ending
        announced = [each for each in map(message, network.sent) if each.kind == "news" and not each.events]
        assert len(announced) >= 2, "of the events, and of the end; more, if the follower asks again"
        await follower.task

    on_a_network(tmp_path, body)


# Messages


def test_a_turn_is_cancelled_over_the_bus(tmp_path: Path) -> None:
    async def body(first: SharedStore, second: SharedStore, network: Network) -> None:
        host = NotingHost()
        first.attach(host)
        await first.open(opened("resp_1"), patience=30)
        cancel = WorkerMessage("cancel", "second", LOCAL, "resp_1")
        network.send("first", msgspec.msgpack.encode(cancel))
        network.send("first", msgspec.msgpack.encode(msgspec.structs.replace(cancel, tenant="other")))
        network.send("first", msgspec.msgpack.encode(msgspec.structs.replace(cancel, id="resp_2")))
        await until(lambda: host.cancelled == ["resp_1"])
        assert await second.cancel(LOCAL, "resp_1")
        assert kinds(network)[-1] == "cancel"

    on_a_network(tmp_path, body)


def test_other_messages_are_ignored(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def body(first: SharedStore, second: SharedStore, network: Network) -> None:
        host = NotingHost()
        first.attach(host)
        await first.open(opened("resp_1"), patience=30)
        network.send("first", msgspec.msgpack.encode(["dance", "second", LOCAL, "resp_1"]))
        network.send("first", msgspec.msgpack.encode(["watch", "second", "another tenant", "resp_1"]))
        network.send("first", msgspec.msgpack.encode(["watch", "second", LOCAL, "resp_1", [], "a new field"]))
        for _ in range(3):
            network.send("first", b"secret words")
        await until(lambda: host.follows == [("resp_1", True)])
        await asyncio.sleep(0.01)
        assert len(first._news._watchers) == 1, "of its own tenant"
        assert await second.get(LOCAL, "resp_1") is not None

    with caplog.at_level(logging.WARNING, "penstock.store"):
        on_a_network(tmp_path, body)
    assert [record.message for record in caplog.records] == ["a message of another worker cannot be read"]
    assert "secret words" not in caplog.text


def test_a_host_or_a_bus_that_fails_stops_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class FailingHost(NotingHost):
        def followed(self, tenant: str, id: str, is_followed: bool) -> None:  # noqa: ARG002
            raise RuntimeError("the host has a bug")

    async def body(first: SharedStore, second: SharedStore, network: Network) -> None:
        def fail(_: bytes) -> bool:
            raise RuntimeError("the bus has a bug")

        first.attach(FailingHost())
        network.is_lost = fail
        await first.open(opened("resp_1"), patience=30)
        follower = Follower(second, "resp_1")
        first.log("resp_1", events(0, 3))
        await follower.has(3)
        network.is_lost = lambda _: False
        first._news._receive(msgspec.msgpack.encode(WorkerMessage("watch", "second", LOCAL, "resp_1")))
        await first.close("resp_1", closed("resp_1"), patience=30)
        await follower.task
        assert await read(second, "resp_1") == events(0, 3)
        assert await first.open(opened("resp_2"), patience=30), "the writer still works"

    on_a_network(tmp_path, body)
    assert "the host has a bug" in caplog.text
    assert "the bus has a bug" in caplog.text
