"""The address for monitoring serves metrics and health, and nothing else."""

from __future__ import annotations

import asyncio
import json

from penstock.gateway.gateway import Gateway
from penstock.gateway.http.access import key_digest
from penstock.gateway.metrics_app import MetricsApp
from penstock.gateway.settings import ClientKey, Settings
from penstock.store.memory import MemoryStore
from tests.gateway.fake_channels import FakeSocketChannel
from tests.gateway.in_process import Caller

KEY = ClientKey(name="a", digest=key_digest("pk_a"))
OWN = ("127.0.0.1", 9464)


def statuses(settings: Settings, *requests: tuple[str, dict[str, str]]) -> list[int]:
    """Return the status of each request: its path and its headers."""

    async def run() -> list[int]:
        gateway = Gateway(settings, store=MemoryStore())
        found = []
        for path, headers in requests:
            caller = Caller(gateway, path, method="GET", headers=headers, app=MetricsApp)
            await caller.task
            found.append(caller.status)
        await gateway.aclose()
        return found

    return asyncio.run(run())


def test_without_a_token_every_program_on_this_machine_reads_the_metrics() -> None:
    settings = Settings(keys=(KEY,), metrics=OWN)
    paths = ("/metrics", "/healthz", "/readyz", "/v1/models", "/v1/usage", "/")
    assert statuses(settings, *((path, {}) for path in paths)) == [200, 200, 200, 404, 404, 404]


def test_with_a_token_only_the_token_counts_and_no_clients_key() -> None:
    settings = Settings(keys=(KEY,), metrics=OWN, metrics_digest=key_digest("secret"))
    tokens = ("", "wrong", "pk_a", "secret")
    requests = [("/metrics", {"authorization": f"Bearer {token}"}) for token in tokens]
    assert statuses(settings, *requests, ("/healthz", {})) == [401, 401, 401, 200, 200]


def test_web_pages_are_refused() -> None:
    settings = Settings(metrics=OWN)
    page, rebound = {"origin": "https://evil.example"}, {"host": "evil.example"}
    assert statuses(settings, ("/metrics", page), ("/metrics", rebound)) == [403, 403]


def test_a_websocket_is_refused() -> None:
    async def run() -> None:
        gateway = Gateway(Settings(metrics=OWN), store=MemoryStore())
        channel = FakeSocketChannel(headers={"host": "127.0.0.1"})
        await MetricsApp(gateway).serve_socket(channel)
        assert channel.refused is not None
        status, _, body = channel.refused
        assert status == 404
        assert "only metrics" in json.loads(body)["error"]["message"]
        await gateway.aclose()

    asyncio.run(run())
