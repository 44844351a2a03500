"""Requests about whose end two servers could disagree: each is refused, and the connection is closed."""

from __future__ import annotations

import pytest

from tests.net.server.attacks import ATTACKS, UNAMBIGUOUS
from tests.net.server.fake_connections import FakeClient, with_client


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
@pytest.mark.parametrize("size", [1_000_000, 1])
def test_an_ambiguous_request_is_refused_and_nothing_after_it_is_read(attack: bytes, size: int) -> None:
    @with_client
    async def scenario(client: FakeClient) -> None:
        for at in range(0, len(attack), size):
            data = await client.send(attack[at : at + size])
        assert data.startswith(b"HTTP/1.1 400 Bad Request\r\n")
        assert data.endswith(b" invalid_http")
        assert data.count(b"HTTP/1.1 ") == 1
        assert client.transport.is_closed
        assert all(channel.path != "/smuggled" for channel in client.app.channels)

    scenario()


@pytest.mark.parametrize("unusual", UNAMBIGUOUS.values(), ids=UNAMBIGUOUS)
def test_an_unusual_request_whose_end_is_clear_is_served(unusual: bytes) -> None:
    """Standards allow all of these, and define where they end."""

    @with_client
    async def scenario(client: FakeClient) -> None:
        data = await client.send(unusual)
        assert data.count(b"HTTP/1.1 200 OK\r\n") == 2
        assert b"POST /  hello" in data
        assert data.endswith(b"GET /smuggled  ")

    scenario()
