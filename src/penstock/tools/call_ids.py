"""Call ids that a client can rely on: unique in a conversation, at most 64 characters long.

Upstreams repeat ids on every turn (`call_0`, `functions.weather:0`) and within one turn, and some exceed the
limit that the specification sets for input. A repeated id gets a suffix, which is removed again when the call
is sent back to its upstream; a long id is replaced by its hash (decision 7).
"""

from __future__ import annotations

import re
from collections.abc import Collection
from hashlib import sha256

LIMIT = 64
_SUFFIX = re.compile(r"-pk[0-9]+\Z")

NO_OUTPUT = "[no output was recorded for this call]"
"""Placeholder for the output of a call that has none. It does not say that the call was stopped (ask B8)."""
ORPHAN_OUTPUT = "[output of an earlier tool call]"
"""Prefix for the output of a call that is not in the conversation."""
LATE_OUTPUT = "[later output of the call {id}]"
"""Prefix for an output of a call that already has one."""


def fitting(call_id: str) -> str:
    """Return `call_id`, or a stable replacement if it is too long. Use it for calls and their outputs."""
    if len(call_id) <= LIMIT:
        return call_id
    return f"call_{sha256(call_id.encode('utf-8', 'surrogatepass')).hexdigest()[:40]}"


class CallIds:
    """The call ids of a conversation: each is issued once."""

    __slots__ = ("_next_suffix", "_used")

    def __init__(self, used: Collection[str] = ()) -> None:
        self._used = set(used)
        self._next_suffix: dict[str, int] = {}

    def distinct(self, call_id: str) -> str:
        """Return a unique id for the client, derived from `call_id` and short enough."""
        unique = fitting(call_id)
        # An id that already ends in one of our suffixes gets another, so that removing one is always right.
        if _SUFFIX.search(unique) or unique in self._used:
            number = self._next_suffix.get(call_id, 2)
            while (unique := fitting(f"{call_id}-pk{number}")) in self._used:
                number += 1
            self._next_suffix[call_id] = number + 1
        self._used.add(unique)
        return unique


class UniqueIds:
    """Unique ids for one list of calls. The next free number of each id is remembered, not searched again."""

    def __init__(self) -> None:
        self._used: set[str] = set()
        self._next_number: dict[str, int] = {}

    def first_free(self, *wanted: str, separator: str = "-") -> str:
        """Return the first of the wanted ids that is free, else the last one with a number appended."""
        for id in wanted:
            if id not in self._used:
                self._used.add(id)
                return id
        base = wanted[-1]
        number = self._next_number.get(base, 2)
        while (id := fitting(f"{base}{separator}{number}")) in self._used:
            number += 1
        self._next_number[base] = number + 1
        self._used.add(id)
        return id


def original(call_id: str) -> str:
    """Return the upstream's own id, for sending the call back to it."""
    return _SUFFIX.sub("", call_id)


def is_hashed(call_id: str, given: str) -> bool:
    """Return whether a call has a hash as its id, because the given id was too long, or became too long with
    the suffix that it needed."""
    return len(given) > LIMIT or not call_id.startswith(original(given))
