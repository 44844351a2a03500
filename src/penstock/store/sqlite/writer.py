"""Everything that waits is committed together, by one thread (decision 17).

While a commit runs, what comes gathers for the next one: the slower the disk, the more a commit holds. What
nobody waits for gathers a little longer, since a commit for each delta would be most of the work.
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
from penstock.store.sqlite.file import failure_of
from penstock.store.sqlite.statements import write_part
from penstock.store.turn_buffer import TurnBuffer, UnwrittenPart

log = logging.getLogger("penstock.store")

GATHER = 0.002
"""Seconds that something somebody waits for is held back for others: at most 5 ms (decision 17)."""
LULL = 0.1
"""Seconds of a log that a crash may take away."""
RETRY = 1.0
"""Seconds until a write that failed is tried again by itself."""
LAST_TRIES = 2.0
"""Seconds for which writes that failed are tried again when the store is closed."""
_PAUSE = 0.2
"""Seconds between two of these."""

T = TypeVar("T")


class WriteLimits(Struct, frozen=True, kw_only=True):
    """What a store may hold in memory while the disk is behind, and how long writes are gathered."""

    queued: int = 64 * 1024 * 1024
    """Bytes of all turns together."""
    queued_turn: int = 1024 * 1024
    """Bytes that a turn may have even when `queued` is used up, so that one cannot starve the others."""
    gather: float = GATHER
    lull: float = LULL


class _Job(Struct):
    """Something else to do in a transaction, and who waits for it."""

    run: Callable[[sqlite3.Connection], object]
    done: asyncio.Future[object]
    result: object = None


class _Batch(Struct):
    parts: list[tuple[TurnBuffer, UnwrittenPart]]
    jobs: list[_Job]
    written: set[int] = set()
    """Places of what is committed: of the parts and, behind them, of the jobs."""
    refused: set[int] = set()
    """Places of what can never be written, by a fault of its own."""
    failure: str = ""
    """Why the others were not written, as a code."""

    def __len__(self) -> int:
        return len(self.parts) + len(self.jobs)

    @property
    def is_waited_for(self) -> bool:
        return bool(self.jobs) or any(part.end is not None for _, part in self.parts)


class Writer:
    """`retired` is called for each turn that has ended and is in the file, or never will be; `is_there` says
    whether the file is still where whoever opens it next will look for it."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        retired: Callable[[TurnBuffer], None],
        *,
        gather: float = GATHER,
        lull: float = LULL,
        is_there: Callable[[], bool] = lambda: True,
    ) -> None:
        self._connection = connection
        self._retired = retired
        self._gather = gather
        self._lull = lull
        self._is_there = is_there
        self._loop = asyncio.get_running_loop()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="penstock-store-writer")
        self._waiting: dict[str, TurnBuffer] = {}
        self._jobs: list[_Job] = []
        self._timer: asyncio.Handle | None = None
        self._due = 0.0
        self._commit: asyncio.Future[None] | None = None
        self._failure = ""
        self._is_closed = False
        self.queued = 0
        """Bytes in memory that are not in the file yet."""

    @property
    def is_failing(self) -> bool:
        """The last write failed: until the next one nobody should wait for the disk."""
        return bool(self._failure)

    def schedule(self, running: TurnBuffer, *, soon: bool) -> None:
        """A turn has something to be written.

        The first event of a new one waits for its row, which needs no sync: to gather would cost more.
        """
        self._waiting[running.opened.id] = running
        wait = 0.0 if not running.is_stored else self._gather if soon else self._lull
        self._begin_in(RETRY if self._failure else wait)

    async def do(self, job: Callable[[sqlite3.Connection], T]) -> T:
        """Do something in the next transaction, behind what the turns have to write, and wait for that."""
        if self._is_closed:
            raise StoreError(StoreError.CLOSED, "the store was closed")
        done: asyncio.Future[object] = self._loop.create_future()
        self._jobs.append(_Job(job, done))
        self._begin_in(self._gather)
        return cast(T, await done)

    def do_later(self, job: Callable[[sqlite3.Connection], object]) -> None:
        """Try something once in the next transaction. Nobody waits for it, or is told how it went."""
        nobody: asyncio.Future[object] = self._loop.create_future()
        nobody.cancel()
        self._jobs.append(_Job(job, nobody))
        self._begin_in(self._gather)

    async def flush(self) -> None:
        """Wait until what is here now was tried."""
        if self._commit is not None:
            await asyncio.wait({self._commit})
        if self._waiting or self._jobs:
            commit = self._commit or self._begin()
            await asyncio.wait({commit})

    async def aclose(self) -> list[str]:
        """The ids of the turns that could not be written."""
        deadline = self._loop.time() + LAST_TRIES
        await self.flush()
        while (self._waiting or self._jobs) and self._loop.time() < deadline:
            await asyncio.sleep(_PAUSE)
            await self.flush()
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._commit is not None:
            await asyncio.wait({self._commit})
        lost = list(self._waiting)
        for id in lost:
            log_lost(id, self._failure, "could not be written to the store before it was closed")
        await self._loop.run_in_executor(self._thread, self._connection.close)
        self._thread.shutdown(wait=True)
        return lost

    # On the loop

    def _begin_in(self, seconds: float) -> None:
        if self._commit is not None or self._is_closed:
            return  # The end of the commit that runs begins the next.
        due = self._loop.time() + seconds
        if self._timer is not None:
            if self._due <= due:
                return
            self._timer.cancel()
        # uvloop gives a handle without `when` for what is due at once.
        self._due = due
        self._timer = self._loop.call_at(due, self._begin)

    def _begin(self) -> asyncio.Future[None]:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        batch = _Batch([(running, running.take()) for running in self._waiting.values()], self._jobs)
        self._waiting, self._jobs = {}, []
        self._commit = self._loop.run_in_executor(self._thread, self._write, batch)
        self._commit.add_done_callback(lambda _: self._finish(batch))
        return self._commit

    def _write(self, batch: _Batch) -> None:
        """In the thread."""
        if self._is_there():
            commit(self._connection, batch)
        else:
            batch.failure = StoreError.MISSING

    def _finish(self, batch: _Batch) -> None:
        self._commit = None
        self._log_failure(batch.failure)
        kept: dict[str, TurnBuffer] = {}
        for place, (running, part) in enumerate(batch.parts):
            if running.is_lost:
                continue
            if place in batch.refused:
                log_lost(running.opened.id, "refused", "cannot be written to the store")
                self.lose(running)
            elif place in batch.written:
                running.settle(part)
                self.queued -= part.size
                self._answer(running, part, is_written=True)
            else:
                kept[running.opened.id] = running
                self._answer(running, part, is_written=False)
        for place, job in enumerate(batch.jobs, len(batch.parts)):
            self._answer_job(job, batch, place)
        self._waiting = kept | self._waiting  # The order of opening is the order of the rows.
        if self._waiting or self._jobs:
            self._begin_in(RETRY if batch.failure and not self._jobs else self._next())

    def _next(self) -> float:
        is_urgent = self._jobs or any(
            running.over.is_set() or not running.is_stored for running in self._waiting.values()
        )
        return 0 if is_urgent else self._lull

    def _answer(self, running: TurnBuffer, part: UnwrittenPart, *, is_written: bool) -> None:
        if not running.begun.done():
            running.begun.set_result(None)
        if part.end is None:
            return
        if is_written:
            self._retired(running)
        if not running.written.done():
            running.written.set_result(is_written)

    def _answer_job(self, job: _Job, batch: _Batch, place: int) -> None:
        if job.done.done():
            return  # Who asked for it has gone.
        if place in batch.written:
            job.done.set_result(job.result)
        elif place in batch.refused:
            job.done.set_exception(cast(Exception, job.result))
        else:
            job.done.set_exception(StoreError(batch.failure, "the store could not be written"))

    def lose(self, running: TurnBuffer) -> None:
        """Forget what a turn still has to be written: it never will be."""
        running.is_lost = True
        self.queued -= running.size
        running.size = 0
        running.events.clear()
        running.traces.clear()
        self._waiting.pop(running.opened.id, None)
        if not running.begun.done():
            running.begun.set_result(None)
        if not running.written.done():
            running.written.set_result(False)
        if running.end is not None:
            self._retired(running)

    def _log_failure(self, failure: str) -> None:
        """The log hears of it once, and once more when it is over."""
        if failure and not self._failure:
            log.error("the store cannot be written: turns are kept in memory for now", extra=_fields(failure))
        elif self._failure and not failure:
            log.warning("the store can be written again", extra=_fields(self._failure))
        self._failure = failure


def log_lost(id: str, code: str, what: str) -> None:
    """One line for each response that will not be in the file: its id, and nothing of what it says."""
    fields = {"event": "store", "code": code, "response_id": id}
    log.error(f"the response {id!r} {what}", extra={"fields": fields})


def _fields(code: str) -> dict[str, dict[str, str]]:
    return {"fields": {"event": "store", "code": code}}


# In the thread


def commit(connection: sqlite3.Connection, batch: _Batch) -> None:
    """Write a batch in one transaction. Never raises: what went wrong is in the batch."""
    try:
        _commit_all(connection, batch)
        batch.written.update(range(len(batch)))
        for running, part in batch.parts:
            running.is_committed = part.end is not None
    except Exception as error:
        if _is_of_the_disk(error):
            batch.failure = failure_of(error)[0]
        else:
            _commit_one_by_one(connection, batch)


def _commit_all(connection: sqlite3.Connection, batch: _Batch) -> None:
    # An end that was reported survives a power cut; deltas survive the death of the process, and the file
    # survives both in either mode. A sync for each bit of a log would cost more than the log.
    connection.execute(f"PRAGMA synchronous = {'FULL' if batch.is_waited_for else 'NORMAL'}")
    connection.execute("BEGIN IMMEDIATE")
    try:
        for _, part in batch.parts:
            write_part(connection, part)
        for job in batch.jobs:
            job.result = job.run(connection)
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.rollback()


def _commit_one_by_one(connection: sqlite3.Connection, batch: _Batch) -> None:
    """Something in the batch cannot be written at all: it must not take the rest with it."""
    alone = [_Batch([entry], []) for entry in batch.parts] + [_Batch([], [job]) for job in batch.jobs]
    for place, single in enumerate(alone):
        try:
            _commit_all(connection, single)
            batch.written.add(place)
        except Exception as error:
            if _is_of_the_disk(error):
                batch.failure = failure_of(error)[0]
                return
            batch.refused.add(place)
            for job in single.jobs:
                job.result = _refusal(error)


def _is_of_the_disk(error: Exception) -> TypeGuard[sqlite3.Error]:
    """A failure that concerns whatever is written, and may pass; others are of what was to be written."""
    return isinstance(error, sqlite3.OperationalError) or type(error) is sqlite3.DatabaseError


def _refusal(error: Exception) -> Exception:
    if isinstance(error, sqlite3.Error):
        return StoreError(*failure_of(error))
    return error
