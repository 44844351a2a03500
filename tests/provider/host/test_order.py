"""What no process can be made to do on purpose: a host on an outbox that a test holds back."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from typing import Any

import pytest

from penstock.provider.host import host as hosts
from penstock.provider.host.host import EditorHost
from penstock.provider.host.outbox import Outbox
from tests.client.server import HELLO as EVENTS
from tests.client.server import Script, answer, chunk, run, send, sse, stall
from tests.gateway.upstream import SSE_HEAD, ScriptedUpstream
from tests.provider.host.hosts import Json, user

BEGUN: Script = [send(SSE_HEAD + chunk(sse(EVENTS[:5]))), stall]


class HeldOutbox(Outbox):
    """Parts wait for the test; all other lines have room at once."""

    def __init__(self) -> None:
        self.lines: list[Json] = []
        self.part_waits = asyncio.Event()
        self.go_on = asyncio.Event()
        self.is_woken = False

    has_room = True

    def put(self, line: bytes) -> None:
        self.lines.append(json.loads(line))

    async def wait_for_room(self, unless: Callable[[], bool] | None = None) -> None:
        if unless is not None:
            self.part_waits.set()
            await self.go_on.wait()

    def wake(self) -> None:
        self.is_woken = True

    def of(self, id: Any) -> list[str]:
        return [line["type"] for line in self.lines if line.get("id") == id]

    async def ended(self, id: Any) -> None:
        while "done" not in self.of(id):
            await asyncio.sleep(0)


def lines(*requests: Json) -> list[bytes | None]:
    return [json.dumps(each).encode() for each in requests]


def respond(id: str) -> Json:
    return {"id": id, "method": "respond", "model": "one", "messages": [user("Hello")]}


def test_a_part_that_waits_when_its_turn_is_cancelled_is_not_told() -> None:
    async def scenario() -> None:
        scripted = ScriptedUpstream()
        scripted.play("", [answer(200, {"data": [{"id": "one"}]})])
        scripted.play("one", BEGUN)
        async with scripted:
            out = HeldOutbox()
            host = EditorHost(out)
            await host.handle_lines(
                lines({"id": "c", "method": "configure", "endpoint": scripted.url}, respond("r"))
            )
            await out.part_waits.wait()
            await host.handle_lines(lines({"id": "x", "method": "cancel", "request": "r"}))
            await out.ended("x")
            assert out.of("r") == []
            assert out.is_woken
            out.go_on.set()
            await out.ended("r")
            assert out.of("r") == ["done"]
            await host.aclose()

    run(scenario())


def test_more_requests_than_may_run_wait_in_the_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts, "MAX_RUNNING", 2)

    async def scenario() -> None:
        scripted = ScriptedUpstream()
        scripted.play("", [answer(200, {"data": [{"id": "one"}]})])
        scripted.play("one", BEGUN)
        async with scripted:
            out = HeldOutbox()
            out.go_on.set()
            host = EditorHost(out)
            await host.handle_lines(lines({"id": "c", "method": "configure", "endpoint": scripted.url}))
            await out.ended("c")
            taking = asyncio.create_task(
                host.handle_lines(
                    lines(respond("a"), {"id": "u", "method": "usage"}, respond("b"), respond("d"))
                )
            )
            while "text" not in out.of("b"):
                await asyncio.sleep(0)
            assert not taking.done()
            host._cancel("a")
            await taking
            await host.aclose()
            assert [out.of(id)[-1] for id in ("a", "b", "d")] == ["done"] * 3

    run(scenario())


def test_whoever_waits_for_room_goes_on_when_it_is_there_or_not_needed_any_more() -> None:
    async def scenario() -> None:
        reading, writing = os.pipe()
        broken = asyncio.Event()
        out = Outbox(writing, broken.set, room=1)
        out.put(b"x" * 1024 * 1024)  # more than a pipe holds
        is_over: list[bool] = []
        leaving = asyncio.create_task(out.wait_for_room(lambda: bool(is_over)))
        staying = asyncio.create_task(out.wait_for_room())
        await asyncio.sleep(0)
        is_over.append(True)
        out.wake()
        await leaving
        assert not staying.done()
        read = await asyncio.to_thread(_read_exactly, reading, 1024 * 1024)
        await staying
        assert (read, out.has_room) == (1024 * 1024, True)
        os.close(reading)
        out.put(b"y" * 1024 * 1024)
        await broken.wait()
        os.close(writing)

    run(scenario())


def _read_exactly(descriptor: int, length: int) -> int:
    read = 0
    while read < length:
        read += len(os.read(descriptor, length - read))
    return read
