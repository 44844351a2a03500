"""What the supervisor and a worker say to each other, over a pair of connected sockets.

Each message is MessagePack after its length in four bytes. When either process dies, the other reads the end
of the connection: a pair of sockets has no other owners.
"""

from __future__ import annotations

import asyncio
import socket
from asyncio import IncompleteReadError, StreamReader, StreamWriter
from contextlib import suppress
from typing import Generic, TypeVar

import msgspec
from msgspec import Struct

from penstock.gateway.settings import Settings
from penstock.gateway.telemetry.metrics import Counted

PROTOCOL = 1
"""Changes with these messages: after an upgrade, an older supervisor starts workers of the new version."""

_LENGTH = 4
_BACKLOG = 4 * 1024 * 1024
"""Bytes. If the other process does not read, nothing that can wait is sent beyond this."""


# To a worker


class StartWorker(Struct, frozen=True, kw_only=True, tag="start"):
    """The first message: what to serve, and where. Sockets are file descriptors."""

    protocol: int
    number: int
    settings: Settings
    url: str
    """Where the worker reaches the gateway itself, without TLS."""
    started: float
    """When the gateway was started: replacing a worker is not a restart."""
    listening: int
    own: int | None = None
    metrics: int | None = None


class ApplySettings(Struct, frozen=True, tag="apply"):
    """The supervisor has read and checked a changed file."""

    settings: Settings


class Drain(Struct, frozen=True, tag="drain"):
    """Accept nothing more, and end when the running turns have ended."""


class DrainSoon(Struct, frozen=True, tag="drain_soon"):
    """Another worker has taken over: end like that, but first serve those who have already connected."""


class StopTurns(Struct, frozen=True, tag="stop"):
    """End the running turns now."""


class Collect(Struct, frozen=True, tag="collect"):
    """Send what you have counted, because somebody reads the metrics."""


class MetricsText(Struct, frozen=True, tag="metrics"):
    """The metrics of all workers."""

    question: int
    text: bytes


ToWorker = StartWorker | ApplySettings | Drain | DrainSoon | StopTurns | Collect | MetricsText


# To the supervisor


class WorkerReady(Struct, frozen=True, tag="ready"):
    """The worker accepts connections."""


class WorkerDrains(Struct, frozen=True, tag="drains"):
    """The worker accepts nothing more, perhaps because of a signal of its own."""


class CannotStart(Struct, frozen=True, tag="cannot_start"):
    """The worker ends, for a reason that the user can change."""

    message: str


class CountedByWorker(Struct, frozen=True, tag="counted"):
    """What was counted since the last time. `is_answer`: to `Collect`."""

    counted: Counted
    is_answer: bool = False


class AskForMetrics(Struct, frozen=True, tag="ask"):
    question: int


class WorkerEnds(Struct, frozen=True, tag="ends"):
    """The last message of a worker that was stopped."""

    lost: int
    """Responses that could not be stored."""


FromWorker = WorkerReady | WorkerDrains | CannotStart | CountedByWorker | AskForMetrics | WorkerEnds

M = TypeVar("M")


class Link(Generic[M]):
    """One end of the connection. `M` is what arrives here."""

    def __init__(self, reader: StreamReader, writer: StreamWriter, expected: object) -> None:
        self._reader, self._writer = reader, writer
        self._decoder: msgspec.msgpack.Decoder[M] = msgspec.msgpack.Decoder(expected)

    def send(self, message: ToWorker | FromWorker) -> None:
        """Send without waiting. If the other process is dead, nothing happens: `receive` reports it."""
        if not self._writer.is_closing():
            self._writer.write(_framed(message))

    @property
    def is_behind(self) -> bool:
        """Whether the other process has not read for a while."""
        return self._writer.transport.get_write_buffer_size() > _BACKLOG

    async def receive(self) -> M | None:
        """Return the next message; None at the end of the connection."""
        try:
            length = int.from_bytes(await self._reader.readexactly(_LENGTH), "big")
            data = await self._reader.readexactly(length)
        except (IncompleteReadError, ConnectionError):
            return None
        return self._decoder.decode(data)

    def close(self) -> None:
        """Close the connection when everything is sent; `receive` then returns None."""
        self._writer.close()

    async def flush(self) -> None:
        with suppress(ConnectionError):
            await self._writer.drain()

    async def aclose(self) -> None:
        """Close the connection, and wait until it is closed."""
        self.close()
        with suppress(ConnectionError):
            await self._writer.wait_closed()


async def link_to_worker(connection: socket.socket) -> Link[FromWorker]:
    reader, writer = await asyncio.open_unix_connection(sock=connection)
    return Link(reader, writer, FromWorker)


async def link_to_supervisor(connection: socket.socket) -> Link[ToWorker]:
    reader, writer = await asyncio.open_unix_connection(sock=connection)
    return Link(reader, writer, ToWorker)


def receive_start(connection: socket.socket) -> StartWorker:
    """Return the first message, before there is an event loop. Raise `EOFError` if the supervisor is gone,
    and `msgspec.ValidationError` if it has another version."""
    length = int.from_bytes(_read_exactly(connection, _LENGTH), "big")
    return msgspec.msgpack.decode(_read_exactly(connection, length), type=StartWorker)


def send_now(connection: socket.socket, message: FromWorker) -> None:
    """Send a message without an event loop."""
    connection.sendall(_framed(message))


def _framed(message: ToWorker | FromWorker) -> bytes:
    data = msgspec.msgpack.encode(message)
    return len(data).to_bytes(_LENGTH, "big") + data


def _read_exactly(connection: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        some = connection.recv(count - len(data))
        if not some:
            raise EOFError
        data += some
    return bytes(data)
