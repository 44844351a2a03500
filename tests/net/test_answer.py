"""Reading a response: timeouts, limits, failures in the middle of a body."""

from __future__ import annotations

import asyncio

import pytest

from penstock.errors import (
    AuthenticationError,
    NetworkError,
    ProtocolError,
    ServerError,
)
from penstock.net.answer import HttpAnswer
from tests.client.asking import QUICK, REQUEST, asking
from tests.client.server import (
    CHUNKED_HEAD,
    LAST_CHUNK,
    Connection,
    answer,
    chunk,
    gate,
    head,
    keep,
    run,
    send,
    stall,
)
from tests.net.transports import transport_to


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


def test_the_headers_are_read_in_a_normal_form_and_masked() -> None:
    async def main() -> None:
        key = "sk-test-0123456789"
        script = [answer(200, b"x", f"Text/Plain-{key}; charset=utf-8", **{"x-request-id": f"req-{key}"})]
        async with transport_to(script, key=lambda: key) as to:
            received = await to.get()
            assert (received.status, received.content_type) == (200, "text/plain-[key]")
            assert received.request_id == "req-[key]"
            assert received.mask(f"Bearer {key}") == "[key]"
            assert received.mask_value([{"a": key}]) == [{"a": "[key]"}]
            assert received.mask_bytes(key.encode()) == b"[key]"
            received.close()

    run(main())


async def read_into(data: bytearray, received: HttpAnswer) -> None:
    while read := await received.read():
        data += read


def test_data_before_a_disconnect_is_returned_before_the_failure() -> None:
    """Even if the disconnect arrives before the data is read."""

    async def main() -> None:
        ended = asyncio.Event()

        async def close(connection: Connection) -> None:
            connection.writer.close()
            await connection.writer.wait_closed()
            ended.set()

        async with transport_to([send(CHUNKED_HEAD + chunk(b"first") + b"9\r\nsec"), close]) as to:
            received = await to.get()
            await ended.wait()
            for _ in range(20):
                await asyncio.sleep(0)
            data = bytearray()
            with pytest.raises(NetworkError) as caught:
                await read_into(data, received)
            assert data == b"firstsec"
            assert (caught.value.phase, caught.value.code) == ("cut", "network_error")
            with pytest.raises(NetworkError):
                await received.read()  # every further read fails as well

    run(main())


def test_the_first_byte_and_the_following_have_different_timeouts() -> None:
    async def main() -> None:
        scripts = [[send(CHUNKED_HEAD), stall], [send(CHUNKED_HEAD + chunk(b"x")), stall]]
        async with transport_to(*scripts, first_byte_timeout=QUICK, idle_timeout=QUICK) as to:
            for phase, before in (("first_byte", b""), ("idle", b"x")):
                received = await to.get()
                assert not before or await received.read() == before
                with pytest.raises(NetworkError) as caught:
                    await received.read()
                assert caught.value.phase == phase

    run(main())


@pytest.mark.parametrize(
    ("connection", "keep_alive", "expected"),
    [
        ("keep-alive", True, True),
        ("close", True, False),
        ("Close", True, False),
        ("keep-alive", False, False),
    ],
)
def test_finish_returns_only_a_reusable_connection_to_the_pool(
    connection: str, keep_alive: bool, expected: bool
) -> None:
    async def main() -> None:
        ended = asyncio.Event()

        async def end(_: Connection) -> None:
            ended.set()

        started = send(head(transfer_encoding="chunked", connection=connection) + chunk(b"x"))
        script = [started, gate, send(LAST_CHUNK), end, keep]
        async with transport_to(script, [answer(200)], keep_alive=keep_alive) as to:
            received = await to.get()
            assert await received.read() == b"x"
            received.finish()
            to.server.opened.set()
            await ended.wait()
            await settled()
            (await to.get()).close()
            assert (to.server.connections == 1) is expected

    run(main())


async def settled() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def test_a_body_that_has_arrived_completely_is_finished_at_once() -> None:
    async def main() -> None:
        kept = send(head(transfer_encoding="chunked", connection="keep-alive") + chunk(b"x") + LAST_CHUNK)
        async with transport_to([kept, keep], [kept, keep]) as to:
            for _ in range(2):
                (await to.get()).finish()
            assert to.server.connections == 1

    run(main())


def test_finish_closes_a_connection_whose_body_does_not_end() -> None:
    async def main() -> None:
        started = send(head(transfer_encoding="chunked", connection="keep-alive") + chunk(b"x"))
        async with transport_to([started, stall]) as to:
            received = await to.get()
            received.finish()
            received.finish()
            received.close()
            await to.server.hung_up()

    run(main())


def test_only_the_time_spent_in_read_counts_for_the_timeouts() -> None:
    async def main() -> None:
        script = [send(CHUNKED_HEAD + chunk(b"x")), gate, send(chunk(b"y") + LAST_CHUNK)]
        async with transport_to(script, idle_timeout=QUICK) as to:
            received = await to.get()
            assert await received.read() == b"x"
            await asyncio.sleep(2 * QUICK)
            to.server.opened.set()
            assert await received.read() == b"y"
            received.close()

    run(main())


def test_the_body_of_an_error_is_read_up_to_a_limit() -> None:
    async def main() -> None:
        async with transport_to([send(head(500, "text/plain") + b"x" * 200_000), stall]) as to:
            with pytest.raises(ServerError) as caught:
                await to.get()
            assert set(caught.value.message.rstrip("…. ")) <= set("x")
            await to.server.hung_up()

    run(main())
