"""Pages, sums and threads of a store that keeps what is not written yet in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

from penstock.store.backend import Backend
from penstock.store.batch_writer import BatchWriter
from penstock.store.latencies import TurnLatencies
from penstock.store.ledger import Dimension, TurnFilter, TurnPage, TurnTotals
from penstock.store.threads import ThreadPage, ThreadTurn

Writer = TypeVar("Writer", bound=BatchWriter)


class BufferedReports(Generic[Writer]):
    """See `contract.Store` for what each method promises. What waits is written first; while the store cannot
    be written, it is missing here."""

    def __init__(self, backend: Backend, writer: Writer) -> None:
        self._backend, self._writer = backend, writer
        self._turns = writer.turns

    # The ledger

    async def turns(self, filter: TurnFilter, *, after: str = "", limit: int = 50) -> TurnPage:
        await self._writer.flush()
        return await self._backend.turns(filter, after=after, limit=limit)

    async def totals(self, filter: TurnFilter, by: Sequence[Dimension]) -> list[TurnTotals]:
        await self._writer.flush()
        return await self._backend.totals(filter, by)

    async def latencies(self, filter: TurnFilter, by: Sequence[Dimension]) -> list[TurnLatencies]:
        await self._writer.flush()
        return await self._backend.latencies(filter, by)

    async def causes(self, filter: TurnFilter) -> list[tuple[str, int]]:
        await self._writer.flush()
        return await self._backend.causes(filter)

    # Threads

    async def continuations(self, tenant: str, id: str) -> list[str]:
        running = [turn.opened for turn in self._turns.values()]  # a write may finish meanwhile
        stored = await self._backend.continuations(tenant, id)
        new = [turn.id for turn in running if (turn.tenant, turn.previous_id) == (tenant, id)]
        return stored + [each for each in new if each not in stored]

    async def threads(self, tenant: str, *, after: str = "", limit: int = 50) -> ThreadPage:
        await self._writer.flush()
        return await self._backend.threads(tenant, after=after, limit=limit)

    async def conversation_turns(self, tenant: str, id: str, *, limit: int = 200) -> list[ThreadTurn]:
        await self._writer.flush()
        return await self._backend.conversation_turns(tenant, id, limit=limit)

    async def chain_turns(self, tenant: str, id: str, *, limit: int = 200) -> list[ThreadTurn]:
        await self._writer.flush()
        return await self._backend.chain_turns(tenant, id, limit=limit)
