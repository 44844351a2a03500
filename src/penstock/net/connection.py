"""One HTTP/1.1 connection to a server: sends a request, and passes the body of its response on.

Bytes go from `data_received` to the receiver in one call: there is no task, future or timer per chunk.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Protocol, cast

from penstock.net.encodings import BodyDecoder, decoder_for
from penstock.net.flow_control import PIECE, is_readable, set_reading
from penstock.net.idle_clock import IdleClock
from penstock.net.network_errors import TimedOut, Truncated, Unanswered, UndecodableBody
from penstock.net.response_parser import AnswerHead, ResponseParser
from penstock.net.source import SourceCallbacks
from penstock.net.timers import SharedTimers

MOST_WAITING = 64 * 1024
"""Bytes of a body that are kept until there is a receiver. Then the connection stops reading."""
_PIECES_AT_ONCE = 16
"""Then other connections get their turn."""

_HEAD, _FIRST_BYTE, _IDLE, _FINISHING = "head", "first_byte", "idle", "finishing"
"""What the clock measures: the time to the head, to the body's first byte, between bytes, to the end."""


class ConnectionOwner(Protocol):
    """Keeps connections between requests."""

    timers: SharedTimers

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

    def failed(self, error: Exception, refused: bytes = b"") -> None:
        pass


_DISCARD = _Discard()


def _unchanged(error: Exception) -> Exception:
    return error


class UpstreamConnection(asyncio.Protocol):
    """Serves one exchange at a time. Faults are `ConnectionFault` and `OSError`."""

    __slots__ = (
        "_clock",
        "_decoder",
        "_error",
        "_explain",
        "_idle_timeout",
        "_is_congested",
        "_is_held",
        "_is_paused",
        "_limit",
        "_loop",
        "_owner",
        "_parser",
        "_phase",
        "_receiver",
        "_transport",
        "_unsent",
        "_waiter",
        "exchange",
        "route",
    )

    def __init__(self, owner: ConnectionOwner | None = None, route: str = "") -> None:
        self._owner = owner
        self.route = route
        """The proxy through which the server is reached."""
        self.exchange = 0
        """The number of the exchange. An answer with another number has ended: it must not do anything."""
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._parser = ResponseParser()
        self._clock = IdleClock(owner.timers if owner is not None else self._loop, self._time_out)
        self._phase = _HEAD
        self._limit: float | None = None
        """Seconds of the current phase; None is no limit."""
        self._idle_timeout: float | None = None
        self._waiter: asyncio.Future[AnswerHead] | None = None
        """Waits for the head."""
        self._receiver: SourceCallbacks | None = None
        self._explain: Callable[[Exception], Exception] = _unchanged
        self._decoder: BodyDecoder | None = None
        self._error: Exception | None = None
        """Follows what was received before it."""
        self._unsent: memoryview | None = None
        self._is_congested = False
        self._is_paused = False
        """Whether the receiver wants no more for now."""
        self._is_held = False
        """Whether there is enough to pass on without reading more."""

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
        transport = self._transport
        if transport is None or transport.is_closing():
            raise Unanswered
        self._parser.begin(method)
        self._phase, self._limit, self._idle_timeout = _HEAD, first_byte_timeout, idle_timeout
        self._clock.start(first_byte_timeout)
        waiter: asyncio.Future[AnswerHead] = self._loop.create_future()
        self._waiter = waiter
        if len(body) <= PIECE:
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
        self._clock.start(self._limit)
        self._loop.call_soon(self._pass_on_later, self.exchange)

    def pause(self) -> None:
        """Stop reading, and the clock."""
        self._is_paused = True
        self._clock.stop()
        self._update_reading()

    def resume(self) -> None:
        """Continue, and restart the clock."""
        self._clock.start(self._limit)
        if self._is_paused:
            self._is_paused = False
            self._update_reading()
            if self._is_held:
                self._loop.call_soon(self._pass_on_later, self.exchange)

    def stop_clock(self) -> None:
        """Do not measure time until `resume`: nobody waits for the body."""
        self._clock.stop()

    def finish(self, seconds: float) -> None:
        """Read the rest of the body for at most this long, then take the next request; else close."""
        parser = self._parser
        if parser.is_complete or self._error is not None or not parser.is_reusable:
            self.close()
            return
        parser.received.clear()
        self._receiver, self._explain, self._decoder = _DISCARD, _unchanged, None
        self._is_paused = self._is_held = False
        self._phase, self._limit = _FINISHING, seconds
        self._clock.start(seconds)
        self._update_reading()

    def close(self) -> None:
        """End the exchange. The connection is closed, unless the response has been received completely."""
        if self._parser.is_complete and self._error is None:
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
        if self._error is None and not self._parser.is_complete:
            self._error = Unanswered() if self._parser.head is None else Truncated()
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = self._unsent = None
        self._clock.cancel()
        if self._owner is not None:
            self._owner.lost(self)
        parser = self._parser
        if not parser.is_complete and self._error is None:
            if parser.head is None:
                self._error = error or Unanswered()
            elif parser.is_until_close and error is None:
                parser.is_complete = True
            else:
                self._error = error if isinstance(error, ssl.SSLError) else Truncated()
        self._pass_on()

    def data_received(self, data: bytes) -> None:
        parser = self._parser
        if parser.is_complete:  # nothing was asked, or the response has ended
            parser.is_reusable = False
            if parser.head is None:
                self.abort()
            return
        if self._error is None:  # else the connection is being closed
            self._error = parser.feed(data)
            if parser.received:
                if self._phase is _IDLE:
                    self._clock.since = self._loop.time()
                elif self._phase is _FIRST_BYTE:
                    self._phase, self._limit = _IDLE, self._idle_timeout
                    if self._clock.is_on:
                        self._clock.start(self._limit)
            self._pass_on()

    def pause_writing(self) -> None:
        self._is_congested = True

    def resume_writing(self) -> None:
        self._is_congested = False
        self._send_more()

    # -- what is received

    def _pass_on_later(self, exchange: int) -> None:
        if exchange == self.exchange:
            self._pass_on()

    def _pass_on(self) -> None:
        """Pass on what was received: the head, bytes of the body, then its end or the failure."""
        if self._waiter is not None:
            self._answer_waiter(self._waiter)
        receiver = self._receiver
        if receiver is None:
            self._hold_if_full()
            return
        received = self._parser.received
        try:
            if self._decoder is not None:
                if not self._decode(self._decoder, receiver):
                    return
            elif received:
                data = received[0] if len(received) == 1 else b"".join(received)
                received.clear()
                receiver.data(data)
        except UndecodableBody as error:
            self._error = error
        except Exception as error:  # a bug of the receiver, which must not break the connection's callbacks
            self._error, self._explain = error, _unchanged
        if self._receiver is not receiver:
            return  # the receiver has closed or finished the answer
        if self._error is not None:
            failure = self._explain(self._error)
            self.close()
            receiver.failed(failure)
        elif self._parser.is_complete:
            self._release()
            receiver.end()

    def _answer_waiter(self, waiter: asyncio.Future[AnswerHead]) -> None:
        """Return the head to the task that waits for it, or raise the failure there."""
        head = self._parser.head
        if head is None and self._error is None:
            return
        self._waiter = None
        if head is not None:
            if self._unsent:
                # An early response: the server does not wait for the rest of the request, nor do we.
                self._unsent = None
                self._parser.is_reusable = False
            self._decoder = decoder_for(head.headers.get("content-encoding", ""))
            self._clock.stop()
            if self._phase is _HEAD:
                has_body = bool(self._parser.received)
                self._phase = _IDLE if has_body else _FIRST_BYTE
                self._limit = self._idle_timeout if has_body else self._limit
            if not waiter.done():  # else it was cancelled
                waiter.set_result(head)
        elif self._error is not None:
            if not waiter.done():
                waiter.set_exception(self._error)
            self.close()

    def _decode(self, decoder: BodyDecoder, receiver: SourceCallbacks) -> bool:
        """Pass on one decoded piece; return whether everything received was passed on. The rest follows in
        the next turn of the event loop, or when the receiver resumes."""
        received = self._parser.received
        if received:
            decoder.feed(b"".join(received))
            received.clear()
        if decoder.has_more and not self._is_paused:
            if data := decoder.read():
                receiver.data(data)
            if self._receiver is not receiver:
                return False
        self._is_held = decoder.has_more
        self._update_reading()
        if self._is_held:
            if not self._is_paused:
                self._loop.call_soon(self._pass_on_later, self.exchange)
            return False
        if self._parser.is_complete and not decoder.is_complete:
            self._error = Truncated()
        return True

    def _hold_if_full(self) -> None:
        """Stop reading if much of a body has arrived for which there is no receiver yet."""
        if not self._is_held and sum(map(len, self._parser.received)) >= MOST_WAITING:
            self._is_held = True
            self._update_reading()

    def _release(self) -> None:
        """End the exchange, and keep the connection for the next one if that is safe."""
        is_reusable = self._parser.is_reusable and self._owner is not None
        self._end_exchange()
        transport = self._transport
        if transport is None:
            return
        if is_reusable and not transport.is_closing() and not transport.get_write_buffer_size():
            self._update_reading()
            if self._owner is not None:
                self._owner.released(self)
        else:
            transport.abort()

    def _end_exchange(self) -> None:
        self.exchange += 1
        self._receiver = self._waiter = self._decoder = self._unsent = self._error = None
        self._explain = _unchanged
        self._is_paused = self._is_held = False
        self._clock.stop()
        self._parser.begin("")
        self._parser.is_complete = True  # until the next request

    def _update_reading(self) -> None:
        if self._transport is not None:
            set_reading(self._transport, not (self._is_paused or self._is_held))

    def _time_out(self) -> None:
        phase = "idle" if self._phase is _IDLE else "first_byte"
        if self._error is None:
            self._error = TimedOut(phase, self._limit or 0.0)
        self._pass_on()

    # -- what is sent

    def _send_more(self) -> None:
        """Send the next pieces of a large body, as long as the transport accepts them."""
        for _ in range(_PIECES_AT_ONCE):
            transport, unsent = self._transport, self._unsent
            if not unsent or self._is_congested or transport is None or transport.is_closing():
                return
            if is_readable(transport):
                break  # an early response: it would be lost if the server has closed the connection after it
            self._unsent = unsent[PIECE:]
            transport.write(unsent[:PIECE])
        self._loop.call_soon(self._send_more)
