"""The gateway as an ASGI application: paths, methods, access, faults, and its start and end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock.gateway.app import GatewayApp
from penstock.gateway.gateway import Gateway
from penstock.gateway.http.exchange import Exchange
from penstock.gateway.routes import Route
from penstock.gateway.settings import ClientKey, Settings
from penstock.store.memory import MemoryStore
from tests.gateway.in_process import call, with_gateway
from tests.gateway.running import Running

BODY = {"model": "demo", "input": "say exactly: hello"}


@pytest.mark.parametrize(
    "path", ["/v1/responses", "/responses", "/v1/responses/", "/v1/responses?accent=openai"]
)
def test_responses_are_made_with_and_without_v1(penstock: Running, path: str) -> None:
    assert penstock.ask(BODY, path).text == "hello"


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/v1/v1/responses", "/v1 twice"),
        ("/anything", "no such path"),
    ],
)
def test_an_unknown_path_names_the_supported_one(penstock: Running, path: str, words: str) -> None:
    reply = penstock.ask(BODY, path)
    assert (reply.status, reply.error["code"], reply.error["type"]) == (404, "not_found", "not_found")
    assert words in reply.error["message"]
    assert "POST /v1/responses" in reply.error["message"]


CODEX_ENDPOINTS = [
    ("GET", "/v1/models?client_version=0.166.0", 200, ""),
    ("POST", "/v1/responses", 200, ""),
    ("POST", "/v1/responses/compact", 200, ""),
    ("GET", "/v1/responses", 405, "method_not_allowed"),
    # Features of OpenAI's own service. Codex goes on without them after a 404.
    ("POST", "/v1/alpha/search", 404, "not_found"),
    ("POST", "/v1/memories/trace_summarize", 404, "not_found"),
    ("POST", "/v1/realtime/calls", 404, "not_found"),
    ("POST", "/v1/images/generations", 404, "not_found"),
    ("POST", "/v1/images/edits", 404, "not_found"),
    ("POST", "/v1/files", 404, "not_found"),
]


@pytest.mark.parametrize(("method", "path", "status", "code"), CODEX_ENDPOINTS)
def test_every_endpoint_that_codex_calls_is_answered(method: str, path: str, status: int, code: str) -> None:
    async def test(gateway: Gateway) -> None:
        caller = await call(gateway, path, method=method, input="hello")
        assert caller.status == status
        assert caller.headers["content-type"] == "application/json"
        assert (caller.error["code"] if caller.json.get("error") else "") == code

    with_gateway(test)


def test_a_wrong_method_is_refused_with_the_right_one(penstock: Running) -> None:
    reply = penstock.ask(path="/v1/responses", method="GET")
    assert (reply.status, reply.headers["allow"]) == (405, "POST")


def test_health_and_metrics(penstock: Running) -> None:
    assert penstock.ask(path="/healthz", method="GET").json == {"status": "ok"}
    assert penstock.ask(path="/readyz", method="GET").json == {"status": "ready"}
    assert penstock.ask(path="/", method="GET").json["name"] == "penstock"
    penstock.whole("demo")
    metrics = penstock.ask(path="/metrics", method="GET").body.decode()
    assert (
        'penstock_turns_total{model="demo",target="demo",outcome="completed",closer="upstream",key="local"}'
        in metrics
    )
    assert 'penstock_tokens_total{model="demo",kind="output",key="local"}' in metrics


def test_head_is_get_without_a_body(penstock: Running) -> None:
    connection = penstock.connect()
    connection.request("HEAD", "/healthz")
    answer = connection.getresponse()
    assert (answer.status, answer.getheader("content-length"), answer.read()) == (200, "15", b"")
    connection.close()


# In this process


def test_a_fault_of_a_handler_is_a_500_and_the_next_request_is_served(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(gateway: Gateway) -> None:
        monkeypatch.setattr(Gateway, "refuse_if_full", _raise)
        failed = await call(gateway, input="Hi")
        assert (failed.status, failed.error["code"]) == (500, "internal_error")
        assert b"planted" not in failed.body
        monkeypatch.undo()
        assert (await call(gateway, input="say exactly: ok")).status == 200
        metrics = gateway.metrics.render()
        assert b'penstock_requests_total{route="responses",status="500"} 1' in metrics
        assert b'penstock_requests_total{route="responses",status="200"} 1' in metrics

    with_gateway(test)
    assert "planted" not in caplog.text


def _raise(*_: object) -> None:
    raise OSError("planted")


def test_a_path_that_does_not_exist_is_counted_as_other() -> None:
    """What clients make up must not become a label."""

    async def test(gateway: Gateway) -> None:
        assert (await call(gateway, "/planted/path")).status == 404
        metrics = gateway.metrics.render()
        assert b'penstock_requests_total{route="other",status="404"} 1' in metrics
        assert b"planted" not in metrics

    with_gateway(test)


@pytest.mark.parametrize(
    ("path", "method", "status"),
    [
        ("/healthz", "GET", 200),
        ("/readyz", "GET", 200),
        ("/v1/models", "GET", 401),
        ("/v1/responses", "POST", 401),
    ],
)
def test_only_the_checks_of_health_are_open_where_there_are_keys(path: str, method: str, status: int) -> None:
    async def test(gateway: Gateway) -> None:
        assert (await call(gateway, path, method=method)).status == status

    with_gateway(test, settings=Settings(keys=(ClientKey(name="a", digest=bytes(32)),)))


ORIGIN = "https://app.example"


@pytest.mark.parametrize("path", ["/healthz", "/nowhere"])
def test_a_page_of_an_allowed_origin_can_read_every_answer(path: str) -> None:
    async def test(gateway: Gateway) -> None:
        caller = await call(gateway, path, method="GET", headers={"origin": ORIGIN})
        assert caller.headers["access-control-allow-origin"] == ORIGIN
        exposed = caller.headers["access-control-expose-headers"].split(", ")
        assert {"retry-after", "x-should-retry"} <= set(exposed)

    with_gateway(test, settings=Settings(allowed_origins=(ORIGIN,)))


def test_a_preflight_allows_the_headers_that_the_page_asks_for() -> None:
    async def test(gateway: Gateway) -> None:
        asked = {"origin": ORIGIN, "access-control-request-headers": "x-stainless-lang, authorization"}
        caller = await call(gateway, method="OPTIONS", headers=asked)
        assert (caller.status, caller.body) == (204, b"")
        assert caller.headers["access-control-allow-headers"] == "x-stainless-lang, authorization"
        refused = await call(gateway, method="OPTIONS", headers={"origin": "https://evil.example"})
        assert refused.status == 403
        assert "access-control-allow-origin" not in refused.headers

    with_gateway(test, settings=Settings(allowed_origins=(ORIGIN,)))


def test_a_client_that_disconnects_while_it_sends_is_not_answered() -> None:
    async def test(gateway: Gateway) -> None:
        sent: list[Any] = []

        async def receive() -> Any:
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)

        headers = [(b"host", b"127.0.0.1")]
        scope = {"type": "http", "method": "POST", "path": "/v1/responses", "query_string": b""}
        await GatewayApp(gateway)({**scope, "headers": headers}, receive, send)
        assert sent == []

    with_gateway(test)


def test_the_application_starts_and_ends_with_its_server() -> None:
    """ASGI's lifespan: pruning begins, and at the end running turns are drained and the store is closed."""

    class ClosingStore(MemoryStore):
        is_closed = False

        async def aclose(self) -> list[str]:
            self.is_closed = True
            return await super().aclose()

    async def test() -> None:
        store = ClosingStore()
        gateway = Gateway(Settings(), store=store)
        messages: asyncio.Queue[Any] = asyncio.Queue()
        sent: list[str] = []

        async def send(message: Any) -> None:
            sent.append(message["type"])

        messages.put_nowait({"type": "lifespan.startup"})
        living = asyncio.create_task(GatewayApp(gateway)({"type": "lifespan"}, messages.get, send))
        while not sent:
            await asyncio.sleep(0)
        assert not gateway.is_draining
        messages.put_nowait({"type": "lifespan.shutdown"})
        await living
        assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
        assert gateway.is_draining
        assert store.is_closed

    asyncio.run(test())


async def show_key(_: Gateway, exchange: Exchange, key: ClientKey | None) -> None:
    exchange.answer(200, str(key).encode())


async def fail_late(_: Gateway, exchange: Exchange, key: ClientKey | None) -> None:  # noqa: ARG001
    exchange.answer(200, b"begun")
    raise OSError("planted")


@pytest.mark.parametrize(("handler", "body"), [(show_key, b"None"), (fail_late, b"begun")])
def test_another_package_can_add_a_route(handler: Any, body: bytes) -> None:
    """A fault after the answer has begun cannot become a second answer."""

    async def test(gateway: Gateway) -> None:
        sent: list[Any] = []

        async def receive() -> Any:
            raise AssertionError

        async def send(message: Any) -> None:
            sent.append(message)

        app = GatewayApp(gateway, {"extra": {"GET": Route(handler)}})
        scope = {"type": "http", "method": "GET", "path": "/extra", "query_string": b""}
        await app({**scope, "headers": [(b"host", b"localhost")]}, receive, send)
        assert len(sent) == 2
        assert (sent[0]["status"], sent[1]["body"]) == (200, body)

    with_gateway(test)
