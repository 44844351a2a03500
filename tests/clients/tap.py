"""A recording proxy between a client and the gateway: every stream that the gateway sends is kept."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from aiohttp import ClientSession, WSMsgType, web

from penstock.protocol.events import TERMINAL
from penstock.sse import Decoder
from penstock.stream.checker import StreamChecker

Json = dict[str, Any]

PER_HOP = {"connection", "host", "keep-alive", "transfer-encoding", "upgrade", "content-length"}
"""Headers of one connection, and those that aiohttp sets itself."""

WEBSOCKET = "sec-websocket-"


@dataclass
class Exchanged:
    """One request and the gateway's answer."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    request: bytes
    status: int = 0
    content_type: str = ""
    answer_headers: dict[str, str] = field(default_factory=dict)
    answer: bytes = b""
    is_whole: bool = False
    messages: list[Json] = field(default_factory=list)
    """The messages of a WebSocket, from the gateway."""
    requests: list[Json] = field(default_factory=list)
    """The messages of a WebSocket, from the client."""

    @property
    def json(self) -> Any:
        return json.loads(self.request)

    @property
    def is_stream(self) -> bool:
        return self.content_type == "text/event-stream"

    @property
    def is_websocket(self) -> bool:
        return self.status == 101

    @property
    def events(self) -> list[Json]:
        if self.is_websocket:
            return self.messages
        if not self.is_stream:
            return []
        decoder = Decoder()
        frames = decoder.feed(self.answer) + decoder.end()
        return [json.loads(frame.data) for frame in frames if frame.data != "[DONE]"]

    def violations(self, accent: str) -> list[str]:
        """Return the rules that this answer breaks. A stream that the client left early may lack its end, and
        one that was resumed in the middle may lack its beginning."""
        if self.is_websocket:
            return _websocket_violations(self.messages, accent)
        if not self.is_stream or "starting_after" in self.query:
            return []
        decoder = Decoder()
        frames = decoder.feed(self.answer) + (decoder.end() if self.is_whole else [])
        checker = StreamChecker(accent=accent)
        found = [each for frame in frames for each in checker.feed_frame(frame.event, frame.data)]
        return [str(each) for each in (*found, *(checker.end() if self.is_whole else ()))]


def _websocket_violations(messages: list[Json], accent: str) -> list[str]:
    """Check every turn of a WebSocket as a stream of its own."""
    found: list[str] = []
    checker = StreamChecker(accent=accent, transport="websocket")
    for message in messages:
        found += [str(each) for each in checker.feed(message)]
        if message["type"] in TERMINAL or message["type"] == "error":
            found += [str(each) for each in checker.end()]
            checker = StreamChecker(accent=accent, transport="websocket")
    return found


class Tap:
    """The proxy. `exchanges` has everything since the last `clear`."""

    def __init__(self, gateway: str) -> None:
        self._gateway = gateway
        self.exchanges: list[Exchanged] = []
        self.url = ""

    def clear(self) -> None:
        self.exchanges = []

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if request.headers.get("upgrade", "").lower() == "websocket":
            return await self._relay_websocket(request)
        exchanged = self._begin(request, await request.read())
        async with (
            ClientSession(auto_decompress=False, timeout=aiohttp.ClientTimeout(total=None)) as session,
            session.request(
                request.method,
                f"{self._gateway}{request.rel_url}",
                data=exchanged.request or None,
                headers=_forwarded(request.headers),
                skip_auto_headers=("user-agent", "accept", "accept-encoding", "content-type"),
            ) as answer,
        ):
            exchanged.status, exchanged.content_type = answer.status, answer.content_type
            exchanged.answer_headers = {name.lower(): value for name, value in answer.headers.items()}
            sent = web.StreamResponse(status=answer.status, headers=_forwarded(answer.headers))
            await sent.prepare(request)
            async for data in answer.content.iter_any():
                exchanged.answer += data
                await sent.write(data)
            exchanged.is_whole = True
            await sent.write_eof()
            return sent

    def _begin(self, request: web.Request, body: bytes = b"") -> Exchanged:
        headers = {name.lower(): value for name, value in request.headers.items()}
        exchanged = Exchanged(request.method, request.path, request.query_string, headers, body)
        self.exchanges.append(exchanged)
        return exchanged

    async def _relay_websocket(self, request: web.Request) -> web.StreamResponse:
        exchanged = self._begin(request)
        headers = {
            name: value for name, value in _forwarded(request.headers).items() if not _is_websocket(name)
        }
        url = f"{self._gateway}{request.rel_url}"
        async with ClientSession() as session:
            try:
                gateway = await session.ws_connect(url, headers=headers, max_msg_size=0)
            except aiohttp.WSServerHandshakeError as refused:
                exchanged.status = refused.status
                return web.Response(status=refused.status)
            exchanged.status = 101
            client = web.WebSocketResponse(max_msg_size=0)
            await client.prepare(request)
            both = [
                asyncio.ensure_future(_relay(client, gateway, exchanged.requests)),
                asyncio.ensure_future(_relay(gateway, client, exchanged.messages)),
            ]
            try:
                await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in both:
                    task.cancel()
                await asyncio.gather(*both, return_exceptions=True)
                await gateway.close()
                await client.close()
        return client


async def _relay(source: Any, sink: Any, kept: list[Json]) -> None:
    async for message in source:
        if message.type is WSMsgType.TEXT:
            kept.append(json.loads(message.data))
            with suppress(ConnectionError):
                await sink.send_str(message.data)
        elif message.type is WSMsgType.BINARY:
            await sink.send_bytes(message.data)


def _forwarded(headers: Any) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in PER_HOP}


def _is_websocket(name: str) -> bool:
    return name.lower().startswith(WEBSOCKET)


@contextmanager
def tap(gateway: str) -> Iterator[Tap]:
    """Serve a tap in a thread of its own."""
    made = Tap(gateway)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def start() -> web.AppRunner:
        application = web.Application(client_max_size=2**26)
        application.router.add_route("*", "/{path:.*}", made.handle)
        # A client that leaves cancels its handler, which closes the connection to the gateway.
        runner = web.AppRunner(application, handler_cancellation=True, access_log=None, shutdown_timeout=1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        made.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        return runner

    runner = asyncio.run_coroutine_threadsafe(start(), loop).result(10)
    try:
        yield made
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
