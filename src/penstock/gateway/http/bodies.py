"""Receive and decompress request bodies within limits (ask K4).

A hundred bytes can decompress to gigabytes. So every decoder works in steps of bounded output, and stops as
soon as the limit is exceeded. The total of all requests is bounded as well: the bytes of bodies that are
being received are counted, and only two large bodies are decompressed at a time.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping
from functools import partial
from io import BytesIO
from typing import TypeVar

from penstock.extras import EXTRAS
from penstock.gateway.errors import RequestRefused
from penstock.net.compression import brotli_library, has_brotli, zstd_decoder, zstd_library

T = TypeVar("T")

Receive = Callable[[], Awaitable[bytes]]
"""Returns the next piece of a body; empty at its end. Raises `ClientDisconnected`."""

LARGE = 8 * 1024 * 1024
"""Bodies larger than this wait for each other. Smaller ones, nearly all, never wait for large ones."""
MOST_RECEIVING = 8
"""How many bodies of the maximum size may be in transfer at the same time."""
MOST_SMALL, MOST_LARGE = 8, 2
"""Bodies that are decompressed at the same time: up to `LARGE`, and larger."""

CHUNK = 64 * 1024
"""Approximate output size of one decoder step."""
PIECE = 16 * 1024
"""Input size of one decoder step."""
MOST_ENCODINGS = 3
MOST_MEMBERS = 4096
"""A gzip body may have several members; each takes time, even if it is empty."""
MOST_BLOCKS = 100_000
"""The same for the blocks of zstd. Its encoders put up to 128 KiB into a block."""

_FRAME = b"\x28\xb5\x2f\xfd"
_SKIPPED = b"\x2a\x4d\x18"
_ZLIB, _RAW, _GZIP = zlib.MAX_WBITS, -zlib.MAX_WBITS, zlib.MAX_WBITS | 16


class _Corrupt(Exception):  # noqa: N818 - never leaves this file
    """The data is not valid in its encoding."""


class BodyReader:
    """Reads the bodies of all requests of a gateway. Belongs to one event loop."""

    def __init__(self) -> None:
        self._receiving = 0
        """Bytes of bodies that are not complete yet."""
        self._small = asyncio.Semaphore(MOST_SMALL)
        self._large = asyncio.Semaphore(MOST_LARGE)

    async def read(self, receive: Receive, headers: Mapping[str, str], limit: int) -> bytes:
        """Return the complete body, decompressed. Header names are in lower case.

        Raise `RequestRefused` if it is too large or cannot be decompressed, and `ClientDisconnected` if
        the client disconnects.
        """
        if _content_length(headers.get("content-length", "")) > limit:
            raise _too_large(limit)
        steps = _steps(headers.get("content-encoding", ""))  # first: refuse before the body is sent
        data = await self._receive(receive, limit)
        if not steps:
            return data
        # The decompressed size is known only at the end. So each body starts among the small ones. If it
        # turns out to be large, it starts over among the large ones, which wait in order of arrival.
        for room, most in ((self._small, min(LARGE, limit)), (self._large, limit)):
            decoded = await _in_thread(room, partial(_decode, data, steps, most))
            if decoded is not None:
                return decoded
        raise _too_large(limit)

    async def _receive(self, receive: Receive, limit: int) -> bytes:
        data = BytesIO()
        try:
            while part := await receive():
                self._receiving += data.write(part)
                length = data.tell()
                if length > limit:
                    raise _too_large(limit)
                if length > LARGE and self._receiving > MOST_RECEIVING * limit:
                    raise _too_many()
            return data.getvalue()
        finally:
            self._receiving -= data.tell()


async def _in_thread(room: asyncio.Semaphore, work: Callable[[], T]) -> T:
    """Run `work` in a thread, always: the size of a compressed body does not show how long it takes. The
    semaphore is released when the thread ends, even if the caller was cancelled before."""
    await room.acquire()
    working = asyncio.get_running_loop().run_in_executor(None, work)
    working.add_done_callback(lambda _: room.release())
    try:
        return await asyncio.shield(working)
    finally:
        del working  # otherwise its exception would keep this frame, and with it the body, in memory


def _decode(data: bytes, steps: list[str], limit: int) -> bytes | None:
    """Undo the encodings, which are listed in the order in which they were applied. None: over the limit."""
    for name in reversed(steps):
        try:
            decoded = _bounded(DECODERS[name](data), limit)
        except _errors_of(name) as error:
            raise RequestRefused(
                400,
                "invalid_encoding",
                f"the body is not valid {name}, although its Content-Encoding is {name}: {error}",
            ) from None
        if decoded is None:
            return None
        data = decoded
    return data if len(data) <= limit else None


def _errors_of(encoding: str) -> tuple[type[Exception], ...]:
    """Return the errors of an encoding's decoder. Called only when one was raised."""
    if encoding == "zstd":
        return _Corrupt, zstd_library().ZstdError
    return _Corrupt, brotli_library().error if encoding == "br" else zlib.error


def _steps(encodings: str) -> list[str]:
    names = [name.strip().lower() for name in encodings.split(",")]
    names = [name for name in names if name and name != "identity"]
    supported = ", ".join(name for name in DECODERS if name != "br" or has_brotli())
    accepted = [("accept-encoding", supported)]
    for name in names:
        if name not in supported.split(", "):
            message = f"the Content-Encoding {name[:64]!r} is not supported; use {supported}"
            if name == "br":
                message += f", or install brotli for the gateway: {EXTRAS['brotli'].command}"
            raise RequestRefused(415, "unsupported_encoding", message, headers=accepted)
    if len(names) > MOST_ENCODINGS:
        message = f"the body has {len(names)} nested encodings; at most {MOST_ENCODINGS} are supported"
        raise RequestRefused(415, "unsupported_encoding", message, headers=accepted)
    return names


def _content_length(length: str) -> int:
    """Return the Content-Length, or 0 if it is invalid: the server checks it when it reads the body."""
    length = length.strip()
    return int(length) if length.isascii() and length.isdigit() and len(length) < 20 else 0


def _bounded(chunks: Iterator[bytes], limit: int) -> bytes | None:
    """Return all chunks joined, or None if they exceed the limit. Chunks are small, so memory use stays close
    to the limit."""
    data = BytesIO()
    for chunk in chunks:
        if data.tell() + len(chunk) > limit:
            return None
        data.write(chunk)
    return data.getvalue()


def _too_large(limit: int) -> RequestRefused:
    message = f"the body is larger than {limit:,} bytes, this gateway's limit (limits.body_bytes)"
    return RequestRefused(413, "request_too_large", message)


def _too_many() -> RequestRefused:
    message = "too many large requests are being sent at the same time: try again in a moment"
    headers = [("retry-after", "2")]
    return RequestRefused(503, "server_is_overloaded", message, type="server_error", headers=headers)


def _gunzip(data: bytes) -> Iterator[bytes]:
    """Decode gzip, member by member."""
    at = 0
    for _ in range(MOST_MEMBERS):
        at = yield from _inflate(data, at, _GZIP)
        if at == len(data):
            return
    raise _Corrupt(f"it has more than {MOST_MEMBERS} members")


def _undeflate(data: bytes) -> Iterator[bytes]:
    """Decode deflate: zlib according to the standard, but some programs omit its header."""
    has_header = len(data) >= 2 and data[0] & 15 == 8 and int.from_bytes(data[:2], "big") % 31 == 0
    at = yield from _inflate(data, 0, _ZLIB if has_header else _RAW)
    if at < len(data):
        raise _Corrupt("there is data after its end")


def _inflate(data: bytes, at: int, window_bits: int) -> Generator[bytes, None, int]:
    """Decode one zlib stream that starts at `at`; return the position after its end."""
    decoder = zlib.decompressobj(window_bits)
    view = memoryview(data)
    while not decoder.eof:
        # In pieces, because zlib copies its unused input at every step.
        piece: bytes | memoryview = view[at : at + PIECE]
        if not piece:
            raise _Corrupt("it is truncated")
        at += len(piece)
        has_more = True
        while has_more:
            chunk = decoder.decompress(piece, CHUNK)
            yield chunk
            piece = decoder.unconsumed_tail
            has_more = not decoder.eof and (bool(piece) or len(chunk) == CHUNK)
    return at - len(decoder.unused_data)


def _unzstd(data: bytes) -> Iterator[bytes]:
    """Decode zstd, frame by frame."""
    _check_frames(data)
    view = memoryview(data)
    at = 0
    while at < len(view):
        decoder = zstd_decoder()
        while not decoder.eof:
            # In pieces, because the decoder copies its unused input.
            piece = view[at : at + PIECE] if decoder.needs_input else b""
            at += len(piece)
            chunk = decoder.decompress(piece, CHUNK)
            if not piece and not chunk and decoder.needs_input and at == len(view):
                raise _Corrupt("it is truncated")
            yield chunk
        at -= len(decoder.unused_data)


def _check_frames(data: bytes) -> None:
    """Check that every frame is complete: the decoder does not report truncated input."""
    at = blocks = 0
    while at < len(data) or not blocks:
        at, count = _after_frame(data, at, MOST_BLOCKS - blocks)
        blocks += count
        if at > len(data):
            raise _Corrupt("it is truncated")


def _after_frame(data: bytes, at: int, most: int) -> tuple[int, int]:
    """Return where a frame ends and its number of blocks (RFC 8878, 3.1). A frame without blocks counts as
    one block."""
    magic = data[at : at + 4]
    if len(magic) == 4 and magic[0] & 0xF0 == 0x50 and magic[1:] == _SKIPPED:
        return at + 8 + int.from_bytes(data[at + 4 : at + 8], "little"), 1
    if magic != _FRAME or at + 5 > len(data):
        raise _Corrupt("there is no complete frame where one should be")
    descriptor = data[at + 4]
    has_checksum = bool(descriptor & 4)
    at += 5 + _fields_after(descriptor)
    for count in range(1, most + 1):
        header = int.from_bytes(data[at : at + 3], "little")
        is_last, is_run = header & 1, header >> 1 & 3 == 1
        at += 3 + (1 if is_run else header >> 3)
        if is_last or at > len(data):
            return at + 4 * has_checksum, count
    raise _Corrupt(f"it has more than {MOST_BLOCKS:,} blocks")


def _fields_after(descriptor: int) -> int:
    """Return how many bytes of a frame's header follow its descriptor: window, dictionary, size."""
    is_single_segment = descriptor >> 5 & 1
    content_size = (is_single_segment, 2, 4, 8)[descriptor >> 6]
    return 1 - is_single_segment + (0, 1, 2, 4)[descriptor & 3] + content_size


def _unbrotli(data: bytes) -> Iterator[bytes]:
    """Decode brotli: one stream; its decoder refuses data after the end."""
    decoder = brotli_library().Decompressor()
    view = memoryview(data)
    at = 0
    while not decoder.is_finished() or at < len(view):
        piece = view[at : at + PIECE] if decoder.can_accept_more_data() else b""
        at += len(piece)
        chunk = decoder.process(piece, output_buffer_limit=CHUNK)
        if not piece and not chunk and not decoder.is_finished():
            raise _Corrupt("it is truncated")
        yield chunk


DECODERS: dict[str, Callable[[bytes], Iterator[bytes]]] = {
    "zstd": _unzstd,
    "gzip": _gunzip,
    "x-gzip": _gunzip,
    "deflate": _undeflate,
    "br": _unbrotli,
}
"""By supported encoding: a function that returns the decoded body in pieces."""
