"""JSON lines for a client that may not read them."""

from __future__ import annotations

import asyncio

import pytest

from penstock.editor.lines import LineWriter
from penstock.gateway.errors import ClientDisconnected
from penstock.gateway.http.exchange import Exchange
from penstock.gateway.settings import Limits
from penstock.provider.host.requests import Id
from tests.gateway.fake_channels import FakeHttpChannel


class Client(FakeHttpChannel):
    """Records what is sent. It reads `room` pieces, and then nothing."""

    def __init__(self, room: int = 100) -> None:
        super().__init__(path="/v1/parts")
        self._room = room
        self.exchange = Exchange(self)

    def writer(self, id: Id | None = None, **limits: float) -> LineWriter:
        return LineWriter(self.exchange, id, Limits(**limits))  # type: ignore[arg-type]

    def write(self, data: bytes) -> None:
        super().write(data)
        self.is_writable = len(self.pieces) <= self._room


def test_the_answer_starts_with_the_first_line_and_ends_with_the_last() -> None:
    async def scenario() -> None:
        client = Client()
        writer = client.writer("r1")
        assert client.exchange.status == 0
        await writer.send({"type": "text", "value": "Hi."})
        await writer.end({"type": "done"})
        assert client.body == b'{"id":"r1","type":"text","value":"Hi."}\n{"id":"r1","type":"done"}\n'
        assert client.status == 200
        assert client.sent_headers["x-accel-buffering"] == "no"
        assert len(client.pieces) == 2
        assert client.is_ended

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
        client = Client(room=1)
        writer = client.writer("r1", client_timeout=0.01)
        await writer.send({"type": "part"})
        with pytest.raises(ClientDisconnected):
            await writer.send({"type": "part"})
        assert (len(client.pieces), client.aborts) == (2, 1)

    asyncio.run(scenario())
