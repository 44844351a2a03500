"""What is kept of a turn while it runs. One step of the pipeline: events come by, and go on as they were."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol

import msgspec
from msgspec.structs import replace

from penstock.gateway.history import stored_items
from penstock.protocol.errors import Diagnostic
from penstock.protocol.events import TERMINAL, Event, LifecycleEvent
from penstock.protocol.response import Response
from penstock.protocol.wire import encode
from penstock.store.store import Closed, LoggedEvent, Opened, Store

NOT_DURABLE = Diagnostic(
    code="store_late", message="the response may not survive a restart: the store did not take it in time"
)


class Keeper(Protocol):
    """Sees every event of a turn before it is sent."""

    async def keep(self, events: Sequence[Event]) -> Sequence[Event]:
        """The events to send. The first call opens the turn, and the terminal event closes it."""


class NoKeeper:
    """For turns that are not stored."""

    async def keep(self, events: Sequence[Event]) -> Sequence[Event]:
        return events


class StoreKeeper:
    """Writes a turn into a store. `verdict` gives what is known when it ends."""

    def __init__(
        self, store: Store, opened: Opened, clock: Callable[[], float], verdict: Callable[[], bytes]
    ) -> None:
        self._store, self._opened = store, opened
        self._clock, self._verdict = clock, verdict
        self._is_open = False

    async def keep(self, events: Sequence[Event]) -> Sequence[Event]:
        if not events:
            return events
        if not self._is_open:
            self._is_open = True
            await self._store.open(self._opened)
        now, id = self._clock(), self._opened.id
        self._store.log(id, [LoggedEvent(event.sequence_number, now, encode(event)) for event in events])
        last = events[-1]
        if last.type not in TERMINAL or not isinstance(last, LifecycleEvent):
            return events
        # The terminal frame waits for the commit that holds it (decisions 17).
        if await _whatever_happens(self._store.close(id, self._end(last.response))):
            return events
        return [*events[:-1], _with_diagnostic(last)]

    def _end(self, response: Response) -> Closed:
        status = response.status
        if response.incomplete_details is not None and response.incomplete_details.reason == "cancelled":
            status = "cancelled"  # the stream has no such end, the record does (decisions 6)
            response = replace(response, status=status)
        return Closed(
            status=status,
            response=encode(response),
            output=stored_items(response.output),
            verdict=self._verdict(),
        )


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


def _with_diagnostic(event: LifecycleEvent) -> LifecycleEvent:
    told = [*(event.response.diagnostics or []), NOT_DURABLE]
    return replace(event, response=replace(event.response, diagnostics=told))


def as_json(fields: dict[str, object]) -> bytes:
    return msgspec.json.encode(fields)
