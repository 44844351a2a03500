"""Sending requests: keys, headers, and connections that are reused or fail."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from penstock.client.client import OpenResponsesClient
from penstock.client.config import ClientConfig
from penstock.errors import (
    AuthenticationError,
    InvalidRequestError,
    NetworkError,
    OpenResponsesError,
    ProtocolError,
)
from penstock.net.config import ConnectionConfig, KeySource
from penstock.net.masking import Secrets
from penstock.net.transport import Transport
from penstock.net.urls import read_address
from tests.client.asking import KEY, REQUEST, Clock, asking, read_until_failure, texts_of_exception
from tests.client.server import (
    HELLO,
    Server,
    answer,
    head,
    keep,
    run,
    send,
    sse,
    streamed,
)
from tests.net.transports import transport_to

RESPONSE = HELLO[-1]["response"]


def test_a_connection_is_reused() -> None:
    async def main() -> None:
        script = [answer(200, {"data": []}, connection="keep-alive"), keep]
        async with asking(script, script, script) as (client, server):
            for _ in range(3):
                await client.models()
            assert server.connections == 1

    run(main())


async def close_on_the_next(connection: Any) -> None:
    await connection.request()


def test_a_reused_connection_that_was_closed_is_replaced_without_a_retry() -> None:
    async def main() -> None:
        stale = [answer(200, {"data": []}, connection="keep-alive"), close_on_the_next]
        clock = Clock()
        async with asking(stale, [answer(200, {"data": []})], clock=clock, retries=1) as (client, server):
            await client.models()
            await client.models()
            assert server.connections == 2
        assert clock.waits == []

    run(main())


def test_a_post_that_the_server_may_have_read_is_not_sent_again() -> None:
    """Decision 32: its connection breaks, reused or not, before the response."""

    async def main() -> None:
        stale = [answer(200, RESPONSE, connection="keep-alive"), close_on_the_next]
        async with transport_to(stale, [answer(200, RESPONSE)]) as to:
            first = await to.transport.send("POST", to.server.url, body=b"{}")
            await first.body()
            with pytest.raises(NetworkError) as caught:
                await to.transport.send("POST", to.server.url, body=b"{}")
            assert caught.value.phase == "cut"
            assert to.server.connections == 1

    run(main())


def test_without_retries_no_connection_is_reused() -> None:
    async def main() -> None:
        script = [answer(200, RESPONSE, connection="keep-alive"), keep]
        async with asking(script, script, retries=0) as (client, server):
            await client.create(REQUEST)
            await client.create(REQUEST)
            assert server.connections == 2

    run(main())


def test_a_refused_connection_is_reported_with_its_phase() -> None:
    async def main() -> None:
        async with asking() as (_, server):
            pass
        clock = Clock()
        async with OpenResponsesClient(
            ClientConfig(server.url + "/v1?token=" + KEY), sleep=clock.sleep
        ) as client:
            with pytest.raises(
                NetworkError, match=r"could not connect to 127\.0\.0\.1:\d+: connection refused"
            ) as caught:
                await client.create(REQUEST)
            assert caught.value.phase == "connect"
            assert KEY not in str(caught.value)
        assert len(clock.waits) == 2

    run(main())


def test_the_key_source_is_called_for_every_attempt() -> None:
    async def main() -> None:
        keys = iter(["first", "second", "third"])
        script = [answer(200, {"data": []})]
        async with asking([answer(503)], script, script, key=lambda: next(keys)) as (client, server):
            await client.models()
            await client.models()
        sent = [asked.headers["authorization"] for asked in server.asked]
        assert sent == ["Bearer first", "Bearer second", "Bearer third"]

    run(main())


def test_resuming_a_stream_calls_the_key_source_again() -> None:
    async def main() -> None:
        keys = iter(["first", "second"])
        broken = [send(head() + sse(HELLO[:3]))]
        async with asking(broken, streamed(HELLO[3:]), key=lambda: next(keys)) as (client, server):
            numbers, error = await read_until_failure(client.stream(REQUEST))
            assert (numbers, error) == (list(range(11)), None)
        assert [asked.headers["authorization"] for asked in server.asked] == ["Bearer first", "Bearer second"]

    run(main())


async def _later() -> str:
    return f" {KEY}\n"


@pytest.mark.parametrize(
    ("source", "sent"), [(_later, f"Bearer {KEY}"), (lambda: None, None), (lambda: "", None)]
)
def test_a_key_source_may_be_async_or_return_nothing(source: KeySource, sent: str | None) -> None:
    async def main() -> None:
        async with asking([answer(200, [])], key=source) as (client, server):
            await client.models()
            assert server.asked[0].headers.get("authorization") == sent

    run(main())


def test_configured_headers_override_those_of_the_client() -> None:
    async def main() -> None:
        headers = {"Authorization": "Basic abc", "User-Agent": "mine", "x-org": "me"}
        async with asking([answer(200, [])], key=lambda: KEY, headers=headers) as (client, server):
            await client.models()
            asked = server.asked[0].headers
            assert (asked["authorization"], asked["user-agent"], asked["x-org"]) == (
                "Basic abc",
                "mine",
                "me",
            )

    run(main())


@pytest.mark.parametrize("key", ["sk-a\nb", "schlüssel"])
def test_an_invalid_key_is_refused_and_not_shown(key: str, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with asking(key=lambda: key) as (client, server):
            with pytest.raises(AuthenticationError) as caught:
                await client.models()
            assert caught.value.code == "invalid_key"
            assert all(key not in text for text in texts_of_exception(caught.value))
        assert server.asked == []

    run(main())
    assert key not in caplog.text


def test_an_error_of_the_key_source_is_raised_unchanged() -> None:
    def broken() -> str:
        raise TimeoutError("the keyring is locked")

    async def main() -> None:
        async with asking(key=broken) as (client, _):
            with pytest.raises(TimeoutError, match="keyring"):
                await client.models()
            with pytest.raises(TimeoutError, match="keyring"):
                async for _ in client.stream(REQUEST):
                    pass

    run(main())


def test_headers_of_a_request_are_overridden_by_those_of_the_configuration() -> None:
    async def main() -> None:
        async with transport_to([answer(200)], headers={"X-Team": "blue"}) as to:
            (await to.get(headers={"x-team": "red", "Accept": "text/plain", "x-turn": "1"})).close()
            headers = to.server.asked[0].headers
            assert (headers["x-team"], headers["accept"], headers["x-turn"]) == ("blue", "text/plain", "1")
            assert "content-type" not in headers, "there is no body"

    run(main())


def test_headers_that_describe_the_message_cannot_be_configured() -> None:
    async def main() -> None:
        own = {"Content-Length": "999", "Transfer-Encoding": "chunked", "Host": "other.test"}
        async with transport_to([answer(200)], headers=own) as to:
            (await to.transport.send("POST", to.server.url, body=b"{}")).close()
            (request,) = to.server.asked
            assert (request.headers["content-length"], request.headers["host"]) == ("2", "other.test")
            assert "transfer-encoding" not in request.headers

    run(main())


@pytest.mark.parametrize(("method", "length"), [("GET", None), ("POST", "0"), ("DELETE", "0")])
def test_a_request_without_a_body_says_so_where_one_is_expected(method: str, length: str | None) -> None:
    async def main() -> None:
        async with transport_to([answer(200)]) as to:
            (await to.transport.send(method, to.server.url)).close()
            assert to.server.asked[0].headers.get("content-length") == length

    run(main())


def test_the_secrets_of_each_request_are_masked_in_its_own_answer() -> None:
    """Spellings are remembered per set of secrets."""

    async def main() -> None:
        keys = ["sk-one-0123456789", "sk-two-0123456789", "sk-one-0123456789"]
        left = iter(keys)
        async with transport_to(*[[answer(200)]] * 3, key=lambda: next(left)) as to:
            for key in keys:
                received = await to.get()
                masked = [each for each in set(keys) if received.mask(each) == "[key]"]
                assert masked == [key]
                received.close()

    run(main())


def test_a_header_that_cannot_be_encoded_opens_no_connection() -> None:
    async def main() -> None:
        async with transport_to() as to:
            with pytest.raises(UnicodeEncodeError):
                await to.get(headers={"x-team": "\ud800"})
            assert to.server.connections == 0

    run(main())


@pytest.mark.parametrize("size", [10, 3_000_000])
def test_a_body_of_any_size_is_sent_with_its_length(size: int) -> None:
    async def main() -> None:
        async with transport_to([answer(200)]) as to:
            url = to.server.url + "/v1/responses"
            (await to.transport.send("POST", url, body=b"x" * size)).close()
            (request,) = to.server.asked
            assert (len(request.body), request.headers["content-type"]) == (size, "application/json")

    run(main())


@pytest.mark.parametrize("status", [301, 302, 307, 308, 304])
def test_a_redirect_is_raised_and_not_followed(status: int) -> None:
    async def main() -> None:
        async with transport_to([answer(status, location="/v2")], [answer(200)], key=lambda: KEY) as to:
            with pytest.raises(ProtocolError) as caught:
                await to.get()
            assert (caught.value.code, caught.value.status) == ("redirected", status)
            assert len(to.server.asked) == 1

    run(main())


def test_a_long_header_of_a_proxy_is_accepted() -> None:
    async def main() -> None:
        async with transport_to([answer(200, **{"x-policy": "x" * 30_000})]) as to:
            received = await to.get()
            assert len(received.headers["x-policy"]) == 30_000
            received.close()

    run(main())


def test_cookies_are_not_stored() -> None:
    async def main() -> None:
        async with transport_to([answer(200, **{"set-cookie": "a=b"})], [answer(200)]) as to:
            for _ in range(2):
                (await to.get()).close()
            assert "cookie" not in to.server.asked[1].headers

    run(main())


def test_check_raises_what_the_first_request_would() -> None:
    address = read_address("https://upstream.test")
    with pytest.raises(InvalidRequestError) as caught:
        Transport(ConnectionConfig(ca_file="/nothing/here"), address).check()
    assert caught.value.param == "ca_file"
    Transport(ConnectionConfig(proxy=""), address).check()


def test_an_error_is_explained_by_the_given_function() -> None:
    seen: list[tuple[int, bytes, str]] = []

    def explain(
        status: int, headers: Mapping[str, str], body: bytes, secrets: Secrets, advice: str
    ) -> OpenResponsesError:
        assert headers["x-reason"] == "test"
        assert secrets.mask(KEY) == "[key]"
        seen.append((status, body, advice))
        return AuthenticationError("explained")

    async def main() -> None:
        async with Server([answer(404, b"nothing", **{"x-reason": "test"})]) as server:
            address = read_address(f"{server.url}/api")
            transport = Transport(ConnectionConfig(key=lambda: KEY), address, explain)
            with pytest.raises(AuthenticationError, match="explained"):
                await transport.send("GET", address.url("models"))
            await transport.aclose()
            assert seen == [(404, b"nothing", f"GET {server.url}/api/models; {address.advice}")]
            assert address.advice

    run(main())
