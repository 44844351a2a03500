"""The gateway with its endpoint for editors, mounted in another application."""

from __future__ import annotations

import asyncio
import http.client
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from penstock.application import Application, private_gateway
from penstock.client.client import OpenResponsesClient
from penstock.client.config import ClientConfig
from penstock.errors import AuthenticationError, StoreError
from penstock.gateway.http.access import key_digest
from penstock.gateway.http.asgi import Message, Receive, Send
from penstock.gateway.settings import ClientKey, Limits, Settings
from penstock.protocol.request import CreateResponse
from penstock.upstream.target import UpstreamTarget
from tests.asgi_server import PATIENCE, asgi_server
from tests.client.server import run

Json = dict[str, Any]


class Site:
    """An application with Penstock mounted under `/v1`."""

    def __init__(self, penstock: Application) -> None:
        self._penstock = penstock

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or scope["path"].startswith("/v1/"):
            await self._penstock(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"the site itself"})


@contextmanager
def mounted(tmp_path: Path) -> Iterator[int]:
    """Yield the port of a plain server."""

    def site(port: int) -> Site:
        settings = Settings(port=port, store=str(tmp_path / "responses.sqlite"))
        return Site(Application(settings, environment={}))

    with asgi_server(site) as port:
        yield port


def post(port: int, path: str, body: Json | None = None) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.request("POST", path, json.dumps(body), {"content-type": "application/json"})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def test_a_gateway_starts_without_what_few_gateways_need() -> None:
    """Compactions need ciphers, a configuration file TOML: both are imported when they are used."""
    script = (
        "import sys\n"
        "before = set(sys.modules)\n"  # a measurement of coverage has its own imports
        "import penstock.application\n"
        "from penstock.gateway.history.sealing import load_sealer\n"
        "load_sealer({}, None)\n"
        "imported = {'cryptography', 'tomllib', 'difflib'} & (set(sys.modules) - before)\n"
        "sys.exit(', '.join(sorted(imported)) or None)\n"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=60)
    assert (result.returncode, result.stderr) == (0, b"")


def test_a_mounted_application_serves_responses_and_parts(tmp_path: Path) -> None:
    with mounted(tmp_path) as port:
        assert post(port, "/about") == (200, b"the site itself")

        status, body = post(port, "/v1/responses", {"model": "demo", "input": "Hello!"})
        response = json.loads(body)
        assert (status, response["status"]) == (200, "completed")
        assert response["output"][-1]["content"][0]["text"]

        message = {"role": 1, "content": [{"type": "text", "value": "Hello!"}]}
        status, body = post(port, "/v1/parts", {"method": "respond", "model": "demo", "messages": [message]})
        assert status == 200, body
        lines = [json.loads(line) for line in body.splitlines() if line]
        assert lines[-1]["type"] == "done"
        assert "".join(line["value"] for line in lines if line["type"] == "text")
    assert (tmp_path / "responses.sqlite").is_file()


async def started(application: Application) -> list[Message]:
    """Return the lifespan messages of an application that starts and stops at once."""
    messages = [{"type": "lifespan.shutdown"}, {"type": "lifespan.startup"}]
    sent: list[Message] = []

    async def receive() -> Message:
        return messages.pop()

    async def send(message: Message) -> None:
        sent.append(message)

    await application({"type": "lifespan"}, receive, send)
    return sent


def test_a_store_that_cannot_be_opened_fails_the_startup_with_a_message(tmp_path: Path) -> None:
    (sent,) = run(started(Application(Settings(store=str(tmp_path)), environment={})))
    assert sent["type"] == "lifespan.startup.failed"
    assert str(tmp_path) in sent["message"]


def test_a_server_without_lifespan_messages_gets_an_error_that_explains_it() -> None:
    async def nothing(*_: object) -> Message:
        return {}

    application = Application(Settings(store="none"), environment={})
    with pytest.raises(RuntimeError, match="lifespan"):
        run(application({"type": "http"}, nothing, nothing))  # type: ignore[arg-type]


def lifespan(application: Application, *requests: Json) -> list[Json]:
    """Start an application, send it a request, and stop it; return its lifespan messages."""
    sent: list[Json] = []

    async def main() -> None:
        started, stop = asyncio.Event(), asyncio.Event()
        messages = iter(["lifespan.startup", "lifespan.shutdown"])

        async def receive() -> Message:
            if sent:
                await stop.wait()
            return {"type": next(messages)}

        async def send(message: Message) -> None:
            sent.append(dict(message))
            started.set()

        living = asyncio.create_task(application({"type": "lifespan"}, receive, send))
        await started.wait()
        for request in requests:
            await ask(application, request)
        stop.set()
        async with asyncio.timeout(PATIENCE):
            await living

    run(main())
    return sent


async def ask(application: Application, body: Json) -> None:
    requests = [{"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}]

    async def receive() -> Message:
        return requests.pop() if requests else await asyncio.get_running_loop().create_future()

    async def send(_: Message) -> None: ...

    headers = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": "/v1/responses", "query_string": b""}
    await application({**scope, "headers": headers}, receive, send)


def test_a_failed_startup_closes_the_store(tmp_path: Path) -> None:
    store = str(tmp_path / "responses.sqlite")
    wrong = UpstreamTarget(name="wrong", base_url="http://127.0.0.1:9", dialect="none")
    (failed,) = lifespan(Application(Settings(store=store, targets=(wrong,)), environment={}))
    assert (failed["type"], "none" in failed["message"]) == ("lifespan.startup.failed", True)
    started, ended = lifespan(Application(Settings(store=store), environment={}))
    assert (started["type"], ended["type"]) == ("lifespan.startup.complete", "lifespan.shutdown.complete")


def test_a_background_turn_does_not_prevent_shutdown(tmp_path: Path) -> None:
    settings = Settings(store=str(tmp_path / "responses.sqlite"), limits=Limits(drain=0.1))
    request = {"model": "demo", "input": "Be silent.", "background": True}
    assert (
        lifespan(Application(settings, environment={}), request)[-1]["type"] == "lifespan.shutdown.complete"
    )


def test_a_private_gateway_needs_no_key_and_writes_no_file(tmp_path: Path) -> None:
    key = ClientKey(name="laptop", digest=b"0" * 32)
    settings = Settings(host="0.0.0.0", keys=(key,), store=str(tmp_path / "responses.sqlite"), record=True)

    async def test() -> None:
        async with private_gateway(settings, environment={}) as private:
            assert private.url.startswith("http://127.0.0.1:")
            async with OpenResponsesClient(ClientConfig(private.url)) as client:
                assert [model["id"] for model in await client.models()] == ["demo"]

    run(test())
    assert list(tmp_path.iterdir()) == []


def test_a_private_gateway_ends_with_its_turns() -> None:
    async def test() -> None:
        async with private_gateway(Settings(), environment={}) as private:
            client = OpenResponsesClient(ClientConfig(private.url, retries=0, resumes=0))
            request = CreateResponse(model="demo", input="Answer slowly, with 500 words.")
            stream = client.stream(request)
            assert (await anext(stream)).type == "response.created"
        types = [event.type async for event in stream]
        assert types[-1] == "response.failed"
        await client.aclose()

    run(test())


def test_a_private_gateway_accepts_only_its_own_key() -> None:
    own = ClientKey(name="local", digest=key_digest("pk_own"))

    async def listed(url: str, key: str) -> list[str]:
        async with OpenResponsesClient(ClientConfig(url, key=lambda: key, retries=0)) as client:
            return [model["id"] for model in await client.models()]

    async def test() -> None:
        async with private_gateway(Settings(), keys=(own,), environment={}) as private:
            assert await listed(private.url, "pk_own") == ["demo"]
            for wrong in ("", "pk_other"):
                with pytest.raises(AuthenticationError):
                    await listed(private.url, wrong)

    run(test())


def test_private_gateways_with_the_same_store_have_a_file_each(tmp_path: Path) -> None:
    store = str(tmp_path / "responses.sqlite")

    async def test() -> None:
        async with private_gateway(Settings(), store=store, environment={}) as first:
            assert first.store == store
            async with private_gateway(Settings(), store=store, environment={}) as second:
                assert second.store == str(tmp_path / "responses-2.sqlite")
                assert second.gateway.sealer.open("", first.gateway.sealer.seal("", b"kept")) == b"kept"
        async with private_gateway(Settings(), store=store, environment={}) as third:
            assert third.store == store

    run(test())


def test_a_private_gateway_reports_a_store_that_cannot_be_used(tmp_path: Path) -> None:
    async def test() -> None:
        async with private_gateway(Settings(), store=str(tmp_path), environment={}):
            raise AssertionError("it has no store")

    with pytest.raises(StoreError):
        run(test())
