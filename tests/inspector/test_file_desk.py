"""Files: they do not hold up the views of turns, and only a few wait."""

from __future__ import annotations

import asyncio
import threading

import pytest

from penstock.fairness import HEAVY
from penstock.gateway.errors import RequestRefused
from penstock.gateway.http.exchange import Exchange
from penstock.inspector import check, file_desk
from penstock.inspector.answers import desk_of
from penstock.inspector.file_desk import MOST_FILES, MOST_FILES_OF_KEY, FileDesk, file_desk_of
from tests.gateway.fake_channels import FakeHttpChannel
from tests.inspector.sites import API, KEYS, Site, with_site

ANNA, BEN = KEYS[:2]


def test_a_view_does_not_wait_for_files() -> None:
    async def scenario(site: Site) -> None:
        loop, gate, begun = asyncio.get_running_loop(), threading.Event(), asyncio.Event()

        def read() -> str:
            loop.call_soon_threadsafe(begun.set)
            assert gate.wait(30)
            return threading.current_thread().name

        file, view = FakeHttpChannel("POST"), FakeHttpChannel("GET")
        reading = asyncio.create_task(file_desk_of(site.gateway).answer(Exchange(file), HEAVY, read))
        await begun.wait()
        await desk_of(site.gateway).answer(Exchange(view), HEAVY, lambda: "view")
        assert view.body == b'"view"'
        assert not reading.done()
        gate.set()
        await reading
        assert file.body.startswith(b'"penstock-files')

    with_site(scenario)


def test_a_key_cannot_take_all_the_room() -> None:
    desk = FileDesk()
    rooms = [desk.room(ANNA) for _ in range(MOST_FILES_OF_KEY)]
    for room in rooms:
        room.__enter__()
    with pytest.raises(RequestRefused) as refused, desk.room(ANNA):
        pytest.fail("there is no room")
    assert (refused.value.status, dict(refused.value.headers)["retry-after"]) == (503, "5")
    with desk.room(BEN):
        pass
    rooms[0].__exit__(None, None, None)
    with desk.room(ANNA):
        pass


def test_a_gateway_without_keys_has_room_for_a_few_files() -> None:
    desk = FileDesk()
    rooms = [desk.room(None) for _ in range(MOST_FILES)]
    for room in rooms:
        room.__enter__()
    with pytest.raises(RequestRefused), desk.room(None):
        pytest.fail("there is no room")
    with pytest.raises(RequestRefused), desk.room(BEN):
        pytest.fail("there is no room")


@pytest.mark.parametrize("path", ["check", "translate"])
def test_a_file_without_room_is_refused_before_it_is_read(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_desk, "MOST_FILES", 0)
    monkeypatch.setattr(check, "_read", lambda *_: pytest.fail("read"))

    async def scenario(site: Site) -> None:
        caller = await site.call(f"{API}/{path}", method="POST", data=b"data: {}\n\n")
        assert (caller.status, caller.headers["retry-after"]) == (503, "5")

    with_site(scenario)


def test_a_file_makes_room_when_it_has_been_read() -> None:
    async def scenario(site: Site) -> None:
        for _ in range(MOST_FILES + 1):
            assert (await site.call(f"{API}/check", method="POST", data=b"")).status == 200

    with_site(scenario)
