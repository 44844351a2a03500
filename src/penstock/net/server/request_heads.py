"""The head of a request: parsed by `httptools` (llhttp in its strict mode), and bounded in size.

The parser gets heads only. Bodies are framed by `connection`, so that no byte of the next request is parsed
before the current one was answered, and so that an offer of another protocol cannot end the parsing.
"""

from __future__ import annotations

import re
from urllib.parse import unquote

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser, parse_url

from penstock.net.server.refusals import RefusedBytes, invalid_http, too_large

HEAD_BYTES = 64 * 1024
"""Limit of a request's head, of its trailers, and of the bytes between two chunks of its body."""

_HOST = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[0-9A-Za-z._~!$&'()*+;=%-]*)(?::[0-9]{0,5})?")
"""Repeated hosts are joined by commas, and match as little as other text that is not one host."""
_END = b"\r\n\r\n"
_LINE_END = b"\r\n"
_VERSIONS = ("1.0", "1.1")
_PREFACE = b"PRI * HTTP/2.0\r\n"
"""With this, a client begins HTTP/2 without asking (RFC 9113, 3.4)."""
_HTTP_2 = "HTTP/2.0 is not supported"
_NO_END = "the head does not end with an empty line"


class RequestHead:
    """A complete head. Header names are in lower case; repeated headers are joined by commas."""

    __slots__ = (
        "body_length",
        "expects_continue",
        "has_chunks",
        "headers",
        "keep_alive",
        "method",
        "path",
        "query",
        "target",
    )

    def __init__(self, method: str, version: str, target: bytes, headers: dict[str, str]) -> None:
        self.method, self.target, self.headers = method, target, headers
        self.path, self.query, authority = _split(target)
        self.has_chunks = version == "1.1"
        """Whether the client understands chunked responses."""
        _check_host(headers.get("host"), is_required=self.has_chunks)
        if authority:  # it counts, and not the header (RFC 9112, 3.2.2)
            _check_host(authority, is_required=True)
            headers["host"] = authority
        self.keep_alive = self.has_chunks and "close" not in headers.get("connection", "").lower()
        self.expects_continue = self.has_chunks and headers.get("expect", "").lower() == "100-continue"
        self.body_length: int | None = int(headers.get("content-length", 0))
        """None: the body is chunked."""
        if "transfer-encoding" in headers:
            if headers["transfer-encoding"].lower() != "chunked" or not self.has_chunks:
                raise ValueError("the only supported Transfer-Encoding is chunked, in HTTP/1.1")
            self.body_length = None

    @property
    def is_websocket(self) -> bool:
        """Whether the client requests a WebSocket. Offers of other protocols (HTTP/2) are ignored, as the
        standard allows."""
        upgrade, connection = self.headers.get("upgrade", ""), self.headers.get("connection", "")
        return upgrade.lower() == "websocket" and "upgrade" in connection.lower()


class HeadParser:
    """Reads one head after the other from the beginning of a buffer."""

    __slots__ = ("_fed", "_is_complete", "_parser", "_skipped", "_target", "headers", "method")

    def __init__(self) -> None:
        self._restart()
        self._skipped = 0

    def _restart(self) -> None:
        self._parser: HttpRequestParser | None = None
        """Only while a head is read: a request may be answered for a long time."""
        self._fed = 0
        self._is_complete = False
        self.method = "?"
        """The method of a head that is not complete, as far as it is known."""
        self._target = b""
        self.headers: dict[str, str] = {}

    @property
    def has_begun(self) -> bool:
        return bool(self._fed or self._skipped)

    def read(self, buffer: bytearray) -> RequestHead | None:
        """Remove a head from the buffer and return it; None if it is not complete. Raise `RefusedBytes` as
        soon as the bytes cannot become a valid head."""
        if not self._fed and buffer[0] in _LINE_END:
            self._skip_empty_lines(buffer)
        end = buffer.find(_END, max(self._fed - 3, 0)) + len(_END)
        is_last = end >= len(_END)
        size = end if is_last else len(buffer)
        if size + self._skipped > HEAD_BYTES:
            raise RefusedBytes(too_large(HEAD_BYTES))
        self._feed(bytes(buffer[self._fed : size]))
        self._fed = size
        if self._is_complete is not is_last:
            raise RefusedBytes(invalid_http(_HTTP_2 if buffer.startswith(_PREFACE) else _NO_END))
        if not is_last:
            return None
        del buffer[:size]
        return self._finish()

    def close(self) -> None:
        """Release the parser, which refers back to this object."""
        self._parser = None

    def _skip_empty_lines(self, buffer: bytearray) -> None:
        """Skip empty lines before a head, as the standard asks for."""
        before = len(buffer)
        rest = buffer.lstrip(_LINE_END)
        del buffer[: before - len(rest)]
        self._skipped += before - len(buffer)

    def _feed(self, data: bytes) -> None:
        self._parser = self._parser or HttpRequestParser(self)
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade:
            pass
        except HttpParserError as error:
            cause = error.__context__
            raise RefusedBytes(invalid_http(str(cause or error).rstrip("."))) from None

    def _finish(self) -> RequestHead:
        assert self._parser is not None
        try:
            head = RequestHead(self.method, self._parser.get_http_version(), self._target, self.headers)
        except ValueError as error:
            raise RefusedBytes(invalid_http(str(error))) from None
        self._restart()
        self._skipped = 0
        return head

    # Called by the parser

    def on_url(self, part: bytes) -> None:
        self._target += part

    def on_header(self, name: bytes, value: bytes) -> None:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1").strip(" \t")
        headers = self.headers
        headers[key] = f"{headers[key]}, {text}" if key in headers else text

    def on_headers_complete(self) -> None:
        assert self._parser is not None
        if self._is_complete:
            raise ValueError(_NO_END)
        version = self._parser.get_http_version()
        if version not in _VERSIONS:
            raise ValueError(f"HTTP/{version} is not supported")
        self.method = self._parser.get_method().decode("ascii")
        self._is_complete = True


def _check_host(host: str | None, *, is_required: bool) -> None:
    """Raise `ValueError` unless there is one valid host: a proxy in front of us could choose another of
    several (RFC 9112, 3.2)."""
    if host is None:
        if is_required:
            raise ValueError("the Host header is missing")
    elif not _HOST.fullmatch(host):
        raise ValueError("the Host header is not one valid host")


def _split(target: bytes) -> tuple[str, str, str]:
    """Return the decoded path, the query, and the host and port, which only an absolute target has."""
    authority = ""
    if target.startswith(b"/") and b"#" not in target:
        path, _, query = target.decode("ascii").partition("?")
    else:
        try:
            url = parse_url(target)
        except HttpParserError:
            raise ValueError("the target is not a URL or a path") from None
        path, query = (url.path or b"/").decode("ascii"), (url.query or b"").decode("ascii")
        if url.userinfo:
            raise ValueError("the target contains a user name")
        if url.host:
            host = url.host.decode("ascii")
            authority = f"[{host}]" if ":" in host else host
            authority += f":{url.port}" if url.port else ""
    return unquote(path) if "%" in path else path, query, authority
