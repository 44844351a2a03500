"""Replaying a recorded turn from the page."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from penstock.errors import NetworkError
from penstock.inspector import replays
from penstock.replay.recording import Recording
from penstock.replay.runner import RecordedSource, Replayed, replay
from penstock.store.records import LoggedEvent
from tests.gateway.fake_upstreams import FakeUpstream, answer
from tests.gateway.scripts import text
from tests.gateway.upstream import frames
from tests.inspector.sites import API, Site, with_site


def test_a_recorded_turn_is_replayed() -> None:
    async def scenario(site: Site) -> None:
        for is_stream in (True, False):
            id = (await site.ask(model="m", stream=is_stream))["id"]
            turn = await site.get(f"turns/{id}")
            assert (turn["can_replay"], turn["why_no_replay"], turn["missing"]) == (True, "", [])
            caller = await site.call(f"{API}/turns/{id}/replay", method="POST")
            events = len(turn["events"]["sequence"])
            assert caller.json == {"same": True, "sentence": f"The same {events} events.", "differences": []}
        assert len((await site.call("/v1/turns")).json["data"]) == 2

    with_site(scenario, FakeUpstream("up", answer("Hello")), record=True)


def test_differences_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(site: Site) -> None:
        id = (await site.ask(model="m", stream=True))["id"]
        original = site.gateway.store.events_so_far

        async def other(tenant: str, response_id: str) -> list[LoggedEvent]:
            events = await original(tenant, response_id)
            return [replace(each, data=each.data.replace(b"Hello", b"Bye")) for each in events]

        monkeypatch.setattr(site.gateway.store, "events_so_far", other)
        found = (await site.call(f"{API}/turns/{id}/replay", method="POST")).json
        assert found["same"] is False
        assert {"recorded": "Bye", "now": "Hello"}.items() <= found["differences"][0].items()
        assert found["differences"][0]["what"].startswith("response.output_text.")

    with_site(scenario, FakeUpstream("up", answer("Hello")), record=True)


def test_a_cut_answer_is_replayed_as_it_was() -> None:
    upstream = FakeUpstream("up", [frames(*text("Hel"), done=False), NetworkError("cut", phase="body")])

    async def scenario(site: Site) -> None:
        id = (await site.ask(model="m", stream=True))["id"]
        caller = await site.call(f"{API}/turns/{id}/replay", method="POST")
        assert caller.json["same"] is True

    with_site(scenario, upstream, record=True)


def test_what_was_not_recorded_is_not_replayed() -> None:
    async def scenario(site: Site) -> None:
        id = (await site.ask(model="m"))["id"]
        turn = await site.get(f"turns/{id}")
        assert turn["can_replay"] is False
        assert "--record" in turn["why_no_replay"]
        caller = await site.call(f"{API}/turns/{id}/replay", method="POST")
        assert (caller.status, caller.error["code"]) == (409, "not_recorded")
        assert "--record" in caller.error["message"]

    with_site(scenario, FakeUpstream("up", answer("Hello")))


def test_an_incomplete_recording_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(site: Site) -> None:
        id = (await site.ask(model="m", stream=True))["id"]
        original = site.gateway.store.events_so_far

        async def gap(tenant: str, response_id: str) -> list[LoggedEvent]:
            return [each for each in await original(tenant, response_id) if each.sequence != 2]

        monkeypatch.setattr(site.gateway.store, "events_so_far", gap)
        caller = await site.call(f"{API}/turns/{id}/replay", method="POST")
        assert caller.status == 409
        assert "gaps" in caller.error["message"]

    with_site(scenario, FakeUpstream("up", answer("Hello")), record=True)


def test_a_replay_stops_when_its_client_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    reads = 0
    original = RecordedSource.read

    async def scenario(site: Site) -> None:
        id = (await site.ask(model="m", stream=True))["id"]
        loop, gone = asyncio.get_running_loop(), threading.Event()
        caller = site.calling(f"{API}/turns/{id}/replay", method="POST")

        def replay_and_leave(recording: Recording, is_wanted: Callable[[], bool]) -> Replayed:
            async def leave() -> None:
                caller.disconnect()
                while is_wanted():
                    await asyncio.sleep(0.001)
                gone.set()

            async def read(self: RecordedSource) -> bytes:
                nonlocal reads
                data = await original(self)
                reads += bool(data)
                if not gone.is_set():
                    asyncio.run_coroutine_threadsafe(leave(), loop)
                    assert gone.wait(30)
                return data

            monkeypatch.setattr(RecordedSource, "read", read)
            return replay(recording, is_wanted)

        monkeypatch.setattr(replays, "replay", replay_and_leave)
        await caller.task
        assert caller.body == b""

    steps = [*(frames(*text(letter), done=False) for letter in "abcdefgh"), *answer("i")]
    with_site(scenario, FakeUpstream("up", steps), record=True)
    assert reads == 1
