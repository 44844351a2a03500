"""Outlets: where the events of a turn go, as a stream or as one JSON response."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, takewhile
from typing import Protocol

from penstock.fairness import WorkSlice
from penstock.gateway.errors import RequestRefused
from penstock.gateway.http.exchange import Exchange
from penstock.gateway.refusals import refusal
from penstock.gateway.telemetry.logs import log_fault
from penstock.gateway.turn.stopwatch import Stopwatch
from penstock.gateway.turn.verdict import Verdict
from penstock.protocol.errors import ErrorBody, ErrorPayload, ResponseError
from penstock.protocol.events import TERMINAL, ErrorEvent, Event, LifecycleEvent
from penstock.protocol.large_json import LONG_TEXT, encode_in_pieces
from penstock.protocol.response import Response
from penstock.protocol.wire import encode, to_builtins
from penstock.sse import DONE, comment, encode_frame, frame_in_pieces
from penstock.store.keeper import Keeper, not_durable_event
from penstock.stream.accents import Accent

Head = Callable[[], list[tuple[str, str]]]
"""Returns the headers of a response that is about to begin, with what is known by then."""

LARGE_ANSWER = 1024 * 1024
"""Bytes from an upstream. Beyond this size, events that repeat the answer are encoded and sent in pieces."""

_COMMENT = comment("waiting for the model")


class Outlet(Protocol):
    """Delivers the events of one turn to its client."""

    async def write(self, events: Sequence[Event]) -> None:
        """Send events. A terminal event is the last one and ends the HTTP response."""

    async def keep(self, events: Sequence[Event]) -> None:
        """Store events without sending them, because the client is disconnected."""

    async def refuse(self, refused: RequestRefused) -> None:
        """Send an HTTP error instead; only before anything was written."""

    async def send_failure(self, response: Response) -> None:
        """Send only this failed response: the pending events cannot be sent."""


class StoredEvents:
    """A queue of events that are stored before they are sent. If a caller is cancelled while a batch is being
    stored, the next call returns the same batch."""

    def __init__(self, keeper: Keeper, verdict: Verdict) -> None:
        self._keeper, self._verdict = keeper, verdict
        self._waiting: list[Event] = []
        self._batch: tuple[Sequence[Event], bool] | None = None
        """The batch that is being stored, and whether it is large."""

    def __bool__(self) -> bool:
        return bool(self._waiting) or self._batch is not None

    def add(self, events: Sequence[Event]) -> None:
        self._waiting += events

    def clear(self) -> None:
        self._waiting.clear()
        self._batch = None

    async def next(self) -> tuple[Sequence[Event], bool]:
        """Store the next events; return them and whether they are large (`first_batch`). If the store fails,
        the client gets them all the same."""
        if self._batch is None:
            self._batch = first_batch(self._waiting, self._verdict)
            del self._waiting[: len(self._batch[0])]
        events, is_large = self._batch
        try:
            stored = await self._keeper.keep(events, is_large=is_large)
        except Exception as error:
            log_fault(error, self._verdict.request_id)
            stored = [not_durable_event(event) for event in events]
        self._batch = None
        return stored, is_large


class LiveOutlet(ABC):
    """Sends events as they arrive. If the client disconnects and the turn continues, they are only stored.

    The turn and its heartbeat both write. The heartbeat numbers its events while it holds `lock`; the turn
    numbers its own before it waits for the lock. Its events are sent first, even if the heartbeat gets the
    lock first.
    """

    def __init__(self, accent: Accent, keeper: Keeper, verdict: Verdict, watch: Stopwatch) -> None:
        self._accent, self._verdict, self._watch = accent, verdict, watch
        self._clock = asyncio.get_running_loop().time
        self._events = StoredEvents(keeper, verdict)
        """Numbered events that are not sent yet. If a turn is stopped in the middle of a write, the rest
        stays here for its next write."""
        self._is_disconnected = False
        self.stalled = asyncio.Event()
        """Set when the client has stopped reading."""
        self.lock = asyncio.Lock()
        self.has_begun = False
        self.last_event = self.last_write = self._clock()
        self.writing_since: float | None = None

    async def write(self, events: Sequence[Event]) -> None:
        self._events.add(events)
        async with self.lock:
            await self._write_waiting()

    async def write_locked(self, events: Sequence[Event]) -> None:
        self._events.add(events)
        await self._write_waiting()

    async def _write_waiting(self) -> None:
        await self._resume()
        while self._events:
            with self._watch.waiting():  # for the store
                events, is_large = await self._events.next()
            last, self.has_begun = events[-1], True
            self._verdict.last_event, self._verdict.last_sequence = last.type, last.sequence_number
            if not self._is_disconnected:
                self.writing_since = self._clock()
                with self._watch.waiting():  # for the client to read
                    await self._deliver([self._accent(event) for event in events], is_large=is_large)
                self.writing_since = None
                self._verdict.terminal_sent = last.type in TERMINAL
            self.last_event = self.last_write = self._clock()

    @abstractmethod
    async def comment(self) -> None:
        """Send a heartbeat that is not an event. The caller holds the lock."""

    @abstractmethod
    async def _resume(self) -> None:
        """Send what an interrupted write did not send."""

    @abstractmethod
    async def _deliver(self, events: list[Event], *, is_large: bool) -> None:
        """Send events to a connected client."""

    async def keep(self, events: Sequence[Event]) -> None:
        self._events.add(events)
        self.mark_disconnected()
        async with self.lock:
            await self._write_waiting()

    async def send_failure(self, response: Response) -> None:
        self._events.clear()
        number = self._verdict.last_sequence + 1
        end = LifecycleEvent(type="response.failed", sequence_number=number, response=response)
        async with self.lock:
            await self._deliver([end], is_large=False)
        self._verdict.last_event, self._verdict.last_sequence = end.type, number

    def give_up(self) -> None:
        self.stalled.set()

    def mark_disconnected(self) -> None:
        """Treat the client as disconnected: from now on, events are only stored."""
        self._is_disconnected = True


def first_batch(events: list[Event], verdict: Verdict) -> tuple[Sequence[Event], bool]:
    """Return the events to send next, and whether they are large: then it is one event, sent in pieces.

    The model's output is repeated at the end of each part, item and response. So in a large answer, every
    event except the deltas may be large.
    """
    if verdict.bytes_in <= LARGE_ANSWER and not _has_long_instructions(events[0]):
        return events[:], False
    if not _is_short_delta(events[0]):
        return events[:1], True
    return list(takewhile(_is_short_delta, events)), False


def _is_short_delta(event: Event) -> bool:
    delta = getattr(event, "delta", None)
    return isinstance(delta, str) and len(delta) <= LONG_TEXT


def _has_long_instructions(event: Event) -> bool:
    """Return whether a lifecycle event repeats long instructions of the request."""
    if not isinstance(event, LifecycleEvent):
        return False
    instructions = event.response.instructions
    return isinstance(instructions, str) and len(instructions) > LONG_TEXT


class StreamOutlet(LiveOutlet):
    """Sends server-sent events. The events of one call are sent in one write of complete frames; a large
    frame is sent piece by piece, as the client reads it."""

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
        self._rest: Iterator[bytes] = iter(())
        """Pieces to send. An interrupted write leaves the rest of its frame here, which must be sent next."""
        self._unsent = b""
        """The piece that is being sent."""
        self._final: bytes | None = None
        """The piece that ends the response."""
        self.is_open = False

    async def _deliver(self, events: list[Event], *, is_large: bool) -> None:
        last = events[-1]
        ends = last.type in TERMINAL
        if is_large:
            pieces = frame_in_pieces(last.type, encode_in_pieces(last))
            await self._send(DONE if ends else b"", before=pieces, ends=ends)
        else:
            data = b"".join([encode_frame(event.type, encode(event)) for event in events])
            await self._send(data + DONE if ends else data, ends=ends)
        if last.type == "response.failed":
            # Some clients report a failure only when the connection is closed (decision 9, ask A10).
            self._exchange.close()

    async def comment(self) -> None:
        """Send a comment, which proxies count as activity. The caller holds the lock."""
        if not self._is_disconnected:
            self.writing_since = self._clock()
            with self._watch.waiting():
                await self._resume()
                await self._send(_COMMENT)
        self.writing_since = None
        self.last_write = self._clock()

    async def refuse(self, refused: RequestRefused) -> None:
        async with self.lock:
            self._verdict.status = refused.status
            await self._exchange.refuse(refused)

    async def _send(self, data: bytes, *, before: Iterable[bytes] = (), ends: bool = False) -> None:
        self._rest, self._final = chain(before, [data]), data if ends else None
        await self._resume()

    async def _resume(self) -> None:
        work = WorkSlice()
        while (piece := self._unsent or next(self._rest, b"")) and not self._is_disconnected:
            self._unsent = piece
            await self._open()
            self.writing_since = self._clock()
            is_final = piece is self._final
            await self._exchange.send(
                {"type": "http.response.body", "body": piece, "more_body": not is_final}
            )
            self._unsent = b""
            self._verdict.bytes_out += len(piece)
            self._verdict.terminal_sent = is_final
            await work.pause()

    async def _open(self) -> None:
        if not self.is_open:
            await self._exchange.begin(200, [*STREAM_HEADERS, *self._head()])
            self.is_open = True
            self._verdict.status = 200


STREAM_HEADERS = [
    ("content-type", "text/event-stream"),
    # Proxies must not cache, buffer or compress the stream (ask A14).
    ("cache-control", "no-cache, no-transform"),
    ("x-accel-buffering", "no"),
]


class JsonOutlet:
    """Sends one JSON response at the end."""

    def __init__(
        self, exchange: Exchange, accent: Accent, keeper: Keeper, verdict: Verdict, head: Head
    ) -> None:
        self._exchange = exchange
        self._accent = accent
        self._events = StoredEvents(keeper, verdict)
        self._verdict = verdict
        self._head = head
        self._param: str | None = None
        """The `param` of the error event, for which a failed response has no field."""

    async def keep(self, events: Sequence[Event]) -> None:
        self._events.add(events)
        while self._events:
            await self._events.next()

    async def write(self, events: Sequence[Event]) -> None:
        self._events.add(events)
        while self._events:
            stored, _ = await self._events.next()
            for event in map(self._accent, stored):
                if isinstance(event, ErrorEvent):
                    self._param = event.error.param
                if event.type in TERMINAL and isinstance(event, LifecycleEvent):
                    await self._answer(event)

    async def refuse(self, refused: RequestRefused) -> None:
        self._verdict.status = refused.status
        await self._exchange.refuse(refused)

    async def send_failure(self, response: Response) -> None:
        error = response.error or ResponseError(
            code="internal_error", message="internal error in the gateway: see its log"
        )
        await self.refuse(refusal(error.code, error.message))

    async def _answer(self, event: LifecycleEvent) -> None:
        """Send the response. A failure has an HTTP error status, and its body also contains the response with
        the output so far."""
        response, headers, status = event.response, self._head(), 200
        body: Response | ErrorBody = response
        if response.error is not None:
            failed, body = failed_body(
                response, response.error, self._param, self._verdict.retry_after or None
            )
            status, headers = failed.status, [*headers, *failed.headers]
        self._verdict.status = status
        self._verdict.last_event, self._verdict.last_sequence = event.type, event.sequence_number
        if self._verdict.bytes_in > LARGE_ANSWER:
            pieces = partial(encode_in_pieces, body)
            self._verdict.bytes_out = await self._exchange.answer_large(status, pieces, headers=headers)
        else:
            data = encode(body)
            self._verdict.bytes_out = len(data)
            await self._exchange.answer(status, data, headers=headers)
        self._verdict.terminal_sent = True


def failed_body(
    response: Response, error: ResponseError, param: str | None = None, wait: float | None = None
) -> tuple[RequestRefused, ErrorBody]:
    """Return the HTTP error for a failed response that is not streamed, and its body with the output so
    far."""
    failed = refusal(error.code, error.message, wait=wait)
    payload = ErrorPayload(type=failed.type, code=failed.code, message=failed.message, param=param)
    return failed, ErrorBody(error=payload, extra={"response": to_builtins(response)})
