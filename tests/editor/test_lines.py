"""Lines of JSON to a client that may not read them."""

from __future__ import annotations

import asyncio

import pytest

from penstock.editor.lines import LineWriter
from penstock.gateway.errors import ClientDisconnected
from penstock.gateway.http.exchange import Exchange, Message
from penstock.gateway.settings import Limits


def test_a_client_that_reads_nothing_is_let_go() -> None:
    async def main() -> list[str]:
        sent: list[str] = []

        async def receive() -> Message:
            raise AssertionError("nothing is read here")

        async def send(message: Message) -> None:
            sent.append(message["type"])
            if len(sent) > 2:
                await asyncio.get_running_loop().create_future()

        scope = {"type": "http", "method": "POST", "path": "/v1/parts", "query_string": b"", "headers": []}
        writer = LineWriter(Exchange(scope, receive, send), "r1", Limits(client_timeout=0.01))
        await writer.send({"type": "part"})
        with pytest.raises(ClientDisconnected):
            await writer.send({"type": "part"})
        return sent

    assert asyncio.run(main()) == ["http.response.start", "http.response.body", "http.response.body"]
