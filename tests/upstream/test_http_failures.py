"""Failures of HTTP upstreams: timeouts, disconnects, error responses; never with a secret."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest

from penstock.errors import (
    AuthenticationError,
    ContextOverflowError,
    InvalidRequestError,
    NetworkError,
    OpenResponsesError,
    OverloadedError,
    PermissionDeniedError,
    RateLimitError,
    ServerError,
)
from penstock.net.source import Inbox
from penstock.upstream.http import HttpUpstream
from tests.client.asking import texts_of_exception
from tests.client.server import CHUNKED_HEAD, Script, answer, chunk, cut, head, run, send, stall
from tests.upstream.sending import KEY, ask, read_body, send_failing, sending, target

QUICK = 0.3
STARTED = send(CHUNKED_HEAD + chunk(b"data: 1\n\n"))


def test_a_connect_timeout_is_raised() -> None:
    async def main() -> None:
        gone = asyncio.Event()

        async def deaf(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while await reader.read(65536):
                pass  # never answer the handshake
            writer.close()
            gone.set()

        server = await asyncio.start_server(deaf, "127.0.0.1", 0)
        async with server:
            url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            upstream = HttpUpstream(target(url, connect_timeout=QUICK))
            error = await send_failing(upstream)
            assert isinstance(error, NetworkError)
            assert error.phase == "connect"
            assert "within 0.3 seconds" in error.message
            await upstream.aclose()
            await gone.wait()

    run(main())


def test_a_refused_connection_is_raised() -> None:
    async def main() -> None:
        upstream = HttpUpstream(target("http://127.0.0.1:1"))
        error = await send_failing(upstream)
        assert (error.phase, error.code) == ("connect", "network_error")
        await upstream.aclose()

    run(main())


@pytest.mark.parametrize("script", [[stall], [send(CHUNKED_HEAD), stall]], ids=["no headers", "headers only"])
def test_a_first_byte_timeout_is_raised(script: Script) -> None:
    async def main() -> None:
        async with sending(script, first_byte_timeout=QUICK, idle_timeout=None) as (upstream, server):
            with pytest.raises(NetworkError, match="sent nothing") as caught:
                await Inbox(await ask(upstream)).take()
            assert caught.value.phase == "first_byte"
            await server.hung_up()

    run(main())


def test_an_idle_timeout_is_raised_after_the_data_before_it() -> None:
    async def main() -> None:
        async with sending([STARTED, stall], first_byte_timeout=None, idle_timeout=QUICK) as (
            upstream,
            server,
        ):
            inbox = Inbox(await ask(upstream))
            assert await inbox.take() == b"data: 1\n\n"
            with pytest.raises(NetworkError, match="stopped sending") as caught:
                await inbox.take()
            assert caught.value.phase == "idle"
            await server.hung_up()

    run(main())


def test_a_broken_response_is_raised_after_the_data_before_it() -> None:
    async def main() -> None:
        async with sending([STARTED, cut], [send(CHUNKED_HEAD + b"9\r\ndata")]) as (upstream, _):
            for received in (b"data: 1\n\n", b"data"):
                inbox = Inbox(await ask(upstream))
                assert await inbox.take() == received
                for _ in range(2):  # every time
                    with pytest.raises(NetworkError) as caught:
                        await inbox.take()
                    assert caught.value.phase == "cut"

    run(main())


def test_a_disconnect_while_the_source_is_paused_is_raised() -> None:
    """The source is paused when it breaks, but its failure must still be raised."""
    much = b"x" * Inbox.ROOM

    async def main() -> None:
        async with sending([send(CHUNKED_HEAD + chunk(much))]) as (upstream, _):
            source = await ask(upstream)
            await asyncio.sleep(0.1)  # everything has arrived, including the disconnect
            inbox = Inbox(source)
            assert len(await inbox.take()) >= Inbox.ROOM
            with pytest.raises(NetworkError):
                await inbox.take()

    run(main())


def test_a_disconnect_before_the_response_is_raised() -> None:
    async def main() -> None:
        async with sending([cut], []) as (upstream, server):
            for _ in range(2):
                assert (await send_failing(upstream)).phase == "cut"
            assert len(server.asked) == 2  # an upstream does not retry

    run(main())


REFUSALS: list[tuple[int, Any, type[OpenResponsesError], str]] = [
    (
        401,
        {"error": {"message": "no", "code": "invalid_api_key"}},
        AuthenticationError,
        "authentication_error",
    ),
    (403, {"error": {"message": "no"}}, PermissionDeniedError, "permission_denied"),
    (429, {"error": {"message": "no", "code": "tokens"}}, RateLimitError, "rate_limit_exceeded"),
    (429, {"error": {"message": "no", "type": "billing_error"}}, RateLimitError, "insufficient_quota"),
    (402, {"error": {"message": "no"}}, RateLimitError, "insufficient_quota"),
    (529, {"error": {"type": "overloaded_error", "message": "no"}}, OverloadedError, "server_is_overloaded"),
    (500, {"error": {"message": "prompt is too long"}}, ContextOverflowError, "context_length_exceeded"),
    (400, {"error": {"message": "no", "code": "unknown_parameter"}}, InvalidRequestError, "invalid_request"),
    (
        400,
        {"error": {"message": "no", "code": "DataInspectionFailed"}},
        InvalidRequestError,
        "content_filter",
    ),
    (502, b"<html>bad gateway", ServerError, "server_error"),
    (408, {"error": {"message": "no"}}, ServerError, "upstream_timeout"),
]


@pytest.mark.parametrize(("status", "body", "kind", "code"), REFUSALS)
def test_an_error_has_our_code_and_the_vendors_message(
    status: int, body: Any, kind: type[OpenResponsesError], code: str
) -> None:
    async def main() -> None:
        script = [answer(status, body, retry_after="7", x_request_id="req_9")]
        async with sending(script, pass_key=True) as (upstream, _):
            error = await send_failing(upstream, key=KEY)
            assert type(error) is kind
            assert (error.code, error.status) == (code, status)
            assert (error.retry_after, error.request_id) == (7.0, "req_9")
            page = "the upstream returned HTTP 502 and a web page: bad gateway"
            assert error.message.endswith(body["error"]["message"] if isinstance(body, dict) else page)

    run(main())


@pytest.mark.parametrize("header", ["bearer", "x-api-key", "x-goog-api-key", "api-key"])
@pytest.mark.parametrize(
    "script",
    [
        [answer(401, {"error": {"message": f"{KEY} is no key", "code": KEY, "param": KEY}})],
        [answer(500, f"<p>{KEY}".encode(), "text/html")],
        [answer(429, {"error": {"message": KEY}}, **{"x-request-id": KEY})],
        [answer(302, location=f"https://other/{KEY}?{KEY}")],
        [send(f"{KEY} 200 {KEY}\r\n\r\n".encode())],
    ],
)
def test_a_repeated_key_is_in_no_error(header: str, script: Script, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with sending(script, key_header=header) as (upstream, _):
            error = await send_failing(upstream, key=KEY)
            assert all(KEY not in text for text in texts_of_exception(error))

    caplog.set_level(logging.DEBUG)
    run(main())
    assert KEY not in caplog.text


def test_secrets_of_the_target_are_masked() -> None:
    async def main() -> None:
        secrets = ["sk-in-the-query-1", "sk-in-a-header-1"]
        body = {"error": {"message": f"not with {json.dumps(secrets)}"}}
        settings: dict[str, Any] = {"path": f"/v1?key={secrets[0]}", "headers": {"x-auth-token": secrets[1]}}
        async with sending([answer(400, body)], **settings) as (upstream, _):
            error = await send_failing(upstream)
            assert all(secret not in text for text in texts_of_exception(error) for secret in secrets)
            assert "not with" in error.message

    run(main())


def test_a_response_masks_the_secrets_of_its_request() -> None:
    async def main() -> None:
        body = f"data: {KEY}\n\n".encode()
        async with sending([send(head() + body)]) as (upstream, _):
            answered = await ask(upstream, key=KEY)
            assert answered.mask(f"{KEY} is wrong") == "[key] is wrong"
            assert await read_body(answered) == body  # the body is passed on unchanged

    run(main())
