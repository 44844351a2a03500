"""The store in a file. Needs no set-up, and one process has it at a time.

A turn lives in memory from `open` until all of it is in the file, and is answered from there: what is asked
never waits for the writer. Everything else is read from the file by a few threads.

What `close` reports as durable was committed and synced: it survives `kill -9` and, on a disk that keeps
its word, a power cut. Of a turn that still runs the last tenth of a second may be lost with the process, and
by a power cut what was committed since the last sync. The file opens clean after either.
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
from penstock.store.sqlite.file import (
    BUSY_MS,
    FileLocation,
    FileLock,
)
from penstock.store.sqlite.opening import open_file
from penstock.store.sqlite.pruning import advance_time, prune
from penstock.store.sqlite.reader_pool import ReaderPool
from penstock.store.sqlite.writer import WriteLimits, Writer, log_lost
from penstock.store.turn_buffer import TurnBuffer, size_of_events

_PATIENCE = 0.25
"""Seconds that somebody waits for the disk (decision 17)."""

Reference = tuple[int | StoredItem, str]
"""An item by its number in the file, or itself, and its id."""


async def open_sqlite_store(
    path: str | Path,
    *,
    clock: Callable[[], float] = time.time,
    bounds: WriteLimits | None = None,
    busy_ms: int = BUSY_MS,
) -> SqliteStore:
    """Open a file, or make it. `StoreError` says why that is not possible.

    Turns that a process left behind when it died are ended here, as failed (ask G8).
    """
    file = Path(path).expanduser().resolve()
    lock, connection = await asyncio.to_thread(open_file, file, busy_ms, clock)
    return SqliteStore(file, lock, connection, clock=clock, bounds=bounds or WriteLimits(), busy_ms=busy_ms)


class SqliteStore:
    """`penstock.store.contract.Store` says what each method promises; `open_sqlite_store` opens one."""

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
        """Those that are not wholly in the file, in the order of their opening."""
        location = FileLocation(path)
        self._writer = Writer(
            connection, self._retire, gather=bounds.gather, lull=bounds.lull, is_there=location.is_there
        )
        self._readers = ReaderPool(path, busy_ms)
        self._is_closed = False
        self._lost: list[str] = []
        """The ids of what could not be written before it was closed."""

    def _turn(self, tenant: str, id: str) -> TurnBuffer | None:
        running = self._turns.get(id)
        return running if running is not None and running.opened.tenant == tenant else None

    def _retire(self, running: TurnBuffer) -> None:
        self._turns.pop(running.opened.id, None)

    # A turn while it runs

    async def open(self, turn: Opened, *, patience: float = 0.1) -> bool:
        if self._is_closed:
            raise StoreError(StoreError.CLOSED, "the store was closed")
        if turn.id in self._turns:
            raise StoreError(StoreError.DUPLICATE, "a turn of this id is running")
        if turn.is_background:
            await self._write_at_once(turn, patience)
        running = self._turns[turn.id] = TurnBuffer(turn)
        if turn.is_background:
            running.is_stored, running.size = True, 0
            return True
        self._writer.queued += running.size
        self._writer.schedule(running, soon=True)
        if not self._writer.is_failing:
            await asyncio.wait({running.begun}, timeout=patience)
        return running.is_stored

    async def _write_at_once(self, turn: Opened, patience: float) -> None:
        """Commit and sync the row of a turn, or raise. Tries also when the last write failed: without other
        turns nobody else would find out that the disk is well again."""
        try:
            async with asyncio.timeout(patience):
                await self._writer.do(partial(statements.begin_turn, turn=turn))
        except (TimeoutError, asyncio.CancelledError) as error:
            # The commit may already run, and succeed: then it is taken back.
            self._writer.do_later(partial(statements.delete_response, tenant=turn.tenant, id=turn.id))
            if isinstance(error, TimeoutError):
                message = "the disk did not take the turn in time"
                raise StoreError(StoreError.LATE, message) from None
            raise

    def log(self, id: str, events: Sequence[LoggedEvent]) -> None:
        running = self._turns.get(id)
        if running is None or running.over.is_set() or not events:
            return
        size = size_of_events(events)
        if not self._has_room(running, size):
            running.dropped += len(events)
            return
        running.log(events, size)
        self._writer.queued += size
        self._writer.schedule(running, soon=False)

    async def settle(self, id: str, *, patience: float = 5.0) -> None:
        running = self._turns.get(id)
        if running is not None and running.events and not self._writer.is_failing:
            with suppress(TimeoutError):
                async with asyncio.timeout(patience):
                    await self._writer.flush()

    def trace(self, id: str, traces: Sequence[Trace]) -> None:
        running = self._turns.get(id)
        if running is None or running.over.is_set() or not traces:
            return
        size = size_of_events(traces)
        if self._has_room(running, size):
            running.trace(traces, size)
            self._writer.queued += size
            self._writer.schedule(running, soon=False)

    def _has_room(self, running: TurnBuffer, size: int) -> bool:
        """Whether there is room for what the disk did not take yet: in the store's, or in the turn's own. One
        event that is larger than the room for all is taken when nothing else waits."""
        if running.is_lost:
            return False
        bounds, queued = self._bounds, self._writer.queued
        return queued + size <= bounds.queued or running.size + size <= bounds.queued_turn or not queued

    async def close(self, id: str, end: Closed, *, patience: float = _PATIENCE) -> bool:
        running = self._turns.get(id)
        if running is None or running.over.is_set():
            return False
        before = running.size
        running.close(end, self._clock())
        if running.is_lost:
            self._retire(running)
            return False
        self._writer.queued += running.size - before
        self._writer.schedule(running, soon=True)
        self._shed()
        await self._until_written(running, patience)
        return running.is_written

    async def _until_written(self, running: TurnBuffer, patience: float) -> None:
        if not self._writer.is_failing:
            await asyncio.wait({running.written}, timeout=patience)

    def _shed(self) -> None:
        """What has ended and cannot be written is kept as long as there is room, the newest the longest."""
        for running in list(self._turns.values()):
            if self._writer.queued <= self._bounds.queued:
                return
            if running.end is not None and (running.written.done() or self._writer.is_failing):
                log_lost(running.opened.id, "given_up", "is lost: too much waits for the disk already")
                self._writer.lose(running)

    # Responses

    async def get(self, tenant: str, id: str) -> StoredResponse | None:
        running = self._turn(tenant, id)
        if running is not None:
            if running.end is not None:  # Nobody is told of an end that a crash could take back.
                await self._until_written(running, _PATIENCE)
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
            # An event is in the file or in memory: a reader that is behind finds it in the file.
            if running is None or after < running.stored_sequence:
                some = await self._readers.read(queries.events, tenant, id, after)
                if not some and running is None:
                    return
                if not some and running is not None:  # It was deleted meanwhile.
                    after = running.stored_sequence
            elif not (some := running.events_after(after)):
                if running.over.is_set():
                    return
                await running.grown.wait()
            for event in some:
                after = event.sequence
                yield event

    async def traces(self, tenant: str, id: str) -> list[Trace]:
        running = self._turn(tenant, id)
        if running is None:
            return await self._readers.read(queries.traces, tenant, id)
        # A commit may end while the file is read: only what was there before it is taken from there.
        count, waiting = running.stored_traces, running.traces[:]
        stored = await self._readers.read(queries.traces, tenant, id) if count else []
        return stored[:count] + waiting

    async def input_items(
        self, tenant: str, id: str, *, after: str | None = None, limit: int = 20, newest_first: bool = True
    ) -> Page | None:
        turns = self._unwritten_chain(tenant, id)
        entries: list[Reference] = []
        first = turns[0].opened.previous_id if turns else id
        if first is not None:
            if not turns and not await self._readers.read(queries.is_there, tenant, id):
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
        """The end of a chain as far as it is in memory, the oldest first."""
        turns: dict[str, TurnBuffer] = {}
        while id is not None and id not in turns and (running := self._turn(tenant, id)) is not None:
            turns[id] = running
            id = running.opened.previous_id
        return list(reversed(turns.values()))

    async def chain(self, tenant: str, id: str) -> list[StoredTurn] | None:
        turns = self._unwritten_chain(tenant, id)
        first = turns[0].opened.previous_id if turns else id
        # What the file says of these may be old by the time it has been read.
        known = {one.opened.id: one for one in self._turns.values() if one.opened.tenant == tenant}
        links = await self._readers.read(queries.chain, tenant, first) if first is not None else []
        if links is None:
            return None
        whole = [*(known.get(link.id) or link for link in links), *turns]
        for running in whole:
            if isinstance(running, TurnBuffer):
                await running.over.wait()
                if running.end is None:  # The store was closed under it.
                    return None
        return [_turn_of(link) for link in whole]

    async def items(self, tenant: str, ids: Sequence[str]) -> dict[str, StoredItem]:
        made, sent = (self._unwritten_items(tenant, ids, is_output=is_output) for is_output in (True, False))
        missing = [id for id in ids if id not in made]
        stored = await self._readers.read(queries.items_of, tenant, missing) if missing else {}
        stored_made = {id: item for id, (item, is_output) in stored.items() if is_output}
        stored_sent = {id: item for id, (item, is_output) in stored.items() if not is_output}
        return stored_sent | sent | stored_made | made

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
            await self._writer.flush()  # A turn that has ended is in its conversation, if it can be written.
        return await self._readers.read(queries.conversation_items, tenant, id, after, limit, newest_first)

    async def delete_item(self, tenant: str, id: str, item_id: str) -> bool:
        return await self._writer.do(partial(statements.delete_item, tenant=tenant, id=id, item_id=item_id))

    async def quiet(self, tenant: str, id: str) -> None:
        for running in [*self._turns.values()]:
            if (running.opened.tenant, running.opened.conversation_id) == (tenant, id):
                await running.over.wait()

    # The reasoning memory

    async def remember(self, tenant: str, id: str, key: str, data: bytes) -> None:
        running = self._turn(tenant, id)
        if running is None or running.end is not None:
            await self._writer.do(partial(statements.remember, tenant=tenant, id=id, key=key, data=data))
        elif not running.is_lost:
            before = running.size
            running.remember(key, data)
            self._writer.queued += running.size - before
            self._writer.schedule(running, soon=False)

    async def recall(self, tenant: str, keys: Sequence[str]) -> dict[str, bytes]:
        kept = [turn.reasoning_memory for turn in self._turns.values() if turn.opened.tenant == tenant]
        found = {key: memory[key] for memory in kept for key in keys if key in memory}
        missing = [key for key in keys if key not in found]
        stored = await self._readers.read(queries.reasoning_memory, tenant, missing) if missing else {}
        return found | stored

    # Pruning

    async def advance_time(self) -> float:
        return await self._writer.do(partial(advance_time, now=self._clock()))

    async def prune(self, *, older_than: float, most_bytes: int | None = None) -> int:
        return await prune(self._writer, older_than=older_than, most_bytes=most_bytes)

    async def stats(self) -> Stats:
        await self._writer.flush()
        return await self._readers.read(queries.stats)

    async def aclose(self) -> list[str]:
        if self._is_closed:
            return self._lost
        self._is_closed = True
        for running in self._turns.values():
            running.abandon()
        await self._readers.aclose()
        # The last to close empties the journal, and a reader could not.
        self._lost = await self._writer.aclose()
        self._lock.release()
        return self._lost


def _id_of(reference: Reference) -> str:
    return reference[1]


def _turn_of(link: TurnBuffer | StoredTurn) -> StoredTurn:
    if isinstance(link, TurnBuffer):
        return link.turn()
    # Nobody runs it, so its end could not be written, and was given up.
    return replace(link, status="failed") if link.status in RUNNING else link
