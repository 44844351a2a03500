"""Where uploaded files are read: in a thread of its own, so that no view of a turn waits for a file. There is
room for only a few, so that those that wait do not fill the memory.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from weakref import WeakKeyDictionary

from penstock.gateway.errors import RequestRefused
from penstock.gateway.gateway import Gateway
from penstock.gateway.http.access import tenant_of
from penstock.gateway.settings import ClientKey
from penstock.inspector.answers import Desk

MOST_FILES, MOST_FILES_OF_KEY = 6, 2
"""Files that are received, wait or are read at the same time."""

_thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="penstock-files")
"""It starts with the first file."""


async def _run(_: int, work: Callable[[], bytes]) -> bytes:
    return await asyncio.get_running_loop().run_in_executor(_thread, work)


class FileDesk(Desk):
    def __init__(self) -> None:
        super().__init__(_run)
        self._files: Counter[str] = Counter()

    @contextmanager
    def room(self, key: ClientKey | None) -> Iterator[None]:
        """Count a file while this is active; raise `RequestRefused` if there is no room for it. Call it
        before the file is read."""
        tenant = tenant_of(key)
        is_full = self._files.total() >= MOST_FILES
        if is_full or (key is not None and self._files[tenant] >= MOST_FILES_OF_KEY):
            message = "other files are being checked already: try again in a moment"
            headers = [("retry-after", "5")]
            raise RequestRefused(503, "server_is_overloaded", message, type="server_error", headers=headers)
        self._files[tenant] += 1
        try:
            yield
        finally:
            self._files[tenant] -= 1
            self._files += Counter()  # drops the keys without files


_desks: WeakKeyDictionary[Gateway, FileDesk] = WeakKeyDictionary()


def file_desk_of(gateway: Gateway) -> FileDesk:
    """Return the desk of a gateway for files."""
    return _desks.setdefault(gateway, FileDesk())
