"""A transport to a scripted server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from penstock.net.answer import HttpAnswer
from penstock.net.config import ConnectionConfig
from penstock.net.transport import Transport
from penstock.net.urls import read_address
from tests.client.server import Script, Server


class ScriptedTransport:
    """A transport and the server that it sends to."""

    def __init__(self, server: Server, transport: Transport) -> None:
        self.server, self.transport = server, transport

    async def get(self, path: str = "/", **options: Any) -> HttpAnswer:
        return await self.transport.send("GET", self.server.url + path, **options)


@asynccontextmanager
async def transport_to(
    *scripts: Script, query: str = "", **settings: Any
) -> AsyncIterator[ScriptedTransport]:
    async with Server(*scripts) as server:
        address = read_address(f"{server.url}/v1{query}")
        transport = Transport(ConnectionConfig(**settings), address)
        try:
            yield ScriptedTransport(server, transport)
        finally:
            await transport.aclose()
