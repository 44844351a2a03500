"""What a store outside of this process must be able to do: read what is written, and change what does not
belong to a running turn. What running turns write goes through a `batch_writer.BatchWriter`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from penstock.store.latencies import TurnLatencies
from penstock.store.ledger import Dimension, Exceeded, KeyLimits, TurnFilter, TurnPage, TurnRecord, TurnTotals
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
from penstock.store.threads import Threads


class KeyBackend(Protocol):
    """Keys that workers hold."""

    async def hold(self, tenant: str, key: str, worker: str, data: bytes) -> HeldKey | None: ...

    async def release(self, tenant: str, key: str, worker: str) -> None: ...

    async def retire(self, tenant: str, key: str, worker: str, data: bytes, seconds: float) -> None: ...


class Backend(KeyBackend, Threads, Protocol):
    """Reads what is written, and changes what does not belong to a running turn. See `contract.Store` for the
    methods of the same name."""

    async def response(self, tenant: str, id: str) -> StoredResponse | None: ...

    async def exists(self, tenant: str, id: str) -> bool: ...

    async def events(self, tenant: str, id: str, after: int) -> list[LoggedEvent]:
        """Return some of the events after a sequence number, or nothing at the end of the log."""

    async def traces(self, tenant: str, id: str) -> list[Trace]: ...

    async def history(self, tenant: str, id: str, *, is_before: bool) -> list[tuple[int, str]]:
        """Return the numbers and ids of all input items of a response and its chain; with `is_before` also
        its own output, as the history of a later turn."""

    async def items(self, numbers: list[int]) -> dict[int, StoredItem]: ...

    async def chain(self, tenant: str, id: str) -> list[StoredTurn] | None:
        """Return the turns that lead to a response; None if it or an earlier one does not exist."""

    async def items_of(self, tenant: str, ids: Sequence[str]) -> dict[str, tuple[StoredItem, bool]]:
        """Return items by id, and for each whether it is the output of a model."""

    async def recall(self, tenant: str, keys: Sequence[str]) -> dict[str, bytes]: ...

    async def conversation(self, tenant: str, id: str) -> StoredConversation | None: ...

    async def conversation_items(
        self, tenant: str, id: str, *, after: str | None, limit: int, newest_first: bool
    ) -> Page | None: ...

    async def stats(self) -> Stats: ...

    async def open_background(self, turn: Opened, token: str) -> None:
        """Write a new turn under this claim token, and sync it to the disk."""

    def discard(self, tenant: str, id: str, token: str) -> None:
        """Delete the response of a turn that this worker holds by a claim token, without waiting and without
        reporting the result."""

    async def delete(self, tenant: str, id: str) -> bool:
        """Delete a response, unless a worker that shares the store runs its turn."""

    async def create_conversation(
        self, tenant: str, conversation: StoredConversation, now: float
    ) -> None: ...

    async def update_conversation(self, tenant: str, id: str, metadata: bytes, now: float) -> bool: ...

    async def delete_conversation(self, tenant: str, id: str) -> bool: ...

    async def add_items(self, tenant: str, id: str, items: Sequence[StoredItem], now: float) -> bool: ...

    async def delete_item(self, tenant: str, id: str, item_id: str) -> bool: ...

    async def remember(self, tenant: str, id: str, key: str, data: bytes) -> None: ...

    async def shared_secrets(self, name: str, candidate: bytes) -> list[bytes]:
        """Return the secrets that all workers share under this name, the one in use first: `candidate`, if
        there was none; empty if the store keeps no secrets."""

    async def advance_time(self, now: float, every: float) -> float | None: ...

    async def prune(self, *, older_than: float, most_bytes: int | None) -> int: ...

    async def admit(self, record: TurnRecord, limits: KeyLimits) -> Exceeded | None: ...

    async def turns(self, filter: TurnFilter, *, after: str, limit: int) -> TurnPage: ...

    async def totals(self, filter: TurnFilter, by: Sequence[Dimension]) -> list[TurnTotals]: ...

    async def latencies(self, filter: TurnFilter, by: Sequence[Dimension]) -> list[TurnLatencies]: ...

    async def causes(self, filter: TurnFilter) -> list[tuple[str, int]]: ...

    async def prune_ledger(self, *, older_than: float) -> int: ...

    async def aclose(self) -> list[str]:
        """Write what is waiting, and close; return the ids of turns that could not be written. If several
        workers share the store, this one leaves: turns that it still runs are orphans."""


# For stores that several workers share


class ClaimedTurn(Struct, frozen=True, kw_only=True):
    """A running turn of this worker, as the store has it."""

    tenant: str
    id: str
    token: str
    is_cancelled: bool
    """Whether another worker was asked to cancel it."""


class Orphan(Struct, frozen=True, kw_only=True):
    """A turn whose worker died. It belongs to this worker now."""

    turn: Opened
    token: str
    """The new claim token."""
    last_sequence: int
    """The last event in its log; -1 if there is none."""
    is_started: bool
    """Whether its upstream may have been called."""


class WorkerBackend(KeyBackend, Protocol):
    """The part of a backend that several workers need. Leases are measured by the clock of the store."""

    async def renew(self, worker: str, lease: float) -> None:
        """Renew the lease of a worker for so many seconds, or register a new worker."""

    async def claimed(self, worker: str) -> list[ClaimedTurn]:
        """Return the running turns of a worker."""

    async def claim_orphans(self, worker: str, most: int, *, only_started: bool = False) -> list[Orphan]:
        """Take over running turns whose worker's lease has expired, each under a new claim token. With
        `only_started`, leave those that can still be started to other workers."""

    async def settle_orphans(self, code: str) -> int:
        """Settle the records of the ledger that workers with an expired lease have opened, as failed with
        this code, except those of running turns, which have been taken over. Forget these workers, and keys
        that have been held for too long. Return the number of records."""

    async def owner(self, tenant: str, id: str) -> str | None:
        """Return the worker that runs a turn; None if it is not running."""

    async def running_in(self, tenant: str, conversation_id: str) -> list[str]:
        """Return the ids of the turns that are running in a conversation."""

    async def disown(self, token: str) -> None:
        """Give up a turn that this worker has claimed but does not run, so that it is taken over and ends. It
        is not started again."""

    async def hand_over(self, token: str) -> None:
        """Give up a turn that this worker has not started, so that another one starts it."""

    async def request_cancel(self, tenant: str, id: str) -> str | None:
        """Mark a running turn as to be cancelled, and return its worker; None if it is not running."""

    async def start(self, tenant: str, id: str, token: str) -> bool:
        """Record that the upstream of a turn may be called from now on; return False if the turn has been
        taken over."""
