"""The live feed: who sees which turns, across workers, and slow viewers."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from penstock.errors import StoreError
from penstock.gateway.errors import RequestRefused
from penstock.gateway.gateway import Gateway
from penstock.gateway.http.exchange import Exchange
from penstock.gateway.settings import ClientKey, Limits
from penstock.inspector import feed as feed_module
from penstock.inspector import ledger_watch
from penstock.inspector.feed import MOST_WAITING, Feed, Viewer
from penstock.sse import Decoder
from tests.gateway.fake_channels import FakeHttpChannel
from tests.gateway.fake_upstreams import FakeUpstream, answer, paused_upstream
from tests.gateway.in_process import call
from tests.gateway.two_workers import Worker, with_two_workers
from tests.inspector.sites import KEYS, TOKENS, Site, with_site

FAST = 0.01
"""Seconds between two readings."""


class Watcher:
    """A client of the feed."""

    def __init__(self, feed: Feed, gateway: Gateway, *, who: str = "", query: str = "") -> None:
        headers = {"authorization": f"Bearer {TOKENS[who]}"} if who else {}
        self.channel = FakeHttpChannel("GET", "/inspector/api/feed", query, headers)
        exchange = Exchange(self.channel)
        self.task = asyncio.create_task(feed.follow(gateway, exchange, key_of(who)))

    @property
    def events(self) -> list[tuple[str, Any]]:
        return [(frame.event or "", json.loads(frame.data)) for frame in Decoder().feed(self.channel.body)]

    @property
    def turns(self) -> list[tuple[str, str]]:
        return [(data["id"], data["outcome"]) for event, data in self.events if event == "turn"]

    async def sees(self, condition: Any) -> None:
        async with asyncio.timeout(10):
            while not condition():
                assert not self.task.done(), self.task
                await asyncio.sleep(FAST)

    async def leave(self) -> None:
        self.channel.disconnect()
        await self.task


def readers() -> list[asyncio.Task[Any]]:
    """Return the tasks that read the ledger."""
    return [task for task in asyncio.all_tasks() if task.get_name() == "penstock inspector feed"]


def key_of(who: str) -> ClientKey | None:
    return next((key for key in KEYS if key.name == who), None)


@pytest.fixture
def feed() -> Feed:
    return Feed(FAST)


def test_a_viewer_sees_turns_start_and_end(feed: Feed) -> None:
    upstream, gate = paused_upstream()

    async def scenario(site: Site) -> None:
        before = await site.ask(model="demo")
        watcher = Watcher(feed, site.gateway)
        await watcher.sees(lambda: watcher.events)
        assert watcher.events[0][0] == "hello"
        assert watcher.events[0][1]["now"] > 1e9
        caller = site.calling("/v1/responses", method="POST", model="m", input="Hi", stream=True)
        await caller.received(b'"delta":"a"')
        await watcher.sees(lambda: watcher.turns)
        gate.set()
        await caller.task
        await watcher.sees(lambda: len(watcher.turns) > 1)
        assert watcher.turns == [(caller.id, "running"), (caller.id, "completed")]
        assert before["id"] not in str(watcher.events)
        assert watcher.channel.sent_headers["x-content-type-options"] == "nosniff"
        assert watcher.channel.sent_headers["cross-origin-resource-policy"] == "same-origin"
        assert watcher.channel.sent_headers["cache-control"] == "no-cache, no-transform"
        assert watcher.channel.sent_headers["content-type"] == "text/event-stream"
        await watcher.leave()

    with_site(scenario, upstream)


def test_nothing_is_read_while_nobody_watches(feed: Feed) -> None:
    async def scenario(site: Site) -> None:
        store, readings = site.gateway.store, 0
        original = store.turns

        async def counted(*args: Any, **options: Any) -> Any:
            nonlocal readings
            readings += 1
            return await original(*args, **options)

        store.turns = counted  # type: ignore[method-assign]
        watchers = [Watcher(feed, site.gateway) for _ in range(3)]
        for watcher in watchers:
            await watcher.sees(lambda: watcher.events)  # noqa: B023
        assert (
            len([task for task in asyncio.all_tasks() if task.get_name() == "penstock inspector feed"]) == 1
        )
        for watcher in watchers:
            await watcher.leave()
        await asyncio.sleep(0)
        count = readings
        await asyncio.sleep(FAST * 5)
        assert readings == count
        assert readers() == []

    with_site(scenario)


def test_keys_see_their_own_turns_and_an_administrator_all(feed: Feed) -> None:
    async def scenario(site: Site) -> None:
        watchers = {who: Watcher(feed, site.gateway, who=who) for who in ("anna", "ben", "root")}
        for watcher in watchers.values():
            await watcher.sees(lambda: watcher.events)  # noqa: B023
        ids = {who: (await site.ask(who=who))["id"] for who in ("anna", "ben")}
        root = watchers["root"]
        await root.sees(lambda: {id for id, _ in root.turns} == {*ids.values()})
        for who, id in ids.items():
            watcher = watchers[who]
            await watcher.sees(lambda: watcher.turns)  # noqa: B023
            assert {seen for seen, _ in watcher.turns} == {id}
        for watcher in watchers.values():
            await watcher.leave()

    with_site(scenario, keys=True)


def test_a_viewer_that_comes_back_misses_nothing(feed: Feed) -> None:
    async def scenario(site: Site) -> None:
        first, second = [(await site.ask())["id"] for _ in range(2)]
        page = await site.call("/v1/turns")
        since = page.json["data"][1]["started_at"]
        watcher = Watcher(feed, site.gateway, query=f"since={since!r}")
        await watcher.sees(lambda: len(watcher.turns) == 2)
        assert watcher.turns == [(first, "completed"), (second, "completed")]
        await watcher.leave()

    with_site(scenario)


@pytest.mark.parametrize("since", ["x", "-1", "nan", "1e99"])
def test_a_wrong_time_is_refused(since: str) -> None:
    async def scenario(site: Site) -> None:
        assert (await site.get(f"feed?since={since}", status=400))["error"]["param"] == "since"

    with_site(scenario)


def test_an_outage_of_the_store_is_survived(feed: Feed, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(site: Site) -> None:
        watcher = Watcher(feed, site.gateway)
        await watcher.sees(lambda: watcher.events)
        failures = 0

        async def fail(*_: object, **__: object) -> None:
            nonlocal failures
            failures += 1
            raise StoreError(StoreError.DUPLICATE, "the database is down")

        with monkeypatch.context() as outage:
            outage.setattr(site.gateway.store, "turns", fail)
            await watcher.sees(lambda: failures > 2)
        id = (await site.ask())["id"]
        await watcher.sees(lambda: watcher.turns[-1:] == [(id, "completed")])
        await watcher.leave()

    with_site(scenario)


def test_an_error_of_a_reading_is_survived_and_logged_once(
    feed: Feed, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(site: Site) -> None:
        watcher = Watcher(feed, site.gateway)
        await watcher.sees(lambda: watcher.events)
        failures = 0

        async def fail(*_: object, **__: object) -> None:
            nonlocal failures
            failures += 1
            raise TypeError("planted")

        with monkeypatch.context() as broken:
            broken.setattr(site.gateway.store, "turns", fail)
            await watcher.sees(lambda: failures > 2)
            other = Watcher(feed, site.gateway)
            await other.sees(lambda: other.events)
        id = (await site.ask())["id"]
        await watcher.sees(lambda: watcher.turns[-1:] == [(id, "completed")])
        await watcher.leave()
        await other.leave()
        assert readers() == []

    with_site(scenario)
    assert [each.getMessage() for each in caplog.records if "feed" in each.getMessage()] == [
        "the live feed cannot read the ledger: TypeError"
    ]


def test_a_viewer_that_cannot_be_served_is_not_counted(feed: Feed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_module, "MOST_VIEWERS", 1)

    async def scenario(site: Site) -> None:
        async def fail(*_: object, **__: object) -> None:
            raise TypeError("planted")

        with monkeypatch.context() as broken:
            broken.setattr(site.gateway.store, "turns", fail)
            failed = Watcher(feed, site.gateway, query="since=1")
            with pytest.raises(TypeError):
                await failed.task
        watcher = Watcher(feed, site.gateway)
        await watcher.sees(lambda: watcher.events)
        await watcher.leave()

    with_site(scenario)


def test_viewers_are_ended_if_their_task_ends(feed: Feed) -> None:
    async def scenario(site: Site) -> None:
        watcher = Watcher(feed, site.gateway)
        await watcher.sees(lambda: watcher.events)
        (reader,) = readers()
        reader.cancel()
        async with asyncio.timeout(10):
            await watcher.task
        assert watcher.channel.is_ended
        after = Watcher(feed, site.gateway)
        await after.sees(lambda: after.events)
        id = (await site.ask())["id"]
        await after.sees(lambda: (id, "completed") in after.turns)
        await after.leave()

    with_site(scenario)


def test_one_key_cannot_keep_the_others_out(feed: Feed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_module, "MOST_VIEWERS_OF_KEY", 1)

    async def scenario(site: Site) -> None:
        watchers = [Watcher(feed, site.gateway, who=who) for who in ("anna", "ben", "root")]
        for watcher in watchers:
            await watcher.sees(lambda: watcher.events)  # noqa: B023
        with pytest.raises(RequestRefused, match="of this key"):
            await Watcher(feed, site.gateway, who="anna").task
        for watcher in watchers:
            await watcher.leave()

    with_site(scenario, keys=True)


def test_more_turns_than_can_be_followed_are_a_reload(feed: Feed, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(site: Site) -> None:
        watcher = Watcher(feed, site.gateway)
        await watcher.sees(lambda: watcher.events)
        monkeypatch.setattr(ledger_watch, "MOST", 1)
        monkeypatch.setattr(ledger_watch, "_PAGE", 1)
        for _ in range(3):
            await site.ask()
        await watcher.sees(lambda: "reload" in [event for event, _ in watcher.events])
        await watcher.leave()

    with_site(scenario)


def test_too_much_history_is_a_reload(feed: Feed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_module, "MOST_WAITING", 1)

    async def scenario(site: Site) -> None:
        for _ in range(2):
            await site.ask()
        watcher = Watcher(feed, site.gateway, query="since=1")
        await watcher.sees(lambda: len(watcher.events) > 1)
        assert [event for event, _ in watcher.events] == ["hello", "reload"]
        await watcher.leave()

    with_site(scenario)


def test_a_slow_viewer_gets_a_reload_instead_of_everything() -> None:
    async def scenario() -> None:
        viewer = Viewer(None, lambda: True)
        for number in range(MOST_WAITING + 1):
            viewer.add("anna", b"event: turn\ndata: %d\n\n" % number)
        assert viewer.take() == b"event: reload\ndata: {}\n\n"
        viewer.add("anna", b"next")
        assert viewer.take() == b"next"

    asyncio.run(scenario())


def test_a_viewer_that_reads_nothing_is_disconnected(feed: Feed) -> None:
    async def scenario(site: Site) -> None:
        services = site.gateway.services
        usual = services.settings
        services.settings = replace(usual, limits=Limits(client_timeout=0.05))
        watcher = Watcher(feed, site.gateway)
        await watcher.sees(lambda: watcher.events)
        watcher.channel.is_writable = False
        services.settings = usual  # the client of the turn has more time
        await site.ask()
        async with asyncio.timeout(10):
            await watcher.task
        assert watcher.channel.aborts == 1

    with_site(scenario)


def test_a_viewer_whose_key_is_removed_sees_no_more(feed: Feed) -> None:
    async def scenario(site: Site) -> None:
        anna, ben = (Watcher(feed, site.gateway, who=who) for who in ("anna", "ben"))
        for watcher in (anna, ben):
            await watcher.sees(lambda: watcher.events)  # noqa: B023
        services = site.gateway.services
        services.settings = replace(services.settings, keys=KEYS[1:])
        async with asyncio.timeout(10):
            await anna.task
        assert anna.channel.is_ended
        assert not ben.task.done()
        await ben.leave()

    with_site(scenario, keys=True)


def test_the_feed_ends_when_the_gateway_shuts_down(feed: Feed) -> None:
    async def scenario(site: Site) -> None:
        watcher = Watcher(feed, site.gateway)
        await watcher.sees(lambda: watcher.events)
        site.gateway.is_draining = True
        async with asyncio.timeout(10):
            await watcher.task
        assert watcher.channel.is_ended

    with_site(scenario)


def test_the_number_of_viewers_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_module, "MOST_VIEWERS", 0)

    async def scenario(site: Site) -> None:
        assert (await site.get("feed", status=503))["error"]["code"] == "server_is_overloaded"

    with_site(scenario)


def test_a_head_request_ends_at_once() -> None:
    async def scenario(site: Site) -> None:
        caller = await site.call("/inspector/api/feed", method="HEAD")
        assert (caller.status, caller.body) == (200, b"")

    with_site(scenario)


def test_turns_of_another_worker_are_seen(tmp_path: Path, feed: Feed) -> None:
    async def scenario(one: Worker, other: Worker) -> None:
        watcher = Watcher(feed, one.gateway)
        await watcher.sees(lambda: watcher.events)
        caller = await call(other.gateway, model="m", input="Hi")
        id = caller.json["id"]
        await watcher.sees(lambda: (id, "completed") in watcher.turns)
        await watcher.leave()

    with_two_workers(tmp_path, scenario, FakeUpstream("up", answer("Hello")))
