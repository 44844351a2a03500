"""Messages between the processes that share an SQLite file: datagrams of Unix sockets.

Each worker has a socket in a private folder of the machine. A message to a worker that has died, or that does
not read fast enough, is lost, as on any `penstock.store.news.Bus`.
"""

from __future__ import annotations

import asyncio
import os
import socket
import stat
import tempfile
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from penstock.errors import StoreError

_MOST_BYTES = 60_000
_BUFFER = 1024 * 1024
"""Bytes that may wait for a worker that is busy."""


def bus_folder(file: Path) -> Path:
    """Return the folder of the sockets of the workers that share a file. It is not next to the file: the path
    of a socket may have only about a hundred characters, and not every file system has sockets."""
    name = sha256(os.fsencode(file)).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"penstock-{os.getuid()}-{name}"


def clear_folder(folder: Path) -> None:
    """Create the folder, or remove what dead workers have left in it. Raise `StoreError` if others could
    write to it."""
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
            raise StoreError(
                StoreError.UNWRITABLE,
                f"{folder}: the folder for messages between workers belongs to others; delete it",
            )
        for path in folder.iterdir():
            path.unlink()
    except OSError as error:
        raise StoreError(StoreError.UNWRITABLE, f"{folder}: {error.strerror or error}") from None


class SocketBus:
    """See `penstock.store.news.Bus`."""

    most_bytes = _MOST_BYTES

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._loop = asyncio.get_running_loop()
        self._path: Path | None = None
        self._receive: Callable[[bytes], None] = lambda _: None
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            self._socket.setsockopt(socket.SOL_SOCKET, option, _BUFFER)

    def listen(self, worker: str, receive: Callable[[bytes], None], changed: Callable[[], None]) -> None:  # noqa: ARG002
        self._path, self._receive = self._folder / worker, receive
        try:
            self._socket.bind(str(self._path))
        except OSError as error:
            raise StoreError(StoreError.UNWRITABLE, f"{self._path}: {error.strerror or error}") from None
        self._loop.add_reader(self._socket, self._read)

    def _read(self) -> None:
        with suppress(OSError):  # nothing more to read
            while True:
                self._receive(self._socket.recv(_BUFFER))

    def send(self, worker: str, data: bytes) -> None:
        with suppress(OSError):  # the worker has died, or is busy
            self._socket.sendto(data, str(self._folder / worker))

    async def aclose(self) -> None:
        if self._path is not None:
            self._loop.remove_reader(self._socket)
            self._path.unlink(missing_ok=True)
            self._path = None
        self._socket.close()
