"""Where the events of a turn go: down a stream, or together into one answer."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Protocol

from penstock.gateway.errors import RequestRefused
from penstock.gateway.exchange import Exchange
from penstock.gateway.failures import refusal
from penstock.gateway.stopwatch import Stopwatch
from penstock.gateway.verdict import Verdict
from penstock.protocol.errors import ErrorBody, ErrorPayload
from penstock.protocol.events import TERMINAL, ErrorEvent, Event, LifecycleEvent
from penstock.protocol.wire import encode, to_builtins
from penstock.sse import DONE, comment, encode_frame
from penstock.store.keeping import Keeper
from penstock.stream.accents import Accent

Head = Callable[[], list[tuple[str, str]]]
"""The headers of an answer that is about to begin: what is known by then."""

_COMMENT = comment("waiting for the model")


class Outlet(Protocol):
    """One turn's way to its client."""

    async def write(self, events: Sequence[Event]) -> None:
        """Send events. Those that hold a terminal event are the last, and close the answer."""

    async def keep(self, events: Sequence[Event]) -> None:
        """Keep events that nobody is there to read."""

    async def refuse(self, refused: RequestRefused) -> None:
        """Answer with an HTTP error instead; only before anything was written."""


class LiveOutlet(ABC):
    """Sends events as they come. The client may leave it, and the turn goes on: then they are only kept.

    The turn and its heartbeat both write, so whoever numbers events of the heartbeat must hold `lock`; the
    turn numbers its own before it asks for it, which keeps the order: the lock is fair.
    """

    def __init__(self, accent: Accent, keeper: Keeper, verdict: Verdict, watch: Stopwatch) -> None:
        self._accent, self._keeper, self._verdict, self._watch = accent, keeper, verdict, watch
        self._clock = asyncio.get_running_loop().time
        self._is_left = False
        self.stalled = asyncio.Event()
        """Set when the client takes nothing any more."""
        self.lock = asyncio.Lock()
        self.last_event = self.last_write = self._clock()
        self.writing_since: float | None = None

    async def write(self, events: Sequence[Event]) -> None:
        async with self.lock:
            await self.write_locked(events)

    async def write_locked(self, events: Sequence[Event]) -> None:
        if not events:
            return
        with self._watch.waiting():  # for the store
            events = await self._keeper.keep(events)
        last = events[-1]
        self._verdict.last_event, self._verdict.last_sequence = last.type, last.sequence_number
        if self._is_left:
            self.last_event = self.last_write = self._clock()
            return
        self.writing_since = self._clock()
        with self._watch.waiting():  # for the client to read
            await self._deliver([self._accent(event) for event in events])
        self.writing_since = None
        self.last_event = self.last_write = self._clock()
        self._verdict.terminal_sent = last.type in TERMINAL

    @abstractmethod
    async def _deliver(self, events: list[Event]) -> None:
        """To a client that is there."""

    async def keep(self, events: Sequence[Event]) -> None:
        await self._keeper.keep(events)

    def give_up(self) -> None:
        self.stalled.set()

    def leave(self) -> None:
        """Nobody is there any more."""
        self._is_left = True


class StreamOutlet(LiveOutlet):
    """Server-sent events. What one call is given leaves in one write, in frames that are whole."""

    def __init__(
        self,
        exchange: Exchange,
        accent: Accent,
        keeper: Keeper,
        verdict: Verdict,
        watch: Stopwatch,
        head: Head,
    ) -> None:
        super().__init__(accent, keeper, verdict, watch)
        self._exchange = exchange
        self._head = head
        self._unsent = b""
        """Given to the server in vain: a write that was interrupted while the client did not read."""
        self.is_open = False

    async def _deliver(self, events: list[Event]) -> None:
        data = b"".join([encode_frame(event.type, encode(event)) for event in events])
        last = events[-1]
        is_last = last.type in TERMINAL
        await self._send(data + DONE if is_last else data, is_last)
        if last.type == "response.failed":
            self._exchange.close()  # clients tell of a failure when the connection ends (decisions 9, A10)

    async def comment(self) -> None:
        """A sign of life that proxies count; with the lock held."""
        if not self._is_left:
            self.writing_since = self._clock()
            with self._watch.waiting():
                await self._send(_COMMENT, False)
        self.writing_since = None
        self.last_write = self._clock()

    async def refuse(self, refused: RequestRefused) -> None:
        async with self.lock:
            self._verdict.status = refused.status
            await self._exchange.refuse(refused)

    async def _send(self, data: bytes, is_last: bool) -> None:
        self._unsent += data
        if not self.is_open:
            await self._exchange.begin(200, [*STREAM_HEADERS, *self._head()])
            self.is_open = True
            self._verdict.status = 200
        body = {"type": "http.response.body", "body": self._unsent, "more_body": not is_last}
        await self._exchange.send(body)
        self._verdict.bytes_out += len(self._unsent)
        self._unsent = b""


STREAM_HEADERS = [
    ("content-type", "text/event-stream"),
    # What stands in between must neither keep, nor gather, nor compress it (notes/asks A14).
    ("cache-control", "no-cache, no-transform"),
    ("x-accel-buffering", "no"),
]


class WholeOutlet:
    """One JSON answer at the end."""

    def __init__(
        self, exchange: Exchange, accent: Accent, keeper: Keeper, verdict: Verdict, head: Head
    ) -> None:
        self._exchange = exchange
        self._accent = accent
        self._keeper = keeper
        self._verdict = verdict
        self._head = head
        self._param: str | None = None
        """What the error event named, which a failed response has no room for."""

    async def keep(self, events: Sequence[Event]) -> None:
        await self._keeper.keep(events)

    async def write(self, events: Sequence[Event]) -> None:
        for event in map(self._accent, await self._keeper.keep(events)):
            if isinstance(event, ErrorEvent):
                self._param = event.error.param
            if event.type in TERMINAL and isinstance(event, LifecycleEvent):
                await self._answer(event)

    async def refuse(self, refused: RequestRefused) -> None:
        self._verdict.status = refused.status
        await self._exchange.refuse(refused)

    async def _answer(self, event: LifecycleEvent) -> None:
        """A failure is told by the status, and what had come until then is not lost: it goes along."""
        response, headers, status = event.response, self._head(), 200
        body = encode(response)
        if response.error is not None:
            wait = self._verdict.retry_after or None
            failed = refusal(response.error.code, response.error.message, wait=wait)
            status, headers = failed.status, [*headers, *failed.headers]
            error = ErrorPayload(type=failed.type, code=failed.code, message=failed.message)
            body = encode(ErrorBody(error=error, extra={"response": to_builtins(response)}))
        self._verdict.status, self._verdict.bytes_out = status, len(body)
        self._verdict.last_event, self._verdict.last_sequence = event.type, event.sequence_number
        await self._exchange.answer(status, body, headers=headers)
        self._verdict.terminal_sent = True
