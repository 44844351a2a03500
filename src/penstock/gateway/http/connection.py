"""A client's HTTP connection: uvicorn's, with limits on what a client can cost before its key is checked.

- A request is parsed only after the previous one has been answered. Until then its bytes are buffered, up to
  `WAITING_BYTES`; beyond that, the connection is not read.
- The head of a request is limited in size and time; so are its trailers and the bytes between chunks.
- A disconnect is noticed even if the client has already sent its next request.
- A client that does not read its responses is disconnected after `client_timeout`.
- Upgrades are accepted to WebSocket only, and are checked before another protocol takes over the connection.
  Other offers (HTTP/2) are ignored, as the standard allows: the parser would not read the body after them.
- An HTTP/1.0 client gets a body that ends with the connection, instead of chunks.
- The application can abort or close a connection, and see how much its client has not read.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Callable, Iterable
from functools import partial
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from penstock.gateway.errors import RequestRefused
from penstock.gateway.http.asgi import EXTENSION, Message, Receive, Send
from penstock.gateway.http.exchange import JSON, request_id_for
from penstock.gateway.http.websocket_connection import WebSocketConnection
from penstock.gateway.telemetry.logs import log_refused

HEAD_BYTES = 64 * 1024
"""Limit of a request's head, of its trailers, and of the bytes between two chunks of its body."""
HEAD_SECONDS = 30.0
WAITING_BYTES = 64 * 1024
"""How much a client may send ahead while an earlier request is answered. The connection is read up to this
limit, because only reading detects a disconnect."""
STALLED_MARGIN = 5.0
"""Seconds after `client_timeout` until the connection of a client that reads nothing is aborted. Turns abort
it at `client_timeout` and record this in their verdict; they should come first."""

_HEAD_END = b"\r\n\r\n"
_LINE_END = b"\r\n"
_CHUNKED_PIECE = 1024
"""How much of a chunked body the parser gets at once. Its end is not known in advance, so a piece may also
contain the next requests; a smaller piece contains fewer of them."""
_PIECES = 16
"""How many pieces are parsed before other connections are served: one byte may be a chunk of its own."""
_OFFER = re.compile(rb"\r\nupgrade:(?![ \t]*websocket[ \t]*(?:\r|$))", re.IGNORECASE)


class _Flow(FlowControl):
    """Flow control that resumes reading only if there is room; uvicorn's does whenever the application
    waits for the client."""

    is_full = False

    def resume_reading(self) -> None:
        if not self.is_full:
            super().resume_reading()


class ClientConnection(HttpToolsProtocol):
    """`client_timeout` returns the setting of that name, which may change while the connection is open."""

    def __init__(self, *args: Any, client_timeout: Callable[[], float | None], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._client_timeout = client_timeout
        self._waiting = bytearray()
        """Received bytes that the parser has not got yet."""
        self._next_parse: asyncio.Handle | None = None
        self._is_in_head = True
        self._body_left: int | None = 0
        """Bytes of the body still to come; None: unknown (chunked)."""
        self._overhead = 0
        """Bytes since the head began, or since the last byte of the body."""
        self._deadline: asyncio.TimerHandle | None = None
        self._stalled: asyncio.TimerHandle | None = None
        self._running: RequestResponseCycle | None = None
        self.flow: _Flow

    # The connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.flow = _Flow(transport)
        self._arm()

    def connection_lost(self, exc: Exception | None) -> None:
        self._disarm()
        self._unset_stalled()
        self._waiting.clear()
        for cycle in (self._running, *(waiting for waiting, _ in self.pipeline)):
            if cycle is not None and not cycle.response_complete:
                _disconnect(cycle)
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """Stop: refuse a request that is still being received now, instead of when it is complete."""
        cycle = self._running
        if cycle is not None and cycle is self.cycle and cycle.more_body and not cycle.response_started:
            message = "the gateway is shutting down: try again in a moment"
            headers = [("retry-after", "2")]
            self._refuse(
                RequestRefused(503, "server_is_overloaded", message, type="server_error", headers=headers)
            )
            return
        if cycle is not None:
            cycle.keep_alive = False  # requests that wait after it are not started
        super().shutdown()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch_reader()

    def resume_writing(self) -> None:
        self._unset_stalled()
        super().resume_writing()

    # Receiving

    def data_received(self, data: bytes) -> None:
        self._waiting += data
        if self._next_parse is None:
            self._parse()

    def _parse(self) -> None:
        """Feed the parser the bytes of the current request, and nothing while a request is being answered."""
        self._next_parse = None
        for _ in range(_PIECES):
            if not self._waiting or self._is_answering or self.transport.is_closing():
                break
            if self._is_in_head:
                size = self._head_size()
            elif self._body_left is not None:
                size = min(len(self._waiting), self._body_left)
            else:
                size = self._chunked_size()
            if self._overhead > HEAD_BYTES:
                self._refuse_head()
            if not size or self.transport.is_closing():
                break
            piece = bytes(self._waiting[:size])
            del self._waiting[:size]
            super().data_received(_OFFER.sub(b"\r\nx-upgrade:", piece) if self._is_in_head else piece)
        else:
            self._next_parse = self.loop.call_soon(self._parse)
        if self.transport.get_protocol() is not self:
            return  # it is a WebSocket now
        self._keep_time()
        was_full = self.flow.is_full
        self.flow.is_full = self._next_parse is not None or len(self._waiting) > WAITING_BYTES
        if self.flow.is_full:
            self.flow.pause_reading()
        elif was_full:
            self.flow.resume_reading()

    @property
    def _is_answering(self) -> bool:
        """Whether a complete request has no complete response yet."""
        cycle = self.cycle
        is_pending = cycle is not None and not cycle.more_body and not cycle.response_complete
        return is_pending or bool(self.pipeline)

    def _head_size(self) -> int:
        """Return the bytes up to the end of the head, or of its last complete line: `_OFFER` needs complete
        lines."""
        end = self._waiting.find(_HEAD_END)
        if end >= 0:
            size = end + len(_HEAD_END)
        elif self._overhead + len(self._waiting) > HEAD_BYTES:
            size = len(self._waiting)
        elif _LINE_END in self._waiting or self._overhead:
            size = max(self._waiting.rfind(_LINE_END), 0)
        else:
            size = len(self._waiting)  # the first line, whose errors should be reported at once
        self._overhead += size
        return size

    def _chunked_size(self) -> int:
        """Return the size of the next piece. A message ends with an empty line; a cut after one never splits
        the end of the next head."""
        piece = self._waiting[:_CHUNKED_PIECE]
        end = piece.rfind(_HEAD_END)
        size = end + len(_HEAD_END) if end >= 0 else len(piece.rstrip(_LINE_END))
        if len(piece) == _CHUNKED_PIECE:
            size = size or len(piece)
        self._overhead += size
        return size

    def on_message_begin(self) -> None:
        super().on_message_begin()
        transport = self.transport
        controls: dict[object, object] = {
            "abort": transport.abort,
            "close": transport.close,
            "unsent": transport.get_write_buffer_size,
        }
        self.scope["extensions"] = {EXTENSION: controls}

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._is_in_head:  # headers after the body are trailers, which are ignored
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        named = dict(self.headers)
        self._is_in_head, self._overhead = False, 0
        self._body_left = None if b"transfer-encoding" in named else int(named.get(b"content-length", 0))
        if self.parser.should_upgrade() and self._should_upgrade():
            self._check_upgrade()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._overhead = 0
        if self._body_left is not None:
            self._body_left -= len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._is_in_head, self._overhead = True, 0
        super().on_message_complete()

    # Sending

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._running = cycle
        if cycle.scope["http_version"] != "1.1":
            app = partial(_without_chunks, app, cycle)
        super()._start_asgi_task(cycle, app)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self.transport.is_closing():
            self._parse()
        elif self.transport.get_write_buffer_size():
            self._watch_reader()  # a closing connection stays open until its client has read everything

    def send_400_response(self, msg: str) -> None:
        self._refuse(RequestRefused(400, "invalid_http", f"{msg} Send an HTTP/1.1 request."))

    def _refuse_head(self) -> None:
        message = f"the headers or trailers of the request are larger than {HEAD_BYTES:,} bytes: shorten them"
        self._refuse(RequestRefused(431, "request_head_too_large", message))

    def _refuse(self, refused: RequestRefused) -> None:
        """Send the refusal instead of the application's response, and close the connection."""
        cycle, headers = self._running, dict(self.headers or ())
        if self.transport.is_closing():
            return
        if cycle is None or cycle.response_complete or not cycle.response_started:
            id = request_id_for(headers.get(b"x-request-id", b"").decode("latin-1"))
            log_refused(refused, (self.scope or {}).get("method", "?"), "other", id)
            self.transport.write(_refusal(refused, self.server_state.default_headers, id))
        if cycle is not None and not cycle.response_complete:
            _disconnect(cycle)
        self.transport.close()

    # WebSockets

    def _check_upgrade(self) -> None:
        """Refuse a request that cannot become a WebSocket."""
        problem = ""
        if self.parser.get_method() != b"GET" or self.parser.get_http_version() != "1.1":
            problem = "send a GET request over HTTP/1.1"
        elif self._body_left != 0:
            problem = "the request must have no body"
        elif not self.url.isascii():
            problem = "the URL must be ASCII"
        if problem:
            message = f"this request cannot open a WebSocket: {problem}, or omit the Upgrade header"
            self._refuse(RequestRefused(400, "invalid_upgrade", message))

    def handle_websocket_upgrade(self) -> None:
        if self.transport.is_closing():
            return
        if self._waiting:
            message = "wait for the response to the WebSocket handshake before sending anything"
            self._refuse(RequestRefused(400, "invalid_upgrade", message))
            return
        self.connections.discard(self)
        if self._deadline is None:  # the head arrived in one piece
            self._arm()
        deadline, self._deadline = self._deadline, None
        socket = WebSocketConnection(
            config=self.config, server_state=self.server_state, app_state=self.app_state
        )
        socket.connection_made(self.transport)
        self.transport.set_protocol(socket)
        socket.open(self.url, self.headers, deadline)

    def _unsupported_upgrade_warning(self) -> None:
        """Do not warn: the application responds as if the client had offered no upgrade."""

    # Time

    def _keep_time(self) -> None:
        """Set the deadline for reading a request head, or the rest of a refused body."""
        is_reading_body = not self._is_in_head and self.cycle is not None and not self.cycle.response_complete
        if self.transport.is_closing() or self._is_answering or is_reading_body:
            self._disarm()
        elif self._deadline is None and (self._waiting or self._overhead or not self._is_in_head):
            self._arm()

    def timeout_keep_alive_handler(self) -> None:
        self._hang_up()

    def _hang_up(self) -> None:
        """Close the connection; abort it if the client has not read its last response."""
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            self.transport.close()

    def _arm(self) -> None:
        self._disarm()
        self._deadline = self.loop.call_later(HEAD_SECONDS, self._hang_up)

    def _disarm(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _watch_reader(self, unread: float = math.inf) -> None:
        """Abort if the client has read nothing since `unread` bytes were pending."""
        left, longest = self.transport.get_write_buffer_size(), self._client_timeout()
        self._unset_stalled()
        if left >= unread:
            self.transport.abort()
        elif longest is not None:
            self._stalled = self.loop.call_later(longest + STALLED_MARGIN, self._watch_reader, left)

    def _unset_stalled(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None


def _disconnect(cycle: RequestResponseCycle) -> None:
    """Notify the application that its client has disconnected."""
    cycle.disconnected = True
    cycle.message_event.set()


async def _without_chunks(
    app: Any, cycle: RequestResponseCycle, scope: Message, receive: Receive, send: Send
) -> None:
    """Send a body of unknown length to a client without chunked encoding: it ends with the connection."""

    async def send_unchunked(message: Message) -> None:
        if message["type"] == "http.response.start":
            if not any(name == b"content-length" for name, _ in message["headers"]):
                cycle.chunked_encoding = False
        elif cycle.chunked_encoding is False and not cycle.expected_content_length:
            cycle.expected_content_length = len(message.get("body", b""))
        await send(message)

    await app(scope, receive, send_unchunked)


def _refusal(refused: RequestRefused, headers: Iterable[tuple[bytes, bytes]], request_id: str) -> bytes:
    body = refused.body()
    lines = [
        f"HTTP/1.1 {refused.status} {HTTPStatus(refused.status).phrase}",
        *(f"{name.decode('latin-1')}: {value.decode('latin-1')}" for name, value in headers),
        f"content-type: {JSON}",
        f"content-length: {len(body)}",
        f"x-request-id: {request_id}",
        *(f"{name}: {value}" for name, value in refused.headers),
        "connection: close",
    ]
    return "\r\n".join(lines).encode("latin-1") + _HEAD_END + body
