"""The gateway behind any ASGI server: channels on top of ASGI messages.

ASGI sends with coroutines, and the gateway sends without waiting. So each channel has a buffer and one task
that sends from it. An ASGI server does not tell how much its client has read: a channel is writable while its
buffer has room.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from penstock.net.server.channels import ChannelClosed, ChannelHandler, Headers

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

ROOM = 64 * 1024
"""Bytes that may wait for the server before a channel is no longer writable."""
_CANCELLED_PATIENCE = 5.0
"""Seconds that a cancelled application waits until its client has read what it has written."""


async def serve_asgi(handler: ChannelHandler, scope: Message, receive: Receive, send: Send) -> None:
    """Serve one request or one WebSocket."""
    if scope["type"] == "http":
        channel = AsgiHttpChannel(scope, receive, send)
        await _served(channel, handler.serve_http(channel))
    elif scope["type"] == "websocket":
        await receive()  # websocket.connect
        socket = AsgiSocketChannel(scope, receive, send)
        await _served(socket, handler.serve_socket(socket))


async def _served(channel: AsgiChannel, serving: Awaitable[None]) -> None:
    try:
        await serving
    except BaseException:  # cancelled, or a bug: the server closes the connection
        await channel.release(_CANCELLED_PATIENCE)
        raise
    await channel.release()


class AsgiChannel(ABC):
    """What requests and WebSockets have in common."""

    def __init__(self, scope: Message, receive: Receive, send: Send) -> None:
        self.method: str = scope.get("method", "GET")
        self.path: str = scope["path"]
        self.query: str = scope["query_string"].decode("latin-1")
        self.headers = _joined(scope["headers"])
        self.server_port: int = (scope.get("server") or ("", 0))[1] or 0
        self.is_connected = True
        self._receive, self._send = receive, send
        self._messages: deque[tuple[Message, int]] = deque()
        """What is not sent yet, with its size."""
        self._size = 0
        self._sender: asyncio.Task[None] | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._on_disconnect: Callable[[], None] | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._aborted = asyncio.Event()

    @property
    def is_writable(self) -> bool:
        return self._writable.is_set()

    @property
    def unsent(self) -> int:
        return self._size

    async def drain(self) -> None:
        await self._writable.wait()

    def on_disconnect(self, callback: Callable[[], None] | None) -> None:
        self._on_disconnect = callback
        if callback is None:
            return
        if not self.is_connected:
            asyncio.get_running_loop().call_soon(callback)
        else:
            self._watch()

    def abort(self) -> None:
        """Send nothing more. Most servers close the connection when the application returns."""
        self._aborted.set()
        self._disconnected()

    async def release(self, patience: float | None = None) -> None:
        """Send what is buffered, for at most `patience` seconds, and end the tasks of this channel. An
        application that is cancelled may have written its last words, which are sent all the same; perhaps it
        is cancelled repeatedly."""
        self._on_disconnect = None
        loop, is_cancelled = asyncio.get_running_loop(), False
        until = None if patience is None else loop.time() + patience
        while self._messages and self.is_connected:
            try:
                timeout = None if until is None else max(until - loop.time(), 0.0)
                if not (await asyncio.wait([self._start()], timeout=timeout))[0]:
                    break
            except asyncio.CancelledError:
                is_cancelled, until = True, until or loop.time() + _CANCELLED_PATIENCE
        tasks = [task for task in (self._sender, self._watcher) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if is_cancelled:
            raise asyncio.CancelledError

    def _queue(self, message: Message, size: int) -> None:
        if not self.is_connected:
            return
        self._messages.append((message, size))
        self._size += size
        if self._size >= ROOM:
            self._writable.clear()
        self._start()

    def _start(self) -> asyncio.Task[None]:
        if self._sender is None or self._sender.done():
            self._sender = asyncio.create_task(self._send_all())
        return self._sender

    async def _send_all(self) -> None:
        """Send what is buffered. If the server raises, its client has disconnected."""
        try:
            while self._messages and self.is_connected:
                message, size = self._messages[0]
                await self._send(message)
                if self._messages:  # not aborted in the meantime
                    self._messages.popleft()
                    self._size -= size
                if self._size < ROOM:
                    self._writable.set()
        except Exception:
            self._disconnected()

    @abstractmethod
    def _watch(self) -> None:
        """See to it that a disconnect is noticed."""

    def _disconnected(self) -> None:
        if self.is_connected:
            self.is_connected = False
            self._messages.clear()
            self._size = 0
            self._writable.set()
            if self._on_disconnect is not None:
                self._on_disconnect()


class AsgiHttpChannel(AsgiChannel):
    """One request and its response."""

    def __init__(self, scope: Message, receive: Receive, send: Send) -> None:
        super().__init__(scope, receive, send)
        self._has_body = True
        """Whether the body of the request is not read completely."""
        self._head: Message | None = None

    async def receive(self) -> bytes:
        while self._has_body:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                self._disconnected()
                raise ChannelClosed
            self._has_body = bool(message.get("more_body", False))
            if data := message.get("body", b""):
                return bytes(data)
        return b""

    def begin(self, status: int, headers: Headers) -> None:
        encoded = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        self._head = {"type": "http.response.start", "status": status, "headers": encoded}

    def write(self, data: bytes) -> None:
        self._body(data, more=True)

    def end(self, data: bytes = b"") -> None:
        self._body(data, more=False)
        self._on_disconnect = None

    def close(self) -> None:
        """Do nothing: ASGI has no message for that, and the server may keep the connection."""

    def _body(self, data: bytes, *, more: bool) -> None:
        if self._head is not None:
            head, self._head = self._head, None
            self._queue(head, 0)
        pieces = [data[at : at + ROOM] for at in range(0, len(data), ROOM)] or [b""]
        for piece in pieces[:-1]:  # so that a client that reads slowly is seen to read
            self._queue({"type": "http.response.body", "body": piece, "more_body": True}, len(piece))
        self._queue({"type": "http.response.body", "body": pieces[-1], "more_body": more}, len(pieces[-1]))

    def _watch(self) -> None:
        if self._watcher is None:
            self._watcher = asyncio.create_task(self._wait_for_disconnect())

    async def _wait_for_disconnect(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._disconnected()


class AsgiSocketChannel(AsgiChannel):
    """One WebSocket."""

    def __init__(self, scope: Message, receive: Receive, send: Send) -> None:
        super().__init__(scope, receive, send)
        self._can_refuse = "websocket.http.response" in (scope.get("extensions") or {})

    def accept(self) -> None:
        self._queue({"type": "websocket.accept"}, 0)

    def refuse(self, status: int, headers: Headers, body: bytes) -> None:
        """Refuse with an HTTP error if the server supports that; otherwise close it."""
        if not self._can_refuse:
            self.close(1008)
            return
        encoded = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        start = {"type": "websocket.http.response.start", "status": status, "headers": encoded}
        self._queue(start, 0)
        self._queue({"type": "websocket.http.response.body", "body": body}, len(body))

    async def receive(self) -> str:
        await self.drain()  # a client that does not read is not read either
        message = await self._receive_unless_aborted()
        if message["type"] == "websocket.disconnect":
            self._disconnected()
            raise ChannelClosed
        text: str | None = message.get("text")
        return text if text is not None else (message.get("bytes") or b"").decode("utf-8", "replace")

    async def _receive_unless_aborted(self) -> Message:
        if self._aborted.is_set():
            raise ChannelClosed
        receiving = asyncio.ensure_future(self._receive())
        aborting = asyncio.ensure_future(self._aborted.wait())
        try:
            await asyncio.wait([receiving, aborting], return_when=asyncio.FIRST_COMPLETED)
            if receiving.done():
                return receiving.result()
            raise ChannelClosed
        finally:
            receiving.cancel()
            aborting.cancel()

    def send(self, text: bytes) -> None:
        self._queue({"type": "websocket.send", "text": text.decode()}, len(text))

    def close(self, code: int, reason: str = "") -> None:
        self._queue({"type": "websocket.close", "code": code, "reason": reason}, 0)

    def _watch(self) -> None:
        """Do nothing: `receive` reports the disconnect of a WebSocket."""


def _joined(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    joined: dict[str, str] = {}
    for raw_name, raw_value in headers:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        joined[name] = f"{joined[name]}, {value}" if name in joined else value
    return joined
