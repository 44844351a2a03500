"""The methods of the client other than streaming."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from penstock.client.client import OpenResponsesClient
from penstock.client.config import ClientConfig
from penstock.errors import (
    AuthenticationError,
    ContextOverflowError,
    InvalidRequestError,
    NetworkError,
    NotFoundError,
    OpenResponsesError,
    OverloadedError,
    PermissionDeniedError,
    ProtocolError,
    RateLimitError,
    ServerError,
)
from penstock.protocol.items import Message
from penstock.protocol.request import CreateResponse
from tests.cli import streams
from tests.client.asking import KEY, QUICK, REQUEST, Clock, asking
from tests.client.server import (
    CHUNKED_HEAD,
    HELLO,
    Script,
    answer,
    chunk,
    cut,
    run,
    send,
    stall,
    streamed,
)
from tests.dialects.format_samples import BODIES

RESPONSE = HELLO[-1]["response"]


def test_create_sends_the_request_and_returns_the_response() -> None:
    async def main() -> None:
        async with asking([answer(200, RESPONSE)], key=lambda: KEY) as (client, server):
            response = await client.create(CreateResponse(model="test-model", input="水?", stream=True))
            assert (response.id, response.output_text) == ("resp_1", "Hello, water 水 🌊")
        (asked,) = server.asked
        assert (asked.method, asked.target) == ("POST", "/v1/responses")
        assert asked.json == {"model": "test-model", "input": "水?", "stream": False}
        assert asked.headers["authorization"] == f"Bearer {KEY}"
        assert asked.headers["content-type"] == asked.headers["accept"] == "application/json"
        assert asked.headers["accept-encoding"] == "identity"
        assert asked.headers["user-agent"].startswith("penstock/")

    run(main())


def test_other_requests_use_the_right_method_and_path() -> None:
    async def main() -> None:
        page = {
            "object": "list",
            "data": [{"role": "user", "content": "a"}],
            "has_more": False,
            "last_id": "i_1",
        }
        scripts = [[answer(200, body)] for body in (RESPONSE, RESPONSE, {"deleted": True}, page)]
        async with asking(*scripts, [answer(204)], [answer(200, b"gone", "text/plain")]) as (client, server):
            assert (await client.retrieve("resp/1")).id == "resp_1"
            assert (await client.cancel("resp_1")).status == "completed"
            await client.delete("resp_1")
            found = await client.input_items("resp_1", limit=2, after="i 0", order="asc")
            assert [item.content for item in found.data if isinstance(item, Message)] == ["a"]
            assert (found.last_id, found.has_more) == ("i_1", False)
            await client.delete("resp_1")
            await client.delete("resp_1")
        assert [(asked.method, asked.target) for asked in server.asked] == [
            ("GET", "/v1/responses/resp%2F1"),
            ("POST", "/v1/responses/resp_1/cancel"),
            ("DELETE", "/v1/responses/resp_1"),
            ("GET", "/v1/responses/resp_1/input_items?limit=2&after=i+0&order=asc"),
            ("DELETE", "/v1/responses/resp_1"),
            ("DELETE", "/v1/responses/resp_1"),
        ]

    run(main())


def test_all_input_items_are_read_page_by_page_and_end() -> None:
    async def main() -> None:
        def page(text: str, last: str) -> Any:
            return {"data": [{"role": "user", "content": text}], "has_more": True, "last_id": last}

        scripts = [[answer(200, page(text, last))] for text, last in (("a", "1"), ("b", "2"), ("c", "2"))]
        async with asking(*scripts) as (client, server):
            items = [item async for item in client.all_input_items("resp_1", order="asc")]
            assert [item.content for item in items if isinstance(item, Message)] == ["a", "b", "c"]
        queries = [asked.target.partition("?")[2] for asked in server.asked]
        assert queries == ["order=asc", "after=1&order=asc", "after=2&order=asc"]

    run(main())


@pytest.mark.parametrize("last", [{}, {"last_id": None}, {"last_id": ""}])
def test_a_page_without_last_id_is_continued_after_its_last_item(last: dict[str, Any]) -> None:
    async def main() -> None:
        def page(*names: str | None, has_more: bool) -> Any:
            items = [{"role": "user", "content": "x", **({"id": name} if name else {})} for name in names]
            return {"data": items, "has_more": has_more, **last}

        scripts = [
            [answer(200, page("a", "b", has_more=True))],
            [answer(200, page("c", None, has_more=True))],
        ]
        async with asking(*scripts) as (client, server):
            assert len([item async for item in client.all_input_items("resp_1")]) == 4
        assert [asked.target.partition("?")[2] for asked in server.asked] == ["", "after=b"]

    run(main())


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ({"object": "list", "data": [{"id": "a"}, {"id": "b"}]}, ["a", "b"]),
        ({"models": [{"id": "a"}]}, ["a"]),
        ([{"id": "a"}], ["a"]),
        ({"data": None}, []),
    ],
)
def test_models_are_read_from_every_known_format(body: Any, names: list[str]) -> None:
    async def main() -> None:
        async with asking([answer(200, body)]) as (client, server):
            assert [model["id"] for model in await client.models()] == names
        assert server.asked[0].target == "/v1/models"

    run(main())


@pytest.mark.parametrize("id", ["", ".", ".."])
def test_a_missing_id_is_refused_and_not_sent(id: str) -> None:
    async def main() -> None:
        async with asking() as (client, server):
            calls: list[Callable[[str], Awaitable[Any]]] = [
                client.retrieve,
                client.cancel,
                client.delete,
                client.input_items,
            ]
            for call in calls:
                with pytest.raises(InvalidRequestError, match="response id is missing"):
                    await call(id)
            with pytest.raises(InvalidRequestError):
                client.resume(id)
        assert server.asked == []

    run(main())


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, InvalidRequestError),
        (401, AuthenticationError),
        (403, PermissionDeniedError),
        (404, NotFoundError),
        (413, ContextOverflowError),
        (429, RateLimitError),
        (500, ServerError),
        (503, OverloadedError),
        (529, OverloadedError),
    ],
)
def test_an_error_status_raises_its_class_with_the_servers_message(
    status: int, kind: type[OpenResponsesError], caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        body = {"error": {"message": f"no, says {KEY}", "param": "input"}}
        script = [answer(status, body, **{"x-request-id": "req_1"})]
        async with asking(script, script, retries=0, key=lambda: KEY) as (client, _):
            for asking_for in (client.create(REQUEST), client.stream(REQUEST).__anext__()):
                with pytest.raises(kind, match=r"no, says \[key\]") as caught:
                    await asking_for
                assert type(caught.value) is kind
                assert (caught.value.status, caught.value.param) == (status, "input")
                assert caught.value.request_id == "req_1"

    run(main())
    assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR"]
    assert f"{kind.__name__} {status}" in caplog.text
    assert "req_1" in caplog.text
    assert KEY not in caplog.text


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("", r" \(GET http://.*/v1/models; requests were sent to http://127\..*/v1; "),
        ("/api", r" \(.*perhaps it should be .*/api/v1"),
        ("/v1", r" \(GET http://.*/v1/models; check the base URL\)$"),
    ],
)
def test_a_404_of_the_address_says_what_was_asked_and_what_to_check(path: str, hint: str) -> None:
    async def main() -> None:
        async with (
            asking([answer(404, b"Not Found")]) as (_, server),
            OpenResponsesClient(ClientConfig(server.url + path)) as client,
        ):
            with pytest.raises(NotFoundError, match=f"^Not Found{hint}"):
                await client.models()

    run(main())


@pytest.mark.parametrize(
    ("script", "kind", "code", "message"),
    [
        (
            [answer(200, b"<html>", "text/html")],
            ProtocolError,
            "no_json_document",
            r"a web page \(text/html.* instead of a JSON document for POST .*/v1/responses",
        ),
        ([answer(200, b"")], ProtocolError, "no_json_document", r"an empty body \(application/json\)"),
        (
            streamed(),
            ProtocolError,
            "no_json_document",
            "an event stream instead of a JSON document",
        ),
        ([answer(200, {"object": "response"})], ProtocolError, "protocol_error", "id: is required"),
        ([answer(200, [])], ProtocolError, "protocol_error", "expected an object"),
        (
            [answer(200, {"error": {"message": "bad", "code": "invalid_api_key"}})],
            AuthenticationError,
            None,
            "bad",
        ),
        (
            [answer(302, b"", location="/elsewhere")],
            ProtocolError,
            "redirected",
            "redirects POST .*/v1/responses to http://.*/elsewhere, which",
        ),
        ([answer(304)], ProtocolError, "redirected", "redirects"),
        ([send(b"220 mail ready\r\n\r\n")], ProtocolError, "invalid_http", "did not return valid HTTP"),
        ([send(CHUNKED_HEAD + chunk(b"{")), cut], NetworkError, "network_error", "broke"),
        ([cut], NetworkError, "network_error", "broke"),
        ([], NetworkError, "network_error", "closed it without a response"),
    ],
)
def test_an_invalid_answer_is_reported(
    script: list[Any], kind: type[OpenResponsesError], code: str | None, message: str
) -> None:
    async def main() -> None:
        async with asking(script, retries=0) as (client, server):
            with pytest.raises(kind, match=message) as caught:
                await client.create(REQUEST)
            assert code is None or caught.value.code == code
            assert len(server.asked) == 1  # a redirect is not followed

    run(main())


def test_a_failed_response_is_a_response() -> None:
    async def main() -> None:
        failed = {**streams.snapshot("failed", []), "error": {"code": "server_error", "message": "oh"}}
        async with asking([answer(200, failed)]) as (client, _):
            assert (await client.create(REQUEST)).status == "failed"

    run(main())


def test_two_lists_of_models_are_merged() -> None:
    async def main() -> None:
        both = {
            "data": [{"id": "a", "owned_by": "me"}, {"id": "b"}],
            "models": [{"slug": "a", "context_window": 9000}, {"slug": "c"}],
        }
        async with asking([answer(200, both)]) as (client, _):
            assert await client.models() == [
                {"slug": "a", "context_window": 9000, "id": "a", "owned_by": "me"},
                {"id": "b"},
            ]

    run(main())


def test_fetch_sends_requests_outside_the_protocol() -> None:
    async def main() -> None:
        scripts = [
            [answer(200, {"n_ctx": 4096})],
            [answer(200, {"ok": True})],
            [answer(404, {})],
        ]
        async with asking(*scripts) as (client, server):
            assert await client.fetch("/props") == {"n_ctx": 4096}
            assert await client.fetch("/api/show", {"model": "m"}) == {"ok": True}
            assert await client.fetch("/nothing") is None
        assert [(asked.method, asked.target) for asked in server.asked] == [
            ("GET", "/props"),
            ("POST", "/api/show"),
            ("GET", "/nothing"),
        ]
        assert server.asked[1].json == {"model": "m"}

    run(main())


def test_an_invalid_list_of_models_is_a_protocol_error() -> None:
    async def main() -> None:
        async with asking([answer(200, {"data": ["a"]})]) as (client, _):
            with pytest.raises(ProtocolError, match="array of objects"):
                await client.models()

    run(main())


@pytest.mark.parametrize(
    ("scripts", "waits"),
    [
        ([[answer(500)], [answer(503)]], [0.5, 1.0]),
        ([[answer(429, retry_after="3")]], [3.0]),
        ([[cut]], [0.5]),
        ([[answer(200, {"error": {"type": "overloaded_error"}})]], [0.5]),
    ],
)
def test_transient_failures_are_retried(scripts: list[Any], waits: list[float]) -> None:
    async def main() -> None:
        clock = Clock()
        async with asking(*scripts, [answer(200, RESPONSE)], clock=clock) as (client, server):
            assert (await client.create(REQUEST)).id == "resp_1"
            assert len(server.asked) == len(scripts) + 1
        assert clock.waits == waits

    run(main())


def test_create_is_not_retried_after_a_timeout() -> None:
    async def main() -> None:
        async with asking([stall], first_byte_timeout=QUICK) as (client, server):
            with pytest.raises(NetworkError, match=r"sent nothing for 0\.3 seconds") as caught:
                await client.create(REQUEST)
            assert caught.value.phase == "first_byte"
            assert len(server.asked) == 1
            await server.hung_up()

    run(main())


def test_retrieve_is_retried_after_a_timeout() -> None:
    async def main() -> None:
        async with asking([stall], [answer(200, RESPONSE)], first_byte_timeout=QUICK) as (client, _):
            assert (await client.retrieve("resp_1")).id == "resp_1"

    run(main())


def test_a_closed_client_cannot_be_used() -> None:
    async def main() -> None:
        async with asking() as (client, server):
            await client.aclose()
            with pytest.raises(RuntimeError, match="closed"):
                client.stream(REQUEST)
            with pytest.raises(RuntimeError, match="closed"):
                await client.create(REQUEST)
            await client.aclose()
        assert server.asked == []

    run(main())


@pytest.mark.parametrize("name", [name for name in BODIES if name != "responses"])
def test_a_response_in_another_api_format_is_reported_with_a_remedy(name: str) -> None:
    async def main() -> None:
        async with asking([answer(200, BODIES[name][0])]) as (client, _):
            with pytest.raises(ProtocolError, match="answered in another API format") as caught:
                await client.create(REQUEST)
            assert caught.value.code == "wrong_api_format"

    run(main())


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (
            [answer(200, b"<html><title>Sign in</title>", "text/html")],
            r"a web page \(text/html, titled “Sign in”\)",
        ),
        ([answer(200, b"OK", "text/plain")], r"text \(text/plain: “OK”\)"),
        ([answer(200, b"", "")], r"HTTP 200 and an empty body \(no content type\)"),
        ([answer(204)], "HTTP 204 and an empty body"),
        ([answer(200, {"status": "ok"})], "is invalid: data: expected a list of models; check the base URL"),
        ([answer(302, location="/login?a=b")], "redirects GET .*/v1/models to http://.*/login, which"),
    ],
)
def test_a_list_of_models_that_is_none_names_the_content_type_and_the_base_url(
    script: Script, words: str
) -> None:
    async def main() -> None:
        async with asking(script, retries=0) as (client, _):
            with pytest.raises(ProtocolError, match=words) as caught:
                await client.models()
            assert "GET http://" in caught.value.message
            assert "base URL" in caught.value.message

    run(main())
