"""Requests about whose end two servers could disagree: directly, behind nginx, and answers of upstreams."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.client.server import Connection, chunk, keep, send
from tests.client.server import head as upstream_head
from tests.gateway.raw_sockets import HasAddress, connect, everything, head, upgrade
from tests.gateway.upstream import LAST_CHUNK, frames, said
from tests.hardening.attacked import Attacked
from tests.hardening.proxies import NGINX, Fronted, nginx
from tests.net.server.attacks import ATTACKS, UNAMBIGUOUS

pytestmark = pytest.mark.hardening

HOST = b"host: 127.0.0.1"
FIVE = b"\r\n" + HOST + b"\r\ncontent-length: 5\r\n\r\nhello"


def count_of(answered: bytes) -> int:
    return len(re.findall(rb"HTTP/1\.1 \d{3} ", answered))


def aimed(request: bytes) -> bytes:
    """The request at a path of the gateway; the smuggled one is recognised by its answer."""
    request = request.replace(b"POST / ", b"POST /v1/responses ", 1).replace(b"host: x", HOST)
    return request.replace(b"GET /smuggled", b"GET /healthz")


def _lines(start: bytes, *lines: bytes, body: bytes = b"") -> bytes:
    return b"\r\n".join([start, *lines, b"", b""]) + body + b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n\r\n"


POST = b"POST /v1/responses HTTP/1.1"
MORE = {
    "no host": _lines(POST, b"content-length: 0"),
    "two hosts": _lines(POST, HOST, b"host: other", b"content-length: 0"),
    "the same host twice": _lines(POST, HOST, HOST, b"content-length: 0"),
    "a list of hosts": _lines(POST, b"host: 127.0.0.1, other", b"content-length: 0"),
    "a user in the host": _lines(POST, b"host: me@127.0.0.1", b"content-length: 0"),
    "a user in the target": _lines(b"POST http://me:x@127.0.0.1/ HTTP/1.1", HOST, b"content-length: 0"),
    "a method with a zero byte": _lines(b"PO\0ST / HTTP/1.1", HOST),
    "a method of 8-bit bytes": _lines(b"P\xd6ST / HTTP/1.1", HOST),
    "a tab in the first line": _lines(b"POST\t/ HTTP/1.1", HOST),
    "no version": _lines(b"POST /", HOST),
    "version 2.0": _lines(b"POST / HTTP/2.0", HOST),
    "version 1.2": _lines(b"POST / HTTP/1.2", HOST),
    "a size with plus": _lines(POST, HOST, b"transfer-encoding: chunked", body=b"+5\r\nhello\r\n0\r\n\r\n"),
    "a negative size": _lines(POST, HOST, b"transfer-encoding: chunked", body=b"-5\r\nhello\r\n0\r\n\r\n"),
    "a size of 17 digits": _lines(
        POST, HOST, b"transfer-encoding: chunked", body=b"0" * 16 + b"5\r\nhello\r\n0\r\n\r\n"
    ),
    "a vertical tab before chunked": _lines(POST, HOST, b"transfer-encoding: \x0bchunked", body=b"0\r\n\r\n"),
    "a space in a length": _lines(POST, HOST, b"content-length: 1 1", body=b"hello world"),
    "a name in brackets": _lines(POST, HOST, b"content(length): 5", body=b"hello"),
    "a TLS greeting": b"\x16\x03\x01\x00\xc8\x01\x00\x00\xc4\x03\x03" + b"x" * 200,
    "the beginning of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0",
    "a WebSocket with a body": upgrade("content-length: 40") + head("GET /healthz HTTP/1.1"),
    "a WebSocket with chunks": upgrade("transfer-encoding: chunked")
    + b"0\r\n\r\n"
    + head("GET /healthz HTTP/1.1"),
    "a request behind a WebSocket": upgrade() + head("GET /healthz HTTP/1.1"),
}
ALL = {**{name: aimed(request) for name, request in ATTACKS.items()}, **MORE}


@pytest.mark.parametrize("request_bytes", ALL.values(), ids=ALL)
def test_an_ambiguous_request_is_refused_and_nothing_behind_it_is_answered(
    gateway: Attacked, request_bytes: bytes
) -> None:
    answered = everything(connect(gateway.running, request_bytes))
    assert answered.startswith(b"HTTP/1.1 400 ")
    assert count_of(answered) == 1
    assert b'"invalid_http"' in answered or b'"invalid_upgrade"' in answered
    assert gateway.is_unharmed()


@pytest.mark.parametrize("request_bytes", UNAMBIGUOUS.values(), ids=UNAMBIGUOUS)
def test_a_request_whose_end_is_clear_is_followed_by_the_next(
    gateway: Attacked, request_bytes: bytes
) -> None:
    client = connect(
        gateway.running, aimed(request_bytes), head("GET /healthz HTTP/1.1", "connection: close")
    )
    assert everything(client).count(b'{"status":"ok"}') == 2


BODIES = {
    "GET with a body": b"GET /healthz HTTP/1.1" + FIVE,
    "HEAD with a body": b"HEAD /healthz HTTP/1.1" + FIVE,
    "DELETE with a body": b"DELETE /v1/responses/x HTTP/1.1" + FIVE,
    "GET with chunks": head("GET /healthz HTTP/1.1", "transfer-encoding: chunked")
    + b"5\r\nhello\r\n0\r\n\r\n",
    "an offer of HTTP/2": head("GET /healthz HTTP/1.1", "connection: upgrade", "upgrade: h2c"),
    "an expectation": b"POST /v1/responses HTTP/1.1\r\nexpect: 100-continue" + FIVE,
    "an unknown path with a body": b"POST /nothing HTTP/1.1" + FIVE,
}


@pytest.mark.parametrize("first", BODIES.values(), ids=BODIES)
def test_a_body_that_nobody_wants_is_not_the_next_request(gateway: Attacked, first: bytes) -> None:
    client = connect(gateway.running, first + head("GET /readyz HTTP/1.1", "connection: close"))
    answered = everything(client)
    assert count_of(answered.replace(b"HTTP/1.1 100 Continue\r\n\r\n", b"")) == 2
    assert b"invalid_http" not in answered


def test_the_host_of_the_target_counts(gateway: Attacked) -> None:
    """A page whose name points at this machine could send the right header, but not another target."""
    request = head("GET http://evil.example/v1/models HTTP/1.1", "connection: close")
    assert everything(connect(gateway.running, request)).startswith(b"HTTP/1.1 403 ")


# Behind nginx


@pytest.fixture(scope="module")
def front(gateway: Attacked, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fronted]:
    if NGINX is None:
        pytest.skip("nginx is not installed")
    folder: Path = tmp_path_factory.mktemp("nginx")
    with nginx(folder, gateway.running.address) as fronted:
        yield fronted


def _answers(address: HasAddress, request: bytes) -> int:
    client = connect(address, request, timeout=2)
    data = b""
    with suppress(TimeoutError, ConnectionResetError):
        while more := client.recv(65536):
            data += more
    return count_of(data)


@pytest.mark.parametrize("name", ALL)
def test_behind_nginx_every_client_gets_its_own_answer(gateway: Attacked, front: Fronted, name: str) -> None:
    """Whatever nginx makes of an attack with half of a request behind it: the next clients on the same kept
    connection get the answers to their own requests."""
    attack = ALL[name]
    at = attack.rfind(b"GET /healthz")
    half = attack[:at] if at > 0 else attack
    client = connect(front, half + b"GET /v1/nothing HTTP/1.1\r\nx-smuggled: ", timeout=0.3)
    with suppress(OSError):
        client.recv(65536)
    for number in range(2):
        request_id = f"victim-{number}"
        victim = connect(
            front, head("GET /readyz HTTP/1.1", f"x-request-id: {request_id}", "connection: close")
        )
        answered = everything(victim)
        assert answered.startswith(b"HTTP/1.1 200 ")
        assert f"x-request-id: {request_id}\r\n".encode() in answered
        assert count_of(answered) == 1
    client.close()
    assert gateway.is_unharmed()


@pytest.mark.parametrize("request_bytes", UNAMBIGUOUS.values(), ids=UNAMBIGUOUS)
def test_behind_nginx_two_requests_have_two_answers(front: Fronted, request_bytes: bytes) -> None:
    assert _answers(front, aimed(request_bytes)) == 2


# Upstreams

_EVIL = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n%s" % (
    len(frames(*said("smuggled"))),
    frames(*said("smuggled")),
)
_BODY = frames(*said("mine"))
_CHUNKED = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n"
ANSWERS = {
    "bytes after the end": _CHUNKED + b"\r\n" + chunk(_BODY) + LAST_CHUNK + _EVIL,
    "a length and chunks": _CHUNKED + b"content-length: 10\r\n\r\n" + chunk(_BODY) + LAST_CHUNK + _EVIL,
    "two lengths": b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\ncontent-length: 20\r\n\r\n" + _BODY + _EVIL,
    "204 with a body": b"HTTP/1.1 204 No Content\r\ncontent-length: %d\r\n\r\n" % len(_EVIL) + _EVIL,
    "304 with a body": b"HTTP/1.1 304 Not Modified\r\ncontent-length: %d\r\n\r\n" % len(_EVIL) + _EVIL,
    "another protocol": b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n"
    + _EVIL,
    "informational answers": b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" * 10_000 + _EVIL,
    "an error and another answer": b"HTTP/1.1 500 No\r\ncontent-length: 2\r\n\r\n{}" + _EVIL,
    "an empty error and another answer": b"HTTP/1.1 429 No\r\ncontent-length: 0\r\n\r\n" + _EVIL,
    "a bad chunk": _CHUNKED + b"\r\n" + chunk(_BODY) + b"+0\r\n\r\n" + _EVIL,
    "a folded header": _CHUNKED + b"x: y\r\n folded\r\n\r\n" + chunk(_BODY) + LAST_CHUNK + _EVIL,
    "garbage": b"\x16\x03\x01" + _EVIL,
}


@pytest.mark.parametrize("data", ANSWERS.values(), ids=ANSWERS)
def test_what_an_upstream_adds_to_an_answer_is_not_the_next_one(gateway: Attacked, data: bytes) -> None:
    """On a connection that both sides would keep."""
    lawful = [send(_CHUNKED + b"\r\n" + chunk(_BODY) + LAST_CHUNK), keep]
    gateway.upstream.play("smuggles", [send(data), keep], lawful, lawful)
    first = gateway.turn("smuggles", stream=False)
    assert b"internal_error" not in first[1]
    for _ in range(2):
        status, body = gateway.turn("smuggles", stream=False)
        assert (status, b'"mine"' in body, b"smuggled" in body) == (200, True, False)
    assert gateway.is_unharmed()


def test_an_answer_before_the_request_is_nobodys_answer(gateway: Attacked) -> None:
    """An idle connection on which something arrives is not used again."""

    async def late(connection: Connection) -> None:
        await send(_CHUNKED + b"\r\n" + chunk(_BODY) + LAST_CHUNK)(connection)
        await connection.writer.drain()
        connection.writer.write(_EVIL)

    lawful = [send(upstream_head(transfer_encoding="chunked") + chunk(_BODY) + LAST_CHUNK)]
    gateway.upstream.play("early", [late, keep], lawful)
    for _ in range(2):
        status, body = gateway.turn("early", stream=False)
        assert (status, b"smuggled" in body) == (200, False)
        assert json.loads(body)["output"][0]["content"][0]["text"] == "mine"
