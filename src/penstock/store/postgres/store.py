"""The store in PostgreSQL, for one of the workers that share it.

What `close` reports as durable was committed and synced by the server. A running turn may lose its last tenth
of a second if its worker dies, and what the server has not synced if that crashes. While the server is away,
turns go on in memory, and are written under their claim tokens when it is back.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from datetime import date
from functools import partial
from uuid import uuid4

from penstock.errors import StoreError
from penstock.store.backend import ClaimedTurn, Orphan
from penstock.store.batch_writer import Outcome, WriteLimits
from penstock.store.latencies import TurnLatencies
from penstock.store.ledger import Dimension, Exceeded, KeyLimits, TurnFilter, TurnPage, TurnRecord, TurnTotals
from penstock.store.news import Bus
from penstock.store.peers import PeerTimes
from penstock.store.postgres import changes, latencies, ledger, pruning, queries, threads, workers
from penstock.store.postgres.address import address_of
from penstock.store.postgres.bus import NotifyBus
from penstock.store.postgres.clock import DatabaseClock
from penstock.store.postgres.connections import DatabasePool, Job
from penstock.store.postgres.schema import migrate_database
from penstock.store.postgres.statements import Writing, day_of, write_parts
from penstock.store.postgres.writer import PostgresWriter
from penstock.store.records import (
    HeldKey,
    LoggedEvent,
    Opened,
    Page,
    Stats,
    StoredConversation,
    StoredItem,
    StoredResponse,
    StoredTurn,
    Trace,
)
from penstock.store.redis_bus import RedisBus
from penstock.store.shared import SharedStore
from penstock.store.threads import ThreadPage, ThreadTurn
from penstock.store.turn_buffer import UnwrittenPart

_log = logging.getLogger("penstock.store")

_LEDGER_BATCH = 1000
"""Rows deleted in one transaction."""
_LONG = 15.0
"""Seconds for reading a long chain."""
_VERY_LONG = 60.0
"""Seconds for counting and deleting."""
_DISCARD_AFTER = (0.0, 1.0, 10.0, 60.0)
"""Seconds until the attempts to delete a turn whose caller has given up. The write may still be running."""


async def open_postgres_store(
    url: str,
    *,
    clock: Callable[[], float] | None = None,
    direct_url: str = "",
    redis_url: str = "",
    bounds: WriteLimits | None = None,
    times: PeerTimes | None = None,
) -> SharedStore:
    """Open a database for one more worker; raise `StoreError` if that is not possible. Missing tables are
    created. Without `clock`, times are those of the database."""
    address = address_of(url, direct_url)
    await migrate_database(address)
    pool, worker = DatabasePool(address), uuid4().hex
    database_clock = DatabaseClock()
    used_clock = clock or database_clock
    writer = PostgresWriter(pool, bounds or WriteLimits(), worker, used_clock)
    backend = PostgresBackend(pool, writer, worker, used_clock, database_clock)
    bus: Bus = NotifyBus(pool)
    if redis_url:
        bus = RedisBus(redis_url, bus)
    store = SharedStore(backend, writer, bus, worker, used_clock, times or PeerTimes(lease=address.lease))
    try:
        await store.join()
        await pool.transact(partial(pruning.set_initial_time, now=used_clock()))
        await backend.add_partitions()
    except BaseException:
        await store.aclose()
        raise
    return store


class PostgresBackend:
    """See `penstock.store.backend.Backend` and `WorkerBackend`: each method runs the SQL of its name."""

    def __init__(
        self,
        pool: DatabasePool,
        writer: PostgresWriter,
        worker: str,
        clock: Callable[[], float],
        database_clock: DatabaseClock,
    ) -> None:
        self._pool, self._writer, self._worker = pool, writer, worker
        self._clock, self._database_clock = clock, database_clock
        self._opening: dict[str, asyncio.Task[None]] = {}
        """Background turns that are being written, by their claim tokens."""
        self._discarded: dict[str, tuple[str, str]] = {}
        """Turns that nobody may run, by their claim tokens: their clients have got an error."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._partitions_until: date | None = None
        self._is_closed = False

    # Reading

    async def response(self, tenant: str, id: str) -> StoredResponse | None:
        return await self._pool.run(partial(queries.response, tenant=tenant, id=id))

    async def exists(self, tenant: str, id: str) -> bool:
        return await self._pool.run(partial(queries.exists, tenant=tenant, id=id))

    async def events(self, tenant: str, id: str, after: int) -> list[LoggedEvent]:
        return await self._pool.run(partial(queries.events, tenant=tenant, id=id, after=after))

    async def traces(self, tenant: str, id: str) -> list[Trace]:
        return await self._pool.run(partial(queries.traces, tenant=tenant, id=id))

    async def history(self, tenant: str, id: str, *, is_before: bool) -> list[tuple[int, str]]:
        job = partial(queries.history, tenant=tenant, id=id, is_before=is_before)
        return await self._pool.run(job, seconds=_LONG)

    async def items(self, numbers: list[int]) -> dict[int, StoredItem]:
        return await self._pool.run(partial(queries.items, numbers=numbers))

    async def chain(self, tenant: str, id: str) -> list[StoredTurn] | None:
        return await self._pool.run(partial(queries.chain, tenant=tenant, id=id), seconds=_LONG)

    async def items_of(self, tenant: str, ids: Sequence[str]) -> dict[str, tuple[StoredItem, bool]]:
        return await self._pool.run(partial(queries.items_of, tenant=tenant, ids=ids))

    async def recall(self, tenant: str, keys: Sequence[str]) -> dict[str, bytes]:
        return await self._pool.run(partial(queries.recall, tenant=tenant, keys=keys))

    async def conversation(self, tenant: str, id: str) -> StoredConversation | None:
        return await self._pool.run(partial(queries.conversation, tenant=tenant, id=id))

    async def conversation_items(
        self, tenant: str, id: str, *, after: str | None, limit: int, newest_first: bool
    ) -> Page | None:
        job = partial(
            queries.conversation_items,
            tenant=tenant,
            id=id,
            after=after,
            limit=limit,
            newest_first=newest_first,
        )
        return await self._pool.run(job)

    async def continuations(self, tenant: str, id: str) -> list[str]:
        return await self._pool.run(partial(threads.continuations, tenant=tenant, id=id))

    async def threads(self, tenant: str, *, after: str = "", limit: int = 50) -> ThreadPage:
        job = partial(threads.threads, tenant=tenant, after=after, limit=limit)
        return await self._pool.run(job, seconds=_LONG)

    async def conversation_turns(self, tenant: str, id: str, *, limit: int = 200) -> list[ThreadTurn]:
        job = partial(threads.conversation_turns, tenant=tenant, id=id, limit=limit)
        return await self._pool.run(job, seconds=_LONG)

    async def chain_turns(self, tenant: str, id: str, *, limit: int = 200) -> list[ThreadTurn]:
        job = partial(threads.chain_turns, tenant=tenant, id=id, limit=limit)
        return await self._pool.run(job, seconds=_LONG)

    async def stats(self) -> Stats:
        await self._writer.flush()
        return await self._pool.run(queries.stats, seconds=_VERY_LONG)

    # Changing

    async def open_background(self, turn: Opened, token: str) -> None:
        """Write a new turn in a task of its own: a caller that gives up must not cut a commit off, or nobody
        would know when it can be undone."""
        task = self._start(self._open(turn, token))
        self._opening[token] = task
        task.add_done_callback(lambda _: self._opening.pop(token, None))
        await asyncio.shield(task)

    async def _open(self, turn: Opened, token: str) -> None:
        part = UnwrittenPart(
            turn=turn,
            token=token,
            is_new=True,
            events=(),
            traces=(),
            reasoning_memory=dict(turn.memory),
            dropped=0,
            end=None,
            ended_at=0.0,
            size=0,
        )
        writing = Writing(part, first_trace=0)
        day = day_of(self._clock())
        await self._pool.transact(partial(write_parts, writings=[writing], worker=self._worker, day=day))
        if writing.outcome is not Outcome.WRITTEN:
            raise StoreError(StoreError.DUPLICATE, f"the id {turn.id!r} already exists")

    def discard(self, tenant: str, id: str, token: str) -> None:
        self._discarded[token] = tenant, id
        self._start(self._discard(tenant, id, token))

    async def _discard(self, tenant: str, id: str, token: str) -> None:
        opening = self._opening.get(token)
        if opening is not None:
            await asyncio.wait({opening})
        for seconds in _DISCARD_AFTER:
            await asyncio.sleep(seconds)
            with suppress(StoreError):
                await self._pool.transact(_discard_job(tenant, id, token))
        self._discarded.pop(token, None)

    def _start(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finish)
        return task

    def _finish(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()  # its caller may have given up
        if error is not None and not isinstance(error, StoreError):
            _log.error("a task of the store failed", exc_info=error)

    async def delete(self, tenant: str, id: str) -> bool:
        await self._write_end(tenant, id)
        return await self._pool.transact(partial(changes.delete_response, tenant=tenant, id=id))

    async def _write_end(self, tenant: str, id: str) -> None:
        """Write a turn that has ended, but is not written yet: only then can it be deleted."""
        running = self._writer.turns.get(id)
        if running is not None and running.opened.tenant == tenant:
            await self._writer.flush()

    async def create_conversation(self, tenant: str, conversation: StoredConversation, now: float) -> None:
        job = partial(changes.create_conversation, tenant=tenant, conversation=conversation, now=now)
        await self._pool.transact(job)

    async def update_conversation(self, tenant: str, id: str, metadata: bytes, now: float) -> bool:
        job = partial(changes.update_conversation, tenant=tenant, id=id, metadata=metadata, now=now)
        return await self._pool.transact(job)

    async def delete_conversation(self, tenant: str, id: str) -> bool:
        return await self._pool.transact(partial(changes.delete_conversation, tenant=tenant, id=id))

    async def add_items(self, tenant: str, id: str, items: Sequence[StoredItem], now: float) -> bool:
        job = partial(changes.add_items, tenant=tenant, id=id, items=items, now=now)
        return await self._pool.transact(job)

    async def delete_item(self, tenant: str, id: str, item_id: str) -> bool:
        job = partial(changes.delete_item, tenant=tenant, id=id, item_id=item_id)
        return await self._pool.transact(job)

    async def remember(self, tenant: str, id: str, key: str, data: bytes) -> None:
        await self._write_end(tenant, id)
        await self._pool.transact(partial(changes.remember, tenant=tenant, id=id, key=key, data=data))

    async def advance_time(self, now: float, every: float) -> float | None:
        return await self._pool.transact(partial(pruning.advance_time, now=now, every=every))

    async def prune(self, *, older_than: float, most_bytes: int | None) -> int:
        pruned = await pruning.prune(self._pool, older_than=older_than, most_bytes=most_bytes)
        return pruned.responses

    async def shared_secrets(self, name: str, candidate: bytes) -> list[bytes]:
        return await self._pool.transact(partial(workers.shared_secrets, name=name, candidate=candidate))

    # The ledger

    async def admit(self, record: TurnRecord, limits: KeyLimits) -> Exceeded | None:
        return await self._writer.ledger.admit(record, limits)

    async def turns(self, filter: TurnFilter, *, after: str, limit: int) -> TurnPage:
        job = partial(ledger.turns, filter=filter, after=after, limit=limit)
        return await self._pool.run(job, seconds=_LONG)

    async def totals(self, filter: TurnFilter, by: Sequence[Dimension]) -> list[TurnTotals]:
        return await self._pool.run(partial(ledger.totals, filter=filter, by=by), seconds=_LONG)

    async def latencies(self, filter: TurnFilter, by: Sequence[Dimension]) -> list[TurnLatencies]:
        return await self._pool.run(partial(latencies.latencies, filter=filter, by=by), seconds=_LONG)

    async def causes(self, filter: TurnFilter) -> list[tuple[str, int]]:
        return await self._pool.run(partial(latencies.causes, filter=filter), seconds=_LONG)

    async def prune_ledger(self, *, older_than: float) -> int:
        await self._writer.ledger.flush()
        count = 0
        job = partial(ledger.delete_turns, older_than=older_than, most=_LEDGER_BATCH)
        while done := await self._pool.transact(job, seconds=_VERY_LONG):
            count += done
        return count

    # Workers

    async def renew(self, worker: str, lease: float) -> None:
        if self._is_closed:
            raise StoreError(StoreError.CLOSED, "the store is closed")
        began = self._database_clock.start()
        seconds = await self._pool.transact(
            partial(workers.renew, worker=worker, lease=lease), is_synced=False, is_urgent=True
        )
        self._database_clock.measured(began, seconds)
        if self._partitions_until is not None and day_of(self._clock()) > self._partitions_until:
            self._start(self.add_partitions())

    async def add_partitions(self) -> None:
        """Make the partitions of the next days. Workers do this once per day."""
        self._partitions_until = day_of(self._clock())
        await pruning.add_partitions(self._pool, self._clock())

    async def claimed(self, worker: str) -> list[ClaimedTurn]:
        return await self._pool.run(partial(workers.claimed, worker=worker))

    async def claim_orphans(self, worker: str, most: int, *, only_started: bool = False) -> list[Orphan]:
        known = [*self._writer.turns]
        find = partial(workers.has_orphans, worker=worker, known=known, only_started=only_started)
        if not await self._pool.run(find):
            return []
        job = partial(workers.claim_orphans, worker=worker, known=known, most=most, only_started=only_started)
        found = await self._pool.transact(job)
        refused = [each for each in found if (each.turn.tenant, each.turn.id) in {*self._discarded.values()}]
        for orphan in refused:
            self.discard(orphan.turn.tenant, orphan.turn.id, orphan.token)
        return [each for each in found if each not in refused]

    async def settle_orphans(self, code: str) -> int:
        if not await self._pool.run(workers.has_dead_workers):
            return 0
        job = partial(workers.settle_orphans, worker=self._worker, now=self._clock(), code=code)
        return await self._pool.transact(job)

    async def owner(self, tenant: str, id: str) -> str | None:
        return await self._pool.run(partial(workers.owner, tenant=tenant, id=id))

    async def running_in(self, tenant: str, conversation_id: str) -> list[str]:
        job = partial(workers.running_in, tenant=tenant, conversation_id=conversation_id)
        return await self._pool.run(job)

    async def request_cancel(self, tenant: str, id: str) -> str | None:
        return await self._pool.transact(partial(workers.request_cancel, tenant=tenant, id=id))

    async def start(self, tenant: str, id: str, token: str) -> bool:
        return await self._pool.transact(partial(workers.start, tenant=tenant, id=id, token=token))

    async def disown(self, token: str) -> None:
        await self._pool.transact(partial(workers.disown, token=token), is_synced=False)

    async def hand_over(self, token: str) -> None:
        await self._pool.transact(partial(workers.hand_over, token=token))

    async def hold(self, tenant: str, key: str, worker: str, data: bytes) -> HeldKey | None:
        job = partial(workers.hold, tenant=tenant, key=key, worker=worker, data=data)
        return await self._pool.transact(job)  # a key that a crash of the server forgets could be used twice

    async def release(self, tenant: str, key: str, worker: str) -> None:
        job = partial(workers.release, tenant=tenant, key=key, worker=worker)
        await self._pool.transact(job)  # a crash of the server would leave it held while this worker lives

    async def retire(self, tenant: str, key: str, worker: str, data: bytes, seconds: float) -> None:
        job = partial(workers.retire, tenant=tenant, key=key, worker=worker, data=data, seconds=seconds)
        await self._pool.transact(job)

    async def aclose(self) -> list[str]:
        lost = await self._writer.aclose()
        self._is_closed = True
        if self._opening:
            await asyncio.wait(self._opening.values(), timeout=1.0)
        for token, (tenant, id) in self._discarded.items():
            with suppress(StoreError):
                await self._pool.transact(_discard_job(tenant, id, token))
        tasks = [*self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        with suppress(StoreError):
            await self._pool.transact(partial(workers.leave, worker=self._worker), seconds=1.0)
        await self._pool.aclose()
        return lost


def _discard_job(tenant: str, id: str, token: str) -> Job[None]:
    return partial(changes.discard_response, tenant=tenant, id=id, token=token)
