"""WebSockets: handshake, messages, limits, pings and the end."""

from __future__ import annotations

import base64

import pytest

from penstock.net.server.connection import HEAD_SECONDS
from penstock.net.server.websocket import CLOSE_SECONDS, PING_SECONDS, WAITING_MESSAGES
from tests.net.server.fake_connections import MESSAGE_BYTES, FakeClient, with_client

KEY = base64.b64encode(b"0123456789abcdef").decode()
NEEDED = ("connection: Upgrade", "upgrade: websocket", f"sec-websocket-key: {KEY}")
TEXT, BINARY, CONT, CLOSE, PING, PONG = 1, 2, 0, 8, 9, 10


def upgrade(*lines: str, start: str = "GET /chat HTTP/1.1") -> bytes:
    return "\r\n".join([start, "host: x", *NEEDED, "sec-websocket-version: 13", *lines, "", ""]).encode()


def frame(data: bytes, opcode: int = TEXT, *, is_last: bool = True) -> bytes:
    """A frame of a client, masked with zeros."""
    first = bytes([opcode | (0x80 if is_last else 0)])
    if len(data) < 126:
        return first + bytes([0x80 | len(data)]) + bytes(4) + data
    return first + b"\xff" + len(data).to_bytes(8, "big") + bytes(4) + data


def close_frame(code: int) -> bytes:
    return frame(code.to_bytes(2, "big"), CLOSE)


def closed_with(data: bytes, code: int) -> bool:
    at = data.rfind(b"\x88")
    return at >= 0 and data[at + 2 : at + 4] == code.to_bytes(2, "big")


async def opened(client: FakeClient, path: str = "/chat") -> None:
    data = await client.send(upgrade(start=f"GET {path} HTTP/1.1"))
    assert data.startswith(b"HTTP/1.1 101 Switching Protocols\r\n")
    client.transport.written.clear()


# The handshake


@with_client
async def test_a_handshake_is_answered_without_compression(client: FakeClient) -> None:
    data = await client.send(upgrade("sec-websocket-extensions: permessage-deflate"))
    head = data.decode().lower()
    assert "sec-websocket-accept: " in head
    assert "extensions" not in head
    assert head.count("date: ") == 1
    [socket] = client.app.sockets
    assert (socket.method, socket.path, socket.headers["host"]) == ("GET", "/chat", "x")


@pytest.mark.parametrize(
    "request_bytes",
    [
        upgrade(start="POST /chat HTTP/1.1"),
        upgrade("content-length: 5") + b"hello",
        upgrade("transfer-encoding: chunked"),
        upgrade(start="GET /chat HTTP/1.0"),
        upgrade("sec-websocket-key: twice"),
        upgrade().replace(b"version: 13", b"version: 12"),
        upgrade().replace(b"sec-websocket-key", b"x-other"),
        upgrade() + frame(b"{}"),
    ],
    ids=["post", "body", "chunked", "1.0", "two-keys", "version", "no-key", "early"],
)
def test_a_handshake_that_cannot_be_is_refused(request_bytes: bytes) -> None:
    @with_client
    async def scenario(client: FakeClient) -> None:
        data = await client.send(request_bytes)
        assert data.startswith(b"HTTP/1.1 400 ")
        assert data.endswith(b" invalid_upgrade")
        assert client.transport.is_closed
        assert not client.app.sockets

    scenario()


@with_client
async def test_the_application_can_refuse(client: FakeClient) -> None:
    data = await client.send(upgrade(start="GET /refused HTTP/1.1"))
    assert data.startswith(b"HTTP/1.1 426 Upgrade Required\r\n")
    assert data.endswith(b"not here")
    assert client.transport.is_closed
    with pytest.raises(RuntimeError):
        client.app.sockets[0].accept()


@with_client
async def test_an_application_that_does_not_answer_is_500(client: FakeClient) -> None:
    data = await client.send(upgrade(start="GET /forgotten HTTP/1.1"))
    assert data.startswith(b"HTTP/1.1 500 ")
    assert client.transport.is_closed


@with_client
async def test_a_handshake_may_follow_requests_and_have_any_headers(client: FakeClient) -> None:
    await client.send(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
    lines = [f"x-{number}: \xe4" for number in range(300)]
    data = await client.send(upgrade(*lines, "cookie: " + "a" * 10_000))
    assert b"HTTP/1.1 101 " in data


# Messages


@with_client
async def test_messages_in_both_directions(client: FakeClient) -> None:
    await opened(client)
    data = await client.send(frame("hellö".encode()), frame(b"\xff", BINARY), frame(b"x" * 200))
    assert client.app.heard == ["hellö", "\ufffd", "x" * 200]
    assert "echo hellö".encode() in data
    assert data.count(b"echo ") == 3


@with_client
async def test_fragments_are_joined_also_around_pings(client: FakeClient) -> None:
    await opened(client)
    data = await client.send(
        frame(b"", is_last=False),
        frame(b"hel", CONT, is_last=False),
        frame(b"ping", PING),
        frame(b"", CONT, is_last=False),
        frame(b"lo", CONT),
        frame(b"next"),
    )
    assert client.app.heard == ["hello", "next"]
    assert b"\x8a\x04ping" in data


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (frame(b"\xff"), 1007),
        (frame(b"x" * (MESSAGE_BYTES + 1)), 1009),
        (frame(b"x", CONT), 1002),
        (frame(b"x", 3), 1002),
        (b"\x81\x01x", 1002),
        (frame(b"x", is_last=False) + frame(b"y"), 1002),
    ],
    ids=["utf-8", "size", "continuation", "opcode", "unmasked", "interrupted"],
)
def test_an_invalid_message_closes_the_socket(sent: bytes, code: int) -> None:
    @with_client
    async def scenario(client: FakeClient) -> None:
        await opened(client)
        data = await client.send(sent)
        for _ in range(40):
            data = await client.settle()
        assert closed_with(data, code), data
        assert client.transport.is_closed
        assert client.app.closed == 1

    scenario()


@with_client
async def test_a_client_is_not_read_while_its_messages_wait(client: FakeClient) -> None:
    await opened(client, "/slow")
    await client.send(frame(b"1"), frame(b"2"))
    assert client.transport.is_paused
    client.app.release.set()
    await client.settle()
    assert not client.transport.is_paused
    assert client.app.heard == ["1", "2"]


@with_client
async def test_too_many_messages_close_the_socket(client: FakeClient) -> None:
    await opened(client, "/slow")
    data = await client.send(frame(b"x") * (WAITING_MESSAGES + 10))
    assert closed_with(data, 1008)
    assert not client.app.sockets[0].is_connected
    await client.send(close_frame(1008))
    assert client.transport.is_closed
    client.app.release.set()
    await client.settle()
    assert (client.app.closed, client.refusals.errors) == (1, [])


@with_client
async def test_too_many_messages_before_a_broken_frame_close_the_socket_once(client: FakeClient) -> None:
    await opened(client, "/slow")
    data = await client.send(frame(b"x") * (WAITING_MESSAGES + 10) + frame(b"x", 3))
    assert closed_with(data, 1002)
    assert client.transport.is_closed
    client.app.release.set()
    await client.settle()
    assert (client.app.closed, client.refusals.errors) == (1, [])


@with_client
async def test_a_flood_is_parsed_in_pieces(client: FakeClient) -> None:
    await opened(client)
    client.transport.protocol.data_received(frame(b"", PONG) * 20_000)
    assert client.transport.is_paused
    for _ in range(5):
        await client.settle()
    assert not client.transport.is_paused


@with_client
async def test_nothing_is_read_from_a_client_that_does_not_read(client: FakeClient) -> None:
    await opened(client)
    client.transport.is_client_reading = False
    await client.send(frame(b"p" * 125, PING) * 10_000)
    for _ in range(40):
        await client.settle()
    assert client.transport.buffered < 300_000
    assert client.transport.is_paused
    [socket] = client.app.sockets
    assert (socket.is_writable, socket.unsent) == (False, client.transport.buffered)
    client.transport.read_all()
    await socket.drain()
    for _ in range(40):
        await client.settle()
    assert (client.transport.is_paused, client.unread) == (False, 0)


# The end


@with_client
async def test_the_application_closes(client: FakeClient) -> None:
    await opened(client)
    data = await client.send(frame(b"close"))
    assert closed_with(data, 1001)
    assert b"echo close" not in data, "nothing is sent after the end"
    assert not client.transport.is_closed
    await client.send(frame(b"ignored") + close_frame(1001))
    assert client.transport.is_closed
    assert client.app.heard == ["close"]


@with_client
async def test_a_client_that_does_not_answer_the_close_is_disconnected(client: FakeClient) -> None:
    await opened(client)
    await client.send(frame(b"close"))
    await client.wait(CLOSE_SECONDS + 1)
    assert client.transport.is_aborted


@with_client
async def test_the_client_closes(client: FakeClient) -> None:
    await opened(client)
    reported: list[bool] = []
    client.app.sockets[0].on_disconnect(lambda: reported.append(True))
    data = await client.send(frame(b"last") + close_frame(1000))
    assert closed_with(data, 1000)
    assert client.transport.is_closed
    assert (client.app.heard, client.app.closed, reported) == (["last"], 1, [True])
    client.app.sockets[0].on_disconnect(lambda: reported.append(False))
    await client.settle()
    assert reported == [True, False]


@with_client
async def test_a_lost_client_is_noticed(client: FakeClient) -> None:
    await opened(client)
    client.transport.abort()
    await client.settle()
    assert client.app.closed == 1
    client.app.sockets[0].send(b"into nothing")
    client.app.sockets[0].close(1000)
    assert not client.transport.written


@with_client
async def test_the_application_is_reported_when_the_server_stops(client: FakeClient) -> None:
    await opened(client)
    client.server.stop()
    data = await client.settle()
    assert client.app.heard == [None]
    assert closed_with(data, 1012)
    await client.send(close_frame(1012))
    await client.server.stopped()


# Time


@with_client
async def test_pings_keep_the_connection_open(client: FakeClient) -> None:
    await opened(client)
    for number in range(1, 4):
        data = await client.wait(PING_SECONDS + 1)
        payload = number.to_bytes(4, "big")
        assert data.endswith(b"\x89\x04" + payload)
        await client.send(frame(b"stale", PONG), frame(payload, PONG))
    assert not client.transport.is_closed


@with_client
async def test_a_client_that_does_not_answer_pings_is_disconnected(client: FakeClient) -> None:
    await opened(client)
    await client.wait(PING_SECONDS + 1)
    await client.send(frame(b"other", PONG))
    data = await client.wait(PING_SECONDS + 1)
    assert closed_with(data, 1011)
    assert client.transport.is_closed


@with_client
async def test_a_client_that_neither_reads_nor_answers_pings_is_aborted(client: FakeClient) -> None:
    await opened(client)
    client.transport.is_client_reading = False
    await client.wait(PING_SECONDS + 1)
    await client.wait(PING_SECONDS + 1)
    assert client.transport.is_aborted


@with_client
async def test_a_client_that_reads_slowly_is_not_aborted(client: FakeClient) -> None:
    """Its answer to a ping waits behind what it has not read."""
    await opened(client)
    client.transport.is_client_reading = False
    client.app.sockets[0].send(b"x" * 1000)
    for _ in range(5):
        await client.wait(PING_SECONDS + 1)
        client.transport.buffered -= 100
    assert not client.transport.is_closed
    for _ in range(2):
        await client.wait(PING_SECONDS + 1)
    assert client.transport.is_aborted


@with_client
async def test_a_client_that_sends_nothing_more_is_disconnected(client: FakeClient) -> None:
    await opened(client)
    client.transport.is_client_reading = False
    client.app.sockets[0].send(b"unread")
    client.transport.protocol.eof_received()
    await client.settle()
    assert client.app.closed == 1


@with_client
async def test_the_handshake_must_be_answered_in_time(client: FakeClient) -> None:
    await client.send(upgrade(start="GET /later HTTP/1.1"))
    assert client.transport.is_paused
    await client.wait(HEAD_SECONDS + 1)
    assert client.transport.is_aborted
    client.app.release.set()
    await client.settle()
    assert (bytes(client.transport.written), client.app.closed) == (b"", 1)
