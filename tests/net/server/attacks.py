"""Requests about whose end two servers could disagree, and unusual ones whose end is clear."""

from __future__ import annotations

SMUGGLED = b"GET /smuggled HTTP/1.1\r\nhost: x\r\n\r\n"


def request(*lines: bytes, body: bytes = b"") -> bytes:
    return b"\r\n".join([b"POST / HTTP/1.1", b"host: x", *lines, b"", b""]) + body + SMUGGLED


CHUNKED = b"transfer-encoding: chunked"
ATTACKS = {
    "length and chunks": request(b"content-length: 5", CHUNKED, body=b"0\r\n\r\n"),
    "chunks and length": request(CHUNKED, b"content-length: 5", body=b"0\r\n\r\n"),
    "two different lengths": request(b"content-length: 5", b"content-length: 6", body=b"hello"),
    "two equal lengths": request(b"content-length: 5", b"content-length: 5", body=b"hello"),
    "a list of lengths": request(b"content-length: 5, 5", body=b"hello"),
    "a negative length": request(b"content-length: -5", body=b"hello"),
    "a hexadecimal length": request(b"content-length: 0x5", body=b"hello"),
    "a length with plus": request(b"content-length: +5", body=b"hello"),
    "a length with underscore": request(b"content-length: 1_0", body=b"hellohello"),
    "an empty length": request(b"content-length:", body=b""),
    "a length beyond 64 bits": request(b"content-length: 18446744073709551621", body=b"hello"),
    "a folded line": request(b"x: y", b" folded"),
    "a folded length": request(b"content-length:", b" 5", body=b"hello"),
    "folded chunks": request(b"transfer-encoding:", b"\tchunked", body=b"0\r\n\r\n"),
    "bare LF after the first line": b"POST / HTTP/1.1\nhost: x\r\n\r\n" + SMUGGLED,
    "bare LF after a header": request(b"x: y\ncontent-length: 5", body=b"hello"),
    "bare LF as the end": b"POST / HTTP/1.1\r\nhost: x\r\n\n" + SMUGGLED,
    "bare CR in a value": request(b"x: y\rcontent-length: 5", body=b"hello"),
    "bare CR after the first line": b"POST / HTTP/1.1\rhost: x\r\n\r\n" + SMUGGLED,
    "a space before the colon": request(b"content-length : 5", body=b"hello"),
    "a space before the name": b"POST / HTTP/1.1\r\n content-length: 5\r\n\r\nhello" + SMUGGLED,
    "a zero byte in a value": request(b"x: a\0b"),
    "a zero byte in a name": request(b"x\0: a"),
    "no colon": request(b"content-length"),
    "an unknown encoding": request(b"transfer-encoding: gzip", body=b"0\r\n\r\n"),
    "an encoding before chunks": request(b"transfer-encoding: gzip, chunked", body=b"0\r\n\r\n"),
    "an encoding after chunks": request(b"transfer-encoding: chunked, identity", body=b"0\r\n\r\n"),
    "almost chunked": request(b"transfer-encoding: xchunked", body=b"0\r\n\r\n"),
    "chunked in quotes": request(b'transfer-encoding: "chunked"', body=b"0\r\n\r\n"),
    "chunked twice": request(CHUNKED, CHUNKED, body=b"0\r\n\r\n"),
    "chunks of an old client": request(CHUNKED, body=b"0\r\n\r\n").replace(b"1.1", b"1.0", 1),
    "bare LF after a size": request(CHUNKED, body=b"5\nhello\r\n0\r\n\r\n"),
    "bare LF in an extension": request(CHUNKED, body=b"5;x\nhello\r\n0\r\n\r\n"),
    "bare LF after a chunk": request(CHUNKED, body=b"5\r\nhello\n0\r\n\r\n"),
    "a size with 0x": request(CHUNKED, body=b"0x5\r\nhello\r\n0\r\n\r\n"),
    "a size with a space": request(CHUNKED, body=b"5 \r\nhello\r\n0\r\n\r\n"),
    "a chunk longer than its size": request(CHUNKED, body=b"5\r\nhello!\r\n0\r\n\r\n"),
    "a chunk without line end": request(CHUNKED, body=b"5\r\nhello0\r\n\r\n"),
    "a folded trailer": request(CHUNKED, body=b"0\r\nx: y\r\n z\r\n\r\n"),
}

UNAMBIGUOUS = {
    "an extension of a chunk": request(CHUNKED, body=b"5;x=y\r\nhello\r\n0\r\n\r\n"),
    "upper case": request(b"Transfer-Encoding: CHUNKED", body=b"5\r\nhello\r\n0\r\n\r\n"),
    "spaces around a length": request(b"content-length:  5  ", body=b"hello"),
    "zeros before a length": request(b"content-length: 005", body=b"hello"),
    "trailers": request(CHUNKED, body=b"5\r\nhello\r\n0\r\ncontent-length: 9\r\n\r\n"),
}
