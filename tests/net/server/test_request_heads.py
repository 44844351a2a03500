"""Heads of requests: what is read from them, and their limits. `test_smuggling` has the attacks."""

from __future__ import annotations

import pytest

from penstock.net.server.refusals import RefusedBytes
from penstock.net.server.request_heads import HEAD_BYTES, HeadParser, RequestHead


def parse(data: bytes, size: int = 0) -> RequestHead:
    """The head of these bytes, parsed in pieces of this size."""
    parser, buffer = HeadParser(), bytearray()
    for at in range(0, len(data), size or len(data)):
        buffer += data[at : at + (size or len(data))]
        head = parser.read(buffer) if buffer else None
        if head is not None:
            assert not buffer
            return head
    raise AssertionError("the head is not complete")


def refused(data: bytes, size: int = 0) -> tuple[int, str]:
    with pytest.raises(RefusedBytes) as caught:
        parse(data, size)
    return caught.value.refusal.status, caught.value.refusal.code


@pytest.mark.parametrize("size", [0, 1, 2, 3, 7])
def test_a_head_in_pieces_of_any_size(size: int) -> None:
    lines = b"Host: a\r\nX-Twice: 1\r\nx-twice:  2 \t\r\nContent-Length: 5\r\nX-Latin: \xe4\r\n\r\n"
    head = parse(b"\r\n\r\nPOST /a%20b/%C3%BC?c=%20d&e HTTP/1.1\r\n" + lines, size)
    assert (head.method, head.path, head.query) == ("POST", "/a b/ü", "c=%20d&e")
    assert head.headers == {
        "host": "a",
        "x-twice": "1, 2",
        "content-length": "5",
        "x-latin": "ä",
    }
    assert (head.body_length, head.keep_alive, head.has_chunks) == (5, True, True)


def test_what_follows_a_head_stays_in_the_buffer() -> None:
    parser, buffer = (
        HeadParser(),
        bytearray(b"GET /1 HTTP/1.1\r\nhost: x\r\n\r\nGET /2 HTTP/1.1\r\nhost: x\r\n\r\nrest"),
    )
    paths = []
    for _ in range(2):
        head = parser.read(buffer)
        assert head is not None
        paths.append(head.path)
    assert (paths, bytes(buffer)) == (["/1", "/2"], b"rest")


@pytest.mark.parametrize(
    ("target", "path", "query"),
    [
        (b"/", "/", ""),
        (b"/a?b?c", "/a", "b?c"),
        (b"/a#b?c", "/a", ""),
        (b"//evil.example/x", "//evil.example/x", ""),
        (b"http://other.example/a?b", "/a", "b"),
        (b"http://other.example", "/", ""),
        (b"*", "*", ""),
        (b"/a%zz%2f", "/a%zz/", ""),
    ],
)
def test_forms_of_a_target(target: bytes, path: str, query: str) -> None:
    head = parse(b"OPTIONS " + target + b" HTTP/1.1\r\nhost: x\r\n\r\n")
    assert (head.path, head.query) == (path, query)


@pytest.mark.parametrize(
    ("target", "host"),
    [
        (b"/a", "x"),
        (b"http://other.example/a", "other.example"),
        (b"HTTP://other.example:81/", "other.example:81"),
        (b"http://[::1]:8080", "[::1]:8080"),
    ],
)
def test_the_host_of_an_absolute_target_counts_and_not_the_header(target: bytes, host: str) -> None:
    assert parse(b"GET " + target + b" HTTP/1.1\r\nhost: x\r\n\r\n").headers["host"] == host


@pytest.mark.parametrize(
    "lines",
    [
        b"",
        b"host: a\r\nhost: a\r\n",
        b"host: a\r\nHost: b\r\n",
        b"host: a, b\r\n",
        b"host: a b\r\n",
        b"host: user@a\r\n",
        b"host: a/b\r\n",
        b"host: a:123456\r\n",
        b"host: a:b\r\n",
        b"host: [::1\r\n",
        b"host: \xff\r\n",
    ],
)
def test_there_must_be_one_valid_host(lines: bytes) -> None:
    assert refused(b"GET / HTTP/1.1\r\n" + lines + b"\r\n") == (400, "invalid_http")
    assert refused(b"GET http://a/ HTTP/1.1\r\n" + lines + b"\r\n") == (400, "invalid_http")


def test_a_target_has_no_user_and_an_old_client_needs_no_host() -> None:
    assert refused(b"GET http://me:secret@a/ HTTP/1.1\r\nhost: a\r\n\r\n") == (400, "invalid_http")
    assert "host" not in parse(b"GET / HTTP/1.0\r\n\r\n").headers
    assert parse(b"GET / HTTP/1.1\r\nhost:\r\n\r\n").headers["host"] == ""


@pytest.mark.parametrize(
    ("lines", "keeps", "version"),
    [
        (b"", True, b"1.1"),
        (b"connection: keep-alive\r\n", True, b"1.1"),
        (b"connection: TE, Close\r\n", False, b"1.1"),
        (b"", False, b"1.0"),
        (b"connection: keep-alive\r\n", False, b"1.0"),
    ],
)
def test_which_connections_are_kept(lines: bytes, keeps: bool, version: bytes) -> None:
    assert parse(b"GET / HTTP/" + version + b"\r\nhost: x\r\n" + lines + b"\r\n").keep_alive is keeps


@pytest.mark.parametrize(
    ("lines", "is_websocket"),
    [
        (b"connection: keep-alive, Upgrade\r\nupgrade: WebSocket\r\n", True),
        (b"connection: Upgrade\r\nupgrade: h2c\r\n", False),
        (b"connection: Upgrade\r\nupgrade: foo/2\r\ncontent-length: 3\r\n", False),
        (b"upgrade: websocket\r\n", False),
        (b"connection: Upgrade\r\n", False),
    ],
)
def test_only_websockets_are_upgrades(lines: bytes, is_websocket: bool) -> None:
    assert parse(b"GET / HTTP/1.1\r\nhost: x\r\n" + lines + b"\r\n").is_websocket is is_websocket


def test_expectations() -> None:
    line = b"expect: 100-Continue\r\n\r\n"
    assert parse(b"POST / HTTP/1.1\r\nhost: x\r\n" + line).expects_continue
    assert not parse(b"POST / HTTP/1.0\r\n" + line).expects_continue
    assert not parse(b"POST / HTTP/1.1\r\nhost: x\r\nexpect: something\r\n\r\n").expects_continue


@pytest.mark.parametrize("size", [0, 1000])
@pytest.mark.parametrize(
    "start", [b"GET / HTTP/1.1\r\nhost: x\r\nx: ", b"\r\n\r\nGET / HTTP/1.1\r\nhost: x\r\nx: "]
)
def test_the_limit_of_a_head_is_exact(start: bytes, size: int) -> None:
    padding = b"x" * (HEAD_BYTES - len(start) - 4)
    assert parse(start + padding + b"\r\n\r\n", size).method == "GET"
    assert refused(start + padding + b"x\r\n\r\n", size) == (431, "request_head_too_large")


@pytest.mark.parametrize(
    "endless",
    [b"GET /" + b"x" * 70_000, b"GET / HTTP/1.1\r\nhost: x\r\nx: " + b"x" * 70_000, b"\r\n" * 40_000],
    ids=["url", "value", "lines"],
)
@pytest.mark.parametrize("size", [0, 1000])
def test_a_head_without_end_is_refused(endless: bytes, size: int) -> None:
    assert refused(endless, size) == (431, "request_head_too_large")


@pytest.mark.parametrize(
    "data",
    [
        b"hello\r\n\r\n",
        b"\x16\x03\x01\x02\x00",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET / HTTP/2.0\r\n\r\n",
        b"GET / HTTP/1.2\r\n\r\n",
        b"GET / HTTP/0.9\r\n\r\n",
        b"GET /\r\n\r\n",
        b"GET /\r\nGET / HTTP/1.1\r\nhost: x\r\n\r\n",
        b"get / HTTP/1.1\r\nhost: x\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nhost: x\r\n\r\n",
        b"GET x HTTP/1.1\r\nhost: x\r\n\r\n",
        b"CONNECT example.com:443 HTTP/1.1\r\nhost: x\r\n\r\n",
    ],
)
@pytest.mark.parametrize("size", [0, 1])
def test_what_is_no_request_is_refused(data: bytes, size: int) -> None:
    assert refused(data, size) == (400, "invalid_http")


@pytest.mark.parametrize(
    ("data", "version"),
    [
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "2.0"),
        (b"GET / HTTP/2.0\r\n\r\n", "2.0"),
        (b"GET / HTTP/0.9\r\n\r\n", "0.9"),
        (b"GET /\r\n\r\n", "0.9"),
    ],
)
def test_a_version_that_is_not_supported_is_named(data: bytes, version: str) -> None:
    with pytest.raises(RefusedBytes, match=rf"HTTP/{version} is not supported\. Send an HTTP/1\.1 request"):
        parse(data)


def test_a_refused_head_keeps_what_was_known() -> None:
    parser = HeadParser()
    with pytest.raises(RefusedBytes):
        parser.read(bytearray(b"POST / HTTP/1.1\r\nx-request-id: mine\r\nx: y\r\nbad name: 1\r\n\r\n"))
    assert parser.headers == {"x-request-id": "mine"}
