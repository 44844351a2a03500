"""Threads: conversations, and chains of more than one turn, with all their branches.

No table has the threads. A page of chains is found from the newest turns that continue others: each leads to
the first turn of its chain, and from there to all turns of it. So nothing must be kept up to date when a
turn is written, deleted or imported, and a page costs as much as the chains on it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, Protocol

from msgspec import Struct

from penstock.store.ledger import position_of

ThreadKind = Literal["conversation", "chain"]
Position = tuple[float, str]
"""Where a thread is in the list: its last change, and the id of its newest turn or of its conversation."""

MOST_ROWS = 5_000
"""Turns after which a page ends early: long chains would make it slow."""
BATCH = 500
"""Turns among which chains are looked for at a time."""
_CHAINS_AT_ONCE = 4
OPENING_ITEMS = 4
OPENING_BYTES = 16 * 1024
"""Larger items are left out of `StoredThread.opening`."""


class StoredThread(Struct, frozen=True, kw_only=True):
    kind: ThreadKind
    id: str
    """The id of the conversation, or of the first response of the chain. That one has no previous response,
    or the previous one was deleted."""
    changed_at: float
    """When the conversation was changed, or the newest turn of the chain began. Seconds since 1970."""
    turns: int
    """All stored turns, also those of other branches."""
    last_id: str = ""
    """The newest response; empty if the conversation has none."""
    model: str = ""
    """The model of the newest response, as in the ledger; empty if the ledger does not have it any more."""
    opening: tuple[bytes, ...] = ()
    """The JSON of the first items, without large ones: enough for a title."""


class ThreadPage(Struct, frozen=True):
    """Threads, newest change first, and the cursor of the next page; an empty cursor: there are no more. A
    page may have fewer threads than requested although there are more."""

    threads: tuple[StoredThread, ...]
    next: str = ""


class ThreadTurn(Struct, frozen=True, kw_only=True):
    """One turn of a thread, with the JSON of its own items."""

    id: str
    previous_id: str | None
    created_at: int
    status: str
    model: str
    """As in the ledger; empty if the ledger does not have it any more."""
    input: tuple[bytes, ...]
    output: tuple[bytes, ...]


class Threads(Protocol):
    """The part of a store that shows how turns follow each other."""

    async def continuations(self, tenant: str, id: str) -> list[str]:
        """Return the ids of the responses that continue this one, oldest first."""

    async def threads(self, tenant: str, *, after: str = "", limit: int = 50) -> ThreadPage:
        """Return a page of the conversations, and of the chains of more than one turn; `after` is the cursor
        of the page before. A thread that changes in the meantime moves to the front of the list. Raise
        `ValueError` for an unknown cursor."""

    async def conversation_turns(self, tenant: str, id: str, *, limit: int = 200) -> list[ThreadTurn]:
        """Return the newest turns of a conversation, in the order in which they began."""

    async def chain_turns(self, tenant: str, id: str, *, limit: int = 200) -> list[ThreadTurn]:
        """Return the newest turns of the chain that contains a response, with all its branches, in the order
        in which they began. Nothing if there is no such response. If the first turn has a previous response,
        that one was deleted; or it is not among the newest."""


# Pages


class ListedThread(Struct, frozen=True):
    """A thread of a page, before its details are read. `turns` is 0 for a conversation."""

    position: Position
    kind: ThreadKind
    id: str
    turns: int = 0

    @property
    def last_id(self) -> str:
        """The newest response of a chain."""
        return self.position[1]


ChainRow = tuple[str, str, int, bool]
"""A turn of a chain: the id of the first turn, its own id, when it began, whether it continues another."""


class ChainScan:
    """Finds the chains of a page, from batches of turns that continue others, newest first."""

    def __init__(self, after: str, limit: int, most_rows: int = MOST_ROWS) -> None:
        """Raise `ValueError` for an unknown cursor."""
        self.after: Position = position_of(after) if after else (math.inf, "")
        self.limit = max(limit, 1)
        self.chains: list[ListedThread] = []
        self._position: Position = self.after
        self._seen: set[str] = set()
        self._rows, self._most_rows = 0, most_rows
        self._is_exhausted = False

    @property
    def is_done(self) -> bool:
        return self._is_exhausted or self._is_full

    @property
    def _is_full(self) -> bool:
        return len(self.chains) > self.limit or self._rows >= self._most_rows

    @property
    def begin(self) -> tuple[int, str]:
        """Where the next batch begins. Turns have whole seconds; the cursor may be that of a conversation."""
        seconds, id = min(max(self._position[0], 0.0), _LATEST), self._position[1]
        return (int(seconds), id) if seconds == int(seconds) else (math.ceil(seconds), "")

    def unknown(self, rows: Iterable[Sequence[Any]]) -> Iterator[list[str]]:
        """Take the next batch, rows of times and ids. Yield turns whose chains must be read, and given to
        `add` before the next ones are asked for."""
        some: list[str] = []
        count = 0
        for count, (time, id) in enumerate(rows, 1):  # noqa: B007 - it is used below
            self._rows += 1
            self._position = time, id
            if id not in self._seen:
                some.append(id)
            if len(some) == _CHAINS_AT_ONCE:
                yield some
                some = []
                if self._is_full:
                    return
        if some:
            yield some
        self._is_exhausted = count < BATCH

    def add(self, rows: Iterable[ChainRow]) -> None:
        """Take the turns of some chains."""
        chains: dict[str, list[Position]] = {}
        counts: dict[str, int] = {}
        for first, id, time, continues in rows:
            self._seen.add(id)
            counts[first] = counts.get(first, 0) + 1
            if continues:
                chains.setdefault(first, []).append((time, id))
        self._rows += sum(counts.values())
        for first, positions in chains.items():
            newest = max(positions)
            if counts[first] > 1 and newest < self.after:  # else it was on an earlier page
                self.chains.append(ListedThread(newest, "chain", first, counts[first]))

    def finish(self) -> None:
        """Note that there are no other chains."""
        self._is_exhausted = True

    def page(self, conversations: Iterable[tuple[float, str]]) -> tuple[list[ListedThread], str]:
        """Return what is on the page, and the cursor of the next one. `conversations` are the times and ids
        of one more than the page has room for, newest first."""
        found = [*self.chains, *(ListedThread(each, "conversation", each[1]) for each in conversations)]
        found.sort(key=_position, reverse=True)
        if not self._is_exhausted:  # older chains are not known yet
            found = [each for each in found if each.position >= self._position]
        page = found[: self.limit]
        if len(found) > self.limit:
            return page, _cursor(page[-1].position)
        return page, "" if self._is_exhausted else _cursor(self._position)


_LATEST = 2.0**53


def _position(thread: ListedThread) -> Position:
    return thread.position


def _cursor(position: Position) -> str:
    return f"{position[0]!r}_{position[1]}"


def newest(numbers: Iterable[int], limit: int) -> list[int]:
    """Return the greatest numbers, in ascending order."""
    return sorted(numbers)[-max(limit, 1) :]
