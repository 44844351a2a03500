"""JSON lines for a client that may not read them."""

from __future__ import annotations

import asyncio

import pytest

from penstock.editor.lines import LineWriter
from penstock.gateway.errors import ClientDisconnected
from penstock.gateway.http.exchange import Exchange, Message
from penstock.gateway.settings import Limits
from penstock.provider.host.requests import Id


class Client:
    """Records what is sent. It accepts `room` messages; then sending blocks."""

    def __init__(self, room: int = 100) -> None:
        self.sent: list[Message] = []
        self.changed = asyncio.Event()
        self._room = room
        scope = {"type": "http", "method": "POST", "path": "/v1/parts", "query_string": b"", "headers": []}
        self.exchange = Exchange(scope, self._receive, self._send)

    def writer(self, id: Id | None = None, **limits: float) -> LineWriter:
        return LineWriter(self.exchange, id, Limits(**limits))  # type: ignore[arg-type]

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent)

    async def _receive(self) -> Message:
        raise AssertionError("nothing is received in this test")

    async def _send(self, message: Message) -> None:
        self.sent.append(message)
        self.changed.set()
        if len(self.sent) > self._room:
            await asyncio.get_running_loop().create_future()


def test_the_answer_starts_with_the_first_line_and_ends_with_the_last() -> None:
    async def scenario() -> None:
        client = Client()
        writer = client.writer("r1")
        assert client.exchange.status == 0
        await writer.send({"type": "text", "value": "Hi."})
        await writer.end({"type": "done"})
        assert client.body == b'{"id":"r1","type":"text","value":"Hi."}\n{"id":"r1","type":"done"}\n'
        start, *bodies = client.sent
        assert (start["type"], start["status"]) == ("http.response.start", 200)
        assert (b"x-accel-buffering", b"no") in start["headers"]
        assert [message["more_body"] for message in bodies] == [True, False]

    asyncio.run(scenario())


def test_a_heartbeat_starts_the_answer_and_stops_with_the_context() -> None:
    async def scenario() -> None:
        client = Client()
        writer = client.writer(patience=0.0, comment_every=3600.0)
        async with writer.heartbeats():
            while not client.body:
                await client.changed.wait()
                client.changed.clear()
                await asyncio.sleep(0)
        assert (client.exchange.status, client.body) == (200, b"\n")
        assert not [task for task in asyncio.all_tasks() if task.get_name() == "penstock parts heartbeat"]

    asyncio.run(scenario())


def test_there_is_no_heartbeat_after_a_line_that_was_just_sent() -> None:
    async def scenario() -> None:
        client = Client()
        writer = client.writer(patience=0.0, comment_every=3600.0)
        await writer.send({"type": "text"})
        async with writer.heartbeats():
            for _ in range(5):
                await asyncio.sleep(0)
        assert client.body == b'{"type":"text"}\n'

    asyncio.run(scenario())


def test_a_client_that_reads_nothing_is_disconnected() -> None:
    async def scenario() -> None:
        client = Client(room=2)
        writer = client.writer("r1", client_timeout=0.01)
        await writer.send({"type": "part"})
        with pytest.raises(ClientDisconnected):
            await writer.send({"type": "part"})
        types = [message["type"] for message in client.sent]
        assert types == ["http.response.start", "http.response.body", "http.response.body"]

    asyncio.run(scenario())
