"""One HTTP request and its answer: ids, headers and writes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock.gateway.errors import RequestRefused
from penstock.gateway.http.exchange import Exchange, Message, request_id_for


class Client:
    """The client's end of an exchange."""

    def __init__(self, **connection: Any) -> None:
        self.sent: list[Message] = []
        self.incoming: asyncio.Queue[Message] = asyncio.Queue()
        self.aborts = 0
        self._connection = {"abort": self._abort, **connection}

    def exchange(self, method: str = "POST", headers: list[tuple[bytes, bytes]] | None = None) -> Exchange:
        scope = {
            "method": method,
            "path": "/v1/responses",
            "query_string": b"a=1&b=%20x&a=2",
            "headers": headers or [],
            "extensions": {"penstock": self._connection},
        }
        return Exchange(scope, self.incoming.get, self.send)

    async def send(self, message: Message) -> None:
        self.sent.append(message)

    def _abort(self) -> None:
        self.aborts += 1
        self.incoming.put_nowait({"type": "http.disconnect"})

    @property
    def headers(self) -> dict[bytes, bytes]:
        return dict(self.sent[0]["headers"])


def test_headers_are_read_in_lower_case_and_joined() -> None:
    exchange = Client().exchange(headers=[(b"X-A", b"1"), (b"Host", b"h"), (b"x-a", b"2")])
    assert exchange.headers == {"x-a": "1, 2", "host": "h"}
    assert exchange.query == {"a": "2", "b": " x"}


@pytest.mark.parametrize("given", ["mine-1", "a" * 128, "!~"])
def test_a_request_id_of_the_client_is_kept(given: str) -> None:
    assert request_id_for(given) == given


@pytest.mark.parametrize("given", ["", "two words", "x" * 129, "line\nbreak", "ümlaut", "\x7f"])
def test_a_request_id_that_cannot_be_a_header_is_replaced(given: str) -> None:
    made = request_id_for(given)
    assert made.startswith("req_")
    assert made != request_id_for(given)


def test_turns_of_one_connection_have_request_ids_of_their_own() -> None:
    first = Client().exchange(headers=[(b"x-request-id", b"mine")])
    second = first.renamed("mine-2")
    assert (first.request_id, second.request_id) == ("mine", "mine-2")
    assert (second.headers, second.send) == (first.headers, first.send)


def test_an_answer_has_its_length_its_id_and_no_body_for_head() -> None:
    async def test(method: str) -> Client:
        client = Client()
        await client.exchange(method, [(b"x-request-id", b"mine")]).answer(200, b"{}")
        return client

    get, head = asyncio.run(test("GET")), asyncio.run(test("HEAD"))
    assert get.headers == head.headers
    assert get.headers[b"content-length"] == b"2"
    assert get.headers[b"x-request-id"] == b"mine"
    assert [client.sent[1]["body"] for client in (get, head)] == [b"{}", b""]


def test_an_answer_without_content_has_no_length() -> None:
    async def test() -> Client:
        client = Client()
        await client.exchange().answer(204, b"")
        return client

    assert b"content-length" not in asyncio.run(test()).headers


def test_a_header_in_any_script_is_one_line_of_ascii() -> None:
    """A diagnostic may name a tool in any script; a line break would be a header of its own."""

    async def test() -> Client:
        client = Client()
        await client.exchange().begin(200, [("x-penstock-diagnostics", "größe\r\nset-cookie: 水")])
        return client

    assert asyncio.run(test()).headers[b"x-penstock-diagnostics"] == b"gr??e??set-cookie: ?"


def test_a_large_answer_is_cut_off_if_the_client_does_not_read() -> None:
    class Stuck(Client):
        async def send(self, message: Message) -> None:
            await super().send(message)
            if message.get("more_body"):
                await asyncio.Event().wait()

    async def test() -> tuple[Client, int]:
        client = Stuck()
        exchange = client.exchange()
        exchange.client_timeout = 0.01
        length = await exchange.answer_large(200, lambda: [b"[", b"1", b"]"])
        return client, length

    client, length = asyncio.run(test())
    assert (length, client.headers[b"content-length"], client.aborts) == (3, b"3", 1)


@pytest.mark.parametrize(
    ("unsent", "aborts"), [([*range(900, -1, -50)], 0), ([900] * 1000, 1)], ids=["slow", "stuck"]
)
def test_an_answer_is_delivered_when_the_client_has_read_it(unsent: list[int], aborts: int) -> None:
    """A client that reads slowly is waited for; one that reads nothing is disconnected."""
    sizes = iter(unsent)

    async def test() -> Client:
        client = Client(unsent=lambda: next(sizes))
        exchange = client.exchange()
        exchange.client_timeout = 0.08
        async with asyncio.timeout(5):
            await exchange.delivered()
        return client

    assert asyncio.run(test()).aborts == aborts


def test_a_client_is_gone_when_it_disconnects_whatever_it_sent_before() -> None:
    async def test() -> None:
        client = Client()
        for type in ("http.request", "http.request", "http.disconnect"):
            client.incoming.put_nowait({"type": type})
        async with asyncio.timeout(5):
            await client.exchange().wait_disconnected()
            await client.exchange().abort_and_wait()
        assert client.aborts == 1

    asyncio.run(test())


def test_a_server_without_our_extension_is_enough() -> None:
    """Mounted into another application, a connection cannot be closed from here: nothing breaks."""

    async def test() -> None:
        client = Client()
        scope = {"method": "GET", "path": "/", "query_string": b"", "headers": []}
        exchange = Exchange(scope, client.incoming.get, client.send)
        exchange.client_timeout = 1.0
        exchange.abort()
        exchange.close()
        await exchange.abort_and_wait()
        await exchange.delivered()

    asyncio.run(test())


@pytest.mark.parametrize("can_refuse", [True, False])
def test_a_websocket_is_refused_with_a_status_where_the_server_can(can_refuse: bool) -> None:
    async def test() -> list[Message]:
        client = Client()
        scope = {
            "method": "GET",
            "path": "/",
            "query_string": b"",
            "headers": [],
            "extensions": {"websocket.http.response": {}} if can_refuse else {},
        }
        client.incoming.put_nowait({"type": "websocket.disconnect"})
        client.incoming.put_nowait({"type": "websocket.disconnect"})
        refused = RequestRefused(403, "permission_denied", "no")
        await Exchange(scope, client.incoming.get, client.send).refuse_socket(refused)
        return client.sent

    sent = asyncio.run(test())
    if can_refuse:
        assert [message["type"] for message in sent] == [
            "websocket.http.response.start",
            "websocket.http.response.body",
        ]
        assert sent[0]["status"] == 403
    else:
        assert sent == [{"type": "websocket.close", "code": 1008}]
