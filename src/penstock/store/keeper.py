"""What is kept of a turn while it runs. One step of the pipeline: events come by, and go on as they were.

It needs no server: whoever drives a state machine can send its events through here. What is kept
of the response is the machine's own snapshot, however it ended.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from msgspec.structs import replace

from penstock.fairness import encode_large
from penstock.protocol.errors import Diagnostic
from penstock.protocol.events import TERMINAL, Event, LifecycleEvent
from penstock.protocol.items import Item
from penstock.protocol.response import Response
from penstock.protocol.wire import encode
from penstock.store.contract import Closed, LoggedEvent, Opened, Store, StoredItem, Trace
from penstock.store.reasoning_memory import ReasoningCache, reasoning_by_call

NOT_DURABLE = Diagnostic(
    code="store_late", message="the response may not survive a restart: the store did not take it in time"
)

_PATIENCE = 0.1
"""Seconds that the first event waits for the disk. After that it goes out with `NOT_DURABLE`."""
_BACKGROUND_PATIENCE = 5.0
"""Seconds that a background turn waits for the disk before it is refused."""
_BACKLOG = 8 * 1024 * 1024
"""Bytes of events that a turn may log before it waits for the disk to catch up."""
_BACKLOG_PATIENCE = 1.0
_LARGE_PATIENCE = 15.0
"""Seconds that the end of a large response waits for the disk."""
_TRACES_AT_ONCE = 64
"""So many reads gather before they are given to the store: a call for each would be most of their cost."""


class Keeper(Protocol):
    """Sees every event of a turn before it is sent."""

    diagnostics: list[Diagnostic]
    """What a client has to know, as of the last event, about how the response is kept."""

    async def keep(self, events: Sequence[Event], *, is_large: bool = False) -> Sequence[Event]:
        """The events to send. The first call opens the turn, and the terminal event closes it. A large event
        comes alone, and waits until the store has taken it: memory holds one at a time. A caller that is
        cancelled meanwhile calls again with the same list, and gets the result of the same work.

        `StoreError` when a background turn cannot be opened: then nothing of it is kept.
        """

    def trace(self, trace: Trace) -> None:
        """Something happened towards the upstream."""


class StoreKeeper:
    """Writes a turn into a store. `verdict` gives what is known of a response when it ends, as JSON;
    `context` is what it answers (`reasoning_memory.context_of`)."""

    def __init__(
        self,
        store: Store,
        opened: Opened,
        *,
        clock: Callable[[], float] = time.time,
        verdict: Callable[[Response], bytes] = lambda _: b"",
        context: str = "",
    ) -> None:
        self._store, self._opened, self._context = store, opened, context
        self._clock, self._verdict = clock, verdict
        self._traces: list[Trace] = []
        self._is_open = False
        self._unsettled = 0
        """Bytes of events since the store was last waited for."""
        self._unfinished: tuple[Sequence[Event], asyncio.Task[Sequence[Event]]] | None = None
        """Events that are being kept. If their caller was cancelled, it may come back for the result."""
        self.diagnostics: list[Diagnostic] = []

    async def keep(self, events: Sequence[Event], *, is_large: bool = False) -> Sequence[Event]:
        if self._unfinished is not None and self._unfinished[0] is not events:
            await self._finish()  # whoever was cancelled did not come back: the order stays all the same
        if self._unfinished is None:
            if not events:
                return events
            if self._can_log(events, is_large):
                self._log(events)
                return events
            self._unfinished = events, asyncio.create_task(self._keep(events, is_large))
        return await self._finish()

    async def _finish(self) -> Sequence[Event]:
        """The work goes on when the caller is cancelled: the events may be in the store, and are to be
        sent."""
        assert self._unfinished is not None
        try:
            kept = await asyncio.shield(self._unfinished[1])
        except Exception:
            self._unfinished = None
            raise
        self._unfinished = None
        return kept

    def _can_log(self, events: Sequence[Event], is_large: bool) -> bool:
        """Deltas do not wait for the disk (decision 17), unless they come much faster than it writes."""
        if not self._is_open or is_large or self._unsettled > _BACKLOG or events[-1].type in TERMINAL:
            return False
        return not self.diagnostics or not any(isinstance(event, LifecycleEvent) for event in events)

    async def _keep(self, events: Sequence[Event], is_large: bool) -> Sequence[Event]:
        if not self._is_open:
            await self._open(events[0])
        if self._unsettled > _BACKLOG:
            self._unsettled = 0
            await self._store.settle(self._opened.id, patience=_BACKLOG_PATIENCE)
        if self.diagnostics and any(isinstance(event, LifecycleEvent) for event in events):
            events = await self._with_diagnostics(events)
        last = events[-1]
        if is_large:
            await self._log_large(last)
        if not isinstance(last, LifecycleEvent) or last.type not in TERMINAL:
            if not is_large:
                self._log(events)
            return events
        self._write_traces()
        for key, data in reasoning_by_call(last.response.output, self._context).items():
            await self._store.remember(self._opened.tenant, self._opened.id, key, data)
        # The terminal frame waits for the commit that holds it (decision 17).
        closing = self._close_large(last.response) if is_large else self._close(events, last.response)
        is_durable = await closing
        self.diagnostics = [] if is_durable else [NOT_DURABLE]
        return events if is_durable else [*events[:-1], not_durable_event(last)]

    def _log(self, events: Sequence[Event]) -> None:
        logged = self._logged(events)
        self._store.log(self._opened.id, logged)
        self._unsettled += sum([len(event.data) for event in logged])

    def _logged(self, events: Sequence[Event]) -> list[LoggedEvent]:
        now = self._clock()
        return [LoggedEvent(event.sequence_number, now, encode(event)) for event in events]

    async def _log_large(self, event: Event) -> None:
        await self._store.settle(self._opened.id)
        data = await encode_large(event)
        self._store.log(self._opened.id, [LoggedEvent(event.sequence_number, self._clock(), data)])
        del data
        await self._store.settle(self._opened.id)

    async def _open(self, first: Event) -> None:
        self._is_open = True
        patience = _BACKGROUND_PATIENCE if self._opened.is_background else _PATIENCE
        opened = _with_first_snapshot(self._opened, first)
        is_durable = await self._store.open(opened, patience=patience)
        self.diagnostics = [] if is_durable else [NOT_DURABLE]
        self._write_traces()

    async def _with_diagnostics(self, events: Sequence[Event]) -> Sequence[Event]:
        """The turn began before it was in the store. Until it is, every snapshot says so, except that of the
        terminal event: `close` decides what that one says."""
        stored = await self._store.get(self._opened.tenant, self._opened.id)
        if stored is not None and stored.is_durable:
            self.diagnostics = []
            return events
        return [event if event.type in TERMINAL else not_durable_event(event) for event in events]

    def trace(self, trace: Trace) -> None:
        self._traces.append(trace)
        # What is no read is rare, and what somebody wants to know of a turn that hangs.
        if self._is_open and (trace.kind != "read" or len(self._traces) >= _TRACES_AT_ONCE):
            self._write_traces()

    def _write_traces(self) -> None:
        traces, self._traces = self._traces, []
        self._store.trace(self._opened.id, traces)

    async def _close(self, events: Sequence[Event], response: Response) -> bool:
        """In one step: a crash between a terminal event and the end leaves a log that belies the record."""
        self._store.log(self._opened.id, self._logged(events))
        end = self._end(response, encode(_as_recorded(response)), stored_items(response.output))
        return await self._store.close(self._opened.id, end)

    async def _close_large(self, response: Response) -> bool:
        """The terminal event is in the log already: after a crash the end is taken from there."""
        body = await encode_large(_as_recorded(response))
        items = [StoredItem(str(item.id), await encode_large(item)) for item in response.output]
        end = self._end(response, body, tuple(items))
        return await self._store.close(self._opened.id, end, patience=_LARGE_PATIENCE)

    def _end(self, response: Response, body: bytes, output: tuple[StoredItem, ...]) -> Closed:
        status = _as_recorded(response).status
        return Closed(status=status, response=body, output=output, verdict=self._verdict(response))


class CacheKeeper:
    """For turns that are not stored: only their reasoning is remembered, for a while."""

    def __init__(self, cache: ReasoningCache, tenant: str, context: str = "") -> None:
        self._cache, self._tenant, self._context = cache, tenant, context
        self.diagnostics: list[Diagnostic] = []

    async def keep(
        self,
        events: Sequence[Event],
        *,
        is_large: bool = False,  # noqa: ARG002 - nothing is encoded
    ) -> Sequence[Event]:
        if events and isinstance(last := events[-1], LifecycleEvent) and last.type in TERMINAL:
            self._cache.remember(self._tenant, last.response.output, self._context)
        return events

    def trace(self, trace: Trace) -> None:
        """A request that is not to be stored leaves none."""


def stored_items(items: Iterable[Item]) -> tuple[StoredItem, ...]:
    """Items of an answer, which have their ids."""
    return tuple(StoredItem(str(item.id), encode(item)) for item in items)


def _as_recorded(response: Response) -> Response:
    """The stream has no end called `cancelled`; the record has (decision 6)."""
    if response.incomplete_details is not None and response.incomplete_details.reason == "cancelled":
        return replace(response, status="cancelled")
    return response


def _with_first_snapshot(opened: Opened, first: Event) -> Opened:
    """The first snapshot is the one that the client gets: a turn that is queued is not in progress."""
    return replace(opened, response=encode(first.response)) if isinstance(first, LifecycleEvent) else opened


def not_durable(response: Response) -> Response:
    """A response as it is shown while the store has not taken it."""
    return replace(response, diagnostics=[*(response.diagnostics or []), NOT_DURABLE])


def not_durable_event(event: Event) -> Event:
    return (
        replace(event, response=not_durable(event.response)) if isinstance(event, LifecycleEvent) else event
    )
