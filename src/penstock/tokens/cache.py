"""A cache of counts. Its keys are hashes, so that it does not keep texts alive."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock

Key = tuple[str, int, int]


def key_of(kind: str, content: str | bytes) -> Key:
    """Return the cache key of a content: Python's keyed 64-bit hash and the length.

    Python stores the hash in the object, so a second lookup of the same object is free; a cryptographic
    digest of a long text would take more than half the time budget of a cached count.
    """
    return kind, len(content), hash(content)


class CountCache:
    """The most recently used counts. Thread-safe."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._counts: OrderedDict[Key, int] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._counts)

    def get(self, key: Key, count: Callable[[], int]) -> int:
        """Return the count for a key; compute it if it is missing. Two threads may both compute it."""
        with self._lock:
            cached = self._counts.get(key)
            if cached is not None:
                self._counts.move_to_end(key)
                return cached
        computed = count()
        with self._lock:
            self._counts[key] = computed
            while len(self._counts) > self._size:
                self._counts.popitem(last=False)
        return computed
