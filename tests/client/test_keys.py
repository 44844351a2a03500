"""The key: asked for every request, and never told."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.client.client import OpenResponsesClient
from penstock.client.config import ClientConfig
from penstock.errors import AuthenticationError, OpenResponsesError
from penstock.net.config import KeySource
from penstock.net.masking import Secrets, secrets_in_query
from penstock.net.urls import read_address
from penstock.parts.adapter import OpenResponsesStreamAdapter
from penstock.protocol.events import LifecycleEvent
from tests.cli import streams
from tests.client.asking import KEY, REQUEST, asking, read_until_failure
from tests.client.server import HELLO, Script, Server, answer, chunk, cut, head, run, send, sse, streamed


def seen(error: BaseException) -> Iterator[str]:
    """Everything that a traceback, a log or a report of errors may show of an exception."""
    pending: list[BaseException | None] = [error]
    while pending:
        each = pending.pop()
        if each is not None:
            yield from (str(each), repr(each), repr(each.args), repr(vars(each)))
            pending += [each.__cause__, each.__context__]


def test_the_key_is_asked_for_every_request_and_attempt() -> None:
    async def main() -> None:
        keys = iter(["first", "second", "third"])
        script = [answer(200, {"data": []})]
        async with asking([answer(503)], script, script, key=lambda: next(keys)) as (client, server):
            await client.models()
            await client.models()
        sent = [asked.headers["authorization"] for asked in server.asked]
        assert sent == ["Bearer first", "Bearer second", "Bearer third"]

    run(main())


def test_a_resumed_stream_asks_for_the_key_again() -> None:
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
def test_a_key_may_come_later_or_not_at_all(source: KeySource, sent: str | None) -> None:
    async def main() -> None:
        async with asking([answer(200, [])], key=source) as (client, server):
            await client.models()
            assert server.asked[0].headers.get("authorization") == sent

    run(main())


def test_a_header_of_ones_own_replaces_that_of_the_client() -> None:
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
def test_what_cannot_be_a_key_is_refused_and_not_shown(key: str, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with asking(key=lambda: key) as (client, server):
            with pytest.raises(AuthenticationError) as caught:
                await client.models()
            assert caught.value.code == "invalid_key"
            assert all(key not in text for text in seen(caught.value))
        assert server.asked == []

    run(main())
    assert key not in caplog.text


def test_a_key_source_that_fails_fails_as_it_does() -> None:
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


ECHO = {"error": {"message": f"Bearer {KEY} is not a key", "code": f"bad {KEY}", "param": KEY}}
BEGUN = head(transfer_encoding="chunked") + chunk(sse(HELLO[:2]))


@pytest.mark.parametrize(
    "script",
    [
        [answer(401, ECHO)],
        [answer(404, f"<p>{KEY}".encode(), "text/html")],
        [answer(503, ECHO, **{"x-request-id": KEY})],
        [answer(200, ECHO)],
        [answer(302, location=f"https://other/{KEY}?{KEY}")],
        [answer(200, KEY.encode(), KEY)],
        [send(head() + f"data: {KEY}\n\n".encode())],
        [send(head() + b'event: error\ndata: {"error": {"message": "%s"}}\n\n' % KEY.encode())],
        [send(head(x_request_id=KEY) + sse(HELLO[:2]))],
        [send(f"{KEY} 200 {KEY}\r\n\r\n".encode())],
        [send(BEGUN), cut],
        [send(BEGUN + f"{KEY}\r\n".encode())],
        [cut],
    ],
)
def test_a_key_that_comes_back_is_in_no_log_and_no_exception(
    script: Script, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        scripts = [script] * 3
        async with asking(*scripts, key=lambda: KEY) as (client, _):
            _, error = await read_until_failure(client.stream(REQUEST))
            assert isinstance(error, OpenResponsesError)
            assert all(KEY not in text for text in seen(error))
            assert KEY not in repr(client)

    caplog.set_level(logging.DEBUG)
    run(main())
    assert "ERROR" in caplog.text
    assert KEY not in caplog.text


TELLING = f"Bearer {KEY} is not a key"
SNAPSHOT = {**streams.snapshot("failed", []), "output": [], "error": {"code": "no", "message": TELLING}}
EVENTS_WITH_THE_KEY: list[dict[str, Any]] = [
    {"type": "error", "sequence_number": 2, "code": KEY, "message": TELLING, "param": KEY},
    {"type": "error", "sequence_number": 2, "error": {"message": TELLING, KEY: [{"more": KEY}]}},
    {"type": "error", "sequence_number": 2, "message": TELLING + " \ud83d", "output": KEY},
    {"type": "response.failed", "sequence_number": 2, "response": SNAPSHOT},
    {
        "type": "response.incomplete",
        "sequence_number": 2,
        "response": {**streams.snapshot("incomplete", []), "incomplete_details": {"reason": TELLING}},
    },
    {"type": "response.cancelled", "sequence_number": 2, "response": SNAPSHOT, KEY: KEY},
]


@pytest.mark.parametrize("event", EVENTS_WITH_THE_KEY, ids=lambda event: str(event["type"]))
@pytest.mark.parametrize("is_escaped", [False, True])
def test_an_event_that_repeats_the_key_is_given_out_without_it(
    event: dict[str, Any], is_escaped: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        body = sse([*HELLO[:2], event])
        if is_escaped:
            body = body.replace(b"sk-", rb"\u0073k-")
        async with asking([send(head() + body)], key=lambda: KEY) as (client, _):
            stream = client.stream(REQUEST)
            received = [await anext(stream) for _ in range(3)][2]
            assert received.type == event["type"]
            assert KEY not in repr(received)
            assert "[key]" in repr(received)
            if event["type"] == "error":
                with pytest.raises(OpenResponsesError) as caught:
                    await anext(stream)
                assert all(KEY not in text and KEY[3:] not in text for text in seen(caught.value))
            adapter = OpenResponsesStreamAdapter()
            adapter.feed(received)
            error = adapter.result.error
            assert error is None or all(KEY not in text for text in seen(error))

    caplog.set_level(logging.DEBUG)
    run(main())
    assert KEY not in caplog.text


@pytest.mark.parametrize("key", ["error", "resp", "failed", "response"])
def test_a_placeholder_for_a_key_does_not_spoil_the_event(key: str) -> None:
    async def main() -> None:
        failed = {"type": "response.failed", "sequence_number": 2, "response": SNAPSHOT}
        async with asking([send(head() + sse([*HELLO[:2], failed]))], key=lambda: key) as (client, _):
            stream = client.stream(REQUEST)
            received = [await anext(stream) for _ in range(3)][2]
            assert isinstance(received, LifecycleEvent)
            assert received.response.error is not None
            assert received.response.error.message == TELLING

    run(main())


def test_what_the_model_wrote_stays_in_the_last_event_as_it_was_given_out() -> None:
    event = {"type": "response.incomplete", "response": {"output": [{"text": KEY}], "user": KEY}}
    masked = Secrets([KEY]).mask_event(event)
    assert masked["response"] == {"output": [{"text": KEY}], "user": "[key]"}


def test_an_error_that_is_nested_too_deeply_is_skipped_and_not_shown(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        deep = b"[" * 900 + b'"%s"' % KEY.encode() + b"]" * 900
        body = sse(HELLO[:2]) + b'data: {"type": "error", "message": %s}\n\n' % deep + sse(HELLO[2:])
        async with asking([send(head() + body)], key=lambda: KEY) as (client, _):
            stream = client.stream(REQUEST)
            assert all(KEY not in repr(event) for event in [each async for each in stream])

    run(main())
    assert KEY not in caplog.text


@pytest.mark.parametrize("query", [f"api-key={KEY}", f"a=b&{KEY}", "code=" + KEY.replace("-", "%2d")])
def test_a_key_in_the_query_of_the_base_url_is_not_told_either(
    query: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        body = {"error": {"message": f"{TELLING}: /v1/responses?{query}"}}
        async with Server([answer(401, body)]) as server:
            config = ClientConfig(f"{server.url}/v1?{query}")
            async with OpenResponsesClient(config) as client:
                _, error = await read_until_failure(client.stream(REQUEST))
                written = query.rpartition("=")[2]
                assert isinstance(error, AuthenticationError)
                assert all(KEY not in text and written not in text for text in seen(error))
            assert written not in repr(read_address(config.base_url))

    run(main())
    assert KEY not in caplog.text


def test_a_version_in_the_query_is_no_secret() -> None:
    assert list(secrets_in_query("api-version=2026-01-01&mode=preview")) == []
