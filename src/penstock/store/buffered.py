"""A store that keeps what is not written yet in memory. Every store outside of this process is one.

A turn stays in memory from `open` until all of it is written, and is read from memory: readers never wait for
the writer. Everything else is read from the backend.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress

from msgspec.structs import replace

from penstock.errors import StoreError
from penstock.store.backend import Backend
from penstock.store.batch_writer import log_lost
from penstock.store.buffered_reports import BufferedReports, Writer
from penstock.store.contract import TurnHost
from penstock.store.interrupted import end_interrupted
from penstock.store.ledger import Exceeded, KeyLimits, TurnRecord
from penstock.store.records import (
    RUNNING,
    Closed,
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
    page_of,
)
from penstock.store.turn_buffer import TurnBuffer, size_of_events, wait_briefly

_PATIENCE = 0.25
"""Seconds that a caller waits for a write (decision 17)."""

Reference = tuple[int | StoredItem, str]
"""An item, or its number in the backend; and its id."""


class BufferedStore(BufferedReports[Writer]):
    """See `contract.Store` for what each method promises."""

    def __init__(self, backend: Backend, writer: Writer, clock: Callable[[], float], worker: str) -> None:
        """`worker` identifies this process among those that use the backend, at the same time or later."""
        super().__init__(backend, writer)
        self._clock, self._worker = clock, worker
        self._is_closed = False
        self._lost: list[str] = []
        """The ids of responses that could not be written before the store was closed."""

    @property
    def clock(self) -> Callable[[], float]:
        return self._clock

    def _turn(self, tenant: str, id: str) -> TurnBuffer | None:
        running = self._turns.get(id)
        return running if running is not None and running.opened.tenant == tenant else None

    # Running turns

    async def open(self, turn: Opened, *, patience: float = 0.1) -> bool:
        if self._is_closed:
            raise StoreError(StoreError.CLOSED, "the store is closed")
        if turn.id in self._turns:
            raise StoreError(StoreError.DUPLICATE, f"a turn with the id {turn.id!r} is already running")
        running = self._buffer(turn)
        if turn.is_background:
            await self._write_now(running, patience)
        self._turns[turn.id] = running
        if running.is_stored:
            return True
        self._writer.queued += running.size
        self._writer.schedule(running)
        if not self._writer.is_failing:
            await wait_briefly(running.row_write, patience)
        return running.is_stored

    def _buffer(self, turn: Opened) -> TurnBuffer:
        return TurnBuffer(turn)

    async def _write_now(self, running: TurnBuffer, patience: float) -> None:
        """Write and sync the row of a turn, or raise. This tries even if the last write failed: without
        other turns, nothing else would notice that the store has recovered."""
        turn = running.opened
        try:
            async with asyncio.timeout(patience):
                await self._backend.open_background(turn, running.token)
        except (TimeoutError, asyncio.CancelledError) as error:
            # The write may be running already, and succeed: then the row is deleted again.
            self._backend.discard(turn.tenant, turn.id, running.token)
            if isinstance(error, TimeoutError):
                message = "the store did not write the turn in time"
                raise StoreError(StoreError.LATE, message) from None
            raise
        running.mark_stored()

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
        if soon or running.size >= self._writer.limits.gathered:
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
        """Return whether more data may wait: within the limit of the store, or that of the turn. An event
        that exceeds both is accepted when nothing else waits."""
        if running.is_lost:
            return False
        limits, queued = self._writer.limits, self._writer.queued
        return queued + size <= limits.queued or running.size + size <= limits.queued_turn or not queued

    async def close(self, id: str, end: Closed, *, patience: float = _PATIENCE) -> bool:
        running = self._turns.get(id)
        if running is None or running.finished.is_set():
            return False
        before = running.size
        running.close(end, self._clock())
        if running.is_lost:
            self._turns.pop(id, None)
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
            if self._writer.queued <= self._writer.limits.queued:
                return
            if running.end is not None and (running.end_write.done() or self._writer.is_failing):
                log_lost(running.opened.id, "given_up", "is lost: too much data is waiting to be written")
                self._writer.lose(running)

    async def shared_secrets(self, name: str, candidate: str) -> list[str]:
        return [each.decode() for each in await self._backend.shared_secrets(name, candidate.encode())]

    @property
    def is_unavailable(self) -> bool:
        return False

    def attach(self, host: TurnHost) -> None:
        """Do nothing: no other worker shares this store."""

    async def hold(self, tenant: str, key: str, data: bytes) -> HeldKey | None:
        return await self._backend.hold(tenant, key, self._worker, data)

    async def release(self, tenant: str, key: str) -> None:
        await self._backend.release(tenant, key, self._worker)

    async def retire(self, tenant: str, key: str, data: bytes, seconds: float) -> None:
        await self._backend.retire(tenant, key, self._worker, data, seconds)

    async def start(self, id: str) -> bool:
        return id in self._turns

    async def hand_over(self, id: str) -> bool:  # noqa: ARG002 - there is no other worker
        return False

    async def cancel(self, tenant: str, id: str) -> bool:  # noqa: ARG002 - no other worker runs it
        return False

    # Responses

    async def get(self, tenant: str, id: str) -> StoredResponse | None:
        running = self._turn(tenant, id)
        if running is not None:
            if running.end is not None:  # Do not report an end that a crash could undo.
                await self._wait_for_end(running, _PATIENCE)
            return running.response()
        stored = await self._backend.response(tenant, id)
        return await self._interrupted(stored) if stored and stored.status in RUNNING else stored

    async def _interrupted(self, stored: StoredResponse) -> StoredResponse:
        """Return a response whose end could not be written and was discarded."""
        log = await self._stored_log(stored.tenant, stored.id)
        end = end_interrupted(stored.id, stored.response, log).end
        return replace(stored, status=end.status, response=end.response)

    async def delete(self, tenant: str, id: str) -> bool:
        running = self._turn(tenant, id)
        if running is not None and running.end is None:
            return False
        return await self._backend.delete(tenant, id)

    async def events(self, tenant: str, id: str, after: int = -1) -> AsyncGenerator[LoggedEvent, None]:
        running = self._turn(tenant, id)
        while True:
            # An event is either written or in memory: older events are written.
            if running is None:
                some = await self._backend.events(tenant, id, after)
                if not some:
                    return
            elif after < running.stored_sequence:
                some = running.written(await self._backend.events(tenant, id, after))
                if not some:  # It was deleted in the meantime.
                    after = running.stored_sequence
            elif not (some := running.events_after(after)):
                if running.finished.is_set():
                    return
                await running.changed.wait()
            for event in some:
                after = event.sequence
                yield event

    async def events_so_far(self, tenant: str, id: str) -> list[LoggedEvent]:
        running = self._turn(tenant, id)
        if running is None:
            return await self._stored_log(tenant, id)
        unwritten = running.events[:]  # a write may finish meanwhile
        found = running.written(await self._stored_log(tenant, id))
        last = found[-1].sequence if found else -1
        return found + [event for event in unwritten if event.sequence > last]

    async def _stored_log(self, tenant: str, id: str) -> list[LoggedEvent]:
        log: list[LoggedEvent] = []
        while some := await self._backend.events(tenant, id, log[-1].sequence if log else -1):
            log += some
        return log

    async def traces(self, tenant: str, id: str) -> list[Trace]:
        running = self._turn(tenant, id)
        if running is None:
            return await self._backend.traces(tenant, id)
        # A write may finish meanwhile: use only the rows that were there before.
        count, unwritten = running.stored_traces, running.traces[:]
        stored = await self._backend.traces(tenant, id) if count else []
        return stored[:count] + unwritten

    async def input_items(
        self, tenant: str, id: str, *, after: str | None = None, limit: int = 20, newest_first: bool = True
    ) -> Page | None:
        turns = self._unwritten_chain(tenant, id)
        entries: list[Reference] = []
        first = turns[0].opened.previous_id if turns else id
        if first is not None:
            if not turns and not await self._backend.exists(tenant, id):
                return None
            entries.extend(await self._backend.history(tenant, first, is_before=bool(turns)))
        for running in turns:
            entries.extend((item, item.id) for item in running.opened.input)
            if running.end is not None and running is not turns[-1]:
                entries.extend((item, item.id) for item in running.end.output)
        page, has_more = page_of(entries, _id_of, after=after, limit=limit, newest_first=newest_first)
        numbers = [item for item, _ in page if isinstance(item, int)]
        stored = await self._backend.items(numbers) if numbers else {}
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
        turns = await self._stored_chain(tenant, id)
        return None if turns is None else [*map(discarded_as_failed, turns)]

    async def _stored_chain(self, tenant: str, id: str) -> list[StoredTurn] | None:
        """Return a chain when those of its turns have ended that this process runs."""
        turns = self._unwritten_chain(tenant, id)
        first = turns[0].opened.previous_id if turns else id
        # Turns in memory take precedence: their rows may be outdated by the time they are read.
        known = {turn.opened.id: turn for turn in self._turns.values() if turn.opened.tenant == tenant}
        links = await self._backend.chain(tenant, first) if first is not None else []
        if links is None:
            return None
        chain = [*(known.get(link.id) or link for link in links), *turns]
        for turn in chain:
            if isinstance(turn, TurnBuffer):
                await turn.finished.wait()
                if turn.end is None:  # The store was closed while it ran, or another worker runs it.
                    return None if self._is_closed else await self._stored_chain(tenant, id)
        return [turn.turn() if isinstance(turn, TurnBuffer) else turn for turn in chain]

    async def items(self, tenant: str, ids: Sequence[str]) -> dict[str, StoredItem]:
        output, input = (
            self._unwritten_items(tenant, ids, is_output=is_output) for is_output in (True, False)
        )
        missing = [id for id in ids if id not in output]
        stored = await self._backend.items_of(tenant, missing) if missing else {}
        stored_output = {id: item for id, (item, is_output) in stored.items() if is_output}
        stored_input = {id: item for id, (item, is_output) in stored.items() if not is_output}
        return stored_input | input | stored_output | output

    def _unwritten_items(self, tenant: str, ids: Sequence[str], *, is_output: bool) -> dict[str, StoredItem]:
        turns = [turn for turn in self._turns.values() if turn.opened.tenant == tenant]
        found = ((id, turn.item(id, is_output=is_output)) for turn in turns for id in ids)
        return {id: item for id, item in found if item is not None}

    # Conversations

    async def create_conversation(self, tenant: str, conversation: StoredConversation) -> None:
        await self._backend.create_conversation(tenant, conversation, self._clock())

    async def get_conversation(self, tenant: str, id: str) -> StoredConversation | None:
        return await self._backend.conversation(tenant, id)

    async def update_conversation(self, tenant: str, id: str, metadata: bytes) -> StoredConversation | None:
        is_known = await self._backend.update_conversation(tenant, id, metadata, self._clock())
        return await self.get_conversation(tenant, id) if is_known else None

    async def delete_conversation(self, tenant: str, id: str) -> bool:
        return await self._backend.delete_conversation(tenant, id)

    async def add_items(self, tenant: str, id: str, items: Sequence[StoredItem]) -> bool:
        return await self._backend.add_items(tenant, id, tuple(items), self._clock())

    async def conversation_items(
        self, tenant: str, id: str, *, after: str | None = None, limit: int = 20, newest_first: bool = True
    ) -> Page | None:
        if any(running.opened.conversation_id == id for running in self._turns.values() if running.end):
            await self._writer.flush()  # Writing a turn that has ended adds it to its conversation.
        return await self._backend.conversation_items(
            tenant, id, after=after, limit=limit, newest_first=newest_first
        )

    async def delete_item(self, tenant: str, id: str, item_id: str) -> bool:
        return await self._backend.delete_item(tenant, id, item_id)

    async def wait_for_turns(self, tenant: str, id: str) -> None:
        for running in [*self._turns.values()]:
            if (running.opened.tenant, running.opened.conversation_id) == (tenant, id):
                await running.finished.wait()

    # The reasoning memory

    async def remember(self, tenant: str, id: str, key: str, data: bytes) -> None:
        running = self._turn(tenant, id)
        if running is None or running.end is not None:
            await self._backend.remember(tenant, id, key, data)
        elif not running.is_lost:
            before = running.size
            running.remember(key, data)
            self._writer.queued += running.size - before
            self._writer.schedule(running)

    async def recall(self, tenant: str, keys: Sequence[str]) -> dict[str, bytes]:
        unwritten = [turn.reasoning_memory for turn in self._turns.values() if turn.opened.tenant == tenant]
        found = {key: memory[key] for memory in unwritten for key in keys if key in memory}
        missing = [key for key in keys if key not in found]
        stored = await self._backend.recall(tenant, missing) if missing else {}
        return found | stored

    # The ledger

    async def admit(self, record: TurnRecord, limits: KeyLimits | None = None) -> Exceeded | None:
        if limits is None:
            self._writer.record(record)
            return None
        return await self._backend.admit(record, limits)

    def settle_turn(self, record: TurnRecord) -> None:
        self._writer.record(record)

    async def prune_ledger(self, *, older_than: float) -> int:
        return await self._backend.prune_ledger(older_than=older_than)

    # Pruning

    async def advance_time(self, *, every: float = 0.0) -> float | None:
        return await self._backend.advance_time(self._clock(), every)

    async def prune(self, *, older_than: float, most_bytes: int | None = None) -> int:
        return await self._backend.prune(older_than=older_than, most_bytes=most_bytes)

    async def stats(self) -> Stats:
        return await self._backend.stats()

    async def aclose(self) -> list[str]:
        if self._is_closed:
            return self._lost
        self._is_closed = True
        for running in self._turns.values():
            running.abandon()
        self._lost = await self._backend.aclose()
        return self._lost


def _id_of(reference: Reference) -> str:
    return reference[1]


def discarded_as_failed(turn: StoredTurn) -> StoredTurn:
    """Return a turn that nobody runs: if it has no end, that could not be written and was discarded."""
    return replace(turn, status="failed") if turn.status in RUNNING else turn
