"""Commits what waits in memory to the database: all turns of this worker together, in one transaction."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from penstock.errors import StoreError
from penstock.store.batch_writer import Batch, BatchWriter, Outcome, PartEntry, WriteLimits
from penstock.store.ledger import TurnRecord
from penstock.store.postgres.connections import DatabaseConnection, DatabasePool
from penstock.store.postgres.failures import is_conflict, is_refusal
from penstock.store.postgres.ledger_writer import LedgerWriter
from penstock.store.postgres.statements import Writing, day_of, write_parts

_log = logging.getLogger("penstock.store")

_DEADLINE = 10.0
"""Seconds for a transaction, and one more for each `_PER_SECOND` bytes."""
_PER_SECOND = 2 * 1024 * 1024
_PACK_IN_THREAD = 256 * 1024
"""Bytes. Packing more than these on the event loop would delay everything else."""
_CONFLICTS = 3
"""How often a transaction is tried again at once after a conflict with another worker."""


class PostgresWriter(BatchWriter):
    """Writes turns of a worker. The records of the ledger go their own way (`ledger_writer`): the end of a
    turn does not wait for them, nor they for the disk."""

    def __init__(
        self, pool: DatabasePool, limits: WriteLimits, worker: str, clock: Callable[[], float]
    ) -> None:
        super().__init__(limits)
        self.ledger = LedgerWriter(pool, limits, worker)
        self._pool, self._worker, self._clock = pool, worker, clock
        self._uncertain: set[str] = set()
        """Turns of which the last part may be written or not: the connection broke in between."""

    def record(self, record: TurnRecord) -> None:
        self.ledger.record(record)

    async def flush(self) -> None:
        await asyncio.gather(super().flush(), self.ledger.flush())

    async def aclose(self) -> list[str]:
        lost, _ = await asyncio.gather(super().aclose(), self.ledger.aclose())
        return lost

    def _write(self, batch: Batch) -> asyncio.Future[None]:
        return asyncio.ensure_future(self._write_batch(batch))

    async def _write_batch(self, batch: Batch) -> None:
        """Write a batch, and report what became of its entries; never raise."""
        entries = batch.parts
        if not entries:
            return
        writings = [self._writing(entry) for entry in entries]
        try:
            if sum(entry.part.size for entry in entries) > _PACK_IN_THREAD:
                await asyncio.to_thread(_pack, writings)
            await self._transact(writings)
        except Exception as error:
            if is_refusal(error.__cause__ or error) and len(entries) > 1:
                await self._write_one_by_one(batch, writings)
            elif is_refusal(error.__cause__ or error):
                writings[0].outcome = Outcome.REFUSED
            else:
                self._fail(batch, error)
        for entry, writing in zip(entries, writings, strict=True):
            self._note(entry, writing)

    def _writing(self, entry: PartEntry) -> Writing:
        running = entry.running
        is_uncertain = running.opened.id in self._uncertain
        return Writing(entry.part, first_trace=running.stored_traces, is_uncertain=is_uncertain)

    async def _write_one_by_one(self, batch: Batch, writings: Sequence[Writing]) -> None:
        """Commit each part in its own transaction, so that an invalid one does not affect the rest."""
        for writing in writings:
            try:
                await self._transact([writing])
            except Exception as error:
                writing.outcome = Outcome.PENDING
                if not is_refusal(error.__cause__ or error):
                    self._fail(batch, error)
                    return
                writing.outcome = Outcome.REFUSED

    def _fail(self, batch: Batch, error: Exception) -> None:
        batch.failure = error.code if isinstance(error, StoreError) else StoreError.IO
        if not isinstance(error, StoreError):
            _log.exception("a batch cannot be written", exc_info=error)

    def _note(self, entry: PartEntry, writing: Writing) -> None:
        entry.outcome = writing.outcome
        id = entry.running.opened.id
        if writing.outcome is Outcome.PENDING:
            self._uncertain.add(id)
        else:
            self._uncertain.discard(id)
        if writing.outcome is Outcome.WRITTEN:
            entry.running.is_committed = entry.part.end is not None

    async def _transact(self, writings: Sequence[Writing]) -> None:
        """Write parts in one transaction. Only the rows of new turns do not wait for the database's disk.
        Events do: once written they are not kept in memory, and a crash of the server would leave a gap."""
        is_synced = any(each.part.end is not None or each.part.events for each in writings)
        seconds = _DEADLINE + sum(each.part.size for each in writings) / _PER_SECOND
        day = day_of(self._clock())

        async def write(connection: DatabaseConnection) -> None:
            await write_parts(connection, writings, self._worker, day)

        for attempt in range(_CONFLICTS + 1):
            try:
                await self._pool.transact(write, seconds=seconds, is_synced=is_synced, is_urgent=True)
                return
            except BaseException as error:
                for writing in writings:
                    writing.outcome = Outcome.PENDING
                cause = error.__cause__
                if attempt == _CONFLICTS or cause is None or not is_conflict(cause):
                    raise


def _pack(writings: Sequence[Writing]) -> None:
    for writing in writings:
        writing.pack()
