"""One stream of events, across the connections that it may take: sent again before the first event came,
taken up where it broke after that."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self

from penstock.client.event_reader import Arrival, EventReader
from penstock.client.retries import Patience, is_break, log_failure
from penstock.client.surrogates import SurrogateJoiner
from penstock.errors import OpenResponsesError
from penstock.protocol.events import ENDS, Event, LifecycleEvent, UnknownEvent

if TYPE_CHECKING:
    from penstock.net.answer import HttpAnswer

First = Callable[[], Awaitable["HttpAnswer"]]
"""Sends the request that starts the stream."""

Again = Callable[[str, int], Awaitable["HttpAnswer"]]
"""Asks for what came after: the id of the response, and the number of the last event that is known."""


class UndeliveredEvents(deque[Event]):
    """Events that have been read and not given out, with the number of the last that was."""

    def __init__(self, last_given: int | None) -> None:
        super().__init__()
        self.last_given = last_given

    def give(self) -> Event:
        event = self.popleft()
        if self.last_given is None or event.sequence_number > self.last_given:
            self.last_given = event.sequence_number
        return event


class EventStream:
    """The events of one response, in order, each once; `async for` ends after the last.

    Nothing is sent before the first event is asked for. Leaving the `async with`, `aclose` and cancelling the
    task that waits close the connection at once; `aclose` from another task makes the waiting one end.
    """

    _reader: EventReader | None = None

    def __init__(
        self,
        first: First,
        again: Again | None,
        patience: Patience,
        resumes: int,
        *,
        response_id: str | None = None,
        starting_after: int | None = None,
    ) -> None:
        self._first = first
        self._again = again
        self._patience = patience
        self._resumes = resumes
        self._ready = UndeliveredEvents(starting_after)
        self._surrogates = SurrogateJoiner()
        self._is_complete = False  # the last event has come
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
        self._broken: OpenResponsesError | None = None  # since when nothing new has come
        self._resumed = 0  # how often since then
        self._turn = asyncio.Lock()
        self._interrupt: asyncio.Timeout | None = None

    @property
    def response_id(self) -> str | None:
        """The id of the response, once an event has told it."""
        return self._response_id

    @property
    def last_sequence(self) -> int | None:
        """The number of the last event that was given out: what to take up this stream after."""
        return self._ready.last_given

    @property
    def skipped(self) -> int:
        """How many events could not be read."""
        return self._skipped + (self._reader.skipped if self._reader else 0)

    @property
    def request_id(self) -> str | None:
        """What the server calls the last request of this stream."""
        return self._request_id

    @property
    def is_over(self) -> bool:
        """True when nothing more will be read: the end, a failure, or closed."""
        return self._is_over

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        if not self._ready:
            self._ready.extend(await self.batch())
            if not self._ready:
                raise StopAsyncIteration
        return self._ready.give()

    async def batch(self) -> list[Event]:
        """All events of the next read that brings any; an empty list after the last."""
        async with self._turn:
            if self._is_over:
                return []
            try:
                # A deadline that is moved is the way to stop a waiting task that leaves nothing behind in it.
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
        """Close the connection, and end the iteration wherever it is."""
        self.abandon()
        async with self._turn:
            pass  # whoever was waiting has left

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def abandon(self) -> None:
        """The same without waiting for whoever is reading to leave."""
        self._is_closed = True
        self._ready.clear()
        self._end()
        if self._interrupt is not None and not self._interrupt.expired():
            self._interrupt.reschedule(asyncio.get_running_loop().time())

    def __del__(self) -> None:
        self._drop()  # a loop that was left without closing the stream

    async def _next_events(self) -> list[Event]:
        if self._is_complete and self._reader is not None:
            await self._reader.answer.finish()  # not before somebody asks: the last event has been given out
            self._end()
        while not self._is_over:
            try:
                reader = self._reader or await self._connect()
                events = self._unseen(await reader.read())
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
        if self._broken is None:
            answer = await self._first()
        else:
            assert self._again is not None  # `_can_resume` has seen to all three
            assert self._response_id is not None
            assert self._last_read is not None
            answer = await self._again(self._response_id, self._last_read)
        self._request_id = answer.request_id
        self._reader = EventReader(answer, self._surrogates)
        return self._reader

    def _unseen(self, arrivals: list[Arrival]) -> list[Event]:
        """What is new. The last event of a response ends the stream, whatever may come behind it."""
        events: list[Event] = []
        for event, number in arrivals:
            # Some servers take no `starting_after` and play everything again (client 5).
            if self._is_replay and (number is None or number <= (self._last_read or 0)):
                continue
            self._note(event, number)
            events.append(event)
            if event.type in ENDS:
                self._is_complete = True
                if self._reader is None or not self._reader.answer.is_worth_finishing:
                    self._end()
                break
        return events

    def _note(self, event: Event, number: int | None) -> None:
        self._has_begun = True
        self._broken = None
        if self._response_id is None and isinstance(event, LifecycleEvent):
            self._response_id = event.response.id or None
        if number is not None and (self._last_read is None or number > self._last_read):
            self._last_read = number
        elif number is not None or not isinstance(event, UnknownEvent):  # not a mere sign of life
            self._is_numbered = False

    async def _recover(self, failure: OpenResponsesError) -> None:
        """Return when the next connection may be tried; raise when there must be none."""
        if not self._has_begun:
            if not await self._patience.allows_another(failure, self._failures):
                raise failure
            self._failures += 1
            return
        if self._broken is None:
            if not self._can_resume(failure):
                raise failure
            self._broken, self._resumed = failure, 0
        elif self._resumed >= self._resumes or not is_break(failure):
            raise self._broken from failure
        wait = self._patience.policy.backoff(self._resumed - 1) if self._resumed else 0.0
        self._resumed += 1
        self._is_replay = True
        await self._patience.rest(wait, f"the stream broke after event {self._last_read}", failure)

    def _can_resume(self, failure: OpenResponsesError) -> bool:
        """Only where numbers tell old from new: an event that comes twice may run a tool twice."""
        known = self._response_id is not None and self._last_read is not None and self._is_numbered
        return known and self._again is not None and self._resumes > 0 and is_break(failure)

    def _end(self) -> None:
        self._is_over = True
        self._drop()

    def _drop(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            self._skipped += reader.skipped
            reader.close()
