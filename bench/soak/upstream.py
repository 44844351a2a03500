"""The upstream of the soak, in a process of its own: `python -m bench.soak.upstream PORT FILE`.

It may be killed at any time. So every call is appended to FILE before it is answered, one name per line.
SIGUSR1 resets all connections.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import struct
import sys
from contextlib import suppress

from bench.soak.answers import DIALECTS, Directions, directions_in, error_frame, frames

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_CHUNKED = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
_HUGE = 3 * 1024 * 1024
"""Bytes. The gateways of the soak accept an answer of 2 MiB (`bench.soak.sites`)."""
_SILENCE = 30.0
"""Seconds: more than the gateways of the soak wait."""
_STATUS_FAULT = "status-"


class Upstream:
    """Serves all API formats: the path tells which one."""

    def __init__(self, calls: int) -> None:
        self._calls = calls
        self._writers: set[asyncio.StreamWriter] = set()

    def reset_all(self) -> None:
        for writer in [*self._writers]:
            _reset(writer)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            with suppress(OSError, asyncio.IncompleteReadError):
                while await self._answer(reader, writer):
                    pass
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; return whether the connection is kept."""
        head = await reader.readuntil(b"\r\n\r\n")
        length = _LENGTH.search(head)
        body = await reader.readexactly(int(length[1])) if length else b""
        asked = directions_in(body)
        if asked is None:  # the gateway looks for the names of models
            return await _send_status(writer, 404, b'{"error":{"message":"there is nothing here"}}')
        os.write(self._calls, f"{asked.name}\n".encode())
        return await _play(writer, _dialect_of(head), asked)


def _dialect_of(head: bytes) -> str:
    path = head.split(b" ", 2)[1]
    for word, dialect in (
        (b"/messages", "anthropic"),
        (b"GenerateContent", "gemini"),
        (b"/responses", "responses"),
    ):
        if word in path:
            return dialect
    return "chat"


async def _play(writer: asyncio.StreamWriter, dialect: str, asked: Directions) -> bool:
    how = asked.how
    if how.startswith(_STATUS_FAULT):
        return await _send_status(writer, int(how.removeprefix(_STATUS_FAULT)), b'{"error":{"message":"no"}}')
    if how == "huge-error":
        return await _send_status(writer, 500, b"x" * _HUGE)
    if how == "html":
        return await _send_status(writer, 200, b"<html>Please log in</html>", "text/html")
    if how in ("reset-at-once", "silence"):
        if how == "silence":
            await asyncio.sleep(_SILENCE)
        _reset(writer)
        return False
    writer.write(_CHUNKED)
    if how == "empty":
        return await _end(writer)
    if how == "wrong-dialect":
        dialect = DIALECTS[(DIALECTS.index(dialect) + 1) % len(DIALECTS)]
    data = frames(dialect, asked)
    if how in ("text", "call", "reasoning", "drip", "wrong-dialect"):
        for frame in data:
            await _send(writer, frame, asked.gap_ms / 1000, byte_by_byte=how == "drip")
        return await _end(writer)
    for frame in data[: len(data) // 2]:
        await _send(writer, frame, asked.gap_ms / 1000)
    return await _fail(writer, dialect, how)


async def _fail(writer: asyncio.StreamWriter, dialect: str, how: str) -> bool:
    """End an answer in its middle."""
    if how == "error-frame":
        await _send(writer, error_frame(dialect), 0)
        return await _end(writer)
    if how == "truncated":
        return await _end(writer)
    if how in ("garbage", "broken-json", "huge-frame"):
        garbage = {"garbage": b"\xff\x00\xfe" * 500 + b"\n\n", "broken-json": b'data: {"choices":[{"del\n\n'}
        await _send(writer, garbage.get(how, b"data: " + b"x" * _HUGE + b"\n\n"), 0)
        return await _end(writer)
    if how == "stall":
        await asyncio.sleep(_SILENCE)
    _reset(writer)
    return False


async def _send(
    writer: asyncio.StreamWriter, data: bytes, pause: float, *, byte_by_byte: bool = False
) -> None:
    for piece in [data[at : at + 1] for at in range(len(data))] if byte_by_byte else [data]:
        writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        await writer.drain()
        if byte_by_byte:
            await asyncio.sleep(0)
    if writer.transport.is_closing():
        raise ConnectionResetError
    if pause:
        await asyncio.sleep(pause)


async def _end(writer: asyncio.StreamWriter) -> bool:
    writer.write(b"0\r\n\r\n")
    await writer.drain()
    return True


async def _send_status(
    writer: asyncio.StreamWriter, status: int, body: bytes, content_type: str = "application/json"
) -> bool:
    head = f"HTTP/1.1 {status} Said\r\ncontent-type: {content_type}\r\ncontent-length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    await writer.drain()
    return True


def _reset(writer: asyncio.StreamWriter) -> None:
    raw = writer.get_extra_info("socket")
    with suppress(OSError):
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def main() -> None:
    port, file = int(sys.argv[1]), sys.argv[2]
    upstream = Upstream(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, upstream.reset_all)
    server = await asyncio.start_server(upstream.serve, "127.0.0.1", port, limit=1 << 20)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
