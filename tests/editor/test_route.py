"""The route `POST /v1/parts` in process: a scripted server plays the gateway's own endpoint."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.editor.route import EditorRoute, editor_routes, own_url
from penstock.gateway.errors import RequestRefused
from penstock.gateway.http.exchange import Exchange
from penstock.gateway.settings import ClientKey, Limits
from tests.client.server import HELLO as EVENTS
from tests.client.server import Script, Server, answer, head, run, send, sse, stall, streamed
from tests.gateway.fake_channels import FakeHttpChannel

MODELS: Script = [answer(200, {"data": [{"id": "one"}]})]
RESPOND: dict[str, Any] = {"method": "respond", "model": "one", "messages": [{"role": 1, "content": "Hello"}]}


class StandInGateway:
    """The parts of a gateway that the route uses."""

    def __init__(self, body: Any, *, is_full: bool = False) -> None:
        self._body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self._is_full = is_full
        self.services = SimpleNamespace(settings=SimpleNamespace(limits=Limits()))

    async def read(self, _: Exchange) -> bytes:
        return self._body

    def refuse_if_full(self) -> None:
        if self._is_full:
            raise RequestRefused(503, "server_is_overloaded", "full")


class Client:
    """Receives the answer."""

    def __init__(self, headers: dict[str, str] | None = None) -> None:
        self.channel = FakeHttpChannel(path="/v1/parts", headers=headers)
        self.exchange = Exchange(self.channel)

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.channel.body.splitlines() if line]


@asynccontextmanager
async def route(*scripts: Script) -> AsyncIterator[tuple[EditorRoute, Server]]:
    async with Server(*scripts) as server:
        yield EditorRoute(f"{server.url}/v1"), server


async def call(
    route: EditorRoute, body: Any, client: Client, key: ClientKey | None = None, *, is_full: bool = False
) -> None:
    gateway: Any = StandInGateway(body, is_full=is_full)
    await route(gateway, client.exchange, key)


def test_a_response_is_sent_as_lines_with_the_id_of_the_request() -> None:
    async def scenario() -> None:
        async with route(MODELS, streamed()) as (parts, _):
            client = Client()
            await call(parts, {**RESPOND, "id": "mine"}, client)
        assert client.exchange.status == 200
        assert {line["id"] for line in client.lines} == {"mine"}
        types = [line["type"] for line in client.lines]
        assert types == ["text", "text", "text", "usage", "marker", "done"]
        assert (len(client.channel.pieces), client.channel.is_ended) == (6, True)

    run(scenario())


def test_credentials_and_trace_headers_are_forwarded_and_others_are_not() -> None:
    headers = {"authorization": "Bearer k", "x-api-key": "a", "traceparent": "t", "cookie": "c"}

    async def scenario() -> None:
        async with route(MODELS, streamed()) as (parts, server):
            client = Client(headers)
            await call(parts, RESPOND, client)
        sent = server.asked[1].headers
        assert {name: sent.get(name) for name in headers} == {**headers, "cookie": None}
        assert sent["x-request-id"] == client.exchange.request_id
        # The list of models is cached: it is requested with the credentials only.
        assert "traceparent" not in server.asked[0].headers

    run(scenario())


@pytest.mark.parametrize(
    ("body", "code", "param"),
    [
        (b"junk", "invalid_json", None),
        (b"[]", "invalid_request", None),
        ({}, "invalid_request", "method"),
        ({"id": [], "method": "usage"}, "invalid_request", "id"),
        ({"method": "configure", "endpoint": "http://x"}, "invalid_request", "method"),
        ({"method": "cancel", "request": 1}, "invalid_request", "method"),
        ({**RESPOND, "messages": [1]}, "invalid_request", "messages[0]"),
    ],
)
def test_an_invalid_request_is_refused_before_anything_is_sent(
    body: Any, code: str, param: str | None
) -> None:
    async def scenario() -> None:
        async with route() as (parts, server):
            client = Client()
            with pytest.raises(RequestRefused) as caught:
                await call(parts, body, client)
            assert (caught.value.status, caught.value.code, caught.value.param) == (400, code, param)
            assert (client.channel.status, server.asked) == (0, [])

    run(scenario())


def test_only_responses_are_refused_by_a_full_gateway() -> None:
    async def scenario() -> None:
        async with route(MODELS) as (parts, _):
            with pytest.raises(RequestRefused) as caught:
                await call(parts, RESPOND, Client(), is_full=True)
            assert caught.value.code == "server_is_overloaded"
            client = Client()
            await call(parts, {"method": "models"}, client, is_full=True)
            assert [model["id"] for model in client.lines[-1]["models"]] == ["one"]

    run(scenario())


def test_a_failure_before_the_first_line_becomes_an_http_error() -> None:
    body = {"error": {"message": "slow", "type": "x", "code": "rate_limit_exceeded"}}

    async def scenario() -> None:
        async with route(MODELS, [answer(429, body, retry_after="77")]) as (parts, _):
            client = Client()
            with pytest.raises(RequestRefused) as caught:
                await call(parts, RESPOND, client)
        error = caught.value
        assert (error.status, error.code) == (429, "rate_limit_exceeded")
        assert [*error.headers] == [("retry-after", "77")]
        assert error.message == "Too many requests: wait 77 s and try again (slow)."
        assert client.channel.status == 0

    run(scenario())


def test_a_failure_after_the_first_line_becomes_the_last_line() -> None:
    failed = {"id": "r", "status": "failed", "error": {"code": "server_error", "message": "boom"}}
    events = [*EVENTS[:5], {"type": "response.failed", "sequence_number": 5, "response": failed}]

    async def scenario() -> None:
        async with route(MODELS, streamed(events)) as (parts, _):
            client = Client()
            await call(parts, RESPOND, client)
        assert [line["type"] for line in client.lines] == ["text", "error"]
        assert client.lines[-1]["message"].startswith("The gateway failed: try again")
        assert client.channel.is_ended

    run(scenario())


def test_the_settings_of_a_request_are_used() -> None:
    system = {"role": 3, "content": "Be brief."}
    settings = {"errors_as_text": True, "system_role": "developer", "citations": "end"}
    request = {**RESPOND, "messages": [system, *RESPOND["messages"]], **settings}
    body = {"error": {"message": "slow", "type": "x", "code": "rate_limit_exceeded"}}

    async def scenario() -> None:
        async with route(MODELS, [answer(429, body, retry_after="77")]) as (parts, server):
            client = Client()
            await call(parts, request, client)
        assert server.asked[-1].json["input"][0]["role"] == "developer"
        text, error = client.lines
        assert text["value"] == f"\n\n**Error:** {error['message']}\n\n"
        assert (client.exchange.status, error["type"], error["as_text"]) == (200, "error", True)

    run(scenario())


def test_a_disconnect_cancels_the_turn_and_nothing_follows() -> None:
    async def scenario() -> None:
        async with route(MODELS, [send(head() + sse(EVENTS[:5])), stall]) as (parts, server):
            client = Client()
            turn = asyncio.create_task(call(parts, RESPOND, client))
            await client.channel.changed.wait()
            client.channel.disconnect()
            await turn
            await server.hung_up()
        assert [line["type"] for line in client.lines] == ["text"]

    run(scenario())


def test_usage_is_counted_per_tenant() -> None:
    ada, bob = (ClientKey(name=name, digest=b"") for name in ("ada", "bob"))

    async def scenario() -> None:
        async with route(MODELS, streamed()) as (parts, _):
            await call(parts, RESPOND, Client(), ada)
            totals = []
            for key in (ada, bob):
                client = Client()
                await call(parts, {"method": "usage"}, client, key)
                totals.append(client.lines[-1]["usage"]["total"]["requests"])
        assert totals == [1, 0]

    run(scenario())


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:80"),
        ("0.0.0.0", "http://127.0.0.1:80"),
        ("", "http://127.0.0.1:80"),
        ("::", "http://[::1]:80"),
        ("fe80::1", "http://[fe80::1]:80"),
        ("box.local", "http://box.local:80"),
    ],
)
def test_a_gateway_on_all_addresses_is_reached_on_the_loopback_address(host: str, url: str) -> None:
    assert own_url(host, 80) == url


def test_only_post_is_routed() -> None:
    assert {path: [*methods] for path, methods in editor_routes("http://127.0.0.1:1").items()} == {
        "parts": ["POST"]
    }
