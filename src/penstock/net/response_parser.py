"""Parses the responses of one connection with httptools, and decides whether it can be used again."""

from __future__ import annotations

from typing import NamedTuple

import httptools

from penstock.net.network_errors import ConnectionFault, InvalidHttp, Truncated

MOST_HEAD = 64 * 1024
"""Bytes of a response's head, including informational responses before it; also of its trailers."""

_BLANK = b" \t"


class AnswerHead(NamedTuple):
    """The head of a response. Names of headers are in lower case; of repeated headers, the first counts.
    Bytes that are not UTF-8 are replaced: half a character could not be written to a log or a message."""

    status: int
    reason: str
    headers: dict[str, str]


class ResponseParser:
    """Parses one response after another: `begin` each, then `feed` what arrives.

    Informational responses are skipped. Trailers are ignored.
    """

    __slots__ = (
        "_bytes_without_content",
        "_head_size",
        "_headers",
        "_is_informational",
        "_method",
        "_parser",
        "_reason",
        "head",
        "is_complete",
        "is_reusable",
        "is_until_close",
        "on_body",
        "received",
    )

    def __init__(self) -> None:
        self.received: list[bytes] = []
        """Pieces of the body that were not taken yet."""
        self.on_body = self.received.append
        """Called by httptools for every piece of the body."""
        self._parser = httptools.HttpResponseParser(self)
        # Servers are read as leniently as by other clients. Two lengths, or a length and chunks, stay errors.
        self._parser.set_dangerous_leniencies(
            lenient_headers=True, lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True
        )
        self.begin("")
        self.is_complete = True  # until a request is sent

    def begin(self, method: str) -> None:
        """Expect the response to a request."""
        self.head: AnswerHead | None = None
        self.is_complete = False
        self.is_reusable = False
        """Whether the connection can be used again after this response."""
        self.is_until_close = False
        """Whether the body ends with the connection."""
        self._method = method
        self._headers: list[tuple[bytes, bytes]] = []
        self._reason = b""
        self._head_size = self._bytes_without_content = 0
        self._is_informational = False
        self.received.clear()

    def feed(self, data: bytes) -> ConnectionFault | None:
        """Parse what arrived; return a fault if it is invalid. What was `received` before it is valid."""
        is_valid, before, had_head = True, len(self.received), self.head is not None
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:  # also after a complete response, where it does not matter
            is_valid = False
        if len(self.received) > before or (self.head is not None and not had_head):
            self._bytes_without_content = 0
        else:
            self._bytes_without_content += len(data)
            is_valid = is_valid and self._bytes_without_content <= MOST_HEAD
        if is_valid or self.is_complete:
            return None
        return InvalidHttp(data) if self.head is None else Truncated()

    # -- called by httptools; an exception stops it

    def on_message_begin(self) -> None:
        if self.is_complete:
            self.is_reusable = False  # nothing else was asked
            raise InvalidHttp

    def on_status(self, reason: bytes) -> None:
        self._count(len(reason))
        self._reason += reason

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value))
        if b"\0" in value:
            raise InvalidHttp
        if self.head is None:
            self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if 100 <= status < 200 and status != 101:
            self._is_informational = True
            self._headers.clear()
            self._reason = b""
            return
        headers: dict[str, str] = {}
        has_length = is_chunked = False
        for raw, value in self._headers:
            name = raw.decode("utf-8", "replace").lower()
            if name not in headers:
                headers[name] = value.strip(_BLANK).decode("utf-8", "replace")
            if name == "content-length":
                has_length = True
            elif name == "transfer-encoding":
                is_chunked = value.lower().rpartition(b",")[2].strip(_BLANK) == b"chunked"
        self.head = AnswerHead(status, self._reason.decode("utf-8", "replace"), headers)
        self._headers.clear()
        self._head_size = 0
        self.is_until_close = not has_length and not is_chunked
        self.is_reusable = self._parser.should_keep_alive()
        is_tunnel = self._method == "CONNECT" and 200 <= status < 300
        if is_tunnel or self._method == "HEAD" or status == 101:
            self.is_complete, self.is_reusable = True, False
            raise InvalidHttp  # httptools would read a body

    def on_message_complete(self) -> None:
        if self._is_informational:
            self._is_informational = False
            return
        self.is_complete = True

    def _count(self, size: int) -> None:
        self._head_size += size
        if self._head_size > MOST_HEAD:
            raise InvalidHttp
