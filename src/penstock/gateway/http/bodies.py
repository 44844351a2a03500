"""The bodies of requests, received and decompressed, and never larger than they may be (ask K4).

A hundred bytes can decompress to gigabytes. So every decoder works in steps whose output is bounded, and
stops as soon as there is more than the limit. What all requests together may take is bounded as well: large
bodies that are being received are counted, and large ones are decompressed two at a time.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping
from functools import partial
from io import BytesIO
from typing import TypeVar

import brotli  # type: ignore[import-untyped]
import zstandard

from penstock.gateway.errors import ClientGone, RequestRefused

T = TypeVar("T")

Receive = Callable[[], Awaitable[Mapping[str, object]]]
"""Gives the next message of an ASGI connection."""

LARGE = 8 * 1024 * 1024
"""Bodies beyond this wait for each other; smaller ones, which is nearly all of them, never wait for those."""
MOST_RECEIVING = 8
"""How many bodies of the largest size may be in the middle of being received."""
MOST_SMALL, MOST_LARGE = 8, 2
"""Bodies that are decompressed at the same time: up to `LARGE`, and beyond."""

CHUNK = 64 * 1024
"""How much a decoder gives in one step, more or less."""
PIECE = 16 * 1024
"""How much it is given."""
MOST_ENCODINGS = 3
MOST_MEMBERS = 4096
"""Gzip bodies may be put together of several; each one costs something, also when nothing is in it."""
MOST_BLOCKS = 100_000
"""The same for the blocks of zstd. Its encoders fill a block with up to 128 KiB."""
MOST_WINDOW = 8 * 1024 * 1024
"""RFC 9659: more memory than this for the window of zstd cannot be asked for over HTTP."""

_SKIPPED = b"\x2a\x4d\x18"
_MOST_HEADER = 18
_ZLIB, _RAW, _GZIP = zlib.MAX_WBITS, -zlib.MAX_WBITS, zlib.MAX_WBITS | 16


class _Corrupt(Exception):  # noqa: N818 - never leaves this file
    """The data are not what their encoding says."""


class BodyReader:
    """Reads the bodies of all requests of a gateway. Belongs to one event loop."""

    def __init__(self) -> None:
        self._receiving = 0
        """Bytes of bodies that are not there to their end."""
        self._small = asyncio.Semaphore(MOST_SMALL)
        self._large = asyncio.Semaphore(MOST_LARGE)

    async def read(self, receive: Receive, headers: Mapping[str, str], limit: int) -> bytes:
        """The whole body, decompressed. `headers` have their names in small letters.

        `RequestRefused` for what is too large, or cannot be decompressed; `ClientGone` when it breaks off.
        """
        if _announced(headers.get("content-length", "")) > limit:
            raise _too_large(limit)
        steps = _steps(headers.get("content-encoding", ""))  # what cannot be decoded need not be sent
        data = await self._received(receive, limit)
        if not steps:
            return data
        # How much a body inflates to shows only at its end. So it is tried among the small ones first, and
        # starts again among the large ones, which wait in the order in which they came.
        for room, most in ((self._small, min(LARGE, limit)), (self._large, limit)):
            decoded = await _in_thread(room, partial(_decode, data, steps, most))
            if decoded is not None:
                return decoded
        raise _too_large(limit)

    async def _received(self, receive: Receive, limit: int) -> bytes:
        data = BytesIO()
        try:
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientGone
                part = message.get("body", b"")
                if isinstance(part, bytes):
                    self._receiving += data.write(part)
                length = data.tell()
                if length > limit:
                    raise _too_large(limit)
                if length > LARGE and self._receiving > MOST_RECEIVING * limit:
                    raise _too_many()
                if not message.get("more_body", False):
                    return data.getvalue()
        finally:
            self._receiving -= data.tell()


async def _in_thread(room: asyncio.Semaphore, work: Callable[[], T]) -> T:
    """Always in a thread: how much work is in a compressed body cannot be seen from its size. Its place is
    free when the thread has ended, also where nobody waits for it any more."""
    await room.acquire()
    working = asyncio.get_running_loop().run_in_executor(None, work)
    working.add_done_callback(lambda _: room.release())
    try:
        return await asyncio.shield(working)
    finally:
        del working  # or its exception would keep this frame, which keeps the body


def _decode(data: bytes, steps: list[str], limit: int) -> bytes | None:
    """Undo the encodings, which are in the order in which they were applied. None: it is over the limit."""
    for name in reversed(steps):
        try:
            decoded = _bounded(DECODERS[name](data), limit)
        except (_Corrupt, zlib.error, zstandard.ZstdError, brotli.error) as error:
            raise RequestRefused(
                400,
                "invalid_encoding",
                f"the body is not valid {name}, as its Content-Encoding says: {error}",
            ) from None
        if decoded is None:
            return None
        data = decoded
    return data if len(data) <= limit else None


def _steps(encodings: str) -> list[str]:
    names = [name.strip().lower() for name in encodings.split(",")]
    names = [name for name in names if name and name != "identity"]
    taken = [("accept-encoding", ", ".join(DECODERS))]
    for name in names:
        if name not in DECODERS:
            message = f"the Content-Encoding {name[:64]!r} is not known here; use {', '.join(DECODERS)}"
            raise RequestRefused(415, "unsupported_encoding", message, headers=taken)
    if len(names) > MOST_ENCODINGS:
        message = f"the body has more than {MOST_ENCODINGS} encodings on top of each other"
        raise RequestRefused(415, "unsupported_encoding", message, headers=taken)
    return names


def _announced(length: str) -> int:
    """What Content-Length says. A wrong one is the server's business, which reads the body by it."""
    length = length.strip()
    return int(length) if length.isascii() and length.isdigit() and len(length) < 20 else 0


def _bounded(chunks: Iterator[bytes], limit: int) -> bytes | None:
    """All chunks in one, or None. Each is small, so not much more than the limit is ever there."""
    data = BytesIO()
    for chunk in chunks:
        if data.tell() + len(chunk) > limit:
            return None
        data.write(chunk)
    return data.getvalue()


def _too_large(limit: int) -> RequestRefused:
    message = f"the body is larger than {limit:,} bytes, the limit of this gateway (limits.body_bytes)"
    return RequestRefused(413, "request_too_large", message)


def _too_many() -> RequestRefused:
    message = "too many large requests are being sent at the same time: try again in a moment"
    headers = [("retry-after", "2")]
    return RequestRefused(503, "server_is_overloaded", message, type="server_error", headers=headers)


def _gunzip(data: bytes) -> Iterator[bytes]:
    """Gzip: one member after another."""
    at = 0
    for _ in range(MOST_MEMBERS):
        at = yield from _inflate(data, at, _GZIP)
        if at == len(data):
            return
    raise _Corrupt(f"it has more than {MOST_MEMBERS} members")


def _undeflate(data: bytes) -> Iterator[bytes]:
    """Deflate: zlib, says the standard; without its header, say some programs."""
    has_header = len(data) >= 2 and data[0] & 15 == 8 and int.from_bytes(data[:2], "big") % 31 == 0
    at = yield from _inflate(data, 0, _ZLIB if has_header else _RAW)
    if at < len(data):
        raise _Corrupt("something follows its end")


def _inflate(data: bytes, at: int, window_bits: int) -> Generator[bytes, None, int]:
    """One stream of zlib from a place on; gives the place behind its end."""
    decoder = zlib.decompressobj(window_bits)
    view = memoryview(data)
    while not decoder.eof:
        # In pieces, because zlib copies what it has not used yet at every step.
        piece: bytes | memoryview = view[at : at + PIECE]
        if not piece:
            raise _Corrupt("it is cut off")
        at += len(piece)
        is_more = True
        while is_more:
            chunk = decoder.decompress(piece, CHUNK)
            yield chunk
            piece = decoder.unconsumed_tail
            is_more = not decoder.eof and (bool(piece) or len(chunk) == CHUNK)
    return at - len(decoder.unused_data)


def _unzstd(data: bytes) -> Iterator[bytes]:
    """Zstd: one frame after another."""
    _check_frames(data)
    decoder = zstandard.ZstdDecompressor(max_window_size=MOST_WINDOW)
    with decoder.stream_reader(data, read_across_frames=True) as reader:
        while chunk := reader.read(CHUNK):
            yield chunk


def _check_frames(data: bytes) -> None:
    """Is every frame there to its end? The decoder takes the end of the input for the end of the content."""
    at = blocks = 0
    while at < len(data) or not blocks:
        at, count = _behind_frame(data, at, MOST_BLOCKS - blocks)
        blocks += count
        if at > len(data):
            raise _Corrupt("it is cut off")


def _behind_frame(data: bytes, at: int, most: int) -> tuple[int, int]:
    """Where a frame ends, and how many blocks it has: RFC 8878, 3.1. One without blocks counts as one."""
    magic = data[at : at + 4]
    if len(magic) == 4 and magic[0] & 0xF0 == 0x50 and magic[1:] == _SKIPPED:
        return at + 8 + int.from_bytes(data[at + 4 : at + 8], "little"), 1
    if magic != zstandard.FRAME_HEADER or at + 5 > len(data):
        raise _Corrupt("there is no whole frame where one should be")
    has_checksum = bool(data[at + 4] & 4)
    at += zstandard.frame_header_size(data[at : at + _MOST_HEADER])
    for count in range(1, most + 1):
        header = int.from_bytes(data[at : at + 3], "little")
        is_last, is_run = header & 1, header >> 1 & 3 == 1
        at += 3 + (1 if is_run else header >> 3)
        if is_last or at > len(data):
            return at + 4 * has_checksum, count
    raise _Corrupt(f"it has more than {MOST_BLOCKS:,} blocks")


def _unbrotli(data: bytes) -> Iterator[bytes]:
    """Brotli: one stream; its decoder refuses what follows."""
    decoder = brotli.Decompressor()
    view = memoryview(data)
    at = 0
    while not decoder.is_finished() or at < len(view):
        piece = view[at : at + PIECE] if decoder.can_accept_more_data() else b""
        at += len(piece)
        chunk = decoder.process(piece, output_buffer_limit=CHUNK)
        if not piece and not chunk and not decoder.is_finished():
            raise _Corrupt("it is cut off")
        yield chunk


DECODERS: dict[str, Callable[[bytes], Iterator[bytes]]] = {
    "zstd": _unzstd,
    "gzip": _gunzip,
    "x-gzip": _gunzip,
    "deflate": _undeflate,
    "br": _unbrotli,
}
"""What gives the content of a body in pieces, for every encoding that is taken."""
