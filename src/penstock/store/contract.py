"""The interface of a store. Every method takes a tenant and sees only its data.

Values (`store.records`) are passed as wire JSON, so that a store needs to know no more of the protocol than a
few names. Methods are asynchronous for stores across a network; an embedded store hardly waits.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from penstock.store.ledger import Ledger, LedgerArchive
from penstock.store.records import (
    ArchivedConversation,
    ArchiveStats,
    Closed,
    HeldKey,
    LoggedEvent,
    Opened,
    Page,
    Pruned,
    Stats,
    StoredConversation,
    StoredItem,
    StoredResponse,
    StoredTurn,
    Trace,
)
from penstock.store.threads import Threads

TIME_STEP = 6 * 3600.0
"""Seconds that one step advances the store's own time. With a step every ten minutes it catches up at 36
times the speed of the clock: a gateway that runs for an hour a day keeps up, and a clock that is weeks ahead
must stay wrong for most of a day before anything is deleted too early."""


class TurnHost(Protocol):
    """Runs the turns of a store in this process; the store calls it on the event loop."""

    @property
    def is_draining(self) -> bool:
        """Whether this process stops: other workers start turns then."""

    def cancel(self, tenant: str, id: str) -> None:
        """Cancel a turn of this worker: another worker was asked to."""

    def lose(self, tenant: str, id: str) -> None:
        """End a turn of this worker: another worker has taken it over, and nothing of it is stored any
        more."""

    def followed(self, tenant: str, id: str, is_followed: bool) -> None:
        """Note whether clients of other workers follow a turn of this worker."""

    async def start(self, turn: Opened, last_sequence: int) -> bool:
        """Run a background turn that was stored by a worker that ended before it called an upstream.
        `last_sequence` is the last event in its log. Return False if that is not possible: the turn then ends
        as failed."""


class Store(Ledger, Threads, Protocol):
    """Stores turns, conversations and the ledger. For an unknown id, methods return None, False or nothing.

    Use it from one event loop. Methods that change something other than a running turn raise `StoreError`
    when the change could not be written.
    """

    @property
    def clock(self) -> Callable[[], float]:
        """Return the time that the store uses. Workers that share a database all use its clock, so a time
        that they compare should come from here."""

    async def shared_secrets(self, name: str, candidate: str) -> list[str]:
        """Return the secrets that all workers of a database share under this name. The first is in use:
        `candidate`, if there was none. The others came with imported stores. Empty if the store is not a
        database: then a file has the secret."""

    @property
    def is_unavailable(self) -> bool:
        """Whether nothing can be stored at present that other workers must know (decision 34). A store of
        one process keeps it in memory instead."""

    def attach(self, host: TurnHost) -> None:
        """Let a host run the turns of this worker, if several workers share the store."""

    async def hold(self, tenant: str, key: str, data: bytes) -> HeldKey | None:
        """Reserve a key for this worker until it releases it; return None, or by what it is held. If the
        worker dies, the key stays held for `HELD_KEY_SECONDS`."""

    async def release(self, tenant: str, key: str) -> None:
        """Give back a key that this worker holds."""

    async def retire(self, tenant: str, key: str, data: bytes, seconds: float) -> None:
        """Give back a key that this worker holds, but let nobody hold it for so many seconds: until then,
        `hold` returns this data."""

    # Running turns

    async def open(self, turn: Opened, *, patience: float = 0.1) -> bool:
        """Begin a turn. It can be retrieved as soon as this returns.

        Return True if it also survives when the process is killed. Return False if writing it took longer
        than `patience` seconds, or failed: it then stays in memory and is written later, and a diagnostic in
        the first event informs the client (ask G1).

        A background turn never returns False, because its client may already have disconnected: the turn is
        synced to the disk within `patience` seconds, or `StoreError` is raised and nothing is stored.

        The id must be new: raise `StoreError` if a turn with that id is running.
        """

    def log(self, id: str, events: Sequence[LoggedEvent], *, soon: bool = False) -> None:
        """Append to the log and return at once: deltas never wait for the disk (decision 17). With `soon`, a
        store that gathers events writes them now: the end of an item is worth it.

        Sequence numbers increase. Events of a turn that is not running are ignored.
        """

    async def settle(self, id: str, *, patience: float = 5.0) -> None:
        """Wait until the logged events of a turn are written, for at most `patience` seconds. A large event
        waits for the events before it, to make room in memory."""

    def trace(self, id: str, traces: Sequence[Trace]) -> None:
        """Append steps of the exchange with the upstream, as `log` does for events."""

    async def close(self, id: str, end: Closed, *, patience: float = 0.25) -> bool:
        """End a turn and write the rest of its log. Return True if it is as durable as the store is. Return
        False if that took longer than `patience` seconds, or failed: a diagnostic then informs the client
        (decision 17). In either case the turn has ended and is retrieved with its end. Return False as well
        if the turn is not running."""

    async def start(self, id: str) -> bool:
        """Record that the upstream of a background turn may be called from now on: if its worker dies, it is
        not started again. Return False if another worker has taken the turn over. Raise `StoreError` if that
        cannot be recorded."""

    async def hand_over(self, id: str) -> bool:
        """Leave a background turn that was not started to another worker, or to the next one that opens the
        store: nothing of it is written here any more. Return False if the store has no workers."""

    async def cancel(self, tenant: str, id: str) -> bool:
        """Ask the worker that runs a turn to cancel it; return False if no other worker runs it. The end of
        its log shows when it has ended."""

    # Responses

    async def get(self, tenant: str, id: str) -> StoredResponse | None:
        """Return a response. If its turn has just ended, wait until the end is durable, for as long as
        `close` would."""

    async def delete(self, tenant: str, id: str) -> bool:
        """Delete a response with its items, log, traces and reasoning memory. Return False, and delete
        nothing, while its turn runs.

        Items that `close` added to a conversation stay there.
        """

    async def input_items(
        self, tenant: str, id: str, *, after: str | None = None, limit: int = 20, newest_first: bool = True
    ) -> Page | None:
        """Return a page of the input of a response, that of earlier turns in its chain first; None if there
        is no such response.

        Does not wait: a chain that is incomplete or still running is returned as far as it exists. `after` is
        an item's id; the page starts after it in the requested order, and is empty if there is no such item.
        """

    def events(self, tenant: str, id: str, after: int = -1) -> AsyncIterator[LoggedEvent]:
        """Yield the log after a sequence number to its end; for a running turn, as it grows. Yield nothing if
        there is no such response.

        A gap between two sequence numbers shows where events were dropped (`StoredResponse.dropped`).
        """

    async def events_so_far(self, tenant: str, id: str) -> list[LoggedEvent]:
        """Return the log as far as it is known here, without waiting for more."""

    async def traces(self, tenant: str, id: str) -> list[Trace]: ...

    # Chains and items

    async def chain(self, tenant: str, id: str) -> list[StoredTurn] | None:
        """Return the turns that lead to a response, oldest first, ending with it; None if one is missing.

        Waits for turns that still run to end (decision 17).
        """

    async def items(self, tenant: str, ids: Sequence[str]) -> dict[str, StoredItem]:
        """Return the items with these ids, as far as they exist: from any response of this tenant, else from
        a conversation. The output of a response takes precedence over input with the same id; otherwise the
        newest item is returned."""

    # Conversations

    async def create_conversation(self, tenant: str, conversation: StoredConversation) -> None:
        """Create a conversation; raise `StoreError` if its id is in use."""

    async def get_conversation(self, tenant: str, id: str) -> StoredConversation | None: ...

    async def update_conversation(
        self, tenant: str, id: str, metadata: bytes
    ) -> StoredConversation | None: ...

    async def delete_conversation(self, tenant: str, id: str) -> bool: ...

    async def add_items(self, tenant: str, id: str, items: Sequence[StoredItem]) -> bool: ...

    async def conversation_items(
        self, tenant: str, id: str, *, after: str | None = None, limit: int = 20, newest_first: bool = True
    ) -> Page | None:
        """Return a page of a conversation's items. `close` adds the input and output of its turns."""

    async def delete_item(self, tenant: str, id: str, item_id: str) -> bool: ...

    async def wait_for_turns(self, tenant: str, id: str) -> None:
        """Wait for the turns that are running in a conversation: their output belongs to it."""

    # The memory: small values by key, for reasoning (ask C1) and idempotency keys (decision 32)

    async def remember(self, tenant: str, id: str, key: str, data: bytes) -> None:
        """Store data under a key for as long as the response `id` exists. It replaces older data under the
        same key."""

    async def recall(self, tenant: str, keys: Sequence[str]) -> dict[str, bytes]:
        """Return the data stored under these keys, without keys that are unknown."""

    # Pruning

    async def advance_time(self, *, every: float = 0.0) -> float | None:
        """Move the store's own time towards the clock, by at most `TIME_STEP`, and return the time from
        which ages are measured: the store's own, or the clock if that is earlier. A clock that jumps ahead
        does not make everything old at once. The time is stored: a restart does not change it.

        Return None, and change nothing, if a worker that shares the store has done this less than `every`
        seconds ago. So time passes once for all workers, and the worker that gets a time prunes."""

    async def prune(self, *, older_than: float, most_bytes: int | None = None) -> int:
        """Delete responses that ended before `older_than`, then the oldest until the store fits `most_bytes`;
        return the number of deleted responses. Running turns are never deleted. Conversations follow, by the
        same rules and the time of their last change."""

    async def stats(self) -> Stats: ...

    async def aclose(self) -> list[str]:
        """Write what is still in memory, with retries for a short time, and close. Return the ids of the
        responses that could not be written completely: the missing parts are lost."""


def next_store_time(store_time: float, now: float) -> float:
    """Return the store's own time, one `TIME_STEP` closer to the clock. It never goes backwards: ages are
    measured from the clock where that is earlier."""
    return max(store_time, min(now, store_time + TIME_STEP))


# For operators' tools


class StoreArchive(LedgerArchive, Protocol):
    """Reads what a store has written, for `penstock store`, `explain` and `replay`. It sees every tenant.

    A gateway may be using the store at the same time. Running turns are neither ended nor deleted, and what
    the gateway has not written yet is not visible. Use it in a `with` statement; `StoreError` reports why it
    cannot be opened or read.
    """

    @property
    def location(self) -> str:
        """The location for messages: a path, or an address without secrets."""

    @property
    def files(self) -> Sequence[Path]:
        """The files that the store consists of, which no other output may overwrite."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def find(self, id: str) -> StoredResponse | None:
        """Return a response of any tenant as it is stored: that of a running turn is `in_progress`."""

    def responses(self) -> Iterator[StoredResponse]:
        """Yield all responses, oldest first, including those that are added during the iteration."""

    def events(self, tenant: str, id: str) -> list[LoggedEvent]: ...

    def traces(self, tenant: str, id: str) -> list[Trace]: ...

    def input(self, tenant: str, id: str) -> list[StoredItem]:
        """Return the input of this turn alone, without that of earlier turns in its chain."""

    def output(self, tenant: str, id: str) -> list[StoredItem]: ...

    def conversations(self) -> Iterator[ArchivedConversation]:
        """Yield all conversations, oldest first, with their items."""

    def stats(self) -> ArchiveStats: ...

    def fail_queued(self) -> int:
        """Let background turns that have not started end as failed when a gateway opens the store, instead of
        being started; return their number. No gateway may be using the store."""

    def time(self, now: float) -> float:
        """Return the time from which ages are measured: the clock, unless the store's own is far behind."""

    def count_expired(self, *, older_than: float) -> Pruned:
        """Count what `prune` would delete because of its age."""

    def prune(
        self,
        *,
        older_than: float = 0.0,
        most_bytes: int | None = None,
        progress: Callable[[Pruned], None] | None = None,
    ) -> Pruned:
        """Delete like `Store.prune`. `progress` is called after each step with the totals so far."""
