"""What is kept of a turn while it runs. One step of the pipeline: events come by, and go on as they were.

It needs no server: whoever drives a state machine can send its events through here (seed 001). What is kept
of the response is the machine's own snapshot, however it ended.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, Protocol

from msgspec.structs import replace

from penstock.protocol.errors import Diagnostic
from penstock.protocol.events import TERMINAL, Event, LifecycleEvent
from penstock.protocol.items import Item
from penstock.protocol.response import Response
from penstock.protocol.wire import encode
from penstock.store.memories import ReasoningCache, memories_of
from penstock.store.store import Closed, LoggedEvent, Opened, Store, StoredItem, Trace

NOT_DURABLE = Diagnostic(
    code="store_late", message="the response may not survive a restart: the store did not take it in time"
)

_TRACES_AT_ONCE = 64
"""So many reads gather before they are given to the store: a call for each would be most of their cost."""


class Keeper(Protocol):
    """Sees every event of a turn before it is sent."""

    async def keep(self, events: Sequence[Event]) -> Sequence[Event]:
        """The events to send. The first call opens the turn, and the terminal event closes it."""

    def trace(self, trace: Trace) -> None:
        """Something happened towards the upstream."""


class StoreKeeper:
    """Writes a turn into a store. `verdict` gives what is known of a response when it ends, as JSON;
    `context` is what it answers (`memories.context_of`)."""

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

    async def keep(self, events: Sequence[Event]) -> Sequence[Event]:
        if not events:
            return events
        if not self._is_open:
            self._is_open = True
            await self._store.open(_as_told(self._opened, events[0]))
            self._write_traces()
        now, last, id = self._clock(), events[-1], self._opened.id
        logged = [LoggedEvent(event.sequence_number, now, encode(event)) for event in events]
        if last.type not in TERMINAL or not isinstance(last, LifecycleEvent):
            self._store.log(id, logged)
            return events
        self._write_traces()
        for key, data in memories_of(last.response.output, self._context).items():
            await self._store.remember(self._opened.tenant, id, key, data)
        # The terminal frame waits for the commit that holds it (decisions 17).
        if await _whatever_happens(self._close(logged, last.response)):
            return events
        return [*events[:-1], replace(last, response=not_durable(last.response))]

    def trace(self, trace: Trace) -> None:
        self._traces.append(trace)
        # What is no read is rare, and what somebody wants to know of a turn that hangs.
        if self._is_open and (trace.kind != "read" or len(self._traces) >= _TRACES_AT_ONCE):
            self._write_traces()

    def _write_traces(self) -> None:
        traces, self._traces = self._traces, []
        self._store.trace(self._opened.id, traces)

    async def _close(self, logged: Sequence[LoggedEvent], response: Response) -> bool:
        """In one step: a crash between a terminal event and the end leaves a log that belies the record."""
        self._store.log(self._opened.id, logged)
        return await self._store.close(self._opened.id, self._end(response))

    def _end(self, response: Response) -> Closed:
        verdict = self._verdict(response)
        if response.incomplete_details is not None and response.incomplete_details.reason == "cancelled":
            # The stream has no such end, the record does (decisions 6).
            response = replace(response, status="cancelled")
        return Closed(
            status=response.status,
            response=encode(response),
            output=stored_items(response.output),
            verdict=verdict,
        )


class CacheKeeper:
    """For turns that are not stored: only their reasoning is remembered, for a while."""

    def __init__(self, cache: ReasoningCache, tenant: str, context: str = "") -> None:
        self._cache, self._tenant, self._context = cache, tenant, context

    async def keep(self, events: Sequence[Event]) -> Sequence[Event]:
        if events and isinstance(last := events[-1], LifecycleEvent) and last.type in TERMINAL:
            self._cache.remember(self._tenant, last.response.output, self._context)
        return events

    def trace(self, trace: Trace) -> None:
        """A request that is not to be stored leaves none."""


def stored_items(items: Iterable[Item]) -> tuple[StoredItem, ...]:
    """Items of an answer, which have their ids."""
    return tuple(StoredItem(str(item.id), encode(item)) for item in items)


def _as_told(opened: Opened, first: Event) -> Opened:
    """The first snapshot is the one that the client gets: a turn that is queued is not in progress."""
    return replace(opened, response=encode(first.response)) if isinstance(first, LifecycleEvent) else opened


async def _whatever_happens(closing: Coroutine[Any, Any, bool]) -> bool:
    """A turn that is stopped now has ended already: its terminal event is still to be sent."""
    task = asyncio.create_task(closing)
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            if (current := asyncio.current_task()) is not None:
                current.uncancel()
    return task.result()


def not_durable(response: Response) -> Response:
    """For whoever is told of an end that the store has not taken yet."""
    return replace(response, diagnostics=[*(response.diagnostics or []), NOT_DURABLE])
