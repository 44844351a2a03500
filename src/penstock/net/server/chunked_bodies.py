"""Chunked request bodies: decoded strictly, because two opinions about where a body ends are an attack."""

from __future__ import annotations

import re

from penstock.net.server.refusals import RefusedBytes, invalid_http, too_large
from penstock.net.server.request_heads import HEAD_BYTES

CHUNKS = 512
"""How many chunks and trailers are decoded before other connections are served: one byte may be a whole
chunk."""

_SIZE = re.compile(rb"([0-9A-Fa-f]{1,16})(?:;[\t\x20-\x7e\x80-\xff]*)?")
_TRAILER = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[\t\x20-\x7e\x80-\xff]*")
_LINE_END = b"\r\n"


class ChunkDecoder:
    """Takes chunks from the beginning of a buffer. Extensions and trailers are checked and ignored."""

    def __init__(self) -> None:
        self._left = 0
        """Bytes of the current chunk still to come, with the line end after it."""
        self._overhead = 0
        """Bytes since the last byte of the body."""
        self._is_in_trailers = False
        self.is_done = False
        self.is_behind = False
        """Whether the buffer may contain more than was decoded."""

    def decode(self, buffer: bytearray) -> bytes:
        """Remove what is complete from the buffer, up to `CHUNKS` chunks, and return the part of the body
        in it. Raise `RefusedBytes` if it is invalid."""
        body, at = bytearray(), 0
        for _ in range(CHUNKS):
            before = at
            at = self._data(buffer, at, body) if self._left else self._line(buffer, at)
            if at == before or self.is_done:
                self.is_behind = False
                break
        else:
            self.is_behind = True
        del buffer[:at]
        return bytes(body)

    def _data(self, buffer: bytearray, at: int, body: bytearray) -> int:
        available = len(buffer) - at
        if self._left > len(_LINE_END):
            size = min(available, self._left - len(_LINE_END))
            body += buffer[at : at + size]
            self._left -= size
            self._overhead = 0
            return at + size
        if available and not _LINE_END.startswith(buffer[at : at + 2]):
            raise RefusedBytes(invalid_http("a chunk is longer than its size"))
        if available < len(_LINE_END):
            return at
        self._left = 0
        return at + len(_LINE_END)

    def _line(self, buffer: bytearray, at: int) -> int:
        """Read the line before a chunk, or a trailer."""
        end = buffer.find(_LINE_END, at)
        size = (end if end >= 0 else len(buffer)) - at
        if self._overhead + size > HEAD_BYTES:
            raise RefusedBytes(too_large(HEAD_BYTES))
        if end < 0:
            return at
        line = bytes(buffer[at:end])
        self._overhead += size + len(_LINE_END)
        if self._is_in_trailers:
            self._trailer(line)
        else:
            self._size(line)
        return end + len(_LINE_END)

    def _size(self, line: bytes) -> None:
        found = _SIZE.fullmatch(line)
        if found is None:
            raise RefusedBytes(invalid_http("invalid size of a chunk"))
        size = int(found[1], 16)
        if size:
            self._left = size + len(_LINE_END)
        else:
            self._is_in_trailers = True

    def _trailer(self, line: bytes) -> None:
        if not line:
            self.is_done = True
        elif not _TRAILER.fullmatch(line):
            raise RefusedBytes(invalid_http("invalid trailer"))
