"""The official suite's tests over a WebSocket, as our own (spec S10); `test_suite` has the list of all.

`Talk` judges every frame: the checker takes no `[DONE]` on a socket, and an error envelope stands alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.gateway.compliance_fields import faults_in
from tests.gateway.running import Json, Running
from tests.gateway.websocket_client import Talk, talking

pytestmark = pytest.mark.e2e

UNKNOWN = "resp_00000000000000000000000000000000"


@pytest.fixture
def talk(penstock: Running) -> Iterator[Talk]:
    with talking(penstock) as talk:
        yield talk


def passes(talk: Talk, input: Any, **fields: Any) -> Json:
    """One turn that the suite takes: valid events, and a response that is completed."""
    talk.ask("demo", input, **fields)
    events = talk.events()
    assert events[-1]["type"] == "response.completed", events[-1]
    assert faults_in(events) == []
    response: Json = events[-1]["response"]
    assert response["status"] == "completed"
    assert response["output"]
    return response


def user(text: str) -> Json:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


def test_websocket_response(talk: Talk) -> None:
    passes(talk, [user("Count from 1 to 5.")])


def test_websocket_sequential_responses(talk: Talk) -> None:
    first = passes(talk, "Say one.", store=False)
    second = passes(talk, "Say two.", store=False)
    assert first["id"] != second["id"]


def test_websocket_continuation(talk: Talk) -> None:
    first = passes(talk, "My name is Ada.", store=False)
    second = passes(talk, "What is my name?", store=False, previous_response_id=first["id"])
    assert second["previous_response_id"] == first["id"]


def test_websocket_reconnect_store_false_recovery(penstock: Running) -> None:
    with talking(penstock) as talk:
        id = passes(talk, "Remember this.", store=False)["id"]
    with talking(penstock) as talk:
        refused = talk.refused("demo", "What was it?", store=False, previous_response_id=id)
        assert refused["code"] == "previous_response_not_found"
        passes(talk, "Start again.", store=False)


def test_websocket_previous_response_not_found(talk: Talk) -> None:
    refused = talk.refused("demo", "hello", store=False, previous_response_id=UNKNOWN)
    assert refused["code"] == "previous_response_not_found"
    assert refused.keys() == {"code", "message", "type", "param"}


def test_websocket_failed_continuation_evicts_cache(talk: Talk) -> None:
    """An output for a call that is nowhere fails, and what it continued is forgotten."""
    id = passes(talk, "Say one.", store=False)["id"]
    output = {"type": "function_call_output", "call_id": "call_unknown", "output": "{}"}
    failed = talk.turn("demo", [output], store=False, previous_response_id=id)
    assert failed["type"] == "error"
    again = talk.refused("demo", "Go on.", store=False, previous_response_id=id)
    assert again["code"] == "previous_response_not_found"


def test_websocket_compact_new_chain(penstock: Running, talk: Talk) -> None:
    """The history has a text without annotations, as the suite sends it."""
    said = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "Hello Ada."}],
    }
    body = {"model": "demo", "input": [user("My name is Ada."), said]}
    compacted = penstock.ask(body, "/v1/responses/compact")
    assert compacted.status == 200
    output = compacted.json["output"]
    assert [item["type"] for item in output] == ["compaction"]
    passes(talk, [*output, user("What is my name?")], store=False)


def test_a_failure_is_an_envelope_alone_and_the_socket_goes_on(talk: Talk) -> None:
    """An envelope and `response.failed` for one failure would be read as two turns."""
    refused = talk.refused("nobody-is-called-this", "hello")
    assert refused["code"]
    passes(talk, "hello", store=False)
