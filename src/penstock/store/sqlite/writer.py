"""Commits the batches of a store to its file, in one thread.

Events that no caller waits for are written twice: at first in one row for all turns, and later in rows of
each turn (`store.sqlite.recent`).
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeGuard, TypeVar, cast

from msgspec import Struct, field

from penstock.errors import StoreError
from penstock.store.batch_writer import (
    Batch,
    BatchWriter,
    LedgerEntry,
    Outcome,
    PartEntry,
    WriteLimits,
)
from penstock.store.sqlite.file import failure_of
from penstock.store.sqlite.ledger import write_records
from penstock.store.sqlite.recent import add_recent, clear_recent, move_recent
from penstock.store.sqlite.statements import write_part
from penstock.store.sqlite.workers import TurnTakenOver
from penstock.store.turn_buffer import TurnBuffer, UnwrittenLog

T = TypeVar("T")


class _JobEntry(Struct):
    """A function to run in a transaction, and the future of its caller."""

    run: Callable[[sqlite3.Connection], object]
    done: asyncio.Future[object]
    is_synced: bool = True
    """Whether its caller waits until the disk has it."""
    result: object = None
    outcome: Outcome = Outcome.PENDING


class _RecentEntry(Struct):
    """The latest events of turns of which nothing else is written."""

    logs: list[tuple[TurnBuffer, UnwrittenLog]] = []
    clear: Callable[[sqlite3.Connection], None] | None = None
    """Clears the recent events, which are in the parts, or moves them."""
    outcome: Outcome = Outcome.PENDING


_Entry = PartEntry | LedgerEntry | _JobEntry | _RecentEntry


class _FileBatch(Batch):
    jobs: list[_JobEntry] = []
    recent: _RecentEntry = field(default_factory=_RecentEntry)


class SqliteWriter(BatchWriter):
    """Writes turns to the file. `file_exists` returns whether the file is still at its path."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        limits: WriteLimits,
        *,
        file_exists: Callable[[], bool] = lambda: True,
        worker: str = "",
    ) -> None:
        """`worker` identifies this process, if several share the file."""
        super().__init__(limits)
        self._connection = connection
        self._worker = worker
        self._file_exists = file_exists
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="penstock-store-writer")
        self._recent: dict[str, TurnBuffer] = {}
        """Turns whose recent events are not in their logs yet."""
        self._recent_until: float | None = None
        """When the recent events must be cleared; None if there are none."""
        self._has_lost_recent = False
        """Whether some of the recent events are not in memory any more."""
        self._jobs: list[_JobEntry] = []

    async def do(self, job: Callable[[sqlite3.Connection], T], *, is_synced: bool = True) -> T:
        """Run a function in the next transaction, after the data of turns and the ledger, and return its
        result. If `is_synced` is False, a power cut may undo it, and it waits for nothing else."""
        if self._is_closed:
            raise StoreError(StoreError.CLOSED, "the store is closed")
        done: asyncio.Future[object] = self._loop.create_future()
        self._jobs.append(_JobEntry(job, done, is_synced))
        self._start_in(self.limits.commit_delay if is_synced else 0.0)
        return cast(T, await done)

    def do_later(self, job: Callable[[sqlite3.Connection], object]) -> None:
        """Try a function once in the next transaction, without waiting and without reporting its result."""
        ignored: asyncio.Future[object] = self._loop.create_future()
        ignored.cancel()
        self._jobs.append(_JobEntry(job, ignored))
        self._start_in(self.limits.commit_delay)

    async def flush_logs(self) -> None:
        """Wait for one attempt to write everything, also the recent events to the logs of their turns."""
        if self._commit is not None:
            await asyncio.wait({self._commit})
        if self._gathering or self._recent_until is not None:
            self._recent_until = 0.0
        await self.flush()

    async def aclose(self) -> list[str]:
        await self.flush_logs()
        lost = await super().aclose()
        for job in self._jobs:
            _report_job(job, StoreError.CLOSED)
        await self._loop.run_in_executor(self._thread, self._connection.close)
        self._thread.shutdown(wait=True)
        return lost

    def lose(self, running: TurnBuffer) -> None:
        self._has_lost_recent |= running.recent_events > 0
        self._recent.pop(running.opened.id, None)
        super().lose(running)

    # Batches

    def _has_work(self) -> bool:
        return super()._has_work() or bool(self._jobs) or self._recent_until == 0.0

    def _new_batch(self, now: float) -> Batch:
        batch = _FileBatch(jobs=self._jobs)
        self._jobs = []
        # A job may count the records of the ledger.
        self._add_ledger(batch, self._ledger_until if batch.jobs else now)
        turns = self._take_waiting()
        if self._recent_until is not None and now >= self._recent_until:
            turns = turns | self._recent | self._take_gathering()
            batch.recent.clear = move_recent if self._has_lost_recent else clear_recent
        elif now >= self._gather_until and self._worker:
            turns |= self._take_gathering()  # others read these events: they belong to the logs at once
        elif now >= self._gather_until:
            for id, running in self._take_gathering().items():
                log = running.take_log()
                # Other traces show why a turn hangs. Reads are many, and can wait for the next rows.
                if not log.events or any(trace.kind != "read" for trace in running.traces):
                    turns[id] = running
                else:
                    batch.recent.logs.append((running, log))
        self._add_parts(batch, turns)
        return batch

    def _write(self, batch: _FileBatch) -> asyncio.Future[None]:
        return self._loop.run_in_executor(self._thread, self._write_in_thread, batch)

    def _write_in_thread(self, batch: _FileBatch) -> None:
        if self._file_exists():
            _commit(self._connection, batch, self._worker)
        else:
            batch.failure = StoreError.MISSING

    def _finish_entries(self, batch: _FileBatch) -> dict[str, TurnBuffer]:
        for entry in batch.parts:
            if entry.outcome is Outcome.WRITTEN:
                self._recent.pop(entry.running.opened.id, None)
        unwritten = super()._finish_entries(batch)
        self._finish_recent(batch.recent, unwritten)
        for job in batch.jobs:
            _report_job(job, batch.failure)
        return unwritten

    def _finish_recent(self, recent: _RecentEntry, unwritten: dict[str, TurnBuffer]) -> None:
        is_written = recent.outcome is Outcome.WRITTEN
        for running, log in recent.logs:
            if not is_written:
                if not running.is_lost:
                    unwritten[running.opened.id] = running
            elif running.is_lost:
                self._has_lost_recent = True
            else:
                running.settle_log(log)
                self._recent[running.opened.id] = running
        if recent.logs and is_written and self._recent_until is None:
            self._recent_until = self._loop.time() + self.limits.recent_delay
        if recent.clear is not None and is_written:
            self._recent_until, self._has_lost_recent = None, False
        elif recent.clear is not None:
            self._recent_until = self._loop.time() + self.limits.recent_delay

    def _next_starts(self, now: float) -> list[float]:
        if self._jobs:
            return [0.0]
        starts = super()._next_starts(now)
        if self._recent_until is not None:
            starts.append(max(self._recent_until - now, self._retry_delay))
        return starts


def _report_job(job: _JobEntry, failure: str) -> None:
    if job.done.done():
        return  # The caller was cancelled.
    if job.outcome is Outcome.WRITTEN:
        job.done.set_result(job.result)
    elif job.outcome is Outcome.REFUSED:
        job.done.set_exception(cast(Exception, job.result))
    else:
        job.done.set_exception(StoreError(failure, "the store could not be written"))


# In the thread


def _commit(connection: sqlite3.Connection, batch: _FileBatch, worker: str) -> None:
    """Write a batch in one transaction. Errors are reported in the batch, never raised."""
    entries: list[_Entry] = [*batch.parts, batch.ledger, *batch.jobs, batch.recent]
    try:
        _commit_entries(connection, entries, worker)
    except Exception as error:
        if _is_disk_error(error):
            batch.failure = failure_of(error)[0]
        else:
            _commit_one_by_one(connection, batch, entries, worker)
        return
    for each in batch.parts:
        each.running.is_committed = each.part.end is not None


def _commit_entries(connection: sqlite3.Connection, entries: Iterable[_Entry], worker: str) -> None:
    # A reported end survives a power cut; deltas survive a crash of the process, but not a power cut. The
    # file stays intact in either mode. A sync for each part of a log would cost more than writing it.
    mode = "FULL" if any(map(_has_waiting_caller, entries)) else "NORMAL"
    connection.execute(f"PRAGMA synchronous = {mode}")
    connection.execute("BEGIN IMMEDIATE")
    try:
        for entry in entries:
            _write_entry(connection, entry, worker)
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.rollback()
    for entry in entries:
        entry.outcome = Outcome.WRITTEN


def _write_entry(connection: sqlite3.Connection, entry: _Entry, worker: str) -> None:
    match entry:
        case PartEntry(part=part):
            write_part(connection, part, worker)
        case LedgerEntry(records=records):
            write_records(connection, records.values(), worker)
        case _JobEntry(run=run):
            entry.result = run(connection)
        case _RecentEntry(logs=logs, clear=clear):
            if logs:
                add_recent(connection, [log for _, log in logs])
            if clear is not None:
                clear(connection)


def _has_waiting_caller(entry: _Entry) -> bool:
    match entry:
        case PartEntry(part=part):
            return part.end is not None
        case _JobEntry(is_synced=is_synced):
            return is_synced
    return False


def _commit_one_by_one(
    connection: sqlite3.Connection, batch: _FileBatch, entries: Iterable[_Entry], worker: str
) -> None:
    """Commit each entry in its own transaction, so that an invalid entry does not affect the rest."""
    if batch.recent.clear is not None:
        batch.recent.clear = move_recent  # a part with recent events may be refused
    for entry in entries:
        try:
            _commit_entries(connection, [entry], worker)
        except TurnTakenOver:
            entry.outcome = Outcome.TAKEN_OVER
        except Exception as error:
            if _is_disk_error(error):
                batch.failure = failure_of(error)[0]
                return
            entry.outcome = Outcome.REFUSED
            if isinstance(entry, _JobEntry):
                entry.result = _refusal(error)


def _is_disk_error(error: Exception) -> TypeGuard[sqlite3.Error]:
    """Return whether an error concerns the disk, and may be temporary. Others are caused by the data."""
    return isinstance(error, sqlite3.OperationalError) or type(error) is sqlite3.DatabaseError


def _refusal(error: Exception) -> Exception:
    if isinstance(error, sqlite3.Error):
        return StoreError(*failure_of(error))
    return error
