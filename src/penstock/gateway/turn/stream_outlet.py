"""Sends the events of a turn as server-sent events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from penstock.fairness import WorkSlice
from penstock.gateway.errors import RequestRefused
from penstock.gateway.http.exchange import Exchange
from penstock.gateway.turn.outlets import Head, LiveOutlet
from penstock.gateway.turn.verdict import Verdict
from penstock.protocol.events import TERMINAL, Event
from penstock.protocol.large_json import encode_in_pieces
from penstock.sse import DONE, comment, frame_head, frame_in_pieces
from penstock.store.keeper import Keeper
from penstock.stream.accents import Accent

_COMMENT = comment("waiting for the model")


class StreamOutlet(LiveOutlet):
    """Sends server-sent events. The events of one call are sent in one write of complete frames; a large
    frame is sent piece by piece, as the client reads it."""

    __slots__ = ("_exchange", "_head", "_held", "_http", "_large", "_pieces", "is_open")

    def __init__(
        self, exchange: Exchange, accent: Accent, keeper: Keeper, verdict: Verdict, head: Head
    ) -> None:
        super().__init__(accent, keeper, verdict, exchange.channel)
        self._exchange, self._http = exchange, exchange.channel
        self._head = head
        self._held: list[bytes] = []
        """Parts of frames that are sent with the next ones. They may be large, so they are joined once."""
        self._pieces: Iterator[bytes] = iter(())
        """The rest of a large frame. If the task is interrupted, it must be sent next."""
        self._large: Event | None = None
        """The event in that frame."""
        self.is_open = False

    def _clear(self) -> None:
        """Give up what is queued. A frame that was sent in part is ended: readers skip what is not JSON."""
        super()._clear()
        if self._large is not None:
            self._pieces, self._large = iter(()), None
            self._send(b"\n\n")

    def _transmit(self, events: Sequence[Event], encoded: Sequence[bytes], more: bool = False) -> None:
        last = events[-1]
        is_last = last.type in TERMINAL
        if len(events) == 1 and self.is_open and not (self._held or more or is_last):
            data = b"%b%b\n\n" % (frame_head(last.type), encoded[0])
            self._http.write(data)
            self._verdict.bytes_out += len(data)
            return
        for event, json in zip(events, encoded, strict=True):
            self._held += (frame_head(event.type), json, b"\n\n")
        if is_last:
            self._end(last)
        elif not more:
            self._send()

    def _send_held(self) -> None:
        if self._held:
            self._send()

    async def _send_large(self, event: Event) -> None:
        self._pieces, self._large = frame_in_pieces(event.type, encode_in_pieces(event)), event
        await self._resume()

    async def _resume(self) -> None:
        work = WorkSlice()
        for piece in self._pieces:
            self._send(piece)
            await self._drain()
            await work.pause()
        if self._large is not None and self._large.type in TERMINAL:
            self._end(self._large)
        self._large = None

    def _send(self, data: bytes = b"") -> None:
        """Send what is held, and then this."""
        data = self._with_held(data)
        if self._channel is not None:
            if not self.is_open:
                self._open()
            self._http.write(data)
            self._verdict.bytes_out += len(data)

    def _with_held(self, data: bytes) -> bytes:
        held, self._held = self._held, []
        return b"".join((*held, data)) if held else data

    def _end(self, last: Event) -> None:
        """Send what is held, and end the response."""
        data = self._with_held(DONE)
        if self._channel is None:
            return
        if not self.is_open:
            self._open()
        if last.type == "response.failed":
            # Some clients report a failure only when the connection is closed (decision 9, ask A10).
            self._http.close()
        self._http.end(data)
        self._verdict.bytes_out += len(data)
        self._verdict.terminal_sent = True

    def comment(self) -> None:
        """Send a comment, which proxies count as activity."""
        if not self._verdict.terminal_sent:
            self._send(_COMMENT)
        self.last_write = self._clock()

    def refuse(self, refused: RequestRefused) -> None:
        self._verdict.status = refused.status
        self._exchange.refuse(refused)

    def _open(self) -> None:
        self._exchange.begin(200, [*STREAM_HEADERS, *self._head()])
        self.is_open = True
        self._verdict.status = 200


STREAM_HEADERS = [
    ("content-type", "text/event-stream"),
    # Proxies must not cache, buffer or compress the stream (ask A14).
    ("cache-control", "no-cache, no-transform"),
    ("x-accel-buffering", "no"),
]
