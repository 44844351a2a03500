"""One request and its answer: ids, headers and writes."""

from __future__ import annotations

import asyncio
import json

import pytest

from penstock.gateway.errors import ClientDisconnected, RequestRefused
from penstock.gateway.http.exchange import Exchange, SocketExchange, request_id_for
from tests.gateway.fake_channels import FakeHttpChannel, FakeSocketChannel


def test_a_query_is_decoded() -> None:
    assert Exchange(FakeHttpChannel(query="a=1&b=%20x&a=2")).query == {"a": "2", "b": " x"}
    assert Exchange(FakeHttpChannel()).query == {}


@pytest.mark.parametrize("given", ["mine-1", "a" * 128, "!~"])
def test_a_request_id_of_the_client_is_kept(given: str) -> None:
    assert request_id_for(given) == given


@pytest.mark.parametrize("given", ["", "two words", "x" * 129, "line\nbreak", "ümlaut", "\x7f"])
def test_a_request_id_that_cannot_be_a_header_is_replaced(given: str) -> None:
    made = request_id_for(given)
    assert made.startswith("req_")
    assert made != request_id_for(given)


def test_turns_of_one_connection_have_request_ids_of_their_own() -> None:
    first = SocketExchange(FakeSocketChannel(headers={"x-request-id": "mine"}))
    second = first.renamed("mine-2")
    assert (first.request_id, second.request_id) == ("mine", "mine-2")
    assert (second.headers, second.channel) == (first.headers, first.channel)


def test_an_answer_has_its_length_its_id_and_no_body_for_head() -> None:
    get, head = (FakeHttpChannel(method, headers={"x-request-id": "mine"}) for method in ("GET", "HEAD"))
    for channel in (get, head):
        Exchange(channel).answer(200, b"{}")
        assert channel.is_ended
    assert get.sent_headers == head.sent_headers
    assert get.sent_headers["content-length"] == "2"
    assert get.sent_headers["x-request-id"] == "mine"
    assert (get.body, head.body) == (b"{}", b"")


def test_an_answer_without_content_has_no_length() -> None:
    channel = FakeHttpChannel()
    Exchange(channel).answer(204, b"")
    assert "content-length" not in channel.sent_headers


def test_a_header_in_any_script_is_one_line_of_ascii() -> None:
    """A diagnostic may name a tool in any script; a line break would be a header of its own."""
    channel = FakeHttpChannel()
    Exchange(channel).begin(200, [("x-penstock-diagnostics", "größe\r\nset-cookie: 水")])
    assert channel.sent_headers["x-penstock-diagnostics"] == "gr??e??set-cookie: ?"


def test_a_refusal_has_its_headers_and_the_shape_of_the_specification() -> None:
    channel = FakeHttpChannel()
    Exchange(channel).refuse(
        RequestRefused(503, "server_is_overloaded", "later", headers=[("retry-after", "2")])
    )
    assert (channel.status, channel.sent_headers["retry-after"]) == (503, "2")
    assert json.loads(channel.body)["error"]["code"] == "server_is_overloaded"


def test_a_body_that_its_client_does_not_finish_is_a_disconnect() -> None:
    async def test() -> None:
        exchange = Exchange(FakeHttpChannel(parts=[b"half", None]))
        assert await exchange.receive() == b"half"
        with pytest.raises(ClientDisconnected):
            await exchange.receive()

    asyncio.run(test())


class SlowChannel(FakeHttpChannel):
    """A client that reads nothing."""

    def write(self, data: bytes) -> None:
        super().write(data)
        self.is_writable = False


def test_a_large_answer_is_cut_off_if_the_client_does_not_read() -> None:
    async def test() -> tuple[SlowChannel, int]:
        channel = SlowChannel()
        exchange = Exchange(channel)
        exchange.client_timeout = 0.01
        length = await exchange.answer_large(200, lambda: [b"[", b"1", b"]"])
        return channel, length

    channel, length = asyncio.run(test())
    assert (length, channel.sent_headers["content-length"], channel.aborts) == (3, "3", 1)
    assert channel.body == b"["


def test_a_large_answer_is_sent_in_pieces() -> None:
    channel = FakeHttpChannel()
    assert asyncio.run(Exchange(channel).answer_large(200, lambda: [b"[", b"1", b"]"])) == 3
    assert channel.pieces == [b"[", b"1", b"]", b""]
    assert channel.is_ended


class Draining(FakeHttpChannel):
    """A client whose unread bytes are these, one after the other."""

    def __init__(self, sizes: list[int]) -> None:
        self._sizes = iter(sizes)
        super().__init__()

    @property
    def unsent(self) -> int:
        return next(self._sizes)

    @unsent.setter
    def unsent(self, value: int) -> None:
        """Ignore the initial value."""


@pytest.mark.parametrize(
    ("unsent", "aborts"), [([*range(900, -1, -50)], 0), ([900] * 1000, 1)], ids=["slow", "stuck"]
)
def test_an_answer_is_delivered_when_the_client_has_read_it(unsent: list[int], aborts: int) -> None:
    """A client that reads slowly is waited for; one that reads nothing is disconnected."""

    async def test() -> int:
        channel = Draining(unsent)
        exchange = Exchange(channel)
        exchange.client_timeout = 0.08
        async with asyncio.timeout(5):
            await exchange.delivered()
        return channel.aborts

    assert asyncio.run(test()) == aborts


@pytest.mark.parametrize("is_early", [False, True])
def test_a_disconnect_is_noticed_whenever_it_comes(is_early: bool) -> None:
    async def test() -> None:
        channel = FakeHttpChannel()
        exchange = Exchange(channel)
        if is_early:
            channel.disconnect()
        waiting = asyncio.create_task(exchange.wait_disconnected())
        await asyncio.sleep(0)
        channel.disconnect()
        await asyncio.wait_for(waiting, 5)

    asyncio.run(test())


def test_a_websocket_is_refused_with_its_request_id() -> None:
    channel = FakeSocketChannel(headers={"x-request-id": "mine"})
    SocketExchange(channel).refuse(RequestRefused(403, "permission_denied", "no"))
    assert channel.refused is not None
    status, headers, body = channel.refused
    assert (status, headers["x-request-id"]) == (403, "mine")
    assert json.loads(body)["error"]["code"] == "permission_denied"
