"""A turn in memory: for a store that writes to disk, what is not written yet; for `MemoryStore`, all of it.

Buffers belong to the event loop. The writer's thread gets an `UnwrittenPart`, which never changes. Its
contents stay in the buffer until they are committed, so a failed write loses nothing and is retried.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from penstock.store.records import (
    Closed,
    LoggedEvent,
    Opened,
    StoredItem,
    StoredResponse,
    StoredTurn,
    Trace,
)

_STEP = 64
"""Events that a reader gets at a time: a reader that stops in between holds no more than these."""

_OVERHEAD = 64
"""Approximate bytes that Python adds to the data of an event."""


class UnwrittenPart(Struct, frozen=True, kw_only=True):
    """The part of one turn that one commit writes."""

    turn: Opened
    token: str
    is_new: bool
    events: Sequence[LoggedEvent]
    traces: Sequence[Trace]
    reasoning_memory: dict[str, bytes]
    dropped: int
    end: Closed | None
    ended_at: float
    size: int


class UnwrittenLog(Struct, frozen=True, array_like=True):
    """The latest events of one turn, if a commit writes nothing else of it."""

    tenant: str
    id: str
    events: list[LoggedEvent]


class ChangeSignal:
    """Wakes all tasks that wait for the next change. A cancelled task leaves nothing behind."""

    def __init__(self) -> None:
        self._futures: set[asyncio.Future[None]] = set()

    async def wait(self) -> None:
        future = asyncio.get_running_loop().create_future()
        self._futures.add(future)
        try:
            await future
        finally:
            self._futures.discard(future)

    def notify(self) -> None:
        if self._futures:
            for future in self._futures:
                if not future.done():
                    future.set_result(None)


async def wait_briefly(done: asyncio.Future[Any], seconds: float) -> None:
    """Wait for a future, but no longer than so many seconds. Every stored turn waits twice, and
    `asyncio.wait` would cost several times as much."""
    if done.done():
        return
    loop = asyncio.get_running_loop()
    wake_up = loop.create_future()

    def wake(_: object = None) -> None:
        if not wake_up.done():
            wake_up.set_result(None)

    timer = loop.call_later(seconds, wake)
    done.add_done_callback(wake)
    try:
        await wake_up
    finally:
        timer.cancel()
        done.remove_done_callback(wake)


class TurnBuffer:
    """One turn. "In the file" means in the file or wherever else the store writes."""

    def __init__(self, opened: Opened, token: str = "") -> None:
        self.opened = opened
        self.token = token
        """The claim token by which this worker holds the turn; empty if no other worker shares the store."""
        self.number = 0
        """Greater than that of every turn that began before, if the store has no rows with numbers."""
        self.end: Closed | None = None
        self.ended_at = 0.0
        self.events: list[LoggedEvent] = []
        self.traces: list[Trace] = []
        self.reasoning_memory: dict[str, bytes] = dict(opened.memory)
        self.dropped = 0
        self.stored_sequence = -1
        """The last event that is in the file."""
        self.recent_events = 0
        """How many of the first `events` are in the file already, but not in the log of this turn."""
        self.stored_traces = 0
        self.is_stored = False
        """Its row is in the file."""
        self.is_lost = False
        """What is not in the file yet will never be."""
        self.is_taken_over = False
        """Another worker has ended it, or runs it, or will start it."""
        self.lost_end: int | None = None
        """The number of its terminal event, if it ended here and was taken over before that was stored."""
        self.size = size_of(opened)
        """Bytes that are not in the file yet."""
        self.changed = ChangeSignal()
        self.finished = asyncio.Event()
        """Set when the turn has ended, or the store was closed while it ran."""
        self.row_write: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done after the first attempt to write its row."""
        self.end_write: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        """Done after the first attempt to write its end; the result is whether it succeeded."""
        self.is_committed = False
        """Its end was committed. Set by the writer's thread."""
        self._input = {item.id: item for item in opened.input}
        self._output: dict[str, StoredItem] = {}

    # Recording

    def log(self, events: Sequence[LoggedEvent], size: int) -> None:
        self.events.extend(events)
        self.size += size
        self.changed.notify()

    def trace(self, traces: Sequence[Trace], size: int) -> None:
        self.traces.extend(traces)
        self.size += size

    def remember(self, key: str, data: bytes) -> None:
        self.reasoning_memory[key] = data
        self.size += len(key) + len(data)

    def close(self, end: Closed, now: float) -> None:
        self.end = end
        self.ended_at = now
        self.size += size_of_end(end)
        self._output = {item.id: item for item in end.output}
        self.abandon()

    def abandon(self) -> None:
        """Wake everything that waits for this turn: no more events will follow."""
        self.finished.set()
        self.changed.notify()

    # Writing

    def take(self) -> UnwrittenPart:
        return UnwrittenPart(
            turn=self.opened,
            token=self.token,
            is_new=not self.is_stored,
            events=self.events[:],
            traces=self.traces[:],
            reasoning_memory=self.reasoning_memory.copy(),
            dropped=self.dropped,
            end=self.end,
            ended_at=self.ended_at,
            size=self.size,
        )

    def settle(self, part: UnwrittenPart) -> None:
        """Drop a part that is in the file now: from here on it is read from the file."""
        self.is_stored = True
        self.size -= part.size
        del self.events[: len(part.events)]
        self.recent_events = max(self.recent_events - len(part.events), 0)
        del self.traces[: len(part.traces)]
        self.stored_traces += len(part.traces)
        if part.events:
            self.stored_sequence = part.events[-1].sequence
        for key, data in part.reasoning_memory.items():
            if self.reasoning_memory.get(key) is data:
                del self.reasoning_memory[key]

    def mark_stored(self) -> None:
        """Note that everything so far is in the file."""
        self.is_stored, self.size = True, 0
        self.reasoning_memory.clear()

    def take_log(self) -> UnwrittenLog:
        return UnwrittenLog(self.opened.tenant, self.opened.id, self.events[self.recent_events :])

    def settle_log(self, log: UnwrittenLog) -> None:
        """Count events that a crash cannot lose any more. They stay here until they are in the log."""
        self.recent_events += len(log.events)

    @property
    def is_safe(self) -> bool:
        """Whether everything so far would survive a crash of the process."""
        is_all = len(self.events) == self.recent_events and not self.traces and not self.reasoning_memory
        return is_all and self.is_stored and self.end is None

    @property
    def is_written(self) -> bool:
        """Whether the end is in the file. The writer's thread knows before a busy event loop does."""
        return self.is_committed or (self.end_write.done() and self.end_write.result())

    # Reading

    def events_after(self, sequence: int) -> list[LoggedEvent]:
        """Return some of the events after a sequence number that are not in the file yet."""
        begin = bisect_right(self.events, sequence, key=_sequence)
        return self.events[begin : begin + _STEP]

    def written(self, log: list[LoggedEvent]) -> list[LoggedEvent]:
        """Return the part of a stored log that this buffer has written. The rest is here as well, or another
        worker has written it: that one took the turn over, and its log goes on differently."""
        return log[: bisect_right(log, self.stored_sequence, key=_sequence)]

    def item(self, id: str, *, is_output: bool) -> StoredItem | None:
        return (self._output if is_output else self._input).get(id)

    def turn(self) -> StoredTurn:
        end = self.end
        status = end.status if end else self.opened.status
        return StoredTurn(self.opened.id, status, self.opened.input, end.output if end else ())

    def response(self) -> StoredResponse:
        turn, end = self.opened, self.end
        return StoredResponse(
            id=turn.id,
            tenant=turn.tenant,
            created_at=turn.created_at,
            status=end.status if end else turn.status,
            previous_id=turn.previous_id,
            conversation_id=turn.conversation_id,
            is_background=turn.is_background,
            request=turn.request,
            response=end.response if end else turn.response,
            verdict=end.verdict if end else b"",
            dropped=self.dropped,
            is_durable=self.is_stored if end is None else self.is_written,
            accent=turn.accent,
        )


def _sequence(event: LoggedEvent) -> int:
    return event.sequence


def size_of(turn: Opened) -> int:
    memory = sum(len(key) + len(data) for key, data in turn.memory.items())
    return len(turn.request) + len(turn.response) + size_of_items(turn.input) + memory


def size_of_end(end: Closed) -> int:
    return len(end.response) + len(end.verdict) + size_of_items(end.output)


def size_of_items(items: Sequence[StoredItem]) -> int:
    return sum(len(item.data) + len(item.id) + _OVERHEAD for item in items)


def size_of_events(events: Sequence[LoggedEvent] | Sequence[Trace]) -> int:
    return sum([len(event.data) + _OVERHEAD for event in events])
