"""WebSocket clients: one that checks every frame that it receives, and one without a network."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
from websockets.sync.client import connect
from websockets.sync.connection import Connection

from penstock.gateway.api.websocket import Socket
from penstock.gateway.app import GatewayApp
from penstock.gateway.gateway import Gateway
from penstock.gateway.http.exchange import SocketExchange
from penstock.gateway.settings import ClientKey, Settings
from penstock.protocol.events import TERMINAL
from penstock.store.memory import MemoryStore
from penstock.stream.checker import StreamChecker
from tests.gateway.fake_channels import FakeSocketChannel
from tests.gateway.null_fields import holes
from tests.gateway.running import (
    RELEASES,
    SECRET_PROMPT,
    Json,
    Running,
    releases_for,
    without_extensions,
)
from tests.protocol.schema import complaints, event_components


class Talk:
    """A client that checks every turn, as answers over HTTP are checked."""

    def __init__(self, socket: Connection) -> None:
        self.socket = socket

    def ask(self, model: str = "demo", input: Any = SECRET_PROMPT, **fields: Any) -> None:
        self.socket.send(json.dumps({"type": "response.create", "model": model, "input": input, **fields}))

    def events(self) -> list[Json]:
        """The frames of one turn: to its terminal event, or one envelope."""
        checker, events = StreamChecker(transport="websocket"), list[Json]()
        violations = []
        while not events or events[-1]["type"] not in (*TERMINAL, "error"):
            frame = self.socket.recv(15)
            assert isinstance(frame, str)
            violations += checker.feed_frame(None, frame)
            events.append(json.loads(frame))
        violations += checker.end()
        if events[0]["type"] == "error":
            assert len(events) == 1
            assert events[0]["status"] >= 400
            assert events[0]["error"]["code"]
            return events
        assert [str(each) for each in violations] == []
        assert holes(events) == []
        encoded = msgspec.json.encode(events)
        for event in events:
            component = event_components().get(event["type"]) if RELEASES else None
            known = event
            if "response" in event:
                known = {**event, "response": without_extensions(event["response"])}
            for release in releases_for(encoded) if component else ():
                assert complaints(release, str(component), known) == []
        return events

    def turn(self, model: str = "demo", input: Any = SECRET_PROMPT, **fields: Any) -> Json:
        """The last frame of a turn."""
        self.ask(model, input, **fields)
        return self.events()[-1]

    def response(self, model: str = "demo", input: Any = SECRET_PROMPT, **fields: Any) -> Json:
        response: Json = self.turn(model, input, **fields)["response"]
        assert response["status"] == "completed"
        return response

    def refused(self, model: str = "demo", input: Any = SECRET_PROMPT, **fields: Any) -> Json:
        envelope = self.turn(model, input, **fields)
        assert envelope["type"] == "error", envelope
        error: Json = envelope["error"]
        return error

    def is_usable(self) -> bool:
        return bool(self.response()["output"])


@contextmanager
def talking(running: Running, path: str = "/v1/responses", **options: Any) -> Iterator[Talk]:
    url = f"ws://{running.address.netloc}{path}"
    with connect(url, open_timeout=10, close_timeout=5, **options) as socket:
        yield Talk(socket)


class FakeClient:
    """The client's end of a WebSocket, without a network."""

    def __init__(self, token: str = "") -> None:
        bearer = {"authorization": f"Bearer {token}"} if token else {}
        self.channel = FakeSocketChannel(headers={"host": "127.0.0.1", **bearer})

    def exchange(self) -> SocketExchange:
        return SocketExchange(self.channel)

    @property
    def frames(self) -> list[Json]:
        """All frames that the client has received."""
        return [json.loads(each) for each in self.channel.sent]

    def ask(self) -> None:
        self.channel.said.put_nowait(json.dumps({"type": "response.create", "model": "demo", "input": "x"}))

    async def until(self, word: str) -> None:
        async with asyncio.timeout(10):
            while not any(word.encode() in frame for frame in self.channel.sent):
                await asyncio.sleep(0.001)


class Conversation:
    """A client on a WebSocket without a network."""

    def __init__(
        self, gateway: Gateway, key: ClientKey | None = None, token: str = "", **options: Any
    ) -> None:
        self.client = FakeClient(token)
        socket = Socket(gateway, self.client.exchange(), key, lambda: 0.0, **options)
        self.task = asyncio.create_task(socket.serve())
        self._read = 0

    def send(self, **fields: Any) -> None:
        frame = json.dumps({"type": "response.create", "model": "m", "input": "x", **fields})
        self.client.channel.said.put_nowait(frame)

    @property
    def frames(self) -> list[Json]:
        return self.client.frames

    async def ends(self, count: int) -> list[Json]:
        """All frames, as soon as this many turns have ended."""
        async with asyncio.timeout(10):
            while sum(each["type"] in (*TERMINAL, "error") for each in self.frames) < count:
                await asyncio.sleep(0.001)
        return self.frames

    async def turn(self, **fields: Any) -> list[Json]:
        """The frames of one turn."""
        self.send(**fields)
        frames: list[Json] = []
        async with asyncio.timeout(10):
            while not frames or frames[-1]["type"] not in (*TERMINAL, "error"):
                sent = self.client.channel.sent
                if len(sent) > self._read:
                    frames.append(json.loads(sent[self._read]))
                    self._read += 1
                else:
                    await asyncio.sleep(0)
        return frames

    async def close(self) -> None:
        self.client.channel.disconnect()
        await asyncio.wait_for(self.task, 10)


def upgrade(settings: Settings, path: str = "/v1/responses", **headers: str) -> tuple[int, str]:
    """The status of the answer, and the code in it; a socket that opens is 101."""

    async def ask() -> tuple[int, str]:
        gateway = Gateway(settings, store=MemoryStore())
        channel = FakeSocketChannel(path, {"host": "127.0.0.1", **headers})
        channel.disconnect()
        try:
            await GatewayApp(gateway).serve_socket(channel)
        finally:
            await gateway.aclose()
        if channel.refused is None:
            return 101, ""
        status, _, body = channel.refused
        return status, json.loads(body)["error"]["code"]

    return asyncio.run(ask())
