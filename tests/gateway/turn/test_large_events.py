"""A server-sent event of 20 MB is passed on, or the turn fails with a code; the gateway keeps running."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.client.server import Step, chunk, send
from tests.dialects.chat_streams import chunk as chat_chunk
from tests.gateway.running import Running
from tests.gateway.upstream import LAST_CHUNK, SSE_HEAD, ScriptedUpstream, frames

pytestmark = pytest.mark.e2e

SIZE = 20 * 1024 * 1024
LONG = "x" * SIZE
READ = 64 * 1024
FINISH = chat_chunk(finish="stop")


def calling(arguments: str) -> dict[str, Any]:
    function = {"name": "f", "arguments": arguments}
    return chat_chunk(
        {"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": function}]}
    )


def saying(*deltas: dict[str, Any]) -> bytes:
    return frames(*map(chat_chunk, deltas), FINISH)


EVENTS: dict[str, tuple[Callable[[], bytes], str]] = {
    "text": (lambda: saying({"content": LONG}), ""),
    "reasoning": (lambda: saying({"reasoning_content": LONG}, {"content": "y"}), ""),
    "arguments": (lambda: frames(calling(json.dumps({"a": LONG})), FINISH), ""),
    "arguments many times": (lambda: frames(calling("{}" * (SIZE // 2)), FINISH), ""),
    "arguments of escapes": (lambda: frames(calling('{"a":"' + "\\n" * (SIZE // 2) + '"}'), FINISH), ""),
    "arguments that are not JSON": (
        lambda: frames(calling("{" * SIZE), FINISH),
        "bridge.stream.incomplete_tool_call",
    ),
    "the name of an event": (lambda: f"event: {LONG}\n".encode() + saying({"content": "y"}), ""),
    "a comment": (lambda: f": {LONG}\n\n".encode() + saying({"content": "y"}), ""),
    "a finish reason": (lambda: frames(chat_chunk({"content": "y"}), chat_chunk(finish=LONG)), ""),
    "no JSON": (lambda: f"data: {LONG}\n\n".encode(), "upstream_invalid"),
    "an error": (lambda: frames({"error": {"message": LONG}}), "server_error"),
}
"""What makes the stream, because all of them together are large, and the code of the failure if it is one."""


def in_reads(data: bytes) -> list[Step]:
    pieces = [data[start : start + READ] for start in range(0, len(data), READ)]
    return [send(SSE_HEAD), *(send(chunk(piece)) for piece in pieces), send(LAST_CHUNK)]


def ask(penstock: Running, model: str) -> tuple[int, dict[str, Any]]:
    connection = penstock.connect()  # it waits for 30 seconds at most
    try:
        body = json.dumps({"model": model, "input": "Hi", "store": False})
        connection.request("POST", "/v1/responses", body, {"content-type": "application/json"})
        answer: http.client.HTTPResponse = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


@pytest.mark.parametrize("kind", EVENTS)
def test_an_event_of_20_mb_passes_or_fails_by_name(
    penstock: Running, upstream: ScriptedUpstream, kind: str
) -> None:
    make, code = EVENTS[kind]
    upstream.play("large", in_reads(make()))
    status, answer = ask(penstock, "large")
    if code:
        assert status >= 500
        assert answer["error"]["code"] == code
        assert len(answer["error"]["message"]) < 10_000
    else:
        assert (status, answer["status"]) == (200, "completed")
