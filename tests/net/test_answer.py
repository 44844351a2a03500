"""Reading a response: timeouts, limits, failures in the middle of a body."""

from __future__ import annotations

import pytest

from penstock.errors import (
    AuthenticationError,
    NetworkError,
    ProtocolError,
)
from tests.client.asking import QUICK, REQUEST, asking
from tests.client.server import (
    head,
    run,
    send,
    stall,
)


def test_a_body_that_stops_is_an_idle_timeout() -> None:
    async def main() -> None:
        script = [send(head(content_type="application/json", content_length="9") + b"{"), stall]
        async with asking(script, idle_timeout=QUICK) as (client, server):
            with pytest.raises(NetworkError) as caught:
                await client.create(REQUEST)
            assert caught.value.phase == "idle"
            await server.hung_up()

    run(main())


def test_an_error_whose_body_stops_is_still_raised() -> None:
    async def main() -> None:
        script = [send(head(401, "text/plain", content_length="99") + b"who are you"), stall]
        async with asking(script, idle_timeout=QUICK) as (client, _):
            with pytest.raises(AuthenticationError, match="who are you"):
                await client.create(REQUEST)

    run(main())


def test_an_answer_beyond_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        script = [send(head(content_type="application/json") + b"[" + b"0," * 600)]
        async with asking(script) as (client, _):
            from penstock.net import answer as module

            monkeypatch.setattr(module, "DEFAULT_LIMIT", 1000)
            with pytest.raises(ProtocolError, match="larger than 1000 bytes"):
                await client.models()

    run(main())
