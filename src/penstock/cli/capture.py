"""A stream as it was captured, whatever it was carried by: bytes in, frames out."""

from __future__ import annotations

import re
from typing import Protocol

from penstock.cli import UsageError
from penstock.errors import FrameTooLarge
from penstock.sse import DEFAULT_LIMIT, Decoder, Frame

_BOM = b"\xef\xbb\xbf"
_DONE = b"[DONE]"


class Reader(Protocol):
    """What `Decoder`, `Lines` and `Capture` have in common."""

    def feed(self, data: bytes) -> list[Frame]: ...

    def end(self) -> list[Frame]: ...


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
        return [Frame(None, str(line.strip(), "utf-8", "replace")) for line in lines if line.strip()]

    def end(self) -> list[Frame]:
        return self.feed(b"\n")


class Capture:
    """Decides between server-sent events and NDJSON as soon as the first bytes tell."""

    def __init__(self, transport: str = "auto") -> None:
        self.transport = transport
        self._head = b""
        self._reader: Reader | None = None if transport == "auto" else _reader(transport)

    def feed(self, data: bytes) -> list[Frame]:
        if self._reader is None:
            data = self._head + data
            self.transport = _detect(data)
            if self.transport == "auto":
                # Any number of blank lines says no more than one.
                self._head = data if data.strip() else b"\n"
                return []
            self._reader = _reader(self.transport)
            if self.transport == "ndjson":
                data = data.removeprefix(_BOM)
        return self._reader.feed(data)

    def end(self) -> list[Frame]:
        if self._reader is None:
            self.transport = "ndjson" if self._head.strip() else "sse"
            self._reader = _reader(self.transport)
            return self._reader.feed(self._head) + self._reader.end()
        return self._reader.end()


def _reader(transport: str) -> Reader:
    return Decoder() if transport == "sse" else Lines()


def _detect(head: bytes) -> str:
    """What carries the stream that begins with `head`; `auto` while that cannot be said."""
    start = head.removeprefix(_BOM).lstrip()
    if _BOM.startswith(head) or _DONE.startswith(start) or re.fullmatch(rb"\{[ \t]*\r?", start):
        return "auto"
    if re.match(rb"\{[ \t]*\r?\n", start) or (start.startswith(b"[") and not start.startswith(_DONE)):
        raise UsageError(
            "this is one JSON document, not a stream. Give a capture of server-sent events, or one event per "
            "line (for an array of events: jq -c '.[]' FILE | penstock check -)"
        )
    return "ndjson" if start[:1] in b"{[" else "sse"
