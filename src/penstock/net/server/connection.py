"""A client's HTTP/1.1 connection, with limits on what a client can cost before its key is checked.

- A request is parsed only after the previous one has been answered, and its client reads. Until then its
  bytes are buffered, up to `WAITING_BYTES`; beyond that, the connection is not read.
- The head of a request is limited in size and time; so are its trailers and the bytes between chunks.
- A disconnect is noticed even if the client has already sent its next request.
- A client that does not read its responses is disconnected after `client_timeout`.
- Upgrades are accepted to WebSocket only, and are checked before another protocol takes over the connection.
- If there are too many connections, one without a request is closed for a new one; if all are busy, a request
  is refused.
- One timer serves all deadlines of a connection. It is not moved while requests come and go, but looks at the
  current deadline when it fires.
"""

from __future__ import annotations

import asyncio
import math
from typing import cast

from penstock.net.flow_control import set_reading
from penstock.net.server.chunked_bodies import ChunkDecoder
from penstock.net.server.http_request import HttpRequest
from penstock.net.server.refusals import (
    INTERNAL_ERROR,
    STOPPING,
    TOO_MANY,
    RefusedBytes,
    ServerRefusal,
    invalid_upgrade,
)
from penstock.net.server.request_heads import HeadParser, RequestHead
from penstock.net.server.response_heads import whole_response
from penstock.net.server.state import ServerState
from penstock.net.server.websocket import WebSocketConnection, shake_hands
from penstock.net.timers import SharedTimer

HEAD_SECONDS = 30.0
IDLE_SECONDS = 75.0
"""For how long an idle connection stays open: longer than in clients, so that they close it first."""
WAITING_BYTES = 64 * 1024
"""How much a client may send ahead while an earlier request is answered, and how much of a body may wait for
the application. The connection is read up to this limit, because only reading detects a disconnect."""
STALLED_MARGIN = 5.0
"""Seconds after `client_timeout` until the connection of a client that reads nothing is aborted. Applications
abort it at `client_timeout` and record this; they should come first."""
FAREWELL_SECONDS = 5.0
"""How long an idle client may take to end TLS when the server stops."""
UNSENT_BYTES = 64 * 1024
"""High-water mark of the bytes that a client has not read."""


class ClientConnection(asyncio.Protocol):
    __slots__ = (
        "_body_left",
        "_chunks",
        "_deadline",
        "_drained",
        "_heads",
        "_input",
        "_is_in_head",
        "_is_stopping",
        "_loop",
        "_next_parse",
        "_request",
        "_server",
        "_stalled",
        "_timer",
        "_transport",
        "is_writable",
        "server_port",
    )

    def __init__(self, server: ServerState, server_port: int) -> None:
        self._server, self.server_port = server, server_port
        self.is_writable = True
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._input = bytearray()
        """Received bytes that are not parsed yet."""
        self._heads = HeadParser()
        self._request: HttpRequest | None = None
        """The request that is received or answered."""
        self._body_left = 0
        self._chunks: ChunkDecoder | None = None
        self._next_parse: asyncio.Handle | None = None
        self._is_stopping = False
        self._deadline = math.inf
        self._is_in_head = True
        """Whether `_deadline` is that of a head."""
        self._timer: SharedTimer | None = None
        self._stalled: asyncio.TimerHandle | None = None
        self._drained: asyncio.Future[None] | None = None

    # The connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=UNSENT_BYTES)
        self._server.add(self)
        self._server.idle(self)
        self._expire_in(HEAD_SECONDS)

    def eof_received(self) -> None:
        """Treat a client that sends nothing more as disconnected. It may still read what was sent."""
        self._disconnect()
        self._close()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._release()
        self._disconnect()
        self._server.discard(self)

    def _release(self) -> None:
        for handle in (self._timer, self._stalled, self._next_parse):
            if handle is not None:
                handle.cancel()
        self._input.clear()
        self._heads.close()

    def _disconnect(self) -> None:
        request, self._request = self._request, None
        if request is not None:
            request.disconnect()
        self._wake_drained()

    def shutdown(self) -> None:
        """Close an idle connection now, and a busy one after its response. A request that is still being
        received is refused."""
        self._is_stopping = True
        request = self._request
        if request is None or request.is_ended:
            self._close()
            if self._transport.get_extra_info("ssl_object") is not None:
                # TLS waits for the client's farewell, and clients that do not read send none.
                self._loop.call_later(FAREWELL_SECONDS, self._transport.abort)
        elif not request.is_body_complete and not request.is_head_sent:
            self._refuse(STOPPING)
        else:
            request.keep_alive = False

    def abort(self) -> None:
        self._transport.abort()

    @property
    def has_unread(self) -> bool:
        return bool(self._transport.get_write_buffer_size())

    def _close(self) -> None:
        """Close the connection when its client has read everything."""
        if not self._transport.is_closing():
            self._transport.close()
        if self._transport.get_write_buffer_size():
            self._watch_reader()

    # Receiving

    def data_received(self, data: bytes) -> None:
        self._input += data
        if self._next_parse is None:
            self._parse()

    @property
    def _is_blocked(self) -> bool:
        """Whether the next bytes belong to a request whose time has not come."""
        request = self._request
        return not self.is_writable if request is None else request.is_body_complete

    def _parse(self) -> None:
        self._next_parse = None
        try:
            while self._input and not self._is_blocked and not self._transport.is_closing():
                if self._request is None:
                    head = self._heads.read(self._input)
                    if head is None:
                        break
                    self._deadline, self._is_in_head = math.inf, False
                    if not self._server.busy(self):
                        self._refuse(TOO_MANY, head)
                    elif head.is_websocket:
                        self._upgrade(head)
                        return  # the transport may belong to a WebSocket now
                    else:
                        self._begin(head)
                elif not self._read_body(self._request):
                    break
        except RefusedBytes as refused:
            self._refuse(refused.refusal)
        if self._request is None and not self._is_in_head and self._heads.has_begun:
            self._is_in_head = True
            self._expire_in(HEAD_SECONDS)
        self._read_or_pause()

    def _begin(self, head: RequestHead) -> None:
        self._body_left = head.body_length or 0
        self._chunks = ChunkDecoder() if head.body_length is None else None
        request = self._request = HttpRequest(self, self._transport, head)
        self._server.start(self._serve(request))

    def _read_body(self, request: HttpRequest) -> bool:
        """Read a piece of the body; return False if there is none now."""
        chunks = self._chunks
        if chunks is not None:
            body = chunks.decode(self._input)
            request.feed(body, is_last=chunks.is_done)
            if chunks.is_behind:
                self._next_parse = self._loop.call_soon(self._parse)
            is_over = chunks.is_done
        else:
            piece = self._input[: self._body_left]
            del self._input[: self._body_left]
            self._body_left -= len(piece)
            is_over = not self._body_left
            request.feed(bytes(piece), is_last=is_over)
        if is_over and request.is_ended:
            self._next_request()
        return is_over

    def _read_or_pause(self) -> None:
        """Read as long as there is room. A client is not read while it has more to be parsed."""
        request = self._request
        waiting = len(self._input) if request is None else max(len(self._input), request.waiting_bytes)
        set_reading(self._transport, waiting <= WAITING_BYTES and self._next_parse is None)

    def body_taken(self) -> None:
        self._read_or_pause()

    # Responses

    async def _serve(self, request: HttpRequest) -> None:
        try:
            await self._server.handler.serve_http(request)
        except Exception as error:
            self._server.refuser.report(error)
        finally:
            if request is self._request and not request.is_ended:
                self._abandon(request)
            self._server.ended()

    def _abandon(self, request: HttpRequest) -> None:
        """Close the connection of a request that the application left without a complete response."""
        if request.is_head_sent:
            self._transport.abort()
        else:
            self._refuse(INTERNAL_ERROR)

    def response_ended(self) -> None:
        request = self._request
        assert request is not None
        if not request.keep_alive or self._is_stopping:
            self._close()
        elif request.is_body_complete:
            self._next_request()
            if self._input and self._next_parse is None:
                self._parse()
            else:
                self._read_or_pause()  # a body that nobody took has stopped the reading
        else:  # the rest of the body is discarded
            self._expire_in(HEAD_SECONDS)
            self._read_or_pause()

    def _next_request(self) -> None:
        self._request = None
        self._server.idle(self)
        self._expire_in(IDLE_SECONDS)

    def is_past(self, request: HttpRequest) -> bool:
        return self._request not in (None, request)

    def close_ended(self) -> None:
        self._close()

    def _refuse(self, refusal: ServerRefusal, head: RequestHead | None = None) -> None:
        """Send the refusal instead of the application's response, and close the connection."""
        if self._transport.is_closing():
            return
        request = self._request
        if request is None or not request.is_head_sent:
            source = head or request or self._heads
            headers, body = self._server.refuser.refuse(refusal, source.method, source.headers)
            self._transport.write(whole_response(refusal.status, [*headers, *refusal.headers], body))
        self._input.clear()
        self._close()
        self._disconnect()

    # WebSockets

    def _upgrade(self, head: RequestHead) -> None:
        """Turn the connection into a WebSocket, or refuse a request that cannot become one."""
        problem = ""
        if head.method != "GET" or not head.has_chunks:
            problem = "send a GET request over HTTP/1.1"
        elif head.body_length != 0:
            problem = "the request must have no body"
        if problem:
            message = f"this request cannot open a WebSocket: {problem}, or omit the Upgrade header"
            self._refuse(invalid_upgrade(message), head)
            return
        if self._input:
            message = "wait for the response to the WebSocket handshake before sending anything"
            self._refuse(invalid_upgrade(message), head)
            return
        response = shake_hands(head)
        if isinstance(response, ServerRefusal):
            self._refuse(response, head)
            return
        socket = WebSocketConnection(
            self._server, self._transport, head, response, port=self.server_port, patience=HEAD_SECONDS
        )
        self._release()
        self._transport.set_protocol(socket)
        self._server.discard(self)
        socket.open()

    # Writing

    def pause_writing(self) -> None:
        self.is_writable = False
        if self._request is not None:
            self._request.is_writable = False
        self._watch_reader()

    def resume_writing(self) -> None:
        self._unset_stalled()
        self._wake_drained()
        if self._input and self._next_parse is None:
            self._parse()

    async def drain(self) -> None:
        while not self.is_writable:
            if self._drained is None:
                self._drained = self._loop.create_future()
            await asyncio.shield(self._drained)

    def _wake_drained(self) -> None:
        self.is_writable = True
        if self._request is not None:
            self._request.is_writable = True
        drained, self._drained = self._drained, None
        if drained is not None:
            drained.set_result(None)

    def _watch_reader(self, unread: float = math.inf) -> None:
        """Abort if the client has read nothing since `unread` bytes were pending."""
        left, longest = self._transport.get_write_buffer_size(), self._server.client_timeout()
        self._unset_stalled()
        if left >= unread:
            self._transport.abort()
        elif left and longest is not None:  # TLS may have nothing left, and still wait for its end
            self._stalled = self._loop.call_later(longest + STALLED_MARGIN, self._watch_reader, left)

    def _unset_stalled(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    # Time

    def _expire_in(self, seconds: float) -> None:
        """Set the deadline; the timer moves only if it would fire too late."""
        self._deadline = self._loop.time() + seconds
        if self._timer is None or self._timer.when() > self._deadline:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._server.timers.call_at(self._deadline, self._check_deadline)

    def _check_deadline(self) -> None:
        self._timer = None
        if self._deadline == math.inf:
            return
        if self._loop.time() < self._deadline:
            self._timer = self._server.timers.call_at(self._deadline, self._check_deadline)
        elif not self._transport.get_write_buffer_size():
            self._transport.close()
        elif self._is_in_head or self._server.client_timeout() is None:
            self._transport.abort()  # the client has not read its last response
        else:
            self._expire_in(IDLE_SECONDS)
            if self._stalled is None:
                self._watch_reader()  # it may still be reading
