"""HTTP upstreams on real sockets: requests, connections, TLS and proxies."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Self

import pytest
import trustme

from penstock.dialects.plan import Quirks, Target, UpstreamRequest
from penstock.dialects.presets import KEY_HEADERS, fingerprint
from penstock.errors import AuthenticationError, InvalidRequestError, NetworkError, OpenResponsesError
from penstock.net.source import Inbox
from penstock.upstream.http import HttpUpstream, listing_config
from penstock.upstream.target import Upstream
from tests.client.server import (
    CHUNKED_HEAD,
    HELLO,
    LAST_CHUNK,
    Connection,
    Server,
    answer,
    chunk,
    gate,
    head,
    keep,
    run,
    send,
    sse,
    stall,
    streamed,
)
from tests.net.certificates import server_context
from tests.upstream.sending import KEY, OTHER, ask, read_body, rendered, send_failing, sending, target

VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
KEEP_ALIVE = head(transfer_encoding="chunked", connection="keep-alive")


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*VARIABLES, "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


# -- requests


def test_a_rendered_request_is_sent_and_its_response_read() -> None:
    async def main() -> None:
        async with sending(streamed(x_request_id="req_1")) as (upstream, server):
            request = rendered(upstream, "some-model")
            answered = await upstream.send(request, key=KEY, headers={})
            assert (answered.status, answered.content_type) == (200, "text/event-stream")
            assert answered.request_id == "req_1"
            assert await read_body(answered) == sse(HELLO, done=True)
            (asked,) = server.asked
            assert asked.json == request.body
            assert asked.headers["accept"] == "text/event-stream, application/json"
            assert asked.headers["accept-encoding"] == "identity"
            assert asked.headers["content-type"] == "application/json"

    run(main())


@pytest.mark.parametrize("name", KEY_HEADERS)
def test_a_key_is_sent_in_the_configured_header(name: str) -> None:
    async def main() -> None:
        async with sending([answer(200)], [answer(200)], key_header=name) as (upstream, server):
            (await ask(upstream, key=KEY)).close()
            (await ask(upstream)).close()
            with_key, without = (asked.headers for asked in server.asked)
            header, form = KEY_HEADERS[name]
            assert with_key[header.lower()] == form.format(key=KEY)
            assert all(KEY not in value for key, value in with_key.items() if key != header.lower())
            assert header.lower() not in without

    run(main())


def test_headers_of_the_dialect_and_of_the_turn_are_sent() -> None:
    async def main() -> None:
        async with sending([answer(200)], dialect="anthropic") as (upstream, server):
            (await ask(upstream, headers={"Traceparent": "00-1-2-01", "Anthropic-Version": "old"})).close()
            headers = server.asked[0].headers
            assert headers["traceparent"] == "00-1-2-01"
            assert headers["anthropic-version"] == "2023-06-01"  # a turn cannot override the dialect

    run(main())


def test_headers_of_the_target_override_all_others() -> None:
    async def main() -> None:
        own = {
            "Authorization": "Basic abc",
            "User-Agent": "mine",
            "Anthropic-Version": "2030-01-01",
            "traceparent": "none",
            "x-team": "blue",
        }
        async with sending([answer(200)], dialect="anthropic", headers=own) as (upstream, server):
            (await ask(upstream, key=KEY, headers={"traceparent": "00-1-2-01"})).close()
            sent = server.asked[0].headers
            assert {name.lower(): sent[name.lower()] for name in own} == {
                name.lower(): value for name, value in own.items()
            }

    run(main())


def test_target_describes_a_model_for_a_plan() -> None:
    quirks = Quirks(think_tags=True)
    upstream: Upstream = HttpUpstream(target("http://host", preset="groq", quirks=quirks))
    assert upstream.target("openai/gpt-oss-120b", KEY) == Target(
        model="openai/gpt-oss-120b",
        vendor="groq",
        dialect="chat",
        family="gpt-oss",
        key_fingerprint=fingerprint(KEY),
        quirks=quirks,
    )


# -- invalid targets


@pytest.mark.parametrize(
    ("settings", "param"),
    [
        ({"base_url": "host/v1"}, "base_url"),
        ({"base_url": "https://me:secret@host"}, "base_url"),
        ({"dialect": "ollama"}, "dialect"),
        ({"dialect": "chta"}, "dialect"),
        ({"key_header": "cookie"}, "key_header"),
        ({"headers": {"x": f"{KEY}\nx: y"}}, "headers"),
        ({"ca_file": "/nothing/here"}, "ca_file"),
        ({"client_key": "/nothing/here"}, "client_key"),
        ({"client_cert": "/nothing/here"}, "client_cert"),
        ({"connect_timeout": 0}, "connect_timeout"),
        ({"proxy": "socks5://host"}, "proxy"),
    ],
)
def test_an_invalid_target_is_refused_at_once(settings: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        HttpUpstream(target(**{"base_url": "https://host", **settings}))
    assert caught.value.param == param
    assert KEY not in str(caught.value)


def test_an_invalid_proxy_in_the_environment_is_reported_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://proxy:1")
    with pytest.raises(InvalidRequestError, match="socks5"):
        HttpUpstream(target("https://upstream.test"))
    HttpUpstream(target("http://127.0.0.1:8080"))


def test_a_key_that_cannot_be_sent_is_refused_and_not_shown() -> None:
    with pytest.raises(AuthenticationError) as caught:
        HttpUpstream(target("http://host", keys=("sk-one", "sk-a\nb")))
    assert "sk-a" not in str(caught.value)

    async def main() -> None:
        async with sending() as (upstream, server):
            for wrong in ("sk-a\r\nx: y", "schlüssel"):
                error = await send_failing(upstream, key=wrong)
                assert isinstance(error, AuthenticationError)
                assert wrong not in str(error)
            with pytest.raises(InvalidRequestError, match="one line"):
                await ask(upstream, headers={"traceparent": "a\r\nb: c"})
            assert server.asked == []

    run(main())


def test_spaces_around_a_key_are_not_part_of_it() -> None:
    assert HttpUpstream(target("http://host", keys=(f" {KEY}\n",))).keys.take() == KEY


def test_no_secret_is_in_a_repr() -> None:
    upstream = HttpUpstream(
        target(
            f"http://host/v1?key={KEY}",
            keys=(OTHER,),
            headers={"x-api-key": KEY},
            proxy=f"http://me:{KEY}@proxy:1",
        )
    )
    assert repr(upstream) == "HttpUpstream(UpstreamTarget('test', chat, 'http://host/v1'))"
    assert OTHER not in repr(upstream.keys)


# -- connections


def test_a_connection_is_reused_after_a_complete_response() -> None:
    async def main() -> None:
        script = [send(KEEP_ALIVE + chunk(sse(HELLO, done=True)) + LAST_CHUNK), keep]
        async with sending(script, script, script) as (upstream, server):
            for _ in range(3):
                await read_body(await ask(upstream))
            assert (len(server.asked), server.connections) == (3, 1)

    run(main())


def test_finishing_frees_the_connection_and_closing_ends_it() -> None:
    async def main() -> None:
        ended = asyncio.Event()

        async def end(_: Connection) -> None:
            ended.set()

        script = [send(KEEP_ALIVE + chunk(sse(HELLO, done=True))), gate, send(LAST_CHUNK), end, keep]
        async with sending(script, script, streamed()) as (upstream, server):
            first = await ask(upstream)
            assert await Inbox(first).take() == sse(HELLO, done=True)
            first.finish()
            first.close()
            server.opened.set()
            await ended.wait()
            for _ in range(10):
                await asyncio.sleep(0)  # the connection reads the end by itself
            second = await ask(upstream)
            assert await Inbox(second).take() == sse(HELLO, done=True)
            assert server.connections == 1
            second.close()
            second.close()
            await read_body(await ask(upstream))
            assert server.connections == 2

    run(main())


def test_a_request_on_a_reused_connection_that_breaks_is_not_sent_again() -> None:
    """Decision 32: the server may have processed it."""

    async def main() -> None:
        async def close_on_the_next(connection: Connection) -> None:
            await connection.request()

        stale = [send(KEEP_ALIVE + chunk(sse(HELLO)) + LAST_CHUNK), close_on_the_next]
        async with sending(stale, streamed()) as (upstream, server):
            await read_body(await ask(upstream))
            with pytest.raises(NetworkError):
                await ask(upstream)
            assert server.connections == 1

    run(main())


class WideServer(Server):
    """Accepts many clients at once."""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, backlog=1024)
        self.port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        return self


def test_the_number_of_streams_to_one_host_is_not_limited() -> None:
    count = 150  # more than the limit of common clients

    async def main() -> None:
        together = asyncio.Barrier(count)

        async def wait_for_all(_: Connection) -> None:
            await together.wait()  # a request that waits for another stream to end would wait forever

        script = [send(CHUNKED_HEAD + chunk(b"data: 1\n\n")), wait_for_all, send(chunk(b"x") + LAST_CHUNK)]
        async with WideServer(*[script] * count) as server:
            upstream = HttpUpstream(target(server.url))
            request = UpstreamRequest("chat/completions", {})
            answers = await asyncio.gather(
                *(upstream.send(request, key="", headers={}) for _ in range(count))
            )
            bodies = await asyncio.gather(*map(read_body, answers))
            assert set(bodies) == {b"data: 1\n\nx"}
            assert server.connections == count
            await upstream.aclose()

    run(main())


def test_cancelling_a_request_disconnects() -> None:
    async def main() -> None:
        async with sending([stall], [send(CHUNKED_HEAD), stall]) as (upstream, server):
            task = asyncio.create_task(ask(upstream))
            while not server.asked:
                await asyncio.sleep(0.001)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await server.hung_up()
            (await ask(upstream)).close()
            await server.hung_up()

    run(main())


def test_closing_an_upstream_ends_its_streams_and_refuses_requests() -> None:
    async def main() -> None:
        script = [send(CHUNKED_HEAD + chunk(b"data: 1\n\n")), stall]
        async with sending(script) as (upstream, server):
            inbox = Inbox(await ask(upstream))
            assert await inbox.take() == b"data: 1\n\n"
            reading = asyncio.create_task(inbox.take())
            await asyncio.sleep(0)
            await upstream.aclose()
            with pytest.raises(NetworkError):
                await reading
            await server.hung_up()
            assert (await send_failing(upstream)).code == "client_closed"
            await upstream.aclose()

    run(main())


def test_closing_ends_a_waiting_request_on_a_new_or_reused_connection() -> None:
    async def main() -> None:
        warm = [send(KEEP_ALIVE + chunk(b"x") + LAST_CHUNK), keep]
        for scripts in ([[stall]], [warm, [stall]]):
            async with sending(*scripts) as (upstream, server):
                for _ in scripts[1:]:
                    await read_body(await ask(upstream))
                task = asyncio.create_task(ask(upstream))
                while len(server.asked) < len(scripts):
                    await asyncio.sleep(0.001)
                await upstream.aclose()
                with pytest.raises(NetworkError):
                    await task
                await server.hung_up()
                assert server.connections == 1

    run(main())


# -- TLS and proxies


def test_only_authorities_of_ca_file_are_trusted(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))

    async def main() -> None:
        async with Server(streamed(), tls=server_context(authority)) as server:
            trusting = HttpUpstream(target(server.url, ca_file=str(tmp_path / "ca.pem")))
            assert await read_body(await ask(trusting)) == sse(HELLO, done=True)
            await trusting.aclose()
            doubting = HttpUpstream(target(server.url))
            assert (await send_failing(doubting)).code == "certificate_error"
            await doubting.aclose()

    run(main())


def test_this_machine_is_reached_without_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.setenv(name, "http://127.0.0.1:1")
        monkeypatch.setenv(name.lower(), "http://127.0.0.1:1")

    async def main() -> None:
        async with sending(streamed()) as (upstream, _):
            assert await read_body(await ask(upstream)) == sse(HELLO, done=True)

    run(main())


def test_a_configured_proxy_is_used_and_its_error_reported() -> None:
    async def main() -> None:
        refusal = [send(b"HTTP/1.1 407 Not for you\r\ncontent-length: 0\r\n\r\n")]
        async with Server(refusal) as proxy:
            upstream = HttpUpstream(target("https://upstream.test", proxy=proxy.url))
            error = await send_failing(upstream, key=KEY)
            assert (error.code, error.status) == ("proxy_error", 407)
            assert proxy.asked[0].method == "CONNECT"
            await upstream.aclose()

    run(main())


def test_a_redirect_is_not_followed() -> None:
    async def main() -> None:
        async with sending([answer(307, location="/elsewhere")], [answer(200)]) as (upstream, server):
            error = await send_failing(upstream, key=KEY)
            assert isinstance(error, OpenResponsesError)
            assert error.code == "redirected"
            assert len(server.asked) == 1

    run(main())


# -- listing models


def test_models_are_listed_with_the_key_header_of_the_target_and_without_retries() -> None:
    settings: dict[str, Any] = {"keys": (KEY, OTHER), "headers": {"X-Team": "blue"}}
    config = listing_config(
        target("https://host/v1/messages", dialect="anthropic", key_header="x-api-key", **settings)
    )
    assert config.base_url == "https://host/v1"
    assert config.headers["x-api-key"] == KEY
    assert config.headers["x-team"] == "blue"
    assert config.headers["anthropic-version"] == "2023-06-01"
    assert config.retries == 0


@pytest.mark.parametrize(
    ("pass_key", "own", "sent"),
    [(True, OTHER, OTHER), (True, "", KEY), (False, OTHER, KEY)],
    ids=["the client's key", "no client key", "client keys are not passed"],
)
def test_models_are_listed_with_the_clients_own_key_only_if_it_is_passed(
    pass_key: bool, own: str, sent: str
) -> None:
    config = listing_config(target("https://host", keys=(KEY,), pass_key=pass_key), own)
    assert config.headers["authorization"] == f"Bearer {sent}"
    assert KEY in config.secrets


def test_without_keys_models_are_listed_without_a_key_header() -> None:
    assert "authorization" not in listing_config(target("https://host")).headers
