"""The in-memory store: `--store none`. It is bounded, and lost when the process ends.

When it is full, the least recently used turn is deleted first; running turns are never deleted.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from itertools import count

from msgspec.structs import replace

from penstock.errors import StoreError
from penstock.store.contract import TurnHost, next_store_time
from penstock.store.memory_ledger import MemoryLedger
from penstock.store.memory_threads import TurnTree
from penstock.store.records import (
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
from penstock.store.threads import ThreadPage, ThreadTurn
from penstock.store.turn_buffer import TurnBuffer, size_of_events, size_of_items

MOST_BYTES = 256 * 1024 * 1024
MOST_RESPONSES = 10_000
_LONGEST_LOG = 16 * 1024 * 1024
"""Bytes of one turn's events. A larger response is stored, but its stream cannot be resumed completely."""

Key = tuple[str, str]
"""A tenant, and the id of a response, conversation or item of that tenant."""


class _ConversationRecord:
    """A conversation and its items in order."""

    def __init__(self, conversation: StoredConversation, now: float) -> None:
        self.conversation = conversation
        self.changed_at = now
        self.items: list[StoredItem] = []
        self.size = len(conversation.metadata)


class _Index:
    """Items by tenant and id, with the turns or conversations that own them. The last item added is found."""

    def __init__(self) -> None:
        self._owners: dict[Key, dict[int, StoredItem]] = {}

    def add(self, tenant: str, owner: object, items: Sequence[StoredItem]) -> None:
        for item in items:
            owners = self._owners.setdefault((tenant, item.id), {})
            owners.pop(id(owner), None)
            owners[id(owner)] = item

    def remove(self, tenant: str, owner: object, items: Sequence[StoredItem]) -> None:
        for item in items:
            owners = self._owners.get((tenant, item.id), {})
            owners.pop(id(owner), None)
            if not owners:
                self._owners.pop((tenant, item.id), None)

    def find(self, tenant: str, id: str) -> StoredItem | None:
        owners = self._owners.get((tenant, id))
        return next(reversed(owners.values())) if owners else None


class MemoryStore(MemoryLedger):
    """See `penstock.store.contract.Store` for what each method promises."""

    def __init__(
        self,
        *,
        most_bytes: int = MOST_BYTES,
        most_responses: int = MOST_RESPONSES,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(most_turns=most_responses)
        self._most_bytes = most_bytes
        self._most_responses = most_responses
        self._clock = clock
        self._numbers = count()
        self._running: dict[str, TurnBuffer] = {}
        self._ended: OrderedDict[Key, TurnBuffer] = OrderedDict()
        """Least recently used first, like the conversations."""
        self._conversations: OrderedDict[Key, _ConversationRecord] = OrderedDict()
        self._items = _Index()
        self._outputs = _Index()
        self._conversation_items = _Index()
        self._reasoning_memory: dict[Key, tuple[TurnBuffer, bytes]] = {}
        self._bytes = 0
        self._time = clock()
        """The time from which ages are measured."""
        self._advanced_at = -math.inf

    def _find(self, tenant: str, id: str) -> TurnBuffer | None:
        running = self._running.get(id)
        if running is not None and running.opened.tenant == tenant:
            return running
        ended = self._ended.get((tenant, id))
        if ended is not None:
            self._ended.move_to_end((tenant, id))
        return ended

    # Running turns

    async def open(self, turn: Opened, *, patience: float = 0.1) -> bool:  # noqa: ARG002 - never waits
        if turn.id in self._running or (turn.tenant, turn.id) in self._ended:
            raise StoreError(StoreError.DUPLICATE, f"a turn with the id {turn.id!r} already exists")
        running = self._running[turn.id] = TurnBuffer(turn)
        running.number = next(self._numbers)
        running.is_stored = True  # as durable as this store is
        self._items.add(turn.tenant, running, turn.input)
        for key, data in turn.memory.items():
            self._reasoning_memory[turn.tenant, key] = (running, data)
        self._grow(running.size)
        return True

    def log(self, id: str, events: Sequence[LoggedEvent], *, soon: bool = False) -> None:  # noqa: ARG002
        running = self._running.get(id)
        if running is None or not events:
            return
        size = size_of_events(events)
        if running.size + size <= _LONGEST_LOG and self._has_room(size):
            running.log(events, size)
        else:
            running.dropped += len(events)

    async def settle(self, id: str, *, patience: float = 5.0) -> None:
        """Do nothing: there is nothing to write to."""

    def trace(self, id: str, traces: Sequence[Trace]) -> None:
        running = self._running.get(id)
        if running is not None:
            size = size_of_events(traces)
            if self._has_room(size):
                running.trace(traces, size)

    async def close(self, id: str, end: Closed, *, patience: float = 0.25) -> bool:  # noqa: ARG002
        running = self._running.pop(id, None)
        if running is None:
            return False
        turn, before = running.opened, running.size
        self._ended[turn.tenant, id] = running
        running.close(end, self._clock())
        running.end_write.set_result(True)  # as durable as this store is
        self._outputs.add(turn.tenant, running, end.output)
        self._grow(running.size - before)
        if turn.conversation_id is not None:
            await self.add_items(turn.tenant, turn.conversation_id, (*turn.input, *end.output))
        return True

    @property
    def clock(self) -> Callable[[], float]:
        return self._clock

    async def shared_secrets(self, name: str, candidate: str) -> list[str]:  # noqa: ARG002
        return []

    @property
    def is_unavailable(self) -> bool:
        return False

    def attach(self, host: TurnHost) -> None:
        """Do nothing: no other worker shares this store."""

    async def hold(self, tenant: str, key: str, data: bytes) -> HeldKey | None:  # noqa: ARG002
        return None

    async def release(self, tenant: str, key: str) -> None:
        """Do nothing: no other worker could hold it."""

    async def retire(self, tenant: str, key: str, data: bytes, seconds: float) -> None:
        """Do nothing: the key is forgotten with the process."""

    async def start(self, id: str) -> bool:
        return id in self._running

    async def hand_over(self, id: str) -> bool:  # noqa: ARG002
        return False

    async def cancel(self, tenant: str, id: str) -> bool:  # noqa: ARG002 - no other worker runs it
        return False

    # Responses

    async def get(self, tenant: str, id: str) -> StoredResponse | None:
        found = self._find(tenant, id)
        return found.response() if found is not None else None

    async def delete(self, tenant: str, id: str) -> bool:
        if (tenant, id) not in self._ended:
            return False
        self._drop((tenant, id))
        return True

    async def events(self, tenant: str, id: str, after: int = -1) -> AsyncIterator[LoggedEvent]:
        found = self._find(tenant, id)
        while found is not None:
            some = found.events_after(after)
            if not some:
                if found.finished.is_set():
                    return
                await found.changed.wait()
            for event in some:
                after = event.sequence
                yield event

    async def events_so_far(self, tenant: str, id: str) -> list[LoggedEvent]:
        found = self._find(tenant, id)
        return found.events[:] if found is not None else []

    async def traces(self, tenant: str, id: str) -> list[Trace]:
        found = self._find(tenant, id)
        return found.traces[:] if found is not None else []

    async def input_items(
        self, tenant: str, id: str, *, after: str | None = None, limit: int = 20, newest_first: bool = True
    ) -> Page | None:
        turns = self._turns_to(tenant, id)
        if not turns:
            return None
        items = [item for turn in turns[:-1] for item in (*turn.turn().input, *turn.turn().output)]
        items.extend(turns[-1].opened.input)
        return _page(items, after, limit, newest_first)

    # Chains and items

    def _turns_to(self, tenant: str, id: str | None) -> list[TurnBuffer]:
        """Return a chain as far as it exists, oldest turn first."""
        turns: dict[str, TurnBuffer] = {}
        while id is not None and id not in turns and (found := self._find(tenant, id)) is not None:
            turns[id] = found
            id = found.opened.previous_id
        return list(reversed(turns.values()))

    async def chain(self, tenant: str, id: str) -> list[StoredTurn] | None:
        turns = self._turns_to(tenant, id)
        if not turns or turns[0].opened.previous_id is not None:
            return None
        for turn in turns:
            await turn.finished.wait()
            if turn.end is None:  # The store was closed while it ran.
                return None
        return [turn.turn() for turn in turns]

    async def items(self, tenant: str, ids: Sequence[str]) -> dict[str, StoredItem]:
        found = ((id, self._item(tenant, id)) for id in ids)
        return {id: item for id, item in found if item is not None}

    def _item(self, tenant: str, id: str) -> StoredItem | None:
        indexes = (self._outputs, self._items, self._conversation_items)
        return next((item for index in indexes if (item := index.find(tenant, id)) is not None), None)

    # Conversations

    async def create_conversation(self, tenant: str, conversation: StoredConversation) -> None:
        key = (tenant, conversation.id)
        if key in self._conversations:
            message = f"a conversation with the id {conversation.id!r} already exists"
            raise StoreError(StoreError.DUPLICATE, message)
        record = self._conversations[key] = _ConversationRecord(conversation, self._clock())
        self._grow(record.size)

    def _conversation(self, tenant: str, id: str) -> _ConversationRecord | None:
        record = self._conversations.get((tenant, id))
        if record is not None:
            self._conversations.move_to_end((tenant, id))
        return record

    async def get_conversation(self, tenant: str, id: str) -> StoredConversation | None:
        record = self._conversation(tenant, id)
        return record.conversation if record is not None else None

    async def update_conversation(self, tenant: str, id: str, metadata: bytes) -> StoredConversation | None:
        record = self._conversation(tenant, id)
        if record is None:
            return None
        self._resize(record, len(metadata) - len(record.conversation.metadata))
        record.conversation = replace(record.conversation, metadata=metadata)
        return record.conversation

    async def delete_conversation(self, tenant: str, id: str) -> bool:
        if (tenant, id) not in self._conversations:
            return False
        self._drop_conversation((tenant, id))
        return True

    async def add_items(self, tenant: str, id: str, items: Sequence[StoredItem]) -> bool:
        record = self._conversation(tenant, id)
        if record is None:
            return False
        record.items.extend(items)
        self._conversation_items.add(tenant, record, items)
        self._resize(record, size_of_items(items))
        return True

    async def conversation_items(
        self, tenant: str, id: str, *, after: str | None = None, limit: int = 20, newest_first: bool = True
    ) -> Page | None:
        record = self._conversation(tenant, id)
        return _page(record.items, after, limit, newest_first) if record is not None else None

    async def delete_item(self, tenant: str, id: str, item_id: str) -> bool:
        record = self._conversation(tenant, id)
        deleted = [item for item in record.items if item.id == item_id] if record is not None else []
        if record is None or not deleted:
            return False
        record.items = [item for item in record.items if item.id != item_id]
        self._conversation_items.remove(tenant, record, deleted)
        self._resize(record, -size_of_items(deleted))
        return True

    async def wait_for_turns(self, tenant: str, id: str) -> None:
        for running in [*self._running.values()]:
            if (running.opened.tenant, running.opened.conversation_id) == (tenant, id):
                await running.finished.wait()

    # Threads

    def _tree(self, tenant: str) -> TurnTree:
        turns = [
            each for each in (*self._running.values(), *self._ended.values()) if each.opened.tenant == tenant
        ]
        return TurnTree(sorted(turns, key=lambda turn: turn.number), partial(self.model_of, tenant))

    async def continuations(self, tenant: str, id: str) -> list[str]:
        return self._tree(tenant).continuations(id)

    async def threads(self, tenant: str, *, after: str = "", limit: int = 50) -> ThreadPage:
        talks = {
            id: (record.changed_at, record.items)
            for (owner, id), record in self._conversations.items()
            if owner == tenant
        }
        return self._tree(tenant).threads(talks, after, limit)

    async def conversation_turns(self, tenant: str, id: str, *, limit: int = 200) -> list[ThreadTurn]:
        return self._tree(tenant).conversation_turns(id, limit)

    async def chain_turns(self, tenant: str, id: str, *, limit: int = 200) -> list[ThreadTurn]:
        return self._tree(tenant).chain_turns(id, limit)

    # The reasoning memory

    async def remember(self, tenant: str, id: str, key: str, data: bytes) -> None:
        found = self._find(tenant, id)
        if found is not None:
            before = found.size
            found.remember(key, data)
            self._reasoning_memory[tenant, key] = (found, data)
            self._grow(found.size - before)

    async def recall(self, tenant: str, keys: Sequence[str]) -> dict[str, bytes]:
        memory = self._reasoning_memory
        return {key: memory[tenant, key][1] for key in keys if (tenant, key) in memory}

    # Pruning

    async def advance_time(self, *, every: float = 0.0) -> float | None:
        now = self._clock()
        if 0 <= now - self._advanced_at < every:
            return None
        self._advanced_at = now
        self._time = next_store_time(self._time, now)
        return min(now, self._time)

    async def prune(self, *, older_than: float, most_bytes: int | None = None) -> int:
        needed = self._needed(older_than)
        old = [key for key, turn in self._ended.items() if turn.ended_at < older_than and key not in needed]
        for key in old:
            self._drop(key)
        for key in [key for key, record in self._conversations.items() if record.changed_at < older_than]:
            self._drop_conversation(key)
        most = math.inf if most_bytes is None else most_bytes
        return len(old) + self._shrink(most, math.inf)

    def _needed(self, older_than: float) -> set[Key]:
        """Return the turns that newer turns continue: without them the newer could not be continued."""
        newer = [turn for turn in self._ended.values() if turn.ended_at >= older_than]
        needed: set[Key] = set()
        for turn in (*self._running.values(), *newer):
            tenant, id = turn.opened.tenant, turn.opened.previous_id
            while id is not None and (tenant, id) not in needed and (tenant, id) in self._ended:
                needed.add((tenant, id))
                id = self._ended[tenant, id].opened.previous_id
        return needed

    async def stats(self) -> Stats:
        turns = [*self._running.values(), *self._ended.values()]
        ends = [turn.end.output for turn in turns if turn.end is not None]
        return Stats(
            responses=len(turns),
            items=sum(len(turn.opened.input) for turn in turns)
            + sum(map(len, ends))
            + sum(len(record.items) for record in self._conversations.values()),
            events=sum(len(turn.events) for turn in turns),
            conversations=len(self._conversations),
            bytes=self._bytes,
        )

    async def aclose(self) -> list[str]:
        for running in self._running.values():
            running.abandon()
        return []

    def _grow(self, size: int) -> None:
        self._bytes += size
        self._shrink(self._most_bytes, self._most_responses)

    def _has_room(self, size: int) -> bool:
        """Make room for new data of a running turn; return False if only running turns are left."""
        self._shrink(self._most_bytes - size, math.inf)
        if self._bytes + size > self._most_bytes:
            return False
        self._bytes += size
        return True

    def _resize(self, record: _ConversationRecord, size: int) -> None:
        record.changed_at = self._clock()
        record.size += size
        self._grow(size)

    def _shrink(self, most_bytes: float, most_responses: float) -> int:
        count = 0
        while self._ended and (
            self._bytes > most_bytes or len(self._ended) + len(self._running) > most_responses
        ):
            self._drop(next(iter(self._ended)))
            count += 1
        while self._conversations and self._bytes > most_bytes:
            self._drop_conversation(next(iter(self._conversations)))
        return count

    def _drop(self, key: Key) -> None:
        ended = self._ended.pop(key)
        turn = ended.turn()
        self._items.remove(key[0], ended, turn.input)
        self._outputs.remove(key[0], ended, turn.output)
        for name in ended.reasoning_memory:
            if self._reasoning_memory.get((key[0], name), (None,))[0] is ended:
                del self._reasoning_memory[key[0], name]
        self._bytes -= ended.size

    def _drop_conversation(self, key: Key) -> None:
        record = self._conversations.pop(key)
        self._conversation_items.remove(key[0], record, record.items)
        self._bytes -= record.size


def _page(items: Sequence[StoredItem], after: str | None, limit: int, newest_first: bool) -> Page:
    page, has_more = page_of(items, _id_of, after=after, limit=limit, newest_first=newest_first)
    return Page(tuple(page), has_more)


def _id_of(item: StoredItem) -> str:
    return item.id
