"""Writes the records of the ledger, and admits turns to the limits of their keys.

Admissions that wait at the same time share a transaction, after the records that wait: one connection serves
them all, however many they are, and each sees what those before it have reserved.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from msgspec import Struct

from penstock.errors import StoreError
from penstock.store.batch_writer import Batch, BatchWriter, Outcome, WriteLimits
from penstock.store.ledger import Exceeded, KeyLimits, TurnRecord
from penstock.store.postgres import ledger
from penstock.store.postgres.connections import DatabaseConnection, DatabasePool
from penstock.store.postgres.failures import is_conflict, is_refusal

_log = logging.getLogger("penstock.store")

_MOST_ADMISSIONS = 200
"""Admissions in one transaction."""
_CONFLICTS = 3


class _Admission(Struct):
    record: TurnRecord
    limits: KeyLimits
    done: asyncio.Future[Exceeded | None]
    exceeded: Exceeded | None = None


class _LedgerBatch(Batch):
    admissions: list[_Admission] = []


class LedgerWriter(BatchWriter):
    """A writer without turns."""

    def __init__(self, pool: DatabasePool, limits: WriteLimits, worker: str) -> None:
        super().__init__(limits)
        self._pool, self._worker = pool, worker
        self._admissions: list[_Admission] = []

    async def admit(self, record: TurnRecord, limits: KeyLimits) -> Exceeded | None:
        """Open the record of a turn, or return the limit that it would exceed; raise `StoreError`."""
        if self._is_closed:
            raise StoreError(StoreError.CLOSED, "the store is closed")
        admission = _Admission(record, limits, self._loop.create_future())
        self._admissions.append(admission)
        self._start_in(0.0)
        return await admission.done

    def _has_work(self) -> bool:
        return super()._has_work() or bool(self._admissions)

    def _new_batch(self, now: float) -> Batch:
        some, self._admissions = self._admissions[:_MOST_ADMISSIONS], self._admissions[_MOST_ADMISSIONS:]
        batch = _LedgerBatch(admissions=some)
        self._add_ledger(batch, self._ledger_until if some else now)  # they count
        return batch

    def _next_starts(self, now: float) -> list[float]:
        return [0.0] if self._admissions else super()._next_starts(now)

    def _write(self, batch: _LedgerBatch) -> asyncio.Future[None]:
        return asyncio.ensure_future(self._write_batch(batch))

    async def _write_batch(self, batch: _LedgerBatch) -> None:
        """Write a batch, and report what became of its entries; never raise."""
        records = [*batch.ledger.records.values()]
        try:
            await self._transact(records, batch.admissions)
            batch.ledger.outcome = Outcome.WRITTEN
        except Exception as error:
            failure = self._failure_of(error)
            if is_refusal(error.__cause__ or error):
                await self._write_one_by_one(batch, records)
            else:
                batch.failure = failure.code
            for admission in batch.admissions:
                if not admission.done.done():
                    admission.done.set_exception(failure)
        for admission in batch.admissions:
            if not admission.done.done():  # its caller may have been cancelled
                admission.done.set_result(admission.exceeded)

    def _failure_of(self, error: Exception) -> StoreError:
        if isinstance(error, StoreError):
            return error
        _log.exception("the ledger cannot be written")
        return StoreError(StoreError.IO, "the ledger cannot be written")

    async def _write_one_by_one(self, batch: _LedgerBatch, records: Sequence[TurnRecord]) -> None:
        """Write each record in its own transaction, and drop those that can never be written."""
        for record in records:
            try:
                await self._transact([record], [])
            except Exception as error:
                code = self._failure_of(error).code
                if not is_refusal(error.__cause__ or error):
                    batch.failure = code
                    return
                fields = {"event": "store", "code": code, "response_id": record.id}
                _log.error("a record of the ledger cannot be written", extra={"fields": fields})
        batch.ledger.outcome = Outcome.WRITTEN

    async def _transact(self, records: Sequence[TurnRecord], admissions: Sequence[_Admission]) -> None:
        async def write(connection: DatabaseConnection) -> None:
            if admissions:
                await ledger.lock_tenants(connection, {each.record.tenant for each in admissions})
            await ledger.write_records(connection, records, self._worker)
            for each in admissions:
                each.exceeded = await ledger.admit(connection, each.record, each.limits, self._worker)

        for attempt in range(_CONFLICTS + 1):
            try:
                await self._pool.transact(write, is_synced=False, is_urgent=True)
                return
            except StoreError as error:
                cause = error.__cause__
                if attempt == _CONFLICTS or cause is None or not is_conflict(cause):
                    raise
