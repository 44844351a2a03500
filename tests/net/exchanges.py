"""Scripted responses, good and bad, to compare HTTP clients. After each, the server closes the connection."""

from __future__ import annotations

import gzip
import zlib
from dataclasses import dataclass

import brotli  # type: ignore[import-untyped]

from penstock.net.compression import zstd_library

BODY = b"data: hello\n\n"


@dataclass(frozen=True)
class Exchange:
    """The bytes that a server sends to a request."""

    name: str
    answer: bytes
    method: str = "GET"


def _head(*lines: bytes, status: bytes = b"HTTP/1.1 200 OK") -> bytes:
    return b"\r\n".join([status, *lines, b"", b""])


SIZED = b"Content-Length: 13"
CHUNKED = b"Transfer-Encoding: chunked"

_STATUS_LINES = {
    "a reason": b"HTTP/1.1 200 OK",
    "no reason": b"HTTP/1.1 200 ",
    "no reason and no space": b"HTTP/1.1 200",
    "a long reason": b"HTTP/1.1 200 " + b"very " * 100 + b"good",
    "a reason that is not ASCII": "HTTP/1.1 200 Genügt".encode(),
    "a reason in latin-1": "HTTP/1.1 200 Genügt".encode("latin-1"),
    "HTTP/1.0": b"HTTP/1.0 200 OK",
    "HTTP/0.9": b"HTTP/0.9 200 OK",
    "HTTP/1.2": b"HTTP/1.2 200 OK",
    "HTTP/2": b"HTTP/2 200 OK",
    "HTTP/2.0": b"HTTP/2.0 200 OK",
    "HTTP/11.1": b"HTTP/11.1 200 OK",
    "lower case": b"http/1.1 200 OK",
    "a tab": b"HTTP/1.1\t200 OK",
    "two spaces": b"HTTP/1.1  200 OK",
    "a space before": b" HTTP/1.1 200 OK",
    "an empty line before": b"\r\nHTTP/1.1 200 OK",
    "no version": b"HTTP 200 OK",
    "ICY": b"ICY 200 OK",
    "status 2": b"HTTP/1.1 2 OK",
    "status 20": b"HTTP/1.1 20 OK",
    "status 2000": b"HTTP/1.1 2000 OK",
    "status abc": b"HTTP/1.1 abc OK",
    "status -200": b"HTTP/1.1 -200 OK",
    "status 000": b"HTTP/1.1 000 OK",
    "status 099": b"HTTP/1.1 099 OK",
    "status 299": b"HTTP/1.1 299 OK",
    "status 301": b"HTTP/1.1 301 Moved",
    "status 404": b"HTTP/1.1 404 Not Found",
    "status 500": b"HTTP/1.1 500 Oh",
    "status 599": b"HTTP/1.1 599 Oh",
    "status 600": b"HTTP/1.1 600 Oh",
    "status 999": b"HTTP/1.1 999 Oh",
}

_HEADERS = {
    "an ordinary header": b"X-A: one",
    "no space after the colon": b"X-A:one",
    "spaces around the value": b"X-A:   one  ",
    "tabs around the value": b"X-A:\tone\t",
    "an empty value": b"X-A:",
    "repeated": b"X-A: one\r\nX-A: two",
    "repeated in another case": b"x-a: one\r\nX-A: two",
    "UTF-8": "X-A: ü".encode(),
    "latin-1": "X-A: ü".encode("latin-1"),
    "a long value": b"X-A: " + b"x" * 30_000,
    "a value beyond the limit": b"X-A: " + b"x" * 70_000,
    "a name beyond the limit": b"x" * 70_000 + b": one",
    "a hundred headers": b"\r\n".join(b"X-%d: %d" % (number, number) for number in range(100)),
    "a thousand headers": b"\r\n".join(b"X-%d: %d" % (number, number) for number in range(1000)),
    "many large headers": b"\r\n".join(b"X-%d: " % number + b"x" * 30_000 for number in range(4)),
    "no colon": b"X-A one",
    "an empty name": b": one",
    "a space before the colon": b"X-A : one",
    "a space in the name": b"X A: one",
    "a control character in the name": b"X\x01A: one",
    "a NUL in the value": b"X-A: o\0ne",
    "a control character in the value": b"X-A: o\x01ne",
    "a DEL in the value": b"X-A: o\x7fne",
    "a folded value": b"X-A: one\r\n two",
    "a value folded with a tab": b"X-A: one\r\n\ttwo",
    "a folded first line": b" X-A: one",
    "a bare LF": b"X-A: one\nX-B: two",
    "a bare CR": b"X-A: one\rX-B: two",
    "a content type": b"Content-Type: Text/Event-Stream; charset=utf-8",
    "two content types": b"Content-Type: text/plain\r\nContent-Type: text/html",
    "a cookie": b"Set-Cookie: a=b",
    "an upgrade that is not used": b"Connection: upgrade\r\nUpgrade: h2c",
    "close": b"Connection: close",
    "keep-alive": b"Connection: keep-alive\r\nKeep-Alive: timeout=5",
    "an empty connection": b"Connection:",
    "an unknown transfer coding and a length": b"TE: trailers",
}

_LENGTHS = {
    "exact": b"Content-Length: 13",
    "too long": b"Content-Length: 14",
    "much too long": b"Content-Length: 99999999",
    "too short": b"Content-Length: 5",
    "zero": b"Content-Length: 0",
    "negative": b"Content-Length: -1",
    "with a plus": b"Content-Length: +13",
    "hexadecimal": b"Content-Length: 0xd",
    "a word": b"Content-Length: all",
    "empty": b"Content-Length:",
    "with a space": b"Content-Length: 1 3",
    "with leading zeros": b"Content-Length: 0013",
    "beyond 64 bits": b"Content-Length: 99999999999999999999999",
    "a list of equal ones": b"Content-Length: 13, 13",
    "twice, equal": b"Content-Length: 13\r\nContent-Length: 13",
    "twice, different": b"Content-Length: 13\r\nContent-Length: 5",
    "with chunked": b"Content-Length: 13\r\nTransfer-Encoding: chunked",
    "after chunked": b"Transfer-Encoding: chunked\r\nContent-Length: 13",
    "with another transfer coding": b"Content-Length: 13\r\nTransfer-Encoding: gzip",
    "folded": b"Content-Length:\r\n 13",
    "none": b"X-A: one",
}

_CODINGS = {
    "chunked": b"Transfer-Encoding: chunked",
    "in capitals": b"TRANSFER-ENCODING: CHUNKED",
    "after gzip": b"Transfer-Encoding: gzip, chunked",
    "before gzip": b"Transfer-Encoding: chunked, gzip",
    "twice": b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
    "twice in a list": b"Transfer-Encoding: chunked, chunked",
    "identity": b"Transfer-Encoding: identity",
    "with a space before": b"Transfer-Encoding : chunked",
    "with a vertical tab": b"Transfer-Encoding: \x0bchunked",
    "in quotes": b'Transfer-Encoding: "chunked"',
    "xchunked": b"Transfer-Encoding: xchunked",
}

_CHUNKS = {
    "one chunk": b"d\r\n" + BODY + b"\r\n0\r\n\r\n",
    "a size in capitals": b"D\r\n" + BODY + b"\r\n0\r\n\r\n",
    "a size with zeros": b"000d\r\n" + BODY + b"\r\n000\r\n\r\n",
    "a size with many zeros": b"0" * 100 + b"d\r\n" + BODY + b"\r\n0\r\n\r\n",
    "several chunks": b"4\r\ndata\r\n9\r\n: hello\n\n\r\n0\r\n\r\n",
    "an extension": b"d;name=value\r\n" + BODY + b"\r\n0;last\r\n\r\n",
    "an extension in quotes": b'd;name="a;b"\r\n' + BODY + b"\r\n0\r\n\r\n",
    "an empty extension": b"d;\r\n" + BODY + b"\r\n0\r\n\r\n",
    "an extension with spaces": b"d ; name = value\r\n" + BODY + b"\r\n0\r\n\r\n",
    "a space after the size": b"d \r\n" + BODY + b"\r\n0\r\n\r\n",
    "a space before the size": b" d\r\n" + BODY + b"\r\n0\r\n\r\n",
    "a trailer": b"d\r\n" + BODY + b"\r\n0\r\nX-Sum: 1\r\n\r\n",
    "several trailers": b"d\r\n" + BODY + b"\r\n0\r\nX-Sum: 1\r\nX-A: late\r\n\r\n",
    "an invalid trailer": b"d\r\n" + BODY + b"\r\n0\r\nno colon\r\n\r\n",
    "a trailer with a length": b"d\r\n" + BODY + b"\r\n0\r\nContent-Length: 5\r\n\r\n",
    "no body": b"0\r\n\r\n",
    "no last chunk": b"d\r\n" + BODY + b"\r\n",
    "no last empty line": b"d\r\n" + BODY + b"\r\n0\r\n",
    "half of the last empty line": b"d\r\n" + BODY + b"\r\n0\r\n\r",
    "nothing": b"",
    "half a chunk": b"d\r\ndata: ",
    "half a size": b"d",
    "an empty size": b"\r\n" + BODY + b"\r\n0\r\n\r\n",
    "a size that is not a number": b"xyz\r\n" + BODY + b"\r\n0\r\n\r\n",
    "a negative size": b"-d\r\n" + BODY + b"\r\n0\r\n\r\n",
    "a size with 0x": b"0xd\r\n" + BODY + b"\r\n0\r\n\r\n",
    "a size beyond 64 bits": b"f" * 17 + b"\r\n" + BODY + b"\r\n0\r\n\r\n",
    "a size that is too small": b"4\r\n" + BODY + b"\r\n0\r\n\r\n",
    "a size that is too large": b"ff\r\n" + BODY + b"\r\n0\r\n\r\n",
    "no CRLF after the data": b"d\r\n" + BODY + b"0\r\n\r\n",
    "a bare LF after the size": b"d\n" + BODY + b"\r\n0\r\n\r\n",
    "a bare LF after the data": b"d\r\n" + BODY + b"\n0\r\n\r\n",
    "bare LFs everywhere": b"d\n" + BODY + b"\n0\n\n",
    "a CR without LF after the size": b"d\r" + BODY + b"\r\n0\r\n\r\n",
    "a second response after it": b"d\r\n" + BODY + b"\r\n0\r\n\r\n" + _head(SIZED) + BODY,
    "bytes after it": b"d\r\n" + BODY + b"\r\n0\r\n\r\nrest",
}

_PACKED = gzip.compress(BODY, mtime=0)
_ENCODED = {
    "gzip": (b"gzip", _PACKED),
    "gzip in capitals": (b"GZIP", _PACKED),
    "x-gzip": (b"x-gzip", _PACKED),
    "deflate": (b"deflate", zlib.compress(BODY)),
    "deflate without zlib's header": (b"deflate", zlib.compress(BODY)[2:-4]),
    "br": (b"br", brotli.compress(BODY)),
    "zstd": (b"zstd", zstd_library().compress(BODY)),
    "identity": (b"identity", BODY),
    "an unknown one": (b"snappy", BODY),
    "an empty one": (b"", BODY),
    "two": (b"gzip, br", brotli.compress(_PACKED)),
    "an empty gzip body": (b"gzip", b""),
    "gzip in two members": (b"gzip", _PACKED + _PACKED),
    "gzip and other bytes": (b"gzip", _PACKED + b"rest"),
    "not gzip": (b"gzip", BODY),
    "not deflate": (b"deflate", b"\xff" * 20),
    "not br": (b"br", b"\xff" * 20),
    "not zstd": (b"zstd", BODY),
    "truncated gzip": (b"gzip", _PACKED[:-5]),
    "truncated deflate": (b"deflate", zlib.compress(BODY)[:-5]),
    "truncated br": (b"br", brotli.compress(BODY)[:-5]),
    "truncated zstd": (b"zstd", zstd_library().compress(BODY)[:-5]),
}

_OTHER = [
    Exchange("nothing", b""),
    Exchange("one byte", b"H"),
    Exchange("half a status line", b"HTTP/1.1 2"),
    Exchange("a status line only", b"HTTP/1.1 200 OK\r\n"),
    Exchange("half a header", b"HTTP/1.1 200 OK\r\nContent-"),
    Exchange("headers without an end", b"HTTP/1.1 200 OK\r\nX-A: one\r\n"),
    Exchange("empty lines only", b"\r\n\r\n\r\n"),
    Exchange("SSH", b"SSH-2.0-OpenSSH_9.6\r\n"),
    Exchange("a TLS alert", b"\x15\x03\x01\x00\x02\x02\x16"),
    Exchange("HTTP/2 settings", b"\x00\x00\x12\x04\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x80"),
    Exchange("a web page without a head", b"<html><body>hello</body></html>"),
    Exchange("a request", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
    Exchange("bare LFs", b"HTTP/1.1 200 OK\nContent-Length: 13\nX-A: one\n\n" + BODY),
    Exchange("a body to the end", _head(b"X-A: one") + BODY),
    Exchange("a body to the end, empty", _head(b"X-A: one")),
    Exchange("HTTP/1.0 to the end", _head(status=b"HTTP/1.0 200 OK") + BODY),
    Exchange("HTTP/1.0 chunked", _head(CHUNKED, status=b"HTTP/1.0 200 OK") + _CHUNKS["one chunk"]),
    Exchange("100 before", _head(status=b"HTTP/1.1 100 Continue") + _head(SIZED) + BODY),
    Exchange("102 before", _head(status=b"HTTP/1.1 102 Processing") + _head(SIZED) + BODY),
    Exchange("103 before", _head(b"X-A: hint", status=b"HTTP/1.1 103 Hints") + _head(SIZED) + BODY),
    Exchange("three hints", _head(status=b"HTTP/1.1 103 Hints") * 3 + _head(SIZED) + BODY),
    Exchange("199 before", _head(status=b"HTTP/1.1 199 Other") + _head(SIZED) + BODY),
    Exchange(
        "100 with a length", _head(b"Content-Length: 2", status=b"HTTP/1.1 100 C") + _head(SIZED) + BODY
    ),
    Exchange("100 only", _head(status=b"HTTP/1.1 100 Continue")),
    Exchange("101", _head(b"Upgrade: h2c", b"Connection: upgrade", status=b"HTTP/1.1 101 S") + b"abc"),
    Exchange("101 without an upgrade", _head(status=b"HTTP/1.1 101 S")),
    Exchange("204", _head(status=b"HTTP/1.1 204 No Content")),
    Exchange("204 with a length", _head(SIZED, status=b"HTTP/1.1 204 No Content")),
    Exchange("204 with a body", _head(SIZED, status=b"HTTP/1.1 204 No Content") + BODY),
    Exchange("204 chunked", _head(CHUNKED, status=b"HTTP/1.1 204 No") + _CHUNKS["one chunk"]),
    Exchange("205 with a body", _head(SIZED, status=b"HTTP/1.1 205 Reset") + BODY),
    Exchange("304", _head(SIZED, status=b"HTTP/1.1 304 Not Modified")),
    Exchange("HEAD with a length", _head(SIZED), "HEAD"),
    Exchange("HEAD chunked", _head(CHUNKED), "HEAD"),
    Exchange("HEAD without a length", _head(b"X-A: one"), "HEAD"),
    Exchange("HEAD with a body", _head(SIZED) + BODY, "HEAD"),
    Exchange("HEAD with gzip", _head(b"Content-Encoding: gzip", SIZED), "HEAD"),
    Exchange("POST", _head(SIZED) + BODY, "POST"),
    Exchange("POST, 413", _head(SIZED, status=b"HTTP/1.1 413 Too Large") + BODY, "POST"),
    Exchange("POST, to the end", _head(status=b"HTTP/1.1 400 Bad") + BODY, "POST"),
    Exchange("two responses", (_head(SIZED) + BODY) * 2),
    Exchange("a large body", _head(b"Content-Length: 500000") + b"x" * 500_000),
    Exchange(
        "a large chunked body", _head(CHUNKED) + (b"3e8\r\n" + b"x" * 1000 + b"\r\n") * 500 + b"0\r\n\r\n"
    ),
    Exchange("a large body to the end", _head() + b"x" * 500_000),
    Exchange(
        "gzip, chunked",
        _head(CHUNKED, b"Content-Encoding: gzip") + b"%x\r\n%s\r\n0\r\n\r\n" % (len(_PACKED), _PACKED),
    ),
    Exchange("gzip, to the end", _head(b"Content-Encoding: gzip") + _PACKED),
]

EXCHANGES = [
    *(
        Exchange(f"status line: {name}", _head(SIZED, status=line) + BODY)
        for name, line in _STATUS_LINES.items()
    ),
    *(Exchange(f"header: {name}", _head(lines, SIZED) + BODY) for name, lines in _HEADERS.items()),
    *(Exchange(f"length: {name}", _head(lines) + BODY) for name, lines in _LENGTHS.items()),
    *(Exchange(f"coding: {name}", _head(line) + _CHUNKS["one chunk"]) for name, line in _CODINGS.items()),
    *(Exchange(f"chunks: {name}", _head(CHUNKED) + chunks) for name, chunks in _CHUNKS.items()),
    *(
        Exchange(
            f"encoding: {name}",
            _head(b"Content-Encoding: " + encoding, b"Content-Length: %d" % len(body)) + body,
        )
        for name, (encoding, body) in _ENCODED.items()
    ),
    *_OTHER,
]
