"""The timeline of a turn: traffic with the upstream and events to the client, in chronological order.

Consecutive reads and deltas are merged into one line, and so are consecutive heartbeats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from heapq import merge

import msgspec
from msgspec import Struct

from penstock.explain.account import Account, TurnError
from penstock.formatting import counted, format_duration, format_size
from penstock.gateway.telemetry.traces import AnswerTrace, FailureTrace, ReadTrace, RequestTrace, read_trace
from penstock.protocol.events import TERMINAL
from penstock.store.records import LoggedEvent, Trace

_SILENCE = 0.5
"""Seconds. Shorter pauses are normal and not reported."""


class TimelineEntry(Struct, frozen=True):
    at: float
    """Seconds since the turn began."""
    what: str
    tone: str = ""
    """`red`, `green` or empty."""


class _Item(Struct):
    type: str = "item"
    id: str | None = None
    name: str | None = None
    status: str | None = None


class _Event(Struct):
    type: str
    item: _Item | None = None
    error: TurnError | None = None
    code: str | None = None


class _Batch(Struct):
    """Consecutive reads and deltas, or heartbeats, that share one line."""

    begin: float
    reads: int = 0
    bytes: int = 0
    events: int = 0
    heartbeats: int = 0
    silence: float = 0.0

    def summary(self) -> str:
        if self.heartbeats:
            return counted(self.heartbeats, "heartbeat")
        read = [counted(self.reads, "read"), format_size(self.bytes)] if self.reads else []
        sent = [counted(self.events, "event")] if self.events else []
        silent = [f"longest silence {format_duration(self.silence)}"] if self.silence >= _SILENCE else []
        return ", ".join((*read, *sent, *silent))


def timeline(account: Account) -> list[TimelineEntry]:
    """Return the entries of a turn's timeline, in chronological order."""
    builder = _TimelineBuilder(account.begin)
    sources: tuple[Sequence[Trace | LoggedEvent], ...] = (account.traces, account.events)
    for entry in merge(*sources, key=_time_of):  # at the same time, a trace precedes the events it caused
        builder.add(entry)
    return builder.end()


def _time_of(entry: Trace | LoggedEvent) -> float:
    return entry.time


class _TimelineBuilder:
    def __init__(self, begin: float) -> None:
        self._begin = begin
        self._entries: list[TimelineEntry] = []
        self._batch: _Batch | None = None
        self._last_read: float | None = None
        self._sequence = -1
        self._is_started = self._has_output = False
        self._events: dict[str, Callable[[LoggedEvent, _Event], None]] = {
            "response.queued": self._lifecycle,
            "response.created": self._lifecycle,
            "response.in_progress": self._progress,
            "response.output_item.added": self._opened,
            "response.output_item.done": self._closed,
            "error": self._error,
            **dict.fromkeys(TERMINAL, self._terminal),
        }

    def add(self, entry: Trace | LoggedEvent) -> None:
        if isinstance(entry, LoggedEvent):
            self._event(entry)
            return
        match read_trace(entry):
            case RequestTrace() as request:
                self._request(entry, request)
            case AnswerTrace() as answer:
                self._answer(entry, answer)
            case ReadTrace() as read:
                self._read(entry, read)
            case FailureTrace() as failure:
                self._failure(entry, failure)

    def end(self) -> list[TimelineEntry]:
        self._flush()
        return self._entries

    def _append(self, time: float, what: str, tone: str = "") -> None:
        self._flush()
        self._entries.append(TimelineEntry(time - self._begin, what, tone))

    def _flush(self) -> None:
        if self._batch is not None:
            self._entries.append(TimelineEntry(self._batch.begin - self._begin, self._batch.summary()))
            self._batch = None

    def _batched(self, time: float, *, is_heartbeat: bool = False) -> _Batch:
        """Return the batch to add to; a batch of the other kind is written out first."""
        if self._batch is not None and bool(self._batch.heartbeats) != is_heartbeat:
            self._flush()
        if self._batch is None:
            self._batch = _Batch(time)
        return self._batch

    # Upstream

    def _request(self, trace: Trace, request: RequestTrace) -> None:
        dialect = f"{request.dialect}, " if request.dialect else ""
        size = format_size(trace.size)
        self._append(trace.time, f"request to {request.target} for {request.model} ({dialect}{size})")
        self._last_read = None

    def _answer(self, trace: Trace, answer: AnswerTrace) -> None:
        kind = f", {answer.content_type}" if answer.content_type else ""
        id = f", request id {answer.request_id}" if answer.request_id else ""
        self._append(trace.time, f"answer {answer.status or 'without a status'}{kind}{id}")
        self._last_read = trace.time

    def _read(self, trace: Trace, read: ReadTrace) -> None:
        silence = trace.time - self._last_read if self._last_read is not None else 0.0
        self._last_read = trace.time
        if read.is_end:
            pause = f" after {format_duration(silence)} of silence" if silence >= _SILENCE else ""
            self._append(trace.time, f"the upstream's answer ended{pause}")
            return
        batch = self._batched(trace.time)
        batch.reads, batch.bytes = batch.reads + 1, batch.bytes + read.size
        batch.silence = max(batch.silence, silence)

    def _failure(self, trace: Trace, failure: FailureTrace) -> None:
        status = f" (HTTP {failure.status})" if failure.status is not None else ""
        self._append(trace.time, f"failed: {failure.code or 'no code'}{status}", "red")

    # Client

    def _event(self, logged: LoggedEvent) -> None:
        if (lost := logged.sequence - self._sequence - 1) > 0:
            self._append(logged.time, f"{counted(lost, 'event')} missing from the log", "red")
        self._sequence = logged.sequence
        event = _read_event(logged.data)
        if event is None:
            self._append(logged.time, f"event {logged.sequence} cannot be read", "red")
        elif event.type in self._events:
            self._events[event.type](logged, event)
        else:
            self._batched(logged.time).events += 1

    def _lifecycle(self, logged: LoggedEvent, event: _Event) -> None:
        self._append(logged.time, event.type.removeprefix("response."))

    def _progress(self, logged: LoggedEvent, _: _Event) -> None:
        """The first one marks the start; every later one is a heartbeat (decision 10)."""
        if self._is_started:
            self._batched(logged.time, is_heartbeat=True).heartbeats += 1
        else:
            self._is_started = True
            self._append(logged.time, "in progress")

    def _opened(self, logged: LoggedEvent, event: _Event) -> None:
        if not self._has_output:
            self._has_output = True
            self._append(logged.time, "first output")
        self._append(logged.time, f"opened {' '.join(_named(event.item or _Item()))}")

    def _closed(self, logged: LoggedEvent, event: _Event) -> None:
        item = event.item or _Item()
        status = f" ({item.status})" if item.status else ""
        self._append(logged.time, f"closed {' '.join(_named(item))}{status}")

    def _error(self, logged: LoggedEvent, event: _Event) -> None:
        code = (event.error.code if event.error else None) or event.code or "no code"
        self._append(logged.time, f"error: {code}", "red")

    def _terminal(self, logged: LoggedEvent, event: _Event) -> None:
        what = event.type.removeprefix("response.")
        tone = {"completed": "green", "failed": "red"}.get(what, "")
        self._append(logged.time, f"{what} (last event, number {logged.sequence})", tone)


def _named(item: _Item) -> Iterator[str]:
    yield item.type
    if item.id:
        yield item.id
    if item.name:
        yield f"calling {item.name}"


_events = msgspec.json.Decoder(_Event)


def _read_event(data: bytes) -> _Event | None:
    try:
        return _events.decode(data)
    except (msgspec.MsgspecError, RecursionError):
        return None
