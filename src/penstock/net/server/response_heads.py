"""The head of a response as bytes."""

from __future__ import annotations

from collections.abc import Sequence
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from time import time

from penstock.net.server.channels import Headers

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
CHUNKED = b"transfer-encoding: chunked\r\n"
CLOSE = b"connection: close\r\n"


def response_head(status: int, headers: Headers, *lines: bytes) -> bytes:
    """Return a head with these headers, the date, and further complete lines. Raise `ValueError` if a header
    would be more than one line."""
    text = "".join([f"{name}: {value}\r\n" for name, value in headers])
    if text.count("\n") != len(headers) or text.count("\r") != len(headers) or "\0" in text:
        raise ValueError("a response header contains a line break or a zero byte")
    return b"".join((_status_line(status), _date_line(int(time())), text.encode("latin-1"), *lines, b"\r\n"))


def whole_response(status: int, headers: Headers, body: bytes) -> bytes:
    """Return the last response of a connection."""
    length = b"content-length: %d\r\n" % len(body)
    return response_head(status, headers, length, CLOSE) + body


@lru_cache(maxsize=1)
def _date_line(second: int) -> bytes:
    return f"date: {formatdate(second, usegmt=True)}\r\n".encode("ascii")


@lru_cache(maxsize=64)
def _status_line(status: int) -> bytes:
    known: Sequence[int] = [each.value for each in HTTPStatus]
    phrase = HTTPStatus(status).phrase if status in known else ""
    return f"HTTP/1.1 {status} {phrase}\r\n".encode("ascii")
