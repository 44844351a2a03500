"""The tests of the official compliance suite, as our own (spec S10): the demo model passes all 17.

The suite checks shapes only. Here every answer is also checked by the stream checker and both schemas, and
the fields that the suite's validators require are asserted by name.
"""

from __future__ import annotations

import base64
import json
import socket
import struct
import zlib
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.protocol.response import Response
from penstock.protocol.wire import decode, encode
from tests.gateway.compliance_fields import REQUIRED, faults, faults_in
from tests.gateway.in_process import LocalGateway
from tests.gateway.running import RELEASES, Json, Reply, Running, judge_stream
from tests.gateway.websocket_client import Talk, talking
from tests.protocol.schema import complaints

OFFICIAL: dict[str, str] = {
    "basic-response": "test_basic_response",
    "assistant-phase": "test_assistant_phase",
    "response-output-phase-schema": "test_response_output_phase_schema",
    "streaming-response": "test_streaming_response",
    "websocket-response": "test_websocket_response",
    "websocket-sequential-responses": "test_websocket_sequential_responses",
    "websocket-continuation": "test_websocket_continuation",
    "websocket-reconnect-store-false-recovery": "test_websocket_reconnect_store_false_recovery",
    "websocket-previous-response-not-found": "test_websocket_previous_response_not_found",
    "websocket-failed-continuation-evicts-cache": "test_websocket_failed_continuation_evicts_cache",
    "websocket-compact-new-chain": "test_websocket_compact_new_chain",
    "system-prompt": "test_system_prompt",
    "tool-calling": "test_tool_calling",
    "image-input": "test_image_input",
    "multi-turn": "test_multi_turn",
    "compact-response": "test_compact_response",
    "compact-missing-model": "test_compact_missing_model",
}
"""The suite's own names, in its order, and the test of each."""


NEWEST = "2026-04-24"
"""The release that the suite is of; the one before has neither phases nor compactions."""


def png(width: int = 2, height: int = 2) -> str:
    """A small picture as a data URL."""

    def block(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = (b"\0" + b"\xff\0\0" * width) * height
    data = b"\x89PNG\r\n\x1a\n" + block(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    data += block(b"IDAT", zlib.compress(rows)) + block(b"IEND", b"")
    return "data:image/png;base64," + base64.b64encode(data).decode()


def message(role: str, content: Any, **fields: Any) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": content, **fields}


WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather in a city.",
    "parameters": {
        "type": "object",
        "properties": {"location": {"type": "string"}},
        "required": ["location"],
    },
}


REQUESTS: dict[str, dict[str, Any]] = {
    "basic-response": {"input": [message("user", "Say hello in exactly 3 words.")]},
    "assistant-phase": {
        "input": [
            message("user", "What is 6 times 7?"),
            message("assistant", "Let me work that out.", phase="commentary"),
            message("assistant", "It is 42.", phase="final_answer"),
            message("user", "And plus one?"),
        ]
    },
    "system-prompt": {
        "input": [message("system", "You speak like a pirate."), message("user", "Say hello.")],
    },
    "image-input": {
        "input": [
            message(
                "user",
                [
                    {"type": "input_text", "text": "What is in this picture?"},
                    {"type": "input_image", "image_url": png()},
                ],
            )
        ]
    },
    "multi-turn": {
        "input": [
            message("user", "My name is Ada."),
            message("assistant", "Hello Ada, nice to meet you."),
            message("user", "What is my name?"),
        ]
    },
}


def test_every_test_of_the_suite_is_here() -> None:
    assert len(OFFICIAL) == 17
    assert [name for name in OFFICIAL.values() if not callable(globals().get(name))] == []


def passes(local: LocalGateway, name: str, stream: bool) -> Reply:
    """Most of the suite's tests require a valid, completed response with output."""
    reply = local.ask({"model": "demo", "stream": stream, **REQUESTS[name]})
    assert reply.status == 200
    assert reply.last["status"] == "completed"
    assert reply.last["output"]
    assert faults(reply.last) == []
    assert faults_in(reply.events) == []
    return reply


both = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
"""The suite does not stream; here each request is made both ways."""


@both
def test_basic_response(local: LocalGateway, stream: bool) -> None:
    passes(local, "basic-response", stream)


@both
def test_assistant_phase(local: LocalGateway, stream: bool) -> None:
    passes(local, "assistant-phase", stream)


@pytest.mark.skipif(not RELEASES, reason="needs the published OpenAPI files")
def test_response_output_phase_schema(local: LocalGateway) -> None:
    """A message with a phase is valid, and goes through our own types as it is; a null phase is neither."""
    answered = local.ask({"model": "demo", **REQUESTS["basic-response"]}).last
    for phase in ("commentary", "final_answer"):
        phased = {**answered, "output": [{**answered["output"][0], "phase": phase}]}
        assert complaints(NEWEST, "ResponseResource", phased) == []
        assert json.loads(encode(decode(json.dumps(phased).encode(), Response))) == phased
    null = {**answered, "output": [{**answered["output"][0], "phase": None}]}
    assert complaints(NEWEST, "ResponseResource", null) != []
    assert faults(null) == ["phase is null"]


def test_streaming_response(local: LocalGateway) -> None:
    reply = local.stream("demo", "Count from 1 to 5.")
    assert reply.headers["content-type"] == "text/event-stream"
    assert reply.types[:2] == ["response.created", "response.in_progress"]
    assert reply.types[-1] == "response.completed"
    deltas = [event["delta"] for event in reply.events if event["type"] == "response.output_text.delta"]
    assert len(deltas) > 3
    assert "".join(deltas) == reply.text
    for number in "12345":
        assert number in reply.text
    assert faults_in(reply.events) == []


@both
def test_system_prompt(local: LocalGateway, stream: bool) -> None:
    passes(local, "system-prompt", stream)


@both
def test_tool_calling(local: LocalGateway, stream: bool) -> None:
    """The tool is declared without `strict`, and returned with all of its fields."""
    assert "strict" not in WEATHER
    prompt = "What's the weather like in San Francisco?"
    reply = local.ask({"model": "demo", "input": prompt, "tools": [WEATHER], "stream": stream})
    [call] = [item for item in reply.last["output"] if item["type"] == "function_call"]
    assert call["name"] == "get_weather"
    assert json.loads(call["arguments"]).keys() == {"location"}
    [tool] = reply.last["tools"]
    assert (tool["name"], "strict" in tool) == ("get_weather", True)
    assert faults(reply.last) == []
    assert faults_in(reply.events) == []


@both
def test_image_input(local: LocalGateway, stream: bool) -> None:
    passes(local, "image-input", stream)


@both
def test_multi_turn(local: LocalGateway, stream: bool) -> None:
    passes(local, "multi-turn", stream)


def test_compact_response(local: LocalGateway) -> None:
    body = {"model": "demo", "input": REQUESTS["multi-turn"]["input"], "prompt_cache_key": "suite"}
    reply = local.ask(body, "/v1/responses/compact")
    assert reply.status == 200
    assert reply.json["object"] == "response.compaction"
    [item] = [item for item in reply.json["output"] if item["type"] == "compaction"]
    assert item["id"].startswith("cmp_")
    assert item["encrypted_content"]
    assert {"id", "object", "output", "created_at", "usage"} <= reply.json.keys()
    assert all(name in reply.json["usage"] for name in ("input_tokens_details", "output_tokens_details"))
    assert type(reply.json["created_at"]) is int
    if RELEASES:
        assert complaints(NEWEST, "CompactResource", reply.json) == []


def test_compact_missing_model(local: LocalGateway) -> None:
    refused = local.ask({"input": "hello"}, "/v1/responses/compact")
    assert refused.status in (400, 422)
    assert refused.error["param"] == "model"


# Details that fail tests of the suite when they are wrong


def chunks_of(penstock: Running, body: Json) -> Iterator[bytes]:
    """An answer write by write: each is one chunk of its transfer encoding."""
    data = json.dumps(body).encode()
    length, request = f"content-length: {len(data)}", "POST /v1/responses HTTP/1.1"
    head = "\r\n".join([request, "host: localhost", length, "connection: close"])
    with socket.create_connection((penstock.address.hostname, penstock.address.port), timeout=30) as client:
        client.sendall(f"{head}\r\n\r\n".encode() + data)
        answer = b"".join(iter(lambda: client.recv(65536), b""))
    rest = answer.partition(b"\r\n\r\n")[2]
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        if data := rest[: int(size, 16)]:
            yield data
        rest = rest[int(size, 16) + 2 :]


def test_a_frame_is_plain_lines_in_one_write(penstock: Running) -> None:
    """The suite's reader forgets at the end of each chunk what it has not understood, and knows no CRLF."""
    chunks = list(chunks_of(penstock, {"model": "demo", "input": "Count from 1 to 5.", "stream": True}))
    assert len(chunks) > 3
    for chunk in chunks:
        assert chunk.endswith(b"\n\n")
        assert b"\r" not in chunk
        for frame in chunk.removesuffix(b"\n\n").split(b"\n\n"):
            event, *data = frame.split(b"\n")
            if frame == b"data: [DONE]":
                continue
            assert event.startswith(b"event: ")
            assert len(data) == 1
            assert json.loads(data[0].removeprefix(b"data: "))["type"] == event.decode()[7:]
    assert judge_stream(b"".join(chunks))


def test_reasoning_has_the_name_of_the_specification(local: LocalGateway) -> None:
    """`response.reasoning_text.*` costs seven tests of the suite when the model thinks aloud."""
    reply = local.stream("demo", "think about it", reasoning={"effort": "low"})
    assert "response.reasoning.delta" in reply.types
    assert faults_in(reply.events) == []
    assert [item["type"] for item in reply.last["output"]] == ["reasoning", "message"]


def test_every_snapshot_of_a_stream_is_whole(local: LocalGateway) -> None:
    """Also the first ones: a minimal `response.created` costs seven tests of the suite."""
    reply = local.stream("demo", "Count from 1 to 5.", tools=[WEATHER])
    snapshots = [event["response"] for event in reply.events if "response" in event]
    assert [each["status"] for each in snapshots] == ["in_progress", "in_progress", "completed"]
    assert [faults(each) for each in snapshots] == [[], [], []]


TRAPS: dict[str, Json] = {
    "completed_at": {"completed_at": None},
    "tool_choice": {"tool_choice": None},
    "text": {"text": None},
    "truncation": {"truncation": None},
    "temperature": {"temperature": None},
    "top_p": {"top_p": None},
    "service_tier": {"service_tier": None},
    "flat usage": {"usage": {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}},
    "raw tools": {"tools": [WEATHER]},
    "encrypted_content": {"output": [{"type": "reasoning", "encrypted_content": None}]},
    "logprobs": {"output": [{"type": "output_text", "annotations": [], "logprobs": None}]},
    "annotations": {"output": [{"type": "output_text", "logprobs": []}]},
}
"""Faults that the suite detects, each of them in one field."""


@pytest.mark.parametrize("name", TRAPS)
def test_what_the_suite_would_not_take_is_seen_here(local: LocalGateway, name: str) -> None:
    """The checks themselves: every fault that is put into a valid answer is found."""
    answered = local.ask({"model": "demo", **REQUESTS["basic-response"]}).last
    assert faults(answered) == []
    assert faults({**answered, **TRAPS[name]}) != []


def test_every_field_is_there_though_it_may_be_null(local: LocalGateway) -> None:
    answered = local.ask({"model": "demo", **REQUESTS["basic-response"]}).last
    assert set(REQUIRED) <= answered.keys()
    assert len(REQUIRED) == 31
    without = {name: value for name, value in answered.items() if name != "safety_identifier"}
    assert faults(without) == ["safety_identifier is missing"]


UNKNOWN = "resp_00000000000000000000000000000000"


@pytest.fixture
def talk(penstock: Running) -> Iterator[Talk]:
    with talking(penstock) as talk:
        yield talk


def passes_on_websocket(talk: Talk, input: Any, **fields: Any) -> Json:
    """One turn that the suite accepts: valid events, and a completed response."""
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


@pytest.mark.e2e
def test_websocket_response(talk: Talk) -> None:
    passes_on_websocket(talk, [user("Count from 1 to 5.")])


@pytest.mark.e2e
def test_websocket_sequential_responses(talk: Talk) -> None:
    first = passes_on_websocket(talk, "Say one.", store=False)
    second = passes_on_websocket(talk, "Say two.", store=False)
    assert first["id"] != second["id"]


@pytest.mark.e2e
def test_websocket_continuation(talk: Talk) -> None:
    first = passes_on_websocket(talk, "My name is Ada.", store=False)
    second = passes_on_websocket(talk, "What is my name?", store=False, previous_response_id=first["id"])
    assert second["previous_response_id"] == first["id"]


@pytest.mark.e2e
def test_websocket_reconnect_store_false_recovery(penstock: Running) -> None:
    with talking(penstock) as talk:
        id = passes_on_websocket(talk, "Remember this.", store=False)["id"]
    with talking(penstock) as talk:
        refused = talk.refused("demo", "What was it?", store=False, previous_response_id=id)
        assert refused["code"] == "previous_response_not_found"
        passes_on_websocket(talk, "Start again.", store=False)


@pytest.mark.e2e
def test_websocket_previous_response_not_found(talk: Talk) -> None:
    refused = talk.refused("demo", "hello", store=False, previous_response_id=UNKNOWN)
    assert refused["code"] == "previous_response_not_found"
    assert refused.keys() == {"code", "message", "type", "param"}


@pytest.mark.e2e
def test_websocket_failed_continuation_evicts_cache(talk: Talk) -> None:
    """An output without its call fails, and the response that it continued is evicted."""
    id = passes_on_websocket(talk, "Say one.", store=False)["id"]
    output = {"type": "function_call_output", "call_id": "call_unknown", "output": "{}"}
    failed = talk.turn("demo", [output], store=False, previous_response_id=id)
    assert failed["type"] == "error"
    again = talk.refused("demo", "Go on.", store=False, previous_response_id=id)
    assert again["code"] == "previous_response_not_found"


@pytest.mark.e2e
def test_websocket_compact_new_chain(penstock: Running, talk: Talk) -> None:
    """The history has a text without annotations, as the suite sends it."""
    reply = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "Hello Ada."}],
    }
    body = {"model": "demo", "input": [user("My name is Ada."), reply]}
    compacted = penstock.ask(body, "/v1/responses/compact")
    assert compacted.status == 200
    output = compacted.json["output"]
    assert [item["type"] for item in output] == ["compaction"]
    passes_on_websocket(talk, [*output, user("What is my name?")], store=False)


@pytest.mark.e2e
def test_a_failure_is_an_envelope_alone_and_the_socket_goes_on(talk: Talk) -> None:
    """An envelope and `response.failed` for one failure would be read as two turns."""
    refused = talk.refused("nobody-is-called-this", "hello")
    assert refused["code"]
    passes_on_websocket(talk, "hello", store=False)
