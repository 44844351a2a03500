"""Outlets: where the events of a turn go.

Writing never waits. Usually events are stored, encoded and passed to the client's connection in one call. If
the store must be waited for, or the client reads too slowly, or an event is large, they are queued, and one
task empties the queue. Meanwhile the outlet is not ready, and the turn reads nothing from its upstream.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Protocol

from penstock.gateway.errors import RequestRefused
from penstock.gateway.telemetry.logs import log_fault
from penstock.gateway.turn.verdict import Verdict
from penstock.net.server.channels import ClientChannel
from penstock.protocol.events import TERMINAL, Event, LifecycleEvent
from penstock.protocol.large_json import LONG_TEXT
from penstock.protocol.response import Response
from penstock.protocol.wire import encode
from penstock.store.keeper import Keeper, not_durable_event
from penstock.stream.accents import Accent

Head = Callable[[], list[tuple[str, str]]]
"""Returns the headers of a response that is about to begin, with what is known by then."""

LARGE_ANSWER = 1024 * 1024
"""Bytes from an upstream. Beyond this size, events that repeat the answer are encoded and sent in pieces."""


class StoredEvents:
    """A queue of events that are stored before they are sent. If a caller is cancelled while a batch is being
    stored, the next call returns the same batch."""

    __slots__ = ("_batch", "_keeper", "_verdict", "_waiting")

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


class Outlet(Protocol):
    """Delivers the events of one turn to its client."""

    @property
    def is_ready(self) -> bool:
        """Whether nothing is queued, and the client takes more."""

    def write(self, events: Sequence[Event], *, more: bool = False) -> bool:
        """Send events, after those that are queued; return whether the outlet is ready for more. A terminal
        event is the last one and ends the HTTP response. With `more`, another call follows at once, and they
        may be sent together."""

    def keep(self, events: Sequence[Event]) -> None:
        """Store events without sending them, because the client is disconnected."""

    async def flush(self) -> None:
        """Wait until the outlet is ready; raise what has failed. A caller that is cancelled loses nothing."""

    def refuse(self, refused: RequestRefused) -> None:
        """Send an HTTP error instead; only before anything was written."""

    def send_failure(self, response: Response) -> None:
        """Send only this failed response: the queued events cannot be sent."""


class QueuedOutlet(ABC):
    """An outlet that stores events before it sends them."""

    __slots__ = ("_accent", "_events", "_fault", "_is_queued", "_keeper", "_task", "_verdict")

    def __init__(self, accent: Accent, keeper: Keeper, verdict: Verdict) -> None:
        self._accent, self._keeper, self._verdict = accent, keeper, verdict
        self._events = StoredEvents(keeper, verdict)
        """Events that could not be passed on at once."""
        self._is_queued = False
        """Whether something was queued and is not sent yet."""
        self._task: asyncio.Task[None] | None = None
        """Empties the queue."""
        self._fault: Exception | None = None
        """A bug that the task has run into. It is raised by `flush`."""

    @abstractmethod
    def write(self, events: Sequence[Event], *, more: bool = False) -> bool: ...

    @property
    def is_ready(self) -> bool:
        return not self._is_queued and self._fault is None

    async def flush(self) -> None:
        self._send_held()
        while not self.is_ready:
            if self._fault is not None:
                fault, self._fault = self._fault, None
                raise fault
            if self._is_queued:
                await asyncio.wait([self._start()])
            else:
                await self._drain()

    @abstractmethod
    def refuse(self, refused: RequestRefused) -> None: ...

    @abstractmethod
    def keep(self, events: Sequence[Event]) -> None: ...

    @abstractmethod
    def send_failure(self, response: Response) -> None: ...

    @abstractmethod
    async def _send_stored(self, events: Sequence[Event], *, is_large: bool) -> None:
        """Send events that are stored."""

    def _send_held(self) -> None:  # noqa: B027 - few outlets hold anything back
        """Send what was written with `more`."""

    async def _drain(self) -> None:  # noqa: B027 - not every outlet has a client that it waits for
        """Wait until the client takes more."""

    async def _resume(self) -> None:  # noqa: B027 - few outlets send anything in pieces
        """Send what an interrupted task did not send."""

    def _queue(self, events: Sequence[Event]) -> None:
        self._events.add(events)
        self._is_queued = True
        self._start()

    def _start(self) -> asyncio.Task[None]:
        if self._task is None or self._task.done():  # cancelled: a closing event loop does that
            self._task = asyncio.create_task(self._send_queued())
        return self._task

    async def _send_queued(self) -> None:
        try:
            await self._resume()
            while self._events:
                stored, is_large = await self._events.next()
                await self._send_stored(stored, is_large=is_large)
            self._is_queued = False
        except Exception as error:
            self._fault, self._is_queued = error, bool(self._events)

    def _clear(self) -> None:
        self._events.clear()
        self._is_queued = False

    def _may_pass_on(self, events: Sequence[Event]) -> bool:
        """Return whether events can be stored without waiting, and sent in one piece (see `first_batch`)."""
        keeper = self._keeper
        if keeper.logs_all and not keeper.can_log(events):
            return False
        if self._verdict.bytes_in <= LARGE_ANSWER:
            return events[0].__class__ is not LifecycleEvent or not _has_long_instructions(events[0])
        return all(map(_is_short_delta, events))


class LiveOutlet(QueuedOutlet):
    """Sends events as they arrive. If the client disconnects and the turn continues, they are only stored.
    `channel` is the client's connection; None: there is no client."""

    __slots__ = (
        "_blocked_since",
        "_channel",
        "_clock",
        "has_begun",
        "last_event",
        "last_write",
    )

    def __init__(
        self, accent: Accent, keeper: Keeper, verdict: Verdict, channel: ClientChannel | None
    ) -> None:
        super().__init__(accent, keeper, verdict)
        self._clock = asyncio.get_running_loop().time
        self._channel = channel
        """None if there is no client, or no longer."""
        self.has_begun = False
        """Whether the first event was written."""
        self.last_event = self.last_write = self._clock()
        self._blocked_since: float | None = None
        """Since when the client reads too slowly."""

    @property
    def is_ready(self) -> bool:
        channel = self._channel
        return not self._is_queued and self._fault is None and (channel is None or channel.is_writable)

    def keep(self, events: Sequence[Event]) -> None:
        self.mark_disconnected()
        self.write(events)

    def mark_disconnected(self) -> None:
        """Treat the client as disconnected: from now on, events are only stored."""
        self._channel = None

    def is_stalled(self, longest: float | None) -> bool:
        """Return whether the client has not read for this many seconds. Call it regularly."""
        channel = self._channel
        if channel is None or channel.is_writable:
            self._blocked_since = None
            return False
        now = self._clock()
        since = self._blocked_since = now if self._blocked_since is None else self._blocked_since
        return longest is not None and now - since >= longest

    @abstractmethod
    def comment(self) -> None:
        """Send a heartbeat that is not an event."""

    def send_failure(self, response: Response) -> None:
        self._clear()
        number = self._verdict.last_sequence + 1
        end = LifecycleEvent(type="response.failed", sequence_number=number, response=response)
        self._verdict.last_event, self._verdict.last_sequence = end.type, number
        if self._channel is not None:
            self._transmit([end], [encode(end)])

    def _queue(self, events: Sequence[Event]) -> None:
        self.has_begun = True
        super()._queue(events)

    def write(self, events: Sequence[Event], *, more: bool = False) -> bool:
        # This runs for every chunk of every stream, so it makes as few calls as possible.
        channel = self._channel
        if not events:
            return self.is_ready
        if (
            self._is_queued
            or self._fault is not None
            or not (channel is None or channel.is_writable)
            or not self._may_pass_on(events)
        ):
            self._queue(events)
            return False
        self.has_begun, last = True, events[-1]
        keeper = self._keeper
        if channel is None:
            keeper.log(events)
            self._note(last)
            return True
        accent, sent, encoded = self._accent, [], []
        for event in events:
            change = accent.conversions.get(event.__class__)
            accented = event if change is None else change(accent, event)
            is_snapshot = accented.__class__ is LifecycleEvent
            encoded.append(keeper.json_of(accented) if is_snapshot else encode(accented))
            sent.append(accented)
        if keeper.logs_all or last.type in TERMINAL:
            keeper.log(
                events,
                [json if new is old else None for json, new, old in zip(encoded, sent, events, strict=True)],
            )
        self._verdict.last_event, self._verdict.last_sequence = last.type, last.sequence_number
        self.last_event = self.last_write = self._clock()
        self._transmit(sent, encoded, more)
        return channel.is_writable

    async def _send_stored(self, events: Sequence[Event], *, is_large: bool) -> None:
        self._note(events[-1])
        await self._drain()
        if self._channel is None:
            return
        if is_large:
            await self._send_large(self._accent(events[-1]))
            self.last_event = self.last_write = self._clock()
            return
        sent = [self._accent(event) for event in events]
        self._transmit(sent, [self._keeper.json_of(event) for event in sent])

    def _note(self, last: Event) -> None:
        self._verdict.last_event, self._verdict.last_sequence = last.type, last.sequence_number
        self.last_event = self.last_write = self._clock()

    async def _drain(self) -> None:
        channel = self._channel
        if channel is not None and not channel.is_writable:
            if self._blocked_since is None:
                self._blocked_since = self._clock()
            await channel.drain()
            self._blocked_since = None

    @abstractmethod
    def _transmit(self, events: Sequence[Event], encoded: Sequence[bytes], more: bool = False) -> None:
        """Send events, with their JSON, to a connected client."""

    @abstractmethod
    async def _send_large(self, event: Event) -> None:
        """Send one large event to a connected client, as it reads."""


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
