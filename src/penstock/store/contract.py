"""What a store keeps, and what can be asked of it. Every question names a tenant: another's is not there.

Values go in and come out as the JSON of the wire, so that a store needs no knowledge of the protocol beyond a
few names. All waiting is for a store that is across a network; an embedded one hardly waits.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self, TypeVar

from msgspec import Struct

LOCAL = "local"
"""The tenant where no keys are configured."""

RUNNING = ("queued", "in_progress")

TIME_STEP = 6 * 3600.0
"""Seconds that the store's own time moves at a step. With a step every ten minutes it catches up at 36 times
the speed of the clock: a gateway that runs for an hour a day keeps up, and a clock that is weeks ahead has to
stay wrong for most of a day before it costs anything."""

T = TypeVar("T")


class StoredItem(Struct, frozen=True):
    """An item under its id. `data` is its JSON; `id` is inside of it as well."""

    id: str
    data: bytes


class Opened(Struct, frozen=True, kw_only=True):
    """A turn that begins: from now on its response can be found, continued and listened to."""

    id: str
    tenant: str = LOCAL
    created_at: int
    """Seconds since 1970."""
    status: str = "in_progress"
    previous_id: str | None = None
    """The response that this one continues."""
    conversation_id: str | None = None
    request: bytes = b""
    """The request as it came, without secrets."""
    response: bytes = b""
    """The first snapshot."""
    input: tuple[StoredItem, ...] = ()
    """The items that this turn brought: those of the chain before it are not repeated."""
    is_background: bool = False


class Closed(Struct, frozen=True, kw_only=True):
    """How a turn ended."""

    status: str
    response: bytes
    """The last snapshot."""
    output: tuple[StoredItem, ...] = ()
    verdict: bytes = b""


class StoredResponse(Struct, frozen=True, kw_only=True):
    """All that is known of a turn, without its items and its log."""

    id: str
    tenant: str
    created_at: int
    status: str
    previous_id: str | None
    conversation_id: str | None
    is_background: bool
    request: bytes
    response: bytes
    """The last snapshot; while it runs, the first."""
    verdict: bytes = b""
    dropped: int = 0
    """How many events of its log could not be kept: the disk was too slow, or full, for too long."""
    is_durable: bool = True
    """False: it may not survive a restart, and a client that gets it is told so. Of a turn that runs, the row
    is not written yet; of one that has ended, the end."""


class LoggedEvent(Struct, frozen=True, gc=False):
    """One event as it was sent: its number, when, and its JSON in the machine's own words."""

    sequence: int
    time: float
    data: bytes


class Trace(Struct, frozen=True, gc=False):
    """One thing that happened towards the upstream, and when: `request` (the rendered body, without secrets),
    `read` (only its size), `failure` (its code)."""

    kind: str
    time: float
    data: bytes = b""
    size: int = 0


class StoredTurn(Struct, frozen=True):
    """One link of a chain, with its items in their order."""

    id: str
    status: str
    input: tuple[StoredItem, ...]
    output: tuple[StoredItem, ...]


class Page(Struct, frozen=True):
    """Some items, and whether there are more behind them."""

    items: tuple[StoredItem, ...]
    has_more: bool


def page_of(
    entries: Sequence[T], id_of: Callable[[T], str], *, after: str | None, limit: int, newest_first: bool
) -> tuple[list[T], bool]:
    """Up to `limit` entries behind the one called `after`, and whether there are more.

    A history may hold one id twice. The last of them in the order of reading counts, so that somebody who
    turns page after page always comes to an end.
    """
    ordered = list(reversed(entries)) if newest_first else list(entries)
    begin = 0
    if after is not None:
        places = [place for place, entry in enumerate(ordered) if id_of(entry) == after]
        begin = places[-1] + 1 if places else len(ordered)
    end = begin + max(limit, 0)
    return ordered[begin:end], end < len(ordered)


class StoredConversation(Struct, frozen=True):
    id: str
    created_at: int
    metadata: bytes
    """A JSON object."""


class Stats(Struct, frozen=True):
    """What there is, for those who run it."""

    responses: int
    items: int
    events: int
    conversations: int
    bytes: int


class Store(Protocol):
    """Nothing here raises for an id that is not there: it is None, False or empty.

    Used from one event loop. What changes something other than a running turn raises `StoreError` when it
    could not be written.
    """

    # A turn while it runs

    async def open(self, turn: Opened, *, patience: float = 0.1) -> bool:
        """Begin a turn. It can be found as soon as this returns.

        True when it can also be found after the process was killed. False when that took longer than
        `patience`, or failed: it is then kept in memory and written later, and the client is told by a
        diagnostic in the first event (ask G1).

        A background turn is a promise to a client that may already be gone, so for one of these False does
        not exist: it is synced to the disk within `patience`, or `StoreError` is raised and nothing of it is
        kept.

        Its id is new in the store: `StoreError` when a turn of that id is running.
        """

    def log(self, id: str, events: Sequence[LoggedEvent]) -> None:
        """Append to the log. Returns at once: deltas never wait for the disk (decision 17).

        Sequence numbers rise. What comes for a turn that is not running is not kept.
        """

    async def settle(self, id: str, *, patience: float = 5.0) -> None:
        """Wait until what was logged of a turn is no longer held in memory alone, for as long as this helps:
        an event that is large waits for those before it, so that there is room."""

    def trace(self, id: str, traces: Sequence[Trace]) -> None:
        """Append what happened towards the upstream, as `log` does."""

    async def close(self, id: str, end: Closed, *, patience: float = 0.25) -> bool:
        """End a turn, with all of its log. True when it is as durable as the store is; False when that took
        longer than `patience`, or failed: the client is then told by a diagnostic (decision 17). In either
        case it has ended, and can be found with its end. One that is not running cannot be closed: False."""

    # Responses

    async def get(self, tenant: str, id: str) -> StoredResponse | None:
        """Of one that has just ended, when that is durable, or was not for as long as `close` is patient."""

    async def delete(self, tenant: str, id: str) -> bool:
        """With its items, its log, its traces and its reasoning memory. One that runs is not deleted: False.

        What `close` added to a conversation stays there, as the conversation has its own life.
        """

    async def input_items(
        self, tenant: str, id: str, *, after: str | None = None, limit: int = 20, newest_first: bool = True
    ) -> Page | None:
        """The items that a response was made from, those of its chain before its own; None: not there.

        Waits for nothing: of a chain that is broken or still runs, what there is. `after` is an item's id;
        the page begins behind it in the order that was asked for, and is empty where it is not there.
        """

    def events(self, tenant: str, id: str, after: int = -1) -> AsyncIterator[LoggedEvent]:
        """The log behind a sequence number to its end; of a turn that runs, as it grows. Empty: not there.

        A step of more than one between two numbers is where events were dropped (`StoredResponse.dropped`).
        """

    async def traces(self, tenant: str, id: str) -> list[Trace]: ...

    # Chains and items

    async def chain(self, tenant: str, id: str) -> list[StoredTurn] | None:
        """The turns that lead to a response, the oldest first and it the last; None where one is missing.

        A turn that still runs is waited for, to its end (decision 17).
        """

    async def items(self, tenant: str, ids: Sequence[str]) -> dict[str, StoredItem]:
        """Those of these items that are there, by id: of any response of this tenant, else of a conversation.
        The output of a response comes before what a client sent under the same id; then the newest counts."""

    # Conversations

    async def create_conversation(self, tenant: str, conversation: StoredConversation) -> None:
        """Its id is new in the store: `StoreError` when it is not."""

    async def get_conversation(self, tenant: str, id: str) -> StoredConversation | None: ...

    async def update_conversation(
        self, tenant: str, id: str, metadata: bytes
    ) -> StoredConversation | None: ...

    async def delete_conversation(self, tenant: str, id: str) -> bool: ...

    async def add_items(self, tenant: str, id: str, items: Sequence[StoredItem]) -> bool: ...

    async def conversation_items(
        self, tenant: str, id: str, *, after: str | None = None, limit: int = 20, newest_first: bool = True
    ) -> Page | None:
        """`close` adds the input and the output of a turn in a conversation to it."""

    async def delete_item(self, tenant: str, id: str, item_id: str) -> bool: ...

    async def quiet(self, tenant: str, id: str) -> None:
        """Wait for the turns that run in a conversation now: what they say belongs to it."""

    # The reasoning memory (ask C1): small things under a key

    async def remember(self, tenant: str, id: str, key: str, data: bytes) -> None:
        """Keep data under a key as long as the response `id` is kept."""

    async def recall(self, tenant: str, keys: Sequence[str]) -> dict[str, bytes]:
        """What is kept under those of these keys that there are."""

    # Pruning

    async def advance_time(self) -> float:
        """Move the store's own time towards the clock, by at most `TIME_STEP`, and return the time from
        which ages are measured: the store's own, or the clock if that is earlier. A clock that jumps ahead
        does not make everything old at once. The time is kept with the store: a restart does not move it."""

    async def prune(self, *, older_than: float, most_bytes: int | None = None) -> int:
        """Delete what ended before a time, then the oldest until it fits; how many responses went. What runs
        is never touched. Conversations go by the same rules, by when they were last changed, after the
        responses."""

    async def stats(self) -> Stats: ...

    async def aclose(self) -> list[str]:
        """Write what is left to write, trying again for a short time, and close. The ids of the responses
        that could not be written, wholly or in part: what is missing of them is lost."""


def next_store_time(store_time: float, now: float) -> float:
    """The store's own time, one `TIME_STEP` nearer to the clock. It never goes back: ages are measured from
    the clock where that is earlier."""
    return max(store_time, min(now, store_time + TIME_STEP))


# What the tools of an operator need


class ArchiveStats(Struct, frozen=True, kw_only=True):
    """What there is, and since when. Times are in seconds since 1970, None where there is no response."""

    total: Stats
    by_status: dict[str, int]
    oldest: int | None
    newest: int | None


class ArchivedConversation(Struct, frozen=True):
    tenant: str
    changed_at: float
    conversation: StoredConversation
    items: tuple[StoredItem, ...]


class Pruned(Struct):
    """How many were deleted so far."""

    responses: int = 0
    conversations: int = 0


class StoreArchive(Protocol):
    """What a store has written, for `penstock store`, `explain` and `replay`: every tenant is seen.

    A gateway may be using the store meanwhile. Turns that run are neither ended nor deleted, and what that
    gateway has not written yet cannot be seen. To be used in a `with`; `StoreError` says why it cannot be
    opened or read.
    """

    @property
    def location(self) -> str:
        """Where it is, for messages: a path, or an address without secrets."""

    @property
    def files(self) -> Sequence[Path]:
        """The files that it consists of: no other output may go there."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def find(self, id: str) -> StoredResponse | None:
        """A response of any tenant, as it was written: one that runs is `in_progress` here."""

    def responses(self) -> Iterator[StoredResponse]:
        """All of them, the oldest first, including those that are added meanwhile."""

    def events(self, tenant: str, id: str) -> list[LoggedEvent]: ...

    def traces(self, tenant: str, id: str) -> list[Trace]: ...

    def input(self, tenant: str, id: str) -> list[StoredItem]:
        """What this turn brought, without the chain before it."""

    def output(self, tenant: str, id: str) -> list[StoredItem]: ...

    def conversations(self) -> Iterator[ArchivedConversation]:
        """All of them, the oldest first, with their items."""

    def stats(self) -> ArchiveStats: ...

    def time(self, now: float) -> float:
        """The time from which ages are measured: the clock, unless it is far ahead of the store's own."""

    def due(self, *, older_than: float) -> Pruned:
        """What `prune` would delete because of its age."""

    def prune(
        self,
        *,
        older_than: float = 0.0,
        most_bytes: int | None = None,
        progress: Callable[[Pruned], None] | None = None,
    ) -> Pruned:
        """As `Store.prune`. `progress` is called after each step with what was deleted so far."""
