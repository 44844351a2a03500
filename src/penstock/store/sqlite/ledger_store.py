"""The part of the SQLite store that keeps the ledger. Its SQL is in `store.sqlite.ledger`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from penstock.store.ledger import (
    Dimension,
    Exceeded,
    KeyLimits,
    TurnFilter,
    TurnPage,
    TurnRecord,
    TurnTotals,
)
from penstock.store.sqlite import ledger
from penstock.store.sqlite.reader_pool import ReaderPool
from penstock.store.sqlite.writer import Writer

_BATCH = 1000
"""Rows deleted in one transaction: a turn that ends in between does not wait for all of them."""


class SqliteLedger:
    """See `penstock.store.ledger.Ledger` for what each method promises."""

    def __init__(self, writer: Writer, readers: ReaderPool) -> None:
        self._writer, self._readers = writer, readers

    async def admit(self, record: TurnRecord, limits: KeyLimits | None = None) -> Exceeded | None:
        if limits is None:
            self._writer.record(record)
            return None
        job = partial(ledger.admit, record=record, limits=limits)
        return await self._writer.do(job, is_synced=False)

    def settle_turn(self, record: TurnRecord) -> None:
        self._writer.record(record)

    async def turns(self, filter: TurnFilter, *, after: str = "", limit: int = 50) -> TurnPage:
        await self._writer.flush()
        return await self._readers.read(ledger.turns, filter, after, limit)

    async def totals(self, filter: TurnFilter, by: Sequence[Dimension]) -> list[TurnTotals]:
        await self._writer.flush()
        return await self._readers.read(ledger.totals, filter, by)

    async def prune_ledger(self, *, older_than: float) -> int:
        count = 0
        while done := await self._writer.do(partial(ledger.delete_turns, older_than=older_than, most=_BATCH)):
            count += done
        return count
