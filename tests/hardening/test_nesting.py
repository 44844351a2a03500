"""JSON that is nested a hundred thousand levels deep, or so deep that it can be read, but not written."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.dialects.chat_streams import chunk
from tests.gateway.raw_sockets import connect, frame, upgrade
from tests.hardening.attacked import MIB, Attacked, error_of, last_event, sends, sse

pytestmark = pytest.mark.hardening

DEPTHS = (250, 300, 960, *range(968, 988), 1000, 100_000)
"""Below our limit, above it, around the limit of Python, and far above both."""

TOOL = '"tools": [{{"type": "function", "name": "f", "parameters": {}}}]}}'
FORMAT = '"text": {{"format": {{"type": "json_schema", "name": "n", "schema": {}}}}}}}'
PLACES: dict[str, tuple[str, str]] = {
    "the request": ("/v1/responses", "{}"),
    "input": ("/v1/responses", '{{"model": "harmless", "input": {}}}'),
    "an item": ("/v1/responses", '{{"model": "harmless", "input": [{{"type": "x", "y": {}}}]}}'),
    "a schema": (
        "/v1/responses",
        '{{"model": "harmless", "input": "", ' + TOOL,
    ),
    "metadata": ("/v1/responses", '{{"model": "harmless", "input": "x", "metadata": {{"a": {}}}}}'),
    "a format": (
        "/v1/responses",
        '{{"model": "harmless", "input": "", ' + FORMAT,
    ),
    "another field": ("/v1/responses", '{{"model": "harmless", "input": "x", "z": {}}}'),
    "a compaction": ("/v1/responses/compact", '{{"model": "harmless", "input": [{{"type": "x", "y": {}}}]}}'),
    "a token count": ("/v1/responses/input_tokens", '{{"model": "harmless", "input": {}}}'),
    "a conversation": ("/v1/conversations", '{{"items": [{{"type": "x", "y": {}}}]}}'),
    "metadata of a conversation": ("/v1/conversations", '{{"metadata": {{"a": {}}}}}'),
    "a file to check": ("/inspector/api/check", "{}"),
    "an event to check": ("/inspector/api/check", "data: {}\n\n"),
    "a file to translate": ("/inspector/api/translate", "data: {}\n\n"),
    "a request for parts": ("/v1/parts", '{{"method": "respond", "params": {{"messages": {}}}}}'),
}


def nested(depth: int) -> str:
    return '{"a":' * depth + "1" + "}" * depth


@pytest.mark.parametrize(("path", "template"), PLACES.values(), ids=PLACES)
def test_nesting_in_a_request_is_no_internal_error(gateway: Attacked, path: str, template: str) -> None:
    memory = gateway.memory()
    for depth in DEPTHS:
        status, body = gateway.ask(template.format(nested(depth)).encode(), path)
        assert status in (200, 400), (depth, body)
        if status == 200 and path == "/v1/responses":
            id = json.loads(body)["id"]
            for kept in (f"/v1/responses/{id}", f"/v1/responses/{id}/input_items"):
                assert gateway.ask(b"", kept, method="GET")[0] == 200
            again = {"model": "harmless", "input": "x", "previous_response_id": id}
            assert gateway.ask(json.dumps(again).encode())[0] == 200
        if status == 200 and path == "/v1/conversations":
            again = {"model": "harmless", "input": "x", "conversation": json.loads(body)["id"]}
            assert gateway.ask(json.dumps(again).encode())[0] == 200
        if status == 400:
            assert error_of(body)["message"]
        if path.startswith("/v1/") and depth > 256:
            assert status == 400
    assert memory.peak() < 100 * MIB
    assert gateway.is_unharmed()


@pytest.mark.parametrize("model", ["harmless", "over-anthropic", "over-responses"])
def test_arguments_of_a_call_are_text_however_deep_they_are(gateway: Attacked, model: str) -> None:
    """The vendor may want them as an object, which they can still not be."""
    gateway.upstream.play(model, *gateway.upstream.scripts_of("harmless"))
    for depth in (960, 975, 980, 100_000):
        call = {"type": "function_call", "name": "f", "call_id": "c", "arguments": nested(depth)}
        output = {"type": "function_call_output", "call_id": "c", "output": nested(depth)}
        status, body = gateway.ask(json.dumps({"model": model, "input": [call, output]}).encode())
        assert status in (200, 400, 502), body
        assert b"internal_error" not in body
    assert gateway.is_unharmed()


def test_nesting_in_a_websocket_message_is_an_error_of_that_message(gateway: Attacked) -> None:
    client = connect(gateway.running, upgrade())
    client.recv(65536)
    for depth in (300, 975, 100_000):
        text = f'{{"type": "response.create", "model": "harmless", "input": {nested(depth)}}}'
        client.sendall(frame(text.encode()))
        data = client.recv(65536)
        assert b'"invalid_request"' in data
        assert b"nested" in data
    assert gateway.is_unharmed()


UPSTREAM = {
    "a chunk": "{}",
    "a text": '{{"choices": [{{"index": 0, "delta": {{"content": {}}}}}]}}',
    "an unknown field": '{{"x": {}, "choices": [{{"index": 0, "delta": {{"content": "b"}}}}]}}',
    "arguments": '{{"choices": [{{"index": 0, "delta": {{"tool_calls": [{{"index": 0, "id": "c", "function":'
    ' {{"name": "f", "arguments": {}}}}}]}}}}]}}',
    "an error": '{{"error": {}}}',
    "usage": '{{"choices": [], "usage": {}}}',
}


@pytest.mark.parametrize("template", UPSTREAM.values(), ids=UPSTREAM)
def test_nesting_in_an_upstreams_answer_ends_only_its_turn(gateway: Attacked, template: str) -> None:
    for depth in DEPTHS:
        model = f"deep-{depth}"
        data = sse(chunk({"content": "a"}), template.format(nested(depth)).encode(), chunk(finish="stop"))
        gateway.upstream.play(model, sends(lambda data=data: iter([data, b"data: [DONE]\n\n"])))  # type: ignore[misc]
        status, body = gateway.turn(model)
        assert status == 200
        end = last_event(body)
        assert end["type"] in ("response.completed", "response.failed")
        if end["type"] == "response.failed":
            assert end["response"]["error"]["code"] in ("upstream_invalid", "server_error")
        stored: Any = gateway.ask(b"", f"/v1/responses/{end['response']['id']}", method="GET")
        assert stored[0] == 200
    assert gateway.is_unharmed()
