"""Messages between the processes that share an SQLite file, over Unix sockets.

Each worker listens at a socket in a private folder of the machine, and connects to another one with the first
message for it. The last worker removes the folder. A message to a worker that has died, or that does not read
fast enough, is lost, as on any `penstock.store.news.Bus`.
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
from typing import cast

from penstock.errors import StoreError

_MOST_BYTES = 1024 * 1024
_MOST_WAITING = 8 * _MOST_BYTES
"""Bytes that may wait for a worker that is busy."""
_LENGTH = 4
"""Bytes before each message: its length."""


def bus_folder(file: Path) -> Path:
    """Return the folder of the sockets of the workers that share a file. It is not next to the file: the path
    of a socket may have only about a hundred characters, and not every file system has sockets."""
    name = sha256(os.fsencode(file)).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"penstock-{os.getuid()}-{name}"


def make_folder(folder: Path) -> None:
    """Create the folder if needed. Raise `StoreError` if others could write to it."""
    try:
        is_made = False
        while not is_made:  # a worker that ends may remove it at the same moment
            is_made = _is_made(folder)
    except OSError as error:
        raise _unusable(folder, error) from None


def _is_made(folder: Path) -> bool:
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    try:
        found = folder.lstat()
    except FileNotFoundError:
        return False
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise StoreError(
            StoreError.UNWRITABLE,
            f"{folder}: the folder for messages between workers belongs to others; delete it",
        )
    return True


def clear_folder(folder: Path) -> None:
    """Create the folder, or remove what dead workers have left in it. Raise `StoreError` if others could
    write to it."""
    make_folder(folder)
    try:
        for path in folder.iterdir():
            path.unlink(missing_ok=True)
    except FileNotFoundError:
        pass  # the last worker of an earlier gateway has removed it: `listen` creates it again
    except OSError as error:
        raise _unusable(folder, error) from None


def remove_folder(folder: Path) -> None:
    """Remove the folder if it is empty: nobody listens."""
    with suppress(OSError):
        folder.rmdir()


def _unusable(path: Path, error: OSError) -> StoreError:
    return StoreError(StoreError.UNWRITABLE, f"{path}: {error.strerror or error}")


def _listening_at(path: Path) -> socket.socket:
    """Return a socket that listens at a path in the folder for messages; raise `StoreError`."""
    while True:
        make_folder(path.parent)
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listening.bind(str(path))
            path.chmod(0o600)
        except FileNotFoundError:  # a worker that ended has removed the empty folder
            listening.close()
        except OSError as error:
            listening.close()
            raise _unusable(path, error) from None
        else:
            return listening


class SocketBus:
    """See `penstock.store.news.Bus`."""

    most_bytes = _MOST_BYTES

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._loop = asyncio.get_running_loop()
        self._path: Path | None = None
        self._serving: asyncio.Task[asyncio.Server] | None = None
        self._incoming: set[asyncio.BaseTransport] = set()
        self._links: dict[str, _Link] = {}
        """The connections to other workers, by their names."""

    def listen(self, worker: str, receive: Callable[[bytes], None], changed: Callable[[], None]) -> None:  # noqa: ARG002
        self._path = self._folder / worker
        listening = _listening_at(self._path)
        serving = self._loop.create_unix_server(lambda: _Receiver(receive, self._incoming), sock=listening)
        self._serving = self._loop.create_task(serving)

    def send(self, worker: str, data: bytes) -> None:
        link = self._links.get(worker)
        if link is None or link.is_closed:
            link = self._links[worker] = _Link()
            link.connect(self._loop, self._folder / worker)
        link.send(len(data).to_bytes(_LENGTH, "big") + data)

    async def aclose(self) -> None:
        for link in self._links.values():
            await link.aclose()
        if self._serving is not None:
            (await self._serving).close()
            self._serving = None
        for transport in self._incoming:
            transport.close()
        if self._path is not None:
            self._path.unlink(missing_ok=True)
            remove_folder(self._folder)


class _Link(asyncio.Protocol):
    """A connection to another worker, and what waits for it to be established."""

    def __init__(self) -> None:
        self.is_closed = False
        self._waiting = bytearray()
        self._transport: asyncio.WriteTransport | None = None
        self._connecting: asyncio.Task[None] | None = None

    def connect(self, loop: asyncio.AbstractEventLoop, path: Path) -> None:
        self._connecting = loop.create_task(self._connect(loop, path))

    async def _connect(self, loop: asyncio.AbstractEventLoop, path: Path) -> None:
        try:
            await loop.create_unix_connection(lambda: self, str(path))
        except OSError:  # the worker has died
            self.connection_lost(None)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Those of uvloop are not instances of asyncio's classes.
        self._transport = cast("asyncio.WriteTransport", transport)
        self._transport.write(bytes(self._waiting))
        self._waiting.clear()

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002 - what was sent is lost
        self.is_closed = True
        self._waiting.clear()

    def send(self, frame: bytes) -> None:
        if self._transport is not None:
            if self._transport.get_write_buffer_size() <= _MOST_WAITING:
                self._transport.write(frame)
        elif len(self._waiting) <= _MOST_WAITING:
            self._waiting += frame

    async def aclose(self) -> None:
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.gather(self._connecting, return_exceptions=True)
        if self._transport is not None:
            self._transport.close()


class _Receiver(asyncio.Protocol):
    """Reads the messages of one other worker."""

    def __init__(self, receive: Callable[[bytes], None], transports: set[asyncio.BaseTransport]) -> None:
        self._receive, self._transports = receive, transports
        self._transport: asyncio.BaseTransport | None = None
        self._data = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._transports.add(transport)

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002 - the other has ended
        if self._transport is not None:
            self._transports.discard(self._transport)

    def data_received(self, data: bytes) -> None:
        self._data += data
        begin = 0
        while len(self._data) - begin >= _LENGTH:
            end = begin + _LENGTH + int.from_bytes(self._data[begin : begin + _LENGTH], "big")
            if end > len(self._data):
                break
            self._receive(bytes(self._data[begin + _LENGTH : end]))
            begin = end
        del self._data[:begin]
