"""A client's WebSocket connection: uvicorn's, with limits on what it can cost and a graceful shutdown.

- A handshake always gets a response; a refusal has the specification's error shape.
- Messages are not compressed, fragments are joined as they arrive, and only a few messages are queued.
- While a client does not read, nothing is read from it.
- When the server shuts down, it notifies the application, which closes the connection when its turn has
  ended; uvicorn would close it at once.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.datastructures import Headers
from websockets.frames import Frame
from websockets.http11 import Request, Response
from websockets.server import ServerProtocol

from penstock.gateway.errors import RequestRefused
from penstock.gateway.http.asgi import EXTENSION, SERVER_STOPS
from penstock.gateway.http.exchange import JSON, request_id_for

WAITING_FRAMES = 64
"""Messages that may be queued for the application. One read can return tens of thousands."""
PIECE = 8 * 1024
"""How much is parsed before other connections are served: a frame may have six bytes, and takes longer to
parse than to send."""

_LONGEST_MESSAGE = 200
_TOO_MANY = 1008
_MINIMAL_HEAD = b"GET / HTTP/1.1\r\n\r\n"


class _Handshake(ServerProtocol):
    """A handshake without compression, because a frame of 60 kB could inflate to 64 MB. Refusals have the
    specification's shape."""

    request_id = ""

    def reject(self, status: int, text: str) -> Response:
        response = super().reject(status, text)
        code = "invalid_upgrade" if status < 500 else "internal_error"
        type = "invalid_request" if status < 500 else "server_error"
        message = text.partition("\n")[0][:_LONGEST_MESSAGE] or "the WebSocket was refused"
        response.body = RequestRefused(status, code, message, type=type).body()
        del response.headers["Content-Type"], response.headers["Content-Length"]
        response.headers["Content-Type"] = JSON
        response.headers["Content-Length"] = str(len(response.body))
        response.headers["x-request-id"] = self.request_id
        return response


class WebSocketConnection(WebSocketsSansIOProtocol):
    """A WebSocket that takes over an HTTP connection, with `open`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.conn: _Handshake = _Handshake(max_size=self.config.ws_max_size, logger=self.logger)
        self._deadline: asyncio.TimerHandle | None = None
        self._unparsed = bytearray()
        self._next_parse: asyncio.Handle | None = None

    def open(
        self, url: bytes, headers: list[tuple[bytes, bytes]], deadline: asyncio.TimerHandle | None
    ) -> None:
        """Continue with a request whose head is complete. `deadline` runs until the WebSocket is accepted.

        The parser of `websockets` has its own limits for a head and sends no response if they are exceeded.
        So it parses a minimal head, which `handle_connect` replaces with the real one.
        """
        self._deadline, self._headers = deadline, headers
        ascii_headers = [(_ascii(name), _ascii(value)) for name, value in headers]
        self._request = Request(_ascii(url), Headers(ascii_headers))
        self.conn.request_id = request_id_for(dict(headers).get(b"x-request-id", b"").decode("latin-1"))
        self.data_received(_MINIMAL_HEAD)

    def handle_connect(self, event: Request) -> None:  # noqa: ARG002 - see `open`
        super().handle_connect(self._request)
        if not self.close_sent:
            self.scope["headers"] = self._headers

    def connection_lost(self, exc: Exception | None) -> None:
        self._unset_deadline()
        self._unparsed.clear()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._unparsed += data
        if self._next_parse is None:
            self._parse()

    def _parse(self) -> None:
        self._next_parse = None
        if self.transport.is_closing():
            return
        piece = bytes(self._unparsed[:PIECE])
        del self._unparsed[:PIECE]
        super().data_received(piece)
        if self._unparsed:
            self._next_parse = self.loop.call_soon(self._parse)
        self._read_or_pause()

    def _read_or_pause(self) -> None:
        """Read only after the handshake, and while there is room for messages and for pongs."""
        is_ready = self.handshake_complete and self.writable.is_set()
        if is_ready and not self.read_paused and self._next_parse is None:
            self.transport.resume_reading()
        else:
            self.transport.pause_reading()

    async def run_asgi(self) -> None:
        self.scope["extensions"] = {
            **(self.scope["extensions"] or {}),
            EXTENSION: {"abort": self.transport.abort},
        }
        await super().run_asgi()
        if not self.disconnected:  # closing waits until the client has read everything
            self.loop.call_later(self.close_timeout, self.transport.abort)

    async def send(self, message: Any) -> None:
        await self.writable.wait()
        if self.close_sent:  # the server closed it, and the application may not know yet
            raise ClientDisconnected
        await super().send(message)
        if self.handshake_complete and self._deadline is not None:
            self._unset_deadline()
            self._read_or_pause()

    async def receive(self) -> Any:
        message = await super().receive()
        self._read_or_pause()
        return message

    def pause_writing(self) -> None:
        super().pause_writing()
        self._read_or_pause()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._read_or_pause()

    def keepalive_timeout(self) -> None:
        super().keepalive_timeout()
        if self.transport.get_write_buffer_size():
            self.transport.abort()

    def handle_cont(self, event: Frame) -> None:
        """Join fragments as they arrive: a list of a million one-byte fragments takes forty times as much."""
        [received] = self.frames
        joined = received if isinstance(received, bytearray) else bytearray(received)
        joined += event.data
        self.frames = [joined]  # type: ignore[list-item]
        if event.fin:
            self.send_receive_event_to_app()

    def send_receive_event_to_app(self) -> None:
        if self.queue.qsize() < WAITING_FRAMES or self.close_sent:
            super().send_receive_event_to_app()
            return
        self.frames = []
        self.conn.send_close(
            _TOO_MANY, "too many unprocessed messages: wait for a response before sending more"
        )
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.close_sent = True
        self.queue.put_nowait({"type": "websocket.disconnect", "code": _TOO_MANY})
        self.close_timer = self.loop.call_later(self.close_timeout, self.transport.close)
        self.read_paused = False

    def shutdown(self) -> None:
        if self.handshake_complete and not self.close_sent:
            self.queue.put_nowait({"type": SERVER_STOPS})  # type: ignore[misc, arg-type]  # our own message type
        else:
            super().shutdown()

    def _unset_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def _ascii(data: bytes) -> str:
    return data.decode("ascii", "backslashreplace")
