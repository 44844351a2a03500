"""One stream of events over several connections: the request is retried until the first event, and the stream
is resumed after that."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self

from penstock.client.event_reader import EventReader, ReceivedEvent
from penstock.client.retries import Retrier, is_disconnect, log_failure
from penstock.client.surrogates import SurrogateJoiner
from penstock.errors import OpenResponsesError
from penstock.protocol.events import ENDS, Event, LifecycleEvent, UnknownEvent

if TYPE_CHECKING:
    from penstock.net.answer import HttpAnswer

StartStream = Callable[[], Awaitable["HttpAnswer"]]
"""Sends the request that starts the stream."""

ResumeStream = Callable[[str, int], Awaitable["HttpAnswer"]]
"""Requests the rest of the stream: takes the response id and the sequence number of the last known event."""


class UndeliveredEvents(deque[Event]):
    """Events that were read but not delivered yet, with the sequence number of the last delivered event."""

    def __init__(self, last_delivered: int | None) -> None:
        super().__init__()
        self.last_delivered = last_delivered

    def deliver(self) -> Event:
        event = self.popleft()
        if self.last_delivered is None or event.sequence_number > self.last_delivered:
            self.last_delivered = event.sequence_number
        return event


class EventStream:
    """The events of one response, each once and in order; `async for` ends after the last.

    The request is sent when the first event is read. Leaving the `async with` block, `aclose` and cancelling
    the reading task close the connection at once. `aclose` from another task ends the iteration.
    """

    _reader: EventReader | None = None

    def __init__(
        self,
        start: StartStream,
        resume: ResumeStream | None,
        retrier: Retrier,
        resumes: int,
        *,
        response_id: str | None = None,
        starting_after: int | None = None,
    ) -> None:
        self._start = start
        self._resume = resume
        self._retrier = retrier
        self._resumes = resumes
        self._ready = UndeliveredEvents(starting_after)
        self._surrogates = SurrogateJoiner()
        self._is_over = False
        self._is_closed = False
        self._skipped = 0
        self._failures = 0  # before the first event
        self._has_begun = False
        self._is_numbered = True
        self._is_replay = starting_after is not None
        self._last_read = starting_after
        self._response_id = response_id
        self._request_id: str | None = None
        self._failure: OpenResponsesError | None = None  # since the last new event
        self._resumed = 0  # how often since the last new event
        self._reading = asyncio.Lock()
        self._interrupt: asyncio.Timeout | None = None

    @property
    def response_id(self) -> str | None:
        """The id of the response, once an event contained it."""
        return self._response_id

    @property
    def last_sequence(self) -> int | None:
        """The sequence number of the last delivered event, for `starting_after`."""
        return self._ready.last_delivered

    @property
    def skipped(self) -> int:
        """The number of invalid events that were skipped."""
        return self._skipped + (self._reader.skipped if self._reader else 0)

    @property
    def request_id(self) -> str | None:
        """The server's id of the last request for this stream."""
        return self._request_id

    @property
    def is_over(self) -> bool:
        """Whether nothing more will be read: the stream ended, failed or was closed."""
        return self._is_over

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        if not self._ready:
            self._ready.extend(await self.batch())
            if not self._ready:
                raise StopAsyncIteration
        return self._ready.deliver()

    async def batch(self) -> list[Event]:
        """Return all events of the next read that contains any; an empty list after the last event."""
        async with self._reading:
            if self._is_over:
                return []
            try:
                # Moving a deadline stops the waiting task without leaving a cancellation behind.
                async with asyncio.timeout(None) as self._interrupt:
                    events = await self._next_events()
                return [] if self._is_closed else events
            except BaseException as error:
                self._end()
                if isinstance(error, OpenResponsesError):
                    log_failure(error)
                if isinstance(error, TimeoutError) and self._interrupt and self._interrupt.expired():
                    return []
                raise
            finally:
                self._interrupt = None
                if self._is_over:
                    self._drop()  # a connection that was made while the stream was being closed

    async def aclose(self) -> None:
        """Close the connection and end the iteration."""
        self.abandon()
        async with self._reading:
            pass  # the reading task has stopped

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def abandon(self) -> None:
        """Close the stream without waiting for the reading task to stop."""
        self._is_closed = True
        self._ready.clear()
        self._end()
        if self._interrupt is not None and not self._interrupt.expired():
            self._interrupt.reschedule(asyncio.get_running_loop().time())

    def __del__(self) -> None:
        self._drop()  # the caller left its loop without closing the stream

    async def _next_events(self) -> list[Event]:
        while not self._is_over:
            try:
                reader = self._reader or await self._connect()
                events = self._new_events(await reader.read())
            except OpenResponsesError as error:
                failure = error
            else:
                if events:
                    return events
                continue
            self._drop()
            if not self._is_over:
                await self._recover(failure)
        return []

    async def _connect(self) -> EventReader:
        if self._failure is None:
            answer = await self._start()
        else:
            assert self._resume is not None  # `_can_resume` has checked all three
            assert self._response_id is not None
            assert self._last_read is not None
            answer = await self._resume(self._response_id, self._last_read)
        self._request_id = answer.request_id
        self._reader = EventReader(answer, self._surrogates)
        return self._reader

    def _new_events(self, received: list[ReceivedEvent]) -> list[Event]:
        """Return the new events. The last event of a response ends the stream, whatever follows it."""
        events: list[Event] = []
        for event, sequence in received:
            # Some servers ignore `starting_after` and replay everything (client 5).
            if self._is_replay and (sequence is None or sequence <= (self._last_read or 0)):
                continue
            self._note(event, sequence)
            events.append(event)
            if event.type in ENDS:
                if self._reader is not None:
                    self._reader.answer.finish()
                self._end()
                break
        return events

    def _note(self, event: Event, sequence: int | None) -> None:
        self._has_begun = True
        self._failure = None
        if self._response_id is None and isinstance(event, LifecycleEvent):
            self._response_id = event.response.id or None
        if sequence is not None and (self._last_read is None or sequence > self._last_read):
            self._last_read = sequence
        elif sequence is not None or not isinstance(event, UnknownEvent):  # not just a heartbeat
            self._is_numbered = False

    async def _recover(self, failure: OpenResponsesError) -> None:
        """Wait before the next connection; raise if there must be none."""
        if not self._has_begun:
            if not await self._retrier.wait_for_retry(failure, self._failures):
                raise failure
            self._failures += 1
            return
        if self._failure is None:
            if not self._can_resume(failure):
                raise failure
            self._failure, self._resumed = failure, 0
        elif self._resumed >= self._resumes or not is_disconnect(failure):
            raise self._failure from failure
        wait = self._retrier.policy.backoff(self._resumed - 1) if self._resumed else 0.0
        self._resumed += 1
        self._is_replay = True
        await self._retrier.pause(wait, f"the stream broke after event {self._last_read}", failure)

    def _can_resume(self, failure: OpenResponsesError) -> bool:
        """Return whether the stream can be resumed. Sequence numbers are needed to tell new events from old:
        an event that is delivered twice may run a tool twice."""
        known = self._response_id is not None and self._last_read is not None and self._is_numbered
        return known and self._resume is not None and self._resumes > 0 and is_disconnect(failure)

    def _end(self) -> None:
        self._is_over = True
        self._drop()

    def _drop(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            self._skipped += reader.skipped
            reader.close()
