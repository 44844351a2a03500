"""Clients that follow the log of a running response: reconnecting keeps the turn running (decision 16)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

Key = tuple[str, str]
"""A tenant, and the id of a response."""


class Followers:
    """Counts the followers of each response. Belongs to one event loop."""

    def __init__(self) -> None:
        self._counts: dict[Key, int] = {}
        self._elsewhere: set[Key] = set()
        """Responses that have followers at other workers, which count as one."""
        self._changes: dict[Key, asyncio.Event] = {}
        """Set when the number of followers changes, for responses that `wait_until_unfollowed` waits for."""

    @contextmanager
    def following(self, key: Key) -> Iterator[None]:
        """Count a follower for the duration of the context."""
        self._count(key, 1)
        try:
            yield
        finally:
            self._count(key, -1)

    def follow_elsewhere(self, key: Key, is_followed: bool) -> None:
        """Note whether a response has followers at other workers."""
        if is_followed != (key in self._elsewhere):
            (self._elsewhere.add if is_followed else self._elsewhere.remove)(key)
            self._count(key, 1 if is_followed else -1)

    def is_followed(self, key: Key) -> bool:
        return key in self._counts

    def _count(self, key: Key, step: int) -> None:
        self._counts[key] = self._counts.get(key, 0) + step
        if not self._counts[key]:
            del self._counts[key]
        if key in self._changes:
            self._changes[key].set()

    async def wait_until_unfollowed(self, key: Key, seconds: float) -> None:
        """Wait until the response has had no followers for this many seconds."""
        change = self._changes[key] = asyncio.Event()
        try:
            while True:
                async with asyncio.timeout(None if key in self._counts else seconds):
                    await change.wait()
                change.clear()
        except TimeoutError:
            return
        finally:
            del self._changes[key]
