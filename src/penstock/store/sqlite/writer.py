"""Commits everything that waits to be written together, in one thread (decision 17).

While a commit runs, new data is collected for the next one: the slower the disk, the larger the commits.
Events that no caller waits for are gathered a little longer, because a commit for each delta would be most of
the work. They are written twice: at first in one row for all turns, and later in rows of each turn
(`store.sqlite.recent`).
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeGuard, TypeVar, cast

from msgspec import Struct

from penstock.errors import StoreError
from penstock.store.ledger import TurnRecord
from penstock.store.sqlite.file import failure_of
from penstock.store.sqlite.ledger import write_records
from penstock.store.sqlite.ledger_queue import LedgerQueue
from penstock.store.sqlite.recent import add_recent, clear_recent, move_recent
from penstock.store.sqlite.statements import write_part
from penstock.store.turn_buffer import TurnBuffer, UnwrittenLog, UnwrittenPart

log = logging.getLogger("penstock.store")

COMMIT_DELAY = 0.002
"""Seconds that a commit with a waiting caller is delayed to include others: at most 5 ms (decision 17)."""
LOG_DELAY = 0.1
"""Seconds that a commit of log entries alone is delayed. A crash may lose as much."""
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

T = TypeVar("T")


class WriteLimits(Struct, frozen=True, kw_only=True):
    """Limits for data that waits in memory for the disk, and the delays before a commit."""

    queued: int = 64 * 1024 * 1024
    """Bytes of all turns together."""
    queued_turn: int = 1024 * 1024
    """Bytes that each turn may queue even when `queued` is reached, so that one cannot starve the others."""
    gathered: int = 64 * 1024
    """Bytes of a turn that are written without waiting for `log_delay`."""
    commit_delay: float = COMMIT_DELAY
    log_delay: float = LOG_DELAY
    recent_delay: float = RECENT_DELAY


class _Job(Struct):
    """A function to run in a transaction, and the future of its caller."""

    run: Callable[[sqlite3.Connection], object]
    done: asyncio.Future[object]
    is_synced: bool = True
    """Whether its caller waits until the disk has it."""
    result: object = None


class _Batch(Struct):
    parts: list[tuple[TurnBuffer, UnwrittenPart]]
    jobs: list[_Job]
    logs: list[tuple[TurnBuffer, UnwrittenLog]] = []
    """Written to the recent events."""
    clear: Callable[[sqlite3.Connection], None] | None = None
    """Clears the recent events, which are in `parts`, or moves them."""
    ledger: dict[str, TurnRecord] = {}
    """By the ids of their turns."""
    written: set[int] = set()
    """Positions of committed entries. Jobs are counted after the parts, then the logs as one entry, then the
    ledger as one."""
    refused: set[int] = set()
    """Positions of entries that can never be written because they are invalid."""
    failure: str = ""
    """The error code of the entries that were neither written nor refused."""

    def __len__(self) -> int:
        return self.ledger_position + 1

    @property
    def logs_position(self) -> int:
        return len(self.parts) + len(self.jobs)

    @property
    def ledger_position(self) -> int:
        return self.logs_position + 1

    @property
    def has_waiting_caller(self) -> bool:
        return any(job.is_synced for job in self.jobs) or any(part.end is not None for _, part in self.parts)


class Writer:
    """Writes turns to the file. `on_retired` is called for each ended turn that is in the file, or never will
    be; `file_exists` returns whether the file is still at its path."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        on_retired: Callable[[TurnBuffer], None],
        *,
        commit_delay: float = COMMIT_DELAY,
        log_delay: float = LOG_DELAY,
        recent_delay: float = RECENT_DELAY,
        file_exists: Callable[[], bool] = lambda: True,
    ) -> None:
        self._connection = connection
        self._on_retired = on_retired
        self._commit_delay = commit_delay
        self._log_delay = log_delay
        self._recent_delay = recent_delay
        self._file_exists = file_exists
        self._loop = asyncio.get_running_loop()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="penstock-store-writer")
        self._waiting: dict[str, TurnBuffer] = {}
        self._gathering: dict[str, TurnBuffer] = {}
        """Turns with new events that no caller waits for."""
        self._gather_until = 0.0
        self._recent: dict[str, TurnBuffer] = {}
        """Turns whose recent events are not in their logs yet."""
        self._recent_until: float | None = None
        """When the recent events must be cleared; None if there are none."""
        self._has_lost_recent = False
        """Whether some of the recent events are not in memory any more."""
        self._ledger = LedgerQueue()
        self._ledger_until = 0.0
        """When the records of the ledger must be written."""
        self._jobs: list[_Job] = []
        self._timer: asyncio.Handle | None = None
        self._timer_at = 0.0
        self._commit: asyncio.Future[None] | None = None
        self._failure = ""
        self._is_closed = False
        self.queued = 0
        """Bytes in memory that are not in the file yet."""

    @property
    def is_failing(self) -> bool:
        """Whether the last write failed: until a write succeeds, callers should not wait for the disk."""
        return bool(self._failure)

    def schedule(self, running: TurnBuffer) -> None:
        """Write all of a turn soon.

        The row of a new turn is written at once: its first event waits for it, and it needs no sync.
        """
        self._gathering.pop(running.opened.id, None)
        self._waiting[running.opened.id] = running
        self._start_in(RETRY if self._failure else self._commit_delay if running.is_stored else 0.0)

    def gather(self, running: TurnBuffer) -> None:
        """Write the events of a turn with the next ones of other turns."""
        id = running.opened.id
        if id in self._gathering or id in self._waiting:
            return
        if not self._gathering:
            self._gather_until = self._loop.time() + self._log_delay
            self._start_in(RETRY if self._failure else self._log_delay)
        self._gathering[id] = running

    def record(self, record: TurnRecord) -> None:
        """Write a record of the ledger with the next events. A turn that ends before that is one write."""
        if not self._ledger:
            self._ledger_until = self._loop.time() + self._log_delay
            self._start_in(RETRY if self._failure else self._log_delay)
        self._ledger.put(record)

    async def do(self, job: Callable[[sqlite3.Connection], T], *, is_synced: bool = True) -> T:
        """Run a function in the next transaction, after the data of turns and the ledger, and return its
        result. If `is_synced` is False, a power cut may undo it, and it waits for nothing else."""
        if self._is_closed:
            raise StoreError(StoreError.CLOSED, "the store is closed")
        done: asyncio.Future[object] = self._loop.create_future()
        self._jobs.append(_Job(job, done, is_synced))
        self._start_in(self._commit_delay if is_synced else 0.0)
        return cast(T, await done)

    def do_later(self, job: Callable[[sqlite3.Connection], object]) -> None:
        """Try a function once in the next transaction, without waiting and without reporting its result."""
        ignored: asyncio.Future[object] = self._loop.create_future()
        ignored.cancel()
        self._jobs.append(_Job(job, ignored))
        self._start_in(self._commit_delay)

    async def flush(self, *, moves_recent: bool = False) -> None:
        """Wait for one attempt to write everything that is waiting now; with `moves_recent`, to the logs of
        the turns."""
        if self._commit is not None:
            await asyncio.wait({self._commit})
        self._gather_until = self._ledger_until = 0.0
        if moves_recent and (self._gathering or self._recent_until is not None):
            self._recent_until = 0.0
        if self._has_work or self._recent_until == 0.0:
            commit = self._commit or self._start()
            await asyncio.wait({commit})

    @property
    def _has_work(self) -> bool:
        return bool(self._waiting or self._gathering or self._jobs or self._ledger)

    async def aclose(self) -> list[str]:
        """Write what is waiting, with retries, and close; return the ids of turns that were not written."""
        deadline = self._loop.time() + CLOSE_TIMEOUT
        await self.flush(moves_recent=True)
        while self._has_work and self._loop.time() < deadline:
            await asyncio.sleep(_CLOSE_RETRY)
            await self.flush(moves_recent=True)
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._commit is not None:
            await asyncio.wait({self._commit})
        lost = [*self._waiting, *self._gathering]
        for id in lost:
            log_lost(id, self._failure, "could not be written to the store before it was closed")
        await self._loop.run_in_executor(self._thread, self._connection.close)
        self._thread.shutdown(wait=True)
        return lost

    # In the event loop

    def _start_in(self, seconds: float) -> None:
        if self._commit is not None or self._is_closed:
            return  # The running commit starts the next one when it finishes.
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
        batch = self._next_batch()
        self._commit = self._loop.run_in_executor(self._thread, self._write, batch)
        self._commit.add_done_callback(lambda _: self._finish(batch))
        return self._commit

    def _next_batch(self) -> _Batch:
        now = self._loop.time() + _EARLY
        batch = _Batch([], self._jobs)
        turns, self._waiting, self._jobs = self._waiting, {}, []
        if batch.jobs or now >= self._ledger_until:  # A job may count the records of the ledger.
            batch.ledger = self._ledger.take()
        if self._recent_until is not None and now >= self._recent_until:
            turns = turns | self._recent | self._gathering
            self._gathering = {}
            batch.clear = move_recent if self._has_lost_recent else clear_recent
        elif now >= self._gather_until:
            for id, running in self._gathering.items():
                log = running.take_log()
                # Other traces show why a turn hangs. Reads are many, and can wait for the next rows.
                if not log.events or any(trace.kind != "read" for trace in running.traces):
                    turns[id] = running
                else:
                    batch.logs.append((running, log))
            self._gathering = {}
        batch.parts += [(running, running.take()) for running in turns.values()]
        return batch

    def _write(self, batch: _Batch) -> None:
        """Write a batch, in the thread."""
        if self._file_exists():
            commit(self._connection, batch)
        else:
            batch.failure = StoreError.MISSING

    def _finish(self, batch: _Batch) -> None:
        self._commit = None
        self._log_failure(batch.failure)
        unwritten: dict[str, TurnBuffer] = {}
        for position, (running, part) in enumerate(batch.parts):
            if running.is_lost:
                continue
            if position in batch.refused:
                log_lost(running.opened.id, "refused", "cannot be written to the store")
                self.lose(running)
            elif position in batch.written:
                running.settle(part)
                self._recent.pop(running.opened.id, None)
                self.queued -= part.size
                self._report(running, part, is_written=True)
            else:
                if not running.is_safe:
                    unwritten[running.opened.id] = running
                self._report(running, part, is_written=False)
        self._finish_recent(batch, unwritten)
        for position, job in enumerate(batch.jobs, len(batch.parts)):
            self._report_job(job, batch, position)
        if batch.ledger_position not in batch.written:
            self._ledger.put_back(batch.ledger)
        self._waiting = unwritten | self._waiting  # Rows are written in the order in which turns were opened.
        for id in self._waiting.keys() & self._gathering.keys():
            del self._gathering[id]
        self._start_next()

    def _finish_recent(self, batch: _Batch, unwritten: dict[str, TurnBuffer]) -> None:
        is_written = batch.logs_position in batch.written
        for running, log in batch.logs:
            if not is_written:
                if not running.is_lost:
                    unwritten[running.opened.id] = running
            elif running.is_lost:
                self._has_lost_recent = True
            else:
                running.settle_log(log)
                self._recent[running.opened.id] = running
        if batch.logs and is_written and self._recent_until is None:
            self._recent_until = self._loop.time() + self._recent_delay
        if batch.clear is not None and is_written:
            self._recent_until, self._has_lost_recent = None, False
        elif batch.clear is not None:
            self._recent_until = self._loop.time() + self._recent_delay

    def _start_next(self) -> None:
        """Schedule the next commit for what is left."""
        now = self._loop.time()
        least = RETRY if self._failure and not self._jobs else 0.0
        if self._waiting or self._jobs:
            self._start_in(least)
        if self._gathering:
            self._start_in(max(self._gather_until - now, least))
        if self._ledger:
            self._start_in(max(self._ledger_until - now, least))
        if self._recent_until is not None:
            self._start_in(max(self._recent_until - now, least))

    def _report(self, running: TurnBuffer, part: UnwrittenPart, *, is_written: bool) -> None:
        if not running.row_write.done():
            running.row_write.set_result(None)
        if part.end is None:
            return
        if is_written:
            self._on_retired(running)
        if not running.end_write.done():
            running.end_write.set_result(is_written)

    def _report_job(self, job: _Job, batch: _Batch, position: int) -> None:
        if job.done.done():
            return  # The caller was cancelled.
        if position in batch.written:
            job.done.set_result(job.result)
        elif position in batch.refused:
            job.done.set_exception(cast(Exception, job.result))
        else:
            job.done.set_exception(StoreError(batch.failure, "the store could not be written"))

    def lose(self, running: TurnBuffer) -> None:
        """Discard the unwritten data of a turn, which will never be written."""
        running.is_lost = True
        self.queued -= running.size
        running.size = 0
        running.events.clear()
        running.traces.clear()
        self._has_lost_recent |= running.recent_events > 0
        running.recent_events = 0
        for turns in (self._waiting, self._gathering, self._recent):
            turns.pop(running.opened.id, None)
        if not running.row_write.done():
            running.row_write.set_result(None)
        if not running.end_write.done():
            running.end_write.set_result(False)
        if running.end is not None:
            self._on_retired(running)

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


def log_lost(id: str, code: str, reason: str) -> None:
    """Log a response that will not be in the file, with its id and nothing of its content."""
    fields = {"event": "store", "code": code, "response_id": id}
    log.error(f"the response {id!r} {reason}", extra={"fields": fields})


def _fields(code: str) -> dict[str, dict[str, str]]:
    return {"fields": {"event": "store", "code": code}}


# In the thread


def commit(connection: sqlite3.Connection, batch: _Batch) -> None:
    """Write a batch in one transaction. Errors are reported in the batch, never raised."""
    try:
        _commit_all(connection, batch)
        batch.written.update(range(len(batch)))
        for running, part in batch.parts:
            running.is_committed = part.end is not None
    except Exception as error:
        if _is_disk_error(error):
            batch.failure = failure_of(error)[0]
        else:
            _commit_one_by_one(connection, batch)


def _commit_all(connection: sqlite3.Connection, batch: _Batch) -> None:
    # A reported end survives a power cut; deltas survive a crash of the process, but not a power cut. The
    # file stays intact in either mode. A sync for each part of a log would cost more than writing it.
    connection.execute(f"PRAGMA synchronous = {'FULL' if batch.has_waiting_caller else 'NORMAL'}")
    connection.execute("BEGIN IMMEDIATE")
    try:
        for _, part in batch.parts:
            write_part(connection, part)
        write_records(connection, batch.ledger.values())
        for job in batch.jobs:
            job.result = job.run(connection)
        if batch.logs:
            add_recent(connection, [log for _, log in batch.logs])
        if batch.clear is not None:
            batch.clear(connection)
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.rollback()


def _commit_one_by_one(connection: sqlite3.Connection, batch: _Batch) -> None:
    """Commit each entry in its own transaction, so that an invalid entry does not affect the rest."""
    entries = [_Batch([entry], []) for entry in batch.parts] + [_Batch([], [job]) for job in batch.jobs]
    entries.append(_Batch([], [], batch.logs, batch.clear and move_recent))
    entries.append(_Batch([], [], ledger=batch.ledger))
    # The ledger is first, because jobs count its records.
    for position, single in sorted(enumerate(entries), key=lambda each: each[0] != batch.ledger_position):
        try:
            _commit_all(connection, single)
            batch.written.add(position)
        except Exception as error:
            if _is_disk_error(error):
                batch.failure = failure_of(error)[0]
                return
            batch.refused.add(position)
            for job in single.jobs:
                job.result = _refusal(error)


def _is_disk_error(error: Exception) -> TypeGuard[sqlite3.Error]:
    """Return whether an error concerns the disk, and may be temporary. Others are caused by the data."""
    return isinstance(error, sqlite3.OperationalError) or type(error) is sqlite3.DatabaseError


def _refusal(error: Exception) -> Exception:
    if isinstance(error, sqlite3.Error):
        return StoreError(*failure_of(error))
    return error
