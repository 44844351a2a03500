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
from penstock.gateway.http.exchange import Exchange, Message
from penstock.gateway.settings import Settings
from penstock.protocol.events import TERMINAL
from penstock.store.memory import MemoryStore
from penstock.stream.checker import StreamChecker
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


# Access


class FakeClient:
    """The client's end of an exchange, without a network."""

    def __init__(self) -> None:
        self.sent: list[Message] = []
        self.said: asyncio.Queue[Message] = asyncio.Queue()

    async def send(self, message: Message) -> None:
        self.sent.append(message)

    def scope(self, path: str = "/v1/responses", **headers: str) -> Message:
        given = {"host": "127.0.0.1", **headers}
        return {
            "type": "websocket",
            "path": path,
            "query_string": b"",
            "headers": [(name.encode(), value.encode()) for name, value in given.items()],
            "extensions": {"websocket.http.response": {}},
        }

    def exchange(self) -> Exchange:
        return Exchange({"method": "GET", **self.scope()}, self.said.get, self.send)

    async def upgrade(self, gateway: Gateway, path: str = "/v1/responses", **headers: str) -> tuple[Any, str]:
        """The status of the answer, and the code in it; a socket that opens is 101."""
        self.said.put_nowait({"type": "websocket.connect"})
        for _ in range(2):  # a refusal waits for the end of the connection
            self.said.put_nowait({"type": "websocket.disconnect"})
        await GatewayApp(gateway)(self.scope(path, **headers), self.said.get, self.send)
        first, *more = self.sent
        if first["type"] == "websocket.accept":
            return 101, ""
        return first["status"], json.loads(more[0]["body"])["error"]["code"]

    def ask(self) -> None:
        frame = json.dumps({"type": "response.create", "model": "demo", "input": "x"})
        self.said.put_nowait({"type": "websocket.receive", "text": frame})

    async def until(self, word: str) -> None:
        async with asyncio.timeout(10):
            while not any(word in str(message) for message in self.sent):
                await asyncio.sleep(0.001)


class Conversation:
    """A client on a WebSocket without a network."""

    def __init__(self, gateway: Gateway, **options: Any) -> None:
        self.client = FakeClient()
        socket = Socket(gateway, self.client.exchange(), None, lambda: 0.0, **options)
        self.task = asyncio.create_task(socket.serve())
        self._read = 0

    def send(self, **fields: Any) -> None:
        frame = json.dumps({"type": "response.create", "model": "m", "input": "x", **fields})
        self.client.said.put_nowait({"type": "websocket.receive", "text": frame})

    @property
    def frames(self) -> list[Json]:
        """All frames that the client has received."""
        return [json.loads(each["text"]) for each in self.client.sent if each["type"] == "websocket.send"]

    async def ends(self, count: int) -> list[Json]:
        """All frames, as soon as this many turns have ended."""
        async with asyncio.timeout(10):
            while sum(each["type"] in (*TERMINAL, "error") for each in self.frames) < count:
                await asyncio.sleep(0)
        return self.frames

    async def turn(self, **fields: Any) -> list[Json]:
        """The frames of one turn."""
        self.send(**fields)
        frames: list[Json] = []
        async with asyncio.timeout(10):
            while not frames or frames[-1]["type"] not in (*TERMINAL, "error"):
                sent = [each for each in self.client.sent if each["type"] == "websocket.send"]
                if len(sent) > self._read:
                    frames.append(json.loads(sent[self._read]["text"]))
                    self._read += 1
                else:
                    await asyncio.sleep(0)
        return frames

    async def close(self) -> None:
        self.client.said.put_nowait({"type": "websocket.disconnect"})
        await asyncio.wait_for(self.task, 10)


def upgrade(settings: Settings, path: str = "/v1/responses", **headers: str) -> tuple[Any, str]:
    async def ask() -> tuple[Any, str]:
        gateway = Gateway(settings, store=MemoryStore())
        try:
            return await FakeClient().upgrade(gateway, path, **headers)
        finally:
            await gateway.aclose()

    return asyncio.run(ask())
