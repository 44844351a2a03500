"""The store in an SQLite file. It needs no setup, and one process at a time can open it.

A turn stays in memory from `open` until all of it is in the file, and is read from memory: readers never wait
for the writer. Everything else is read from the file by a pool of threads.

What `close` reports as durable was committed and synced: it survives `kill -9` and, on a disk that does not
lie about syncs, a power cut. A running turn may lose its last tenth of a second if the process dies, and what
was committed since the last sync in a power cut. The file opens without errors after either.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from penstock.errors import StoreError
from penstock.store.contract import (
    RUNNING,
    Closed,
    LoggedEvent,
    Opened,
    Page,
    Stats,
    StoredConversation,
    StoredItem,
    StoredResponse,
    StoredTurn,
    Trace,
    page_of,
)
from penstock.store.sqlite import queries, statements
from penstock.store.sqlite.file import BUSY_MS, FileLocation, FileLock
from penstock.store.sqlite.ledger_store import SqliteLedger
from penstock.store.sqlite.opening import open_file
from penstock.store.sqlite.pruning import advance_time, prune
from penstock.store.sqlite.reader_pool import ReaderPool
from penstock.store.sqlite.writer import WriteLimits, Writer, log_lost
from penstock.store.turn_buffer import TurnBuffer, size_of_events, wait_briefly

_PATIENCE = 0.25
"""Seconds that a caller waits for the disk (decision 17)."""

Reference = tuple[int | StoredItem, str]
"""An item, or its number in the file; and its id."""


async def open_sqlite_store(
    path: str | Path,
    *,
    clock: Callable[[], float] = time.time,
    bounds: WriteLimits | None = None,
    busy_ms: int = BUSY_MS,
) -> SqliteStore:
    """Open a file, or create it; raise `StoreError` if that is not possible.

    Turns that were running when an earlier process died are ended as failed (ask G8).
    """
    file = Path(path).expanduser().resolve()
    lock, connection = await asyncio.to_thread(open_file, file, busy_ms, clock)
    return SqliteStore(file, lock, connection, clock=clock, bounds=bounds or WriteLimits(), busy_ms=busy_ms)


class SqliteStore(SqliteLedger):
    """See `penstock.store.contract.Store` for what each method promises; open it with `open_sqlite_store`."""

    def __init__(
        self,
        path: Path,
        lock: FileLock,
        connection: sqlite3.Connection,
        *,
        clock: Callable[[], float],
        bounds: WriteLimits,
        busy_ms: int,
    ) -> None:
        self._lock = lock
        self._clock = clock
        self._bounds = bounds
        self._turns: dict[str, TurnBuffer] = {}
        """Turns that are not completely in the file, in the order in which they were opened."""
        location = FileLocation(path)
        self._writer = Writer(
            connection,
            self._retire,
            commit_delay=bounds.commit_delay,
            log_delay=bounds.log_delay,
            recent_delay=bounds.recent_delay,
            file_exists=location.exists,
        )
        self._readers = ReaderPool(path, busy_ms)
        super().__init__(self._writer, self._readers)
        self._is_closed = False
        self._lost: list[str] = []
        """The ids of responses that could not be written before the store was closed."""

    def _turn(self, tenant: str, id: str) -> TurnBuffer | None:
        running = self._turns.get(id)
        return running if running is not None and running.opened.tenant == tenant else None

    def _retire(self, running: TurnBuffer) -> None:
        self._turns.pop(running.opened.id, None)

    # Running turns

    async def open(self, turn: Opened, *, patience: float = 0.1) -> bool:
        if self._is_closed:
            raise StoreError(StoreError.CLOSED, "the store is closed")
        if turn.id in self._turns:
            raise StoreError(StoreError.DUPLICATE, f"a turn with the id {turn.id!r} is already running")
        if turn.is_background:
            await self._write_now(turn, patience)
        running = self._turns[turn.id] = TurnBuffer(turn)
        if turn.is_background:
            running.is_stored, running.size = True, 0
            running.reasoning_memory.clear()
            return True
        self._writer.queued += running.size
        self._writer.schedule(running)
        if not self._writer.is_failing:
            await wait_briefly(running.row_write, patience)
        return running.is_stored

    async def _write_now(self, turn: Opened, patience: float) -> None:
        """Commit and sync the row of a turn, or raise. This tries even if the last write failed: without
        other turns, nothing else would notice that the disk has recovered."""
        try:
            async with asyncio.timeout(patience):
                await self._writer.do(partial(statements.begin_background, turn=turn))
        except (TimeoutError, asyncio.CancelledError) as error:
            # The commit may be running already, and succeed: then the row is deleted again.
            self._writer.do_later(partial(statements.delete_response, tenant=turn.tenant, id=turn.id))
            if isinstance(error, TimeoutError):
                message = "the disk did not write the turn in time"
                raise StoreError(StoreError.LATE, message) from None
            raise

    def log(self, id: str, events: Sequence[LoggedEvent], *, soon: bool = False) -> None:
        running = self._turns.get(id)
        if running is None or running.finished.is_set() or not events:
            return
        size = size_of_events(events)
        if not self._has_room(running, size):
            running.dropped += len(events)
            return
        running.log(events, size)
        self._writer.queued += size
        if soon or running.size >= self._bounds.gathered:
            self._writer.schedule(running)
        else:
            self._writer.gather(running)

    async def settle(self, id: str, *, patience: float = 5.0) -> None:
        running = self._turns.get(id)
        if running is not None and running.events and not self._writer.is_failing:
            with suppress(TimeoutError):
                async with asyncio.timeout(patience):
                    await self._writer.flush()

    def trace(self, id: str, traces: Sequence[Trace]) -> None:
        running = self._turns.get(id)
        if running is None or running.finished.is_set() or not traces:
            return
        size = size_of_events(traces)
        if self._has_room(running, size):
            running.trace(traces, size)
            self._writer.queued += size
            self._writer.gather(running)

    def _has_room(self, running: TurnBuffer, size: int) -> bool:
        """Return whether more data may wait for the disk: within the limit of the store, or that of the turn.
        An event that exceeds both is accepted when nothing else waits."""
        if running.is_lost:
            return False
        bounds, queued = self._bounds, self._writer.queued
        return queued + size <= bounds.queued or running.size + size <= bounds.queued_turn or not queued

    async def close(self, id: str, end: Closed, *, patience: float = _PATIENCE) -> bool:
        running = self._turns.get(id)
        if running is None or running.finished.is_set():
            return False
        before = running.size
        running.close(end, self._clock())
        if running.is_lost:
            self._retire(running)
            return False
        self._writer.queued += running.size - before
        self._writer.schedule(running)
        self._discard_excess()
        await self._wait_for_end(running, patience)
        return running.is_written

    async def _wait_for_end(self, running: TurnBuffer, patience: float) -> None:
        if not self._writer.is_failing:
            await wait_briefly(running.end_write, patience)

    def _discard_excess(self) -> None:
        """Discard ended turns that cannot be written, oldest first, until the rest is within the limit."""
        for running in list(self._turns.values()):
            if self._writer.queued <= self._bounds.queued:
                return
            if running.end is not None and (running.end_write.done() or self._writer.is_failing):
                log_lost(
                    running.opened.id, "given_up", "is lost: too much data is waiting to be written to disk"
                )
                self._writer.lose(running)

    # Responses

    async def get(self, tenant: str, id: str) -> StoredResponse | None:
        running = self._turn(tenant, id)
        if running is not None:
            if running.end is not None:  # Do not report an end that a crash could undo.
                await self._wait_for_end(running, _PATIENCE)
            return running.response()
        return await self._readers.read(queries.response, tenant, id)

    async def delete(self, tenant: str, id: str) -> bool:
        running = self._turn(tenant, id)
        if running is not None and running.end is None:
            return False
        return await self._writer.do(partial(statements.delete_response, tenant=tenant, id=id))

    async def events(self, tenant: str, id: str, after: int = -1) -> AsyncIterator[LoggedEvent]:
        running = self._turn(tenant, id)
        while True:
            # An event is either in the file or in memory: older events are read from the file.
            if running is None or after < running.stored_sequence:
                some = await self._readers.read(queries.events, tenant, id, after)
                if not some and running is None:
                    return
                if not some and running is not None:  # It was deleted in the meantime.
                    after = running.stored_sequence
            elif not (some := running.events_after(after)):
                if running.finished.is_set():
                    return
                await running.changed.wait()
            for event in some:
                after = event.sequence
                yield event

    async def traces(self, tenant: str, id: str) -> list[Trace]:
        running = self._turn(tenant, id)
        if running is None:
            return await self._readers.read(queries.traces, tenant, id)
        # A commit may finish while the file is read: use only the rows that were in the file before.
        count, unwritten = running.stored_traces, running.traces[:]
        stored = await self._readers.read(queries.traces, tenant, id) if count else []
        return stored[:count] + unwritten

    async def input_items(
        self, tenant: str, id: str, *, after: str | None = None, limit: int = 20, newest_first: bool = True
    ) -> Page | None:
        turns = self._unwritten_chain(tenant, id)
        entries: list[Reference] = []
        first = turns[0].opened.previous_id if turns else id
        if first is not None:
            if not turns and not await self._readers.read(queries.exists, tenant, id):
                return None
            entries.extend(await self._readers.read(queries.history, tenant, first, bool(turns)))
        for running in turns:
            entries.extend((item, item.id) for item in running.opened.input)
            if running.end is not None and running is not turns[-1]:
                entries.extend((item, item.id) for item in running.end.output)
        page, has_more = page_of(entries, _id_of, after=after, limit=limit, newest_first=newest_first)
        numbers = [item for item, _ in page if isinstance(item, int)]
        stored = await self._readers.read(queries.items, numbers) if numbers else {}
        found = (stored.get(item) if isinstance(item, int) else item for item, _ in page)
        return Page(tuple(item for item in found if item is not None), has_more)

    # Chains and items

    def _unwritten_chain(self, tenant: str, id: str | None) -> list[TurnBuffer]:
        """Return the last turns of a chain, as far as they are in memory, oldest first."""
        turns: dict[str, TurnBuffer] = {}
        while id is not None and id not in turns and (running := self._turn(tenant, id)) is not None:
            turns[id] = running
            id = running.opened.previous_id
        return list(reversed(turns.values()))

    async def chain(self, tenant: str, id: str) -> list[StoredTurn] | None:
        turns = self._unwritten_chain(tenant, id)
        first = turns[0].opened.previous_id if turns else id
        # Turns in memory take precedence: their rows may be outdated by the time they are read.
        known = {turn.opened.id: turn for turn in self._turns.values() if turn.opened.tenant == tenant}
        links = await self._readers.read(queries.chain, tenant, first) if first is not None else []
        if links is None:
            return None
        chain = [*(known.get(link.id) or link for link in links), *turns]
        for turn in chain:
            if isinstance(turn, TurnBuffer):
                await turn.finished.wait()
                if turn.end is None:  # The store was closed while it ran.
                    return None
        return [_turn_of(turn) for turn in chain]

    async def items(self, tenant: str, ids: Sequence[str]) -> dict[str, StoredItem]:
        output, input = (
            self._unwritten_items(tenant, ids, is_output=is_output) for is_output in (True, False)
        )
        missing = [id for id in ids if id not in output]
        stored = await self._readers.read(queries.items_of, tenant, missing) if missing else {}
        stored_output = {id: item for id, (item, is_output) in stored.items() if is_output}
        stored_input = {id: item for id, (item, is_output) in stored.items() if not is_output}
        return stored_input | input | stored_output | output

    def _unwritten_items(self, tenant: str, ids: Sequence[str], *, is_output: bool) -> dict[str, StoredItem]:
        turns = [turn for turn in self._turns.values() if turn.opened.tenant == tenant]
        found = ((id, turn.item(id, is_output=is_output)) for turn in turns for id in ids)
        return {id: item for id, item in found if item is not None}

    # Conversations

    async def create_conversation(self, tenant: str, conversation: StoredConversation) -> None:
        await self._writer.do(
            partial(
                statements.create_conversation, tenant=tenant, conversation=conversation, now=self._clock()
            )
        )

    async def get_conversation(self, tenant: str, id: str) -> StoredConversation | None:
        return await self._readers.read(queries.conversation, tenant, id)

    async def update_conversation(self, tenant: str, id: str, metadata: bytes) -> StoredConversation | None:
        change = partial(
            statements.update_conversation, tenant=tenant, id=id, metadata=metadata, now=self._clock()
        )
        return await self.get_conversation(tenant, id) if await self._writer.do(change) else None

    async def delete_conversation(self, tenant: str, id: str) -> bool:
        return await self._writer.do(partial(statements.delete_conversation, tenant=tenant, id=id))

    async def add_items(self, tenant: str, id: str, items: Sequence[StoredItem]) -> bool:
        return await self._writer.do(
            partial(statements.add_items, tenant=tenant, id=id, items=tuple(items), now=self._clock())
        )

    async def conversation_items(
        self, tenant: str, id: str, *, after: str | None = None, limit: int = 20, newest_first: bool = True
    ) -> Page | None:
        if any(running.opened.conversation_id == id for running in self._turns.values() if running.end):
            await self._writer.flush()  # Writing a turn that has ended adds it to its conversation.
        return await self._readers.read(queries.conversation_items, tenant, id, after, limit, newest_first)

    async def delete_item(self, tenant: str, id: str, item_id: str) -> bool:
        return await self._writer.do(partial(statements.delete_item, tenant=tenant, id=id, item_id=item_id))

    async def wait_for_turns(self, tenant: str, id: str) -> None:
        for running in [*self._turns.values()]:
            if (running.opened.tenant, running.opened.conversation_id) == (tenant, id):
                await running.finished.wait()

    # The reasoning memory

    async def remember(self, tenant: str, id: str, key: str, data: bytes) -> None:
        running = self._turn(tenant, id)
        if running is None or running.end is not None:
            await self._writer.do(partial(statements.remember, tenant=tenant, id=id, key=key, data=data))
        elif not running.is_lost:
            before = running.size
            running.remember(key, data)
            self._writer.queued += running.size - before
            self._writer.schedule(running)

    async def recall(self, tenant: str, keys: Sequence[str]) -> dict[str, bytes]:
        unwritten = [turn.reasoning_memory for turn in self._turns.values() if turn.opened.tenant == tenant]
        found = {key: memory[key] for memory in unwritten for key in keys if key in memory}
        missing = [key for key in keys if key not in found]
        stored = await self._readers.read(queries.reasoning_memory, tenant, missing) if missing else {}
        return found | stored

    # Pruning

    async def advance_time(self) -> float:
        return await self._writer.do(partial(advance_time, now=self._clock()))

    async def prune(self, *, older_than: float, most_bytes: int | None = None) -> int:
        return await prune(self._writer, older_than=older_than, most_bytes=most_bytes)

    async def stats(self) -> Stats:
        await self._writer.flush(moves_recent=True)
        return await self._readers.read(queries.stats)

    async def aclose(self) -> list[str]:
        if self._is_closed:
            return self._lost
        self._is_closed = True
        for running in self._turns.values():
            running.abandon()
        await self._readers.aclose()
        # The last connection to close empties the journal, which a reader could not do.
        self._lost = await self._writer.aclose()
        self._lock.release()
        return self._lost


def _id_of(reference: Reference) -> str:
    return reference[1]


def _turn_of(link: TurnBuffer | StoredTurn) -> StoredTurn:
    if isinstance(link, TurnBuffer):
        return link.turn()
    # It is not running, so its end could not be written and was discarded.
    return replace(link, status="failed") if link.status in RUNNING else link
