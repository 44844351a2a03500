"""One connection of a client: uvicorn's, with what a gateway needs beyond it.

- A client that goes is noticed also when it has sent its next request already: uvicorn tells only the last.
- The head of a request is bounded, in bytes and in time, before anybody was asked for a key.
- An offer to speak HTTP/2 is ignored, as the standard allows: the parser would not read the body behind it.
- The application can close a connection, at once or in good order, and wait until its client has read.
- A turn that runs over a WebSocket may end when the server stops; uvicorn would cut it off without a word.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from penstock.gateway.exchange import EXTENSION, SERVER_STOPS

HEAD_BYTES = 64 * 1024
HEAD_SECONDS = 30.0

_HEAD_END = b"\r\n\r\n"
_OFFER = re.compile(rb"\r\nupgrade:(?=[ \t]*h2c)", re.IGNORECASE)
_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class ClientConnection(HttpToolsProtocol):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._is_in_head = True
        self._head_bytes = 0
        self._deadline: asyncio.TimerHandle | None = None
        self._running: RequestResponseCycle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._arm()

    def connection_lost(self, exc: Exception | None) -> None:
        self._disarm()
        for cycle in (self._running, *(waiting for waiting, _ in self.pipeline)):
            if cycle is not None and not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_in_head:
            head, end, rest = data.partition(_HEAD_END)
            data = _OFFER.sub(b"\r\nx-upgrade:", head) + end + rest
            self._head_bytes += len(head)
        super().data_received(data)
        if self._is_in_head and self._head_bytes > HEAD_BYTES and not self.transport.is_closing():
            self.transport.write(_TOO_LARGE)
            self.transport.close()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._is_in_head, self._head_bytes = True, 0
        self._arm()
        transport = self.transport
        told: dict[object, object] = {
            "abort": transport.abort,
            "close": transport.close,
            "drained": self.flow.drain,
        }
        self.scope["extensions"] = {EXTENSION: told}

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        self._disarm()
        super().on_headers_complete()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    def _unsupported_upgrade_warning(self) -> None:
        """The application answers 426, and says so itself."""

    def _arm(self) -> None:
        self._disarm()
        self._deadline = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def _disarm(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class SocketConnection(WebSocketsSansIOProtocol):
    """A WebSocket. When the server stops, the application is told, and closes it when its turn has ended."""

    async def run_asgi(self) -> None:
        self.scope["extensions"] = {
            **(self.scope["extensions"] or {}),
            EXTENSION: {"abort": self.transport.abort},
        }
        await super().run_asgi()

    def shutdown(self) -> None:
        if self.handshake_complete and not self.close_sent:
            self.queue.put_nowait({"type": SERVER_STOPS})  # type: ignore[misc, arg-type]  # a word of our own
        else:
            super().shutdown()
