"""A client's WebSocket: the sans-I/O protocol of `websockets` on a transport, with limits on its cost.

- Messages are not compressed, because a frame of 60 kB could inflate to 64 MB. Fragments are joined as they
  arrive, and only a few messages are queued.
- While a client does not read, nothing is read from it.
- A client that does not answer pings is disconnected.
- When the server stops, it notifies the application, which closes the WebSocket when it has ended its work.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from http import HTTPStatus

from websockets.datastructures import Headers as WebSocketHeaders
from websockets.frames import Frame, Opcode
from websockets.http11 import Request, Response
from websockets.protocol import State
from websockets.server import ServerProtocol

from penstock.net.flow_control import set_reading, write_all
from penstock.net.server.channels import ChannelClosed, Headers
from penstock.net.server.refusals import INTERNAL_ERROR, ServerRefusal, invalid_upgrade
from penstock.net.server.request_heads import RequestHead
from penstock.net.server.response_heads import response_head, whole_response
from penstock.net.server.state import ServerState

WAITING_MESSAGES = 64
"""Messages that may be queued for the application. One read can return tens of thousands."""
PIECE = 8 * 1024
"""How much is parsed before other connections are served: a frame may have six bytes, and takes longer to
parse than to send."""
PING_SECONDS = 20.0
"""How often a ping is sent, and how long its answer may take."""
CLOSE_SECONDS = 10.0
"""How long a client may take to answer the end of a WebSocket."""

_LONGEST_PROBLEM = 200
_INVALID_TEXT, _TOO_MANY, _NO_PONG = 1007, 1008, 1011
_log = logging.getLogger(__name__)


def shake_hands(head: RequestHead) -> Response | ServerRefusal:
    """Return the response that opens a WebSocket, or why there can be none."""
    headers = WebSocketHeaders((name, _ascii(value)) for name, value in head.headers.items())
    response = ServerProtocol(logger=_log).accept(Request(head.target.decode("ascii"), headers))
    if response.status_code == HTTPStatus.SWITCHING_PROTOCOLS:
        return response
    problem = bytes(response.body or b"").decode("utf-8", "replace").partition("\n")[0][:_LONGEST_PROBLEM]
    return invalid_upgrade(problem) if response.status_code < 500 else INTERNAL_ERROR


def _ascii(value: str) -> str:
    return value.encode("ascii", "backslashreplace").decode("ascii")


class WebSocketConnection(asyncio.Protocol):
    """The connection, and what the application sees of it. It must be accepted within `patience` seconds."""

    def __init__(
        self,
        server: ServerState,
        transport: asyncio.Transport,
        head: RequestHead,
        response: Response,
        *,
        port: int,
        patience: float,
    ) -> None:
        self.method, self.path, self.query, self.headers = head.method, head.path, head.query, head.headers
        self.server_port = port
        self._server, self._transport, self._response = server, transport, response
        self._loop = asyncio.get_running_loop()
        self._protocol = ServerProtocol(state=State.OPEN, max_size=server.message_bytes, logger=_log)
        self._is_answered = self._is_accepted = False
        """Whether the handshake was answered, and whether that opened the WebSocket."""
        self._is_connected = True
        self._is_closing = False
        """Whether we have closed it; the client's answer is awaited."""
        self._is_writable = True
        self._messages: deque[str | None] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._drained = asyncio.Event()
        self._callback: Callable[[], None] | None = None
        self._fragments = bytearray()
        self._is_text = True
        self._unparsed = bytearray()
        self._next_parse: asyncio.Handle | None = None
        self._ping = 0
        self._unread = 0
        """Bytes that the client had not read at the last check."""
        self._is_ping_answered = True
        self._timer: asyncio.TimerHandle = self._loop.call_later(patience, self.abort)
        """The deadline of the handshake, then of the next ping, then of the end."""

    # The connection

    def open(self) -> None:
        """Start the application."""
        self._server.add(self)
        self._read_or_pause()
        self._server.start(self._serve())

    async def _serve(self) -> None:
        try:
            await self._server.handler.serve_socket(self)
        except Exception as error:
            self._server.refuser.report(error)
        finally:
            if not self._is_answered and self._is_connected:
                headers, body = self._server.refuser.refuse(INTERNAL_ERROR, self.method, self.headers)
                self.refuse(INTERNAL_ERROR.status, headers, body)
            if not self._is_closing:
                self._end()
            self._server.ended()

    def _end(self) -> None:
        """Close the connection when its client has read everything, and abort it if that takes too long."""
        if not self._transport.is_closing():
            self._transport.close()
            self._set_timer(CLOSE_SECONDS, self.abort)
        self._disconnect()

    def eof_received(self) -> None:
        """Treat a client that sends nothing more as disconnected."""
        self._end()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._timer.cancel()
        if self._next_parse is not None:
            self._next_parse.cancel()
        self._unparsed.clear()
        self._disconnect()
        self._server.discard(self)

    def _disconnect(self) -> None:
        """Notify the application, after the messages that it has not received yet."""
        self._is_connected = False
        self._wake()
        self._drained.set()
        callback, self._callback = self._callback, None
        if callback is not None:
            callback()

    def shutdown(self) -> None:
        if self._is_accepted and self._is_connected:
            self._messages.append(None)
            self._wake()
        elif not self._transport.is_closing():
            self._transport.close()

    def abort(self) -> None:
        self._is_connected = False
        self._transport.abort()

    # What the application sees

    @property
    def is_connected(self) -> bool:
        return self._is_connected

    @property
    def has_unread(self) -> bool:
        return bool(self._transport.get_write_buffer_size())

    @property
    def is_writable(self) -> bool:
        return self._is_writable or not self._is_connected

    @property
    def unsent(self) -> int:
        return self._transport.get_write_buffer_size() if self._is_connected else 0

    async def drain(self) -> None:
        while not self.is_writable:
            self._drained.clear()
            await self._drained.wait()

    def on_disconnect(self, callback: Callable[[], None] | None) -> None:
        if self._is_connected:
            self._callback = callback
        elif callback is not None:
            self._loop.call_soon(callback)

    def accept(self) -> None:
        if self._is_answered:
            raise RuntimeError("the handshake has already been answered")
        self._is_answered = True
        if not self._is_connected:
            return
        self._is_accepted = True
        headers = [(name.lower(), value) for name, value in self._response.headers.raw_items()]
        own = [header for header in headers if header[0] != "date"]
        self._transport.write(response_head(self._response.status_code, own))
        self._set_timer(PING_SECONDS, self._keep_alive)
        self._read_or_pause()

    def refuse(self, status: int, headers: Headers, body: bytes) -> None:
        if self._is_answered:
            raise RuntimeError("the handshake has already been answered")
        self._is_answered = True
        if self._is_connected:
            self._transport.write(whole_response(status, headers, body))
            self._end()

    async def receive(self) -> str | None:
        while not self._messages:
            if not self._is_connected:
                raise ChannelClosed
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        message = self._messages.popleft()
        self._read_or_pause()
        return message

    def send(self, text: bytes) -> None:
        if self._is_connected:
            self._protocol.send_text(text)
            self._flush()

    def close(self, code: int, reason: str = "") -> None:
        # The read that brought the last message may also have closed it, or broken the protocol.
        if self._is_connected and self._is_accepted and self._protocol.state is State.OPEN:
            self._protocol.send_close(code, reason)
            self._flush()
            self._await_close()

    def _await_close(self) -> None:
        """Wait for the client's answer to our close frame, and ignore everything else that it sends."""
        self._is_closing = True
        self._set_timer(CLOSE_SECONDS, self.abort)
        self._disconnect()
        self._read_or_pause()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # Receiving

    def data_received(self, data: bytes) -> None:
        self._unparsed += data
        if self._next_parse is None:
            self._parse()

    def _parse(self) -> None:
        self._next_parse = None
        if self._transport.is_closing():
            return
        piece = bytes(self._unparsed[:PIECE])
        del self._unparsed[:PIECE]
        self._protocol.receive_data(piece)
        for event in self._protocol.events_received():
            if isinstance(event, Frame):
                self._take(event)
        self._flush()
        if self._protocol.state is not State.OPEN and (
            not self._is_closing or self._protocol.close_rcvd is not None
        ):
            self._end()  # the client closed it, answered our close frame, or broke the protocol
            return
        if self._unparsed:
            self._next_parse = self._loop.call_soon(self._parse)
        self._read_or_pause()

    def _take(self, frame: Frame) -> None:
        if frame.opcode is Opcode.PONG:
            self._is_ping_answered |= bytes(frame.data) == self._ping_payload
        if frame.opcode not in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT):
            return
        if frame.opcode is not Opcode.CONT:
            self._is_text = frame.opcode is Opcode.TEXT
        if not frame.fin or self._fragments:
            # A list of a million one-byte fragments takes forty times as much memory.
            self._fragments += frame.data
        if frame.fin:
            data = bytes(self._fragments) if self._fragments else bytes(frame.data)
            self._fragments = bytearray()
            self._queue(data)

    def _queue(self, data: bytes) -> None:
        if not self._is_connected:
            return
        if len(self._messages) >= WAITING_MESSAGES:
            reason = "too many unprocessed messages: wait for a response before sending more"
            self.close(_TOO_MANY, reason)
            return
        try:
            # A binary message is taken as text, with a replacement for what is none.
            self._messages.append(data.decode("utf-8", "strict" if self._is_text else "replace"))
        except UnicodeDecodeError:
            self._protocol.fail(_INVALID_TEXT, "the message is not UTF-8")
            return
        self._wake()

    def _read_or_pause(self) -> None:
        """Read only after the handshake, and while there is room for messages and for pongs."""
        has_room = not self._messages or not self._is_connected
        should_read = self._is_accepted and self._is_writable and has_room and self._next_parse is None
        set_reading(self._transport, should_read)

    # Sending

    def _flush(self) -> None:
        data = self._protocol.data_to_send()
        if any(data) and not self._transport.is_closing():
            write_all(self._transport, data)

    def pause_writing(self) -> None:
        self._is_writable = False
        self._read_or_pause()

    def resume_writing(self) -> None:
        self._is_writable = True
        self._drained.set()
        self._read_or_pause()

    # Time

    @property
    def _ping_payload(self) -> bytes:
        return self._ping.to_bytes(4, "big")

    def _keep_alive(self) -> None:
        if self._is_ping_answered:
            self._ping += 1
            self._is_ping_answered = False
            self._protocol.send_ping(self._ping_payload)
            self._flush()
            self._unread = self._transport.get_write_buffer_size()
            self._set_timer(PING_SECONDS, self._keep_alive)
        elif self._transport.get_write_buffer_size() < self._unread:
            # It reads, and has not come to the ping yet.
            self._unread = self._transport.get_write_buffer_size()
            self._set_timer(PING_SECONDS, self._keep_alive)
        elif self._transport.get_write_buffer_size():
            self.abort()
        else:
            self._protocol.fail(_NO_PONG, "keepalive ping timeout")
            self._flush()
            self._end()

    def _set_timer(self, seconds: float, callback: Callable[[], None]) -> None:
        self._timer.cancel()
        self._timer = self._loop.call_later(seconds, callback)
