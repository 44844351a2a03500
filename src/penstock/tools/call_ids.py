"""Call ids that a client can rely on: never twice in a conversation, never longer than 64 characters.

Upstreams repeat ids on every turn (`call_0`, `functions.weather:0`) and inside one turn, and some are over
the limit that the specification sets for input. A repeated id gets a suffix that can be taken off again
when the call is sent back to the upstream it came from; a long one is replaced by its hash (decision 7).
"""

from __future__ import annotations

import re
from collections.abc import Collection
from hashlib import sha256

LIMIT = 64
_SUFFIX = re.compile(r"-pk[0-9]+\Z")

NO_OUTPUT = "[no output was recorded for this call]"
"""Stands for the output of a call that has none. It does not say that anybody stopped it (ask B8)."""
ORPHAN_OUTPUT = "[output of an earlier tool call]"
"""Stands before the output of a call that is not in the conversation."""


def fitting(call_id: str) -> str:
    """`call_id`, or a stable stand-in when it is too long. For calls and their outputs alike."""
    if len(call_id) <= LIMIT:
        return call_id
    return f"call_{sha256(call_id.encode('utf-8', 'surrogatepass')).hexdigest()[:40]}"


class CallIds:
    """The call ids of a conversation: each is given out once."""

    def __init__(self, used: Collection[str] = ()) -> None:
        self._taken = set(used)
        self._next_suffix: dict[str, int] = {}

    def distinct(self, call_id: str) -> str:
        """`call_id` as a client may see it: fitting, and never given out before."""
        shown = fitting(call_id)
        # An id that ends like one of our suffixes gets another: taking one off is then always right.
        if _SUFFIX.search(shown) or shown in self._taken:
            number = self._next_suffix.get(call_id, 2)
            while (shown := fitting(f"{call_id}-pk{number}")) in self._taken:
                number += 1
            self._next_suffix[call_id] = number + 1
        self._taken.add(shown)
        return shown


class UniqueIds:
    """Ids for one list of calls, each given out once; the next free number of an id is not searched again."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._next_number: dict[str, int] = {}

    def first_free(self, *wanted: str, separator: str = "-") -> str:
        """The first of the wanted ids that is free, else the last of them with a number behind it."""
        for id in wanted:
            if id not in self._taken:
                self._taken.add(id)
                return id
        base = wanted[-1]
        number = self._next_number.get(base, 2)
        while (id := fitting(f"{base}{separator}{number}")) in self._taken:
            number += 1
        self._next_number[base] = number + 1
        self._taken.add(id)
        return id


def original(call_id: str) -> str:
    """The upstream's own id, for the way back."""
    return _SUFFIX.sub("", call_id)
