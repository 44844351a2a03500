"""Parsing responses: whatever arrives, in whatever pieces, and never without bounds."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.net.network_errors import ConnectionFault, InvalidHttp, Truncated
from penstock.net.response_parser import MOST_HEAD, ResponseParser

SIZED = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Id: 7 \r\n\r\nhello"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\nX-Sum: 1\r\n\r\n"


def fed(*pieces: bytes, method: str = "GET") -> tuple[ResponseParser, ConnectionFault | None]:
    parser = ResponseParser()
    parser.begin(method)
    fault = None
    for piece in pieces:
        if fault is None and not parser.is_complete:
            fault = parser.feed(piece)
    return parser, fault


@given(answer=st.sampled_from([SIZED, CHUNKED]), cuts=st.lists(st.integers(0, 130)))
def test_the_pieces_do_not_matter(answer: bytes, cuts: list[int]) -> None:
    places = sorted({0, *(min(cut, len(answer)) for cut in cuts), len(answer)})
    parser, fault = fed(*(answer[start:end] for start, end in pairwise(places)))
    assert fault is None
    assert parser.is_complete
    assert parser.is_reusable
    assert b"".join(parser.received) == b"hello"
    assert parser.head is not None
    assert "x-sum" not in parser.head.headers  # trailers are ignored


def test_a_parser_parses_one_response_after_another() -> None:
    parser, _ = fed(SIZED)
    for answer in (CHUNKED, SIZED):
        parser.begin("GET")
        assert (parser.head, parser.is_complete, parser.received) == (None, False, [])
        assert parser.feed(answer) is None
        assert b"".join(parser.received) == b"hello"


@pytest.mark.parametrize(
    ("headers", "is_until_close"),
    [
        (b"", True),
        (b"Content-Length: 0\r\n", False),
        (b"Transfer-Encoding: gzip, chunked\r\n", False),
        (b"Transfer-Encoding: gzip\r\n", True),
    ],
)
def test_the_headers_say_where_a_body_ends(headers: bytes, is_until_close: bool) -> None:
    parser, fault = fed(b"HTTP/1.1 200 OK\r\n" + headers + b"\r\n")
    assert fault is None
    assert parser.is_until_close is is_until_close


def test_something_after_a_response_is_not_part_of_it() -> None:
    for rest in (b"x", SIZED, b"HTTP/1.1 100 Continue\r\n\r\n"):
        parser, fault = fed(SIZED + rest)
        assert (fault, parser.is_complete, parser.is_reusable) == (None, True, False)
        assert parser.received == [b"hello"]


@pytest.mark.parametrize(
    ("pieces", "kind"),
    [
        ([b"no http"], InvalidHttp),
        ([b"HTTP/1.1 200 OK\r\nx: ", *[b"y" * 1000] * 70], InvalidHttp),
        ([b"HTTP/1.1 200 " + b"y" * (MOST_HEAD + 1) + b"\r\n\r\n"], InvalidHttp),
        ([b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * MOST_HEAD], InvalidHttp),
        ([CHUNKED[:-2], *[b"x: " + b"y" * 1000 + b"\r\n"] * 70], Truncated),
        ([CHUNKED[:-2] + b"x: ", *[b"y" * 1000] * 70], Truncated),
        ([b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;", *[b"y" * 1000] * 70], Truncated),
    ],
    ids=["garbage", "endless value", "reason", "many headers", "trailers", "endless trailer", "extension"],
)
def test_a_fault_ends_the_response(pieces: list[bytes], kind: type[Exception]) -> None:
    _, fault = fed(*pieces)
    assert type(fault) is kind


def test_a_head_up_to_the_limit_is_accepted() -> None:
    parser, fault = fed(b"HTTP/1.1 200 OK\r\nx: " + b"y" * (MOST_HEAD - 100) + b"\r\n\r\n")
    assert fault is None
    assert parser.head is not None
    assert len(parser.head.headers["x"]) == MOST_HEAD - 100


@given(
    answer=st.sampled_from([SIZED, CHUNKED]),
    at=st.integers(0, 130),
    filler=st.sampled_from([b"a", b"a: b\r\n", b"\r\n", b"1;", b"0", b" "]),
)
def test_a_server_cannot_send_anything_but_content_forever(answer: bytes, at: int, filler: bytes) -> None:
    parser, fault = fed(answer[:at])
    for _ in range(2 * MOST_HEAD // 1000):
        if fault is None and not parser.is_complete:
            parser.received.clear()
            fault = parser.feed(filler * 1000)
    assert fault is not None or parser.is_complete or parser.received
