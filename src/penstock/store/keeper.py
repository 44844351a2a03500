"""Stores a turn while it runs. It is one step of the pipeline: events pass through unchanged.

It needs no server: any code that drives a state machine can send its events through a keeper. The stored
response is the state machine's own snapshot, however the turn ended.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from msgspec.structs import replace

from penstock.fairness import encode_large
from penstock.protocol.errors import Diagnostic
from penstock.protocol.events import ITEM_DONE, TERMINAL, Event, LifecycleEvent, response_in
from penstock.protocol.items import Item
from penstock.protocol.response import Response
from penstock.protocol.snapshots import SnapshotEncoder
from penstock.protocol.wire import encode
from penstock.store.contract import Store
from penstock.store.reasoning_memory import ReasoningCache, has_reasoning, reasoning_by_call
from penstock.store.records import Closed, LoggedEvent, Opened, StoredItem, Trace

NOT_DURABLE = Diagnostic(
    code="store_late", message="the response may not survive a restart: the store did not write it in time"
)

_PATIENCE = 0.1
"""Seconds that the first event waits for the disk. After that it is sent with `NOT_DURABLE`."""
_BACKGROUND_PATIENCE = 5.0
"""Seconds that a background turn waits for the disk before it is refused."""
_BACKLOG = 8 * 1024 * 1024
"""Bytes of events that a turn may log before it waits for the disk to catch up."""
_BACKLOG_PATIENCE = 1.0
_LARGE_PATIENCE = 15.0
"""Seconds that the end of a large response waits for the disk."""
_TRACES_AT_ONCE = 64
"""Reads are passed to the store in groups of this size: a call for each would be most of their cost."""


class Keeper(Protocol):
    """Receives every event of a turn before it is sent."""

    diagnostics: list[Diagnostic]
    """Diagnostics for the client, as of the last event, about how the response is stored."""

    logs_all: bool
    """Whether every event must be logged. Otherwise only the terminal event matters, and nothing waits."""

    def can_log(self, events: Sequence[Event]) -> bool:
        """Return whether events can be stored without waiting, with `log`."""

    def log(self, events: Sequence[Event], encoded: Sequence[bytes | None] = ()) -> None:
        """Store events at once. `encoded` has the JSON of those events that are already encoded."""

    async def keep(self, events: Sequence[Event], *, is_large: bool = False) -> Sequence[Event]:
        """Store events and return the events to send. The first call opens the turn, and the terminal event
        closes it. A large event must be passed alone, and is written before this returns, so that memory
        holds one at a time. A caller that is cancelled may call again with the same list, and gets the same
        result.

        Raise `StoreError` if a background turn cannot be opened: then nothing is stored.
        """

    def json_of(self, event: Event) -> bytes:
        """Return the JSON of an event of this response, in any accent. It is encoded only if it is not one of
        the last events kept."""

    def trace(self, trace: Trace) -> None:
        """Store one step of the exchange with the upstream."""


class StoreKeeper:
    """Writes a turn to a store. `verdict` returns the verdict on a response when it ends, as JSON; `context`
    returns what identifies the input that it answers (`reasoning_memory.context_of`). `on_open` is called
    when the turn can be read from the store. With `cache`, the reasoning is remembered there and not in the
    store. `stored_until` is set for a turn that is in the store already, with its events up to this one."""

    logs_all = True

    def __init__(
        self,
        store: Store,
        opened: Opened,
        *,
        clock: Callable[[], float] = time.time,
        verdict: Callable[[Response], bytes] = lambda _: b"",
        context: Callable[[], str] = str,
        cache: ReasoningCache | None = None,
        on_open: Callable[[], None] = lambda: None,
        stored_until: int | None = None,
    ) -> None:
        self._store, self._opened, self._context = store, opened, context
        self._clock, self._verdict = clock, verdict
        self._cache, self._on_open = cache, on_open
        self._traces: list[Trace] = []
        self._is_open = stored_until is not None
        self._stored_until = -1 if stored_until is None else stored_until
        self._unsettled = 0
        """Bytes of events since the last wait for the store."""
        self._unfinished: tuple[Sequence[Event], asyncio.Task[Sequence[Event]]] | None = None
        """Events that are being stored. A caller that was cancelled may call again for the result."""
        self._encoder = SnapshotEncoder()
        self._logged: Sequence[Event] = ()
        """The events that were logged last: their client gets the same JSON."""
        self._encoded: dict[int, bytes] = {}
        """Their JSON by their identities, which are unique because the events are kept."""
        self.diagnostics: list[Diagnostic] = []

    async def keep(self, events: Sequence[Event], *, is_large: bool = False) -> Sequence[Event]:
        if self._unfinished is not None and self._unfinished[0] is not events:
            await self._finish()  # a cancelled caller did not call again: keep the order of events anyway
        if self._unfinished is None:
            if not events:
                return events
            if not is_large and self.can_log(events):
                self.log(events)
                return events
            self._unfinished = events, asyncio.create_task(self._keep(events, is_large))
        return await self._finish()

    async def _finish(self) -> Sequence[Event]:
        """Wait for the unfinished work. It continues when the caller is cancelled, because the events may
        already be in the store, and then they must be sent."""
        assert self._unfinished is not None
        try:
            events = await asyncio.shield(self._unfinished[1])
        except Exception:
            self._unfinished = None
            raise
        self._unfinished = None
        return events

    def can_log(self, events: Sequence[Event]) -> bool:
        """Deltas do not wait for the disk (decision 17), unless they arrive much faster than it writes."""
        if not self._is_open or self._unfinished is not None or self._unsettled > _BACKLOG:
            return False
        if events[-1].type in TERMINAL:
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
                self.log(events)
            return events
        self._write_traces()
        await self._remember(last.response)
        # The terminal frame waits for the commit that holds it (decision 17).
        closing = self._close_large(last.response) if is_large else self._close(events, last.response)
        is_durable = await closing
        self.diagnostics = [] if is_durable else [NOT_DURABLE]
        return events if is_durable else [*events[:-1], not_durable_event(last)]

    async def _remember(self, response: Response) -> None:
        """Remember which reasoning led to which call (ask C1)."""
        if not has_reasoning(response.output):
            return
        if self._cache is not None:
            self._cache.remember(self._opened.tenant, response.output, self._context())
            return
        for key, data in reasoning_by_call(response.output, self._context()).items():
            await self._store.remember(self._opened.tenant, self._opened.id, key, data)

    def log(self, events: Sequence[Event], encoded: Sequence[bytes | None] = ()) -> None:
        json = [
            self.json_of(event) if given is None else given
            for event, given in zip(events, encoded or (None,) * len(events), strict=True)
        ]
        now, ends_item = self._clock(), False
        logged = []
        for event, data in zip(events, json, strict=True):
            if event.sequence_number <= self._stored_until:
                continue
            logged.append(LoggedEvent(event.sequence_number, now, data))
            self._unsettled += len(data)
            ends_item = ends_item or event.type == ITEM_DONE
        if encoded:
            self._logged, self._encoded = (), {}
        else:
            self._logged, self._encoded = [*events], dict(zip(map(id, events), json, strict=True))
        self._store.log(self._opened.id, logged, soon=ends_item)

    def json_of(self, event: Event) -> bytes:
        return self._encoded.get(id(event)) or self._encoder.encode(event)

    async def _log_large(self, event: Event) -> None:
        await self._store.settle(self._opened.id)
        data = await encode_large(event)
        self._store.log(self._opened.id, [LoggedEvent(event.sequence_number, self._clock(), data)])
        del data
        await self._store.settle(self._opened.id)

    async def _open(self, first: Event) -> None:
        self._is_open = True
        patience = _BACKGROUND_PATIENCE if self._opened.is_background else _PATIENCE
        opened = self._opened
        if isinstance(first, LifecycleEvent):  # the first snapshot that the client gets: it may be `queued`
            self._logged, self._encoded = [first], {id(first): self._encoder.encode(first)}
            opened = replace(opened, response=response_in(self.json_of(first)))
        is_durable = await self._store.open(opened, patience=patience)
        self._on_open()
        self.diagnostics = [] if is_durable else [NOT_DURABLE]
        self._write_traces()

    async def _with_diagnostics(self, events: Sequence[Event]) -> Sequence[Event]:
        """Add `NOT_DURABLE` to every snapshot until the start of the turn is in the store. The terminal event
        is left to `close`."""
        stored = await self._store.get(self._opened.tenant, self._opened.id)
        if stored is not None and stored.is_durable:
            self.diagnostics = []
            return events
        return [event if event.type in TERMINAL else not_durable_event(event) for event in events]

    def trace(self, trace: Trace) -> None:
        self._traces.append(trace)
        # Other traces are rare, and needed to debug a turn that hangs: they are written at once.
        if self._is_open and (trace.kind != "read" or len(self._traces) >= _TRACES_AT_ONCE):
            self._write_traces()

    def _write_traces(self) -> None:
        traces, self._traces = self._traces, []
        self._store.trace(self._opened.id, traces)

    async def _close(self, events: Sequence[Event], response: Response) -> bool:
        """Log the terminal event and close in one commit: after a crash between the two, the log would
        contradict the record."""
        self.log(events)
        recorded = _as_recorded(response)
        body = response_in(self.json_of(events[-1])) if recorded is response else encode(recorded)
        end = self._end(response, body, stored_items(response.output))
        return await self._store.close(self._opened.id, end)

    async def _close_large(self, response: Response) -> bool:
        """Close a turn whose terminal event is logged already: after a crash the end is read from the log."""
        body = await encode_large(_as_recorded(response))
        items = [StoredItem(str(item.id), await encode_large(item)) for item in response.output]
        end = self._end(response, body, tuple(items))
        return await self._store.close(self._opened.id, end, patience=_LARGE_PATIENCE)

    def _end(self, response: Response, body: bytes, output: tuple[StoredItem, ...]) -> Closed:
        status = _as_recorded(response).status
        return Closed(status=status, response=body, output=output, verdict=self._verdict(response))


class CacheKeeper:
    """For turns that are not stored: remembers only their reasoning, for a limited time."""

    __slots__ = ("_cache", "_context", "_encoder", "_tenant", "diagnostics")

    logs_all = False

    def __init__(self, cache: ReasoningCache, tenant: str, context: Callable[[], str] = str) -> None:
        self._cache, self._tenant, self._context = cache, tenant, context
        self._encoder = SnapshotEncoder()
        self.diagnostics: list[Diagnostic] = []

    def can_log(self, events: Sequence[Event]) -> bool:  # noqa: ARG002 - nothing is written
        return True

    def log(self, events: Sequence[Event], encoded: Sequence[bytes | None] = ()) -> None:  # noqa: ARG002
        last = events[-1]
        if isinstance(last, LifecycleEvent) and last.type in TERMINAL and has_reasoning(last.response.output):
            self._cache.remember(self._tenant, last.response.output, self._context())

    async def keep(
        self,
        events: Sequence[Event],
        *,
        is_large: bool = False,  # noqa: ARG002 - nothing is encoded
    ) -> Sequence[Event]:
        if events:
            self.log(events)
        return events

    def json_of(self, event: Event) -> bytes:
        return self._encoder.encode(event)

    def trace(self, trace: Trace) -> None:
        """Discard the trace: a turn that is not stored leaves none."""


def stored_items(items: Iterable[Item]) -> tuple[StoredItem, ...]:
    """Return the output items of a response, which all have ids, for the store."""
    return tuple(StoredItem(str(item.id), encode(item)) for item in items)


def _as_recorded(response: Response) -> Response:
    """Return a response as it is stored. The status `cancelled` exists in the record but not in the stream
    (decision 6)."""
    if response.incomplete_details is not None and response.incomplete_details.reason == "cancelled":
        return replace(response, status="cancelled")
    return response


def not_durable(response: Response) -> Response:
    """Add `NOT_DURABLE` to a response that the store has not written."""
    return replace(response, diagnostics=[*(response.diagnostics or []), NOT_DURABLE])


def not_durable_event(event: Event) -> Event:
    return (
        replace(event, response=not_durable(event.response)) if isinstance(event, LifecycleEvent) else event
    )
