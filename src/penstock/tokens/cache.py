"""Counts that were made before. Texts are known by their hash, so that no text is kept alive."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock

Key = tuple[str, int, int]


def key_of(kind: str, content: str | bytes) -> Key:
    """What a content is known by: Python's keyed 64-bit hash and the length.

    Python keeps the hash in the object, which makes a second look at the same object free; a cryptographic
    digest of a long text would cost more than half a cached count may take.
    """
    return kind, len(content), hash(content)


class CountCache:
    """The counts that were used last. Threads may share it."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._counts: OrderedDict[Key, int] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._counts)

    def get(self, key: Key, count: Callable[[], int]) -> int:
        """The count for a key, made now if it is not here. Two threads may both make it, and agree."""
        with self._lock:
            known = self._counts.get(key)
            if known is not None:
                self._counts.move_to_end(key)
                return known
        made = count()
        with self._lock:
            self._counts[key] = made
            while len(self._counts) > self._size:
                self._counts.popitem(last=False)
        return made
