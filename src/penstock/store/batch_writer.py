"""Writes everything that waits to be written together, in batches (decision 17).

While a batch is being written, new data is collected for the next one: the slower the store, the larger the
batches. Events that no caller waits for are gathered a little longer, because a write for each delta would be
most of the work. Each kind of store has a subclass that writes one batch.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, TypeVar

from msgspec import Struct, field

from penstock.store.ledger import TurnRecord
from penstock.store.ledger_queue import LedgerQueue
from penstock.store.turn_buffer import TurnBuffer, UnwrittenPart

log = logging.getLogger("penstock.store")

T = TypeVar("T")

COMMIT_DELAY = 0.002
"""Seconds that a write with a waiting caller is delayed to include others: at most 5 ms (decision 17)."""
LOG_DELAY = 0.1
"""Seconds that a write of log entries alone is delayed. A crash may lose as much."""
RECENT_DELAY = 1.0
"""Seconds after which recent events are written to the logs of their turns."""
RETRY = 1.0
"""Seconds until a failed write is retried."""
CLOSE_TIMEOUT = 2.0
"""Seconds for which failed writes are retried when the store is closed."""
_EARLY = 0.005
"""Seconds that a timer may be early: uvloop rounds them."""
_CLOSE_RETRY = 0.2
"""Seconds between these retries."""


class WriteLimits(Struct, frozen=True, kw_only=True):
    """Limits for data that waits in memory to be written, and the delays before a write."""

    queued: int = 64 * 1024 * 1024
    """Bytes of all turns together."""
    queued_turn: int = 1024 * 1024
    """Bytes that each turn may queue even when `queued` is reached, so that one cannot starve the others."""
    gathered: int = 64 * 1024
    """Bytes of a turn that are written without waiting for `log_delay`."""
    commit_delay: float = COMMIT_DELAY
    log_delay: float = LOG_DELAY
    recent_delay: float = RECENT_DELAY


class Outcome(Enum):
    """What became of an entry of a batch."""

    PENDING = "pending"
    """It was not written, and is tried again."""
    WRITTEN = "written"
    REFUSED = "refused"
    """It can never be written because it is invalid."""
    TAKEN_OVER = "taken over"
    """Another process has ended this turn, or runs it."""


class PartEntry(Struct):
    """The part of a turn that a batch writes."""

    running: TurnBuffer
    part: UnwrittenPart
    outcome: Outcome = Outcome.PENDING


class LedgerEntry(Struct):
    """The records of the ledger that a batch writes, by the ids of their turns."""

    records: dict[str, TurnRecord] = {}
    outcome: Outcome = Outcome.PENDING


class Batch(Struct):
    """What is written together."""

    parts: list[PartEntry] = []
    ledger: LedgerEntry = field(default_factory=LedgerEntry)
    failure: str = ""
    """The error code of the entries that are still pending."""


class BatchWriter:
    """Writes turns to a store. A subclass implements `_write`. It may override `_new_batch` to add entries,
    and then also `_finish_entries` and `_next_starts`."""

    def __init__(self, limits: WriteLimits) -> None:
        self.limits = limits
        self.turns: dict[str, TurnBuffer] = {}
        """Turns that are not completely written, in the order in which they were opened."""
        self.on_written: Callable[[list[TurnBuffer]], None] = lambda _: None
        """Called with the turns of which something was written."""
        self.on_taken_over: Callable[[TurnBuffer], None] = lambda _: None
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[str, TurnBuffer] = {}
        self._gathering: dict[str, TurnBuffer] = {}
        """Turns with new events that no caller waits for."""
        self._gather_until = 0.0
        self._ledger = LedgerQueue()
        self._ledger_until = 0.0
        """When the records of the ledger must be written."""
        self._timer: asyncio.Handle | None = None
        self._timer_at = 0.0
        self._commit: asyncio.Future[None] | None = None
        self._failure = ""
        self._is_closed = False
        self.queued = 0
        """Bytes in memory that are not written yet."""

    @property
    def is_failing(self) -> bool:
        """Whether the last write failed: until a write succeeds, callers should not wait for one."""
        return bool(self._failure)

    @property
    def _retry_delay(self) -> float:
        return RETRY if self._failure else 0.0

    def schedule(self, running: TurnBuffer) -> None:
        """Write all of a turn soon.

        The row of a new turn is written at once: its first event waits for it, and it needs no sync.
        """
        self._gathering.pop(running.opened.id, None)
        self._waiting[running.opened.id] = running
        self._start_in(RETRY if self._failure else self.limits.commit_delay if running.is_stored else 0.0)

    def gather(self, running: TurnBuffer) -> None:
        """Write the events of a turn with the next ones of other turns."""
        id = running.opened.id
        if id in self._gathering or id in self._waiting:
            return
        if not self._gathering:
            self._gather_until = self._loop.time() + self.limits.log_delay
            self._start_in(RETRY if self._failure else self.limits.log_delay)
        self._gathering[id] = running

    def record(self, record: TurnRecord) -> None:
        """Write a record of the ledger with the next events. A turn that ends before that is one write."""
        if not self._ledger:
            self._ledger_until = self._loop.time() + self.limits.log_delay
            self._start_in(RETRY if self._failure else self.limits.log_delay)
        self._ledger.put(record)

    async def flush(self) -> None:
        """Wait for one attempt to write everything that is waiting now."""
        # The next write takes all of it, whether this call, another one or the timer starts it.
        self._gather_until = self._ledger_until = 0.0
        if self._commit is not None:
            await asyncio.wait({self._commit})
        if self._commit is None and self._has_work() and not self._is_closed:
            self._start()
        if self._commit is not None:
            await asyncio.wait({self._commit})

    async def drain(self) -> None:
        """Write everything that is waiting, with retries for a short time."""
        deadline = self._loop.time() + CLOSE_TIMEOUT
        await self.flush()
        while self._has_work() and self._loop.time() < deadline:
            await asyncio.sleep(_CLOSE_RETRY)
            await self.flush()

    async def aclose(self) -> list[str]:
        """Write what is waiting, with retries, and close; return the ids of turns that were not written."""
        await self.drain()
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._commit is not None:
            await asyncio.wait({self._commit})
        lost = [*self._waiting, *self._gathering]
        for id in lost:
            log_lost(id, self._failure, "could not be written to the store before it was closed")
        return lost

    def _has_work(self) -> bool:
        return bool(self._waiting or self._gathering or self._ledger)

    # Batches

    def _write(self, batch: Any) -> asyncio.Future[None]:
        """Write a batch, and report what became of its entries in the batch; never raise."""
        raise NotImplementedError

    def _start_in(self, seconds: float) -> None:
        if self._commit is not None or self._is_closed:
            return  # The running write starts the next one when it finishes.
        start_at = self._loop.time() + seconds
        if self._timer is not None:
            if self._timer_at <= start_at:
                return
            self._timer.cancel()
        # uvloop returns a handle without `when` for a time that has already come.
        self._timer_at = start_at
        self._timer = self._loop.call_at(start_at, self._start)

    def _start(self) -> asyncio.Future[None]:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        batch = self._new_batch(self._loop.time() + _EARLY)
        self._commit = self._write(batch)
        self._commit.add_done_callback(lambda _: self._finish(batch))
        return self._commit

    def _new_batch(self, now: float) -> Batch:
        batch = Batch()
        self._add_ledger(batch, now)
        turns = self._take_waiting()
        if now >= self._gather_until:
            turns |= self._take_gathering()
        self._add_parts(batch, turns)
        return batch

    def _add_ledger(self, batch: Batch, now: float) -> None:
        if now >= self._ledger_until:
            batch.ledger.records = self._ledger.take()

    def _add_parts(self, batch: Batch, turns: Mapping[str, TurnBuffer]) -> None:
        batch.parts += [PartEntry(running, running.take()) for running in turns.values()]

    def _take_waiting(self) -> dict[str, TurnBuffer]:
        turns, self._waiting = self._waiting, {}
        return turns

    def _take_gathering(self) -> dict[str, TurnBuffer]:
        turns, self._gathering = self._gathering, {}
        return turns

    def _finish(self, batch: Any) -> None:
        self._commit = None
        self._log_failure(batch.failure)
        unwritten = self._finish_entries(batch)
        self._waiting = unwritten | self._waiting  # Rows are written in the order in which turns were opened.
        for id in self._waiting.keys() & self._gathering.keys():
            del self._gathering[id]
        self._start_next()

    def _finish_entries(self, batch: Any) -> dict[str, TurnBuffer]:
        """Report what became of the entries of a batch; return the turns that must be written again."""
        unwritten: dict[str, TurnBuffer] = {}
        for entry in batch.parts:
            self._finish_part(entry, unwritten)
        _call(self.on_written, [entry.running for entry in batch.parts if entry.outcome is Outcome.WRITTEN])
        if batch.ledger.outcome is not Outcome.WRITTEN:
            self._ledger.put_back(batch.ledger.records)
        return unwritten

    def _finish_part(self, entry: PartEntry, unwritten: dict[str, TurnBuffer]) -> None:
        running, part = entry.running, entry.part
        if running.is_lost:
            return
        if entry.outcome is Outcome.WRITTEN:
            running.settle(part)
            self.queued -= part.size
            self._report(running, part, is_written=True)
        elif entry.outcome is Outcome.PENDING:
            if not running.is_safe:
                unwritten[running.opened.id] = running
            self._report(running, part, is_written=False)
        elif entry.outcome is Outcome.REFUSED:
            log_lost(running.opened.id, "refused", "cannot be written to the store")
            self.lose(running)
        else:
            self.give_up(running)

    def _start_next(self) -> None:
        """Schedule the next write for what is left."""
        starts = self._next_starts(self._loop.time())
        if starts:
            self._start_in(min(starts))

    def _next_starts(self, now: float) -> list[float]:
        """Return in how many seconds the next write is needed, for each reason."""
        least = self._retry_delay
        starts = [least] if self._waiting else []
        if self._gathering:
            starts.append(max(self._gather_until - now, least))
        if self._ledger:
            starts.append(max(self._ledger_until - now, least))
        return starts

    def _report(self, running: TurnBuffer, part: UnwrittenPart, *, is_written: bool) -> None:
        if not running.row_write.done():
            running.row_write.set_result(None)
        if part.end is None:
            return
        if is_written:
            self._forget(running)
        if not running.end_write.done():
            running.end_write.set_result(is_written)

    def lose(self, running: TurnBuffer) -> None:
        """Discard the unwritten data of a turn, which will never be written."""
        running.is_lost = True
        self.queued -= running.size
        running.size = 0
        running.events.clear()
        running.traces.clear()
        running.recent_events = 0
        for turns in (self._waiting, self._gathering):
            turns.pop(running.opened.id, None)
        if not running.row_write.done():
            running.row_write.set_result(None)
        if not running.end_write.done():
            running.end_write.set_result(False)
        if running.end is not None:
            self._forget(running)

    def give_up(self, running: TurnBuffer) -> None:
        """Discard a turn that another worker has taken over."""
        if not running.is_taken_over:
            log_lost(running.opened.id, "taken_over", "was taken over by another worker")
            self.hand_over(running)

    def hand_over(self, running: TurnBuffer) -> None:
        """Discard a turn that belongs to other workers. From here on it is read from the store."""
        if running.is_taken_over:
            return
        running.is_taken_over = True
        if running.end is not None:
            running.lost_end = running.events[-1].sequence if running.events else running.stored_sequence
        self.lose(running)
        self._forget(running)
        running.abandon()
        _call(self.on_taken_over, running)

    def _forget(self, running: TurnBuffer) -> None:
        if self.turns.get(running.opened.id) is running:
            del self.turns[running.opened.id]

    def _log_failure(self, failure: str) -> None:
        """Log the first of several failures, and the recovery."""
        if failure and not self._failure:
            log.error(
                "the store cannot be written; turns stay in memory until it can be written again",
                extra=_fields(failure),
            )
        elif self._failure and not failure:
            log.warning("the store can be written again", extra=_fields(self._failure))
        self._failure = failure


def _call(callback: Callable[[T], None], value: T) -> None:
    """Call back; whatever that raises, the writer continues."""
    try:
        callback(value)
    except Exception:
        log.exception("the store could not report what it has written", extra=_fields("callback"))


def log_lost(id: str, code: str, reason: str) -> None:
    """Log a response that will not be stored, with its id and nothing of its content."""
    fields = {"event": "store", "code": code, "response_id": id}
    log.error(f"the response {id!r} {reason}", extra={"fields": fields})


def _fields(code: str) -> dict[str, dict[str, str]]:
    return {"fields": {"event": "store", "code": code}}
