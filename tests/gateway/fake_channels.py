"""Channels without a network: the client's end of a request or a WebSocket, for tests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from penstock.net.server.channels import ChannelClosed, Headers


class FakeChannel:
    """A client that reads everything at once, unless `is_writable` is set to False."""

    def __init__(
        self,
        method: str = "POST",
        path: str = "/v1/responses",
        query: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.method, self.path, self.query = method, path, query
        self.headers = dict(headers or {})
        self.server_port = 0
        self.is_connected = True
        self.unsent = 0
        self.aborts = 0
        self._writable = asyncio.Event()
        self._writable.set()
        self._callback: Callable[[], None] | None = None

    @property
    def is_writable(self) -> bool:
        return self._writable.is_set()

    @is_writable.setter
    def is_writable(self, value: bool) -> None:
        if value:
            self._writable.set()
        else:
            self._writable.clear()

    async def drain(self) -> None:
        await self._writable.wait()

    def on_disconnect(self, callback: Callable[[], None] | None) -> None:
        self._callback = callback
        if callback is not None and not self.is_connected:
            asyncio.get_running_loop().call_soon(callback)

    def abort(self) -> None:
        self.aborts += 1
        self.disconnect()

    def disconnect(self) -> None:
        """Disconnect, as a client does."""
        self.is_connected = False
        self._writable.set()
        if self._callback is not None:
            self._callback()


class FakeHttpChannel(FakeChannel):
    """One request. `parts` are the pieces of its body; None stands for a disconnect."""

    def __init__(
        self,
        method: str = "POST",
        path: str = "/v1/responses",
        query: str = "",
        headers: Mapping[str, str] | None = None,
        *,
        parts: list[bytes | None] | None = None,
    ) -> None:
        super().__init__(method, path, query, headers)
        self.parts = parts or []
        self.status = 0
        self.sent_headers: dict[str, str] = {}
        self.pieces: list[bytes] = []
        """The pieces of the response's body."""
        self.is_ended = False
        self.closes = 0
        self.changed = asyncio.Event()

    @property
    def body(self) -> bytes:
        return b"".join(self.pieces)

    async def receive(self) -> bytes:
        if not self.parts:
            return b""
        part = self.parts.pop(0)
        if part is None:
            raise ChannelClosed
        return part

    def begin(self, status: int, headers: Headers) -> None:
        assert not self.status
        self.status, self.sent_headers = status, dict(headers)

    def write(self, data: bytes) -> None:
        assert self.status
        assert not self.is_ended
        if self.is_connected:
            self.pieces.append(data)
            self.changed.set()

    def end(self, data: bytes = b"") -> None:
        self.write(data)
        self.is_ended = True

    def close(self) -> None:
        self.closes += 1


class FakeSocketChannel(FakeChannel):
    """One WebSocket. `said` is what the client sends; None: the server stops."""

    def __init__(self, path: str = "/v1/responses", headers: Mapping[str, str] | None = None) -> None:
        super().__init__("GET", path, "", headers)
        self.said: asyncio.Queue[str | None] = asyncio.Queue()
        self._closing = asyncio.Event()
        self.is_accepted = False
        self.refused: tuple[int, dict[str, str], bytes] | None = None
        self.sent: list[bytes] = []
        self.close_code: int | None = None

    def accept(self) -> None:
        self.is_accepted = True

    def refuse(self, status: int, headers: Headers, body: bytes) -> None:
        self.refused = status, dict(headers), body

    async def receive(self) -> str | None:
        getting = asyncio.ensure_future(self.said.get())
        leaving = asyncio.ensure_future(self._closing.wait())
        try:
            await asyncio.wait([getting, leaving], return_when=asyncio.FIRST_COMPLETED)
            if getting.done():
                return getting.result()
            raise ChannelClosed
        finally:
            getting.cancel()
            leaving.cancel()

    def send(self, text: bytes) -> None:
        if self.is_connected and self.close_code is None:
            self.sent.append(text)

    def close(self, code: int, reason: str = "") -> None:  # noqa: ARG002 - clients act on the code
        if self.close_code is None:
            self.close_code = code
        self._closing.set()

    def disconnect(self) -> None:
        self._closing.set()
        super().disconnect()
