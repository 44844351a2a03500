"""One HTTP/1.1 connection to a server: sends a request, parses its response, and passes the body on.

Bytes go from `data_received` to the receiver in one call: there is no task, future or timer per chunk.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import NamedTuple, Protocol, cast

import httptools

from penstock.net.encodings import DECODERS, BodyDecoder, InvalidEncoding
from penstock.net.network_errors import InvalidHttp, TimedOut, Truncated, Unanswered, UndecodableBody
from penstock.net.source import SourceCallbacks

MOST_HEAD = 64 * 1024
"""Bytes of a response's head, including informational responses before it; also of its trailers."""
MOST_WAITING = 64 * 1024
"""Bytes of a body that are kept until there is a receiver. Then the connection stops reading."""
_PIECE = 64 * 1024
"""Bytes. A larger request body is sent in pieces of this size."""
_PIECES_AT_ONCE = 16
"""Then other connections get their turn."""

_HEAD, _FIRST_BYTE, _IDLE, _FINISHING = "head", "first_byte", "idle", "finishing"
"""What the clock measures: the time to the head, to the body's first byte, between bytes, to the end."""


class AnswerHead(NamedTuple):
    """The head of a response. Names of headers are in lower case; of repeated headers, the first counts."""

    status: int
    reason: str
    headers: dict[str, str]


class ConnectionOwner(Protocol):
    """Keeps connections between requests."""

    def released(self, connection: UpstreamConnection) -> None:
        """Take a connection that is ready for another request."""

    def lost(self, connection: UpstreamConnection) -> None:
        """Forget a connection that has ended."""


class _Discard:
    """Receives a body that nobody needs."""

    def data(self, data: bytes) -> None:
        pass

    def end(self) -> None:
        pass

    def failed(self, error: Exception) -> None:
        pass


_DISCARD = _Discard()


def _unchanged(error: Exception) -> Exception:
    return error


class UpstreamConnection(asyncio.Protocol):
    """Serves one exchange at a time. `exchange` is its number: an answer whose number differs has ended, and
    must not touch the connection. Faults are `ConnectionFault` and `OSError`."""

    __slots__ = (
        "_bytes_without_content",
        "_clock_is_on",
        "_decoder",
        "_due",
        "_error",
        "_explain",
        "_first_byte_timeout",
        "_head",
        "_head_size",
        "_headers",
        "_idle_timeout",
        "_is_complete",
        "_is_congested",
        "_is_held",
        "_is_informational",
        "_is_paused",
        "_is_reading",
        "_is_reusable",
        "_loop",
        "_method",
        "_owner",
        "_parser",
        "_phase",
        "_reason",
        "_received",
        "_receiver",
        "_since",
        "_timer",
        "_transport",
        "_unsent",
        "_until_close",
        "_waiter",
        "exchange",
        "on_body",
        "route",
    )

    def __init__(self, owner: ConnectionOwner | None = None, route: str = "") -> None:
        self._owner = owner
        self.route = route
        """The proxy through which the server is reached."""
        self.exchange = 0
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._received: list[bytes] = []
        self.on_body = self._received.append
        """Called by the parser for every piece of the body."""
        self._parser = httptools.HttpResponseParser(self)
        # Servers are read as leniently as by other clients; what decides where a body ends is not affected.
        self._parser.set_dangerous_leniencies(
            lenient_headers=True, lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True
        )
        self._timer: asyncio.TimerHandle | None = None
        self._due = self._since = 0.0
        self._is_congested = False
        self._is_reading = True
        self._first_byte_timeout: float | None = None
        self._idle_timeout: float | None = None
        self._begin("")
        self._is_complete = True  # until a request is sent

    def _begin(self, method: str) -> None:
        self._method = method
        self._waiter: asyncio.Future[AnswerHead] | None = None
        self._head: AnswerHead | None = None
        self._headers: list[tuple[bytes, bytes]] = []
        self._reason = b""
        self._head_size = self._bytes_without_content = 0
        self._is_informational = self._until_close = False
        self._is_complete = self._is_reusable = False
        self._error: Exception | None = None
        self._receiver: SourceCallbacks | None = None
        self._explain: Callable[[Exception], Exception] = _unchanged
        self._decoder: BodyDecoder | None = None
        self._unsent: memoryview | None = None
        self._is_paused = self._is_held = False
        self._clock_is_on = False
        self._phase = _HEAD
        self._received.clear()

    # -- one exchange, called by its answer

    async def ask(
        self,
        method: str,
        head: bytes,
        body: bytes = b"",
        *,
        first_byte_timeout: float | None = None,
        idle_timeout: float | None = None,
    ) -> AnswerHead:
        """Send a request and return the head of its response."""
        self.exchange += 1
        self._begin(method)
        self._first_byte_timeout, self._idle_timeout = first_byte_timeout, idle_timeout
        transport = self._transport
        if transport is None or transport.is_closing():
            raise Unanswered
        waiter: asyncio.Future[AnswerHead] = self._loop.create_future()
        self._waiter = waiter
        self._start_clock()
        if len(body) <= _PIECE:
            transport.write(head + body)
        else:
            transport.write(head)
            self._unsent = memoryview(body)
            self._send_more()
        return await waiter

    def start(self, receiver: SourceCallbacks, explain: Callable[[Exception], Exception]) -> None:
        """Pass the body to a receiver from now on. `explain` converts a fault for its `failed`."""
        self._receiver, self._explain = receiver, explain
        self._is_held = False
        self._update_reading()
        self._start_clock()
        self._loop.call_soon(self._pass_on_later, self.exchange)

    def pause(self) -> None:
        """Stop reading, and the clock."""
        self._is_paused = True
        self._clock_is_on = False
        self._update_reading()

    def resume(self) -> None:
        """Continue, and restart the clock."""
        self._start_clock()
        if self._is_paused:
            self._is_paused = False
            self._update_reading()
            if self._decoder is not None and self._receiver is not None:
                self._loop.call_soon(self._pass_on_later, self.exchange)

    def stop_clock(self) -> None:
        """Do not measure time until `resume`: nobody waits for the body."""
        self._clock_is_on = False

    def finish(self, seconds: float) -> None:
        """Read the rest of the body for at most this long, then take the next request; else close."""
        if self._is_complete or self._error is not None or not self._is_reusable:
            self.close()
            return
        self._received.clear()
        self._receiver, self._explain, self._decoder = _DISCARD, _unchanged, None
        self._is_paused = self._is_held = False
        self._phase, self._idle_timeout = _FINISHING, seconds
        self._start_clock()
        self._update_reading()

    def close(self) -> None:
        """End the exchange. The connection is closed, unless the response has been received completely."""
        is_over = self._is_complete and self._error is None
        if self._waiter is not None:
            self._waiter.cancel()
        if is_over:
            self._release()
        else:
            self._end_exchange()
            self.abort()

    # -- the connection itself

    @property
    def transport(self) -> asyncio.Transport | None:
        """The transport; None when the connection has ended."""
        return self._transport

    def abort(self) -> None:
        """Close the connection at once, without waiting for buffers or a TLS shutdown. An exchange fails."""
        if self._error is None and not self._is_complete:
            self._error = Unanswered() if self._head is None else Truncated()
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._unsent = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._owner is not None:
            self._owner.lost(self)
        if not self._is_complete and self._error is None:
            if self._head is None:
                self._error = error or Unanswered()
            elif self._until_close and error is None:
                self._is_complete, self._is_reusable = True, False
            else:
                self._error = error if isinstance(error, ssl.SSLError) else Truncated()
        self._pass_on()

    def data_received(self, data: bytes) -> None:
        if self._error is not None:
            return  # the connection is being closed
        if self._is_complete:  # nothing was asked, or the response has ended
            self._is_reusable = False
            if self._head is None:
                self.abort()
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:  # also for a complete response with something after it
            if not self._is_complete:
                self._error = InvalidHttp() if self._head is None else Truncated()
        if self._received:
            if self._phase is _IDLE:
                self._since = self._loop.time()
            else:
                self._note_first_byte()
            self._bytes_without_content = 0
        else:
            self._bytes_without_content += len(data)
            if self._bytes_without_content > MOST_HEAD and self._error is None and not self._is_complete:
                self._error = InvalidHttp() if self._head is None else Truncated()
        self._pass_on()

    def pause_writing(self) -> None:
        self._is_congested = True

    def resume_writing(self) -> None:
        self._is_congested = False
        self._send_more()

    # -- called by the parser

    def on_message_begin(self) -> None:
        if self._is_complete:
            self._is_reusable = False
            raise InvalidHttp  # stops the parser

    def on_status(self, reason: bytes) -> None:
        self._reason += reason
        self._count(len(reason))

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value))
        if self._head is None:
            self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if 100 <= status < 200 and status != 101:
            self._is_informational = True
            self._headers.clear()
            self._reason = b""
            return
        headers: dict[str, str] = {}
        has_length = is_chunked = False
        for raw, value in self._headers:
            name = raw.decode("utf-8", "surrogateescape").lower()
            if name not in headers:
                headers[name] = value.decode("utf-8", "surrogateescape")
            if name == "content-length":
                has_length = True
            elif name == "transfer-encoding":
                is_chunked = value.lower().rpartition(b",")[2].strip() == b"chunked"
        self._until_close = not has_length and not is_chunked
        self._head = AnswerHead(status, self._reason.decode("utf-8", "replace"), headers)
        self._headers.clear()
        self._head_size = 0
        self._phase = _FIRST_BYTE
        self._clock_is_on = False
        # An early response: the server does not wait for the rest of the request, and neither do we.
        self._is_reusable = not self._unsent and self._parser.should_keep_alive()
        self._unsent = None
        has_no_body = self._method == "HEAD" or (self._method == "CONNECT" and 200 <= status < 300)
        if has_no_body or status == 101:
            self._is_complete, self._is_reusable = True, False
            raise InvalidHttp  # stops the parser, which would read a body
        make = DECODERS.get(headers.get("content-encoding", "").strip().lower())
        self._decoder = make() if make is not None else None

    def on_message_complete(self) -> None:
        if self._is_informational:
            self._is_informational = False
            return
        self._is_complete = True
        self._is_reusable = self._is_reusable and self._parser.should_keep_alive()

    def _count(self, size: int) -> None:
        self._head_size += size
        if self._head_size > MOST_HEAD:
            raise InvalidHttp  # stops the parser

    # -- what is received

    def _pass_on_later(self, exchange: int) -> None:
        if exchange == self.exchange:
            self._pass_on()

    def _pass_on(self) -> None:
        """Pass on what was received: the head, bytes of the body, then its end or the failure."""
        if self._waiter is not None:
            waiter, self._waiter = self._waiter, None
            if not self._settle(waiter):
                self._waiter = waiter
                return
        receiver = self._receiver
        if receiver is None:
            self._hold_if_full()
            return
        try:
            if self._decoder is not None:
                if not self._decode(self._decoder, receiver):
                    return
            elif self._received:
                received = self._received
                data = received[0] if len(received) == 1 else b"".join(received)
                received.clear()
                receiver.data(data)
        except InvalidEncoding:
            assert self._head is not None
            self._error = UndecodableBody(self._head.headers["content-encoding"].strip().lower())
        except Exception as error:  # a bug of the receiver must not end the event loop's callback
            self._error, self._explain = error, _unchanged
        if self._receiver is not receiver:
            return  # it was closed or finished by the receiver
        if self._error is not None:
            self._fail(receiver, self._error)
        elif self._is_complete:
            self._release()
            receiver.end()

    def _settle(self, waiter: asyncio.Future[AnswerHead]) -> bool:
        """Answer the task that waits for the head, if there is something to answer."""
        if waiter.done():  # it was cancelled
            return True
        if self._head is not None:
            waiter.set_result(self._head)
        elif self._error is not None:
            waiter.set_exception(self._error)
            self._end_exchange()
            self.abort()
        else:
            return False
        return True

    def _decode(self, decoder: BodyDecoder, receiver: SourceCallbacks) -> bool:
        """Pass on one decoded piece; return whether everything received was passed on. The rest follows in
        the next turn of the event loop, or when the receiver resumes."""
        if self._received:
            decoder.feed(b"".join(self._received))
            self._received.clear()
        if decoder.has_more and not self._is_paused:
            data = decoder.read()
            if data:
                receiver.data(data)
            if self._receiver is not receiver:
                return False
        self._is_held = decoder.has_more
        self._update_reading()
        if self._is_held:
            if not self._is_paused:
                self._loop.call_soon(self._pass_on_later, self.exchange)
            return False
        if self._is_complete and not decoder.is_complete and self._error is None:
            self._error = Truncated()
        return True

    def _hold_if_full(self) -> None:
        """Stop reading if much of a body has arrived for which there is no receiver yet."""
        if not self._is_held and self._received and sum(map(len, self._received)) >= MOST_WAITING:
            self._is_held = True
            self._update_reading()

    def _fail(self, receiver: SourceCallbacks, error: Exception) -> None:
        explain = self._explain
        self._end_exchange()
        self.abort()
        receiver.failed(explain(error))

    def _release(self) -> None:
        """End the exchange, and keep the connection for the next one if that is safe."""
        transport = self._transport
        is_reusable = self._is_reusable
        self._end_exchange()
        if transport is None:
            return
        if (
            not is_reusable
            or self._owner is None
            or transport.is_closing()
            or transport.get_write_buffer_size()
        ):
            transport.abort()
            return
        self._update_reading()
        self._owner.released(self)

    def _end_exchange(self) -> None:
        self.exchange += 1
        self._receiver = self._waiter = self._head = self._decoder = self._unsent = None
        self._explain = _unchanged
        self._received.clear()
        self._is_complete = True
        self._is_paused = self._is_held = self._clock_is_on = False

    def _update_reading(self) -> None:
        is_wanted = not (self._is_paused or self._is_held)
        transport = self._transport
        if is_wanted is self._is_reading or transport is None or transport.is_closing():
            return
        self._is_reading = is_wanted
        if is_wanted:
            transport.resume_reading()
        else:
            transport.pause_reading()

    # -- what is sent

    def _send_more(self) -> None:
        """Send the next pieces of a large body, as long as the transport accepts them."""
        transport = self._transport
        for _ in range(_PIECES_AT_ONCE):
            if not self._unsent or self._is_congested or transport is None:
                return
            transport.write(self._unsent[:_PIECE])
            if self._unsent:  # the write may have failed, and ended the exchange
                self._unsent = self._unsent[_PIECE:]
        self._loop.call_soon(self._send_more)

    # -- the clock

    @property
    def _limit(self) -> float | None:
        return self._first_byte_timeout if self._phase in (_HEAD, _FIRST_BYTE) else self._idle_timeout

    def _start_clock(self) -> None:
        """Measure the time from now on. A timer that is due earlier stays: it looks at the time again."""
        self._clock_is_on = True
        self._since = self._loop.time()
        limit = self._limit
        if limit is None or self._transport is None:
            return
        due = self._since + limit
        if self._timer is not None:
            if self._due <= due:
                return
            self._timer.cancel()
        self._due = due
        self._timer = self._loop.call_at(due, self._check_clock)

    def _note_first_byte(self) -> None:
        if self._phase is _FIRST_BYTE:
            self._phase = _IDLE
            if self._clock_is_on:
                self._start_clock()

    def _check_clock(self) -> None:
        self._timer = None
        limit = self._limit
        if not self._clock_is_on or limit is None:
            return
        self._due = self._since + limit
        if self._loop.time() < self._due:
            self._timer = self._loop.call_at(self._due, self._check_clock)
            return
        self._error = TimedOut("idle" if self._phase is _IDLE else "first_byte", limit)
        self._pass_on()
