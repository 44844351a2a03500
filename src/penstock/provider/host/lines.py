"""Split bytes into lines of bounded length, and parse lines as JSON objects."""

from __future__ import annotations

import json
from codecs import BOM_UTF8
from typing import Any

from penstock.errors import DecodeError
from penstock.lenient import has_surrogates, join_surrogates, parse_with_surrogates
from penstock.protocol.wire import parse

MAX_LENGTH = 64 * 1024 * 1024

JSON = dict[str, Any]

_FEED = b"\n"


class LineSplitter:
    """Splits bytes into lines. A line over the limit is returned once as None and not kept in memory."""

    def __init__(self, limit: int = MAX_LENGTH) -> None:
        self._limit = limit
        self._pieces: list[bytes] = []
        self._length = 0
        self._is_skipping = False

    def feed(self, data: bytes) -> list[bytes | None]:
        *ended, rest = data.split(_FEED)
        lines: list[bytes | None] = []
        for piece in ended:
            self._add(piece, lines)
            self._close(lines)
        self._add(rest, lines)
        return lines

    def end(self) -> list[bytes | None]:
        """Return the last line, which needs no line feed."""
        lines: list[bytes | None] = []
        self._close(lines)
        return lines

    def _add(self, piece: bytes, lines: list[bytes | None]) -> None:
        if self._is_skipping or not piece:
            return
        self._length += len(piece)
        self._pieces.append(piece)
        if self._length > self._limit:
            self._forget()
            self._is_skipping = True
            lines.append(None)

    def _close(self, lines: list[bytes | None]) -> None:
        line = b"".join(self._pieces)
        if line.strip():
            lines.append(line)
        self._forget()
        self._is_skipping = False

    def _forget(self) -> None:
        self._pieces, self._length = [], 0


def read_object(line: bytes) -> JSON:
    """Parse a line as a JSON object. JavaScript strings may contain lone surrogates, which are replaced.

    Windows shells write a byte order mark before the first line, which is ignored (RFC 8259, 8.1).
    """
    line = line.removeprefix(BOM_UTF8)
    try:
        value = parse(line)
    except DecodeError:
        text = line.decode(errors="replace")
        if not has_surrogates(text):
            raise
        value = _joined(text)
    if not isinstance(value, dict):
        raise DecodeError("expected an object")
    return value


def _joined(text: str) -> Any:
    """Parse JSON, joining surrogate pairs and replacing lone surrogates."""
    try:
        return parse(join_surrogates(json.dumps(parse_with_surrogates(text), ensure_ascii=False)))
    except RecursionError:
        raise DecodeError("nested too deeply") from None
