"""The values that a store keeps and returns. What belongs to the protocol is wire JSON (`store.contract`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from msgspec import Struct

LOCAL = "local"
"""The tenant when no keys are configured."""

RUNNING = ("queued", "in_progress")

T = TypeVar("T")


class StoredItem(Struct, frozen=True, gc=False):
    """An item and its id. `data` is its JSON, which contains the id as well."""

    id: str
    data: bytes


class Opened(Struct, frozen=True, kw_only=True):
    """The start of a turn: from now on its response can be retrieved, continued and streamed."""

    id: str
    tenant: str = LOCAL
    created_at: int
    """Seconds since 1970."""
    status: str = "in_progress"
    previous_id: str | None = None
    """The response that this one continues."""
    conversation_id: str | None = None
    request: bytes = b""
    """The request as received, without secrets."""
    response: bytes = b""
    """The first snapshot."""
    input: tuple[StoredItem, ...] = ()
    """The input items of this turn alone, without those of earlier turns in its chain."""
    is_background: bool = False
    accent: str = ""
    """The accent that the turn was made for: it decides which events the log contains (decision 1)."""
    memory: Mapping[str, bytes] = {}
    """What is remembered from the start, as with `Store.remember`: it is as durable as the turn's row."""


class Closed(Struct, frozen=True, kw_only=True):
    """How a turn ended."""

    status: str
    response: bytes
    """The last snapshot."""
    output: tuple[StoredItem, ...] = ()
    verdict: bytes = b""


class StoredResponse(Struct, frozen=True, kw_only=True):
    """Everything stored about a turn except its items and its log."""

    id: str
    tenant: str
    created_at: int
    status: str
    previous_id: str | None
    conversation_id: str | None
    is_background: bool
    request: bytes
    response: bytes
    """The last snapshot; while the turn runs, the first."""
    verdict: bytes = b""
    dropped: int = 0
    """The number of events missing from its log because the disk was too slow, or full, for too long."""
    is_durable: bool = True
    """False if it may not survive a restart, which is reported to the client. The row of a running turn, or
    the end of a finished one, is not written yet."""
    accent: str = ""
    """The accent that the turn was made for; "" if an older version stored it."""
    has_log: bool = True
    """False if its log was deleted before it: logs may be kept for a shorter time."""


class LoggedEvent(Struct, frozen=True, gc=False, array_like=True):
    """One event as it was sent: its sequence number, its time, and its JSON before an accent is applied.
    Files contain it as an array, so a field may only be added at the end, with a default."""

    sequence: int
    time: float
    data: bytes


class Trace(Struct, frozen=True, gc=False, array_like=True):
    """One step of the exchange with the upstream, and its time: `request` (the rendered body, without
    secrets), `read` (only its size), `failure` (its code). Files contain it as an array, like an event."""

    kind: str
    time: float
    data: bytes = b""
    size: int = 0


class StoredTurn(Struct, frozen=True):
    """One turn of a chain, with its items in order."""

    id: str
    status: str
    input: tuple[StoredItem, ...]
    output: tuple[StoredItem, ...]


class Page(Struct, frozen=True):
    """Some items, and whether more follow."""

    items: tuple[StoredItem, ...]
    has_more: bool


def page_of(
    entries: Sequence[T], id_of: Callable[[T], str], *, after: str | None, limit: int, newest_first: bool
) -> tuple[list[T], bool]:
    """Return up to `limit` entries after the entry with the id `after`, and whether more follow.

    A history may contain an id twice. The last occurrence in reading order wins, so that a client that
    requests page after page always reaches the end.
    """
    ordered = list(reversed(entries)) if newest_first else list(entries)
    begin = 0
    if after is not None:
        positions = [position for position, entry in enumerate(ordered) if id_of(entry) == after]
        begin = positions[-1] + 1 if positions else len(ordered)
    end = begin + max(limit, 0)
    return ordered[begin:end], end < len(ordered)


class StoredConversation(Struct, frozen=True):
    id: str
    created_at: int
    metadata: bytes
    """A JSON object."""


class Stats(Struct, frozen=True):
    """The contents of a store in numbers, for operators."""

    responses: int
    items: int
    events: int
    conversations: int
    bytes: int


HELD_KEY_SECONDS = 24 * 3600
"""How long a key stays held after its worker died. Nobody knows what became of its request, so it must not be
sent to an upstream again by itself (decision 32)."""


class HeldKey(Struct, frozen=True):
    """A key that cannot be held, because another worker holds it or has kept it from being used again."""

    data: bytes
    """What that worker stored with the key."""
    is_alive: bool
    """Whether that worker may still release the key."""


# For operators' tools


class ArchiveStats(Struct, frozen=True, kw_only=True):
    """The contents of a store in numbers. Times are in seconds since 1970, None if there is no response."""

    total: Stats
    by_status: dict[str, int]
    oldest: int | None
    newest: int | None
    disk_bytes: int | None = None
    """What it takes on disk, with space that is free for later; None if `total` says it."""


class ArchivedConversation(Struct, frozen=True):
    tenant: str
    changed_at: float
    conversation: StoredConversation
    items: tuple[StoredItem, ...]


class Pruned(Struct):
    """How many responses and conversations were deleted."""

    responses: int = 0
    conversations: int = 0


class Imported(Struct):
    """How many records of another store were moved into this one, and how many were there already."""

    responses: int = 0
    conversations: int = 0
    turns: int = 0
    known: int = 0
