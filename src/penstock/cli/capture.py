"""A stream as it was captured, whatever it was carried by: bytes in, frames out."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.cli import UsageError
from penstock.errors import FrameTooLarge
from penstock.sse import DEFAULT_LIMIT, Decoder, Frame

if TYPE_CHECKING:
    from penstock.dialects.pipeline import FrameDecoder

_BOM = b"\xef\xbb\xbf"
_DONE = b"[DONE]"


class Lines:
    """One JSON text per line: NDJSON, and the frames of a WebSocket as tools save them.

    Blank lines are skipped. A line past the limit raises `FrameTooLarge`; what was read stays read.
    """

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self._limit = limit
        self._held = bytearray()

    def feed(self, data: bytes) -> list[Frame]:
        self._held += data
        if b"\n" not in data:
            if len(self._held) > self._limit:
                raise FrameTooLarge(self._limit)
            return []
        *lines, rest = bytes(self._held).split(b"\n")
        self._held = bytearray(rest)
        return [_frame(line.strip()) for line in lines if line.strip()]

    def end(self) -> list[Frame]:
        return self.feed(b"\n")


class Array:
    """One JSON array, its members handed out as they become whole: Gemini without `alt=sse`.

    What is no member, a cut one at the end among it, is handed out as it is: its reader says what is wrong.
    """

    _STRUCTURE = re.compile(rb'["\\{}\[\]]')

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self._limit = limit
        self._held = bytearray()
        self._scanned = 0
        self._depth = 0
        self._in_text = False

    def feed(self, data: bytes) -> list[Frame]:
        """Only new bytes are looked at, so a huge member in small reads costs no more than in one."""
        self._held += data
        frames: list[Frame] = []
        start, position = 0, self._scanned
        while found := self._STRUCTURE.search(self._held, position):
            position = found.end()
            mark = found[0]
            if mark == b"\\":
                position += self._in_text  # what is escaped is no mark, and may still be on its way
            elif mark == b'"':
                self._in_text = not self._in_text
            elif not self._in_text:
                self._depth += 1 if mark in b"{[" else -1
                if mark in b"}]" and self._depth == 1:
                    frames.append(_frame(self._held[start:position].lstrip(b"[, \t\r\n")))
                    start = position
        self._scanned = max(position, len(self._held)) - start
        del self._held[:start]
        if len(self._held) > self._limit:
            raise FrameTooLarge(self._limit)
        return frames

    def end(self) -> list[Frame]:
        rest = bytes(self._held).lstrip(b"[, \t\r\n").rstrip()
        self._held.clear()
        return [_frame(rest)] if rest not in (b"", b"]") else []


class Capture:
    """Decides between server-sent events and NDJSON as soon as the first bytes tell.

    `arrays`: one JSON array of events is a stream as well.
    """

    def __init__(self, transport: str = "auto", *, arrays: bool = False) -> None:
        self.transport = transport
        self._arrays = arrays
        self._head = b""
        self._reader: FrameDecoder | None = None if transport == "auto" else _reader(transport)

    def feed(self, data: bytes) -> list[Frame]:
        if self._reader is None:
            data = self._head + data
            self.transport = _detect(data, self._arrays)
            if self.transport == "auto":
                # Any number of blank lines says no more than one.
                self._head = data if data.strip() else b"\n"
                return []
            self._reader = _reader(self.transport)
            if self.transport != "sse":
                data = data.removeprefix(_BOM)
        return self._reader.feed(data)

    def end(self) -> list[Frame]:
        if self._reader is None:
            self.transport = "ndjson" if self._head.strip() else "sse"
            self._reader = _reader(self.transport)
            return self._reader.feed(self._head) + self._reader.end()
        return self._reader.end()


_READERS: dict[str, Callable[[], FrameDecoder]] = {"sse": Decoder, "array": Array}


def _reader(transport: str) -> FrameDecoder:
    return _READERS.get(transport, Lines)()


def _frame(data: bytes | bytearray) -> Frame:
    return Frame(None, str(data, "utf-8", "replace"))


def _detect(head: bytes, arrays: bool) -> str:
    """What carries the stream that begins with `head`; `auto` while that cannot be said."""
    start = head.removeprefix(_BOM).lstrip()
    if _BOM.startswith(head) or _DONE.startswith(start) or re.fullmatch(rb"\{[ \t]*\r?", start):
        return "auto"
    is_array = start.startswith(b"[") and not start.startswith(_DONE)
    if is_array and arrays:
        return "array"
    if is_array or re.match(rb"\{[ \t]*\r?\n", start):
        filter = "'.[]'" if is_array else "."
        raise UsageError(
            "this is one JSON document, not a stream. Give a capture of server-sent events, or one event per "
            f"line (jq -c {filter} FILE makes lines of it)"
        )
    return "ndjson" if start[:1] in b"{[" else "sse"
