"""An upstream against a scripted server, with requests rendered by dialects."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from penstock.dialects.plan import Plan, UpstreamRequest
from penstock.errors import OpenResponsesError
from penstock.net.source import Inbox, UpstreamSource
from penstock.protocol.request import CreateResponse
from penstock.upstream.http import HttpUpstream
from penstock.upstream.target import UpstreamTarget
from tests.client.server import Script, Server

KEY = "sk-test-0123456789"
OTHER = "sk-other-987654321"


class Clock:
    """A clock that moves only when `now` is set."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def target(base_url: str, **settings: Any) -> UpstreamTarget:
    return UpstreamTarget(**{"name": "test", "base_url": base_url, **settings})


def rendered(upstream: HttpUpstream, model: str = "gemini-2.5-flash", key: str = "") -> UpstreamRequest:
    request = CreateResponse(model=model, input="Hello")
    return upstream.dialect.render(Plan(request=request, target=upstream.target(model, key)))


@asynccontextmanager
async def sending(
    *scripts: Script, path: str = "", **settings: Any
) -> AsyncIterator[tuple[HttpUpstream, Server]]:
    async with Server(*scripts) as server:
        upstream = HttpUpstream(target(server.url + path, **settings))
        try:
            yield upstream, server
        finally:
            await upstream.aclose()


async def ask(
    upstream: HttpUpstream, *, key: str = "", headers: Mapping[str, str] | None = None
) -> UpstreamSource:
    return await upstream.send(rendered(upstream, key=key), key=key, headers=headers or {})


async def send_failing(upstream: HttpUpstream, *, key: str = "") -> OpenResponsesError:
    with pytest.raises(OpenResponsesError) as caught:
        await ask(upstream, key=key)
    return caught.value


async def read_body(source: UpstreamSource) -> bytes:
    """Return the body to its end."""
    inbox, body = Inbox(source), b""
    while data := await inbox.take():
        body += data
    source.close()
    return body
