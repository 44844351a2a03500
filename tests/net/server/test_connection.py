"""Requests on one connection: order, limits, time, disconnects and the end."""

from __future__ import annotations

import re

import pytest

from penstock.net.server.connection import HEAD_SECONDS, IDLE_SECONDS, STALLED_MARGIN
from tests.net.server.fake_connections import CLIENT_TIMEOUT, FakeClient, FakeTransport, with_client

GET = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"
CHUNKED = b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"


def post(body: bytes, path: str = "/", *lines: str) -> bytes:
    head = [f"POST {path} HTTP/1.1", "host: x", f"content-length: {len(body)}", *lines, "", ""]
    return "\r\n".join(head).encode() + body


def statuses(data: bytes) -> list[int]:
    return [int(each) for each in re.findall(rb"HTTP/1\.1 (\d{3}) ", data)]


# Order


@with_client
async def test_requests_follow_each_other_on_a_connection(client: FakeClient) -> None:
    await client.send(post(b"a"))
    data = await client.send(post(b"b", "/x?y=1"))
    assert statuses(data) == [200, 200]
    assert data.endswith(b"POST /x y=1 b")
    assert not client.transport.is_closed


@with_client
async def test_a_request_waits_for_the_answer_to_the_one_before(client: FakeClient) -> None:
    data = await client.send(post(b"a", "/wait") + GET)
    assert (data, len(client.app.channels)) == (b"", 1)
    client.app.release.set()
    data = await client.settle()
    assert statuses(data) == [200, 200]
    assert data.index(b"a waited") < data.index(b"GET /")


@with_client
async def test_every_answer_is_one_write(client: FakeClient) -> None:
    await client.send(post(b"a"))
    assert client.transport.writes == 1


@with_client
async def test_a_disconnect_behind_a_waiting_request_is_noticed(client: FakeClient) -> None:
    await client.send(post(b"a", "/wait") + GET)
    noticed: list[bool] = []
    client.app.channels[0].on_disconnect(lambda: noticed.append(True))
    client.leave()
    assert noticed == [True]
    assert not client.app.channels[0].is_connected


@with_client
async def test_what_is_sent_ahead_is_bounded(client: FakeClient) -> None:
    await client.send(post(b"a", "/wait"))
    await client.send(GET * 100_000)
    assert client.transport.is_paused
    assert client.unread > len(GET) * 80_000
    client.app.release.set()
    for _ in range(10):
        await client.settle()
    assert len(client.app.channels) > 10


@with_client
async def test_requests_wait_for_a_client_that_does_not_read(client: FakeClient) -> None:
    client.transport.is_client_reading = False
    await client.send(b"GET /whole HTTP/1.1\r\nhost: x\r\n\r\n" * 5)
    assert len(client.app.channels) == 1
    client.transport.read_all()
    await client.settle()
    assert len(client.app.channels) == 5


# Bodies


@with_client
async def test_a_body_is_read_as_fast_as_the_application_takes_it(client: FakeClient) -> None:
    await client.send(post(b"x" * 1_000_000, "/wait"))
    assert client.transport.is_paused
    assert client.unread > 500_000
    client.app.release.set()
    data = await client.settle()
    assert data.endswith(b"x waited")
    assert b"content-length: 1000007\r\n" in data


@with_client
async def test_a_large_body_that_nobody_takes_does_not_stop_the_connection(client: FakeClient) -> None:
    """A request may be refused before its body is read. The body must have arrived completely by then."""
    await client.send(post(b"x" * 100_000, "/refuse-late"))
    assert client.transport.is_paused
    client.app.release.set()
    assert statuses(await client.settle()) == [401]
    assert not client.transport.is_paused
    assert statuses(await client.send(GET)) == [401, 200]


@with_client
async def test_an_answered_request_has_no_power_over_the_next_one(client: FakeClient) -> None:
    await client.send(GET)
    await client.send(post(b"a", "/wait"))
    first, _ = client.app.channels
    first.close()
    first.abort()
    client.app.release.set()
    assert statuses(await client.settle()) == [200, 200]
    assert not client.transport.is_closed


@with_client
async def test_a_client_that_sends_nothing_more_has_time_to_read(client: FakeClient) -> None:
    """But not forever."""
    await client.send(post(b"a", "/stream-and-wait"))
    client.transport.is_client_reading = False
    client.app.channels[0].write(b"unread")
    client.transport.protocol.eof_received()
    await client.settle()
    assert not client.app.channels[0].is_connected
    assert not client.transport.is_aborted
    for _ in range(2):
        await client.wait(CLIENT_TIMEOUT + STALLED_MARGIN + 1)
    assert client.transport.is_aborted


@with_client
async def test_a_chunked_body_is_joined(client: FakeClient) -> None:
    data = await client.send(CHUNKED + b"2\r\nab\r\n", b"3\r\ncde\r\n0\r", b"\n\r\n")
    assert data.endswith(b"POST /  abcde")


@with_client
async def test_many_small_chunks_are_read_in_slices(client: FakeClient) -> None:
    client.transport.protocol.data_received(CHUNKED + b"1\r\nx\r\n" * 2000)
    assert client.transport.is_paused, "it must not read more before it has parsed what it has"
    assert await client.send(b"0\r\n\r\n") == b""
    data = await client.settle()
    assert data.endswith(b"x" * 2000)
    assert not client.transport.is_paused


@with_client
async def test_the_rest_of_a_body_is_discarded_after_an_early_answer(client: FakeClient) -> None:
    data = await client.send(post(b"x" * 300_000, "/early")[:-100_000])
    assert statuses(data) == [403]
    data = await client.send(b"x" * 100_000 + GET)
    assert statuses(data) == [403, 200]
    assert data.endswith(b"GET /  ")


@with_client
async def test_continue_is_sent_when_the_application_asks_for_the_body(client: FakeClient) -> None:
    head = post(b"abc", "/wait", "expect: 100-continue")[:-3]
    assert await client.send(head) == b""
    client.app.release.set()
    assert await client.settle() == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert statuses(await client.send(b"abc")) == [100, 200]


@with_client
async def test_continue_is_not_sent_if_the_body_is_already_there(client: FakeClient) -> None:
    assert statuses(await client.send(post(b"abc", "/", "expect: 100-continue"))) == [200]


@with_client
async def test_a_disconnect_ends_the_wait_for_a_body(client: FakeClient) -> None:
    await client.send(post(b"abc")[:-1])
    client.leave()
    await client.settle()
    assert (client.app.closed, client.refusals.errors) == (1, [])


# Responses


@with_client
async def test_a_stream_is_chunked_and_an_empty_piece_does_not_end_it(client: FakeClient) -> None:
    data = await client.send(b"GET /stream HTTP/1.1\r\nhost: x\r\n\r\n")
    head, _, body = data.partition(b"\r\n\r\n")
    assert b"transfer-encoding: chunked" in head
    assert body == b"4\r\none \r\n4\r\ntwo \r\n5\r\nthree\r\n0\r\n\r\n"
    assert client.transport.writes == 3


@with_client
async def test_an_old_client_gets_a_stream_that_ends_with_the_connection(client: FakeClient) -> None:
    data = await client.send(b"GET /stream HTTP/1.0\r\nconnection: keep-alive\r\n\r\n")
    head, _, body = data.partition(b"\r\n\r\n")
    assert b"transfer-encoding" not in head
    assert b"connection: close" in head
    assert body == b"one two three"
    assert client.transport.is_closed


@pytest.mark.parametrize("path", ["/stream", "/"])
def test_head_gets_no_body(path: str) -> None:
    @with_client
    async def scenario(client: FakeClient) -> None:
        data = await client.send(f"HEAD {path} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
        assert data.endswith(b"\r\n\r\n")
        assert statuses(await client.send(GET)) == [200, 200]

    scenario()


@with_client
async def test_an_empty_response_has_no_length(client: FakeClient) -> None:
    data = await client.send(b"GET /empty HTTP/1.1\r\nhost: x\r\n\r\n")
    assert data.startswith(b"HTTP/1.1 204 No Content\r\ndate: ")
    assert b"content-length" not in data
    assert b"chunked" not in data


@pytest.mark.parametrize("line", [b"connection: close", b"connection: Close, te"])
def test_a_client_can_ask_for_the_end_of_the_connection(line: bytes) -> None:
    @with_client
    async def scenario(client: FakeClient) -> None:
        data = await client.send(b"GET / HTTP/1.1\r\nhost: x\r\n" + line + b"\r\n\r\n" + GET)
        assert statuses(data) == [200]
        assert b"connection: close\r\n" in data
        assert client.transport.is_closed

    scenario()


@pytest.mark.parametrize("path", ["/close", "/close-late"])
def test_the_application_can_ask_for_the_end_of_the_connection(path: str) -> None:
    @with_client
    async def scenario(client: FakeClient) -> None:
        assert statuses(await client.send(f"GET {path} HTTP/1.1\r\nhost: x\r\n\r\n".encode())) == [200]
        assert client.transport.is_closed
        assert not client.transport.is_aborted

    scenario()


@pytest.mark.parametrize(("path", "errors"), [("/fail", 1), ("/forget", 0)])
def test_a_request_without_an_answer_is_500(path: str, errors: int) -> None:
    @with_client
    async def scenario(client: FakeClient) -> None:
        data = await client.send(f"GET {path} HTTP/1.1\r\nhost: x\r\n\r\n".encode() + GET)
        assert statuses(data) == [500]
        assert data.endswith(b"GET internal_error")
        assert client.transport.is_closed
        assert len(client.refusals.errors) == errors

    scenario()


@with_client
async def test_a_response_without_an_end_is_cut_off(client: FakeClient) -> None:
    data = await client.send(b"GET /fail-late HTTP/1.1\r\nhost: x\r\n\r\n")
    assert data.endswith(b"4\r\nhalf\r\n")
    assert client.transport.is_aborted


@with_client
async def test_a_large_response_waits_for_its_client(client: FakeClient) -> None:
    client.transport.is_client_reading = False
    await client.send(b"GET /large HTTP/1.1\r\nhost: x\r\n\r\n")
    assert client.transport.buffered < 200_000
    [channel] = client.app.channels
    assert not channel.is_writable
    assert channel.unsent == client.transport.buffered
    client.transport.read_all()
    for _ in range(20):
        data = await client.settle()
    assert data.endswith(b"0\r\n\r\n")


@with_client
async def test_a_disconnect_ends_the_wait_for_a_client_that_does_not_read(client: FakeClient) -> None:
    client.transport.is_client_reading = False
    await client.send(b"GET /large HTTP/1.1\r\nhost: x\r\n\r\n")
    client.transport.abort()
    await client.settle()
    assert client.app.channels[0].is_writable
    assert client.app.channels[0].unsent == 0


@with_client
async def test_an_abort_discards_what_was_not_read(client: FakeClient) -> None:
    client.transport.is_client_reading = False
    await client.send(b"GET /large HTTP/1.1\r\nhost: x\r\n\r\n")
    client.app.channels[0].abort()
    assert client.transport.is_aborted
    assert not client.app.channels[0].is_connected


# Refusals


@with_client
async def test_a_refusal_has_the_clients_request_id(client: FakeClient) -> None:
    data = await client.send(CHUNKED[:-2] + b"x-request-id: mine\r\n\r\nzz\r\n")
    assert statuses(data) == [400]
    assert b"x-request-id: mine\r\n" in data
    assert b"connection: close\r\n" in data
    assert data.endswith(b"POST invalid_http")
    assert client.transport.is_closed
    await client.settle()
    assert client.app.closed == 1


@with_client
async def test_an_invalid_body_after_the_response_has_begun_ends_the_connection(client: FakeClient) -> None:
    head = b"POST /early HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
    assert statuses(await client.send(head)) == [403]
    assert statuses(await client.send(b"zz\r\n")) == [403]
    assert client.transport.is_closed


@with_client
async def test_garbage_is_refused_before_its_line_ends(client: FakeClient) -> None:
    assert statuses(await client.send(b"\x16\x03\x01\x02\x00")) == [400]
    assert client.transport.is_closed


@pytest.mark.parametrize("size", [1, 3, 1000, 100_000])
def test_answers_do_not_depend_on_how_the_bytes_are_cut(size: int) -> None:
    sent = b"".join(
        [
            GET,
            post(b"body\r\n\r\n"),
            CHUNKED + b"2;x=y\r\n{}\r\n0\r\nx-trailer: 1\r\n\r\n",
            b"\r\n" + GET,
            CHUNKED + b"4\r\n\r\n\r\n\r\n0\r\n\r\n",
            b"GET /last HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
        ]
    )

    @with_client
    async def scenario(client: FakeClient) -> None:
        for at in range(0, len(sent), size):
            await client.send(sent[at : at + size])
        data = await client.settle()
        assert statuses(data) == [200] * 6
        bodies = [part.partition(b"\r\n\r\n")[2] for part in data.split(b"HTTP/1.1 ")[1:]]
        assert bodies == [
            b"GET /  ",
            b"POST /  body\r\n\r\n",
            b"POST /  {}",
            b"GET /  ",
            b"POST /  \r\n\r\n",
            b"GET /last  ",
        ]

    scenario()


# Time


@with_client
async def test_a_client_that_sends_nothing_is_disconnected(client: FakeClient) -> None:
    await client.wait(HEAD_SECONDS - 1)
    assert not client.transport.is_closed
    await client.wait(2)
    assert client.transport.is_closed


@pytest.mark.parametrize(
    ("sent", "answers"),
    [
        (b"GET / HTTP/1.1\r\nhost: x\r\nx: y", 0),
        (GET + b"\r\n", 1),
        (GET + b"GET / HTTP/1.1\r\nhost: x\r\n", 1),
        (post(b"12345", "/early")[:-1], 1),
        (b"POST /early HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n2\r\n", 1),
    ],
    ids=["half a head", "a line", "half a second head", "half a body", "half a chunk"],
)
def test_a_client_must_come_to_an_end(sent: bytes, answers: int) -> None:
    @with_client
    async def scenario(client: FakeClient) -> None:
        assert len(statuses(await client.send(sent))) == answers
        await client.wait(HEAD_SECONDS - 1)
        assert not client.transport.is_closed
        await client.wait(2)
        assert client.transport.is_closed

    scenario()


@with_client
async def test_a_head_in_pieces_gets_no_more_time(client: FakeClient) -> None:
    await client.send(GET)
    for piece in (b"GET / HT", b"TP/1.1\r\n", b"x: y\r\n"):
        assert not client.transport.is_closed
        await client.send(piece)
        await client.wait(HEAD_SECONDS * 0.4)
    assert client.transport.is_closed


@with_client
async def test_an_idle_connection_stays_open_for_a_while(client: FakeClient) -> None:
    for _ in range(3):
        await client.send(GET)
        await client.wait(IDLE_SECONDS - 1)
    assert not client.transport.is_closed
    await client.wait(2)
    assert client.transport.is_closed


@with_client
async def test_an_answer_and_a_body_may_take_long(client: FakeClient) -> None:
    await client.send(post(b"ab", "/wait")[:-1])
    await client.wait(10 * IDLE_SECONDS)
    client.app.release.set()
    await client.wait(10 * IDLE_SECONDS)
    assert statuses(await client.send(b"b")) == [200]


@with_client
async def test_requests_do_not_set_timers(client: FakeClient) -> None:
    await client.send(GET)
    before = client.loop.timers
    await client.send(*[GET] * 20)
    assert client.loop.timers == before


@with_client
async def test_a_client_that_does_not_read_is_disconnected(client: FakeClient) -> None:
    client.transport.is_client_reading = False
    await client.send(b"GET /whole HTTP/1.1\r\nhost: x\r\n\r\n")
    await client.wait(CLIENT_TIMEOUT)
    assert not client.transport.is_aborted
    await client.wait(STALLED_MARGIN + 1)
    await client.wait(CLIENT_TIMEOUT + STALLED_MARGIN + 1)
    assert client.transport.is_aborted


@with_client
async def test_a_client_that_reads_slowly_is_not_disconnected(client: FakeClient) -> None:
    client.transport.is_client_reading = False
    await client.send(b"GET /whole HTTP/1.1\r\nhost: x\r\n\r\n")
    for _ in range(5):
        await client.wait(CLIENT_TIMEOUT)
        client.transport.buffered -= 10
    assert not client.transport.is_closed


@with_client
async def test_a_closing_connection_does_not_wait_forever_for_its_client(client: FakeClient) -> None:
    client.transport.is_client_reading = False
    await client.send(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
    assert client.transport.is_closed
    for _ in range(2):
        await client.wait(CLIENT_TIMEOUT + STALLED_MARGIN + 1)
    assert client.transport.is_aborted


@with_client
async def test_a_closing_connection_with_nothing_left_to_send_is_not_aborted(client: FakeClient) -> None:
    """Over TLS it ends when the client has read everything and answers, for which TLS has its own limit."""
    client.transport.is_client_reading = False
    await client.send(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
    client.transport.buffered = 0
    for _ in range(3):
        await client.wait(CLIENT_TIMEOUT + STALLED_MARGIN + 1)
    assert client.transport.is_closed
    assert not client.transport.is_aborted


# The end


@with_client
async def test_an_idle_connection_is_closed_when_the_server_stops(client: FakeClient) -> None:
    await client.send(GET)
    client.server.stop()
    assert client.transport.is_closed


@with_client
async def test_a_connection_that_was_just_accepted_is_closed_too(client: FakeClient) -> None:
    client.server.stop()
    client.transport = FakeTransport()
    client.connect()
    assert client.transport.is_closed


@with_client
async def test_a_busy_connection_is_closed_after_its_response(client: FakeClient) -> None:
    await client.send(post(b"a", "/wait") + GET)
    client.server.stop()
    assert not client.transport.is_closed
    client.app.release.set()
    data = await client.settle()
    assert statuses(data) == [200]
    assert b"connection: close\r\n" in data
    assert client.transport.is_closed


@with_client
async def test_a_request_that_is_still_received_is_refused(client: FakeClient) -> None:
    await client.send(post(b"ab")[:-1])
    client.server.stop()
    data = await client.settle()
    assert statuses(data) == [503]
    assert b"retry-after: 2\r\n" in data
    assert (client.transport.is_closed, client.app.closed) == (True, 1)


# Many connections


@with_client
async def test_the_connection_that_was_idle_for_longest_makes_room_for_a_new_one(first: FakeClient) -> None:
    first.most_connections = 2
    second = first.another()
    await first.send(post(b"one", "/whole"))  # now the second one waits for longest
    third = first.another()
    await first.settle()
    assert [each.transport.is_aborted for each in (first, second, third)] == [False, True, False]
    assert statuses(await third.send(post(b"three", "/whole"))) == [200]


@with_client
async def test_a_connection_whose_client_still_reads_is_not_the_first_to_go(first: FakeClient) -> None:
    first.most_connections = 2
    first.transport.is_client_reading = False
    await first.send(post(b"one", "/whole"))
    second, third = first.another(), first.another()
    assert [each.transport.is_aborted for each in (first, second, third)] == [False, True, False]
    fourth, fifth = first.another(), first.another()
    assert [each.transport.is_aborted for each in (first, third, fourth, fifth)] == [False, True, True, False]


@with_client
async def test_a_request_is_refused_if_all_connections_are_busy(first: FakeClient) -> None:
    first.most_connections = 2
    second = first.another()
    for busy in (first, second):
        assert await busy.send(post(b"x", "/wait")) == b""
    third = first.another()
    data = await third.send(post(b"three", "/whole"))
    assert statuses(data) == [503]
    assert b"\r\nretry-after: 2\r\n" in data
    assert data.endswith(b"POST server_is_overloaded")
    assert third.transport.is_closed
    first.app.release.set()
    assert [statuses(await busy.settle()) for busy in (first, second)] == [[200], [200]]
    assert statuses(await first.send(post(b"again", "/whole"))) == [200, 200]


@with_client
async def test_without_a_limit_no_connection_is_closed_for_another(first: FakeClient) -> None:
    others = [first.another() for _ in range(100)]
    await first.settle()
    assert not any(each.transport.is_closed for each in (first, *others))
