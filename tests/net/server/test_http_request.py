"""A request as its application sees it: illegal calls raise and change nothing, and the end of a client."""

from __future__ import annotations

import asyncio

import pytest

from penstock.net.server.channels import ChannelClosed
from tests.net.server.fake_connections import FakeClient, with_client

WAIT = b"POST /wait HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\n"


@with_client
async def test_a_response_begins_once(client: FakeClient) -> None:
    await client.send(WAIT)
    [channel] = client.app.channels
    with pytest.raises(RuntimeError):
        channel.write(b"too early")
    with pytest.raises(RuntimeError):
        channel.end()
    channel.begin(200, [("content-length", "2")])
    with pytest.raises(RuntimeError):
        channel.begin(404, [])
    channel.end(b"ok")
    with pytest.raises(RuntimeError):
        channel.write(b"too late")
    with pytest.raises(RuntimeError):
        channel.end()
    assert client.transport.written.endswith(b"\r\n\r\nok")
    with pytest.raises(ChannelClosed):
        await channel.receive()


@with_client
async def test_a_header_cannot_contain_a_line(client: FakeClient) -> None:
    await client.send(WAIT)
    [channel] = client.app.channels
    for value in ("a\r\nset-cookie: b", "a\nb", "a\rb", "a\0b"):
        with pytest.raises(ValueError, match="line break"):
            channel.begin(200, [("x", value)])
    channel.begin(200, [("x", "fine")])
    channel.end()
    assert b"x: fine\r\n" in client.transport.written
    assert b"set-cookie" not in client.transport.written


@with_client
async def test_a_response_cannot_be_longer_than_its_length(client: FakeClient) -> None:
    await client.send(WAIT)
    [channel] = client.app.channels
    channel.begin(200, [("content-length", "5")])
    channel.write(b"hel")
    with pytest.raises(RuntimeError, match="longer"):
        channel.write(b"lo!")
    channel.end(b"lo")
    assert client.transport.written.endswith(b"\r\n\r\nhello")


@with_client
async def test_a_response_that_is_too_short_is_cut_off(client: FakeClient) -> None:
    await client.send(WAIT)
    [channel] = client.app.channels
    channel.begin(200, [("content-length", "5")])
    with pytest.raises(RuntimeError, match="shorter"):
        channel.end(b"hell")
    assert client.transport.is_aborted


@with_client
async def test_an_empty_write_sends_the_head_alone(client: FakeClient) -> None:
    await client.send(WAIT)
    [channel] = client.app.channels
    channel.begin(200, [])
    assert not client.transport.written
    channel.write(b"")
    assert client.transport.written.endswith(b"transfer-encoding: chunked\r\n\r\n")


@with_client
async def test_nothing_is_sent_after_a_disconnect(client: FakeClient) -> None:
    await client.send(WAIT)
    [channel] = client.app.channels
    client.leave()
    channel.begin(200, [])
    channel.write(b"a")
    channel.end()
    assert (bytes(client.transport.written), channel.unsent, channel.is_writable) == (b"", 0, True)
    await channel.drain()


@with_client
async def test_a_disconnect_is_reported_once_to_the_last_callback(client: FakeClient) -> None:
    await client.send(WAIT)
    [channel] = client.app.channels
    reported: list[str] = []
    channel.on_disconnect(lambda: reported.append("first"))
    channel.on_disconnect(lambda: reported.append("second"))
    client.leave()
    await client.settle()
    assert reported == ["second"]
    channel.on_disconnect(lambda: reported.append("late"))
    assert reported == ["second"], "it must be called soon, not now"
    await client.settle()
    assert reported == ["second", "late"]
    channel.on_disconnect(None)


@with_client
async def test_a_disconnect_after_the_end_is_not_reported(client: FakeClient) -> None:
    await client.send(WAIT + b"hello")
    [channel] = client.app.channels
    channel.on_disconnect(lambda: pytest.fail("the response has ended"))
    channel.begin(200, [])
    channel.end()
    client.leave()
    channel.on_disconnect(lambda: pytest.fail("the response has ended"))
    await client.settle()


@with_client
async def test_an_abort_notifies_the_callback_soon(client: FakeClient) -> None:
    await client.send(WAIT)
    [channel] = client.app.channels
    reported: list[bool] = []
    channel.on_disconnect(lambda: reported.append(True))
    channel.abort()
    assert (reported, channel.is_connected) == ([], False)
    await client.settle()
    assert reported == [True]


@with_client
async def test_the_body_can_be_received_in_pieces(client: FakeClient) -> None:
    await client.send(WAIT, b"he")
    [channel] = client.app.channels
    assert await channel.receive() == b"he"
    receiving = asyncio.create_task(channel.receive())
    await client.send(b"l")
    assert await receiving == b"l"
    await client.send(b"lo")
    assert await channel.receive() == b"lo"
    assert await channel.receive() == b""
    assert await channel.receive() == b""


@with_client
async def test_receiving_can_be_cancelled_and_repeated(client: FakeClient) -> None:
    await client.send(WAIT)
    [channel] = client.app.channels
    receiving = asyncio.create_task(channel.receive())
    await client.settle()
    receiving.cancel()
    await client.settle()
    await client.send(b"hello")
    assert await channel.receive() == b"hello"


@with_client
async def test_what_it_knows_of_the_request(client: FakeClient) -> None:
    await client.send(b"GET /a%20b?c=%20 HTTP/1.1\r\nhost: x\r\nX-One: 1\r\n\r\n")
    [channel] = client.app.channels
    assert (channel.method, channel.path, channel.query) == ("GET", "/a b", "c=%20")
    assert (channel.headers, channel.server_port) == ({"host": "x", "x-one": "1"}, 8080)


@with_client
async def test_a_client_that_reads_again_makes_its_channel_writable(client: FakeClient) -> None:
    """Also after the end of the response, when the connection waits for the next request."""
    await client.send(WAIT, b"12345")
    [channel] = client.app.channels
    channel.begin(200, [])
    for write in (channel.write, channel.end):
        client.transport.is_client_reading = False
        write(b"x" * 200_000)
        assert not channel.is_writable
        draining = asyncio.create_task(channel.drain())
        await client.settle()
        assert not draining.done()
        client.transport.read_all()
        await draining
        assert channel.is_writable
