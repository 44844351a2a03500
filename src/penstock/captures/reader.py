"""Read a captured stream of any transport: bytes in, frames out."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.errors import FrameTooLarge, PenstockError
from penstock.sse import DEFAULT_LIMIT, Decoder, Frame

if TYPE_CHECKING:
    from penstock.dialects.pipeline import FrameDecoder

_BOM = b"\xef\xbb\xbf"
_DONE = b"[DONE]"
_BLANK = _BOM + b" \t\r\n"
_LINE_AND_BLANKS = re.compile(rb"[^\n]*\n+|[^\n]+")
"""A line, or as much of one as has arrived, and the empty lines after it."""


class OneDocument(PenstockError):  # noqa: N818 - named after what was found
    """The input is one JSON document, not a stream."""


class Lines:
    """One JSON text per line: NDJSON, and WebSocket frames as tools save them.

    Blank lines are skipped. A line over the limit raises `FrameTooLarge`.
    """

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self._limit = limit
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[Frame]:
        self._buffer += data
        if b"\n" not in data:
            if len(self._buffer) > self._limit:
                raise FrameTooLarge(self._limit)
            return []
        *lines, rest = bytes(self._buffer).split(b"\n")
        self._buffer = bytearray(rest)
        return [_frame(line.strip()) for line in lines if line.strip()]

    def end(self) -> list[Frame]:
        return self.feed(b"\n")


class Array:
    """One JSON array, each member returned once it is complete: Gemini without `alt=sse`.

    Anything else, such as a truncated last member, is returned unchanged for the reader to report.
    """

    _STRUCTURE = re.compile(rb'["\\{}\[\]]')

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self._limit = limit
        self._buffer = bytearray()
        self._scanned = 0
        self._depth = 0
        self._in_text = False

    def feed(self, data: bytes) -> list[Frame]:
        """Scan only the new bytes, so that a huge member costs the same in many reads as in one."""
        self._buffer += data
        frames: list[Frame] = []
        start, position = 0, self._scanned
        while found := self._STRUCTURE.search(self._buffer, position):
            position = found.end()
            mark = found[0]
            if mark == b"\\":
                position += self._in_text  # skip the escaped character, which may not have arrived yet
            elif mark == b'"':
                self._in_text = not self._in_text
            elif not self._in_text:
                self._depth += 1 if mark in b"{[" else -1
                if mark in b"}]" and self._depth == 1:
                    frames.append(_frame(self._buffer[start:position].lstrip(b"[, \t\r\n")))
                    start = position
        self._scanned = max(position, len(self._buffer)) - start
        del self._buffer[:start]
        if len(self._buffer) > self._limit:
            raise FrameTooLarge(self._limit)
        return frames

    def end(self) -> list[Frame]:
        rest = bytes(self._buffer).lstrip(b"[, \t\r\n").rstrip()
        self._buffer.clear()
        return [_frame(rest)] if rest not in (b"", b"]") else []


class Capture:
    """Detect server-sent events or NDJSON from the first bytes.

    `arrays`: accept one JSON array of events as well.
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
                # Many blank lines reveal no more than one.
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


class NumberedFrames:
    """Read a capture line by line, and return each frame with the line on which it begins, from 1.

    A line ends with LF, as for editors and Git. Comments and fields directly before the data belong to the
    frame. An oversized event raises `FrameTooLarge`, but not before the frames in front of it are returned.
    """

    def __init__(self, capture: Capture) -> None:
        self.line = 1
        """The line on which the last frame begins that was read, or the one that could not be read."""
        self._capture = capture
        self._current = 1
        self._is_empty = True
        self._start = 0
        """The line on which the incomplete frame begins; 0 if there is none."""
        self._error: FrameTooLarge | None = None

    def feed(self, data: bytes) -> list[tuple[int, Frame]]:
        if self._error:
            raise self._error
        found: list[tuple[int, Frame]] = []
        for piece in _LINE_AND_BLANKS.findall(data):
            if not self._start and piece.strip(_BLANK):
                self._start = self._current
            line = piece.rstrip(b"\n")
            self._is_empty = self._is_empty and not line.strip(b"\r")
            try:
                found += self._numbered(self._capture.feed(piece))
            except FrameTooLarge as error:
                self.line = self._start
                self._error = error
                break
            if ends := len(piece) - len(line):
                if self._is_empty or ends > 1:  # an event has ended, also one without data
                    self._start = 0
                self._current += ends
                self._is_empty = True
        if self._error and not found:
            raise self._error
        return found

    def end(self) -> list[tuple[int, Frame]]:
        if self._error:
            raise self._error
        return self._numbered(self._capture.end())

    def _numbered(self, frames: list[Frame]) -> list[tuple[int, Frame]]:
        if not frames:
            return []
        self.line, self._start = self._start or self._current, 0
        return [(self.line, frame) for frame in frames]


_READERS: dict[str, Callable[[], FrameDecoder]] = {"sse": Decoder, "array": Array}


def _reader(transport: str) -> FrameDecoder:
    return _READERS.get(transport, Lines)()


def _frame(data: bytes | bytearray) -> Frame:
    return Frame(None, str(data, "utf-8", "replace"))


def _detect(head: bytes, arrays: bool) -> str:
    """Return the transport of the stream that begins with `head`; `auto` while it is unclear."""
    start = head.removeprefix(_BOM).lstrip()
    if _BOM.startswith(head) or _DONE.startswith(start) or re.fullmatch(rb"\{[ \t]*\r?", start):
        return "auto"
    is_array = start.startswith(b"[") and not start.startswith(_DONE)
    if is_array and arrays:
        return "array"
    if is_array or re.match(rb"\{[ \t]*\r?\n", start):
        filter = "'.[]'" if is_array else "."
        raise OneDocument(
            "this is one JSON document, not a stream. Pass captured server-sent events, or one event per "
            f"line (convert it with jq -c {filter} FILE)"
        )
    return "ndjson" if start[:1] in b"{[" else "sse"
